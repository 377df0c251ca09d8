"""Gibbs sampler for sigma_h under the structure prior `restricted` (docs/model.md, section 8).

Given the precision matrices Omega_i of the tasks, sigma_h has a Wishart distribution; given sigma_h,
Omega_i is drawn family by family from its conjugate posterior. Neither step needs tuning or rejects
draws. The sampler was written for decomposable graphs, but it holds for every DAG: the normaliser of a
family is the integral of the same normal-gamma density whether or not the parents are joined.
"""

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.model.log_determinants import (
    LANES,
    eliminate_row,
    gather,
    invert_row,
    scatter,
    workspace,
)
from mtgbn.model.posterior import Posterior

# Draws between two calls of ``progress``; an exception in such a call stops the run.
_PORTION = 100


def run_chain(
    posterior: Posterior,
    sigma_h: np.ndarray,
    rng: np.random.Generator,
    n_draws: int,
    n_warmup: int,
    progress=None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run one chain from ``sigma_h``; returns draws (n_draws, p, p) and the last draw."""
    terms = posterior.terms
    are_families = np.array_equal(terms.outer_sizes, terms.inner_sizes + 1)
    # Under `restricted` the only term of sigma_h without data is ln|sigma_h|: every set has data.
    singletons = terms.counts[terms.outer_sizes == 1].sum()
    have_data = np.all(terms.shifts[:singletons] > 0)
    if not (posterior.full_coefficient > 0 and are_families and have_data):
        raise InputError(
            "the Gibbs sampler is for structure_prior='restricted'; use sampler='hmc' for the others"
        )
    sigma_h = np.array(sigma_h, dtype=float)
    work = workspace(terms)
    draws = np.empty((n_warmup + n_draws, *sigma_h.shape))
    for start in range(0, len(draws), _PORTION):
        portion = draws[start : start + _PORTION]
        if not _compiled_run(rng, posterior, sigma_h, portion, work):
            raise InputError("sigma_h became numerically singular; rescale or drop variables")
        if progress is not None:
            progress(len(portion))
    return draws[n_warmup:].copy(), sigma_h


@kernel(error_model="numpy")
def _compiled_run(rng, posterior, sigma_h, draws, work):
    """Change ``sigma_h`` in place and fill ``draws``; False if a matrix is not positive definite."""
    p = posterior.n_variables
    degrees = 2.0 * posterior.full_coefficient + p + 1.0
    precision = np.empty((p, p))
    triangle = np.zeros((p, p))
    for t in range(draws.shape[0]):
        precision[:] = 0.0
        if not _add_precisions(rng, posterior.terms, sigma_h.ravel(), precision.ravel(), work):
            return False
        for i in range(p):
            for j in range(i):
                precision[j, i] = precision[i, j]
        # Wishart(degrees, precision^-1) by Bartlett: with precision = L L', sigma_h = L'^-1 B B' L^-1.
        factor = np.linalg.cholesky(precision)
        for i in range(p):
            for j in range(i):
                triangle[i, j] = rng.standard_normal()
            triangle[i, i] = np.sqrt(2.0 * rng.standard_gamma((degrees - i) / 2.0))
        root = np.linalg.solve(factor.T, triangle)
        sigma_h[:] = np.dot(root, root.T)
        draws[t] = sigma_h
    return True


@kernel(error_model="numpy")
def _add_precisions(rng, terms, sigma_h, precision, work):
    """Draw the coefficients and residual precision of every family, and add up the precision matrices.

    M = sigma_h + T_i at a family has the factors K and D of `log_determinants`. The last row of K is
    (-coefficients, 1) at the posterior mean, the last element of D is the residual scale, and the other
    rows give the spread of the coefficients.
    """
    factor, outcome = work[0], work[1]
    start = 0
    coefficient_start = 0
    for b in range(terms.counts.size):
        size = terms.outer_sizes[b]
        count = terms.counts[b]
        elements = size * (size + 1) // 2
        last = (size - 1) * size // 2
        for lane in range(0, count, LANES):
            n = min(LANES, count - lane)
            for k in range(elements):
                place = start + k * count + lane
                gather(factor[k, :n], sigma_h, terms.positions[place:], terms.shifts[place:])
            for r in range(size):
                if not eliminate_row(factor, r, n):
                    return False
            for r in range(size):
                invert_row(factor, r, n)
            for j in range(n):
                # The shape of the residual precision is minus the coefficient of ln D.
                shape = -terms.coefficients[coefficient_start + count + lane + j]
                omega = 2.0 * rng.standard_gamma(shape) * factor[last + size - 1, j]
                for r in range(size - 1):
                    row = r * (r + 1) // 2
                    spread = rng.standard_normal() * np.sqrt(factor[row + r, j] / omega)
                    for c in range(r):
                        factor[last + c, j] += spread * factor[row + c, j]
                    factor[last + r, j] += spread
                factor[last + size - 1, j] = 1.0
                k = 0
                for r in range(size):
                    for c in range(r + 1):
                        outcome[k, j] = omega * factor[last + r, j] * factor[last + c, j]
                        k += 1
            for k in range(elements):
                scatter(precision, terms.positions[start + k * count + lane :], outcome[k, :n])
        start += elements * count
        coefficient_start += 2 * count
    return True
