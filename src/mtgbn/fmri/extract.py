"""From preprocessed images to one table of regional series per subject, with a record beside it.

`extract_series` plans (which images are whose, which tables are already there), extracts the missing
series in parallel, and writes. Slice timing, realignment and registration are done by fMRIPrep or SPM.
"""

import hashlib
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import mtgbn
from mtgbn._utils.files import locked, read_json, write_json, write_text
from mtgbn._utils.names import listed
from mtgbn._utils.optional import require
from mtgbn._utils.tables import read_table, table_text
from mtgbn._utils.versions import versions_of
from mtgbn.errors import InputError
from mtgbn.fmri.cleaning import clean, degrees_of_freedom, worth_of_noise
from mtgbn.fmri.confounds import check_strategy, confounds_file, load_run_confounds
from mtgbn.fmri.images import Unit, is_plausible_tr, repetition_time, units_of
from mtgbn.fmri.regions import Atlas, Regions, load_regions
from mtgbn.fmri.settings import Settings
from mtgbn.fmri.signals import region_signals
from mtgbn.tasks.text_files import MOST_SAMPLES

_CONVENTION = "A[i, j] = 1 means i -> j; DCM's A matrix is the transpose"
_JOINED = "each run was cleaned and standardised separately, then they were joined in this order"
_PACKAGES = ("nilearn", "nibabel", "numpy", "scipy")
_DESCRIPTION = {
    "Name": "Regional series, cleaned",
    "BIDSVersion": "1.10.0",
    "DatasetType": "derivative",
    "GeneratedBy": [{"Name": "mtgbn", "Version": mtgbn.__version__}],
}
# Relative difference up to which two repetition times count as the same.
SAME_TR = 1e-3
_FEWEST_VOLUMES = 10


class Excluded(NamedTuple):
    """A subject (or run) that is not used, and the reason."""

    name: str
    reason: str


class Extraction(NamedTuple):
    """The result of `extract_series`."""

    folder: Path
    series: tuple[Path, ...]
    excluded: tuple[Excluded, ...]
    n_computed: int
    warnings: tuple[str, ...]


class _Plan(NamedTuple):
    """A unit with all that is needed to extract its series."""

    unit: Unit
    tr: float
    tr_source: str
    table: Path
    identity: dict[str, Any]
    """Entries that the record of a finished table has."""


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

    A table that is there already, made with the same settings from the same files, is not computed
    again. A subject that cannot be used is excluded, with the reason, and the others are extracted.
    `mtgbn.Tasks.from_folder` reads ``out``.

    Parameters
    ----------
    images : path, dict or list
        The folder of fMRIPrep's derivatives, or what else `mtgbn.fmri.images.find_images` takes or
        returns (it can select); a list of preprocessed 4-D images in MNI space; or a dict with the image
        or the runs of every subject.
    regions : str, path, Regions or Atlas
        From `load_regions`, or what it takes; or an atlas from `load_atlas`.
    out : path
        Folder for ``sub-XX_..._timeseries.tsv`` with one column per region, a ``.json`` record beside
        each, ``excluded.tsv`` and ``dataset_description.json``.
    radius : float, default 6
        Of the spheres, in mm.
    tr : float, optional
        Seconds between volumes. Default: from the sidecar or the header. A subject whose TR is not that
        of most others is excluded.
    drop : int, default 0
        Volumes to drop at the beginning of every run.
    confounds : str, list of str or dict, default "friston24"
        Regressed out. "friston24" (24 motion parameters, white matter and CSF), "friston24-global" (and
        the global signal), "motion6" (6 motion parameters, white matter and CSF) or a dict of arguments
        of nilearn's load_confounds need fMRIPrep's table beside the image, and leave out the volumes
        before the steady state. A list names columns of this table or of a plain one,
        NAME_confounds.tsv or NAME.tsv beside NAME.nii.gz. "none" reads no table.
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
        Images of a subject are cleaned one by one and joined, make one task each, or the first is used.
    n_jobs : int, default 1
        Processes, each with one image in memory; -1: all cores.
    done : callable, optional
        Called with the name of each subject that is finished or excluded.

    Returns
    -------
    Extraction
        ``folder``, ``series`` (the tables, in the natural order of the subjects), ``excluded`` (name and
        reason of each), ``n_computed`` (tables that were not there before) and ``warnings``.

    Examples
    --------
    >>> import tempfile
    >>> from mtgbn.simulate import paint_images, simulate_bold_groups
    >>> regions = load_regions("aDMN")
    >>> bold = simulate_bold_groups(1, 1, 60, regions=regions.names, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = paint_images(bold, regions.coordinates, f"{folder}/scans", random_state=0)
    ...     found = extract_series(f"{folder}/scans", regions, f"{folder}/series", confounds="motion6")
    >>> [table.name for table in found.series][0]
    'sub-01_task-rest_space-MNI152NLin2009cAsym_seg-aDMN_stat-mean_timeseries.tsv'
    """
    require("nilearn", "fmri", "scans")
    if isinstance(regions, str | os.PathLike):
        regions = load_regions(regions)
    settings = Settings(
        regions=regions,
        radius=radius,
        drop=drop,
        confounds=check_strategy(confounds),
        scrub=scrub,
        scrub_dvars=scrub_dvars,
        band=band,
        standardise=standardise,
        smooth=smooth,
        min_coverage=min_coverage,
    ).checked()
    if n_jobs == 0 or n_jobs < -1:
        raise InputError("n_jobs must be -1 or at least 1")
    if tr is not None and not is_plausible_tr(tr):
        raise InputError(f"the TR must be in seconds, 0.05 to 30; got {tr!r}")
    units = units_of(images, runs)
    notes = settings.warnings()
    folder = Path(out)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        for path in folder.glob(".*.part"):  # left by a process that was killed while it wrote
            path.unlink(missing_ok=True)
        write_json(folder / "dataset_description.json", _DESCRIPTION)
        plans, excluded = _plan(units, settings, tr, folder)
        missing = [plan for plan in plans if not _is_done(plan)]
        if done is not None:
            for name in {unit.name for unit in units} - {plan.unit.name for plan in missing}:
                done(name)
        for name, reason, texts in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_extract_unit)(plan, settings) for plan in missing
        ):
            if reason is not None:
                excluded.append(Excluded(name, reason))
            notes += [f"{name}: {text}" for text in texts]
            if done is not None:
                done(name)
        places = {unit.name: place for place, unit in enumerate(units)}
        excluded.sort(key=lambda each: places[each.name])
        without = {each.name for each in excluded}
        for unit in units:
            if unit.name in without:  # a table of other settings would be taken for one of these
                table = _table_path(folder, unit, settings)
                table.unlink(missing_ok=True)
                table.with_suffix(".json").unlink(missing_ok=True)
        _write_excluded(folder / "excluded.tsv", excluded, set(places))
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return Extraction(
        folder=folder,
        series=tuple(plan.table for plan in plans if plan.unit.name not in without),
        excluded=tuple(excluded),
        n_computed=sum(plan.unit.name not in without for plan in missing),
        warnings=tuple(notes),
    )


def _check_folder(folder: Path) -> None:
    """Refuse a folder with files of other programs, such as that of the images."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the series")
    makers = read_json(folder / "dataset_description.json").get("GeneratedBy")
    makers = makers if isinstance(makers, list) else []
    names = [maker.get("Name") for maker in makers if isinstance(maker, dict)]
    if folder.exists() and any(folder.iterdir()) and "mtgbn" not in names:
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _plan(
    units: list[Unit], settings: Settings, tr: float | None, folder: Path
) -> tuple[list[_Plan], list[Excluded]]:
    """Read all headers before any volume: subjects whose TR is not the usual one are excluded."""
    excluded: list[Excluded] = []
    plans: list[_Plan] = []
    earlier = _earlier_times(folder, units, settings)
    for unit in units:
        try:
            found = [repetition_time(image, tr) for image in unit.images]
            times = {time for time, _ in found}
            if not _alike(min(times), max(times)):
                texts = listed([f"{time:g} s" for time in times], quote=False)
                raise InputError(f"its runs have different TRs: {texts}")
            identity = _identity(unit, settings, found[0][0])
        except (InputError, OSError) as error:
            excluded.append(Excluded(unit.name, str(error)))
            continue
        table = _table_path(folder, unit, settings)
        plans.append(_Plan(unit, *found[0], table, identity))
    counts = Counter([round(plan.tr, 3) for plan in plans] + [round(time, 3) for time in earlier])
    if not counts:
        return [], excluded
    usual = counts.most_common(1)[0][0]
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


def _earlier_times(folder: Path, units: list[Unit], settings: Settings) -> list[float]:
    """Return the TRs of series of other subjects in the folder; refuse series of other settings."""
    planned = {_table_path(folder, unit, settings).with_suffix(".json").name for unit in units}
    times = []
    for path in folder.glob(f"sub-*_seg-{settings.segmentation()}_stat-mean_timeseries.json"):
        if path.name in planned:
            continue
        record = read_json(path)
        if not _says(record, settings.record()):
            raise InputError(
                f"{str(folder)!r} holds {path.stem!r}, made with other settings; give another folder"
            )
        times.append(float(record["RepetitionTime"]))
    return times


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_TR * max(one, other)


def _table_path(folder: Path, unit: Unit, settings: Settings) -> Path:
    return folder / f"{unit.stem}_seg-{settings.segmentation()}_stat-mean_timeseries.tsv"


def _identity(unit: Unit, settings: Settings, tr: float) -> dict[str, Any]:
    inputs = [settings.regions.image] if isinstance(settings.regions, Atlas) else []
    for image in unit.images:
        table = None
        if settings.confounds != "none" or settings.scrub is not None:
            table = confounds_file(image)
        inputs += [image] if table is None else [image, table]
    return {
        **settings.record(),
        "RepetitionTime": tr,
        "Inputs": [
            {"File": str(path.absolute()), "Size": stat.st_size, "Modified": stat.st_mtime_ns}
            for path, stat in ((path, path.stat()) for path in inputs)
        ],
        "SoftwareVersions": versions_of(_PACKAGES),
    }


def _is_done(plan: _Plan) -> bool:
    record = read_json(plan.table.with_suffix(".json"))
    if not plan.table.is_file() or not _says(record, plan.identity):
        return False
    return record.get("SHA256") == hashlib.sha256(plan.table.read_bytes()).hexdigest()


def _says(record: dict[str, Any], content: dict[str, Any]) -> bool:
    """Whether a record that was read has these entries, in the form that JSON gives them."""
    return json.loads(json.dumps(content)).items() <= record.items()


def _extract_run(path: Path, tr: float, settings: Settings) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the cleaned series of one image, (volumes, p), and their record."""
    nibabel = require("nibabel", "fmri", "scans")
    loaded = nibabel.load(path)
    n_volumes = loaded.shape[3]
    confounds = load_run_confounds(path, n_volumes, settings)
    first = settings.drop
    kept = np.ones(n_volumes, dtype=bool)
    kept[:first] = False
    kept[list(confounds.unsteady + confounds.scrubbed)] = False
    if kept.sum() < _FEWEST_VOLUMES:
        raise InputError(
            f"of the {n_volumes} volumes of {str(path)!r} {kept.sum()} are left: {first} dropped, "
            f"{len(confounds.scrubbed)} scrubbed, {len(confounds.unsteady)} before the steady state"
        )
    free = degrees_of_freedom(int(kept.sum()), len(confounds.columns), tr, settings.band)
    # The mean of an integer image would be rounded to integers.
    data = loaded.get_fdata(dtype=np.float32, caching="unchanged")
    image = nibabel.Nifti1Image(data, loaded.affine)
    series, voxels, coverage = region_signals(image, settings, where=str(path))
    used, band = (confounds.values[first:], kept[first:]), settings.band
    cleaned = clean(series[first:], *used, tr=tr, band=band, standardise=settings.standardise)
    flat = [settings.regions.names[j] for j in np.flatnonzero(~(cleaned.std(axis=0) > 0))]
    if flat or not np.all(np.isfinite(cleaned)):
        raise InputError(
            f"{str(path)!r}: nothing is left of {listed(flat, quote=False) or 'some series'} after "
            "cleaning"
        )
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
        MOST_SAMPLES: round(worth_of_noise(*used, tr=tr, band=band), 1),
        "VoxelsPerRegion": voxels,
        "CoveragePerRegion": [round(share, 4) for share in coverage],
    }
    return cleaned, record


def _extract_unit(plan: _Plan, settings: Settings) -> tuple[str, str | None, tuple[str, ...]]:
    """Make and write the table of one unit; return its name, why it cannot be used, and warnings."""
    name = plan.unit.name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        try:
            extracted = [_extract_run(image, plan.tr, settings) for image in plan.unit.images]
        except MemoryError:
            raise
        except InputError as error:
            return name, str(error), ()
        except Exception as error:  # damaged files and odd headers raise many kinds
            files = listed(plan.unit.images, quote=False)
            return name, f"{files}: {type(error).__name__}: {error}", ()
    texts = tuple(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))
    series = np.concatenate([part for part, _ in extracted])
    table = table_text([settings.regions.names, *series.tolist()])
    record = {
        "Description": "Mean series of regions, cleaned; one row per volume, one column per region",
        "Sources": [str(image.absolute()) for image in plan.unit.images],
        "RepetitionTimeSource": plan.tr_source,
        **plan.identity,
        "Runs": [record for _, record in extracted],
        "Concatenation": _JOINED if len(extracted) > 1 else None,
        "Volumes": len(series),
        "AdjacencyConvention": _CONVENTION,
        "Preprocessing": "slice timing, realignment and registration were done before",
        "Warnings": texts,
        "SHA256": hashlib.sha256(table.encode()).hexdigest(),
    }
    # The record is written last: a table without its record does not count as finished.
    write_text(plan.table, table)
    write_json(plan.table.with_suffix(".json"), record)
    return name, None, texts


def _write_excluded(path: Path, excluded: list[Excluded], planned: set[str]) -> None:
    """Write the list of excluded units; those of earlier calls for other subjects are kept."""
    lines = read_table(path)[1:] if path.is_file() else []
    earlier = [line.cells for line in lines if line.cells[0] not in planned]
    rows = [(each.name, " ".join(each.reason.split())) for each in excluded]
    write_text(path, table_text([("name", "reason"), *earlier, *rows]))
