"""Running cells in processes of this machine or on a Dask cluster, and keeping each when it is done."""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import NamedTuple

from mtgbn.errors import InputError
from mtgbn.experiments.cells import run_cell
from mtgbn.experiments.designs import Cell
from mtgbn.experiments.store import Store
from mtgbn.learn.parallel import SECONDS_FOR_A_WORKER

__all__ = ["Failure", "run_cells"]

# One thread per process: cells are many, and results must not depend on the number of threads.
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)

# Times in a row that processes may die before a single cell is done.
_MOST_DEATHS = 3

# Cells that wait in the queue of a cluster or of the processes here, for each that is running.
_WAITING_PER_WORKER = 2

# How often a worker looks whether its parent is still there.
_SECONDS_BETWEEN_LOOKS = 1.0


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
    client=None,
    done: Callable[[Cell, float], None] = lambda cell, seconds: None,
) -> list[Failure]:
    """Compute cells and store each as soon as it is there; returns those that failed.

    Parameters
    ----------
    cells : list of Cell
    seed : int
    store : Store
    jobs : int
        Processes on this machine.
    client : distributed.Client, optional
        A cluster to compute on instead; it retries the cells of workers that die.
    done : callable
        Told of every cell, with its CPU seconds.
    """
    failures: list[Failure] = []
    deaths = 0
    while cells:
        n_before = len(cells)
        try:
            with _executor(jobs, client) as (executor, count_workers):
                _work_off(cells, seed, store, executor, count_workers, done, failures)
        except BrokenExecutor as error:
            deaths = deaths + 1 if len(cells) == n_before else 1
            if deaths >= _MOST_DEATHS:
                raise InputError(
                    f"processes were killed {deaths} times without finishing a cell ({error}); is there "
                    "enough memory? Try fewer --jobs. The same command goes on"
                ) from error
    return failures


def _work_off(cells, seed, store, executor, count_workers, done, failures) -> None:
    """Take cells from the front of the list as they are finished; those in work stay in it."""
    running: dict[Future, Cell] = {}
    waiting = list(cells)
    while waiting or running:
        most = count_workers() * _WAITING_PER_WORKER
        while waiting and len(running) < most:
            cell = waiting.pop(0)
            running[executor.submit(run_cell, cell, seed)] = cell
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        # In the order of submission, so that the store's is as reproducible as can be.
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


class _executor:  # noqa: N801, used like a function
    """Processes here, or a cluster's; killed or forgotten when something goes wrong."""

    def __init__(self, jobs: int, client) -> None:
        self._is_ours = client is None
        if client is None:
            from joblib.externals.loky import ProcessPoolExecutor

            self._executor: Executor = ProcessPoolExecutor(
                jobs, timeout=None, initializer=_follow_the_parent, env=_ONE_THREAD
            )
            self._count_workers = lambda: jobs
        else:
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
            self._executor = client.get_executor(pure=False)
            # Workers may come and go.
            self._count_workers = lambda: max(sum(client.nthreads().values()), 1)

    def __enter__(self) -> tuple[Executor, Callable[[], int]]:
        return self._executor, self._count_workers

    def __exit__(self, kind, *exception) -> None:
        if self._is_ours:
            self._executor.shutdown(wait=True, kill_workers=kind is not None)
        else:
            self._executor.shutdown(wait=kind is None)


def _follow_the_parent() -> None:
    """In a worker: leave interrupts to the parent, and end when it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
