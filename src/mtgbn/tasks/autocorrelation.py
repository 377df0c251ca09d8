"""How many independent samples the rows of a time series are worth (docs/model.md, section 16).

Correlations between autocorrelated series vary more than those between independent samples. Bartlett's
formula says by how much, for every pair of variables; a task has one number, the mean over its pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Literal

import numpy as np

from mtgbn._utils.names import unknown_name
from mtgbn.errors import InputError
from mtgbn.tasks.checks import finite_floats, refuse_constant
from mtgbn.tasks.tables import Table, as_matrix

__all__ = ["Method", "effective_samples", "effective_sizes"]

Method = Literal["none", "ar1", "bartlett"]

_METHODS = ("none", "ar1", "bartlett")
_WORDS = "'none', 'ar1', 'bartlett'"

# Lags beyond this share of the rows are not looked at: their correlations are noise.
_LARGEST_LAG = 0.25


def effective_samples(series, method: Method = "bartlett") -> float:
    """Number of independent samples that a series is worth for its correlations.

    Parameters
    ----------
    series : array (rows, p)
        One row per point in time, without gaps.
    method : {"none", "ar1", "bartlett"}
        "none": all rows. "ar1": every variable is taken for a first-order autoregression.
        "bartlett": from the autocorrelations as they are, up to the lag at which they end in noise.

    Returns
    -------
    size : float
        At most the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> steps = np.random.default_rng(0).normal(size=(200, 4))
    >>> walk = np.array([steps[t - 9 : t + 1].mean(axis=0) for t in range(9, 200)])
    >>> len(walk), round(effective_samples(walk))
    (191, 34)
    """
    table = Table("series", (), as_matrix(series, "series", "(rows x variables)"))
    table = table._replace(columns=tuple(f"x{i}" for i in range(table.values.shape[1])))
    size = _estimate(_check_method(method), table)
    return float(len(table.values)) if size is None else size


def effective_sizes(
    effective_samples: str | float | Sequence[float] | Mapping[str, float] | None,
    tables: Sequence[Table],
) -> list[float | None]:
    """The effective sample size of each task, None where the rows count in full."""
    names = [table.task for table in tables]
    if isinstance(effective_samples, str):
        method = _check_method(effective_samples)
        return [_estimate(method, table) for table in tables]
    if hasattr(effective_samples, "to_dict"):  # a labelled series goes by its labels
        effective_samples = effective_samples.to_dict()
    if effective_samples is None or isinstance(effective_samples, Real):
        sizes = [effective_samples] * len(names)
    elif isinstance(effective_samples, Mapping):
        by_name = {str(name): size for name, size in effective_samples.items()}
        for name in by_name:
            if name not in names:
                raise InputError(f"effective_samples: {unknown_name(name, names, 'task')}")
        for name in names:
            if name not in by_name:
                raise InputError(f"effective_samples has no entry for task {name!r}; add one")
        sizes = [by_name[name] for name in names]
    elif isinstance(effective_samples, Iterable) and not isinstance(effective_samples, bytes | Set):
        sizes = list(effective_samples)
        if len(sizes) != len(names):
            raise InputError(
                f"effective_samples has {len(sizes)} entries for {len(names)} tasks; "
                "give one per task, or one number for all"
            )
    else:
        raise InputError(
            f"effective_samples must be {_WORDS}, a number, one number per task or a dict by task "
            f"name; got {effective_samples!r}"
        )
    if effective_samples is not None:
        for table, size in zip(tables, sizes, strict=True):
            _check_effective_size(table.task, size, len(table.values))
    return sizes


def _check_effective_size(task: str, size: object, rows: int) -> None:
    if isinstance(size, bool | np.bool_) or not isinstance(size, Real):
        raise InputError(f"task {task!r}: effective_samples {size!r} is not a number")
    if not 0 < size <= rows:
        raise InputError(
            f"task {task!r}: effective_samples {size} must be above 0 and at most "
            f"the number of rows, {rows}"
        )


def _check_method(method: object) -> str:
    if not isinstance(method, str) or method not in _METHODS:
        raise InputError(f"effective_samples must be {_WORDS} or given in numbers; got {method!r}")
    return method


def _estimate(method: str, table: Table) -> float | None:
    """The size of one task; None: all rows."""
    if method == "none":
        return None
    values = finite_floats(table)
    rows = len(values)
    if rows < 4:
        raise InputError(
            f"task {table.task!r} has {rows} rows, too few for effective_samples={method!r}; add rows "
            "or give a number"
        )
    refuse_constant(values, table.task, table.columns, centre=True)
    correlations = _autocorrelations(values, max(int(_LARGEST_LAG * rows), 1))
    first, second = np.triu_indices(values.shape[1], 1)
    if method == "ar1":
        product = correlations[0, first] * correlations[0, second]
        sizes = rows * (1 - product) / (1 + product)
    else:
        used = correlations[: _last_lag(correlations)]
        sums = np.einsum("ki,kj->ij", used, used)[first, second]
        # Series that alternate are worth more than their rows; that is not made use of.
        sizes = rows / np.maximum(1 + 2 * sums, 1.0)
    size = float(np.minimum(sizes, rows).mean())
    return size if table.most_samples is None else min(size, table.most_samples)


def _autocorrelations(values: np.ndarray, largest_lag: int) -> np.ndarray:
    """Of every variable at lags 1, 2, ...: (lags, p)."""
    rows = len(values)
    centred = values - values.mean(axis=0)
    centred /= np.abs(centred).max(axis=0)
    spectrum = np.fft.rfft(centred, 2 * rows, axis=0)  # zeros keep the end from meeting the start
    sums = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, axis=0)[: largest_lag + 1]
    return sums[1:] / sums[0]


def _last_lag(correlations: np.ndarray) -> int:
    """Lags up to which the products of autocorrelations, mean over pairs, are more than noise.

    Geyer's rule: the last before a sum over two neighbouring lags is not positive.
    """
    p = correlations.shape[1]
    products = correlations.sum(axis=1) ** 2 - (correlations**2).sum(axis=1)
    products /= p * (p - 1)
    couples = products[: len(products) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(couples <= 0)
    return 2 * int(ended[0]) if len(ended) else len(products)
