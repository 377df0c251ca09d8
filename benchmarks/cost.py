"""CPU time of MTGBN with fixed and with estimated parameters, of edge probabilities, and mixing.

Ten tasks with 15 or 46 variables and 250 rows; kernels are compiled in advance. Posterior estimates
of 46 variables are left out.
"""

import time
import warnings

import numpy as np

from benchmarks import missing
from benchmarks.adaptive import perturbed
from benchmarks.problems import run_with_seeds, table
from mtgbn import MTGBN

DESIGNS = {
    **{f"{name}, p 15": design for name, design in missing.DESIGNS.items()},
    "dag, p 46": lambda seed: perturbed(seed, 250, level=0.1),
}


def seconds(estimator: MTGBN, tasks) -> tuple[float, MTGBN]:
    start = time.process_time()
    estimator.fit(tasks)
    return time.process_time() - start, estimator


def measure(design: str, seed: int, with_posterior: bool) -> list[float]:
    """CPU seconds of three fits, and the fraction of pairs with R-hat below 1.05."""
    tasks = DESIGNS[design](seed).tasks
    p = tasks.n_variables
    common = {"random_state": seed, "n_jobs": 1}
    fixed, _ = seconds(MTGBN(nu0=p + 49, edge_prior=(1 / (p - 1), 4.0), **common), tasks)
    estimated, _ = seconds(MTGBN(**common), tasks)
    if not with_posterior:
        return [fixed, estimated, np.nan, np.nan]
    posterior, estimator = seconds(MTGBN(inference="posterior", **common), tasks)
    pairs = np.triu_indices(p, 1)
    rhat = estimator.edge_diagnostics_.rhat[:, pairs[0], pairs[1]]
    return [fixed, estimated, posterior, float(np.mean(rhat < 1.05))]


def main(quick: bool = False, seeds: int = 3) -> str:
    warnings.simplefilter("ignore")
    rows = []
    for design in DESIGNS:
        with_posterior = "15" in design
        measure(design, 0, False)  # compiles
        values = np.mean(
            [measure(design, seed, with_posterior) for seed in range(1 if quick else seeds)], axis=0
        )
        fixed, estimated, posterior, share = values
        cells = [f"{fixed:.1f}", f"{estimated:.1f}", f"{estimated / fixed:.2f}"]
        cells += [f"{posterior:.0f}", f"{share:.1%}"] if with_posterior else ["-", "-"]
        rows.append([design, *cells])
    header = ["", "fixed, s", "map, s", "ratio", "posterior, s", "R-hat below 1.05"]
    return table(header, rows)


if __name__ == "__main__":
    run_with_seeds(main, __doc__, 3)
