"""The hierarchical model with complete graphs, which needs no search (docs/model.md, section 7)."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mtgbn.errors import InputError
from mtgbn.model.arguments import check_delta, check_scatters

__all__ = ["unstructured_sigma_h"]


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
    identity = np.eye(p)
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
                precision += (nu0 + n) * cho_solve(cho_factor(sigma_h + scatter), identity)
            updated = len(ns) * nu0 * cho_solve(cho_factor(precision), identity)
        except LinAlgError:  # data without variation in some direction: keep the last good guess
            break
        updated = (updated + updated.T) / 2
        scale = np.sqrt(np.diag(updated))
        change = np.abs((updated - sigma_h) / np.outer(scale, scale)).max()
        sigma_h = updated
        if change < tolerance:
            break
    return sigma_h
