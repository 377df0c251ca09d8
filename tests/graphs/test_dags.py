import re
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from graph_oracles import random_dag, sparse_dag, v_structure_flags
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgbn.errors import GraphError
from mtgbn.graphs import cpdag, is_dag, skeleton
from mtgbn.graphs.chordal import is_chordal
from mtgbn.graphs.convert import to_dot
from mtgbn.graphs.dags import find_cycle, moral_graph, topological_order, v_structures


def as_networkx(matrix):
    return nx.from_numpy_array(matrix, create_using=nx.DiGraph)


def test_is_dag_agrees_with_networkx():
    rng = np.random.default_rng(1)
    answers = []
    for _ in range(2000):
        p = rng.integers(1, 9)
        matrix = (rng.random((p, p)) < rng.uniform(0.02, 0.3)) & ~np.eye(p, dtype=bool)
        answers.append(is_dag(matrix))
        assert answers[-1] == nx.is_directed_acyclic_graph(as_networkx(matrix))
    assert 0.2 < np.mean(answers) < 0.8


def test_topological_order_is_the_lexicographically_first():
    rng = np.random.default_rng(2)
    for _ in range(1000):
        dag = random_dag(rng, rng.integers(1, 15), rng.uniform(0, 0.6))
        assert topological_order(dag) == list(nx.lexicographical_topological_sort(as_networkx(dag)))


def test_a_directed_cycle_is_shown():
    matrix = np.zeros((9, 9), dtype=int)
    for i, j in [(0, 2), (2, 5), (5, 7), (7, 2), (7, 8), (8, 1)]:
        matrix[i, j] = 1
    with pytest.raises(GraphError, match=r"cycle 2 -> 5 -> 7 -> 2; remove or reverse"):
        topological_order(matrix)


def test_every_cycle_shown_is_a_cycle_of_the_graph():
    rng = np.random.default_rng(3)
    shown = 0
    for _ in range(500):
        p = rng.integers(2, 12)
        matrix = (rng.random((p, p)) < 0.3) & ~np.eye(p, dtype=bool)
        if is_dag(matrix):
            continue
        with pytest.raises(GraphError) as caught:
            topological_order(matrix)
        nodes = [int(node) for node in re.findall(r"\d+", str(caught.value))]
        assert nodes[0] == nodes[-1] == min(nodes)
        assert len(set(nodes)) == len(nodes) - 1
        assert matrix[nodes[:-1], nodes[1:]].all()
        shown += 1
    assert shown > 200


def test_a_two_way_pair_where_a_dag_is_needed_comes_with_advice():
    with pytest.raises(GraphError, match=r"0 -> 1 -> 0; .*consistent_extension"):
        moral_graph([[0, 1], [1, 0]])


def test_moral_graph_agrees_with_networkx():
    rng = np.random.default_rng(4)
    for _ in range(1000):
        dag = random_dag(rng, rng.integers(1, 12), rng.uniform(0, 0.6))
        expected = nx.to_numpy_array(nx.moral_graph(as_networkx(dag)), dtype=bool)
        np.testing.assert_array_equal(moral_graph(dag), expected)


def test_v_structures_agree_with_networkx_and_with_the_definition():
    rng = np.random.default_rng(5)
    for _ in range(500):
        dag = random_dag(rng, rng.integers(1, 10), rng.uniform(0, 0.6))
        expected = {(min(i, j), k, max(i, j)) for i, k, j in nx.dag.v_structures(as_networkx(dag))}
        assert v_structures(dag) == sorted(expected)
        assert len(expected) == v_structure_flags(dag[None]).sum()


def test_undirected_edges_make_no_v_structure():
    pdag = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    assert v_structures(pdag) == []
    np.testing.assert_array_equal(skeleton(pdag), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 12), data=st.data())
def test_relabelling_the_nodes_relabels_the_moral_graph(seed, p, data):
    dag = random_dag(np.random.default_rng(seed), p, 0.4)
    order = data.draw(st.permutations(range(p)))
    index = np.ix_(order, order)
    np.testing.assert_array_equal(moral_graph(dag[index]), moral_graph(dag)[index])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([0, 1], r"square, but its shape is \(2,\)"),
        (np.zeros((2, 3)), r"square, but its shape is \(2, 3\)"),
        ([[0, 1], [0]], "rectangular"),
        ([[0, 0.5], [0, 0]], r"entry \(0, 1\) is 0.5, .*weights != 0"),
        ([[0, 0], [-1, 0]], r"entry \(1, 0\) is -1"),
        ([[0, np.nan], [0, 0]], r"entry \(0, 1\) is nan"),
        ([[0, None], [0, 0]], r"entry \(0, 1\) is None"),
        ([["0", "1"], ["0", "0"]], r"entry \(0, 0\) is '0'"),
        ([[0, 0], [0, 1]], r"node 1 has an edge to itself; .*\(1, 1\)"),
    ],
)
@pytest.mark.parametrize("function", [is_dag, skeleton, cpdag, is_chordal, to_dot])
def test_what_is_no_graph_is_refused_everywhere(function, matrix, message):
    with pytest.raises(GraphError, match=message):
        function(matrix)


def test_an_asymmetric_entry_is_named():
    with pytest.raises(GraphError, match=r"entry \(2, 0\) is 1 and \(0, 2\) is 0"):
        is_chordal([[0, 1, 0], [1, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize("convert", [np.array, np.float32, list, lambda m: np.array(m, dtype="O")])
def test_any_array_of_zeros_and_ones_will_do(convert):
    dag = convert([[0, 1, 0], [0, 0, 0], [0, 1, 0]])
    assert topological_order(dag) == [0, 2, 1]
    assert moral_graph(dag).dtype == bool
    assert moral_graph(dag)[0, 2]


@pytest.mark.parametrize("p", [0, 1])
def test_graphs_without_edges_are_graphs(p):
    empty = np.zeros((p, p))
    assert is_dag(empty)
    assert topological_order(empty) == list(range(p))
    assert moral_graph(empty).shape == skeleton(empty).shape == (p, p)
    assert v_structures(empty) == []


def test_the_input_is_left_alone():
    dag = sparse_dag(0, 20, 40)
    before = dag.copy()
    for function in (skeleton, moral_graph, cpdag):
        function(dag)[:] = True
    np.testing.assert_array_equal(dag, before)


def test_the_package_imports_nothing_heavy():
    code = (
        "import sys, mtgbn.graphs; "
        "sys.exit(', '.join({'networkx', 'pydot', 'numba', 'scipy'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_find_cycle_walks_along_edges_from_the_smallest_node():
    assert find_cycle(np.triu(np.ones((4, 4)), 1)) == []
    for seed in range(200):
        matrix = np.random.default_rng(seed).random((6, 6)) < 0.3
        np.fill_diagonal(matrix, False)
        cycle = find_cycle(matrix)
        assert bool(cycle) != nx.is_directed_acyclic_graph(nx.DiGraph(matrix.astype(int)))
        if cycle:
            assert cycle[0] == min(cycle)
            assert len(set(cycle)) == len(cycle)
            assert all(matrix[i, j] for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
