"""Subjects matched to groups; whoever cannot be used is left out, with the reason."""

import json

import numpy as np
import pytest
from compare.studies import VARIABLES, series, write_groups, write_series

from mtgbn import Tasks
from mtgbn.compare.cohort import read_cohort
from mtgbn.compare.participants import read_participants
from mtgbn.errors import InputError

GROUPS = ("patient", "control")


@pytest.fixture
def study(tmp_path):
    table = write_groups(tmp_path / "data")
    return tmp_path / "data", table


def read(study, groups=GROUPS, **options):
    data, table = study
    return read_cohort(data, read_participants(table), groups, **options)


def test_everybody_is_read_as_tasks_would_be(study):
    found = read(study, standardise=True, effective_samples="bartlett")
    assert found.tasks == Tasks.from_folder(
        study[0], standardise=True, effective_samples="bartlett"
    )
    assert found.groups == ("patient",) * 5 + ("control",) * 5
    assert found.is_in("control").tolist() == [False] * 5 + [True] * 5
    assert found.repetition_time == 2.0
    assert (found.excluded, found.without_data, found.other_groups) == ((), (), {})
    np.testing.assert_array_equal(found.series["sub-03"], series(3, True))


def test_who_is_left_out_and_why(study):
    data, table = study
    constant, zeros, lacking = series(20, True), series(21, True), series(22, True)
    constant[:, 1], zeros[:, 4], lacking[3, 2] = 7.0, 0.0, np.nan
    write_series(data, "sub-20", constant)
    write_series(data, "sub-21", zeros)
    write_series(data, "sub-22", lacking)
    write_series(data, "sub-23", series(23, True), tr=3.0)
    write_series(data, "sub-24", series(24, True)[:, :4], VARIABLES[:4])
    write_series(data, "sub-25", series(25, True))
    write_series(data, "sub-26", series(26, True))
    write_series(data, "sub-27", series(27, True))
    for damaged, text in (("sub-28", b"a\tb\n1\t2\n3\n"), ("sub-29", b"\xff\xfe\x00")):
        write_series(data, damaged, series(28, True))
        next(data.rglob(f"{damaged}_*.tsv")).write_bytes(text)
    added = [f"sub-{k}\tpatient" for k in (*range(20, 25), 28, 29)]
    added += ["sub-26\tn/a", "sub-27\trelative", "sub-99\tcontrol", "sub-98\trelative"]
    table.write_text(table.read_text() + "\n".join(added) + "\n")
    found = read(study)
    assert len(found.tasks) == 10
    reasons = {each.name: each.reason for each in found.excluded}
    expected = {
        "sub-20": "variable 'v1' is constant (value 7.0 in all 80 rows)",
        "sub-21": "variable 'v4' is constant (value 0.0 in all 80 rows)",
        "sub-22": "value nan at line 5",
        "sub-23": "its TR is 3 s, the TR of most others 2 s",
        "sub-24": "lacks 'v4'",
        "sub-25": "has no row of",
        "sub-26": "has no label in column 'group'",
        "sub-28": "has 1 cells but the header has 2",
        "sub-29": "is not UTF-8 text",
    }
    assert reasons.keys() == expected.keys()
    for name, text in expected.items():
        assert text in reasons[name]
    assert found.without_data == ("sub-99",)
    assert found.other_groups == {"relative": 1}


def test_a_given_tr_is_taken_for_all(study):
    write_series(study[0], "sub-01", series(1, True), tr=3.0)
    found = read(study, repetition_time=2.5)
    assert (len(found.tasks), found.repetition_time) == (10, 2.5)


def test_no_tr_is_that_of_most(study):
    for number in range(1, 6):
        write_series(study[0], f"sub-{number:02d}", series(number, True), tr=3.0)
    with pytest.raises(
        InputError, match=r"\(5 with 2 s, 5 with 3 s\), and most subjects share none"
    ):
        read(study)


def test_scanners_that_differ_between_groups_leave_one_empty(study):
    for number in range(1, 5):
        write_series(study[0], f"sub-{number:02d}", series(number, True), tr=3.0)
    (study[0] / "sub-05_task-rest_timeseries.tsv").unlink()
    with pytest.raises(InputError, match=r"group 'patient' is empty.*sub-01: its TR is 3 s"):
        read(study)


def test_groups_that_are_too_small(study):
    data, table = study
    for number in range(2, 6):
        (data / f"sub-{number:02d}_task-rest_timeseries.tsv").unlink()
    with pytest.raises(InputError, match="group 'patient' has one subject with usable data"):
        read(study)
    (data / "sub-01_task-rest_timeseries.tsv").unlink()
    with pytest.raises(InputError, match="group 'patient' is empty"):
        read(study)
    table.write_text("participant_id\tgroup\n1\tpatient\n2\tcontrol\n")
    with pytest.raises(InputError, match=r"\('1', '2'\) has data; the data are of 'sub-06'"):
        read(study)


def test_two_series_of_one_subject_are_refused(study):
    path = study[0] / "sub-01_task-rest_timeseries.tsv"
    path.rename(path.with_name("sub-01_ses-1_task-rest_timeseries.tsv"))
    write_series(study[0], "sub-01_ses-2", series(30, True))
    with pytest.raises(InputError, match="'sub-01_ses-1' and 'sub-01_ses-2', which are not indep"):
        read(study)
    assert len(read(study, pattern="sub-0[2-9]_*_timeseries.tsv").tasks) == 8


def test_one_subject_is_read_whatever_its_label(study):
    found = read(study, ("control",), always="sub-02")
    assert found.tasks.names == ("sub-02", *(f"sub-{k:02d}" for k in range(6, 11)))
    assert found.groups[0] == "patient"
    assert found.other_groups == {"patient": 4}
    assert read(study, ("control",), always="02").tasks.names == found.tasks.names
    with pytest.raises(InputError, match="there is no subject named 'sub-77'"):
        read(study, ("control",), always="sub-77")


def test_gaps_in_time_are_noted(study):
    path = study[0] / "sub-04_task-rest_timeseries.json"
    path.write_text(json.dumps({"RepetitionTime": 2, "Runs": [{"VolumesScrubbed": [3]}]}))
    (note,) = read(study).notes
    assert "scrubbed volumes" in note
    assert "'sub-04'" in note


def test_an_npz_and_a_long_table(study, tmp_path):
    _, table = study
    arrays = {f"{k:02d}": series(k, k <= 5) for k in range(1, 11)}
    np.savez(tmp_path / "all.npz", variables=np.array(VARIABLES), **arrays)
    found = read((tmp_path / "all.npz", table))
    assert found.groups == ("patient",) * 5 + ("control",) * 5
    assert found.repetition_time is None
    lines = ["who," + ",".join(VARIABLES)]
    for name, values in arrays.items():
        lines += [f"{name}," + ",".join(map(repr, row)) for row in values.tolist()]
    (tmp_path / "all.csv").write_text("\n".join(lines))
    assert read((tmp_path / "all.csv", table), task="who").tasks == found.tasks
