"""Regions of interest: those of the paper (data/NOTICE.md), a table of points, or an atlas image."""

import os
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtgbn._utils.names import check_names, listed
from mtgbn._utils.optional import require
from mtgbn._utils.tables import check_columns, parse_records, read_records
from mtgbn.errors import InputError

TEMPLATES = ("aDMN", "dDMN", "vDMN")

_COORDINATES = ("x", "y", "z")
# The bounding box of the MNI152 templates with a margin of one centimetre.
_LOWEST, _HIGHEST = np.array([-100, -136, -82]), np.array([100, 101, 119])


class Regions(NamedTuple):
    """Points of the brain, each the centre of a region."""

    names: tuple[str, ...]
    """Unique; the variables of the tasks."""
    labels: tuple[str, ...]
    """What a person would call them."""
    coordinates: np.ndarray
    """(p, 3); x, y, z in MNI mm."""
    templates: tuple[str, ...]
    """Of each region, the named set of regions to which it belongs."""
    subsystems: tuple[str, ...]
    """Of each region, a part of its template, or an empty text."""


class Atlas(NamedTuple):
    """Regions that are the voxels of an image with the same value."""

    image: Path
    values: tuple[int, ...]
    """Ascending."""
    names: tuple[str, ...]


def load_regions(source: str | os.PathLike[str]) -> Regions:
    """Load the regions of the paper or of a table.

    Parameters
    ----------
    source : "aDMN", "dDMN", "vDMN", "all", or path
        A template of the paper or all three; or a table (.tsv or .csv) with the columns name, x, y, z
        (MNI mm) and perhaps label, template and subsystem. The default of the template is the name of
        the file.

    Examples
    --------
    >>> regions = load_regions("dDMN")
    >>> regions.names[6], regions.labels[6], regions.coordinates[6].tolist()
    ('dDMN7', 'Left and right thalamus', [6.0, -6.0, 2.0])
    """
    if isinstance(source, str) and source in (*TEMPLATES, "all"):
        text = (files("mtgbn.fmri") / "data" / "regions.tsv").read_text(encoding="utf-8")
        records = parse_records(text, "\t", "regions.tsv", "region")
        chosen = [each for each in records if source in (each["template"], "all")]
        return _regions(chosen, "regions.tsv", "")
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"there are no regions {str(source)!r}; give aDMN, dDMN, vDMN, all, or a .tsv or .csv file "
            "with the columns name, x, y, z"
        )
    return _regions(read_records(path, "region"), str(path), path.stem)


def load_atlas(
    image: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None
) -> Atlas:
    """Load the regions of an atlas image.

    Parameters
    ----------
    image : path
        Three-dimensional, one whole number per region, 0 elsewhere.
    labels : path, optional
        Table (.tsv or .csv) with the columns index (or value) and name, as BIDS has it. Values that it
        does not list are left out. Without a table the regions are called region1, region2, ... after
        their values.

    Examples
    --------
    >>> import nibabel, numpy as np, tempfile
    >>> values = np.zeros((4, 4, 4), dtype=np.int16)
    >>> values[0], values[3] = 1, 7
    >>> with tempfile.NamedTemporaryFile(suffix=".nii") as file:
    ...     nibabel.Nifti1Image(values, np.eye(4)).to_filename(file.name)
    ...     load_atlas(file.name).names
    ('region1', 'region7')
    """
    nibabel = require("nibabel", "fmri", "scans")
    path = Path(image)
    try:
        loaded = nibabel.load(path)
        data = np.asanyarray(loaded.dataobj)
    except Exception as error:  # nibabel raises many kinds of errors
        raise InputError(f"the atlas {str(path)!r} cannot be read: {error}") from error
    if data.ndim == 4 and data.shape[3] == 1:
        data = data[..., 0]
    if data.ndim != 3:
        raise InputError(
            f"the atlas {str(path)!r} has {data.ndim} dimensions; give a three-dimensional image "
            "with one whole number per region"
        )
    present = np.unique(data)
    if not np.all(np.isfinite(present)) or np.any(present != np.round(present)):
        odd = present[~np.isfinite(present) | (present != np.round(present))][0]
        raise InputError(
            f"the atlas {str(path)!r} has the value {odd:g}; regions must be whole numbers (is it a "
            "probabilistic atlas?)"
        )
    found = {int(value) for value in present if value != 0}
    if labels is None:
        names = {value: f"region{value}" for value in sorted(found)}
    else:
        names = _read_labels(Path(labels))
        without = [f"{name} ({value})" for value, name in names.items() if value not in found]
        if without:
            raise InputError(
                f"the atlas {str(path)!r} has no voxel of {listed(without, quote=False)}; remove the "
                f"rows from {str(labels)!r}"
            )
    if len(names) < 2:
        raise InputError(f"the atlas {str(path)!r} has fewer than two regions")
    values = tuple(sorted(names))
    return Atlas(path, values, tuple(names[value] for value in values))


def _regions(records: list[dict[str, str]], where: str, template: str) -> Regions:
    check_columns(records, ("name", *_COORDINATES), where)
    names = check_names([record["name"] for record in records], "region", f"{where!r}: ")
    coordinates = np.empty((len(records), 3))
    for row, record in enumerate(records):
        for axis, column in enumerate(_COORDINATES):
            try:
                coordinates[row, axis] = float(record[column])
            except ValueError:
                raise InputError(
                    f"region {names[row]!r} of {where!r}: {column} is {record[column]!r}; give MNI "
                    "coordinates in mm, with a point for decimals"
                ) from None
        if not np.all((coordinates[row] >= _LOWEST) & (coordinates[row] <= _HIGHEST)):
            point = ", ".join(f"{value:g}" for value in coordinates[row])
            raise InputError(
                f"region {names[row]!r} of {where!r}: ({point}) is outside the brain; give MNI "
                "coordinates in mm, not voxels or metres"
            )
    first: dict[tuple[float, ...], str] = {}
    for name, position in zip(names, map(tuple, coordinates.tolist()), strict=True):
        if position in first:
            raise InputError(
                f"regions {first[position]!r} and {name!r} of {where!r} are the same point; remove one"
            )
        first[position] = name

    return Regions(
        names=names,
        labels=tuple(record.get("label") or record["name"] for record in records),
        coordinates=coordinates,
        templates=tuple(record.get("template") or template for record in records),
        subsystems=tuple(
            "" if (part := record.get("subsystem", "")) == "n/a" else part for record in records
        ),
    )


def _read_labels(path: Path) -> dict[int, str]:
    records = read_records(path, "region")
    key = "value" if "value" in records[0] and "index" not in records[0] else "index"
    check_columns(records, (key, "name"), str(path))
    names = check_names([record["name"] for record in records], "region", f"{str(path)!r}: ")
    labels: dict[int, str] = {}
    for record, name in zip(records, names, strict=True):
        try:
            value = int(record[key])
        except ValueError:
            raise InputError(
                f"region {name!r} of {str(path)!r}: {key} is {record[key]!r}; give the whole number "
                "that the region has in the atlas"
            ) from None
        if value in labels:
            raise InputError(f"{str(path)!r} gives {value} to both {labels[value]!r} and {name!r}")
        if value != 0:  # the background, which some tables include
            labels[value] = name
    return labels
