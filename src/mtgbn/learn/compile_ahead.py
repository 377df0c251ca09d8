"""Compile the kernels of a first fit after an installation with two processes.

While this process compiles the search, another one compiles the chains and leaves them in the cache on
disk. Where the other process cannot be used, this process compiles everything.
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
from mtgbn.chain.run import rehearse
from mtgbn.graphs import consensus_members, cpdag
from mtgbn.learn.parameters import posterior_network

_logger = logging.getLogger("mtgbn")

# The other process looks for packages where this one does, and checks that it found the same mtgbn.
_CODE = """
import sys
sys.path[:] = sys.argv[2:]
import mtgbn
if mtgbn.__file__ == sys.argv[1]:
    from mtgbn.chain.run import rehearse
    rehearse(begins=False)
"""

# Set for the other process, which must not start a third one, whatever sys.executable is.
_MARK = "MTGBN_COMPILES_AHEAD"

# Seconds after which the other process is ended.
_TIME_LIMIT = 300

# Bytes of disk space below which the compiled kernels might not fit into the cache.
_LEAST_FREE_SPACE = 50_000_000

# Held by the one fit of this process that has started another process.
_is_compiling = Lock()


@contextmanager
def compiling_chains() -> Iterator[None]:
    """Let another process compile the kernels of the chains during the block, and wait for it."""
    if not _is_compiling.acquire(blocking=False):
        yield
        return
    try:
        process = _start_process() if _is_worthwhile() else None
        try:
            yield
            if process is not None:
                _compile_the_rest()
                process.wait(_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            _logger.info("another process has not compiled the chains in %s s", _TIME_LIMIT)
        finally:
            if process is not None:
                process.kill()
                process.wait()
    finally:
        _is_compiling.release()


def _is_worthwhile() -> bool:
    """Whether the chains are not compiled yet, and a second processor and a Python are available."""
    if is_compiled(run_rounds) or _n_processors() < 2:
        return False
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    # The workers of a pool would all start a process for the same kernels.
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
    return shutil.disk_usage(there).free > _LEAST_FREE_SPACE


def _start_process() -> subprocess.Popen | None:
    """Start the other process; None if that is not possible."""
    environment = {**os.environ, _MARK: "1"}
    folder = vars(numba.config)["CACHE_DIR"]  # may have been set after numba was loaded
    if folder:
        environment["NUMBA_CACHE_DIR"] = folder
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, mtgbn.__file__, *map(str, sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, ValueError) as error:
        _logger.info("no other process can be started to compile the chains: %s", error)
        return None


def _compile_the_rest() -> None:
    """Compile what else a fit needs: the start of a chain, the consensus of directions, parameters."""
    rehearse(begins=True)
    adjacency = np.eye(3, k=1, dtype=bool)
    consensus_members(np.array([cpdag(adjacency)]))
    posterior_network(adjacency, np.eye(3), 10.0, np.eye(3)[None], 3.0).parameters()
