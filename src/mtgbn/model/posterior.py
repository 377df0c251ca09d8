"""Posterior of sigma_h given the graphs, as data (docs/model.md, section 4).

It is a sum over tasks of log I of the task's families at sigma_h + T_i, plus one list of
log-determinants of sigma_h alone, in which the families that tasks have in common are merged, plus a
multiple of ln|sigma_h|, plus the log density of sigma_h's own prior.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from mtgbn.model.log_determinants import LogDeterminants, log_determinants, workspace


class Posterior(NamedTuple):
    """The log posterior of sigma_h as data: what the samplers evaluate."""

    terms: LogDeterminants
    full_coefficient: float
    """Coefficient of ln|sigma_h|, kept apart because coordinates know this determinant."""
    constant: float
    n_variables: int
    prior_scales: np.ndarray
    """Diagonal of the scale matrix of sigma_h's own inverse Wishart prior; zeros under a flat one."""


class HyperPrior(NamedTuple):
    """Inverse Wishart prior of sigma_h with a diagonal scale matrix.

    ``degrees`` are those of every submatrix (as delta is for the tasks), so that what it says of some
    variables does not depend on how many others there are. With 2, every correlation in sigma_h is
    uniform between -1 and 1.
    """

    scales: np.ndarray
    degrees: float = 2.0

    @property
    def coefficient(self) -> float:
        """Of ln|sigma_h| in the log density."""
        return -self.degrees / 2 - len(self.scales)


def value_and_gradient(posterior: Posterior, sigma_h: np.ndarray) -> tuple[float, np.ndarray]:
    """Evaluate a posterior that is already built, at a positive definite sigma_h."""
    p = posterior.n_variables
    lower = np.zeros(p * p)
    value = log_determinants(posterior.terms, sigma_h.ravel(), lower, workspace(posterior.terms))
    factor, _ = lapack.dpotrf(sigma_h, lower=1)
    inverse, _ = lapack.dpotri(factor, lower=1)  # the gradient of ln|sigma_h| is this very matrix
    lower = lower.reshape(p, p) + posterior.full_coefficient * np.tril(inverse)
    value += posterior.full_coefficient * 2 * np.log(np.diag(factor)).sum()
    if posterior.prior_scales.any():
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        value -= inverse.diagonal() @ posterior.prior_scales / 2
        lower += np.tril(inverse * posterior.prior_scales @ inverse) / 2
    return value + posterior.constant, lower + np.tril(lower, -1).T
