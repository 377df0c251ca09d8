"""`mtgbn fit` and `mtgbn show`: files, exit codes, interruption."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

from mtgbn import MTGBN, Tasks, load_result
from mtgbn.cli import cli
from mtgbn.cli.edge_prior import EdgePriorText
from mtgbn.cli.methods import METHODS
from mtgbn.errors import ConvergenceWarning
from mtgbn.paper import PaperMTGBN
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Three tasks with the strong edges v0 -> v2 <- v1 -> v3, and the same with a value missing."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(4)
    for name in ("whole", "holey"):
        (folder / name).mkdir()
    for task in range(3):
        noise = rng.normal(size=(4, 30))
        v2, v3 = noise[0] + noise[1] + 0.5 * noise[2], noise[1] - 0.7 * noise[3]
        rows = np.column_stack([noise[0], noise[1], v2, v3]).tolist()
        lines = [",".join(map(repr, row)) for row in rows]
        (folder / "whole" / f"t{task}.csv").write_text("\n".join(["v0,v1,v2,v3", *lines]))
        if task == 1:
            lines[5] = lines[5].rpartition(",")[0] + ","
        (folder / "holey" / f"t{task}.csv").write_text("\n".join(["v0,v1,v2,v3", *lines]))
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


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """The folder of a fit with the default settings, never interrupted; tests copy it."""
    out = tmp_path_factory.mktemp("fitted") / "out"
    done = run("fit", data / "tasks", out, "--graphs", "dot")
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def own(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path / "own")


def failure(*arguments):
    """The message of a command that ends with code 1."""
    refused = run(*arguments)
    assert refused.exit_code == 1
    return str(refused.exception)


def test_all_forms_of_data_give_the_result_of_the_estimator(data, fitted, tmp_path):
    assert run("fit", data / "tasks.npz", tmp_path / "b").exit_code == 0
    long = run("fit", data / "long.csv", tmp_path / "c", "--task-column", "who")
    assert long.exit_code == 0, long.output
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = MTGBN(random_state=1).fit(Tasks.from_folder(data / "tasks"))
    for folder in (fitted, tmp_path / "b", tmp_path / "c"):
        loaded = load_result(folder)
        assert set(loaded.task_names_) == {"1", "02", "c", "d e"}
        order = [loaded.task_names_.index(task) for task in expected.task_names_]
        np.testing.assert_array_equal(loaded.graphs_[order], expected.graphs_)
        np.testing.assert_array_equal(loaded.draws_.sigma_h, expected.draws_.sigma_h)


@pytest.mark.parametrize("method", METHODS)
def test_every_option_of_a_method_is_a_parameter_of_its_estimator(method):
    estimator = METHODS[method].estimator_class()()
    assert set(METHODS[method].parameters) <= set(estimator.get_params())


@pytest.mark.parametrize(
    ("method", "own_options", "own_parameters"),
    [
        ("mtgbn", ["--own-directions"], {"inference": "map", "shared_directions": False}),
        ("mtgbn", ["--min-strength", "0.2"], {"min_strength": 0.2}),
        (
            "paper",
            ["--structure-prior", "scale_free", "--search", "mmhc", "--candidates", "pooled"],
            {"structure_prior": "scale_free", "search": "mmhc", "candidates": "pooled"},
        ),
    ],
)
def test_options_reach_the_estimator(
    data, tmp_path, monkeypatch, method, own_options, own_parameters
):
    class ReachedError(Exception):
        pass

    def stop(path, out, make_estimator, **options):
        tasks = Tasks.from_folder(path, **options["reading"])
        raise ReachedError(make_estimator(tasks), tasks, options)

    monkeypatch.setattr("mtgbn.cli.runs.fit_folder", stop)
    knowledge = tmp_path / "knowledge.json"
    knowledge.write_text(json.dumps({"forbidden": [["v0", "v1"]], "max_parents": 1}))
    result = run(
        *("fit", data / "tasks", tmp_path / "out", "--nu0", 30, "--edge-prior", "0.3,2"),
        *("--method", method, *own_options, "--restarts", 2, "--tabu", 3),
        *("--knowledge", knowledge, "--draws", 12, "--tol", 0.2),
        *("--max-iter", 7, "--seed", 9, "--jobs", 1, "--standardise", "--effective-samples", 25),
        *("--graphs", "dot", "--graphs", "graphml", "--draws-format", "netcdf"),
        *("--overwrite", "--no-report"),
    )
    estimator, tasks, options = result.exception.args
    expected = {
        **own_parameters,
        "nu0": 30.0,
        "edge_prior": (0.3, 2.0),
        "n_restarts": 2,
        "tabu": 3,
        "n_draws": 12,
        "tol": 0.2,
        "max_iter": 7,
        "random_state": 9,
        "n_jobs": 1,
    }
    params = estimator.get_params()
    assert {name: params[name] for name in expected} == expected
    assert params["knowledge"].max_parents == 1
    assert tasks.ns.tolist() == [25.0] * 4
    expected = {
        "if_exists": "overwrite",
        "graph_formats": ("dot", "graphml"),
        "draws_format": "netcdf",
        "report": False,
    }
    assert {name: options[name] for name in expected} == expected


def test_formats(tiny, tmp_path):
    quick = ("--draws", 8, "--restarts", 0, "--max-iter", 2)
    formats = ("--graphs", "dot", "--graphs", "graphml", "--draws-format", "netcdf")
    assert run("fit", tiny / "whole", tmp_path / "out", *quick, *formats).exit_code in (0, 3)
    assert (tmp_path / "out" / "draws.nc").exists()
    for kind in ("dot", "graphml"):
        assert len(list((tmp_path / "out" / kind).iterdir())) == 3


@pytest.mark.parametrize("method", ["sig", "avg"])
def test_baselines(data, tmp_path, method):
    assert run("fit", data / "tasks", tmp_path / "out", "--method", method).exit_code == 0
    assert type(load_result(tmp_path / "out")).__name__ == method.upper()
    for flag, value in (("--nu0", 40), ("--nu0", "auto"), ("--inference", "map"), ("--rounds", 40)):
        refused = run("fit", data / "tasks", tmp_path / "x", "--method", method, flag, value)
        assert refused.exit_code == 2
        assert f"{flag} has no meaning with --method {method}" in refused.output


def test_the_papers_method(tiny, tmp_path):
    options = ("--method", "paper", "--draws", 8, "--max-iter", 3, "--seed", 2)
    done = run("fit", tiny / "whole", tmp_path / "out", *options, "--structure-prior", "scale_free")
    assert done.exit_code in (0, 3), done.output
    settings = {"structure_prior": "scale_free", "n_draws": 8, "max_iter": 3, "random_state": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = PaperMTGBN(**settings).fit(Tasks.from_folder(tiny / "whole"))
    loaded = load_result(tmp_path / "out")
    assert isinstance(loaded, PaperMTGBN)
    assert {name: loaded.get_params()[name] for name in settings} == settings
    np.testing.assert_array_equal(loaded.graphs_, fitted.graphs_)
    np.testing.assert_array_equal(loaded.draws_.sigma_h, fitted.draws_.sigma_h)
    assert (tmp_path / "out" / "report.html").exists()
    assert "3 tasks over 4 variables" in run("show", tmp_path / "out").output


def test_show_prints_the_summary(fitted):
    shown = run("show", fitted)
    assert shown.exit_code == 0
    assert "4 tasks over 5 variables" in shown.output
    words = " ".join(shown.output.split())
    for line in load_result(fitted).relatedness_.in_words():
        assert line in words
    for word in ("Converged", "d e", "Most common edges", "chosen", "membership", "leave-one-out"):
        assert word in words
    assert "reversible" not in words


def test_posterior_gives_the_probabilities_of_the_estimator(tiny, tmp_path):
    options = ("--inference", "posterior", "--rounds", 40, "--nu0", "auto", "--seed", 6)
    done = run("fit", tiny / "whole", tmp_path / "out", *options, "--edge-prior", "0.3,2")
    assert done.exit_code == 0, done.output
    assert "R-hat is below 1.05" in done.output
    settings = {"nu0": "auto", "edge_prior": (0.3, 2.0), "n_rounds": 40, "random_state": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = MTGBN(inference="posterior", **settings).fit(Tasks.from_folder(tiny / "whole"))
    loaded = load_result(tmp_path / "out")
    params = loaded.get_params()
    assert {name: params[name] for name in settings} == settings
    np.testing.assert_array_equal(loaded.edge_probabilities_, fitted.edge_probabilities_)
    assert loaded.adjacency_probabilities_[:, 0, 2].min() > 0.5
    assert (tmp_path / "out" / "probabilities.tsv").exists()
    shown = " ".join(run("show", tmp_path / "out").output.split())
    for word in ("R-hat is below 1.05", "probability", "stands out", "membership"):
        assert word in shown
    assert "EM iteration" not in shown


def test_an_interrupted_posterior_goes_on_to_the_same_bytes(tiny, tmp_path, monkeypatch):
    options = ("--inference", "posterior", "--rounds", 40)
    calls = []

    def interrupt(self, state):
        calls.append(state)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mtgbn.cli.runs._FitScreen.iterated", interrupt)
        assert run("fit", tiny / "whole", tmp_path / "out", *options).exit_code == 130
    for other in (("--inference", "map"), ("--inference", "posterior", "--rounds", 60)):
        refused = run("fit", tiny / "whole", tmp_path / "out", "--resume", *other)
        assert refused.exit_code == 1
        assert "is the checkpoint of a fit with" in str(refused.exception)
    assert run("fit", tiny / "whole", tmp_path / "out", *options, "--resume").exit_code == 0
    assert run("fit", tiny / "whole", tmp_path / "straight", *options).exit_code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")
    again = run("fit", tiny / "whole", tmp_path / "out", *options, "--resume")
    assert again.exit_code == 0
    assert "nothing to resume" in again.output
    for other in ((), ("--inference", "posterior", "--rounds", 60), (*options, "--nu0", 50)):
        refused = run("fit", tiny / "whole", tmp_path / "out", "--resume", *other)
        assert refused.exit_code == 1
        assert "other data or settings" in str(refused.exception)


def test_missing_values(tiny, tmp_path):
    refused = run("fit", tiny / "holey", tmp_path / "out")
    assert refused.exit_code == 1
    assert "'t1'" in str(refused.exception)
    baseline = run("fit", tiny / "holey", tmp_path / "out", "--missing", "em", "--method", "sig")
    assert baseline.exit_code == 2
    assert "sig needs complete data" in baseline.output
    assert not (tmp_path / "out").exists()
    done = run("fit", tiny / "holey", tmp_path / "out", "--missing", "em")
    assert done.exit_code == 0, done.output
    assert "1 values" in done.output
    loaded = load_result(tmp_path / "out")
    assert loaded.missing == "em"
    expected = Tasks.from_folder(tiny / "holey", missing="em")
    np.testing.assert_array_equal(loaded.tasks_.incomplete[1], expected.incomplete[1])
    before = contents(tmp_path / "out")
    again = run("fit", tiny / "holey", tmp_path / "out", "--missing", "em", "--resume")
    assert again.exit_code == 0
    assert "nothing to resume" in again.output
    other = run("fit", tiny / "whole", tmp_path / "out", "--missing", "em", "--resume")
    assert other.exit_code == 1
    assert "other data or settings" in str(other.exception)
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        *((word, word) for word in ("shared", "density")),
        ("0.3", 0.3),
        ("0.3,2", (0.3, 2.0)),
        ("1e-2,inf", (0.01, np.inf)),
    ],
)
def test_what_the_text_of_an_edge_prior_means(text, meaning):
    assert EdgePriorText().convert(text, None, None) == meaning


MATRIX = np.array([[9, 0.1, 0.2, 0.3], [0.1, 9, 0.4, 0.5], [0.2, 0.4, 9, 0.6], [0.3, 0.5, 0.6, 9]])


def write_matrix(path, order=(2, 0, 3, 1), delimiter=",", corner=True, diagonal="", matrix=MATRIX):
    """The matrix with its variables in another order, and one more that is in no task."""
    names = [f"v{k}" for k in order] + ["v9"]
    lines = [delimiter.join(["region"] * corner + names)]
    for i in (*order, None):
        cells = [
            diagonal if i == j else repr(0.5 if None in (i, j) else float(matrix[i, j]))
            for j in (*order, None)
        ]
        lines.append(delimiter.join(["v9" if i is None else f"v{i}", *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv", {}),
        ("a.tsv", {"delimiter": "\t", "diagonal": "NA"}),
        ("a.tsv", {"delimiter": "\t", "corner": False, "diagonal": "1"}),  # as R writes it
    ],
)
def test_an_edge_prior_in_a_file_is_matched_by_name(tiny, tmp_path, name, options):
    file, out = write_matrix(tmp_path / name, **options), tmp_path / "out"
    arguments = ("fit", tiny / "whole", out, "--method", "sig", "--edge-prior", file)
    assert run(*arguments).exit_code == 0
    loaded = load_result(out)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_array_equal(loaded.edge_prior[off], MATRIX[off])
    np.testing.assert_array_equal(loaded.edge_prior_.density[off], MATRIX[off])
    assert "nothing to resume" in run(*arguments, "--resume").output
    write_matrix(file, **options, matrix=MATRIX + 1e-9)
    refused = run(*arguments, "--resume")
    assert refused.exit_code == 1
    assert "other data or settings" in str(refused.exception)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is no table"),
        ("x,v0,v1,v2\nv0,.5,.1,.1\nv1,.1,.5,.1\nv2,.1,.1,.5", "no column 'v3'"),
        ("x,v0,v1,v2,v3\nv0,,.1,.1,.1\nv1,.1,,.1,.1\nv2,.1,.1,,.1", "no row 'v3'"),
        ("x,v0,v1,v2,v3\nv0,,.1,.1,.1\nv1,.1,,.1\n", "3 numbers in row 'v1'"),
        ("x,v0,v1,v2,v3\nv0,,.1,.1,.1\nv0,,.1,.1,.1", "two rows 'v0'"),
        ("x,v0,v1,v2,v2\nv0,,.1,.1,.1\n", "two columns 'v2'"),
        ("x,v0,v1,v2,v3\nv0,,.1,?,.1\nv1,.1,,.1,.1\nv2,?,.1,,.1\nv3,.1,.1,.1,", "'?' in row 'v0'"),
        ("x,v0,v1,v2,v3\nv0,,.1,1,.1\nv1,.1,,.1,.1\nv2,1,.1,,.1\nv3,.1,.1,.1,", "v0 and v2 is 1"),
        ("x,v0,v1,v2,v3\nv0,,.1,.2,.1\nv1,.1,,.1,.1\nv2,.1,.1,,.1\nv3,.1,.1,.1,", "symmetric"),
    ],
)
def test_a_bad_file_of_edge_priors_is_named(tiny, tmp_path, content, complaint):
    file = tmp_path / "prior.csv"
    file.write_text(content)
    refused = run("fit", tiny / "whole", tmp_path / "out", "--edge-prior", file)
    assert refused.exit_code == 1
    assert complaint in str(refused.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--edge-prior", "dense"], 2, "'dense' is none of"),
        (["--edge-prior", "0.3,"], 2, "is none of"),
        (["--edge-prior", "0.3,1,2"], 2, "is none of"),
        (["--edge-prior", "0.3", "2"], 2, "unexpected extra argument"),
        (["--edge-prior", "2"], 1, "between 0 and 1"),
        (["--edge-prior", "0.3,-1"], 1, "similarity s above 0"),
        (["--edge-prior", "nan"], 1, "between 0 and 1"),
        (["--nu0", "automatic"], 2, "neither a number nor 'auto'"),
        (["--nu0", "1"], 1, "above p - 1"),
        (["--nu0", "nan"], 1, "above p - 1"),
        (["--inference", "median"], 2, "'map', 'posterior'"),
        (["--inference", "posterior", "--rounds", "5"], 1, "n_rounds"),
        (
            ["--inference", "posterior", "--tol", "1"],
            2,
            "--tol has no meaning with --inference post",
        ),
        (["--rounds", "40"], 2, "--rounds has no meaning with --inference map"),
        (["--structure-prior", "restricted"], 2, "has no meaning with --method mtgbn"),
        (["--method", "paper", "--inference", "map"], 2, "has no meaning with --method paper"),
        (["--method", "paper", "--missing", "em"], 2, "paper needs complete data"),
        (["--method", "paper", "--nu0", "auto"], 1, "nu0"),
        (["--method", "paper", "--edge-prior", "shared"], 1, "edge_prior"),
        (["--missing", "drop"], 2, "'error', 'em'"),
    ],
)
def test_bad_values_of_options(tiny, tmp_path, options, code, complaint):
    refused = run("fit", tiny / "whole", tmp_path / "out", *options)
    assert refused.exit_code == code
    assert complaint in (refused.output if code == 2 else str(refused.exception))
    assert not (tmp_path / "out").exists()


def test_exit_codes(data, tmp_path):
    unconverged = run("fit", data / "tasks", tmp_path / "out", "--max-iter", 1)
    assert unconverged.exit_code == 3
    assert "Did NOT converge" in unconverged.output
    assert load_result(tmp_path / "out").converged_ is False
    assert run("fit", data / "nothing", tmp_path / "x").exit_code == 2
    bad = program("fit", data / "long.csv", tmp_path / "y")  # as users see it
    assert bad.returncode == 1
    assert bad.stderr.startswith("mtgbn: ")
    assert "'task'" in bad.stderr
    assert not (tmp_path / "y").exists()
    for options in (["--pattern", "*.csv"], ["--resume", "--overwrite"]):
        assert run("fit", data / "tasks.npz", tmp_path / "z", *options).exit_code == 2
    assert run("fit", data / "tasks", tmp_path / "z", "--task-column", "who").exit_code == 2


def test_a_result_is_not_overwritten_unasked(data, own, tmp_path):
    before = contents(own)
    assert "--overwrite" in failure("fit", data / "tasks", own, "--seed", 2)
    assert contents(own) == before
    resumed = run("fit", data / "tasks", own, "--resume")
    assert resumed.exit_code == 0
    assert contents(own) == before
    # The old result stays until there is a new one.
    for options in (["--draws", "2"], ["--nu0", "1"], ["--jobs", "0"]):
        failure("fit", data / "tasks", own, "--overwrite", *options)
        assert contents(own) == before
    failure("fit", data / "long.csv", own, "--overwrite")
    assert contents(own) == before
    assert run("fit", data / "tasks", own, "--overwrite", "--seed", 2).exit_code == 0
    assert load_result(own).random_state == 2
    assert not (own / "dot").exists()


def test_folders_of_others_are_left_alone(data, tmp_path):
    out = tmp_path / "out"
    (out / "dot").mkdir(parents=True)
    (out / "dot" / "thesis.txt").write_text("all of it")
    for options in ([], ["--overwrite"], ["--resume"]):
        assert "holds other files" in failure("fit", data / "tasks", out, *options)
    assert contents(out) == {"dot/thesis.txt": b"all of it"}
    assert "holds the data" in failure("fit", data / "tasks", data / "tasks")
    assert run("fit", data / "tasks", "").exit_code == 2


def test_resume_of_a_finished_result_checks_what_was_asked_for(data, fitted, tmp_path):
    out = tmp_path / "out"
    assert run("fit", data / "tasks", out, "--max-iter", 1).exit_code == 3
    assert run("fit", data / "tasks", out, "--resume", "--max-iter", 1).exit_code == 3
    for options, message in (
        (["--nu0", "77"], "is the checkpoint of a fit with nu0='auto', not 77.0"),
        (["--method", "sig"], "holds an interrupted fit of MTGBN"),
        (["--standardise"], "is the checkpoint of other data"),
    ):
        assert message in failure("fit", data / "tasks", out, "--resume", *options)
    assert run("fit", data / "tasks", out, "--resume", "--graphs", "dot").exit_code == 0
    assert contents(out) == contents(fitted)


def test_a_result_of_shifted_data_is_of_other_data(tiny, tmp_path):
    """Scatters are the same; predictions are not."""
    (tmp_path / "moved").mkdir()
    for path in (tiny / "whole").iterdir():
        header, *lines = path.read_text().splitlines()
        moved = [",".join(repr(float(cell) + 4096.0) for cell in line.split(",")) for line in lines]
        kept = [",".join(repr(float(cell) - 4096.0) for cell in line.split(",")) for line in moved]
        (tmp_path / "moved" / path.name).write_text("\n".join([header, *moved]))
        (tmp_path / path.name).write_text("\n".join([header, *kept]))
    (tmp_path / "kept").mkdir()
    for path in tmp_path.glob("*.csv"):
        path.rename(tmp_path / "kept" / path.name)
    one, other = (Tasks.from_folder(tmp_path / name) for name in ("kept", "moved"))
    assert np.abs(one.scatters - other.scatters).max() < 1e-6
    assert run("fit", tmp_path / "kept", tmp_path / "out", "--method", "sig").exit_code == 0
    refused = run("fit", tmp_path / "moved", tmp_path / "out", "--method", "sig", "--resume")
    assert refused.exit_code == 1
    assert "other data or settings" in str(refused.exception)


def test_an_interrupted_overwrite_can_be_resumed(tiny, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert run("fit", tiny / "whole", out).exit_code == 0
    before = contents(out)
    other = ["--seed", 2, "--inference", "posterior", "--rounds", 20]

    def interrupt(self, state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mtgbn.cli.runs._FitScreen.iterated", interrupt)
        assert run("fit", tiny / "whole", out, "--overwrite", *other).exit_code == 130
    # The old result is still there, and asking for it does not lose the new fit.
    assert "finished; nothing to resume" in run("fit", tiny / "whole", out, "--resume").output
    found = contents(out)
    assert {name: found[name] for name in before} == before
    assert run("fit", tiny / "whole", out, "--resume", *other).exit_code == 0
    run("fit", tiny / "whole", tmp_path / "straight", *other)
    assert contents(out) == contents(tmp_path / "straight")


def test_a_loop_of_links_is_no_folder(tiny, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused = run("fit", tiny / "whole", tmp_path / "loop")
    assert refused.exit_code == 1
    assert isinstance(refused.exception, OSError)  # which `main` makes a message of


def test_one_folder_is_for_one_fit_at_a_time(data, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    refused = program("fit", data / "tasks", out)
    os.close(handle)
    assert refused.returncode == 1
    assert "another command" in refused.stderr
    assert out.exists()


def test_a_dead_status_stream_does_not_end_a_fit(tiny, tmp_path):
    command = [*PROGRAM, "fit", str(tiny / "whole"), str(tmp_path / "out"), "--method", "sig"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stderr=full, check=False)
    assert done.returncode in (0, 120)  # 120: the interpreter could not flush at its end
    load_result(tmp_path / "out")


def test_show_names_a_damaged_file(own):
    os.truncate(own / "networks.npz", 50)
    assert "networks.npz" in failure("show", own)


def test_nothing_is_printed_when_quiet_and_no_bar_without_a_terminal(tiny, tmp_path):
    quiet = run("fit", tiny / "whole", tmp_path / "a", "--method", "sig", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    plain = program("fit", tiny / "whole", tmp_path / "b", "--method", "sig")
    assert plain.stdout == ""
    assert "\x1b" not in plain.stderr
    assert "Wrote" in plain.stderr


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
    check_kills(data, tmp_path, 1)


@pytest.mark.slow
def test_killed_ten_times_and_resumed_gives_the_same_bytes(data, tmp_path):
    check_kills(data, tmp_path, 10)


def test_a_checkpoint_beside_a_finished_result_goes(data, fitted, tmp_path):
    """A fit that is killed between its last two steps leaves it."""
    shutil.copytree(fitted, tmp_path / "out")
    (tmp_path / "out/checkpoint.npz").write_bytes(b"of a fit that has ended")
    os.utime(tmp_path / "out/checkpoint.npz", (0, 0))
    assert run("fit", data / "tasks", tmp_path / "out", "--resume").exit_code == 0
    assert contents(tmp_path / "out") == contents(fitted)


def test_an_interrupted_fit_asks_for_resume_and_refuses_other_settings(
    data, fitted, tmp_path, monkeypatch
):
    out = tmp_path / "out"

    def interrupt(self, state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mtgbn.cli.runs._FitScreen.iterated", interrupt)
        interrupted = run("fit", data / "tasks", out)
    assert interrupted.exit_code == 130
    assert "--resume" in interrupted.output
    assert os.listdir(out) == ["checkpoint.npz"]
    assert "--resume" in failure("fit", data / "tasks", out)
    for options, message in (
        (("--method", "sig"), "interrupted fit of MTGBN"),
        (("--nu0", 77), "nu0"),
    ):
        assert message in failure("fit", data / "tasks", out, "--resume", *options)
    assert run("fit", data / "tasks", out, "--resume", "--graphs", "dot").exit_code == 0
    assert contents(out) == contents(fitted)


@pytest.mark.filterwarnings("ignore")  # of the cluster's own making
@pytest.mark.slow  # tests/learn/test_dask.py has the same without the command
def test_scheduler_gives_the_same_bytes(data, fitted, tmp_path):
    options = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, local_directory=str(tmp_path / "dask"), **options
        ) as cluster,
        Client(cluster),
    ):
        address = cluster.scheduler_address
        there = ("fit", data / "tasks", tmp_path / "there", "--graphs", "dot")
        done = run(*there, "--scheduler", address)
    assert done.exit_code == 0, done.output
    assert contents(tmp_path / "there") == contents(fitted)
    nobody = ("fit", data / "tasks", tmp_path / "x", "--scheduler", "tcp://127.0.0.1:9")
    assert "no Dask scheduler" in failure(*nobody)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("method", ["mtgbn", "sig", "avg"])
def test_a_warning_about_time_series_is_in_the_result_and_wherever_it_is_shown(method, tmp_path):
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(2, 80, 3)).cumsum(axis=1)
    np.savez(tmp_path / "series.npz", a=walks[0], b=walks[1])
    text = "rows are autocorrelated, as in a time series"
    for name, options in (("taken", ()), ("corrected", ("--effective-samples", "bartlett"))):
        out = tmp_path / name
        fitting = ["--method", method, "--standardise", "--seed", 1, "--quiet", *options]
        assert run("fit", tmp_path / "series.npz", out, *fitting).exit_code in (0, 3)
        page = " ".join((out / "report.html").read_text().split())
        places = {
            "result": " ".join(json.loads((out / "result.json").read_text())["warnings"]),
            "page": page.lower(),
            "show": " ".join(run("show", out).output.split()),
            "loaded": " ".join(load_result(out).warnings_),
        }
        assert [place for place in places if text in places[place]] == (
            list(places) if name == "taken" else []
        )
        if name == "taken":
            assert "There are no warnings." not in page
            assert np.all(load_result(out).tasks_.independent_shares < 0.7)
