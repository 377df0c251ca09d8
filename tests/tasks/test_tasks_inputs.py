"""All ways in lead to the same Tasks; text files are read as pandas reads them."""

import numpy as np
import pandas as pd
import pytest

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.reduction import reduce_table
from mtgbn.tasks.table import align

VARIABLES = ["a", "b", "c"]
NAMES = ["s1", "s2", "s10"]


@pytest.fixture
def frames():
    rng = np.random.default_rng(0)
    sizes = zip(NAMES, (8, 12, 5), strict=True)
    return {name: pd.DataFrame(rng.normal(size=(n, 3)), columns=VARIABLES) for name, n in sizes}


@pytest.fixture
def expected(frames):
    return Tasks.from_frames(frames)


def write_folder(folder, frames):
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def as_long(frames, column="task"):
    return pd.concat([frame.assign(**{column: name}) for name, frame in frames.items()])


def test_all_constructors_agree(frames, expected, tmp_path):
    arrays = [frame.to_numpy() for frame in frames.values()]
    long = as_long(frames, "subject")
    assert expected.names == tuple(NAMES)
    assert expected.variables == tuple(VARIABLES)
    assert Tasks.from_arrays(arrays, VARIABLES, NAMES) == expected
    assert Tasks.from_frames(list(frames.values()), NAMES) == expected
    assert Tasks.from_long(long, task="subject") == expected
    assert Tasks.from_folder(write_folder(tmp_path, frames)) == expected
    for other in (Tasks.from_long(long, "subject"), Tasks.from_folder(tmp_path)):
        np.testing.assert_array_equal(other.n_rows, expected.n_rows)


def test_all_constructors_take_the_same_options(frames, tmp_path):
    options = {"centre": False, "standardise": True, "effective_samples": dict.fromkeys(NAMES, 4)}
    expected = Tasks.from_frames(frames, **options)
    arrays = [frame.to_numpy() for frame in frames.values()]
    assert Tasks.from_arrays(arrays, VARIABLES, NAMES, **options) == expected
    assert Tasks.from_long(as_long(frames), **options) == expected
    assert Tasks.from_folder(write_folder(tmp_path, frames), **options) == expected
    with pytest.raises(TypeError, match="center"):
        Tasks.from_frames(frames, center=False)


def test_from_any_dispatches(frames, expected, tmp_path):
    arrays = {name: frame.to_numpy() for name, frame in frames.items()}
    folder = write_folder(tmp_path, frames)
    assert Tasks.from_any(expected) is expected
    assert Tasks.from_any(folder) == expected
    assert Tasks.from_any(str(folder), pattern="*.csv") == expected
    assert Tasks.from_any(frames) == expected
    assert Tasks.from_any(list(frames.values()), names=NAMES) == expected
    assert Tasks.from_any(arrays, variables=VARIABLES) == expected
    assert Tasks.from_any(tuple(arrays.values()), variables=VARIABLES, names=NAMES) == expected
    assert Tasks.from_any(as_long(frames)) == expected
    assert Tasks.from_any(as_long(frames, "id"), task="id") == expected


def test_from_any_takes_stacked_and_single_arrays():
    stacked = np.random.default_rng(0).normal(size=(4, 9, 3))
    assert Tasks.from_any(stacked) == Tasks.from_arrays(list(stacked))
    assert Tasks.from_any(stacked[0]) == Tasks.from_arrays(stacked)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "cannot read tasks from NoneType; give the path"),
        (3, "from int"),
        (np.zeros(4), "ndarray with 1 dimension"),
        ([], "no tasks"),
        ({}, "no tasks"),
        ([[1, 2], [3, 4]], "task 'task0' has 1 dimension"),
        (pd.DataFrame({"a": [1, 2], "b": [2, 1]}), "no column 'task'"),
        ([pd.DataFrame({"a": [1], "b": [2]}), np.eye(2)], "'task1' is of type ndarray"),
    ],
)
def test_from_any_says_what_it_accepts(data, message):
    with pytest.raises(InputError, match=message):
        Tasks.from_any(data)


def test_from_any_refuses_options_for_a_tasks(expected):
    with pytest.raises(InputError, match="'centre'"):
        Tasks.from_any(expected, centre=False)


def test_frames_may_have_numbers_as_labels_and_mixed_types():
    mixed = pd.DataFrame({0: [1, 2, 4], 1: [0.5, 0.1, 0.2], 2: [True, False, False]})
    tasks = Tasks.from_frames([mixed, mixed[[2, 0, 1]]])
    assert tasks.variables == ("0", "1", "2")
    np.testing.assert_array_equal(tasks.scatters[0], tasks.scatters[1])
    nullable = mixed.astype({0: "Int64", 1: "Float64", 2: "boolean"})
    assert Tasks.from_frames([nullable]) == Tasks.from_frames([mixed])


def test_long_rows_may_be_in_any_order(frames):
    long = as_long(frames)
    shuffled = long.iloc[np.random.default_rng(1).permutation(len(long))]
    groups = {name: rows[VARIABLES] for name, rows in shuffled.groupby("task", sort=False)}
    assert Tasks.from_long(shuffled) == Tasks.from_frames(groups)


def test_the_first_bad_row_of_a_long_frame_is_named():
    rng = np.random.default_rng(3)
    long = pd.DataFrame({"task": rng.integers(0, 9, 999), "a": rng.normal(size=999), "b": np.nan})
    with pytest.raises(InputError, match=f"task '{long['task'][0]}', variable 'b'.* at row 0 "):
        Tasks.from_long(long)


def test_long_tasks_may_be_numbers():
    long = pd.DataFrame({"a": [1.0, 2, 3, 5], "task": [12, 12, 3, 3], "b": [2.0, 1, 1, 0]})
    tasks = Tasks.from_long(long, effective_samples={12: 1, 3: 2})
    assert tasks.names == ("12", "3")
    assert tasks.ns.tolist() == [1, 2]


def test_a_dataframe_only_needs_to_behave_like_one(frames, expected):
    class Frame:
        def __init__(self, frame):
            self.frame = frame
            self.columns = list(frame.columns)

        def __getitem__(self, key):
            return self.frame[key]

        def to_numpy(self):
            return self.frame.to_numpy()

    assert Tasks.from_any({name: Frame(frame) for name, frame in frames.items()}) == expected
    assert Tasks.from_any(Frame(as_long(frames))) == expected


def test_folder_agrees_with_pandas(tmp_path):
    rng = np.random.default_rng(2)
    names = ["plain", "weird, name", 'quo"ted', "ünïcode"]
    for task, kind in enumerate(("%.17g", "%.3e", "%10.4f")):
        values = rng.normal(size=(20, 4)) * 10.0 ** rng.integers(-1, 12, size=4)
        frame = pd.DataFrame(values, columns=names)
        frame.to_csv(tmp_path / f"{task}.csv", index=False, float_format=kind)
    oracle = Tasks.from_frames({str(i): pd.read_csv(tmp_path / f"{i}.csv") for i in range(3)})
    tasks = Tasks.from_folder(tmp_path)
    assert (tasks.names, tasks.variables) == (("0", "1", "2"), tuple(names))
    # By default pandas may round the last digit of a number differently.
    np.testing.assert_allclose(tasks.scatters, oracle.scatters, rtol=1e-12)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("t.csv", "a,b\n1,2\n3,5\n4,4\n"),
        ("t.CSV", "a,b\r\n1,2\r\n3,5\r\n4,4"),
        ("t.csv", "\ufeffa,b\n\n1, 2\n3 ,5\n\n4,4\n\n"),
        ("t.csv", '"a","b"\n"1","2"\n3,+5\n4e0,.4e1\n'),
        ("t.tsv", "a\tb\n1\t2\n3\t5\n4\t4\n"),
        ("t.txt", "a\tb\n1\t2\n3\t5\n4\t4\n"),
        ("t.txt", "a,b\n1,2\n3,5\n4,4\n"),
        ("t.txt", "a;b\n1;2\n3;5\n4;4\n"),
        ("t.txt", "  a   b\n  1   2\n\n  3   5\n  4   4\n"),
    ],
)
def test_spellings_of_the_same_file(tmp_path, file, text):
    (tmp_path / file).write_bytes(text.encode())
    expected = Tasks.from_arrays([[[1, 2], [3, 5], [4, 4]]], ["a", "b"], ["t"])
    assert Tasks.from_folder(tmp_path) == expected


def test_folder_order_hidden_files_and_pattern(tmp_path, frames):
    write_folder(tmp_path, frames)
    for other in (".hidden.csv", "notes.md", ".DS_Store"):
        (tmp_path / other).write_text("not data")
    (tmp_path / "folder.csv").mkdir()
    assert Tasks.from_folder(tmp_path).names == ("s1", "s2", "s10")
    assert Tasks.from_folder(tmp_path, "s1*").names == ("s1", "s10")
    nested = tmp_path / "group" / "deep"
    nested.mkdir(parents=True)
    (nested / "s7.dat").write_text("a b\n1 2\n2 1\n2 2\n")
    assert Tasks.from_folder(tmp_path, "group/*/*.dat").names == ("s7",)


def test_effective_samples_of_a_series_go_by_its_labels(frames):
    sizes = pd.Series({name: 2.0 + k for k, name in enumerate(NAMES)})
    expected = Tasks.from_frames(frames, effective_samples=sizes.to_dict())
    assert Tasks.from_frames(frames, effective_samples=sizes[::-1]) == expected
    with pytest.raises(InputError, match="effective_samples must be"):
        Tasks.from_frames(frames, effective_samples={3, 4})
    with pytest.raises(InputError, match="centre must be True or False; got 'no'"):
        Tasks.from_frames(frames, centre="no")


def test_a_link_to_nowhere_is_not_passed_over(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x,y\n1,2\n2,1\n3,5\n")
    (tmp_path / "c.csv").symlink_to(tmp_path / "annex" / "c")
    with pytest.raises(
        InputError, match=r"c\.csv' is a link to a file that is not there; fetch it"
    ):
        Tasks.from_folder(tmp_path)


def write_series(path, header="a\tb\tc", seed=0):
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    width = header.count("\t") + 1
    rows = ["\t".join(f"{x:.6f}" for x in row) for row in rng.standard_normal((9, width))]
    path.write_text("\n".join([header, *rows]) + "\n")


def test_series_of_xcp_d_are_tasks_by_subject(tmp_path):
    for subject in (2, 10, 1):
        stem = f"sub-{subject:02d}_task-rest_space-MNI152NLin2009cAsym"
        func = tmp_path / f"sub-{subject:02d}" / "func"
        write_series(func / f"{stem}_seg-Gordon_stat-mean_timeseries.tsv", seed=subject)
        (func / f"{stem}_seg-Gordon_stat-mean_timeseries.json").write_text("{}")
        for other in ("seg-Gordon_stat-coverage_bold", "seg-Gordon_stat-pearson_relmat", "motion"):
            write_series(func / f"{stem}_{other}.tsv", "x\ty")
        write_series(func / f"sub-{subject:02d}_task-rest_desc-confounds_timeseries.tsv", "csf\twm")
    (tmp_path / "dataset_description.json").write_text("{}")
    for name in ("participants.tsv", "excluded.tsv"):
        (tmp_path / name).write_text("participant_id\tgroup\nsub-01\tpatient\n")
    tasks = Tasks.from_folder(tmp_path)
    assert tasks.names == ("sub-01", "sub-02", "sub-10")
    assert tasks.variables == ("a", "b", "c")
    one = Tasks.from_folder(tmp_path / "sub-02" / "func")
    assert np.array_equal(one.scatters[0], tasks["sub-02"].scatters[0])
    # The same name where somebody says which files.
    assert Tasks.from_folder(tmp_path, "sub-*/func/*stat-mean_timeseries.tsv") == tasks


def test_several_runs_of_a_subject_have_names_of_their_own(tmp_path):
    for name in ("sub-1_ses-a_task-rest_run-1", "sub-1_ses-a_task-rest_run-2", "sub-2_task-rest"):
        write_series(tmp_path / f"{name}_seg-x_timeseries.tsv", seed=len(name))
    assert Tasks.from_folder(tmp_path).names == ("sub-1_run-1", "sub-1_run-2", "sub-2")


def test_giga_connectome_numbers_its_columns(tmp_path):
    func = tmp_path / "sub-1" / "func"
    write_series(func / "sub-1_task-rest_seg-MIST7_desc-denoiseSimple_timeseries.tsv", "0\t1\t2")
    assert Tasks.from_folder(tmp_path).variables == ("x0", "x1", "x2")
    write_series(func / "sub-1_task-rest_seg-MIST7_desc-denoiseSimple_timeseries.tsv", "0\t1\t5")
    with pytest.raises(InputError, match="all numbers"):
        Tasks.from_folder(tmp_path)


def test_series_of_several_atlases_must_be_chosen_from(tmp_path):
    for atlas in ("Gordon", "Tian"):
        write_series(tmp_path / f"sub-1_task-rest_atlas-{atlas}_timeseries.tsv")
    with pytest.raises(InputError, match=r"several atlas \('Gordon', 'Tian'\); choose") as error:
        Tasks.from_folder(tmp_path)
    pattern = str(error.value).rpartition("such as '")[2].rstrip("'")
    assert Tasks.from_folder(tmp_path, pattern).names == ("sub-1",)


def test_tables_beside_series_are_not_passed_over(tmp_path):
    write_series(tmp_path / "sub-1_timeseries.tsv")
    write_series(tmp_path / "sub-2.tsv")
    with pytest.raises(InputError, match=r"series \('sub-1_timeseries.tsv'\) and other tables"):
        Tasks.from_folder(tmp_path)
    assert Tasks.from_folder(tmp_path, "sub-*.tsv").names == ("sub-1_timeseries", "sub-2")


def test_tables_reduced_one_by_one_are_the_tasks():
    rng = np.random.default_rng(0)
    frames = {"s": pd.DataFrame(rng.normal(size=(9, 3)), columns=list("abc"))}
    frames["t"] = pd.DataFrame(rng.normal(size=(7, 3)), columns=list("cab"))
    options = {"standardise": True, "effective_samples": "bartlett"}
    tables = read_tables(frames)
    reduced = [reduce_table(table, **options) for table in align(tables)]
    expected = Tasks.from_frames(frames, **options)
    for tasks in (Tasks.from_reduced(reduced), Tasks.from_tables(tables, **options)):
        assert tasks == expected
        assert np.array_equal(tasks.centres, expected.centres)
        assert tasks.fingerprint({}) == expected.fingerprint({})
    np.testing.assert_array_equal(reduced[1].table.values, frames["t"][list("abc")])
    with pytest.raises(InputError, match="no tasks"):
        Tasks.from_reduced([])
    with pytest.raises(InputError, match="'s' and 't' have other variables or another order"):
        Tasks.from_reduced([reduce_table(table) for table in tables])


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            "folder",
            {"variables": ["a"]},
            "'variables' has no effect on the file or folder 'folder'",
        ),
        (np.eye(3), {"pattern": "*"}, "'pattern' has no effect on data of type ndarray"),
        (
            [pd.DataFrame(np.eye(3))],
            {"variables": ["a"]},
            "'variables' has no effect on DataFrames",
        ),
        (
            pd.DataFrame({"task": [1], "a": [2]}),
            {"names": ["a"]},
            "'names' has no effect on a long",
        ),
    ],
)
def test_options_without_effect_are_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        read_tables(data, **options)
