"""Markov equivalence: from a DAG to its completed PDAG, and from a PDAG back to a DAG.

References
----------
Chickering (1995), A transformational characterization of equivalent Bayesian network structures.
Dor and Tarsi (1992), A simple algorithm to construct a consistent extension of a partially
oriented graph.
Meek (1995), Causal inference and causal explanation with background knowledge.
"""

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn._utils.names import listed
from mtgbn.errors import GraphError
from mtgbn.graphs._bitsets import from_rows, members, to_rows
from mtgbn.graphs.checks import as_adjacency, as_dag, cycle_text, directed_cycle

_NODES_SHOWN = 10


def cpdag(adjacency: ArrayLike) -> NDArray[np.bool_]:
    """Completed PDAG of a DAG.

    An edge is directed when every Markov equivalent DAG has it in that direction (compelled),
    and undirected when some have it the other way round (reversible).

    Examples
    --------
    The chain 0 -> 1 -> 2 could as well point the other way; the v-structure 0 -> 1 <- 2 could not.

    >>> cpdag([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    >>> cpdag([[0, 1, 0], [0, 0, 0], [0, 1, 0]]).astype(int)
    array([[0, 1, 0],
           [0, 0, 0],
           [0, 1, 0]])
    """
    matrix, order = as_dag(adjacency)
    position = {node: place for place, node in enumerate(order)}
    parents = from_rows(matrix.T)
    compelled = [0] * len(parents)
    for child in order:
        if not parents[child]:
            continue
        # In Chickering's order of the edges, the last parent decides all edges into the child.
        last = max(members(parents[child]), key=position.__getitem__)
        others = parents[child] & ~(1 << last)
        if compelled[last] & ~parents[child] or others & ~parents[last]:
            compelled[child] = parents[child]
        else:
            compelled[child] = compelled[last]
    reversible = matrix & ~to_rows(compelled).T
    return matrix | reversible.T


def restricted_cpdag(adjacency: ArrayLike, allowed: ArrayLike) -> NDArray[np.bool_]:
    """Completed PDAG of a DAG among the equivalent DAGs whose edges are all ``allowed`` (p, p).

    An edge is directed when every such DAG has it in that direction: because all Markov equivalent
    DAGs do, because the other direction is not allowed, or because other edges that are directed
    for one of these reasons leave no other direction.
    """
    allowed = np.asarray(allowed, dtype=bool)
    pdag = cpdag(adjacency)
    pdag &= allowed | ~pdag.T
    while True:
        directed, undirected = pdag & ~pdag.T, pdag & pdag.T
        apart = ~(pdag | pdag.T)
        np.fill_diagonal(apart, False)
        found = [
            (i, j)
            for i, j in np.argwhere(undirected).tolist()
            if _is_forced(i, j, directed, undirected, apart)
        ]
        if not found:
            return pdag
        for i, j in found:
            pdag[j, i] = False


def _is_forced(i: int, j: int, directed, undirected, apart) -> bool:
    """Whether i - j must be i -> j by one of Meek's four rules."""
    into = directed[:, j]
    if (directed[:, i] & apart[:, j]).any():  # k -> i - j would be a v-structure
        return True
    if (directed[i] & into).any():  # i -> k -> j would be a cycle
        return True
    middle = np.flatnonzero(undirected[i] & into)  # i - k -> j
    if apart[np.ix_(middle, middle)].any():
        return True
    # i - k -> l -> j, with k and j apart, and i next to l
    return any(
        (directed[k] & into & ~apart[i]).any() for k in np.flatnonzero(undirected[i] & apart[j])
    )


def consistent_extension(pdag: ArrayLike) -> NDArray[np.bool_]:
    """DAG with the skeleton, the directed edges and the v-structures of a PDAG, if there is one.

    Where the PDAG leaves a choice, edges tend to run from smaller to larger indices.
    """
    matrix = as_adjacency(pdag)
    directed = matrix & ~matrix.T
    cycle = directed_cycle(directed)
    if cycle:
        raise GraphError(
            "no DAG extends this PDAG: its directed edges form the cycle "
            f"{cycle_text(cycle, ' -> ')}"
        )
    children, undirected = from_rows(directed), from_rows(matrix & matrix.T)
    adjacent = from_rows(matrix | matrix.T)

    def can_be_last(node: int) -> bool:
        return not children[node] and all(
            adjacent[node] & ~adjacent[other] == 1 << other for other in members(undirected[node])
        )

    extension = directed.copy()
    left = set(range(len(matrix)))
    # Removing a node never disqualifies another, so a node enters the queue at most once.
    queue = [-node for node in left if can_be_last(node)]
    queued = {-entry for entry in queue}
    heapq.heapify(queue)
    while queue:
        last = -heapq.heappop(queue)
        left.remove(last)
        extension[list(members(undirected[last])), last] = True
        for other in members(adjacent[last]):
            for sets in (children, undirected, adjacent):
                sets[other] &= ~(1 << last)
        for other in members(adjacent[last]):
            if other not in queued and can_be_last(other):
                queued.add(other)
                heapq.heappush(queue, -other)
    if left:
        shown = listed(sorted(left), most=_NODES_SHOWN, quote=False)
        raise GraphError(
            f"no DAG extends this PDAG: each of the nodes {shown} has a child or an "
            "undirected neighbour that is not adjacent to another neighbour, so none can come "
            "last without a new v-structure; a PDAG from cpdag() always has an extension"
        )
    return extension
