"""Results on disk: whole, checked, the same every time."""

import contextlib
import csv
import errno
import io
import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray

from mtgbn import AVG, MTGBN, SIG, Knowledge, Tasks, load_result, save_result
from mtgbn._utils.files import writing
from mtgbn.errors import ConvergenceWarning, InputError, NotFittedError
from mtgbn.graphs import cpdag
from mtgbn.graphs.convert import from_dot, from_graphml
from mtgbn.paper import PaperMTGBN
from mtgbn.results import summarise
from mtgbn.results.fit_tables import edge_directions
from mtgbn.results.folder import _digest
from mtgbn.simulate import simulate_tasks

NAMES = ["sub 1", "sub/1", "..", "Łódź\t2"]


QUICK = {"n_draws": 24, "n_rounds": 40, "random_state": 3}


@pytest.fixture(scope="module")
def simulation():
    return simulate_tasks(n_tasks=4, n_variables=4, n_rows=60, random_state=5)


@pytest.fixture(scope="module")
def tasks(simulation):
    return Tasks.from_arrays(simulation.arrays, names=NAMES, standardise=True)


def fit(estimator, tasks, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so few draws are never enough
        return estimator.fit(tasks, **options)


GROUPS = ["control", "patient", "patient", "control"]


@pytest.fixture(scope="module")
def fitted(tasks):
    """Every kind of fit: what it is of decides which attributes and files there are."""
    knowledge = Knowledge(forbidden=[("x0", "x1")], max_parents=2)
    options = {"edge_prior": (0.2, np.inf), "knowledge": knowledge}
    matrix = np.full((4, 4), 0.2)
    matrix[0, 1] = matrix[1, 0] = 0.9
    kinds = {
        "MTGBN": MTGBN(**options, **QUICK),
        "MTGBN, posterior": MTGBN(inference="posterior", **QUICK),
        "PaperMTGBN": PaperMTGBN(search="boss", nu0=30, n_draws=24, random_state=3),
        "MTGBN, matrix": MTGBN(edge_prior=(matrix, 2.0), nu0="auto", **QUICK),
        "SIG": SIG(**options, random_state=3),
        "SIG, matrix": SIG(edge_prior=matrix, random_state=3),
        "AVG": AVG(**options, random_state=3),
    }
    found = {name: fit(estimator, tasks) for name, estimator in kinds.items()}
    with_groups = fit(MTGBN(inference="posterior", **QUICK), tasks, groups=GROUPS)
    found["MTGBN, groups"] = with_groups
    return found | {"MTGBN, missing": fit(MTGBN(missing="em", **QUICK), incomplete())}


def incomplete():
    """The first task lacks a value, the second a variable, the third nothing."""
    arrays = [
        array.copy()
        for array in simulate_tasks(n_tasks=3, n_variables=4, n_rows=30, random_state=8).arrays
    ]
    arrays[0][2, 1] = np.nan
    arrays[1][:, 3] = np.nan
    return Tasks.from_arrays(arrays, missing="em")


def assert_same(found, expected):
    """Equal in value and kind, through tuples and dicts."""
    if isinstance(expected, float):  # numpy's are floats too
        assert isinstance(found, float)
        assert np.array_equal(found, expected, equal_nan=True)
        return
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert_same(found[name], value)
    else:
        assert found == expected


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


KINDS = [
    *("MTGBN", "MTGBN, posterior", "PaperMTGBN", "MTGBN, matrix", "MTGBN, missing"),
    *("MTGBN, groups", "SIG", "SIG, matrix", "AVG"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws_format", ["npz", "netcdf"])
def test_what_is_loaded_is_what_was_saved(fitted, simulation, tmp_path, kind, draws_format):
    estimator = fitted[kind]
    save_result(estimator, tmp_path / "one", draws_format=draws_format)
    loaded = load_result(tmp_path / "one")
    assert type(loaded) is type(estimator)
    assert vars(loaded).keys() == vars(estimator).keys()
    for name, value in vars(estimator).items():
        if name == "draws_":
            for part in ("sigma_h", "statistics", "variables", "sampler"):
                assert_same(getattr(loaded.draws_, part), getattr(value, part))
        elif name != "n_jobs":
            assert_same(getattr(loaded, name), value)
    rows = simulation.arrays[1]
    np.testing.assert_array_equal(
        loaded.predict_log_density(1, rows), estimator.predict_log_density(1, rows)
    )
    np.testing.assert_array_equal(loaded.sample(0, 5, 1), estimator.sample(0, 5, 1))
    save_result(loaded, tmp_path / "two", draws_format=draws_format)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_differences_between_groups_are_a_table_and_a_sentence(fitted, tmp_path):
    estimator = fitted["MTGBN, groups"]
    save_result(estimator, tmp_path)
    rows, expected = read_table(tmp_path / "differences.tsv"), estimator.differences_.to_frame()
    assert list(rows[0]) == list(expected.columns)
    assert len(rows) == 6
    np.testing.assert_array_equal(
        [float(row["probability"]) for row in rows], expected["probability"]
    )
    lines = summarise(load_result(tmp_path)).lines
    assert any(line.startswith("Groups: 2 control, 2 patient. Of 6 pairs, ") for line in lines)
    assert any("are different between the groups, " in line for line in lines)
    assert load_result(tmp_path).groups_["sub/1"] == "patient"
    # A result without groups leaves no differences in the folder.
    save_result(fitted["MTGBN, posterior"], tmp_path)
    assert not (tmp_path / "differences.tsv").exists()


def test_missing_values_come_back_with_their_rows(fitted, tmp_path):
    save_result(fitted["MTGBN, missing"], tmp_path)
    loaded, expected = load_result(tmp_path).tasks_, incomplete()
    assert sorted(loaded.incomplete) == [0, 1]
    for t, rows in expected.incomplete.items():
        np.testing.assert_array_equal(loaded.incomplete[t], rows)
    assert not np.array_equal(loaded.scatters[0], expected.scatters[0])  # of imputed rows by now
    np.testing.assert_allclose(loaded.scatters[2], expected.scatters[2], rtol=1e-12)


@pytest.mark.parametrize("with_similarity", [False, True])
def test_a_matrix_of_edge_priors_in_any_form_refits_to_the_same(tasks, tmp_path, with_similarity):
    matrix = np.full((4, 4), 0.2)
    matrix[0, 1] = matrix[1, 0] = 0.9
    np.fill_diagonal(matrix, np.nan)  # means nothing, and JSON could not hold it
    names = ["x2", "x0", "x3", "x1"]
    order = [tasks.variables.index(name) for name in names]
    frame = pd.DataFrame(matrix[np.ix_(order, order)], index=names, columns=names)
    for form in (frame, matrix, matrix.tolist(), tuple(map(tuple, matrix))):
        setting = (form, np.inf) if with_similarity else form
        estimator = SIG(edge_prior=setting, random_state=0).fit(tasks)
        save_result(estimator, tmp_path)
        loaded = load_result(tmp_path)
        found = loaded.edge_prior
        assert_same(found[0] if with_similarity else found, matrix)
        assert not with_similarity or found[1] == np.inf
        assert_same(loaded.edge_prior_, estimator.edge_prior_)
        np.testing.assert_array_equal(loaded.fit(tasks).graphs_, estimator.graphs_)


@pytest.mark.parametrize("kind", ["MTGBN", "MTGBN, posterior"])
def test_the_same_fit_gives_the_same_bytes(fitted, tasks, tmp_path, kind):
    save_result(fitted[kind], tmp_path / "one", graph_formats=("dot",))
    again = fit(MTGBN(**fitted[kind].get_params()), tasks)
    save_result(again, tmp_path / "two", graph_formats=("dot",))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not list(tmp_path.rglob("*.part"))


def read_table(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")), delimiter="\t"))


def places(estimator, row):
    ends = (estimator.variables_.index(row[end]) for end in ("source", "target"))
    return estimator.task_names_.index(row["task"]), *ends


def test_a_full_disk_leaves_the_old_result_whole(fitted, tmp_path, monkeypatch):
    save_result(fitted["MTGBN"], tmp_path)
    before = contents(tmp_path)
    written = []

    @contextlib.contextmanager
    def full(path):
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        with writing(path) as file:
            yield file

    monkeypatch.setattr("mtgbn.results.folder.writing", full)
    with pytest.raises(OSError, match="No space left"):
        save_result(fitted["MTGBN, posterior"], tmp_path)
    assert contents(tmp_path) == before
    assert type(load_result(tmp_path)) is MTGBN


def test_names_of_any_kind_survive_the_tables(tmp_path):
    names = ['"q', "a\tb", "a b", "x,y"]
    rows = np.random.default_rng(0).standard_normal((2, 40, 4))
    rows[:, :, 1:] += 2 * rows[:, :, :1]
    estimator = SIG().fit(Tasks.from_arrays(rows, variables=names))
    save_result(estimator, tmp_path)
    found = pd.read_csv(tmp_path / "edges.tsv", sep="\t")
    assert len(found) == estimator.graphs_.sum()
    assert set(found["source"]) | set(found["target"]) <= set(names)


@pytest.mark.parametrize("kind", ["MTGBN", "MTGBN, posterior", "SIG, matrix"])
def test_the_edge_table_lists_every_edge(fitted, tmp_path, kind):
    estimator = fitted[kind]
    save_result(estimator, tmp_path)
    rows = read_table(tmp_path / "edges.tsv")
    assert len(rows) == estimator.graphs_.sum()
    forbidden = ("x0", "x1") if kind == "MTGBN" else None
    for row in rows:
        t, i, j = places(estimator, row)
        assert estimator.graphs_[t, i, j]
        assert float(row["coefficient"]) == estimator.coefficients_[t, i, j]
        reversible = estimator.cpdags_[t, j, i]
        known = (row["target"], row["source"]) == forbidden
        assert row["direction"] == (
            "compelled" if not reversible else "known" if known else "chosen"
        )
        joined = estimator.graphs_[:, i, j] | estimator.graphs_[:, j, i]
        assert int(row["tasks_with_edge"]) == joined.sum()
        if kind == "MTGBN, posterior":
            assert float(row["probability"]) == estimator.edge_probabilities_[t, i, j]
            either = estimator.adjacency_probabilities_[t, i, j]
            assert float(row["adjacency_probability"]) == either
        else:
            assert "probability" not in row


def test_directions_are_compelled_known_or_chosen():
    # x0 -> x2 <- x1 is a collider, x2 -> x3 follows from it, and x4 - x5 is open.
    graph = np.zeros((6, 6), dtype=bool)
    for i, j in ((0, 2), (1, 2), (2, 3), (4, 5)):
        graph[i, j] = True
    expected = {(0, 2): "compelled", (1, 2): "compelled", (2, 3): "compelled"}
    for knowledge, reason in ((None, "chosen"), (Knowledge(forbidden=[("x5", "x4")]), "known")):
        estimator = SIG(knowledge=knowledge)
        estimator.graphs_, estimator.cpdags_ = graph[None], cpdag(graph)[None]
        estimator.variables_ = tuple(f"x{k}" for k in range(6))
        (found,) = edge_directions(estimator)
        edges = {(i, j): str(found[i, j]) for i, j in np.argwhere(found != "").tolist()}
        assert edges == expected | {(4, 5): reason}


def test_what_follows_from_knowledge_is_known():
    """In x0 -> x1 -> x2 with the first arrow known, the other way round for the second is a collider."""
    graph = np.zeros((3, 3), dtype=bool)
    graph[0, 1] = graph[1, 2] = True
    estimator = SIG(knowledge=Knowledge(required=[("x0", "x1")]))
    estimator.graphs_, estimator.cpdags_ = graph[None], cpdag(graph)[None]
    estimator.variables_ = ("x0", "x1", "x2")
    (found,) = edge_directions(estimator)
    assert found[0, 1] == found[1, 2] == "known"


def test_the_probability_table_lists_every_pair_that_may_be_joined(fitted, tmp_path):
    estimator = fitted["MTGBN, posterior"]
    save_result(estimator, tmp_path)
    rows = read_table(tmp_path / "probabilities.tsv")
    p = len(estimator.variables_)
    either = estimator.adjacency_probabilities_
    expected = [
        (t, i, j)
        for t in range(len(NAMES))
        for i in range(p)
        for j in range(i + 1, p)
        if either[t, i, j] > 0.01
    ]
    assert [places(estimator, row) for row in rows] == expected
    for row, (t, i, j) in zip(rows, expected, strict=True):
        numbers = {
            "probability_forward": estimator.edge_probabilities_[t, i, j],
            "probability_backward": estimator.edge_probabilities_[t, j, i],
            "adjacency_probability": either[t, i, j],
            "rhat": estimator.edge_diagnostics_.rhat[t, i, j],
            "ess": estimator.edge_diagnostics_.ess[t, i, j],
        }
        assert {name: float(row[name]) for name in numbers} == numbers
    save_result(fitted["MTGBN"], tmp_path)
    assert not (tmp_path / "probabilities.tsv").exists()


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


@pytest.mark.parametrize("kind", ["MTGBN", "PaperMTGBN"])
def test_netcdf_is_read_by_xarray(fitted, tmp_path, kind):
    draws = fitted[kind].draws_
    save_result(fitted[kind], tmp_path, draws_format="netcdf")
    with xarray.open_dataset(tmp_path / "draws.nc", engine="scipy") as dataset:
        np.testing.assert_array_equal(dataset["sigma_h"], draws.sigma_h)
        assert dataset["sigma_h"].dims == ("chain", "draw", "variable", "variable_2")
        assert json.loads(dataset.attrs["variable_names"]) == list(draws.variables)
        for name, values in draws.statistics.items():
            np.testing.assert_array_equal(dataset[name], values)


def strictly(path):
    """Contents of a JSON file that every reader accepts: without NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_result_json_is_strict_json_and_says_what_was_done(fitted, tmp_path):
    about = strictly(save_result(fitted["MTGBN"], tmp_path))
    assert about["settings"]["random_state"] == 3
    assert about["settings"]["knowledge"]["forbidden"] == [["x0", "x1"]]
    assert about["converged"] is True
    assert about["versions"]["mtgbn"]
    assert [task["rows"] for task in about["tasks"]] == [60] * 4
    assert len(about["history"]) == fitted["MTGBN"].n_iter_
    assert about["agreement"] == "nan"  # with prior knowledge


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_json_is_strict(fitted, tmp_path, kind):
    strictly(save_result(fitted[kind], tmp_path))


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
        elif how == "relatedness without delta":
            del about["relatedness"]["delta"]
        elif how == "foreign array":
            about["relatedness"]["pareto"]["array"] = "speed"
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
        ("relatedness without delta", "delta"),
        ("foreign array", "speed"),
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
    loaded = load_result(tmp_path)
    with pytest.raises(NotFittedError, match="without the draws"):
        loaded.predict_log_density(0, simulation.arrays[0])
    before = contents(tmp_path)
    save_result(loaded, tmp_path)
    assert set(contents(tmp_path)) == set(before)


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
    from mtgbn._utils.files import writing

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


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_counts_edges_and_their_directions(fitted, tmp_path, kind):
    estimator = fitted[kind]
    summary = summarise(estimator, most_edges=100)
    assert f"{len(estimator.graphs_)} tasks over 4 variables" in summary.lines[0]
    save_result(estimator, tmp_path)
    chosen = [
        row["task"] for row in read_table(tmp_path / "edges.tsv") if row["direction"] == "chosen"
    ]
    for name, row, graph in zip(
        estimator.task_names_, summary.tasks.rows, estimator.graphs_, strict=True
    ):
        cells = dict(zip(summary.tasks.columns, row, strict=True))
        assert cells["task"] == name
        assert cells["edges"] == str(graph.sum())
        assert cells["of which chosen"] == str(chosen.count(name))
    counts = sum(int(row[1].split()[0]) for row in summary.edges.rows)
    assert counts == estimator.graphs_.sum()


def test_the_summary_says_how_alike_the_tasks_are(fitted):
    estimator = fitted["MTGBN, posterior"]
    summary = summarise(estimator)
    for line in estimator.relatedness_.in_words():
        assert line in summary.lines
    for t, row in enumerate(summary.tasks.rows):
        cells = dict(zip(summary.tasks.columns, row, strict=True))
        assert float(cells["membership"]) == round(estimator.membership_[t], 2)
        number, *rough = cells["leave-one-out"].split()
        assert float(number) == round(estimator.relatedness_.leave_one_out[t], 3)
        assert bool(rough) == (estimator.relatedness_.pareto[t] > 0.7)
    for kind in ("PaperMTGBN", "SIG"):
        assert "membership" not in summarise(fitted[kind]).tasks.columns


def test_the_summary_of_a_posterior_says_how_far_to_trust_it(fitted):
    estimator = fitted["MTGBN, posterior"]
    text = " ".join(summarise(estimator).lines)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    rhat, ess = (
        np.array([[each[i, j] for i, j in pairs] for each in array])
        for array in estimator.edge_diagnostics_
    )
    assert f"below 1.05 for {np.mean(rhat < 1.05):.0%} of the adjacencies" in text
    assert f"effective sample size is {ess.min():.0f}." in text
    assert "EM iteration" not in text
    edges = summarise(estimator, most_edges=100).edges
    for row in edges.rows:
        cells = dict(zip(edges.columns, row, strict=True))
        i, j = (
            estimator.variables_.index(name)
            for name in cells["edge"].partition(" (")[0].split(" -> ")
        )
        mean = estimator.adjacency_probabilities_[:, i, j].mean()
        assert float(cells["mean adjacency probability"]) == round(mean, 2)
    assert "mean adjacency probability" not in summarise(fitted["MTGBN"]).edges.columns


def test_the_summary_speaks_of_directions_that_were_chosen(fitted, tasks):
    alone = SIG(random_state=0).fit(tasks)
    for estimator in (alone, fitted["PaperMTGBN"], fitted["MTGBN"]):
        text = " ".join(summarise(estimator).lines)
        has_chosen = np.isfinite(estimator.agreement_)
        assert (f"{estimator.agreement_:.0%} of the chosen directions" in text) == has_chosen
    assert "r = 0.2 to 0.9, one per pair" in " ".join(summarise(fitted["SIG, matrix"]).lines)


def test_another_version_is_named(fitted, tmp_path):
    save_result(next(iter(fitted.values())), tmp_path)
    about = json.loads((tmp_path / "result.json").read_text())
    about["format"] = "mtgbn result 1"
    (tmp_path / "result.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="was written by another version of mtgbn"):
        load_result(tmp_path)


def test_a_comparison_is_not_taken_for_an_interrupted_fit(tmp_path):
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(InputError, match="holds a comparison, not a fit"):
        load_result(tmp_path)
