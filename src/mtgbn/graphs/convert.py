"""Graphs in and out: networkx, edge lists, DOT and GraphML.

``A[i, j]`` is true when there is an edge i -> j. An undirected edge is a two-way pair, here and
in every format; only DOT draws it as one line. Text formats turn names into strings, and a graph
without names has the names 0, 1, ... networkx and pydot are needed only where they are used.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn._utils.optional import require
from mtgbn.errors import GraphError
from mtgbn.graphs.checks import as_adjacency

if TYPE_CHECKING:
    import networkx

Name = TypeVar("Name", bound=Hashable)

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
_DOT_UNESCAPES = {escaped: plain for plain, escaped in _DOT_ESCAPES.items()}
_DOT_IDENTIFIER = re.compile(r'"((?:[^"\\]|\\.)*)"|([^:]*)', re.DOTALL)


def to_edge_list(
    adjacency: ArrayLike, names: Sequence[Hashable] | None = None
) -> list[tuple[Hashable, Hashable]]:
    """Edges as (source, target), row by row; an undirected edge appears in both directions."""
    matrix = as_adjacency(adjacency)
    labels = _names_of(matrix, names)
    return [(labels[i], labels[j]) for i, j in np.argwhere(matrix).tolist()]


def from_edge_list(
    edges: Iterable[tuple[Hashable, Hashable]], names: int | Sequence[Hashable]
) -> NDArray[np.bool_]:
    """Adjacency matrix of (source, target) pairs; an undirected edge is given in both directions.

    ``names`` are those of all nodes in the order of the rows, or the number of nodes, which are
    then called 0, 1, ...
    """
    names = range(names) if isinstance(names, int | np.integer) else names
    index = {name: i for i, name in enumerate(_unique(names))}
    matrix = np.zeros((len(index), len(index)), dtype=np.bool_)
    for edge in edges:
        try:
            source, target = edge
            i, j = index[source], index[target]
        except KeyError as error:
            raise GraphError(
                f"edge ({source!r}, {target!r}): {error.args[0]!r} is not one of the "
                f"{len(index)} names; add it to `names` or correct the edge"
            ) from None
        except (TypeError, ValueError):
            raise GraphError(f"an edge is a pair (source, target), not {edge!r}") from None
        if i == j:
            raise GraphError(f"node {source!r} has an edge to itself; remove it")
        matrix[i, j] = True
    return matrix


def to_networkx(
    adjacency: ArrayLike, names: Sequence[Hashable] | None = None
) -> "networkx.DiGraph":
    """`networkx.DiGraph` with all nodes in order; an undirected edge has both directions.

    Examples
    --------
    >>> to_networkx([[0, 1], [0, 0]], ["a", "b"]).edges
    OutEdgeView([('a', 'b')])
    """
    matrix = as_adjacency(adjacency)
    labels = _names_of(matrix, names)
    graph = _networkx().DiGraph()
    graph.add_nodes_from(labels)
    graph.add_edges_from(to_edge_list(matrix, labels))
    return graph


def from_networkx(
    graph: "networkx.Graph", names: Sequence[Hashable] | None = None
) -> tuple[NDArray[np.bool_], list[Hashable]]:
    """Adjacency matrix and names of a networkx graph.

    Parameters
    ----------
    graph : networkx graph
        An undirected graph gives a symmetric matrix; parallel edges count once, and edge
        attributes such as weights are ignored.
    names : sequence, optional
        All nodes in the order wanted; default: the order of the graph.

    Examples
    --------
    >>> import networkx
    >>> adjacency, names = from_networkx(networkx.DiGraph([("a", "b"), ("a", "c")]))
    >>> adjacency.astype(int), names
    (array([[0, 1, 1],
           [0, 0, 0],
           [0, 0, 0]]), ['a', 'b', 'c'])
    """
    labels = list(graph.nodes) if names is None else _unique(names)
    listed = set(labels)
    if missing := [node for node in graph.nodes if node not in listed]:
        raise GraphError(f"`names` must list every node of the graph, but lacks {missing[0]!r}")
    if unknown := [name for name in labels if name not in graph]:
        raise GraphError(f"`names` lists {unknown[0]!r}, which is not a node of the graph")
    matrix = from_edge_list((edge[:2] for edge in graph.edges), labels)
    return (matrix if graph.is_directed() else matrix | matrix.T), labels


def to_dot(adjacency: ArrayLike, names: Sequence[Hashable] | None = None) -> str:
    """Graph in the DOT language of Graphviz; an undirected edge is one edge with ``dir=none``."""
    matrix = as_adjacency(adjacency)
    # Line breaks are escaped too: a raw one after a backslash would be read as a continued line.
    labels = [
        '"' + re.sub(r'[\\"\n\r]', lambda match: _DOT_ESCAPES[match[0]], name) + '"'
        for name in _text_names_of(matrix, names)
    ]
    lines = [f"  {label};" for label in labels]
    for i, j in np.argwhere(matrix).tolist():
        if not matrix[j, i]:
            lines.append(f"  {labels[i]} -> {labels[j]};")
        elif i < j:
            lines.append(f"  {labels[i]} -> {labels[j]} [dir=none];")
    return "\n".join(["digraph {", *lines, "}", ""])


def from_dot(text: str) -> tuple[NDArray[np.bool_], list[str]]:
    """Adjacency matrix and names of a graph in the DOT language, in the order of their first mention.

    An edge is two-way if it has ``dir=none`` or ``dir=both`` or if the graph is not a digraph.
    """
    pydot = require("pydot", "graphs", "DOT files")
    message = io.StringIO()
    # pydot prints syntax errors, and its grammar makes the parser that it is built on warn.
    with contextlib.redirect_stdout(message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graphs = pydot.graph_from_dot_data(text)
    if not graphs:
        raise GraphError(f"this is not a graph in the DOT language:\n{message.getvalue().rstrip()}")
    if len(graphs) > 1:
        raise GraphError(f"the text holds {len(graphs)} graphs; pass one of them")
    names: dict[str, None] = {}
    edges = []
    direction = "forward" if graphs[0].get_type() == "digraph" else None
    for nodes, way in _dot_statements(graphs[0], direction):
        names.update(dict.fromkeys(nodes))
        if len(nodes) == 2:
            edges += [nodes] if way != "back" else []
            edges += [nodes[::-1]] if way in ("back", "both", "none") else []
    return from_edge_list(edges, list(names)), list(names)


def to_graphml(adjacency: ArrayLike, names: Sequence[Hashable] | None = None) -> str:
    """Graph as GraphML, with the names as node ids."""
    matrix = as_adjacency(adjacency)
    labels = _text_names_of(matrix, names)
    for label in labels:
        if _NOT_IN_XML.search(label):
            raise GraphError(
                f"the name {label!r} has a character that XML cannot hold; rename the node or "
                "use to_dot()"
            )
    lines = _networkx().generate_graphml(to_networkx(matrix, labels))
    return "\n".join(lines) + "\n"


def from_graphml(text: str) -> tuple[NDArray[np.bool_], list[str]]:
    """Adjacency matrix and names (the node ids) of a GraphML text."""
    networkx = _networkx()
    try:
        graph = networkx.parse_graphml(text)
    except (networkx.NetworkXError, ParseError) as error:
        raise GraphError(f"this is not a GraphML graph: {error}") from error
    matrix, names = from_networkx(graph)
    return matrix, [str(name) for name in names]


def _networkx() -> Any:
    return require("networkx", "graphs", "graphs of networkx")


def _unique(names: Iterable[Name]) -> list[Name]:
    unique = list(names)
    seen = set()
    for name in unique:
        if name in seen:
            raise GraphError(f"the name {name!r} is used twice; names must be unique")
        seen.add(name)
    return unique


def _names_of(matrix: NDArray[np.bool_], names: Sequence[Hashable] | None) -> list[Hashable]:
    if names is None:
        return list(range(len(matrix)))
    labels = _unique(names)
    if len(labels) != len(matrix):
        raise GraphError(f"there are {len(labels)} names for {len(matrix)} nodes; give one each")
    return labels


def _text_names_of(matrix: NDArray[np.bool_], names: Sequence[Hashable] | None) -> list[str]:
    return _unique(str(name) for name in _names_of(matrix, names))


def _dot_name(identifier: str) -> str:
    """Plain name of a node as pydot reports it: perhaps quoted, perhaps followed by a port."""
    if not isinstance(identifier, str):
        raise GraphError("an edge joins a whole subgraph `{...}`; write one edge per pair of nodes")
    if identifier.startswith("<"):
        raise GraphError(f"the HTML-like node {identifier} has no plain name; put it in quotes")
    match = _DOT_IDENTIFIER.match(identifier)
    assert match is not None  # its second branch matches any text
    quoted, bare = match.groups()
    if quoted is None:
        return bare
    return re.sub(r'\\[\\"nr]', lambda match: _DOT_UNESCAPES[match[0]], quoted)


def _dot_statements(graph: Any, direction: str | None) -> Iterator[tuple[tuple[str, ...], str]]:
    """Nodes of each statement (one or two) and the direction of the edge between two.

    `direction` is the default of the surrounding graph, None where edges have no direction.
    """
    statements = [*graph.get_node_list(), *graph.get_edge_list(), *graph.get_subgraph_list()]
    for statement in sorted(statements, key=lambda item: item.get_sequence()):
        way = direction and statement.get_attributes().get("dir", direction).strip('"')
        kind = statement.obj_dict["type"]
        if kind == "edge":
            ends = statement.get_source(), statement.get_destination()
            yield tuple(_dot_name(end) for end in ends), way or "both"
        elif kind == "node":
            # Without quotes these are not nodes but defaults for the statements after them.
            if statement.get_name() == "edge":
                direction = way
            elif statement.get_name() not in ("node", "graph"):
                yield (_dot_name(statement.get_name()),), "none"
        else:
            yield from _dot_statements(statement, direction)
