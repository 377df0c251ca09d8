"""Draw docs/images/wrong_edges.svg: wrong edges per task against the rows per task, three methods.

Ten tasks with 15 variables share most of a DAG with 30 edges: each lacks three of them and has three of
its own (`benchmarks.problems.shared_dag_tasks`). Ten problems for each number of rows; all settings at
their defaults. Run from the top of the repository: python -m docs.images.wrong_edges
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.problems import shared_dag_tasks
from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.metrics import compare_adjacencies

ROWS = (30, 60, 120, 250, 500)
REPETITIONS = 10
STYLES = {
    SIG: ("each task alone (SIG)", "#D55E00", "s"),
    AVG: ("all tasks as one (AVG)", "#0072B2", "^"),
    MTGBN: ("all tasks together (MTGBN)", "#009E73", "o"),
}


def wrong_edges(n_rows: int, seed: int) -> dict[type, float]:
    arrays, truths = shared_dag_tasks(10, 15, n_rows, 30, seed=seed)
    tasks = Tasks.from_arrays(arrays)
    return {
        kind: float(
            np.mean(
                [
                    compare_adjacencies(graph, truth).distance
                    for graph, truth in zip(
                        kind(random_state=seed, n_jobs=-1).fit(tasks).graphs_, truths, strict=True
                    )
                ]
            )
        )
        for kind in STYLES
    }


def main() -> None:
    results = {n: [wrong_edges(n, seed) for seed in range(REPETITIONS)] for n in ROWS}
    plt.rcParams["svg.hashsalt"] = "wrong edges"  # the same file every time
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for kind, (label, colour, marker) in STYLES.items():
        values = np.array([[run[kind] for run in results[n]] for n in ROWS])
        mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(REPETITIONS)
        axes.errorbar(ROWS, mean, 2 * error, color=colour, marker=marker, label=label)
        for n, value in zip(ROWS, mean, strict=True):
            print(f"{kind.__name__:>6} {n:4d} rows: {value:.2f}")
    axes.set(xscale="log", xlabel="rows per task", ylabel="wrong edges per task (of 30)")
    axes.set_xticks(ROWS, ROWS)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper center")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
