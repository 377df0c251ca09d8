"""The statistics of a contrast, for many permutations at once (docs/model.md, section 19).

Statistics depend on the permuted residuals only through scalar products with an orthonormal basis of
the design. Thousands of permutations are therefore one product of matrices. `EqualVariances` has t and
F. `VarianceGroups` has their counterparts for groups whose spread may differ: Welch's t and, for
several rows of a contrast, the statistic of Johansen (1980). In both, the residual variances of the
connections are moderated: shrunk to each other, anew for every permutation. With groups, all
permutations shrink them equally much.

The degrees of freedom of a statistic therefore differ between permutations. `values` are standardised
for them, so that permutations are comparable: z, or chi-square per row of the contrast.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.stats import chi2, norm
from scipy.stats import f as f_distribution
from scipy.stats import t as t_distribution

from mtgbn._utils.compiled import kernel
from mtgbn.compare.moderation import moderated, variance_prior

# A statistic is taken to be at most this, where the design explains everything.
_LARGEST = 1e6

# The standardising logarithm needs a positive factor; designs with a few degrees of freedom are far from
# this.
_SMALLEST_FACTOR = 0.5


class Divided(NamedTuple):
    """A design, divided for one contrast.

    ``tested`` (m, r) and ``nuisance`` (m, q) are orthonormal, and orthogonal to each other.
    ``effect`` (m, r) has the weights whose products with the strengths are the estimated contrasts.
    ``degrees`` are the residual degrees of freedom.
    """

    tested: np.ndarray
    nuisance: np.ndarray
    effect: np.ndarray
    degrees: int

    @property
    def basis(self) -> np.ndarray:
        """Of the whole design, what is tested first."""
        return np.concatenate([self.tested, self.nuisance], axis=1)


class Observed(NamedTuple):
    """The statistic of the observed order, t or F without a sign, and its p-value for normal errors.

    ``degrees`` are those of t, the second ones of F.
    """

    statistic: np.ndarray
    p: np.ndarray
    degrees: np.ndarray


class Estimates(NamedTuple):
    """The first row of a contrast, and its 95 % confidence interval.

    ``error`` is its standard error; with several rows, the one it has if the other rows are known. For
    normal errors it is as often too large as too small.
    """

    effect: np.ndarray
    low: np.ndarray
    high: np.ndarray
    error: np.ndarray


def divide(matrix: np.ndarray, contrast: np.ndarray) -> Divided:
    """Divide a design (m, k) of full rank into what a contrast (r, k) tests and the rest."""
    m, k = matrix.shape
    factor = np.linalg.qr(matrix)[1]
    # (M'M)^-1 C by triangular solutions.
    effect = matrix @ np.linalg.solve(factor, np.linalg.solve(factor.T, contrast.T))
    free = null_space(contrast)
    tested = np.linalg.qr(effect)[0]
    nuisance = np.empty((m, 0))
    if free.shape[1]:
        # The columns that are left when the contrast is 0; they span the reduced model.
        nuisance = np.linalg.qr(matrix @ free)[0]
        tested = np.linalg.qr(effect - nuisance @ (nuisance.T @ effect))[0]
    return Divided(tested, nuisance, effect, m - k)


def estimates(
    values: np.ndarray,
    matrix: np.ndarray,
    contrast: np.ndarray,
    variance_groups: np.ndarray | None = None,
) -> Estimates:
    """Estimate the first row of a contrast by least squares, with a 95 % confidence interval.

    ``values`` are (m, connections). The interval takes the errors to be normal, with a variance of
    their own in each of ``variance_groups``, numbered from 0, if these are given.
    """
    divided = divide(matrix, contrast)
    weights = divided.effect[:, 0]
    basis = divided.basis
    groups = np.zeros(len(values), dtype=int) if variance_groups is None else variance_groups
    is_in = groups == np.arange(groups.max() + 1)[:, None]
    squares = (values - basis @ (basis.T @ values)) ** 2
    free = is_in @ (1 - np.sum(basis**2, axis=1))
    variances = (is_in @ squares) / free[:, None]
    variance, degrees = _sum_of_parts((is_in @ weights**2)[:, None] * variances, free)
    half = t_distribution.ppf(0.975, degrees) * np.sqrt(variance)
    effect = weights @ values
    grams = np.array([divided.effect[own].T @ divided.effect[own] for own in is_in])
    error = _errors_given_the_others(variances, grams, free)
    return Estimates(effect, effect - half, effect + half, error)


def _sum_of_parts(parts: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the variances (groups, connections), and its degrees of freedom by Satterthwaite.

    With one group, or if the sum is 0, these are those of the residuals.
    """
    variance = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = 1 / np.sum((parts / variance) ** 2 / free[:, None], axis=0)
    return variance, np.where(variance > 0, degrees, free.sum())


def _errors_given_the_others(
    variances: np.ndarray, grams: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Root of 1/(V^-1)_11, with V the sum of variance times gram over groups, for every connection.

    This is the variance of the first combination minus its regression on the others. Small variances
    are more often too small than too large, which is corrected.
    """
    covariances = np.einsum("gc,gij->cij", variances, grams)
    others = np.linalg.pinv(covariances[:, 1:, 1:], hermitian=True)
    left = np.ones(covariances.shape[:2])
    left[:, 1:] = -np.einsum("cij,cj->ci", others, covariances[:, 1:, 0])
    parts = variances * np.einsum("ci,gij,cj->gc", left, grams, left)
    variance, degrees = _sum_of_parts(np.maximum(parts, 0.0), free)
    return np.sqrt(variance * degrees / chi2.median(degrees))


class _Statistics:
    """What both kinds of statistics have in common: r tested directions, and F with its degrees."""

    def __init__(self, divided: Divided, residuals: np.ndarray) -> None:
        self.divided, self.residuals = divided, residuals
        self.r = divided.tested.shape[1]

    def ratios(self, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F, (orders, connections), and its second degrees of freedom, of a shape that fits."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers per order and connection that are in memory at once."""
        raise NotImplementedError

    def values(self, orders: np.ndarray) -> np.ndarray:
        """Absolute z, or chi-square divided by its degrees of freedom, (orders, connections)."""
        r = self.r
        found, degrees = self.ratios(orders)
        factor = np.maximum(degrees + r / 2 - 1, _SMALLEST_FACTOR)
        found *= r / degrees
        np.log1p(found, out=found)
        found *= factor / r
        return np.sqrt(found) if r == 1 else found

    def observed(self) -> Observed:
        """The statistic without a permutation, not standardised."""
        found, degrees = (each[0] for each in self.ratios(np.arange(len(self.residuals))[None]))
        p = f_distribution.sf(found, self.r, degrees)
        degrees = np.broadcast_to(degrees, found.shape)
        return Observed(np.sqrt(found) if self.r == 1 else found, p, degrees)

    def threshold(self, p: float) -> float:
        """The value whose p-value for normal errors is p."""
        return float(norm.isf(p / 2) if self.r == 1 else chi2.isf(p, self.r) / self.r)


class EqualVariances(_Statistics):
    """t, or F for several rows of the contrast, of permuted residuals (m, connections)."""

    def __init__(self, divided: Divided, residuals: np.ndarray) -> None:
        super().__init__(divided, residuals)
        self.totals = np.einsum("mc,mc->c", residuals, residuals)

    @property
    def width(self) -> int:
        """Numbers per order and connection that are in memory at once."""
        return self.divided.basis.shape[1] + 9  # products, and what is made of them

    def ratios(self, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F, and its second degrees of freedom, which a permutation has for all connections."""
        basis, r = self.divided.basis, self.r
        products = _products(basis, self.residuals, orders)
        np.square(products, out=products)
        explained = products[:, :r].sum(axis=1)
        left = self.totals - explained - products[:, r:].sum(axis=1)
        left = np.maximum(left, self.totals * np.finfo(float).eps * len(self.residuals))
        left /= self.divided.degrees
        variances, degrees = moderated(left, self.divided.degrees)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(explained > 0, explained / variances, 0.0) / r
        return np.minimum(ratio, _LARGEST), degrees[:, None]


class VarianceGroups(_Statistics):
    """Statistics of permuted residuals (m, connections) whose variance differs between groups.

    Permutation distributions of Welch's t and of its true distribution agree only if both have about
    the same degrees of freedom, which are estimated from the data and change with every permutation.
    How much variances are shrunk must therefore not depend on the order: permuted groups mix subjects
    with large and small spread, and connections by chance with more of either differ in their variance.
    """

    def __init__(self, divided: Divided, residuals: np.ndarray, groups: np.ndarray) -> None:
        super().__init__(divided, residuals)
        self.is_in = groups == np.arange(groups.max() + 1)[:, None]
        self.squares = residuals**2
        left = len(residuals) - divided.nuisance.shape[1]
        whole = self.squares.sum(axis=0) / left
        # The same for every order, as the test of equal groups is exact only then or if all is anew.
        self.prior_degrees = float(variance_prior(whole[None], left).degrees[0])
        basis = divided.basis
        masked = self.is_in[:, :, None] * basis
        # Columns of the basis, one group after the other, 0 outside of the group.
        self.columns = masked.transpose(1, 0, 2).reshape(len(basis), -1)
        self.grams = np.matmul(masked.transpose(0, 2, 1), masked)
        self.free = self.is_in @ (1 - np.sum(basis**2, axis=1))

    @property
    def width(self) -> int:
        """Numbers per order and connection that are in memory at once."""
        # Products of all groups and their sums, squares and variances, and what is made of them.
        n_groups, k = self.grams.shape[:2]
        return (n_groups + 1) * k + 2 * n_groups + 8

    def ratios(self, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The statistic, divided so that it is about F, and its second degrees of freedom."""
        n, n_groups = len(orders), len(self.grams)
        products = _products(self.columns, self.residuals, orders).reshape(
            n, n_groups, self.grams.shape[1], -1
        )
        squares = _products(self.is_in.T.astype(float), self.squares, orders)
        whole = products.sum(axis=1)
        variances = group_variances(products, whole, squares, self.grams, self.free)
        degrees = np.empty((n, n_groups))
        for g, free in enumerate(self.free):
            variances[:, g], degrees[:, g] = moderated(variances[:, g], free, self.prior_degrees)
        return wald_statistics(whole, variances, degrees, self.grams, self.r)


def _products(columns: np.ndarray, values: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Products of columns (m, k) with permuted values (m, connections): (orders, k, connections)."""
    # Value i goes to subject order[i]: its row of the columns meets it there.
    moved = columns[orders].transpose(0, 2, 1).reshape(-1, len(columns))
    return (moved @ values).reshape(len(orders), columns.shape[1], -1)


@kernel(error_model="numpy")
def group_variances(products, whole, squares, grams, free):
    """Residual variance of every group, in several maps: (maps, groups, connections).

    Parameters
    ----------
    products : array (maps, groups, k, connections)
        Of the residuals with an orthonormal basis of the design, group by group.
    whole : array (maps, k, connections)
        Their sums over the groups.
    squares : array (maps, groups, connections)
        Sums of the squared residuals of the groups.
    grams : array (groups, k, k)
        Products of the basis with itself, group by group.
    free : array (groups,)
        Degrees of freedom of the groups.
    """
    n_maps, n_groups, n = squares.shape
    k = grams.shape[1]
    variances = np.empty((n_maps, n_groups, n))
    for row in range(n_maps):
        for c in range(n):
            total = 0.0
            for g in range(n_groups):
                total += squares[row, g, c]
            for g in range(n_groups):
                left = squares[row, g, c]
                for i in range(k):
                    inner = 0.0
                    for j in range(k):
                        inner += grams[g, i, j] * whole[row, j, c]
                    left += whole[row, i, c] * (inner - 2 * products[row, g, i, c])
                # Where the design explains everything, rounding errors remain.
                variances[row, g, c] = max(left, total * 1e-14) / free[g]
    return variances


@kernel(error_model="numpy")
def wald_statistics(whole, variances, free, grams, r):
    """Johansen's (1980) statistic of several maps; for r = 1 it is the square of Welch's t.

    Parameters
    ----------
    whole : array (maps, k, connections)
        Products of the residuals with an orthonormal basis of the design, whose first r columns are
        tested.
    variances : array (maps, groups, connections)
    free : array (maps, groups)
        Degrees of freedom of the variances.
    grams : array (groups, k, k)
        Products of the basis with itself, group by group.
    r : int

    Returns
    -------
    statistic, degrees : array (maps, connections)
        About F with r and ``degrees`` degrees of freedom.
    """
    n_maps, n_groups, n = variances.shape
    statistic, degrees = np.empty((n_maps, n)), np.empty((n_maps, n))
    factor, part = np.empty((r, r)), np.empty((r, r))
    solution = np.empty(r)
    for row in range(n_maps):
        for c in range(n):
            total = 0.0
            for g in range(n_groups):
                total += variances[row, g, c]
            if total <= 0.0:
                statistic[row, c], degrees[row, c] = 0.0, 1.0
                continue
            for i in range(r):
                for j in range(r):
                    factor[i, j] = 0.0
                    for g in range(n_groups):
                        factor[i, j] += variances[row, g, c] * grams[g, i, j]
            _cholesky(factor)
            for i in range(r):
                solution[i] = whole[row, i, c]
            _solve_lower(factor, solution)
            wald = 0.0
            for i in range(r):
                wald += solution[i] ** 2
            spread = 0.0
            for g in range(n_groups):
                # Share of the group in the variance of the estimates, as a symmetric matrix.
                for i in range(r):
                    for j in range(r):
                        part[i, j] = variances[row, g, c] * grams[g, i, j]
                for i in range(r):
                    _solve_lower(factor, part[:, i])
                for i in range(r):
                    _solve_lower(factor, part[i])
                trace, norm_2 = 0.0, 0.0
                for i in range(r):
                    trace += part[i, i]
                    for j in range(r):
                        norm_2 += part[i, j] ** 2
                spread += (trace**2 + norm_2) / (2 * free[row, g])
            scale = r + 2 * spread - 6 * spread / (r + 2)
            statistic[row, c] = min(wald / scale, _LARGEST)
            degrees[row, c] = r * (r + 2) / (3 * spread)
    return statistic, degrees


@kernel(error_model="numpy")
def _cholesky(matrix):
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor."""
    n = matrix.shape[0]
    for i in range(n):
        for j in range(i + 1):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * matrix[j, k]
            if i == j:
                # Positive even if rounding errors are all that is left.
                matrix[i, i] = np.sqrt(max(value, 1e-300))
            else:
                matrix[i, j] = value / matrix[j, j]


@kernel(error_model="numpy")
def _solve_lower(factor, vector):
    """Replace b by the solution x of L x = b, with L the lower triangle."""
    for i in range(len(vector)):
        value = vector[i]
        for k in range(i):
            value -= factor[i, k] * vector[k]
        vector[i] = value / factor[i, i]
