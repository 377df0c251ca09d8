"""What the effect of a comparison by a design means, in words, and the name of its statistic."""

import math
import re
from collections.abc import Sequence

import numpy as np

from mtgbn.compare.design import Design

# Parts of the names of columns that say which category, or which function of a spline, a column has.
_CATEGORY = re.compile(r"\[[^\[\]]*\]")


def effect_in_words(design: Design) -> str:
    """What a positive effect means."""
    if len(design.contrast) > 1:
        first = design._replace(contrast=design.contrast[:1])
        return f"of the {len(design.contrast)} tested columns the first: {effect_in_words(first)}"
    places = np.flatnonzero(design.contrast[0])
    if len(places) > 1 or design.contrast[0, places[0]] != 1:
        return f"the contrast {design.tested!r} of partial correlations"
    column = design.columns[places[0]]
    if ":" in column:
        return f"coefficient of {column!r}"
    category = re.fullmatch(r".*\[T\.(.*)\]", column)
    words = (
        f"{category[1]!r} minus {_reference(design, column)}"
        if category
        else f"change of the partial correlation per unit of {column!r}"
    )
    interacts = any(column in each.split(":") for each in design.columns if ":" in each)
    return words + ", where the columns that interact with it are 0" * interacts


def _reference(design: Design, column: str) -> str:
    """The category with which that of a column is compared."""
    start = f"{column.partition('[T.')[0]}[T."
    compared = {each[len(start) : -1] for each in design.columns if each.startswith(start)}
    others = [label for label in design.group_sizes if label not in compared]
    return repr(others[0]) if len(others) == 1 else "the reference category"


def terms_of(columns: Sequence[str]) -> list[str]:
    """The terms of a formula that columns of its design come from, such as site of site[T.b]."""
    return list(dict.fromkeys(_CATEGORY.sub("", column) for column in columns))


def terms_held_constant(
    columns: Sequence[str], contrast: np.ndarray, nuisance: Sequence[str]
) -> list[str]:
    """The terms that are not tested; single columns of terms of which others are tested."""
    tested = set(terms_of([columns[k] for k in np.flatnonzero(contrast.any(axis=0)).tolist()]))
    names = [(terms_of([column])[0], column) for column in nuisance]
    return list(dict.fromkeys(column if term in tested else term for term, column in names))


def held_constant(design: Design) -> list[str]:
    """The terms that a design holds constant."""
    return terms_held_constant(design.columns, design.contrast, design.nuisance)


def effect_with_interval(effect: float, low: float, high: float, what: str = "") -> str:
    """An effect with its interval; of the interval's half width one digit counts at least."""
    if not all(map(math.isfinite, (effect, low, high))):
        return "not defined"
    half = (high - low) / 2
    digits = min(max(2, -math.floor(math.log10(half))), 8) if half > 0 else 2
    return f"{effect:+.{digits}f} ({what}{low:+.{digits}f} to {high:+.{digits}f})"


def statistic_in_words(design: Design) -> str:
    """Name of the statistic that a design is tested with."""
    is_one = len(design.contrast) == 1
    if design.variance_groups is None:
        return "t" if is_one else "F"
    return "Welch's t" if is_one else "Johansen's F"
