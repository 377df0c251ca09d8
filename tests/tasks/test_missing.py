"""Missing values: refused by default, kept with missing="em", against numpy and pandas."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import pytest

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import data_warnings, missing_values

# Rounding of a few hundred additions.
ROUNDING = 1e-12


def refuses(*parts):
    """An InputError whose message holds all of these."""
    return pytest.raises(InputError, match="(?s)" + "".join(f"(?=.*{re.escape(p)})" for p in parts))


def complete_frames():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(4, 4))
    return {
        name: pd.DataFrame(rng.normal(size=(rows, 4)) @ mixing + 5, columns=list("abcd"))
        for name, rows in (("s1", 12), ("s2", 9), ("s3", 15))
    }


@pytest.fixture
def frames():
    """Task s1 is complete, s2 lacks single values, s3 variable c altogether and a value of a."""
    frames = complete_frames()
    frames["s2"].loc[[0, 3], "a"] = np.nan
    frames["s2"].loc[5, ["b", "d"]] = np.nan
    frames["s3"]["c"] = np.nan
    frames["s3"].loc[7, "a"] = np.nan
    return frames


@pytest.fixture
def tasks(frames):
    return Tasks.from_frames(frames, missing="em")


def assert_identical(actual, expected):
    assert actual == expected
    for name in ("scatters", "ns", "n_rows", "centres", "scales"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"standardise": True},
        {"centre": False},
        {"effective_samples": {"s1": 5, "s2": 6.5, "s3": 7}},
    ],
)
def test_complete_data_give_the_very_same_tasks(options):
    frames = complete_frames()
    expected = Tasks.from_frames(frames, **options)
    assert_identical(Tasks.from_frames(frames, missing="em", **options), expected)
    assert_identical(Tasks.from_frames(frames, missing="error", **options), expected)
    assert not expected.incomplete
    assert "missing" not in repr(expected)


def test_a_complete_task_beside_incomplete_ones_is_as_ever(frames, tasks):
    assert_identical(tasks["s1"], Tasks.from_frames({"s1": frames["s1"]}))
    assert set(tasks.incomplete) == {1, 2}
    assert repr(tasks) == "Tasks(3 tasks, 4 variables, n = 8 to 14, 2 with missing values)"


def test_without_the_option_missing_values_are_errors_that_name_it(frames):
    with refuses("task 's2'", "variable 'a'", "row 0", "4 such value", "missing='em'"):
        Tasks.from_frames(frames)
    fewer = {"s1": frames["s1"], "s3": frames["s3"].drop(columns="c")}
    with refuses("'s3' lacks 'c'", "missing='em'"):
        Tasks.from_frames(fewer)
    with pytest.raises(InputError, match="nan") as caught:
        Tasks([np.full((2, 2), np.nan)], [3])
    assert "missing='em'" not in str(caught.value)
    with refuses("missing must be 'error' or 'em'", "'drop'"):
        Tasks.from_frames(frames, missing="drop")


@pytest.mark.parametrize("standardise", [True, False])
def test_centres_and_scales_are_those_of_the_observed_values(frames, standardise):
    tasks = Tasks.from_frames(frames, missing="em", standardise=standardise)
    for position, name in ((1, "s2"), (2, "s3")):
        frame = frames[name]
        centre = frame.mean().fillna(0)
        scale = frame.std().fillna(1) if standardise else frame.std() * 0 + 1
        np.testing.assert_allclose(tasks.centres[position], centre, rtol=ROUNDING)
        np.testing.assert_allclose(tasks.scales[position], scale.fillna(1), rtol=ROUNDING)
        expected = ((frame - centre) / scale.fillna(1)).to_numpy()
        np.testing.assert_allclose(tasks.incomplete[position], expected, atol=1e-10)
        assert tasks.incomplete[position].flags.c_contiguous


def test_first_guess_has_observed_variances_and_is_positive_semidefinite(frames, tasks):
    np.testing.assert_array_equal(tasks.ns, [11, 8, 14])
    np.testing.assert_array_equal(tasks.n_rows, [12, 9, 15])
    variances = np.einsum("tii->ti", tasks.scatters) / tasks.ns[:, None]
    np.testing.assert_allclose(variances[1], frames["s2"].var(), rtol=1e-10)
    np.testing.assert_allclose(variances[2, [0, 1, 3]], frames["s3"].var()[list("abd")], rtol=1e-10)
    # an absent variable: uncorrelated, with the variance that the others have on average
    np.testing.assert_allclose(variances[2, 2], variances[:2, 2].mean(), rtol=1e-10)
    assert not tasks.scatters[2, 2, [0, 1, 3]].any()
    # columns that are complete have their own scatter
    b, d = frames["s3"]["b"], frames["s3"]["d"]
    np.testing.assert_allclose(tasks.scatters[2, 1, 3], b.cov(d) * 14, rtol=1e-10)
    # others that of mean imputation, as correlations
    filled = frames["s2"].fillna(frames["s2"].mean()).corr()
    scales = np.sqrt(np.diag(tasks.scatters[1]))
    np.testing.assert_allclose(tasks.scatters[1] / np.outer(scales, scales), filled, atol=1e-10)
    np.testing.assert_array_equal(tasks.scatters, tasks.scatters.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(tasks.scatters).min() > -1e-10


def test_standardised_guess_has_n_on_the_diagonal(frames):
    tasks = Tasks.from_frames(frames, missing="em", standardise=True, effective_samples=6)
    diagonals = np.einsum("tii->ti", tasks.scatters)
    np.testing.assert_allclose(diagonals, np.full((3, 4), 6.0), rtol=ROUNDING)


def test_effective_samples_scale_n_and_scatter_alike(frames, tasks):
    sizes = {"s1": 6, "s2": 4, "s3": 7.5}
    fewer = Tasks.from_frames(frames, missing="em", effective_samples=sizes)
    np.testing.assert_array_equal(fewer.ns, [6, 4, 7.5])
    for position, factor in ((1, 4 / 8), (2, 7.5 / 14)):
        assert fewer.scatter_factor(position) == pytest.approx(factor)
        assert tasks.scatter_factor(position) == 1.0
    np.testing.assert_allclose(fewer.scatters[1], tasks.scatters[1] / 2, rtol=ROUNDING)
    assert_identical(
        fewer["s1"], Tasks.from_frames({"s1": frames["s1"]}, effective_samples={"s1": 6})
    )
    with refuses("task number 0", "no missing values"):
        tasks.scatter_factor(0)


def test_units_matter_as_little_as_in_complete_data(frames):
    units = np.array([1e170, 1e-150, 1.0, 1e9])
    other = {name: frame * units for name, frame in frames.items()}
    expected = Tasks.from_frames(frames, missing="em", standardise=True)
    actual = Tasks.from_frames(other, missing="em", standardise=True)
    np.testing.assert_allclose(actual.scatters, expected.scatters, atol=1e-10)
    np.testing.assert_allclose(actual.incomplete[1], expected.incomplete[1], atol=1e-10)
    for name in ("s1", "s2"):
        with refuses(f"{name!r}", "'a'", "rescale"):
            Tasks.from_frames({name: other[name]}, missing="em")


def test_variables_are_the_union_in_order_of_first_appearance(frames):
    parts = {
        "s1": frames["s1"][["c", "a"]],
        "s2": frames["s2"].drop(columns="c")[["d", "a", "b"]],
        "s3": frames["s3"].drop(columns=["c", "a"]),
    }
    tasks = Tasks.from_frames(parts, missing="em")
    assert tasks.variables == ("c", "a", "d", "b")
    padded = {name: part.reindex(columns=list("cadb")) for name, part in parts.items()}
    assert_identical(tasks, Tasks.from_frames(padded, missing="em"))
    assert set(tasks.incomplete) == {0, 1, 2}
    absent = [np.isnan(tasks.incomplete[i]).all(axis=0).tolist() for i in range(3)]
    assert absent == [
        [False, False, True, True],
        [True, False, False, False],
        [True, True, False, False],
    ]
    np.testing.assert_array_equal(tasks.centres[0, 2:], 0)
    np.testing.assert_array_equal(tasks.scales[0, 2:], 1)
    integers = {"x": pd.DataFrame({"a": [1, 2, 4], "b": [3, 1, 1]}), "y": parts["s1"]}
    assert Tasks.from_frames(integers, missing="em").variables == ("a", "b", "c")
    texts = {"x": pd.DataFrame({"a": [1, 2], "b": ["u", "v"]}), "y": parts["s1"]}
    with refuses("'x'", "'b'", "'u'", "row 0"):
        Tasks.from_frames(texts, missing="em")


def test_all_constructors_agree(frames, tasks, tmp_path):
    arrays = {name: frame.to_numpy() for name, frame in frames.items()}
    names, variables = list(frames), list("abcd")
    assert_identical(Tasks.from_arrays(arrays.values(), variables, names, missing="em"), tasks)
    masked = [np.ma.masked_invalid(array) for array in arrays.values()]
    assert_identical(Tasks.from_arrays(masked, variables, names, missing="em"), tasks)
    assert_identical(Tasks.from_any(arrays, variables=variables, missing="em"), tasks)
    objects = {name: frame.astype("Float64") for name, frame in frames.items()}
    assert_identical(Tasks.from_any(objects, missing="em"), tasks)
    long = pd.concat([frame.assign(task=name) for name, frame in frames.items()])
    assert_identical(Tasks.from_long(long, missing="em"), tasks)
    assert_identical(Tasks.from_any(long, missing="em"), tasks)
    long.to_csv(tmp_path / "long.csv", index=False)
    assert_identical(Tasks.from_file(tmp_path / "long.csv", missing="em"), tasks)
    np.savez(tmp_path / "all.npz", variables=variables, **arrays)
    assert_identical(Tasks.from_any(tmp_path / "all.npz", missing="em"), tasks)


@pytest.mark.parametrize("mark", ["", "NA", "NaN", "nan", " n/a ", "null"])
def test_folders_of_text_files(frames, tasks, tmp_path, mark):
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False, na_rep=mark)
    assert_identical(Tasks.from_folder(tmp_path, missing="em"), tasks)
    frames["s3"].drop(columns="c").to_csv(tmp_path / "s3.csv", index=False, na_rep=mark)
    assert_identical(Tasks.from_any(tmp_path, missing="em"), tasks)
    with refuses("'s3' lacks 'c'"):
        Tasks.from_folder(tmp_path)
    frames["s3"].to_csv(tmp_path / "s3.csv", index=False, na_rep=mark)
    with refuses("'s2'", "'a'", "line 2 of", "missing='em'"):
        Tasks.from_folder(tmp_path)


def test_rows_without_any_value_are_left_out(frames, tasks):
    blank = pd.DataFrame(np.nan, index=range(3), columns=list("abcd"))
    padded = {
        name: pd.concat([blank.astype(float), frame, blank], ignore_index=True)
        for name, frame in frames.items()
    }
    assert_identical(Tasks.from_frames(padded, missing="em"), tasks)
    with refuses("'s1'", "effective_samples 13", "number of rows, 12"):
        Tasks.from_frames(padded, missing="em", effective_samples=13)


def test_a_single_value_is_a_centre_without_a_scale():
    rng = np.random.default_rng(1)
    full, part = rng.normal(size=(2, 8, 3)) * 4
    part[1:, 2] = np.nan
    tasks = Tasks.from_arrays([full, part], missing="em", standardise=True)
    assert tasks.centres[1, 2] == part[0, 2]
    assert tasks.scales[1, 2] == 1
    assert tasks.incomplete[1][0, 2] == 0
    assert tasks.scatters[1, 2, 2] == pytest.approx(7)


GOOD = np.array([[1.0, 2.0, 0.5], [2.0, 1.0, 0.1], [0.0, 3.0, 0.7], [4.0, 2.5, 0.2]])
NAN = np.nan


def changed(*entries):
    values = GOOD.copy()
    for row, column, value in entries:
        values[row, column] = value
    return values


@pytest.mark.parametrize(
    ("bad", "options", "parts"),
    [
        (changed((1, 2, NAN), (2, 1, np.inf)), {}, ["'bad'", "'y'", "inf", "row 2", "is infinite"]),
        (changed((1, 2, 10.0**200)), {}, ["'bad'", "'z'", "rescale"]),
        (changed((1, 2, NAN), (2, 1, 1e200)), {}, ["'bad'", "'y'", "1e+200", "rescale"]),
        (GOOD * [NAN, NAN, NAN], {}, ["'bad'", "0 of 4 rows hold any value"]),
        (changed((slice(1, 4), slice(0, 3), NAN)), {}, ["'bad'", "1 of 4 rows"]),
        (
            np.array([[1, NAN, NAN], [NAN, 2, NAN], [NAN, NAN, 1]]),
            {},
            ["'bad'", "no variable with two observed values"],
        ),
        (GOOD[:1] * [1, NAN, 1], {}, ["'bad'", "one row", "add rows"]),
        (GOOD[:0], {}, ["'bad'", "no rows"]),
        (changed((0, 0, NAN)), {"centre": False}, ["'bad'", "missing", "centre=True"]),
        (
            changed((0, 1, NAN), (slice(1, 4), 1, 3.0)),
            {},
            ["'bad'", "'y'", "constant", "3.0", "observed 3 rows"],
        ),
        (changed((slice(0, 4), 1, 3.0), (0, 0, NAN)), {}, ["'bad'", "'y'", "constant", "all 4"]),
    ],
)
def test_bad_incomplete_arrays(bad, options, parts):
    with refuses(*parts):
        Tasks.from_arrays([GOOD, bad], list("xyz"), ["good", "bad"], missing="em", **options)


def test_every_variable_needs_two_values_in_some_task():
    lonely = changed((slice(1, 4), 1, NAN))
    with refuses("variable 'x1'", "no task"):
        Tasks.from_arrays([lonely, lonely + 1], missing="em")
    assert len(Tasks.from_arrays([lonely, GOOD], missing="em").incomplete) == 1
    with refuses("'task1'", "2 columns"):
        Tasks.from_arrays([GOOD, GOOD[:, :2]], missing="em")


def test_selecting_tasks_takes_the_rows_along(tasks):
    chosen = tasks[["s3", "s1"]]
    assert list(chosen.incomplete) == [0]
    np.testing.assert_array_equal(chosen.incomplete[0], tasks.incomplete[2])
    assert not tasks["s1"].incomplete
    assert tasks[["s1", "s2", "s3"]] == tasks
    assert tasks[1:][1:] == tasks["s3"]


def test_selecting_variables_takes_the_rows_along(frames, tasks):
    chosen = tasks.select_variables(["c", "a"])
    np.testing.assert_array_equal(chosen.incomplete[2], tasks.incomplete[2][:, [2, 0]])
    assert chosen.incomplete[1].flags.c_contiguous
    # b and d are complete in s3, which is then a complete task
    pair = tasks.select_variables(["d", "b"])
    assert set(pair.incomplete) == {1}
    expected = Tasks.from_frames({"s3": frames["s3"][["d", "b"]]})
    np.testing.assert_allclose(pair.scatters[2], expected.scatters[0], rtol=1e-10)
    there_and_back = tasks.select_variables(list("dcba")).select_variables(list("abcd"))
    assert there_and_back == tasks
    missing = {"s1": frames["s1"], "s3": frames["s3"][["b", "d"]]}
    with refuses("'s3'", "no value"):
        Tasks.from_frames(missing, missing="em").select_variables(["a", "c"])


def test_equality_sees_the_rows(frames, tasks):
    assert Tasks.from_frames(frames, missing="em") == tasks
    assert Tasks(tasks.scatters, tasks.ns, tasks.variables, tasks.names) != tasks
    rows = {i: array.copy() for i, array in tasks.incomplete.items()}
    rows[1][1, 1] += 1e-9
    attributes = {name: getattr(tasks, name) for name in Tasks.__slots__}
    assert Tasks.from_statistics(**attributes) == tasks
    assert Tasks.from_statistics(**attributes | {"incomplete": rows}) != tasks


def test_copies_and_pickles_are_the_same_and_locked(tasks):
    for again in (pickle.loads(pickle.dumps(tasks)), copy.deepcopy(tasks), copy.copy(tasks)):
        assert_identical(again, tasks)
        assert not again.incomplete[1].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tasks.incomplete[1][0, 0] = 0
    with pytest.raises(TypeError):
        tasks.incomplete[0] = np.zeros((2, 4))


def test_with_scatters_changes_nothing_else(tasks):
    new = tasks.scatters * 2
    other = tasks.with_scatters(new)
    np.testing.assert_array_equal(other.scatters, 2 * tasks.scatters)
    assert other.with_scatters(tasks.scatters) == tasks
    assert_identical(other.with_scatters(tasks.scatters), tasks)
    assert other.incomplete == tasks.incomplete
    new[:] = 0  # a copy was taken
    assert other.scatters[0, 0, 0] > 0
    assert not other.scatters.flags.writeable
    with refuses("shape (2, 4, 4)", "(3, 4, 4)"):
        tasks.with_scatters(tasks.scatters[:2])
    for bad, word in ((np.nan, "finite"), (-1.0, "positive diagonal")):
        new = tasks.scatters.copy()
        new[1, 2, 2] = bad
        with refuses("'s2'", word):
            tasks.with_scatters(new)
    new = tasks.scatters.copy()
    new[2, 0, 1] += 1.0
    with refuses("'s3'", "symmetric"):
        tasks.with_scatters(new)


def test_one_note_says_what_is_missing(frames, tasks):
    (note,) = missing_values(tasks)
    # 4 in s2; 15 and 1 in s3; 36 rows of 4
    assert note.startswith("20 values (0.14 of all) are missing, in 2 of 3 tasks")
    assert "most in task 's3' (0.27 of its values)" in note
    assert note.endswith("Task 's3' lacks 'c'")
    assert note in data_warnings(tasks)
    assert missing_values(tasks["s1"]) == []
    few = {name: frame[["a", "b"]] for name, frame in complete_frames().items()}
    many = {f"{name}{i}": frame for i in range(3) for name, frame in few.items()}
    many["last"] = complete_frames()["s1"]
    (note,) = missing_values(Tasks.from_frames(many, missing="em"))
    assert "'s10' lacks 'c', 'd'; " in note
    assert note.endswith("and 4 more tasks lack some")
