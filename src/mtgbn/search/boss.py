"""Best order score search (Andrews et al. 2023): an order of the variables, improved one at a time.

An order decides a DAG: every variable takes its parents from its predecessors by growing and
shrinking. One variable after the other is moved to its best place until no move improves the score.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.search.grow_shrink import FULL, Forest, enlarge, grow_shrink, plant
from mtgbn.search.local_scores import IMPROVEMENT, LocalScores, scores_workspace

__all__ = ["Found", "boss"]


class Found(NamedTuple):
    """The best DAG of a search; ``adjacency[i, j]`` means i -> j."""

    adjacency: np.ndarray
    score: float
    order: np.ndarray


def boss(
    scores: LocalScores,
    *,
    n_restarts: int = 4,
    max_parents: int | None = None,
    initial=None,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Search for the DAG with the highest sum of local scores.

    Parameters
    ----------
    scores : LocalScores
        From `gather_scores`.
    n_restarts : int
        Searches from random orders, after the first. They share all scores.
    max_parents : int, optional
    initial : array (p,), optional
        The order from which the first search starts; random if left out.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
    """
    p = scores.matrices.shape[0]
    max_parents = p - 1 if max_parents is None else int(max_parents)
    if not 0 <= max_parents < p:
        raise InputError(f"max_parents must be between 0 and p - 1 = {p - 1}; got {max_parents}")
    if n_restarts < 0:
        raise InputError(f"n_restarts must not be negative; got {n_restarts}")
    rng = np.random.default_rng(random_state)
    work = scores_workspace(scores, max_parents)
    forest = plant(p)
    best = None
    for start in range(n_restarts + 1):
        order = rng.permutation(p)
        if start == 0 and initial is not None:
            order = np.array(initial, dtype=np.int64)
            if not np.array_equal(np.sort(order), np.arange(p)):
                raise InputError("initial must be a permutation of the variables 0 to p - 1")
        visits = rng.permutation(p)
        while (status := _improve(scores, forest, order, visits, max_parents, work)) != 0:
            if status == 2:
                forest = enlarge(forest, p)
        found = _graph_of(scores, forest, order, max_parents, work)
        while found is None:
            forest = enlarge(forest, p)
            found = _graph_of(scores, forest, order, max_parents, work)
        if best is None or found.score > best.score + IMPROVEMENT:
            best = found
    return best


def _graph_of(scores, forest: Forest, order, max_parents, work) -> Found | None:
    """The DAG of an order; None if the forest has no room."""
    p = len(order)
    adjacency = np.zeros((p, p), dtype=bool)
    before = np.zeros(p, dtype=bool)
    parents = np.empty(p, dtype=np.int64)
    total = 0.0
    for node in order:
        score, place = grow_shrink(scores, forest, node, before, max_parents, parents, work)
        if score == FULL:
            return None
        bits = np.unpackbits(forest.parents[place].view(np.uint8), bitorder="little")
        adjacency[:, node] = bits[:p].astype(bool)
        total += score
        before[node] = True
    return Found(adjacency, float(total), order.copy())


@kernel(error_model="numpy")
def _improve(scores, forest, order, visits, max_parents, work):
    """Visit every variable once. 0: nothing improved; 1: something did; 2: the forest is full."""
    p = order.size
    others = np.empty(p - 1, dtype=order.dtype)
    before = np.zeros(p, dtype=np.bool_)
    parents = np.empty(p, dtype=np.int64)
    own = np.empty(p)
    after = np.empty(p)  # of the others, without and then with the moved variable before them
    with_moved = np.empty(p)
    improved = 0
    for moved in visits:
        now = 0
        count = 0
        for k in range(p):
            if order[k] == moved:
                now = k
            else:
                others[count] = order[k]
                count += 1
        before[:] = False
        for k in range(p):
            own[k], _ = grow_shrink(scores, forest, moved, before, max_parents, parents, work)
            if own[k] == FULL:
                return 2
            if k == p - 1:
                break
            other = others[k]
            after[k], _ = grow_shrink(scores, forest, other, before, max_parents, parents, work)
            before[moved] = True
            with_moved[k], _ = grow_shrink(
                scores, forest, other, before, max_parents, parents, work
            )
            before[moved] = False
            if after[k] == FULL or with_moved[k] == FULL:
                return 2
            before[other] = True
        # total[k] = own[k] + without, up to k, + with, from k on
        total = own[0]
        for k in range(p - 1):
            total += with_moved[k]
        best, place = -np.inf, now
        current = 0.0
        others_now = total - own[0]
        for k in range(p):
            if k > 0:
                others_now += after[k - 1] - with_moved[k - 1]
            value = own[k] + others_now
            if k == now:
                current = value
            if value > best:
                best, place = value, k
        if best > current + IMPROVEMENT:
            improved = 1
            for k in range(place):
                order[k] = others[k]
            order[place] = moved
            for k in range(place, p - 1):
                order[k + 1] = others[k]
    return improved
