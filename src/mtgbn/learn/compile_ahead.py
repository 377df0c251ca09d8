"""The first fit after an installation compiles its kernels: here by two processes at once.

While this process compiles the search, another one compiles the chains and leaves them in the cache on
disk. Where that does not work, for whatever reason, this process compiles everything.
"""

import logging
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import mtgbn
from mtgbn.compiled import is_compiled
from mtgbn.graphs import consensus_members, cpdag
from mtgbn.learn.parameters import posterior_network
from mtgbn.sampling.rounds import make_rounds

__all__ = ["compiling_chains"]

_logger = logging.getLogger("mtgbn")

# It is told which package to take, since there may be others of that name.
_CODE = """
import sys
import mtgbn
if mtgbn.__file__ == sys.argv[1]:
    from mtgbn.learn.explore import rehearse
    rehearse()
"""

# Seconds after which something must be wrong with the other process.
_PATIENCE = 300


@contextmanager
def compiling_chains() -> Iterator[None]:
    """Let another process compile the kernels of the chains meanwhile; at the end, wait for it."""
    process = _start_process()
    if process is None:
        yield
        return
    try:
        yield
        _compile_ends()
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        _logger.info("another process has not compiled the chains in %s s", _PATIENCE)
    finally:
        process.kill()
        process.wait()


def _start_process() -> subprocess.Popen | None:
    """The other process; None if there is nothing to do for it, or no place."""
    is_child = multiprocessing.parent_process() is not None  # one of many that may do the same
    if is_compiled(make_rounds) or is_child or _n_processors() < 2 or not sys.executable:
        return None
    _logger.info("compiling kernels, once per installation; this takes about 20 s")
    path = os.pathsep.join(each for each in sys.path if each)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, mtgbn.__file__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
    except OSError as error:
        _logger.info("no other process to compile in: %s", error)
        return None


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _compile_ends() -> None:
    """Compile what a fit ends with: members of classes that agree, and parameters."""
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    consensus_members(np.array([cpdag(chain)]))
    posterior_network(chain, np.eye(3), 10.0, np.eye(3)[None], 3.0).parameters()
