"""Draw docs/images/sharing.svg: what tasks gain from a shared sigma_h, against n.

Fifteen tasks with ten variables are simulated from the model (complete graphs, nu0 = 40), twenty times
for each number of rows. Every task's covariance matrix is estimated from its own rows, from all rows
pooled, and by its posterior mean under the sigma_h that mtgbn draws from all tasks.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mtgbn import Tasks
from mtgbn.sampling import sample_sigma_h
from mtgbn.simulate import draw_covariance

M, P, NU0, REPETITIONS = 15, 10, 40.0, 20
ROWS = (8, 12, 20, 40, 80, 160, 320)


def relative_errors(n_rows: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((P, 2 * P))
    sigma_h = (NU0 - P - 1) * root @ root.T / (2 * P)
    graph = np.triu(np.ones((P, P), dtype=bool), 1)
    covariances = np.array([draw_covariance(graph, sigma_h, NU0, rng) for _ in range(M)])
    rows = [rng.multivariate_normal(np.zeros(P), c, n_rows) for c in covariances]
    tasks = Tasks.from_arrays(rows)
    graphs = np.repeat(graph[None], M, axis=0)
    draws = sample_sigma_h(tasks, graphs, NU0, n_draws=50, n_warmup=150, random_state=seed)
    degrees = (NU0 + tasks.ns - P - 1)[:, None, None]
    pooled, n = tasks.pooled_scatter()
    estimates = {
        "own rows only": tasks.scatters / tasks.ns[:, None, None],
        "all tasks pooled": np.repeat((pooled / n)[None], M, axis=0),
        "shared sigma_h": (draws.mean + tasks.scatters) / degrees,
    }
    size = np.linalg.norm(covariances, axis=(1, 2))
    return {
        name: float(np.mean(np.linalg.norm(estimate - covariances, axis=(1, 2)) / size))
        for name, estimate in estimates.items()
    }


def main() -> None:
    results = {n: [relative_errors(n, seed) for seed in range(REPETITIONS)] for n in ROWS}
    plt.rcParams["svg.hashsalt"] = "sharing"  # the same file every time
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    styles = {
        "own rows only": ("#D55E00", "s"),
        "all tasks pooled": ("#0072B2", "^"),
        "shared sigma_h": ("#009E73", "o"),
    }
    for name, (colour, marker) in styles.items():
        values = np.array([[run[name] for run in results[n]] for n in ROWS])
        mean, error = values.mean(axis=1), values.std(axis=1) / np.sqrt(REPETITIONS)
        axes.errorbar(ROWS, mean, 2 * error, color=colour, marker=marker, label=name)
        for n, value in zip(ROWS, mean, strict=True):
            print(f"{name:>18} {n:4d} rows: {value:.3f}")
    axes.set(xscale="log", yscale="log", xlabel="rows per task", xticks=ROWS)
    axes.set_xticklabels(ROWS)
    axes.minorticks_off()
    axes.set_yticks([0.1, 0.2, 0.4, 0.8], ["10 %", "20 %", "40 %", "80 %"])
    axes.set_ylabel("error of a task's covariance")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
