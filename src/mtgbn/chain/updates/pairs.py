"""Updates of pairs of variables in all members at once (docs/model.md, section 14).

Moves within one task cannot find an edge that no task shows alone but that all tasks support: the first
task that takes it pays for it alone, and sigma_h knows nothing of its coefficient. They cannot drop an
edge either that every task has only because the others have it. Here the element of sigma_h that
belongs to a pair is drawn together with the frequency of the pair, or its frequencies in two groups,
with the edges of all members summed out, then the edge of every member.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import NONE, kernel
from mtgbn.chain.likelihoods import OWN, TIED, empty_scores, prepare_own, prepare_tied
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.chain.updates.chance import beta, drawn
from mtgbn.chain.updates.elements import (
    CANDIDATES,
    add_children,
    covariances_given,
    element_of,
    other_parents,
    shift_element,
    upper_factor,
    write_candidates,
    write_gains,
)
from mtgbn.chain.updates.kinds import drawn_places
from mtgbn.model.coordinates import coordinates_of
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT
from mtgbn.model.pair_kinds import (
    DIFFERENT,
    N_PLACES,
    log_different,
    log_weights_of_places,
    places_of_frequencies,
    write_far_sums,
)

# Share of the pairs that are drawn anew in a round, and share that are drawn with their element of
# sigma_h, which takes longer. With more variables than the last number most pairs are settled, and
# smaller shares are drawn.
_SHARE, _SHARE_WITH_ELEMENT, _MANY_VARIABLES = 0.25, 0.05, 40


class _Work(NamedTuple):
    """What all pairs of a round share, and room for the table of one pair.

    Attributes
    ----------
    places : array (m, p)
        Place of every variable in the order of a member.
    matrices, constants : array (m, 2, p, p), (m, 2, p)
        Posterior matrices and constants of the scores of members, for tied and for own families.
    factor : array (p, p)
        U with U'U = sigma_h.
    frequencies, log_weights : array (places,)
        All frequencies of a pair, and their log probabilities if it is not different.
    log_share : float
        Log share of the pairs that are different between groups.
    gains : array (m, candidates)
        By how much the edge raises the log density of a member's data.
    values : array (2, candidates, places)
        Log likelihood of every candidate and frequency in each group, with all edges summed out.
    log_weights_of_pair : array (candidates, places + 1)
        Log probability of every candidate and frequency, at last of different frequencies.
    shifts, rests : array (candidates,)
        Changes of the element, and the log density of all that depends on it but not on the edges.
    no_shifts, columns, rows, parents : array
        No shift of own families, which do not depend on sigma_h; scratch.
    """

    places: np.ndarray
    matrices: np.ndarray
    constants: np.ndarray
    factor: np.ndarray
    frequencies: np.ndarray
    log_weights: np.ndarray
    log_share: float
    gains: np.ndarray
    values: np.ndarray
    log_weights_of_pair: np.ndarray
    shifts: np.ndarray
    rests: np.ndarray
    no_shifts: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    parents: np.ndarray


@kernel(error_model="numpy")
def update_pairs(rng, data, state, psi_factor, sigma_h):
    """Draw a random part of the free pairs anew in all members, in place.

    Orders stay as they are. Elements of ``sigma_h`` (p, p) change, and the coordinates in ``state`` with
    them. ``psi_factor`` is the Cholesky factor of ``state.centre``.
    """
    counts, p = state.counts[0], sigma_h.shape[0]
    work = _work_of(data, state, sigma_h)
    is_changed = False
    for i in range(p):
        for j in range(i + 1, p):
            if not data.free[i, j]:
                continue
            luck = rng.random() * max(1.0, p / _MANY_VARIABLES)
            if luck >= _SHARE:
                continue
            forward = _share_of_direction(rng, data.agreement, counts[i, j], counts[j, i])
            present = NONE
            if luck < _SHARE_WITH_ELEMENT:
                present = rng.integers(0, CANDIDATES)
            n_candidates = _write_table(data, state, sigma_h, work, i, j, forward, present)
            candidate, first, second = _drawn_values(rng, work, n_candidates)
            _draw_edges(rng, data, state, work, i, j, candidate, first, second)
            if present >= 0 and candidate != present:
                is_changed = True
                _set_element(state, sigma_h, work, i, j, candidate)
    if is_changed:
        psi = (sigma_h / state.delta[()]).reshape(1, p, p)
        state.coordinates[:] = coordinates_of(psi, psi_factor)[0]


@kernel(error_model="numpy")
def _work_of(data, state, sigma_h):
    """What all pairs of a round share."""
    m, p = data.ns.size, sigma_h.shape[0]
    delta, limit = state.delta[()], data.max_parents
    has_groups = state.kinds[DIFFERENT] > 0.0 and data.groups.any()
    matrices, constants = np.empty((m, 2, p, p)), np.zeros((m, 2, p))
    places = np.empty((m, p), dtype=np.int64)
    scores = empty_scores(p)
    for t in range(m):
        if not state.members[t]:
            continue
        prepare_tied(scores, state.scatters[t], data.ns[t], sigma_h, delta, limit)
        prepare_own(scores, state.scatters[t], data.ns[t], data.single_scales[t], limit)
        for i in range(p):
            places[t, state.orders[t, i]] = i
            for source in (TIED, OWN):
                constants[t, source, i] = scores.constants[source, i] if i <= limit else 0.0
                for j in range(p):
                    matrices[t, source, i, j] = scores.posterior_matrices[source, i, j]
    log_share = log(state.kinds[DIFFERENT]) if has_groups else -np.inf
    return _Work(
        places=places,
        matrices=matrices,
        constants=constants,
        factor=upper_factor(sigma_h),
        frequencies=places_of_frequencies(state.kinds),
        log_weights=log_weights_of_places(state.kinds),
        log_share=log_share,
        gains=np.empty((m, CANDIDATES)),
        values=np.empty((2, CANDIDATES, N_PLACES)),
        log_weights_of_pair=np.empty((CANDIDATES, N_PLACES + 1)),
        shifts=np.empty(CANDIDATES),
        rests=np.empty(CANDIDATES),
        no_shifts=np.zeros(CANDIDATES),
        columns=np.empty((2, p)),
        rows=np.empty((p, p)),
        parents=np.empty(p, dtype=np.int64),
    )


@kernel(error_model="numpy")
def _write_table(data, state, sigma_h, work, i, j, forward, present):
    """Write the log probabilities of all candidates and frequencies of a pair, and return their number.

    ``forward`` is the share of the members whose edge goes from i to j. The present element is the
    candidate ``present``; -1 holds the element.
    """
    members, ties, scales = state.members, state.ties, data.single_scales
    matrices, constants, places = work.matrices, work.constants, work.places
    gains, shifts, rests, no_shifts = work.gains, work.shifts, work.rests, work.no_shifts
    parents, rows = work.parents, work.rows
    m, delta, limit = data.ns.size, state.delta[()], data.max_parents
    n_candidates = 1
    shifts[0] = rests[0] = 0.0
    if present >= 0:
        n_candidates = CANDIDATES
        element = element_of(work.factor, delta, data.psi_scales, i, j, work.columns)
        write_candidates(element, data.log_determinant_coefficient, present, shifts, rests)
    for t in range(m):
        if not members[t]:
            continue
        if n_candidates > 1:
            add_children(
                state.adjacencies[t],
                ties[t],
                (sigma_h, matrices[t, TIED]),
                (delta, delta + data.ns[t]),
                (i, j),
                parents,
                rows,
                shifts,
                rests,
            )
        a, node = (i, j) if places[t, i] < places[t, j] else (j, i)
        rest = data.one_way[a, node] - data.edge_costs[t]
        rest += log(2.0 * (forward if a == i else 1.0 - forward))
        n_parents = other_parents(state.adjacencies[t], a, node, parents)
        if n_parents >= limit or not data.allowed[a, node]:
            for c in range(n_candidates):
                gains[t, c] = -np.inf
            continue
        source = TIED if ties[t, node] else OWN
        rest += constants[t, source, n_parents + 1] - constants[t, source, n_parents]
        posterior = covariances_given(matrices[t, source], parents, n_parents, a, node, rows)
        prior = (scales[t, a], scales[t, node], 0.0)
        if ties[t, node]:
            prior = covariances_given(sigma_h, parents, n_parents, a, node, rows)
        degrees = delta if ties[t, node] else SINGLE_DELTA
        write_gains(
            (prior, posterior),
            (degrees, degrees + data.ns[t]),
            n_parents,
            rest,
            shifts if ties[t, node] else no_shifts,
            gains[t, :n_candidates],
        )
    n_groups = 2 if work.log_share > -np.inf else 1
    for c in range(n_candidates):
        for group in range(n_groups):
            of_group = work.values[group, c]
            _write_values(
                members, data.groups, group, n_groups, gains[:, c], work.frequencies, of_group
            )
        _write_log_weights(work, c, n_groups)
    return n_candidates


@kernel(error_model="numpy")
def _write_log_weights(work, c, n_groups):
    """Write the log probabilities of a candidate with all frequencies, from those of the groups."""
    first, second, weights = work.values[0, c], work.values[1, c], work.log_weights_of_pair[c]
    for k in range(N_PLACES):
        of_second = second[k] if n_groups == 2 else 0.0
        weights[k] = work.rests[c] + work.log_weights[k] + first[k] + of_second
    weights[N_PLACES] = -np.inf
    if n_groups == 2:
        far = np.empty(N_PLACES)
        top, other_top = first.max(), second.max()
        write_far_sums(np.exp(second - other_top), far)
        weights[N_PLACES] = work.rests[c] + work.log_share + top + other_top
        weights[N_PLACES] += log_different(np.exp(first - top), far)


@kernel(error_model="numpy")
def _drawn_values(rng, work, n_candidates):
    """A draw of the candidate and of the places of the frequencies in both groups."""
    chosen = drawn(rng, work.log_weights_of_pair[:n_candidates].ravel())
    candidate, place = chosen // (N_PLACES + 1), chosen % (N_PLACES + 1)
    if place < N_PLACES:
        return candidate, place, place
    first, second = work.values[0, candidate], work.values[1, candidate]
    return candidate, *drawn_places(rng, np.exp(first - first.max()), np.exp(second - second.max()))


@kernel(error_model="numpy")
def _draw_edges(rng, data, state, work, i, j, candidate, first, second):
    """Draw the edges of a pair in all members, given the places of its frequencies in both groups."""
    counts, places = state.counts, work.places
    for t in range(data.ns.size):
        if not state.members[t]:
            continue
        a, node = (i, j) if places[t, i] < places[t, j] else (j, i)
        frequency = work.frequencies[second if data.groups[t] else first]
        gain = work.gains[t, candidate]
        excess = max(gain, 0.0)
        present = frequency * exp(gain - excess)
        absent = (1.0 - frequency) * exp(-excess)
        joined = rng.random() * (present + absent) < present
        if joined != state.adjacencies[t, a, node]:
            state.adjacencies[t, a, node] = joined
            change = 1 if joined else -1
            counts[0, a, node] += change
            counts[1, a, node] += change * data.groups[t]


@kernel(error_model="numpy")
def _set_element(state, sigma_h, work, i, j, candidate):
    """Set an element of sigma_h, and of the posterior matrices of all members, to a candidate."""
    shift = work.shifts[candidate]
    shift_element(work.factor, i, j, shift, work.columns)
    sigma_h[i, j] += shift
    sigma_h[j, i] = sigma_h[i, j]
    for t in range(state.members.size):
        if state.members[t]:
            work.matrices[t, TIED, i, j] = work.matrices[t, TIED, j, i] = (
                sigma_h[i, j] + state.scatters[t, i, j]
            )


@kernel(error_model="numpy")
def _write_values(members, groups, group, n_groups, gains, frequencies, values):
    """Write the log likelihood of every frequency in a group, with all edges summed out."""
    products, largest = np.ones(N_PLACES), 0.0
    for k in range(N_PLACES):
        values[k] = 0.0
    for t in range(gains.size):
        if not members[t] or (n_groups == 2 and groups[t] != group):
            continue
        excess = max(gains[t], 0.0)
        present, absent = exp(gains[t] - excess), exp(-excess)
        largest += excess
        for k in range(N_PLACES):
            products[k] *= frequencies[k] * present + (1.0 - frequencies[k]) * absent
            if not SMALLEST_PRODUCT < products[k] < LARGEST_PRODUCT:
                values[k] += log(products[k])
                products[k] = 1.0
    for k in range(N_PLACES):
        values[k] += log(products[k]) + largest


@kernel(error_model="numpy")
def _share_of_direction(rng, agreement, n_forward, n_backward):
    """A draw of the share of members whose edge goes one way, given the present directions."""
    if agreement == np.inf:
        return 0.5
    return beta(rng, agreement + n_forward, agreement + n_backward)
