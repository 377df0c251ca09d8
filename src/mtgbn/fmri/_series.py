"""The check of one subject's series that the methods for time series share."""

from typing import Any

import numpy as np

from mtgbn._utils.names import check_variables, default_variables, listed
from mtgbn.errors import InputError
from mtgbn.tasks.checks import finite_floats, refuse_constant, refuse_extreme
from mtgbn.tasks.table import Table, as_matrix, is_frame


def check_series(series: Any, task: str) -> Table:
    """Check that a series (one row per volume) is finite and varies; return it with names of columns."""
    if is_frame(series):
        columns = check_variables(series.columns, f"task {task!r}: ")
        table = Table(task, columns, series.to_numpy())
    else:
        values = as_matrix(series, task, "(time x variables)")
        columns = check_variables(default_variables(values.shape[1]), f"task {task!r}: ")
        table = Table(task, columns, values)
    if len(table.values) < 3:
        raise InputError(
            f"task {task!r} has {len(table.values)} row(s); a series needs at least 3, one per volume"
        )
    if table.values.dtype.kind in "biuf":
        values = np.array(table.values, dtype=np.float64, order="C")
    else:
        values = finite_floats(table, missing_allowed=True)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        names = [name for name, some in zip(columns, bad.any(axis=0), strict=True) if some]
        raise InputError(
            f"task {task!r}: {int(bad.sum())} value(s) are missing or infinite, in {listed(names)}; "
            f"the first is {values[row, column]} of {columns[column]!r} at {table.place(row)}. Fill "
            "them in (interpolate): without a volume its neighbours are not one repetition time apart"
        )
    refuse_constant(values, task, columns, centre=True)
    with np.errstate(over="ignore", under="ignore"):
        spread = values.max(axis=0) - values.min(axis=0)
        refuse_extreme(spread * spread, values, task, columns)
    return table._replace(values=values)
