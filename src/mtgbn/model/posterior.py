"""Posterior of sigma_h given the graphs (docs/model.md, section 4).

Whatever the structure prior, it is a sum over tasks of log I of the task's families at
sigma_h + T_i, plus one list of log-determinants of sigma_h alone, in which the families that tasks
have in common are merged, plus a multiple of ln|sigma_h|.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.special import multigammaln

from mtgbn._utils.arguments import real_array
from mtgbn.errors import InputError
from mtgbn.model.arguments import (
    check_adjacencies,
    check_delta,
    check_positive_definite,
    check_scatters,
)
from mtgbn.model.densities import StructurePrior, check_structure_prior, triangulated_sets
from mtgbn.model.log_determinants import (
    LogDeterminants,
    batch,
    log_determinants,
    normaliser_coefficients,
    workspace,
)
from mtgbn.model.signed_sets import concatenate, distinct_families, families, signed_sets

__all__ = ["HyperPrior", "Posterior", "build_posterior", "log_posterior"]


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


def log_posterior(
    sigma_h, adjacencies, scatters, ns, nu0: float, structure_prior: StructurePrior = "uniform"
) -> tuple[float, np.ndarray]:
    """Log posterior density of sigma_h under a flat prior, and its gradient.

    The value is the sum over tasks of the log marginal likelihood and the log structure prior, which
    is the function that EM averages over draws of sigma_h. Under the flat prior it is the log
    posterior up to the unknown evidence.

    Parameters
    ----------
    sigma_h : array (p, p)
    adjacencies : array (m, p, p)
        One DAG per task; ``adjacencies[t, i, j]`` means i -> j in task t.
    scatters : array (m, p, p)
    ns : array (m,)
        Degrees of freedom of the scatters.
    nu0 : float
    structure_prior : {"uniform", "restricted", "scale_free", "decomposable"}

    Returns
    -------
    value : float
    gradient : array (p, p)
        Symmetric, such that d value = tr(gradient d sigma_h).
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    posterior = build_posterior(adjacencies, scatters, ns, nu0, structure_prior)
    if posterior.n_variables != len(sigma_h):
        raise InputError(
            f"sigma_h has {len(sigma_h)} variables, the scatters have {posterior.n_variables}"
        )
    return value_and_gradient(posterior, sigma_h)


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


def build_posterior(
    adjacencies,
    scatters,
    ns,
    nu0: float,
    structure_prior: StructurePrior = "uniform",
    *,
    hyperprior: HyperPrior | None = None,
    checked: bool = False,
) -> Posterior:
    """Gather the posterior of sigma_h for fixed graphs; arguments as in `log_posterior`.

    ``hyperprior`` is that of sigma_h; None: flat. ``checked`` says that the scatters are those of a
    `Tasks` and the adjacencies a boolean array of DAGs.
    """
    check_structure_prior(structure_prior)
    scatters = real_array(scatters, "scatters")
    p = scatters.shape[-1] if scatters.ndim else 0
    delta = check_delta(nu0, p)
    m = len(scatters)
    if not checked:
        scatters, ns = check_scatters(scatters, ns, p)
        if m == 0:
            raise InputError("a posterior needs at least one task")
        adjacencies = check_adjacencies(adjacencies, m, p)

    task_sets = families(adjacencies)
    owners = np.repeat(np.arange(m), p)
    *at_tasks, constant = normaliser_coefficients(task_sets, delta + ns[owners])
    constant -= ns.sum() * p / 2 * np.log(2 * np.pi)

    complete = signed_sets([(-m, range(p))])
    (full_coefficient,), _, full_constant = normaliser_coefficients(complete, delta)
    if structure_prior == "uniform":
        full_coefficient = full_constant = 0.0

    # The rest is a list of log-determinants of sigma_h itself.
    if structure_prior in ("uniform", "decomposable"):
        shared_sets = distinct_families(adjacencies)
        shared_sets = shared_sets._replace(weights=-shared_sets.weights)
        if structure_prior == "decomposable":
            shared_sets = concatenate([shared_sets, *map(triangulated_sets, adjacencies)])
        *at_sigma_h, shared_constant = normaliser_coefficients(shared_sets, delta)
    elif structure_prior == "scale_free":
        shared_sets = families(np.zeros((p, p), dtype=bool))
        at_sigma_h, shared_constant = _minus_restricted_at_diagonal(adjacencies, delta)
    else:
        shared_sets, at_sigma_h, shared_constant = families(adjacencies[:0]), ([], []), 0.0

    terms = batch(
        concatenate([task_sets, shared_sets]),
        *(np.concatenate(parts) for parts in zip(at_tasks, at_sigma_h, strict=True)),
        np.concatenate([owners, np.full(len(shared_sets.weights), m)]),
        np.concatenate([scatters, np.zeros((1, p, p))]),
    )
    constant += full_constant + shared_constant
    prior_scales = np.zeros(p)
    if hyperprior is not None:
        prior_scales, coefficient, prior_constant = _inverse_wishart(hyperprior, p)
        full_coefficient += coefficient
        constant += prior_constant
    return Posterior(terms, float(full_coefficient), float(constant), p, prior_scales)


def _inverse_wishart(hyperprior: HyperPrior, p: int) -> tuple[np.ndarray, float, float]:
    """Scales, coefficient of ln|sigma_h| and constant of the log density."""
    scales = np.array(real_array(hyperprior.scales, "the scales of the hyperprior"))
    degrees = hyperprior.degrees
    if scales.shape != (p,) or not (scales > 0).all() or not degrees > 0:
        raise InputError(f"a hyperprior needs {p} positive scales and positive degrees of freedom")
    nu = degrees + p - 1
    constant = nu / 2 * np.log(scales / 2).sum() - multigammaln(nu / 2, p)
    return scales, hyperprior.coefficient, float(constant)


def _minus_restricted_at_diagonal(
    adjacencies: np.ndarray, delta: float
) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """Coefficients of ln (sigma_h)_jj that make `scale_free` free of units, and their constant.

    The determinant of a diagonal matrix is a product over its variables. Summed over the signed sets
    of a DAG with their degrees of freedom, variable j gets (delta + neighbours of j) / 2, and
    (delta + p - 1) / 2 in the complete set.
    """
    m, p, _ = adjacencies.shape
    neighbours = adjacencies.sum(axis=(0, 1)) + adjacencies.sum(axis=(0, 2))
    constant = 0.0
    for sets in (families(adjacencies), signed_sets([(-m, range(p))])):
        constant -= normaliser_coefficients(sets, delta)[2]
    return ((neighbours - m * (p - 1)) / 2, np.zeros(p)), constant
