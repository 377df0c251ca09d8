"""`mtgbn bids`: both levels on a small dataset with fMRIPrep's derivatives inside."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from compare.studies import QUICK
from fmri.scans import POINTS, RADIUS, known_series, write_subject

from mtgbn.cli import cli

LABELS = ("01", "02", "03", "04")


def run(*arguments):
    return CliRunner().invoke(cli, ["bids", *map(str, arguments)])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("bids")
    for label in LABELS:
        write_subject(root / "derivatives" / "fmriprep", label)
    rows = [f"sub-{label}\t{'HC' if label > '02' else 'MDD'}" for label in LABELS]
    (root / "participants.tsv").write_text("\n".join(["participant_id\tgroup", *rows]) + "\n")
    points = [f"{name},{x},{y},{z}" for name, (x, y, z) in zip("abcd", POINTS, strict=True)]
    (root / "points.csv").write_text("\n".join(["name,x,y,z", *points]) + "\n")
    return root


@pytest.fixture(scope="module")
def extraction(dataset):
    return ("--regions", dataset / "points.csv", "--radius", RADIUS, "--confounds", "csf")


@pytest.fixture(scope="module")
def extracted(dataset, extraction, tmp_path_factory):
    """Two participants in one command, then all."""
    out = tmp_path_factory.mktemp("derived") / "mtgbn"
    first = run(dataset, out, "participant", "--participant-label", "01", "sub-03", *extraction)
    assert first.exit_code == 0, first.output
    assert "2 subjects or runs, 4 regions" in first.output
    assert len(list(out.glob("sub-*_timeseries.tsv"))) == 2
    second = run(dataset, out, "participant", *extraction, "--task-id", "rest")
    assert "Computed 2 of 4 series" in second.output
    return out


def test_participants_are_a_bids_derivative(extracted):
    name = "sub-03_task-rest_space-MNI152NLin2009cAsym_seg-points_stat-mean_timeseries"
    found = pd.read_csv(extracted / f"{name}.tsv", sep="\t")
    assert all(np.diag(np.corrcoef(found.T, known_series(3).T), 4) > 0.99)
    about = json.loads((extracted / f"{name}.json").read_text())
    assert about["AdjacencyConvention"].startswith("A[i, j] = 1 means i -> j")
    description = json.loads((extracted / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    assert description["GeneratedBy"][0]["Name"] == "mtgbn"
    assert description["BIDSVersion"]


def test_groups_are_compared_with_the_participants_table(dataset, extracted):
    result = run(dataset, extracted, "group", *QUICK[:-2], "--seed", 2)
    assert result.exit_code in (0, 3), result.output
    assert "Effect: 'MDD' minus 'HC'." in result.output
    assert len(pd.read_csv(extracted / "group" / "connections.tsv", sep="\t")) == 6
    about = json.loads((extracted / "group" / "comparison.json").read_text())
    assert about["kind"] == "design"
    assert about["settings"]["reading"]["effective_samples"] == "bartlett"
    assert about["repetition_time"] == 2.0
    assert (extracted / "group" / "subjects.json").exists()
    # The tables of the group are no series: the folder can be compared and extended as before.
    again = run(dataset, extracted, "group", *QUICK[:-2], "--seed", 2, "--quiet")
    assert (again.exit_code, again.output) == (result.exit_code, "")
    paper = (*QUICK[:-2], "--seed", 2, "--paper")
    refused = run(dataset, extracted, "group", *paper)
    assert "holds a comparison of other data or settings" in str(refused.exception)
    replaced = run(dataset, extracted, "group", *paper, "--overwrite")
    assert "Group a is 'MDD' (2 subjects), group b is 'HC' (2)" in replaced.output
    assert not list((extracted / "group").glob("*_relmat.*"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("group",), 1, "holds no series; run this first: mtgbn bids"),
        (("participant", "--participant-label", "01", "09"), 1, "no participant named 'sub-09'"),
        (
            ("participant", "--permutations", 50),
            2,
            "--permutations has no meaning with participant",
        ),
        (("group", "--radius", 5), 2, "--radius has no meaning with group"),
        (("both",), 2, "'both' is not one of"),
    ],
)
def test_bad_use_is_explained(dataset, tmp_path, arguments, code, message):
    result = run(dataset, tmp_path / "out", *arguments)
    assert result.exit_code == code
    assert message in (result.output if code == 2 else str(result.exception))


def test_a_dataset_without_participants(dataset, extracted):
    result = run(dataset / "derivatives", extracted, "group")
    assert "has no participants.tsv" in str(result.exception)
