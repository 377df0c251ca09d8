"""From one preprocessed image to the cleaned series of its regions."""

from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.names import listed
from mtgbn._utils.optional import require
from mtgbn.errors import InputError
from mtgbn.fmri.cleaning import clean, degrees_of_freedom, worth_of_noise
from mtgbn.fmri.confounds import Confounds, load_run_confounds
from mtgbn.fmri.settings import Settings
from mtgbn.fmri.signals import region_signals
from mtgbn.tasks.text_files import MOST_SAMPLES

_FEWEST_VOLUMES = 10


def extract_run(path: Path, tr: float, settings: Settings) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the cleaned series of one image, (volumes, p), and their record."""
    nibabel = require("nibabel", "fmri", "scans")
    loaded = nibabel.load(path)
    n_volumes = loaded.shape[3]
    confounds = load_run_confounds(
        path, n_volumes, settings.confounds, settings.scrub, settings.scrub_dvars
    )
    kept = _kept(path, n_volumes, confounds, settings.drop)
    free = degrees_of_freedom(int(kept.sum()), len(confounds.columns), tr, settings.band)
    # The mean of an integer image would be rounded to integers.
    data = loaded.get_fdata(dtype=np.float32, caching="unchanged")
    image = nibabel.Nifti1Image(data, loaded.affine)
    signals = region_signals(
        image,
        settings.regions,
        radius=settings.radius,
        smooth=settings.smooth,
        drop=settings.drop,
        min_coverage=settings.min_coverage,
        where=str(path),
    )
    used = confounds.values[settings.drop :], kept[settings.drop :]
    cleaned = clean(
        signals.series[settings.drop :],
        *used,
        tr=tr,
        band=settings.band,
        standardise=settings.standardise,
    )
    flat = [
        name
        for name, is_flat in zip(settings.regions.names, ~(cleaned.std(axis=0) > 0), strict=True)
        if is_flat
    ]
    if flat or not np.all(np.isfinite(cleaned)):
        raise InputError(
            f"{str(path)!r}: nothing is left of {listed(flat, quote=False) or 'some series'} after "
            "cleaning"
        )
    first = settings.drop
    record = {
        "Image": str(path.absolute()),
        "ConfoundsFile": None if confounds.file is None else str(confounds.file.absolute()),
        "ConfoundColumns": confounds.columns,
        "VolumesBefore": n_volumes,
        "VolumesDropped": list(range(first)),
        "VolumesNotSteady": [volume for volume in confounds.unsteady if volume >= first],
        "VolumesScrubbed": [volume for volume in confounds.scrubbed if volume >= first],
        "VolumesAfter": len(cleaned),
        "DegreesOfFreedom": round(free, 1),
        MOST_SAMPLES: round(worth_of_noise(*used, tr=tr, band=settings.band), 1),
        "VoxelsPerRegion": signals.voxels,
        "CoveragePerRegion": [round(share, 4) for share in signals.coverage],
    }
    return cleaned, record


def _kept(path: Path, n_volumes: int, confounds: Confounds, drop: int) -> np.ndarray:
    """Say which volumes are kept; refuse a run of which too few are."""
    kept = np.ones(n_volumes, dtype=bool)
    kept[:drop] = False
    kept[list(confounds.unsteady + confounds.scrubbed)] = False
    if kept.sum() < _FEWEST_VOLUMES:
        raise InputError(
            f"of the {n_volumes} volumes of {str(path)!r} {kept.sum()} are left: {drop} dropped, "
            f"{len(confounds.scrubbed)} scrubbed, {len(confounds.unsteady)} before the steady state"
        )
    return kept
