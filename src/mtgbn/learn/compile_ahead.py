"""The first fit after an installation compiles its kernels: here by two processes at once.

While this process compiles the search, another one compiles the chains and leaves them in the cache on
disk. Where that does not work, for whatever reason, this process compiles everything.
"""

import logging
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numba
import numpy as np

import mtgbn
from mtgbn._utils.compiled import is_compiled
from mtgbn.chain.kernel import run_rounds
from mtgbn.graphs import consensus_members, cpdag
from mtgbn.learn.parameters import posterior_network

__all__ = ["compiling_chains"]

_logger = logging.getLogger("mtgbn")

# It looks for packages where this process does, and makes sure that it has found the same one.
_CODE = """
import sys
sys.path[:] = sys.argv[2:]
import mtgbn
if mtgbn.__file__ == sys.argv[1]:
    from mtgbn.learn.joint import rehearse
    rehearse()
"""

# Set for the other process, which must not start one in turn, whatever sys.executable is.
_MARK = "MTGBN_COMPILES_AHEAD"

# Seconds after which something must be wrong with the other process.
_PATIENCE = 300

# With less free space, in bytes, what it compiles might not find room.
_ROOM = 50_000_000

# Of several fits at once one lets compile ahead.
_busy = Lock()


@contextmanager
def compiling_chains() -> Iterator[None]:
    """Let another process compile the kernels of the chains meanwhile; at the end, wait for it."""
    if not _busy.acquire(blocking=False):
        yield
        return
    try:
        process = _start_process() if _is_worthwhile() else None
        try:
            yield
            if process is not None:
                _compile_ends()
                process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            _logger.info("another process has not compiled the chains in %s s", _PATIENCE)
        finally:
            if process is not None:
                process.kill()
                process.wait()
    finally:
        _busy.release()


def _is_worthwhile() -> bool:
    """Whether there is something to compile, a processor to do it, and a Python to start."""
    if is_compiled(run_rounds) or _n_processors() < 2:
        return False
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    # A worker of some pool is one of many, which would all do the same.
    is_worker = multiprocessing.parent_process() is not None or _MARK in os.environ
    return is_python and not is_worker and _has_room()


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _has_room() -> bool:
    """Whether the disk with the cache of kernels has room for more."""
    folder = Path(run_rounds.stats.cache_path).absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free > _ROOM


def _start_process() -> subprocess.Popen | None:
    """The other process; None if it cannot be had."""
    _logger.info("compiling kernels, once per installation; this takes about 20 s")
    environment = {**os.environ, _MARK: "1"}
    if numba.config.CACHE_DIR:  # which may have been set since numba was loaded
        environment["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, mtgbn.__file__, *map(str, sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, ValueError) as error:
        _logger.info("no other process to compile in: %s", error)
        return None


def _compile_ends() -> None:
    """Compile what a fit ends with: members of classes that agree, and parameters."""
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    consensus_members(np.array([cpdag(chain)]))
    posterior_network(chain, np.eye(3), 10.0, np.eye(3)[None], 3.0).parameters()
