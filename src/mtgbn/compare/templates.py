"""Templates: named sets of variables, each compared as one network."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

from mtgbn._utils.names import listed
from mtgbn._utils.tables import check_columns, read_records
from mtgbn.errors import InputError
from mtgbn.fmri.regions import load_regions

EVERYTHING = "all"


def coordinates_in(source: str | os.PathLike[str] | None) -> dict[str, list[float]]:
    """MNI coordinates of the variables of a table of templates, if it has the columns x, y and z.

    Rows without three numbers have no coordinates; nor has a source that is no table.
    """
    if source is None or source == EVERYTHING:
        return {}
    found = {}
    for record in read_records(Path(source), "region"):
        try:
            place = [float(record[axis]) for axis in ("x", "y", "z")]
        except (KeyError, ValueError):
            continue
        if all(map(math.isfinite, place)):
            found[record["name"]] = place
    return found


def find_templates(
    variables: Sequence[str], source: str | os.PathLike[str] | None = None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Sort variables into templates.

    Returns the variables of every template, in the order of the data, and sentences about variables
    that are in the data or in the table only.

    Parameters
    ----------
    variables : sequence of str
    source : path or "all", optional
        A table (.tsv or .csv) with the columns name and template, such as the table of the regions;
        a variable may be in several templates. "all": one template with all variables. Default: the
        paper's templates, if all variables are regions of the paper, by name (aDMN1, ...) or by label;
        else one template with all variables.

    Examples
    --------
    >>> find_templates(["left", "right"])
    ({'all': ('left', 'right')}, ())
    >>> find_templates(["aDMN1", "aDMN2", "vDMN1", "vDMN2"])[0]
    {'aDMN': ('aDMN1', 'aDMN2'), 'vDMN': ('vDMN1', 'vDMN2')}
    """
    if source is None:
        return _paper_templates(variables) or {EVERYTHING: tuple(variables)}, ()
    if source == EVERYTHING:
        return {EVERYTHING: tuple(variables)}, ()
    path = Path(source)
    records = read_records(path, "region")
    check_columns(records, ("name", "template"), str(path))
    members: dict[str, set[str]] = {}
    for record in records:
        if record["template"] not in ("", "n/a"):
            members.setdefault(record["template"], set()).add(record["name"])
    templates = {
        template: tuple(name for name in variables if name in names)
        for template, names in members.items()
    }
    for template, names in templates.items():
        if len(names) < 2:
            raise InputError(
                f"template {template!r} of {str(path)!r} has {len(names)} of the variables "
                f"{listed(variables)}; it needs at least two, with the same names as in the data"
            )
    if not templates:
        raise InputError(f"{str(path)!r} has no region with a template; fill in the column")
    used = {name for names in templates.values() for name in names}
    without = [name for name in variables if name not in used]
    absent = [name for names in members.values() for name in names if name not in used]
    notes = []
    if without:
        notes.append(f"in no template, and left out: {listed(without)}")
    if absent:
        notes.append(f"in {str(path)!r}, but not in the data: {listed(sorted(absent))}")
    return templates, tuple(notes)


def _paper_templates(variables: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the paper's templates; an empty dict unless all variables are regions of the paper."""
    regions = load_regions("all")
    for names in (regions.names, regions.labels):
        template_of = dict(zip(names, regions.templates, strict=True))
        # A label in two templates does not tell the template.
        ambiguous = {name for name in names if names.count(name) > 1}
        if all(name in template_of and name not in ambiguous for name in variables):
            templates: dict[str, tuple[str, ...]] = {}
            for name in variables:
                templates[template_of[name]] = (*templates.get(template_of[name], ()), name)
            return templates if all(len(each) > 1 for each in templates.values()) else {}
    return {}
