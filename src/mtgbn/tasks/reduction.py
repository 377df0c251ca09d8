"""From the rows of a task to its scatter T_i and degrees of freedom n_i (docs/model.md)."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from mtgbn.errors import InputError
from mtgbn.tasks.autocorrelation import effective_size, independent_share
from mtgbn.tasks.checks import finite_floats, refuse_constant, refuse_extreme, symmetric
from mtgbn.tasks.collinearity import Relation, find_relations
from mtgbn.tasks.table import Table


class Options(TypedDict, total=False):
    """Options of every constructor from raw data; `Tasks` describes them."""

    centre: bool
    standardise: bool
    effective_samples: str | float | Sequence[float] | Mapping[str, float] | None
    missing: Literal["error", "em"]


class ReducedTask(NamedTuple):
    """One task as its scatter, n, and the table that they were computed from."""

    table: Table
    """Its values are float64, nan where missing; rows without any value are left out."""
    scatter: np.ndarray
    n: float
    centre: np.ndarray
    """(p,), subtracted from every variable."""
    scale: np.ndarray
    """(p,), by which every variable was then divided."""
    relations: list[Relation]
    """Variables that are linear combinations of others."""
    incomplete_rows: np.ndarray | None
    """(rows, p), centred and scaled, nan where missing; None if no value is missing."""
    independent_share: float
    """Share of their number that the rows are worth, if they count in full; nan if it is unknown."""


def reduce_table(
    table: Table,
    *,
    centre: bool = True,
    standardise: bool = False,
    effective_samples: str | float | None = None,
    missing: Literal["error", "em"] = "error",
) -> ReducedTask:
    """Check the rows of one task and reduce them to sufficient statistics.

    The options are those of `Tasks`, with one number for this task. Tables of several tasks must be
    aligned (`mtgbn.tasks.table.align`) first; `Tasks.from_reduced` makes one `Tasks` of the results.

    Of a task with missing values the scatter is a first guess, which only has to be a valid scatter near
    the data: missing values are drawn later, given the graphs and sigma_h, from the rows that are kept.
    Here they count as the observed mean; rows and columns of the scatter are then multiplied so that its
    diagonal has the observed variances, which keeps it positive semidefinite. A variable with fewer than
    two observed values has zeros, until `fill_unobserved` takes its variance from the other tasks.
    """
    for name, value in (("centre", centre), ("standardise", standardise)):
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name} must be True or False; got {value!r}")
    if not isinstance(missing, str) or missing not in ("error", "em"):
        raise InputError(f"missing must be 'error' or 'em'; got {missing!r}")
    in_time = table
    if missing == "em":
        in_time = table._replace(values=finite_floats(table, missing_allowed=True))
        table = without_empty_rows(table)
    size = effective_size(effective_samples, in_time, missing_allowed=missing == "em")
    lacks_values = missing == "em" and bool(np.isnan(table.values).any())
    task, variables, rows = table.task, table.columns, len(table.values)
    if lacks_values and not centre:
        raise InputError(
            f"task {task!r} has missing values, and imputation also draws the means; use "
            "centre=True, or fill the values in"
        )
    if rows == 0:
        raise InputError(f"task {task!r} has no rows; remove the task or add data")
    if rows == 1 and centre:
        raise InputError(
            f"task {task!r} has one row, which centring makes zero; add rows"
            + ("" if lacks_values else ", or use centre=False if the means are known to be zero")
        )
    values = table.values if lacks_values else finite_floats(table, missing_allowed=False)
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0)
    varied = counts >= (2 if lacks_values else 1)
    if not varied.any():
        raise InputError(
            f"task {task!r} has no variable with two observed values; remove the task or add data"
        )
    # Who gives a number of effective samples, or "none", has thought of it.
    share = float("nan")
    if effective_samples is None:
        share = independent_share(in_time if missing == "em" else table._replace(values=values))
    refuse_constant(values[:, varied], task, np.array(variables)[varied].tolist(), bool(centre))
    degrees = rows - 1 if centre else rows
    n = float(degrees if size is None else size)
    known = np.where(observed, values, 0.0)
    centred, means, scale = known, np.zeros(len(variables)), np.ones(len(variables))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # The second pass removes the rounding error of the first mean of a large offset.
        for _ in range(2 if centre else 0):
            shift = centred.sum(axis=0) / np.maximum(counts, 1)
            centred = np.where(observed, centred - shift, 0.0)
            means += shift
        largest = np.where(varied, np.abs(centred).max(axis=0), 1.0)
        refuse_extreme(largest, known, task, variables)
        unit = centred / largest
        lengths = np.where(varied, np.sqrt(np.einsum("ij,ij->j", unit, unit)), 1.0)
        unit /= lengths
        gram = symmetric(unit.T @ unit)
        if lacks_values:
            free = np.maximum(counts - 1, 1)
            deviations = np.where(varied, largest * lengths / np.sqrt(free), 1.0)
            scale = deviations if standardise else scale
            spread = np.where(varied, deviations / scale, 0.0)
            scatter = n * gram * np.outer(spread, spread)
            np.fill_diagonal(scatter, n * spread**2)
        elif standardise:
            scatter = n * gram
            np.fill_diagonal(scatter, n)
            divisor = n if size is None else rows
            scale = largest * np.sqrt(np.square(centred / largest).sum(axis=0) / divisor)
        else:
            scatter = symmetric(centred.T @ centred)
            if size is not None:
                scatter *= size / rows
        refuse_extreme(np.where(varied, np.diag(scatter), 1.0), known, task, variables)
    return ReducedTask(
        table=table._replace(values=values),
        scatter=scatter,
        n=n,
        centre=means,
        scale=scale,
        relations=[] if lacks_values else find_relations(unit, gram, degrees),
        incomplete_rows=np.where(observed, centred / scale, np.nan) if lacks_values else None,
        independent_share=share,
    )


def without_empty_rows(table: Table) -> Table:
    """Return the table as floats, nan where a value is missing, without the rows that hold no value.

    A row without a value has no information; its imputation would only slow the chains down.
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
    return table._replace(values=values[kept], row_numbers=[numbers[row] for row in kept.tolist()])


def fill_unobserved(reduced: Sequence[ReducedTask]) -> list[np.ndarray]:
    """Return the scatters; a variable that a task lacks gets its mean variance in the other tasks."""
    variances = np.array([np.diag(task.scatter) / task.n for task in reduced])
    present = variances > 0
    unknown = ~present.any(axis=0)
    if unknown.any():
        name = reduced[0].table.columns[int(np.argmax(unknown))]
        raise InputError(
            f"variable {name!r} has two observed values in no task; remove the variable or add data"
        )
    typical = variances.sum(axis=0) / present.sum(axis=0)
    scatters = [task.scatter.copy() for task in reduced]
    for scatter, task, lacking in zip(scatters, reduced, ~present, strict=True):
        absent = np.flatnonzero(lacking)
        scatter[absent, absent] = task.n * typical[absent]
    return scatters
