"""The mean series of every region of an image, before any cleaning."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtgbn.errors import InputError
from mtgbn.fmri.regions import Atlas, Regions, require

if TYPE_CHECKING:
    from nibabel import Nifti1Image

__all__ = ["Signals", "region_signals"]


class Signals(NamedTuple):
    """Of all regions of an image."""

    series: np.ndarray
    """(volumes, p)."""
    voxels: list[int]
    """In the image, per region."""
    coverage: list[float]
    """Share of a region's voxels that are in the image and not constant."""


def region_signals(
    image: "Nifti1Image",
    regions: Regions | Atlas,
    *,
    radius: float,
    smooth: float | None,
    drop: int,
    min_coverage: float,
    where: str,
) -> Signals:
    """Average over spheres around points, or over the regions of an atlas, with nilearn.

    Raises
    ------
    InputError
        When a region has no voxel, no signal, or less coverage than it must have; the first ``drop``
        volumes do not count.
    """
    measure = _atlas_signals if isinstance(regions, Atlas) else _sphere_signals
    masker, voxels, coverage = measure(image, regions, radius, drop)
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
    masker.set_params(smoothing_fwhm=smooth)
    return Signals(masker.fit_transform(image).astype(np.float64), voxels, coverage)


def _sphere_signals(image, regions: Regions, radius: float, drop: int):
    """The masker of spheres, their voxels and coverage."""
    maskers, nibabel = require("nilearn.maskers"), require("nibabel")
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
        # All voxels of all spheres: without it nilearn looks at each voxel of the image, which is slow.
        mask_img=nibabel.Nifti1Image(union, image.affine),
        allow_overlap=True,
    )
    return masker, voxels, coverage


def _atlas_signals(image, atlas: Atlas, radius: float, drop: int):
    """The masker of an atlas, its regions' voxels on the image's grid, and their coverage."""
    maskers, nibabel = require("nilearn.maskers"), require("nibabel")
    loaded = nibabel.load(atlas.image)
    values = np.asanyarray(loaded.dataobj).reshape(loaded.shape[:3]).astype(np.int32)
    values[~np.isin(values, atlas.values)] = 0
    labels = require("nilearn.image").resample_to_img(
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
    """Voxels of a sphere on a grid without end; at least the nearest one."""
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


def _has_signal(image, places: tuple[np.ndarray, ...], drop: int) -> np.ndarray:
    """Whether each of some voxels is finite and not constant."""
    values = np.asanyarray(image.dataobj)[places][:, drop:]
    return np.isfinite(values).all(axis=1) & (np.ptp(values, axis=1) > 0)
