"""Signed sets against sets that are spelled out."""

from collections import Counter

import naive
import numpy as np
import pytest

from mtgbn.errors import GraphError
from mtgbn.graphs.chordal import perfect_dag, triangulate
from mtgbn.model.densities import log_normaliser
from mtgbn.model.signed_sets import (
    SignedSets,
    cliques_and_separators,
    concatenate,
    distinct_families,
    families,
    signed_sets,
)


def pairs(sets: SignedSets):
    """(inner, outer, weight) of every pair, as sets."""
    spelled = []
    for b, weight in enumerate(sets.weights):
        members = sets.members[sets.starts[b] : sets.starts[b + 1]].tolist()
        assert len(set(members)) == len(members) == sets.outer_sizes[b]
        spelled.append(
            (frozenset(members[: sets.inner_sizes[b]]), frozenset(members), float(weight))
        )
    return spelled


def net(signed):
    """Total sign of every set, zeros and the empty set left out."""
    total = Counter()
    for sign, variables in signed:
        total[frozenset(variables)] += sign
    return {variables: sign for variables, sign in total.items() if sign and variables}


def net_of_pairs(sets: SignedSets):
    return net(
        signed
        for inner, outer, weight in pairs(sets)
        for signed in ((weight, outer), (-weight, inner))
    )


@pytest.mark.parametrize("p", [1, 2, 5, 9, 20])
def test_families_are_nodes_with_their_parents(p):
    adjacency = naive.random_dag(np.random.default_rng(p), p, 0.4)
    expected = [
        (
            frozenset(naive.parents_of(adjacency, k)),
            frozenset({*naive.parents_of(adjacency, k), k}),
            1.0,
        )
        for k in range(p)
    ]
    assert pairs(families(adjacency)) == expected
    assert pairs(signed_sets(adjacency)) == expected


def test_families_of_many_dags_come_dag_by_dag():
    rng = np.random.default_rng(1)
    adjacencies = np.array([naive.random_dag(rng, 6, 0.5) for _ in range(4)])
    expected = [pair for adjacency in adjacencies for pair in pairs(families(adjacency))]
    assert pairs(families(adjacencies)) == expected
    assert pairs(concatenate([families(adjacency) for adjacency in adjacencies])) == expected


# More than 8 and 16 variables: parents are compared as packed bits.
@pytest.mark.parametrize("p", [1, 3, 8, 9, 17])
def test_distinct_families_count_how_often_each_occurs(p):
    rng = np.random.default_rng(p)
    base = naive.random_dag(rng, p, 0.3)
    adjacencies = np.array([base & (rng.random((p, p)) < 0.8) for _ in range(7)])
    counts = Counter(pairs(families(adjacencies)))
    merged = pairs(distinct_families(adjacencies))
    assert len(merged) == len(counts)
    assert {(i, o): w for i, o, w in merged} == {(i, o): c for (i, o, _), c in counts.items()}


@pytest.mark.parametrize("p", [1, 2, 5, 10])
@pytest.mark.parametrize("density", [0.1, 0.4, 0.8])
def test_cliques_and_separators_are_the_families_of_a_perfect_orientation(p, density):
    upper = np.triu(np.random.default_rng(p).random((p, p)) < density, 1)
    chordal = triangulate(upper | upper.T)
    cliques = net_of_pairs(cliques_and_separators(chordal))
    assert cliques == net_of_pairs(families(perfect_dag(chordal)))
    assert cliques == net(naive.elimination_sets(chordal))


def test_a_dag_without_v_structures_has_the_constant_of_its_skeleton():
    chain = np.diag(np.ones(4), 1)
    matrix = naive.random_covariance(np.random.default_rng(2), 5)
    assert log_normaliser(chain, 2.3, matrix) == pytest.approx(
        log_normaliser(chain + chain.T, 2.3, matrix), rel=1e-12
    )


def test_lists_of_sets_are_taken_as_they_are():
    matrix = naive.random_covariance(np.random.default_rng(3), 4)
    sets = [(+1, (2, 0)), (-1, [0]), (+2, range(4)), (-1, ())]
    assert net_of_pairs(signed_sets(sets)) == net(sets)
    expected = naive.log_normaliser([(sign, tuple(v)) for sign, v in sets], 1.7, matrix)
    assert log_normaliser(sets, 1.7, matrix) == pytest.approx(expected, rel=1e-12)
    made = signed_sets(sets)
    assert signed_sets(made) is made


def test_the_empty_set_has_the_constant_zero():
    assert log_normaliser([(+1, ())], 1.7, np.eye(2)) == 0.0


def test_nested_lists_are_adjacency_matrices():
    for adjacency in ([[0, 1], [0, 0]], ((0, 1), (1, 0)), [[0, 0], [0, 0]], [[0]]):
        assert net_of_pairs(signed_sets(adjacency)) == net_of_pairs(
            signed_sets(np.array(adjacency))
        )


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ([(1, (0, 0))], "names a variable twice"),
        ([(1, (0, 1)), (-1, (2, 1, 2))], r"\(2, 1, 2\) names a variable twice"),
        (np.zeros((2, 3)), r"\(2, 3\)"),
        (np.zeros((2, 2, 2)), r"\(2, 2, 2\)"),
        ([], r"\(0,\)"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "0 -> 1 -> 2 -> 0"),
        (np.eye(2), "edge to itself"),
        ([[0, 3], [0, 0]], r"\(0, 1\) is 3"),
    ],
)
def test_what_is_no_structure_is_named(structure, message):
    with pytest.raises(GraphError, match=message):
        signed_sets(structure)


@pytest.mark.parametrize("inner_size", [-1, 3, 100_000])
def test_signed_sets_that_do_not_fit_together_are_refused(inner_size):
    """Compiled code would read beyond its arrays."""
    made = signed_sets([(+1, (0, 1))])._replace(inner_sizes=np.array([inner_size]))
    with pytest.raises(GraphError, match="do not fit together"):
        log_normaliser(made, 3.0, 5 * np.eye(3))
