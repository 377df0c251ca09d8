"""Theorems 1 and 2 against numerical integration, and closed forms of special cases.

Scales are integrated on the logarithmic axis, everything else on the real line, by the trapezoidal
rule: for smooth integrands that die out on both sides its error falls faster than any power of the
step.
"""

import itertools

import naive
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import invwishart, multivariate_normal, multivariate_t, wishart

from mtgbn.errors import GraphError, InputError
from mtgbn.model import (
    STRUCTURE_PRIORS,
    log_marginal_likelihood,
    log_normaliser,
    log_structure_prior,
)

INTEGRATION = 1e-7

COMPLETE = ((0, 1), (0, 2), (1, 2))
GRAPHS = {
    "p1": (1, ()),
    "p2-empty": (2, ()),
    "p2-complete": (2, ((1, 0),)),
    "p3-empty": (3, ()),
    "p3-one-edge": (3, ((2, 0),)),
    "p3-chain": (3, ((0, 1), (1, 2))),
    "p3-v-structure": (3, ((0, 2), (1, 2))),
    "p3-complete": (3, COMPLETE),
}
# Small and fractional on purpose: far from where a normal approximation would also pass.
NU0_ABOVE_P = 0.7
N = 3


def adjacency_of(p, arcs):
    adjacency = np.zeros((p, p), dtype=bool)
    for tail, head in arcs:
        adjacency[tail, head] = True
    return adjacency


def problem(p):
    rng = np.random.default_rng(100 + p)
    return rng.standard_normal((N, p)) @ np.triu(np.full((p, p), 0.8)), naive.random_covariance(
        rng, p, spread=0.5
    )


def trapezoid(log_density, centre, factor, half_widths, counts):
    """Log integral of exp(log_density) over centre + factor @ u, u in a box of a regular grid."""
    axes = [
        np.linspace(-width, width, count) for width, count in zip(half_widths, counts, strict=True)
    ]
    steps = [axis[1] - axis[0] for axis in axes]
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    values = log_density(centre[:, None] + factor @ grid)
    top = values.max()
    total = np.exp(values - top).sum()
    return (
        top
        + np.log(total)
        + np.log(steps).sum()
        + np.linalg.slogdet(factor)[1]
    )


def log_prior_of_regression(coefficients, variances, sigma_h, df, sigma_parents):
    """Log density of (b, v) of the last variable given the others if Sigma ~ IW(df, sigma_h).

    Sigma of the family is (sigma_parents, sigma_parents b, v + b' sigma_parents b), with Jacobian
    |sigma_parents|; dividing by the parents' density leaves that of (b, v), whatever sigma_parents is.
    """
    a = len(sigma_parents)
    covariances = sigma_parents @ coefficients
    matrices = np.empty((a + 1, a + 1, len(variances)))
    matrices[:a, :a] = sigma_parents[:, :, None]
    matrices[:a, a] = matrices[a, :a] = covariances
    matrices[a, a] = variances + (coefficients * covariances).sum(axis=0)
    values = invwishart(df, sigma_h).logpdf(matrices)
    if a:
        values = values + np.linalg.slogdet(sigma_parents)[1]
        values -= invwishart(df - 1, sigma_h[:a, :a]).logpdf(sigma_parents)
    return values


def log_likelihood_of_regression(data, coefficients, variances):
    residuals = data[:, -1, None] - data[:, :-1] @ coefficients
    return (
        -len(data) / 2 * np.log(2 * np.pi * variances)
        - (residuals**2).sum(axis=0) / (2 * variances)
    )


def integrated_family(data, sigma_h, df):
    """Log of the integral of the last column's likelihood given the others over its parameters."""
    a = data.shape[1] - 1
    whole = sigma_h + data.T @ data
    ridge = np.linalg.solve(whole[:a, :a], whole[:a, a])
    spread = np.linalg.inv(np.linalg.cholesky(whole[:a, :a])).T
    sigma_parents = sigma_h[:a, :a]

    def log_density(points):
        # b = ridge + sqrt(v) * w, so that the width in b follows v
        log_variances = points[a]
        variances = np.exp(log_variances)
        coefficients = ridge[:, None] + np.sqrt(variances) * (spread @ points[:a])
        return (
            log_prior_of_regression(coefficients, variances, sigma_h, df, sigma_parents)
            + log_likelihood_of_regression(data, coefficients, variances)
            + log_variances * (1 + a / 2)
            + np.linalg.slogdet(spread)[1]
        )

    residual = whole[a, a] - whole[:a, a] @ ridge
    centre = np.r_[np.zeros(a), np.log(residual / (df + len(data)))]
    return trapezoid(log_density, centre, np.eye(a + 1), [7.0] * a + [16.0], [29] * a + [161])


@pytest.mark.parametrize("name", GRAPHS)
def test_marginal_likelihood_is_the_integral_over_regressions(name):
    p, arcs = GRAPHS[name]
    adjacency = adjacency_of(p, arcs)
    data, sigma_h = problem(p)
    nu0 = p + NU0_ABOVE_P
    expected = 0.0
    for k in range(p):
        family = [*naive.parents_of(adjacency, k), k]
        # a submatrix of an inverse Wishart matrix loses one degree of freedom per variable left out
        df = nu0 - p + len(family)
        expected += integrated_family(data[:, family], naive.submatrix(sigma_h, family), df)
    value = log_marginal_likelihood(data.T @ data, N, adjacency, sigma_h, nu0)
    assert value == pytest.approx(expected, abs=INTEGRATION)


def test_the_prior_of_a_regression_does_not_depend_on_its_parents():
    _, sigma_h = problem(3)
    rng = np.random.default_rng(3)
    coefficients, variances = rng.standard_normal((2, 5)), rng.exponential(size=5)
    first, second = (
        log_prior_of_regression(
            coefficients, variances, sigma_h, 4.2, naive.random_covariance(rng, 2)
        )
        for _ in range(2)
    )
    np.testing.assert_allclose(first, second, rtol=1e-12)


def log_wishart(precisions, df, sigma_h):
    """Log density of Wishart(df, sigma_h^-1) at matrices (p, p, k) with the lower factor given."""
    p = len(sigma_h)
    factor = precisions
    log_determinants = 2 * np.log([factor[i, i] for i in range(p)]).sum(axis=0)
    trace = (np.tensordot(np.linalg.cholesky(sigma_h).T, factor, 1) ** 2).sum(axis=(0, 1))
    return (
        (df - p - 1) / 2 * log_determinants
        - trace / 2
        - df * p / 2 * np.log(2)
        - naive.log_multigamma(df / 2, p)
        + df / 2 * np.linalg.slogdet(sigma_h)[1]
    )


@pytest.mark.parametrize("p", [1, 2, 3])
def test_wishart_density_meets_scipy(p):
    rng = np.random.default_rng(p)
    sigma_h = naive.random_covariance(rng, p)
    df = p + NU0_ABOVE_P
    factors = np.stack([np.linalg.cholesky(naive.random_covariance(rng, p)) for _ in range(6)], axis=-1)
    precisions = np.einsum("ikn,jkn->ijn", factors, factors)
    np.testing.assert_allclose(
        log_wishart(factors, df, sigma_h),
        wishart(df, np.linalg.inv(sigma_h)).logpdf(precisions),
        rtol=1e-10,
    )
    # and the covariance is inverse Wishart with the same sigma_h: |d precision| = |Sigma|^-(p+1)
    covariances = np.stack([np.linalg.inv(precisions[..., k]) for k in range(6)], axis=-1)
    log_sizes = [np.linalg.slogdet(covariances[..., k])[1] for k in range(6)]
    np.testing.assert_allclose(
        log_wishart(factors, df, sigma_h) - (p + 1) * np.array(log_sizes),
        np.atleast_1d(invwishart(df, sigma_h).logpdf(covariances)),
        rtol=1e-10,
    )


def integrated_over_factors(log_density, p, whitener, df, missing=()):
    """Log integral over the factor of a precision, zero at ``missing``, of a density of precisions.

    The factor is ``whitener @ A``: A has lower triangular elements that hardly depend on each other if
    the whitener fits the density. On the diagonal of A the logarithm is integrated.
    """
    places = [(i, j) for i in range(p) for j in range(i) if (i, j) not in missing]
    n_free = len(places)

    def log_transformed(points):
        triangle = np.zeros((p, p, points.shape[1]))
        for place, row in zip(places, points, strict=False):
            triangle[place] = row
        log_jacobian = np.zeros(points.shape[1])
        for i, row in enumerate(points[n_free:]):
            triangle[i, i] = np.exp(row)
            # d Omega / d L: 2 l_jj^(1 + free elements below it), then d l_jj = l_jj d ln l_jj
            power = 1 + sum(j == i for _, j in places)
            log_jacobian += np.log(2) + power * np.log(whitener[i, i] * triangle[i, i]) + row
        factor = np.einsum("ij,jkn->ikn", whitener, triangle)
        for i, j in missing:
            assert not factor[i, j].any()
        # L = whitener A: the element (i, j) of L has slope whitener_ii by that of A
        for i, _ in places:
            log_jacobian += np.log(whitener[i, i])
        for i in range(p):
            log_jacobian += np.log(whitener[i, i])
        return log_density(factor) + log_jacobian

    modes = [np.log(df - i) / 2 for i in range(p)]
    centre = np.r_[np.zeros(n_free), modes]
    half_widths = [6.5] * n_free + [6.0] * p
    counts = [14] * n_free + [64] * p if n_free < 3 else [12] * n_free + [20] * p
    if n_free >= 3:
        half_widths = [5.6] * n_free + [2.6] * p
    return trapezoid(log_transformed, centre, np.eye(len(centre)), half_widths, counts)
