"""Diagnostics of edges against ArviZ, and the graph of probabilities against all orders."""

import itertools

import numpy as np
import pytest
from arviz_stats.base import array_stats
from naive import random_dag

from mtgbn.graphs import is_dag, skeleton
from mtgbn.learn.probabilities import diagnose_edges, graph_of_probabilities

N_CHAINS, N_BLOCKS, ROUNDS, M = 2, 10, 50, 2


def indicator_chains(seed, p, persistence, rounds=ROUNDS, shift=0.0):
    """Directed edges that come and go, (chains, rounds, m, p, p); ``shift`` makes chains differ."""
    rng = np.random.default_rng(seed)
    n = N_BLOCKS * rounds
    pairs = np.triu_indices(p, 1)
    chains = np.zeros((N_CHAINS, n, M, p, p), dtype=bool)
    for c, t, i, j in itertools.product(range(N_CHAINS), range(M), range(p), range(p)):
        if i < j:
            share = np.clip(0.2 + 0.6 * (i + t) / p + shift * c, 0.05, 0.95)
            fresh = np.where(rng.random(n) < share, rng.integers(1, 3, n), 0)
            renewed = rng.random(n) >= persistence
            renewed[0] = True
            last = np.maximum.accumulate(np.where(renewed, np.arange(n), 0))
            state = fresh[last]
            chains[c, :, t, i, j] = state == 1
            chains[c, :, t, j, i] = state == 2
    return chains, pairs


def in_blocks(chains, rounds=ROUNDS):
    shape = (N_CHAINS, N_BLOCKS, rounds, *chains.shape[2:])
    return chains.reshape(shape).sum(axis=2, dtype=np.int32)


def by_arviz(chains, pairs, function, **options):
    joined = (chains | np.swapaxes(chains, -1, -2))[..., *pairs].astype(float)
    values = np.moveaxis(joined, (0, 1), (-2, -1))
    return function(values, chain_axis=-2, draw_axis=-1, **options)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("persistence", [0.0, 0.8])
def test_rhat_is_that_of_split_chains(persistence, shift):
    chains, pairs = indicator_chains(0, 5, persistence, shift=shift)
    found = diagnose_edges(in_blocks(chains), ROUNDS).rhat
    expected = by_arviz(chains, pairs, array_stats.rhat, method="split")
    np.testing.assert_allclose(found[..., *pairs], expected, rtol=1e-10)
    np.testing.assert_array_equal(found, np.swapaxes(found, 1, 2))
    assert (found[..., *pairs].max() > 1.1) == (shift == 0.5)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9])
def test_ess_is_about_that_of_arviz_and_of_theory(persistence):
    rounds, p = 200, 8
    chains, pairs = indicator_chains(1, p, persistence, rounds)
    total = N_CHAINS * N_BLOCKS * rounds
    found = diagnose_edges(in_blocks(chains, rounds), rounds).ess
    # States are kept with this probability, so that lag k has correlation persistence^k.
    theory = total * (1 - persistence) / (1 + persistence)
    expected = by_arviz(chains, pairs, array_stats.ess, method="mean")
    # Means of 20 blocks have a variance with 18 degrees of freedom: known to a third, each.
    ratios = found[..., *pairs] / np.minimum(expected, total)
    assert 0.75 < np.exp(np.log(ratios).mean()) < 1.35
    assert 0.7 < np.exp(np.log(found[..., *pairs] / theory).mean()) < 1.4
    assert (found[..., *pairs] <= total).all()


def test_indicators_that_never_change():
    blocks = np.zeros((N_CHAINS, N_BLOCKS, 1, 3, 3), dtype=np.int32)
    blocks[:, :, 0, 0, 1] = ROUNDS  # always there
    blocks[0, :, 0, 1, 2] = ROUNDS  # always in one chain, never in the other
    found = diagnose_edges(blocks, ROUNDS)
    assert found.rhat[0, 0, 1] == found.rhat[0, 1, 0] == 1
    assert found.rhat[0, 0, 2] == 1
    assert found.rhat[0, 1, 2] == found.rhat[0, 2, 1] == np.inf
    total = N_CHAINS * N_BLOCKS * ROUNDS
    assert found.ess[0, 0, 1] == found.ess[0, 0, 2] == total
    assert np.isnan(found.rhat[0].diagonal()).all()
    assert np.isnan(found.ess[0].diagonal()).all()


def test_the_direction_does_not_matter():
    # There always, but turned round again and again: as an adjacency it is constant.
    blocks = np.zeros((N_CHAINS, N_BLOCKS, 1, 2, 2), dtype=np.int32)
    blocks[:, :, 0, 0, 1] = np.random.default_rng(0).integers(0, ROUNDS + 1, (N_CHAINS, N_BLOCKS))
    blocks[:, :, 0, 1, 0] = ROUNDS - blocks[:, :, 0, 0, 1]
    found = diagnose_edges(blocks, ROUNDS)
    assert found.rhat[0, 0, 1] == 1


# The graph.


def random_probabilities(rng, p):
    """Of i -> j and j -> i, together at most 1."""
    probabilities = np.zeros((p, p))
    for i, j in itertools.combinations(range(p), 2):
        _, forward, backward = rng.dirichlet([0.6, 0.6, 0.6])
        probabilities[i, j], probabilities[j, i] = forward, backward
    return probabilities


def free(p):
    return ~np.eye(p, dtype=bool), np.zeros((p, p), dtype=bool), p - 1


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_the_skeleton_is_that_of_the_probable_pairs(p):
    rng = np.random.default_rng(p)
    for _ in range(20):
        probabilities = random_probabilities(rng, p)
        graph = graph_of_probabilities(probabilities, *free(p))
        assert graph.dtype == bool
        assert is_dag(graph)
        np.testing.assert_array_equal(skeleton(graph), probabilities + probabilities.T > 0.5)


def test_half_is_not_enough():
    probabilities = np.array([[0, 0.25], [0.25, 0]])
    assert not graph_of_probabilities(probabilities, *free(2)).any()
    probabilities[0, 1] += 1e-9
    assert graph_of_probabilities(probabilities, *free(2))[0, 1]


def test_directions_have_the_largest_sum_of_all_orders():
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(150):
        p = int(rng.integers(3, 6))
        probabilities = random_probabilities(rng, p)
        graph = graph_of_probabilities(probabilities, *free(p))
        joined = skeleton(graph)
        best = 0.0
        for order in itertools.permutations(range(p)):
            place = np.argsort(order)
            along = place[:, None] < place[None, :]
            best = max(best, probabilities[joined & along].sum())
        gaps.append(best - probabilities[graph].sum())
    gaps = np.array(gaps)
    assert (gaps > -1e-12).all()
    # Moves of single variables end in local optima now and then.
    assert (gaps < 1e-9).mean() > 0.9
    assert gaps.max() < 0.5


def random_knowledge(rng, p):
    """Knowledge that some DAG obeys, and that chains would: 0 where nothing is allowed."""
    order = rng.permutation(p)
    place = np.argsort(order)
    along = place[:, None] < place[None, :]
    # All that is required goes along the order, and nothing along it that is required is forbidden.
    required = along & (rng.random((p, p)) < 0.2)
    max_parents = int(max(required.sum(axis=0).max(), rng.integers(1, p)))
    allowed = (rng.random((p, p)) < 0.8) & ~np.eye(p, dtype=bool)
    allowed = (allowed | required) & ~required.T
    probabilities = random_probabilities(rng, p) * allowed
    for i, j in np.argwhere(required):
        probabilities[i, j], probabilities[j, i] = 1.0, 0.0
    return probabilities, allowed, required, max_parents


@pytest.mark.parametrize("p", [4, 7])
def test_knowledge_is_obeyed(p):
    rng = np.random.default_rng(p)
    fell_short = lacking = 0
    for _ in range(100):
        probabilities, allowed, required, most = random_knowledge(rng, p)
        graph = graph_of_probabilities(probabilities, allowed, required, most)
        assert is_dag(graph)
        assert not (graph & ~allowed).any()
        assert graph[required].all()
        assert (graph.sum(axis=0) <= most).all()
        probable = probabilities + probabilities.T > 0.5
        # Nothing else than what is probable, and almost all of it unless parents are too many.
        assert not (skeleton(graph) & ~probable & ~skeleton(required)).any()
        if (graph.sum(axis=0) < most).all():
            lacking += (probable & ~skeleton(graph)).sum() // 2
        fell_short += (probable & ~skeleton(graph)).any()
    assert fell_short
    # Edges allowed in one direction only may form cycles, which one of them has to break.
    assert lacking < 40


def test_of_too_many_parents_the_least_probable_are_left_out():
    probabilities = np.zeros((5, 5))
    probabilities[:4, 4] = [0.9, 0.6, 0.8, 0.7]
    allowed, required, _ = free(5)
    graph = graph_of_probabilities(probabilities, allowed, required, 2)
    np.testing.assert_array_equal(np.flatnonzero(graph[:, 4]), [0, 2])
    required[1, 4] = True
    graph = graph_of_probabilities(probabilities, allowed, required, 2)
    np.testing.assert_array_equal(np.flatnonzero(graph[:, 4]), [0, 1])


@pytest.mark.parametrize("seed", range(40))
def test_required_edges_are_never_lost(seed):
    rng = np.random.default_rng(seed)
    p = 7
    required = random_dag(rng, p, 0.3)
    allowed = ~np.eye(p, dtype=bool) & ~required.T
    probabilities = rng.random((p, p)) * 0.5
    graph = graph_of_probabilities(probabilities, allowed, required, p - 1)
    assert is_dag(graph)
    assert not (required & ~graph).any()


def test_chains_that_disagree_are_worth_little():
    blocks = np.zeros((2, 10, 1, 2, 2), dtype=np.int32)
    blocks[0, :, 0, 0, 1], blocks[1, :, 0, 0, 1] = 6, 194  # of 200
    found = diagnose_edges(blocks, 200)
    assert found.rhat[0, 0, 1] > 3
    assert found.ess[0, 0, 1] < 40
