"""Hill climbing over DAGs: add, delete or reverse one edge at a time (the search of the paper's MMHC).

Of every node the gain of toggling each possible parent is kept and renewed only when the node's own
parents change. Where no such move improves the score, one parent may be exchanged for another. With a
tabu list the search goes on from a local optimum, over the least bad move that does not touch a recent
pair, and returns the best graph that it has seen.
"""

import numpy as np

from mtgbn.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.graphs import topological_order
from mtgbn.search.local_scores import (
    IMPROVEMENT,
    LocalScores,
    local_score,
    score_additions,
    scores_workspace,
)

__all__ = ["hill_climb"]


def hill_climb(
    scores: LocalScores,
    initial=None,
    *,
    candidates=None,
    max_parents: int | None = None,
    tabu: int = 0,
    exchange: bool = True,
) -> tuple[np.ndarray, float]:
    """Climb from a DAG to a local optimum.

    Parameters
    ----------
    scores : LocalScores
    initial : array (p, p), optional
        Where to start; ``initial[i, j]`` means i -> j. Default: the empty graph.
    candidates : array (p, p), optional
        Edges that may be added; ``candidates[i, j]`` allows i -> j. Default: all.
    max_parents : int, optional
    tabu : int
        Moves without a new best graph after which the search ends; a pair that was changed is left
        alone as long, unless touching it gives a new best graph.
    exchange : bool
        Also exchange one parent for another. False: the moves of the paper.

    Returns
    -------
    adjacency : array (p, p)
    score : float
    """
    p = scores.matrices.shape[0]
    adjacency = np.zeros((p, p), dtype=np.bool_)
    if initial is not None:
        topological_order(initial)  # raises, showing a cycle
        adjacency = np.array(initial, dtype=np.bool_)
    allowed = np.ones((p, p), dtype=np.bool_)
    if candidates is not None:
        allowed = np.array(candidates, dtype=np.bool_)
    if adjacency.shape != (p, p) or allowed.shape != (p, p):
        raise InputError(f"initial and candidates must have shape ({p}, {p})")
    np.fill_diagonal(allowed, False)
    max_parents = p - 1 if max_parents is None else int(max_parents)
    if not adjacency.sum(axis=0).max(initial=0) <= max_parents < p:
        raise InputError(f"max_parents = {max_parents} does not fit {p} variables or the start")
    work = scores_workspace(scores, p - 1)
    score = _climb(scores, adjacency, allowed, max_parents, tabu, exchange, work)
    return adjacency, float(score)


@kernel(error_model="numpy")
def _climb(scores, adjacency, allowed, max_parents, tabu, exchange, work):
    """Climb in place; returns the score of the best graph, which ``adjacency`` then holds."""
    p = adjacency.shape[0]
    families = np.empty(p)
    gains = np.empty((p, p))
    for node in range(p):
        families[node] = _renew(scores, adjacency, allowed, max_parents, node, gains, work)
    best_graph = adjacency.copy()
    best = total = families.sum()
    until = np.full((p, p), -1, dtype=np.int64)  # the pair is left alone before this move
    since_best = 0
    move = 0
    while True:
        tail, head, reverse, gain = _best_move(
            adjacency, allowed, gains, max_parents, until, move, best - total + IMPROVEMENT
        )
        if gain <= IMPROVEMENT and exchange:
            node = _exchange(scores, adjacency, allowed, families, work)
            if node >= 0:
                families[node] = _renew(scores, adjacency, allowed, max_parents, node, gains, work)
                total = families.sum()
                if total > best + IMPROVEMENT:
                    best, since_best = total, 0
                    best_graph[:] = adjacency
                continue
        if tail < 0 or (gain <= IMPROVEMENT and since_best >= tabu):
            break
        until[tail, head] = until[head, tail] = move + tabu
        move += 1
        adjacency[tail, head] = not adjacency[tail, head]
        families[head] = _renew(scores, adjacency, allowed, max_parents, head, gains, work)
        if reverse:
            adjacency[head, tail] = True
            families[tail] = _renew(scores, adjacency, allowed, max_parents, tail, gains, work)
        total = families.sum()
        since_best += 1
        if total > best + IMPROVEMENT:
            best, since_best = total, 0
            best_graph[:] = adjacency
    adjacency[:] = best_graph
    return best


@kernel(error_model="numpy")
def _exchange(scores, adjacency, allowed, families, work):
    """Exchange the parent of some node for a better one, in place; returns the node, or -1."""
    p = adjacency.shape[0]
    additions = np.empty(p)
    for node in range(p):
        parents = np.flatnonzero(adjacency[:, node])
        fewer = np.empty(max(parents.size - 1, 0), dtype=parents.dtype)
        possible = allowed[:, node] & ~adjacency[:, node] & ~adjacency[node]
        for r in range(parents.size):
            for t in range(parents.size - 1):
                fewer[t] = parents[t] if t < r else parents[t + 1]
            score_additions(scores, node, fewer, fewer.size, possible, additions, work)
            for a in np.argsort(-additions):
                if not additions[a] > families[node] + IMPROVEMENT:
                    break
                if not _has_path(adjacency, node, a, False):
                    adjacency[parents[r], node] = False
                    adjacency[a, node] = True
                    return node
    return -1


@kernel(error_model="numpy")
def _renew(scores, adjacency, allowed, max_parents, node, gains, work):
    """Write the gain of toggling every parent of a node, and return its present score."""
    p = adjacency.shape[0]
    parents = np.flatnonzero(adjacency[:, node])
    possible = allowed[:, node] & ~adjacency[:, node]
    if parents.size >= p - 1:
        possible[:] = False
    additions = np.empty(p)
    base = score_additions(scores, node, parents, parents.size, possible, additions, work)
    for a in range(p):
        gains[a, node] = additions[a] - base
    fewer = np.empty(parents.size, dtype=parents.dtype)
    for r in range(parents.size):
        for t in range(parents.size - 1):
            fewer[t] = parents[t] if t < r else parents[t + 1]
        gains[parents[r], node] = local_score(scores, node, fewer, parents.size - 1, work) - base
    return base


@kernel
def _best_move(adjacency, allowed, gains, max_parents, until, move, aspiration):
    """The legal move with the largest gain: tail, head, whether it reverses, gain; tail -1: none.

    A pair that is to be left alone may be touched for a gain above ``aspiration``.
    """
    p = adjacency.shape[0]
    counts = adjacency.sum(axis=0)
    best = -np.inf
    tail = head = -1
    reverse = False
    for i in range(p):
        for j in range(p):
            least = max(best, aspiration) if until[i, j] > move else best
            if i == j:
                continue
            if adjacency[i, j]:
                if gains[i, j] > least:
                    best, tail, head, reverse = gains[i, j], i, j, False
                    least = best
                turned = gains[i, j] + gains[j, i]
                if (
                    turned > least
                    and allowed[j, i]
                    and counts[i] < max_parents
                    and not _has_path(adjacency, i, j, True)
                ):
                    best, tail, head, reverse = turned, i, j, True
            elif (
                gains[i, j] > least
                and allowed[i, j]
                and not adjacency[j, i]
                and counts[j] < max_parents
                and not _has_path(adjacency, j, i, False)
            ):
                best, tail, head, reverse = gains[i, j], i, j, False
    return tail, head, reverse, best


@kernel
def _has_path(adjacency, start, end, not_directly):
    """Whether a directed path leads from start to end, other than the edge itself if so wished."""
    p = adjacency.shape[0]
    seen = np.zeros(p, dtype=np.bool_)
    stack = np.empty(p, dtype=np.int64)
    stack[0] = start
    seen[start] = True
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        for child in range(p):
            if adjacency[node, child] and not seen[child]:
                if child == end:
                    if node == start and not_directly:
                        continue
                    return True
                seen[child] = True
                stack[size] = child
                size += 1
    return False
