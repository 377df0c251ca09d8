"""Every kind of bad input, with a message that names the task, the variable and the value."""

import math
import re
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks

GOOD = np.array([[1.0, 2.0, 0.5], [2.0, 1.0, 0.1], [0.0, 3.0, 0.7], [4.0, 2.5, 0.2]])


def with_value(value):
    """The good rows as objects, one of which is another: row 2, variable y."""
    values = GOOD.astype(object)
    values[2, 1] = value
    return values


def refuses(*parts):
    """An InputError whose message holds all of these."""
    return pytest.raises(InputError, match="(?s)" + "".join(f"(?=.*{re.escape(p)})" for p in parts))


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        (with_value("abc"), ["'bad'", "'y'", "'abc'", "row 2", "not a real number"]),
        (with_value("1.5"), ["'bad'", "'y'", "'1.5'", "row 2"]),
        (with_value(1 + 2j), ["'bad'", "'y'", "(1+2j)", "row 2"]),
        (GOOD + 1j, ["'bad'", "'x'", "row 0", "not a real number"]),
        (with_value(complex("nan")), ["'bad'", "'y'", "nan", "not a real number"]),
        (with_value(date(2020, 1, 2)), ["'bad'", "'y'", "2020", "row 2"]),
        (GOOD.astype("datetime64[s]"), ["'bad'", "'x'", "datetime", "row 0"]),
        (with_value([1, 2]), ["'bad'", "'y'", "[1, 2]", "row 2"]),
        (GOOD.astype(str), ["'bad'", "'x'", "1.0", "row 0"]),
        (with_value(None), ["'bad'", "'y'", "nan", "row 2", "1 such value"]),
        (with_value(pd.NA), ["'bad'", "'y'", "nan", "row 2"]),
        (with_value(pd.NaT), ["'bad'", "'y'", "nan", "row 2"]),
        (with_value(Decimal("NaN")), ["'bad'", "'y'", "nan", "row 2"]),
        (with_value(10**400), ["'bad'", "'y'", "inf", "row 2"]),
        (with_value(math.inf).astype(float), ["'bad'", "'y'", "inf", "row 2"]),
        (np.where(GOOD > 2, np.nan, GOOD), ["'bad'", "'y'", "nan", "row 2", "3 such value"]),
        (np.ma.masked_greater(GOOD, 3.5), ["'bad'", "'x'", "nan", "row 3", "1 such value"]),
        (GOOD * [1, 0, 1] + [0, 0.1, 0], ["'bad'", "'y'", "constant", "0.1", "4 rows"]),
        (GOOD * [1, 0, 1], ["'bad'", "'y'", "constant", "0.0"]),
        (GOOD * [1, 1e200, 1], ["'bad'", "'y'", "3e+200", "rescale"]),
        (GOOD * [1, 5e307, 1], ["'bad'", "'y'", "1.5e+308", "rescale"]),
        (GOOD * [1, 1e-200, 1], ["'bad'", "'y'", "3e-200", "rescale"]),
        (GOOD[:0], ["'bad'", "no rows"]),
        (GOOD[:1], ["'bad'", "one row", "centre=False"]),
        (GOOD[:, :2], ["'bad'", "2 columns", "3"]),
        (GOOD[0], ["'bad'", "1 dimension", "(3,)"]),
        (GOOD[None], ["'bad'", "3 dimension", "(1, 4, 3)"]),
        ([[1, 2, 3], [1, 2]], ["'bad'", "not a rectangular array"]),
        (pd.DataFrame(GOOD), ["'bad'", "DataFrame", "from_frames"]),
    ],
)
def test_bad_arrays(bad, parts):
    with refuses(*parts):
        Tasks.from_arrays([GOOD, bad], ["x", "y", "z"], ["good", "bad"])


def test_constant_up_to_rounding_is_caught_and_a_large_offset_is_not():
    rng = np.random.default_rng(0)
    free = rng.normal(size=200)
    for constant in (np.full(200, 0.1), np.where(free > 0, 0.3, 0.1 + 0.2), np.full(200, 1e300)):
        with refuses("'task0'", "'x1'", "constant"):
            Tasks.from_arrays([np.column_stack([free, constant])])
    Tasks.from_arrays([np.column_stack([free, 1e9 + 1e-3 * rng.normal(size=200)])])


def test_constant_without_centring_means_zero():
    ones = np.column_stack([np.arange(3.0), np.ones(3)])
    Tasks.from_arrays([ones], centre=False)
    with refuses("'task0'", "'x1'", "constant", "0.0"):
        Tasks.from_arrays([ones * [1, 0]], centre=False)


def test_values_out_of_range_are_fine_once_standardised():
    expected = Tasks.from_arrays([GOOD], standardise=True)
    huge = Tasks.from_arrays([GOOD * [1e200, 1, 1e-200]], standardise=True)
    np.testing.assert_allclose(huge.scatters, expected.scatters, atol=1e-12)


@pytest.mark.parametrize(
    ("arrays", "variables", "names", "parts"),
    [
        ([], None, None, ["no tasks"]),
        ([GOOD[:, :1]], ["only"], None, ["fewer than two variables", "'only'"]),
        ([GOOD[:, :0]], None, None, ["fewer than two variables", "none"]),
        ([GOOD, GOOD[:, :2]], None, None, ["'task1'", "2 columns", "'task0' has 3"]),
        ([GOOD], ["a", "b"], None, ["'task0'", "3 columns", "`variables` names 2"]),
        ([GOOD], ["a", "b", "a"], None, ["duplicate variable name 'a'", "number 0 and number 2"]),
        ([GOOD], ["a", " ", "b"], None, ["variable number 1", "empty name"]),
        ([GOOD], "abc", None, ["single string 'abc'"]),
        ([GOOD, GOOD], None, ["s", "s"], ["duplicate task name 's'", "number 0 and number 1"]),
        ([GOOD, GOOD], None, ["s"], ["1 task names for 2 tasks"]),
        ({"a": GOOD}, None, None, ["got dict", "from_any"]),
        (3, None, None, ["got int"]),
    ],
)
def test_bad_sets_of_arrays(arrays, variables, names, parts):
    with refuses(*parts):
        Tasks.from_arrays(arrays, variables, names)


@pytest.mark.parametrize(
    ("effective", "parts"),
    [
        (0, ["'a'", "0", "above 0"]),
        (-2.5, ["'a'", "-2.5"]),
        (math.nan, ["'a'", "nan"]),
        (math.inf, ["'a'", "inf"]),
        ([3, 5], ["'b'", "5", "number of rows, 4"]),
        ([3, "many"], ["'b'", "'many'", "not a number"]),
        ([3, None], ["'b'", "None", "not a number"]),
        ([3], ["1 entries for 2 tasks"]),
        ({"a": 3}, ["no entry for task 'b'"]),
        ({"a": 3, "b": 3, "bb": 3}, ["'bb'", "close matches: 'b'"]),
        ("bartlet", ["'bartlet'", "number"]),
        (True, ["'a'", "True", "not a number"]),
    ],
)
def test_bad_effective_samples(effective, parts):
    with refuses(*parts):
        Tasks.from_arrays([GOOD, GOOD], names=["a", "b"], effective_samples=effective)


FRAME = pd.DataFrame(GOOD, columns=["x", "y", "z"])


@pytest.mark.parametrize(
    ("frames", "names", "parts"),
    [
        ({"a": FRAME, "b": FRAME[["x", "z"]]}, None, ["'b' lacks 'y'", "'a'"]),
        ({"a": FRAME, "b": FRAME.assign(w=1.0)}, None, ["'b' has the extra 'w'"]),
        (
            {"a": FRAME, "b": FRAME.rename(columns={"y": "Y"})},
            None,
            ["'b' lacks 'y' and has the extra 'Y'"],
        ),
        (
            {"a": FRAME, "b": FRAME[["x", "y", "y", "z"]]},
            None,
            ["'b'", "duplicate variable", "'y'"],
        ),
        ({"a": FRAME[["x", "x"]]}, None, ["'a'", "duplicate variable name 'x'"]),
        ({"a": FRAME[["x"]]}, None, ["'a'", "fewer than two variables"]),
        ({1: FRAME, "1": FRAME}, None, ["duplicate task name '1'"]),
        ({"a": FRAME}, ["b"], ["keys of the dict"]),
        ([FRAME, GOOD], None, ["'task1'", "ndarray", "from_arrays"]),
        (FRAME, None, ["dict or a list of DataFrames", "from_long"]),
        (7, None, ["got int"]),
        ([], None, ["no tasks"]),
        ([FRAME.assign(y=["u", "v", "w", "w"])], None, ["'task0'", "'y'", "'u'", "row 0"]),
        ([FRAME.mask(FRAME > 3.5)], None, ["'task0'", "'x'", "nan", "row 3", "1 such value"]),
    ],
)
def test_bad_frames(frames, names, parts):
    with refuses(*parts):
        Tasks.from_frames(frames, names)


@pytest.mark.parametrize(
    ("frame", "task", "parts"),
    [
        (FRAME, "task", ["no column named 'task'", "'x', 'y', 'z'"]),
        (FRAME.assign(subjects="a"), "subject", ["'subject'", "close matches: 'subjects'"]),
        (FRAME.assign(task=["a", None, "a", "b"]), "task", ["'task'", "row 1"]),
        (FRAME.assign(task=[1, 1, np.nan, 2]), "task", ["'task'", "row 2", "nan"]),
        (FRAME.assign(task=["a", "b", "a", "a"]), "task", ["task 'b'", "one row"]),
        (FRAME.assign(task=["a"] * 4)[:0], "task", ["no tasks"]),
        (
            FRAME.assign(task=["b", "a", "a", "b"], y=[1.0, 2, np.inf, 3]),
            "task",
            ["task 'a'", "'y'", "inf", "row 2"],
        ),
        (GOOD, "task", ["got ndarray"]),
        (FRAME[["x", "y", "x"]], "y", ["duplicate column name 'x'"]),
    ],
)
def test_bad_long_frames(frame, task, parts):
    with refuses(*parts):
        Tasks.from_long(frame, task)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["empty"]),
        (b"\n \n", ["empty"]),
        (b"a,b\n", ["no rows"]),
        (b"a,b\n1,2\n", ["one row"]),
        (b"1,2.5\n3,4\n5,6\n", ["all numbers", "'1', '2.5'", "variable names"]),
        (b",a,b\n0,1,2\n1,3,1\n", ["no name for column 1", "index=False"]),
        (b",0,1\n0,1,2\n1,3,1\n", ["no name for column 1"]),
        (b"a,b\n1,2\n\n3\n", ["line 4", "1 cells", "header has 2", "'3'"]),
        (b"a,b\n1,2\n3,4,5\n", ["line 3", "3 cells"]),
        (b"a,b\n1,2\n3,xyz\n", ["variable 'b'", "'xyz'", "line 3"]),
        (b'a,b\n1,2\n3,"1,5"\n', ["variable 'b'", "'1,5'", "line 3", "decimal point"]),
        (b"a,b\n1,2\n3,1_000\n", ["variable 'b'", "'1_000'", "line 3"]),
        (b"a,b\n1,2\n\n3,\n,n/a\n", ["variable 'b'", "nan", "line 4", "3 such value"]),
        (b"a,b\n1,2\n-inf,3\n", ["variable 'a'", "-inf", "line 3"]),
        (b"a,b\n1,2\n1,3\n", ["variable 'a'", "constant", "1.0"]),
        (b"a,a\n1,2\n3,4\n", ["duplicate variable name 'a'"]),
        (b"a;b\n1;2\n3;4\n", ["single cell", "'a;b'", ".txt"]),
        (b"name\n1\n2\n", ["fewer than two variables"]),
        (b'a,b\n1,2\n"3,4\n', ["line 3", "not valid"]),
        (b"a,b\n1,\xff\n", ["not UTF-8", "0xff", "position 6"]),
        ("a,b\n1,2\n".encode("utf-16"), ["not UTF-8"]),
    ],
)
def test_bad_files(tmp_path, content, parts):
    (tmp_path / "sub-1.csv").write_bytes(content)
    with refuses("sub-1", *parts):
        Tasks.from_folder(tmp_path)


def test_files_with_other_columns(tmp_path):
    (tmp_path / "s1.csv").write_text("a,b\n1,2\n3,1\n")
    (tmp_path / "s2.csv").write_text("b,c\n1,2\n3,1\n")
    with refuses("task 's2' lacks 'a' and has the extra 'c'", "'s1'"):
        Tasks.from_folder(tmp_path)


def test_two_files_for_one_task(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,1\n")
    (tmp_path / "a.tsv").write_text("x\ty\n1\t2\n3\t1\n")
    with refuses("duplicate task name 'a'", "a.csv", "a.tsv"):
        Tasks.from_folder(tmp_path)


def test_bad_folders(tmp_path):
    with refuses("nowhere", "does not exist"):
        Tasks.from_folder(tmp_path / "nowhere")
    with refuses("no file ending in .csv, .tsv or .txt"):
        Tasks.from_folder(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,1\n")
    with refuses("no file matching 'b*'"):
        Tasks.from_folder(tmp_path, "b*")
    with refuses("pattern '/b*'"):
        Tasks.from_folder(tmp_path, "/b*")
    with refuses("is a file", "one file per task"):
        Tasks.from_folder(tmp_path / "a.csv")


SCATTER = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])


def changed(*entries):
    scatter = SCATTER.copy()
    for i, j, value in entries:
        scatter[i, j] = value
    return scatter


@pytest.mark.parametrize(
    ("bad", "n", "parts"),
    [
        (changed((0, 1, 0.6)), 5, ["'bad'", "not symmetric", "'x'", "'y'", "0.6", "0.5"]),
        (changed((1, 1, 0.0)), 5, ["'bad'", "'y'", "diagonal", "0.0"]),
        (changed((2, 2, -3.0)), 5, ["'bad'", "'z'", "-3.0"]),
        (changed((1, 2, np.nan)), 5, ["'bad'", "'z'", "nan", "row 1"]),
        (
            changed((0, 1, 2.0), (1, 0, 2.0)),
            5,
            ["'bad'", "not positive semidefinite", "'x' and 'y'", "eigenvalue -0.4"],
        ),
        (SCATTER[:2], 5, ["'bad'", "(2, 3)", "(3, 3)"]),
        (SCATTER[0], 5, ["'bad'", "1 dimension"]),
        (SCATTER.astype(str), 5, ["'bad'", "'x'", "2.0"]),
        (pd.DataFrame(SCATTER), 5, ["'bad'", "DataFrame"]),
        (SCATTER, 0, ["'bad'", "n is 0.0"]),
        (SCATTER, -1, ["'bad'", "n is -1.0"]),
        (SCATTER, math.nan, ["'bad'", "n is nan"]),
        (SCATTER, math.inf, ["'bad'", "n is inf"]),
        (SCATTER, "few", ["ns must hold one number per task", "few"]),
    ],
)
def test_bad_scatters(bad, n, parts):
    with refuses(*parts):
        Tasks([SCATTER, bad], [5, n], ["x", "y", "z"], ["good", "bad"])


def test_bad_sets_of_scatters():
    with refuses("no tasks"):
        Tasks([], [])
    with refuses("ns has shape (1,) for 2 tasks"):
        Tasks([SCATTER, SCATTER], [5])
    with refuses("1 dimension"):
        Tasks(SCATTER, [5, 5, 5])
    with refuses("fewer than two variables"):
        Tasks([[[1.0]]], [5])


def test_the_odd_task_out_gets_the_blame():
    rng = np.random.default_rng(0)
    frames = {
        "participants": pd.DataFrame(rng.normal(size=(5, 2)), columns=["age", "score"]),
        "sub-1": pd.DataFrame(rng.normal(size=(5, 2)), columns=["left", "right"]),
        "sub-2": pd.DataFrame(rng.normal(size=(5, 2)), columns=["right", "left"]),
    }
    with pytest.raises(InputError, match="task 'participants' lacks"):
        Tasks.from_frames(frames)
