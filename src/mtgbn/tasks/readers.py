"""Readers: files, frames and arrays become one `Table` per task."""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import read_npz
from mtgbn._utils.names import check_names, default_variables, task_names, unknown_name
from mtgbn.errors import InputError
from mtgbn.tasks.table import Table, as_matrix, is_frame, is_missing
from mtgbn.tasks.text_files import tables_from_folder, tables_from_long_file

_ACCEPTED = (
    "the path of a folder with one CSV/TSV file per task, of one long table or of an .npz, a "
    "dict or list of DataFrames, a dict or list of (rows x variables) arrays, a 3-D array, a 2-D "
    "array (one task), or one long DataFrame with a task column"
)
READING_OPTIONS = ("pattern", "task", "variables", "names")


def read_tables(
    data: Any,
    *,
    pattern: str | None = None,
    task: str | None = None,
    variables: Iterable[object] | None = None,
    names: Iterable[object] | None = None,
    unreadable: Callable[[str, InputError], object] | None = None,
) -> list[Table]:
    """Read data of any kind as one table per task; `Tasks.from_tables` takes them.

    Parameters
    ----------
    data : path, dict, list, array or DataFrame
        A folder as for `Tasks.from_folder`, a file as for `Tasks.from_file`, one long DataFrame as for
        `Tasks.from_long`, a dict or list of DataFrames or of (rows x variables) arrays, a 3-D array, or
        a 2-D array, which is one task.
    pattern : str, optional
        Which files of a folder to read.
    task : str, optional
        The column of a long table that says which task a row belongs to. Default: "task".
    variables, names : sequence of str, optional
        Names of the columns of arrays, and of the tasks of a list of arrays or frames.
    unreadable : callable, optional
        Called with the task and the error of each file of a folder that is no table, which would
        otherwise be raised.

    Returns
    -------
    list of Table
        Each has ``task``, ``columns`` (in any order) and ``values`` (rows, columns) as they were read.

    Examples
    --------
    >>> import numpy as np
    >>> tables = read_tables({"sub-1": np.eye(3), "sub-2": np.ones((5, 3))})
    >>> [(table.task, table.values.shape) for table in tables]
    [('sub-1', (3, 3)), ('sub-2', (5, 3))]
    """
    column = "task" if task is None else task
    if isinstance(data, str | os.PathLike):
        _refuse(f"the file or folder {os.fspath(data)!r}", variables=variables, names=names)
        if os.path.isfile(data):
            return tables_from_file(data, column)
        return tables_from_folder(data, pattern, unreadable)
    if is_frame(data):
        _refuse("a long DataFrame", variables=variables, names=names, pattern=pattern)
        if column not in list(data.columns):
            raise InputError(
                f"the DataFrame has no column {column!r}; name the column that holds the task "
                "with task=..., or pass [frame] if all its rows are one task"
            )
        return tables_from_long(data, column)
    _refuse(f"data of type {type(data).__name__}", pattern=pattern, task=task)
    if isinstance(data, np.ndarray) and data.ndim in (2, 3):
        return tables_from_arrays(data if data.ndim == 3 else [data], variables, names)
    if isinstance(data, Mapping | list | tuple):
        items = list(data.values() if isinstance(data, Mapping) else data)
        if any(is_frame(item) for item in items):
            _refuse("DataFrames", variables=variables)
            return tables_from_frames(data, names)
        if isinstance(data, Mapping) and names is None:
            names = list(data)
        return tables_from_arrays(items, variables, names)
    shape = f" with {data.ndim} dimension(s)" if isinstance(data, np.ndarray) else ""
    raise InputError(f"cannot read tasks from {type(data).__name__}{shape}; give {_ACCEPTED}")


def _refuse(source: str, **options: object) -> None:
    """Refuse options that have no effect on this kind of data."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"the option {name!r} has no effect on {source}; leave it out")


def tables_from_arrays(
    arrays: Iterable[Any], variables: Iterable[object] | None, names: Iterable[object] | None
) -> list[Table]:
    """Make one table per (rows x variables) array; columns are matched by position."""
    is_other = isinstance(arrays, str | bytes | Mapping) or is_frame(arrays)
    if is_other or not np.iterable(arrays):
        raise InputError(
            f"from_arrays expects a list of arrays, got {type(arrays).__name__}; "
            "Tasks.from_any accepts every kind of input"
        )
    arrays = list(arrays)
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
    """Make one table per DataFrame, each in its own column order."""
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
    """Make one table per value of the task column, in the order of first appearance."""
    if not is_frame(frame):
        raise InputError(f"from_long expects one DataFrame, got {type(frame).__name__}")
    labels = list(frame.columns)
    check_names(labels, "column", "the long DataFrame: ")
    if task not in labels:
        raise unknown_name(task, [str(label) for label in labels], "column")
    labels.remove(task)
    columns = tuple(str(label) for label in labels)
    values = frame[labels].to_numpy()
    rows_of: dict[Hashable, list[int]] = {}
    for row, name in enumerate(frame[task].to_numpy().tolist()):
        if is_missing(name):
            raise InputError(
                f"column {task!r}: row {row} (counted from 0) names no task (value {name}); "
                "fill it in or drop the row"
            )
        rows_of.setdefault(name, []).append(row)
    return [
        Table(str(name), columns, values[rows], row_numbers=rows) for name, rows in rows_of.items()
    ]


def tables_from_file(path: str | os.PathLike[str], task: str) -> list[Table]:
    """Read all tasks of one file: an .npz with one array per task, or a long text table."""
    file = Path(path)
    if file.suffix.lower() != ".npz":
        return tables_from_long_file(file, task)
    try:
        arrays = read_npz(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"file {str(file)!r} is not an .npz of plain arrays ({error}); write it with "
            "numpy.savez(file, sub1=array1, sub2=array2, variables=names)"
        ) from error
    variables = arrays.pop("variables", None)
    if variables is not None and (variables.ndim != 1 or variables.dtype.kind not in "US"):
        raise InputError(f"file {str(file)!r}: 'variables' must be a list of names")
    names = None if variables is None else variables.astype(str)
    return tables_from_arrays(list(arrays.values()), names, list(arrays))
