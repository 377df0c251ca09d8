"""The rows of one task as a `Table`, and the common variables of several tables."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mtgbn._utils.names import check_names, check_variables, listed
from mtgbn.errors import InputError


class Table(NamedTuple):
    """The rows of one task as they were read, and where an error finds each of them."""

    task: str
    columns: tuple[str, ...]
    values: np.ndarray
    """(rows, columns), of any type."""
    file: str | None = None
    row_numbers: Sequence[int] | None = None
    """Of the rows in the file or in the user's data; None: 0, 1, 2, ..."""
    most_samples: float | None = None
    """Largest number of independent samples that the rows are worth, if a record beside them says."""

    def place(self, row: int) -> str:
        """Say where the user finds this row."""
        number = row if self.row_numbers is None else self.row_numbers[row]
        return f"line {number} of {self.file}" if self.file else f"row {number} (counted from 0)"


def is_frame(data: object) -> bool:
    """Whether ``data`` behaves like a DataFrame; pandas need not be installed."""
    return all(hasattr(data, name) for name in ("columns", "to_numpy", "__getitem__"))


def is_missing(value: object) -> bool:
    """Whether a cell holds nan, None, or NA or NaT of pandas."""
    # The types of pandas are known by their names, since pandas may not be installed.
    if type(value).__name__ in {"NoneType", "NAType", "NaTType"}:
        return True
    return isinstance(value, float) and math.isnan(value)


def as_matrix(data: object, task: str, shape: str = "(rows x variables)") -> np.ndarray:
    """Return the data of a task as a two-dimensional array of any type."""
    if is_frame(data):
        raise InputError(
            f"task {task!r} is a DataFrame where an array is expected; use Tasks.from_frames, "
            "which matches columns by name, or pass frame.to_numpy()"
        )
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(object), np.nan)
    try:
        matrix = np.asarray(data)
    except ValueError as error:
        raise InputError(
            f"task {task!r} is not a rectangular array ({error}); give every row the same length"
        ) from error
    if matrix.ndim != 2:
        raise InputError(
            f"task {task!r} has {matrix.ndim} dimension(s), shape {matrix.shape}; "
            f"expected a two-dimensional array {shape}"
        )
    return matrix


def align(tables: Sequence[Table], *, union: bool = False) -> list[Table]:
    """Give every table the same columns in the same order; columns are matched by name.

    The order is that of `usual_table`. With ``union`` tables may lack columns, whose values are then
    nan, and the order is that of first appearance.
    """
    if not tables:
        raise InputError("no tasks: give at least one dataset")
    check_names([table.task for table in tables], "task", origins=[table.file for table in tables])
    if union:
        return _align_to_union(tables)
    reference = usual_table(tables)
    check_variables(reference.columns, f"task {reference.task!r}: ")
    return [align_with(reference, table) for table in tables]


def usual_table(tables: Sequence[Table]) -> Table:
    """Return the first table that has the set of columns of most tables.

    The other tables are compared with it, so that an error names a task that differs from most.
    """
    usual = Counter(frozenset(table.columns) for table in tables).most_common(1)[0][0]
    return next(table for table in tables if frozenset(table.columns) == usual)


def align_with(reference: Table, table: Table) -> Table:
    """Put the columns of a table into the order of another one; refuse other columns."""
    variables = reference.columns
    if table.columns == variables:
        return table
    check_names(table.columns, "variable", f"task {table.task!r}: ")
    index = {name: position for position, name in enumerate(table.columns)}
    missing = [name for name in variables if name not in index]
    extra = [name for name in table.columns if name not in set(variables)]
    if missing or extra:
        parts = [f"lacks {listed(missing)}"] * bool(missing)
        parts += [f"has the extra {listed(extra)}"] * bool(extra)
        raise InputError(
            f"task {table.task!r} {' and '.join(parts)}, compared with the columns of task "
            f"{reference.task!r}; every task must have the same variables, unless "
            "missing='em' lets tasks lack some"
        )
    order = [index[name] for name in variables]
    return table._replace(columns=variables, values=table.values[:, order])


def _align_to_union(tables: Sequence[Table]) -> list[Table]:
    for table in tables:
        check_names(table.columns, "variable", f"task {table.task!r}: ")
    variables = check_variables(dict.fromkeys(name for table in tables for name in table.columns))
    position = {name: column for column, name in enumerate(variables)}
    aligned = []
    for table in tables:
        if table.columns == variables:
            aligned.append(table)
            continue
        # An object array keeps cells that are not numbers for the check that names them.
        kind = table.values.dtype if table.values.dtype.kind == "f" else object
        values = np.full((len(table.values), len(variables)), np.nan, dtype=kind)
        values[:, [position[name] for name in table.columns]] = table.values
        aligned.append(table._replace(columns=variables, values=values))
    return aligned
