"""From preprocessed images to one table of regional series per subject, and a record of how.

Slice timing, realignment and registration are done before, by fMRIPrep or SPM.
"""

import hashlib
import json
import math
import os
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import mtgbn
from mtgbn._utils.files import locked, read_json, write_json, writing
from mtgbn.errors import InputError
from mtgbn.fmri.cleaning import clean, degrees_of_freedom, worth_of_noise
from mtgbn.fmri.confounds import Confounds, check_strategy, confounds_file, load_run_confounds
from mtgbn.fmri.images import Unit, repetition_time, units_of
from mtgbn.fmri.regions import Atlas, Regions, load_regions, require, some
from mtgbn.fmri.signals import region_signals
from mtgbn.tasks.text_files import MOST_SAMPLES

__all__ = ["SAME_TR", "Excluded", "Extraction", "extract_series"]

_CONVENTION = "A[i, j] = 1 means i -> j; DCM's A matrix is the transpose"
_JOINED = "each run was cleaned and standardised by itself, then they were joined in this order"
_PACKAGES = ("nilearn", "nibabel", "numpy", "scipy")
SAME_TR = 1e-3  # relative


class Excluded(NamedTuple):
    """A subject (or run) without series, and why."""

    name: str
    reason: str


class Extraction(NamedTuple):
    """What `extract_series` did."""

    folder: Path
    series: tuple[Path, ...]
    """The tables, in natural order of the subjects."""
    excluded: tuple[Excluded, ...]
    n_computed: int
    """How many of the tables were not there before."""
    warnings: tuple[str, ...]


class _Settings(NamedTuple):
    regions: Regions | Atlas
    radius: float
    drop: int
    confounds: str | list[str] | dict
    scrub: float | None
    scrub_dvars: float
    band: tuple[float, float]
    standardise: bool
    smooth: float | None
    min_coverage: float


class _Plan(NamedTuple):
    """A unit with all that a worker needs to know of it."""

    unit: Unit
    tr: float
    tr_source: str
    table: Path
    identity: dict
    """What its record must say for it to be taken as done."""


class _Outcome(NamedTuple):
    name: str
    reason: str | None
    warnings: tuple[str, ...]


def extract_series(
    images: str | os.PathLike[str] | Mapping[str, Any] | Iterable[str | os.PathLike[str]],
    regions: str | os.PathLike[str] | Regions | Atlas,
    out: str | os.PathLike[str],
    *,
    radius: float = 6.0,
    tr: float | None = None,
    drop: int = 0,
    confounds: str | list[str] | Mapping[str, Any] = "friston24",
    scrub: float | None = None,
    scrub_dvars: float = 1.5,
    band: tuple[float, float] = (0.01, 0.08),
    standardise: bool = True,
    smooth: float | None = None,
    min_coverage: float = 0.5,
    runs: str = "concatenate",
    n_jobs: int = 1,
    done: Callable[[str], object] | None = None,
) -> Extraction:
    """Extract cleaned regional series from preprocessed images, one table per subject.

    A subject's table is written as soon as it is done; what is there already, made with the same
    settings from the same files, is not computed again. A subject that cannot be used is excluded, with
    the reason, and the others go on. `mtgbn.Tasks.from_folder` reads ``out``.

    Parameters
    ----------
    images : path, dict or list
        Folder of fMRIPrep's derivatives (to choose from it: `mtgbn.fmri.images.find_images`), a list of
        preprocessed 4-D images in MNI space, or a dict with the image or the runs of every subject.
    regions : str, path, Regions or Atlas
        Centres of spheres, or what `load_regions` takes; or an atlas from `load_atlas`.
    out : path
        Gets ``sub-XX_..._timeseries.tsv`` with one column per region, a ``.json`` that says how each was
        made, ``excluded.tsv`` and ``dataset_description.json``.
    radius : float, default 6
        Of the spheres, in mm.
    tr : float, optional
        Seconds between volumes; else from the sidecar or the header. A subject whose TR is not that of
        most others is excluded.
    drop : int, default 0
        Volumes to drop at the beginning of every run.
    confounds : str, list of str or dict, default "friston24"
        Regressed out. "friston24" (24 motion parameters, white matter and CSF), "friston24-global" (and
        the global signal), "motion6" (6 motion parameters, white matter and CSF) or a dict of arguments
        of nilearn's load_confounds need fMRIPrep's table beside the image, and leave out the volumes
        that it marks as before the steady state. A list names columns of fMRIPrep's table or of a plain
        one: NAME_confounds.tsv or NAME.tsv beside NAME.nii.gz. "none" reads no table.
    scrub : float, optional
        Leave out volumes with a framewise displacement above this many mm or standardised DVARS above
        ``scrub_dvars``, and segments of less than 5 volumes between them. Needs fMRIPrep's table.
    band : (float, float), default (0.01, 0.08)
        Of the band-pass in Hz, after linear detrending; 0 and infinity stand for no limit.
    standardise : bool, default True
        Mean 0 and variance 1 for every region of every run.
    smooth : float, optional
        Width (FWHM in mm) of a Gaussian to smooth images with before.
    min_coverage : float, default 0.5
        Share of a region's voxels that must be in the image and not constant.
    runs : "concatenate", "separate" or "first"
        Several images of a subject: joined, each cleaned by itself; as one task each; or only the first.
    n_jobs : int, default 1
        Processes, each with one image in memory; -1: all cores.
    done : callable, optional
        Called with the name of each subject that is finished or excluded.
    """
    require("nilearn")
    if isinstance(regions, str | os.PathLike):
        regions = load_regions(regions)
    settings = _check(
        _Settings(
            *(regions, radius, drop, check_strategy(confounds), scrub, scrub_dvars),
            *(band, standardise, smooth, min_coverage),
        )
    )
    if n_jobs == 0 or n_jobs < -1:
        raise InputError("n_jobs must be -1 or at least 1")
    if tr is not None and not 0.05 <= tr <= 30:
        raise InputError(f"the TR must be in seconds, 0.05 to 30; got {tr!r}")
    units = units_of(images, runs)
    notes = list(_overlaps(settings))
    folder = Path(out)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        for path in folder.glob(".*.part"):  # of a run that was killed while it wrote
            path.unlink(missing_ok=True)
        write_json(folder / "dataset_description.json", _description())
        plans, excluded = _plan(units, settings, tr, folder)
        missing = [plan for plan in plans if not _is_done(plan)]
        if done is not None:
            for name in {unit.name for unit in units} - {plan.unit.name for plan in missing}:
                done(name)
        for outcome in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_extract_unit)(plan, settings) for plan in missing
        ):
            if outcome.reason is not None:
                excluded.append(Excluded(outcome.name, outcome.reason))
            notes += [f"{outcome.name}: {text}" for text in outcome.warnings]
            if done is not None:
                done(outcome.name)
        places = {unit.name: place for place, unit in enumerate(units)}
        excluded.sort(key=lambda each: places[each.name])
        without = {each.name for each in excluded}
        for unit in units:
            if unit.name in without:  # else a table of other settings would pass for one of these
                table = _table_path(folder, unit, settings)
                table.unlink(missing_ok=True)
                table.with_suffix(".json").unlink(missing_ok=True)
        _write_excluded(folder / "excluded.tsv", excluded, set(places))
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return Extraction(
        folder,
        tuple(plan.table for plan in plans if plan.unit.name not in without),
        tuple(excluded),
        len([plan for plan in missing if plan.unit.name not in without]),
        tuple(notes),
    )


def _check(settings: _Settings) -> _Settings:
    low, high = map(float, settings.band)
    wrong = {
        f"radius must be above 0 mm; got {settings.radius!r}": not 0 < settings.radius < 100,
        f"drop must be a whole number from 0; got {settings.drop!r}": settings.drop
        != int(settings.drop)
        or settings.drop < 0,
        f"scrub must be above 0 mm; got {settings.scrub!r}": settings.scrub is not None
        and not settings.scrub > 0,
        f"scrub_dvars must be above 0; got {settings.scrub_dvars!r}": not settings.scrub_dvars > 0,
        f"the band must be LOW < HIGH in Hz, from 0 on; got {low:g} to {high:g}": not 0
        <= low
        < high,
        f"smooth must be above 0 mm; got {settings.smooth!r}": settings.smooth is not None
        and not 0 < settings.smooth < 100,
        f"min_coverage must be above 0, at most 1; got {settings.min_coverage!r}": not 0
        < settings.min_coverage
        <= 1,
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise InputError(message)
    if len(settings.regions.names) < 2:
        raise InputError("there must be at least two regions")
    return settings._replace(drop=int(settings.drop), band=(low, high))


def _overlaps(settings: _Settings) -> Iterable[str]:
    """A warning if spheres overlap: their series are then correlated by construction."""
    regions = settings.regions
    if isinstance(regions, Atlas):
        return
    apart = np.linalg.norm(regions.coordinates[:, None] - regions.coordinates, axis=2)
    pairs = np.argwhere(np.triu(apart < 2 * settings.radius, 1))
    if len(pairs):
        each = [
            f"{regions.names[i]} and {regions.names[j]} ({apart[i, j]:.1f} mm)" for i, j in pairs
        ]
        yield (
            f"spheres of {settings.radius:g} mm overlap: {some(each)}; their series share voxels, which "
            "looks like a connection"
        )


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is not ours, such as that of the images."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the series")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        description = json.loads((folder / "dataset_description.json").read_text(encoding="utf-8"))
        makers = [maker["Name"] for maker in description["GeneratedBy"]]
    except (OSError, ValueError, KeyError, TypeError):
        makers = []
    if "mtgbn" not in makers:
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _plan(
    units: list[Unit], settings: _Settings, tr: float | None, folder: Path
) -> tuple[list[_Plan], list[Excluded]]:
    """Look at all headers before any volume: what TR is usual, and whose is not."""
    excluded, plans = [], []
    earlier = _earlier(folder, units, settings)
    for unit in units:
        try:
            found = [repetition_time(image, tr) for image in unit.images]
            times = {time for time, _ in found}
            if not _alike(min(times), max(times)):
                raise InputError(
                    f"its runs have different TRs: {some([f'{t:g} s' for t in times])}"
                )
            identity = _identity(unit, settings, found[0][0])
        except (InputError, OSError) as error:
            excluded.append(Excluded(unit.name, str(error)))
            continue
        table = _table_path(folder, unit, settings)
        plans.append(_Plan(unit, *found[0], table, identity))
    times = Counter([round(plan.tr, 3) for plan in plans] + [round(time, 3) for time in earlier])
    if not times:
        return [], excluded
    usual = times.most_common(1)[0][0]
    high = settings.band[1]
    if math.isfinite(high) and high >= 0.5 / usual:
        raise InputError(
            f"the band ends at {high:g} Hz, but a TR of {usual:g} s shows nothing above "
            f"{0.5 / usual:g} Hz; lower it"
        )
    for plan in plans:
        if not _alike(plan.tr, usual):
            reason = (
                f"its TR is {plan.tr:g} s ({plan.tr_source}), that of most others {usual:g} s; "
                "give the TR if it is wrong"
            )
            excluded.append(Excluded(plan.unit.name, reason))
    return [plan for plan in plans if _alike(plan.tr, usual)], excluded


def _earlier(folder: Path, units: list[Unit], settings: _Settings) -> list[float]:
    """TRs of series in the folder of subjects that are not asked for now; all of the same settings."""
    planned = {_table_path(folder, unit, settings).with_suffix(".json").name for unit in units}
    times = []
    for path in folder.glob(f"sub-*_seg-{_segmentation(settings)}_stat-mean_timeseries.json"):
        if path.name in planned:
            continue
        record = read_json(path)
        if not _says(record, _describe(settings)):
            raise InputError(
                f"{str(folder)!r} holds {path.stem!r}, made with other settings; give another folder"
            )
        times.append(float(record["RepetitionTime"]))
    return times


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_TR * max(one, other)


def _table_path(folder: Path, unit: Unit, settings: _Settings) -> Path:
    return folder / f"{unit.stem}_seg-{_segmentation(settings)}_stat-mean_timeseries.tsv"


def _segmentation(settings: _Settings) -> str:
    """What BIDS calls the set of regions, in letters and digits."""
    regions = settings.regions
    parts = (
        [regions.image.name.partition(".")[0]]
        if isinstance(regions, Atlas)
        else dict.fromkeys(regions.templates)
    )
    return "".join(c for part in parts for c in part if c.isascii() and c.isalnum()) or "regions"


def _describe(settings: _Settings) -> dict:
    """All that decides the numbers, apart from the images."""
    regions = settings.regions
    if isinstance(regions, Atlas):
        where = {
            "Atlas": str(regions.image.absolute()),
            "AtlasValues": regions.values,
            "RegionNames": regions.names,
        }
    else:
        where = {
            "RegionNames": regions.names,
            "RegionCoordinates": regions.coordinates.tolist(),
            "CoordinateSystem": "MNI, mm",
            "SphereRadius": settings.radius,
        }
    low, high = settings.band
    is_scrubbed = settings.scrub is not None and math.isfinite(settings.scrub_dvars)
    return {
        **where,
        "DroppedVolumes": settings.drop,
        "Confounds": settings.confounds,
        "ScrubFramewiseDisplacement": settings.scrub,
        "ScrubStandardisedDVARS": settings.scrub_dvars if is_scrubbed else None,
        "Detrend": "linear",
        "BandPass": [low or None, high if math.isfinite(high) else None],
        "Filter": "Butterworth of order 5, forwards and backwards",
        "Standardise": settings.standardise,
        "SmoothingFWHM": settings.smooth,
        "MinCoverage": settings.min_coverage,
    }


def _identity(unit: Unit, settings: _Settings, tr: float) -> dict:
    inputs = [settings.regions.image] if isinstance(settings.regions, Atlas) else []
    for image in unit.images:
        table = None
        if settings.confounds != "none" or settings.scrub is not None:
            table = confounds_file(image)
        inputs += [image] if table is None else [image, table]
    return {
        **_describe(settings),
        "RepetitionTime": tr,
        "Inputs": [
            {"File": str(path.absolute()), "Size": stat.st_size, "Modified": stat.st_mtime_ns}
            for path, stat in ((path, path.stat()) for path in inputs)
        ],
        "SoftwareVersions": {
            "mtgbn": mtgbn.__version__,
            "python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
    }


def _is_done(plan: _Plan) -> bool:
    record = read_json(plan.table.with_suffix(".json"))
    if not plan.table.is_file() or not _says(record, plan.identity):
        return False
    return record.get("SHA256") == hashlib.sha256(plan.table.read_bytes()).hexdigest()


def _says(record: dict, content: dict) -> bool:
    """Whether a record that was read has all this, as a file would have it."""
    return json.loads(json.dumps(content)).items() <= record.items()


def _extract_unit(plan: _Plan, settings: _Settings) -> _Outcome:
    """Make the table of one unit, and write it; what cannot be done is an outcome, too."""
    name = plan.unit.name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        try:
            parts, records = [], []
            for image in plan.unit.images:
                series, record = _extract_run(image, plan.tr, settings)
                parts.append(series)
                records.append(record)
        except MemoryError:
            raise
        except InputError as error:
            return _Outcome(name, str(error), ())
        except Exception as error:  # of many kinds: damaged files, odd headers
            files = some([str(image) for image in plan.unit.images])
            return _Outcome(name, f"{files}: {type(error).__name__}: {error}", ())
    texts = tuple(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    series = np.concatenate(parts)
    lines = ["\t".join(settings.regions.names)]
    lines += ["\t".join(map(repr, row)) for row in series.tolist()]
    content = ("\n".join(lines) + "\n").encode()
    record = {
        "Description": "Mean series of regions, cleaned; one row per volume, one column per region",
        "Sources": [str(image.absolute()) for image in plan.unit.images],
        "RepetitionTimeSource": plan.tr_source,
        **plan.identity,
        "Runs": records,
        "Concatenation": _JOINED if len(parts) > 1 else None,
        "Volumes": len(series),
        "AdjacencyConvention": _CONVENTION,
        "Preprocessing": "slice timing, realignment and registration were done before",
        "Warnings": texts,
        "SHA256": hashlib.sha256(content).hexdigest(),
    }
    # The record comes last: a table without its record is not taken as done.
    with writing(plan.table) as file:
        file.write(content)
    write_json(plan.table.with_suffix(".json"), record)
    return _Outcome(name, None, texts)


def _extract_run(path: Path, tr: float, settings: _Settings) -> tuple[np.ndarray, dict]:
    """Cleaned series of one image, and what was done."""
    nibabel = require("nibabel")
    loaded = nibabel.load(path)
    n_volumes = loaded.shape[3]
    confounds = load_run_confounds(
        path, n_volumes, settings.confounds, settings.scrub, settings.scrub_dvars
    )
    kept = _kept(path, n_volumes, confounds, settings.drop)
    free = degrees_of_freedom(int(kept.sum()), len(confounds.columns), tr, settings.band)
    # Averages of integers would be cut to integers.
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
            f"{str(path)!r}: nothing is left of {some(flat) or 'some series'} after cleaning"
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
    kept = np.ones(n_volumes, dtype=bool)
    kept[:drop] = False
    kept[list(confounds.unsteady + confounds.scrubbed)] = False
    if kept.sum() < 10:
        raise InputError(
            f"of the {n_volumes} volumes of {str(path)!r} {kept.sum()} are left: {drop} dropped, "
            f"{len(confounds.scrubbed)} scrubbed, {len(confounds.unsteady)} before the steady state"
        )
    return kept


def _description() -> dict:
    return {
        "Name": "Regional series, cleaned",
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "mtgbn", "Version": mtgbn.__version__}],
    }


def _write_excluded(path: Path, excluded: list[Excluded], planned: set[str]) -> None:
    """The list, with those of earlier runs that were not asked for now."""
    earlier = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            name, _, reason = line.partition("\t")
            if name not in planned:
                earlier.append(Excluded(name, reason))
    rows = ["name\treason"]
    rows += [f"{each.name}\t{' '.join(each.reason.split())}" for each in (*earlier, *excluded)]
    with writing(path) as file:
        file.write(("\n".join(rows) + "\n").encode())
