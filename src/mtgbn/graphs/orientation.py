"""The best orientation of a chordal graph without v-structures, found exactly.

Every such orientation starts with some maximal clique. What this clique settles of the rest (only
Meek's first rule has work to do) is the same for all orders of the clique, and the components that
stay undirected are again chordal and independent. Hence a recursion over cliques; it meets fewer than
twice as many components as the graph has maximal cliques (Wienöbst et al.).

References
----------
Meek (1995), Causal inference and causal explanation with background knowledge.
Wienöbst, Bannach and Liśkiewicz (2023), Polynomial-time algorithms for counting and sampling
Markov equivalent DAGs with applications.
"""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import ZERO, kernel


class _Graph(NamedTuple):
    """An undirected graph, and the edges that the last options settled."""

    adjacent: np.ndarray  # (p, p)
    neighbours: np.ndarray  # (p, p); the first degree[i] elements of row i are those of node i
    degree: np.ndarray  # (p,)
    settled: np.ndarray  # (p, p), the last option that settled i -> j
    tails: np.ndarray  # with heads, room for the edges that one option settles
    heads: np.ndarray


@kernel(inline="always")
def best_orientation(adjacent, gain):
    """Direct a chordal graph without v-structures such that the sum of gains is greatest.

    Of equally good orientations, the one is taken that comes first in a search for cliques from
    the smallest node.

    The components that can occur are rows of ``components``; the first ``n_whole`` are those of the
    graph. An option is a clique to begin with: component c has the options ``first_option[c]`` to
    ``first_option[c + 1]``. Option o has the value ``values[o]``, the gain of all edges that it
    settles, begins with the nodes ``member[first_member[o] : first_member[o + 1]]``, sorted, and
    leaves the components ``part[first_part[o] : first_part[o + 1]]`` undirected.
    """
    p = len(adjacent)
    graph = _Graph(
        adjacent,
        np.empty((p, p), dtype=np.int64),
        np.zeros(p, dtype=np.int64),
        np.empty((p, p), dtype=np.int64),
        np.empty(p * p // 2, dtype=np.int64),
        np.empty(p * p // 2, dtype=np.int64),
    )
    for i in range(p):
        for j in range(p):
            graph.settled[i, j] = -1
            if adjacent[i, j]:
                graph.neighbours[i, graph.degree[i]] = j
                graph.degree[i] += 1
    in_clique = np.zeros(p, dtype=np.bool_)
    visited = np.zeros(p, dtype=np.bool_)
    found = np.zeros(p, dtype=np.bool_)
    count = np.zeros(p, dtype=np.int64)
    visits = np.zeros(p, dtype=np.int64)
    waiting = np.zeros(p, dtype=np.int64)

    components = np.zeros((2 * p + 1, p), dtype=np.bool_)
    sizes = np.zeros(2 * p, dtype=np.int64)
    first_option = np.zeros(2 * p + 1, dtype=np.int64)
    values = np.zeros(p, dtype=np.int64)
    first_member, member = np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.int64)
    first_part, part = np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.int64)
    n_options = n_members = n_parts = n_components = ZERO
    whole = components[2 * p]
    for node in range(p):
        whole[node] = True
    for node in range(p):
        if graph.degree[node] > 0 and not visited[node]:
            sizes[n_components] = _component(graph, node, whole, n_options, visited, waiting, found)
            for other in range(p):
                components[n_components, other] = found[other]
            n_components += 1
    n_whole = n_components

    row = 0
    while row < n_components:  # the options of a component may add components
        inside = components[row]
        _search_cliques(graph, inside, visited, count, visits)
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
            for arrow in range(_spread(graph, in_clique, inside, n_options)):
                value += gain[graph.tails[arrow], graph.heads[arrow]]
            for node in range(p):
                if not inside[node] or visited[node]:
                    continue
                size = _component(graph, node, inside, n_options, visited, waiting, found)
                if size == 1:
                    continue
                known = _look_up(components, sizes, n_components, found, size)
                if known == n_components:
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
        first_option[row] = n_options

    best = np.zeros(n_components, dtype=np.int64)
    choice = np.zeros(n_components, dtype=np.int64)
    # Parts are smaller than the component that they are parts of, so smaller components come first.
    for turn in range((p + 1) * n_components):
        row = turn % n_components
        if sizes[row] != turn // n_components:
            continue
        for option in range(first_option[row], first_option[row + 1]):
            value = values[option]
            for k in range(first_part[option], first_part[option + 1]):
                value += best[part[k]]
            if option == first_option[row] or value > best[row]:
                best[row], choice[row] = value, option

    arrows = np.zeros((p, p), dtype=np.bool_)
    # Parts of one graph are disjoint, so no more than p are unfinished at a time.
    n_unfinished = n_whole
    for row in range(n_whole):
        waiting[row] = row
    while n_unfinished > 0:
        n_unfinished -= 1
        row = waiting[n_unfinished]
        option = choice[row]
        for node in range(p):
            in_clique[node] = False
        for k in range(first_member[option], first_member[option + 1]):
            in_clique[member[k]] = True
            for other in range(first_member[option], k):
                arrows[member[other], member[k]] = True
        # Marks from n_options on have not been used above.
        for arrow in range(_spread(graph, in_clique, components[row], n_options + row)):
            arrows[graph.tails[arrow], graph.heads[arrow]] = True
        for k in range(first_part[option], first_part[option + 1]):
            waiting[n_unfinished] = part[k]
            n_unfinished += 1
    return arrows


@kernel
def _with_room(array, length):
    """The array, or a longer copy of it if it has not this length."""
    if length <= len(array):
        return array
    longer = np.zeros(2 * length, dtype=np.int64)
    for k in range(len(array)):
        longer[k] = array[k]
    return longer


@kernel(inline="always")
def _search_cliques(graph, inside, visited, count, visits):
    """Maximum cardinality search of a component; `count` holds visited neighbours on arrival."""
    p = len(inside)
    for node in range(p):
        visited[node] = False
        count[node] = 0
    n_visits = 0
    node = 0
    while node >= 0:
        node = -1
        for other in range(p):
            if inside[other] and not visited[other] and (node < 0 or count[other] > count[node]):
                node = other
        if node >= 0:
            visited[node] = True
            visits[n_visits] = node
            n_visits += 1
            for k in range(graph.degree[node]):
                other = graph.neighbours[node, k]
                if not visited[other]:
                    count[other] += 1


@kernel
def _spread(graph, in_clique, inside, mark):
    """Settle the edges of a component that a clique at its beginning decides; returns their number.

    They leave the clique, or follow by Meek's first rule: i -> j - k becomes i -> j -> k where i
    and k are not adjacent. They are written to ``graph.tails`` and ``graph.heads``, and marked.
    """
    tails, heads, settled = graph.tails, graph.heads, graph.settled
    n_arrows = 0
    for i in range(len(inside)):
        if in_clique[i]:
            for k in range(graph.degree[i]):
                j = graph.neighbours[i, k]
                if inside[j] and not in_clique[j]:
                    settled[i, j] = mark
                    tails[n_arrows], heads[n_arrows] = i, j
                    n_arrows += 1
    done = 0
    while done < n_arrows:
        i, j = tails[done], heads[done]
        done += 1
        for k in range(graph.degree[j]):
            other = graph.neighbours[j, k]
            if (
                inside[other]
                and other != i
                and not graph.adjacent[i, other]
                and settled[j, other] != mark
                and settled[other, j] != mark
            ):
                settled[j, other] = mark
                tails[n_arrows], heads[n_arrows] = j, other
                n_arrows += 1
    return n_arrows


@kernel
def _component(graph, node, inside, mark, visited, waiting, found):
    """Nodes that edges without the mark join to a node, as flags in `found`; returns their number."""
    settled = graph.settled
    for other in range(len(found)):
        found[other] = False
    found[node] = visited[node] = True
    waiting[0] = node
    n_found = 1
    done = 0
    while done < n_found:
        i = waiting[done]
        done += 1
        for k in range(graph.degree[i]):
            j = graph.neighbours[i, k]
            if inside[j] and not visited[j] and settled[i, j] != mark and settled[j, i] != mark:
                found[j] = visited[j] = True
                waiting[n_found] = j
                n_found += 1
    return n_found


@kernel(inline="always")
def _look_up(components, sizes, n_components, found, n_found):
    """Row of a component; `n_components` if it is new."""
    row = 0
    while row < n_components:
        same = sizes[row] == n_found
        node = 0
        while same and node < len(found):
            same = components[row, node] == found[node]
            node += 1
        if same:
            break
        row += 1
    return row
