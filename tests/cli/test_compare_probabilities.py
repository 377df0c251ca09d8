"""`mtgbn compare --probabilities`: files, page, methods, command, interruption, bad usage."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from compare.studies import QUICK, write_groups

from mtgbn.cli import cli
from mtgbn.learn import multitask
from mtgbn.report.commands import compare_command

OPTIONS = ("--probabilities", "--rounds", 60, "--permutations", 100, "--standardise", *QUICK)


def run(*arguments):
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)])


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Eight patients, who have v3 -> v4, and eight controls."""
    root = tmp_path_factory.mktemp("study")
    return root / "data", write_groups(root / "data", 8, 8)


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    data, table = study
    made = run(data, out, "--group", table, *OPTIONS, "--jobs", 1)
    assert made.exit_code in (0, 3), made.output
    return out, made.output


def test_the_answer_is_in_the_output_the_files_and_on_the_page(whole):
    out, output = whole
    shown = re.sub(r"\s+", " ", output)
    assert "who has a connection: groups: 8 control, 8 patient. Of 10 connections" in shown
    assert "v3 - v4: patient minus control +0." in shown
    sidecar = json.loads((out / "differences.json").read_text())
    lines = (out / "differences.tsv").read_text().splitlines()
    names, first = lines[0].split("\t"), lines[1].split("\t")
    assert set(names) <= set(sidecar)
    row = dict(zip(names, first, strict=True))
    assert (row["source"], row["target"], row["outcome"]) == ("v3", "v4", "different")
    assert float(row["probability"]) >= 0.95
    page = unescape(re.sub("<[^>]+>", "", (out / "report.html").read_text()))
    assert "A second fit, which knows the groups" in page
    shares = [f"{float(row[f'share_{label}']):.0%}" for label in ("control", "patient")]
    words = "v3 – v4: {} of the control and {} of the patient subjects have it; difference of the"
    assert words.format(*shares) in page
    assert "in a fit that knew the groups (8 control and 8 patient) and no covariates" in page
    assert "60 rounds in each of two chains" in page


def test_the_command_of_the_page_repeats_it(study, whole, tmp_path):
    out, _ = whole
    command = compare_command(json.loads((out / "comparison.json").read_text()), [])
    assert "--probabilities" in command
    assert "--rounds 60" in command
    again = run(study[0], tmp_path / "b", "--group", study[1], *shlex.split(command)[6:])
    assert again.exit_code in (0, 3), again.output
    assert contents(tmp_path / "b") == contents(out)


def test_an_interrupted_second_fit_goes_on(study, whole, tmp_path, monkeypatch):
    out, _ = whole
    original, calls = multitask.advance_posterior, []

    def interrupted(*arguments, **keywords):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments, **keywords)

    data, table = study
    monkeypatch.setattr(multitask, "advance_posterior", interrupted)
    stopped = run(data, tmp_path / "b", "--group", table, *OPTIONS)
    assert stopped.exit_code == 130
    assert "the same command goes on" in stopped.output
    calls[:] = [1] * 10  # no more interruptions
    resumed = run(data, tmp_path / "b", "--group", table, *OPTIONS)
    assert resumed.exit_code in (0, 3), resumed.output
    assert len(calls) == 17  # three of ten blocks were kept
    assert contents(tmp_path / "b") == contents(out)


def test_without_it_nothing_changes(study, whole, tmp_path):
    plain = [each for each in OPTIONS if each not in ("--probabilities", "--rounds", 60)]
    made = run(study[0], tmp_path / "b", "--group", study[1], *plain)
    assert made.exit_code in (0, 3), made.output
    found, before = contents(tmp_path / "b"), contents(whole[0])
    assert "differences.tsv" not in found
    assert found["connections.tsv"] == before["connections.tsv"]
    assert b"Who has a connection" not in found["report.html"]
    assert "probabilities" not in json.loads(found["comparison.json"])["settings"]["design"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--probabilities", "--paper"), "--probabilities has no meaning with --paper"),
        (("--probabilities", "--subject", "sub-01"), "--probabilities has no meaning with"),
        (("--rounds", 60), "--rounds has no meaning with --inference map"),
    ],
)
def test_other_ways_have_no_probabilities(study, tmp_path, options, message):
    found = run(study[0], tmp_path / "b", "--group", study[1], *options)
    assert found.exit_code == 2
    assert message in found.output
