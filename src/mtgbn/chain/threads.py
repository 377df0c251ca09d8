"""Chains in parallel threads, all of which end when one fails or the user interrupts."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


@contextmanager
def stoppable_threads(n_threads: int) -> Iterator[tuple[ThreadPoolExecutor, Callable[[], None]]]:
    """A pool of threads, and a function that chains call between portions of their work.

    Compiled loops cannot be interrupted. After an error in one chain, or the user's Ctrl-C, the
    function raises an exception in the others.
    """
    stopped = Event()

    def raise_if_stopped() -> None:
        if stopped.is_set():
            raise _StoppedError

    with ThreadPoolExecutor(n_threads) as pool:
        try:
            yield pool, raise_if_stopped
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _StoppedError(Exception):
    """Ends a chain whose result nobody waits for any more."""
