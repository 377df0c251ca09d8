"""Tasks whose DAGs are perturbations of one common network, as in the paper's benchmarks.

``coefficients[i, j]`` belongs to the edge i -> j.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mtgbn._utils.arguments import check_count, check_interval, real_array
from mtgbn.errors import InputError
from mtgbn.graphs.dags import topological_order
from mtgbn.simulate.benchmark_networks import BenchmarkNetwork, load_network
from mtgbn.simulate.hierarchical import Simulation
from mtgbn.simulate.thresholded import row_counts
from mtgbn.tasks import Tasks


def random_network(
    n_variables: int, n_edges: int, *, random_state: int | np.random.Generator | None = None
) -> np.ndarray:
    """Draw the coefficients (p, p) of a random DAG, of size .3 to .9 and of either sign.

    ``coefficients[i, j]`` belongs to i -> j and is 0 where there is no edge.
    """
    check_count("n_variables", n_variables, 1)
    check_count("n_edges", n_edges, 0)
    parents, children = np.triu_indices(n_variables, 1)
    if n_edges > len(parents):
        raise InputError(
            f"{n_variables} variables have {len(parents)} pairs; n_edges = {n_edges} is too many"
        )
    rng = np.random.default_rng(random_state)
    order = rng.permutation(n_variables)
    chosen = rng.choice(len(parents), n_edges, replace=False)
    coefficients = np.zeros((n_variables, n_variables))
    coefficients[order[parents[chosen]], order[children[chosen]]] = rng.uniform(
        0.3, 0.9, n_edges
    ) * rng.choice([-1, 1], n_edges)
    return coefficients


def simulate_perturbed(
    network: np.ndarray | BenchmarkNetwork | str | None = None,
    n_tasks: int = 10,
    n_rows: int | Sequence[int] = 250,
    *,
    residual_variances: np.ndarray | None = None,
    level: float = 0.1,
    relative_to: Literal["edges", "pairs"] = "edges",
    n_unrelated: int = 0,
    standardise: bool = True,
    random_state: int | np.random.Generator | None = None,
) -> Simulation:
    """Simulate tasks whose DAGs are a common network with some of its edges or pairs changed.

    Every task changes the common network independently of the others. Between two variables without an
    edge, one is added along the network's topological order, or against it if it would otherwise close
    a cycle. An edge is deleted with probability 1/2, else reversed; if the reversal would close a cycle,
    another pair is drawn instead. Columns are in random order, the same in all tasks.

    Parameters
    ----------
    network : array (p, p), BenchmarkNetwork or str, optional
        The common network: its coefficients, ``[i, j]`` for i -> j; or what `load_network` takes or
        returns, with its names, intercepts and residual variances. Default: a random network of 46
        variables and 70 edges.
    n_tasks : int
    n_rows : int or sequence of int
        The same number for all tasks, or one per task.
    residual_variances : array (p,), optional
        Default: those of a benchmark network, else 1.
    level : float
        Fraction of the edges or pairs that a task changes, rounded to a whole number; 0: all tasks have
        the common network.
    relative_to : {"edges", "pairs"}
        Whether ``level`` counts edges, which are deleted or reversed, or all pairs of variables.
    n_unrelated : int
        Number of tasks, the first ones, that each start from a random network instead of the common
        one, with as many edges and coefficients of the same sizes.
    standardise : bool
        Subtract from every column of every task its mean and divide it by its standard deviation.
    random_state : int or numpy.random.Generator, optional
        The same number gives the same column order at every level.

    Returns
    -------
    Simulation
        The covariances are those before columns are standardised; sigma_h and nu0 are None.

    Examples
    --------
    >>> simulation = simulate_perturbed("ecoli70", n_tasks=2, n_rows=30, random_state=0)
    >>> simulation.tasks
    Tasks(2 tasks, 46 variables, n = 29)
    """
    check_count("n_tasks", n_tasks, 1)
    counts = row_counts(n_rows, n_tasks)
    _check_level(level, relative_to)
    check_count("n_unrelated", n_unrelated, 0)
    if n_unrelated > n_tasks:
        raise InputError(
            f"n_unrelated = {n_unrelated} is more than there are tasks, n_tasks = {n_tasks}"
        )
    rng = np.random.default_rng(random_state)
    common = _complete_network(network, residual_variances, rng)
    coefficients, p = common.coefficients, len(common.coefficients)
    deviations = np.sqrt(common.residual_variances)
    order = rng.permutation(p)
    networks = []
    for task in range(n_tasks):
        start = _unrelated_network(coefficients, rng) if task < n_unrelated else coefficients
        networks.append(perturb_network(start, level, relative_to, random_state=rng))
    adjacencies = np.zeros((n_tasks, p, p), dtype=bool)
    covariances = np.empty((n_tasks, p, p))
    arrays = []
    for task, changed in enumerate(networks):
        adjacencies[task] = (changed != 0)[np.ix_(order, order)]
        # x = a + B'x + e, column k of B the coefficients of variable k.
        equations = (np.eye(p) - changed).T
        root = np.linalg.solve(equations, np.diag(deviations))[order]
        covariances[task] = root @ root.T
        rows = rng.standard_normal((counts[task], p)) @ root.T
        rows += np.linalg.solve(equations, common.intercepts)[order]
        if standardise:
            # The denominator is that of Tasks, so that the diagonals of the scatters are the n_i.
            rows = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
        arrays.append(rows)
    names = [common.variables[place] for place in order] if common.variables else None
    tasks = Tasks.from_arrays(arrays, variables=names)
    return Simulation(tasks, arrays, adjacencies, covariances, None, None)


def perturb_network(
    coefficients: np.ndarray,
    level: float,
    relative_to: Literal["edges", "pairs"] = "edges",
    *,
    random_state: int | np.random.Generator | None = None,
) -> np.ndarray:
    """Change a fraction of the edges or pairs of a network; see `simulate_perturbed`.

    An added edge has the size of a random coefficient of the network and a random sign; a reversed edge
    keeps its coefficient.
    """
    _check_level(level, relative_to)
    coefficients = check_weights(coefficients, "coefficients")
    rng = np.random.default_rng(random_state)
    p = len(coefficients)
    places = np.empty(p, dtype=int)
    places[topological_order(coefficients != 0)] = np.arange(p)
    sizes = np.abs(coefficients[coefficients != 0])
    eligible = np.argwhere(coefficients if relative_to == "edges" else np.tri(p, k=-1))
    n_changes = round(level * len(eligible))
    changed = coefficients.copy()
    waiting = deque(rng.permutation(eligible).tolist())
    while n_changes:
        i, j = waiting.popleft()
        if changed[j, i]:
            i, j = j, i
        if changed[i, j]:
            coefficient, changed[i, j] = changed[i, j], 0.0
            if rng.random() >= 0.5:
                if _has_path(changed, i, j):
                    # The pair is drawn again later; since it can still be deleted, the loop ends.
                    changed[i, j] = coefficient
                    waiting.append([i, j])
                    continue
                changed[j, i] = coefficient
        else:
            if not sizes.size:
                raise InputError(
                    "the network has no edges, from which added edges take coefficients; give it some, "
                    'or use relative_to="edges"'
                )
            if places[i] > places[j]:
                i, j = j, i
            if _has_path(changed, j, i):
                i, j = j, i  # at most one direction closes a cycle
            changed[i, j] = rng.choice(sizes) * rng.choice([-1, 1])
        n_changes -= 1
    return changed


def _complete_network(
    network: Any, residual_variances: Any, rng: np.random.Generator
) -> BenchmarkNetwork:
    """Return the common network with defaults for what was not given; it may have no names."""
    if isinstance(network, str):
        network = load_network(network)
    if not isinstance(network, BenchmarkNetwork):
        coefficients = random_network(46, 70, random_state=rng) if network is None else network
        coefficients = check_weights(coefficients, "coefficients")
        ones = np.ones(len(coefficients))
        network = BenchmarkNetwork("", (), coefficients, 0 * ones, ones)
    if residual_variances is None:
        return network
    variances, p = real_array(residual_variances, "residual_variances"), len(network.coefficients)
    if variances.shape != (p,):
        raise InputError(
            f"residual_variances must hold one number per variable, {p}; got shape {variances.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(variances) & (variances > 0)))
    if bad.size:
        raise InputError(
            f"residual_variances must be positive; that of variable {bad[0]} is {variances[bad[0]]}"
        )
    return network._replace(residual_variances=variances)


def _unrelated_network(coefficients: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sizes = np.abs(coefficients[coefficients != 0])
    network = random_network(len(coefficients), len(sizes), random_state=rng)
    edges = network != 0
    network[edges] = np.sign(network[edges]) * rng.permutation(sizes)
    return network


def _has_path(coefficients: np.ndarray, start: int, end: int) -> bool:
    reached = np.zeros(len(coefficients), dtype=bool)
    frontier = [start]
    while frontier:
        for child in np.flatnonzero(coefficients[frontier.pop()]).tolist():
            if child == end:
                return True
            if not reached[child]:
                reached[child] = True
                frontier.append(child)
    return False


def _check_level(level: float, relative_to: str) -> None:
    check_interval("level", level, "[]", 0, 1)
    if relative_to not in ("edges", "pairs"):
        raise InputError(f'relative_to must be "edges" or "pairs"; got {relative_to!r}')


def check_weights(matrix: Any, name: str) -> np.ndarray:
    """Check the weights of the edges of a DAG: a square matrix of finite numbers."""
    weights = real_array(matrix, name)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or len(weights) == 0:
        raise InputError(f"{name} must be a square matrix; got shape {weights.shape}")
    if not np.isfinite(weights).all():
        i, j = np.argwhere(~np.isfinite(weights))[0]
        raise InputError(f"{name} must be finite; that of {i} -> {j} is {weights[i, j]}")
    topological_order(weights != 0)
    return weights
