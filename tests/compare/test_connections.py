"""Counts, degrees and tests of connections against loops, pandas and the functions for one table."""

import itertools

import numpy as np
import pytest

from mtgbn.compare.connections import align, compare_graphs, count_degrees
from mtgbn.compare.proportions import exact_test, proportion_test
from mtgbn.errors import InputError
from mtgbn.graphs import cpdag


def random_graphs(seed, n, p, density=0.4):
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(n):
        order = rng.permutation(p)
        along = np.triu(rng.random((p, p)) < density, 1)
        graphs.append(along[np.ix_(np.argsort(order), np.argsort(order))])
    return np.array(graphs)


@pytest.mark.parametrize("directed", [True, False])
def test_every_connection_is_tested_once(directed):
    a, b = random_graphs(0, 7, 5), random_graphs(1, 9, 5)
    found = compare_graphs(a, b, directed=directed)
    pairs = itertools.permutations(range(5), 2) if directed else itertools.combinations(range(5), 2)
    assert sorted(zip(found.source, found.target, strict=True)) == sorted(pairs)
    for k, (i, j) in enumerate(zip(found.source, found.target, strict=True)):
        has = [sum(g[i, j] or (g[j, i] and not directed) for g in group) for group in (a, b)]
        assert (found.count_a[k], found.count_b[k]) == tuple(has)
        table = (has[0], 7, has[1], 9)
        assert found.difference[k] == pytest.approx(has[0] / 7 - has[1] / 9)
        assert found.low[k] <= found.difference[k] <= found.high[k]
        assert found.p_greater[k] == proportion_test(*table).pvalue
        assert found.p_less[k] == proportion_test(*table, "less").pvalue
        assert found.p_two_sided[k] == proportion_test(*table, "two-sided").pvalue
        assert found.p_exact[k] == exact_test(*table, "two-sided").pvalue
    assert (np.diff(found.p_two_sided) >= 0).all()


def test_false_discoveries_are_those_of_benjamini_and_hochberg():
    found = compare_graphs(random_graphs(2, 15, 6), random_graphs(3, 15, 6, 0.2))
    p, m = found.p_two_sided, len(found.p_two_sided)
    by_hand = [min(p[k] * m / (k + 1) for k in range(first, m)) for first in range(m)]
    np.testing.assert_allclose(found.q, np.minimum(by_hand, 1))


def test_groups_the_other_way_round():
    a, b = random_graphs(0, 7, 5), random_graphs(1, 9, 5)
    one, other = compare_graphs(a, b), compare_graphs(b, a)
    np.testing.assert_array_equal(one.source, other.source)
    np.testing.assert_allclose(one.p_greater, other.p_less)
    np.testing.assert_allclose(one.difference, -other.difference)
    np.testing.assert_allclose(one.low, -other.high)


def test_degrees_by_hand():
    graphs = np.zeros((2, 3, 3), dtype=bool)
    graphs[:, 0, 1] = graphs[0, 1, 2] = True
    degrees = count_degrees(graphs)
    assert degrees.into.tolist() == [0, 2, 1]
    assert degrees.out_of.tolist() == [2, 1, 0]
    assert degrees.total.tolist() == [2, 3, 1]


def test_alignment_keeps_the_classes_and_makes_directions_agree():
    """x - y - z drawn in opposite directions says the same; then no connection differs."""
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    a, b = np.array([chain] * 6), np.array([chain.T] * 6)
    assert compare_graphs(a, b).p_two_sided.min() < 0.001
    a, b = align(a, b)
    assert compare_graphs(a, b).p_two_sided.min() == 1.0
    groups = random_graphs(4, 5, 6), random_graphs(5, 4, 6)
    for before, after in zip(groups, align(*groups), strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(cpdag(one), cpdag(other))


def test_bad_graphs_are_refused():
    graphs = random_graphs(0, 3, 4)
    for bad, message in (
        (graphs[0], "shape"),
        (graphs[:0], "graphs_b is empty"),
        (random_graphs(0, 3, 5), "4 variables, graphs_b 5"),
    ):
        with pytest.raises(InputError, match=message):
            compare_graphs(graphs, bad)
