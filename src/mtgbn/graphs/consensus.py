"""Members of equivalence classes, one per task, whose directions mean the same in every task.

Data identify a DAG only up to Markov equivalence, so the direction of a reversible edge is a matter
of representation. Here all tasks choose by one rule: there is one order of the variables, and each
task's member has as many edges along it as its class allows. Compelled edges are votes for the
order, so that an arrow that one task's data demand guides the reversible edge of another.

Given an order, the best member is found exactly. The undirected components of a CPDAG are chordal,
can be directed independently, and must get no v-structure. Every such orientation starts with some
maximal clique: what this clique makes of the rest (only Meek's first rule has work to do) is the
same for all orders of the clique, and the components that stay undirected are again chordal and
independent. Hence a recursion over cliques; it meets fewer than twice as many components as there
are cliques (Wienöbst et al.). Given the members, the order is a linear ordering problem, improved
by moving one variable at a time. The two steps take turns.

``A[i, j]`` is true when there is an edge i -> j; ``A[i, j]`` and ``A[j, i]`` together are the
undirected edge i - j.

References
----------
Meek (1995), Causal inference and causal explanation with background knowledge.
Wienöbst, Bannach and Liśkiewicz (2023), Polynomial-time algorithms for counting and sampling
Markov equivalent DAGs with applications.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn._utils.compiled import kernel
from mtgbn.errors import GraphError, InputError
from mtgbn.graphs._validation import as_adjacency
from mtgbn.graphs.equivalence import consistent_extension, cpdag

__all__ = ["Consensus", "consensus_members"]

# Searches for the order after the first, each from the best order with some variables displaced.
# With 2 or 3 random classes of 5 variables, brute force over orders and members says that 0, 30 and
# 200 of them find the optimum in 77 % and 97 % of 400 cases, and in all of 1000.
_MOST_RESTARTS = 200
# Large problems have fewer restarts: so many operations, roughly, are some seconds.
_EFFORT = 20_000_000


class Consensus(NamedTuple):
    """One DAG per task, and the order of the variables that they follow.

    Attributes
    ----------
    graphs : array (m, p, p) of bool
        For each task a DAG of its equivalence class.
    order : array (p,) of int
        The variables from first to last.
    agreement : float
        Of the reversible edges of all tasks, the share that points along the order in `graphs`;
        every edge counts once, whatever its weight. NaN if no task has a reversible edge.
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

    Raises
    ------
    InputError
        If a shape or a weight cannot be used.
    GraphError
        If one of the graphs is not a CPDAG; the message names the task.
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
    along = _along(best.order)
    n_reversible = np.count_nonzero(reversible) // 2
    n_along = np.count_nonzero(best.graphs & reversible & along)
    return Consensus(
        best.graphs, best.order, n_along / n_reversible if n_reversible else float("nan")
    )


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
        """By the votes of compelled edges, and of reversible ones for both directions."""
        votes = _votes(self.compelled | self.reversible, self.worth)
        net = votes.sum(axis=1) - votes.sum(axis=0)
        return _improved(np.argsort(-net, kind="stable"), votes, self.joined)

    def n_restarts(self) -> int:
        """As many as the size of the problem allows, but one at least."""
        m, p, _ = self.reversible.shape
        n_reversible = np.count_nonzero(self.reversible, axis=(1, 2)) // 2
        operations = m * p**2 + int((n_reversible**2).sum())
        return int(np.clip(_EFFORT // max(operations, 1), 1, _MOST_RESTARTS))

    def climb(self, order: NDArray[np.int64]) -> _Found:
        """Members and order in turns, from a given order."""
        return _Found(*_climb(self.compelled, self.reversible, self.worth, self.joined, order))


def _votes(graphs: NDArray[np.bool_], worth: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the edges i -> j of all tasks are worth together."""
    if len(worth) == 1:
        return graphs.sum(axis=0) * worth[0]
    return np.where(graphs, worth, 0).sum(axis=0)


def _along(order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether i comes before j."""
    place = np.argsort(order)
    return place[:, None] < place[None, :]


def _displace(order: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Some variables, few more often than many, taken out and put anywhere."""
    p = len(order)
    moved = rng.permutation(p)[: rng.integers(1, rng.integers(1, p + 1) + 1)]
    stays = np.ones(p, dtype=np.bool_)
    stays[moved] = False
    rest = order[stays[order]]
    places = rng.integers(0, len(rest) + 1, len(moved))  # of the one to come before
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
            if completed[i, j]:
                fault = (
                    f"the edge {j} -> {i} is directed, but some DAGs of the class have {i} -> {j}"
                )
            else:
                fault = (
                    f"the edge {i} - {j} is undirected, but all DAGs of the class have {j} -> {i}"
                )
            raise GraphError(f"task {task} has no CPDAG: {fault}; apply cpdag() to a DAG")
    return classes


def _check_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One slice for all tasks, or one for each."""
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
    """Weights of which sums are exact, plus one that is less than any difference of sums.

    The one lets the number of edges decide where weights tie. All sums over at most n_edges edges
    stay below 2**62.
    """
    largest = weights.max(initial=0.0)
    if largest == 0:
        return np.ones(weights.shape, dtype=np.int64)
    steps = 2**61 // (n_edges + 1) ** 2
    return np.rint(weights / largest * steps).astype(np.int64) * (n_edges + 1) + 1


@kernel
def _climb(compelled, reversible, worth, joined, order):
    """Choose members and order in turns; returns both and their score.

    Neither step can lower the score, a whole number with a bound, so this ends.
    """
    m, p, _ = compelled.shape
    votes = np.empty((p, p), dtype=np.int64)
    places = np.empty(p, dtype=np.int64)
    best_graphs, best_order, best = compelled, order, -1
    while True:
        graphs = _follow(compelled, reversible, worth, order)
        for place in range(p):
            places[order[place]] = place
        score = 0
        for i in range(p):
            for j in range(p):
                votes[i, j] = 0
                for task in range(m):
                    if graphs[task, i, j]:
                        votes[i, j] += worth[min(task, len(worth) - 1), i, j]
                if places[i] < places[j]:
                    score += votes[i, j]
        if score <= best:
            return best_graphs, best_order, best
        best_graphs, best_order, best = graphs, order, score
        order = _improved(order, votes, joined)


@kernel
def _improved(order, votes, joined):
    """A better order, in which variables that nothing keeps apart are sorted by index."""
    order = order.copy()
    _move_variables(order, votes)
    return _sorted_by_index(joined, order)


@kernel
def _move_variables(order, votes):
    """Move each variable to its best place until nothing improves; `order` is overwritten."""
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


@kernel
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
    """Direct each task's reversible edges such that their worth along the order is greatest."""
    m, p, _ = reversible.shape
    directed = compelled.copy()
    # Nodes are numbered by their place in the order from here on: along it means i < j.
    adjacent = np.empty((p, p), dtype=np.bool_)
    gain = np.zeros((p, p), dtype=np.int64)
    for task in range(m):
        weights = worth[min(task, len(worth) - 1)]
        any_edge = False
        for i in range(p):
            for j in range(p):
                adjacent[i, j] = reversible[task, order[i], order[j]]
                any_edge |= adjacent[i, j]
                if i < j:
                    gain[i, j] = weights[order[i], order[j]]
        if any_edge:
            arrows = _best_orientation(adjacent, gain)
            for i in range(p):
                for j in range(p):
                    if arrows[i, j]:
                        directed[task, order[i], order[j]] = True
    return directed


class _Choices(NamedTuple):
    """All components that can be met, and for each its options: the cliques to begin with.

    Component c, a row of flags, has the options first_option[c] to first_option[c + 1]; the first
    n_whole components are those of the graph. Option o has a value, the gain of all edges that it
    settles, begins with the nodes member[first_member[o] : first_member[o + 1]], sorted, and leaves
    the components part[first_part[o] : first_part[o + 1]] undirected. Arrays may be longer.
    """

    n_whole: int
    n_components: int
    components: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    first_option: NDArray[np.int64]
    value: NDArray[np.int64]
    first_member: NDArray[np.int64]
    member: NDArray[np.int64]
    first_part: NDArray[np.int64]
    part: NDArray[np.int64]


@kernel
def _best_orientation(adjacent, gain):
    """Direct a chordal graph without v-structures such that the sum of gains is greatest.

    Of equally good orientations, the one is taken that comes first in a search for cliques from
    the smallest node.
    """
    p = len(adjacent)
    degree = np.zeros(p, dtype=np.int64)
    neighbours = np.zeros((p, p), dtype=np.int64)
    for i in range(p):
        for j in range(p):
            if adjacent[i, j]:
                neighbours[i, degree[i]] = j
                degree[i] += 1
    choices = _explore(adjacent, neighbours, degree, gain)
    components, sizes, n_components = choices.components, choices.sizes, choices.n_components
    member, first_member = choices.member, choices.first_member
    part, first_part = choices.part, choices.first_part

    best = np.zeros(n_components, dtype=np.int64)
    choice = np.zeros(n_components, dtype=np.int64)
    # Parts are smaller than what they are parts of, so they come first.
    for turn in range((p + 1) * n_components):
        row = turn % n_components
        if sizes[row] != turn // n_components:
            continue
        for option in range(choices.first_option[row], choices.first_option[row + 1]):
            value = choices.value[option]
            for k in range(first_part[option], first_part[option + 1]):
                value += best[part[k]]
            if option == choices.first_option[row] or value > best[row]:
                best[row], choice[row] = value, option

    arrows = np.zeros((p, p), dtype=np.bool_)
    settled = np.full((p, p), -1, dtype=np.int64)
    tails, heads = np.empty(p * p // 2, dtype=np.int64), np.empty(p * p // 2, dtype=np.int64)
    in_clique = np.zeros(p, dtype=np.bool_)
    unfinished = np.arange(n_components)  # parts of one graph are disjoint, so this is room enough
    n_unfinished = choices.n_whole
    while n_unfinished > 0:
        n_unfinished -= 1
        row = unfinished[n_unfinished]
        option = choice[row]
        for node in range(p):
            in_clique[node] = False
        for k in range(first_member[option], first_member[option + 1]):
            in_clique[member[k]] = True
            for other in range(first_member[option], k):
                arrows[member[other], member[k]] = True
        n_arrows = _spread(
            in_clique, components[row], adjacent, neighbours, degree, settled, option, tails, heads
        )
        for arrow in range(n_arrows):
            arrows[tails[arrow], heads[arrow]] = True
        for k in range(first_part[option], first_part[option + 1]):
            unfinished[n_unfinished] = part[k]
            n_unfinished += 1
    return arrows


@kernel
def _explore(adjacent, neighbours, degree, gain):
    """All choices that there are in directing a chordal graph."""
    p = len(adjacent)
    settled = np.full((p, p), -1, dtype=np.int64)  # the last option that settled i -> j
    tails, heads = np.empty(p * p // 2, dtype=np.int64), np.empty(p * p // 2, dtype=np.int64)
    in_clique = np.zeros(p, dtype=np.bool_)
    visited = np.zeros(p, dtype=np.bool_)
    count = np.zeros(p, dtype=np.int64)
    visits = np.empty(p, dtype=np.int64)
    waiting = np.empty(p, dtype=np.int64)
    found = np.zeros(p, dtype=np.bool_)

    components = np.zeros((2 * p, p), dtype=np.bool_)
    sizes = np.zeros(2 * p, dtype=np.int64)
    n_components = 0
    everything = np.ones(p, dtype=np.bool_)
    for node in range(p):
        if degree[node] > 0 and not visited[node]:
            sizes[n_components] = _component(
                node, everything, neighbours, degree, settled, 0, visited, waiting, found
            )
            for other in range(p):
                components[n_components, other] = found[other]
            n_components += 1
    n_whole = n_components

    first_option = np.zeros(p, dtype=np.int64)
    values = np.zeros(p, dtype=np.int64)
    first_member, member = np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.int64)
    first_part, part = np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.int64)
    n_options = n_members = n_parts = 0
    row = 0
    while row < n_components:  # the options of a component may add to the number
        inside = components[row]
        _search_cliques(inside, neighbours, degree, visited, count, visits)
        start = 0
        while start < sizes[row]:
            # A run of visits, each with one more visited neighbour, completes a maximal clique.
            stop = start + 1
            while stop < sizes[row] and count[visits[stop]] == count[visits[stop - 1]] + 1:
                stop += 1
            for node in range(p):
                in_clique[node] = False
            for place in range(stop):
                if place >= start or adjacent[visits[start], visits[place]]:
                    in_clique[visits[place]] = True
            start = stop

            values = _with_room(values, n_options + 1)
            first_member = _with_room(first_member, n_options + 2)
            first_part = _with_room(first_part, n_options + 2)
            member = _with_room(member, n_members + p)
            part = _with_room(part, n_parts + p)
            value = 0
            for i in range(p):
                visited[i] = in_clique[i]
                if in_clique[i]:
                    for k in range(first_member[n_options], n_members):
                        value += gain[member[k], i]
                    member[n_members] = i
                    n_members += 1
            n_arrows = _spread(
                in_clique, inside, adjacent, neighbours, degree, settled, n_options, tails, heads
            )
            for arrow in range(n_arrows):
                value += gain[tails[arrow], heads[arrow]]
            for node in range(p):
                if not inside[node] or visited[node]:
                    continue
                size = _component(
                    node, inside, neighbours, degree, settled, n_options, visited, waiting, found
                )
                if size == 1:
                    continue
                known = _look_up(components, sizes, n_components, found, size)
                if known == n_components:
                    components = _with_rows(components, known + 1)
                    sizes = _with_room(sizes, known + 1)
                    sizes[known] = size
                    for other in range(p):
                        components[known, other] = found[other]
                    n_components += 1
                part[n_parts] = known
                n_parts += 1
            values[n_options] = value
            n_options += 1
            first_member[n_options], first_part[n_options] = n_members, n_parts
        row += 1
        first_option = _with_room(first_option, row + 1)
        first_option[row] = n_options
    return _Choices(
        n_whole,
        n_components,
        components,
        sizes,
        first_option,
        values,
        first_member,
        member,
        first_part,
        part,
    )


@kernel
def _with_room(array, length):
    """The array itself, or a longer copy."""
    if length <= len(array):
        return array
    longer = np.zeros(2 * length, dtype=np.int64)
    for k in range(len(array)):
        longer[k] = array[k]
    return longer


@kernel
def _with_rows(array, n_rows):
    """The array itself, or a copy with more rows."""
    if n_rows <= len(array):
        return array
    longer = np.zeros((2 * n_rows, array.shape[1]), dtype=np.bool_)
    for i in range(len(array)):
        for j in range(array.shape[1]):
            longer[i, j] = array[i, j]
    return longer


@kernel
def _search_cliques(inside, neighbours, degree, visited, count, visits):
    """Maximum cardinality search of a component; `count` holds visited neighbours on arrival."""
    p = len(inside)
    for node in range(p):
        visited[node] = False
        count[node] = 0
    n_visits = 0
    while True:
        node = -1
        for other in range(p):
            if inside[other] and not visited[other] and (node < 0 or count[other] > count[node]):
                node = other
        if node < 0:
            return
        visited[node] = True
        visits[n_visits] = node
        n_visits += 1
        for k in range(degree[node]):
            other = neighbours[node, k]
            if not visited[other]:
                count[other] += 1


@kernel
def _spread(in_clique, inside, adjacent, neighbours, degree, settled, mark, tails, heads):
    """Edges of a component that a clique at its beginning settles; returns their number.

    They leave the clique, or follow by Meek's first rule: i -> j - k becomes i -> j -> k where i
    and k are not adjacent.
    """
    n_arrows = 0
    for i in range(len(inside)):
        if in_clique[i]:
            for k in range(degree[i]):
                j = neighbours[i, k]
                if inside[j] and not in_clique[j]:
                    settled[i, j] = mark
                    tails[n_arrows], heads[n_arrows] = i, j
                    n_arrows += 1
    done = 0
    while done < n_arrows:
        i, j = tails[done], heads[done]
        done += 1
        for k in range(degree[j]):
            other = neighbours[j, k]
            if (
                inside[other]
                and other != i
                and not adjacent[i, other]
                and settled[j, other] != mark
                and settled[other, j] != mark
            ):
                settled[j, other] = mark
                tails[n_arrows], heads[n_arrows] = j, other
                n_arrows += 1
    return n_arrows


@kernel
def _component(node, inside, neighbours, degree, settled, mark, visited, waiting, found):
    """Nodes that unsettled edges join to a node, as flags in `found`; returns their number."""
    for other in range(len(found)):
        found[other] = False
    found[node] = visited[node] = True
    waiting[0] = node
    n_found = 1
    done = 0
    while done < n_found:
        i = waiting[done]
        done += 1
        for k in range(degree[i]):
            j = neighbours[i, k]
            if inside[j] and not visited[j] and settled[i, j] != mark and settled[j, i] != mark:
                found[j] = visited[j] = True
                waiting[n_found] = j
                n_found += 1
    return n_found


@kernel
def _look_up(components, sizes, n_components, found, n_found):
    """Row of a component; `n_components` if it is new."""
    for row in range(n_components):
        if sizes[row] == n_found:
            same = True
            for node in range(len(found)):
                if components[row, node] != found[node]:
                    same = False
                    break
            if same:
                return row
    return n_components
