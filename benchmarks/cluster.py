"""A fit on a Dask cluster of one and of two worker processes, and a prediction for a hundred.

The two chains run in the process that fits, in two threads if the cluster has two workers or more.
The searches, one per task and iteration, run on the workers. The model of the time with W workers
has six numbers, all measured with one worker,

    T(W) = S + G / min(W, 2) + C / W + m b / B + calls o,

where G is the time of the chains, C the time of the searches, S the rest, b the bytes sent for one
task (arrays that all tasks need are sent once per worker, by the workers), B the bytes per second
that the scheduler handles, and o the remaining cost of a call. The model is checked with two
workers and then used to predict more. Whole fits (repetitions, relabellings, bootstraps) have no
such limit: workers share only the data.
"""

import argparse
import os
import pickle
import time
import warnings
from contextlib import contextmanager

import numpy as np
from distributed import Client, LocalCluster
from joblib import parallel_config

from benchmarks.peers import ONE_THREAD
from benchmarks.problems import shared_dag_tasks, table
from mtgbn import MTGBN, Tasks
from mtgbn.learn import joint, joint_chains, parallel, single_task

SIZE = (60, 46, 250)
LARGE = (200, 116, 200)


class Stopwatch:
    """Seconds in searches and in chains, and the bytes that searches send, added up over a fit."""

    def __init__(self) -> None:
        self.seconds, self.chains, self.bytes_per_task, self.shared_bytes = 0.0, 0.0, 0, 0
        self._search, self._threads = parallel.in_parallel, joint_chains.stoppable_threads

    def __enter__(self):
        joint.in_parallel = single_task.in_parallel = self._timed
        joint_chains.stoppable_threads = self._timed_threads
        return self

    def __exit__(self, *_):
        joint.in_parallel = single_task.in_parallel = self._search
        joint_chains.stoppable_threads = self._threads

    @contextmanager
    def _timed_threads(self, n_threads):
        """The threads of the chains; searches while they are open are not chains."""
        start, searched = time.perf_counter(), self.seconds
        with self._threads(n_threads) as threads:
            yield threads
        self.chains += time.perf_counter() - start - (self.seconds - searched)

    def _timed(self, function, calls, *rest):
        once = {id(each): each.nbytes for each in calls[0].values() if hasattr(each, "nbytes")}
        shared = [key for key in once if any(key in map(id, call.values()) for call in calls[1:])]
        sent = [each for each in calls[0].values() if id(each) not in shared]
        self.bytes_per_task += len(pickle.dumps(sent))
        self.shared_bytes += sum(once[key] for key in shared)
        start = time.perf_counter()
        try:
            return self._search(function, calls, *rest)
        finally:
            self.seconds += time.perf_counter() - start


def cluster(n_workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )


def fit(tasks: Tasks, n_workers: int) -> tuple[float, Stopwatch]:
    """Wall seconds of a fit, after a fit that loads the kernels, and the time of its searches."""
    small = Tasks.from_arrays(shared_dag_tasks(4, 5, 60, 5)[0])
    with cluster(n_workers) as workers, Client(workers), parallel_config("dask"):
        MTGBN(random_state=0).fit(small)
        with Stopwatch() as watch:
            start = time.perf_counter()
            MTGBN(random_state=0).fit(tasks)
            return time.perf_counter() - start, watch


def cost_of_calls(n_calls: int = 300, n_bytes: int = 2_000_000) -> tuple[float, float]:
    """Seconds of overhead per call, and bytes per second at which arguments are sent."""
    with cluster(1) as workers, Client(workers), parallel_config("dask"):
        seconds = []
        for size in (1, n_bytes):
            calls = [{"a": np.zeros(size // 8 + 1)} for _ in range(n_calls // (1 + 9 * (size > 1)))]
            parallel.in_parallel(np.size, calls[:2], None, parallel.no_progress, "")
            start = time.perf_counter()
            parallel.in_parallel(np.size, calls, None, parallel.no_progress, "")
            seconds.append((time.perf_counter() - start) / len(calls))
    return seconds[0], n_bytes / max(seconds[1] - seconds[0], 1e-9)


def main(large: bool = False) -> str:
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    warnings.simplefilter("ignore")
    size = LARGE if large else SIZE
    m, p, n = size
    tasks = Tasks.from_arrays(shared_dag_tasks(m, p, n, round(1.5 * p))[0])
    per_call, bandwidth = cost_of_calls()
    total, watch = fit(tasks, 1)
    n_calls = 3 * m  # single tasks, and two iterations
    overhead = n_calls * per_call + m * watch.bytes_per_task / bandwidth
    work, rest = watch.seconds - overhead, total - watch.seconds - watch.chains
    measured = {1: total, 2: fit(tasks, 2)[0]}
    rows = []
    for n_workers in (1, 2, 10, 100):
        serial = rest + watch.chains / min(n_workers, 2)
        model = serial + work / n_workers + overhead
        seconds = measured.get(n_workers)
        rows.append(
            [
                n_workers,
                "-" if seconds is None else f"{seconds:.1f}",
                f"{model:.1f}",
                f"{total / (seconds or model):.2f}",
                f"{serial / model:.0%}",
            ]
        )
    header = ["workers", "measured, s", "model, s", "speed-up", "fraction not searched"]
    numbers = (
        f"m = {m}, p = {p}, n = {n}. Chains {watch.chains:.1f} s, searches {work:.1f} s, the rest "
        f"{rest:.1f} s; a call costs {per_call * 1e3:.1f} ms, and {bandwidth / 1e6:.0f} MB are "
        f"sent per second. Per fit {watch.bytes_per_task / 1e3:.0f} kB are sent for every task, "
        f"and {watch.shared_bytes / 1e6:.1f} MB to every worker."
    )
    return f"{table(header, rows)}\n\n{numbers}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="200 tasks with 116 variables")
    print(main(parser.parse_args().large))
