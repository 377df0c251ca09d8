import sys

import networkx as nx
import numpy as np
import pytest
from graph_oracles import random_dag
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mtgbn.errors import ExtraNotInstalledError, GraphError
from mtgbn.graphs import cpdag, from_networkx, to_networkx
from mtgbn.graphs.convert import (
    from_dot,
    from_edge_list,
    from_graphml,
    to_dot,
    to_edge_list,
    to_graphml,
)

HOSTILE_NAMES = [
    *["", " ", "a b", '"', '""', "\\", "\\\\", '\\"', "end\\", "\\N", "\\n", "\\l", "a\\\nb", "\n"],
    *["\r\n", "\t", "<b>", "<<b>", "&amp;", "<!-- -->", "]]>", "//x", "/* x */", "# x", "a:b"],
    *["a;b", "a->b", "a--b", "node", "edge", "graph", "digraph", "strict", "subgraph", "{", "}"],
    *["[dir=none]", "-1.5", "1", "+", "ä", "日本", "😀", "\u2028", "%s", "{0}", "None"],
]
TWO_WAY_AND_ONE_WAY = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)


def named_graphs(names):
    """Any matrix with a false diagonal, with distinct names for its nodes."""

    def with_matrix(names):
        shape = (len(names), len(names))
        matrices = npst.arrays(bool, shape).map(lambda m: m & ~np.eye(len(m), dtype=bool))
        return st.tuples(matrices, st.just(names))

    return st.lists(names, max_size=7, unique=True).flatmap(with_matrix)


def hostile_ring():
    p = len(HOSTILE_NAMES)
    return np.roll(np.eye(p, dtype=bool), 1, axis=1), HOSTILE_NAMES


def or_hostile(strategy):
    return st.one_of(strategy, st.sampled_from(HOSTILE_NAMES))


ANY_TEXT = or_hostile(st.text(max_size=8))
DOT_SYNTAX = or_hostile(st.text(alphabet='\\"\n\r <>:;-+nNrl{}[]#/*', max_size=8))
XML_TEXT = or_hostile(
    st.text(
        alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
        max_size=8,
    )
)


def assert_same(result, matrix, names):
    assert result[1] == names
    assert result[0].dtype == bool
    np.testing.assert_array_equal(result[0], matrix)


@settings(deadline=None, max_examples=50)
@given(named_graphs(st.one_of(st.integers(), ANY_TEXT, st.tuples(st.integers()))))
def test_networkx_and_back(graph):
    matrix, names = graph
    assert_same(from_networkx(to_networkx(matrix, names)), matrix, names)


@settings(deadline=None, max_examples=50)
@given(named_graphs(ANY_TEXT))
def test_edge_list_and_back(graph):
    matrix, names = graph
    np.testing.assert_array_equal(from_edge_list(to_edge_list(matrix, names), names), matrix)
    np.testing.assert_array_equal(from_edge_list(to_edge_list(matrix), len(matrix)), matrix)


@settings(deadline=None, max_examples=50)
@given(named_graphs(st.one_of(ANY_TEXT, DOT_SYNTAX)))
@example(hostile_ring())
def test_dot_and_back(graph):
    matrix, names = graph
    assert_same(from_dot(to_dot(matrix, names)), matrix, names)


@settings(deadline=None, max_examples=50)
@given(named_graphs(XML_TEXT))
@example(hostile_ring())
def test_graphml_and_back(graph):
    matrix, names = graph
    assert_same(from_graphml(to_graphml(matrix, names)), matrix, names)


@pytest.mark.parametrize(
    ("write", "read"),
    [(to_dot, from_dot), (to_graphml, from_graphml), (to_networkx, from_networkx)],
)
def test_a_cpdag_survives_without_names(write, read):
    pattern = cpdag(random_dag(np.random.default_rng(0), 12, 0.2))
    matrix, names = read(write(pattern))
    assert [str(name) for name in names] == [str(i) for i in range(12)]
    np.testing.assert_array_equal(matrix, pattern)


def test_edge_list_is_row_major_and_holds_both_ways():
    edges = to_edge_list(TWO_WAY_AND_ONE_WAY, "abcd")
    assert edges == [("a", "b"), ("b", "a"), ("b", "c")]
    assert to_edge_list(TWO_WAY_AND_ONE_WAY) == [(0, 1), (1, 0), (1, 2)]


def test_dot_text_by_example():
    assert to_dot(TWO_WAY_AND_ONE_WAY, ["a", 'say "b"', "<c>", "d\\e"]) == (
        'digraph {\n  "a";\n  "say \\"b\\"";\n  "<c>";\n  "d\\\\e";\n'
        '  "a" -> "say \\"b\\"" [dir=none];\n  "say \\"b\\"" -> "<c>";\n}\n'
    )


@pytest.mark.parametrize(
    ("text", "names", "edges"),
    [
        ("digraph G { a -> b -> c; }", "abc", ["ab", "bc"]),
        ("graph { b -- a; c }", "bac", ["ab", "ba"]),
        ("graph { a -- b [dir=forward] }", "ab", ["ab", "ba"]),
        ('digraph { a; "a" -> "b" [dir="back"]; a -> b }', "ab", ["ba", "ab"]),
        ("digraph { a -> b [dir=both, color=red]; b -> c [dir=odd] }", "abc", ["ab", "ba", "bc"]),
        ("digraph { a -> b; edge [dir=none]; a -> c; a -> d [dir=forward] }", "abcd",
         ["ab", "ac", "ca", "ad"]),
        ("digraph { node [shape=box]; graph [rankdir=LR]; x:n -> y:p:s }", "xy", ["xy"]),
        ("strict digraph { subgraph cluster_0 { b; a -> c } c -> b /* c */ // d\n }", "bac",
         ["ac", "cb"]),
        ('digraph { subgraph { edge [dir=back] a -> b } a -> c }', "abc", ["ba", "ac"]),
        ("digraph {}", "", []),
    ],
)  # fmt: skip
def test_dot_from_elsewhere(text, names, edges):
    expected = from_edge_list([tuple(edge) for edge in edges], names)
    assert_same(from_dot(text), expected, list(names))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digraph { a -> ", "not a graph in the DOT language:\n.*Expected"),
        ("digraph {a} digraph {b}", "holds 2 graphs"),
        ("digraph { {a b} -> c }", "joins a whole subgraph"),
        ("digraph { <b>x</b>> }", "DOT language"),
        ("digraph { <i> -> a }", "HTML-like node <i> has no plain name"),
        ("digraph { a -> a }", "node 'a' has an edge to itself"),
    ],
)
def test_dot_that_cannot_be_read(text, message, capsys):
    with pytest.raises(GraphError, match=f"(?s){message}"):
        from_dot(text)
    assert capsys.readouterr() == ("", "")


def test_networkx_graphs_of_all_kinds():
    undirected = nx.path_graph(["c", "a", "b"])
    matrix, names = from_networkx(undirected, names=["a", "b", "c"])
    assert names == ["a", "b", "c"]
    np.testing.assert_array_equal(matrix, nx.to_numpy_array(undirected, names))

    parallel = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)])
    parallel.add_edge(2, 0, weight=0)
    assert to_edge_list(from_networkx(parallel)[0]) == [(0, 1), (1, 2), (2, 0)]


def test_networkx_nodes_are_in_order_and_complete():
    graph = to_networkx(TWO_WAY_AND_ONE_WAY, "dcba")
    assert isinstance(graph, nx.DiGraph)
    assert list(graph.nodes) == ["d", "c", "b", "a"]
    assert set(graph.edges) == {("d", "c"), ("c", "d"), ("c", "b")}


def test_undirected_graphml_is_symmetric():
    text = "\n".join(nx.generate_graphml(nx.path_graph(3)))
    assert_same(from_graphml(text), nx.to_numpy_array(nx.path_graph(3)), ["0", "1", "2"])


@pytest.mark.parametrize("text", ["", "<graphml>", "<html></html>"])
def test_graphml_that_cannot_be_read(text):
    with pytest.raises(GraphError, match="not a GraphML graph"):
        from_graphml(text)


def test_graphml_refuses_what_xml_cannot_hold():
    with pytest.raises(GraphError, match=r"name 'a\\x00' has a character that XML cannot hold"):
        to_graphml([[0]], ["a\0"])


@pytest.mark.parametrize("write", [to_edge_list, to_networkx, to_dot, to_graphml])
def test_names_must_fit(write):
    with pytest.raises(GraphError, match="'a' is used twice"):
        write(np.zeros((3, 3)), ["a", "b", "a"])
    with pytest.raises(GraphError, match="2 names for 3 nodes"):
        write(np.zeros((3, 3)), ["a", "b"])


def test_names_must_stay_distinct_as_text():
    with pytest.raises(GraphError, match="'1' is used twice"):
        to_dot(np.zeros((2, 2)), [1, "1"])


@pytest.mark.parametrize(
    ("edges", "names", "message"),
    [
        ([("a", "b"), ("b", "z")], "ab", r"edge \('b', 'z'\): 'z' is not one of the 2 names"),
        ([(0, 3)], 3, r"edge \(0, 3\): 3 is not one of the 3 names"),
        ([(-1, 0)], 3, r"-1 is not one of"),
        ([("a", "a")], "ab", "node 'a' has an edge to itself"),
        ([("a", "b", 0.5)], "ab", r"a pair \(source, target\), not \('a', 'b', 0.5\)"),
        ([7], 9, r"a pair \(source, target\), not 7"),
        ([], "aba", "'a' is used twice"),
    ],
)
def test_edge_lists_that_cannot_be_read(edges, names, message):
    with pytest.raises(GraphError, match=message):
        from_edge_list(edges, names)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "lacks 'b'"), (["a", "b", "c"], "lists 'c'"), (["a", "b", "a"], "used twice")],
)
def test_networkx_names_must_be_the_nodes(names, message):
    with pytest.raises(GraphError, match=message):
        from_networkx(nx.DiGraph([("a", "b")]), names)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("networkx", lambda: to_networkx([[0]])),
        ("networkx", lambda: to_graphml([[0]])),
        ("networkx", lambda: from_graphml("")),
        ("pydot", lambda: from_dot("")),
    ],
)
def test_a_missing_extra_says_what_to_install(module, call, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ExtraNotInstalledError, match=rf"need {module}: pip install 'mtgbn\[graphs\]'"
    ):
        call()
