"""The values of a design's columns: which are numbers, which are categories, what is wrong with them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtgbn._utils.labels import check_alike
from mtgbn._utils.names import listed
from mtgbn.errors import InputError

# If at least this share of the cells of a column are numbers, a cell that is none is a mistake.
_MOSTLY = 0.5

# Numbers that tables use for missing values.
_CODES_OF_MISSING = {-9.0, -99.0, -999.0, -9999.0, 77.0, 88.0, 99.0, 777.0, 888.0, 999.0, 9999.0}

Columns = dict[str, np.ndarray]


def take_columns(
    table: Mapping[str, Mapping[str, Any]],
    wanted: Sequence[str],
    used: Sequence[str],
    *,
    categories: Sequence[str],
    quantities: Sequence[str],
) -> tuple[Columns, Columns]:
    """The columns with categories, as text, and those with numbers.

    A column with two different numbers has categories: two groups, whatever their codes are.

    Parameters
    ----------
    table : mapping
        Values of every subject by column.
    wanted, used : sequence of str
        Columns of the formula; these and all others that are needed.
    categories, quantities : sequence of str
        Columns that the formula says to be categories, or numbers.
    """
    factors, numbers = {}, {}
    for name in used:
        cells = {subject: values[name] for subject, values in table.items()}
        found = np.array([_number(cell) for cell in cells.values()])
        if np.isnan(found).any():
            if name in wanted and name not in categories:
                _refuse_mixed(name, cells, np.isnan(found))
            factors[name] = np.array([str(cell) for cell in cells.values()])
        elif len(set(found.tolist())) == 2 and name not in quantities:
            factors[name] = np.array([f"{value:.12g}" for value in found])
        else:
            numbers[name] = found
    for name, labels in factors.items():
        check_alike(labels.tolist(), name)
    return factors, numbers


def check_columns(wanted: Sequence[str], factors: Columns, numbers: Columns) -> None:
    """Refuse columns that cannot tell anything."""
    for name in wanted:
        values = factors[name] if name in factors else numbers[name]
        if len(set(values.tolist())) == 1:
            value = values[0] if name in factors else f"{values[0]:g}"
            raise InputError(
                f"column {name!r} is {value} in all subjects, so that nothing can be told of it; "
                "leave it out of the formula"
            )
    for name, labels in factors.items():
        if name not in wanted:
            continue
        counts = Counter(labels.tolist())
        rare = [label for label, count in counts.items() if count == 1]
        if len(counts) == len(labels):
            raise InputError(
                f"column {name!r} has another text in every subject ({listed(labels, 3)}); a covariate "
                "has numbers, or categories with several subjects each"
            )
        if rare:
            raise InputError(
                f"category {rare[0]!r} of column {name!r} has one subject; at least two are needed. "
                "Join it with another category, or leave the subject out"
            )


def as_codes(values: np.ndarray) -> np.ndarray:
    """Whole numbers as integers; others as they are."""
    return values.astype(np.int64) if (values == np.round(values)).all() else values


def notes_on_missing(numbers: Columns, subjects: Sequence[str]) -> list[str]:
    """Warn of numbers far from the others that usually stand for missing values, such as 999."""
    notes = []
    for name, values in numbers.items():
        is_code = np.isin(values, list(_CODES_OF_MISSING))
        others = values[~is_code]
        if not is_code.any() or len(others) < 2:
            continue
        low, high = others.min(), others.max()
        gap = np.maximum(low - values, values - high)
        far = np.flatnonzero(is_code & (gap > high - low)).tolist()
        if len(far):
            notes.append(
                f"column {name!r} is {values[far[0]]:g} in {listed([subjects[k] for k in far])}, far "
                f"from the others ({low:g} to {high:g}); if this stands for a missing value, write n/a"
            )
    return notes


def _number(cell: Any) -> float:
    """A cell as a finite number, or nan."""
    try:
        found = float(cell)
    except (TypeError, ValueError):
        return np.nan
    return found if np.isfinite(found) else np.nan


def _refuse_mixed(name: str, cells: Mapping[str, Any], is_text: np.ndarray) -> None:
    """Refuse a column of numbers with a cell that is none, and numbers with decimal commas."""
    wrong = [subject for subject, text in zip(cells, is_text, strict=True) if text]
    with_commas = [
        each for each in wrong if re.fullmatch(r"[+-]?\d*,\d+", str(cells[each]).strip())
    ]
    n_numbers = len(cells) - len(wrong) + len(with_commas)
    if n_numbers < _MOSTLY * len(cells):
        return
    if with_commas:
        first = with_commas[0]
        raise InputError(
            f"column {name!r} has decimal commas, such as {str(cells[first])!r} in {first!r}; write "
            "decimal points"
        )
    raise InputError(
        f"column {name!r} has numbers, but {str(cells[wrong[0]])!r} in {wrong[0]!r}; correct it, or "
        f"write n/a if the value is unknown. If the numbers are codes of categories, write C({name})"
    )
