"""Conditional Granger causality of one multivariate series (docs/model.md, section 17)."""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import listed
from mtgbn.errors import InputError
from mtgbn.fmri._series import check_series
from mtgbn.tasks.collinearity import TOLERANCE, find_relations
from mtgbn.tasks.table import Table


class GrangerResult(NamedTuple):
    """Tests of all ordered pairs; entry [i, j] is about i -> j, and the diagonal is nan."""

    order: int
    """Number of past volumes in the vector autoregression."""
    f_statistics: np.ndarray
    """(p, p); these rank the pairs as p-values do."""
    p_values: np.ndarray
    """(p, p), not corrected for the number of pairs."""
    degrees_of_freedom: tuple[int, int]
    """Of the numerator and the denominator of every F statistic."""


def granger_causality(
    series: Any,
    *,
    order: int | Literal["bic"] = "bic",
    max_order: int = 5,
    denominator: Literal["system", "equation"] = "system",
    task: str = "series",
) -> GrangerResult:
    """Test for every ordered pair whether the past of i helps to predict j (Granger causality).

    One vector autoregression with an intercept is fitted by least squares; the F-test of i -> j drops
    the past of i from the equation of j and keeps the past of all other variables.

    Parameters
    ----------
    series : array or DataFrame (n, p)
        One row per volume, in the order of time and without gaps; one column per variable.
    order : int or "bic"
        Number of past volumes in the autoregression. "bic" chooses among 1, ..., max_order, all
        fitted to the same n - max_order volumes; the tests then use all n - order.
    max_order : int
    denominator : {"system", "equation"}
        Degrees of freedom of the denominator. "equation": d = n - order - 1 - p order, of the residuals
        of one equation, which is exact for fixed regressors. "system": p d, of all equations, after
        Lütkepohl (2005, section 3.6) and as in statsmodels. P-values differ only if d is small.
    task : str
        Name of the series in error messages.

    Notes
    -----
    A band-pass filter and the haemodynamic response both change the order in time of what happens in
    the regions; p-values of filtered series are not calibrated at any order.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(200, 2))
    >>> series = noise.copy()
    >>> series[1:, 1] += noise[:-1, 0]
    >>> found = granger_causality(series, order=1)
    >>> bool(found.p_values[0, 1] < 0.001 < found.p_values[1, 0])
    True
    """
    if denominator not in ("system", "equation"):
        raise InputError(f'denominator must be "system" or "equation"; got {denominator!r}')
    by_bic = isinstance(order, str)
    if by_bic and order != "bic":
        raise InputError(f'order must be a whole number of at least 1 or "bic"; got {order!r}')
    largest = max_order if by_bic else order
    check_count("max_order" if by_bic else "order", largest, 1)
    table = check_series(series, task)
    _refuse_few_rows(table, int(largest), by_bic)
    # Standardised, because the tolerances depend on units; tests and differences of BIC do not.
    values = table.values - table.values.mean(axis=0)
    values /= np.abs(values).max(axis=0)
    values /= np.sqrt(np.mean(values * values, axis=0))
    standard = table._replace(values=values)
    _refuse_collinear(standard)
    chosen = _order_by_bic(standard, int(max_order)) if by_bic else int(order)
    return _test_all(standard, chosen, denominator)


def _test_all(table: Table, order: int, denominator: str) -> GrangerResult:
    """Compute the F-tests of all pairs from one triangular factor, without coefficients."""
    n, p = table.values.shape
    size = 1 + p * order
    triangle = _triangle(table, order)
    past, fitted, left = triangle[:size, :size], triangle[:size, size:], triangle[size:, size:]
    residual = np.einsum("kj,kj->j", left, left)
    if (exact := np.sqrt(residual) <= TOLERANCE * np.sqrt(n - order)).any():
        raise InputError(
            f"task {table.task!r}, variable {table.columns[int(np.argmax(exact))]!r} is predicted "
            f"without error by the last {order} row(s) of all variables, so nothing can be tested; "
            "remove it if it is another variable shifted in time, or lower the order if the series "
            "was filtered or interpolated to be this smooth"
        )
    # The rows of the inverse factor that belong to the past of i span, in the coordinates of the
    # factor, the space that is orthogonal to every other column. The sum of squares of the fit in this
    # space is the loss without the past of i.
    inverse = solve_triangular(past, np.eye(size), check_finite=False)
    blocks = inverse[1:].reshape(order, p, size).transpose(1, 2, 0)
    own, _ = np.linalg.qr(blocks)
    lost = np.square(own.transpose(0, 2, 1) @ fitted).sum(axis=1)
    freedom = n - order - size
    statistics = (lost / order) / (residual / freedom)
    np.fill_diagonal(statistics, np.nan)
    degrees = (order, freedom * (p if denominator == "system" else 1))
    return GrangerResult(order, statistics, fdtrc(*degrees, statistics), degrees)


def _order_by_bic(table: Table, max_order: int) -> int:
    """Choose the order by BIC among 1, 2, ... on the same volumes; order 0 has nothing to test."""
    n, p = table.values.shape
    rows, size = n - max_order, 1 + p * max_order
    # Columns go from recent to remote, so the rows of the factor below those of an order have the
    # residuals of this order.
    triangle = _triangle(table, max_order)
    criteria = []
    for order in range(1, max_order + 1):
        left = np.linalg.qr(triangle[1 + p * order :, size:], mode="r")
        pivots = np.abs(np.diag(left)) / np.sqrt(rows)
        if (exact := pivots <= TOLERANCE).any():
            raise InputError(
                f"task {table.task!r}, variable {table.columns[int(np.argmax(exact))]!r} is an exact "
                f"function of the present of earlier variables and the last {order} row(s) of all; "
                "remove it, or give the order instead of choosing it by BIC"
            )
        log_determinant = 2 * np.log(pivots).sum()
        criteria.append(log_determinant + np.log(rows) / rows * p * (p * order + 1))
    return 1 + int(np.argmin(criteria))


def _triangle(table: Table, order: int) -> np.ndarray:
    """Return the triangular factor of the columns [1, lag 1, ..., lag order, present]."""
    values = table.values
    n, p = values.shape
    lags = [values[order - lag : n - lag] for lag in range(order + 1)]
    columns = np.hstack([np.ones((n - order, 1)), *lags[1:], lags[0]])
    triangle: np.ndarray = np.asarray(np.linalg.qr(columns, mode="r"))
    pivots = np.abs(np.diag(triangle)[: 1 + p * order]) / np.sqrt(n - order)
    if (dependent := pivots <= TOLERANCE).any():
        lag, variable = divmod(int(np.argmax(dependent)) - 1, p)
        raise InputError(
            f"task {table.task!r}, variable {table.columns[variable]!r}: its values {lag + 1} row(s) "
            "before are a linear combination of those of other variables or other rows (or constant), "
            f"so an autoregression of order {order} is not determined; lower the order or remove the "
            "variable"
        )
    return triangle


def _refuse_few_rows(table: Table, order: int, by_bic: bool) -> None:
    n, p = table.values.shape
    # BIC needs a residual covariance of full rank, an F-test one degree of freedom.
    spare = p if by_bic else 1
    needed = order + 1 + p * order + spare
    if n >= needed:
        return
    name, largest = "max_order" if by_bic else "order", (n - 1 - spare) // (p + 1)
    advice = f"lower {name} to {largest} at most" if largest else "use fewer variables"
    raise InputError(
        f"task {table.task!r} has {n} rows; {name}={order} with {p} variables needs {needed}; "
        f"{advice}, or use longer series"
    )


def _refuse_collinear(table: Table) -> None:
    unit = table.values / np.sqrt(len(table.values))
    relations = find_relations(unit, unit.T @ unit, len(unit) - 1)
    if relations:
        names, (dependent, others) = table.columns, relations[0]
        raise InputError(
            f"task {table.task!r}, variable {names[dependent]!r} is a linear combination of "
            f"{listed(names[other] for other in others)}, so their pasts cannot be told apart; "
            "remove one of them"
        )
