"""What the samplers are held against: a naive density, exact draws, Monte Carlo z-scores."""

import itertools

import numpy as np
from arviz_stats.base import array_stats
from scipy.stats import wishart

from mtgbn.graphs.chordal import triangulate
from mtgbn.graphs.dags import moral_graph

# A standard normal exceeds this with probability 7e-6; the fullest test compares about 100 numbers,
# so a sampler that is right fails for one seed in 1400, and seeds are fixed.
Z_LIMIT = 4.5


def dag(p, *edges):
    adjacency = np.zeros((p, p), dtype=bool)
    for i, j in edges:
        adjacency[i, j] = True
    return adjacency


def complete_dag(p):
    return np.triu(np.ones((p, p), dtype=bool), 1)


# A v-structure, a chain against the order of the numbers, and two joined v-structures.
MIXED_GRAPHS = np.array(
    [
        dag(4, (0, 2), (1, 2), (2, 3)),
        dag(4, (3, 2), (2, 1), (1, 0)),
        dag(4, (0, 3), (1, 3), (2, 3), (0, 1)),
    ]
)


def data_scatters(p, ns, seed):
    """Scatters of correlated data, scaled so that variables have unequal units."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((p, 2 * p)) * np.linspace(0.7, 1.6, p)[:, None]
    chol = np.linalg.cholesky(root @ root.T / (2 * p))
    scatters = []
    for n in ns:
        rows = rng.standard_normal((n, p)) @ chol.T
        scatters.append(rows.T @ rows)
    return np.array(scatters)


class NaiveDensity:
    """Log posterior of x, the log-Cholesky vector of sigma_h: one determinant per set and task.

    The signed sets are spelled out from the graphs, with the formulas of the model page as they stand:
    nothing is merged, cancelled or precomputed except the coefficient of each determinant.
    """

    def __init__(self, adjacencies, scatters, ns, nu0, kind):
        m, p, _ = adjacencies.shape
        self.p = p
        self.shifts = np.concatenate([scatters, np.zeros((1, p, p))])
        self.lower = np.tril_indices(p)
        self.diagonal = np.flatnonzero(self.lower[0] == self.lower[1])
        delta = nu0 - p + 1
        coefficients = {}

        def add(members, shift, coefficient):
            if members:
                row = coefficients.setdefault(tuple(sorted(members)), np.zeros(m + 1))
                row[shift] += coefficient

        for task, (adjacency, n) in enumerate(zip(adjacencies, ns, strict=True)):
            families = _families(adjacency)
            for sign, members in families:
                size = len(members)
                add(members, task, -sign * (delta + n + size - 1) / 2)
                add(members, m, sign * (delta + size - 1) / 2)
            if kind == "uniform":
                continue
            structure = _cliques(adjacency) if kind == "decomposable" else families
            for sign, members in [*structure, (-1, tuple(range(p)))]:
                size = len(members)
                add(members, m, -sign * (delta + size - 1) / 2)
                if kind == "scale_free":
                    for j in members:
                        add((j,), m, sign * (delta + size - 1) / 2)
        self.groups = []
        for size in range(1, p + 1):
            sets = [members for members in coefficients if len(members) == size]
            if sets:
                index = np.array(sets)
                rows = np.array([coefficients[members] for members in sets]).T
                self.groups.append((index[:, :, None], index[:, None, :], rows))

    def sigma_h(self, x):
        factor = self._factor(x)
        return factor @ factor.T

    def __call__(self, x):
        """Value and gradient."""
        p = self.p
        factor = self._factor(x)
        matrices = factor @ factor.T + self.shifts
        value = 0.0
        gradient = np.zeros((p, p))
        for rows, columns, coefficients in self.groups:
            small = matrices[:, rows, columns]
            value += float((coefficients * np.linalg.slogdet(small)[1]).sum())
            inverses = (coefficients[..., None, None] * np.linalg.inv(small)).sum(axis=0)
            np.add.at(gradient, (rows, columns), inverses)
        exponents = np.arange(p + 1, 1, -1)
        value += float(exponents @ x[self.diagonal])
        by_factor = 2 * np.tril(gradient @ factor)
        result = by_factor[self.lower]
        result[self.diagonal] = result[self.diagonal] * np.exp(x[self.diagonal]) + exponents
        return value, result

    def _factor(self, x):
        factor = np.zeros((self.p, self.p))
        factor[self.lower] = x
        factor[np.diag_indices(self.p)] = np.exp(x[self.diagonal])
        return factor


def _families(adjacency):
    signed = []
    for node in range(len(adjacency)):
        parents = tuple(np.flatnonzero(adjacency[:, node]))
        signed += [(1, (*parents, node)), (-1, parents)]
    return signed


def _cliques(adjacency):
    """Cliques and separators of a chordal graph, from a perfect elimination order by brute force."""
    graph = triangulate(moral_graph(adjacency))
    for order in itertools.permutations(range(len(graph))):
        signed = []
        for place, node in enumerate(order):
            earlier = [other for other in order[:place] if graph[node, other]]
            if not all(graph[a, b] for a, b in itertools.combinations(earlier, 2)):
                break
            signed += [(1, (*earlier, node)), (-1, tuple(earlier))]
        else:
            return signed
    raise AssertionError("not chordal")


def exact_draws(scatter, n, nu0, size, rng):
    """Independent draws of sigma_h with density |S|^(nu0/2) |S + T|^(-(nu0 + n)/2).

    Omega ~ Wishart(n - p - 1, T^-1), S ~ Wishart(nu0 + p + 1, Omega^-1): the integral over Omega is a
    matrix beta distribution of the second kind with a = (nu0 + p + 1)/2, b = (n - p - 1)/2.
    """
    p = len(scatter)
    omegas = wishart(n - p - 1, np.linalg.inv(scatter)).rvs(size, random_state=rng)
    units = wishart(nu0 + p + 1, np.eye(p)).rvs(size, random_state=rng)
    roots = np.linalg.cholesky(np.linalg.inv(omegas))
    return roots @ units @ roots.transpose(0, 2, 1)


def shape_statistics(matrices):
    """Numbers that say where a matrix is, by name: each on the scale on which it is least skewed."""
    p = matrices.shape[-1]
    diagonal = np.einsum("...ii->...i", matrices)
    correlations = matrices / np.sqrt(diagonal[..., :, None] * diagonal[..., None, :])
    eigenvalues = np.linalg.eigvalsh(matrices)
    statistics = {"log determinant": np.linalg.slogdet(matrices)[1]}
    for i in range(p):
        statistics[f"log element {i},{i}"] = np.log(diagonal[..., i])
        statistics[f"log eigenvalue {i}"] = np.log(eigenvalues[..., i])
        for j in range(i):
            statistics[f"correlation {i},{j}"] = np.arctanh(correlations[..., i, j])
    return statistics


def moments(draws):
    """Mean and sd of every element of draws (chains, draws, p, p), each with its Monte Carlo error.

    HMC flies to the other side of the mean, so that means are known better than from independent
    draws and squares worse. The error of an sd is therefore that of the mean of the centred squares;
    arviz's own takes the squares of the numbers as they are, which behave like the numbers.
    """
    rows, columns = np.tril_indices(draws.shape[-1])
    elements = np.moveaxis(draws[:, :, rows, columns], 2, 0)
    mean, mean_error = _mean_and_error(elements)
    variance, variance_error = _mean_and_error((elements - mean[:, None, None]) ** 2)
    sd = np.sqrt(variance)
    return np.concatenate([mean, sd]), np.concatenate([mean_error, variance_error / (2 * sd)])


def _mean_and_error(values):
    ess = array_stats.ess(values, method="mean", chain_axis=-2, draw_axis=-1)
    return values.mean(axis=(1, 2)), values.std(axis=(1, 2)) / np.sqrt(ess)


def largest_z(one, other):
    """Largest difference of means and sds of elements between two samples, in standard errors."""
    (a, error_a), (b, error_b) = moments(one), moments(other)
    return float(np.max(np.abs(a - b) / np.hypot(error_a, error_b)))
