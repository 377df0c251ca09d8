"""Series that were put into small images come out again, without what else was put in."""

import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from fmri.scans import (
    AFFINE,
    N_VOLUMES,
    NAME,
    POINTS,
    RADIUS,
    REGIONS,
    SHAPE,
    TR,
    confounds_table,
    known_series,
    volumes,
    write_image,
    write_subject,
    write_table,
)
from nilearn.signal import clean as nilearn_clean
from scipy import signal

import mtgbn
from mtgbn import Tasks
from mtgbn.errors import InputError
from mtgbn.fmri.cleaning import clean, degrees_of_freedom
from mtgbn.fmri.extract import extract_series
from mtgbn.fmri.images import find_images, repetition_time, units_of
from mtgbn.fmri.regions import load_atlas, load_regions
from mtgbn.fmri.settings import Settings

CSF = {"radius": RADIUS, "confounds": ["csf"]}
DROP = 4


def read(path):
    return pd.read_csv(path, sep="\t").to_numpy()


def record(path):
    return json.loads(path.with_suffix(".json").read_text())


def agreement(one, other):
    """The smallest correlation of a column with the same column of the other."""
    return min(np.corrcoef(x, y)[0, 1] for x, y in zip(one.T, other.T, strict=True))


def band_passed(values, tr=TR):
    """Detrended and filtered with scipy alone."""
    sos = signal.butter(5, [0.01, 0.08], "bandpass", fs=1 / tr, output="sos")
    return signal.sosfiltfilt(sos, signal.detrend(values, axis=0), axis=0)


@pytest.fixture(scope="module")
def prep(tmp_path_factory):
    """Three subjects of fMRIPrep, with their series and confounds."""
    root = tmp_path_factory.mktemp("prep")
    return root, {label: write_subject(root, label) for label in ("01", "02", "10")}


@pytest.fixture(scope="module")
def extraction(prep, tmp_path_factory):
    """The series of these subjects, four volumes dropped; for tests that write nothing there."""
    return extract_series(prep[0], REGIONS, tmp_path_factory.mktemp("series"), drop=DROP, **CSF)


def test_known_series_come_out_and_the_confound_does_not(prep, extraction, tmp_path):
    _, subjects = prep
    assert not extraction.excluded
    assert extraction.n_computed == 3
    for path, (_, series, table) in zip(extraction.series, subjects.values(), strict=True):
        found = read(path)
        assert agreement(found, series[DROP:]) > 0.99
        np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(found.std(axis=0, ddof=1), 1)
        csf = band_passed(table["csf"].to_numpy()[DROP:])
        assert np.abs([np.corrcoef(csf, column)[0, 1] for column in found.T]).max() < 0.01
    # What was put in is in there if nobody takes it out.
    image = subjects["01"][0]
    raw = extract_series([image], REGIONS, tmp_path / "raw", radius=RADIUS, confounds="none")
    leaked = read(raw.series[0])[:, 0]
    assert np.corrcoef(leaked, subjects["01"][2]["csf"])[0, 1] > 0.8


def test_friston24_is_the_regression_by_hand(prep, tmp_path):
    image, series, table = prep[1]["01"]
    extraction = extract_series([image], REGIONS, tmp_path / "out", radius=RADIUS)
    about = record(extraction.series[0])["Runs"][0]
    columns = [name for name in table if name.startswith(("trans", "rot", "csf", "white"))]
    assert sorted(columns) == about["ConfoundColumns"]
    assert len(columns) == 26
    confounds = band_passed(table[columns].bfill().to_numpy())
    expected = band_passed(series)
    expected -= confounds @ np.linalg.lstsq(confounds, expected, rcond=None)[0]
    found = read(extraction.series[0])
    assert agreement(found, expected) > 0.999
    scaled = confounds / np.linalg.norm(confounds, axis=0)
    assert np.abs(scaled.T @ found / np.linalg.norm(found, axis=0)).max() < 0.01


def test_the_band_is_what_is_left_of_noise(tmp_path):
    rng = np.random.default_rng(0)
    image = write_image(
        tmp_path / "sub-1_bold.nii.gz", volumes(rng.normal(size=(600, 4)), drift=100)
    )
    found = read(
        extract_series([image], REGIONS, tmp_path / "out", radius=RADIUS, confounds="none").series[
            0
        ]
    )
    frequencies, power = signal.periodogram(found, 1 / TR, axis=0)
    inside = (frequencies >= 0.01) & (frequencies <= 0.08)
    assert power[inside].sum() / power.sum() > 0.95
    far = (frequencies < 0.005) | (frequencies > 0.12)
    assert power[far].sum() / power.sum() < 0.005
    # Without a band only the trend goes.
    extraction = extract_series(
        [image], REGIONS, tmp_path / "all", radius=RADIUS, confounds="none", band=(0, np.inf)
    )
    frequencies, power = signal.periodogram(read(extraction.series[0]), 1 / TR, axis=0)
    assert 0.5 < power[frequencies > 0.12].sum() / power.sum() < 0.56  # (0.25 - 0.12) / 0.25
    assert record(extraction.series[0])["BandPass"] == [None, None]


def spiky(label="01"):
    """Confounds with motion in volumes 60 to 61 and 178, three steady volumes late, and a late end."""
    table = confounds_table(int(label))
    table.loc[[60, 61, 178, N_VOLUMES - 1], "framewise_displacement"] = 2.0
    table.loc[120, "std_dvars"] = 9.0
    for number in range(3):
        table[f"non_steady_state_outlier{number:02d}"] = (np.arange(N_VOLUMES) == number).astype(
            int
        )
    return table


def write_spiky(root, table):
    """A subject with a large jump in all volumes that must be left out."""
    series = known_series(1)
    data = volumes(series)
    bad = (
        (table["framewise_displacement"] > 1)
        | (table["std_dvars"] > 5)
        | (np.arange(len(table)) < 3)
    )
    data[..., bad] += 500 * np.random.default_rng(5).normal(size=(*SHAPE, 1))
    path = write_image(root / "sub-01" / "func" / NAME.format("01"), data)
    write_table(path.with_name("sub-01_task-rest_desc-confounds_timeseries.tsv"), table)
    return path, series


def test_scrubbed_volumes_are_counted_and_leave_no_trace(tmp_path):
    table = spiky()
    # 178 lies where 61 does, counted from the other end: both must be interpolated.
    assert N_VOLUMES - 1 - 178 == 61
    path, series = write_spiky(tmp_path / "prep", table)
    extraction = extract_series(
        [path], REGIONS, tmp_path / "out", radius=RADIUS, confounds=["csf"], scrub=0.5, drop=1
    )
    run = record(extraction.series[0])["Runs"][0]
    assert run["VolumesDropped"] == [0]
    assert run["VolumesNotSteady"] == [1, 2]
    assert run["VolumesScrubbed"] == [60, 61, 120, 178, N_VOLUMES - 1]
    found = read(extraction.series[0])
    assert len(found) == run["VolumesAfter"] == N_VOLUMES - 8
    kept = np.setdiff1d(np.arange(N_VOLUMES), [0, 1, 2, *run["VolumesScrubbed"]])
    assert agreement(found, series[kept]) > 0.99
    ruined = extract_series([path], REGIONS, tmp_path / "ruined", radius=RADIUS, confounds=["csf"])
    assert agreement(read(ruined.series[0]), series) < 0.9


def test_volumes_before_the_steady_state_go_without_scrubbing(tmp_path):
    path, _ = write_spiky(tmp_path / "prep", spiky())
    extraction = extract_series([path], REGIONS, tmp_path / "out", radius=RADIUS)
    run = record(extraction.series[0])["Runs"][0]
    assert (run["VolumesNotSteady"], run["VolumesScrubbed"]) == ([0, 1, 2], [])


def test_scrubbing_without_confounds(tmp_path):
    path, _ = write_spiky(tmp_path / "prep", spiky())
    extraction = extract_series(
        [path], REGIONS, tmp_path / "out", radius=RADIUS, confounds="none", scrub=0.5
    )
    run = record(extraction.series[0])["Runs"][0]
    assert run["ConfoundColumns"] == []
    assert run["VolumesAfter"] == N_VOLUMES - 8


@pytest.mark.parametrize("left_out", [[], [50], [50, 51, 90], [0, 1], [199]])
def test_cleaning_is_that_of_nilearn_where_it_is_right(left_out):
    rng = np.random.default_rng(3)
    series, confounds = rng.normal(size=(200, 3)), rng.normal(size=(200, 5))
    kept = np.ones(200, dtype=bool)
    kept[left_out] = False
    expected = nilearn_clean(
        series.copy(),
        confounds=confounds.copy(),
        sample_mask=np.flatnonzero(kept) if left_out else None,
        low_pass=0.08,
        high_pass=0.01,
        t_r=2.0,
    )
    found = clean(series, confounds, kept, tr=2.0, band=(0.01, 0.08), standardise=True)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("left_out", [[50], [50, 149], [0, 1, 198, 199], [0, 1, 199], [3, 77, 122]])
def test_what_is_left_out_has_no_say(left_out):
    rng = np.random.default_rng(4)
    series, confounds = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    kept = np.ones(200, dtype=bool)
    kept[left_out] = False
    options = {"tr": 2.0, "band": (0.01, 0.08), "standardise": False}
    expected = clean(series, confounds, kept, **options)
    series[left_out], confounds[left_out] = 1e6, -1e6
    np.testing.assert_array_equal(clean(series, confounds, kept, **options), expected)
    assert len(expected) == kept.sum()


def test_degrees_of_freedom_are_the_rank_of_what_is_left():
    confounds = np.random.default_rng(6).normal(size=(300, 20))
    kept, options = (
        np.ones(300, dtype=bool),
        {"tr": 2.0, "band": (0.01, 0.08), "standardise": False},
    )
    # All steps are linear: cleaning the unit vectors gives the matrix, close to a projection.
    matrix = clean(np.eye(300), confounds, kept, **options)
    assert abs(np.trace(matrix) - degrees_of_freedom(300, 20, 2.0, (0.01, 0.08))) < 4
    with pytest.raises(InputError, match=r"60 volumes have about 17 degrees .* 26 confounds; use"):
        degrees_of_freedom(60, 26, 2.0, (0.01, 0.08))


def test_an_atlas_with_its_labels(prep, tmp_path):
    _, subjects = prep
    # Half the voxel size, so that it has to be brought to the images' grid.
    fine = AFFINE @ np.diag([0.5, 0.5, 0.5, 1.0])
    fine[:3, 3] -= 2.5
    shape = tuple(2 * size for size in SHAPE)
    places = np.argwhere(np.ones(shape, dtype=bool)) @ fine[:3, :3].T + fine[:3, 3]
    values = np.zeros(shape, dtype=np.int16)
    for value, point in zip((4, 9, 2, 7), POINTS, strict=True):
        values[(np.abs(places - point).max(axis=1) < 5).reshape(shape)] = value
    image = write_image(tmp_path / "my_atlas.nii.gz", values[..., None], fine, dtype=np.int16)
    (tmp_path / "labels.tsv").write_text("index\tname\n9\tB\n4\tA\n2\tC\n")
    atlas = load_atlas(image, tmp_path / "labels.tsv")
    extraction = extract_series([subjects["01"][0]], atlas, tmp_path / "out", confounds=["csf"])
    header = extraction.series[0].read_text().partition("\n")[0]
    assert header == "C\tA\tB"
    assert agreement(read(extraction.series[0]), subjects["01"][1][:, [2, 0, 1]]) > 0.99
    about = record(extraction.series[0])
    assert about["Atlas"] == str(image)
    assert about["Runs"][0]["VoxelsPerRegion"] == [1, 1, 1]
    assert "_seg-myatlas_" in extraction.series[0].name


def test_the_record_is_true(prep, extraction):
    _, subjects = prep
    path = extraction.series[0]
    assert (
        path.name == "sub-01_task-rest_space-MNI152NLin2009cAsym_seg-known_stat-mean_timeseries.tsv"
    )
    assert path.read_text().partition("\n")[0] == "a\tb\tc\td"
    about = record(path)
    assert about["Sources"] == [str(subjects["01"][0])]
    assert (about["RepetitionTime"], about["RepetitionTimeSource"]) == (TR, "sidecar")
    assert about["BandPass"] == [0.01, 0.08]
    assert about["SphereRadius"] == RADIUS
    assert about["RegionCoordinates"] == POINTS.tolist()
    assert about["Volumes"] == len(read(path)) == N_VOLUMES - DROP
    assert about["Runs"][0]["VolumesBefore"] == N_VOLUMES
    assert about["Runs"][0]["VolumesDropped"] == list(range(DROP))
    assert about["Runs"][0]["ConfoundColumns"] == ["csf"]
    assert about["Runs"][0]["VoxelsPerRegion"] == [7] * 4
    assert about["SoftwareVersions"]["mtgbn"] == mtgbn.__version__
    assert "i -> j" in about["AdjacencyConvention"]
    description = json.loads((extraction.folder / "dataset_description.json").read_text())
    assert description["GeneratedBy"][0]["Name"] == "mtgbn"
    assert (extraction.folder / "excluded.tsv").read_text() == "name\treason\n"
    assert not list(extraction.folder.glob(".*"))


def test_tasks_read_what_was_extracted(extraction):
    tasks = Tasks.from_any(extraction.folder)
    assert tasks.names == ("sub-01", "sub-02", "sub-10")
    assert tasks.variables == ("a", "b", "c", "d")
    expected = Tasks.from_arrays([read(path) for path in extraction.series])
    np.testing.assert_allclose(tasks.scatters, expected.scatters, rtol=1e-12)


def test_what_is_done_is_not_done_again(prep, tmp_path):
    root, _ = prep
    called = []
    first = extract_series(root, REGIONS, tmp_path / "out", done=called.append, **CSF)
    assert sorted(called) == ["sub-01", "sub-02", "sub-10"]
    times = [path.stat().st_mtime_ns for path in first.series]
    again = extract_series(root, REGIONS, tmp_path / "out", done=called.append, **CSF)
    assert again.n_computed == 0
    assert len(called) == 6
    assert [path.stat().st_mtime_ns for path in again.series] == times
    # Damage, other settings and other files are noticed.
    first.series[1].write_text(first.series[1].read_text()[:-20])
    assert extract_series(root, REGIONS, tmp_path / "out", **CSF).n_computed == 1
    image = next(iter(find_images(root).values()))[0]
    os.utime(image)
    assert extract_series(root, REGIONS, tmp_path / "out", **CSF).n_computed == 1
    assert extract_series(root, REGIONS, tmp_path / "out", drop=2, **CSF).n_computed == 3
    assert {len(read(path)) for path in first.series} == {N_VOLUMES - 2}


@pytest.mark.slow
def test_two_processes_give_the_same(prep, extraction, tmp_path):
    root, _ = prep
    two = extract_series(root, REGIONS, tmp_path / "two", drop=DROP, n_jobs=2, **CSF)
    for path, other in zip(extraction.series, two.series, strict=True):
        assert path.read_bytes() == other.read_bytes()


def test_a_subject_that_fails_keeps_nobody_from_being_done(prep, tmp_path):
    root = tmp_path / "prep"
    good, _, _ = write_subject(root, "01")
    write_subject(root, "02", tr=1.0)
    write_subject(root, "03", tr=TR)
    no_column, _, table = write_subject(root, "04")
    confounds = no_column.parent / "sub-04_task-rest_desc-confounds_timeseries.tsv"
    write_table(confounds, table.drop(columns="trans_x"))
    no_table, _, _ = write_subject(root, "05")
    (no_table.parent / "sub-05_task-rest_desc-confounds_timeseries.tsv").unlink()
    damaged, _, _ = write_subject(root, "06")
    damaged.write_bytes(damaged.read_bytes()[:30_000])
    no_image, _, _ = write_subject(root, "07")
    no_image.write_text("nothing")
    elsewhere = AFFINE.copy()
    elsewhere[:3, 3] += (0, 400, 0)
    off, _, _ = write_subject(root, "08")
    write_image(off, volumes(known_series(8)), elsewhere)
    dark, _, _ = write_subject(root, "09")
    data = volumes(known_series(9))
    data[..., :] *= (np.arange(SHAPE[0]) > 8)[:, None, None, None]  # nothing on the left
    write_image(dark, data)
    short, _, table = write_subject(root, "10")
    confounds = short.parent / "sub-10_task-rest_desc-confounds_timeseries.tsv"
    write_table(confounds, table[:-3])
    extraction = extract_series(root, REGIONS, tmp_path / "out", radius=RADIUS)
    assert [path.name[:6] for path in extraction.series] == ["sub-01", "sub-03"]
    reasons = dict(extraction.excluded)
    assert list(reasons) == [f"sub-{number:02d}" for number in (2, 4, 5, 6, 7, 8, 9, 10)]
    for label, text in {
        "02": "its TR is 1 s (sidecar), that of most others 2 s",
        "04": "trans_x",
        "05": "no table of confounds beside",
        "06": "sub-06_task-rest",
        "07": "cannot be read as an image",
        "08": "has no voxel of region 'a'; is it in MNI space",
        "09": "region 'a' has no signal",
        "10": "has 237 rows",
    }.items():
        assert text in reasons[f"sub-{label}"], reasons[f"sub-{label}"]
    lines = (tmp_path / "out" / "excluded.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["name", *reasons]
    assert Tasks.from_folder(tmp_path / "out").names == ("sub-01", "sub-03")
    # What is repaired is done, the rest is kept.
    write_subject(root, "05")
    again = extract_series(root, REGIONS, tmp_path / "out", radius=RADIUS)
    assert again.n_computed == 1
    assert len(again.excluded) == 7
    # A table of other settings does not stay for a subject that cannot be used with these.
    good.unlink()
    fewer = extract_series(
        {"01": good, "03": find_images(root)["sub-03"]}, REGIONS, tmp_path / "new", **CSF
    )
    assert fewer.excluded[0].reason.startswith("there is no file")


def test_tables_of_other_settings_go_with_their_subject(tmp_path):
    path, _, _ = write_subject(tmp_path / "prep", "01")
    other, _, _ = write_subject(tmp_path / "prep", "02")
    first = extract_series([path, other], REGIONS, tmp_path / "out", **CSF)
    with pytest.raises(InputError, match=r"holds 'sub-02_.*made with other settings; give another"):
        extract_series([path], REGIONS, tmp_path / "out", drop=3, **CSF)
    other.unlink()
    second = extract_series([path, other], REGIONS, tmp_path / "out", drop=3, **CSF)
    assert [each.name for each in second.excluded] == ["sub-02"]
    assert not first.series[1].exists()
    # A subject that comes later joins those that are there.
    late, _, _ = write_subject(tmp_path / "prep", "03")
    extract_series([late], REGIONS, tmp_path / "out", drop=3, **CSF)
    assert Tasks.from_folder(tmp_path / "out").names == ("sub-01", "sub-03")
    assert "sub-02\t" in (tmp_path / "out" / "excluded.tsv").read_text()


def test_partly_covered_regions(tmp_path):
    data = volumes(known_series(1))
    places = np.argwhere(np.ones(SHAPE, dtype=bool)) @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    data[(places[:, 0] < POINTS[0, 0]).reshape(SHAPE)] = 0  # one of the seven voxels of a
    image = write_image(tmp_path / "sub-1_bold.nii.gz", data)
    options = {"radius": RADIUS, "confounds": "none"}
    extraction = extract_series([image], REGIONS, tmp_path / "out", **options)
    coverage = record(extraction.series[0])["Runs"][0]["CoveragePerRegion"]
    np.testing.assert_allclose(coverage, [6 / 7, 1, 1, 1], atol=1e-4)
    assert agreement(read(extraction.series[0]), known_series(1)) > 0.99
    strict = extract_series([image], REGIONS, tmp_path / "no", min_coverage=0.9, **options)
    assert "has a signal in only 86% of region 'a'" in strict.excluded[0].reason


def test_integers_are_averaged_as_numbers(tmp_path):
    data = volumes(known_series(2), noise=1).astype(np.int16)
    image = write_image(tmp_path / "sub-1_bold.nii.gz", data, dtype=np.int16)
    extraction = extract_series([image], REGIONS, tmp_path / "out", radius=RADIUS, confounds="none")
    places = np.argwhere(np.ones(SHAPE, dtype=bool)) @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    near = np.linalg.norm(places[:, None] - POINTS, axis=2) <= RADIUS
    means = np.stack([data[near[:, k].reshape(SHAPE)].mean(axis=0) for k in range(4)], axis=1)
    # Averages cut to integers would correlate .9996.
    assert agreement(read(extraction.series[0]), band_passed(means)) > 0.99999


def test_smoothing_mixes_neighbours(tmp_path):
    series = known_series(2)
    image = write_image(tmp_path / "sub-1_bold.nii.gz", volumes(series))
    options = {"radius": 1.0, "confounds": "none", "standardise": False}
    sharp = extract_series([image], REGIONS, tmp_path / "sharp", **options)
    smooth = extract_series([image], REGIONS, tmp_path / "smooth", smooth=20.0, **options)
    np.testing.assert_allclose(read(sharp.series[0]).std(axis=0), 10, rtol=0.05)
    assert np.all(read(smooth.series[0]).std(axis=0) < 8)
    assert record(smooth.series[0])["SmoothingFWHM"] == 20


def write_runs(root, names):
    return [
        write_subject(root, "01", seed=seed, name=name) for seed, name in enumerate(names, start=1)
    ]


RUNS = [
    f"sub-{{}}_task-rest_run-{number}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"
    for number in (1, 2)
]


def test_runs_are_joined_kept_apart_or_left_out(tmp_path):
    runs = write_runs(tmp_path / "prep", RUNS)
    extraction = extract_series(tmp_path / "prep", REGIONS, tmp_path / "out", **CSF)
    (path,) = extraction.series
    assert path.name.startswith("sub-01_task-rest_space-")
    found = read(path)
    for part, (_, series, _) in zip(np.split(found, 2), runs, strict=True):
        assert agreement(part, series) > 0.99
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-10)
    about = record(path)
    assert "each run was cleaned and standardised separately" in about["Concatenation"]
    assert [run["VolumesAfter"] for run in about["Runs"]] == [N_VOLUMES, N_VOLUMES]
    extract_series(tmp_path / "prep", REGIONS, tmp_path / "apart", runs="separate", **CSF)
    tasks = Tasks.from_folder(tmp_path / "apart")
    assert tasks.names == ("sub-01_run-1", "sub-01_run-2")
    units = units_of(tmp_path / "prep", "separate")
    assert tuple(unit.name for unit in units) == tasks.names
    first = extract_series(tmp_path / "prep", REGIONS, tmp_path / "first", runs="first", **CSF)
    assert len(read(first.series[0])) == N_VOLUMES


def touch(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_finding_images(tmp_path):
    end = "desc-preproc_bold.nii.gz"
    touch(
        tmp_path,
        *(f"sub-{s}/ses-{v}/func/sub-{s}_ses-{v}_task-rest_{x}{end}" for s in (10, 2) for v in "ab"
          for x in ("", "space-T1w_", "space-MNI152NLin6Asym_res-2_")),
        f".hidden/sub-3_task-rest_space-MNI152NLin6Asym_{end}",
        "sub-2/ses-a/func/sub-2_ses-a_task-rest_space-MNI152NLin6Asym_desc-brain_mask.nii.gz",
    )  # fmt: skip
    found = find_images(tmp_path)
    assert list(found) == ["sub-2", "sub-10"]
    assert [len(paths) for paths in found.values()] == [2, 2]
    assert all("space-MNI" in path.name for paths in found.values() for path in paths)
    assert [path.name[:11] for path in find_images(tmp_path, session="b")["sub-2"]] == [
        "sub-2_ses-b"
    ]
    assert "space" not in find_images(tmp_path, space="native")["sub-2"][0].name
    with pytest.raises(InputError, match=r"no image of session 'c'; there are a, b"):
        find_images(tmp_path, session="c")
    with pytest.raises(
        InputError, match=r"no image in space 'MNI', only in MNI152NLin6Asym:res-2,"
    ):
        find_images(tmp_path, space="MNI")
    touch(tmp_path, f"sub-2/ses-a/func/sub-2_ses-a_task-nback_space-MNI152NLin6Asym_res-2_{end}")
    with pytest.raises(InputError, match=r"several tasks \(nback, rest\); choose a task"):
        find_images(tmp_path)
    assert len(find_images(tmp_path, task="rest")["sub-2"]) == 2
    touch(tmp_path, f"sub-2/ses-a/func/sub-2_ses-a_task-rest_space-MNI152NLin6Asym_res-1_{end}")
    with pytest.raises(InputError, match=r"several spaces .*res-1.*; choose a space"):
        find_images(tmp_path, task="rest")
    assert len(find_images(tmp_path, task="rest", space="MNI152NLin6Asym:res-1")) == 1


def test_images_by_pattern_list_and_subject(tmp_path):
    for name in ("sub-1_bold.nii", "sub-2_bold.nii", "sub-2_run-2_bold.nii", "notes.txt.nii.md"):
        (tmp_path / name).touch()
    found = find_images(tmp_path, pattern="*")
    assert {name: len(paths) for name, paths in found.items()} == {"sub-1": 1, "sub-2": 2}
    assert find_images(tmp_path, pattern="*", subjects=["2"]) == {"sub-2": found["sub-2"]}
    (tmp_path / "list.txt").write_text("sub-2_bold.nii\n\nsub-1_bold.nii\n")
    listed = find_images(tmp_path / "list.txt")
    assert listed == {"sub-2": found["sub-2"][:1], "sub-1": found["sub-1"]}
    assert find_images(found["sub-1"][0]) == {"sub-1": found["sub-1"]}
    with pytest.raises(InputError, match="no participant named 'sub-3'"):
        find_images(tmp_path, pattern="*", subjects=["sub-3"])
    with pytest.raises(InputError, match=r"no \.nii or \.nii\.gz matching '\*\.img'"):
        find_images(tmp_path, pattern="*.img")


def test_images_that_cannot_be_found(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder"):
        find_images(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no image sub-\*_desc-preproc_bold"):
        find_images(tmp_path)
    touch(tmp_path, "sub-1_task-rest_space-T1w_desc-preproc_bold.nii.gz")
    with pytest.raises(InputError, match=r"no image in MNI space, only in T1w; choose a space, or"):
        find_images(tmp_path)
    with pytest.raises(InputError, match=r"both be subject 'ab1'"):
        units_of(["x/ab_1.nii", "y/ab1.nii"])
    with pytest.raises(InputError, match=r"same run of subject '1'"):
        units_of(["x/sub-1_bold.nii", "y/sub-1_bold.nii"])
    with pytest.raises(InputError, match="there are no images"):
        units_of([])
    with pytest.raises(InputError, match="runs must be"):
        units_of(["a.nii"], "all")
    with pytest.raises(InputError, match="no run-1, run-2"):
        units_of({"1": ["a.nii", "b.nii"]}, "separate")


def test_the_tr_is_given_or_found(tmp_path):
    data = np.zeros((2, 2, 2, 5))
    image = write_image(tmp_path / "a.nii.gz", data, tr=2500.0, units="msec")
    assert repetition_time(image) == (2.5, "header")
    (tmp_path / "a.json").write_text('{"RepetitionTime": 0.8}')
    assert repetition_time(image) == (0.8, "sidecar")
    assert repetition_time(image, 3.0) == (3.0, "given")
    (tmp_path / "a.json").write_text('{"RepetitionTime": 2500}')
    with pytest.raises(InputError, match=r"a\.json' says a TR of 2500 s, which cannot be"):
        repetition_time(image)
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"not JSON"):
        repetition_time(image)
    image = write_image(tmp_path / "b.nii.gz", data, tr=0.0)
    with pytest.raises(InputError, match=r"b\.nii\.gz' says a TR of 0\.0 s"):
        repetition_time(image)
    image = write_image(tmp_path / "c.nii.gz", np.zeros((2, 2, 2, 1)))
    with pytest.raises(InputError, match=r"c\.nii\.gz' is 2 x 2 x 2.* no series of volumes"):
        repetition_time(image)
    (tmp_path / "d.nii.gz").symlink_to(tmp_path / "annex")
    with pytest.raises(InputError, match=r"links to a file that is not there"):
        repetition_time(tmp_path / "d.nii.gz")


def test_plain_files_with_a_table_beside_them(tmp_path):
    table = confounds_table(1)
    series = known_series(1)
    image = write_image(
        tmp_path / "patient 7.nii.gz", volumes(series, leak=20 * table["csf"].to_numpy())
    )
    write_table(tmp_path / "patient 7_confounds.tsv", table[["csf", "trans_x_derivative1"]])
    options = {"radius": RADIUS, "confounds": ["csf", "trans_x_derivative1"]}
    extraction = extract_series([image], REGIONS, tmp_path / "out", **options)
    assert extraction.series[0].name == "sub-patient7_seg-known_stat-mean_timeseries.tsv"
    assert agreement(read(extraction.series[0]), series) > 0.98
    assert record(extraction.series[0])["RepetitionTimeSource"] == "header"
    for name, change, text in (
        ("strategy", {"confounds": "friston24"}, "is not fMRIPrep's table of confounds"),
        ("scrub", {"scrub": 0.5}, "is not fMRIPrep's table of confounds"),
        ("column", {"confounds": ["wm"]}, "has no column wm; it has csf, trans_x_derivative1"),
    ):
        failed = extract_series([image], REGIONS, tmp_path / name, **{**options, **change})
        assert text in failed.excluded[0].reason
    table.loc[9, "csf"] = np.nan
    write_table(tmp_path / "patient 7_confounds.tsv", table)
    failed = extract_series([image], REGIONS, tmp_path / "gap", radius=RADIUS, confounds=["csf"])
    assert "column 'csf' has no value in row 10" in failed.excluded[0].reason


def test_too_much_scrubbing_is_a_reason(prep, tmp_path):
    path, _, table = write_subject(tmp_path / "prep", "01")
    table["framewise_displacement"] = 3.0
    write_table(path.parent / "sub-01_task-rest_desc-confounds_timeseries.tsv", table)
    extraction = extract_series([path], REGIONS, tmp_path / "out", radius=RADIUS, scrub=0.5)
    assert "would be scrubbed" in extraction.excluded[0].reason
    extraction = extract_series([path], REGIONS, tmp_path / "drop", radius=RADIUS, drop=150)
    assert "90 volumes have about 25 degrees of freedom" in extraction.excluded[0].reason


def test_overlapping_spheres_are_a_warning(prep, tmp_path):
    _, subjects = prep
    close = REGIONS._replace(coordinates=np.vstack([POINTS[:3], POINTS[2] + [0, 0, 15]]))
    with pytest.warns(UserWarning, match=r"spheres of 12 mm overlap: c and d \(15\.0 mm\)"):
        extraction = extract_series([subjects["01"][0]], close, tmp_path / "out", **CSF)
    assert len(extraction.series) == len(extraction.warnings) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for template in ("aDMN", "dDMN", "vDMN"):
            settings = Settings(
                regions=load_regions(template),
                radius=6,
                drop=0,
                confounds="none",
                scrub=None,
                scrub_dvars=1,
                band=(0, 1),
                standardise=True,
                smooth=None,
                min_coverage=1,
            )
            assert not settings.warnings()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0}, "radius must be above 0"),
        ({"drop": -1}, "drop must be a whole number"),
        ({"band": (0.1, 0.05)}, "the band must be LOW < HIGH"),
        ({"band": (0.01, 0.3)}, r"ends at 0\.3 Hz, but a TR of 2 s shows nothing above 0\.25 Hz"),
        ({"confounds": "friston"}, "no confounds 'friston'; give friston24,"),
        ({"confounds": []}, "confounds must be"),
        ({"scrub": 0.0}, "scrub must be above 0"),
        ({"smooth": -1.0}, "smooth must be above 0"),
        ({"min_coverage": 2}, "min_coverage must be"),
        ({"tr": 2500}, "the TR must be in seconds"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_settings(prep, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        extract_series(prep[0], REGIONS, tmp_path / "out", **{"radius": RADIUS, **change})


def test_other_folders_are_not_written_to(prep, tmp_path):
    root, _ = prep
    (tmp_path / "dataset_description.json").write_text('{"GeneratedBy": [{"Name": "fMRIPrep"}]}')
    for folder in (root, tmp_path):
        with pytest.raises(InputError, match="holds other files; give a new or empty folder"):
            extract_series(root, REGIONS, folder, **CSF)
    with pytest.raises(InputError, match="is a file"):
        extract_series(root, REGIONS, tmp_path / "dataset_description.json", **CSF)


def test_without_nilearn_it_says_what_to_install(prep, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nilearn", None)
    with pytest.raises(InputError, match=r"scans need nilearn: pip install 'mtgbn\[fmri\]'"):
        extract_series(prep[0], REGIONS, tmp_path / "out")
