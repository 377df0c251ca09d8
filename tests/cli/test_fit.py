"""`mtgbn fit` and `mtgbn show`: files, exit codes, interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

from mtgbn import MTGBN, Tasks, load_result
from mtgbn.cli import cli
from mtgbn.simulate import simulate_tasks

PROGRAM = [sys.executable, "-c", "from mtgbn.cli import main; main()"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The same tasks as a folder, a long table and an .npz."""
    folder = tmp_path_factory.mktemp("data")
    simulation = simulate_tasks(n_tasks=4, n_variables=5, n_rows=50, random_state=3)
    names, variables = ["1", "02", "c", "d e"], [f"v{k}" for k in range(5)]
    (folder / "tasks").mkdir()
    long = ["who," + ",".join(variables)]
    for name, array in zip(names, simulation.arrays, strict=True):
        lines = [",".join(repr(float(x)) for x in row) for row in array]
        (folder / "tasks" / f"{name}.csv").write_text("\n".join([",".join(variables), *lines]))
        long += [f"{name},{line}" for line in lines]
    (folder / "long.csv").write_text("\n".join(long))
    arrays = dict(zip(names, simulation.arrays, strict=True))
    np.savez(folder / "tasks.npz", variables=np.array(variables), **arrays)
    return folder


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def program(*arguments, **options):
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def test_all_forms_of_data_give_the_result_of_the_estimator(data, tmp_path):
    assert run("fit", data / "tasks", tmp_path / "a", "--seed", 5).exit_code == 0
    assert run("fit", data / "tasks.npz", tmp_path / "b", "--seed", 5).exit_code == 0
    long = run("fit", data / "long.csv", tmp_path / "c", "--task-column", "who", "--seed", 5)
    assert long.exit_code == 0, long.output
    fitted = MTGBN(random_state=5).fit(Tasks.from_folder(data / "tasks"))
    for name in "abc":
        loaded = load_result(tmp_path / name)
        assert set(loaded.task_names_) == {"1", "02", "c", "d e"}
        order = [loaded.task_names_.index(task) for task in fitted.task_names_]
        np.testing.assert_array_equal(loaded.graphs_[order], fitted.graphs_)
        np.testing.assert_array_equal(loaded.draws_.sigma_h, fitted.draws_.sigma_h)


def test_options_reach_the_estimator(data, tmp_path):
    knowledge = tmp_path / "knowledge.json"
    knowledge.write_text(json.dumps({"forbidden": [["v0", "v1"]], "max_parents": 1}))
    result = run(
        *("fit", data / "tasks", tmp_path / "out", "--nu0", 30, "--edge-prior", 0.3, 2),
        *("--structure-prior", "scale_free", "--search", "mmhc", "--restarts", 2, "--tabu", 3),
        *("--candidates", "pooled", "--knowledge", knowledge, "--draws", 12, "--tol", 0.2),
        *("--max-iter", 7, "--seed", 9, "--jobs", 1, "--standardise", "--effective-samples", 25),
        *("--graphs", "dot", "--graphs", "graphml", "--draws-format", "netcdf"),
    )
    assert result.exit_code in (0, 3), result.output
    loaded = load_result(tmp_path / "out")
    expected = {
        "nu0": 30.0,
        "edge_prior": (0.3, 2.0),
        "structure_prior": "scale_free",
        "search": "mmhc",
        "n_restarts": 2,
        "tabu": 3,
        "candidates": "pooled",
        "n_draws": 12,
        "tol": 0.2,
        "max_iter": 7,
        "random_state": 9,
    }
    params = loaded.get_params()
    assert {name: params[name] for name in expected} == expected
    assert params["knowledge"].max_parents == 1
    assert loaded.graphs_.sum(axis=1).max() <= 1
    assert loaded._tasks.ns.tolist() == [25.0] * 4
    assert (tmp_path / "out" / "draws.nc").exists()
    assert len(list((tmp_path / "out" / "dot").iterdir())) == 4


@pytest.mark.parametrize("method", ["sig", "avg"])
def test_baselines(data, tmp_path, method):
    assert run("fit", data / "tasks", tmp_path / "out", "--method", method).exit_code == 0
    assert type(load_result(tmp_path / "out")).__name__ == method.upper()
    refused = run("fit", data / "tasks", tmp_path / "x", "--method", method, "--nu0", 40)
    assert refused.exit_code == 2
    assert "--nu0 has no meaning" in refused.output


def test_show_prints_the_summary(data, tmp_path):
    run("fit", data / "tasks", tmp_path / "out")
    shown = run("show", tmp_path / "out")
    assert shown.exit_code == 0
    assert "4 tasks over 5 variables" in shown.output
    for word in ("Converged", "d e", "Most common edges", "reversible"):
        assert word in shown.output


def test_exit_codes(data, tmp_path):
    unconverged = run("fit", data / "tasks", tmp_path / "out", "--max-iter", 1)
    assert unconverged.exit_code == 3
    assert "Did NOT converge" in unconverged.output
    assert load_result(tmp_path / "out").converged_ is False
    assert run("fit", data / "nothing", tmp_path / "x").exit_code == 2
    bad = program("fit", data / "long.csv", tmp_path / "y")
    assert bad.returncode == 1
    assert bad.stderr.startswith("mtgbn: ")
    assert "'task'" in bad.stderr
    assert not (tmp_path / "y").exists()
    for options in (["--pattern", "*.csv"], ["--resume", "--overwrite"]):
        assert run("fit", data / "tasks.npz", tmp_path / "z", *options).exit_code == 2
    assert run("fit", data / "tasks", tmp_path / "z", "--task-column", "who").exit_code == 2


def test_a_result_is_not_overwritten_unasked(data, tmp_path):
    out = tmp_path / "out"
    run("fit", data / "tasks", out, "--graphs", "dot")
    before = contents(out)
    refused = program("fit", data / "tasks", out, "--seed", 2)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    assert contents(out) == before
    resumed = run("fit", data / "tasks", out, "--resume")
    assert resumed.exit_code == 0
    assert contents(out) == before
    assert run("fit", data / "tasks", out, "--overwrite", "--seed", 2).exit_code == 0
    assert load_result(out).random_state == 2
    assert not (out / "dot").exists()


def test_overwrite_keeps_the_old_result_until_there_is_a_new_one(data, tmp_path):
    out = tmp_path / "out"
    run("fit", data / "tasks", out)
    before = contents(out)
    for options in (["--draws", "2"], ["--nu0", "1"], ["--jobs", "0"]):
        refused = program("fit", data / "tasks", out, "--overwrite", *options)
        assert refused.returncode == 1
        assert "Traceback" not in refused.stderr
        assert contents(out) == before
    refused = program("fit", data / "long.csv", out, "--overwrite")
    assert refused.returncode == 1
    assert contents(out) == before


def test_folders_of_others_are_left_alone(data, tmp_path):
    out = tmp_path / "out"
    (out / "dot").mkdir(parents=True)
    (out / "dot" / "thesis.txt").write_text("all of it")
    for options in ([], ["--overwrite"], ["--resume"]):
        refused = program("fit", data / "tasks", out, *options)
        assert refused.returncode == 1
        assert "holds other files" in refused.stderr
    assert contents(out) == {"dot/thesis.txt": b"all of it"}
    itself = program("fit", data / "tasks", data / "tasks")
    assert itself.returncode == 1
    assert "another folder than DATA" in itself.stderr
    assert run("fit", data / "tasks", "").exit_code == 2


def test_resume_of_a_finished_result_checks_what_was_asked_for(data, tmp_path):
    out = tmp_path / "out"
    assert run("fit", data / "tasks", out, "--max-iter", 1).exit_code == 3
    assert run("fit", data / "tasks", out, "--resume", "--max-iter", 1).exit_code == 3
    for options in (["--nu0", "77"], ["--method", "sig"], ["--standardise"]):
        refused = program("fit", data / "tasks", out, "--resume", *options)
        assert refused.returncode == 1
        assert "other data or settings" in refused.stderr
    assert run("fit", data / "tasks", out, "--resume").exit_code == 0
    run("fit", data / "tasks", tmp_path / "straight")
    assert contents(out) == contents(tmp_path / "straight")


def test_one_folder_is_for_one_fit_at_a_time(data, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    refused = program("fit", data / "tasks", out)
    os.close(handle)
    assert refused.returncode == 1
    assert "another fit" in refused.stderr
    assert run("fit", data / "tasks", out).exit_code == 0


def test_a_dead_status_stream_does_not_end_a_fit(data, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "fit", str(data / "tasks"), str(tmp_path / "out")], stderr=full, check=False
        )
    assert done.returncode in (0, 120)  # 120: the interpreter could not flush at its end
    load_result(tmp_path / "out")


def test_show_names_a_damaged_file(data, tmp_path):
    run("fit", data / "tasks", tmp_path / "out")
    os.truncate(tmp_path / "out" / "networks.npz", 50)
    shown = program("show", tmp_path / "out")
    assert shown.returncode == 1
    assert "networks.npz" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_nothing_is_printed_when_quiet_and_no_bar_without_a_terminal(data, tmp_path):
    quiet = program("fit", data / "tasks", tmp_path / "a", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    plain = program("fit", data / "tasks", tmp_path / "b")
    assert plain.stdout == ""
    assert "\x1b" not in plain.stderr
    assert "Converged" in plain.stderr


def start_and_kill(data, out, seconds):
    process = subprocess.Popen(
        [*PROGRAM, "fit", str(data / "tasks"), str(out), "--quiet", "--resume", "--draws", "60"]
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait()


def check_kills(data, tmp_path, n_kills):
    """Kill at moments spread over the time of a whole run, then finish and compare all bytes."""
    begin = time.monotonic()
    done = program("fit", data / "tasks", tmp_path / "whole", "--quiet", "--draws", "60")
    duration = time.monotonic() - begin
    assert done.returncode in (0, 3), done.stderr
    rng = np.random.default_rng(0)
    killed = 0
    for number in range(5 * n_kills):  # a run that ended before its moment does not count
        out = tmp_path / f"killed{number}"
        moment = rng.uniform(0.1, 0.9) * duration
        killed += start_and_kill(data, out, moment) == -signal.SIGKILL
        again = program("fit", data / "tasks", out, "--quiet", "--resume", "--draws", "60")
        assert again.returncode == done.returncode, again.stderr
        leftovers = {name for name in contents(out) if not name.endswith(".part")}
        assert leftovers == set(contents(tmp_path / "whole"))
        for name, content in contents(tmp_path / "whole").items():
            assert (out / name).read_bytes() == content, name
        if killed == n_kills:
            return
    raise AssertionError(f"only {killed} of {n_kills} runs were killed in time")


def test_killed_and_resumed_gives_the_same_bytes(data, tmp_path):
    check_kills(data, tmp_path, 2)


@pytest.mark.slow
def test_killed_ten_times_and_resumed_gives_the_same_bytes(data, tmp_path):
    check_kills(data, tmp_path, 10)


def test_an_interrupted_fit_asks_for_resume_and_refuses_other_settings(data, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def interrupt(self, state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mtgbn.cli.fit._Watch.iterated", interrupt)
        interrupted = run("fit", data / "tasks", out)
    assert interrupted.exit_code == 130
    assert "--resume" in interrupted.output
    assert os.listdir(out) == ["checkpoint.npz"]
    again = program("fit", data / "tasks", out)
    assert again.returncode == 1
    assert "--resume" in again.stderr
    sig = program("fit", data / "tasks", out, "--resume", "--method", "sig")
    assert sig.returncode == 1
    assert "interrupted fit of MTGBN" in sig.stderr
    other = program("fit", data / "tasks", out, "--resume", "--nu0", "77")
    assert other.returncode == 1
    assert "nu0" in other.stderr
    assert run("fit", data / "tasks", out, "--resume").exit_code == 0
    assert run("fit", data / "tasks", tmp_path / "straight").exit_code == 0
    assert contents(out) == contents(tmp_path / "straight")


@pytest.mark.filterwarnings("ignore")  # of the cluster's own making
def test_scheduler_gives_the_same_bytes(data, tmp_path):
    options = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, local_directory=str(tmp_path / "dask"), **options
        ) as cluster,
        Client(cluster),
    ):
        address = cluster.scheduler_address
        there = program("fit", data / "tasks", tmp_path / "there", "--scheduler", address)
    assert there.returncode == 0, there.stderr
    assert run("fit", data / "tasks", tmp_path / "here").exit_code == 0
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    nobody = program("fit", data / "tasks", tmp_path / "x", "--scheduler", "tcp://127.0.0.1:9")
    assert nobody.returncode == 1
    assert "no Dask scheduler" in nobody.stderr
