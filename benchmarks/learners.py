"""MTGBN against single tasks (SIG) and pooled tasks (AVG), with all defaults.

Accuracy on tasks that share most of a DAG, ten problems per size, each in its own process with one
thread.
"""

import argparse
import time

import numpy as np

from benchmarks.fits import apart
from benchmarks.problems import shared_dag_tasks, table
from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.graphs import cpdag
from mtgbn.metrics import compare_adjacencies, compare_arrowheads

# Tasks, variables, rows, edges.
SIZES = [(10, 15, 250, 30), (10, 46, 250, 70), (10, 15, 60, 30), (10, 46, 60, 70)]
N_SEEDS = 10


def measure(size: tuple[int, int, int, int], seed: int) -> dict[str, list[float]]:
    """Per method: distance, adjacency F, arrowhead F (means over tasks), CPU seconds."""
    arrays, truths = shared_dag_tasks(*size, seed=seed)
    tasks = Tasks.from_arrays(arrays)
    patterns = [cpdag(truth) for truth in truths]
    rows = {}
    for kind in (SIG, AVG, MTGBN):
        start = time.process_time()
        estimator = kind(random_state=seed, n_jobs=1).fit(tasks)
        seconds = time.process_time() - start
        pairs = list(zip(estimator.cpdags_, patterns, strict=True))
        adjacencies = [compare_adjacencies(*pair) for pair in pairs]
        arrowheads = [compare_arrowheads(*pair) for pair in pairs]
        rows[kind.__name__] = [
            float(np.mean([each.distance for each in adjacencies])),
            float(np.mean([each.f_score for each in adjacencies])),
            float(np.mean([each.f_score for each in arrowheads])),
            seconds,
        ]
    return rows


def accuracy(n_seeds: int) -> str:
    rows = []
    for size in SIZES:
        results = [apart(measure, size, seed) for seed in range(n_seeds)]
        for name in results[0]:
            values = np.array([result[name] for result in results])
            means = values.mean(axis=0)
            error = values[:, 0].std(ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.nan
            wins = np.mean([r[name][0] >= r["MTGBN"][0] for r in results]) * n_seeds
            rows.append(
                [
                    *size[1:3],
                    name,
                    f"{means[0]:.2f} ± {error:.2f}",
                    *(f"{mean:.3f}" for mean in means[1:3]),
                    f"{means[3]:.2f}",
                    f"{wins:.0f}" if name != "MTGBN" else "-",
                ]
            )
    header = [
        "p",
        "n",
        "",
        "distance",
        "adjacency F",
        "arrowhead F",
        "CPU, s",
        "not ahead of MTGBN",
    ]
    return table(header, rows)


def main(quick: bool = False) -> str:
    return accuracy(1 if quick else N_SEEDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one problem per size")
    print(main(parser.parse_args().quick))
