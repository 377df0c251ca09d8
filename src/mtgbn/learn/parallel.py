"""One call per task: in threads here, or on a cluster."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

# Called with what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]

# Arrays of more bytes that several calls need are sent to the workers first.
_LARGE = 1_000

# Time to wait for the first worker of a cluster.
SECONDS_FOR_A_WORKER = 60


def no_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def in_parallel(
    function: Callable,
    calls: Sequence[Mapping[str, Any]],
    n_jobs: int | None,
    progress: Progress,
    what: str,
) -> list[Any]:
    """Call a function once per task, in threads or wherever joblib was told to run.

    ``calls`` holds the keyword arguments of every call, ``what`` is what progress is reported as.
    """
    backend, _ = get_active_backend()
    if not hasattr(backend, "client"):
        if n_jobs is not None:
            n_jobs = min(int(n_jobs), len(calls))
        parallel = Parallel(n_jobs, prefer="threads", return_as="generator")
        results = parallel(delayed(function)(**each) for each in calls)
    elif _is_on_worker():
        # A worker that runs a fit of its own, as in a bootstrap, would wait for the others for ever.
        results = (function(**each) for each in calls)
    else:
        results = _on_cluster(backend.client, function, calls)
    done = []
    for result in results:
        done.append(result)
        progress(what, len(done), len(calls))
    return done


def _is_on_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _on_cluster(
    client: Any, function: Callable, calls: Sequence[Mapping[str, Any]]
) -> Iterator[Any]:
    """The same on a Dask cluster, where arrays that several calls need travel once per worker.

    Every worker gets a copy, and Dask repeats the calls of workers that die. (joblib sends large
    arrays to single workers.) If all workers with a copy die, arrays travel with the calls that are
    left.
    """
    # A call, since some clusters have no workers before there is something to do.
    client.submit(int, pure=False).result(timeout=SECONDS_FOR_A_WORKER)
    arrays = {id(each): each for call in calls for each in call.values() if _is_large(each)}
    times = Counter(id(each) for call in calls for each in call.values())
    sent = {
        key: client.scatter(array, broadcast=True, hash=False)
        for key, array in arrays.items()
        if times[key] > 1
    }

    def submit(call: Mapping[str, Any]) -> Any:
        return client.submit(
            function, **{name: sent.get(id(each), each) for name, each in call.items()}, pure=False
        )

    futures = [submit(call) for call in calls]
    try:
        for number in range(len(futures)):
            try:
                yield futures[number].result()
            except CancelledError:
                sent.clear()
                futures[number:] = [submit(call) for call in calls[number:]]
                yield futures[number].result()
    finally:
        client.cancel(futures)


def _is_large(argument: Any) -> bool:
    return getattr(argument, "nbytes", 0) > _LARGE
