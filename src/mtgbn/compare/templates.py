"""Which variables are compared together."""

import os
from collections.abc import Sequence
from pathlib import Path

from mtgbn._utils.files import check_columns, read_records
from mtgbn._utils.names import listed
from mtgbn.errors import InputError
from mtgbn.fmri.regions import load_regions, some

__all__ = ["EVERYTHING", "find_templates"]

EVERYTHING = "all"


def find_templates(
    variables: Sequence[str], source: str | os.PathLike[str] | None = None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Sort variables into templates.

    Parameters
    ----------
    variables : sequence of str
    source : path or "all", optional
        A table (.tsv or .csv) with the columns name and template, such as one that regions were
        extracted with; a variable may be in several. "all": all variables together. Left out: the
        paper's templates, if all variables are regions of the paper, by name (aDMN1, ...) or by label;
        else all together.

    Returns
    -------
    templates : dict
        The variables of every template, in the order of the data.
    notes : tuple of str
        What was left out.
    """
    if source is None:
        return _of_the_paper(variables) or {EVERYTHING: tuple(variables)}, ()
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
                f"template {template!r} of {str(path)!r} has {len(names)} of the variables, of which "
                f"there are {listed(variables)}; it needs at least two. Names must be those of the data"
            )
    if not templates:
        raise InputError(f"{str(path)!r} puts no region into a template; fill in the column")
    used = {name for names in templates.values() for name in names}
    without = [name for name in variables if name not in used]
    absent = [name for names in members.values() for name in names if name not in used]
    notes = []
    if without:
        notes.append(f"in no template, and left out: {some(without)}")
    if absent:
        notes.append(f"in {str(path)!r}, but not in the data: {some(sorted(absent))}")
    return templates, tuple(notes)


def _of_the_paper(variables: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The paper's templates of these variables; none if one is no region of the paper."""
    regions = load_regions("all")
    for names in (regions.names, regions.labels):
        template_of = dict(zip(names, regions.templates, strict=True))
        # A label that two templates have says nothing.
        ambiguous = {name for name in names if names.count(name) > 1}
        if all(name in template_of and name not in ambiguous for name in variables):
            found: dict[str, tuple[str, ...]] = {}
            for name in variables:
                found[template_of[name]] = (*found.get(template_of[name], ()), name)
            return found if all(len(names) > 1 for names in found.values()) else {}
    return {}
