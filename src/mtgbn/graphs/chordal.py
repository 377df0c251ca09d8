"""Undirected graphs: chordality, triangulation, junction trees and perfect orientations.

A graph is a symmetric boolean matrix. It is chordal (decomposable) when every cycle of four or
more nodes has a chord.

References
----------
Blair and Peyton (1993), An introduction to chordal graphs and clique trees.
Rose, Tarjan and Lueker (1976), Algorithmic aspects of vertex elimination on graphs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn.errors import GraphError
from mtgbn.graphs._bitsets import from_rows, members, to_rows
from mtgbn.graphs.checks import as_undirected, cycle_text


class JunctionTree(NamedTuple):
    """Maximal cliques of a chordal graph in an order with the running intersection property.

    Clique j meets the union of the earlier cliques in ``separators[j]``, which is contained in
    ``cliques[parents[j]]``. The first clique of each connected component has separator ``()`` and
    parent -1. Members are sorted.
    """

    cliques: tuple[tuple[int, ...], ...]
    separators: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]


class _Search(NamedTuple):
    """Visits of a maximum cardinality search."""

    order: list[int]
    earlier: list[int]  # per node, the bitset of neighbours visited before it
    latest: list[int]  # per node, the neighbour visited last before it; -1 if there is none


def is_chordal(adjacency: ArrayLike) -> bool:
    """Whether every cycle of four or more nodes has a chord."""
    neighbours = from_rows(as_undirected(adjacency))
    return _is_perfect(_maximum_cardinality_search(neighbours))


def junction_tree(adjacency: ArrayLike) -> JunctionTree:
    """Cliques and separators of a chordal graph; the error for another graph shows a chordless cycle."""
    search = _perfect_search(from_rows(as_undirected(adjacency)))
    cliques: list[int] = []
    separators, parents = [], []
    clique_of = [-1] * len(search.order)
    for node in search.order:
        earlier = search.earlier[node]
        if not cliques or earlier != cliques[-1]:
            cliques.append(earlier)
            separators.append(earlier)
            parents.append(clique_of[search.latest[node]] if earlier else -1)
        cliques[-1] |= 1 << node
        clique_of[node] = len(cliques) - 1
    return JunctionTree(
        tuple(tuple(members(clique)) for clique in cliques),
        tuple(tuple(members(separator)) for separator in separators),
        tuple(parents),
    )


def perfect_dag(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """DAG with the skeleton and the Markov properties of a chordal graph, and no v-structures."""
    search = _perfect_search(from_rows(as_undirected(adjacency)))
    return to_rows(search.earlier).T.copy()


def triangulate(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Minimal chordal graph that contains an undirected graph.

    Nodes are eliminated by fewest fill edges, then fewest neighbours, then smallest index; fill
    edges that turn out to be redundant are dropped. No fill edge of the result can be left out,
    but another triangulation may need fewer. A chordal graph comes back unchanged.
    """
    neighbours = from_rows(as_undirected(adjacency))
    filled, fill_edges = _min_fill(neighbours)
    _drop_redundant(filled, fill_edges)
    return to_rows(filled)


def _maximum_cardinality_search(neighbours: list[int]) -> _Search:
    """Always visit the node with the most visited neighbours next (ties: smallest index)."""
    p = len(neighbours)
    search = _Search(order=[], earlier=[0] * p, latest=[-1] * p)
    count = [0] * p
    waiting = [0] * (p + 1)  # by number of visited neighbours
    waiting[0] = unvisited = (1 << p) - 1
    top = 0
    while unvisited:
        while not waiting[top]:
            top -= 1
        node = next(members(waiting[top]))
        waiting[top] ^= 1 << node
        unvisited ^= 1 << node
        search.order.append(node)
        search.earlier[node] = neighbours[node] & ~unvisited
        for other in members(neighbours[node] & unvisited):
            waiting[count[other]] ^= 1 << other
            count[other] += 1
            waiting[count[other]] ^= 1 << other
            search.latest[other] = node
        top += 1
    return search


def _is_perfect(search: _Search) -> bool:
    """Whether the earlier neighbours of every node are a clique."""
    return all(
        not earlier or not earlier & ~(1 << latest | search.earlier[latest])
        for earlier, latest in zip(search.earlier, search.latest, strict=True)
    )


def _perfect_search(neighbours: list[int]) -> _Search:
    search = _maximum_cardinality_search(neighbours)
    if not _is_perfect(search):
        cycle = cycle_text(_chordless_cycle(neighbours), " - ")
        raise GraphError(
            f"a chordal graph is needed, but the cycle {cycle} has no chord; apply triangulate() "
            "first"
        )
    return search


def _chordless_cycle(neighbours: list[int]) -> list[int]:
    """One chordless cycle of a graph that is not chordal.

    Such a cycle through a node leaves it to a neighbour a and returns from a neighbour b that is
    not adjacent to a; the rest of it lies in one component beyond the node's neighbours.
    """
    everyone = (1 << len(neighbours)) - 1
    for node, around in enumerate(neighbours):
        beyond = everyone & ~around & ~(1 << node)
        while beyond:
            component, border = _component(neighbours, beyond & -beyond, beyond)
            beyond &= ~component
            for a in members(border & around):
                strangers = border & around & ~neighbours[a] & ~(1 << a)
                if strangers:
                    b = next(members(strangers))
                    return [node, *_shortest_path(neighbours, a, b, component)]
    raise AssertionError("a graph without a chordless cycle is chordal")


def _component(neighbours: list[int], start: int, within: int) -> tuple[int, int]:
    """Nodes of `within` that are connected to `start`, and all neighbours of these nodes."""
    component, border, frontier = start, 0, start
    while frontier:
        for node in members(frontier):
            border |= neighbours[node]
        frontier = border & within & ~component
        component |= frontier
    return component, border


def _shortest_path(neighbours: list[int], a: int, b: int, through: int) -> list[int]:
    previous = {a: a}
    layer = [a]
    while b not in previous:
        reached = []
        for node in layer:
            for other in members(neighbours[node] & (through | 1 << b)):
                if other not in previous:
                    previous[other] = node
                    reached.append(other)
        layer = reached
    path = [b]
    while path[-1] != a:
        path.append(previous[path[-1]])
    return path[::-1]


def _min_fill(neighbours: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """Neighbours in the filled graph, and the fill edges in the order of their arrival."""
    filled, left = list(neighbours), list(neighbours)
    # Number of pairs of neighbours that are not adjacent, kept up to date edge by edge.
    missing = [
        sum((around & ~left[other]).bit_count() - 1 for other in members(around)) // 2
        for around in left
    ]
    fill_edges = []
    waiting = set(range(len(left)))
    while waiting:
        node = min(waiting, key=lambda n: (missing[n], left[n].bit_count(), n))
        waiting.remove(node)
        around = left[node]
        for a in members(around):
            for b in members(around & ~left[a] & (-2 << a)):
                for common in members(left[a] & left[b]):
                    missing[common] -= 1
                missing[a] += (left[a] & ~left[b]).bit_count()
                missing[b] += (left[b] & ~left[a]).bit_count()
                for sets in (filled, left):
                    sets[a] |= 1 << b
                    sets[b] |= 1 << a
                fill_edges.append((a, b))
        for other in members(around):
            left[other] ^= 1 << node
            missing[other] -= (left[other] & ~around).bit_count()
    return filled, fill_edges


def _drop_redundant(filled: list[int], fill_edges: list[tuple[int, int]]) -> None:
    """Remove fill edges in place until none can go.

    A chordal graph stays chordal without the edge a - b exactly when the common neighbours of a
    and b are a clique; a triangulation from which no single fill edge can go is minimal.
    """
    before = None
    while before != len(fill_edges):
        before = len(fill_edges)
        kept = []
        for a, b in fill_edges:
            common = filled[a] & filled[b]
            if all(common & ~filled[node] == 1 << node for node in members(common)):
                filled[a] ^= 1 << b
                filled[b] ^= 1 << a
            else:
                kept.append((a, b))
        fill_edges = kept
