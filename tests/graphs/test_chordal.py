import itertools
import re
from collections import Counter
from math import comb

import networkx as nx
import numpy as np
import pytest
from graph_oracles import minimum_fill, random_chordal, random_undirected, sparse_dag

from mtgbn.errors import GraphError
from mtgbn.graphs import cpdag, is_dag, skeleton
from mtgbn.graphs.chordal import is_chordal, junction_tree, perfect_dag, triangulate
from mtgbn.graphs.convert import from_edge_list, to_edge_list
from mtgbn.graphs.dags import moral_graph, v_structures

# Rare: here eliminating by fewest fill edges alone leaves one that can be dropped.
REDUNDANT_FILL = skeleton(
    from_edge_list(
        [
            *[(0, 1), (0, 5), (1, 7), (1, 11), (2, 4), (2, 5), (3, 4), (3, 5), (3, 10)],
            *[(5, 10), (6, 7), (6, 8), (6, 9), (6, 11), (7, 11), (7, 12), (9, 12), (11, 12)],
        ],
        names=13,
    )
)


@pytest.fixture(scope="module")
def atlas():
    """All 1252 graphs with one to seven nodes, each under one random labelling."""
    rng = np.random.default_rng(7)
    graphs = []
    for graph in nx.graph_atlas_g()[1:]:
        order = rng.permutation(len(graph))
        graphs.append(nx.to_numpy_array(graph, dtype=bool)[np.ix_(order, order)])
    return graphs


@pytest.fixture(scope="module")
def chordal_graphs():
    rng = np.random.default_rng(8)
    graphs = [random_chordal(rng, rng.integers(1, 14), rng.uniform(0.05, 1.0)) for _ in range(1000)]
    limits = [np.zeros((1, 1)), np.zeros((6, 6)), 1 - np.eye(1), 1 - np.eye(7)]
    return graphs + [limit.astype(bool) for limit in limits]


def n_edges(graph):
    return int(graph.sum()) // 2


def nx_is_chordal(graph):
    return nx.is_chordal(nx.from_numpy_array(graph))


def test_is_chordal_agrees_with_networkx(atlas):
    rng = np.random.default_rng(9)
    sparse = [random_undirected(rng, rng.integers(4, 12), rng.uniform(0, 0.9)) for _ in range(500)]
    answers = [is_chordal(graph) for graph in atlas + sparse]
    assert answers == [nx_is_chordal(graph) for graph in atlas + sparse]
    assert 0.2 < np.mean(answers) < 0.8


def test_the_chordless_cycle_shown_is_one(atlas):
    rng = np.random.default_rng(10)
    larger = [
        random_undirected(rng, rng.integers(8, 25), rng.uniform(0.1, 0.7)) for _ in range(300)
    ]
    lengths = Counter()
    for graph in atlas + larger:
        if is_chordal(graph):
            continue
        with pytest.raises(GraphError, match=r"apply triangulate\(\) first") as caught:
            junction_tree(graph)
        *cycle, end = (int(node) for node in re.findall(r"\d+", str(caught.value)))
        assert end == cycle[0] == min(cycle)
        induced = nx.from_numpy_array(graph).subgraph(cycle)
        assert len(set(cycle)) == len(cycle) >= 4
        assert {frozenset(edge) for edge in induced.edges} == {
            frozenset(edge) for edge in zip(cycle, [*cycle[1:], end], strict=True)
        }
        lengths[len(cycle)] += 1
    assert min(lengths[4], lengths[5], lengths[6], lengths[7]) > 0


def test_a_square_has_no_perfect_dag():
    square = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    with pytest.raises(GraphError, match="cycle 0 - 1 - 2 - 3 - 0 has no chord"):
        perfect_dag(square)


def test_cliques_agree_with_networkx(chordal_graphs):
    for graph in chordal_graphs:
        cliques = junction_tree(graph).cliques
        assert all(list(clique) == sorted(clique) for clique in cliques)
        expected = nx.chordal_graph_cliques(nx.from_numpy_array(graph))
        assert Counter(map(frozenset, cliques)) == Counter(expected)


def test_separators_are_those_of_a_maximum_weight_spanning_forest(chordal_graphs):
    for graph in chordal_graphs:
        tree = junction_tree(graph)
        clique_graph = nx.Graph()
        clique_graph.add_nodes_from(tree.cliques)
        for one, two in itertools.combinations(tree.cliques, 2):
            if shared := set(one) & set(two):
                clique_graph.add_edge(one, two, weight=len(shared))
        forest = nx.maximum_spanning_edges(clique_graph, data=False)
        expected = Counter(tuple(sorted(set(one) & set(two))) for one, two in forest)
        assert Counter(separator for separator in tree.separators if separator) == expected


def test_junction_trees_have_the_running_intersection_property(chordal_graphs):
    for graph in chordal_graphs:
        tree = junction_tree(graph)
        assert len(tree.cliques) == len(tree.separators) == len(tree.parents)
        assert (tree.separators[0], tree.parents[0]) == ((), -1)
        seen = set()
        for j, (clique, separator, parent) in enumerate(zip(*tree, strict=True)):
            assert set(clique) & seen == set(separator)
            assert list(separator) == sorted(separator)
            if separator:
                assert 0 <= parent < j
                assert set(separator) <= set(tree.cliques[parent])
            else:
                assert parent == -1
            seen |= set(clique)
        assert seen == set(range(len(graph)))
        n_components = nx.number_connected_components(nx.from_numpy_array(graph))
        assert tree.parents.count(-1) == n_components


def test_nodes_and_edges_are_cliques_minus_separators(chordal_graphs):
    for graph in chordal_graphs:
        tree = junction_tree(graph)
        for size, total in ((1, len(graph)), (2, n_edges(graph))):
            assert total == sum(comb(len(clique), size) for clique in tree.cliques) - sum(
                comb(len(separator), size) for separator in tree.separators
            )


def test_a_perfect_dag_means_the_same_as_its_chordal_graph(chordal_graphs):
    for graph in chordal_graphs:
        dag = perfect_dag(graph)
        assert is_dag(dag)
        assert v_structures(dag) == []
        for same in (skeleton(dag), moral_graph(dag), cpdag(dag)):
            np.testing.assert_array_equal(same, graph)


def test_a_chordal_graph_is_its_own_triangulation(chordal_graphs):
    for graph in chordal_graphs:
        np.testing.assert_array_equal(triangulate(graph), graph)


def test_triangulations_are_chordal_and_minimal(atlas):
    rng = np.random.default_rng(11)
    larger = [random_undirected(rng, rng.integers(8, 20), rng.uniform(0.1, 0.6)) for _ in range(50)]
    for graph in [*atlas[::4], *larger, REDUNDANT_FILL]:
        filled = triangulate(graph)
        assert (filled | ~graph).all()
        assert nx_is_chordal(filled)
        for i, j in np.argwhere(np.triu(filled & ~graph)):
            filled[i, j] = filled[j, i] = False
            assert not nx_is_chordal(filled)
            filled[i, j] = filled[j, i] = True


def test_graphs_of_up_to_seven_nodes_get_the_fewest_fill_edges(atlas):
    # Min-fill is a heuristic: on larger graphs it may add more than it must.
    needy = [graph for graph in atlas if not is_chordal(graph)]
    found = [n_edges(triangulate(graph) & ~graph) for graph in needy]
    assert len(needy) == 721
    assert found == [minimum_fill(graph) for graph in needy]


def test_fewer_fill_edges_than_networkx_on_average(atlas):
    rng = np.random.default_rng(12)
    graphs = atlas + [random_undirected(rng, 25, 0.15) for _ in range(20)]
    ours = [n_edges(triangulate(graph) & ~graph) for graph in graphs]
    theirs = [
        nx.complete_to_chordal_graph(nx.from_numpy_array(graph))[0].size() - n_edges(graph)
        for graph in graphs
    ]
    assert np.mean(ours[: len(atlas)]) <= np.mean(theirs[: len(atlas)])
    assert np.mean(ours[len(atlas) :]) <= np.mean(theirs[len(atlas) :])


def test_the_example_of_the_paper():
    # The text fixes B -> F <- E with B and E apart, and a decomposable moral graph with four
    # cliques and three separators. The figure's remaining edges are our reading.
    names = "ABCDEF"
    edges = [("A", "B"), ("A", "E"), ("B", "C"), ("E", "D"), ("B", "F"), ("E", "F")]
    dag = from_edge_list(edges, names)
    moral = moral_graph(dag)
    assert to_edge_list(moral & ~skeleton(dag), names) == [("B", "E"), ("E", "B")]

    cliques, separators, _ = junction_tree(moral)
    assert {"".join(names[i] for i in clique) for clique in cliques} == {"ABE", "BC", "BEF", "DE"}
    assert separators[0] == ()
    assert {"".join(names[i] for i in rest) for rest in separators[1:]} == {"B", "BE", "E"}


def test_a_graph_without_nodes_has_an_empty_tree():
    empty = np.zeros((0, 0))
    assert junction_tree(empty) == ((), (), ())
    assert is_chordal(empty)
    assert triangulate(empty).shape == perfect_dag(empty).shape == (0, 0)


def test_a_large_triangulation_agrees_with_networkx():
    graph = triangulate(moral_graph(sparse_dag(0, p=400, n_edges=600)))
    expected = nx.chordal_graph_cliques(nx.Graph(graph.astype(int)))
    assert set(junction_tree(graph).cliques) == {tuple(sorted(clique)) for clique in expected}
