"""Parameters of a learned network, and predictions (docs/model.md, section 13).

Given its graph and sigma_h, a task's families have independent normal-gamma posteriors with
M = sigma_h + T and d = delta + n; everything is averaged over the draws of sigma_h.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from mtgbn._utils.compiled import kernel
from mtgbn.graphs.dags import topological_order
from mtgbn.model.triangular import factorise, solve_backward, solve_forward
from mtgbn.search.local_scores import parents_of


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
    """The posterior of one task's parameters.

    Attributes
    ----------
    adjacency : array (p, p)
    order : array (p,)
        Parents before children.
    matrices : array (N, p, p)
        M = sigma_h + T under every draw.
    degrees : float
        d = delta + n.
    """

    adjacency: np.ndarray
    order: np.ndarray
    matrices: np.ndarray
    degrees: float

    def parameters(self) -> Parameters:
        """Posterior means of covariance, coefficients and residual variances.

        Families are independent a posteriori, so the covariance follows exactly from the covariances
        of the parents: no mean of a product is replaced by a product of means. With delta + n of at
        most 2 a variance has no finite mean; it is given as infinite, and covariances that follow from
        it as NaN.
        """
        p = len(self.order)
        means = Parameters(np.zeros((p, p)), np.zeros((p, p)), np.zeros(p))
        _add_parameters(self, means)
        n_draws = len(self.matrices)
        return Parameters(*(total / n_draws for total in means))

    def families(self) -> Iterator[FamilyPosterior]:
        """All families, parents before children."""
        for node in self.order.tolist():
            parents = np.flatnonzero(self.adjacency[:, node])
            factor = np.linalg.cholesky(self.matrices[:, parents[:, None], parents])
            whitened = np.linalg.solve(factor, self.matrices[:, parents, node, None])
            slopes = np.linalg.solve(factor.transpose(0, 2, 1), whitened)[..., 0]
            scale = self.matrices[:, node, node] - (whitened[..., 0] ** 2).sum(axis=1)
            degrees = self.degrees + len(parents)
            yield FamilyPosterior(node, parents, slopes, factor, scale, degrees)

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log posterior predictive density of every row, (rows,)."""
        total = np.zeros((len(self.matrices), len(rows)))
        for family in self.families():
            location, spread = _predict(family, rows)
            residual = (rows[:, family.node] - location) ** 2 / (family.scale[:, None] * spread)
            d = family.degrees
            total += gammaln((d + 1) / 2) - gammaln(d / 2)
            total -= np.log(np.pi * family.scale[:, None] * spread) / 2
            total -= (d + 1) / 2 * np.log1p(residual)
        return logsumexp(total, axis=0) - np.log(len(self.matrices))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows from the posterior predictive distribution, (n, p)."""
        rows = np.zeros((n, len(self.order)))
        chosen = rng.integers(len(self.matrices), size=n)
        for family in self.families():
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
    adjacency = np.array(adjacency, dtype=np.bool_, order="C")
    order = np.array(topological_order(adjacency))
    return Network(adjacency, order, np.ascontiguousarray(draws + scatter), float(delta + n))


@kernel(error_model="numpy")
def _add_parameters(network, totals):
    """Add up the posterior means under every draw."""
    p = network.order.size
    covariance = np.empty((p, p))
    factor = np.empty((p, p))
    slopes = np.empty(p)
    column = np.empty(p)
    for draw in range(network.matrices.shape[0]):
        matrix = network.matrices[
            draw
        ]  # contiguous for the compiler, unlike an element of iteration
        for i in range(p):
            for j in range(p):
                covariance[i, j] = 0.0
        for node in network.order:
            parents = parents_of(network.adjacency, node)
            q = parents.size
            factorise(matrix, parents, q, factor)
            for a in range(q):
                slopes[a] = matrix[parents[a], node]
            solve_forward(factor, slopes, q)
            scale = matrix[node, node]
            for a in range(q):
                scale -= slopes[a] * slopes[a]
            solve_backward(factor, slopes, q)
            excess = network.degrees + q - 2.0
            variance = scale / excess if excess > 0.0 else np.inf
            for j in range(p):
                value = 0.0
                for a in range(q):
                    value += slopes[a] * covariance[parents[a], j]
                column[j] = value
            # tr(M_PP^-1 C_PP), a column at a time
            explained, spread = 0.0, 0.0
            for a in range(q):
                explained += slopes[a] * column[parents[a]]
            for j in range(p):
                covariance[node, j] = covariance[j, node] = column[j]
            for a in range(q):
                for b in range(q):
                    column[b] = covariance[parents[b], parents[a]]
                solve_forward(factor, column, q)
                solve_backward(factor, column, q)
                spread += column[a]
            total = explained + variance * (1.0 + spread)
            covariance[node, node] = np.inf if np.isnan(total) else total
            for a in range(q):
                totals.coefficients[parents[a], node] += slopes[a]
            totals.residual_variances[node] += variance
        for i in range(p):
            for j in range(p):
                totals.covariance[i, j] += covariance[i, j]


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
