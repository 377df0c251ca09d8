"""Tasks drawn from the model itself: sigma_h, graphs, covariances, rows (docs/model.md, section 2)."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mtgbn._utils.arguments import check_count, check_interval
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_adjacencies, check_delta, check_positive_definite
from mtgbn.tasks import Tasks


class Simulation(NamedTuple):
    """Simulated tasks and the truth behind them."""

    tasks: Tasks
    arrays: list[np.ndarray]
    """The rows of every task, (n_rows, p)."""
    adjacencies: np.ndarray
    """(m, p, p); ``adjacencies[t, i, j]`` means i -> j in task t, in both directions i - j."""
    covariances: np.ndarray
    """(m, p, p), of the distributions that the rows were drawn from."""
    sigma_h: np.ndarray | None
    """The shared scale matrix; None in a design without one."""
    nu0: float | None
    """The degrees of freedom that belong to sigma_h; None in a design without one."""


def simulate_tasks(
    n_tasks: int = 10,
    n_variables: int = 6,
    n_rows: int = 60,
    *,
    nu0: float | None = None,
    edge_probability: float = 0.4,
    edge_change: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> Simulation:
    """Simulate related tasks from the hierarchical model.

    All tasks share a random DAG, of which each lacks a fraction of the edges; sigma_h is a random
    matrix; every task draws its covariance given its DAG and sigma_h, and its rows from a normal
    distribution with this covariance.

    Parameters
    ----------
    n_tasks, n_variables, n_rows : int
    nu0 : float, optional
        A larger value makes the tasks more alike. Default: n_variables + 20.
    edge_probability : float
        Probability of an edge between two variables in the shared DAG.
    edge_change : float
        Probability that a task lacks an edge of the shared DAG.
    random_state : int or numpy.random.Generator, optional

    Examples
    --------
    >>> simulation = simulate_tasks(n_tasks=3, n_variables=4, n_rows=20, random_state=0)
    >>> simulation.tasks, simulation.adjacencies.shape
    (Tasks(3 tasks, 4 variables, n = 19), (3, 4, 4))
    """
    check_count("n_tasks", n_tasks, 1)
    check_count("n_variables", n_variables, 2)
    check_count("n_rows", n_rows, 2)
    for name, value in (("edge_probability", edge_probability), ("edge_change", edge_change)):
        check_interval(name, value, "[]", 0, 1)
    rng = np.random.default_rng(random_state)
    p = n_variables
    nu0 = float(p + 20) if nu0 is None else float(nu0)
    check_delta(nu0, p)
    order = rng.permutation(p)
    shared = np.zeros((p, p), dtype=bool)
    shared[np.ix_(order, order)] = np.triu(rng.random((p, p)) < edge_probability, 1)
    adjacencies = shared & (rng.random((n_tasks, p, p)) >= edge_change)
    # A Wishart matrix with few degrees of freedom, which has strong correlations, with variances of 1.
    root = rng.standard_normal((p, 2 * p))
    scale = root @ root.T
    deviations = np.sqrt(np.diag(scale))
    sigma_h = (nu0 - p + 1) * scale / np.outer(deviations, deviations)
    covariances = np.array([draw_covariance(a, sigma_h, nu0, rng) for a in adjacencies])
    arrays = [
        rng.standard_normal((n_rows, p)) @ cholesky(covariance, lower=True).T
        for covariance in covariances
    ]
    tasks = Tasks.from_arrays(arrays)
    return Simulation(tasks, arrays, adjacencies, covariances, sigma_h, nu0)


def draw_covariance(
    adjacency: Any, sigma_h: Any, nu0: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw the covariance matrix of a DAG from its prior given sigma_h.

    Every node's residual precision is gamma with shape (delta + |Pa|)/2 and rate half its residual
    scale in sigma_h, its coefficients normal around those of sigma_h. With a complete DAG this is the
    inverse Wishart distribution.
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    p = len(sigma_h)
    delta = check_delta(nu0, p)
    (adjacency,) = check_adjacencies([adjacency], 1, p)
    # Omega = (I - B) diag(precisions) (I - B)', column k of B the coefficients of node k.
    residuals = np.eye(p)
    precisions = np.empty(p)
    for node in range(p):
        parents = np.flatnonzero(adjacency[:, node])
        factor = cholesky(sigma_h[np.ix_(parents, parents)], lower=True) if parents.size else None
        whitened = np.zeros(0)
        if parents.size:
            whitened = solve_triangular(factor, sigma_h[parents, node], lower=True)
        scale = sigma_h[node, node] - whitened @ whitened
        precisions[node] = rng.gamma((delta + parents.size) / 2) * 2 / scale
        if parents.size and precisions[node] > 0:
            noise = rng.standard_normal(parents.size) / np.sqrt(precisions[node])
            residuals[parents, node] = -solve_triangular(
                factor, whitened + noise, lower=True, trans=1
            )
    if not (precisions > np.finfo(float).tiny).all():
        raise InputError(
            f"nu0 = {nu0} is too close to p - 1 = {p - 1} to draw a covariance; raise it"
        )
    root = np.linalg.solve(residuals.T, np.diag(1 / np.sqrt(precisions)))
    return root @ root.T
