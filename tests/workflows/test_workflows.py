"""What commands do, called from Python; how it goes is tested with the commands."""

import json

import numpy as np
import pytest
from compare.studies import write_groups

from mtgbn import SIG, Tasks, load_result
from mtgbn.compare.comparison_folder import comparison_tables
from mtgbn.errors import InputError
from mtgbn.workflows import compare_folder, extract_folder, fit_folder, run_bids, run_demo
from mtgbn.workflows.compare import Selection

QUICK = {"n_draws": 8, "n_restarts": 0, "max_iter": 2}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root / "data", write_groups(root / "data", 3, 3)


def test_a_fit_tells_what_it_read_and_returns_the_estimator(study, tmp_path):
    told, steps = [], []
    run = fit_folder(
        study[0],
        tmp_path / "out",
        lambda tasks: SIG(random_state=len(tasks)),
        reading={"standardise": True},
        report=False,
        tell=told.append,
        progress=lambda *step: steps.append(step),
    )
    assert told[0].startswith("Read Tasks")
    assert steps
    assert (run.converged, run.was_finished, run.report) == (True, False, None)
    assert run.estimator.random_state == 6
    assert run.estimator.tasks_ == Tasks.from_folder(study[0], standardise=True)
    np.testing.assert_array_equal(load_result(run.folder).graphs_, run.estimator.graphs_)
    again = fit_folder(
        *(study[0], tmp_path / "out", SIG(random_state=6)),
        reading={"standardise": True},
        if_exists="resume",
        report=False,
    )
    assert again.was_finished


def test_a_comparison_returns_the_study_that_it_wrote(study, tmp_path):
    told = []
    run = compare_folder(
        *(study[0], tmp_path / "out", study[1]),
        design={"n_permutations": 50},
        parameters=QUICK,
        n_jobs=1,
        report=False,
        tell=told.append,
    )
    assert run.study.design.tested == "group"
    assert run.summary[0] == run.study.in_words()[0]
    assert "Effect: 'patient' minus 'control'." in run.summary
    about = json.loads((run.folder / "comparison.json").read_text())
    written = comparison_tables(run.study, about).tables
    assert set(written) == {"connections", "strengths", "components", "regions", "sets", "subjects"}
    for name, table in written.items():
        assert (run.folder / f"{name}.tsv").read_text() == table.tsv
    # Three and three subjects have twenty orders, every one with a twin.
    assert any("no p-value can be below 0.1" in line for line in told)


def test_the_papers_way_has_its_labels_in_the_given_order(study, tmp_path):
    run = compare_folder(
        *(study[0], tmp_path / "out", study[1]),
        selection=Selection(groups=("control", "patient")),
        paper=True,
        parameters=QUICK,
        n_jobs=1,
        report=False,
    )
    assert (run.study.label_a, run.study.label_b) == ("control", "patient")
    assert run.summary[0].startswith("Group a is 'control' (3 subjects)")
    assert len(run.cohort.tasks) == 6
    for name, table in comparison_tables(run.study).tables.items():
        assert (run.folder / f"{name}.tsv").read_text() == table.tsv


def test_bad_use_is_explained(study, tmp_path):
    data, table = study
    with pytest.raises(InputError, match="if_exists must be 'error', 'resume' or 'overwrite'"):
        fit_folder(data, tmp_path / "out", if_exists="replace")
    with pytest.raises(InputError, match="controls are for the comparison of one subject"):
        compare_folder(data, tmp_path / "out", table, selection=Selection(controls="control"))
    one = Selection(subject="sub-01")
    for ways, message in (
        (
            {"selection": one, "paper": {"fitting": "together"}},
            "paper's way is for the comparison of g",
        ),
        (
            {"selection": one, "design": {"formula": "group", "blocks": "group"}},
            "'blocks' is for the comparison of groups, not of one subject",
        ),
        (
            {"paper": True, "design": {"formula": "group"}},
            "'formula' are for the comparison by a des",
        ),
        ({"design": {"test": "age"}}, "give a formula that has 'age'"),
        ({"design": {"n_permutations": 10}}, "10 permutations are too few"),
    ):
        with pytest.raises(InputError, match=message):
            compare_folder(data, tmp_path / "out", table, **ways)
    for call in (
        lambda: extract_folder(data, ""),
        lambda: run_bids(data, "", "group"),
        lambda: run_demo(""),
    ):
        with pytest.raises(InputError, match="need a folder of their own"):
            call()
    assert list(tmp_path.iterdir()) == []
