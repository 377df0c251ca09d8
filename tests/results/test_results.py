"""Results on disk: whole, checked, the same every time."""

import csv
import io
import json
import os

import numpy as np
import pytest
import xarray

from mtgbn import AVG, MTGBN, SIG, Knowledge, Tasks, load_result, save_result
from mtgbn.errors import InputError, NotFittedError
from mtgbn.graphs import from_dot, from_graphml
from mtgbn.results import summarise
from mtgbn.results.folder import _digest
from mtgbn.simulate import simulate_tasks

NAMES = ["sub 1", "sub/1", "..", "Łódź\t2"]


@pytest.fixture(scope="module")
def simulation():
    return simulate_tasks(n_tasks=4, n_variables=4, n_rows=60, random_state=7)


@pytest.fixture(scope="module")
def fitted(simulation):
    tasks = Tasks.from_arrays(simulation.arrays, names=NAMES, standardise=True)
    knowledge = Knowledge(forbidden=[("x0", "x1")], max_parents=2)
    options = {"edge_prior": (0.2, np.inf), "knowledge": knowledge, "random_state": 3}
    return {kind.__name__: kind(**options).fit(tasks) for kind in (MTGBN, SIG, AVG)}


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("kind", ["MTGBN", "SIG", "AVG"])
@pytest.mark.parametrize("draws_format", ["npz", "netcdf"])
def test_what_is_loaded_is_what_was_saved(fitted, simulation, tmp_path, kind, draws_format):
    estimator = fitted[kind]
    save_result(estimator, tmp_path, draws_format=draws_format)
    loaded = load_result(tmp_path)
    assert type(loaded) is type(estimator)
    assert {**loaded.get_params(), "n_jobs": None} == {**estimator.get_params(), "n_jobs": None}
    for name, value in vars(estimator).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(loaded, name), value)
        elif name.endswith("_") and name != "draws_":
            assert getattr(loaded, name) == value, name
    rows = simulation.arrays[1]
    np.testing.assert_array_equal(
        loaded.predict_log_density("sub/1", rows), estimator.predict_log_density("sub/1", rows)
    )
    np.testing.assert_array_equal(loaded.sample(0, 5, 1), estimator.sample(0, 5, 1))


def test_the_same_fit_gives_the_same_bytes(fitted, tmp_path):
    for name in ("one", "two"):
        save_result(fitted["MTGBN"], tmp_path / name, graph_formats=("dot",))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not list(tmp_path.rglob("*.part"))


def test_the_edge_table_lists_every_edge(fitted, tmp_path):
    estimator = fitted["MTGBN"]
    save_result(estimator, tmp_path)
    text = (tmp_path / "edges.tsv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t"))
    assert len(rows) == estimator.graphs_.sum()
    tasks = [name.replace("\t", " ") for name in NAMES]
    for row in rows:
        t = tasks.index(row["task"])
        i, j = (estimator.variables_.index(row[end]) for end in ("source", "target"))
        assert estimator.graphs_[t, i, j]
        assert float(row["coefficient"]) == estimator.coefficients_[t, i, j]
        reversible = estimator.cpdags_[t, j, i]
        known = (row["source"], row["target"]) == ("x1", "x0")  # the other way is forbidden
        assert row["direction"] == (
            "compelled" if not reversible else "known" if known else "reversible"
        )
        joined = estimator.graphs_[:, i, j] | estimator.graphs_[:, j, i]
        assert int(row["tasks_with_edge"]) == joined.sum()


def test_graphs_are_written_for_every_task_under_harmless_names(fitted, tmp_path):
    estimator = fitted["SIG"]
    save_result(estimator, tmp_path, graph_formats=("graphml", "dot"))
    for kind, read in (("graphml", from_graphml), ("dot", from_dot)):
        files = sorted((tmp_path / kind).iterdir())
        assert len(files) == len(NAMES)
        found = []
        for file in files:
            adjacency, names = read(file.read_text(encoding="utf-8"))
            order = [names.index(name) for name in estimator.variables_]
            found.append(adjacency[np.ix_(order, order)].tolist())
        assert sorted(found) == sorted(estimator.graphs_.tolist())


def test_netcdf_is_read_by_xarray(fitted, tmp_path):
    draws = fitted["MTGBN"].draws_
    save_result(fitted["MTGBN"], tmp_path, draws_format="netcdf")
    with xarray.open_dataset(tmp_path / "draws.nc", engine="scipy") as dataset:
        np.testing.assert_array_equal(dataset["sigma_h"], draws.sigma_h)
        assert dataset["sigma_h"].dims == ("chain", "draw", "variable", "variable_2")
        assert json.loads(dataset.attrs["variable_names"]) == list(draws.variables)


def test_result_json_is_strict_json_and_says_what_was_done(fitted, tmp_path):
    path = save_result(fitted["MTGBN"], tmp_path)

    def refuse(constant):
        raise AssertionError(constant)

    about = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert about["settings"]["random_state"] == 3
    assert about["settings"]["knowledge"]["forbidden"] == [["x0", "x1"]]
    assert about["converged"] is True
    assert about["versions"]["mtgbn"]
    assert [task["rows"] for task in about["tasks"]] == [60] * 4
    assert len(about["history"]) == fitted["MTGBN"].n_iter_


def test_a_seed_that_nobody_gave_is_kept(simulation, tmp_path):
    first = SIG(search="mmhc", n_restarts=3).fit(simulation.tasks)
    again = SIG(search="mmhc", n_restarts=3, random_state=first.random_state_).fit(simulation.tasks)
    np.testing.assert_array_equal(first.graphs_, again.graphs_)


def damage(folder, how):
    if how == "no result.json":
        (folder / "result.json").unlink()
    elif how == "cut short":
        os.truncate(folder / "result.json", 100)
    elif how == "foreign":
        (folder / "result.json").write_text('{"format": "something else"}')
    elif how == "not text":
        (folder / "result.json").write_bytes(b"\xff\xfe\x00")
    elif how == "a list":
        (folder / "result.json").write_text("[1, 2]")
    elif how == "arrays cut short":
        os.truncate(folder / "networks.npz", 200)
    elif how == "draws missing":
        (folder / "draws.npz").unlink()
    elif how == "edges edited":
        with open(folder / "edges.tsv", "a") as file:
            file.write("sub 1\tx0\tx1\t1.0\tcompelled\t1\n")
    else:
        about = json.loads((folder / "result.json").read_text())
        if how == "a task too many":
            about["tasks"].append(about["tasks"][0])
        elif how == "unknown setting":
            about["settings"]["speed"] = 11
        elif how == "outside":
            about["files"]["../secret"] = "0"
        elif how == "no history":
            del about["history"]
        elif how == "nu0 edited":
            about["nu0"] += 1
        if how != "nu0 edited":
            forge(about)
        (folder / "result.json").write_text(json.dumps(about))


def forge(about):
    """Make the checksum fit, so that the later checks have their say."""
    about.pop("digest")
    about["digest"] = _digest(about)


@pytest.mark.parametrize(
    ("how", "culprit"),
    [
        ("no result.json", "holds no result"),
        ("cut short", "result.json is not what"),
        ("foreign", "format"),
        ("not text", "result.json is not what"),
        ("a list", "format"),
        ("arrays cut short", "networks.npz is not what"),
        ("draws missing", "draws.npz is not what"),
        ("edges edited", "edges.tsv is not what"),
        ("a task too many", "shape"),
        ("unknown setting", "speed"),
        ("outside", "outside its folder"),
        ("no history", "history"),
        ("nu0 edited", "contents were changed"),
    ],
)
def test_a_damaged_result_is_refused_and_named(fitted, tmp_path, how, culprit):
    save_result(fitted["MTGBN"], tmp_path)
    damage(tmp_path, how)
    with pytest.raises(InputError, match=culprit):
        load_result(tmp_path)


def test_objects_are_never_unpickled(fitted, tmp_path):
    path = save_result(fitted["SIG"], tmp_path)
    about = json.loads(path.read_text())
    np.savez(tmp_path / "networks.npz", graphs=np.array([object()], dtype=object))
    import hashlib

    content = (tmp_path / "networks.npz").read_bytes()
    about["files"]["networks.npz"] = hashlib.sha256(content).hexdigest()
    forge(about)
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match="allow_pickle=False"):
        load_result(tmp_path)


def test_bad_arguments(fitted, tmp_path):
    with pytest.raises(InputError, match="not fitted"):
        save_result(MTGBN(), tmp_path)
    with pytest.raises(InputError, match="draws_format"):
        save_result(fitted["SIG"], tmp_path, draws_format="pickle")
    with pytest.raises(InputError, match="graph_formats"):
        save_result(fitted["SIG"], tmp_path, graph_formats=("gml",))


def test_settings_of_any_kind_survive(simulation, tmp_path):
    knowledge = {"required": {("x0", "x1")}, "max_parents": np.int64(2)}
    estimator = SIG(edge_prior=np.array([0.2, 3.0]), knowledge=knowledge, random_state=1)
    estimator.fit(simulation.tasks)
    save_result(estimator, tmp_path)
    loaded = load_result(tmp_path)
    assert loaded.edge_prior == (0.2, 3.0)
    assert loaded.knowledge == Knowledge(**knowledge)
    np.testing.assert_array_equal(loaded.fit(simulation.tasks).graphs_, estimator.graphs_)


def test_without_draws_nothing_can_be_predicted(fitted, simulation, tmp_path):
    save_result(fitted["MTGBN"], tmp_path, draws_format="none")
    with pytest.raises(NotFittedError, match="without the draws"):
        load_result(tmp_path).predict_log_density(0, simulation.arrays[0])


def test_a_new_result_replaces_all_files_of_the_old_one_and_no_others(fitted, tmp_path):
    save_result(fitted["MTGBN"], tmp_path, graph_formats=("dot", "graphml"))
    (tmp_path / "dot" / "mine.txt").write_text("x")
    (tmp_path / "mine.txt").write_text("x")
    save_result(fitted["SIG"], tmp_path)
    assert set(contents(tmp_path)) == {
        *("result.json", "edges.tsv", "networks.npz", "mine.txt", "dot/mine.txt")
    }
    load_result(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    from mtgbn.files import writing

    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail():
        with writing(path) as file:
            file.write(b"half of the n")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_summary_counts_edges_and_their_directions(fitted):
    estimator = fitted["MTGBN"]
    summary = summarise(estimator, most_edges=100)
    assert "4 tasks over 4 variables" in summary.lines[0]
    assert [row[2] for row in summary.tasks] == [str(g.sum()) for g in estimator.graphs_]
    counts = sum(int(row[1].split()[0]) for row in summary.edges)
    assert counts == estimator.graphs_.sum()
