"""Parameters of a learned network and what they predict (docs/model.md, section 13).

Given its graph and sigma_h, a task's families have independent normal-gamma posteriors with
M = sigma_h + T and d = delta + n; everything is averaged over the draws of sigma_h.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from mtgbn.graphs import topological_order

__all__ = ["FamilyPosterior", "Network", "Parameters", "posterior_network"]


class FamilyPosterior(NamedTuple):
    """Posterior of one node given its parents, under every draw.

    Coefficients given the residual precision omega are normal with mean ``coefficients`` and precision
    omega M_PP, of which ``factor`` is the Cholesky factor without omega; omega is gamma with shape
    ``degrees``/2 and rate ``scale``/2.
    """

    node: int
    parents: np.ndarray
    coefficients: np.ndarray
    factor: np.ndarray
    scale: np.ndarray
    degrees: float


class Parameters(NamedTuple):
    """Posterior means of one task.

    Attributes
    ----------
    covariance : array (p, p)
    coefficients : array (p, p)
        ``coefficients[i, j]`` belongs to the edge i -> j.
    residual_variances : array (p,)
    """

    covariance: np.ndarray
    coefficients: np.ndarray
    residual_variances: np.ndarray


class Network(NamedTuple):
    """The families of one task's graph, parents before children."""

    families: tuple[FamilyPosterior, ...]
    n_draws: int

    def parameters(self) -> Parameters:
        """Posterior means of covariance, coefficients and residual variances.

        Families are independent a posteriori, so the covariance follows, exactly, from those of the
        parents: no mean of a product is replaced by a product of means. With delta + n of at most 2 a
        variance has no finite mean; it is given as infinite, and covariances that follow from it as NaN.
        """
        p = len(self.families)
        covariance = np.zeros((self.n_draws, p, p))
        coefficients = np.zeros((p, p))
        variances = np.zeros(p)
        for node, parents, slopes, factor, scale, degrees in self.families:
            excess = degrees - 2
            variance = scale / excess if excess > 0 else np.full(self.n_draws, np.inf)
            among = covariance[:, parents[:, None], parents]
            with np.errstate(invalid="ignore"):
                across = np.einsum("tq,tqj->tj", slopes, covariance[:, parents])
            covariance[:, node] = across
            covariance[:, :, node] = across
            whitened = np.linalg.solve(factor, among)
            with np.errstate(invalid="ignore"):
                spread = np.einsum("tii->t", np.linalg.solve(factor, whitened.transpose(0, 2, 1)))
                explained = np.einsum("tq,tqr,tr->t", slopes, among, slopes)
                total = explained + variance * (1 + spread)
            covariance[:, node, node] = np.where(np.isnan(total), np.inf, total)
            coefficients[parents, node] = slopes.mean(axis=0)
            variances[node] = variance.mean()
        with np.errstate(invalid="ignore"):
            return Parameters(covariance.mean(axis=0), coefficients, variances)

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log posterior predictive density of every row, (rows,)."""
        total = np.zeros((self.n_draws, len(rows)))
        for family in self.families:
            location, spread = _predict(family, rows)
            residual = (rows[:, family.node] - location) ** 2 / (family.scale[:, None] * spread)
            d = family.degrees
            total += gammaln((d + 1) / 2) - gammaln(d / 2)
            total -= np.log(np.pi * family.scale[:, None] * spread) / 2
            total -= (d + 1) / 2 * np.log1p(residual)
        return logsumexp(total, axis=0) - np.log(self.n_draws)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows from the posterior predictive distribution, (n, p)."""
        rows = np.zeros((n, len(self.families)))
        chosen = rng.integers(self.n_draws, size=n)
        for family in self.families:
            of_row = family._replace(
                coefficients=family.coefficients[chosen],
                factor=family.factor[chosen],
                scale=family.scale[chosen],
            )
            location, spread = _predict_rowwise(of_row, rows)
            noise = rng.standard_t(family.degrees, size=n)
            rows[:, family.node] = location + noise * np.sqrt(
                of_row.scale * spread / family.degrees
            )
        return rows


def posterior_network(
    adjacency: np.ndarray, scatter: np.ndarray, n: float, draws: np.ndarray, delta: float
) -> Network:
    """Posterior of the parameters of one task; ``draws`` of sigma_h are (N, p, p)."""
    matrices = draws + scatter
    families = []
    for node in topological_order(adjacency):
        parents = np.flatnonzero(adjacency[:, node])
        factor = np.linalg.cholesky(matrices[:, parents[:, None], parents])
        whitened = np.linalg.solve(factor, matrices[:, parents, node, None])
        slopes = np.linalg.solve(factor.transpose(0, 2, 1), whitened)[..., 0]
        scale = matrices[:, node, node] - (whitened[..., 0] ** 2).sum(axis=1)
        degrees = delta + n + len(parents)
        families.append(FamilyPosterior(node, parents, slopes, factor, scale, degrees))
    return Network(tuple(families), len(draws))


def _predict(family: FamilyPosterior, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Location, and spread in units of the scale, of the node for every draw and row."""
    given = rows[:, family.parents]
    whitened = np.linalg.solve(family.factor, given.T[None])
    return family.coefficients @ given.T, 1 + (whitened**2).sum(axis=1)


def _predict_rowwise(family: FamilyPosterior, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_predict` when every row has a draw of its own."""
    given = rows[:, family.parents]
    whitened = np.linalg.solve(family.factor, given[..., None])[..., 0]
    return (family.coefficients * given).sum(axis=1), 1 + (whitened**2).sum(axis=1)
