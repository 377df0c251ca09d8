"""MTGBN with its defaults against SIG and AVG with estimated density, by kind of tasks.

The measures are the skeleton error (fraction of wrong pairs) and the arrowhead error between CPDAGs
(fraction of wrong ordered pairs), as means over tasks, then over problems, with standard errors.
For thresholded data the truth is an undirected graph without arrowheads, which an empty graph would
match. There an undirected edge counts as two ordered pairs, and an arrow has one of them.
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from benchmarks.peers import ONE_THREAD
from benchmarks.problems import table
from mtgbn import AVG, MTGBN, SIG
from mtgbn.graphs import cpdag
from mtgbn.metrics import compare_adjacencies, compare_arrowheads
from mtgbn.simulate import simulate_perturbed, simulate_thresholded
from mtgbn.simulate.perturbed import random_network

UNEQUAL = (20, 20, 30, 40, 60, 100, 150, 200, 300, 400)


def thresholded(seed: int, nu0: float, n, m: int = 10):
    """Thresholded inverse Wishart precisions, 15 variables."""
    return simulate_thresholded(m, 15, n, nu0=nu0, random_state=seed)


def perturbed(seed: int, n, *, p: int = 46, edges: int = 70, m: int = 10, **options):
    """A random DAG, changed in every task."""
    network = random_network(p, edges, random_state=seed)
    return simulate_perturbed(network, m, n, random_state=seed + 1000, **options)


ROWS = {
    **{
        f"thr {nu0}, n {n}": (thresholded, {"nu0": nu0, "n": n})
        for nu0 in (30, 60, 200)
        for n in (50, 250)
    },
    **{
        f"edges {f}, n {n}": (perturbed, {"level": f, "n": n})
        for f in (0.1, 0.3)
        for n in (50, 250)
    },
    **{
        f"pairs .05, n {n}": (perturbed, {"level": 0.05, "relative_to": "pairs", "n": n})
        for n in (50, 250)
    },
    "thr 60, n 100, m 2": (thresholded, {"nu0": 60, "n": 100, "m": 2}),
    "thr 60, n 50, m 40": (thresholded, {"nu0": 60, "n": 50, "m": 40}),
    "thr 60, n 20 to 400": (thresholded, {"nu0": 60, "n": UNEQUAL}),
    "dag, n 50, m 2": (perturbed, {"n": 50, "m": 2, "p": 15, "edges": 30}),
    "dag, n 50, m 40": (perturbed, {"n": 50, "m": 40, "p": 15, "edges": 30}),
    "dag, n 20 to 400": (perturbed, {"n": UNEQUAL, "p": 15, "edges": 30}),
    "4 of 12 unrelated, n 50": (
        perturbed,
        {"n": 50, "m": 12, "p": 15, "edges": 30, "n_unrelated": 4},
    ),
    "4 of 12 unrelated, n 100": (
        perturbed,
        {"n": 100, "m": 12, "p": 15, "edges": 30, "n_unrelated": 4},
    ),
    "all unrelated, n 50": (perturbed, {"n": 50, "p": 15, "edges": 30, "n_unrelated": 10}),
    "all unrelated, n 100": (perturbed, {"n": 100, "p": 15, "edges": 30, "n_unrelated": 10}),
}


def methods(n_rounds: int) -> dict:
    found = {
        "SIG": SIG(edge_prior="density"),
        "AVG": AVG(edge_prior="density"),
        "map": MTGBN(),
    }
    if n_rounds:
        found["posterior"] = MTGBN(inference="posterior", n_rounds=n_rounds)
    return found


def arrowhead_error(learned: np.ndarray, truth: np.ndarray, is_undirected: bool) -> float:
    if not is_undirected:
        return compare_arrowheads(learned, truth).error
    return float((learned != truth).sum() / (len(truth) * (len(truth) - 1)))


def measure(row: str, seed: int, n_rounds: int) -> dict[str, list[float]]:
    """Per method: skeleton and arrowhead error, CPU seconds, skeleton error of unrelated tasks."""
    warnings.simplefilter("ignore")
    make, options = ROWS[row]
    simulation = make(seed, **options)
    truths = simulation.adjacencies
    patterns = truths if make is thresholded else [cpdag(truth) for truth in truths]
    n_unrelated = options.get("n_unrelated", 0)
    found = {}
    for name, estimator in methods(n_rounds).items():
        start = time.process_time()
        estimator.set_params(random_state=seed, n_jobs=1).fit(simulation.tasks)
        seconds = time.process_time() - start
        pairs = list(zip(estimator.cpdags_, patterns, strict=True))
        errors = [compare_adjacencies(*pair).error for pair in pairs]
        arrows = [arrowhead_error(*pair, make is thresholded) for pair in pairs]
        of_unrelated = np.mean(errors[:n_unrelated]) if n_unrelated else np.nan
        found[name] = [float(np.mean(errors)), float(np.mean(arrows)), seconds, float(of_unrelated)]
    return found


def main(
    seeds: int = 10,
    posterior_seeds: int = 0,
    n_rounds: int = 1000,
    *,
    first_seed: int = 0,
    only: str = "",
    jobs: int = 1,
) -> str:
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    lines = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for row in (row for row in ROWS if only in row):
            jobs_done = [
                pool.submit(measure, row, first_seed + k, n_rounds * (k < posterior_seeds))
                for k in range(seeds)
            ]
            results = [job.result() for job in jobs_done]
            cells = [row]
            for name in ("SIG", "AVG", "map", "posterior"):
                values = np.array([result[name] for result in results if name in result])
                if not len(values):
                    cells += ["-", "-"]
                    continue
                spread = (
                    values.std(axis=0, ddof=1) / np.sqrt(len(values))
                    if len(values) > 1
                    else values[0] * np.nan
                )
                text = f"{values[:, 0].mean():.4f} ± {spread[0]:.4f}"
                if not np.isnan(values[:, 3]).all():
                    text += f" [{values[:, 3].mean():.4f} ± {spread[3]:.4f}]"
                cells += [text, f"{values[:, 1].mean():.4f}"]
            cells.append(f"{np.mean([result['map'][2] for result in results]):.1f}")
            lines.append(cells)
            print(table(HEADER, [cells]).splitlines()[-1], flush=True)
    return table(HEADER, lines)


_METHODS = ("SIG", "AVG", "map", "posterior")
_COLUMNS = [column for name in _METHODS for column in (name, "arrows")]
HEADER = ["data", *_COLUMNS, "map, CPU s"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--posterior-seeds", type=int, default=0, help="problems with a posterior estimate"
    )
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of the posterior estimate")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one problem per row")
    given = parser.parse_args()
    print(
        main(
            1 if given.quick else given.seeds,
            given.posterior_seeds,
            given.rounds,
            first_seed=given.first_seed,
            only=given.only,
            jobs=given.jobs,
        )
    )
