"""Worked examples, and loops over pairs as the slow twin of every count."""

import math
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import cpdag
from mtgbn.metrics import (
    Comparison,
    compare_adjacencies,
    compare_arrowheads,
    structural_hamming_distance,
)

FUNCTIONS = [compare_adjacencies, compare_arrowheads, structural_hamming_distance]


def graph(p, *edges):
    matrix = np.zeros((p, p), dtype=int)
    for i, j in edges:
        matrix[i, j] = 1
    return matrix


@st.composite
def two_graphs(draw):
    """Any two PDAGs of one size: every pair has no edge, i -> j, j -> i or i - j."""
    p = draw(st.integers(1, 7))
    matrices = np.zeros((2, p, p), dtype=bool)
    for matrix in matrices:
        for i, j in combinations(range(p), 2):
            matrix[i, j], matrix[j, i] = draw(st.tuples(st.booleans(), st.booleans()))
    return matrices


def loop(pairs, in_estimate, in_truth):
    counts = {"tp": 0, "fp": 0, "fn": 0, "tn": 0}
    for i, j in pairs:
        right = in_estimate(i, j) == in_truth(i, j)
        counts[("t" if right else "f") + ("p" if in_estimate(i, j) else "n")] += 1
    return tuple(counts.values())


def test_a_worked_example():
    # truth 0 -> 1 -> 2 <- 3, 4 alone; found 0 -> 1, 2 -> 1, 3 -> 2, 3 -> 4
    truth = graph(5, (0, 1), (1, 2), (3, 2))
    estimate = graph(5, (0, 1), (2, 1), (3, 2), (3, 4))
    adjacencies = compare_adjacencies(estimate, truth)
    assert adjacencies == (3, 1, 0, 6)
    assert adjacencies.distance == 1
    assert adjacencies.error == pytest.approx(1 / 10)
    assert (adjacencies.precision, adjacencies.recall) == (3 / 4, 1)
    assert adjacencies.f_score == pytest.approx(6 / 7)
    arrowheads = compare_arrowheads(estimate, truth)
    assert arrowheads == (2, 2, 1, 15)
    assert arrowheads.distance == 3
    assert arrowheads.error == pytest.approx(3 / 20)
    assert (arrowheads.precision, arrowheads.recall) == (1 / 2, 2 / 3)
    assert arrowheads.f_score == pytest.approx(4 / 7)
    assert structural_hamming_distance(estimate, truth) == 2


def test_a_reversed_edge():
    forward, backward = graph(2, (0, 1)), graph(2, (1, 0))
    assert compare_adjacencies(forward, backward) == (1, 0, 0, 0)
    assert compare_arrowheads(forward, backward) == (0, 1, 1, 0)
    assert structural_hamming_distance(forward, backward) == 1


def test_an_undirected_edge_has_no_arrowhead():
    directed, undirected = graph(2, (0, 1)), graph(2, (0, 1), (1, 0))
    assert compare_adjacencies(directed, undirected) == (1, 0, 0, 0)
    assert compare_arrowheads(directed, undirected) == (0, 1, 0, 1)
    assert compare_arrowheads(undirected, directed) == (0, 0, 1, 1)
    assert structural_hamming_distance(undirected, directed) == 1


def test_between_cpdags_only_compelled_edges_count():
    # 0 -> 2 <- 1 is compelled, and 2 -> 3 with it; the chain 4 -> 5 -> 6 is not.
    truth = cpdag(graph(7, (0, 2), (1, 2), (2, 3), (4, 5), (5, 6)))
    equivalent = cpdag(graph(7, (0, 2), (1, 2), (2, 3), (5, 4), (5, 6)))
    assert compare_arrowheads(equivalent, truth) == (3, 0, 0, 39)
    assert structural_hamming_distance(equivalent, truth) == 0
    chain = cpdag(graph(7, (2, 0), (1, 2), (2, 3), (4, 5), (5, 6)))
    assert compare_adjacencies(chain, truth).distance == 0
    assert compare_arrowheads(chain, truth) == (0, 0, 3, 39)
    assert structural_hamming_distance(chain, truth) == 3


@given(two_graphs())
def test_counts_are_those_of_a_loop_over_pairs(graphs):
    estimate, truth = graphs
    p = len(truth)
    assert compare_adjacencies(estimate, truth) == loop(
        list(combinations(range(p), 2)),
        lambda i, j: bool(estimate[i, j] or estimate[j, i]),
        lambda i, j: bool(truth[i, j] or truth[j, i]),
    )
    assert compare_arrowheads(estimate, truth) == loop(
        list(permutations(range(p), 2)),
        lambda i, j: bool(estimate[i, j] and not estimate[j, i]),
        lambda i, j: bool(truth[i, j] and not truth[j, i]),
    )
    assert structural_hamming_distance(estimate, truth) == sum(
        (estimate[i, j], estimate[j, i]) != (truth[i, j], truth[j, i])
        for i, j in combinations(range(p), 2)
    )


@given(two_graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_variables_does_not_matter(graphs, random):
    order = list(range(graphs.shape[1]))
    random.shuffle(order)
    permuted = graphs[:, order][:, :, order]
    for function in FUNCTIONS:
        assert function(*permuted) == function(*graphs)


@given(two_graphs())
def test_exchanging_the_graphs_exchanges_the_mistakes(graphs):
    for function in FUNCTIONS[:2]:
        there, back = function(*graphs), function(*graphs[::-1])
        assert (there.false_positives, there.false_negatives) == back[1:3][::-1]
        assert there.error == pytest.approx(back.error, nan_ok=True)
        assert there.precision == pytest.approx(back.recall, nan_ok=True)
        assert there.f_score == pytest.approx(back.f_score, nan_ok=True)
    assert structural_hamming_distance(*graphs) == structural_hamming_distance(*graphs[::-1])


def test_arrowheads_of_dags_agree_with_networkx():
    rng = np.random.default_rng(1)
    for _ in range(100):
        p = rng.integers(2, 12)
        estimate, truth = np.triu(rng.random((2, p, p)) < 0.3, k=1)
        ours = compare_arrowheads(estimate, truth)
        found, true = (
            nx.from_numpy_array(matrix, create_using=nx.DiGraph) for matrix in (estimate, truth)
        )
        assert ours.false_positives == nx.difference(found, true).number_of_edges()
        assert ours.false_negatives == nx.difference(true, found).number_of_edges()
        assert ours.true_positives == nx.intersection(found, true).number_of_edges()
        assert ours.true_negatives == nx.complement(nx.compose(found, true)).number_of_edges()


@pytest.mark.parametrize(
    ("counts", "without_value"),
    [
        ((0, 0, 3, 7), {"precision", "f_score"}),  # nothing found
        ((0, 3, 0, 7), {"recall", "f_score"}),  # nothing to find
        ((0, 0, 0, 10), {"precision", "recall", "f_score"}),
        ((0, 0, 0, 0), {"precision", "recall", "f_score", "error"}),
        ((0, 2, 3, 5), set()),
    ],
)
def test_a_measure_without_a_value_is_nan(counts, without_value):
    comparison = Comparison(*counts)
    for name in ("error", "precision", "recall", "f_score"):
        assert math.isnan(getattr(comparison, name)) == (name in without_value)


def test_all_wrong_is_zero_and_all_right_is_one():
    wrong, right = Comparison(0, 2, 3, 5), Comparison(4, 0, 0, 6)
    assert (wrong.precision, wrong.recall, wrong.f_score, wrong.error) == (0, 0, 0, 0.5)
    assert (right.precision, right.recall, right.f_score, right.error) == (1, 1, 1, 0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_graph_is_refused(function):
    truth = graph(3, (0, 1))
    with pytest.raises(InputError, match="estimate has 2 nodes and the truth 3"):
        function(graph(2), truth)
    with pytest.raises(GraphError, match="square"):
        function(np.zeros((2, 3)), truth)
    with pytest.raises(GraphError, match=r"entry \(1, 2\) is 0.5"):
        function([[0, 1, 0], [0, 0, 0.5], [0, 0, 0]], truth)
    with pytest.raises(GraphError, match="edge to itself"):
        function(truth, np.eye(3))
