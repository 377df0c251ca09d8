"""Test problems and timing that the benchmarks share."""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

from mtgbn.model.posterior import Posterior
from mtgbn.paper.posterior import build_posterior


def largest_memory() -> float:
    """Peak memory of this process, in GiB.

    Linux reports it in /proc; ``getrusage`` would include the memory that the parent process had
    when it started this one.
    """
    try:
        with open("/proc/self/status") as lines:
            kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 2**20


def random_dag(rng: np.random.Generator, p: int, n_edges: int) -> np.ndarray:
    """A random DAG with the given number of edges; adjacency[i, j]: i -> j."""
    rows, columns = np.triu_indices(p, 1)
    chosen = rng.choice(len(rows), n_edges, replace=False)
    adjacency = np.zeros((p, p), dtype=bool)
    adjacency[rows[chosen], columns[chosen]] = True
    order = rng.permutation(p)
    return adjacency[np.ix_(order, order)]


def random_problem(
    rng: np.random.Generator, m: int, p: int, n: int, n_edges: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unrelated random DAGs (the worst case: few families occur twice) and white data."""
    adjacencies = np.array([random_dag(rng, p, n_edges) for _ in range(m)])
    rows = rng.standard_normal((m, n, p))
    return adjacencies, np.einsum("tni,tnj->tij", rows, rows), np.full(m, n - 1.0)


def related_problem(
    m: int, p: int, n: int, edges_per_variable: float = 1.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks that each lack a tenth of a common random DAG; coefficients of size .3 to .9."""
    rng = np.random.default_rng(seed)
    common = random_dag(rng, p, int(edges_per_variable * p))
    coefficients = rng.uniform(0.3, 0.9, (p, p)) * rng.choice([-1, 1], (p, p))
    adjacencies = common & (rng.random((m, p, p)) >= 0.1)
    scatters = []
    for adjacency in adjacencies:
        noise = rng.standard_normal((n, p))
        rows = np.linalg.solve((np.eye(p) - adjacency * coefficients).T, noise.T).T
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        scatters.append(rows.T @ rows)
    return adjacencies, np.array(scatters), np.full(m, n - 1.0)


def shared_dag_tasks(
    m: int, p: int, n: int, n_edges: int, change: float = 0.1, seed: int = 0
) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of m tasks and their DAGs: one causal order, most edges and coefficients in common.

    Each task lacks a random tenth (``change``) of the common edges and has as many of its own.
    Coefficients are of size .3 to .9, noise has unit variance, columns are standardised and
    permuted.
    """
    rng = np.random.default_rng(seed)
    parents, children = np.triu_indices(p, 1)
    pairs = rng.permutation(len(parents))
    common, others = pairs[:n_edges], pairs[n_edges:]
    shared = random_coefficients(rng, len(pairs))
    n_changed = round(change * n_edges)
    order = rng.permutation(p)
    tasks, adjacencies = [], np.zeros((m, p, p), dtype=bool)
    for task in range(m):
        kept = rng.permutation(common)[n_changed:]
        own = rng.choice(others, n_changed, replace=False)
        weights = np.zeros((p, p))
        weights[parents[kept], children[kept]] = shared[kept]
        weights[parents[own], children[own]] = random_coefficients(rng, n_changed)
        rows = np.linalg.solve((np.eye(p) - weights).T, rng.standard_normal((p, n))).T
        tasks.append(((rows - rows.mean(axis=0)) / rows.std(axis=0))[:, order])
        adjacencies[task] = weights[np.ix_(order, order)] != 0
    return tasks, adjacencies


def random_coefficients(rng: np.random.Generator, size: int) -> np.ndarray:
    """Coefficients of size .3 to .9 and either sign."""
    return rng.uniform(0.3, 0.9, size) * rng.choice([-1, 1], size)


def random_posterior(
    m: int, p: int, n: int = 250, edges_per_variable: float = 1.5, prior="uniform", seed: int = 0
) -> tuple[Posterior, np.ndarray]:
    """A posterior and the Cholesky factor of a reasonable centre."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, m, p, n, int(edges_per_variable * p))
    centre = 20.0 / n * problem[1].mean(axis=0)
    return build_posterior(*problem, p + 20.0, prior), np.linalg.cholesky(centre)


def interleaved_times(functions: dict[str, Callable], seconds: float = 2.0) -> dict[str, float]:
    """Median wall time of each function; they take turns, so noise affects all equally."""
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    stop = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < stop or min(map(len, times.values())) < 5:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def table(header: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def run_with_seeds(main: Callable[[bool, int], str], description: str, seeds: int) -> None:
    """Print the result of a benchmark, with the settings of the command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one problem per design")
    parser.add_argument("--seeds", type=int, default=seeds, help="problems per design")
    given = parser.parse_args()
    print(main(given.quick, given.seeds))
