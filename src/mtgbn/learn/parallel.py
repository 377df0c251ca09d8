"""One call per task: in threads here, or on a cluster."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

__all__ = ["SECONDS_FOR_A_WORKER", "Report", "in_parallel"]

Report = Callable[[str, int, int], None]

# Bytes from which on an array that several calls need is sent beforehand.
_LARGE = 1_000

# How long to wait for the first worker of a cluster.
SECONDS_FOR_A_WORKER = 60


def in_parallel(
    function: Callable, arguments: list[tuple], n_jobs: int | None, report: Report, what: str
) -> list[Any]:
    """Call a function for every task: in threads, or wherever joblib was told to run."""
    backend, _ = get_active_backend()
    if not hasattr(backend, "client"):
        if n_jobs is not None:
            n_jobs = min(int(n_jobs), len(arguments))
        parallel = Parallel(n_jobs, prefer="threads", return_as="generator")
        results = parallel(delayed(function)(*each) for each in arguments)
    elif _is_on_worker():
        # It has a fit of its own, as in a bootstrap: workers would wait for each other for ever.
        results = (function(*each) for each in arguments)
    else:
        results = _on_cluster(backend.client, function, arguments)
    done = []
    for result in results:
        done.append(result)
        report(what, len(done), len(arguments))
    return done


def _is_on_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _on_cluster(client: Any, function: Callable, arguments: list[tuple]) -> Iterator[Any]:
    """The same on a Dask cluster, where arrays that all tasks need travel once and not once per task.

    Every worker gets a copy, and Dask repeats the calls of workers that die. (By joblib large arrays go
    to single workers.) Should all die that have one, arrays travel with the calls that are left.
    """
    # A call, since some clusters have no workers before there is something to do.
    client.submit(int, pure=False).result(timeout=SECONDS_FOR_A_WORKER)
    arrays = {id(each): each for call in arguments for each in call if _is_large(each)}
    times = Counter(id(each) for call in arguments for each in call)
    sent = {
        key: client.scatter(array, broadcast=True, hash=False)
        for key, array in arrays.items()
        if times[key] > 1
    }
    calls = [
        client.submit(function, *(sent.get(id(each), each) for each in call), pure=False)
        for call in arguments
    ]
    try:
        for number in range(len(calls)):
            try:
                yield calls[number].result()
            except CancelledError:
                left = arguments[number:]
                calls[number:] = [client.submit(function, *call, pure=False) for call in left]
                yield calls[number].result()
    finally:
        client.cancel(calls)


def _is_large(argument: Any) -> bool:
    return getattr(argument, "nbytes", 0) > _LARGE
