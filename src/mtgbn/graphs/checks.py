"""Checks of the input of graph functions, with messages that name the faulty node or edge.

``A[i, j]`` is true when there is an edge i -> j. The returned arrays may share memory with the
input, so callers never write to them.
"""

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn.errors import GraphError


def as_adjacency(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Boolean (p, p) array without self-loops."""
    if np.ma.is_masked(adjacency):
        raise GraphError("an adjacency matrix must not have masked entries; fill them in")
    try:
        matrix = np.asarray(adjacency)
    except ValueError as error:
        raise GraphError(f"an adjacency matrix must be a rectangular array: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"an adjacency matrix must be square, but its shape is {matrix.shape}")
    if matrix.dtype != np.bool_:
        bad = np.argwhere((matrix != 0) & (matrix != 1))
        if bad.size:
            i, j = bad[0]
            raise GraphError(
                f"entry ({i}, {j}) is {matrix.item(i, j)!r}, but an adjacency matrix holds only 0 "
                "and 1; for a matrix of weights pass `weights != 0`"
            )
        matrix = matrix == 1
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        node = loops[0]
        raise GraphError(
            f"node {node} has an edge to itself; set the diagonal entry ({node}, {node}) to 0"
        )
    return matrix


def as_undirected(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """`as_adjacency` for a graph that must be symmetric."""
    matrix = as_adjacency(adjacency)
    one_way = np.argwhere(matrix & ~matrix.T)
    if one_way.size:
        i, j = one_way[0]
        raise GraphError(
            f"an undirected graph needs a symmetric matrix, but entry ({i}, {j}) is 1 and "
            f"({j}, {i}) is 0; skeleton() drops directions, moral_graph() also joins parents"
        )
    return matrix


def as_dag(adjacency: ArrayLike) -> tuple[NDArray[np.bool_], list[int]]:
    """`as_adjacency` for a graph that must be acyclic, with its topological order."""
    matrix = as_adjacency(adjacency)
    order = _acyclic_prefix(matrix)
    if len(order) < len(matrix):
        cycle = directed_cycle(matrix)
        advice = (
            "if a two-way pair means an undirected edge, apply consistent_extension() first"
            if len(cycle) == 2
            else "remove or reverse one of its edges"
        )
        raise GraphError(
            f"a DAG is needed, but there is the cycle {cycle_text(cycle, ' -> ')}; {advice}"
        )
    return matrix, order


def directed_cycle(matrix: NDArray[np.bool_]) -> list[int]:
    """Nodes of one directed cycle in the direction of its edges; empty if there is none."""
    left = matrix.copy()
    left[_acyclic_prefix(matrix)] = False
    if not left.any():
        return []
    # Every node that has a parent left has a parent that itself has one left, so a walk from child to
    # parent must come back to a node that it has visited.
    walk = [int(left.any(axis=0).argmax())]
    while True:
        parent = int(left[:, walk[-1]].argmax())
        if parent in walk:
            return walk[walk.index(parent) :][::-1]
        walk.append(parent)


def cycle_text(nodes: list[int], arrow: str) -> str:
    """A cycle as text, from its smallest node: ``2 -> 5 -> 7 -> 2``."""
    start = nodes.index(min(nodes))
    return arrow.join(str(node) for node in [*nodes[start:], *nodes[: start + 1]])


def _acyclic_prefix(matrix: NDArray[np.bool_]) -> list[int]:
    """Topological order of the nodes that are not on or below a directed cycle."""
    missing_parents = matrix.sum(axis=0).tolist()
    available = [node for node, count in enumerate(missing_parents) if count == 0]
    children: list[list[int]] = [[] for _ in missing_parents]
    for parent, child in np.argwhere(matrix).tolist():
        children[parent].append(child)
    order = []
    while available:
        node = heapq.heappop(available)
        order.append(node)
        for child in children[node]:
            missing_parents[child] -= 1
            if missing_parents[child] == 0:
                heapq.heappush(available, child)
    return order
