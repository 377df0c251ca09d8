"""Painted images: nilearn finds the series, the mask and the confounds in them again."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mtgbn.errors import ExtraNotInstalledError, InputError
from mtgbn.simulate import paint_images, simulate_bold_groups

nibabel = pytest.importorskip("nibabel")
pd = pytest.importorskip("pandas")
fmriprep = pytest.importorskip("nilearn.interfaces.fmriprep")
NiftiSpheresMasker = pytest.importorskip("nilearn.maskers").NiftiSpheresMasker
clean = pytest.importorskip("nilearn.signal").clean

# The four nearest and two far ones of the paper's aDMN.
COORDINATES = [
    (-8, -56, 26),
    (-14, -52, 8),
    (-54, -54, 28),
    (-44, -74, 32),
    (0, 52, 26),
    (0, 26, -18),
]
NAMES = ["PCC", "Rsp", "TPJ", "pIPL", "dMPFC", "vMPFC"]


@pytest.fixture(scope="module")
def simulation():
    return simulate_bold_groups(1, 1, 120, regions=NAMES, random_state=0)


@pytest.fixture(scope="module")
def images(simulation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("painted") / "derivatives"
    return paint_images(simulation, COORDINATES, folder, random_state=1)


def extract(image, radius=6.0, **cleaning):
    mask = str(image).replace("preproc_bold", "brain_mask")
    masker = NiftiSpheresMasker(
        COORDINATES, radius=radius, mask_img=mask, t_r=2.5, standardize=None, **cleaning
    )
    confounds, sample_mask = fmriprep.load_confounds(
        str(image), strategy=("motion", "wm_csf"), motion="full", wm_csf="basic"
    )
    assert sample_mask is None
    return masker.fit_transform(str(image), confounds=confounds), confounds


def correlations(one, other):
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(one.T, other.T, strict=True)])


def test_spheres_give_the_series_back(simulation, images):
    """Compared after the same regression, which also takes a share of the series themselves."""
    for image, series in zip(images, simulation.series, strict=True):
        found, confounds = extract(image)
        expected = clean(series, confounds=confounds, detrend=False, standardize=None)
        assert correlations(found, expected).min() > 0.99
        # in percent of the baseline, 1000
        np.testing.assert_allclose(found.std(axis=0), 10 * expected.std(axis=0), rtol=0.05)


def test_confounds_matter(simulation, images):
    masker = NiftiSpheresMasker(COORDINATES, radius=6, standardize=None)
    for image, series in zip(images, simulation.series, strict=True):
        assert correlations(masker.fit_transform(str(image)), series).min() < 0.9


def test_without_voxel_noise_regression_is_exact(simulation, tmp_path):
    """Up to 16-bit integers; the other parameters of the grid are other ones, too."""
    images = paint_images(
        simulation, COORDINATES, tmp_path, voxel_noise=0, voxel_size=6, radius=4, random_state=0
    )
    for image, series in zip(images, simulation.series, strict=True):
        found, confounds = extract(image, radius=4)
        expected = clean(series, confounds=confounds, detrend=False, standardize=None)
        assert correlations(found, expected).min() > 0.99999


def test_without_any_noise_images_are_the_series(simulation, tmp_path):
    silent = {"voxel_noise": 0, "motion_effect": 0, "tissue_effect": 0}
    images = paint_images(simulation, COORDINATES, tmp_path, baseline=500, **silent)
    masker = NiftiSpheresMasker(COORDINATES, radius=6, standardize=None)
    for image, series in zip(images, simulation.series, strict=True):
        found = masker.fit_transform(str(image))
        np.testing.assert_allclose(found, 500 * (1 + series / 100), atol=0.02)


def test_mask_covers_the_spheres_and_the_grid_is_mni(images):
    for path in images:
        image = nibabel.load(path)
        mask = nibabel.load(str(path).replace("preproc_bold", "brain_mask"))
        np.testing.assert_array_equal(image.affine, mask.affine)
        assert image.shape == (*mask.shape, 120)
        assert image.header.get_zooms() == (4, 4, 4, 2.5)
        assert image.header.get_xyzt_units() == ("mm", "sec")
        assert image.header["sform_code"] == image.header["qform_code"] == 4  # MNI
        assert nibabel.aff2axcodes(image.affine) == ("R", "A", "S")
        inside = np.asarray(mask.dataobj).astype(bool)
        places = nibabel.affines.apply_affine(mask.affine, np.argwhere(np.ones(mask.shape)))
        for centre in COORDINATES:
            near = np.linalg.norm(places - centre, axis=1) <= 6
            assert near.sum() >= 8
            assert inside.ravel()[near].all()
        data = image.get_fdata()
        assert (data[~inside] == 0).all()
        assert data[inside].mean() == pytest.approx(1000, rel=0.02)
        assert not any(inside.take(side, axis).any() for axis in range(3) for side in (0, -1))


def test_confounds_are_fmripreps(images):
    """Names from a file of fMRIPrep 21 in nilearn; displacement and derivatives by definition."""
    example = Path(fmriprep.__file__).parent / "data" / "test-v21_desc-confounds_timeseries.tsv"
    known = set(example.read_text().split("\n")[0].split("\t"))
    for image in images:
        stem = str(image).split("_space")[0]
        table = pd.read_csv(f"{stem}_desc-confounds_timeseries.tsv", sep="\t")
        assert len(table) == 120
        assert {name for name in table if not name.startswith("cosine")} <= known
        motion = [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"]
        for name in (*motion, "csf", "white_matter", "global_signal"):
            derivative = table[f"{name}_derivative1"]
            assert np.isnan(derivative[0])
            np.testing.assert_allclose(derivative[1:], np.diff(table[name]), atol=1e-12)
            np.testing.assert_allclose(table[f"{name}_power2"], table[name] ** 2)
            np.testing.assert_allclose(table[f"{name}_derivative1_power2"], derivative**2)
        steps = table[motion].diff().abs()
        expected = steps[motion[:3]].sum(axis=1) + 50 * steps[motion[3:]].sum(axis=1)
        np.testing.assert_allclose(table["framewise_displacement"][1:], expected[1:])
        assert table["framewise_displacement"].mean() == pytest.approx(0.1, abs=0.05)
        assert np.nanmean(table["std_dvars"]) == pytest.approx(1, abs=0.2)
        data = nibabel.load(image).get_fdata()
        mean = data[data.any(axis=-1)].mean(axis=0)
        np.testing.assert_allclose(table["global_signal"], mean, atol=0.01)
        # nilearn's default strategy, Friston's 24, and scrubbing find all they look for
        count = table.columns.str.startswith("cosine").sum()
        assert fmriprep.load_confounds(str(image))[0].shape == (120, 24 + 2 + count)
        confounds, kept = fmriprep.load_confounds(
            str(image), strategy=("motion", "scrub", "global_signal"), scrub=0, fd_threshold=0.1
        )
        assert 0 < len(kept) < 120
        assert len(confounds) == 120


def test_folder_is_a_bids_derivative(simulation, images):
    folder = images[0].parents[2]
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    expected = ["dataset_description.json", "participants.tsv"]
    for subject in simulation.subjects:
        stem = f"{subject}/func/{subject}_task-rest"
        space = "space-MNI152NLin2009cAsym"
        for ending in ("preproc_bold", "brain_mask"):
            expected += [f"{stem}_{space}_desc-{ending}.{kind}" for kind in ("nii.gz", "json")]
        expected += [f"{stem}_desc-confounds_timeseries.{kind}" for kind in ("tsv", "json")]
    assert sorted(names) == sorted(expected)
    assert [image.relative_to(folder).parts[0] for image in images] == simulation.subjects
    description = json.loads((folder / "dataset_description.json").read_text())
    assert description["DatasetType"] == "derivative"
    assert {"Name", "BIDSVersion", "GeneratedBy"} <= set(description)
    participants = pd.read_csv(folder / "participants.tsv", sep="\t")
    assert participants.to_dict("list") == {
        "participant_id": ["sub-01", "sub-02"],
        "group": ["control", "patient"],
    }
    sidecar = json.loads(Path(str(images[0]).replace(".nii.gz", ".json")).read_text())
    assert sidecar["RepetitionTime"] == 2.5


def test_same_seed_same_bytes(simulation, images, tmp_path):
    again = paint_images(simulation, COORDINATES, tmp_path / "a", random_state=1)
    other = paint_images(simulation, COORDINATES, tmp_path / "b", random_state=2)
    for one, two, three in zip(images, again, other, strict=True):
        assert one.read_bytes() == two.read_bytes() != three.read_bytes()


@pytest.mark.parametrize("shift", [0.0, 1.9])
@pytest.mark.parametrize("axis", [0, 2])
def test_small_spheres_take_nilearns_nearest_voxel(simulation, tmp_path, shift, axis):
    """Also where several voxels are as near: coordinates halfway between them, grids of any start."""
    shifted = np.array(COORDINATES) + shift
    shifted[4, axis] = 92 + shift
    shifted[5, axis] = -80 - 4 * axis + shift
    images = paint_images(
        simulation, shifted, tmp_path, radius=0.5, voxel_noise=0, motion_effect=0, tissue_effect=0
    )
    found = NiftiSpheresMasker(shifted.tolist(), radius=0.5, standardize=None).fit_transform(
        str(images[0])
    )
    assert correlations(found, simulation.series[0]).min() > 0.9999


@pytest.mark.parametrize(
    ("coordinates", "options", "message"),
    [
        (
            COORDINATES,
            {"radius": 10},
            "'PCC' and 'Rsp' overlap: they are 19.4 mm apart, the radius is 10",
        ),
        ([*COORDINATES[:5], COORDINATES[0]], {}, "'PCC' and 'vMPFC' overlap: they are 0 mm"),
        (COORDINATES, {"radius": 1, "voxel_size": 60}, "'PCC' and 'Rsp' share a voxel of 60"),
        (COORDINATES[:5], {}, r"coordinates must have shape \(6, 3\).* got \(5, 3\)"),
        ([*COORDINATES[:5], (0, 0, np.nan)], {}, r"region 'vMPFC' has \[0.0, 0.0, nan\]"),
        (COORDINATES, {"voxel_size": 0}, r"voxel_size must be a number in \(0, inf\); got 0"),
        (COORDINATES, {"voxel_noise": -1}, r"voxel_noise must be a number in \[0, inf\); got -1"),
    ],
)
def test_errors_name_the_culprit_and_leave_nothing(
    simulation, tmp_path, coordinates, options, message
):
    with pytest.raises(InputError, match=message):
        paint_images(simulation, coordinates, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_folders_with_files_are_refused(simulation, tmp_path):
    (tmp_path / "sub-99").mkdir()
    for folder in (tmp_path, tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match="is there already; name a new or an empty folder"):
            paint_images(simulation, COORDINATES, folder)


def test_nibabel_is_loaded_only_to_paint():
    code = (
        "import sys, mtgbn.simulate; sys.exit('nibabel' in sys.modules or 'nilearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_nibabel_the_error_names_the_extra(simulation, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(ExtraNotInstalledError, match=r"pip install 'mtgbn\[fmri\]'"):
        paint_images(simulation, COORDINATES, tmp_path / "new")
    assert not (tmp_path / "new").exists()
