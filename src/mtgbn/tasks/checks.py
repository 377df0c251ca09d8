"""From the rows of a task to its scatter T_i and degrees of freedom n_i (docs/model.md).

Everything that can be wrong with numbers is found here, whatever constructor they came through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from mtgbn.errors import InputError
from mtgbn.tasks.collinearity import Relation, find_relations
from mtgbn.tasks.tables import Table, as_matrix, is_missing

# Entries of a given scatter may differ by this much, relative to the product of the standard
# deviations, from those of a symmetric, positive semidefinite matrix: rounding of any data source.
_ROUNDING = 1e-8
# A column whose values differ only in the last bits holds rounding, not data.
_CONSTANT = 4 * np.finfo(np.float64).eps
_NUMBERS = (Real, Decimal, np.bool_)


class Options(TypedDict, total=False):
    """Keyword options that every constructor from raw data accepts; see `Tasks`."""

    centre: bool
    standardise: bool
    effective_samples: str | float | Sequence[float] | Mapping[str, float] | None
    missing: Literal["error", "em"]


class Reduced(NamedTuple):
    """What is kept of one task; the rows only if values are missing."""

    scatter: np.ndarray
    n: float
    relations: list[Relation]
    centre: np.ndarray
    scale: np.ndarray
    rows: np.ndarray | None = None


def finite_floats(table: Table, missing_allowed: bool | None = None) -> np.ndarray:
    """The values as a new float64 array in row order; text and infinity are errors.

    So is nan, unless ``missing_allowed``. Where nothing could allow it this is None, and the
    message does not offer it.
    """
    values = table.values
    if values.dtype.kind in "mM":
        raise InputError(
            f"task {table.task!r}, variable {table.columns[0]!r}: value {values[0, 0]} at "
            f"{table.place(0)} is a date or a duration ({values.dtype}), not a number; convert "
            "or remove such columns"
        )
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            floats = np.array(values, dtype=np.float64, order="C")
    else:
        floats = _floats_of_objects(values.astype(object), table)
    usable = ~np.isinf(floats) if missing_allowed else np.isfinite(floats)
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        count = int(usable.size - usable.sum())
        offer = missing_allowed is False and not np.isinf(floats).any()
        raise InputError(
            f"task {table.task!r}, variable {table.columns[column]!r}: value "
            f"{floats[row, column]} at {table.place(row)} is "
            f"{'infinite' if missing_allowed else 'missing or infinite'}; the task has "
            f"{count} such value(s). Drop the rows or fill the values in"
            + (", or have them imputed with missing='em'" if offer else "")
        )
    return floats


def _floats_of_objects(values: np.ndarray, table: Table) -> np.ndarray:
    # Cell by cell is slow and only needed to find a culprit: look at the types first.
    if all(issubclass(kind, _NUMBERS) for kind in set(map(type, values.ravel().tolist()))):
        try:
            return values.astype(np.float64, order="C")
        except OverflowError:
            pass
    floats = np.empty(values.shape)
    for (row, column), value in np.ndenumerate(values):
        floats[row, column] = _number(value, table, row, column)
    return floats


def _number(value: object, table: Table, row: int, column: int) -> float:
    if isinstance(value, _NUMBERS):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if is_missing(value):
        return math.nan
    raise InputError(
        f"task {table.task!r}, variable {table.columns[column]!r}: value {value!r} at "
        f"{table.place(row)} is not a real number; remove the column or write it as numbers "
        "(with a decimal point)"
    )


def reduce_table(
    table: Table, *, centre: bool, standardise: bool, effective_size: float | None
) -> Reduced:
    """Validate the rows of one task and reduce them to sufficient statistics."""
    task, variables = table.task, table.columns
    rows = len(table.values)
    if rows == 0:
        raise InputError(f"task {task!r} has no rows; remove the task or add data")
    if rows == 1 and centre:
        raise InputError(
            f"task {task!r} has one row, of which centring leaves nothing; add rows, "
            "or use centre=False if the means are known to be zero"
        )
    values = finite_floats(table, missing_allowed=False)
    degrees = rows - 1 if centre else rows
    n = float(degrees if effective_size is None else effective_size)
    refuse_constant(values, task, variables, centre)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        centred = values
        means = np.zeros(values.shape[1])
        if centre:
            # The second pass removes the rounding error of the first mean of a large offset.
            means = values.mean(axis=0)
            centred = values - means
            correction = centred.mean(axis=0)
            centred -= correction
            means += correction
        largest = np.abs(centred).max(axis=0)
        refuse_extreme(largest, values, task, variables)
        unit = centred / largest
        unit /= np.sqrt(np.einsum("ij,ij->j", unit, unit))
        gram = _symmetric(unit.T @ unit)
        scale = np.ones(values.shape[1])
        divisor = n if effective_size is None else rows
        if standardise:
            scatter = n * gram
            np.fill_diagonal(scatter, n)
            scale = largest * np.sqrt(np.square(centred / largest).sum(axis=0) / divisor)
        else:
            scatter = _symmetric(centred.T @ centred)
            if effective_size is not None:
                scatter *= effective_size / rows
            refuse_extreme(np.diag(scatter), values, task, variables)
    return Reduced(scatter, n, find_relations(unit, gram, degrees), means, scale)


def refuse_constant(values: np.ndarray, task: str, variables: Sequence[str], centre: bool) -> None:
    """Refuse a variable without variation, or of zeros if the mean is known; nan is no value."""
    magnitude = np.nanmax(np.abs(values), axis=0)
    if centre:
        with np.errstate(over="ignore"):
            spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
            constant = spread <= _CONSTANT * magnitude
    else:
        constant = magnitude == 0
    if constant.any():
        column = int(np.argmax(constant))
        known = values[~np.isnan(values[:, column]), column]
        where = "all" if len(known) == len(values) else "the observed"
        raise InputError(
            f"task {task!r}, variable {variables[column]!r} is constant (value "
            f"{known[0]} in {where} {len(known)} rows); remove the variable from every "
            "task, or the task"
        )


def refuse_extreme(
    sizes: np.ndarray, values: np.ndarray, task: str, variables: Sequence[str]
) -> None:
    """Sums of squares that overflow or vanish would become inf or 0 without a word."""
    usable = np.isfinite(sizes) & (sizes >= np.finfo(np.float64).tiny)
    if not usable.all():
        column = int(np.argmin(usable))
        row = int(np.argmax(np.abs(values[:, column])))
        raise InputError(
            f"task {task!r}, variable {variables[column]!r}: values as large as "
            f"{values[row, column]} make sums of squares beyond the range of float64; "
            "rescale the variable (use other units)"
        )


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return 0.5 * matrix + 0.5 * matrix.T


def check_scatter(data: object, task: str, variables: Sequence[str]) -> np.ndarray:
    """A given scatter, made exactly symmetric once it is known to be one up to rounding."""
    p = len(variables)
    matrix = as_matrix(data, task, "(variables x variables)")
    if matrix.shape != (p, p):
        raise InputError(
            f"task {task!r}: the scatter has shape {matrix.shape} for {p} variables; "
            f"expected {(p, p)}"
        )
    scatter = finite_floats(Table(task, tuple(variables), matrix))
    diagonal = np.diag(scatter)
    if not (diagonal > 0).all():
        column = int(np.argmin(diagonal > 0))
        raise InputError(
            f"task {task!r}, variable {variables[column]!r}: the diagonal of the scatter is "
            f"{diagonal[column]}; it must be positive, remove the variable if it is constant"
        )
    # Sums of squares of such numbers keep all their digits.
    extreme = (diagonal < 1e-140) | (diagonal > 1e140)
    if extreme.any():
        column = int(np.argmax(extreme))
        raise InputError(
            f"task {task!r}, variable {variables[column]!r}: the diagonal of the scatter is "
            f"{diagonal[column]}; rescale the variable (use other units)"
        )
    scale = np.sqrt(diagonal)
    correlation = scatter / scale[:, None] / scale
    eps = np.finfo(matrix.dtype).eps if matrix.dtype.kind == "f" else 0.0
    tolerance = max(_ROUNDING, 16 * float(eps))
    difference = np.abs(correlation - correlation.T)
    i, j = np.unravel_index(np.argmax(difference), difference.shape)
    if difference[i, j] > tolerance:
        raise InputError(
            f"task {task!r}: the scatter is not symmetric, {variables[i]!r} with "
            f"{variables[j]!r} is {scatter[i, j]} but the reverse is {scatter[j, i]}"
        )
    smallest = np.linalg.eigvalsh(_symmetric(correlation))[0]
    if smallest < -tolerance * p:
        vector = np.abs(np.linalg.eigh(_symmetric(correlation))[1][:, 0])
        i, j = sorted(np.argsort(vector)[-2:])
        raise InputError(
            f"task {task!r}: the scatter is not positive semidefinite (its correlations have the "
            f"eigenvalue {smallest:.3g}), mostly through variables {variables[i]!r} and "
            f"{variables[j]!r}; pass X'X of the centred data"
        )
    return _symmetric(scatter)


def check_degrees(ns: object, names: Sequence[str]) -> np.ndarray:
    """Given degrees of freedom, one positive number per task."""
    try:
        degrees = np.array(ns, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"ns must hold one number per task ({error})") from error
    if degrees.shape != (len(names),):
        raise InputError(
            f"ns has shape {degrees.shape} for {len(names)} tasks; give one n per task"
        )
    for task, n in zip(names, degrees, strict=True):
        if not 0 < n < math.inf:
            raise InputError(f"task {task!r}: n is {n}; it must be positive and finite")
    return degrees
