"""The edge prior of the command line: a word, one or two numbers, or a file with a matrix."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mtgbn.errors import InputError

_WORDS = ("shared", "density", "sampled")
_EMPTY = ("", "na", "nan", ".")


class EdgePriorFile(NamedTuple):
    """A file whose matrix is read once the names of the variables are known."""

    path: str


def edge_prior_from_text(text: str) -> str | float | tuple[float, float] | EdgePriorFile:
    """Return the edge prior that a text stands for; ValueError if it stands for none."""
    if text in _WORDS:
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers
    if os.path.isfile(text):
        return EdgePriorFile(text)
    raise ValueError(
        f"{text!r} is none of 'shared', 'density', 'sampled', a number R, two numbers R,S (without a "
        "blank), and the path of a file"
    )


def read_edge_prior(path: str, variables: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Read probabilities of all pairs from a CSV or TSV file with names in its rows and columns.

    Rows and columns may be in any order, and there may be more than variables. The diagonal is ignored
    and may be empty. The matrix is made of tuples, because checkpoints compare settings by their text,
    and numpy abbreviates the text of arrays.
    """
    columns, rows = _cells(Path(path))
    for names, what in ((columns, "column"), (list(rows), "row")):
        missing = [name for name in variables if name not in names]
        if missing:
            raise InputError(f"the edge prior in {path} has no {what} {missing[0]!r}")
    places = [columns.index(name) for name in variables]
    matrix = []
    for name in variables:
        cells = [rows[name][place] for place in places]
        numbers = []
        for other, cell in zip(variables, cells, strict=True):
            if name == other and cell.lower() in _EMPTY:
                cell = "0.5"  # the diagonal is ignored
            try:
                numbers.append(float(cell))
            except ValueError:
                raise InputError(
                    f"the edge prior in {path} has {cell!r} in row {name!r}, column {other!r}; give a "
                    "probability between 0 and 1"
                ) from None
        matrix.append(tuple(numbers))
    return tuple(matrix)


def _cells(path: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names of the columns, and the cells of every row by its name."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the edge prior in {path} is not UTF-8 text; save it as UTF-8") from error
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    try:
        lines = [
            [cell.strip() for cell in line]
            for line in csv.reader(text.splitlines(), delimiter=delimiter)
            if any(cell.strip() for cell in line)
        ]
    except csv.Error as error:
        raise InputError(f"the edge prior in {path} is no table: {error}") from error
    if len(lines) < 2:
        raise InputError(
            f"the edge prior in {path} is no table: give the variables' names in the first line and, "
            "below it, one line per variable that begins with its name"
        )
    columns, *lines = lines
    if len(columns) == len(lines[0]):  # R leaves out the cell above the names of the rows
        columns = columns[1:]
    rows: dict[str, list[str]] = {}
    for name, *cells in lines:
        if len(cells) != len(columns):
            raise InputError(
                f"the edge prior in {path} has {len(columns)} columns, but {len(cells)} numbers in row "
                f"{name!r}"
            )
        if name in rows:
            raise InputError(f"the edge prior in {path} has two rows {name!r}")
        rows[name] = cells
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InputError(f"the edge prior in {path} has two columns {twice[0]!r}")
    return columns, rows
