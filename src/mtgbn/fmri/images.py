"""Which preprocessed images there are, whose they are, and how far apart their volumes."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mtgbn.errors import InputError
from mtgbn.fmri.regions import require, some

__all__ = ["RUNS", "Unit", "entities_of", "find_images", "repetition_time", "units_of"]

RUNS = ("concatenate", "separate", "first")

_PREPROCESSED = "*_desc-preproc_bold.nii.gz"
# The order in which BIDS names have them.
_KEYS = ("ses", "task", "acq", "ce", "rec", "dir", "run", "echo", "part", "space", "cohort", "res")
_EXTENSION = re.compile(r"\.nii(\.gz)?$", re.IGNORECASE)
_MILLISECONDS = {"msec": 1e-3, "usec": 1e-6}


class Unit(NamedTuple):
    """What becomes one task: a subject's runs, or one of them."""

    name: str
    """Such as sub-01, or sub-01_run-2 where runs are separate: what its task will be called."""
    stem: str
    """Such as sub-01_task-rest; begins the names of its files."""
    images: tuple[Path, ...]


def entities_of(path: Path) -> dict[str, str]:
    """The parts of a BIDS name: sub-01_task-rest_bold.nii.gz has sub 01 and task rest."""
    parts = _EXTENSION.sub("", path.name).split("_")
    return dict(part.split("-", 1) for part in parts if re.fullmatch(r"[a-zA-Z]+-[^-]+", part))


def find_images(
    folder: str | os.PathLike[str],
    *,
    space: str | None = None,
    task: str | None = None,
    session: str | None = None,
) -> dict[str, tuple[Path, ...]]:
    """Find the preprocessed images of every subject in fMRIPrep's derivatives.

    Parameters
    ----------
    folder : path
        Searched at any depth for ``*_desc-preproc_bold.nii.gz``.
    space : str, optional
        Such as MNI152NLin2009cAsym, or MNI152NLin2009cAsym:res-2 if there are several resolutions, or
        ``native``. May be left out where only one MNI space is there; coordinates are MNI coordinates.
    task, session : str, optional
        Only images of this task, and of this session. Images of several tasks must be chosen from.

    Returns
    -------
    dict
        The images of sub-01, sub-02, ..., in natural order.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {str(root)!r}; give fMRIPrep's derivatives")
    found = [
        path
        for path in sorted(root.rglob(_PREPROCESSED), key=lambda path: _natural(str(path)))
        if "sub" in entities_of(path)
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    if not found:
        raise InputError(
            f"folder {str(root)!r} has no image sub-{_PREPROCESSED}; give the folder of fMRIPrep's "
            "derivatives, or the images themselves"
        )
    found = _of_one_space(found, space)
    for key, wanted, option in (("ses", session, "session"), ("task", task, "task")):
        values = sorted({entities_of(path).get(key, "none") for path in found})
        if wanted is not None:
            label = wanted.removeprefix(f"{key}-")
            found = [path for path in found if entities_of(path).get(key) == label]
            if not found:
                raise InputError(
                    f"there is no image of {option} {label!r}; there are {some(values)}"
                )
        elif key == "task" and len(values) > 1:
            raise InputError(f"there are images of several tasks ({some(values)}); choose a task")
    images: dict[str, tuple[Path, ...]] = {}
    for path in found:
        subject = f"sub-{entities_of(path)['sub']}"
        images[subject] = (*images.get(subject, ()), path)
    return images


def _of_one_space(found: list[Path], space: str | None) -> list[Path]:
    spaces: dict[str, list[Path]] = {}
    for path in found:
        entities = entities_of(path)
        name = entities.get("space", "native")
        name += "".join(f":{key}-{entities[key]}" for key in ("cohort", "res") if key in entities)
        spaces.setdefault(name, []).append(path)
    if space is not None:
        chosen = [name for name in spaces if name == space or name.split(":")[0] == space]
        if space in chosen:
            chosen = [space]
    else:
        chosen = [name for name in spaces if name.startswith("MNI")]
    if len(chosen) == 1:
        return spaces[chosen[0]]
    wanted = "no image in MNI space" if space is None else f"no image in space {space!r}"
    if chosen:
        raise InputError(f"there are images in several spaces ({some(chosen)}); choose a space")
    raise InputError(
        f"there is {wanted}, only in {some(sorted(spaces))}; choose a space, or let fMRIPrep write one "
        "(--output-spaces MNI152NLin2009cAsym)"
    )


def units_of(
    images: str | os.PathLike[str] | Mapping[str, object] | Iterable[str | os.PathLike[str]],
    runs: str = "concatenate",
) -> list[Unit]:
    """Make units of a folder, a list of files, or files by subject.

    Files with the same subject in their names are its runs; one without is a subject of its own.
    """
    if runs not in RUNS:
        raise InputError(f"runs must be {', '.join(RUNS)}; got {runs!r}")
    if isinstance(images, str | os.PathLike):
        images = find_images(images) if Path(images).is_dir() else [images]
    by_subject: dict[str, list[Path]] = {}
    if isinstance(images, Mapping):
        for key, value in images.items():
            several = [value] if isinstance(value, str | os.PathLike) else list(value)
            label = _label(str(key).removeprefix("sub-"), key)
            by_subject.setdefault(label, []).extend(map(Path, several))
    else:
        for path in map(Path, images):
            label = entities_of(path).get("sub") or _label(_EXTENSION.sub("", path.name), path)
            runs_so_far = by_subject.setdefault(label, [])
            if runs_so_far and "sub" not in entities_of(path):
                raise InputError(
                    f"{str(runs_so_far[0])!r} and {str(path)!r} would both be subject {label!r}; rename "
                    "one, or give a dict of files by subject"
                )
            runs_so_far.append(path)
    if not by_subject or not all(by_subject.values()):
        raise InputError("there are no images; give at least one per subject")
    units = []
    for label, paths in by_subject.items():
        seen: dict[str, Path] = {}
        for path in paths:
            stem = _unit_stem(label, [path])
            if stem in seen and len(paths) > 1 and "sub" in entities_of(path):
                raise InputError(
                    f"{str(seen[stem])!r} and {str(path)!r} are the same run of subject {label!r}; "
                    "leave one out"
                )
            seen[stem] = path
        if runs == "separate" and len(paths) > 1:
            if len(seen) < len(paths):
                raise InputError(
                    f"the runs of subject {label!r} have no run-1, run-2, ... in their names to tell "
                    "them apart; rename them"
                )
            shared = _unit_stem(label, paths).split("_")
            for stem, path in seen.items():
                own = [part for part in stem.split("_") if part not in shared]
                units.append(Unit("_".join([f"sub-{label}", *own]), stem, (path,)))
        else:
            kept = paths[:1] if runs == "first" else paths
            units.append(Unit(f"sub-{label}", _unit_stem(label, kept), tuple(kept)))
    return sorted(units, key=lambda unit: _natural(unit.name))


def _unit_stem(label: str, paths: list[Path]) -> str:
    """The subject, and all that its images have in common."""
    each = [entities_of(path) for path in paths]
    common = {
        key: each[0][key]
        for key in _KEYS
        if key in each[0] and all(other.get(key) == each[0][key] for other in each)
    }
    return "_".join([f"sub-{label}", *(f"{key}-{value}" for key, value in common.items())])


def _label(text: str, source: object) -> str:
    """What BIDS allows in a name."""
    label = re.sub(r"[^A-Za-z0-9]", "", text)
    if not label:
        raise InputError(f"{str(source)!r} names no subject; use letters and digits")
    return label


def repetition_time(image: Path, given: float | None = None) -> tuple[float, str]:
    """Seconds between volumes, and where that is from: given, the sidecar, or the header.

    Raises
    ------
    InputError
        When the image is not there or is none, or nothing plausible is found.
    """
    nibabel = require("nibabel")
    if image.is_symlink() and not image.exists():
        raise InputError(
            f"{str(image)!r} is a link to a file that is not there; fetch it (datalad get)"
        )
    if not image.is_file():
        raise InputError(f"there is no file {str(image)!r}")
    try:
        header = nibabel.load(image).header
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise InputError(f"{str(image)!r} cannot be read as an image: {error}") from error
    shape = header.get_data_shape()
    if len(shape) != 4 or shape[3] < 2:
        size = " x ".join(map(str, shape))
        raise InputError(f"{str(image)!r} is {size}, no series of volumes; give a 4-D image")
    if given is not None:
        return given, "given"
    sidecar = image.with_name(_EXTENSION.sub("", image.name) + ".json")
    if sidecar.is_file():
        try:
            value = json.loads(sidecar.read_text(encoding="utf-8")).get("RepetitionTime")
        except (ValueError, AttributeError) as error:
            raise InputError(f"the sidecar {str(sidecar)!r} is not JSON: {error}") from error
        if value is not None:
            return _plausible(value, sidecar), "sidecar"
    zooms = header.get_zooms()
    unit = header.get_xyzt_units()[1] if hasattr(header, "get_xyzt_units") else "unknown"
    return _plausible(float(zooms[3]) * _MILLISECONDS.get(unit, 1.0), image), "header"


def _plausible(value: object, source: Path) -> float:
    if isinstance(value, int | float) and math.isfinite(value) and 0.05 <= value <= 30:
        return round(float(value), 6)  # headers have 32 bits
    raise InputError(f"{str(source)!r} says a TR of {value!r} s, which cannot be; give the TR")


def _natural(name: str) -> list[str | int]:
    pieces = re.split(r"(\d+)", name)
    return [int(piece) if odd % 2 else piece.casefold() for odd, piece in enumerate(pieces)]
