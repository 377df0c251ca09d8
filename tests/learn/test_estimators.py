"""The estimators against searches by hand, enumeration, and their invariances."""

import warnings

import numpy as np
import pandas as pd
import pytest
from learn_oracles import ESTIMATORS, all_dags, fitted, make, related_arrays, related_tasks
from naive import log_marginal_likelihood, random_dag

import mtgbn
from mtgbn.errors import ConvergenceWarning, ImproperPosteriorError, InputError
from mtgbn.graphs import cpdag, is_dag, skeleton
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.joint import Iteration, JointState
from mtgbn.learn.ordering import Ordering, _sums
from mtgbn.model.edge_prior import edge_counts
from mtgbn.model.edge_prior_setting import edge_prior_of
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.paper import PaperMTGBN
from mtgbn.paper.em import EMState
from mtgbn.search import Knowledge
from mtgbn.search.local_scores import gather_scores
from mtgbn.search.methods import SearchSettings, search_graph
from mtgbn.search.mmpc import find_candidates
from mtgbn.tasks import Tasks

# Every estimator, MTGBN with both kinds of inference, with settings under which graphs change during a
# fit to the data LIVELY. A posterior estimate from few rounds comes with warnings.
LIVELY = (30, 4, 4, 16)
KINDS = {
    "map": (MTGBN, {"nu0": 14.0, "edge_prior": (0.4, 3.0), "n_draws": 20, "tol": 0.1}),
    "posterior": (MTGBN, {"inference": "posterior", "n_rounds": 40}),
    "paper": (PaperMTGBN, {"nu0": 14.0, "edge_prior": (0.4, 3.0), "n_draws": 20, "tol": 0.1}),
    "SIG": (SIG, {}),
    "AVG": (AVG, {}),
}
JOINT = ["map", "posterior", "paper"]

few_rounds = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def lively_fit(kind, **changes):
    """A fit that all tests share."""
    cls, settings = KINDS[kind]
    return fitted(cls, LIVELY, **{**settings, "random_state": 5, **changes})


def fit(kind, tasks, **changes):
    cls, settings = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(cls, **{**settings, "random_state": 5, **changes}).fit(tasks)


def assert_same(one, other):
    """Down to the last bit: every fitted attribute that is an array or a plain value."""
    names = {name for name in vars(one) if name.endswith("_")}
    assert names == {name for name in vars(other) if name.endswith("_")}
    for name in sorted(names - {"draws_", "tasks_", "edge_diagnostics_", "relatedness_"}):
        np.testing.assert_equal(getattr(one, name), getattr(other, name), err_msg=name)
    if hasattr(one, "draws_"):
        np.testing.assert_array_equal(one.draws_.sigma_h, other.draws_.sigma_h)
        np.testing.assert_equal(one.draws_.statistics, other.draws_.statistics)
    for name in ("edge_diagnostics_", "relatedness_"):
        if hasattr(one, name):
            np.testing.assert_equal(getattr(one, name)._asdict(), getattr(other, name)._asdict())


# What a fit leaves.


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_learned_attributes(cls):
    tasks = Tasks.from_arrays(related_arrays(1, m=4), ["a", "b", "c"], list("stuv"))
    estimator = make(cls).fit(tasks)
    assert estimator.task_names_ == tuple("stuv")
    assert estimator.variables_ == tuple(estimator.feature_names_in_) == ("a", "b", "c")
    assert estimator.graphs_.shape == (4, 3, 3)
    assert estimator.graphs_.dtype == bool
    assert all(is_dag(graph) for graph in estimator.graphs_)
    for graph, equivalent in zip(estimator.graphs_, estimator.cpdags_, strict=True):
        np.testing.assert_array_equal(cpdag(graph), equivalent)
    if cls is MTGBN:
        kinds = estimator.edge_prior_
        assert isinstance(kinds, PairKinds)
        assert kinds.absent + kinds.common + kinds.varying == pytest.approx(1)
        assert 0 < kinds.rare < kinds.usual < 1
    else:
        expected = edge_prior_of(None, estimator.variables_).prior
        assert estimator.edge_prior_ == pytest.approx(expected)
    np.testing.assert_array_equal(estimator.coefficients_ != 0, estimator.graphs_)
    assert estimator.residual_variances_.shape == (4, 3)
    # Residual variances of a graph's own regressions, by the covariances.
    variances = np.einsum("tii->ti", estimator.covariances_)
    assert (variances >= estimator.residual_variances_ - 1e-9).all()
    roots = ~estimator.graphs_.any(axis=1)
    np.testing.assert_allclose(variances[roots], estimator.residual_variances_[roots])
    if cls in (SIG, AVG):
        for name in ("sigma_h_", "membership_", "relatedness_", "edge_probabilities_"):
            assert not hasattr(estimator, name)


@pytest.mark.parametrize("structure_prior", ["restricted", "scale_free", "decomposable"])
def test_learned_attributes_of_the_papers_method(structure_prior):
    estimator = fitted(PaperMTGBN, (1, 4), structure_prior=structure_prior)
    assert estimator.nu0_ == 52.0  # p + 49
    assert estimator.n_iter_ == len(estimator.history_)
    assert all(isinstance(iteration, Iteration) for iteration in estimator.history_)
    assert all(iteration.gain >= 0 for iteration in estimator.history_)
    assert estimator.converged_
    assert estimator.stop_reason_
    assert estimator.warnings_ == ()
    np.testing.assert_array_equal(estimator.sigma_h_, estimator.draws_.mean)
    assert estimator.draws_.variables == estimator.variables_
    assert estimator.draws_.sigma_h.shape[1] >= 100
    assert not hasattr(estimator, "membership_")


@pytest.mark.parametrize("kind", ["map", "posterior"])
def test_learned_attributes_of_the_chains(kind):
    estimator = fitted(MTGBN, (1, 4), inference=kind, n_draws=60, n_rounds=40)
    assert estimator.converged_
    assert estimator.stop_reason_
    # Every round is kept as long as there are few: nu0 is the geometric mean over them.
    deltas = estimator.draws_.statistics["delta"]
    assert estimator.nu0_ == pytest.approx(np.exp(np.log(deltas).mean()) + 2, rel=1e-12)
    np.testing.assert_array_equal(estimator.sigma_h_, estimator.draws_.mean)
    assert estimator.draws_.sampler == "joint"
    assert estimator.membership_.shape == (4,)
    assert ((estimator.membership_ >= 0) & (estimator.membership_ <= 1)).all()
    assert estimator.relatedness_.task_names == estimator.tasks_.names
    assert estimator.relatedness_.delta == pytest.approx(estimator.nu0_ - 2)
    np.testing.assert_array_equal(estimator.relatedness_.membership, estimator.membership_)
    assert sorted(estimator.order_) == sorted(estimator.variables_)
    assert np.isnan(estimator.agreement_) or 0 <= estimator.agreement_ <= 1
    if kind == "map":
        assert estimator.n_iter_ == len(estimator.history_)
        assert all(isinstance(iteration, Iteration) for iteration in estimator.history_)
        for name in ("edge_probabilities_", "adjacency_probabilities_", "edge_diagnostics_"):
            assert not hasattr(estimator, name)
        return
    assert estimator.draws_.sigma_h.shape == (2, 40, 3, 3)
    probabilities = estimator.edge_probabilities_
    assert probabilities.shape == (4, 3, 3)
    np.testing.assert_array_equal(
        estimator.adjacency_probabilities_, probabilities + probabilities.transpose(0, 2, 1)
    )
    assert (estimator.adjacency_probabilities_ <= 1 + 1e-12).all()
    # The graphs are those of the adjacencies above 1/2.
    for graph, either in zip(estimator.graphs_, estimator.adjacency_probabilities_, strict=True):
        np.testing.assert_array_equal(skeleton(graph), either > 0.5)
    assert estimator.edge_diagnostics_.rhat.shape == (4, 3, 3)
    assert (estimator.edge_diagnostics_.ess[~np.isnan(estimator.edge_diagnostics_.ess)] <= 80).all()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_representatives_are_chosen_for_all_tasks_by_one_rule(cls):
    dags = all_dags(4)
    classes = [cpdag(dag) for dag in dags]
    shares = []
    for seed in (3, 6):
        estimator = fitted(cls, (seed, 3, 4, 40, 0.6))
        places = [estimator.order_.index(name) for name in estimator.variables_]
        along = np.less.outer(places, places)
        reversible = estimator.cpdags_ & estimator.cpdags_.transpose(0, 2, 1)
        chosen = estimator.graphs_ & reversible
        shares.append(chosen.sum())
        expected = (chosen & along).sum() / chosen.sum() if chosen.any() else np.nan
        np.testing.assert_equal(estimator.agreement_, expected)
        # No member of a task's class has more edges along the order: brute force.
        for graph, members in zip(estimator.graphs_, estimator.cpdags_, strict=True):
            best = max(
                (dag & along).sum()
                for dag, its_class in zip(dags, classes, strict=True)
                if np.array_equal(its_class, members)
            )
            assert (graph & along).sum() == best
    assert sum(shares) > 0


def test_every_form_of_data_gives_the_same():
    arrays = related_arrays(2)
    expected = make(SIG).fit(Tasks.from_arrays(arrays)).graphs_
    frames = [pd.DataFrame(x, columns=["x0", "x1", "x2"]) for x in arrays]
    for data in (arrays, np.array(arrays), dict(zip("abc", arrays, strict=True)), frames):
        np.testing.assert_array_equal(make(SIG).fit(data).graphs_, expected)
    assert mtgbn.MTGBN is MTGBN


# Settings that cannot be used.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"edge_prior": 0}, "edge_prior must be a density r between 0 and 1"),
        ({"edge_prior": (0.2, -1)}, "edge_prior must be .*got"),
        ({"edge_prior": "common"}, "edge_prior must be .*got 'common'"),
        ({"edge_prior": np.full((2, 2), 0.5)}, r"edge_prior must be a \(3, 3\) matrix"),
        ({"n_restarts": -1}, "n_restarts must be a whole number of at least 0; got -1"),
        ({"tabu": 1.5}, "tabu must be a whole number of at least 0; got 1.5"),
        ({"knowledge": 3}, "knowledge must be a mtgbn.Knowledge or a dict; got 3"),
        ({"knowledge": {"tier": []}}, "'tier'"),
        (
            {"knowledge": {"required": [("x0", "y")]}},
            "required edge x0 -> y: there is no variable named 'y'",
        ),
        (
            {"knowledge": {"required": [("x0", "x1")], "forbidden": [("x0", "x1")]}},
            "the edge x0 -> x1 is both required and forbidden",
        ),
        (
            {"knowledge": {"required": [("x0", "x1"), ("x1", "x2"), ("x2", "x0")]}},
            "the required edges form the cycle x[012] -> x[012] -> x[012] -> x[012]",
        ),
        (
            {"knowledge": {"required": [("x0", "x1")], "tiers": [["x1"], ["x0"]]}},
            "the required edge x0 -> x1 goes against the tiers",
        ),
        ({"n_jobs": 0}, "n_jobs must be a number of jobs, -1 for all processors, or None; got 0"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"random_state": "today"}, "random_state must be"),
    ],
)
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_settings_that_make_no_sense(cls, settings, message):
    with pytest.raises(InputError, match=message):
        make(cls, **settings).fit(related_tasks(0))


@pytest.mark.parametrize(
    ("classes", "settings", "message"),
    [
        ((SIG, AVG, PaperMTGBN), {"search": "ges"}, "search must be 'boss' or 'mmhc'; got 'ges'"),
        ((SIG, AVG, PaperMTGBN), {"candidates": "some"}, "candidates must be .*got 'some'"),
        ((MTGBN, PaperMTGBN), {"nu0": 2.0}, "nu0 must be a number above p - 1 = 2; got 2.0"),
        ((MTGBN, PaperMTGBN), {"nu0": "many"}, "nu0 must be a number above p - 1.*; got 'many'"),
        ((MTGBN, PaperMTGBN), {"nu0": np.nan}, "nu0 must be a number"),
        ((MTGBN,), {"nu0": 1e9}, r"nu0 must be at most 1e\+08"),
        ((MTGBN, PaperMTGBN), {"n_draws": 0}, "n_draws must be a whole number of at least 8; got"),
        ((MTGBN, PaperMTGBN), {"n_draws": 20.0}, "n_draws must be a whole number"),
        ((MTGBN, PaperMTGBN), {"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ((MTGBN, PaperMTGBN), {"tol": -0.1}, "tol must be a number of at least 0; got -0.1"),
        ((MTGBN, PaperMTGBN), {"tol": np.nan}, "tol must be a number"),
        ((MTGBN, PaperMTGBN), {"tol": None}, "tol must be a number of at least 0; got None"),
        ((MTGBN, PaperMTGBN), {"tol": "small"}, "tol must be a number of at least 0; got 'small'"),
        ((MTGBN,), {"inference": "mean"}, "inference must be 'map' or 'posterior'; got 'mean'"),
        ((MTGBN,), {"n_rounds": 19}, "n_rounds must be a whole number of at least 20; got 19"),
        ((MTGBN,), {"n_rounds": 100.0}, "n_rounds must be a whole number"),
        ((MTGBN,), {"missing": "drop"}, "missing must be 'error' or 'em'; got 'drop'"),
        ((MTGBN,), {"shared_directions": 1}, "shared_directions must be True or False; got 1"),
        ((MTGBN, SIG, AVG), {"min_strength": 1.0}, "min_strength must be 'auto' or a partial"),
        ((MTGBN, SIG, AVG), {"min_strength": "Auto"}, "min_strength must be 'auto' or a partial"),
        ((PaperMTGBN,), {"structure_prior": "flat"}, "structure_prior must be .*got 'flat'"),
        ((PaperMTGBN,), {"structure_prior": "uniform"}, "structure_prior must be .*got 'uniform'"),
        (
            (PaperMTGBN,),
            {"structure_prior": "decomposable", "search": "boss"},
            "it needs search='mmhc' without a tabu list",
        ),
        *(
            ((PaperMTGBN,), {"edge_prior": setting}, f"edge_prior='{setting}' cannot be estimated")
            for setting in ("shared", "density")
        ),
    ],
)
def test_settings_of_some_estimators_that_make_no_sense(classes, settings, message):
    tasks = related_tasks(0)
    for cls in classes:
        estimator = make(cls, **settings)
        for call in (estimator.check, estimator.fit):
            with pytest.raises(InputError, match=message):
                call(tasks)


@pytest.mark.parametrize("cls", [SIG, AVG, PaperMTGBN])
def test_missing_values_are_for_mtgbn(cls):
    arrays = related_arrays(0)
    arrays[1][3, 2] = np.nan
    with pytest.raises(InputError, match=f"{cls.__name__} needs complete data, and task 'task1'"):
        make(cls).fit(Tasks.from_arrays(arrays, missing="em"))


def test_too_little_data_for_a_shared_matrix():
    few = [np.random.default_rng(t).standard_normal((2, 4)) for t in range(2)]
    with pytest.raises(ImproperPosteriorError, match="further degrees of freedom"):
        make(PaperMTGBN).fit(few)
    # With a proper prior of sigma_h, as little as this is no mistake, though hard to sample.
    estimator = fit("map", few)
    assert np.isfinite(estimator.predict_log_density(0, np.zeros((2, 4)))).all()


# Knowledge and candidates.

KNOWN = Knowledge(
    required=[("x3", "x0")], forbidden=[("x1", "x2"), ("x2", "x1")], tiers=[["x3"], ["x0", "x1"]]
)


@few_rounds
@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (MTGBN, {}),
        (MTGBN, {"inference": "posterior", "n_rounds": 40}),
        *((cls, {"search": search}) for cls in (SIG, AVG) for search in ("boss", "mmhc")),
        *(
            (PaperMTGBN, {"structure_prior": prior})
            for prior in ("restricted", "scale_free", "decomposable")
        ),
        (PaperMTGBN, {"search": "boss"}),
    ],
)
def test_knowledge_is_obeyed_in_every_graph(cls, settings):
    data = (3, 3, 5, 40, 0.9)
    tasks = related_tasks(*data)
    free = fitted(cls, data, **settings).graphs_
    estimator = make(cls, knowledge=KNOWN, **settings).fit(tasks)
    # Other members of an equivalence class may contradict the knowledge, so that none is chosen.
    assert estimator.order_ is None
    assert np.isnan(estimator.agreement_)
    known = estimator.graphs_
    assert all(is_dag(graph) for graph in known)
    assert known[:, 3, 0].all()
    for tail, head in ((1, 2), (2, 1), (0, 3), (1, 3)):
        assert not known[:, tail, head].any()
    assert (free != known).any()
    by_dict = make(cls, knowledge=KNOWN.to_dict(), **settings).fit(tasks).graphs_
    np.testing.assert_array_equal(by_dict, known)
    few_parents = make(cls, knowledge={"max_parents": 1}, **settings).fit(tasks).graphs_
    assert few_parents.any()
    assert (few_parents.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("cls", [PaperMTGBN, SIG])
@pytest.mark.parametrize("method", ["mmpc", "pooled"])
def test_candidates_restrict_the_graphs(cls, method):
    data = (4, 4, 5, 25, 0.4)
    tasks = related_tasks(*data)
    settings = {"edge_prior": 0.7, "search": "boss"}
    if cls is PaperMTGBN:
        settings |= {"nu0": 14.0, "tol": 1.0}
    everything = fitted(cls, data, **settings).graphs_
    restricted = fitted(cls, data, **settings, candidates=method).graphs_
    candidates = find_candidates(tasks.scatters, tasks.ns, method)
    assert not (restricted & ~candidates).any()
    assert restricted.any()
    assert (everything & ~candidates).any()


def test_candidates_of_pooled_tasks():
    tasks = related_tasks(4, m=4, p=5, rows=12, strength=0.4)
    graph = make(AVG, edge_prior=0.7, candidates="mmpc").fit(tasks).graphs_[0]
    scatter, n = tasks.pooled_scatter()
    assert not (graph & ~find_candidates(scatter[None], np.array([n]), "mmpc")[0]).any()


@pytest.mark.parametrize("cls", [PaperMTGBN, SIG, AVG])
def test_hill_climbing_has_candidates_of_its_own(cls):
    data = (5, 4, 5, 25, 0.6)
    settings = {} if cls is PaperMTGBN else {"min_strength": 0.0}
    climbed = fitted(cls, data, search="mmhc", **settings).graphs_
    explicit = fitted(
        cls, data, search="mmhc", candidates="mmpc", n_restarts=0, tabu=0, **settings
    ).graphs_
    np.testing.assert_array_equal(climbed, explicit)
    free = fitted(cls, data, search="mmhc", candidates="all", edge_prior=0.7, **settings).graphs_
    assert climbed.any()
    assert free.sum() > climbed.sum()


# The baselines, by hand.


def vague(scatter, n):
    return np.diag(np.diag(scatter)) / n


@pytest.mark.parametrize("min_strength", [0.0, "auto"])
@pytest.mark.parametrize("edge_prior", [None, 0.6, (0.2, 0.5)])
def test_a_single_task_is_searched_as_by_hand(edge_prior, min_strength):
    tasks = related_tasks(6, m=4, p=5, rows=25)
    settings = {"edge_prior": edge_prior, "min_strength": min_strength, "random_state": 9}
    estimator = make(SIG, **settings).fit(tasks)
    expected = np.log(2.0) * (min_strength == "auto")
    np.testing.assert_allclose(estimator.min_strength_.costs(tasks.ns), expected)
    cost, found = expected, estimator.cpdags_
    r = 1 / 4 if edge_prior is None else np.ravel(edge_prior)[0]
    (_, seed) = np.random.SeedSequence(9, spawn_key=(0,)).spawn(2)
    order = Ordering.of(tasks).variable_order
    for scatter, n, members in zip(tasks.scatters, tasks.ns, found, strict=True):
        sorted_scatter = scatter[np.ix_(order, order)]
        scores = gather_scores(
            sorted_scatter, n, vague(sorted_scatter, n), 7.0, np.log(r / (1 - r)) - cost
        )
        by_hand = search_graph(scores, settings=SearchSettings("boss", 10, 10), random_state=seed)
        np.testing.assert_array_equal(members[np.ix_(order, order)], cpdag(by_hand.adjacency))


@pytest.mark.parametrize("seed", range(3))
def test_a_single_task_gets_the_best_of_all_graphs(seed):
    tasks = related_tasks(seed, m=2, p=4, rows=25)
    found = make(SIG, edge_prior=0.3, min_strength=0).fit(tasks).graphs_
    for scatter, n, graph in zip(tasks.scatters, tasks.ns, found, strict=True):

        def score(dag, scatter=scatter, n=n):
            likelihood = log_marginal_likelihood(scatter, n, dag, vague(scatter, n), 6.0)
            return likelihood + dag.sum() * np.log(0.3 / 0.7)

        assert score(graph) >= max(score(dag) for dag in all_dags(4)) - 1e-8


def test_pooled_tasks_are_a_single_task_of_all_data():
    tasks = related_tasks(7, m=4, p=5, rows=25)
    pooled = make(AVG, min_strength=0.1).fit(tasks)
    all_data = Tasks([tasks.scatters.sum(axis=0)], [tasks.ns.sum()])
    single = make(SIG, min_strength=0.1).fit(all_data)
    for name in ("graphs_", "cpdags_", "covariances_", "coefficients_", "residual_variances_"):
        values = getattr(pooled, name)
        np.testing.assert_array_equal(values, np.broadcast_to(getattr(single, name), values.shape))
    assert pooled.graphs_.any()


def test_a_single_task_does_not_see_the_others():
    tasks = related_tasks(8, m=3, p=4)
    all_of_them = make(SIG).fit(tasks)
    for t in range(3):
        one = make(SIG).fit(tasks[t])
        np.testing.assert_array_equal(cpdag(one.graphs_[0]), all_of_them.cpdags_[t])
        np.testing.assert_allclose(one.covariances_[0], all_of_them.covariances_[t], rtol=1e-9)


# The same data give the same result.


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_everything_whatever_the_number_of_jobs(kind):
    one = lively_fit(kind)
    if kind in ("map", "paper"):
        assert any(iteration.n_changed for iteration in one.history_)
    assert_same(fit(kind, related_tasks(*LIVELY), n_jobs=2), one)
    cls, settings = KINDS[kind]
    estimator = make(cls, **{**settings, "random_state": np.random.SeedSequence(5)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(2):  # a fit leaves nothing behind that the next one would feel
            assert_same(estimator.fit(related_tasks(*LIVELY)), one)
    assert one.random_state_ == 5


@pytest.mark.parametrize("kind", JOINT)
def test_another_seed_gives_other_draws(kind):
    other = lively_fit(kind, random_state=6)
    assert (lively_fit(kind).sigma_h_ != other.sigma_h_).any()
    unseeded = fit(kind, related_tasks(*LIVELY), random_state=None)
    assert (unseeded.sigma_h_ != other.sigma_h_).any()
    assert_same(fit(kind, related_tasks(*LIVELY), random_state=unseeded.random_state_), unseeded)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_tasks_and_variables_does_not_matter(kind):
    tasks = related_tasks(*LIVELY)
    task_order, order = [2, 0, 3, 1], [1, 3, 0, 2]
    moved = tasks[task_order].select_variables([tasks.variables[j] for j in order])
    one, other = lively_fit(kind), fit(kind, moved)
    square = np.ix_(task_order, order, order)
    assert other.task_names_ == tuple(tasks.names[t] for t in task_order)
    # Which member of an equivalence class represents it is a matter of ties.
    np.testing.assert_array_equal(other.cpdags_, one.cpdags_[square])
    np.testing.assert_allclose(other.covariances_, one.covariances_[square], rtol=1e-8, atol=1e-12)
    np.testing.assert_equal(other.agreement_, one.agreement_)
    if kind not in JOINT:
        return
    np.testing.assert_allclose(other.sigma_h_, one.sigma_h_[np.ix_(order, order)], rtol=1e-8)
    assert other.nu0_ == pytest.approx(one.nu0_, rel=1e-10)
    assert [each.n_edges for each in other.history_] == [each.n_edges for each in one.history_]
    if kind == "paper":
        return
    np.testing.assert_allclose(other.membership_, one.membership_[task_order])
    np.testing.assert_allclose(
        other.relatedness_.leave_one_out, one.relatedness_.leave_one_out[task_order], rtol=1e-8
    )
    if kind == "posterior":
        np.testing.assert_allclose(
            other.edge_probabilities_, one.edge_probabilities_[square], atol=1e-12
        )
        np.testing.assert_allclose(
            other.edge_diagnostics_.rhat, one.edge_diagnostics_.rhat[square], rtol=1e-12
        )


@pytest.mark.parametrize("kind", JOINT)
def test_the_order_of_the_tasks_alone_leaves_the_graphs(kind):
    order = [3, 2, 1, 0]
    other = fit(kind, related_tasks(*LIVELY)[order])
    np.testing.assert_array_equal(other.graphs_, lively_fit(kind).graphs_[order])
    assert other.history_ == lively_fit(kind).history_


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_units_and_the_order_of_columns_do_not_matter(cls):
    arrays = related_arrays(9, m=4, p=4, rows=60, strength=0.8)
    one = fitted(cls, (9, 4, 4, 60, 0.8))
    # Sums over rows may differ in their last bits.
    order = [2, 0, 3, 1]
    other = make(cls).fit([x[:, order] for x in arrays])
    np.testing.assert_array_equal(other.cpdags_, one.cpdags_[:, order][:, :, order])
    if cls is PaperMTGBN:
        return  # the structure prior `restricted` depends on the units
    units = np.array([1e-4, 3.0, 1e5, 0.7])
    other = make(cls).fit([x * units + 5 for x in arrays])
    np.testing.assert_array_equal(one.graphs_, other.graphs_)
    if cls is MTGBN:
        # Chains enlarge rounding to their Monte Carlo error. That of delta is large with ten draws;
        # the mean covariance is known better.
        deltas = one.nu0_ - 3, other.nu0_ - 3
        ratio = other.sigma_h_ / deltas[1] / (one.sigma_h_ / deltas[0]) / np.outer(units, units)
        np.testing.assert_allclose(np.diag(ratio), 1, atol=0.15)


def test_the_scale_free_prior_does_not_depend_on_the_units():
    arrays = related_arrays(9, m=4, p=4, rows=60, strength=0.8)
    one = fitted(PaperMTGBN, (9, 4, 4, 60, 0.8), structure_prior="scale_free")
    units = np.array([1e-4, 3.0, 1e5, 0.7])
    other = make(PaperMTGBN, structure_prior="scale_free").fit([x * units for x in arrays])
    np.testing.assert_array_equal(one.graphs_, other.graphs_)


def test_sums_do_not_depend_on_the_order_of_their_elements():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 40)) * 10.0 ** rng.integers(-8, 8, (3, 40))
    for _ in range(20):
        np.testing.assert_array_equal(_sums(values[:, rng.permutation(40)]), _sums(values))


def test_the_canonical_order_is_that_of_the_data():
    tasks = related_tasks(*LIVELY)
    one = Ordering.of(tasks)
    assert sorted(one.task_order) == list(range(4))
    assert sorted(one.variable_order) == list(range(4))
    assert one.tasks.names == tuple(tasks.names[t] for t in one.task_order)
    np.testing.assert_array_equal(one.to_user(one.tasks.scatters, "tvv"), tasks.scatters)
    rng = np.random.default_rng(0)
    for _ in range(5):
        t, v = rng.permutation(4), rng.permutation(4)
        moved = tasks[t.tolist()].select_variables([tasks.variables[j] for j in v])
        other = Ordering.of(moved)
        assert other.tasks.names == one.tasks.names
        assert other.tasks.variables == one.tasks.variables
        np.testing.assert_array_equal(other.to_user(other.tasks.scatters, "tvv"), moved.scatters)


# Stopping.


@pytest.mark.parametrize("kind", ["map", "paper"])
def test_a_fit_that_does_not_converge_warns_with_numbers(kind):
    cls, settings = KINDS[kind]
    estimator = cls(**settings, random_state=3, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="max_iter = 1") as caught:
        estimator.fit(related_tasks(*LIVELY))
    (iteration,) = estimator.history_
    message = str(caught[0].message)
    assert f"{iteration.n_changed} of 4 graphs changed" in message
    assert f"{iteration.gain:.3g}" in message
    assert f"{iteration.gain_error:.2g}" in message
    assert "Raise max_iter" in message
    assert estimator.warnings_ == (message,)
    assert not estimator.converged_
    assert estimator.n_iter_ == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", JOINT)
def test_a_callback_watches_the_fit_and_can_stop_it(kind):
    fits = (lively_fit(kind, random_state=seed) for seed in (5, *range(20)))
    whole = next(fit for fit in fits if fit.n_iter_ > 2)  # one that would have gone on
    states = []
    cls, settings = KINDS[kind]
    estimator = make(cls, **{**settings, "random_state": whole.random_state})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_same(estimator.fit(related_tasks(*LIVELY), callback=states.append), whole)
    assert len(states) == whole.n_iter_
    assert [state.reason for state in states[:-1]] == [""] * (whole.n_iter_ - 1)
    assert states[-1].reason == whole.stop_reason_
    assert all(isinstance(each, EMState if kind == "paper" else JointState) for each in states)
    seen = []

    def stop(state):
        seen.append(state)
        return len(seen) == 2

    with pytest.warns(ConvergenceWarning) as caught:
        estimator.fit(related_tasks(*LIVELY), callback=stop)
    (message,) = (str(each.message) for each in caught if "to stop" in str(each.message))
    assert "max_iter" not in message
    assert estimator.n_iter_ == len(seen) == 2
    assert estimator.stop_reason_ == "the callback asked to stop"
    assert not estimator.converged_
    assert estimator.history_ == seen[-1].history == states[1].history


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("map", {"searching single tasks", "exploring", "searching graphs"}),
        ("posterior", {"searching single tasks", "exploring", "searching graphs"}),
        ("paper", {"searching single tasks", "drawing sigma_h", "searching graphs"}),
        ("SIG", {"searching single tasks"}),
        ("AVG", {"searching single tasks"}),
    ],
)
@few_rounds
def test_progress_is_reported(kind, expected):
    calls = []
    cls, settings = KINDS[kind]
    make(cls, **settings).fit(related_tasks(*LIVELY), progress=lambda *call: calls.append(call))
    assert {call[0] for call in calls} == expected
    assert all(0 < done <= total for _, done, total in calls)
    for what in expected:
        assert any(done == total for each, done, total in calls if each == what)
    if kind == "SIG":
        assert calls == [("searching single tasks", done, 4) for done in range(1, 5)]


@few_rounds  # the other one of two warnings, which `warns` hands on
def test_probabilities_from_too_few_rounds_warn_with_numbers(monkeypatch):
    monkeypatch.setattr("mtgbn.learn.joint_posterior._MOVES_PER_PAIR", 1)
    estimator = make(MTGBN, inference="posterior", n_rounds=20)
    with pytest.warns(ConvergenceWarning, match="of the adjacencies have an R-hat") as caught:
        estimator.fit(related_tasks(*LIVELY))
    messages = tuple(str(each.message) for each in caught)
    assert messages == estimator.warnings_
    rhat = estimator.edge_diagnostics_.rhat[:, *np.triu_indices(4, 1)]
    (of_edges,) = (message for message in messages if "adjacencies" in message)
    assert of_edges.startswith(f"only {np.mean(rhat <= 1.05):.0%} of")
    assert of_edges.endswith("Raise n_rounds")
    of_draws = [message for message in messages if "R-hat of the draws" in message]
    assert len(of_draws) == (estimator.diagnostics_["rhat"] > 1.2)
    assert all(f"reaches {estimator.diagnostics_['rhat']:.2f}" in message for message in of_draws)
    # Searches take draws from wherever the chains are: there is nothing to warn of.
    assert fitted(MTGBN, 0).warnings_ == ()


# Limits.


@pytest.mark.parametrize("kind", KINDS)
def test_one_task_and_two_variables_are_enough(kind):
    one = fit(kind, related_tasks(1, m=1, p=3, rows=60, strength=0.8))
    assert one.graphs_.shape == (1, 3, 3)
    assert np.isfinite(one.predict_log_density(0, np.zeros((2, 3)))).all()
    if kind in ("map", "posterior"):
        np.testing.assert_array_equal(one.membership_, [1])
    x = np.random.default_rng(0).standard_normal((3, 40, 2))
    x[1:, :, 1] += 2 * x[1:, :, 0]
    pair = fit(kind, x)
    joined = [bool(graph.any()) for graph in pair.graphs_]
    assert joined == ([True] * 3 if kind == "AVG" else [False, True, True])
    if kind == "posterior":
        assert (pair.adjacency_probabilities_[1:, 0, 1] > 0.9).all()
    assert fit(kind, x[1:2]).graphs_.shape == (1, 2, 2)


@pytest.mark.parametrize("seed", range(3))
def test_equal_tasks_have_equal_graphs(seed):
    (rows,) = related_arrays(seed, m=1, p=4, rows=30)
    for cls in ESTIMATORS:
        estimator = make(cls).fit([rows, rows])
        first, second = map(skeleton, estimator.graphs_)
        # What chains say of the other task's edges differs by chance, which an edge in doubt may feel.
        assert (first != second).sum() // 2 <= (1 if cls is MTGBN else 0)
        if cls is not MTGBN:
            np.testing.assert_array_equal(*estimator.cpdags_)


@few_rounds  # ten draws; a trajectory may diverge
@pytest.mark.parametrize("seed", range(4))
def test_plenty_of_data_reveal_the_equivalence_class(seed):
    rng = np.random.default_rng(seed)
    p, n = 5, 100_000
    graph = random_dag(rng, p, 0.5)
    coefficients = graph * rng.uniform(0.4, 1.0, (p, p)) * rng.choice([-1, 1], (p, p))
    mixing = np.linalg.inv(np.eye(p) - coefficients)
    scatter = mixing.T @ np.diag(rng.uniform(0.5, 2, p)) @ mixing * n
    for cls in (MTGBN, SIG, AVG):
        estimator = make(cls).fit(Tasks([scatter], [n]))
        np.testing.assert_array_equal(estimator.cpdags_[0], cpdag(graph))
        implied = np.linalg.inv(np.eye(p) - estimator.coefficients_[0])
        rebuilt = implied.T @ np.diag(estimator.residual_variances_[0]) @ implied
        np.testing.assert_allclose(rebuilt, scatter / n, rtol=0.01, atol=0.01)
        np.testing.assert_allclose(estimator.covariances_[0], scatter / n, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("kind", ["map", "posterior"])
def test_similar_graphs_are_drawn_together_and_unrelated_ones_are_not(kind):
    def disagreements(similarity):
        """Pairs that some members join and others do not, over three problems."""
        return sum(disagreements_in(seed, similarity) for seed in (12, 13, 14))

    def disagreements_in(seed, similarity):
        estimator = fitted(
            MTGBN,
            (seed, 5, 4, 25),
            inference=kind,
            nu0=14.0,
            edge_prior=(0.3, similarity),
            min_strength=0.0,
            n_draws=30,
            n_rounds=100,
        )
        members = estimator.graphs_[estimator.membership_ > 0.5]
        counts = edge_counts(members)
        return ((counts > 0) & (counts < len(members))).sum()

    assert 2 * disagreements(0.3) < disagreements(np.inf)
