"""An element of sigma_h that belongs to a pair: its prior, its candidates, what they are worth.

All kernels here serve the update of pairs (docs/model.md, section 14).
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel

# Candidates for the partial correlation of a pair in sigma_h, and the distance between neighbours. The
# present value has a random place among them, so that every candidate could have been the present one.
CANDIDATES, _DISTANCE = 24, 0.05

# Partial correlations in sigma_h beyond this are left to the trajectories: sigma_h is nearly singular.
_LARGEST_CORRELATION = 0.999


class Element(NamedTuple):
    """What the prior of sigma_h says of one element, given all others.

    ``correlation`` is the partial correlation of the pair given all other variables; the element is a
    linear function of it, with slope ``scale``. The log density of its prior is in `write_candidates`,
    with ``squares`` and ``product``.
    """

    correlation: float
    scale: float
    squares: float
    product: float


@kernel(error_model="numpy")
def element_of(factor, delta, psi_scales, i, j, columns):
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
    return Element(
        covariance / scale,
        scale,
        square_i / variance_i + square_j / variance_j,
        product / scale,
    )


@kernel(error_model="numpy")
def write_candidates(element, coefficient, present_place, shifts, rests):
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
def add_children(adjacency, ties, matrices, degrees, pair, parents, rows, shifts, rests):
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
            of_parents = covariances_given(matrices[which], parents, n_others, i, j, rows)
            of_family = covariances_given(matrices[which], parents, n_others + 1, i, j, rows)
            for c in range(shifts.size):
                rests[c] += (sign / 2.0 - weight) * log(_determinant(of_parents, shifts[c]))
                rests[c] += weight * log(_determinant(of_family, shifts[c]))


@kernel(error_model="numpy", inline="always")
def other_parents(adjacency, a, node, parents):
    """Write the parents of a node other than a, and return their number."""
    n_parents = 0
    for b in range(adjacency.shape[0]):
        if adjacency[b, node] and b != a:
            parents[n_parents] = b
            n_parents += 1
    return n_parents


@kernel(error_model="numpy")
def write_gains(of_pair, degrees, n_parents, rest, shifts, gains):
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
def covariances_given(matrix, given, n_given, a, b, rows):
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
def upper_factor(matrix):
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
def shift_element(factor, i, j, shift, columns):
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
