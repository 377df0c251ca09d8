"""Named tables: whatever the user has in memory, as one table per task with common variables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import (
    check_names,
    check_variables,
    default_variables,
    listed,
    task_names,
    unknown_name,
)
from mtgbn.errors import InputError


class Table(NamedTuple):
    """The rows of one task as they came, with what an error needs to point at one of them.

    ``most_samples`` is what the rows are worth at most, where whoever made them said so.
    """

    task: str
    columns: tuple[str, ...]
    values: np.ndarray
    file: str | None = None
    row_numbers: Sequence[int] | None = None
    most_samples: float | None = None

    def place(self, row: int) -> str:
        """Where the user finds this row."""
        number = row if self.row_numbers is None else self.row_numbers[row]
        return f"line {number} of {self.file}" if self.file else f"row {number} (counted from 0)"


def is_frame(data: object) -> bool:
    """Whether ``data`` behaves like a DataFrame; pandas itself is never needed."""
    return all(hasattr(data, name) for name in ("columns", "to_numpy", "__getitem__"))


def is_missing(value: object) -> bool:
    """Whether a cell holds one of the many objects that stand for nothing."""
    # pandas' NA and NaT are told by their type's name: pandas may not be installed.
    if type(value).__name__ in {"NoneType", "NAType", "NaTType"}:
        return True
    return isinstance(value, float) and math.isnan(value)


def as_matrix(data: object, task: str, shape: str = "(rows x variables)") -> np.ndarray:
    """A task's data as a two-dimensional array of whatever type it has."""
    if is_frame(data):
        raise InputError(
            f"task {task!r} is a DataFrame where an array is expected; use Tasks.from_frames, "
            "which matches columns by name, or pass frame.to_numpy()"
        )
    if isinstance(data, np.ma.MaskedArray):
        data = data.astype(object).filled(np.nan)
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


def tables_from_arrays(
    arrays: Iterable[Any], variables: Iterable[object] | None, names: Iterable[object] | None
) -> list[Table]:
    """One table per (rows x variables) array; columns are matched by position."""
    if isinstance(arrays, str | bytes | Mapping) or is_frame(arrays):
        raise InputError(
            f"from_arrays expects a list of arrays, got {type(arrays).__name__}; "
            "Tasks.from_any accepts every kind of input"
        )
    try:
        arrays = list(arrays)
    except TypeError as error:
        raise InputError(
            f"from_arrays expects a list of arrays, got {type(arrays).__name__}"
        ) from error
    tables: list[Table] = []
    columns = None if variables is None else check_names(variables, "variable")
    for task, array in zip(task_names(names, len(arrays)), arrays, strict=True):
        values = as_matrix(array, task)
        if columns is None:
            columns = default_variables(values.shape[1])
        if values.shape[1] != len(columns):
            expected = f"task {tables[0].task!r} has" if variables is None else "`variables` names"
            raise InputError(
                f"task {task!r} has {values.shape[1]} columns but {expected} {len(columns)}; "
                "every task must have the same variables"
            )
        tables.append(Table(task, columns, values))
    return tables


def tables_from_frames(
    frames: Mapping[Hashable, Any] | Iterable[Any], names: Iterable[object] | None
) -> list[Table]:
    """One table per DataFrame, each still in its own column order."""
    if isinstance(frames, Mapping):
        if names is not None:
            raise InputError("the keys of the dict are the task names; leave out `names`")
        names, frames = list(frames), list(frames.values())
    elif is_frame(frames) or isinstance(frames, str | bytes) or not isinstance(frames, Iterable):
        raise InputError(
            f"from_frames expects a dict or a list of DataFrames, got {type(frames).__name__}; "
            "for one long DataFrame with a task column use Tasks.from_long"
        )
    frames = list(frames)
    tables = []
    for task, frame in zip(task_names(names, len(frames)), frames, strict=True):
        if not is_frame(frame):
            raise InputError(
                f"task {task!r} is of type {type(frame).__name__} where a DataFrame is expected; "
                "use Tasks.from_arrays for arrays"
            )
        tables.append(Table(task, tuple(str(label) for label in frame.columns), frame.to_numpy()))
    return tables


def tables_from_long(frame: Any, task: str) -> list[Table]:
    """One table per value of the task column, in the order of first appearance."""
    if not is_frame(frame):
        raise InputError(f"from_long expects one DataFrame, got {type(frame).__name__}")
    labels = list(frame.columns)
    check_names(labels, "column", "the long DataFrame: ")
    if task not in labels:
        raise unknown_name(task, [str(label) for label in labels], "column")
    labels.remove(task)
    columns = tuple(str(label) for label in labels)
    values = frame[labels].to_numpy()
    position: dict[Hashable, int] = {}
    codes = []
    for row, name in enumerate(frame[task].to_numpy().tolist()):
        if is_missing(name):
            raise InputError(
                f"column {task!r}: row {row} (counted from 0) names no task (value {name}); "
                "fill it in or drop the row"
            )
        codes.append(position.setdefault(name, len(position)))
    counts = np.bincount(codes, minlength=len(position)) if codes else []
    rows_by_task = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    return [
        Table(str(name), columns, values[rows], row_numbers=rows)
        for name, rows in zip(position, rows_by_task, strict=False)
    ]


def align(tables: Sequence[Table], *, union: bool = False) -> list[Table]:
    """Give every table the same columns in the same order; columns are matched by name.

    The order is that of the first usual table. With ``union`` tables may lack columns, which are
    then nan, and the order is that of first appearance.

    Raises
    ------
    InputError
        When there are no tasks, a name is used twice, or the columns of two tasks differ.
    """
    if not tables:
        raise InputError("no tasks: give at least one dataset")
    check_names([table.task for table in tables], "task", origins=[table.file for table in tables])
    if union:
        return _align_to_union(tables)
    # The set of columns that most tasks have is the rule, so that the odd one out gets the blame.
    usual = Counter(frozenset(table.columns) for table in tables).most_common(1)[0][0]
    reference = next(table for table in tables if frozenset(table.columns) == usual)
    variables = check_variables(reference.columns, f"task {reference.task!r}: ")
    aligned = []
    for table in tables:
        if table.columns == variables:
            aligned.append(table)
            continue
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
        aligned.append(table._replace(columns=variables, values=table.values[:, order]))
    return aligned


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
        # Objects keep whatever the cells hold for the check that names what is no number.
        kind = table.values.dtype if table.values.dtype.kind == "f" else object
        values = np.full((len(table.values), len(variables)), np.nan, dtype=kind)
        values[:, [position[name] for name in table.columns]] = table.values
        aligned.append(table._replace(columns=variables, values=values))
    return aligned
