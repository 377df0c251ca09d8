"""The command line, in process and once as a real program."""

import csv
import json
import logging
import re
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import mtgbn
from mtgbn.cli import cli, main
from mtgbn.cli.output import Screen


def invoke(*arguments):
    return CliRunner().invoke(cli, list(arguments))


def write_folder(path, header="a,b,c", n_tasks=2, n_rows=8):
    rng = np.random.default_rng(0)
    n_columns = header.count(",") + 1
    for task in range(n_tasks):
        rows = [
            ",".join(f"{x:.6f}" for x in row) for row in rng.standard_normal((n_rows, n_columns))
        ]
        (path / f"sub-{task}.csv").write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def run_main(monkeypatch, *arguments):
    """Run `main` as the console script would; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["mtgbn", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_help_and_version():
    for flag in ("-h", "--help"):
        result = invoke(flag)
        assert result.exit_code == 0
        assert "demo" in result.output
        assert "describe" in result.output
    result = invoke("--version")
    assert result.output.split()[-1] == mtgbn.__version__


@pytest.mark.parametrize("command", ["demo", "describe", "fit", "report", "show"])
def test_help_of_commands(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_demo_goes_from_nothing_to_a_report(tmp_path):
    out = tmp_path / "demo"
    result = invoke("demo", str(out), "--subjects", "2", "--seed", "2")
    assert result.exit_code in (0, 3), result.output
    assert len(list((out / "series").glob("*.tsv"))) == 4
    about = out / "comparison" / "comparison.json"
    text = about.read_text()
    truth = json.loads(text)["simulation"]
    assert len(truth["altered"]) == 3
    for each in truth["altered"]:
        assert f"{each['source']} -> {each['target']} {each['kind']}" in result.output
    again = invoke("demo", str(out), "--subjects", "2", "--seed", "2", "--quiet")
    assert again.output == ""
    assert about.read_text() == text
    (tmp_path / "mine.txt").write_text("mine")
    refused = invoke("demo", str(tmp_path))
    assert "holds other files" in str(refused.exception)


def test_demo_finds_what_was_altered_and_nothing_else_without_a_warning(tmp_path):
    out = tmp_path / "demo"
    result = invoke("demo", str(out), "--no-open")
    assert result.exit_code == 0
    about = json.loads((out / "comparison" / "comparison.json").read_text())
    altered = {
        frozenset((each["source"], each["target"])) for each in about["simulation"]["altered"]
    }
    table = out / "comparison" / "connections.tsv"
    rows = csv.DictReader(table.read_text().splitlines(), delimiter="\t")
    found = {
        frozenset((row["source"], row["target"])) for row in rows if float(row["p_family"]) <= 0.05
    }
    assert found == altered
    for word in ("Warning", "Beware", "Note:"):
        assert word not in result.output


def test_data_that_say_too_little_of_sigma_h_are_a_message_and_code_1(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "data").mkdir()
    data = write_folder(tmp_path / "data", "a,b,c,d,e", n_tasks=1, n_rows=3)
    options = ["--method", "paper", "--quiet"]
    code = run_main(monkeypatch, "fit", data, str(tmp_path / "out"), *options)
    captured = capsys.readouterr()
    assert code == 1
    assert captured.err.startswith("mtgbn: the posterior of sigma_h is improper")


@pytest.mark.parametrize("option", [["--subjects", "1"], ["--seed", "x"]])
def test_demo_refuses_what_makes_no_sense(option):
    result = invoke("demo", *option)
    assert result.exit_code == 2
    assert option[0] in result.output


def test_describe_counts_what_is_there(tmp_path):
    result = invoke("describe", write_folder(tmp_path, n_tasks=3, n_rows=9))
    assert result.exit_code == 0
    assert "3 tasks over 3 variables" in result.output
    assert "a, b, c" in result.output
    for task in range(3):
        assert re.search(rf"sub-{task}\s+│\s+9\s+│\s+8\b", result.output)
    assert "Warning" not in result.output


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "a[0]", ":car:", "[link=x]y"])
def test_names_are_shown_as_they_are(tmp_path, name):
    result = invoke("describe", write_folder(tmp_path, f"{name},other"))
    assert result.exit_code == 0
    assert f"{name}, other" in result.output


def test_task_names_are_shown_as_they_are(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "sub-0.csv").rename(tmp_path / "[red]one.csv")
    assert "[red]one" in invoke("describe", str(tmp_path)).output


def test_describe_warns_of_collinear_columns(tmp_path):
    rows = [f"{i},{2 * i},{i * i}" for i in range(9)]
    (tmp_path / "one.csv").write_text("\n".join(["a,b,c", *rows]))
    result = invoke("describe", str(tmp_path))
    assert result.exit_code == 0
    assert "Warning" in result.output


def test_bad_value_is_a_message_with_the_file_and_code_1(tmp_path, monkeypatch, capsys):
    write_folder(tmp_path)
    (tmp_path / "sub-1.csv").write_text("a,b,c\n1,2,3\n4,oops,6\n7,8,9\n")
    code = run_main(monkeypatch, "describe", str(tmp_path))
    captured = capsys.readouterr()
    assert code == 1
    assert captured.err.startswith("mtgbn: ")
    assert "sub-1" in captured.err
    assert "oops" in captured.err


def test_an_empty_folder_is_a_message_and_code_1(tmp_path, monkeypatch, capsys):
    assert run_main(monkeypatch, "describe", str(tmp_path)) == 1
    assert capsys.readouterr().err.startswith("mtgbn: ")


def test_a_binary_file_is_a_message_and_code_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "one.csv").write_bytes(b"a,b\n1,2\n\xff\xfe\x00\x01,3\n")
    assert run_main(monkeypatch, "describe", str(tmp_path)) == 1
    assert "one" in capsys.readouterr().err


def test_a_missing_folder_is_a_usage_error(tmp_path):
    result = invoke("describe", str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert "does not exist" in result.output


@pytest.mark.parametrize("how", ["-c from mtgbn.cli import main; main()", "-m mtgbn"])
def test_as_a_program(tmp_path, how):
    program = [sys.executable, *how.split(" ", 1)]
    good = subprocess.run(
        [*program, "describe", write_folder(tmp_path)], capture_output=True, text=True, check=False
    )
    assert good.returncode == 0
    assert "2 tasks over 3 variables" in good.stdout
    assert good.stderr == ""
    (tmp_path / "sub-0.csv").write_text("a,b,c\n")
    bad = subprocess.run(
        [*program, "describe", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.startswith("mtgbn: ")
    assert "Traceback" not in bad.stderr


def test_describe_refuses_or_counts_missing_values(tmp_path):
    write_folder(tmp_path)
    lines = (tmp_path / "sub-1.csv").read_text().splitlines()
    lines[2] = "," + lines[2].split(",", 1)[1]
    (tmp_path / "sub-1.csv").write_text("\n".join(lines))
    for options in ([], ["--missing", "error"]):
        refused = invoke("describe", str(tmp_path), *options)
        assert refused.exit_code == 1
        assert "'sub-1'" in str(refused.exception)
    counted = invoke("describe", str(tmp_path), "--missing", "em")
    assert counted.exit_code == 0
    assert "1 values" in counted.output
    assert "in 1 of 2 tasks" in counted.output
    assert invoke("describe", str(tmp_path), "--missing", "drop").exit_code == 2


def test_describe_notes_what_is_perhaps_not_meant(tmp_path):
    rng = np.random.default_rng(0)
    for name, rows in (("a", 4), ("b", 12), ("c", 12)):
        values = rng.normal(size=(rows, 5)) if name != "c" else values  # noqa: F821
        table = np.column_stack([np.arange(rows), values])
        header = "volume," + ",".join(f"r{k}" for k in range(5))
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header=header, comments="")
    result = CliRunner().invoke(cli, ["describe", str(tmp_path)])
    output = " ".join(result.output.split())
    assert result.exit_code == 0
    assert "1 of 3 tasks have fewer degrees of freedom than variables: 'a'" in output
    assert "'b', 'c' hold the same data" in output
    assert "'volume' seems to count the rows" in output
    assert "'r0' seems to count" not in output


def test_rows_that_look_like_a_time_series(tmp_path):
    rng = np.random.default_rng(0)
    walks = {f"s{k}": rng.normal(size=(80, 3)).cumsum(axis=0) for k in range(3)}
    np.savez(tmp_path / "series.npz", **walks)
    np.savez(tmp_path / "rows.npz", **{name: np.diff(each, axis=0) for name, each in walks.items()})
    text = "rows are autocorrelated, as in a time series"

    def said(file, *options):
        arguments = ["describe", str(tmp_path / file), *options]
        return " ".join(CliRunner().invoke(cli, arguments).output.split())

    assert text in said("series.npz")
    assert text not in said("series.npz", "--effective-samples", "none")
    assert text not in said("series.npz", "--effective-samples", "bartlett")
    assert text not in said("rows.npz")


def test_the_log_is_on_the_screen_of_a_command(capsys):
    logger = logging.getLogger("mtgbn")
    before = (logger.level, list(logger.handlers))
    for quiet in (True, False):
        with Screen(quiet):
            logger.info("compiling kernels, %s", "once")
    assert capsys.readouterr().err.count("Compiling kernels, once") == 1
    logger.info("after the block")
    assert not capsys.readouterr().err
    assert (logger.level, logger.handlers) == before
