import numpy as np
import pytest
from graph_oracles import (
    all_dags,
    all_pdags,
    markov_classes,
    random_dag,
    sparse_dag,
    v_structure_flags,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgbn.errors import GraphError
from mtgbn.graphs import cpdag, is_dag, skeleton
from mtgbn.graphs.dags import v_structures
from mtgbn.graphs.equivalence import consistent_extension, restricted_cpdag


@pytest.mark.parametrize(
    ("p", "n_dags", "n_classes"), [(2, 3, 2), (3, 25, 11), (4, 543, 185), (5, 29281, 8782)]
)
def test_the_cpdag_is_the_union_of_all_markov_equivalent_dags(p, n_dags, n_classes):
    # The numbers are those of Gillispie and Perlman (2001): the enumeration misses nothing.
    dags = all_dags(p)
    classes = markov_classes(dags)
    assert (len(dags), classes.max() + 1) == (n_dags, n_classes)

    unions = np.zeros((n_classes, p, p), dtype=bool)
    np.logical_or.at(unions, classes, dags)
    np.testing.assert_array_equal([cpdag(dag) for dag in dags], unions[classes])

    members = {dag.tobytes(): number for dag, number in zip(dags, classes, strict=True)}
    for number, union in enumerate(unions):
        assert members[consistent_extension(union).tobytes()] == number


@pytest.mark.parametrize(("p", "n_tries"), [(3, 200), (4, 600), (5, 600)])
def test_the_restricted_cpdag_is_the_union_of_the_equivalent_dags_that_are_allowed(p, n_tries):
    dags = all_dags(p)
    classes = markov_classes(dags)
    rng = np.random.default_rng(p)
    n_restricted = 0
    for chosen in rng.integers(len(dags), size=n_tries):
        dag = dags[chosen]
        allowed = (rng.random((p, p)) < rng.uniform(0.5, 1)) | dag
        members = dags[classes == classes[chosen]]
        members = members[~(members & ~allowed).any(axis=(1, 2))]
        found = restricted_cpdag(dag, allowed)
        np.testing.assert_array_equal(found, members.any(axis=0))
        n_restricted += (found != cpdag(dag)).any()
    assert n_restricted > n_tries / 10


def test_the_fourth_rule_is_needed():
    """Meek's example: i - k -> l -> j with k and j apart, and all of them next to i."""
    i, j, k, l = range(4)  # noqa: E741
    dag = np.zeros((4, 4), dtype=bool)
    for source, target in ((k, l), (l, j), (i, j), (i, k), (i, l)):
        dag[source, target] = True
    allowed = np.ones((4, 4), dtype=bool)
    allowed[l, k] = allowed[j, l] = False
    found = restricted_cpdag(dag, allowed)
    assert found[i, j]
    assert not found[j, i]


def test_a_pdag_is_extended_exactly_when_brute_force_finds_an_extension():
    dags = all_dags(4)
    dag_skeletons, dag_flags = dags | dags.transpose(0, 2, 1), v_structure_flags(dags)
    pdags = all_pdags(4)
    n_extended = 0
    for pdag, flags in zip(pdags, v_structure_flags(pdags), strict=True):
        fits = (
            (dag_skeletons == (pdag | pdag.T)).all(axis=(1, 2))
            & (dags | ~(pdag & ~pdag.T)).all(axis=(1, 2))
            & (dag_flags == flags).all(axis=1)
        )
        if fits.any():
            extension = consistent_extension(pdag)
            assert (dags[fits] == extension).all(axis=(1, 2)).any()
            n_extended += 1
        else:
            with pytest.raises(GraphError, match="no DAG extends this PDAG"):
                consistent_extension(pdag)
    assert 500 < n_extended < len(pdags) - 500


def test_larger_classes_survive_the_way_there_and_back():
    rng = np.random.default_rng(1)
    for _ in range(300):
        dag = random_dag(rng, rng.integers(6, 30), rng.uniform(0, 0.5))
        pattern = cpdag(dag)
        extension = consistent_extension(pattern)
        assert is_dag(extension)
        np.testing.assert_array_equal(skeleton(extension), skeleton(dag))
        assert v_structures(extension) == v_structures(dag) == v_structures(pattern)
        np.testing.assert_array_equal(cpdag(extension), pattern)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 12), data=st.data())
def test_relabelling_the_nodes_relabels_the_cpdag(seed, p, data):
    dag = random_dag(np.random.default_rng(seed), p, 0.4)
    order = data.draw(st.permutations(range(p)))
    index = np.ix_(order, order)
    np.testing.assert_array_equal(cpdag(dag[index]), cpdag(dag)[index])


def test_a_free_choice_follows_the_indices():
    complete = ~np.eye(5, dtype=bool)
    np.testing.assert_array_equal(consistent_extension(complete), np.triu(complete))


def test_a_directed_cycle_in_a_pdag_is_shown():
    pdag = [[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    with pytest.raises(GraphError, match="form the cycle 0 -> 1 -> 2 -> 0"):
        consistent_extension(pdag)


def test_the_nodes_that_block_an_extension_are_listed():
    square = np.zeros((6, 6), dtype=bool)
    for i, j in [(1, 2), (2, 3), (3, 4), (4, 1)]:
        square[i, j] = square[j, i] = True
    with pytest.raises(GraphError, match=r"each of the nodes 1, 2, 3, 4 has a child or"):
        consistent_extension(square)
    ring = np.roll(np.eye(15, dtype=bool), 1, axis=1)
    with pytest.raises(GraphError, match=r"nodes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 5 more has"):
        consistent_extension(ring | ring.T)


def test_a_cpdag_needs_a_dag():
    with pytest.raises(GraphError, match="a DAG is needed"):
        cpdag([[0, 1], [1, 0]])


def test_a_large_dag_comes_back_from_its_class():
    dag = sparse_dag(0, p=400, n_edges=600)
    pattern = cpdag(dag)
    np.testing.assert_array_equal(cpdag(consistent_extension(pattern)), pattern)
