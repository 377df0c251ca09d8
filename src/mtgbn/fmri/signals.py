"""The mean series of every region of an image, before any cleaning."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgbn._utils.optional import require
from mtgbn.errors import InputError
from mtgbn.fmri.regions import Atlas, Regions
from mtgbn.fmri.settings import Settings

if TYPE_CHECKING:
    from nibabel import Nifti1Image


def region_signals(
    image: "Nifti1Image", settings: Settings, where: str
) -> tuple[np.ndarray, list[int], list[float]]:
    """Average over spheres around points, or over the regions of an atlas, with nilearn.

    Returns series (volumes, p), and of every region its number of voxels and the fraction of them that
    are in the image and not constant after the dropped volumes. ``where`` names the image in messages.
    """
    regions, drop, min_coverage = settings.regions, settings.drop, settings.min_coverage
    if isinstance(regions, Atlas):
        masker, voxels, coverage = _atlas_signals(image, regions, drop)
    else:
        masker, voxels, coverage = _sphere_signals(image, regions, settings.radius, drop)
    for name, count, share in zip(regions.names, voxels, coverage, strict=True):
        if count == 0:
            raise InputError(
                f"{where!r} has no voxel of region {name!r}; is it in MNI space, and is that part of "
                "the brain in it?"
            )
        if share == 0:
            raise InputError(
                f"{where!r}: region {name!r} has no signal, all its voxels are constant"
            )
        if share < min_coverage:
            raise InputError(
                f"{where!r} has a signal in only {share:.0%} of region {name!r}, less than "
                f"{min_coverage:.0%}; leave the region out, or accept less coverage"
            )
    masker.set_params(smoothing_fwhm=settings.smooth)
    return masker.fit_transform(image).astype(np.float64), voxels, coverage


def _sphere_signals(
    image: "Nifti1Image", regions: Regions, radius: float, drop: int
) -> tuple[Any, list[int], list[float]]:
    """Return the masker of the spheres, their numbers of voxels and their coverage."""
    maskers = require("nilearn.maskers", "fmri", "scans")
    nibabel = require("nibabel", "fmri", "scans")
    union = np.zeros(image.shape[:3], dtype=np.int8)
    voxels, coverage = [], []
    for point in regions.coordinates:
        places = _sphere(point, radius, image.affine)
        inside = places[np.all((places >= 0) & (places < union.shape), axis=1)]
        voxels.append(len(inside))
        coverage.append(float(_has_signal(image, tuple(inside.T), drop).sum() / len(places)))
        union[tuple(inside.T)] = 1
    masker = maskers.NiftiSpheresMasker(
        [tuple(point) for point in regions.coordinates.tolist()],
        radius=radius,
        # A mask of all spheres: without it nilearn visits every voxel of the image, which is slow.
        mask_img=nibabel.Nifti1Image(union, image.affine),
        allow_overlap=True,
    )
    return masker, voxels, coverage


def _atlas_signals(
    image: "Nifti1Image", atlas: Atlas, drop: int
) -> tuple[Any, list[int], list[float]]:
    """Return the masker of an atlas, its numbers of voxels on the image's grid, and the coverage."""
    maskers = require("nilearn.maskers", "fmri", "scans")
    nibabel = require("nibabel", "fmri", "scans")
    loaded = nibabel.load(atlas.image)
    values = np.asanyarray(loaded.dataobj).reshape(loaded.shape[:3]).astype(np.int32)
    values[~np.isin(values, atlas.values)] = 0
    labels = require("nilearn.image", "fmri", "scans").resample_to_img(
        nibabel.Nifti1Image(values, loaded.affine),
        image,
        interpolation="nearest",
        force_resample=True,
        copy_header=True,
    )
    on_grid = np.asanyarray(labels.dataobj)
    to_image = np.linalg.inv(image.affine) @ loaded.affine
    voxels, coverage = [], []
    for value in atlas.values:
        places = np.argwhere(values == value) @ to_image[:3, :3].T + to_image[:3, 3]
        within = np.all((places >= -0.5) & (places <= np.array(image.shape[:3]) - 0.5), axis=1)
        signal = _has_signal(image, np.nonzero(on_grid == value), drop)
        voxels.append(len(signal))
        coverage.append(float(within.mean() * signal.mean()) if len(signal) else 0.0)
    return maskers.NiftiLabelsMasker(labels), voxels, coverage


def _sphere(point: np.ndarray, radius: float, affine: np.ndarray) -> np.ndarray:
    """Return the voxels of a sphere on an unbounded grid; at least the nearest voxel."""
    to_voxels = np.linalg.inv(affine)
    centre = to_voxels[:3, :3] @ point + to_voxels[:3, 3]
    reach = np.linalg.norm(to_voxels[:3, :3], axis=1) * radius
    ranges = [
        np.arange(math.floor(c - r), math.ceil(c + r) + 1)
        for c, r in zip(centre, reach, strict=True)
    ]
    places = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, 3)
    apart = np.linalg.norm(places @ affine[:3, :3].T + affine[:3, 3] - point, axis=1)
    return places[(apart <= radius * (1 + 1e-9)) | np.all(places == np.round(centre), axis=1)]


def _has_signal(image: "Nifti1Image", places: tuple[np.ndarray, ...], drop: int) -> np.ndarray:
    """Whether each of these voxels is finite and not constant."""
    values = np.asanyarray(image.dataobj)[places][:, drop:]
    return np.isfinite(values).all(axis=1) & (np.ptp(values, axis=1) > 0)
