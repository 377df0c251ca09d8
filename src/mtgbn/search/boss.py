"""Best order score search (Andrews et al. 2023): an order of the variables, improved one at a time.

An order decides a DAG: every variable takes its parents from its predecessors by growing and
shrinking. One variable after the other is moved to its best place until no move improves the score. A
move changes the score only of variables whose walk down their tree took the moved variable, or would
have taken it had it been allowed. So a move costs a few walks instead of three for every place.
"""

import numpy as np

from mtgbn._utils.arguments import check_count, real_array
from mtgbn._utils.compiled import NONE, kernel
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError
from mtgbn.search.grow_shrink import FULL, Walk, enlarge, grow_shrink, new_walk, plant
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.local_scores import Found, LocalScores, scores_workspace

# Searches need a handful of sweeps over the variables; a search that has not ended after this many goes
# round in circles by rounding errors.
_MOST_SWEEPS = 1000


def boss(
    scores: LocalScores,
    constraints: Constraints | None = None,
    *,
    n_restarts: int = 10,
    initial=None,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Search for the DAG with the highest sum of local scores.

    The first search starts from the order ``initial`` (p,), or from a random one. Each restart
    begins at the best order so far with a third of the variables put at random places. All searches
    share their local scores.
    """
    p = scores.matrices.shape[0]
    constraints = check_constraints(constraints, p)
    check_count("n_restarts", n_restarts, 0)
    rng = np.random.default_rng(seed_sequence(random_state))
    work = scores_workspace(scores, constraints.max_parents)
    forest = plant(constraints)
    order = rng.permutation(p)
    if initial is not None:
        order = real_array(initial, "initial")
        if not np.array_equal(np.sort(order), np.arange(p)):
            raise InputError("initial must be a permutation of the variables 0 to p - 1")
        order = order.astype(np.int64)
    best, best_order = None, order
    for _ in range(n_restarts + 1):
        if best is not None:
            order = _displace_third(best_order, rng)
        order = _obey(order, constraints.required)
        visits = rng.permutation(p)
        adjacency = np.zeros((p, p), dtype=np.bool_)
        arguments = order, visits, constraints, adjacency, work
        while (score := _search_from(scores, forest, *arguments)) == FULL:
            forest = enlarge(forest, constraints)
        if best is None or score > best.score + scores.improvement:
            best, best_order = Found(adjacency, float(score)), order
    assert best is not None  # there is one search at least
    return best


def _displace_third(order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Take a third of the variables, and two more, out of the order and put them anywhere."""
    p = len(order)
    moved = rng.choice(p, min(p // 3 + 2, p), replace=False).tolist()
    displaced = [variable for variable in order.tolist() if variable not in moved]
    for variable in moved:
        displaced.insert(rng.integers(len(displaced) + 1), variable)
    return np.array(displaced)


def _obey(order: np.ndarray, required: np.ndarray) -> np.ndarray:
    """The order, changed as little as possible, with every required parent before its child."""
    if not required.any():
        return order
    obeyed = []
    left = list(order)
    while left:
        first = next(v for v in left if not required[left, v].any())
        obeyed.append(first)
        left.remove(first)
    return np.array(obeyed)


@kernel(error_model="numpy")
def _search_from(scores, forest, order, visits, constraints, adjacency, work):
    """Improve an order and write its DAG; returns the score, or `FULL` if the forest has no room."""
    if not _improve(scores, forest, order, visits, constraints, work):
        return FULL
    p = order.size
    before = np.zeros(p, dtype=np.bool_)
    walk = new_walk(p)
    total = 0.0
    for node in order:
        score, place = grow_shrink(scores, forest, node, before, constraints, walk, work)
        if score == FULL:
            return FULL
        for a in range(p):
            bit = (forest.parents[place, a // 64] >> np.uint64(a % 64)) & np.uint64(1)
            adjacency[a, node] = bit == 1
        total += score
        before[node] = True
    return total


@kernel(error_model="numpy", inline="always")
def _improve(scores, forest, order, visits, constraints, work):
    """Visit all variables until no move improves the order; False if the forest is full."""
    p = order.size
    walks = Walk(
        np.empty(p, dtype=np.int64), np.zeros((p, p), np.bool_), np.zeros((p, p), np.bool_)
    )
    own_walk, trial = new_walk(p), new_walk(p)
    current = np.empty(p)
    if not _walk_all(scores, forest, order, constraints, walks, current, NONE, work):
        return False
    others = np.empty(p - 1, dtype=np.int64)
    before = np.zeros(p, dtype=np.bool_)
    own = np.empty(p)
    without = np.empty(p)  # scores of the others, without and with the moved variable before them
    with_moved = np.empty(p)
    improved = True
    sweeps = 0
    while improved and sweeps < _MOST_SWEEPS:
        improved = False
        sweeps += 1
        for moved in visits:
            now = 0
            count = 0
            # Places after the required parents of the moved variable and before its required children.
            first, last = 0, p - 1
            for k in range(p):
                if order[k] == moved:
                    now = k
                    continue
                if constraints.required[order[k], moved]:
                    first = count + 1
                if constraints.required[moved, order[k]] and last == p - 1:
                    last = count
                others[count] = order[k]
                count += 1
            for k in range(p):
                before[k] = False
            for k in range(first):
                before[others[k]] = True
            for k in range(first, last + 1):
                if k == first or own_walk.rejected[others[k - 1]]:
                    own[k], _ = grow_shrink(
                        scores, forest, moved, before, constraints, own_walk, work
                    )
                    if own[k] == FULL:
                        return False
                else:
                    own[k] = own[k - 1]
                if k == last:
                    break
                other = others[k]
                without[k] = with_moved[k] = current[other]
                if k < now and walks.rejected[other, moved]:
                    before[moved] = True
                    with_moved[k], _ = grow_shrink(
                        scores, forest, other, before, constraints, trial, work
                    )
                    before[moved] = False
                elif k >= now and walks.accepted[other, moved]:
                    without[k], _ = grow_shrink(
                        scores, forest, other, before, constraints, trial, work
                    )
                if without[k] == FULL or with_moved[k] == FULL:
                    return False
                before[other] = True
            # At place k the moved variable scores own[k]; the variables before it score without it as a
            # predecessor, the variables after it with it.
            others_now = 0.0
            for k in range(first, last):
                others_now += with_moved[k]
            best, place = -np.inf, now
            at_present = 0.0
            for k in range(first, last + 1):
                if k > first:
                    others_now += without[k - 1] - with_moved[k - 1]
                value = own[k] + others_now
                if k == now:
                    at_present = value
                if value > best:
                    best, place = value, k
            if best > at_present + scores.improvement:
                improved = True
                for k in range(place):
                    order[k] = others[k]
                order[place] = moved
                for k in range(place, p - 1):
                    order[k + 1] = others[k]
                if not _walk_all(scores, forest, order, constraints, walks, current, moved, work):
                    return False
    return True


@kernel(error_model="numpy")
def _walk_all(scores, forest, order, constraints, walks, current, moved, work):
    """Renew the walks and scores that a moved variable may have changed, or all if it is -1.

    False if the forest is full.
    """
    before = np.zeros(order.size, dtype=np.bool_)
    for node in order:
        if moved < 0 or node == moved or walks.accepted[node, moved] or walks.rejected[node, moved]:
            walk = Walk(walks.parents, walks.accepted[node], walks.rejected[node])
            current[node], _ = grow_shrink(scores, forest, node, before, constraints, walk, work)
            if current[node] == FULL:
                return False
        before[node] = True
    return True
