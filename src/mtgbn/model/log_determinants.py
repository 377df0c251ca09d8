"""The one kernel: weighted log-determinants of small principal submatrices (docs/model.md, section 1).

Likelihood, structure priors, posterior and gradient are all of the form

    sum over pairs of  outer_coefficient ln|M_outer| + inner_coefficient ln|M_inner|,
    M = sigma_h + shift,

and differ only in their lists of pairs and coefficients.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from mtgbn._utils.compiled import ZERO, kernel
from mtgbn.model.signed_sets import SignedSets

# Sets of one size are factorised side by side, this many at a time: enough to fill the vector units
# and to make the cost of the loop small, few enough for the level 1 cache.
LANES = 64

# Logarithms are taken of products of pivots while these stay in this range: two factors within it
# can neither overflow nor lose digits.
SMALLEST_PRODUCT, LARGEST_PRODUCT = 1e-150, 1e150


class LogDeterminants(NamedTuple):
    """A weighted sum of log-determinants, laid out for the kernel.

    Pairs with the same outer and inner size form a batch. Batches follow each other in the flat
    arrays; within one, the pairs are the contiguous axis. The rows of ``positions`` and ``shifts``
    are the elements of the lower triangle of M, row by row: the place of an element in the flattened
    lower triangle of sigma_h, and the number that is added to it. The two rows of ``coefficients``
    belong to the pivots of the inner variables and of the other variables.
    """

    outer_sizes: np.ndarray
    inner_sizes: np.ndarray
    counts: np.ndarray
    positions: np.ndarray
    shifts: np.ndarray
    coefficients: np.ndarray


def normaliser_coefficients(sets: SignedSets, d) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the coefficients of ln|M_outer| and ln|M_inner| in log I, and its constant.

    ell(A; d, M) = lnGamma_a((d + a - 1)/2) - (d + a - 1)/2 * ln|M_AA / 2|, with a = |A|. ``d`` is a
    number or one number per pair.
    """
    outer_coefficients, outer_constants = _ell(sets.outer_sizes, d)
    inner_coefficients, inner_constants = _ell(sets.inner_sizes, d)
    constant = float(sets.weights @ (outer_constants - inner_constants))
    return sets.weights * outer_coefficients, -sets.weights * inner_coefficients, constant


def _ell(sizes: np.ndarray, d) -> tuple[np.ndarray, np.ndarray]:
    """Coefficient of ln|M_AA| and constant part of ell(A; d, M) for sets of the given sizes."""
    half_degrees = np.broadcast_to((d + sizes - 1) / 2, sizes.shape)
    # multivariate log gamma functions, of as many factors as a set has variables
    factors = np.arange(sizes.max(initial=0))
    present = factors < sizes[:, None]
    logarithms = np.zeros(present.shape)
    logarithms[present] = gammaln((half_degrees[:, None] - factors / 2)[present])
    log_gammas = logarithms.sum(axis=1) + sizes * (sizes - 1) / 4 * np.log(np.pi)
    coefficients = np.where(sizes > 0, -half_degrees, 0.0)
    return coefficients, log_gammas - coefficients * sizes * np.log(2)


def batch(
    sets: SignedSets,
    outer_coefficients: np.ndarray,
    inner_coefficients: np.ndarray,
    owners: np.ndarray,
    shifts: np.ndarray,
) -> LogDeterminants:
    """Lay out a weighted sum for the kernel; ``shifts[owners[b]]`` is added to sigma_h in pair b."""
    p = shifts.shape[-1]
    outer_sizes = sets.outer_sizes
    kinds = np.unique(np.column_stack([outer_sizes, sets.inner_sizes]), axis=0)
    kinds = kinds[kinds[:, 0] > 0]
    counts, positions, shift_rows, coefficients = [], [], [], []
    for size, inner in kinds:
        pairs = np.nonzero((outer_sizes == size) & (sets.inner_sizes == inner))[0]
        members = sets.members[sets.starts[pairs] + np.arange(size)[:, None]]
        rows, columns = np.tril_indices(size)
        i, j = members[rows], members[columns]
        counts.append(len(pairs))
        positions.append((np.maximum(i, j) * p + np.minimum(i, j)).ravel())
        shift_rows.append(shifts[owners[pairs], i, j].ravel())
        # the determinant of the inner set is a factor of both
        coefficients.append(outer_coefficients[pairs] + inner_coefficients[pairs])
        coefficients.append(outer_coefficients[pairs])
    return LogDeterminants(
        np.ascontiguousarray(kinds[:, 0]),
        np.ascontiguousarray(kinds[:, 1]),
        np.array(counts, dtype=np.int64),
        # unsigned, so that indexing needs no test for negative values
        np.concatenate([*positions, []]).astype(np.uint32),
        np.concatenate([*shift_rows, []]),
        np.concatenate([*coefficients, []]),
    )


def workspace(terms: LogDeterminants) -> tuple[np.ndarray, ...]:
    """Scratch arrays of `log_determinants`, to be made once and used many times."""
    size = int(terms.outer_sizes.max(initial=0))
    triangle = (size * (size + 1) // 2, LANES)
    return np.empty(triangle), np.empty(triangle), np.empty(LANES), np.empty(LANES)


@kernel(error_model="numpy", fastmath={"contract"})
def log_determinants(terms, sigma_h, gradient, work):
    """Return the weighted sum at sigma_h and add its derivative G to ``gradient``.

    G is symmetric, d value = tr(G d sigma_h); only its lower triangle is written, and only the lower
    triangle of sigma_h is read. Both are flat, row by row. The value is minus infinity where a
    submatrix is not positive definite.
    """
    factor, derivative, first, second = work
    value = 0.0
    triangle_start = 0
    coefficient_start = 0
    for b in range(terms.counts.size):
        size = terms.outer_sizes[b]
        inner = terms.inner_sizes[b]
        count = terms.counts[b]
        elements = size * (size + 1) // 2
        for lane in range(0, count, LANES):
            n = min(LANES, count - lane)
            start = triangle_start + lane
            for k in range(elements):
                gather(
                    factor[k, :n],
                    sigma_h,
                    terms.positions[start + k * count :],
                    terms.shifts[start + k * count :],
                )
            inner_coefficients = terms.coefficients[coefficient_start + lane :]
            outer_coefficients = terms.coefficients[coefficient_start + count + lane :]
            for r in range(size):
                if not eliminate_row(factor, r, n):
                    return -np.inf
            value += _weighted_logarithms(factor, ZERO, inner, inner_coefficients, first[:n])
            value += _weighted_logarithms(factor, inner, size, outer_coefficients, first[:n])
            for k in range(elements):
                for column in range(n):
                    derivative[k, column] = 0.0
            for r in range(size):
                invert_row(factor, r, n)
                _differentiate(
                    factor,
                    derivative,
                    r,
                    inner_coefficients if r < inner else outer_coefficients,
                    first[:n],
                    second,
                )
            for k in range(elements):
                scatter(gradient, terms.positions[start + k * count :], derivative[k, :n])
        triangle_start += elements * count
        coefficient_start += 2 * count
    return value


@kernel(inline="always")
def gather(row, sigma_h, positions, shifts):
    """Read elements of sigma_h plus their shifts into a row of lanes."""
    for lane in range(row.size):
        row[lane] = sigma_h[positions[lane]] + shifts[lane]


@kernel(inline="always")
def scatter(gradient, positions, row):
    """Add a row of lanes to elements of the gradient."""
    for lane in range(row.size):
        gradient[positions[lane]] += row[lane]


@kernel(error_model="numpy", fastmath={"contract"})
def eliminate_row(factor, r, n):
    """Row r of the root-free Cholesky factorisation M = U D U', with 1/D kept on the diagonal.

    The pivots D of the inner variables come first, so their product is the determinant of the inner
    set.
    """
    row = r * (r + 1) // 2
    pivot = factor[row + r]
    for c in range(r):
        entry = factor[row + c]
        other = c * (c + 1) // 2
        for j in range(c):
            left, right = factor[row + j], factor[other + j]
            for lane in range(n):
                entry[lane] -= left[lane] * right[lane]
    for c in range(r):
        entry, reciprocal = factor[row + c], factor[c * (c + 1) // 2 + c]
        for lane in range(n):
            scaled = entry[lane] * reciprocal[lane]
            pivot[lane] -= scaled * entry[lane]
            entry[lane] = scaled
    positive = True
    for lane in range(n):
        positive &= pivot[lane] > 0.0
        pivot[lane] = 1.0 / pivot[lane]
    return positive


@kernel(error_model="numpy", fastmath={"contract"})
def _weighted_logarithms(factor, first_row, last_row, coefficients, product):
    """Sum of coefficient times ln D over some rows, with few logarithms."""
    if first_row == last_row:
        return 0.0
    for lane in range(product.size):
        product[lane] = 1.0
    for r in range(first_row, last_row):
        reciprocal = factor[r * (r + 1) // 2 + r]
        for lane in range(product.size):
            longer = product[lane] * reciprocal[lane]
            # A product that left the range stays NaN: back in the range it would have lost digits.
            product[lane] = longer if SMALLEST_PRODUCT < longer < LARGEST_PRODUCT else np.nan
    total = 0.0
    running, coefficient = 1.0, coefficients[0]
    for lane in range(product.size):
        if SMALLEST_PRODUCT < product[lane] < LARGEST_PRODUCT:
            # the sets of one task and size share their coefficient
            same = coefficients[lane] == coefficient
            if not (same and SMALLEST_PRODUCT < running < LARGEST_PRODUCT):
                total -= coefficient * np.log(running)
                running, coefficient = 1.0, coefficients[lane]
            running *= product[lane]
        else:
            for r in range(first_row, last_row):
                total -= coefficients[lane] * np.log(factor[r * (r + 1) // 2 + r, lane])
    return total - coefficient * np.log(running)


@kernel(error_model="numpy", fastmath={"contract"})
def invert_row(factor, r, n):
    """Turn row r of U into row r of K = U^-1, the rows above being done."""
    row = r * (r + 1) // 2
    for c in range(r):
        entry = factor[row + c]
        for j in range(c + 1, r):
            left, right = factor[row + j], factor[j * (j + 1) // 2 + c]
            for lane in range(n):
                entry[lane] += left[lane] * right[lane]
        for lane in range(n):
            entry[lane] = -entry[lane]


@kernel(error_model="numpy", fastmath={"contract"}, inline="always")
def _differentiate(factor, derivative, r, coefficients, weight, weighted):
    """Add the share of row r of K to the derivative.

    M^-1 = K' D^-1 K, and the leading block of K belongs to the inner set: row r enters with the
    coefficient of the sets that contain variable r.
    """
    n = weight.size
    row = r * (r + 1) // 2
    reciprocal, total = factor[row + r], derivative[row + r]
    for lane in range(n):
        weight[lane] = coefficients[lane] * reciprocal[lane]
        total[lane] += weight[lane]
    for i in range(r):
        left, total = factor[row + i], derivative[row + i]
        for lane in range(n):
            weighted[lane] = weight[lane] * left[lane]
            total[lane] += weighted[lane]
        for j in range(i + 1):
            right, total = factor[row + j], derivative[i * (i + 1) // 2 + j]
            for lane in range(n):
                total[lane] += weighted[lane] * right[lane]
