"""Run cells in processes of this machine or on a Dask cluster, and store each when it is finished."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from mtgbn.errors import InputError
from mtgbn.experiments.cells import Row, run_cell
from mtgbn.experiments.designs import Cell
from mtgbn.experiments.store import Store
from mtgbn.learn.parallel import SECONDS_FOR_A_WORKER

# One thread per process: there are enough cells, and results must not depend on the number of threads.
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}

# How often in a row processes may be killed without finishing a cell.
_MOST_DEATHS = 3

# Cells that are submitted per worker, so that no worker waits for its next cell.
_WAITING_PER_WORKER = 2

# How often a worker checks whether its parent process still exists.
_SECONDS_BETWEEN_CHECKS = 1.0


class Failure(NamedTuple):
    """A cell that could not be computed, and why."""

    cell: Cell
    reason: str


def run_cells(
    cells: list[Cell],
    seed: int,
    store: Store,
    *,
    jobs: int,
    client: Any = None,
    done: Callable[[Cell, float], None] = lambda cell, seconds: None,
) -> list[Failure]:
    """Compute cells and store each as soon as it is finished; returns the cells that failed.

    ``cells`` loses those that are finished. Without a Dask ``client``, ``jobs`` processes of this
    machine compute; a cluster repeats the cells of workers that are killed. ``done`` is called with
    every finished cell and its CPU seconds.
    """
    failures: list[Failure] = []

    def work_off(executor: Executor) -> None:
        """Run the cells, and remove each from the list when it is finished."""
        running: dict[Future[tuple[Row, float]], Cell] = {}
        waiting = list(cells)
        while waiting or running:
            most = count_workers(jobs, client) * _WAITING_PER_WORKER
            while waiting and len(running) < most:
                cell = waiting.pop(0)
                running[executor.submit(run_cell, cell, seed)] = cell
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            # In the order of submission, so that the order of the rows varies as little as possible.
            for future in [each for each in running if each in finished]:
                cell = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenExecutor):
                    raise error
                if error is None:
                    row, seconds = future.result()
                    store.add(row, seconds)
                    done(cell, seconds)
                else:
                    failures.append(Failure(cell, f"{type(error).__name__}: {error}"))
                cells.remove(cell)

    deaths = 0
    while cells:
        n_before = len(cells)
        try:
            with _executor(jobs, client) as executor:
                work_off(executor)
        except BrokenExecutor as error:
            deaths = deaths + 1 if len(cells) == n_before else 1
            if deaths >= _MOST_DEATHS:
                raise InputError(
                    f"processes were killed {deaths} times without finishing a cell ({error}), perhaps "
                    "for lack of memory; try fewer --jobs. The same command goes on"
                ) from error
    return failures


def count_workers(jobs: int, client: Any) -> int:
    """Cells that can run at once: processes here, or threads of a cluster, whose workers vary."""
    return jobs if client is None else max(sum(client.nthreads().values()), 1)


@contextmanager
def _executor(jobs: int, client: Any) -> Iterator[Executor]:
    """Processes here, or a cluster; after an error, no cell goes on running."""
    if client is None:
        from joblib.externals.loky import ProcessPoolExecutor

        executor = ProcessPoolExecutor(
            jobs, timeout=None, initializer=_follow_the_parent, env=_ONE_THREAD
        )
        stop, finish = {"wait": True, "kill_workers": True}, {"wait": True, "kill_workers": False}
    else:
        client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        executor = client.get_executor(pure=False)
        stop, finish = {"wait": False}, {"wait": True}

    try:
        yield executor
    except BaseException:
        executor.shutdown(**stop)
        raise
    executor.shutdown(**finish)


def _follow_the_parent() -> None:
    """Runs in a worker: leave interrupts to the parent process, and end when the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_CHECKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
