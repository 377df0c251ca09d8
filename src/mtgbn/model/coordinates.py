"""Unconstrained coordinates of sigma_h (docs/model.md, section 5).

sigma_h = L0 Z Z' L0' with L0 the Cholesky factor of a centre and Z lower triangular; the vector x
holds the lower triangle of Z row by row, with logarithms on the diagonal. With the identity as the
centre these are the paper's coordinates; with a good guess of sigma_h as the centre Z stays near the
identity and all coordinates have about the same scale.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mtgbn._utils.compiled import ZERO, kernel
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_positive_definite
from mtgbn.model.log_determinants import log_determinants, workspace
from mtgbn.model.posterior import Posterior


class GradientWork(NamedTuple):
    """Scratch matrices (p, p) of `unconstrained_value_and_gradient`, and those of `log_determinants`."""

    triangle: np.ndarray
    factor: np.ndarray
    transposed: np.ndarray
    sigma_h: np.ndarray
    derivative: np.ndarray
    small: tuple


def to_unconstrained(sigma_h, centre=None) -> np.ndarray:
    """Return the unconstrained vector of length p (p + 1) / 2 of a positive definite sigma_h.

    Parameters
    ----------
    sigma_h : array (p, p)
    centre : array (p, p), optional
        Positive definite; sigma_h equal to the centre has the vector 0. Default: the identity.
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    factor = cholesky(sigma_h, lower=True)
    whitened = solve_triangular(_centre_factor(centre, len(sigma_h)), factor, lower=True)
    np.fill_diagonal(whitened, np.log(np.diag(whitened)))
    return whitened[np.tril_indices(len(sigma_h))]


def from_unconstrained(x, centre=None) -> np.ndarray:
    """Return sigma_h of an unconstrained vector; the inverse of `to_unconstrained`."""
    x = np.asarray(x, dtype=float)
    p = _dimension(x)
    factor = _centre_factor(centre, p) @ _triangle(x, p)
    return factor @ factor.T


def log_jacobian(x, centre=None) -> float:
    """Log absolute determinant of the derivative of the lower triangle of sigma_h by x.

    With the identity as the centre: ln 2^p + sum_i (p - i + 2) x_ii, i = 1..p. A centre with Cholesky
    factor L0 adds the constant (p + 1) ln|L0|.
    """
    x = np.asarray(x, dtype=float)
    p = _dimension(x)
    diagonal = _triangle(x, p).diagonal()
    return float(
        p * np.log(2)
        + np.arange(p + 1, 1, -1) @ np.log(diagonal)
        + (p + 1) * np.log(np.diag(_centre_factor(centre, p))).sum()
    )


def log_posterior_unconstrained(x, posterior: Posterior, centre=None) -> tuple[float, np.ndarray]:
    """Log density of the unconstrained vector, log Jacobian included, and its gradient.

    Parameters
    ----------
    x : array (p (p + 1) / 2,)
    posterior : Posterior
        From `build_posterior`.
    centre : array (p, p), optional
    """
    x = np.array(x, dtype=float)
    p = _dimension(x)
    if p != posterior.n_variables:
        raise InputError(f"x belongs to {p} variables, the posterior has {posterior.n_variables}")
    factor = _centre_factor(centre, p)
    gradient = np.empty_like(x)
    work = coordinates_workspace(posterior)
    value = unconstrained_value_and_gradient(posterior, factor, x, gradient, work)
    return value + p * np.log(2) + (p + 1) * np.log(np.diag(factor)).sum(), gradient


def coordinates_workspace(posterior: Posterior) -> GradientWork:
    """Scratch space, to be made once and used many times."""
    one, two, three, four, five = np.zeros((5, posterior.n_variables, posterior.n_variables))
    return GradientWork(one, two, three, four, five, workspace(posterior.terms))


@kernel(error_model="numpy", fastmath={"contract"})
def unconstrained_value_and_gradient(posterior, centre_factor, x, gradient, work):
    """Log density of x up to the constant p ln 2 + (p + 1) ln|L0|; writes ``gradient``."""
    factor, sigma_h, derivative = work.factor, work.sigma_h, work.derivative
    p = posterior.n_variables
    sigma_h_of(centre_factor, x, work)
    _clear(derivative)
    value = posterior.constant + log_determinants(
        posterior.terms, sigma_h.ravel(), derivative.ravel(), work.small
    )
    # d value = tr(G d sigma_h), so dL = 2 tril(G L) and dZ = tril(L0' dL).
    _multiply_symmetric(derivative, factor, sigma_h)
    _multiply_transposed(centre_factor, sigma_h, derivative)
    index = 0
    for i in range(p):
        for j in range(i):
            gradient[index] = derivative[i, j]
            index += 1
        # ln|sigma_h| = 2 sum x_ii + constant, and the Jacobian (p - i + 1) x_ii with i from 0
        exponent = 2.0 * posterior.full_coefficient + p - i + 1.0
        value += exponent * x[index]
        value += 2.0 * posterior.full_coefficient * np.log(centre_factor[i, i])
        gradient[index] = derivative[i, i] * np.exp(x[index]) + exponent
        index += 1
    if posterior.prior_scales[0] > 0.0:
        value += _add_prior(posterior.prior_scales, centre_factor, work, gradient)
    return value


@kernel(error_model="numpy", fastmath={"contract"})
def _add_prior(scales, centre_factor, work, gradient):
    """Value of -tr(D sigma_h^-1)/2; adds its gradient.

    With W = L^-1 D^(1/2) the value is -|W|^2/2 and its derivative by L is tril(L'^-1 W W').
    """
    # sigma_h and the derivative are not needed any more.
    factor, transposed, roots, product = work.factor, work.transposed, work.sigma_h, work.derivative
    p = scales.size
    value = 0.0
    _clear(roots)
    for i in range(p):
        row = roots[i]
        for k in range(i % 4):
            _add_row(row, factor[i, k], roots[k], ZERO, k + 1)
        for k in range(i % 4, i, 4):
            _add_four(row, _four(factor[i], k), roots, k, ZERO, k + 4)
        for j in range(i):
            row[j] /= -factor[i, i]
            value -= row[j] * row[j] / 2.0
        row[i] = np.sqrt(scales[i]) / factor[i, i]
        value -= row[i] * row[i] / 2.0
    _transpose(roots, transposed)
    _multiply_by_transpose(roots, transposed, product)
    # L' X = W W' from below; the rows of W are free again.
    for i in range(p - 1, -1, -1):
        row, total = product[i], roots[i]
        for j in range(i + 1):
            total[j] = 0.0
        k = i + 1
        while (p - k) % 4:
            _add_row(total, factor[k, i], product[k], ZERO, i + 1)
            k += 1
        while k < p:
            _add_four(total, _four_below(factor, k, i), product, k, ZERO, i + 1)
            k += 4
        for j in range(i + 1):
            row[j] = (row[j] - total[j]) / factor[i, i]
    _multiply_transposed(centre_factor, product, roots)
    index = 0
    for i in range(p):
        for j in range(i):
            gradient[index] += roots[i, j]
            index += 1
        gradient[index] += roots[i, i] * work.triangle[i, i]
        index += 1
    return value


@kernel
def sigma_h_of(centre_factor, x, work):
    """Write sigma_h of x to the lower triangle of ``work.sigma_h`` and return it."""
    triangle, factor, transposed, sigma_h = (
        work.triangle,
        work.factor,
        work.transposed,
        work.sigma_h,
    )
    _unpack(x, triangle)
    _multiply_triangles(centre_factor, triangle, factor)
    _transpose(factor, transposed)
    _multiply_by_transpose(factor, transposed, sigma_h)
    return sigma_h


@kernel(error_model="numpy")
def coordinates_of(matrices, centre_factor):
    """Unconstrained vectors of many positive definite matrices (n, p, p); see `to_unconstrained`."""
    n, p, _ = matrices.shape
    x = np.empty((n, p * (p + 1) // 2))
    factor = np.zeros((p, p))
    for t in range(n):
        for i in range(p):
            for j in range(i + 1):
                entry = matrices[t, i, j]
                for k in range(j):
                    entry -= factor[i, k] * factor[j, k]
                factor[i, j] = np.sqrt(entry) if i == j else entry / factor[j, j]
        # Z = L0^-1 L, in place: row i needs the rows above it
        index = 0
        for i in range(p):
            for j in range(i + 1):
                for k in range(j, i):
                    factor[i, j] -= centre_factor[i, k] * factor[k, j]
                factor[i, j] /= centre_factor[i, i]
                x[t, index] = np.log(factor[i, j]) if i == j else factor[i, j]
                index += 1
    return x


# Dense products of triangular matrices, as sums of weighted rows: two rows of the result and four of the
# right factor at a time, as many as the registers hold. At these sizes this is faster than BLAS on full
# matrices, and it does not depend on the threads of BLAS. Elements of a product above its diagonal have
# no meaning; factors have zeros there. Rows beyond a multiple of two or four come first, where rows are
# shortest. Columns are counted without sign: without a test for negative indices, loops are vectorised.


@kernel(inline="always")
def _unpack(x, triangle):
    """Write Z, with its zeros above the diagonal."""
    index = 0
    for i in range(triangle.shape[0]):
        for j in range(i):
            triangle[i, j] = x[index]
            triangle[j, i] = 0.0
            index += 1
        triangle[i, i] = np.exp(x[index])
        index += 1


@kernel(inline="always")
def _clear(matrix):
    """Set all elements to 0; a loop compiles in a tenth of the time of an assignment."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0


@kernel(inline="always")
def _transpose(matrix, transposed):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            transposed[j, i] = matrix[i, j]


@kernel(fastmath={"contract"})
def _add_row(total, weight, row, start, stop):
    for j in range(np.uint64(start), np.uint64(stop)):
        total[j] += weight * row[j]


@kernel(fastmath={"contract"})
def _add_four(total, weights, rows, k, start, stop):
    """Add to some columns of a row those of rows k to k + 3, with four weights."""
    r0, r1, r2, r3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
    w0, w1, w2, w3 = weights
    for j in range(np.uint64(start), np.uint64(stop)):
        total[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]


@kernel(fastmath={"contract"})
def _add_four_twice(first, second, a, b, rows, k, start, stop):
    """Add rows k to k + 3 to some columns of two rows, with weights a and b."""
    r0, r1, r2, r3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
    a0, a1, a2, a3 = a
    b0, b1, b2, b3 = b
    for j in range(np.uint64(start), np.uint64(stop)):
        first[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]
        second[j] += b0 * r0[j] + b1 * r1[j] + b2 * r2[j] + b3 * r3[j]


@kernel(inline="always")
def _four(row, k):
    return row[k], row[k + 1], row[k + 2], row[k + 3]


@kernel(inline="always")
def _four_below(matrix, k, j):
    return matrix[k, j], matrix[k + 1, j], matrix[k + 2, j], matrix[k + 3, j]


@kernel
def _multiply_triangles(left, right, product):
    """Write L0 Z for lower triangular L0 and Z, with zeros above the diagonal."""
    p = left.shape[0]
    _clear(product)
    if p % 2:
        product[0, 0] = left[0, 0] * right[0, 0]
    for i in range(p % 2, p, 2):
        first, second = product[i], product[i + 1]
        for k in range(min(p % 4, i + 2)):
            _add_row(first, left[i, k], right[k], ZERO, k + 1)
            _add_row(second, left[i + 1, k], right[k], ZERO, k + 1)
        for k in range(p % 4, i + 2, 4):
            a, b = _four(left[i], k), _four(left[i + 1], k)
            _add_four_twice(first, second, a, b, right, k, ZERO, min(k + 4, i + 2))


@kernel
def _multiply_by_transpose(factor, transposed, product):
    """Write the lower triangle of L L', given both."""
    p = factor.shape[0]
    _clear(product)
    if p % 2:
        product[0, 0] = factor[0, 0] ** 2
    for i in range(p % 2, p, 2):
        first, second = product[i], product[i + 1]
        for k in range(min(p % 4, i + 2)):
            _add_row(first, factor[i, k], transposed[k], k, i + 2)
            _add_row(second, factor[i + 1, k], transposed[k], k, i + 2)
        for k in range(p % 4, i + 2, 4):
            a, b = _four(factor[i], k), _four(factor[i + 1], k)
            _add_four_twice(first, second, a, b, transposed, k, k, i + 2)


@kernel
def _multiply_symmetric(symmetric, factor, product):
    """Write the lower triangle of 2 G L; G comes as a triangle and leaves as 2 G."""
    p = symmetric.shape[0]
    _clear(product)
    for i in range(p):
        for j in range(i):
            symmetric[i, j] *= 2.0
            symmetric[j, i] = symmetric[i, j]
        symmetric[i, i] *= 2.0
    if p % 2:
        for k in range(p):
            product[0, 0] += symmetric[0, k] * factor[k, 0]
    for i in range(p % 2, p, 2):
        first, second = product[i], product[i + 1]
        for k in range(p % 4):
            stop = min(k + 1, i + 2)
            _add_row(first, symmetric[i, k], factor[k], ZERO, stop)
            _add_row(second, symmetric[i + 1, k], factor[k], ZERO, stop)
        for k in range(p % 4, p, 4):
            a, b = _four(symmetric[i], k), _four(symmetric[i + 1], k)
            _add_four_twice(first, second, a, b, factor, k, ZERO, min(k + 4, i + 2))


@kernel
def _multiply_transposed(factor, right, product):
    """Write the lower triangle of L0' R for L0 and R, of which only the lower triangles are read."""
    p = factor.shape[0]
    _clear(product)
    if p % 2:
        for k in range(p):
            product[0, 0] += factor[k, 0] * right[k, 0]
    for i in range(p % 2, p, 2):
        first, second = product[i], product[i + 1]
        _add_row(first, factor[i, i], right[i], ZERO, i + 1)
        k = i + 1
        while (p - k) % 4:
            _add_row(first, factor[k, i], right[k], ZERO, i + 1)
            _add_row(second, factor[k, i + 1], right[k], ZERO, i + 2)
            k += 1
        while k < p:
            a, b = _four_below(factor, k, i), _four_below(factor, k, i + 1)
            _add_four_twice(first, second, a, b, right, k, ZERO, i + 2)
            k += 4


def _dimension(x: np.ndarray) -> int:
    p = int((np.sqrt(8 * x.size + 1) - 1) // 2)
    if x.ndim != 1 or p * (p + 1) // 2 != x.size or not x.size:
        raise InputError(
            f"an unconstrained vector has p (p + 1) / 2 elements; got an array of shape {x.shape}"
        )
    return p


def _triangle(x: np.ndarray, p: int) -> np.ndarray:
    triangle = np.zeros((p, p))
    triangle[np.tril_indices(p)] = x
    np.fill_diagonal(triangle, np.exp(np.diag(triangle)))
    return triangle


def _centre_factor(centre, p: int) -> np.ndarray:
    if centre is None:
        return np.eye(p)
    return cholesky(check_positive_definite(centre, "centre", p), lower=True)
