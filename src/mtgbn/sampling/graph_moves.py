"""Metropolis-Hastings moves between DAGs, in compiled code (docs/model.md, section 14).

The state of a task is an order of its variables together with a DAG that obeys it. All orders are
equally probable beforehand and, given the order, edges are independent, so that the skeleton has exactly
the edge prior's distribution, however many DAGs share it, unless directions are shared, too. Data enter
by the families' scores at one sigma_h.
"""

from math import lgamma, log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT
from mtgbn.sampling.shared_edges import add_edges, log_odds_of_edge

__all__ = ["Alone", "log_likelihoods", "move_graphs", "walk"]

# How often each kind of move is tried; what is left over goes to new places in the order. Renewing the
# parents of two variables costs scores in proportion to p, so with many variables it is tried less.
_TOGGLE, _EXCHANGE, _REVERSE, _RENEW, _RENEWALS = 0.3, 0.1, 0.2, 0.05, 1.2


# Changes of the log density by less are none.
_ROUNDING = 1e-9


class Alone(NamedTuple):
    """The prior of a task on its own: sigma_h is diagonal, (m, p), with these degrees of freedom."""

    scales: np.ndarray
    delta: float


@kernel(error_model="numpy")
def move_graphs(
    rng,
    states,
    counts,
    scatters,
    ns,
    sigma_h,
    delta,
    alone,
    edge_terms,
    constraints,
    n_moves,
    tallies,
):
    """Make ``n_moves`` moves in every task, one task after the other.

    ``counts`` (p, p), kept up to date: the members that have i -> j.

    ``tallies`` (m, p, p) gains, for every edge, the number of moves after which it was there.
    """
    m, p, _ = scatters.shape
    allowed, required, most_parents = constraints
    matrices = np.empty((2, p, p))
    log_odds = np.empty((p, p))
    n_members = states.members.sum()
    for t in range(m):
        adjacency, order = states.adjacencies[t], states.orders[t]
        degrees = _prior_matrices(
            t, states.members[t], sigma_h, delta, alone, scatters, ns, matrices
        )
        if states.members[t]:
            add_edges(adjacency, counts, -1)
        for i in range(p):
            for j in range(p):
                log_odds[i, j] = edge_terms.alone[i, j]
                if states.members[t]:
                    log_odds[i, j] = log_odds_of_edge(
                        edge_terms, i, j, counts[i, j], counts[j, i], n_members - 1
                    )
                # Only every second order admits an edge that may go one way only.
                if allowed[t, i, j] and not allowed[t, j, i]:
                    log_odds[i, j] += log(2.0)
        walk(
            rng,
            adjacency,
            order,
            matrices,
            degrees,
            log_odds,
            (allowed[t], required, most_parents),
            n_moves,
            tallies[t],
        )
        if states.members[t]:
            add_edges(adjacency, counts, 1)


@kernel(error_model="numpy")
def walk(rng, adjacency, order, matrices, degrees, log_odds, limits, n_moves, tally):
    """Make moves in one task, in place.

    ``matrices`` are sigma_h + T and sigma_h with their ``degrees``, ``log_odds`` the edge prior's given
    all else. ``tally`` gains, for every edge, the moves after which it was there.
    """
    p = order.size
    allowed, required, most_parents = limits
    renewals = min(_RENEW, _RENEWALS / p)
    constants = np.empty(p)
    for q in range(p):
        constants[q] = lgamma((degrees[0] + q) / 2) - lgamma((degrees[1] + q) / 2)
    work = np.empty((2, p, p))
    places = np.empty(p, dtype=np.int64)
    parents = np.empty((p, p), dtype=np.int64)
    n_parents = np.empty(p, dtype=np.int64)
    scores = np.empty(p)
    trial = np.empty(p, dtype=np.int64)
    since = np.zeros((p, p), dtype=np.int64)
    mask = np.zeros((6, p), dtype=np.bool_)
    known, is_known = np.empty((p, p)), np.zeros((p, p), dtype=np.bool_)
    for node in range(p):
        places[order[node]] = node
        n_parents[node] = 0
        for a in range(p):
            if adjacency[a, node]:
                parents[node, n_parents[node]] = a
                n_parents[node] += 1
    for node in range(p):
        scores[node] = family_score(
            matrices, degrees, constants, log_odds, node, parents[node], n_parents[node], work
        )
    target = (matrices, degrees, constants, log_odds, work)
    families = (parents, n_parents, known, is_known, trial)
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
            if not here and q >= most_parents:
                continue
            score = _toggled(target, families, a, node, here)
            if _accepts(rng, score - scores[node]):
                scores[node] = score
                is_known[node] = False
                _toggle(families, a, node, here)
                if here:
                    tally[a, node] += move - since[a, node]
                since[a, node] = move
                adjacency[a, node] = not here
        elif kind < _TOGGLE + _EXCHANGE:
            # One parent for another.
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
            score = family_score(matrices, degrees, constants, log_odds, node, candidate, q, work)
            if _accepts(rng, score - scores[node]):
                scores[node] = score
                is_known[node] = False
                parents[node, k] = new
                tally[old, node] += move - since[old, node]
                since[new, node] = move
                adjacency[old, node] = False
                adjacency[new, node] = True
        elif kind < _TOGGLE + _EXCHANGE + _REVERSE:
            # a -> node becomes node -> a: they change places, if nothing between them objects.
            node = int(rng.random() * p)
            q = n_parents[node]
            if q == 0:
                continue
            a = parents[node, int(rng.random() * q)]
            if required[a, node] or not allowed[node, a] or n_parents[a] >= most_parents:
                continue
            if _objects(adjacency, order, places[a], places[node]):
                continue
            score = _toggled(target, families, a, node, True)
            other_score = _toggled(target, families, node, a, False)
            change = score + other_score - scores[node] - scores[a]
            if _accepts(rng, change + log(q / (n_parents[a] + 1.0))):
                scores[node], scores[a] = score, other_score
                is_known[node] = is_known[a] = False
                _toggle(families, a, node, True)
                _toggle(families, node, a, False)
                places[a], places[node] = places[node], places[a]
                order[places[a]], order[places[node]] = a, node
                tally[a, node] += move - since[a, node]
                since[node, a] = move
                adjacency[a, node] = False
                adjacency[node, a] = True
        elif kind < _TOGGLE + _EXCHANGE + _REVERSE + renewals:
            # The same, and both get new parents: drawn one candidate after the other, each given the
            # rest, so that the probability of the way there and of the way back are known.
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
                mask[0, k] = mask[2, k] = adjacency[k, node]
                mask[1, k] = mask[3, k] = adjacency[k, a]
            mask[0, a] = False
            mask[1, node] = True
            before = order[: places[a]]
            forward, score = _sweep(
                rng, target, limits, node, before, mask[0], mask[0], False, trial
            )
            more, other_score = _sweep(
                rng, target, limits, a, before, mask[1], mask[1], False, trial
            )
            forward += more
            chosen = 0
            for k in range(p):
                chosen += mask[1, k]
                mask[4, k], mask[5, k] = mask[0, k], mask[1, k]
            # The way back starts from the new parents, with the edge turned round again.
            mask[4, a] = True
            mask[5, node] = False
            backward, _ = _sweep(rng, target, limits, a, before, mask[5], mask[3], True, trial)
            more, _ = _sweep(rng, target, limits, node, before, mask[4], mask[2], True, trial)
            backward += more
            change = score + other_score - scores[node] - scores[a]
            change += backward - forward + log(q / float(chosen))
            if _accepts(rng, change):
                scores[node], scores[a] = score, other_score
                is_known[node] = is_known[a] = False
                for which in range(2):
                    child = node if which == 0 else a
                    n_parents[child] = 0
                    for k in range(p):
                        if adjacency[k, child] and not mask[which, k]:
                            tally[k, child] += move - since[k, child]
                        elif mask[which, k] and not adjacency[k, child]:
                            since[k, child] = move
                        adjacency[k, child] = mask[which, k]
                        if mask[which, k]:
                            parents[child, n_parents[child]] = k
                            n_parents[child] += 1
                places[a], places[node] = places[node], places[a]
                order[places[a]], order[places[node]] = a, node
        else:
            # Any place between the last parent and the first child.
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
                tally[i, j] += n_moves - since[i, j]


@kernel
def _accepts(rng, change):
    """Whether a change of the log density is accepted; no number is drawn where it is certain.

    Equivalent graphs differ by rounding, which must not decide whether a number is drawn: that would
    make all that follows a matter of the processor.
    """
    return change > -_ROUNDING or (change > -40.0 and rng.random() < np.exp(change))


@kernel(error_model="numpy")
def _toggled(target, families, a, node, here):
    """Score of a node's family with one parent more or less.

    Most moves are refused, so the same families are asked for again and again: scores are kept until
    the node's parents change.
    """
    matrices, degrees, constants, log_odds, work = target
    parents, n_parents, known, is_known, trial = families
    if not is_known[node, a]:
        size = 0
        for k in range(n_parents[node]):
            if parents[node, k] != a:
                trial[size] = parents[node, k]
                size += 1
        if not here:
            trial[size] = a
            size += 1
        known[node, a] = family_score(
            matrices, degrees, constants, log_odds, node, trial, size, work
        )
        is_known[node, a] = True
    return known[node, a]


@kernel
def _toggle(families, a, node, here):
    """Add a parent to a node's list, or take it out; the order of the others stays."""
    parents, n_parents = families[0], families[1]
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


@kernel
def _prior_matrices(t, is_member, sigma_h, delta, alone, scatters, ns, matrices):
    """Write sigma_h + T and sigma_h of a task, the common one or its own; return their degrees."""
    p = sigma_h.shape[0]
    for i in range(p):
        for j in range(p):
            own = alone.scales[t, i] if i == j else 0.0
            matrices[1, i, j] = sigma_h[i, j] if is_member else own
            matrices[0, i, j] = matrices[1, i, j] + scatters[t, i, j]
    shared = delta if is_member else alone.delta
    return shared + ns[t], shared


@kernel
def _objects(adjacency, order, first, last):
    """Whether a variable between two places keeps those that stand there from changing them."""
    a, node = order[first], order[last]
    for place in range(last - first - 1):
        between = order[first + 1 + place]
        if adjacency[a, between] or adjacency[between, node]:
            return True
    return False


@kernel(error_model="numpy")
def _sweep(rng, target, limits, node, candidates, mask, goal, is_back, members):
    """Draw for every candidate in turn whether it is a parent of the node, given the others.

    Changes ``mask`` and returns the log probability of what was drawn and the score of the new family.
    On the way back nothing is drawn: it is the probability of reaching ``goal``.
    """
    matrices, degrees, constants, log_odds, work = target
    allowed, required, most_parents = limits
    size = 0
    for k in range(mask.size):
        if mask[k]:
            members[size] = k
            size += 1
    if size > most_parents:
        return -np.inf, -np.inf
    score = family_score(matrices, degrees, constants, log_odds, node, members, size, work)
    logarithm = 0.0
    for candidate in candidates:
        if required[candidate, node] or not allowed[candidate, node]:
            continue
        here = mask[candidate]
        if not here and size >= most_parents:
            if is_back and goal[candidate]:
                return -np.inf, score
            continue
        if here:
            found = 0
            while members[found] != candidate:
                found += 1
            members[found] = members[size - 1]
            size -= 1
        else:
            members[size] = candidate
            size += 1
        other = family_score(matrices, degrees, constants, log_odds, node, members, size, work)
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
            members[size] = candidate
            size += 1
        else:
            size -= 1
    return logarithm, score


@kernel(error_model="numpy")
def log_likelihoods(adjacencies, members, scatters, ns, sigma_h, delta, alone, values):
    """Write the log marginal likelihood of every task, up to a constant of the data alone.

    Members have the common sigma_h, the others their own.
    """
    m, p, _ = scatters.shape
    work = np.empty((2, p, p))
    matrices = np.empty((2, p, p))
    nothing = np.zeros((p, p))
    constants = np.empty(p)
    parents = np.empty(p, dtype=np.int64)
    for t in range(m):
        degrees = _prior_matrices(t, members[t], sigma_h, delta, alone, scatters, ns, matrices)
        for q in range(p):
            constants[q] = lgamma((degrees[0] + q) / 2) - lgamma((degrees[1] + q) / 2)
        values[t] = 0.0
        for node in range(p):
            q = 0
            for a in range(p):
                if adjacencies[t, a, node]:
                    parents[q] = a
                    q += 1
            values[t] += family_score(matrices, degrees, constants, nothing, node, parents, q, work)


@kernel(error_model="numpy")
def family_score(matrices, degrees, constants, log_odds, node, parents, n_parents, work):
    """Local score of one family at a single sigma_h; ``matrices`` are sigma_h + T and sigma_h."""
    value = constants[n_parents]
    for k in range(n_parents):
        value += log_odds[parents[k], node]
    # Both matrices in one loop: the processor works on one while it waits for the other.
    both, prior = matrices[0], matrices[1]
    factor, prior_factor = work[0], work[1]
    determinant, prior_determinant, logarithm = 1.0, 1.0, 0.0
    pivot = prior_pivot = 1.0
    for i in range(n_parents + 1):
        row = parents[i] if i < n_parents else node
        for j in range(i):
            column = parents[j]
            entry, prior_entry = both[row, column], prior[row, column]
            for k in range(j):
                entry -= factor[i, k] * factor[j, k]
                prior_entry -= prior_factor[i, k] * prior_factor[j, k]
            factor[i, j] = entry * factor[j, j]
            prior_factor[i, j] = prior_entry * prior_factor[j, j]
        pivot, prior_pivot = both[row, row], prior[row, row]
        for k in range(i):
            pivot -= factor[i, k] ** 2
            prior_pivot -= prior_factor[i, k] ** 2
        if not (pivot > 0.0 and prior_pivot > 0.0):
            return -np.inf
        if i < n_parents:
            # the diagonals hold reciprocals
            factor[i, i] = 1.0 / np.sqrt(pivot)
            prior_factor[i, i] = 1.0 / np.sqrt(prior_pivot)
            if not (
                SMALLEST_PRODUCT < determinant < LARGEST_PRODUCT
                and SMALLEST_PRODUCT < prior_determinant < LARGEST_PRODUCT
            ):
                logarithm += log(prior_determinant) - log(determinant)
                determinant = prior_determinant = 1.0
            determinant *= pivot
            prior_determinant *= prior_pivot
    value += (logarithm + log(prior_determinant) - log(determinant)) / 2
    value += (degrees[1] + n_parents) / 2 * log(prior_pivot)
    return value - (degrees[0] + n_parents) / 2 * log(pivot)
