"""The cost of ten per cent of the values missing completely at random, and of the alternatives.

Skeleton error of MTGBN on complete data, with missing values sampled (missing="em"), with column
means in their place, and with incomplete rows dropped. Ten tasks, 15 variables, 250 rows.
"""

import warnings

import numpy as np

from benchmarks.adaptive import perturbed, thresholded
from benchmarks.problems import run_with_seeds, table
from mtgbn import MTGBN
from mtgbn.metrics import compare_adjacencies

DESIGNS = {
    "dag": lambda seed: perturbed(seed, 250, p=15, edges=30),
    "thr 60": lambda seed: thresholded(seed, 60, 250),
}


def error(truths: np.ndarray, arrays: list[np.ndarray], seed: int, **options) -> float:
    estimator = MTGBN(random_state=seed, n_jobs=1, **options).fit(arrays)
    pairs = zip(estimator.graphs_, truths, strict=True)
    return float(np.mean([compare_adjacencies(*pair).error for pair in pairs]))


def measure(design: str, seed: int) -> list[float]:
    warnings.simplefilter("ignore")
    simulation = DESIGNS[design](seed)
    truths = simulation.adjacencies
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rows) for rows in simulation.arrays]
    lacking = [np.where(rng.random(rows.shape) < 0.1, np.nan, rows) for rows in arrays]
    filled = [np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows) for rows in lacking]
    dropped = [rows[~np.isnan(rows).any(axis=1)] for rows in lacking]
    return [
        error(truths, arrays, seed),
        error(truths, lacking, seed, missing="em"),
        error(truths, filled, seed),
        error(truths, dropped, seed),
    ]


def main(quick: bool = False, seeds: int = 5) -> str:
    rows = []
    for design in DESIGNS:
        values = np.array([measure(design, seed) for seed in range(1 if quick else seeds)])
        means = values.mean(axis=0)
        rows.append([design, *(f"{mean:.4f}" for mean in means), f"{means[1] / means[0]:.2f}"])
    header = ["", "complete", 'missing="em"', "column means", "rows dropped", "em / complete"]
    return table(header, rows)


if __name__ == "__main__":
    run_with_seeds(main, __doc__, 5)
