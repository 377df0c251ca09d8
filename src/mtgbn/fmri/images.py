"""Finding preprocessed images, the subjects they belong to, and their repetition times."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mtgbn._utils.names import listed, natural_key, unknown_name
from mtgbn._utils.optional import require
from mtgbn._utils.tables import read_text
from mtgbn.errors import InputError

RUNS = ("concatenate", "separate", "first")

_PREPROCESSED = "*_desc-preproc_bold.nii.gz"
# Entities in the order of BIDS names.
_KEYS = ("ses", "task", "acq", "ce", "rec", "dir", "run", "echo", "part", "space", "cohort", "res")
_EXTENSION = re.compile(r"\.nii(\.gz)?$", re.IGNORECASE)
_IMAGES = (".nii", ".nii.gz")
_SECONDS = {"msec": 1e-3, "usec": 1e-6}
# Shortest and longest plausible time between volumes, in seconds.
_PLAUSIBLE_TR = (0.05, 30.0)


class Unit(NamedTuple):
    """The images that become one task: all runs of a subject, or one of them.

    The task has a name such as sub-01_run-2, its files names that begin with a stem: sub-01_task-rest.
    """

    name: str
    stem: str
    images: tuple[Path, ...]


def entities_of(path: Path) -> dict[str, str]:
    """Return the entities of a BIDS name: sub-01_task-rest_bold.nii.gz has sub 01 and task rest."""
    parts = _EXTENSION.sub("", path.name).split("_")
    return dict(part.split("-", 1) for part in parts if re.fullmatch(r"[a-zA-Z]+-[^-]+", part))


def find_images(
    source: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    subjects: Sequence[str] = (),
    space: str | None = None,
    task: str | None = None,
    session: str | None = None,
) -> dict[str, tuple[Path, ...]]:
    """Find the preprocessed images of sub-01, sub-02, ..., in natural order.

    Images with the same subject in their names are runs of that subject; an image without a subject in
    its name is one subject.

    Parameters
    ----------
    source : path
        A folder of fMRIPrep's derivatives, searched at any depth for ``*_desc-preproc_bold.nii.gz``;
        one image; or a .txt file with the path of one image per line, relative to that file.
    pattern : str, optional
        The images of the folder to take instead of fMRIPrep's, such as ``"*/swrest.nii"``.
    subjects : sequence of str, optional
        Only these subjects, with or without ``sub-``.
    space : str, optional
        Such as MNI152NLin2009cAsym, or MNI152NLin2009cAsym:res-2 if there are several resolutions, or
        ``native``. May be left out if there is only one MNI space; coordinates are MNI coordinates.
    task, session : str, optional
        Only images of this task, and of this session. If there are several tasks, one must be given.
    """
    path = Path(source)
    if path.is_dir() and pattern is None:
        images = _group(_preprocessed(path, space, task, session))
    elif path.is_dir():
        found = sorted(file for file in path.glob(pattern or "*") if file.name.endswith(_IMAGES))
        if not found:
            raise InputError(f"folder {str(path)!r} has no .nii or .nii.gz matching {pattern!r}")
        images = _group(found)
    elif path.suffix.lower() == ".txt":
        lines = map(str.strip, read_text(path).splitlines())
        images = _group([path.parent / line for line in lines if line])
    elif _EXTENSION.search(path.name):
        images = _group([path])
    else:
        raise InputError(
            f"there is no folder {str(path)!r}; give fMRIPrep's derivatives, an image, or a .txt file "
            "with one image per line"
        )
    wanted = [f"sub-{subject.removeprefix('sub-')}" for subject in subjects]
    for name in wanted:
        if name not in images:
            raise unknown_name(name, list(images), "participant")
    return {name: tuple(images[name]) for name in images if not wanted or name in wanted}


def _group(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group images by subject; an image without a subject in its name is one subject."""
    images: dict[str, list[Path]] = {}
    for path in paths:
        label = entities_of(path).get("sub") or _label(_EXTENSION.sub("", path.name), path)
        runs = images.setdefault(f"sub-{label}", [])
        if runs and "sub" not in entities_of(path):
            raise InputError(
                f"{str(runs[0])!r} and {str(path)!r} would both be subject {label!r}; rename "
                "one, or give a dict of files by subject"
            )
        runs.append(path)
    return images


def _preprocessed(
    root: Path, space: str | None, task: str | None, session: str | None
) -> list[Path]:
    """Return fMRIPrep's preprocessed images in one space, of one task and perhaps one session."""
    found = [
        path
        for path in sorted(root.rglob(_PREPROCESSED), key=lambda path: natural_key(str(path)))
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
        texts = listed(values, quote=False)
        if wanted is not None:
            label = wanted.removeprefix(f"{key}-")
            found = [path for path in found if entities_of(path).get(key) == label]
            if not found:
                raise InputError(f"there is no image of {option} {label!r}; there are {texts}")
        elif key == "task" and len(values) > 1:
            raise InputError(f"there are images of several tasks ({texts}); choose a task")
    return found


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
        raise InputError(
            f"there are images in several spaces ({listed(chosen, quote=False)}); choose a space"
        )
    raise InputError(
        f"there is {wanted}, only in {listed(sorted(spaces), quote=False)}; choose a space, or let "
        "fMRIPrep write one (--output-spaces MNI152NLin2009cAsym)"
    )


def units_of(
    images: str | os.PathLike[str] | Mapping[str, Any] | Iterable[str | os.PathLike[str]],
    runs: str = "concatenate",
) -> list[Unit]:
    """Make units of what `find_images` takes, of a list of images, or of images by subject."""
    if runs not in RUNS:
        raise InputError(f"runs must be {', '.join(RUNS)}; got {runs!r}")
    if isinstance(images, str | os.PathLike):
        images = find_images(images)
    elif not isinstance(images, Mapping):
        images = _group(map(Path, images))
    by_subject: dict[str, list[Path]] = {}
    for key, value in images.items():
        several = [value] if isinstance(value, str | os.PathLike) else list(value)
        label = _label(str(key).removeprefix("sub-"), key)
        by_subject.setdefault(label, []).extend(map(Path, several))
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
    return sorted(units, key=lambda unit: natural_key(unit.name))


def _unit_stem(label: str, paths: list[Path]) -> str:
    """Return the subject and the entities that all its images have in common."""
    each = [entities_of(path) for path in paths]
    common = {
        key: each[0][key]
        for key in _KEYS
        if key in each[0] and all(other.get(key) == each[0][key] for other in each)
    }
    return "_".join([f"sub-{label}", *(f"{key}-{value}" for key, value in common.items())])


def _label(text: str, source: object) -> str:
    """Return the letters and digits of a text, which BIDS allows in a label."""
    label = re.sub(r"[^A-Za-z0-9]", "", text)
    if not label:
        raise InputError(f"{str(source)!r} names no subject; use letters and digits")
    return label


def repetition_time(image: Path, given: float | None = None) -> tuple[float, str]:
    """Return the seconds between volumes, and their source: given, sidecar or header."""
    nibabel = require("nibabel", "fmri", "scans")
    if image.is_symlink() and not image.exists():
        raise InputError(
            f"{str(image)!r} links to a file that is not there; fetch it (datalad get)"
        )
    if not image.is_file():
        raise InputError(f"there is no file {str(image)!r}")
    try:
        header = nibabel.load(image).header
    except Exception as error:  # nibabel raises many kinds of errors
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
    return _plausible(float(zooms[3]) * _SECONDS.get(unit, 1.0), image), "header"


def is_plausible_tr(seconds: float) -> bool:
    """Whether volumes can be this far apart."""
    return _PLAUSIBLE_TR[0] <= seconds <= _PLAUSIBLE_TR[1]


def _plausible(value: object, source: Path) -> float:
    if isinstance(value, int | float) and is_plausible_tr(value):
        return round(float(value), 6)  # headers have single precision
    raise InputError(f"{str(source)!r} says a TR of {value!r} s, which cannot be; give the TR")
