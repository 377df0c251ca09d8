"""The edge prior of the command line: a word, one or two numbers, or a file with a matrix."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from mtgbn._utils.tables import read_table
from mtgbn.errors import InputError

_WORDS = ("shared", "density")
_EMPTY = ("", "na", "nan", ".")


class EdgePriorFile(NamedTuple):
    """A file whose matrix is read once the names of the variables are known."""

    path: str


class EdgePriorText(click.ParamType):
    """A word, one number, two numbers with a comma between them, or the path of a file."""

    name = "edge prior"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, the number or numbers, or an `EdgePriorFile`."""
        if not isinstance(value, str) or value in _WORDS:
            return value
        try:
            numbers = tuple(float(part) for part in value.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) in (1, 2):
            return numbers if len(numbers) == 2 else numbers[0]
        if os.path.isfile(value):
            return EdgePriorFile(value)
        self.fail(
            f"{value!r} is none of 'shared', 'density', a number R, two numbers R,S "
            "(without a blank), and the path of a file",
            *(param, ctx),
        )


def read_edge_prior(path: str, variables: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Read probabilities of all pairs from a CSV or TSV file with names in its rows and columns.

    Rows and columns may be in any order, and there may be more than variables. The diagonal is ignored
    and may be empty. The matrix is made of tuples, because checkpoints compare settings by their text,
    and numpy abbreviates the text of arrays.
    """
    columns, rows = _cells(path)
    for names, what in ((columns, "column"), (list(rows), "row")):
        missing = [name for name in variables if name not in names]
        if missing:
            raise InputError(f"the edge prior in {path} has no {what} {missing[0]!r}")

    def number(name: str, other: str) -> float:
        cell = rows[name][columns.index(other)]
        if name == other and cell.lower() in _EMPTY:
            return 0.5  # the diagonal is ignored
        try:
            return float(cell)
        except ValueError:
            raise InputError(
                f"the edge prior in {path} has {cell!r} in row {name!r}, column {other!r}; give a "
                "probability between 0 and 1"
            ) from None

    return tuple(tuple(number(name, other) for other in variables) for name in variables)


def _cells(path: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names of the columns, and the cells of every row by its name."""
    table = read_table(path)
    lines = [[cell.strip() for cell in line.cells] for line in table]
    lines = [cells for cells in lines if any(cells)]
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
