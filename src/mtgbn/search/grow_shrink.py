"""Grow-shrink trees: the parents of a node among its predecessors, kept in memory (Andrews et al. 2023).

Every node has a tree of parent sets: the empty set at the root, below it each set that growing has
passed through. A tree node keeps all variables that would improve its score, best first, so growing
from any set of predecessors is a walk down the tree; only new tree nodes need local scores. The result
of shrinking is kept at the tree node where a walk ends.
"""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import ZERO, kernel
from mtgbn.search.knowledge import Constraints
from mtgbn.search.local_scores import LocalScores, best_first, local_score, score_additions

# What `grow_shrink` returns when the forest has no room: a score that no family has.
FULL = np.inf


class Forest(NamedTuple):
    """One tree per node, in flat arrays: by tree node (capacity,) or by candidate (room,)."""

    used: np.ndarray  # (2,), tree nodes and candidates in use
    first: np.ndarray  # where a tree node's candidates start
    n_candidates: np.ndarray  # how many there are; -1 before they were computed
    grown: np.ndarray  # score of the parent set; NaN before it was computed
    shrunk: np.ndarray  # the same after shrinking
    parents: np.ndarray  # (capacity, words), the parents after shrinking, as bits
    candidates: np.ndarray  # variables that improve a tree node, best first
    children: np.ndarray  # the tree nodes that they lead to; -1: new
    gains: np.ndarray  # scores with the candidate added
    has_required: np.ndarray  # (p,), whether a variable has required parents


def plant(constraints: Constraints, capacity: int | None = None) -> Forest:
    """Make a forest with nothing but roots; tree node k is the root of variable k."""
    p = len(constraints.required)
    capacity = max(capacity or 64 * p, p + 1)
    room = 8 * capacity + p
    return Forest(
        used=np.array([p, 0], dtype=np.int64),
        first=np.full(capacity, -1, dtype=np.int64),
        n_candidates=np.full(capacity, -1, dtype=np.int64),
        grown=np.full(capacity, np.nan),
        shrunk=np.full(capacity, np.nan),
        parents=np.zeros((capacity, (p + 63) // 64), dtype=np.uint64),
        candidates=np.empty(room, dtype=np.int32),
        children=np.empty(room, dtype=np.int32),
        gains=np.empty(room),
        has_required=np.logical_or.reduce(constraints.required),
    )


def enlarge(forest: Forest, constraints: Constraints) -> Forest:
    """Return a forest with twice the room and the same trees."""
    larger = plant(constraints, 2 * len(forest.first))
    for old, new in zip(forest, larger, strict=True):
        new[: len(old)] = old
    return larger


class Walk(NamedTuple):
    """The parents of a walk down a tree, and the variables that decided where the walk ended, (p,).

    Whether any other variable is a predecessor does not change where the walk ends.
    """

    parents: np.ndarray  # the parents on the way, required ones first
    accepted: np.ndarray  # variables that the walk took
    rejected: np.ndarray  # variables that it would have taken had they been predecessors


@kernel
def new_walk(p):
    """Make room for a walk."""
    return Walk(np.empty(p, dtype=np.int64), np.zeros(p, np.bool_), np.zeros(p, np.bool_))


@kernel(error_model="numpy")
def grow_shrink(scores: LocalScores, forest: Forest, node, before, constraints, walk, work):
    """Best score of ``node`` with parents among its predecessors, and the tree node of these parents.

    ``before`` marks the predecessors, which must include the required parents. The parents are the
    bits of ``forest.parents`` at the tree node. The score is `FULL` if the forest has no room left.
    """
    place = node
    parents = walk.parents
    for a in range(before.size):
        walk.accepted[a] = False
    for a in range(before.size):
        walk.rejected[a] = False
    n_required = ZERO
    if forest.has_required[node]:
        for a in range(before.size):
            if constraints.required[a, node]:
                parents[n_required] = a
                n_required += 1
    n_parents = n_required
    while True:
        if forest.n_candidates[place] < 0 and not _find_candidates(
            scores, forest, node, place, parents, n_parents, constraints, work
        ):
            return FULL, place
        if n_parents == constraints.max_parents:
            break
        step = -1
        for c in range(forest.first[place], forest.first[place] + forest.n_candidates[place]):
            candidate = forest.candidates[c]
            if before[candidate]:
                step = c
                break
            walk.rejected[candidate] = True
        if step < 0:
            break
        if forest.children[step] < 0:
            child = forest.used[0]
            if child == forest.first.size:
                return FULL, place
            forest.used[0] += 1
            forest.grown[child] = forest.gains[step]
            forest.children[step] = child
        parents[n_parents] = forest.candidates[step]
        walk.accepted[parents[n_parents]] = True
        n_parents += 1
        place = forest.children[step]
    if np.isnan(forest.shrunk[place]):
        _shrink(scores, forest, node, place, parents, n_parents, n_required, work)
    return forest.shrunk[place], place


@kernel(error_model="numpy", inline="always")
def _find_candidates(scores, forest, node, place, parents, n_parents, constraints, work):
    """Find the variables that improve the score of a tree node; False if the forest has no room."""
    p = scores.matrices.shape[0]
    if forest.used[1] + p > forest.candidates.size:
        return False
    others = np.empty(p, dtype=np.bool_)
    for a in range(p):
        others[a] = constraints.allowed[a, node] and n_parents < constraints.max_parents
    for r in range(n_parents):
        others[parents[r]] = False
    additions = np.empty(p)
    base = score_additions(scores, node, parents, n_parents, others, additions, work)
    forest.grown[place] = base
    start = forest.used[1]
    candidates = forest.candidates[start : start + p]
    count = best_first(additions, base + scores.improvement, candidates)
    for c in range(count):
        forest.children[start + c] = -1
        forest.gains[start + c] = additions[candidates[c]]
    forest.first[place] = start
    forest.n_candidates[place] = count
    forest.used[1] += count
    return True


@kernel(error_model="numpy", inline="always")
def _shrink(scores, forest, node, place, parents, n_parents, n_required, work):
    """Drop parents that are not required, the least useful first, while dropping improves the score."""
    kept = np.empty(n_parents, dtype=np.int64)
    fewer = np.empty(n_parents, dtype=np.int64)
    for r in range(n_parents):
        kept[r] = parents[r]
    best = forest.grown[place]
    size = n_parents
    while size > 0:
        drop = -1
        for r in range(n_required, size):
            for t in range(size - 1):
                fewer[t] = kept[t] if t < r else kept[t + 1]
            value = local_score(scores, node, fewer, size - 1, work)
            if value > best + scores.improvement:
                best, drop = value, r
        if drop < 0:
            break
        size -= 1
        for t in range(drop, size):
            kept[t] = kept[t + 1]
    forest.shrunk[place] = best
    for r in range(size):
        forest.parents[place, kept[r] // 64] |= np.uint64(1) << np.uint64(kept[r] % 64)
