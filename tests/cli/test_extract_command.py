"""`mtgbn extract`: from images to a folder that `mtgbn describe` and `mtgbn fit` read."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fmri.scans import POINTS, RADIUS, known_series, volumes, write_image, write_subject

from mtgbn.cli import cli


def run(*arguments):
    return CliRunner().invoke(cli, ["extract", *map(str, arguments)])


@pytest.fixture(scope="module")
def prep(tmp_path_factory):
    root = tmp_path_factory.mktemp("prep")
    for label in ("01", "02"):
        write_subject(root, label)
    return root


@pytest.fixture
def points(tmp_path):
    rows = [f"{name},{x},{y},{z}" for name, (x, y, z) in zip("abcd", POINTS, strict=True)]
    path = tmp_path / "points.csv"
    path.write_text("\n".join(["name,x,y,z", *rows]) + "\n")
    return path


def test_from_derivatives_to_a_description(prep, points, tmp_path):
    out = tmp_path / "out"
    options = ["--regions", points, "--radius", RADIUS, "--confounds", "csf, white_matter"]
    result = run(prep, out, *options)
    assert result.exit_code == 0, result.output
    assert "2 subjects or runs, 4 regions" in result.output
    assert "Computed 2 of 2 series" in result.output
    name = "sub-01_task-rest_space-MNI152NLin2009cAsym_seg-points_stat-mean_timeseries"
    found = pd.read_csv(out / f"{name}.tsv", sep="\t")
    assert list(found) == ["a", "b", "c", "d"]
    assert all(np.diag(np.corrcoef(found.T, known_series(1).T), 4) > 0.99)
    about = json.loads((out / f"{name}.json").read_text())
    assert about["Runs"][0]["ConfoundColumns"] == ["csf", "white_matter"]
    assert "Computed 0 of 2 series" in run(prep, out, *options).output
    described = CliRunner().invoke(cli, ["describe", str(out)])
    assert "2 tasks over 4 variables" in described.output
    assert "sub-02" in described.output
    assert run(prep, tmp_path / "quiet", *options, "--quiet").output == ""


def test_options_reach_the_record(prep, points, tmp_path):
    options = ["--regions", points, "--radius", 11, "--tr", 2.1, "--drop", 5, "--scrub", 0.4]
    options += ["--scrub-dvars", 3, "--band", 0.02, "inf", "--smooth", 4, "--confounds", "motion6"]
    result = run(prep, tmp_path / "out", *options, "--min-coverage", 0.3, "--task", "rest")
    assert result.exit_code == 0, result.output
    about = json.loads(next((tmp_path / "out").glob("sub-01*.json")).read_text())
    expected = {
        "SphereRadius": 11,
        "RepetitionTime": 2.1,
        "RepetitionTimeSource": "given",
        "DroppedVolumes": 5,
        "ScrubFramewiseDisplacement": 0.4,
        "ScrubStandardisedDVARS": 3,
        "BandPass": [0.02, None],
        "SmoothingFWHM": 4,
        "Confounds": "motion6",
        "MinCoverage": 0.3,
    }
    assert {key: about[key] for key in expected} == expected


def test_excluded_subjects_are_named_and_code_1(prep, points, tmp_path):
    lines = [str(path) for path in sorted(prep.rglob("*_bold.nii.gz"))]
    (tmp_path / "images.txt").write_text("\n".join([*lines, "", "sub-9_bold.nii.gz"]))
    options = ["--regions", points, "--radius", RADIUS, "--confounds", "none"]
    result = run(tmp_path / "images.txt", tmp_path / "out", *options)
    assert result.exit_code == 1
    assert f"Excluded: sub-9: there is no file '{tmp_path / 'sub-9_bold.nii.gz'}'" in result.output
    assert "1 excluded, listed in" in result.output
    assert len(list((tmp_path / "out").glob("*_timeseries.tsv"))) == 2
    assert "sub-9\tthere is no file" in (tmp_path / "out" / "excluded.tsv").read_text()


def test_plain_images_by_pattern_and_an_atlas(tmp_path):
    for number in (1, 2):
        write_image(tmp_path / f"p{number}" / f"rest{number}.nii.gz", volumes(known_series(number)))
    values = np.zeros((17, 18, 15, 1))
    values[4, 12, 7], values[12, 12, 7] = 1, 2
    atlas = write_image(tmp_path / "two.nii.gz", values, dtype=np.int16)
    options = ["--atlas", atlas, "--confounds", "none", "--pattern", "*/rest*.nii.gz"]
    result = run(tmp_path, tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    header = (tmp_path / "out" / "sub-rest1_seg-two_stat-mean_timeseries.tsv").read_text()
    assert header.startswith("region1\tregion2\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "LABELS"], "--labels is for --atlas"),
        (["--atlas", "LABELS", "--radius", "3"], "--radius has no meaning with --atlas"),
        (["--scrub-dvars", "2"], "--scrub-dvars has no meaning with no --scrub"),
        (["--pattern", "*", "--task", "rest"], "--task has no meaning with --pattern"),
        (["--jobs", "0"], "--jobs must be"),
        (["--band", "0.01"], "requires 2 arguments"),
    ],
)
def test_bad_usage(prep, points, tmp_path, options, message):
    options = [str(points) if option == "LABELS" else option for option in options]
    result = run(prep, tmp_path / "out", *options)
    assert result.exit_code == 2
    assert message in result.output


def test_the_help_says_what_must_have_been_done_before():
    text = " ".join(run("--help").output.split())
    assert "slice timing, realignment and registration are the job of fMRIPrep or SPM" in text
