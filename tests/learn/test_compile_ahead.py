"""A first fit lets another process compile the chains; whatever happens to it, the fit goes on."""

import json
import os
import subprocess
import sys

import pytest

import mtgbn
from mtgbn.learn import compile_ahead
from mtgbn.learn.compile_ahead import compiling_chains

FIT = """
import json, warnings
from mtgbn import MTGBN
from mtgbn.sampling.rounds import make_rounds
from mtgbn.simulate import simulate_tasks
tasks = simulate_tasks(4, 3, 60, random_state=1).tasks
warnings.simplefilter("ignore")
graphs = MTGBN(random_state=1).fit(tasks).graphs_
stats = make_rounds.stats
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
    monkeypatch.setattr(compile_ahead.multiprocessing, "parent_process", lambda: None)
    return processes


def test_another_process_is_waited_for(started):
    with compiling_chains():
        (process,) = started
        assert process.seen == []
    assert process.seen[0] == "wait"
    assert process.command[0] == sys.executable
    assert process.command[-1] == mtgbn.__file__
    assert process.environment["PYTHONPATH"].split(os.pathsep) == [p for p in sys.path if p]


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
        (compile_ahead.multiprocessing, "parent_process", object),
        (sys, "executable", ""),
    ],
)
def test_when_none_is_needed(started, monkeypatch, module, name, value):
    monkeypatch.setattr(module, name, value)
    with compiling_chains():
        pass
    assert started == []


@pytest.mark.slow
def test_what_another_process_compiled_is_used(tmp_path):
    def fit():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", FIT], capture_output=True, text=True, check=True, env=environment
        )
        return json.loads(done.stdout.splitlines()[-1])

    graphs, hits, misses = fit()
    assert (hits, misses) == (1, 0)
    assert fit() == [graphs, 1, 0]
