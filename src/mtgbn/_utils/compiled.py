"""How kernels are compiled: with numba, released from the GIL, and kept on disk where that is possible.

A cache that cannot be written (a full disk, a read-only installation) or read (a damaged file) must
not stop a computation: the kernel is then compiled for this process alone, and the log says so.

Numba compiles a kernel anew when its own file has changed, not when that of a kernel that it calls has.
In an edited checkout that would run old code; here all kernels depend on all files that have any.
"""

import logging
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

__all__ = ["NONE", "ZERO", "is_compiled", "kernel"]

_logger = logging.getLogger("mtgbn")

# For arguments of kernels within kernels, and variables that become arguments. Numba gives a plain 0
# or -1 a type of its own, and compiles the called kernel once more for it.
ZERO, NONE = np.int64(0), np.int64(-1)


class _ForgivingCache:
    """A numba cache whose failures cost time, not the result."""

    warned = False

    def __init__(self, cache):
        self._cache = cache

    def __getattr__(self, name):
        return getattr(self._cache, name)

    def load_overload(self, signature, target_context):
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception as error:  # whatever a damaged file makes of itself
            self._warn(error)
            return None

    def save_overload(self, signature, data):
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not _ForgivingCache.warned:  # once is enough, there are dozens of kernels
            _ForgivingCache.warned = True
            _logger.warning(
                "compiled kernels cannot be kept in %s (%s); every run will compile them anew. Delete "
                "damaged files there, make room, or set NUMBA_CACHE_DIR",
                self._cache.cache_path,
                error,
            )


@cache
def _stamp_of_all() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file with kernels."""
    folder = Path(__file__).parents[1]
    found = []
    for file in sorted(folder.rglob("*.py")):
        if b"import kernel" in file.read_bytes():
            about = file.stat()
            found.append((str(file.relative_to(folder)), about.st_mtime_ns, about.st_size))
    return tuple(found)


def kernel(function=None, **options):
    """Compile a function without the GIL and with a cache that may fail; options are numba's."""
    if function is None:
        return lambda function: kernel(function, **options)
    options = {"nogil": True, **options}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError as error:  # no place for a cache at all
        _logger.info("compiled kernels are not kept: %s", error)
        return njit(**options)(function)
    if compiled is not function:  # as it is with NUMBA_DISABLE_JIT
        compiled._cache._cache_file._source_stamp = _stamp_of_all()
        compiled._cache = _ForgivingCache(compiled._cache)
    return compiled


def is_compiled(kernel) -> bool:
    """Whether Python can call a kernel at once, or will be able to only after compiling it itself."""
    cache = getattr(kernel, "_cache", None)
    if not isinstance(cache, _ForgivingCache) or kernel.signatures:
        return True
    try:
        return bool(cache._cache_file._load_index())
    except Exception:  # whatever a damaged file makes of itself
        return True
