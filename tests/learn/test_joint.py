"""Chains over everything: the same bits however they are run, and what they are told is obeyed."""

import numpy as np
import pandas as pd
import pytest
from learn_oracles import log_likelihoods, pose, related_arrays, related_tasks, silent

from mtgbn.errors import InputError
from mtgbn.graphs import cpdag, is_dag, skeleton
from mtgbn.learn import MTGBN, explore
from mtgbn.search import Knowledge
from mtgbn.search.mmpc import find_candidates
from mtgbn.simulate import simulate_perturbed, simulate_tasks
from mtgbn.simulate.perturbed import random_network
from mtgbn.tasks import Tasks

KINDS = ["map", "posterior"]

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def learner(kind, **changes):
    settings = {"n_draws": 8, "n_rounds": 40, "max_iter": 3, "tol": 0.0, "random_state": 3}
    return MTGBN(inference=kind, **{**settings, **changes})


def with_gaps(seed=30, m=4, p=4, rows=20, share=0.1, lacks=False):
    """Tasks of which a tenth of the values is missing, and perhaps a variable in one of them."""
    rng = np.random.default_rng(seed)
    arrays = related_arrays(seed, m, p, rows, 0.8)
    for array in arrays:
        array[rng.random(array.shape) < share] = np.nan
    if lacks:
        arrays[1][:, 2] = np.nan
    return arrays


TASKS = related_tasks(30, m=4, p=4, rows=16)
INCOMPLETE = Tasks.from_arrays(with_gaps(), missing="em")


def assert_same(one, other):
    """Down to the last bit."""
    for name in (
        "graphs_",
        "sigma_h_",
        "covariances_",
        "coefficients_",
        "membership_",
        "nu0_",
        "agreement_",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.draws_.sigma_h, other.draws_.sigma_h)
    np.testing.assert_array_equal(one.relatedness_.leave_one_out, other.relatedness_.leave_one_out)
    assert one.edge_prior_ == other.edge_prior_
    assert one.history_ == other.history_
    assert one.order_ == other.order_
    assert one.stop_reason_ == other.stop_reason_
    if one.estimator == "posterior":
        np.testing.assert_array_equal(one.edge_probabilities_, other.edge_probabilities_)
        np.testing.assert_array_equal(one.edge_diagnostics_.rhat, other.edge_diagnostics_.rhat)
        np.testing.assert_array_equal(one.edge_diagnostics_.ess, other.edge_diagnostics_.ess)


class Killed(Exception):  # noqa: N818, not an error but an end
    """Stands for the power failure."""


@pytest.mark.parametrize("tasks", [TASKS, INCOMPLETE], ids=["complete", "incomplete"])
@pytest.mark.parametrize("kind", KINDS)
def test_runs_that_were_killed_or_had_help_end_the_same(kind, tasks, tmp_path):
    """One job or two, without a checkpoint or with one, killed between two steps or within one."""
    whole = learner(kind).fit(tasks)
    assert_same(learner(kind, n_jobs=2).fit(tasks), whole)
    path = tmp_path / "checkpoint"
    steps = []

    def kill_between(state):
        steps.append(state)
        if len(steps) in (2, 3):
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            learner(kind).fit(tasks, checkpoint=path, callback=kill_between)
    calls = []

    def kill_within(what, done, total):
        calls.append(what)
        if what == "exploring" and done > total / 2:
            raise Killed

    with pytest.raises(Killed):
        learner(kind, n_jobs=2).fit(tasks, checkpoint=path, progress=kill_within)
    assert "searching graphs alone" not in calls  # it went on from the file
    assert_same(learner(kind).fit(tasks, checkpoint=path), whole)
    counted = []
    assert_same(learner(kind).fit(tasks, checkpoint=path, callback=counted.append), whole)
    if whole.converged_:
        assert counted == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_a_callback_stopped_goes_on(kind, tmp_path):
    whole = learner(kind).fit(TASKS)
    path = tmp_path / "checkpoint"
    stopped = learner(kind).fit(TASKS, checkpoint=path, callback=lambda state: True)
    assert stopped.stop_reason_ == "the callback asked to stop"
    assert not stopped.converged_
    assert stopped.n_iter_ == 1
    assert any("the callback asked to stop" in warning for warning in stopped.warnings_)
    assert_same(learner(kind).fit(TASKS, checkpoint=path), whole)


def test_another_fit_leaves_nothing_of_the_first():
    fitted = learner("posterior").fit(TASKS)
    other = related_tasks(1, m=3, p=3)
    fitted.set_params(inference="map").fit(other)
    assert_same(fitted, learner("map").fit(other))
    assert vars(fitted).keys() == vars(learner("map").fit(other)).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_and_another_something_else(kind):
    one, two, other = (
        learner(kind, random_state=seed).fit(TASKS) for seed in (1, np.random.SeedSequence(1), 2)
    )
    assert_same(one, two)
    assert (one.sigma_h_ != other.sigma_h_).any()
    assert one.random_state_ == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_tasks_and_variables_does_not_matter(kind):
    task_order, order = [2, 0, 3, 1], [1, 3, 0, 2]
    moved = TASKS[task_order].select_variables([TASKS.variables[j] for j in order])
    one, other = learner(kind).fit(TASKS), learner(kind).fit(moved)
    square = np.ix_(task_order, order, order)
    np.testing.assert_array_equal(other.cpdags_, one.cpdags_[square])
    np.testing.assert_allclose(other.covariances_, one.covariances_[square], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(other.sigma_h_, one.sigma_h_[np.ix_(order, order)], rtol=1e-8)
    np.testing.assert_allclose(other.membership_, one.membership_[task_order])
    assert other.nu0_ == pytest.approx(one.nu0_, rel=1e-10)
    if kind == "posterior":
        np.testing.assert_allclose(
            other.edge_probabilities_, one.edge_probabilities_[square], atol=1e-12
        )
        np.testing.assert_allclose(
            other.edge_diagnostics_.rhat, one.edge_diagnostics_.rhat[square], rtol=1e-12
        )
        np.testing.assert_allclose(
            other.relatedness_.leave_one_out, one.relatedness_.leave_one_out[task_order], rtol=1e-8
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_of_edge_probabilities_follows_the_variables(kind):
    order = [1, 3, 0, 2]
    density = np.random.default_rng(0).uniform(0.1, 0.6, (4, 4))
    density = (density + density.T) / 2
    names = TASKS.variables
    moved = TASKS.select_variables([names[j] for j in order])
    one = learner(kind, edge_prior=(density, 2.0)).fit(TASKS)
    other = learner(kind, edge_prior=(density[np.ix_(order, order)], 2.0)).fit(moved)
    frame = pd.DataFrame(density, names, names)
    named = learner(kind, edge_prior=(frame, 2.0)).fit(moved)
    square = np.ix_(range(4), order, order)
    np.testing.assert_array_equal(other.cpdags_, one.cpdags_[square])
    np.testing.assert_array_equal(named.cpdags_, other.cpdags_)
    np.testing.assert_array_equal(named.edge_prior_.density, other.edge_prior_.density)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(one.edge_prior_.density[off], density[off])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nu0", [3.5, 14.0, 1000.0])
def test_given_degrees_of_freedom_stay(kind, nu0):
    fitted = learner(kind, nu0=nu0).fit(TASKS)
    assert fitted.nu0_ == pytest.approx(nu0, rel=1e-12)
    np.testing.assert_allclose(fitted.draws_.statistics["delta"], nu0 - 3, rtol=1e-12)
    assert np.ptp(learner(kind).fit(TASKS).draws_.statistics["delta"]) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_the_edge_prior(kind):
    def found(setting):
        return learner(kind, edge_prior=setting).fit(TASKS).edge_prior_

    assert found((0.4, 3.0)) == (0.4, 3.0)
    assert found(0.3) == (0.3, np.inf)
    assert found("density").similarity == np.inf
    shared, sampled = found("shared"), found("sampled")
    assert found(None) == shared
    assert 0 < shared.similarity < np.inf  # its density is also that of all tasks as one
    assert 0 < sampled.density < 1
    assert sampled != shared
    assert np.isfinite(sampled.similarity)


@pytest.mark.parametrize("kind", KINDS)
def test_edges_of_tiny_probability_are_absent_and_others_are_not(kind):
    # x0 and x1 belong together in all tasks, x2 and x3 in none.
    x = np.random.default_rng(0).standard_normal((3, 60, 4))
    x[..., 1] += x[..., 0]
    density = np.full((4, 4), 0.2)

    def joined(pair, probability):
        setting = density.copy()
        setting[pair] = setting[pair[::-1]] = probability
        graphs = learner(kind, edge_prior=setting).fit(x).graphs_
        return (graphs | graphs.transpose(0, 2, 1))[:, *pair]

    assert joined((0, 1), 0.2).all()
    assert not joined((0, 1), 1e-100).any()
    assert not joined((2, 3), 0.2).all()
    assert joined((2, 3), 1 - 1e-15).all()


KNOWN = Knowledge(
    required=[("x3", "x0")],
    forbidden=[("x1", "x2"), ("x2", "x1")],
    tiers=[["x3"], ["x0", "x1"]],
    max_parents=2,
)


@pytest.mark.parametrize("settings", [{}, {"candidates": "mmpc"}, {"missing": "em"}])
@pytest.mark.parametrize("kind", KINDS)
def test_knowledge_is_obeyed(kind, settings):
    tasks = related_tasks(3, p=5, rows=40, strength=0.9)
    if "missing" in settings:
        tasks = Tasks.from_arrays(with_gaps(3, p=5, rows=40), missing="em")
    fitted = learner(kind, knowledge=KNOWN, **settings).fit(tasks)
    limits = fitted.resolved_knowledge()
    graphs = fitted.graphs_
    assert all(is_dag(graph) for graph in graphs)
    assert graphs[:, limits.required].all()
    assert not (graphs & ~limits.allowed).any()
    assert (graphs.sum(axis=1) <= 2).all()
    assert (learner(kind).fit(tasks).graphs_ != graphs).any()
    if kind == "posterior":
        # The chains never were elsewhere.
        probabilities = fitted.edge_probabilities_
        np.testing.assert_allclose(probabilities[:, limits.required], 1)
        assert not probabilities[:, ~limits.allowed].any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_task_and_two_variables_are_enough(kind):
    single = learner(kind).fit(related_tasks(1, m=1, p=3, rows=60, strength=0.8))
    np.testing.assert_array_equal(single.membership_, [1])
    assert single.edge_prior_.similarity == np.inf
    assert np.isfinite(single.predict_log_density(0, np.zeros((2, 3)))).all()
    x = np.random.default_rng(0).standard_normal((3, 40, 2))
    x[..., 1] += 2 * x[..., 0]
    pair = learner(kind).fit(x)
    assert skeleton(pair.graphs_[0])[0, 1]
    assert pair.graphs_.any(axis=(1, 2)).all()
    smallest = learner(kind).fit(x[:1])
    assert smallest.graphs_.shape == (1, 2, 2)
    if kind == "posterior":
        assert (pair.adjacency_probabilities_[:, 0, 1] > 0.9).all()


# Missing values.


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_sampled(kind, lacks):
    arrays = with_gaps(lacks=lacks, rows=40)
    fitted = learner(kind, missing="em").fit(arrays)
    assert np.isfinite(fitted.covariances_).all()
    assert all(is_dag(graph) for graph in fitted.graphs_)
    for graph, members in zip(fitted.graphs_, fitted.cpdags_, strict=True):
        np.testing.assert_array_equal(cpdag(graph), members)
    rows = np.zeros((2, 4))
    assert np.isfinite(fitted.predict_log_density(1, rows)).all()
    tasks = Tasks.from_arrays(arrays, missing="em")
    assert_same(learner(kind, missing="em").fit(tasks), fitted)
    with pytest.raises(InputError, match=r"task0.*missing"):
        learner(kind).fit(arrays)


def test_without_gaps_nothing_is_different():
    arrays = related_arrays(30, m=4, p=4, rows=16)
    assert_same(learner("map", missing="em").fit(arrays), learner("map").fit(arrays))


# What only the uniform prior can.


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"inference": "posterior"}, "inference='posterior'"),
        ({"nu0": "auto"}, "nu0='auto'"),
        ({"edge_prior": "shared"}, "edge_prior='shared'"),
        ({"edge_prior": "sampled"}, "edge_prior='sampled'"),
        ({"edge_prior": "density"}, "edge_prior='density'"),
    ],
)
@pytest.mark.parametrize("structure_prior", ["restricted", "scale_free", "decomposable"])
def test_what_cannot_be_estimated_under_other_priors(structure_prior, settings, what):
    search = {"search": "mmhc"} if structure_prior == "decomposable" else {}
    estimator = MTGBN(structure_prior=structure_prior, **search, **settings)
    for call in (estimator.check, estimator.fit):
        with pytest.raises(InputError, match=f"{what} needs structure_prior='uniform'"):
            call(TASKS)


def test_missing_values_need_the_uniform_prior():
    with pytest.raises(InputError, match="missing values need structure_prior='uniform'"):
        MTGBN(structure_prior="restricted").fit(INCOMPLETE)


# One iteration, by hand.


@pytest.mark.parametrize("seed", range(3))
def test_q_and_its_gain_are_those_of_the_densities(seed):
    problem = pose(related_tasks(seed, m=4, p=4, rows=30), seed, nu0=14.0, n_draws=20)
    old = explore.start(problem, 1, silent)
    new = explore.advance_map(problem, old, 1, silent)
    record = new.record
    assert (record.membership > 0.5).all()
    # In the first iteration there are as many rounds as draws: all of them are used.
    draws = (record.psi * record.delta).reshape(-1, 4, 4)
    assert len(draws) == 20
    odds = record.log_odds.mean(axis=0)

    def q(adjacencies):
        total = 0.0
        for t, graph in enumerate(adjacencies):
            scatter, n = problem.tasks.scatters[t], problem.tasks.ns[t]
            total += log_likelihoods(scatter, n, graph, draws, 14.0).mean()
            total += odds[t][graph].sum()
        return total

    (iteration,) = new.history
    assert iteration.q == pytest.approx(q(new.adjacencies), abs=1e-6)
    assert iteration.gain == pytest.approx(q(new.adjacencies) - q(old.adjacencies), abs=1e-6)
    assert iteration.gain > -1e-9
    assert iteration.n_changed == (new.adjacencies != old.adjacencies).any(axis=(1, 2)).sum()
    assert iteration.n_edges == new.adjacencies.sum()
    assert iteration.n_draws == 20


def test_a_record_of_several_steps_is_that_of_all_rounds():
    problem = pose(related_tasks(2, m=3, p=3, rows=30), 2, nu0=9.0)
    state = explore.start(problem, 1, silent)
    ends = []
    while not state.reason:
        state = explore.advance_posterior(problem, state, 1, silent, 100)
        ends.append(state.record.blocks[:, -1])
    record = state.record
    assert state.n_blocks == explore.N_BLOCKS == len(ends)
    assert record.n_rounds == 100
    np.testing.assert_array_equal(record.blocks, np.stack(ends, axis=1))
    assert record.psi.shape == (2, 100, 3, 3)
    assert record.advantages.shape == (2, 100, 3)
    assert record.delta == pytest.approx(7.0)
    # Counts at the ends of rounds and after all moves tell of the same chains.
    by_rounds = record.blocks.sum(axis=(0, 1)) / 200
    np.testing.assert_allclose(record.tallies, by_rounds, atol=0.15)
    joined = record.tallies + record.tallies.transpose(0, 2, 1)
    assert (joined <= 1 + 1e-12).all()
    np.testing.assert_allclose(record.scatters, problem.tasks.scatters, rtol=1e-12)


def test_kept_draws_are_evenly_spaced():
    states = []
    fitted = learner("posterior", n_rounds=450)
    fitted.fit(related_tasks(2, m=2, p=2, rows=30), callback=states.append)
    record = states[-1].record
    assert record.n_rounds == 450
    assert record.stride == 4
    assert fitted.draws_.sigma_h.shape == (2, -(-450 // 4), 2, 2)
    np.testing.assert_array_equal(fitted.draws_.statistics["delta"], record.numbers[0, :, ::4])
    # Early draws are still there: they were thinned, not replaced.
    np.testing.assert_array_equal(record.psi[:, :12], states[0].record.psi[:, ::4])


def test_means_of_incomplete_tasks_are_learned_too():
    """Values are missing where another variable is small: the mean of the others is too large."""
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(3):
        x = rng.standard_normal(150)
        arrays.append(np.column_stack([x, x + 0.4 * rng.standard_normal(150)]))
    complete = arrays[0].mean(axis=0)
    arrays[0][arrays[0][:, 0] < 0, 1] = np.nan
    assert np.nanmean(arrays[0], axis=0)[1] - complete[1] > 0.6
    found = learner("map", missing="em").fit(arrays)
    means = found.sample(0, 4000, random_state=0).mean(axis=0)
    np.testing.assert_allclose(means, complete, atol=0.15)


def test_a_known_order_does_not_make_edges_more_probable():
    """Without data, the pairs that required edges leave open have their prior probability."""
    p = 5
    rows = np.random.default_rng(0).standard_normal((1, 40, p))
    tasks = Tasks.from_arrays(rows, effective_samples=1e-6)
    chain = [(f"x{k}", f"x{k + 1}") for k in range(p - 1)]
    learner = MTGBN(
        inference="posterior",
        edge_prior=0.1,
        n_rounds=200,
        knowledge={"required": chain},
        random_state=0,
    ).fit(tasks)
    found = learner.adjacency_probabilities_[0]
    open_pairs = np.triu(np.ones((p, p), dtype=bool), 2)
    # 24,000 dependent moves for each of six pairs
    assert abs(found[open_pairs].mean() - 0.1) < 0.02
    assert (np.diagonal(found, 1) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_takes_no_edge_from_others_that_it_may_not_have(kind):
    """Candidates differ between tasks, and tasks that change sides try the graphs of others."""
    for seed in (136, 3):
        network = random_network(5, 6, random_state=seed)
        simulation = simulate_perturbed(network, 6, 20, level=0.4, n_unrelated=2, random_state=seed)
        learner = MTGBN(inference=kind, search="mmhc", n_rounds=20, random_state=1)
        learner.fit(simulation.tasks)
        allowed = find_candidates(simulation.tasks.scatters, simulation.tasks.ns, "mmpc")
        assert not (learner.graphs_ & ~allowed).any()
        if kind == "posterior":
            assert (learner.edge_probabilities_[~allowed] == 0).all()
            assert learner.adjacency_probabilities_.max() <= 1


def test_a_fit_with_spawned_seeds_can_be_repeated():
    tasks = simulate_tasks(3, 4, 40, random_state=1).tasks
    seeds = np.random.SeedSequence(5).spawn(2)[1]
    one = MTGBN(random_state=seeds).fit(tasks)
    again = MTGBN(random_state=one.random_state_).fit(tasks)
    np.testing.assert_array_equal(one.draws_.sigma_h, again.draws_.sigma_h)
