"""`mtgbn reproduce`: the same rows for any number of processes, after a kill, and on a cluster."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

from mtgbn._utils.files import locked
from mtgbn.cli import _EXPERIMENTS, cli
from mtgbn.experiments import EXPERIMENTS
from mtgbn.experiments.designs import METHODS

PROGRAM = [sys.executable, "-c", "from mtgbn.cli import main; main()"]
# Methods that take a moment; what is tested here is not how well they learn.
FAST = ["--method", "SIG", "--method", "AVG", "--quick", "--repetitions", "3"]
TABLES = ("rows.csv", "table.csv", "table.md", "figure.svg")


def run(*arguments):
    return CliRunner().invoke(cli, ["reproduce", *map(str, arguments)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed, with one process."""
    out = tmp_path_factory.mktemp("finished") / "out"
    result = run("task-number", out, *FAST, "--jobs", 1)
    assert result.exit_code == 0, result.output
    return out


def has_cells(out):
    try:
        return len(stored(out)) > 0
    except sqlite3.OperationalError:  # not set up yet
        return False


def same_tables(one, other):
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in TABLES)


def stored(out):
    """Every cell with the time that it took, which tells whether it was computed again."""
    with sqlite3.connect(out / "cells.sqlite", timeout=30) as connection:
        return connection.execute(
            "select n_tasks, repetition, method, cpu_seconds from cells"
        ).fetchall()


def test_the_help_knows_all_experiments_and_methods():
    assert tuple(EXPERIMENTS) == _EXPERIMENTS
    text = " ".join(run("--help").output.split()).replace("- ", "-")
    assert all(name in text for name in (*EXPERIMENTS, *METHODS))


def test_everything_is_written(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {*TABLES, "figure.png", "times.csv", "run.json", "cells.sqlite"}
    about = json.loads((finished / "run.json").read_text())
    assert about["cells"] == 12
    assert about["commands"] == [
        "mtgbn reproduce task-number OUT --quick --repetitions 3 --method SIG --method AVG --seed 1"
    ]
    assert len((finished / "rows.csv").read_text().splitlines()) == 13
    assert (finished / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_a_finished_run_computes_nothing(finished):
    before = stored(finished)
    result = run("task-number", finished, *FAST)
    assert "12 cells, of which 12 are finished" in result.output
    assert "Computed 0 cells" in result.output
    assert stored(finished) == before


@pytest.mark.slow
def test_parts_of_a_plan_add_up_to_the_whole(finished, tmp_path):
    """Some settings and repetitions in one process, then all in two, give what one process gives."""
    some = [*FAST[:-1], "2", "--only", "n_tasks=2.0", "--jobs", 1]
    assert run("task-number", tmp_path, *some).exit_code == 0
    assert {row[:2] for row in stored(tmp_path)} == {(2, 0), (2, 1)}
    result = run("task-number", tmp_path, *FAST, "--jobs", 2)
    assert "12 cells, of which 4 are finished" in result.output
    assert same_tables(finished, tmp_path)
    commands = json.loads((tmp_path / "run.json").read_text())["commands"]
    assert [each.split(" --method AVG ")[1] for each in commands] == [
        "--only n_tasks=2.0 --seed 1",
        "--seed 1",
    ]


def test_what_another_run_is_writing_is_left_alone(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    part = tmp_path / "out" / ".rows.csv.abc.part"
    part.touch()
    (tmp_path / "out" / ".download.part").touch()
    with locked(tmp_path / "out"):
        result = run("task-number", tmp_path / "out", *FAST)
    assert "another command is writing" in str(result.exception)
    assert part.exists()
    assert run("task-number", tmp_path / "out", *FAST).exit_code == 0
    assert not part.exists()
    assert (tmp_path / "out" / ".download.part").exists()


def test_killed_and_started_again(finished, tmp_path):
    command = [*PROGRAM, "reproduce", "task-number", str(tmp_path), *FAST, "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.05)
        has_file = (tmp_path / "cells.sqlite").exists()
        if has_file and has_cells(tmp_path) and len(stored(tmp_path)) >= 4:
            break
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, orphans = psutil.wait_procs(workers, timeout=60)
    assert orphans == []
    kept = stored(tmp_path)
    assert 4 <= len(kept) < 12
    assert not (tmp_path / "table.csv").exists()
    result = run("task-number", tmp_path, *FAST)
    assert result.exit_code == 0
    assert f"of which {len(kept)} are finished" in result.output
    after = stored(tmp_path)
    assert len(after) == 12
    assert set(kept) <= set(after)  # with their times: none was computed twice
    assert same_tables(finished, tmp_path)


def test_an_interrupt_says_how_to_go_on(tmp_path):
    # A shell that runs tests in the background has interrupts ignored, and its children inherit that.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = [sys.executable, "-c", listening + PROGRAM[-1]]
    command = [*program, "reproduce", "task-number", str(tmp_path), "--full", "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not ((tmp_path / "cells.sqlite").exists() and has_cells(tmp_path)):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command goes on" in said
    assert "Traceback" not in said
    # What is there is in the tables.
    n_rows = len((tmp_path / "rows.csv").read_text().splitlines()) - 1
    assert n_rows == len(stored(tmp_path))


def test_a_process_that_dies_is_replaced(finished, tmp_path, monkeypatch):
    """The first process kills itself once; the run starts others and ends as if nothing had been."""
    marker = tmp_path / "died"
    monkeypatch.setenv("MTGBN_TEST_DIES_ONCE", str(marker))
    command = [
        sys.executable,
        "-c",
        "import dies_once; from mtgbn.cli import main; main()",
        *("reproduce", "task-number", str(tmp_path / "out"), *FAST, "--jobs", "2"),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
        ),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert same_tables(finished, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the cluster's own, about the worker that was lost
def test_a_cluster_that_loses_a_worker(finished, tmp_path):
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
        silence_logs=50,
    )
    with cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        command = [*PROGRAM, "reproduce", "task-number", str(tmp_path / "out"), *FAST]
        process = subprocess.Popen([*command, "--scheduler", cluster.scheduler_address])
        while not (tmp_path / "out" / "cells.sqlite").exists():
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGKILL)
        assert process.wait(timeout=180) == 0
    assert same_tables(finished, tmp_path / "out")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_workers_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("mtgbn.experiments.run.SECONDS_FOR_A_WORKER", 1)
    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster:
        result = run("density", tmp_path, "--quick", "--scheduler", cluster.scheduler_address)
    assert result.exit_code == 1
    assert "has no workers" in str(result.exception)
    assert "the same command goes on" in str(result.exception)


def test_bad_use_is_explained(tmp_path, finished):
    assert "Invalid value" in run("sample", tmp_path / "o").output
    assert "--jobs must be -1 or at least 1" in run("density", tmp_path / "o", "--jobs", 0).output
    (tmp_path / "other.txt").write_text("mine")
    for arguments, message in (
        (("density", tmp_path), "holds other files"),
        (("density", tmp_path / "other.txt"), "is a file"),
        (("density", finished), "its experiment is task-number"),
        (("task-number", finished, "--seed", 5), "its seed is 1, not 5"),
        (("task-number", tmp_path / "o", "--method", "x"), "no method 'x'"),
        (
            ("density", tmp_path / "o", "--only", "rows=3"),
            "which are nu0, n_tasks, n_rows, density",
        ),
        (("density", tmp_path / "o", "--only", "nu0=3"), "no nu0 '3'; it has 60, 30, 200"),
        (("density", tmp_path / "o", "--quick", "--only", "nu0=30"), "a quick run has no setting"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert message in str(result.exception)
