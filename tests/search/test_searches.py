"""Searches against an exhaustive one, and what no search may do."""

import itertools

import numpy as np
import pytest

from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import is_dag
from mtgbn.search import boss, gather_scores, hill_climb
from mtgbn.search.grow_shrink import enlarge, grow_shrink, plant
from mtgbn.search.local_scores import local_score, scores_workspace


def random_scores(seed, p=5, n_draws=1):
    """Scores of data from a random DAG, weak enough for searches to err."""
    rng = np.random.default_rng(seed)
    coefficients = np.triu(rng.uniform(0.3, 0.9, (p, p)) * rng.choice([-1, 1], (p, p)), 1)
    coefficients *= rng.random((p, p)) < 0.5
    order = rng.permutation(p)
    n = int(rng.integers(20, 200))
    rows = rng.standard_normal((n, p)) @ np.linalg.inv(np.eye(p) - coefficients)
    rows = (rows - rows.mean(axis=0))[:, order]
    roots = np.eye(p) + 0.1 * rng.standard_normal((n_draws, p, p))
    return gather_scores(rows.T @ rows, n - 1.0, roots @ roots.transpose(0, 2, 1), p + 2.0)


def family_scores(scores):
    p = scores.matrices.shape[0]
    work = scores_workspace(scores, p)
    return {
        (k, parents): local_score(scores, k, np.array(parents, dtype=np.int64), size, work)
        for k in range(p)
        for size in range(p)
        for parents in itertools.combinations([j for j in range(p) if j != k], size)
    }


def best_score(scores):
    """Highest score of any DAG: the best last node of every set, smallest sets first."""
    p = scores.matrices.shape[0]
    table = family_scores(scores)
    best = {(): 0.0}
    for size in range(1, p + 1):
        for members in itertools.combinations(range(p), size):
            totals = []
            for last in members:
                rest = tuple(v for v in members if v != last)
                family = max(
                    table[last, parents]
                    for count in range(size)
                    for parents in itertools.combinations(rest, count)
                )
                totals.append(best[rest] + family)
            best[members] = max(totals)
    return best[tuple(range(p))]


def graph_score(scores, adjacency):
    table = family_scores(scores)
    return sum(table[k, tuple(np.flatnonzero(adjacency[:, k]))] for k in range(len(adjacency)))


def test_boss_then_tabu_finds_the_optimum_almost_always():
    gaps = []
    for seed in range(100):
        scores = random_scores(seed, n_draws=1 + 2 * (seed % 2))
        optimum = best_score(scores)
        found = boss(scores, random_state=seed)
        _, score = hill_climb(scores, found.adjacency, tabu=10)
        assert found.score <= score + 1e-8 <= optimum + 2e-8
        gaps.append(optimum - score)
    assert np.mean(np.array(gaps) < 1e-6) >= 0.97


@pytest.mark.parametrize("seed", range(5))
def test_what_is_returned_is_a_dag_with_its_score(seed):
    scores = random_scores(seed, p=6)
    found = boss(scores, n_restarts=0, random_state=seed)
    assert is_dag(found.adjacency)
    assert found.score == pytest.approx(graph_score(scores, found.adjacency), abs=1e-8)
    position = np.argsort(found.order)
    tails, heads = np.nonzero(found.adjacency)
    assert (position[tails] < position[heads]).all()
    for options in ({}, {"tabu": 20}, {"exchange": False}):
        adjacency, score = hill_climb(scores, found.adjacency, **options)
        assert is_dag(adjacency)
        assert score == pytest.approx(graph_score(scores, adjacency), abs=1e-8)
        assert score >= found.score - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_no_single_move_improves_a_local_optimum(seed):
    scores = random_scores(seed, p=5)
    adjacency, score = hill_climb(scores)
    for i, j in itertools.permutations(range(5), 2):
        for reverse in (False, True):
            other = adjacency.copy()
            other[i, j] = not other[i, j]
            if reverse:
                other[j, i] = not other[j, i]
            if is_dag(other):
                assert graph_score(scores, other) <= score + 1e-8


def test_limits_are_kept():
    scores = random_scores(3, p=7)
    assert boss(scores, max_parents=1, random_state=0).adjacency.sum(axis=0).max() == 1
    assert boss(scores, max_parents=0, random_state=0).adjacency.sum() == 0
    candidates = np.zeros((7, 7), dtype=bool)
    candidates[:3, 3:] = True
    adjacency, _ = hill_climb(scores, candidates=candidates, max_parents=2, tabu=10)
    assert not (adjacency & ~candidates).any()
    assert adjacency.sum(axis=0).max() <= 2


def test_same_seed_same_graph_and_relabelling_permutes():
    scores = random_scores(8, p=8)
    first, second = (boss(scores, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(first.adjacency, second.adjacency)
    permutation = np.random.default_rng(0).permutation(8)
    square = np.ix_(permutation, permutation)
    relabelled = scores._replace(
        matrices=np.ascontiguousarray(scores.matrices[square]), edge_bonus=scores.edge_bonus[square]
    )
    assert boss(relabelled, n_restarts=9, random_state=1).score == pytest.approx(
        boss(scores, n_restarts=9, random_state=2).score, abs=1e-7
    )


def test_a_full_forest_grows_and_forgets_nothing():
    scores = random_scores(1, p=6)
    work = scores_workspace(scores, 5)
    parents = np.empty(6, dtype=np.int64)
    everyone = np.ones(6, dtype=bool)
    forest = plant(6, capacity=7)
    values = []
    for node in range(6):
        allowed = everyone & (np.arange(6) != node)
        while True:
            value, place = grow_shrink(scores, forest, node, allowed, 5, parents, work)
            if value < np.inf:
                break
            forest = enlarge(forest, 6)
        values.append((value, forest.parents[place].copy()))
    roomy = plant(6)
    for node, (value, bits) in enumerate(values):
        allowed = everyone & (np.arange(6) != node)
        expected, place = grow_shrink(scores, roomy, node, allowed, 5, parents, work)
        assert value == expected
        np.testing.assert_array_equal(bits, roomy.parents[place])
    assert len(forest.first) > 7


def test_bad_arguments():
    scores = random_scores(0)
    with pytest.raises(InputError, match="max_parents"):
        boss(scores, max_parents=5)
    with pytest.raises(InputError, match="n_restarts"):
        boss(scores, n_restarts=-1)
    with pytest.raises(InputError, match="permutation"):
        boss(scores, initial=[0, 0, 1, 2, 3])
    with pytest.raises(GraphError, match="0 -> 1 -> 0"):
        hill_climb(scores, np.ones((5, 5)) - np.eye(5))
    with pytest.raises(InputError, match="shape"):
        hill_climb(scores, candidates=np.ones((2, 2)))
