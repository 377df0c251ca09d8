"""One call per task: in threads here, or on a cluster."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

__all__ = ["Report", "in_parallel"]

Report = Callable[[str, int, int], None]

# Bytes from which on an array that several calls need is sent beforehand.
_LARGE = 1_000

# How long to wait for the first worker of a cluster.
_SECONDS_FOR_A_WORKER = 60


def in_parallel(
    function: Callable, arguments: list[tuple], n_jobs: int | None, report: Report, what: str
) -> list[Any]:
    """Call a function for every task: in threads, or wherever joblib was told to run."""
    backend, _ = get_active_backend()
    is_cluster = hasattr(backend, "client")
    if is_cluster and _is_on_worker():
        n_jobs = 1  # it has a fit of its own, as in a bootstrap: workers would wait for each other
    if n_jobs == 1:
        results = (function(*each) for each in arguments)
    elif is_cluster:
        results = _on_cluster(backend.client, function, arguments)
    else:
        if n_jobs is not None:
            n_jobs = min(int(n_jobs), len(arguments))
        parallel = Parallel(n_jobs, prefer="threads", return_as="generator")
        results = parallel(delayed(function)(*each) for each in arguments)
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

    Every worker gets a copy, so that none is lost with a worker that dies; Dask repeats its calls. (By
    joblib large arrays go to single workers.)
    """
    client.wait_for_workers(1, timeout=_SECONDS_FOR_A_WORKER)
    arrays = [each for call in arguments for each in call if getattr(each, "nbytes", 0) > _LARGE]
    times = Counter(map(id, arrays))
    sent = {
        id(array): client.scatter(array, broadcast=True, hash=False)
        for array in {id(array): array for array in arrays if times[id(array)] > 1}.values()
    }
    calls = [
        client.submit(function, *(sent.get(id(each), each) for each in call), pure=False)
        for call in arguments
    ]
    try:
        for call in calls:
            yield call.result()
    finally:
        client.cancel(calls)
