"""How kernels are compiled: with numba, without the GIL, and kept on disk where that is possible.

A cache that cannot be written (a full disk, a read-only installation) or read (a damaged file) must
not stop a computation: the kernel is then compiled for this process only, and the log says so.

Numba compiles a kernel anew when the kernel's own file has changed, but not when the file of a kernel
that it calls has. An edited checkout would run old code; here every kernel depends on all files with
kernels.
"""

import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

_logger = logging.getLogger("mtgbn")

# For arguments of kernels within kernels, and for variables that become such arguments: numba gives a
# plain 0 or -1 a type of its own, and compiles the called kernel once more for it.
ZERO, NONE = np.int64(0), np.int64(-1)


class _ForgivingCache:
    """A numba cache whose failures cost time, not the result.

    Numba lets its cache raise, and has no setting and no hook that would change this: hence the
    wrapper around the cache of a dispatcher, the one place that relies on the insides of numba.
    """

    said: set[str] = set()  # noqa: RUF012, one for all kernels: a message per process is enough

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        cache._cache_file._source_stamp = _stamp_of_all()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature, target_context):
        try:
            loaded = self._cache.load_overload(signature, target_context)
        except Exception as error:  # a damaged file can raise anything
            loaded = self._warn(error)
        if loaded is None:
            self._say(
                logging.INFO, "compiling kernels, once per installation; this takes up to 40 s"
            )
        return loaded

    def save_overload(self, signature, data) -> None:
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        self._say(
            logging.WARNING,
            "compiled kernels cannot be kept in %s (%s); every run will compile them anew. Delete "
            "damaged files there, make room, or set NUMBA_CACHE_DIR",
            self._cache.cache_path,
            error,
        )

    def _say(self, level: int, message: str, *values: object) -> None:
        if message not in self.said:
            self.said.add(message)
            _logger.log(level, message, *values)


@cache
def _stamp_of_all() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file with kernels."""
    folder = Path(__file__).parents[1]
    files = [file for file in sorted(folder.rglob("*.py")) if b" kernel\n" in file.read_bytes()]
    return tuple(
        (str(file.relative_to(folder)), file.stat().st_mtime_ns, file.stat().st_size)
        for file in files
    )


def kernel(function=None, **options):
    """Compile a function without the GIL and with a cache that may fail; options are numba's."""
    if function is None:
        return lambda function: kernel(function, **options)
    # No kernel is used as a C callback, and leaving these out saves some of the time.
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError as error:  # no place for a cache at all
        _logger.info("compiled kernels are not kept: %s", error)
        return njit(**options)(function)
    if compiled is not function:  # with NUMBA_DISABLE_JIT it is the function
        compiled._cache = _ForgivingCache(compiled._cache)
    return compiled


def is_compiled(kernel) -> bool:
    """Whether Python can call a kernel at once, without compiling it in this process first."""
    folder = kernel.stats.cache_path if hasattr(kernel, "stats") else None
    if folder is None or kernel.signatures:
        return True
    newest = max(time for _, time, _ in _stamp_of_all())
    indexes = Path(folder).glob(f"*.{kernel.py_func.__name__}-*.nbi")
    return any(index.stat().st_mtime_ns > newest for index in indexes)
