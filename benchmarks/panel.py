"""A panel of fits and comparisons, by whose arrays two versions are compared bit for bit.

`python -m benchmarks.panel OUT.npz [NAME ...]` computes the cases, or those named, and writes all their
arrays. `python -m benchmarks.panel --compare A.npz B.npz` lists the arrays that are not equal bit for
bit, and exits with 1 if there are any. Results depend on the processor and on the versions of the
packages, so that both files must come from one machine.
"""

import argparse
import contextlib
import hashlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mtgbn import AVG, MTGBN, SIG, Knowledge, Tasks, save_result
from mtgbn.compare import compare_groups
from mtgbn.compare.one_subject import compare_subject
from mtgbn.learn import bootstrap_edges
from mtgbn.paper import PaperMTGBN
from mtgbn.simulate import simulate_tasks

Arrays = dict[str, np.ndarray]

EDGES_KNOWN = Knowledge(
    required=[("x0", "x1")], forbidden=[("x2", "x3"), ("x4", "x0")], max_parents=3
)
TIERS_KNOWN = Knowledge(tiers=[["x0", "x1", "x2"], ["x3", "x4", "x5", "x6"]])

# Attributes of fitted estimators; an estimator has some of them.
ATTRIBUTES = (
    *("graphs_", "cpdags_", "edge_probabilities_", "adjacency_probabilities_", "membership_"),
    *("sigma_h_", "covariances_", "coefficients_", "residual_variances_", "nu0_", "n_iter_"),
    *("converged_", "agreement_", "order_", "history_", "diagnostics_"),
    *("edge_prior_", "edge_diagnostics_", "relatedness_"),
)


def simulated(m: int, p: int, n: int, seed: int) -> Tasks:
    """Tasks from the model."""
    return simulate_tasks(n_tasks=m, n_variables=p, n_rows=n, random_state=seed).tasks


def related_rows(m: int, p: int, n: int, seed: int) -> list[np.ndarray]:
    """Rows of tasks that share most of a DAG; each task has seven rows more than the one before."""
    rng = np.random.default_rng(seed)
    shared = np.triu(rng.normal(size=(p, p)) * (rng.random((p, p)) < 0.35), 1)
    order = np.argsort(np.cos(np.arange(p) * 2.3))
    arrays = []
    for t in range(m):
        own = shared * (1 + 0.2 * rng.normal(size=(p, p))) * (rng.random((p, p)) < 0.95)
        noise = rng.normal(size=(n + 7 * t, p))
        rows = np.zeros_like(noise)
        for j in range(p):
            rows[:, j] = noise[:, j] + rows @ own[:, j]
        arrays.append(rows[:, order])
    return arrays


def rows_with_gaps(m: int, p: int, n: int, seed: int) -> list[np.ndarray]:
    """Rows of related tasks, a twelfth of which is missing in all but the last task."""
    rng = np.random.default_rng(seed)
    arrays = related_rows(m, p, n, seed)
    for rows in arrays[:-1]:
        rows[rng.random(rows.shape) < 0.08] = np.nan
    return arrays


def rows_with_stranger() -> list[np.ndarray]:
    """Rows of five tasks, the third of which has nothing in common with the others."""
    arrays = related_rows(5, 7, 120, 10)
    mixing = np.random.default_rng(5).normal(size=(7, 7))
    arrays[2] = related_rows(1, 7, 150, 99)[0] @ mixing
    return arrays


def arrays_of(values: Any, prefix: str = "") -> Arrays:
    """All numbers, texts and arrays of them in a named tuple or a mapping, and in those within it."""
    arrays: Arrays = {}
    for name, value in (values if isinstance(values, Mapping) else values._asdict()).items():
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, Mapping) or hasattr(value, "_asdict"):
            arrays |= arrays_of(value, f"{prefix}{name}.")
        elif (array := np.asarray(value)).dtype.kind in "biufU":
            arrays[f"{prefix}{name}"] = array
    return arrays


def fitted(estimator: Any, data: Any) -> Arrays:
    """All results of a fit, and what it predicts."""
    return results_of(estimator.fit(data))


def results_of(estimator: Any) -> Arrays:
    """All results of a fitted estimator, and what it predicts."""
    arrays = arrays_of(
        {name: getattr(estimator, name) for name in ATTRIBUTES if hasattr(estimator, name)}
    )
    if hasattr(estimator, "draws_"):
        arrays["draws"] = estimator.draws_.sigma_h
        arrays |= arrays_of(estimator.draws_.statistics, "statistic.")
    tasks = estimator.tasks_
    points = np.linspace(-1, 1, 3 * tasks.n_variables).reshape(3, -1)
    return arrays | {
        "scatters": tasks.scatters,
        "centres": tasks.centres,
        "log_density": estimator.predict_log_density(0, points),
        "sample": estimator.sample(0, 4, random_state=1),
    }


class _InterruptedError(Exception):
    """What ends a fit before its end."""


def interrupted(make: Callable[[], Any], data: Any) -> Arrays:
    """Results of a fit that was interrupted in its second iteration and went on."""
    calls = 0

    def interrupt(_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise _InterruptedError

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.npz"
        with contextlib.suppress(_InterruptedError):
            make().fit(data, checkpoint=checkpoint, callback=interrupt)
        return results_of(make().fit(data, checkpoint=checkpoint))


def brief(**settings: Any) -> MTGBN:
    """The map estimate with few draws."""
    return MTGBN(n_draws=16, random_state=3, **settings)


def posterior(n_rounds: int, seed: int, **settings: Any) -> MTGBN:
    """The posterior estimate with few rounds."""
    return MTGBN(inference="posterior", n_rounds=n_rounds, random_state=seed, **settings)


def paper(**settings: Any) -> PaperMTGBN:
    """The paper's method."""
    return PaperMTGBN(random_state=1, **settings)


def prior_matrix() -> np.ndarray:
    """Probabilities of pairs, of which one is likely."""
    density = np.full((6, 6), 0.2)
    density[0, 1] = density[1, 0] = 0.9
    return density


def new_task() -> Arrays:
    """A task that comes after the fit, as a member and as a single task."""
    *rows, new = related_rows(6, 6, 60, 25)
    estimator = MTGBN(random_state=1).fit(rows)
    arrays: Arrays = {}
    for single in (False, True):
        found = estimator.fit_task(new, single=single, random_state=3)
        arrays |= arrays_of(found, "single." if single else "member.")
    return arrays


def two_groups(**options: Any) -> Arrays:
    """A comparison of two groups of four subjects."""
    rows = related_rows(4, 6, 60, 27) + related_rows(4, 6, 60, 28)
    tasks = Tasks.from_arrays(rows, standardise=True)
    study = compare_groups(tasks, np.arange(8) < 4, MTGBN(n_draws=16), random_state=5, **options)
    return arrays_of(dict(enumerate(study.templates)))


def one_subject() -> Arrays:
    """A subject of another kind compared with five controls."""
    rows = [*related_rows(5, 5, 60, 29), *related_rows(1, 5, 60, 30)]
    tasks = Tasks.from_arrays(rows, standardise=True)
    return arrays_of(
        compare_subject(tasks[list(range(5))], tasks[5], MTGBN(n_draws=16), random_state=5)
    )


def files() -> Arrays:
    """Checksums of the tables of a saved result."""
    with tempfile.TemporaryDirectory() as folder:
        save_result(brief().fit(related_rows(4, 5, 50, 31)), folder)
        return {
            path.name: np.frombuffer(hashlib.sha256(path.read_bytes()).digest(), dtype=np.uint8)
            for path in sorted(Path(folder).glob("*.tsv"))
        }


def bootstrap() -> Arrays:
    """Frequencies of edges over resamples."""
    rows = related_rows(3, 5, 50, 26)
    found = bootstrap_edges(rows, brief(), n_resamples=4, block_length=5, random_state=1)
    return {"edges": found.edge_frequencies, "adjacencies": found.adjacency_frequencies}


CASES: dict[str, Callable[[], Arrays]] = {
    "map": lambda: fitted(MTGBN(random_state=1), simulated(5, 8, 60, 1)),
    "map-15-variables": lambda: fitted(MTGBN(random_state=2), related_rows(10, 15, 90, 2)),
    "map-116-variables": lambda: fitted(
        MTGBN(random_state=0, max_iter=2), simulated(3, 116, 150, 12)
    ),
    "map-two-jobs": lambda: fitted(brief(n_jobs=2), related_rows(6, 9, 50, 3)),
    "map-one-task": lambda: fitted(brief(), related_rows(1, 6, 80, 11)),
    "map-stranger": lambda: fitted(MTGBN(random_state=4), rows_with_stranger()),
    "map-missing-values": lambda: fitted(brief(missing="em"), rows_with_gaps(4, 6, 40, 6)),
    "map-knowledge": lambda: fitted(brief(knowledge=EDGES_KNOWN), related_rows(4, 7, 60, 8)),
    "map-fixed-similarity": lambda: fitted(
        brief(edge_prior=(0.2, 1.0)), related_rows(4, 6, 60, 13)
    ),
    "map-density": lambda: fitted(brief(edge_prior="density"), related_rows(4, 6, 60, 13)),
    "map-fixed-edge-prior-and-nu0": lambda: fitted(
        brief(edge_prior=(0.2, 2.0), nu0=20.0), related_rows(4, 6, 60, 14)
    ),
    "map-matrix-of-densities": lambda: fitted(
        brief(edge_prior=(prior_matrix(), 3.0)), related_rows(4, 6, 60, 14)
    ),
    "map-own-directions": lambda: fitted(
        brief(shared_directions=False), related_rows(4, 6, 60, 15)
    ),
    "map-standardised": lambda: fitted(
        brief(),
        Tasks.from_arrays(
            related_rows(4, 6, 60, 16), standardise=True, effective_samples="bartlett"
        ),
    ),
    "posterior": lambda: fitted(posterior(60, 1), simulated(4, 7, 60, 4)),
    "posterior-one-task": lambda: fitted(posterior(30, 2), related_rows(1, 6, 80, 11)),
    "posterior-fixed-similarity": lambda: fitted(
        posterior(40, 1, edge_prior=(0.2, 1.0)), simulated(4, 6, 60, 5)
    ),
    "posterior-missing-values": lambda: fitted(
        posterior(40, 0, missing="em"), rows_with_gaps(3, 5, 30, 7)
    ),
    "posterior-tiers": lambda: fitted(
        posterior(40, 5, knowledge=TIERS_KNOWN), related_rows(4, 7, 60, 9)
    ),
    "paper": lambda: fitted(paper(), simulated(4, 7, 80, 17)),
    "paper-best-order-score-search": lambda: fitted(paper(search="boss"), simulated(4, 7, 80, 17)),
    "paper-scale-free": lambda: fitted(
        paper(structure_prior="scale_free", candidates="pooled", tabu=5), simulated(4, 7, 80, 18)
    ),
    "paper-decomposable": lambda: fitted(
        paper(structure_prior="decomposable", nu0=54, edge_prior=0.5), simulated(3, 5, 80, 19)
    ),
    "paper-knowledge": lambda: fitted(
        paper(search="boss", knowledge=EDGES_KNOWN), related_rows(3, 6, 60, 20)
    ),
    "interrupted-map": lambda: interrupted(
        lambda: brief(tol=0.0, max_iter=4), related_rows(4, 7, 50, 21)
    ),
    "interrupted-posterior": lambda: interrupted(
        lambda: posterior(40, 2), related_rows(3, 6, 50, 22)
    ),
    "interrupted-map-missing-values": lambda: interrupted(
        lambda: brief(missing="em", tol=0.0, max_iter=4), rows_with_gaps(3, 5, 40, 23)
    ),
    "interrupted-paper": lambda: interrupted(
        lambda: paper(tol=0.0, max_iter=4), related_rows(3, 6, 50, 22)
    ),
    "single-tasks": lambda: fitted(SIG(random_state=1), related_rows(4, 9, 60, 24)),
    "single-tasks-knowledge": lambda: fitted(
        SIG(random_state=1, edge_prior="density", knowledge=EDGES_KNOWN), related_rows(4, 9, 60, 24)
    ),
    "pooled": lambda: fitted(AVG(random_state=1, edge_prior="density"), related_rows(4, 9, 60, 24)),
    "new-task": new_task,
    "bootstrap": bootstrap,
    "two-groups-templates": lambda: two_groups(
        templates={"front": ["x0", "x1", "x2", "x3"], "all": [f"x{k}" for k in range(6)]}
    ),
    "two-groups-relabelled": lambda: two_groups(n_permutations=3, methods=("mtgbn", "sig")),
    "one-subject": one_subject,
    "files": files,
}


def compute(path: Path, names: list[str]) -> None:
    """Compute cases and write their arrays, each named CASE/ARRAY."""
    found = {}
    for name in names or CASES:
        start = time.perf_counter()
        arrays = CASES[name]()
        found |= {f"{name}/{key}": array for key, array in arrays.items()}
        seconds = time.perf_counter() - start
        print(f"{name}: {len(arrays)} arrays, {seconds:.1f} s", file=sys.stderr, flush=True)
    np.savez(path, **found)


class Differences(NamedTuple):
    """Names of arrays that differ, and of arrays that only one of two files has."""

    different: list[str]
    in_one_only: list[str]


def compare(first: Path, second: Path) -> Differences:
    """Compare two files that `compute` wrote, bit for bit."""
    with np.load(first) as a, np.load(second) as b:
        different = [
            name
            for name in a.files
            if name in b.files
            and (
                (a[name].dtype, a[name].shape) != (b[name].dtype, b[name].shape)
                or a[name].tobytes() != b[name].tobytes()
            )
        ]
        return Differences(different, sorted(set(a.files) ^ set(b.files)))


def main(arguments: list[str] | None = None) -> int:
    """Compute or compare; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], prog="python -m benchmarks.panel"
    )
    parser.add_argument("output", nargs="?", type=Path, metavar="OUT.npz")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A.npz", "B.npz"))
    given = parser.parse_args(arguments)
    if given.compare:
        found = compare(*given.compare)
        for name in found.different:
            print(f"different: {name}")
        for name in found.in_one_only:
            print(f"in one file only: {name}")
        print("all equal" if not any(found) else f"{len(found.different)} arrays differ")
        return int(any(found))
    if given.output is None:
        parser.error("give a file to write, or --compare with two files")
    for name in given.names:
        if name not in CASES:
            parser.error(f"unknown case {name!r}; choose from {', '.join(CASES)}")
    warnings.simplefilter("ignore")
    compute(given.output, given.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
