"""Simulated BOLD series as images, in a folder like fMRIPrep's derivatives."""

import gzip
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_interval, real_array
from mtgbn._utils.files import write_json, write_text, writing
from mtgbn._utils.optional import require
from mtgbn._utils.seeds import seed_sequence
from mtgbn._utils.tables import table_text
from mtgbn.errors import InputError
from mtgbn.simulate.bold import BoldSimulation, autoregression, slow_cosines

_SPACE = "space-MNI152NLin2009cAsym"
_MOTION = ("trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z")
# Radius of the head in mm, by which fMRIPrep converts rotations to displacements.
_HEAD_RADIUS = 50.0
# Random steps per volume in mm and rad, for a mean framewise displacement near 0.1 mm.
_MOTION_STEPS = np.array([0.02] * 3 + [0.0003] * 3)
# Correlation time of the signals of CSF and white matter, in seconds.
_TISSUE_TIME = 10.0
# Number of voxels by which the mask is wider than the spheres.
_MARGIN = 2
# Code of MNI space in the header of an image.
_NIFTI_MNI = 4


class _Grid(NamedTuple):
    affine: np.ndarray
    mask: np.ndarray
    labels: np.ndarray
    """(n_voxels,), the region of every voxel in the mask, or -1."""
    places: np.ndarray
    """(n_voxels, 3), the coordinates of these voxels, scaled to -1 ... 1."""


def paint_images(
    simulation: BoldSimulation,
    coordinates: np.ndarray | Sequence[Sequence[float]],
    folder: str | os.PathLike[str],
    *,
    radius: float = 6.0,
    voxel_size: float = 4.0,
    baseline: float = 1000.0,
    voxel_noise: float = 0.3,
    motion_effect: float = 1.0,
    tissue_effect: float = 0.5,
    random_state: int | np.random.Generator | None = None,
) -> list[Path]:
    """Write the series of a simulation as preprocessed images with confounds, as fMRIPrep would.

    Spheres around the regions' coordinates have their series; other voxels near them have the baseline.
    All voxels have independent noise, and effects of head motion, CSF and white matter, linear in the
    six motion parameters, their squares and the two signals: confound regression (nilearn's
    load_confounds with motion "power2" or "full", and wm_csf) removes them. Needs the extra ``fmri``.

    Parameters
    ----------
    simulation : BoldSimulation
    coordinates : array (p, 3)
        Of the regions, x, y and z in MNI mm, at least two radii apart.
    folder : path
        New or empty.
    radius, voxel_size : float
        Of the spheres and of the cubic voxels, in mm.
    baseline : float
        Intensity of which the series are percentages.
    voxel_noise, motion_effect, tissue_effect : float
        Standard deviations in percent of the baseline: of each voxel's noise (the series already have
        measurement noise), and of typical effects of motion and of CSF and white matter on a voxel.
    random_state : int or numpy.random.Generator, optional

    Returns
    -------
    list of Path
        The BOLD images, one per subject. Beside them are masks, confounds and JSON files; ``folder`` has
        dataset_description.json, and participants.tsv with the groups.

    Examples
    --------
    >>> import tempfile
    >>> from mtgbn.simulate import simulate_bold_groups
    >>> bold = simulate_bold_groups(1, 0, 20, regions=2, n_altered=0, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images = paint_images(bold, [[0, 0, 0], [30, 0, 0]], folder, random_state=0)
    >>> images[0].name
    'sub-01_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz'
    """
    check_interval("radius", radius, "()", 0, np.inf)
    check_interval("voxel_size", voxel_size, "()", 0, np.inf)
    check_interval("baseline", baseline, "()", 0, np.inf)
    for name, value in (
        ("voxel_noise", voxel_noise),
        ("motion_effect", motion_effect),
        ("tissue_effect", tissue_effect),
    ):
        check_interval(name, value, "[)", 0, np.inf)
    regions = simulation.regions
    coordinates = _check_coordinates(coordinates, regions, radius)
    grid = _make_grid(coordinates, regions, radius, voxel_size)
    nibabel = require("nibabel", "fmri", "simulated scans")
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{str(folder)!r} is there already; name a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    repetition_time = simulation.repetition_time
    images = []
    seeds = seed_sequence(random_state).spawn(len(simulation.subjects))
    for subject, series, seed in zip(simulation.subjects, simulation.series, seeds, strict=True):
        rng = np.random.default_rng(seed)
        motion = np.cumsum(_MOTION_STEPS * rng.standard_normal((len(series), 6)), axis=0)
        # The signals of CSF and white matter.
        tissues = autoregression(np.exp(-repetition_time / _TISSUE_TIME), (len(series), 2), rng)
        values = _motion_values(motion, grid, rng) * motion_effect
        values += (
            tissues @ rng.uniform(0.5, 1.5, (2, len(grid.labels))) * tissue_effect / np.sqrt(2)
        )
        values += voxel_noise * rng.standard_normal(values.shape)
        painted = grid.labels >= 0
        values[:, painted] += series[:, grid.labels[painted]]
        values = baseline * (1 + values / 100)
        # fMRIPrep writes these signals as mean intensities of masks.
        tissues = baseline * (1 + tissues * tissue_effect / 100)
        confounds = _confounds(motion, tissues, values, repetition_time)

        func = folder / subject / "func"
        func.mkdir(parents=True)
        stem = f"{subject}_task-rest"
        volumes = np.zeros((*grid.mask.shape, len(series)), dtype=np.float32)
        volumes[grid.mask] = values.T
        image = nibabel.Nifti1Image(volumes, grid.affine, dtype=np.int16)
        mask = nibabel.Nifti1Image(grid.mask.astype(np.uint8), grid.affine)
        image.header.set_xyzt_units("mm", "sec")
        image.header.set_zooms((*[voxel_size] * 3, repetition_time))
        images.append(func / f"{stem}_{_SPACE}_desc-preproc_bold.nii.gz")
        for path, content in (
            (images[-1], image),
            (func / f"{stem}_{_SPACE}_desc-brain_mask.nii.gz", mask),
        ):
            content.set_sform(grid.affine, _NIFTI_MNI)
            content.set_qform(grid.affine, _NIFTI_MNI)
            with writing(path) as file:
                file.write(gzip.compress(content.to_bytes(), compresslevel=6, mtime=0))
        write_json(
            func / f"{stem}_{_SPACE}_desc-preproc_bold.json",
            {"RepetitionTime": repetition_time, "SkullStripped": False, "TaskName": "rest"},
        )
        write_json(func / f"{stem}_{_SPACE}_desc-brain_mask.json", {"Type": "Brain"})
        write_text(func / f"{stem}_desc-confounds_timeseries.tsv", _table(confounds))
        write_json(
            func / f"{stem}_desc-confounds_timeseries.json",
            {name: {"Method": "Mean"} for name in ("csf", "global_signal", "white_matter")},
        )
    participants = {"participant_id": simulation.subjects, "group": simulation.groups.tolist()}
    write_text(folder / "participants.tsv", _table(participants))
    # Written last, so that a folder with this file is complete.
    write_json(
        folder / "dataset_description.json",
        {
            "Name": "Simulated resting-state BOLD of two groups",
            "BIDSVersion": "1.9.0",
            "DatasetType": "derivative",
            "GeneratedBy": [{"Name": "mtgbn", "Description": "simulated, not fMRIPrep's output"}],
        },
    )
    return images


def _make_grid(
    coordinates: np.ndarray, regions: list[str], radius: float, voxel_size: float
) -> _Grid:
    """Return the voxels, at multiples of their size, of a box around the spheres."""
    reach = radius + (_MARGIN + 1) * voxel_size
    first = np.floor((coordinates.min(axis=0) - reach) / voxel_size).astype(int)
    last = np.ceil((coordinates.max(axis=0) + reach) / voxel_size).astype(int)
    shape = last - first + 1
    affine = np.diag([voxel_size] * 3 + [1.0])
    affine[:3, 3] = voxel_size * first
    indices = np.indices(shape).reshape(3, -1).T
    positions = voxel_size * (indices + first)
    labels = np.full(len(positions), -1)
    mask = np.zeros(len(positions), dtype=bool)
    for region, centre in enumerate(coordinates):
        distances = np.linalg.norm(positions - centre, axis=1)
        mask |= distances <= radius + _MARGIN * voxel_size
        # A sphere that has no voxel gets the nearest one, as in nilearn.
        nearest = np.round(centre / voxel_size - first)
        inside = (distances <= radius) | (indices == nearest).all(axis=1)
        taken = labels[inside].max()
        if taken >= 0:
            raise InputError(
                f"regions {regions[taken]!r} and {regions[region]!r} share a "
                f"voxel of {voxel_size} mm; take smaller ones"
            )
        labels[inside] = region
    scale = np.abs(positions - positions.mean(axis=0)).max(axis=0)
    places = (positions - positions.mean(axis=0)) / scale
    return _Grid(affine, mask.reshape(shape), labels[mask], places[mask])


def _motion_values(motion: np.ndarray, grid: _Grid, rng: np.random.Generator) -> np.ndarray:
    """Draw effects (n_volumes, n_voxels) of unit size that change smoothly through the brain."""
    sources = np.hstack([motion, motion**2])
    sources = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    gradients = np.hstack([np.ones((len(grid.places), 1)), grid.places])
    gains = rng.standard_normal((12, 4)) @ gradients.T
    return sources @ gains / np.sqrt(12 * (gradients**2).sum(axis=1))


def _confounds(
    motion: np.ndarray, tissues: np.ndarray, values: np.ndarray, repetition_time: float
) -> dict[str, np.ndarray]:
    """Return the columns by fMRIPrep's names; nan in the first volume of differences."""
    columns = {}
    names = ("global_signal", "csf", "white_matter", *_MOTION)
    for name, column in zip(names, (values.mean(axis=1), *tissues.T, *motion.T), strict=True):
        derivative = np.diff(column, prepend=np.nan)
        columns[name] = column
        columns[f"{name}_derivative1"] = derivative
        columns[f"{name}_power2"] = column**2
        columns[f"{name}_derivative1_power2"] = derivative**2
    # DVARS, and DVARS divided by the value that is expected of AR(1) series of the voxels' variance.
    changes = np.diff(values, axis=0)
    dvars = np.sqrt((changes**2).mean(axis=1))
    varying = values[:, np.ptp(values, axis=0) > 0]
    centred = varying - varying.mean(axis=0)
    lag1 = (centred[1:] * centred[:-1]).sum(axis=0) / (centred**2).sum(axis=0)
    quartiles = np.percentile(varying, (25, 75), axis=0)
    expected = np.sqrt(2 * (1 - lag1)) * (quartiles[1] - quartiles[0]) / 1.349
    columns["std_dvars"] = np.append(np.nan, dvars / expected.mean())
    columns["dvars"] = np.append(np.nan, dvars)
    steps = np.abs(np.diff(motion, axis=0)) * ([1] * 3 + [_HEAD_RADIUS] * 3)
    columns["framewise_displacement"] = np.append(np.nan, steps.sum(axis=1))
    for k, cosine in enumerate(slow_cosines(len(motion), repetition_time).T):
        columns[f"cosine{k:02d}"] = cosine
    return columns


def _check_coordinates(coordinates: Any, regions: list[str], radius: float) -> np.ndarray:
    coordinates = real_array(coordinates, "coordinates")
    if coordinates.shape != (len(regions), 3):
        raise InputError(
            f"coordinates must have shape ({len(regions)}, 3): x, y and z of every region; "
            f"got {coordinates.shape}"
        )
    bad = np.flatnonzero(~(np.abs(coordinates) <= 200).all(axis=1))
    if bad.size:
        raise InputError(
            f"coordinates must be in mm and in a head; region {regions[bad[0]]!r} has "
            f"{coordinates[bad[0]].tolist()}"
        )
    distances = np.linalg.norm(coordinates[:, None] - coordinates, axis=2)
    np.fill_diagonal(distances, np.inf)
    i, j = np.unravel_index(np.argmin(distances), distances.shape)
    if distances[i, j] < 2 * radius:
        raise InputError(
            f"the spheres of regions {regions[i]!r} and {regions[j]!r} overlap: they are "
            f"{distances[i, j]:.3g} mm apart, the radius is {radius}; take a smaller one"
        )
    return coordinates


def _table(columns: Mapping[str, Iterable[Any]]) -> str:
    """Return columns as tab-separated values, with the n/a of BIDS for nan."""
    rows = zip(*columns.values(), strict=True)
    return table_text([columns, *(["n/a" if item != item else item for item in r] for r in rows)])
