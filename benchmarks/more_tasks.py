"""Wrong pairs per task against the number of tasks, on data that the model does not fit.

Simulated BOLD series and all simulations of `simulate_misfit`, with all defaults. More tasks should
never give more wrong pairs. Each row has its own process with one thread, and is printed as soon as it
is there.
"""

import argparse
import itertools
import time
from typing import NamedTuple

import numpy as np

from benchmarks.bold import simulate_study
from benchmarks.fits import apart
from benchmarks.problems import table
from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.graphs import skeleton
from mtgbn.simulate import simulate_misfit

MISFITS = (
    *("none", "hidden_cause", "autocorrelated", "saturating"),
    *("heavy_tails", "lagged", "delays"),
)

# Regions and density of the simulated BOLD series.
BOLD = {"BOLD, 20 regions": (20, 0.21), "BOLD, 60 regions": (60, 0.1)}
NUMBERS = (10, 20, 40, 80, 160, 320)
N_PROBLEMS, N_LARGE_PROBLEMS, LARGE = 10, 3, 80


class Problem(NamedTuple):
    """Tasks and the true graphs, (m, p, p)."""

    tasks: Tasks
    adjacencies: np.ndarray


def problem_of(kind: str, m: int, seed: int) -> Problem:
    """Simulate one problem with m tasks."""
    if kind in BOLD:
        regions, density = BOLD[kind]
        study = simulate_study(m, 0, seed, regions=regions, density=density, n_altered=0)
        return Problem(study.tasks, study.simulation.adjacencies)
    simulation = simulate_misfit(kind, n_tasks=m, random_state=seed)
    return Problem(simulation.tasks, simulation.adjacencies)


def measure(kind: str, m: int, seed: int) -> dict[str, list[float]]:
    """Per method: false and missing edges per task, CPU seconds."""
    problem = problem_of(kind, m, seed)
    truth = np.array([skeleton(graph) for graph in problem.adjacencies])
    rows = {}
    for method in (SIG, AVG, MTGBN):
        start = time.process_time()
        estimator = method(random_state=seed, n_jobs=1).fit(problem.tasks)
        seconds = time.process_time() - start
        found = np.array([skeleton(graph) for graph in estimator.graphs_])
        false, missing = (np.sum(a & ~b) / 2 / m for a, b in ((found, truth), (truth, found)))
        rows[method.__name__] = [float(false), float(missing), seconds]
    return rows


def measure_all(kind: str, m: int, seeds: range) -> list[dict[str, list[float]]]:
    """The same for all problems of a row."""
    return [measure(kind, m, seed) for seed in seeds]


def study(
    kinds: tuple[str, ...], numbers: tuple[int, ...], n_problems: int, n_large: int, first_seed: int
) -> str:
    """A table with one row per kind and number of tasks: mean wrong pairs, standard error."""
    rows = []
    for kind, m in itertools.product(kinds, numbers):
        n = n_problems if m <= LARGE else n_large
        results = apart(measure_all, kind, m, range(first_seed, first_seed + n))
        row = [kind, str(m)]
        for method in ("SIG", "AVG", "MTGBN"):
            values = np.array([result[method] for result in results])
            wrong = values[:, 0] + values[:, 1]
            error = wrong.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
            row.append(
                f"{wrong.mean():.2f} ± {error:.2f} ({values[:, 0].mean():.1f} + "
                f"{values[:, 1].mean():.1f})"
            )
        row.append(f"{np.mean([result['MTGBN'][2] for result in results]):.0f}")
        print(" | ".join(row), flush=True)
        rows.append(row)
    return table(["data", "tasks", "SIG", "AVG", "MTGBN", "CPU s"], rows)


def main(
    n_problems: int = N_PROBLEMS, n_large: int = N_LARGE_PROBLEMS, first_seed: int = 100
) -> str:
    """Wrong pairs (false + missing) per task."""
    return study((*BOLD, *MISFITS), NUMBERS, n_problems, n_large, first_seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=[*BOLD, *MISFITS])
    parser.add_argument("--numbers", nargs="+", type=int, default=list(NUMBERS))
    parser.add_argument("--problems", type=int, default=N_PROBLEMS)
    parser.add_argument("--large-problems", type=int, default=N_LARGE_PROBLEMS)
    parser.add_argument("--first-seed", type=int, default=100)
    options = parser.parse_args()
    print(
        study(
            tuple(options.kinds),
            tuple(options.numbers),
            options.problems,
            options.large_problems,
            options.first_seed,
        )
    )
