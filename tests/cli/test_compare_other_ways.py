"""`mtgbn compare --paper` and `--subject`: files, exit codes, interruption, and bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from compare.studies import QUICK, series, write_groups, write_series

from mtgbn import MTGBN, Tasks
from mtgbn.cli import cli
from mtgbn.compare import compare_groups, permutation
from mtgbn.compare.cohort import read_cohort
from mtgbn.compare.participants import read_participants
from mtgbn.report.commands import compare_command
from mtgbn.simulate import simulate_bold_groups

PROGRAM = [sys.executable, "-c", "from mtgbn.cli import main; main()"]
PAPER = "--paper"
FEW = ("v3", "v4", "v2")


def run(*arguments):
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)])


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def failure(*arguments):
    """The message of a command that fails without a traceback and leaves nothing behind."""
    result = run(*arguments)
    assert result.exit_code == 1
    assert not Path(arguments[1]).exists()
    return str(result.exception)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root / "data", write_groups(root / "data")


@pytest.fixture
def own_study(tmp_path):
    return tmp_path / "data", write_groups(tmp_path / "data", 3, 3)


@pytest.fixture(scope="module")
def small(tmp_path_factory, templates):
    """A study of three patients and three controls, compared; tests copy it."""
    root = tmp_path_factory.mktemp("small")
    table = write_groups(root / "data", 3, 3)
    options = ("--group", table, "--templates", templates, *QUICK)
    result = run(root / "data", root / "out", *options, PAPER)
    assert result.exit_code in (0, 3), result.output
    return root


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    path = tmp_path_factory.mktemp("templates") / "templates.tsv"
    path.write_text("name\ttemplate\n" + "".join(f"{name}\tT\n" for name in FEW))
    return path


@pytest.fixture(scope="module")
def whole(study, templates, tmp_path_factory):
    """A comparison with everything, never interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    data, table = study
    options = (
        PAPER,
        "--templates",
        templates,
        "--relabellings",
        3,
        "--methods",
        "mtgbn,gc",
        *QUICK,
    )
    result = run(data, out, "--group", table, *options, "--jobs", 1, "--seed", 7)
    return out, options, result


def test_the_folder_has_what_python_finds(study, whole):
    out, _, result = whole
    assert result.exit_code in (0, 3), result.output
    found = compare_groups(
        Tasks.from_folder(study[0], effective_samples="none"),
        np.arange(10) < 5,
        MTGBN(n_draws=8, n_restarts=0, max_iter=2),
        templates={"T": ("v2", "v3", "v4")},
        random_state=7,
    )
    table = pd.read_csv(out / "connections.tsv", sep="\t").query("kind == 'directed'")
    np.testing.assert_array_equal(table.count_a, found.templates[0].directed.count_a)
    top = table.iloc[0]
    assert {top.source, top.target} == {"v3", "v4"}
    assert (top.count_a, top.count_b, top.more_in) == (5, 0, "patient")
    assert "Group a is 'patient' (5 subjects), group b is 'control' (5)" in result.output
    assert "5 of 5 patient, 0 of 5 control" in result.output
    assert "every relabelling was fitted anew" in result.output
    assert "the paper's way (--paper) fits each group separately" in result.output
    assert "in no template, and left out: 'v0', 'v1'" in result.output
    about = json.loads((out / "comparison.json").read_text())
    assert about["settings"]["seed"] == 7
    assert about["subjects"][0] == {"subject": "sub-01", "group": "patient", "rows": 80, "n": 79.0}
    assert about["tests"]["permutation"]["refitted"] is True
    assert about["excluded"] == []
    assert {path.name for path in out.iterdir()} == {
        *("comparison.json", "report.html", "work"),
        *(
            f"{name}.{kind}"
            for name in ("connections", "degrees", "counts", "edges", "methods")
            for kind in ("tsv", "json")
        ),
    }
    assert not list((out / "work").rglob("group-*.npz"))


def test_neither_jobs_nor_an_interruption_matter(study, whole, tmp_path, monkeypatch):
    """The options come first here, as the groups' table may."""
    out, options, _ = whole
    arguments = ("--group", study[1], *options, "--seed", 7)
    original = permutation._relabelled

    def interrupted(k, *rest):
        if k == 2:
            raise KeyboardInterrupt
        return original(k, *rest)

    monkeypatch.setattr(permutation, "_relabelled", interrupted)
    stopped = run(*arguments, study[0], tmp_path / "b", "--jobs", 1)
    assert stopped.exit_code == 130
    assert "the same command goes on" in stopped.output
    assert not (tmp_path / "b" / "comparison.json").exists()
    monkeypatch.undo()
    resumed = run(study[0], *arguments, tmp_path / "b", "--jobs", 2, "--quiet")
    assert resumed.exit_code in (0, 3)
    assert resumed.output == ""
    assert contents(tmp_path / "b") == contents(out)


@pytest.mark.slow
def test_killed_at_any_moment(study, whole, tmp_path):
    out, options, _ = whole
    arguments = [*PROGRAM, "compare", study[0], tmp_path / "out", "--group", study[1], *options]
    arguments = [str(each) for each in (*arguments, "--seed", 7, "--jobs", 1)]
    store = tmp_path / "out" / "work" / "template-0" / "permutations.npz"
    process = subprocess.Popen(arguments, env=os.environ, stderr=subprocess.DEVNULL)
    while not store.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out" / "comparison.json").exists()
    assert subprocess.run(arguments, capture_output=True, check=False).returncode in (0, 3)
    assert contents(tmp_path / "out") == contents(out)


def test_folders_of_others_are_left_alone(study, whole, tmp_path):
    out, options, _ = whole
    data, table = study
    before = contents(out)
    other = run(data, out, "--group", table, *options, "--seed", 8)
    assert "comparison of other data or settings; use another folder, or --overwrite" in str(
        other.exception
    )
    assert contents(out) == before
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds other files" in str(run(data, tmp_path, "--group", table, PAPER).exception)
    assert "holds the data" in str(run(data, data, "--group", table, PAPER).exception)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_overwriting_and_asking_for_less(own_study, templates, tmp_path):
    data, table = own_study
    arguments = (data, tmp_path / "out", "--group", table, PAPER, "--templates", templates, *QUICK)
    assert run(*arguments, "--density", 1, "--groups", "control", "patient").exit_code in (0, 3)
    methods = pd.read_csv(tmp_path / "out" / "methods.tsv", sep="\t")
    assert methods.mtgbn_count_a.sum() == methods.mtgbn_count_b.sum() == 3
    found = run(*arguments, "--overwrite")
    assert found.exit_code in (0, 3)
    assert "Group a is 'patient'" in found.output
    assert "Beware" in found.output
    assert not (tmp_path / "out" / "methods.tsv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((PAPER, "--methods", "foo"), "no method 'foo'"),
        ((PAPER, "--draws", "5"), "n_draws must be"),
        (("--subject", "sub-01"), "3 controls are too few"),
    ],
)
def test_what_is_refused_costs_nothing(small, templates, tmp_path, options, message):
    shutil.copytree(small / "out", tmp_path / "out")
    groups = ("--group", small / "participants.tsv", "--templates", templates)
    arguments = (small / "data", tmp_path / "out", *groups, *QUICK)
    before = contents(tmp_path / "out"), contents(tmp_path / "out" / "work")
    for more in ((), ("--overwrite", "--seed", 2)):
        refused = run(*arguments, *options, *more)
        assert refused.exit_code == 1
        assert message in str(refused.exception)
        assert (contents(tmp_path / "out"), contents(tmp_path / "out" / "work")) == before


def test_a_run_that_failed_at_once_can_be_given_again(own_study, tmp_path):
    """Also with line breaks in names: tables that are written can be read again."""
    data, table = own_study
    (tmp_path / "out" / "work").mkdir(parents=True)
    (tmp_path / "out" / ".strange.part").mkdir()
    templates = tmp_path / "templates.csv"
    templates.write_text('name,template\nv3,"T\rx"\nv4,"T\rx"\nv2,"T\rx"\n')
    out = tmp_path / "out"
    found = run(data, out, "--group", table, "--templates", templates, *QUICK, PAPER)
    assert found.exit_code in (0, 3), found.exception
    assert (out / "report.html").exists()


@pytest.mark.parametrize("content", ['{"Runs": 3}', '{"Runs": ["a"]}', "[]", "{"])
def test_files_beside_series_may_be_of_other_programs(own_study, content):
    data, table = own_study
    next(data.glob("sub-01*.json")).write_text(content)
    cohort = read_cohort(data, read_participants(table), ("patient", "control"))
    assert len(cohort.tasks) == 6


@pytest.mark.parametrize("time", ["NaN", "true", "-2", "0", '"2"', "1" + "0" * 400])
def test_times_that_are_none(own_study, tmp_path, time):
    data, table = own_study
    next(data.glob("sub-01*.json")).write_text(f'{{"RepetitionTime": {time}}}')
    message = failure(data, tmp_path / "out", "--group", table)
    assert "not a number of seconds above 0" in message
    assert "sub-01" in message


def test_who_is_left_out_is_said_and_code_3(own_study, templates, tmp_path):
    data, table = own_study
    flat = series(40, True)
    flat[:, 1] = 0
    write_series(data, "sub-40", flat)
    write_series(data, "sub-41", series(41, True))
    table.write_text(table.read_text() + "sub-40\tpatient\nsub-42\tpatient\n")
    options = ("--templates", templates, *QUICK, PAPER)
    result = run(data, tmp_path / "out", "--group", table, *options)
    assert result.exit_code == 3
    assert "Excluded: sub-40: task 'sub-40', variable 'v1' is constant" in result.output
    assert "Excluded: sub-41: has no row" in result.output
    assert "Without data: 'sub-42'." in result.output
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [each["name"] for each in about["excluded"]] == ["sub-41", "sub-40"]
    assert about["participants_without_data"] == ["sub-42"]
    assert about["groups"]["a"]["n"] == 3


def test_one_patient_against_controls(study, templates, tmp_path):
    data, table = study
    options = ("--group", table, "--subject", "sub-02", "--templates", templates, *QUICK)
    result = run(data, tmp_path / "a", *options, "--jobs", 1)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "a" / "departures.tsv", sep="\t")
    assert set(found.iloc[0][["variable_1", "variable_2"]]) == {"v3", "v4"}
    assert found.iloc[0].departure == "new"
    assert (found.n_controls == 5).all()
    assert "Controls against each other" in result.output
    assert "Not compared: 4 of group 'patient'" in result.output
    about = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert about["subject"] == "sub-02"
    assert about["controls"]["subjects"] == [f"sub-{k:02d}" for k in range(6, 11)]
    again = run(data, *options, "--controls", "control", "--jobs", 2, tmp_path / "b")
    assert again.exit_code == 0
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


def test_one_patient_with_covariates(study, templates, tmp_path):
    data, table = study
    rows = table.read_text().split("\n")
    ages = [f"{30 + 7 * k % 23}" for k in range(len(rows))]
    aged = [f"{row}\t{'age' if k == 0 else ages[k]}" for k, row in enumerate(rows) if row]
    (tmp_path / "aged.tsv").write_text("\n".join(aged))
    options = ("--group", tmp_path / "aged.tsv", "--subject", "sub-02", "--templates", templates)
    result = run(data, tmp_path / "out", *options, "--formula", "age", *QUICK)
    assert result.exit_code == 0, result.output
    assert "Held constant: age" in result.output
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert about["covariates"] == "age"
    assert compare_command(about, []).count("--formula age") == 1
    assert "'hight'" in failure(data, tmp_path / "bad", *options, "--formula", "hight")
    assert not (tmp_path / "bad" / "comparison.json").exists()


def test_simulated_patients_with_known_alterations(tmp_path):
    """BOLD of two groups through the whole command, with all methods at the same density."""
    simulated = simulate_bold_groups(
        6, 6, 150, regions=5, n_altered=1, drift=0.0, strengths=(0.7, 0.9), random_state=3
    )
    (tmp_path / "data").mkdir()
    rows = ["participant_id\tdiagnosis"]
    for name, values, group in zip(
        simulated.subjects, simulated.series, simulated.groups, strict=True
    ):
        write_series(tmp_path / "data", name, values, simulated.regions, tr=2.5)
        rows.append(f"{name}\t{group}")
    (tmp_path / "who.tsv").write_text("\n".join(rows))
    quick = (PAPER, *QUICK[:-2], "--standardise", "--methods", "mtgbn,sig,gc,rdcm")
    result = run(tmp_path / "data", tmp_path / "out", "--group", tmp_path / "who.tsv", *quick)
    assert result.exit_code in (0, 3), result.output
    (altered,) = simulated.altered
    pair = {simulated.regions[altered.source], simulated.regions[altered.target]}
    found = pd.read_csv(tmp_path / "out" / "connections.tsv", sep="\t")
    first = found.query("kind == 'undirected'")
    first = first[
        first.p_two_sided == first.p_two_sided.min()
    ]  # one group may have several at once
    assert pair in [set(each) for each in first[["source", "target"]].to_numpy()]
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert about["settings"]["reading"]["effective_samples"] == "bartlett"
    assert about["repetition_time"] == 2.5
    assert all(10 < each["n"] < 140 for each in about["subjects"])
    methods = pd.read_csv(tmp_path / "out" / "methods.tsv", sep="\t")
    sums = {methods[f"{name}_count_a"].sum() for name in ("mtgbn", "sig", "gc", "rdcm")}
    assert len(sums) == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("participant_id\tgroup\n01\tp\n02\tq\n03\tr\n", (PAPER,), "has 3 labels"),
        ("participant_id\tgroup\n01\tp\n02\tp\n", (), "the other one is empty"),
        ("participant_id\tgroup\n01\tp\n02\tq\n03\tq\n", (), "group 'p' has one subject"),
        ("participant_id\tgroup\n77\tp\n02\tq\n03\tq\n", (), "group 'p' is empty"),
        ("participant_id\tgroup\n01\tp\n02\tq\n", ("--groups", "p", "x"), "group 'x' is empty"),
        ("participant_id\tage\n01\t3\n", (), "no column group or diagnosis"),
        ("participant_id\tgroup\n01\tp\n", ("--column", "dx"), "no column 'dx'"),
        ("participant_id\tgroup\n01\tp\nsub-01\tq\n", (), "twice"),
        ("participant_id\tgroup\n77\tp\n78\tq\n", (), "has data; the data are of 'sub-01'"),
        (None, ("--subject", "sub-77"), "no participant named '77'"),
        (None, ("--subject", "sub-06"), "'sub-06' is in group 'control', a control"),
        (None, (PAPER, "--methods", ","), "there is no method to compare"),
        (None, (PAPER, "--methods", "gc", "--tr", "-1"), "a number of seconds above 0; got -1"),
        (None, (PAPER, "--methods", "rdcm", "--tr", "nan"), "a number of seconds above 0; got nan"),
        ("participant_id\tgroup\tGroup\n01\tp\tq\n", (), "has the column 'group' twice"),
        ('participant_id\tgroup\tnote\n01\tp\t"x\n02\tq\ty\n', (), "an earlier quote"),
        ("participant_id\tgroup\tnote\n01\tp\t" + "x" * 200_000, (), "field larger"),
        (None, ("--subject", "77", "--controls", "control"), "no subject named '77'"),
        (None, ("--subject", "01", "--controls", "healthy"), "no controls 'healthy'"),
        (None, (PAPER, "--methods", "mtgbn,pc"), "no method 'pc'"),
        (None, (PAPER, "--density", 11), "5 variables have 10 pairs"),
        (None, ("--templates", "nothing.tsv"), "there is no file 'nothing.tsv'"),
    ],
)
def test_bad_input_is_explained(study, tmp_path, text, options, message):
    data, table = study
    if text is not None:
        table = tmp_path / "participants.tsv"
        table.write_text(text)
    assert message in failure(data, tmp_path / "out", "--group", table, *options)


def test_a_subject_that_cannot_be_used(own_study, tmp_path):
    data, table = own_study
    flat = series(1, True)
    flat[:, 3] = 2.5
    write_series(data, "sub-01", flat)
    message = failure(data, tmp_path / "out", "--group", table, "--subject", "01")
    assert "the data of '01' cannot be used: task 'sub-01', variable 'v3' is constant" in message


def test_dcm_needs_a_tr(own_study, tmp_path):
    data, table = own_study
    for path in data.glob("*.json"):
        path.unlink()
    message = failure(data, tmp_path / "out", "--group", table, PAPER, "--methods", "rdcm")
    assert "give the TR" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Missing option '--participants' / '--group'"),
        (("--group", "TABLE", "--controls", "x"), "--controls is for --subject"),
        (
            ("--group", "TABLE", "--subject", "1", "--permutations", "50"),
            "--permutations has no meaning with --subject; it belongs to the comparison by a design",
        ),
        (
            ("--group", "TABLE", "--subject", "1", "--methods", "gc"),
            "--methods has no meaning with --subject; it belongs to --paper",
        ),
        (("--group", "TABLE", "--subject", "1", PAPER), "leave out --subject or --paper"),
        (
            ("--group", "TABLE", PAPER, "--formula", "group"),
            "--formula has no meaning with --paper; it belongs to the comparison by a design",
        ),
        (("--group", "TABLE", PAPER, "--permutations", "99"), "here it is --relabellings"),
        (
            ("--group", "TABLE", "--fitting", "together"),
            "--fitting has no meaning with the comparison by a design; it belongs to --paper",
        ),
        (("--group", "TABLE", "--rounds", "50"), "no meaning with --inference map"),
        (("--group", "TABLE", "--jobs", "0"), "--jobs must be"),
    ],
)
def test_bad_usage(study, tmp_path, options, message):
    options = [str(study[1]) if each == "TABLE" else each for each in options]
    result = run(study[0], tmp_path / "out", *options)
    assert result.exit_code == 2
    assert message in result.output
