"""The number of independent samples that a time series is worth (docs/model.md, section 16).

Correlations between autocorrelated series vary more than those between independent samples. Bartlett's
formula gives the variance for every pair of variables; a task has one number, the mean over its pairs.

With missing values, an autocorrelation is the mean product over those rows at its lag that are both
observed, and the formula is that of a series without gaps: gaps make rows more independent, so that the
number is rather too small than too large.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, Literal

import numpy as np

from mtgbn._utils.names import default_variables, listed, unknown_name
from mtgbn.errors import InputError
from mtgbn.tasks.checks import finite_floats, refuse_constant
from mtgbn.tasks.table import Table, as_matrix

Method = Literal["none", "ar1", "bartlett"]

_METHODS = ("none", "ar1", "bartlett")

# Autocorrelations at lags above this fraction of the rows are noise and not used.
_LARGEST_LAG = 0.25

# A variable with fewer observed values has no autocorrelations.
_FEWEST_ROWS = 4


def effective_samples(series: Any, method: Method = "bartlett") -> float:
    """Estimate the number of independent samples that a series is worth, at most its number of rows.

    Parameters
    ----------
    series : array (rows, p)
        One row per point in time, without gaps.
    method : {"none", "ar1", "bartlett"}
        "none": the number of rows. "ar1": every variable counts as a first-order autoregression.
        "bartlett": from the observed autocorrelations, up to the lag at which they become noise.

    Examples
    --------
    >>> import numpy as np
    >>> steps = np.random.default_rng(0).normal(size=(200, 4))
    >>> walk = np.array([steps[t - 9 : t + 1].mean(axis=0) for t in range(9, 200)])
    >>> len(walk), round(effective_samples(walk))
    (191, 34)
    """
    values = as_matrix(series, "series", "(rows x variables)")
    table = Table("series", default_variables(values.shape[1]), values)
    size = _estimate(_check_method(method), table)
    return float(len(values)) if size is None else size


def one_per_task(effective_samples: Any, names: Sequence[str]) -> list[Any]:
    """Return the entry of each task: a method, a number, or None where all rows count."""
    if hasattr(effective_samples, "to_dict"):  # a labelled series of pandas
        effective_samples = effective_samples.to_dict()
    if effective_samples is None or isinstance(effective_samples, str | Real):
        return [effective_samples] * len(names)
    if isinstance(effective_samples, Mapping):
        by_name = {str(name): size for name, size in effective_samples.items()}
        for name in by_name:
            if name not in names:
                raise InputError(f"effective_samples: {unknown_name(name, names, 'task')}")
        for name in names:
            if name not in by_name:
                raise InputError(f"effective_samples has no entry for task {name!r}; add one")
        return [_number(by_name[name], name) for name in names]
    if isinstance(effective_samples, Iterable) and not isinstance(effective_samples, bytes | Set):
        sizes = list(effective_samples)
        if len(sizes) != len(names):
            raise InputError(
                f"effective_samples has {len(sizes)} entries for {len(names)} tasks; "
                "give one per task, or one number for all"
            )
        return [_number(size, name) for size, name in zip(sizes, names, strict=True)]
    raise InputError(
        f"effective_samples must be {listed(_METHODS)}, a number, one number per task or a dict by task "
        f"name; got {effective_samples!r}"
    )


def effective_size(
    effective_samples: str | float | None, table: Table, *, missing_allowed: bool = False
) -> float | None:
    """Return the effective sample size of one task; None if all its rows count in full.

    If values may be missing, the table has all its rows in time, and those without any value do not
    count.
    """
    if effective_samples is None:
        return None
    if isinstance(effective_samples, str):
        return _estimate(_check_method(effective_samples), table, missing_allowed)
    size, rows = _number(effective_samples, table.task), len(table.values)
    if missing_allowed:
        rows = _filled_rows(finite_floats(table, missing_allowed=True))
    if not 0 < size <= rows:
        raise InputError(
            f"task {table.task!r}: effective_samples {size} must be above 0 and at most "
            f"the number of rows, {rows}"
        )
    return size


def independent_share(table: Table) -> float:
    """Return which share of its number the rows are worth in independent samples; nan if unknown.

    The table has all its rows in time, and values may be missing.
    """
    try:
        with np.errstate(all="ignore"):
            size = _estimate("bartlett", table, missing_allowed=True)
    except InputError:  # too few rows for an estimate
        return float("nan")
    return float("nan") if size is None else size / _filled_rows(table.values)


def _number(size: Any, task: str) -> Any:
    if isinstance(size, bool | np.bool_) or not isinstance(size, Real):
        raise InputError(f"task {task!r}: effective_samples {size!r} is not a number")
    return size


def _check_method(method: object) -> str:
    if not isinstance(method, str) or method not in _METHODS:
        raise InputError(
            f"effective_samples must be {listed(_METHODS)} or given in numbers; got {method!r}"
        )
    return method


def _filled_rows(values: np.ndarray) -> int:
    """Count the rows that hold any value."""
    return int((~np.isnan(values)).any(axis=1).sum())


def _estimate(method: str, table: Table, missing_allowed: bool = False) -> float | None:
    """Estimate the effective sample size of one task; None: all rows."""
    if method == "none":
        return None
    values = finite_floats(table, missing_allowed=missing_allowed or None)
    rows, variables = _filled_rows(values), np.array(table.columns)
    if np.isnan(values).any():
        usable = (~np.isnan(values)).sum(axis=0) >= _FEWEST_ROWS
        if usable.sum() < 2:
            raise InputError(
                f"task {table.task!r} has {int(usable.sum())} variables with at least {_FEWEST_ROWS} "
                f"observed values, too few for effective_samples={method!r}; add rows or give a number"
            )
        values, variables = values[:, usable], variables[usable]
    if rows < _FEWEST_ROWS:
        raise InputError(
            f"task {table.task!r} has {rows} rows, too few for effective_samples={method!r}; add rows "
            "or give a number"
        )
    refuse_constant(values, table.task, variables.tolist(), centre=True)
    correlations = _autocorrelations(values, max(int(_LARGEST_LAG * len(values)), 1))
    first, second = np.triu_indices(values.shape[1], 1)
    if method == "ar1":
        product = correlations[0, first] * correlations[0, second]
        sizes = rows * (1 - product) / (1 + product)
    else:
        used = correlations[: _last_lag(correlations)]
        sums = np.einsum("ki,kj->ij", used, used)[first, second]
        # A series that alternates would be worth more than its rows; it counts as its rows.
        sizes = rows / np.maximum(1 + 2 * sums, 1.0)
    size = float(np.minimum(sizes, rows).mean())
    return size if table.most_samples is None else min(size, table.most_samples)


def _autocorrelations(values: np.ndarray, largest_lag: int) -> np.ndarray:
    """Return the autocorrelations of every variable at lags 1, 2, ...: (lags, p).

    With missing values they are means over observed pairs of rows, times the weight 1 - lag / rows that
    sums over all rows have; 0 at lags without any pair.
    """
    rows, observed = len(values), ~np.isnan(values)
    if observed.all():
        centred = values - values.mean(axis=0)
        centred /= np.abs(centred).max(axis=0)
        sums = _lagged_sums(centred, largest_lag)
        return sums[1:] / sums[0]
    centred = np.where(observed, values - np.nanmean(values, axis=0), 0.0)
    centred /= np.abs(centred).max(axis=0)
    sums = _lagged_sums(centred, largest_lag)
    pairs = np.rint(_lagged_sums(observed.astype(float), largest_lag))
    means = np.where(pairs > 0, sums / np.maximum(pairs, 1.0), 0.0)
    weights = 1 - np.arange(1, largest_lag + 1) / rows
    return weights[:, None] * np.clip(means[1:] / means[0], -1.0, 1.0)


def _lagged_sums(values: np.ndarray, largest_lag: int) -> np.ndarray:
    """Return the sums of products of rows that are 0, 1, ... apart: (1 + largest_lag, p)."""
    spectrum = np.fft.rfft(values, 2 * len(values), axis=0)  # padding makes it not circular
    return np.fft.irfft(spectrum.real**2 + spectrum.imag**2, axis=0)[: largest_lag + 1]


def _last_lag(correlations: np.ndarray) -> int:
    """Return the last lag at which the mean product of autocorrelations over pairs is not noise.

    Geyer's rule: the last lag before the sum over two neighbouring lags is not positive.
    """
    p = correlations.shape[1]
    products = correlations.sum(axis=1) ** 2 - (correlations**2).sum(axis=1)
    products /= p * (p - 1)
    couples = products[: len(products) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(couples <= 0)
    return 2 * int(ended[0]) if len(ended) else len(products)
