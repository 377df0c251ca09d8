"""Graphs of related tasks: MTGBN and its alternatives on the same data.

There are two designs with ten tasks of 15 variables: thresholded precision matrices, whose truth is
an undirected graph, and a perturbed DAG. The measure is the fraction of wrong pairs, averaged over
tasks. DAGs and CPDAGs are judged by their skeleton. Precision matrices do not distinguish a
skeleton from a moral graph, so with a DAG as the truth they are judged by the nearer of the two.
Rows "best threshold" drop elements below the one threshold that is best for all tasks of a problem.
This needs the truth: it is a bound, not a method.

MTGBN uses variances that the tasks have in common, so it gets the rows as they are, and in another
row standardised. The difference is large with thresholded matrices, and almost none with the
perturbed DAG, whose rows are standardised already. All other methods get standardised rows. SIG and
BOSS are invariant to this, and the penalties of the other methods need it.

Every method runs in its own process with one thread. Before its time is measured, it learns a small
known problem, which compiles its code and proves that no axis is misread. A peer that is missing,
fails or exceeds the limit of CPU time has a row that says so.
"""

import argparse
import contextlib
import inspect
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from benchmarks.peers import (
    ONE_THREAD,
    run_causal_learn_boss,
    run_causal_learn_boss_bic,
    run_causal_learn_boss_twice_bic,
    start_process,
)
from benchmarks.problems import table
from mtgbn import MTGBN, SIG
from mtgbn.graphs import skeleton
from mtgbn.graphs.dags import moral_graph
from mtgbn.simulate import simulate_perturbed, simulate_thresholded
from mtgbn.simulate.perturbed import random_network


class Method(NamedTuple):
    """A function of the rows of all tasks and a seed; non-zero weights (m, p, p) are edges."""

    learn: Callable[[list[np.ndarray], int], np.ndarray]
    undirected: bool = False
    has_weights: bool = False
    """Whether the table has a row with the best threshold."""
    slow: bool = False
    """Whether the quick setting leaves it out."""
    standardise: bool = True


class Problem(NamedTuple):
    """Rows per task, and the two graphs that may count as the truth, (m, p, p) each."""

    arrays: list[np.ndarray]
    skeletons: np.ndarray
    morals: np.ndarray


def learn_mtgbn(arrays, seed, **settings):
    return MTGBN(random_state=seed, n_jobs=1, **settings).fit(arrays).graphs_


def learn_sig(arrays, seed):
    return SIG(random_state=seed, n_jobs=1).fit(arrays).graphs_


def learn_singly(learn, arrays, seed):
    """Learn every task separately with a function of benchmarks.peers."""
    return np.array([learn(array, seed) for array in arrays])


def learn_lingam(arrays, seed):
    import lingam

    return np.array(
        lingam.MultiGroupDirectLiNGAM(random_state=seed).fit(arrays).adjacency_matrices_
    )


def learn_gglasso(penalty, arrays, seed):
    from gglasso.problem import glasso_problem

    correlations = np.array([np.corrcoef(array.T) for array in arrays])
    counts = np.array([len(array) for array in arrays])
    problem = glasso_problem(correlations, counts, reg=penalty)
    problem.model_selection(method="eBIC")
    return partial_correlations(problem.solution.precision_)


def learn_nilearn(arrays, seed):
    from nilearn.connectome import GroupSparseCovarianceCV

    return partial_correlations(
        np.moveaxis(GroupSparseCovarianceCV().fit(arrays).precisions_, -1, 0)
    )


def partial_correlations(precisions: np.ndarray) -> np.ndarray:
    """Partial correlations up to the sign; on this scale one threshold fits all elements."""
    deviations = np.sqrt(np.diagonal(precisions, axis1=1, axis2=2))
    return precisions / (deviations[:, :, None] * deviations[:, None, :])


NILEARN = "nilearn GroupSparseCovarianceCV"


def methods() -> dict[str, Method]:
    """All methods; the two kinds of inference of MTGBN, if this version has them."""
    named = "inference" in inspect.signature(MTGBN).parameters
    mtgbn = partial(learn_mtgbn, inference="map") if named else learn_mtgbn
    ours = {
        "MTGBN": Method(mtgbn, standardise=False),
        "MTGBN, standardised rows": Method(mtgbn),
    }
    if named:
        posterior = partial(learn_mtgbn, inference="posterior")
        ours["MTGBN, posterior"] = Method(posterior, standardise=False)
        ours["MTGBN, posterior, standardised rows"] = Method(posterior, slow=True)
    return ours | {
        "SIG": Method(learn_sig),
        "causal-learn BOSS": Method(partial(learn_singly, run_causal_learn_boss)),
        "causal-learn BOSS, twice BIC": Method(
            partial(learn_singly, run_causal_learn_boss_twice_bic)
        ),
        "causal-learn BOSS, BIC": Method(partial(learn_singly, run_causal_learn_boss_bic)),
        "lingam MultiGroupDirectLiNGAM": Method(learn_lingam, has_weights=True),
        "gglasso GGL, eBIC": Method(partial(learn_gglasso, "GGL"), True, True, True),
        "gglasso FGL, eBIC": Method(partial(learn_gglasso, "FGL"), True, True, True),
        NILEARN: Method(learn_nilearn, True, True, True),
    }


def thresholded(n: int, seed: int) -> Problem:
    simulation = simulate_thresholded(10, 15, n, nu0=60.0, random_state=seed)
    truths = simulation.adjacencies
    return Problem(simulation.arrays, truths, truths)


def perturbed(n: int, seed: int) -> Problem:
    network = random_network(15, 30, random_state=seed)
    simulation = simulate_perturbed(network, 10, n, level=0.1, random_state=seed)
    truths = simulation.adjacencies
    return Problem(
        simulation.arrays,
        np.array([skeleton(truth) for truth in truths]),
        np.array([moral_graph(truth) for truth in truths]),
    )


DESIGNS: dict[str, Callable[[int, int], Problem]] = {
    "thresholded precision matrices, nu0 = 60": thresholded,
    "perturbed DAG, 30 arcs, a tenth of them changed": perturbed,
}


def standardised(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [(array - array.mean(axis=0)) / array.std(axis=0) for array in arrays]


def small_problem() -> Problem:
    """Two tasks with one strong edge each, at different pairs; every method must weigh it most."""
    rng = np.random.default_rng(0)
    arrays, truths = [], np.zeros((2, 5, 5), dtype=bool)
    for truth, (i, j) in zip(truths, ((0, 1), (2, 4)), strict=True):
        rows = rng.standard_normal((200, 5))
        rows[:, j] += 1.5 * rows[:, i]
        arrays.append(rows)
        truth[[i, j], [j, i]] = True
    return Problem(arrays, truths, truths)


def errors(weights: np.ndarray, problem: Problem, undirected: bool) -> tuple[float, float]:
    """Fraction of wrong pairs, by default and with the best threshold; means over tasks."""
    truths = problem.skeletons
    if weights.shape != truths.shape or not np.isfinite(weights).all():
        raise ValueError(f"finite weights of shape {truths.shape} expected, got {weights.shape}")
    rows, columns = np.triu_indices(truths.shape[-1], 1)
    sizes = np.abs(weights.astype(float))
    sizes = np.maximum(sizes, sizes.transpose(0, 2, 1))[:, rows, columns]
    targets = [truths, problem.morals] if undirected else [truths]
    targets = [target[:, rows, columns] for target in targets]

    def error(threshold):
        return min(float(((sizes > threshold) != target).mean()) for target in targets)

    return error(0.0), min(map(error, np.unique(np.append(sizes, 0.0))))


def run(name: str, design: str, n: int, n_seeds: int, limit: float) -> tuple[list, str]:
    """Errors and CPU seconds of each problem up to a failure, and the reason of the failure."""
    method, results = methods()[name], []
    # Output and warnings of peers would hide the tables.
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(None):
        try:
            small = small_problem()
            if errors(method.learn(standardised(small.arrays), 0), small, method.undirected)[1] > 0:
                raise AssertionError("a small known problem was misread")
            for seed in range(n_seeds):
                problem = DESIGNS[design](n, seed)
                arrays = standardised(problem.arrays) if method.standardise else problem.arrays
                start = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, limit)
                try:
                    weights = method.learn(arrays, seed)
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                seconds = time.process_time() - start
                results.append((*errors(weights, problem, method.undirected), seconds))
        except TimeoutError:
            return results, f"more than {limit:g} s of CPU time"
        except Exception as error:
            lines = str(error).splitlines() or [""]
            # A vertical bar would end the cell of the table.
            return results, f"{type(error).__name__}: {lines[0][:80]}".replace("|", "/")
    return results, ""


def run_apart(*arguments) -> tuple[list, str]:
    """`run` in a fresh process."""
    with ProcessPoolExecutor(1, get_context("spawn"), start_process) as pool:
        try:
            return pool.submit(run, *arguments).result()
        except BrokenProcessPool:
            return [], "its process died"


def compare(design: str, n: int, seeds: dict[str, int], limit: float) -> str:
    """A table with one or two rows per method; ``seeds`` has the number of problems of each."""
    rows, ours, known = [], np.nan, methods()
    for name, n_seeds in seeds.items():
        results, reason = run_apart(name, design, n, n_seeds, limit)
        failure = f"failed: {reason}" if reason else ""
        if not results:
            rows.append([name, f"0 of {n_seeds}", failure, "-", "-"])
            continue
        values = np.array(results)
        seconds = values[:, 2].mean()
        if name == "MTGBN":
            ours = seconds
        done = f"{len(results)} of {n_seeds}" + (f", then {failure}" if failure else "")
        times = [f"{seconds:.3g}", f"{seconds / ours:.2g}"]
        rows.append([name, done, mean_text(values[:, 0]), *times])
        if known[name].has_weights:
            rows.append([f"{name}, best threshold", done, mean_text(values[:, 1]), *times])
    return table(["", "problems", "error", "CPU, s", "to MTGBN"], rows)


def mean_text(values: np.ndarray) -> str:
    """Mean, with its standard error if there is one."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def main(
    quick: bool = False,
    n_seeds: int = 3,
    n_nilearn_seeds: int = 1,
    only: str = "",
    limit: float = 900.0,
) -> str:
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), PYTHONHASHSEED="0")
    if quick:
        n_seeds = 1
    seeds = {
        name: min(n_nilearn_seeds, n_seeds) if name == NILEARN else n_seeds
        for name, method in methods().items()
        if only.lower() in name.lower() and not (quick and method.slow)
    }
    seeds = {name: count for name, count in seeds.items() if count > 0}
    parts = []
    for design in DESIGNS:
        for n in (50,) if quick else (50, 250):
            parts.append(f"### {design}, n = {n}\n\n{compare(design, n, seeds, limit)}")
            print(parts[-1], file=sys.stderr, flush=True)
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="one problem each, n = 50, without the slow methods"
    )
    parser.add_argument("--seeds", type=int, default=3, help="problems per design and n")
    parser.add_argument(
        "--nilearn-seeds", type=int, default=1, help="problems for nilearn; 0 leaves it out"
    )
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--limit", type=float, default=900.0, help="CPU seconds per fit")
    given = parser.parse_args()
    print(main(given.quick, given.seeds, given.nilearn_seeds, given.only, given.limit))
