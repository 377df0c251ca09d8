"""Prediction of rows that were left out: the first half of every task's rows is learned.

Measured is the log density of a row of the second half, as a mean over rows and tasks, minus that of
SIG. All methods have their defaults. Rows are standardised by the mean and the standard deviation of
the first half. The second measure is how often coefficients change their sign: for edges that all tasks
have, the share of tasks whose coefficient has another sign than the mean over the tasks, and the share
that the standard errors of a task's own regression would allow.
"""

import argparse
import time

import numpy as np
from scipy.stats import multivariate_normal, norm

from benchmarks.bold import cleaned
from benchmarks.fits import apart
from benchmarks.problems import table
from benchmarks.real_like import simulate_series
from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.simulate import (
    simulate_bold_groups,
    simulate_misfit,
    simulate_perturbed,
    simulate_thresholded,
)
from mtgbn.simulate.perturbed import random_network
from mtgbn.tasks import effective_samples

N_TASKS, N_ROWS = 20, 60


def bold_series(seed: int) -> list[np.ndarray]:
    """Simulated BOLD series of 20 regions."""
    simulation = simulate_bold_groups(
        N_TASKS, 0, regions=20, density=0.21, n_altered=0, random_state=seed
    )
    return [cleaned(each, simulation.repetition_time) for each in simulation.series]


def dag_rows(seed: int, level: float) -> list[np.ndarray]:
    """Rows of changed copies of a random DAG."""
    network = random_network(30, 45, random_state=seed)
    rows = 2 * N_ROWS
    return simulate_perturbed(network, N_TASKS, rows, level=level, random_state=seed + 1000).arrays


def misfit_rows(seed: int, misfit) -> list[np.ndarray]:
    return simulate_misfit(misfit, N_TASKS, 15, 2 * N_ROWS, random_state=seed).arrays


def thresholded_rows(seed: int, nu0: float) -> list[np.ndarray]:
    return simulate_thresholded(N_TASKS, 15, 2 * N_ROWS, nu0=nu0, random_state=seed).arrays


SERIES = {
    "BOLD, 20 regions": bold_series,
    "real-like, 30 regions": lambda seed: simulate_series(N_TASKS, seed),
    "autocorrelated": lambda seed: misfit_rows(seed, "autocorrelated"),
    "lagged": lambda seed: misfit_rows(seed, "lagged"),
    "delays": lambda seed: misfit_rows(seed, "delays"),
}
ROWS = {
    "none": lambda seed: misfit_rows(seed, "none"),
    "hidden cause": lambda seed: misfit_rows(seed, "hidden_cause"),
    "saturating": lambda seed: misfit_rows(seed, "saturating"),
    "heavy tails": lambda seed: misfit_rows(seed, "heavy_tails"),
    "thresholded, nu0 30": lambda seed: thresholded_rows(seed, 30.0),
    "thresholded, nu0 200": lambda seed: thresholded_rows(seed, 200.0),
    "DAG, 10 % changed": lambda seed: dag_rows(seed, 0.1),
    "DAG, 30 % changed": lambda seed: dag_rows(seed, 0.3),
}


def measure(kind: str, seed: int) -> dict[str, list[float]]:
    """Per method: log density of a row, changes of sign, those that chance allows, CPU seconds."""
    is_series = kind in SERIES
    arrays = (SERIES if is_series else ROWS)[kind](seed)
    learned, left_out = [], []
    for rows in arrays:
        half = len(rows) // 2
        centre, scale = rows[:half].mean(axis=0), rows[:half].std(axis=0)
        learned.append((rows[:half] - centre) / scale)
        left_out.append((rows[half:] - centre) / scale)
    sizes = [effective_samples(each) for each in learned] if is_series else None
    tasks = Tasks.from_arrays(learned, effective_samples=sizes)
    results = {}
    for method in (SIG, AVG, MTGBN):
        start = time.process_time()
        fitted = method(random_state=seed, n_jobs=1).fit(tasks)
        seconds = time.process_time() - start
        densities = [
            multivariate_normal(cov=covariance).logpdf(rows).mean()
            for covariance, rows in zip(fitted.covariances_, left_out, strict=True)
        ]
        results[method.__name__] = [
            float(np.mean(densities)),
            *changes_of_sign(fitted, tasks),
            seconds,
        ]
    return results


def changes_of_sign(fitted, tasks: Tasks) -> tuple[float, float]:
    """Shares of coefficients whose sign is not that of the mean: found, and allowed by chance."""
    found, allowed = [], []
    for i, j in np.argwhere(fitted.graphs_.all(axis=0)):
        coefficients = fitted.coefficients_[:, i, j]
        mean = coefficients.mean()
        errors = []
        for t, graph in enumerate(fitted.graphs_):
            parents = np.flatnonzero(graph[:, j])
            others = parents[parents != i]
            scatter, n = tasks.scatters[t], tasks.ns[t]
            left = _residual(scatter, j, parents) / max(n - len(parents), 1.0)
            errors.append(np.sqrt(left / _residual(scatter, i, others)))
        found.append(np.mean(np.sign(coefficients) != np.sign(mean)))
        allowed.append(np.mean(norm.cdf(-abs(mean) / np.array(errors))))
    if not found:
        return np.nan, np.nan
    return float(np.mean(found)), float(np.mean(allowed))


def _residual(scatter: np.ndarray, node: int, given: np.ndarray) -> float:
    """Residual sum of squares of a node given others."""
    if not len(given):
        return float(scatter[node, node])
    cross = scatter[given, node]
    return float(
        scatter[node, node] - cross @ np.linalg.solve(scatter[np.ix_(given, given)], cross)
    )


def main(
    kinds: tuple[str, ...] = (*SERIES, *ROWS), n_problems: int = 5, first_seed: int = 500
) -> str:
    """One row per kind of data."""
    rows = []
    for kind in kinds:
        results = [apart(measure, kind, first_seed + k) for k in range(n_problems)]
        values = {
            name: np.array([result[name] for result in results]) for name in ("SIG", "AVG", "MTGBN")
        }
        row = [kind, f"{values['SIG'][:, 0].mean():.2f}"]
        for name in ("AVG", "MTGBN"):
            gain = values[name][:, 0] - values["SIG"][:, 0]
            row.append(f"{gain.mean():+.2f} ± {gain.std(ddof=1) / np.sqrt(n_problems):.2f}")
        signs = np.nanmean(values["MTGBN"][:, 1:3], axis=0)
        row.append(f"{signs[0]:.4f}, {signs[1]:.4f}")
        print(*row, sep=" | ", flush=True)
        rows.append(row)
    return table(["data", "SIG", "AVG - SIG", "MTGBN - SIG", "signs changed, allowed"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=[*SERIES, *ROWS])
    parser.add_argument("--problems", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=500)
    options = parser.parse_args()
    print(main(tuple(options.kinds), options.problems, options.first_seed))
