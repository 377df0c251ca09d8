"""Small scans with known series in spheres, in the manner of fMRIPrep's derivatives."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
from scipy import signal

from mtgbn.fmri.regions import Regions

TR = 2.0
N_VOLUMES = 240
AFFINE = np.diag([10.0, 10.0, 10.0, 1.0])
AFFINE[:3, 3] = (-80, -100, -60)
SHAPE = (17, 18, 15)
POINTS = np.array([[-40.0, 20, 10], [40, 20, 10], [0, -60, 20], [0, 50, -10]])
REGIONS = Regions(tuple("abcd"), tuple("ABCD"), POINTS, ("known",) * 4, ("",) * 4)
RADIUS = 12.0
MOTION = [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"]
NAME = "sub-{}_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"


def known_series(seed, n_volumes=N_VOLUMES, tr=TR):
    """Four series of variance 1, between 0.02 and 0.06 Hz, nearly orthogonal to `tissue`.

    They begin and end with 0, as filters want it, so that filtering leaves them as they are.
    """
    series = _waves(seed, 4, range(0, 18, 2), n_volumes, tr)
    series *= signal.windows.tukey(n_volumes, 0.3)[:, None]
    return (series - series.mean(axis=0)) / series.std(axis=0)


def tissue(seed, n_columns, n_volumes=N_VOLUMES, tr=TR):
    """Confounds in the same band."""
    return _waves(seed, n_columns, range(1, 18, 2), n_volumes, tr)


def _waves(seed, n_columns, steps, n_volumes, tr):
    rng = np.random.default_rng(seed)
    first = round(0.02 * n_volumes * tr)
    times = np.arange(n_volumes)[:, None]
    series = sum(
        rng.normal(size=n_columns)
        * np.sin(2 * np.pi * (first + step) / n_volumes * times + rng.uniform(0, 7, n_columns))
        for step in steps
    )
    return (series - series.mean(axis=0)) / series.std(axis=0)


def confounds_table(seed, n_volumes=N_VOLUMES):
    """What fMRIPrep would write: 24 motion columns, tissue, the global signal, FD and DVARS."""
    rng = np.random.default_rng(seed + 1000)
    columns = {}
    for name in MOTION:
        value = np.cumsum(rng.normal(scale=0.02, size=n_volumes))
        derivative = np.diff(value, prepend=np.nan)
        columns[name] = value
        columns[f"{name}_derivative1"] = derivative
        columns[f"{name}_power2"] = value**2
        columns[f"{name}_derivative1_power2"] = derivative**2
    names = ("csf", "white_matter", "global_signal")
    columns |= dict(zip(names, tissue(seed + 2000, 3, n_volumes).T, strict=True))
    columns["framewise_displacement"] = np.r_[np.nan, np.full(n_volumes - 1, 0.1)]
    columns["std_dvars"] = np.r_[np.nan, np.ones(n_volumes - 1)]
    return pd.DataFrame(columns)


def volumes(series, *, leak=None, noise=1e-3, drift=5.0, seed=0, shape=SHAPE, affine=AFFINE):
    """1000 everywhere, with the series around `POINTS`, and a trend and a confound in all of it."""
    rng = np.random.default_rng(seed)
    n_volumes = len(series)
    data = 1000 + noise * rng.normal(size=(*shape, n_volumes))
    places = np.argwhere(np.ones(shape, dtype=bool)) @ affine[:3, :3].T + affine[:3, 3]
    for number, point in enumerate(POINTS):
        near = np.linalg.norm(places - point, axis=1) <= RADIUS
        data[near.reshape(shape)] += 10 * series[:, number]
    data += drift * np.linspace(-1, 1, n_volumes)
    if leak is not None:
        data += leak
    return data


def write_image(path, data, affine=AFFINE, tr=TR, units="sec", dtype=np.float32):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nib.Nifti1Image(data.astype(dtype), affine)
    image.header.set_xyzt_units("mm", units)
    image.header.set_zooms((*image.header.get_zooms()[:3], tr))
    nib.save(image, path)
    return path


def write_table(path, table):
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")


def write_subject(root, label, seed=None, table=None, name=NAME, tr=TR, leak="csf", **options):
    """One subject of fMRIPrep; returns the image's path, the known series and the confounds."""
    seed = int(label) if seed is None else seed
    series = known_series(seed, tr=tr)
    table = confounds_table(seed) if table is None else table
    leaked = None if leak is None else 20 * table[leak].to_numpy()
    path = root / f"sub-{label}" / "func" / name.format(label)
    write_image(path, volumes(series, leak=leaked, seed=seed, **options), tr=tr)
    path.with_name(path.name.replace(".nii.gz", ".json")).write_text(
        json.dumps({"RepetitionTime": tr})
    )
    stem = path.name.split("_space-")[0]
    write_table(path.with_name(f"{stem}_desc-confounds_timeseries.tsv"), table)
    return path, series, table
