"""A first fit lets another process compile the chains; whatever happens to it, the fit goes on."""

import json
import os
import shutil
import subprocess
import sys

import numba
import pytest

import mtgbn
from mtgbn.learn import compile_ahead
from mtgbn.learn.compile_ahead import compiling_chains

FIT = """
import json, warnings
from mtgbn import MTGBN
from mtgbn.chain.kernel import run_rounds
from mtgbn.simulate import simulate_tasks
tasks = simulate_tasks(4, 3, 60, random_state=1).tasks
warnings.simplefilter("ignore")
graphs = MTGBN(random_state=1).fit(tasks).graphs_
stats = run_rounds.stats
print(json.dumps([graphs.tolist(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


class Process:
    """One that notes what is done to it."""

    def __init__(self, command, env, **_):
        self.command, self.environment, self.seen = command, env, []

    def wait(self, timeout=None):
        self.seen.append("wait")
        if timeout is not None and self.too_slow:
            raise subprocess.TimeoutExpired("python", timeout)

    def kill(self):
        self.seen.append("kill")

    too_slow = False


@pytest.fixture
def started(monkeypatch):
    """All processes that were started; as if nothing was compiled and there were two processors."""
    processes = []

    def start(*args, **kwargs):
        processes.append(Process(*args, **kwargs))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(compile_ahead, "is_compiled", lambda _: False)
    monkeypatch.setattr(compile_ahead, "_n_processors", lambda: 2)
    monkeypatch.setattr(compile_ahead, "_has_room", lambda: True)
    monkeypatch.setattr(compile_ahead.multiprocessing, "parent_process", lambda: None)
    return processes


def test_another_process_is_waited_for(started):
    with compiling_chains():
        (process,) = started
        assert process.seen == []
    assert process.seen[0] == "wait"
    executable, _, _, package, *path = process.command
    assert (executable, package, path) == (sys.executable, mtgbn.__file__, sys.path)


def test_it_keeps_kernels_where_this_one_does(started, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "elsewhere")
    with compiling_chains():
        pass
    assert started[0].environment["NUMBA_CACHE_DIR"] == "elsewhere"


def test_it_starts_none_in_turn(started, monkeypatch):
    """Even where ``sys.executable`` is no Python and ends in the same fit."""
    with compiling_chains():
        monkeypatch.setattr(os, "environ", started[0].environment)
    with compiling_chains():
        pass
    assert len(started) == 1


def test_one_at_a_time(started):
    with compiling_chains(), compiling_chains():
        pass
    assert len(started) == 1
    with compiling_chains():
        pass
    assert len(started) == 2


@pytest.mark.parametrize(("free", "is_enough"), [(1e9, True), (1e6, False)])
def test_room_on_the_disk(monkeypatch, free, is_enough):
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert compile_ahead._has_room() == is_enough


def test_an_error_ends_it(started):
    with pytest.raises(KeyboardInterrupt), compiling_chains():
        raise KeyboardInterrupt
    assert started[0].seen == ["kill", "wait"]


def test_one_that_takes_too_long_is_ended(started, monkeypatch):
    monkeypatch.setattr(Process, "too_slow", True)
    with compiling_chains():
        pass
    assert started[0].seen == ["wait", "kill", "wait"]


def test_none_can_be_started(started, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("not here")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with compiling_chains():
        pass
    assert started == []


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (compile_ahead, "is_compiled", lambda _: True),
        (compile_ahead, "_n_processors", lambda: 1),
        (compile_ahead, "_has_room", lambda: False),
        (compile_ahead.multiprocessing, "parent_process", object),
        (sys, "executable", ""),
        (sys, "frozen", True),
    ],
)
def test_when_none_is_needed(started, monkeypatch, module, name, value):
    monkeypatch.setattr(module, name, value, raising=name != "frozen")
    with compiling_chains():
        pass
    assert started == []


@pytest.mark.slow
def test_what_another_process_compiled_is_used(tmp_path):
    def fit():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-P", "-c", FIT],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            cwd=tmp_path,
        )
        return json.loads(done.stdout.splitlines()[-1])

    # What lies in the working directory is none of its business.
    (tmp_path / "mtgbn.py").write_text("open('was_run', 'w')")
    graphs, hits, misses = fit()
    assert (hits, misses) == (1, 0)
    assert fit() == [graphs, 1, 0]
    assert not (tmp_path / "was_run").exists()
