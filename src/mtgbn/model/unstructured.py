"""The hierarchical model with complete graphs, which needs no search (docs/model.md, section 7)."""

import numpy as np
from scipy.linalg import LinAlgError, lapack
from scipy.optimize import minimize_scalar
from scipy.special import multigammaln

from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_delta, check_scatters

# Prior of delta: delta / (delta + this) is uniform between 0 and 1.
TYPICAL_DELTA = 100.0

# Where delta is looked for, and how exactly its logarithm is wanted.
_DELTAS, _PRECISION = (1.0, 1e5), 0.2


def unstructured_sigma_h(
    scatters: np.ndarray,
    ns: np.ndarray,
    nu0: float,
    tolerance: float = 0.01,
    max_iter: int = 30,
    *,
    checked: bool = False,
) -> np.ndarray:
    """Sigma_h that maximises the marginal likelihood under complete graphs, to a loose tolerance.

    EM with E[Omega_i] = (nu0 + n_i)(sigma_h + T_i)^-1 and sigma_h = m nu0 (sum_i E[Omega_i])^-1. It is
    where samplers start, so a few per cent suffice. ``checked`` as in `build_posterior`.
    """
    p = np.shape(scatters)[-1]
    check_delta(nu0, p)
    scatters, ns = check_scatters(scatters, ns, p, semidefinite=not checked)
    pooled = scatters.sum(axis=0) / ns.sum()
    sigma_h = max(nu0 - p - 1, 1.0) * pooled
    # Directions in which the pooled data hardly vary say nothing yet: start them at the others' scale.
    scale = np.sqrt(np.diag(sigma_h))
    if not (scale > 0).all():
        raise InputError(f"variable {int(np.argmin(scale))} does not vary in any task")
    values, vectors = np.linalg.eigh(sigma_h / np.outer(scale, scale))
    values = np.maximum(values, 1e-6)
    sigma_h = (vectors * values) @ vectors.T * np.outer(scale, scale)
    for _ in range(max_iter):
        precision = np.zeros((p, p))
        try:
            for scatter, n in zip(scatters, ns, strict=True):
                precision += (nu0 + n) * _lower_of_inverse(_factor(sigma_h + scatter))
            updated = len(ns) * nu0 * _lower_of_inverse(_factor(precision))
        except LinAlgError:  # data without variation in some direction: keep the last good guess
            break
        updated += np.tril(updated, -1).T
        scale = np.sqrt(np.diag(updated))
        change = np.abs((updated - sigma_h) / np.outer(scale, scale)).max()
        sigma_h = updated
        if change < tolerance:
            break
    return sigma_h


@kernel
def log_prior_of_delta(delta: float) -> float:
    """Log density of ln delta."""
    return np.log(delta) - 2 * np.log(delta + TYPICAL_DELTA)


def estimate_delta(scatters: np.ndarray, ns: np.ndarray) -> float:
    """Delta that is most probable under complete graphs, roughly.

    How alike the tasks' covariances are can be told before there are any graphs: with sigma_h at its
    best for every delta, the density of ln delta is maximised.
    """
    p = scatters.shape[-1]

    def loss(log_delta: float) -> float:
        delta = np.exp(log_delta)
        nu0 = delta + p - 1
        sigma_h = unstructured_sigma_h(scatters, ns, nu0, checked=True)
        try:
            value = sum(
                _log_normaliser(nu0 + n, sigma_h + scatter)
                for scatter, n in zip(scatters, ns, strict=True)
            )
            value -= len(ns) * _log_normaliser(nu0, sigma_h)
        except LinAlgError:
            return np.inf
        return -(value + log_prior_of_delta(delta))

    best = minimize_scalar(
        loss, bounds=np.log(_DELTAS), method="bounded", options={"xatol": _PRECISION}
    )
    return float(np.exp(best.x))


def _log_normaliser(nu: float, matrix: np.ndarray) -> float:
    """Of the Wishart integral over all variables: ell(V; nu - p + 1, matrix) of docs/model.md."""
    p = len(matrix)
    factor = _factor(matrix)
    log_determinant = 2 * np.log(np.diag(factor)).sum() - p * np.log(2)
    return multigammaln(nu / 2, p) - nu / 2 * log_determinant


def _factor(matrix: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, from the lower triangle; scipy's own checks take longer."""
    factor, info = lapack.dpotrf(matrix, lower=1)
    if info:
        raise LinAlgError("not positive definite")
    return factor


def _lower_of_inverse(factor: np.ndarray) -> np.ndarray:
    """Lower triangle of the inverse of a matrix with this Cholesky factor; zeros above."""
    inverse, _ = lapack.dpotri(factor, lower=1)
    return np.tril(inverse)
