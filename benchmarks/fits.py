"""CPU time and memory of whole fits with all defaults, and their growth.

Tasks share a random DAG with 1.5 edges per variable. Each task lacks a tenth of these edges and has
as many edges of its own. Every fit runs in its own process with one thread, with kernels compiled
in advance. SIG, which learns single tasks, is timed in the same process on the same tasks.
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from benchmarks.peers import ONE_THREAD
from benchmarks.problems import largest_memory, shared_dag_tasks, table
from mtgbn import MTGBN, SIG, Tasks
from mtgbn.learn.estimator import Estimator
from mtgbn.paper import PaperMTGBN

# Tasks, variables, rows.
SIZES = [(3, 10, 250), (15, 30, 230), (10, 46, 250)]
GROWTH = {
    "m": [(m, 46, 250) for m in (10, 30, 100, 300, 1000)],
    "p": [(10, p, 500) for p in (46, 100, 200, 400)],
}
LARGE = [(200, 116, 200), (20, 400, 500)]

# CPU seconds of the paper's own code, by size, on the machine of docs/speed.md.
PAPERS_CODE = {(3, 10, 250): 66.0}

# From all defaults to the paper's method with corrected formulas; `optimum` measures how good the
# graphs of each are.
ESTIMATORS: dict[str, Estimator] = {
    "defaults": MTGBN(),
    "the paper's structure prior, best order score search": PaperMTGBN(search="boss"),
    "the paper's structure prior, hill climbing over all pairs with a tabu list": PaperMTGBN(
        candidates="all", tabu=10
    ),
    "the paper's structure prior and search": PaperMTGBN(),
}


class Fit(NamedTuple):
    """CPU seconds of a fit and of SIG, largest memory in GiB, EM iterations."""

    seconds: float
    single_seconds: float
    memory: float
    n_iter: int


def fit(size: tuple[int, int, int], estimator: Estimator, repetitions: int = 1) -> Fit:
    """Median of several fits, in this process."""
    warnings.simplefilter("ignore")
    m, p, n = size
    warm = Tasks.from_arrays(shared_dag_tasks(2, 5, 50, 5)[0])
    for each in (estimator, SIG()):
        each.set_params(random_state=0, n_jobs=1).fit(warm)
    tasks = Tasks.from_arrays(shared_dag_tasks(m, p, n, round(1.5 * p))[0])
    seconds, single_seconds = [], []
    for seed in range(repetitions):
        for each, times in ((SIG(n_jobs=1), single_seconds), (estimator, seconds)):
            each.set_params(random_state=seed)
            start = time.process_time()
            each.fit(tasks)
            times.append(time.process_time() - start)
    memory = largest_memory()
    return Fit(
        float(np.median(seconds)),
        float(np.median(single_seconds)),
        memory,
        estimator.n_iter_,
    )


def apart(function, *arguments):
    """Call a function in a fresh process."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _cells(size: tuple[int, int, int], found: Fit) -> list[str]:
    return [
        *map(str, size),
        f"{found.seconds:.3g}",
        f"{found.seconds / found.single_seconds:.1f}",
        f"{found.memory:.2f}",
        str(found.n_iter),
    ]


HEADER = ["m", "p", "n", "CPU, s", "to SIG", "memory, GiB", "iterations"]


def sizes(chosen: list[tuple[int, int, int]]) -> str:
    rows = []
    for size in chosen:
        found = apart(fit, size, MTGBN(), 5 if size[0] < 10 else 1)
        rows.append(_cells(size, found))
        print(rows[-1], flush=True)
    return table(HEADER, rows)


def against_the_papers_code() -> str:
    rows = []
    for size, theirs in PAPERS_CODE.items():
        for name, estimator in ESTIMATORS.items():
            found = apart(fit, size, estimator, 11)
            rows.append(
                [name, f"{theirs:.0f}", f"{found.seconds:.3f}", f"{theirs / found.seconds:.0f}"]
            )
    return table(["m = 3, p = 10, n = 250", "their code, s", "mtgbn, s", "ratio"], rows)


def growth(series: str) -> str:
    rows, before = [], None
    for size in GROWTH[series]:
        found = apart(fit, size, MTGBN())
        place = "mp".index(series)
        exponent = "-"
        if before is not None:
            ratio = np.log(found.seconds / before[1].seconds)
            exponent = f"{ratio / np.log(size[place] / before[0][place]):.2f}"
        before = size, found
        rows.append([*_cells(size, found), exponent])
        print(rows[-1], flush=True)
    first, last = (np.array([float(cell) for cell in row[:4]]) for row in (rows[0], rows[-1]))
    place = "mp".index(series)
    overall = np.log(last[3] / first[3]) / np.log(last[place] / first[place])
    return f"{table([*HEADER, 'exponent'], rows)}\n\nFrom first to last: {overall:.2f}."


def main(large: bool = False) -> str:
    parts = [
        ("A whole fit", sizes(SIZES)),
        ("Against the paper's own code", against_the_papers_code()),
        ("Growth with the tasks", growth("m")),
        ("Growth with the variables", growth("p")),
    ]
    if large:
        parts.append(("Large studies", sizes(LARGE)))
    return "\n\n".join(f"### {title}\n\n{text}" for title, text in parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--large", action="store_true", help="also the two largest sizes, 25 minutes"
    )
    print(main(parser.parse_args().large))
