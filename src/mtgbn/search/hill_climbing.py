"""Hill climbing over DAGs: add, delete or reverse one edge at a time, or exchange one parent.

For every node, the gain of adding or deleting each possible parent is kept, and computed anew only
when the parents of the node change. Where no move improves the score, one parent may be exchanged for
another (`_exchange`; not in the paper's MMHC). A further move of two edges goes beside it. With a tabu
list the search goes on from a local optimum by the best move that does not touch a recently changed
pair, and returns the best graph of all.
"""

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.compiled import NONE, kernel
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError
from mtgbn.graphs.dags import topological_order
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.local_scores import (
    Found,
    LocalScores,
    best_first,
    local_score,
    parents_of,
    score_additions,
    scores_workspace,
)


def hill_climb(
    scores: LocalScores,
    constraints: Constraints | None = None,
    *,
    initial=None,
    n_restarts: int = 0,
    tabu: int = 0,
    exchange: bool = True,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Climb from a DAG to a local optimum.

    The start is ``initial`` (p, p), or the required edges alone; each restart begins at the best
    graph so far with as many edges changed at random as it has nodes. After ``tabu`` moves without
    a new best graph the search ends. A pair that was changed is tabu for the same number of moves,
    but at most for half as many moves as there are pairs, unless changing it gives a new best
    graph. ``exchange=False`` leaves the moves of the paper, without the exchange of one parent for
    another.
    """
    p = scores.matrices.shape[0]
    constraints = check_constraints(constraints, p)
    check_count("n_restarts", n_restarts, 0)
    check_count("tabu", tabu, 0)
    adjacency = constraints.required.copy()
    if initial is not None:
        adjacency = check_initial(initial, constraints)
    rng = np.random.default_rng(seed_sequence(random_state))
    work = scores_workspace(scores, p - 1)
    best = None
    for _ in range(n_restarts + 1):
        if best is not None:
            adjacency = shake(best.adjacency, constraints, rng)
        score = _climb(scores, adjacency, constraints, tabu, exchange, work)
        if best is None or score > best.score + scores.improvement:
            best = Found(adjacency, float(score))
    assert best is not None  # there is one climb at least
    return best


def check_initial(initial, constraints: Constraints) -> np.ndarray:
    """Return a copy of a DAG that meets the constraints, or say which edge does not."""
    topological_order(initial)  # raises, showing a cycle
    adjacency = np.array(initial, dtype=np.bool_, order="C")
    p = len(constraints.allowed)
    if adjacency.shape != (p, p):
        raise InputError(f"initial must have shape ({p}, {p}); got {adjacency.shape}")
    forbidden = np.argwhere(adjacency & ~constraints.allowed)
    missing = np.argwhere(constraints.required & ~adjacency)
    if forbidden.size or missing.size:
        i, j = (forbidden if forbidden.size else missing)[0]
        what = "has the forbidden" if forbidden.size else "lacks the required"
        raise InputError(f"the initial graph {what} edge {i} -> {j}")
    if adjacency.sum(axis=0).max(initial=0) > constraints.max_parents:
        raise InputError(f"a node of the initial graph has over {constraints.max_parents} parents")
    return adjacency


def shake(adjacency: np.ndarray, constraints: Constraints, rng) -> np.ndarray:
    """The graph after p random changes of edges, each of which leaves it an allowed DAG."""
    shaken = adjacency.copy()
    pairs = np.argwhere(constraints.allowed & ~constraints.required & ~constraints.required.T)
    for i, j in rng.permutation(pairs)[: len(adjacency)]:
        if shaken[i, j]:
            shaken[i, j] = False
        elif not has_path(shaken, j, i):  # an edge j -> i would be reversed
            shaken[j, i] = False
            if shaken[:, j].sum() < constraints.max_parents:
                shaken[i, j] = True
    return shaken


@kernel(error_model="numpy")
def _climb(scores, adjacency, constraints, tabu, exchange, work):
    """Climb in place; returns the score of the best graph, which ``adjacency`` then holds."""
    p = adjacency.shape[0]
    families = np.empty(p)
    gains = np.empty((p, p))
    settled = np.zeros(p, dtype=np.bool_)  # no exchange improves the present parents of the node
    for node in range(p):
        families[node] = _renew(scores, adjacency, constraints, node, gains, work)
    best_graph = adjacency.copy()
    best = total = families.sum()
    until = np.zeros((p, p), dtype=np.int64)  # the pair is tabu before this move
    tenure = min(tabu, p * (p - 1) // 4)  # with few pairs all would soon be tabu
    since_best = 0
    move = 0
    while True:
        tail, head, reverse, gain = _best_move(
            adjacency, constraints, gains, until, move, best - total + scores.improvement
        )
        if gain <= scores.improvement and exchange:
            node = _exchange(scores, adjacency, constraints, families, settled, work)
            if node >= 0:
                families[node] = _renew(scores, adjacency, constraints, node, gains, work)
                settled[node] = False
                total = families.sum()
                if total > best + scores.improvement:
                    best, since_best = total, 0
                    _copy(adjacency, best_graph)
                continue
        # The last condition ends searches whose gains are rounding errors: none needs p * p moves to get
        # back to the best score.
        if tail < 0 or (
            since_best >= tabu and (gain <= scores.improvement or since_best > tabu + p * p)
        ):
            break
        until[tail, head] = until[head, tail] = move + tenure
        move += 1
        adjacency[tail, head] = not adjacency[tail, head]
        families[head] = _renew(scores, adjacency, constraints, head, gains, work)
        settled[head] = False
        if reverse:
            adjacency[head, tail] = True
            families[tail] = _renew(scores, adjacency, constraints, tail, gains, work)
            settled[tail] = False
        total = families.sum()
        since_best += 1
        if total > best + scores.improvement:
            best, since_best = total, 0
            _copy(adjacency, best_graph)
    _copy(best_graph, adjacency)
    return best


@kernel(error_model="numpy", inline="always")
def _exchange(scores, adjacency, constraints, families, settled, work):
    """Exchange the parent of some node for a better one, in place; returns the node, or -1.

    Nodes that are ``settled`` are skipped. Nodes of which no exchange improves the score, whatever the
    rest of the graph, are marked as settled.
    """
    p = adjacency.shape[0]
    additions = np.empty(p)
    possible = np.empty(p, dtype=np.bool_)
    order = np.empty(p, dtype=np.int64)
    fewer = np.empty(p, dtype=np.int64)
    for node in range(p):
        if settled[node]:
            continue
        settled[node] = True
        parents = parents_of(adjacency, node)
        for a in range(p):
            possible[a] = constraints.allowed[a, node] and not adjacency[a, node]
        for r in range(parents.size):
            if constraints.required[parents[r], node]:
                continue
            for t in range(parents.size - 1):
                fewer[t] = parents[t] if t < r else parents[t + 1]
            score_additions(scores, node, fewer, parents.size - 1, possible, additions, work)
            for a in order[: best_first(additions, families[node] + scores.improvement, order)]:
                settled[node] = False
                if not adjacency[node, a] and not has_path(adjacency, node, a):
                    adjacency[parents[r], node] = False
                    adjacency[a, node] = True
                    return node
    return NONE


@kernel(error_model="numpy")
def _renew(scores, adjacency, constraints, node, gains, work):
    """Write the gain of toggling every parent of a node, and return its present score."""
    p = adjacency.shape[0]
    parents = parents_of(adjacency, node)
    possible = np.empty(p, dtype=np.bool_)
    for a in range(p):
        possible[a] = constraints.allowed[a, node] and not adjacency[a, node]
    additions = np.empty(p)
    base = score_additions(scores, node, parents, parents.size, possible, additions, work)
    for a in range(p):
        gains[a, node] = additions[a] - base
    fewer = np.empty(p, dtype=np.int64)
    for r in range(parents.size):
        for t in range(parents.size - 1):
            fewer[t] = parents[t] if t < r else parents[t + 1]
        gains[parents[r], node] = local_score(scores, node, fewer, parents.size - 1, work) - base
    return base


@kernel(error_model="numpy", inline="always")
def _best_move(adjacency, constraints, gains, until, move, aspiration):
    """The legal move with the largest gain: tail, head, whether it reverses, gain; tail -1: none.

    A tabu pair may be changed for a gain above ``aspiration``.
    """
    p = adjacency.shape[0]
    counts = np.zeros(p, dtype=np.int64)
    for i in range(p):
        for j in range(p):
            counts[j] += adjacency[i, j]
    best = -np.inf
    tail = head = NONE
    reverse = False
    for i in range(p):
        for j in range(p):
            least = max(best, aspiration) if until[i, j] > move else best
            if i == j or constraints.required[i, j]:
                continue
            if adjacency[i, j]:
                if gains[i, j] > least:
                    best, tail, head, reverse = gains[i, j], i, j, False
                    least = best
                turned = gains[i, j] + gains[j, i]
                if (
                    turned > least
                    and constraints.allowed[j, i]
                    and counts[i] < constraints.max_parents
                    and not has_path(adjacency, i, j)
                ):
                    best, tail, head, reverse = turned, i, j, True
            elif (
                gains[i, j] > least
                and constraints.allowed[i, j]
                and not adjacency[j, i]
                and counts[j] < constraints.max_parents
                and not has_path(adjacency, j, i)
            ):
                best, tail, head, reverse = gains[i, j], i, j, False
    return tail, head, reverse, best


@kernel
def has_path(adjacency, start, end):
    """Whether a directed path other than the edge start -> end leads from start to end."""
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
                    if node == start:
                        continue
                    return True
                seen[child] = True
                stack[size] = child
                size += 1
    return False


@kernel
def _copy(source, target):
    """Copy a matrix; a loop compiles faster than an assignment of arrays, which checks their shapes."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]
