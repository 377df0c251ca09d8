"""Tasks with missing values: what is kept of their rows, and a first guess of their scatters.

The guess only has to be a valid scatter near the data. What is missing is drawn later, given the
graphs and sigma_h (`mtgbn.sampling.imputation`), from the rows that are kept beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtgbn.errors import InputError
from mtgbn.tasks.checks import (
    Reduced,
    finite_floats,
    refuse_constant,
    refuse_extreme,
)
from mtgbn.tasks.tables import Table


def without_empty_rows(table: Table) -> Table:
    """The table as floats, nan where a value is missing, without the rows that hold no value.

    Such a row says nothing; imputed, it would only slow the sampler down.
    """
    values = finite_floats(table, missing_allowed=True)
    filled = ~np.isnan(values).all(axis=1)
    if filled.all():
        return table._replace(values=values)
    kept = np.flatnonzero(filled)
    if len(kept) < 2:
        raise InputError(
            f"task {table.task!r}: {len(kept)} of {len(values)} rows hold any value; at least 2 "
            "must, remove the task or add data"
        )
    numbers = range(len(values)) if table.row_numbers is None else table.row_numbers
    return table._replace(values=values[kept], row_numbers=[numbers[row] for row in kept])


def reduce_incomplete(
    table: Table, *, centre: bool, standardise: bool, effective_size: float | None
) -> Reduced:
    """Validate the rows of one task, of which some lack values, and guess its scatter.

    Missing values count as the observed mean; rows and columns of the scatter are then stretched to
    the observed variances, which keeps it positive semidefinite. A variable with fewer than two
    observed values has zeros instead, until `fill_unobserved` knows the other tasks.
    """
    task, variables = table.task, table.columns
    values = table.values
    rows = len(values)
    if not centre:
        raise InputError(
            f"task {task!r} has missing values, and imputation draws the means with them; use "
            "centre=True, or fill the values in"
        )
    if rows < 2:
        raise InputError(f"task {task!r} has {rows} row(s); at least 2 are needed, add rows")
    n = float(rows - 1 if effective_size is None else effective_size)
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0)
    varied = counts >= 2
    if not varied.any():
        raise InputError(
            f"task {task!r} has no variable with two observed values; remove the task or add data"
        )
    refuse_constant(values[:, varied], task, np.array(variables)[varied].tolist(), centre=True)
    known = np.where(observed, values, 0.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        means = known.sum(axis=0) / np.maximum(counts, 1)
        centred = np.where(observed, values - means, 0.0)
        # The second pass removes the rounding error of the first mean of a large offset.
        correction = centred.sum(axis=0) / np.maximum(counts, 1)
        centred = np.where(observed, centred - correction, 0.0)
        means += correction
        largest = np.where(varied, np.abs(centred).max(axis=0), 1.0)
        refuse_extreme(largest, known, task, variables)
        unit = centred / largest
        lengths = np.where(varied, np.sqrt(np.einsum("ij,ij->j", unit, unit)), 1.0)
        unit /= lengths
        deviations = np.where(varied, largest * lengths / np.sqrt(np.maximum(counts - 1, 1)), 1.0)
        scale = deviations if standardise else np.ones(len(variables))
        spread = np.where(varied, deviations / scale, 0.0)
        gram = unit.T @ unit
        scatter = n * (0.5 * gram + 0.5 * gram.T) * np.outer(spread, spread)
        np.fill_diagonal(scatter, n * spread**2)
        refuse_extreme(np.where(varied, np.diag(scatter), 1.0), known, task, variables)
    kept = np.where(observed, centred / scale, np.nan)
    return Reduced(scatter, n, [], means, scale, kept)


def fill_unobserved(reduced: Sequence[Reduced], variables: Sequence[str]) -> None:
    """Give variables that a task lacks the mean variance of the tasks that have them, in place."""
    variances = np.array([np.diag(task.scatter) / task.n for task in reduced])
    present = variances > 0
    unknown = ~present.any(axis=0)
    if unknown.any():
        name = variables[int(np.argmax(unknown))]
        raise InputError(
            f"variable {name!r} has two observed values in no task; remove the variable or add data"
        )
    typical = variances.sum(axis=0) / present.sum(axis=0)
    for task, lacking in zip(reduced, ~present, strict=True):
        absent = np.flatnonzero(lacking)
        task.scatter[absent, absent] = task.n * typical[absent]
