"""Unconstrained coordinates of sigma_h (docs/model.md, section 5).

sigma_h = L0 Z Z' L0' with L0 the Cholesky factor of a centre and Z lower triangular; the vector x
holds the lower triangle of Z row by row, with logarithms on the diagonal. With the identity as the
centre these are the paper's coordinates; with a good guess of sigma_h as the centre Z stays near the
identity and all coordinates have about the same scale.
"""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mtgbn.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_positive_definite
from mtgbn.model.log_determinants import log_determinants, workspace
from mtgbn.model.posterior import Posterior

__all__ = [
    "from_unconstrained",
    "log_jacobian",
    "log_posterior_unconstrained",
    "to_unconstrained",
]


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


def coordinates_workspace(posterior: Posterior) -> tuple[np.ndarray, ...]:
    """Scratch arrays of `unconstrained_value_and_gradient`, to be made once and used many times."""
    square = (posterior.n_variables, posterior.n_variables)
    squares = tuple(np.zeros(square) for _ in range(5))
    return (*squares, workspace(posterior.terms))


@kernel(error_model="numpy", fastmath={"contract"})
def unconstrained_value_and_gradient(posterior, centre_factor, x, gradient, work):
    """Log density of x up to the constant p ln 2 + (p + 1) ln|L0|; writes ``gradient``."""
    _, _, transposed, sigma_h, derivative, small = work
    p = posterior.n_variables
    sigma_h_of(centre_factor, x, work)
    derivative[:] = 0.0
    value = posterior.constant + log_determinants(
        posterior.terms, sigma_h.ravel(), derivative.ravel(), small
    )
    # d value = tr(G d sigma_h), so dL = 2 tril(G L) and dZ = tril(L0' dL).
    _multiply_symmetric(derivative, transposed, sigma_h)
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
    triangle, factor, _, roots, product, _ = work
    p = scales.size
    value = 0.0
    for i in range(p):
        row = roots[i]
        row[:] = 0.0
        _subtract_rows(row, factor[i], roots, i)
        row[i] = np.sqrt(scales[i])
        for j in range(i + 1):
            row[j] /= factor[i, i]
            value -= row[j] * row[j] / 2.0
    _multiply_by_transpose(roots, product)
    for i in range(p - 1, -1, -1):
        row = product[i]
        for k in range(p - 1 - i):
            weight, below = factor[i + 1 + k, i], product[i + 1 + k]
            for j in range(i + 1):
                row[j] -= weight * below[j]
        for j in range(i + 1):
            row[j] /= factor[i, i]
    _multiply_transposed(centre_factor, product, roots)
    index = 0
    for i in range(p):
        for j in range(i):
            gradient[index] += roots[i, j]
            index += 1
        gradient[index] += roots[i, i] * triangle[i, i]
        index += 1
    return value


@kernel(fastmath={"contract"})
def _subtract_rows(row, weights, rows, count):
    """Subtract weighted rows of a lower triangular matrix, two at a time."""
    k = 0
    while k + 2 <= count:
        w0, w1, r0, r1 = weights[k], weights[k + 1], rows[k], rows[k + 1]
        for j in range(k + 1):
            row[j] -= w0 * r0[j] + w1 * r1[j]
        row[k + 1] -= w1 * r1[k + 1]
        k += 2
    if k < count:
        for j in range(k + 1):
            row[j] -= weights[k] * rows[k, j]


@kernel
def sigma_h_of(centre_factor, x, work):
    """Write sigma_h of x to the lower triangle of the fourth array of ``work`` and return it."""
    triangle, factor, transposed, sigma_h = work[0], work[1], work[2], work[3]
    _unpack_transposed(x, triangle)
    _multiply_triangles(centre_factor, triangle, factor, transposed)
    _multiply_by_transpose(factor, sigma_h)
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


# Dense products of triangular matrices, two by two elements at a time as inner products of rows, or as
# sums of rows. At these sizes this beats BLAS on full matrices, and it does not depend on its threads.


@kernel
def _unpack_transposed(x, triangle):
    """Write Z', with its zeros below the diagonal."""
    index = 0
    for i in range(triangle.shape[0]):
        for j in range(i):
            triangle[j, i] = x[index]
            triangle[i, j] = 0.0
            index += 1
        triangle[i, i] = np.exp(x[index])
        index += 1


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _inner_products(a, b, c, d, first, last):
    """Inner products of two rows with two others: ac, ad, bc, bd."""
    # counting from 0 spares the compiler the question of negative indices, and it vectorises
    a, b, c, d = a[first:last], b[first:last], c[first:last], d[first:last]
    ac = ad = bc = bd = 0.0
    for k in range(a.size):
        ac += a[k] * c[k]
        ad += a[k] * d[k]
        bc += b[k] * c[k]
        bd += b[k] * d[k]
    return ac, ad, bc, bd


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _multiply_triangles(left, right, product, transposed):
    """Write L0 Z and its transpose for lower triangular L0 and Z, the latter given as Z'."""
    p = left.shape[0]
    for i in range(0, p, 2):
        below = min(i + 1, p - 1)  # an odd last row is done twice
        for j in range(0, i + 1, 2):
            beside = min(j + 1, p - 1)
            entries = _inner_products(left[i], left[below], right[j], right[beside], j, below + 1)
            transposed[j, below], transposed[beside, below] = entries[2], entries[3]
            transposed[j, i], transposed[beside, i] = entries[0], entries[1]
            product[below, j], product[below, beside] = entries[2], entries[3]
            product[i, j], product[i, beside] = entries[0], entries[1]


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _multiply_by_transpose(factor, product):
    """Write the lower triangle of L L' for a lower triangular L."""
    p = factor.shape[0]
    for i in range(0, p, 2):
        below = min(i + 1, p - 1)
        for j in range(0, i + 1, 2):
            beside = min(j + 1, p - 1)
            entries = _inner_products(
                factor[i], factor[below], factor[j], factor[beside], 0, beside + 1
            )
            product[i, j], product[i, beside] = entries[0], entries[1]
            product[below, j], product[below, beside] = entries[2], entries[3]


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _multiply_symmetric(symmetric, transposed, product):
    """Write the lower triangle of 2 G L, given L'; G comes as a triangle and leaves as 2 G."""
    p = symmetric.shape[0]
    for i in range(p):
        for j in range(i):
            symmetric[i, j] *= 2.0
            symmetric[j, i] = symmetric[i, j]
        symmetric[i, i] *= 2.0
    for i in range(0, p, 2):
        below = min(i + 1, p - 1)
        for j in range(0, i + 1, 2):
            beside = min(j + 1, p - 1)
            entries = _inner_products(
                symmetric[i], symmetric[below], transposed[j], transposed[beside], j, p
            )
            product[i, j], product[i, beside] = entries[0], entries[1]
            product[below, j], product[below, beside] = entries[2], entries[3]


@kernel(fastmath={"contract"})
def _multiply_transposed(factor, right, product):
    """Write the lower triangle of L0' R for lower triangular L0 and R, four rows of R at a time."""
    p = factor.shape[0]
    for i in range(p):
        total = product[i]
        total[: i + 1] = 0.0
        k = i
        while k + 4 <= p:
            w0, w1, w2, w3 = factor[k, i], factor[k + 1, i], factor[k + 2, i], factor[k + 3, i]
            r0, r1, r2, r3 = right[k], right[k + 1], right[k + 2], right[k + 3]
            for j in range(i + 1):
                total[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]
            k += 4
        while k < p:
            w0, r0 = factor[k, i], right[k]
            for j in range(i + 1):
                total[j] += w0 * r0[j]
            k += 1


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
