"""Chains over all tasks: what they are given is obeyed, and what they gather is what happened."""

from functools import cache

import naive
import numpy as np
import pandas as pd
import pytest
from learn_oracles import pose_joint, related_arrays, related_tasks, silent
from scipy.special import expit

from mtgbn.errors import InputError
from mtgbn.graphs import cpdag, is_dag
from mtgbn.learn import MTGBN
from mtgbn.learn.joint_map import advance_map
from mtgbn.learn.joint_posterior import N_BLOCKS, advance_posterior
from mtgbn.learn.starts import start
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.search import Knowledge
from mtgbn.simulate import simulate_tasks
from mtgbn.tasks import Tasks

KINDS = ["map", "posterior"]

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def make(kind, **changes):
    settings = {"n_draws": 8, "n_rounds": 40, "max_iter": 3, "tol": 0.0, "random_state": 3}
    return MTGBN(inference=kind, **{**settings, **changes})


TASKS = related_tasks(30, m=4, p=4, rows=16)


@cache
def fitted(kind, **changes):
    """A fit that all tests share."""
    return make(kind, **changes).fit(TASKS)


def test_another_fit_leaves_nothing_of_the_first():
    estimator = make("posterior").fit(TASKS)
    other = related_tasks(1, m=3, p=3)
    estimator.set_params(inference="map").fit(other)
    expected = make("map").fit(other)
    assert vars(estimator).keys() == vars(expected).keys()
    for name in ("graphs_", "sigma_h_", "covariances_", "membership_"):
        np.testing.assert_array_equal(getattr(estimator, name), getattr(expected, name))
    assert estimator.history_ == expected.history_


def test_a_fit_with_spawned_seeds_can_be_repeated():
    tasks = simulate_tasks(3, 4, 40, random_state=1).tasks
    seeds = np.random.SeedSequence(5).spawn(2)[1]
    one = make("map", random_state=seeds).fit(tasks)
    again = make("map", random_state=one.random_state_).fit(tasks)
    np.testing.assert_array_equal(one.draws_.sigma_h, again.draws_.sigma_h)


# nu0 and the edge prior.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nu0", [3.5, 14.0, 1000.0])
def test_given_degrees_of_freedom_stay(kind, nu0):
    estimator = fitted(kind, nu0=nu0)
    assert estimator.nu0_ == pytest.approx(nu0, rel=1e-12)
    np.testing.assert_allclose(estimator.draws_.statistics["delta"], nu0 - 3, rtol=1e-12)
    assert np.ptp(fitted(kind).draws_.statistics["delta"]) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_the_edge_prior(kind):
    def found(setting):
        return fitted(kind, edge_prior=setting).edge_prior_

    assert found((0.4, 3.0)) == (0.4, 3.0)
    assert found(0.3) == (0.3, np.inf)
    assert found("density").similarity == np.inf
    shared = fitted(kind).edge_prior_
    assert found(None) == shared
    assert isinstance(shared, PairKinds)
    assert 0 < shared.similarity < np.inf
    assert 0 < shared.density < 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_of_edge_probabilities_follows_the_variables(kind):
    order = [1, 3, 0, 2]
    density = np.random.default_rng(0).uniform(0.1, 0.6, (4, 4))
    density = (density + density.T) / 2
    names = TASKS.variables
    moved = TASKS.select_variables([names[j] for j in order])
    one = make(kind, edge_prior=(density, 2.0)).fit(TASKS)
    other = make(kind, edge_prior=(density[np.ix_(order, order)], 2.0)).fit(moved)
    frame = pd.DataFrame(density, names, names)
    named = make(kind, edge_prior=(frame, 2.0)).fit(moved)
    square = np.ix_(range(4), order, order)
    np.testing.assert_array_equal(other.cpdags_, one.cpdags_[square])
    np.testing.assert_array_equal(named.cpdags_, other.cpdags_)
    np.testing.assert_array_equal(named.edge_prior_.density, other.edge_prior_.density)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(one.edge_prior_.density[off], density[off])


@pytest.mark.parametrize("kind", KINDS)
def test_edges_of_tiny_probability_are_absent_and_others_are_not(kind):
    # x0 and x1 are related in all tasks, x2 and x3 in none.
    x = np.random.default_rng(0).standard_normal((3, 60, 4))
    x[..., 1] += x[..., 0]

    def joined(**probabilities):
        density = np.full((4, 4), 0.2)
        for pair, probability in probabilities.items():
            i, j = map(int, pair[1:])
            density[i, j] = density[j, i] = probability
        graphs = make(kind, edge_prior=density).fit(x).graphs_
        return graphs | graphs.transpose(0, 2, 1)

    plain, changed = joined(), joined(x01=1e-100, x23=1 - 1e-15)
    assert plain[:, 0, 1].all()
    assert not plain[:, 2, 3].all()
    assert not changed[:, 0, 1].any()
    assert changed[:, 2, 3].all()


# Prior knowledge.

KNOWN = Knowledge(
    required=[("x3", "x0")],
    forbidden=[("x1", "x2"), ("x2", "x1")],
    tiers=[["x3"], ["x0", "x1"]],
    max_parents=2,
)


def with_gaps(seed=30, m=4, p=4, rows=20, share=0.1, lacks=False):
    """Tasks of which a tenth of the values is missing, and perhaps a variable in one of them."""
    rng = np.random.default_rng(seed)
    arrays = related_arrays(seed, m, p, rows, 0.8)
    for array in arrays:
        array[rng.random(array.shape) < share] = np.nan
    if lacks:
        arrays[1][:, 2] = np.nan
    return arrays


@pytest.mark.parametrize("missing", ["error", "em"])
@pytest.mark.parametrize("kind", KINDS)
def test_chains_never_leave_what_knowledge_allows(kind, missing):
    tasks = related_tasks(3, p=5, rows=40, strength=0.9)
    if missing == "em":
        tasks = Tasks.from_arrays(with_gaps(3, p=5, rows=40), missing="em")
    estimator = make(kind, knowledge=KNOWN).fit(tasks)
    limits = estimator.resolved_knowledge()
    graphs = estimator.graphs_
    assert all(is_dag(graph) for graph in graphs)
    assert graphs[:, limits.required].all()
    assert not (graphs & ~limits.allowed).any()
    assert (graphs.sum(axis=1) <= 2).all()
    assert (make(kind).fit(tasks).graphs_ != graphs).any()
    if kind == "posterior":
        probabilities = estimator.edge_probabilities_
        np.testing.assert_allclose(probabilities[:, limits.required], 1)
        assert not probabilities[:, ~limits.allowed].any()


def test_a_known_order_does_not_make_edges_more_probable():
    """Without data, the pairs that required edges leave open have their prior probability."""
    p = 5
    rows = np.random.default_rng(0).standard_normal((1, 40, p))
    tasks = Tasks.from_arrays(rows, effective_samples=1e-6)
    chain = [(f"x{k}", f"x{k + 1}") for k in range(p - 1)]
    estimator = MTGBN(
        inference="posterior",
        edge_prior=0.1,
        min_strength=0,
        n_rounds=200,
        knowledge={"required": chain},
        random_state=0,
    ).fit(tasks)
    found = estimator.adjacency_probabilities_[0]
    open_pairs = np.triu(np.ones((p, p), dtype=bool), 2)
    # 24,000 dependent moves for each of six pairs
    assert abs(found[open_pairs].mean() - 0.1) < 0.02
    assert (np.diagonal(found, 1) == 1).all()


# Missing values.


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_sampled(kind, lacks):
    arrays = with_gaps(lacks=lacks, rows=40)
    estimator = make(kind, missing="em").fit(arrays)
    assert np.isfinite(estimator.covariances_).all()
    assert all(is_dag(graph) for graph in estimator.graphs_)
    for graph, members in zip(estimator.graphs_, estimator.cpdags_, strict=True):
        np.testing.assert_array_equal(cpdag(graph), members)
    assert np.isfinite(estimator.predict_log_density(1, np.zeros((2, 4)))).all()
    with pytest.raises(InputError, match=r"task0.*missing"):
        make(kind).fit(arrays)


def test_tasks_know_what_nan_means_and_without_nan_it_does_not_matter():
    arrays = with_gaps()
    one, other = make("map", missing="em").fit(arrays), make("map")
    other.fit(Tasks.from_arrays(arrays, missing="em"))
    np.testing.assert_array_equal(one.draws_.sigma_h, other.draws_.sigma_h)
    complete = make("map", missing="em").fit(related_arrays(30, m=4, p=4, rows=16))
    np.testing.assert_array_equal(complete.draws_.sigma_h, fitted("map").draws_.sigma_h)


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
    found = make("map", missing="em").fit(arrays)
    means = found.sample(0, 4000, random_state=0).mean(axis=0)
    np.testing.assert_allclose(means, complete, atol=0.15)


# One iteration, by hand.


@pytest.mark.parametrize("seed", range(3))
def test_q_and_its_gain_are_those_of_the_densities(seed):
    problem = pose_joint(related_tasks(seed, m=4, p=4, rows=30), seed, nu0=14.0, n_draws=20)
    old = start(problem, 1, silent)
    new = advance_map(problem, old, 1, silent)
    record = new.gathered
    assert (record.membership > 0.5).all()
    # In the first iteration there are as many rounds as draws: all of them are used.
    draws = (record.psi * record.mean_delta).reshape(-1, 4, 4)
    assert len(draws) == 20
    probability = expit(record.log_odds).mean(axis=0)
    odds = np.log(probability) - np.log1p(-probability)

    log_share, log_rest = record.own_log_shares

    def q(adjacencies):
        total = 0.0
        for t, graph in enumerate(adjacencies):
            scatter, n = problem.tasks.scatters[t], problem.tasks.ns[t]
            for node in range(4):
                family = scatter, n, node, naive.parents_of(graph, node)
                tied = np.mean([naive.family_score(draw, 11.0, *family) for draw in draws])
                own = naive.family_score(np.diag(np.diag(scatter)) / n, 3.0, *family)
                total += np.logaddexp(log_rest + tied, log_share + own)
            total += odds[t][graph].sum()
        return total

    (iteration,) = new.history
    assert iteration.q == pytest.approx(q(new.adjacencies), abs=1e-6)
    assert iteration.gain == pytest.approx(q(new.adjacencies) - q(old.adjacencies), abs=1e-6)
    assert iteration.gain > -1e-9
    assert iteration.n_changed == (new.adjacencies != old.adjacencies).any(axis=(1, 2)).sum()
    assert iteration.n_edges == new.adjacencies.sum()
    assert iteration.n_draws == 20


def test_a_record_of_several_blocks_is_that_of_all_rounds():
    problem = pose_joint(related_tasks(2, m=3, p=3, rows=30), 2, nu0=9.0, n_rounds=100)
    state = start(problem, 1, silent)
    ends = []
    while not state.reason:
        state = advance_posterior(problem, state, 1, silent)
        ends.append(state.gathered.blocks[:, -1])
    record = state.gathered
    assert state.n_blocks == N_BLOCKS == len(ends)
    assert record.n_rounds == 100
    np.testing.assert_array_equal(record.blocks, np.stack(ends, axis=1))
    assert record.psi.shape == (2, 100, 3, 3)
    assert record.advantages.shape == (2, 100, 3)
    assert record.mean_delta == pytest.approx(7.0)
    # Counts at the ends of rounds and after all moves tell of the same chains.
    by_rounds = record.blocks.sum(axis=(0, 1)) / 200
    np.testing.assert_allclose(record.edge_frequencies, by_rounds, atol=0.15)
    joined = record.edge_frequencies + record.edge_frequencies.transpose(0, 2, 1)
    assert (joined <= 1 + 1e-12).all()
    np.testing.assert_allclose(record.scatters, problem.tasks.scatters, rtol=1e-12)


def test_kept_draws_are_evenly_spaced():
    states = []
    estimator = make("posterior", n_rounds=450)
    estimator.fit(related_tasks(2, m=2, p=2, rows=30), callback=states.append)
    record = states[-1].record
    assert record.n_rounds == 450
    assert record.stride == 4
    assert estimator.draws_.sigma_h.shape == (2, -(-450 // 4), 2, 2)
    np.testing.assert_array_equal(estimator.draws_.statistics["delta"], record.delta[:, ::4])
    # Early draws are still there: they were thinned, not replaced.
    np.testing.assert_array_equal(record.psi[:, :12], states[0].record.psi[:, ::4])
