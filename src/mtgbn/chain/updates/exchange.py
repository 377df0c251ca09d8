"""Exchange of the pairs j - k and j - l in all members at once, where k and l are joined.

Where k and l resemble each other, j may be joined to either of them. Members share the pair that they
have, and neither pair can be dropped before the other one is there, nor added while the first one is
there. Both pairs are therefore drawn at once. First their frequencies are drawn given the edges. Then it
is drawn whether both frequencies change places, together with the element of sigma_h that belongs to j
and l, with the edges of all members summed out, and then the edges of every member. The element of j and
k is held. It hardly matters while no member joins them, and a later exchange in the opposite direction
draws it (docs/model.md, section 14).
"""

from math import exp, log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import OWN, TIED
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.chain.updates.chance import drawn
from mtgbn.chain.updates.elements import (
    CANDIDATES,
    add_children,
    covariances_given,
    element_of,
    log_determinant_of,
    other_parents,
    write_candidates,
)
from mtgbn.chain.updates.pair_work import set_element, share_of_direction
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT
from mtgbn.model.pair_kinds import N_PLACES

# Exchanges are tried where at least this share of the members joins k and l, and at least this share,
# summed over both pairs, joins j to them. Draws after which fewer members join j are refused, so that
# the rule is the same before and after.
_LEAST_JOINED = 0.5

# Share of all such exchanges that are tried in a round; a smaller one with more variables than the
# second number.
_SHARE, _MANY_VARIABLES = 0.08, 40

# Patterns of the two edges in one member.
_NEITHER, _FIRST, _SECOND, _BOTH = range(4)


@kernel(error_model="numpy")
def exchange_pairs(rng, data, state, sigma_h, work):
    """Try a random part of the exchanges, in place; whether an element of ``sigma_h`` has changed.

    Without groups only: frequencies of both pairs would depend on the group.
    """
    counts, p = state.counts[0], sigma_h.shape[0]
    least = _LEAST_JOINED * state.members.sum()
    is_changed = False
    if work.log_share > -np.inf or least == 0.0:
        return is_changed
    share = _SHARE / max(1.0, p / _MANY_VARIABLES)
    for k in range(p):
        for l in range(p):
            if k == l or counts[k, l] + counts[l, k] < least:
                continue
            for j in range(p):
                if j == k or j == l or not (data.free[j, k] and data.free[j, l]):
                    continue
                if counts[j, k] + counts[k, j] + counts[j, l] + counts[l, j] < least:
                    continue
                if rng.random() < share and exchange(
                    rng, data, state, sigma_h, work, j, k, l, least
                ):
                    is_changed = True
    return is_changed


@kernel(error_model="numpy")
def exchange(rng, data, state, sigma_h, work, j, k, l, least):
    """Draw the pairs j - k and j - l in all members and the element j, l; whether that has changed.

    Nothing changes if fewer than ``least`` members would have one of both pairs; two count twice.
    """
    counts, adjacencies, members, places = (
        state.counts[0],
        state.adjacencies,
        state.members,
        work.places,
    )
    m = members.size
    share_k = share_of_direction(rng, data.agreement, counts[j, k], counts[k, j])
    share_l = share_of_direction(rng, data.agreement, counts[j, l], counts[l, j])
    n = members.sum()
    first = _drawn_frequency(rng, work, counts[j, k] + counts[k, j], n)
    second = _drawn_frequency(rng, work, counts[j, l] + counts[l, j], n)
    before, after = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    for t in range(m):
        if members[t]:
            a, node, b, other = _edges(places[t], j, k, l)
            before[t] = adjacencies[t, a, node] + 2 * adjacencies[t, b, other]
            adjacencies[t, a, node] = adjacencies[t, b, other] = False
    present = rng.integers(0, CANDIDATES)
    element = element_of(work.factor, state.delta[()], data.psi_scales, j, l, work.columns)
    write_candidates(element, data.log_determinant_coefficient, present, work.shifts, work.rests)
    for t in range(m):
        if members[t]:
            _write_patterns(data, state, sigma_h, work, t, (j, k, l), (share_k, share_l))
    _write_log_weights(members, work, first, second)
    chosen = drawn(rng, work.log_weights_of_two.ravel())
    candidate = chosen % CANDIDATES
    if chosen >= CANDIDATES:
        first, second = second, first
    n_joined = 0
    for t in range(m):
        if members[t]:
            values = work.patterns[t, :, candidate]
            after[t] = _drawn_pattern(rng, values, first, second)
            n_joined += after[t] % 2 + after[t] // 2
    is_refused = n_joined < least
    for t in range(m):
        if members[t]:
            a, node, b, other = _edges(places[t], j, k, l)
            pattern = before[t] if is_refused else after[t]
            adjacencies[t, a, node], adjacencies[t, b, other] = pattern % 2 == 1, pattern >= 2
            counts[a, node] += pattern % 2 - before[t] % 2
            counts[b, other] += pattern // 2 - before[t] // 2
    if is_refused or candidate == present:
        return False
    set_element(state, sigma_h, work, j, l, candidate)
    return True


@kernel
def _edges(places, j, k, l):
    """The edges of the pairs j - k and j - l that the order of a member admits, one after the other."""
    a, node = (j, k) if places[j] < places[k] else (k, j)
    b, other = (j, l) if places[j] < places[l] else (l, j)
    return a, node, b, other


@kernel(error_model="numpy")
def _write_patterns(data, state, sigma_h, work, t, variables, shares):
    """Write the log densities of a member's data and edges with all patterns, for all candidates.

    The edges of both pairs are not in the member's graph. What depends on the candidate only is added to
    ``work.rests``.
    """
    j, k, l = variables
    adjacency = state.adjacencies[t]
    values, delta = work.patterns[t], state.delta[()]
    a, node, b, other = _edges(work.places[t], j, k, l)
    add_children(
        adjacency,
        state.ties[t],
        (sigma_h, work.matrices[t, TIED]),
        (delta, delta + data.ns[t]),
        (j, l),
        work.parents,
        work.rows,
        work.shifts,
        work.rests,
    )
    first = data.one_way[a, node] - data.edge_costs[t]
    first += log(2.0 * (shares[0] if a == j else 1.0 - shares[0]))
    second = data.one_way[b, other] - data.edge_costs[t]
    second += log(2.0 * (shares[1] if b == j else 1.0 - shares[1]))
    if not data.allowed[a, node]:
        first = -np.inf
    if not data.allowed[b, other]:
        second = -np.inf
    family = np.empty(sigma_h.shape[0], dtype=np.int64)
    for pattern in range(4):
        has_first, has_second = pattern % 2, pattern // 2
        value = (first if has_first else 0.0) + (second if has_second else 0.0)
        for c in range(CANDIDATES):
            values[pattern, c] = value
        n_parents = other_parents(adjacency, node, node, family)
        if has_first:
            family[n_parents] = a
            n_parents += 1
        if node == other and has_second:
            family[n_parents] = b
            n_parents += 1
        _add_family(data, state, sigma_h, work, t, node, family, n_parents, (j, l), values[pattern])
        if node != other:
            n_parents = other_parents(adjacency, other, other, family)
            if has_second:
                family[n_parents] = b
                n_parents += 1
            _add_family(
                data, state, sigma_h, work, t, other, family, n_parents, (j, l), values[pattern]
            )


@kernel(error_model="numpy")
def _add_family(data, state, sigma_h, work, t, node, family, n_parents, pair, values):
    """Add the log likelihood of a family of a member, for all candidates of the element of a pair.

    ``family`` has the parents; the node is written behind them.
    """
    if n_parents > data.max_parents:
        for c in range(CANDIDATES):
            values[c] = -np.inf
        return
    family[n_parents] = node
    is_tied = state.ties[t, node]
    source = TIED if is_tied else OWN
    delta = state.delta[()] if is_tied else SINGLE_DELTA
    shifts = work.shifts if is_tied else work.no_shifts
    rest = work.constants[t, source, n_parents]
    for which in range(2):
        sign, degrees = (1.0, delta) if which == 0 else (-1.0, delta + data.ns[t])
        weight = sign * (degrees + n_parents) / 2.0
        if which == 0 and not is_tied:
            for place in range(n_parents):
                rest += sign / 2.0 * log(data.single_scales[t, family[place]])
            rest += weight * log(data.single_scales[t, node])
            continue
        matrix = sigma_h if which == 0 else work.matrices[t, source]
        n, rows = n_parents, work.rows
        rest += _add_log_determinant(matrix, family, n + 1, pair, shifts, weight, rows, values)
        rest += _add_log_determinant(
            matrix, family, n, pair, shifts, sign / 2 - weight, rows, values
        )
    for c in range(CANDIDATES):
        values[c] += rest


@kernel(error_model="numpy")
def _add_log_determinant(matrix, variables, n, pair, shifts, weight, rows, values):
    """Add a multiple of the log determinant of a part of a matrix, for all shifts of one element.

    The part is that of the first n of ``variables``. What does not depend on the shift is returned.
    """
    given, n_given = np.empty(n, dtype=np.int64), 0
    for place in range(n):
        if variables[place] != pair[0] and variables[place] != pair[1]:
            given[n_given] = variables[place]
            n_given += 1
    if n - n_given < 2:
        return weight * log_determinant_of(matrix, variables, n, rows)
    found = covariances_given(matrix, given, n_given, pair[0], pair[1], rows)
    for c in range(CANDIDATES):
        values[c] += weight * log(found[0] * found[1] - (found[2] + shifts[c]) ** 2)
    constant = 0.0
    for i in range(n_given):
        constant += 2.0 * log(rows[i, i])
    return weight * constant


@kernel(error_model="numpy")
def _drawn_frequency(rng, work, n_joined, n):
    """A draw of the frequency of a pair that ``n_joined`` of n members join."""
    log_weights = np.empty(N_PLACES)
    for place in range(N_PLACES):
        frequency = work.frequencies[place]
        log_weights[place] = work.log_weights[place] + n_joined * log(frequency)
        log_weights[place] += (n - n_joined) * log(1.0 - frequency)
    return work.frequencies[drawn(rng, log_weights)]


@kernel(error_model="numpy")
def _write_log_weights(members, work, first, second):
    """Write the log weights of all candidates with both frequencies, and with these exchanged."""
    weights, product = np.empty(4), np.empty(2)
    for c in range(CANDIDATES):
        for way in range(2):
            work.log_weights_of_two[way, c], product[way] = work.rests[c], 1.0
        for t in range(members.size):
            if not members[t] or work.rests[c] == -np.inf:
                continue
            top = -np.inf
            for pattern in range(4):
                top = max(top, work.patterns[t, pattern, c])
            for pattern in range(4):
                weights[pattern] = exp(work.patterns[t, pattern, c] - top)
            for way in range(2):
                f, g = (first, second) if way == 0 else (second, first)
                product[way] *= (1.0 - g) * (
                    (1.0 - f) * weights[_NEITHER] + f * weights[_FIRST]
                ) + g * ((1.0 - f) * weights[_SECOND] + f * weights[_BOTH])
                work.log_weights_of_two[way, c] += top
                if not SMALLEST_PRODUCT < product[way] < LARGEST_PRODUCT:
                    work.log_weights_of_two[way, c] += log(product[way])
                    product[way] = 1.0
        for way in range(2):
            work.log_weights_of_two[way, c] += log(product[way])


@kernel(error_model="numpy")
def _drawn_pattern(rng, values, first, second):
    """A draw of the pattern of one member, given the frequencies of both pairs."""
    log_weights = np.empty(4)
    log_weights[_NEITHER] = values[_NEITHER] + log(1.0 - first) + log(1.0 - second)
    log_weights[_FIRST] = values[_FIRST] + log(first) + log(1.0 - second)
    log_weights[_SECOND] = values[_SECOND] + log(1.0 - first) + log(second)
    log_weights[_BOTH] = values[_BOTH] + log(first) + log(second)
    return drawn(rng, log_weights)
