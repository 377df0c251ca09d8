"""Update of the graphs: Metropolis-Hastings moves between DAGs (docs/model.md, section 14).

The state of a task is an order of its variables together with a DAG that obeys the order. All orders
are equally probable a priori and, given the order, edges are independent. Therefore the skeleton has
exactly the distribution of the edge prior, however many DAGs have this skeleton, unless tasks share
directions, too. Data enter through the scores of families given sigma_h.
"""

from math import log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import (
    empty_scores,
    family_score,
    prepare_own,
    prepare_tied,
    set_sources,
)
from mtgbn.model.edge_prior import add_member, edge_terms, log_odds_of_edge
from mtgbn.search.knowledge import Constraints

# Shares of the kinds of moves; the rest gives variables new places in the order. Renewing the parents
# of two variables needs a number of scores in proportion to p: with many variables its share is smaller.
_TOGGLE, _EXCHANGE, _REVERSE, _RENEW, _RENEW_TIMES_P = 0.3, 0.1, 0.2, 0.05, 1.2

# Smaller changes of the log density are rounding errors.
_ROUNDING = 1e-9


class _Families(NamedTuple):
    """Parents of every variable, and scores of families that differ by one parent.

    Row j of ``parents`` (p, p) lists the parents of j, ``n_parents`` (p,) their number. ``scores`` (p,)
    are those of the families. ``known`` (p, p), where ``is_known``, are scores of a variable's family
    with one other variable added or removed. ``trial`` (p,) is room for a list of parents.
    """

    parents: np.ndarray
    n_parents: np.ndarray
    scores: np.ndarray
    known: np.ndarray
    is_known: np.ndarray
    trial: np.ndarray


@kernel(error_model="numpy", inline="always")
def update_graphs(rng, data, state, sigma_h, move_counts):
    """Make ``data.n_moves`` moves in every task, one task after the other, in place.

    ``state.counts`` is kept up to date. To ``move_counts`` (m, p, p) the number of moves is added after
    which a task had each edge.
    """
    adjacencies, scatters, members, counts = (
        state.adjacencies,
        state.scatters,
        state.members,
        state.counts,
    )
    ns, one_way = data.ns, data.one_way
    m, p, _ = scatters.shape
    delta = state.delta[()]
    limits = Constraints(data.allowed, data.required, data.max_parents)
    scores = empty_scores(p)
    n_members = members.sum()
    terms = edge_terms(state, data.agreement, members, data.groups)
    for t in range(m):
        adjacency, is_member, cost = adjacencies[t], members[t], data.edge_costs[t]
        group = data.groups[t]
        if is_member:
            add_member(adjacency, group, counts, -1)
            prepare_tied(scores, scatters[t], ns[t], sigma_h, delta, data.max_parents)
        if not state.ties[t].all():
            prepare_own(scores, scatters[t], ns[t], data.single_scales[t], data.max_parents)
        set_sources(scores, state.ties[t])
        for i in range(p):
            for j in range(p):
                odds = terms.single_log_odds[i, j]
                if is_member:
                    forward, backward = counts[0, i, j], counts[0, j, i]
                    second = counts[1, i, j] + counts[1, j, i]
                    odds = log_odds_of_edge(
                        terms, i, j, forward, backward, second, group, n_members - 1
                    )
                scores.log_odds[i, j] = odds + one_way[i, j] - cost
        walk(rng, adjacency, state.orders[t], scores, limits, data.n_moves, move_counts[t])
        if is_member:
            add_member(adjacency, group, counts, 1)


@kernel(error_model="numpy")
def walk(rng, adjacency, order, scores, limits, n_moves, move_counts):
    """Make moves in one task, in place: its ``adjacency`` (p, p) and ``order`` (p,) change.

    ``scores`` are `TaskScores`, ``limits`` `Constraints`. ``move_counts`` (p, p) gains, for every edge,
    the number of moves after which it was there.
    """
    p = order.size
    allowed, required, max_parents = limits.allowed, limits.required, limits.max_parents
    renewals = min(_RENEW, _RENEW_TIMES_P / p)
    places = np.empty(p, dtype=np.int64)
    since = np.zeros((p, p), dtype=np.int64)
    # For renewals: parents of a node and of its former parent, as proposed, at present, and on the
    # way back.
    new_parents, new_others = np.zeros(p, dtype=np.bool_), np.zeros(p, dtype=np.bool_)
    old_parents, old_others = np.zeros(p, dtype=np.bool_), np.zeros(p, dtype=np.bool_)
    back_parents, back_others = np.zeros(p, dtype=np.bool_), np.zeros(p, dtype=np.bool_)
    families = _Families(
        np.empty((p, p), dtype=np.int64),
        np.empty(p, dtype=np.int64),
        np.empty(p),
        np.empty((p, p)),
        np.zeros((p, p), dtype=np.bool_),
        np.empty(p, dtype=np.int64),
    )
    parents, n_parents, trial = families.parents, families.n_parents, families.trial
    is_known = families.is_known
    for node in range(p):
        places[order[node]] = node
        n_parents[node] = 0
        for a in range(p):
            if adjacency[a, node]:
                parents[node, n_parents[node]] = a
                n_parents[node] += 1
    for node in range(p):
        families.scores[node] = family_score(scores, node, parents[node], n_parents[node])
    for move in range(n_moves):
        kind = rng.random()
        if kind < _TOGGLE:
            first, second = int(rng.random() * p), int(rng.random() * (p - 1))
            if second >= first:
                second += 1
            else:
                first, second = second, first
            a, node = order[first], order[second]
            q = n_parents[node]
            here = adjacency[a, node]
            if not allowed[a, node] or (here and required[a, node]):
                continue
            if not here and q >= max_parents:
                continue
            score = _toggled(scores, families, a, node, here)
            if _accepts(rng, score - families.scores[node]):
                families.scores[node] = score
                is_known[node] = False
                _toggle(families, a, node, here)
                if here:
                    move_counts[a, node] += move - since[a, node]
                since[a, node] = move
                adjacency[a, node] = not here
        elif kind < _TOGGLE + _EXCHANGE:
            # Replace one parent of a node by another.
            node = int(rng.random() * p)
            q = n_parents[node]
            free = places[node] - q
            if q == 0 or free <= 0:
                continue
            k = int(rng.random() * q)
            old = parents[node, k]
            skipped = int(rng.random() * free)
            new = -1
            for place in range(places[node]):
                if not adjacency[order[place], node]:
                    if skipped == 0:
                        new = order[place]
                        break
                    skipped -= 1
            if required[old, node] or not allowed[new, node]:
                continue
            candidate = trial
            for other in range(q):
                candidate[other] = parents[node, other]
            candidate[k] = new
            score = family_score(scores, node, candidate, q)
            if _accepts(rng, score - families.scores[node]):
                families.scores[node] = score
                is_known[node] = False
                parents[node, k] = new
                move_counts[old, node] += move - since[old, node]
                since[new, node] = move
                adjacency[old, node] = False
                adjacency[new, node] = True
        elif kind < _TOGGLE + _EXCHANGE + _REVERSE:
            # a -> node becomes node -> a. They swap places in the order, if no variable between them
            # is a child of a or a parent of the node.
            node = int(rng.random() * p)
            q = n_parents[node]
            if q == 0:
                continue
            a = parents[node, int(rng.random() * q)]
            if required[a, node] or not allowed[node, a] or n_parents[a] >= max_parents:
                continue
            if _objects(adjacency, order, places[a], places[node]):
                continue
            score = _toggled(scores, families, a, node, adjacency[a, node])
            other_score = _toggled(scores, families, node, a, adjacency[node, a])
            change = score + other_score - families.scores[node] - families.scores[a]
            if _accepts(rng, change + log(q / (n_parents[a] + 1.0))):
                families.scores[node], families.scores[a] = score, other_score
                is_known[node] = is_known[a] = False
                _toggle(families, a, node, adjacency[a, node])
                _toggle(families, node, a, adjacency[node, a])
                places[a], places[node] = places[node], places[a]
                order[places[a]], order[places[node]] = a, node
                move_counts[a, node] += move - since[a, node]
                since[node, a] = move
                adjacency[a, node] = False
                adjacency[node, a] = True
        elif kind < _TOGGLE + _EXCHANGE + _REVERSE + renewals:
            # Reverse a -> node and renew the parents of both. Candidates are drawn one after the
            # other, each given the rest, so that the probabilities of the way there and of the way
            # back are known.
            node = int(rng.random() * p)
            q = n_parents[node]
            if q == 0:
                continue
            a = parents[node, int(rng.random() * q)]
            if required[a, node] or not allowed[node, a]:
                continue
            if _objects(adjacency, order, places[a], places[node]):
                continue
            for k in range(p):
                new_parents[k] = old_parents[k] = adjacency[k, node]
                new_others[k] = old_others[k] = adjacency[k, a]
            new_parents[a] = False
            new_others[node] = True
            before = order[: places[a]]
            forward, score = _sweep(
                rng, scores, limits, node, before, new_parents, new_parents, False, trial
            )
            more, other_score = _sweep(
                rng, scores, limits, a, before, new_others, new_others, False, trial
            )
            forward += more
            chosen = 0
            for k in range(p):
                chosen += new_others[k]
                back_parents[k], back_others[k] = new_parents[k], new_others[k]
            # The way back starts from the new parents, with the edge reversed again.
            back_parents[a] = True
            back_others[node] = False
            backward, _ = _sweep(
                rng, scores, limits, a, before, back_others, old_others, True, trial
            )
            more, _ = _sweep(
                rng, scores, limits, node, before, back_parents, old_parents, True, trial
            )
            backward += more
            change = score + other_score - families.scores[node] - families.scores[a]
            change += backward - forward + log(q / float(chosen))
            if _accepts(rng, change):
                families.scores[node], families.scores[a] = score, other_score
                is_known[node] = is_known[a] = False
                for child in (node, a):
                    chosen_parents = new_parents if child == node else new_others
                    n_parents[child] = 0
                    for k in range(p):
                        if adjacency[k, child] and not chosen_parents[k]:
                            move_counts[k, child] += move - since[k, child]
                        elif chosen_parents[k] and not adjacency[k, child]:
                            since[k, child] = move
                        adjacency[k, child] = chosen_parents[k]
                        if chosen_parents[k]:
                            parents[child, n_parents[child]] = k
                            n_parents[child] += 1
                places[a], places[node] = places[node], places[a]
                order[places[a]], order[places[node]] = a, node
        else:
            # Move a variable to any place in the order between its last parent and its first child.
            node = int(rng.random() * p)
            now = places[node]
            first, last = now, now
            while first > 0 and not adjacency[order[first - 1], node]:
                first -= 1
            while last < p - 1 and not adjacency[node, order[last + 1]]:
                last += 1
            new = first + int(rng.random() * (last - first + 1))
            step = 1 if new > now else -1
            while now != new:
                order[now] = order[now + step]
                places[order[now]] = now
                now += step
            order[new] = node
            places[node] = new
    for i in range(p):
        for j in range(p):
            if adjacency[i, j]:
                move_counts[i, j] += n_moves - since[i, j]


@kernel(inline="always")
def _accepts(rng, change):
    """Whether a change of the log density is accepted; no number is drawn if acceptance is certain.

    The densities of equivalent graphs differ by rounding errors. These must not decide whether a random
    number is drawn, or else all later draws would depend on the processor.
    """
    return change > -_ROUNDING or (change > -40.0 and rng.random() < np.exp(change))


@kernel(error_model="numpy", forceinline=True)
def _toggled(scores, families, a, node, here):
    """Score of a node's family without ``a``, if it is a parent now (``here``), otherwise with it.

    Most moves are rejected, so that the same families are proposed again and again. Scores are kept
    until the node's parents change.
    """
    parents, n_parents, trial = families.parents, families.n_parents, families.trial
    if not families.is_known[node, a]:
        size = 0
        for k in range(n_parents[node]):
            if parents[node, k] != a:
                trial[size] = parents[node, k]
                size += 1
        if not here:
            trial[size] = a
            size += 1
        families.known[node, a] = family_score(scores, node, trial, size)
        families.is_known[node, a] = True
    return families.known[node, a]


@kernel(forceinline=True)
def _toggle(families, a, node, here):
    """Add a parent to a node's list, or remove it if it is ``here``; the others keep their order."""
    parents, n_parents = families.parents, families.n_parents
    if here:
        size = 0
        for k in range(n_parents[node]):
            if parents[node, k] != a:
                parents[node, size] = parents[node, k]
                size += 1
        n_parents[node] = size
    else:
        parents[node, n_parents[node]] = a
        n_parents[node] += 1


@kernel(inline="always")
def _objects(adjacency, order, first, last):
    """Whether a variable between two places of the order prevents swapping the variables there."""
    a, node = order[first], order[last]
    for place in range(last - first - 1):
        between = order[first + 1 + place]
        if adjacency[a, between] or adjacency[between, node]:
            return True
    return False


@kernel(error_model="numpy", forceinline=True)
def _sweep(rng, scores, limits, node, candidates, mask, goal, is_back, trial):
    """Draw for every candidate in turn whether it is a parent of the node, given the others.

    ``mask`` (p,) are the parents before, and after. With ``is_back`` nothing is drawn: the result is the
    probability of reaching the parents ``goal`` (p,). ``trial`` (p,) is room for a list of parents.
    Returns the log probability of what was drawn, and the score of the new family.
    """
    allowed, required, max_parents = limits.allowed, limits.required, limits.max_parents
    size = 0
    for k in range(mask.size):
        if mask[k]:
            trial[size] = k
            size += 1
    if size > max_parents:
        return -np.inf, -np.inf
    score = family_score(scores, node, trial, size)
    logarithm = 0.0
    for candidate in candidates:
        if required[candidate, node] or not allowed[candidate, node]:
            continue
        here = mask[candidate]
        if not here and size >= max_parents:
            if is_back and goal[candidate]:
                return -np.inf, score
            continue
        if here:
            found = 0
            while trial[found] != candidate:
                found += 1
            trial[found] = trial[size - 1]
            size -= 1
        else:
            trial[size] = candidate
            size += 1
        other = family_score(scores, node, trial, size)
        change = other - score
        flips = 1.0 / (1.0 + np.exp(-change)) if change > -700.0 else 0.0
        flip = (goal[candidate] != here) if is_back else rng.random() < flips
        probability = flips if flip else 1.0 - flips
        if not probability > 0.0:
            return -np.inf, score
        logarithm += log(probability)
        if flip:
            score = other
            mask[candidate] = not here
        elif here:
            trial[size] = candidate
            size += 1
        else:
            size -= 1
    return logarithm, score
