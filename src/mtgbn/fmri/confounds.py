"""Confounds of a run and the volumes to leave out, from fMRIPrep's table or from a plain one."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed
from mtgbn._utils.optional import require
from mtgbn.errors import InputError
from mtgbn.fmri.images import entities_of
from mtgbn.fmri.settings import Settings

# Arguments of nilearn's load_confounds. High-pass regressors are not needed after a band-pass.
STRATEGIES: dict[str, dict[str, Any]] = {
    "friston24": {"strategy": ("motion", "wm_csf"), "motion": "full", "wm_csf": "basic"},
    "friston24-global": {
        "strategy": ("motion", "wm_csf", "global_signal"),
        "motion": "full",
        "wm_csf": "basic",
        "global_signal": "basic",
    },
    "motion6": {"strategy": ("motion", "wm_csf"), "motion": "basic", "wm_csf": "basic"},
}

# Shorter segments of volumes between scrubbed ones are scrubbed too, as in Power et al. (2014).
_SHORTEST_SEGMENT = 5


class Confounds(NamedTuple):
    """The confounds of all volumes of one run, and the volumes to leave out."""

    columns: tuple[str, ...]
    values: np.ndarray
    """(volumes, columns)."""
    file: Path | None
    unsteady: tuple[int, ...]
    """Volumes before the steady state of the scanner, according to fMRIPrep."""
    scrubbed: tuple[int, ...]
    """Other volumes, with too much motion."""


def check_strategy(confounds: object) -> str | list[str] | dict[str, Any]:
    """Check the choice of confounds, and return it in a form that JSON can hold.

    It is a key of `STRATEGIES`, "none", a list of columns, or a dict of arguments of load_confounds.
    """
    if isinstance(confounds, str):
        if confounds != "none" and confounds not in STRATEGIES:
            raise InputError(
                f"there are no confounds {confounds!r}; give {', '.join(STRATEGIES)}, none, or a "
                "list of columns"
            )
        return confounds
    if isinstance(confounds, Mapping):
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in confounds.items()
        }
    if isinstance(confounds, Sequence) and confounds:
        names = list(confounds)
        if all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names):
            return names
    raise InputError(
        f"confounds must be {', '.join(STRATEGIES)}, none, a list of different columns, or a dict of "
        f"arguments of nilearn's load_confounds; got {confounds!r}"
    )


def load_run_confounds(image: Path, n_volumes: int, settings: Settings) -> Confounds:
    """Read the confounds of an image; refuse a table that lacks columns or has another length."""
    confounds, scrub = settings.confounds, settings.scrub
    if confounds == "none" and scrub is None:
        return Confounds((), np.empty((n_volumes, 0)), None, (), ())
    file = confounds_file(image)
    if file is None:
        raise InputError(
            f"there is no table of confounds beside {str(image)!r}; put fMRIPrep's "
            "*_desc-confounds_timeseries.tsv or a *_confounds.tsv of your own there, or use none"
        )
    named = _named(file, confounds) if isinstance(confounds, list) else None
    left_out: tuple[int, ...] = ()
    if named is None or scrub is not None:
        options = STRATEGIES.get(confounds, {}) if isinstance(confounds, str) else confounds
        options = {} if isinstance(options, list) else dict(options)
        if scrub is not None:
            options |= {
                "strategy": (*options.get("strategy", ()), "scrub"),
                "scrub": _SHORTEST_SEGMENT,
                "fd_threshold": scrub,
                "std_dvars_threshold": settings.scrub_dvars,
            }
        columns, values, left_out = _by_strategy(image, file, options)
    if named is not None:
        columns, values = named
    lacking = np.argwhere(~np.isfinite(values))
    if len(lacking):
        raise InputError(
            f"{str(file)!r}: column {columns[lacking[0, 1]]!r} has no value in row {lacking[0, 0] + 1}; "
            "use other confounds"
        )
    if len(values) != n_volumes:
        raise InputError(
            f"{str(file)!r} has {len(values)} rows, {str(image)!r} {n_volumes} volumes; they do not "
            "belong together"
        )
    unsteady = _unsteady(file) & set(left_out)
    return Confounds(
        columns, values, file, tuple(sorted(unsteady)), tuple(sorted(set(left_out) - unsteady))
    )


def confounds_file(image: Path) -> Path | None:
    """Find the table beside an image: NAME_confounds.tsv, NAME.tsv, or fMRIPrep's; else None."""
    stem = re.sub(r"\.nii(\.gz)?$", "", image.name, flags=re.IGNORECASE)
    for name in (f"{stem}_confounds.tsv", f"{stem}.tsv"):
        if image.with_name(name).is_file():
            return image.with_name(name)
    of_image = entities_of(image)
    found = []
    for file in sorted(image.parent.glob("*desc-confounds_*.tsv")):
        others = {key: value for key, value in entities_of(file).items() if key != "desc"}
        if others and others.items() <= of_image.items():
            found.append(file)
    if len(found) > 1:
        raise InputError(
            f"several tables of confounds could belong to {str(image)!r}: "
            f"{listed([file.name for file in found], quote=False)}; remove all but one"
        )
    return found[0] if found else None


def _by_strategy(
    image: Path, file: Path, options: dict[str, Any]
) -> tuple[tuple[str, ...], np.ndarray, tuple[int, ...]]:
    """Return columns, values, and the volumes that nilearn would leave out."""
    load_confounds = require("nilearn.interfaces.fmriprep", "fmri", "scans").load_confounds
    if "desc-confounds" not in file.name:
        raise InputError(
            f"{file.name!r} is not fMRIPrep's table of confounds, which strategies and scrubbing need; "
            "give a list of its columns and do not scrub, or use none"
        )
    try:
        options["strategy"] = tuple(options["strategy"])
        table, kept = load_confounds(str(image), **options)
    except KeyError as error:
        raise InputError(f"{str(file)!r} has no column {error}; use other confounds") from error
    except (TypeError, ValueError) as error:
        message = " ".join(str(error).split())
        raise InputError(f"confounds of {str(image)!r}: {message}") from error
    if kept is not None and len(kept) == 0:
        raise InputError(f"all volumes of {str(image)!r} would be scrubbed")
    columns, values = tuple(map(str, table.columns)), table.to_numpy(dtype=np.float64)
    left_out = () if kept is None else set(range(len(table))) - set(kept.tolist())
    return columns, values, tuple(sorted(left_out))


def _unsteady(file: Path) -> set[int]:
    """Return the volumes that fMRIPrep marks as before the steady state."""
    table = require("pandas", "fmri", "scans").read_csv(file, sep="\t")
    marks = [column for column in table.columns if "non_steady_state" in str(column)]
    return set(np.flatnonzero(table[marks].to_numpy().any(axis=1)).tolist())


def _named(file: Path, names: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    pandas = require("pandas", "fmri", "scans")
    try:
        table = pandas.read_csv(file, sep="\t", na_values=["n/a"])
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{str(file)!r} cannot be read as a table: {error}") from error
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError(
            f"{str(file)!r} has no column {listed(missing, quote=False)}; it has "
            f"{listed(table.columns, quote=False)}"
        )
    try:
        values = table[names].to_numpy(dtype=np.float64, copy=True)
    except ValueError as error:
        raise InputError(f"{str(file)!r}: a confound is not a number ({error})") from error
    if len(values) > 1:  # the first derivative is n/a
        values[0] = np.where(np.isnan(values[0]), values[1], values[0])
    return tuple(names), values
