"""The posterior of sigma_h given graphs, under any structure prior (docs/model.md, section 4)."""

import numpy as np
from scipy.special import multigammaln

from mtgbn._utils.arguments import real_array
from mtgbn.errors import InputError
from mtgbn.model.arguments import (
    check_adjacencies,
    check_delta,
    check_positive_definite,
    check_scatters,
)
from mtgbn.model.log_determinants import batch, normaliser_coefficients
from mtgbn.model.posterior import HyperPrior, Posterior, value_and_gradient
from mtgbn.model.signed_sets import concatenate, distinct_families, families, signed_sets
from mtgbn.paper.structure_priors import (
    StructurePrior,
    check_structure_prior,
    triangulated_sets,
)


def log_posterior(
    sigma_h, adjacencies, scatters, ns, nu0: float, structure_prior: StructurePrior = "uniform"
) -> tuple[float, np.ndarray]:
    """Log posterior density of sigma_h under a flat prior, and its gradient.

    The value is the sum over tasks of the log marginal likelihood and the log structure prior, the
    function that EM averages over draws of sigma_h; under the flat prior it is the log posterior up to
    the unknown evidence. ``adjacencies`` (m, p, p) has one DAG per task, ``scatters`` (m, p, p) their
    data with the degrees of freedom ``ns`` (m,). The gradient (p, p) is symmetric, such that
    d value = tr(gradient d sigma_h).
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    posterior = build_posterior(adjacencies, scatters, ns, nu0, structure_prior)
    if posterior.n_variables != len(sigma_h):
        raise InputError(
            f"sigma_h has {len(sigma_h)} variables, the scatters have {posterior.n_variables}"
        )
    return value_and_gradient(posterior, sigma_h)


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
    outer, inner, constant = normaliser_coefficients(task_sets, delta + ns[owners])
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
        shared_outer, shared_inner, shared_constant = normaliser_coefficients(shared_sets, delta)
    elif structure_prior == "scale_free":
        shared_sets = families(np.zeros((p, p), dtype=bool))
        shared_outer, shared_constant = _minus_restricted_at_diagonal(adjacencies, delta)
        shared_inner = np.zeros(p)
    else:
        shared_sets, shared_constant = families(adjacencies[:0]), 0.0
        shared_outer = shared_inner = np.empty(0)

    terms = batch(
        concatenate([task_sets, shared_sets]),
        np.concatenate([outer, shared_outer]),
        np.concatenate([inner, shared_inner]),
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
) -> tuple[np.ndarray, float]:
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
    return (neighbours - m * (p - 1)) / 2, constant
