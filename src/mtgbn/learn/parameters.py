"""Parameters of a learned network, and predictions (docs/model.md, section 13).

Given its graph and sigma_h, a task's families have independent normal-gamma posteriors with
M = sigma_h + T and d = delta + n; everything is averaged over the draws of sigma_h. A family that may be
an own family is a mixture of the posterior given sigma_h and the one given the prior of a single task.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from mtgbn._utils.compiled import kernel
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.graphs.dags import topological_order
from mtgbn.learn.single_task import single_sigma_h
from mtgbn.model.triangular import factorise, solve_backward, solve_forward
from mtgbn.search.local_scores import parents_of


class FamilyPosterior(NamedTuple):
    """Posterior of one node given its parents, under every draw; under one if it is an own family.

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
    ties : array (p,)
        Probabilities that families are tied to sigma_h.
    own_matrix : array (p, p)
        M of own families, from the prior matrix of a single task.
    own_degrees : float
        d of own families.
    """

    adjacency: np.ndarray
    order: np.ndarray
    matrices: np.ndarray
    degrees: float
    ties: np.ndarray
    own_matrix: np.ndarray
    own_degrees: float

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

    def families(self) -> Iterator[tuple[FamilyPosterior, FamilyPosterior]]:
        """All families as tied and as own families, parents before children."""
        for node in self.order.tolist():
            parents = np.flatnonzero(self.adjacency[:, node])
            yield (
                _family_posterior(node, parents, self.matrices, self.degrees),
                _family_posterior(node, parents, self.own_matrix[None], self.own_degrees),
            )

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log posterior predictive density of every row, (rows,)."""
        total = np.zeros((len(self.matrices), len(rows)))
        with np.errstate(divide="ignore"):
            log_ties, log_rests = np.log(self.ties), np.log1p(-self.ties)
        for tied, own in self.families():
            log_tie, log_rest = log_ties[tied.node], log_rests[tied.node]
            total += np.logaddexp(
                log_tie + _log_density(tied, rows), log_rest + _log_density(own, rows)
            )
        return logsumexp(total, axis=0) - np.log(len(self.matrices))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows from the posterior predictive distribution, (n, p)."""
        rows = np.zeros((n, len(self.order)))
        chosen = rng.integers(len(self.matrices), size=n)
        for families in self.families():
            is_own = rng.random(n) >= self.ties[families[0].node]
            for family, places in zip(families, (~is_own, is_own), strict=True):
                draws = np.minimum(chosen[places], len(family.scale) - 1)
                of_row = family._replace(
                    coefficients=family.coefficients[draws],
                    factor=family.factor[draws],
                    scale=family.scale[draws],
                )
                location, spread = _predict_rowwise(of_row, rows[places])
                noise = rng.standard_t(family.degrees, size=len(draws))
                rows[places, family.node] = location + noise * np.sqrt(
                    of_row.scale * spread / family.degrees
                )
        return rows


def posterior_network(
    adjacency: np.ndarray,
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    delta: float,
    ties: np.ndarray | None = None,
) -> Network:
    """Posterior of the parameters of one task.

    ``draws`` of sigma_h are (N, p, p), ``ties`` (p,) the probabilities that families are tied (None: all
    are).
    """
    adjacency = np.array(adjacency, dtype=np.bool_, order="C")
    return Network(
        adjacency=adjacency,
        order=np.array(topological_order(adjacency)),
        matrices=np.ascontiguousarray(draws + scatter),
        degrees=float(delta + n),
        ties=np.ones(len(adjacency)) if ties is None else np.array(ties, dtype=float),
        own_matrix=single_sigma_h(scatter, n) + scatter,
        own_degrees=float(SINGLE_DELTA + n),
    )


def _family_posterior(
    node: int, parents: np.ndarray, matrices: np.ndarray, degrees: float
) -> FamilyPosterior:
    """Posterior of a node given its parents, under every one of ``matrices`` (N, p, p)."""
    factor = np.linalg.cholesky(matrices[:, parents[:, None], parents])
    whitened = np.linalg.solve(factor, matrices[:, parents, node, None])
    slopes = np.linalg.solve(factor.transpose(0, 2, 1), whitened)[..., 0]
    scale = matrices[:, node, node] - (whitened[..., 0] ** 2).sum(axis=1)
    return FamilyPosterior(node, parents, slopes, factor, scale, degrees + len(parents))


def _log_density(family: FamilyPosterior, rows: np.ndarray) -> np.ndarray:
    """Log predictive density of the node in every row, (draws, rows)."""
    location, spread = _predict(family, rows)
    residual = (rows[:, family.node] - location) ** 2 / (family.scale[:, None] * spread)
    d = family.degrees
    value = gammaln((d + 1) / 2) - gammaln(d / 2) - (d + 1) / 2 * np.log1p(residual)
    return value - np.log(np.pi * family.scale[:, None] * spread) / 2


@kernel(error_model="numpy")
def _add_parameters(network, totals):
    """Add up the posterior means under every draw."""
    p = network.order.size
    covariance = np.empty((p, p))
    factor = np.empty((p, p))
    slopes = np.empty(p)
    column = np.empty(p)
    solved = np.empty(p)
    for draw in range(network.matrices.shape[0]):
        # Indexing keeps the matrix contiguous for the compiler, unlike iteration.
        tied_matrix = network.matrices[draw]
        for i in range(p):
            for j in range(p):
                covariance[i, j] = 0.0
        for node in network.order:
            parents = parents_of(network.adjacency, node)
            q = parents.size
            column[:] = 0.0
            total = 0.0
            for is_own in range(2):
                tie = network.ties[node]
                weight = 1.0 - tie if is_own else tie
                if weight == 0.0:
                    continue
                matrix = network.own_matrix if is_own else tied_matrix
                degrees = network.own_degrees if is_own else network.degrees
                factorise(matrix, parents, q, factor)
                for a in range(q):
                    slopes[a] = matrix[parents[a], node]
                solve_forward(factor, slopes, q)
                scale = matrix[node, node]
                for a in range(q):
                    scale -= slopes[a] * slopes[a]
                solve_backward(factor, slopes, q)
                excess = degrees + q - 2.0
                variance = scale / excess if excess > 0.0 else np.inf
                explained, spread = 0.0, 0.0
                for j in range(p):
                    value = 0.0
                    for a in range(q):
                        value += slopes[a] * covariance[parents[a], j]
                    column[j] += weight * value
                for a in range(q):
                    for b in range(q):
                        explained += slopes[a] * slopes[b] * covariance[parents[a], parents[b]]
                # tr(M_PP^-1 C_PP), a column at a time
                for a in range(q):
                    for b in range(q):
                        solved[b] = covariance[parents[b], parents[a]]
                    solve_forward(factor, solved, q)
                    solve_backward(factor, solved, q)
                    spread += solved[a]
                total += weight * (explained + variance * (1.0 + spread))
                for a in range(q):
                    totals.coefficients[parents[a], node] += weight * slopes[a]
                totals.residual_variances[node] += weight * variance
            for j in range(p):
                covariance[node, j] = covariance[j, node] = column[j]
            covariance[node, node] = np.inf if np.isnan(total) else total
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
