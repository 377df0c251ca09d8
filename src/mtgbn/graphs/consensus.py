"""Members of equivalence classes, one per task, whose directions mean the same in every task.

Data identify a DAG only up to Markov equivalence, so the direction of a reversible edge is a matter
of representation. Here all tasks choose by one rule: there is one order of the variables, and each
task's member has as many edges along it as its class allows. Compelled edges are votes for the
order, so that an arrow that one task's data demand guides the reversible edge of another.

Given an order, the best member is found exactly: the undirected components of a CPDAG are chordal,
can be directed independently, and must get no v-structure (`mtgbn.graphs.orientation`). Given the
members, the order is a linear ordering problem, improved by moving one variable at a time. The two
steps take turns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn._utils.compiled import kernel
from mtgbn.errors import GraphError, InputError
from mtgbn.graphs.checks import as_adjacency
from mtgbn.graphs.equivalence import consistent_extension, cpdag
from mtgbn.graphs.orientation import best_orientation

# Searches for the order after the first, each from the best order with some variables displaced.
# With 2 or 3 random classes of 5 variables, brute force over orders and members shows that 0 restarts
# find the optimum in 77 % of 400 cases, 30 restarts in 97 %, and 200 restarts in all of 1000 cases.
_MOST_RESTARTS = 200
# Large problems have fewer restarts: all restarts may take this many operations, a few seconds.
_MOST_OPERATIONS = 20_000_000


class Consensus(NamedTuple):
    """One DAG per task (m, p, p), and the order of the variables that they follow.

    ``agreement`` is, of the reversible edges of all tasks, the share that points along the order in
    ``graphs``; every edge counts once, whatever its weight. NaN if no task has a reversible edge.
    """

    graphs: NDArray[np.bool_]
    order: NDArray[np.int64]
    agreement: float


def consensus_members(
    cpdags: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Consensus:
    """Choose a DAG from each task's equivalence class such that the tasks agree on directions.

    Order and DAGs together maximise the weight of the edges, compelled ones included, that point
    along the order. For the order that is returned no other choice of DAGs is better; the order is
    the best that a local search with restarts finds. The result does not depend on the order of
    the tasks.

    Parameters
    ----------
    cpdags : array (m, p, p)
        One CPDAG per task, e.g. from `cpdag`.
    weights : array (p, p) or (m, p, p), optional
        What an edge i -> j along the order is worth, at least 0; e.g. the posterior probability of
        this edge. Only ratios matter, and they are rounded (sums must not depend on the order of
        the tasks) to some five digits or more. Where weights tie, the number of edges decides. Left
        out, all edges are worth the same.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        For the restarts. The default is a fixed seed: the same input gives the same result.

    Examples
    --------
    The data of the first task demand 0 -> 1 <- 2. The second task has the reversible edge 0 - 1, which
    follows.

    >>> first = [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    >>> second = [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    >>> consensus = consensus_members([first, second])
    >>> consensus.graphs[1].astype(int)
    array([[0, 1, 0],
           [0, 0, 0],
           [0, 0, 0]])
    >>> consensus.agreement
    1.0
    """
    classes = _check_classes(cpdags)
    reversible = classes & classes.transpose(0, 2, 1)
    worth = _whole_numbers(_check_weights(weights, classes.shape), int(classes.sum()))
    try:
        rng = np.random.default_rng(0 if random_state is None else random_state)
    except (TypeError, ValueError) as error:
        raise InputError(f"random_state cannot be used: {error}") from error
    search = _Search(classes, reversible, worth)
    best = search.climb(search.first_order())
    for _ in range(search.n_restarts()):
        if best.score == search.bound:
            break
        found = search.climb(_displace(best.order, rng))
        if found.score > best.score:
            best = found

    for task, (graph, members) in enumerate(zip(best.graphs, classes, strict=True)):
        if not np.array_equal(cpdag(graph), members):
            raise AssertionError(f"the DAG chosen for task {task} is not in its equivalence class")
    place = np.argsort(best.order)
    n_reversible = np.count_nonzero(reversible) // 2
    n_along = np.count_nonzero(best.graphs & reversible & (place[:, None] < place))
    agreement = float(n_along / n_reversible) if n_reversible else float("nan")
    return Consensus(best.graphs, best.order, agreement)


class _Found(NamedTuple):
    graphs: NDArray[np.bool_]
    order: NDArray[np.int64]
    score: int


class _Search:
    """Members and order in turns, for fixed classes and whole-numbered worths."""

    def __init__(self, classes, reversible, worth):
        self.reversible, self.worth = reversible, worth
        self.compelled = classes & ~reversible
        self.joined = (classes | classes.transpose(0, 2, 1)).any(axis=0)
        # No order can do better than every edge in its better direction.
        better = np.maximum(worth, worth.transpose(0, 2, 1))
        certain, free = _votes(self.compelled, worth), _votes(reversible, better)
        self.bound = int(certain.sum() + free.sum() // 2)

    def first_order(self) -> NDArray[np.int64]:
        """An order by the votes of compelled edges, and of reversible edges for both directions."""
        votes = _votes(self.compelled | self.reversible, self.worth)
        net = votes.sum(axis=1) - votes.sum(axis=0)
        return _improved(np.argsort(-net, kind="stable"), votes, self.joined)

    def n_restarts(self) -> int:
        """Number of restarts that the size of the problem allows, at least one."""
        m, p, _ = self.reversible.shape
        n_reversible = np.count_nonzero(self.reversible, axis=(1, 2)) // 2
        operations = m * p**2 + int((n_reversible**2).sum())
        return int(np.clip(_MOST_OPERATIONS // max(operations, 1), 1, _MOST_RESTARTS))

    def climb(self, order: NDArray[np.int64]) -> _Found:
        """Improve members and order in turns, from a given order.

        Neither step can lower the score, a whole number with a bound, so this ends.
        """
        best = _Found(self.compelled, order, -1)
        while True:
            graphs, votes, score = _follow(self.compelled, self.reversible, self.worth, order)
            if score <= best.score:
                return best
            best = _Found(graphs, order, score)
            order = _improved(order, votes, self.joined)


def _votes(graphs: NDArray[np.bool_], worth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum over tasks of what their edges i -> j are worth."""
    if len(worth) == 1:
        return graphs.sum(axis=0) * worth[0]
    return np.where(graphs, worth, 0).sum(axis=0)


def _displace(order: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Take some variables out of the order, few more often than many, and put them anywhere."""
    p = len(order)
    moved = rng.permutation(p)[: rng.integers(1, rng.integers(1, p + 1) + 1)]
    stays = np.ones(p, dtype=np.bool_)
    stays[moved] = False
    rest = order[stays[order]]
    places = rng.integers(0, len(rest) + 1, len(moved))  # each comes before the variable there
    keys = np.concatenate([2 * places, 2 * np.arange(len(rest)) + 1])
    return np.concatenate([moved, rest])[np.argsort(keys, kind="stable")]


def _check_classes(cpdags: ArrayLike) -> NDArray[np.bool_]:
    try:
        stack = np.asanyarray(cpdags)
    except ValueError as error:
        raise InputError("cpdags must be an array (m, p, p): all tasks need the same p") from error
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2] or stack.shape[0] == 0:
        raise InputError(
            f"cpdags must have the shape (m, p, p) with at least one task, but it is {stack.shape}"
        )
    classes = np.empty(stack.shape, dtype=np.bool_)
    for task in range(len(stack)):
        try:
            classes[task] = as_adjacency(stack[task])
            completed = cpdag(consistent_extension(classes[task]))
        except GraphError as error:
            raise GraphError(f"task {task} has no CPDAG: {error}") from error
        wrong = np.argwhere(completed != classes[task])
        if wrong.size:
            i, j = wrong[0]
            fault = f"the edge {i} - {j} is undirected, but all DAGs of the class have {j} -> {i}"
            if completed[i, j]:
                fault = (
                    f"the edge {j} -> {i} is directed, but some DAGs of the class have {i} -> {j}"
                )
            raise GraphError(f"task {task} has no CPDAG: {fault}; apply cpdag() to a DAG")
    return classes


def _check_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Weights as an array with one slice for all tasks, or one for each."""
    if weights is None:
        return np.zeros((1, *shape[1:]))
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"weights must be an array of numbers: {error}") from error
    if array.shape not in (shape, shape[1:]):
        raise InputError(
            f"weights must have the shape {shape[1:]} or {shape}, as the CPDAGs, but it is "
            f"{array.shape}"
        )
    bad = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        *task, i, j = bad[0].tolist()
        of_task = f" of task {task[0]}" if task else ""
        raise InputError(
            f"the weight of {i} -> {j}{of_task} is {array[tuple(bad[0])]}, but weights must be "
            "finite and at least 0"
        )
    return array.reshape(-1, *shape[1:])


def _whole_numbers(weights: NDArray[np.float64], n_edges: int) -> NDArray[np.int64]:
    """Round weights to whole numbers, of which sums are exact, and add one to each.

    The added one is less than any difference of sums; it lets the number of edges decide where
    weights tie. All sums over at most n_edges edges stay below 2**62.
    """
    largest = weights.max(initial=0.0)
    if largest == 0:
        return np.ones(weights.shape, dtype=np.int64)
    steps = 2**61 // (n_edges + 1) ** 2
    return np.rint(weights / largest * steps).astype(np.int64) * (n_edges + 1) + 1


@kernel
def _improved(order, votes, joined):
    """A better order, in which variables that no edge keeps apart are sorted by index."""
    order = order.copy()
    _move_variables(order, votes)
    return _sorted_by_index(joined, order)


@kernel(inline="always")
def _move_variables(order, votes):
    """Move each variable to its best place until no move improves the order, which is overwritten."""
    p = len(order)
    improved = True
    while improved:
        improved = False
        for variable in range(p):
            place = 0
            while order[place] != variable:
                place += 1
            best = gain = 0
            target = place
            for step in range(place):
                other = order[place - 1 - step]
                gain += votes[variable, other] - votes[other, variable]
                if gain > best:
                    best, target = gain, place - 1 - step
            gain = 0
            for step in range(p - place - 1):
                other = order[place + 1 + step]
                gain += votes[other, variable] - votes[variable, other]
                if gain > best:
                    best, target = gain, place + 1 + step
            while place != target:
                towards = place - 1 if target < place else place + 1
                order[place] = order[towards]
                order[towards] = variable
                place = towards
                improved = True


@kernel(inline="always")
def _sorted_by_index(joined, order):
    """The order with the smallest indices first that has all joined pairs as this one has them."""
    p = len(order)
    result = np.empty(p, dtype=np.int64)
    waiting_for = np.zeros(p, dtype=np.int64)
    places = np.empty(p, dtype=np.int64)
    for place in range(p):
        places[order[place]] = place
    for i in range(p):
        for j in range(p):
            waiting_for[j] += joined[i, j] and places[i] < places[j]
    n_placed, node = 0, 0
    while n_placed < p:
        while waiting_for[node] != 0:
            node += 1
        result[n_placed] = node
        n_placed += 1
        waiting_for[node] = -1
        following = node
        for j in range(p):
            if joined[node, j] and places[node] < places[j]:
                waiting_for[j] -= 1
                if waiting_for[j] == 0:
                    following = min(following, j)
        node = following
    return result


@kernel
def _follow(compelled, reversible, worth, order):
    """Direct each task's reversible edges such that their worth along the order is greatest.

    Returns the graphs, what the edges i -> j of all tasks are worth, and how much of it is along the
    order.
    """
    m, p, _ = reversible.shape
    directed = np.empty((m, p, p), dtype=np.bool_)
    votes = np.zeros((p, p), dtype=np.int64)
    # Nodes are numbered by their place in the order from here on: along it means i < j.
    adjacent = np.empty((p, p), dtype=np.bool_)
    gain = np.zeros((p, p), dtype=np.int64)
    score = 0
    for task in range(m):
        weights = worth[min(task, len(worth) - 1)]
        for i in range(p):
            for j in range(p):
                adjacent[i, j] = reversible[task, order[i], order[j]]
                if i < j:
                    gain[i, j] = weights[order[i], order[j]]
        arrows = best_orientation(adjacent, gain)
        for i in range(p):
            for j in range(p):
                tail, head = order[i], order[j]
                is_edge = compelled[task, tail, head] or arrows[i, j]
                directed[task, tail, head] = is_edge
                if is_edge:
                    votes[tail, head] += weights[tail, head]
                    if i < j:
                        score += weights[tail, head]
    return directed, votes, score
