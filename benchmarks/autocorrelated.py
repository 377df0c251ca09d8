"""False edges of autocorrelated series: all rows counted, effective samples, and independent rows.

First-order series with coefficient rho, eleven regions, 230 volumes and ten subjects. The regions
are unconnected, or the subjects share a DAG of 14 edges, each with its own coefficients.
"Independent" means rows without autocorrelation, as many as the theoretical number of effective
samples.
"""

import sys
import warnings

import numpy as np

from benchmarks.bold import mean_and_error
from benchmarks.problems import run_with_seeds, table
from mtgbn import MTGBN, SIG, Tasks
from mtgbn.graphs import skeleton
from mtgbn.simulate.bold import autoregression
from mtgbn.simulate.perturbed import random_network

N_SUBJECTS, N_REGIONS, N_ROWS = 10, 11, 230
DESIGNS = {"unconnected regions": 0, "14 edges": 14}
RHOS = (0.0, 0.3, 0.6, 0.8, 0.9)


def simulate(
    rho: float, n_rows: int, n_edges: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Series of all subjects, with coefficient rho in all regions, and their common skeleton."""
    rng = np.random.default_rng(seed)
    network = random_network(N_REGIONS, n_edges, random_state=seed)
    series = []
    for _ in range(N_SUBJECTS):
        weights = network * np.exp(0.15 * rng.standard_normal(network.shape))
        noise = autoregression(rho, (n_rows, N_REGIONS), rng)
        series.append(np.linalg.solve((np.eye(N_REGIONS) - weights).T, noise.T).T)
    return series, skeleton(network != 0)


def measure(rho: float, n_edges: int, seed: int, quick: bool = False) -> dict[str, dict]:
    """Fractions of absent and of present pairs that are joined, by count of rows and method."""
    worth = N_ROWS * (1 - rho**2) / (1 + rho**2)
    sets = {
        "none": (simulate(rho, N_ROWS, n_edges, seed), "none"),
        "bartlett": (simulate(rho, N_ROWS, n_edges, seed), "bartlett"),
        "independent": (simulate(0.0, round(worth), n_edges, seed), "none"),
    }
    upper = np.triu(np.ones((N_REGIONS, N_REGIONS), dtype=bool), 1)
    found: dict[str, dict] = {}
    for way, ((series, truth), method) in sets.items():
        tasks = Tasks.from_arrays(series, standardise=True, effective_samples=method)
        settings = {"n_draws": 16, "n_restarts": 0, "max_iter": 2} if quick else {}
        for estimator in (SIG(edge_prior="density"), MTGBN(**settings)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.set_params(random_state=seed, n_jobs=1).fit(tasks)
            joined = np.array([skeleton(graph) for graph in estimator.graphs_])
            found.setdefault(way, {})[type(estimator).__name__] = (
                float(joined[:, upper & ~truth].mean()),
                float(joined[:, upper & truth].mean()) if n_edges else np.nan,
            )
        found[way]["n"] = float(tasks.ns.mean())
    return found


def main(quick: bool = False, seeds: int = 5) -> str:
    rows = []
    for design, n_edges in DESIGNS.items():
        for rho in RHOS[1::2] if quick else RHOS:
            results = [measure(rho, n_edges, seed, quick) for seed in range(1 if quick else seeds)]
            print(f"{design}, rho {rho}", file=sys.stderr, flush=True)
            worth = np.mean([each["bartlett"]["n"] for each in results])
            for name in ("SIG", "MTGBN"):
                cells = [design, f"{rho}", f"{worth:.0f}", name]
                for which in range(2 if n_edges else 1):
                    for way in ("none", "bartlett", "independent"):
                        cells.append(mean_and_error([each[way][name][which] for each in results]))
                rows.append(cells + ["-"] * (10 - len(cells)))
    ways = ("none", "bartlett", "independent")
    header = ["design", "rho", "n by bartlett", "method", *(f"false, {way}" for way in ways)]
    return table([*header, *(f"true, {way}" for way in ways)], rows)


if __name__ == "__main__":
    run_with_seeds(main, __doc__, 5)
