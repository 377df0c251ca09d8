"""Updates of pairs of variables in all members at once (docs/model.md, section 14).

Moves within one task cannot find an edge that no task shows alone but that all tasks support: the first
task that takes it pays for it alone, and sigma_h knows nothing of its coefficient. They cannot drop an
edge either that every task has only because the others have it. Here the element of sigma_h that
belongs to a pair is drawn together with the frequency of the pair, with the edges of all members summed
out, then the edge of every member. After the pairs, the shares of their kinds are drawn.
"""

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import OWN, TIED, empty_scores, prepare_own, prepare_tied
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.model.coordinates import coordinates_of
from mtgbn.model.edge_prior import (
    ABSENT,
    COMMON,
    FREQUENCIES,
    RARE,
    USUAL,
    VARYING,
    log_shares,
)
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

# Share of the pairs that are drawn anew in a round, and share that are drawn with their element of
# sigma_h, which takes longer. With more variables than the last number most pairs are settled, and
# smaller shares are drawn.
_SHARE, _SHARE_WITH_ELEMENT, _MANY_VARIABLES = 0.25, 0.05, 40

# Candidates for the partial correlation of a pair in sigma_h, and the distance between neighbours. The
# present value has a random place among them, so that every candidate could have been the present one.
_CANDIDATES, _DISTANCE = 24, 0.05

# Partial correlations in sigma_h beyond this are left to the trajectories: sigma_h is nearly singular.
_LARGEST_CORRELATION = 0.999

# A priori, the shares of the kinds have a Dirichlet distribution, with this parameter for common and
# for varying pairs, and p times as much for absent pairs. The frequencies of absent pairs, and one minus
# those of common pairs, have a Beta distribution with the parameters _RARE.
_KIND = 0.5
_RARE = (0.5, 9.5)

# Shares and frequencies stay away from 0 and 1, so that their logarithms are finite.
_LEAST = 1e-12


class _Element(NamedTuple):
    """What the prior of sigma_h says of one element, given all others.

    ``correlation`` is the partial correlation of the pair given all other variables; the element is a
    linear function of it, with slope ``scale``. The log density of its prior is that of `_log_prior`,
    with ``squares`` and ``product``.
    """

    correlation: float
    scale: float
    squares: float
    product: float


@kernel(error_model="numpy")
def update_pairs(rng, data, state, psi_factor, sigma_h):
    """Draw a random part of the free pairs anew in all members, in place; orders stay as they are.

    Elements of ``sigma_h`` (p, p) change, and the coordinates in ``state`` with them. ``psi_factor`` is
    the Cholesky factor of ``state.centre``.
    """
    members, ties, counts, scales = state.members, state.ties, state.counts, data.single_scales
    m, p = data.ns.size, sigma_h.shape[0]
    delta, limit = state.delta[()], data.max_parents
    frequencies, log_weights = _frequencies(state.kinds)
    n_values = frequencies.size
    # Matrices and constants of all members, for tied and for own families.
    matrices, constants = np.empty((m, 2, p, p)), np.zeros((m, 2, p))
    places = np.empty((m, p), dtype=np.int64)
    scores = empty_scores(p)
    for t in range(m):
        if not members[t]:
            continue
        prepare_tied(scores, state.scatters[t], data.ns[t], sigma_h, delta, limit)
        prepare_own(scores, state.scatters[t], data.ns[t], data.single_scales[t], limit)
        for i in range(p):
            places[t, state.orders[t, i]] = i
            for source in (TIED, OWN):
                constants[t, source, i] = scores.constants[source, i] if i <= limit else 0.0
                for j in range(p):
                    matrices[t, source, i, j] = scores.posterior_matrices[source, i, j]
    factor = _upper_factor(sigma_h)
    gains = np.empty((m, _CANDIDATES))
    values = np.empty((_CANDIDATES, n_values))
    shifts, rests = np.empty(_CANDIDATES), np.empty(_CANDIDATES)
    no_shifts = np.zeros(_CANDIDATES)  # own families do not depend on sigma_h
    columns, rows, parents = np.empty((2, p)), np.empty((p, p)), np.empty(p, dtype=np.int64)
    is_changed = False
    for i in range(p):
        for j in range(i + 1, p):
            if not data.free[i, j]:
                continue
            luck = rng.random() * max(1.0, p / _MANY_VARIABLES)
            if luck >= _SHARE:
                continue
            forward = _share_of_direction(rng, data.agreement, counts[i, j], counts[j, i])
            n_candidates, present_place = 1, 0
            shifts[0] = rests[0] = 0.0
            if luck < _SHARE_WITH_ELEMENT:
                n_candidates, present_place = _CANDIDATES, rng.integers(0, _CANDIDATES)
                element = _element(factor, delta, data.psi_scales, i, j, columns)
                _write_candidates(
                    element, data.log_determinant_coefficient, present_place, shifts, rests
                )
            for t in range(m):
                if members[t]:
                    if n_candidates > 1:
                        _add_children(
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
                    n_parents = _other_parents(state.adjacencies[t], a, node, parents)
                    if n_parents >= limit or not data.allowed[a, node]:
                        for c in range(n_candidates):
                            gains[t, c] = -np.inf
                        continue
                    source = TIED if ties[t, node] else OWN
                    rest += constants[t, source, n_parents + 1] - constants[t, source, n_parents]
                    posterior = _given(matrices[t, source], parents, n_parents, a, node, rows)
                    prior = (scales[t, a], scales[t, node], 0.0)
                    if ties[t, node]:
                        prior = _given(sigma_h, parents, n_parents, a, node, rows)
                    degrees = delta if ties[t, node] else SINGLE_DELTA
                    _write_gains(
                        (prior, posterior),
                        (degrees, degrees + data.ns[t]),
                        n_parents,
                        rest,
                        shifts if ties[t, node] else no_shifts,
                        gains[t, :n_candidates],
                    )
            for c in range(n_candidates):
                _write_values(members, gains[:, c], frequencies, log_weights, rests[c], values[c])
            chosen = _drawn(rng, values[:n_candidates].ravel())
            place, frequency = chosen // n_values, frequencies[chosen % n_values]
            for t in range(m):
                if not members[t]:
                    continue
                a, node = (i, j) if places[t, i] < places[t, j] else (j, i)
                gain = gains[t, place]
                excess = max(gain, 0.0)
                present = frequency * exp(gain - excess)
                absent = (1.0 - frequency) * exp(-excess)
                joined = rng.random() * (present + absent) < present
                if joined != state.adjacencies[t, a, node]:
                    state.adjacencies[t, a, node] = joined
                    counts[a, node] += 1 if joined else -1
            if place != present_place:
                is_changed = True
                _shift_element(factor, i, j, shifts[place], columns)
                sigma_h[i, j] += shifts[place]
                sigma_h[j, i] = sigma_h[i, j]
                for t in range(m):
                    if members[t]:
                        matrices[t, TIED, i, j] = matrices[t, TIED, j, i] = (
                            sigma_h[i, j] + state.scatters[t, i, j]
                        )
    if is_changed:
        state.coordinates[:] = coordinates_of((sigma_h / delta).reshape(1, p, p), psi_factor)[0]


@kernel(error_model="numpy")
def _element(factor, delta, psi_scales, i, j, columns):
    """What the prior says of sigma_h[i, j] given all other elements.

    With K the inverse of sigma_h, M = (K_22)^-1 is the covariance of i and j given the rest R, which has
    the regression coefficients G = -M K_2R. The trace in the log density of the prior is that of
    M^-1 (D_2 + G D_R G'), where only M depends on the element.
    """
    p = factor.shape[0]
    _solve(factor, i, columns[0])
    _solve(factor, j, columns[1])
    of_i, of_j = columns[0], columns[1]
    determinant = of_i[i] * of_j[j] - of_i[j] ** 2
    variance_i, variance_j = of_j[j] / determinant, of_i[i] / determinant
    covariance = -of_i[j] / determinant
    square_i, square_j, product = delta * psi_scales[i], delta * psi_scales[j], 0.0
    for k in range(p):
        if k != i and k != j:
            first = variance_i * of_i[k] + covariance * of_j[k]
            second = covariance * of_i[k] + variance_j * of_j[k]
            square_i += delta * psi_scales[k] * first * first
            square_j += delta * psi_scales[k] * second * second
            product += delta * psi_scales[k] * first * second
    scale = sqrt(variance_i * variance_j)
    return _Element(
        covariance / scale,
        scale,
        square_i / variance_i + square_j / variance_j,
        product / scale,
    )


@kernel(error_model="numpy")
def _write_candidates(element, coefficient, present_place, shifts, rests):
    """Write the changes of the element and the log densities of their priors."""
    is_usual = abs(element.correlation) < _LARGEST_CORRELATION
    for c in range(shifts.size):
        change = (c - present_place) * _DISTANCE
        correlation = element.correlation + change
        shifts[c] = element.scale * change
        if c != present_place and not (is_usual and abs(correlation) < _LARGEST_CORRELATION):
            rests[c] = -np.inf
            shifts[c] = 0.0
            continue
        left = 1.0 - correlation * correlation
        rests[c] = coefficient * log(left)
        rests[c] -= (element.squares - 2.0 * correlation * element.product) / (2.0 * left)


@kernel(error_model="numpy")
def _add_children(adjacency, ties, matrices, degrees, pair, parents, rows, shifts, rests):
    """Add the log likelihood of the tied families with both variables as parents, for all candidates."""
    i, j = pair
    p = adjacency.shape[0]
    for child in range(p):
        if not (ties[child] and adjacency[i, child] and adjacency[j, child]):
            continue
        n_others = 0
        for b in range(p):
            if adjacency[b, child] and b != i and b != j:
                parents[n_others] = b
                n_others += 1
        parents[n_others] = child
        for which in range(2):
            sign = 1.0 if which == 0 else -1.0
            weight = sign * (degrees[which] + n_others + 2) / 2.0
            of_parents = _given(matrices[which], parents, n_others, i, j, rows)
            of_family = _given(matrices[which], parents, n_others + 1, i, j, rows)
            for c in range(shifts.size):
                rests[c] += (sign / 2.0 - weight) * log(_determinant(of_parents, shifts[c]))
                rests[c] += weight * log(_determinant(of_family, shifts[c]))


@kernel(error_model="numpy", inline="always")
def _other_parents(adjacency, a, node, parents):
    """Write the parents of a node other than a, and return their number."""
    n_parents = 0
    for b in range(adjacency.shape[0]):
        if adjacency[b, node] and b != a:
            parents[n_parents] = b
            n_parents += 1
    return n_parents


@kernel(error_model="numpy")
def _write_gains(of_pair, degrees, n_parents, rest, shifts, gains):
    """Write by how much the edge raises the log density of a member's data, for all candidates.

    ``of_pair`` has the variances of both variables and their covariance given the other parents, under
    the prior matrix and under the posterior matrix; ``degrees`` are those of both matrices.
    """
    for c in range(gains.size):
        gains[c] = rest
    for which in range(2):
        sign = 1.0 if which == 0 else -1.0
        found = of_pair[which]
        weight = sign * (degrees[which] + n_parents + 1) / 2.0
        constant = sign * log(found[0]) / 2.0 - (weight - sign / 2.0) * log(found[1])
        constant -= weight * log(found[0])
        for c in range(gains.size):
            gains[c] += constant + weight * log(_determinant(found, shifts[c]))


@kernel(error_model="numpy")
def _given(matrix, given, n_given, a, b, rows):
    """Variances of two variables and their covariance, given others; ``rows`` (p, p) is scratch."""
    for i in range(n_given + 2):
        row = given[i] if i < n_given else (a if i == n_given else b)
        for j in range(min(i, n_given)):
            entry = matrix[row, given[j]]
            for k in range(j):
                entry -= rows[i, k] * rows[j, k]
            rows[i, j] = entry / rows[j, j]
        if i < n_given:
            pivot = matrix[row, row]
            for k in range(i):
                pivot -= rows[i, k] ** 2
            rows[i, i] = sqrt(pivot)
    variance_a, variance_b, covariance = matrix[a, a], matrix[b, b], matrix[a, b]
    for k in range(n_given):
        variance_a -= rows[n_given, k] ** 2
        variance_b -= rows[n_given + 1, k] ** 2
        covariance -= rows[n_given, k] * rows[n_given + 1, k]
    return variance_a, variance_b, covariance


@kernel(error_model="numpy", inline="always")
def _determinant(found, shift):
    """Determinant of two variances and their covariance, when the covariance is shifted."""
    return found[0] * found[1] - (found[2] + shift) ** 2


@kernel(error_model="numpy")
def _write_values(members, gains, frequencies, log_weights, rest, values):
    """Write the log probability of every frequency at one candidate, with all edges summed out."""
    n_values = frequencies.size
    products, largest = np.ones(n_values), 0.0
    for k in range(n_values):
        values[k] = rest + log_weights[k]
    if rest == -np.inf:
        return
    for t in range(gains.size):
        if not members[t]:
            continue
        excess = max(gains[t], 0.0)
        present, absent = exp(gains[t] - excess), exp(-excess)
        largest += excess
        for k in range(n_values):
            products[k] *= frequencies[k] * present + (1.0 - frequencies[k]) * absent
            if not SMALLEST_PRODUCT < products[k] < LARGEST_PRODUCT:
                values[k] += log(products[k])
                products[k] = 1.0
    for k in range(n_values):
        values[k] += log(products[k]) + largest


@kernel(error_model="numpy")
def _upper_factor(matrix):
    """U with U'U = matrix, zeros below; rows of U are contiguous, as the loops below need them."""
    p = matrix.shape[0]
    factor = np.zeros((p, p))
    for i in range(p):
        for j in range(i, p):
            factor[i, j] = matrix[i, j]
        for k in range(i):
            for j in range(i, p):
                factor[i, j] -= factor[k, i] * factor[k, j]
        pivot = sqrt(factor[i, i])
        for j in range(i, p):
            factor[i, j] /= pivot
    return factor


@kernel(error_model="numpy")
def _solve(factor, i, column):
    """Write column i of the inverse of U'U."""
    p = factor.shape[0]
    for k in range(p):
        column[k] = 0.0
    column[i] = 1.0
    for k in range(i, p):
        column[k] /= factor[k, k]
        for j in range(k + 1, p):
            column[j] -= factor[k, j] * column[k]
    for k in range(p - 1, -1, -1):
        for j in range(k + 1, p):
            column[k] -= factor[k, j] * column[j]
        column[k] /= factor[k, k]


@kernel(error_model="numpy")
def _shift_element(factor, i, j, shift, columns):
    """Change U so that element i, j of U'U is shifted: a matrix of rank one is added, one subtracted."""
    p = factor.shape[0]
    size = sqrt(abs(shift) / 2.0)
    for which in range(2):
        vector, sign = columns[which], 1.0 if which == 0 else -1.0
        for k in range(p):
            vector[k] = 0.0
        vector[i], vector[j] = size, size * sign * (1.0 if shift > 0 else -1.0)
        for k in range(min(i, j), p):
            old = factor[k, k]
            new = sqrt(old * old + sign * vector[k] * vector[k])
            cosine, sine = new / old, vector[k] / old
            factor[k, k] = new
            for b in range(k + 1, p):
                factor[k, b] = (factor[k, b] + sign * sine * vector[b]) / cosine
                vector[b] = cosine * vector[b] - sine * factor[k, b]


@kernel(error_model="numpy")
def update_kinds(rng, data, state):
    """Draw the kind of every pair, then the shares and the frequencies of the kinds, in place."""
    counts, kinds = state.counts, state.kinds
    p = counts.shape[0]
    n = state.members.sum()
    by_count = np.empty((n + 1, 3))
    for c in range(n + 1):
        log_shares(kinds, c, n, by_count[c])
    sizes, edges = np.zeros(3), np.zeros(3)
    values = np.empty(3)
    for i in range(p):
        for j in range(i + 1, p):
            if data.free[i, j]:
                c = counts[i, j] + counts[j, i]
                for kind in range(3):
                    values[kind] = by_count[c, kind]
                kind = _drawn(rng, values)
                sizes[kind] += 1
                edges[kind] += c
    shares = np.empty(3)
    for kind in range(3):
        shares[kind] = rng.standard_gamma(_KIND * (p if kind == ABSENT else 1) + sizes[kind])
    total = shares.sum()
    for kind in range(3):
        kinds[kind] = max(shares[kind] / total, _LEAST)
    lacking = n * sizes - edges
    kinds[RARE] = _beta(rng, _RARE[0] + edges[ABSENT], _RARE[1] + lacking[ABSENT])
    kinds[USUAL] = _beta(rng, _RARE[1] + edges[COMMON], _RARE[0] + lacking[COMMON])


@kernel(error_model="numpy")
def _frequencies(kinds):
    """All frequencies that a pair may have, and their log probabilities."""
    n_varying = FREQUENCIES.size
    frequencies, log_weights = np.empty(n_varying + 2), np.empty(n_varying + 2)
    frequencies[0], log_weights[0] = kinds[RARE], log(kinds[ABSENT])
    frequencies[1], log_weights[1] = kinds[USUAL], log(kinds[COMMON])
    for k in range(n_varying):
        frequencies[k + 2] = FREQUENCIES[k]
        log_weights[k + 2] = log(kinds[VARYING] / n_varying)
    return frequencies, log_weights


@kernel(error_model="numpy")
def _share_of_direction(rng, agreement, n_forward, n_backward):
    """A draw of the share of members whose edge goes one way, given the present directions."""
    if agreement == np.inf:
        return 0.5
    return _beta(rng, agreement + n_forward, agreement + n_backward)


@kernel(error_model="numpy")
def _drawn(rng, values):
    """A place, drawn with probabilities proportional to the exponentials of ``values``."""
    top, total = values.max(), 0.0
    for value in values:
        total += exp(value - top)
    left = rng.random() * total
    for k in range(values.size - 1):
        left -= exp(values[k] - top)
        if left < 0.0:
            return k
    return values.size - 1


@kernel(error_model="numpy")
def _beta(rng, a, b):
    """A draw from a Beta distribution, not closer to 0 or 1 than `_LEAST`."""
    first = rng.standard_gamma(a)
    share = first / (first + rng.standard_gamma(b))
    return min(max(share, _LEAST), 1.0 - _LEAST)
