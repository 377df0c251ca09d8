"""The paper's synthetic data: thresholded precision matrices, one undirected graph per task.

Section 9, 6 of docs/model.md says what section 7.1 of the paper leaves open, and why k = p + 1 is not
the default.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from mtgbn._utils.arguments import check_count, check_interval
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_delta
from mtgbn.simulate.hierarchical import Simulation
from mtgbn.tasks import Tasks

# Largest number of draws of one task's matrix for the same sigma_h, and of draws of sigma_h.
_MOST_TRIES = 200
_MOST_SCALES = 20


def simulate_thresholded(
    n_tasks: int = 10,
    n_variables: int = 15,
    n_rows: int | Sequence[int] = 50,
    *,
    nu0: float = 60.0,
    density: float = 0.3,
    wishart_degrees: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Simulation:
    """Simulate tasks whose undirected graphs come from related, thresholded precision matrices.

    sigma_h is a Wishart(k, I) matrix scaled to unit trace. Every task draws a precision matrix from
    Wishart(nu0, sigma_h^-1) and keeps its largest off-diagonal elements; it draws again until the
    thresholded matrix is positive definite. Columns are in random order.

    Parameters
    ----------
    n_tasks, n_variables : int
    n_rows : int or sequence of int
        The same number for all tasks, or one per task.
    nu0 : float
        A larger value makes the tasks more alike; above n_variables - 1.
    density : float
        Number of ordered edges / n_variables^2, rounded to whole undirected edges.
    wishart_degrees : float, optional
        k, above n_variables - 1. Default: 2 n_variables. The paper's uniform law, n_variables + 1,
        practically never gives a positive definite matrix at 15 variables.
    random_state : int or numpy.random.Generator, optional

    Returns
    -------
    Simulation
        The adjacencies are undirected graphs: ``adjacencies[t]`` is symmetric. Many of them are not the
        graph of any DAG.

    Examples
    --------
    >>> simulation = simulate_thresholded(n_tasks=2, n_variables=5, n_rows=20, random_state=0)
    >>> simulation.adjacencies.sum(axis=(1, 2)).tolist()
    [8, 8]
    """
    check_count("n_tasks", n_tasks, 1)
    check_count("n_variables", n_variables, 2)
    p = n_variables
    counts = row_counts(n_rows, n_tasks)
    check_delta(nu0, p)
    check_interval("density", density, "[]", 0, 1)
    n_edges, n_pairs = round(density * p**2 / 2), p * (p - 1) // 2
    if n_edges > n_pairs:
        raise InputError(
            f"density = {density} asks for {n_edges} edges, but {p} variables have {n_pairs} pairs; "
            f"it counts ordered edges / {p}^2, so the complete graph has {(p - 1) / p:.3g}"
        )
    degrees = 2.0 * p if wishart_degrees is None else wishart_degrees
    check_interval("wishart_degrees", degrees, "()", p - 1, np.inf)
    rng = np.random.default_rng(random_state)
    sigma_h, factors = _draw_factors(n_tasks, p, float(nu0), n_edges, float(degrees), rng)
    order = rng.permutation(p)
    adjacencies = np.zeros((n_tasks, p, p), dtype=bool)
    covariances = np.empty((n_tasks, p, p))
    arrays = []
    for task, (factor, precision) in enumerate(factors):
        adjacencies[task] = (precision != 0)[np.ix_(order, order)]
        np.fill_diagonal(adjacencies[task], False)
        root = solve_triangular(factor, np.eye(p), lower=True, trans=1)
        covariances[task] = (root @ root.T)[np.ix_(order, order)]
        noise = rng.standard_normal((p, counts[task]))
        arrays.append(solve_triangular(factor, noise, lower=True, trans=1).T[:, order])
    sigma_h = sigma_h[np.ix_(order, order)]
    tasks = Tasks.from_arrays(arrays)
    return Simulation(tasks, arrays, adjacencies, covariances, sigma_h, float(nu0))


def row_counts(n_rows: int | Sequence[int], n_tasks: int) -> list[int]:
    """Return the number of rows of each task, from one number for all or one per task."""
    if isinstance(n_rows, str) or not np.iterable(n_rows):
        check_count("n_rows", n_rows, 2)
        return [int(n_rows)] * n_tasks
    counts = list(n_rows)
    if len(counts) != n_tasks:
        raise InputError(
            f"n_rows must be one number, or one for each of the {n_tasks} tasks; got {len(counts)}"
        )
    for task, count in enumerate(counts):
        check_count(f"n_rows of task {task}", count, 2)
    return [int(count) for count in counts]


def _draw_factors(
    n_tasks: int, p: int, nu0: float, n_edges: int, degrees: float, rng: np.random.Generator
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return sigma_h, and for every task the Cholesky factor and its precision matrix."""
    for _ in range(_MOST_SCALES):
        root = _draw_wishart_root(p, degrees, rng)
        root /= np.linalg.norm(root)  # the trace of root root' is its squared norm
        factors: list[tuple[np.ndarray, np.ndarray]] = []
        while len(factors) < n_tasks:
            found = _draw_precision(root, nu0, n_edges, rng)
            if found is None:
                break
            factors.append(found)
        else:
            return root @ root.T, factors
    raise InputError(
        f"thresholded to {n_edges} edges, no precision matrix of {p} variables was positive definite in "
        f"{_MOST_TRIES} tries for some task, with each of {_MOST_SCALES} draws of sigma_h from "
        f"Wishart({degrees:g}, I). The paper's uniform law, wishart_degrees = n_variables + 1, "
        "practically never succeeds at n_variables = 15: raise wishart_degrees (its default is "
        f"2 n_variables = {2 * p}), or lower n_variables or density"
    )


def _draw_wishart_root(p: int, degrees: float, rng: np.random.Generator) -> np.ndarray:
    """Draw lower triangular A with A A' ~ Wishart(degrees, I) (Bartlett's decomposition)."""
    root = np.tril(rng.standard_normal((p, p)), -1)
    root[np.diag_indices(p)] = np.sqrt(rng.chisquare(degrees - np.arange(p)))
    return root


def _draw_precision(
    root: np.ndarray, nu0: float, n_edges: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return Cholesky factor and matrix; None if no draw was positive definite.

    With sigma_h = root root', root'^-1 A A' root^-1 has the law Wishart(nu0, sigma_h^-1).
    """
    p = len(root)
    rows, columns = np.triu_indices(p, 1)
    for _ in range(_MOST_TRIES):
        half = solve_triangular(root, _draw_wishart_root(p, nu0, rng), lower=True, trans=1)
        precision = half @ half.T
        largest_last = np.argsort(np.abs(precision[rows, columns]))
        dropped = largest_last[: len(rows) - n_edges]
        precision[rows[dropped], columns[dropped]] = 0
        precision[columns[dropped], rows[dropped]] = 0
        try:
            return cholesky(precision, lower=True), precision
        except LinAlgError:
            continue
    return None
