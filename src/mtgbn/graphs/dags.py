"""Directed acyclic graphs: order, skeleton, v-structures and moral graph."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn.graphs.checks import as_adjacency, as_dag, directed_cycle


def is_dag(adjacency: ArrayLike) -> bool:
    """Whether a graph has no directed cycle; a two-way pair is a cycle.

    Examples
    --------
    >>> is_dag([[0, 1], [0, 0]]), is_dag([[0, 1], [1, 0]])
    (True, False)
    """
    return not directed_cycle(as_adjacency(adjacency))


def find_cycle(adjacency: ArrayLike) -> list[int]:
    """Nodes of one directed cycle, along its edges from the smallest; empty if there is none."""
    cycle = directed_cycle(as_adjacency(adjacency))
    start = cycle.index(min(cycle)) if cycle else 0
    return cycle[start:] + cycle[:start]


def topological_order(adjacency: ArrayLike) -> list[int]:
    """Order the nodes of a DAG such that parents come first; the error for another graph shows a cycle.

    Among the nodes whose parents are all placed, the smallest index comes next, so the order is
    unique.
    """
    return as_dag(adjacency)[1]


def skeleton(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Undirected graph of the adjacent pairs of a DAG or PDAG.

    Examples
    --------
    >>> skeleton([[0, 1], [0, 0]]).astype(int)
    array([[0, 1],
           [1, 0]])
    """
    matrix = as_adjacency(adjacency)
    return matrix | matrix.T


def moral_graph(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Skeleton of a DAG with an edge added between any two parents of the same child."""
    matrix, _ = as_dag(adjacency)
    # Floating point because numpy multiplies integer and boolean matrices without BLAS.
    indicator = matrix.astype(np.float32)
    moral = matrix | matrix.T | (indicator @ indicator.T > 0)
    np.fill_diagonal(moral, False)
    return moral


def descendants(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Matrix that is true at (i, j) where a directed path of a DAG leads from i to j."""
    matrix, order = as_dag(adjacency)
    below = matrix.copy()
    for node in reversed(order):
        below[node] |= below[matrix[node]].any(axis=0)
    return below


def v_structures(adjacency: ArrayLike) -> list[tuple[int, int, int]]:
    """Every i -> k <- j with i < j not adjacent, as sorted triples ``(i, k, j)``.

    Two DAGs are Markov equivalent exactly when they share skeleton and v-structures. In a PDAG
    only directed edges count.
    """
    matrix = as_adjacency(adjacency)
    directed = matrix & ~matrix.T
    strangers = np.triu(~(matrix | matrix.T), k=1)
    triples = []
    for child in range(len(matrix)):
        parents = np.flatnonzero(directed[:, child])
        first, second = np.nonzero(strangers[np.ix_(parents, parents)])
        pairs = zip(parents[first].tolist(), parents[second].tolist(), strict=True)
        triples += [(i, child, j) for i, j in pairs]
    return sorted(triples)
