"""Checks of the numbers of a task: rows from any reader, given scatters and degrees of freedom."""

import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real

import numpy as np

from mtgbn.errors import InputError
from mtgbn.tasks.table import Table, as_matrix, is_missing

# Entries of a given scatter may differ by this much, relative to the product of the standard
# deviations, from those of a symmetric, positive semidefinite matrix: data sources round.
_SCATTER_TOLERANCE = 1e-8
# A column counts as constant if its values differ, relative to their size, by rounding errors only.
_CONSTANT_TOLERANCE = 4 * np.finfo(np.float64).eps
_NUMBERS = (Real, Decimal, np.bool_)


def finite_floats(table: Table, missing_allowed: bool | None = None) -> np.ndarray:
    """Return the values as a float64 array in row order; refuse text and infinity.

    Missing values are refused unless ``missing_allowed``. None also refuses them, with a message that
    does not offer missing='em'.
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
            floats = np.asarray(values, dtype=np.float64, order="C")
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
    # A loop over cells is slow and only needed to name a culprit, so the types are checked first.
    if all(issubclass(kind, _NUMBERS) for kind in set(map(type, values.ravel().tolist()))):
        try:
            return values.astype(np.float64, order="C")
        except OverflowError:
            pass
    floats = np.empty(values.shape)
    for (row, column), value in np.ndenumerate(values):
        if not isinstance(value, _NUMBERS) and not is_missing(value):
            raise InputError(
                f"task {table.task!r}, variable {table.columns[column]!r}: value {value!r} at "
                f"{table.place(row)} is not a real number; remove the column or write it as numbers "
                "(with a decimal point)"
            )
        try:
            floats[row, column] = float(value) if isinstance(value, _NUMBERS) else math.nan
        except OverflowError:
            floats[row, column] = math.inf
    return floats


def refuse_constant(values: np.ndarray, task: str, variables: Sequence[str], centre: bool) -> None:
    """Refuse a constant variable, or one of zeros if the means are known; nan is ignored."""
    magnitude = np.nanmax(np.abs(values), axis=0)
    if centre:
        with np.errstate(over="ignore"):
            spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
            constant = spread <= _CONSTANT_TOLERANCE * magnitude
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
    """Refuse a variable whose sum of squares overflows or underflows."""
    usable = np.isfinite(sizes) & (sizes >= np.finfo(np.float64).tiny)
    if not usable.all():
        column = int(np.argmin(usable))
        row = int(np.argmax(np.abs(values[:, column])))
        raise InputError(
            f"task {task!r}, variable {variables[column]!r}: values as large as "
            f"{values[row, column]} make sums of squares beyond the range of float64; "
            "rescale the variable (use other units)"
        )


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Return the mean of a matrix and its transpose, exactly symmetric."""
    return 0.5 * matrix + 0.5 * matrix.T


def check_scatter(data: object, task: str, variables: Sequence[str]) -> np.ndarray:
    """Check that a matrix is a scatter up to rounding, and make it exactly symmetric."""
    p = len(variables)
    matrix = as_matrix(data, task, "(variables x variables)")
    if matrix.shape != (p, p):
        raise InputError(
            f"task {task!r}: the scatter has shape {matrix.shape} for {p} variables; "
            f"expected {(p, p)}"
        )
    scatter = finite_floats(Table(task, tuple(variables), matrix))
    diagonal = np.diag(scatter)
    for right, advice in (
        (diagonal > 0, "it must be positive, remove the variable if it is constant"),
        # Within these bounds sums of squares neither overflow nor lose digits.
        ((diagonal >= 1e-140) & (diagonal <= 1e140), "rescale the variable (use other units)"),
    ):
        if not right.all():
            column = int(np.argmin(right))
            raise InputError(
                f"task {task!r}, variable {variables[column]!r}: the diagonal of the scatter is "
                f"{diagonal[column]}; {advice}"
            )
    scale = np.sqrt(diagonal)
    correlation = scatter / scale[:, None] / scale
    eps = np.finfo(matrix.dtype).eps if matrix.dtype.kind == "f" else 0.0
    tolerance = max(_SCATTER_TOLERANCE, 16 * float(eps))
    difference = np.abs(correlation - correlation.T)
    i, j = map(int, np.unravel_index(np.argmax(difference), difference.shape))
    if difference[i, j] > tolerance:
        raise InputError(
            f"task {task!r}: the scatter is not symmetric, {variables[i]!r} with "
            f"{variables[j]!r} is {scatter[i, j]} but the reverse is {scatter[j, i]}"
        )
    smallest = np.linalg.eigvalsh(symmetric(correlation))[0]
    if smallest < -tolerance * p:
        vector = np.abs(np.linalg.eigh(symmetric(correlation))[1][:, 0])
        i, j = sorted(np.argsort(vector)[-2:])
        raise InputError(
            f"task {task!r}: the scatter is not positive semidefinite (its correlations have the "
            f"eigenvalue {smallest:.3g}), mostly through variables {variables[i]!r} and "
            f"{variables[j]!r}; pass X'X of the centred data"
        )
    return symmetric(scatter)


def check_degrees(ns: object, names: Sequence[str]) -> np.ndarray:
    """Check given degrees of freedom: one positive number per task."""
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
