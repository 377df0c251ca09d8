"""Graphs of single tasks: accuracy and CPU time against causal-learn, ges and pgmpy.

Every program gets the same standardised rows, one task at a time, and returns a CPDAG, which is
compared with the CPDAG of the truth. It runs in its own process with one thread. A call that takes
more CPU time than the limit is stopped, and that program does no further tasks and no larger sizes.
Before the time is measured, every program learns a small known graph. This compiles its code
(kernels do not depend on the size) and proves that its convention for adjacencies is read
correctly.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from benchmarks.problems import shared_dag_tasks, table
from mtgbn import SIG
from mtgbn.graphs import cpdag
from mtgbn.metrics import compare_adjacencies, compare_arrowheads


class Size(NamedTuple):
    """Size of a problem: m tasks with p variables, n rows and n_edges edges each."""

    m: int
    p: int
    n: int
    n_edges: int
    n_measured: int
    """Tasks that are learned; the slowest program limits the number."""


SIZES = [Size(10, 15, 250, 30, 10), Size(10, 46, 250, 70, 3)] + [
    Size(1, p, 500, 3 * p // 2, n_measured) for p, n_measured in ((100, 5), (200, 1), (400, 1))
]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run_mtgbn(array, seed):
    return SIG(random_state=seed, n_jobs=1).fit([array]).cpdags_[0]


def from_causal_learn(graph) -> np.ndarray:
    """CPDAG of causal-learn, in which i -> j has [i, j] = -1 (tail) and [j, i] = 1 (arrowhead)."""
    ends = graph.graph
    assert not ((ends == 1) & (ends.T == 1)).any(), "a bidirected edge is in no CPDAG"
    return ends == -1


def run_causal_learn_boss(array, seed, **settings):
    from causallearn.search.PermutationBased.BOSS import boss as their_boss

    random.seed(seed)
    return from_causal_learn(their_boss(array, verbose=False, **settings))


def run_causal_learn_boss_bic(array, seed):
    return run_causal_learn_boss(array, seed, parameters={"lambda_value": 0.5})


def run_causal_learn_boss_twice_bic(array, seed):
    return run_causal_learn_boss(array, seed, parameters={"lambda_value": 1.0})


def run_causal_learn_ges(array, seed):
    from causallearn.search.ScoreBased.GES import ges

    return from_causal_learn(ges(array)["G"])


def run_causal_learn_pc(array, seed):
    from causallearn.search.ConstraintBased.PC import pc

    return from_causal_learn(pc(array, show_progress=False).G)


def run_ges(array, seed):
    import ges

    return ges.fit_bic(array)[0] != 0


def run_pgmpy(array, seed):
    import networkx as nx
    from pgmpy.causal_discovery import HillClimbSearch

    search = HillClimbSearch(scoring_method="bic-g", return_type="dag", show_progress=False)
    names = [f"x{j}" for j in range(array.shape[1])]  # pgmpy's names for the columns of an array
    return cpdag(nx.to_numpy_array(search.fit(array).causal_graph_, nodelist=names, weight=None))


# Every program with its largest number of variables; the next size would take hours.
PROGRAMS: dict[str, tuple[Callable[[np.ndarray, int], np.ndarray], int]] = {
    "mtgbn SIG": (run_mtgbn, 400),
    "causal-learn BOSS": (run_causal_learn_boss, 400),  # its default penalty is four times BIC's
    "causal-learn BOSS, twice BIC": (run_causal_learn_boss_twice_bic, 400),
    "causal-learn BOSS, BIC": (run_causal_learn_boss_bic, 200),
    "causal-learn GES": (run_causal_learn_ges, 46),
    "causal-learn PC": (run_causal_learn_pc, 200),
    "ges": (run_ges, 46),
    "pgmpy hill climbing": (run_pgmpy, 46),
}


def check_convention(program: Callable) -> None:
    """Check that a program recovers 0 -> 2 <- 1, 2 -> 3 and 4 - 5."""
    rows = np.random.default_rng(0).standard_normal((1000, 6))
    rows[:, 2] += rows[:, 0] + rows[:, 1]
    rows[:, 3] += rows[:, 2]
    rows[:, 5] += rows[:, 4]
    expected = np.zeros((6, 6), dtype=bool)
    expected[[0, 1, 2, 4, 5], [2, 2, 3, 5, 4]] = True
    found = program((rows - rows.mean(axis=0)) / rows.std(axis=0), 0)
    assert np.array_equal(found, expected), f"expected\n{expected + 0}\ngot\n{found + 0}"


def run(name: str, size: Size, n_tasks: int, limit: float) -> list[tuple[float, ...]]:
    """Distance, adjacency F, arrowhead F and CPU seconds of each task, up to the first stopped."""
    program, _ = PROGRAMS[name]
    check_convention(program)
    results = []
    for seed in range(n_tasks):
        rows, truth = task(size, seed)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            found = program(rows, seed)
        except TimeoutError:
            break
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - start
        adjacencies, arrowheads = (
            compare_adjacencies(found, truth),
            compare_arrowheads(found, truth),
        )
        results.append((adjacencies.distance, adjacencies.f_score, arrowheads.f_score, seconds))
    return results


def task(size: Size, number: int) -> tuple[np.ndarray, np.ndarray]:
    """One task and the CPDAG of its truth; with m = 1 every task is another problem."""
    seed, position = (number, 0) if size.m == 1 else (0, number)
    arrays, truths = shared_dag_tasks(*size[:4], seed=seed)
    return arrays[position], cpdag(truths[position])


def cut_off(*_) -> None:
    raise TimeoutError


def start_process() -> None:
    signal.signal(signal.SIGPROF, cut_off)


def compare(size: Size, names: list[str], n_tasks: int, limit: float) -> tuple[str, list[str]]:
    """A table of means over finished tasks with a row per program, and the programs not stopped."""
    rows, finished, ours = [], [], np.nan
    for name in names:
        with ProcessPoolExecutor(1, get_context("spawn"), start_process) as pool:
            results = pool.submit(run, name, size, n_tasks, limit).result()
        if len(results) == n_tasks:
            finished.append(name)
            above, seconds = "", np.mean([result[-1] for result in results])
        else:
            above, seconds = "> ", limit
        if name == "mtgbn SIG":
            ours = seconds
        accuracy = ["-"] * 3
        if results:
            distance, adjacency, arrowhead, _ = np.mean(results, axis=0)
            accuracy = [f"{distance:.1f}", f"{adjacency:.3f}", f"{arrowhead:.3f}"]
        times = [f"{above}{seconds:.3g}", f"{above}{seconds / ours:.0f}"]
        rows.append([name, f"{len(results)} of {n_tasks}", *accuracy, *times])
    header = ["", "tasks", "distance", "adjacency F", "arrowhead F", "CPU, s", "to mtgbn"]
    return table(header, rows), finished


def main(quick: bool = False, limit: float = 900.0) -> str:
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), PYTHONHASHSEED="0")
    parts, names = [], list(PROGRAMS)
    for size in SIZES[:1] if quick else SIZES:
        names = [name for name in names if PROGRAMS[name][1] >= size.p]
        rows, names = compare(size, names, 1 if quick else size.n_measured, limit)
        title = f"m = {size.m}, p = {size.p}, n = {size.n}, {size.n_edges} edges"
        parts.append(f"### {title}\n\n{rows}")
        print(parts[-1], file=sys.stderr, flush=True)
    return "\n\n".join(parts)


def fastest(limit: float = 900.0) -> str:
    """SIG against the same kind of search in causal-learn, at all sizes."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), PYTHONHASHSEED="0")
    parts = []
    for size in SIZES:
        rows, _ = compare(size, ["mtgbn SIG", "causal-learn BOSS"], min(size.n_measured, 3), limit)
        parts.append(f"### p = {size.p}, n = {size.n}, {size.n_edges} edges\n\n{rows}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one task of the smallest problem")
    print(main(parser.parse_args().quick))
