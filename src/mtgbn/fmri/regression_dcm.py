"""Regression dynamic causal modelling at rest (docs/model.md, section 17)."""

import math
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import gammaln, ndtr

from mtgbn import errors
from mtgbn._utils.arguments import check_count, check_interval
from mtgbn._utils.names import listed
from mtgbn.errors import InputError
from mtgbn.fmri._series import check_series
from mtgbn.tasks.collinearity import TOLERANCE
from mtgbn.tasks.table import Table

# Shape of the gamma prior of the noise precision; the rate is an argument.
_SHAPE = 2.0


class RegressionDCMResult(NamedTuple):
    """The posterior of the couplings; entry [i, j] is about i -> j, the transpose of DCM's A."""

    coupling: np.ndarray
    """(p, p), posterior means in 1/s; on the diagonal the self-connections, usually negative."""
    standard_deviations: np.ndarray
    """(p, p), of the posterior."""
    probabilities: np.ndarray
    """(p, p), that the absolute value of a coupling exceeds the threshold."""
    noise_precisions: np.ndarray
    """(p,), posterior means, of the Fourier coefficients of the derivative in the data's units."""
    free_energies: list[np.ndarray]
    """For every region the bound on its log evidence after each iteration; it never decreases."""


def regression_dcm(
    series: Any,
    repetition_time: float,
    *,
    threshold: float = 0.1,
    noise_rate: float | None = None,
    tolerance: float = 1e-5,
    max_iter: int = 500,
    task: str = "series",
) -> RegressionDCMResult:
    """Estimate directed couplings by Bayesian regression of derivatives on signals.

    Frässle et al. (2017, 2021): without inputs, a linear DCM in the frequency domain is one linear
    regression per region, of the derivative of its signal on the signals of all regions. The series
    are detrended first. All connections are in the model; couplings are shrunk, not selected.

    Parameters
    ----------
    series : array or DataFrame (n, p)
        One row per volume, in the order of time and without gaps; one column per region.
    repetition_time : float
        Seconds between volumes.
    threshold : float
        For `probabilities`, in 1/s. There is no accepted value.
    noise_rate : float, optional
        Rate of the gamma prior (shape 2) of the noise precisions. Default: the mean variance of the
        detrended series.
    tolerance : float
        Iteration stops when the free energy of a region changes by less.
    max_iter : int
    task : str
        Name of the series in messages.

    Notes
    -----
    The published prior has the noise rate 1 for data in any unit, so that data in small units are taken
    for noise and their couplings shrink to the prior. The default rate is the published one for series
    of variance 1, and makes the couplings the same in every unit that all regions share.

    A coupling is in the unit of its target per unit of its source. Rescaling one region changes its
    couplings and their shrinkage; standardise the regions first if their units have no meaning.

    The derivative is the difference of successive volumes, so the couplings are nearer those of
    (exp(A TR) - 1)/TR than of A: too weak if signals decay within a repetition time.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> series = np.zeros((300, 2))
    >>> for t in range(1, 300):
    ...     series[t] = 0.7 * series[t - 1] + rng.normal(size=2)
    ...     series[t, 1] += 0.3 * series[t - 1, 0]
    >>> found = regression_dcm(series, 2.0, threshold=0.05)
    >>> bool(found.probabilities[0, 1] > 0.9 > found.probabilities[1, 0])
    True
    """
    check_interval("repetition_time", repetition_time, "()", 0, math.inf)
    check_interval("threshold", threshold, "[)", 0, math.inf)
    if noise_rate is not None:
        check_interval("noise_rate", noise_rate, "()", 0, math.inf)
    check_interval("tolerance", tolerance, "()", 0, math.inf)
    check_count("max_iter", max_iter, 1)
    table = check_series(series, task)
    signals, unit = _detrended(table)
    n, p = signals.shape
    rate = 1.0 if noise_rate is None else noise_rate / unit / unit
    X, targets = regression_rows(signals, float(repetition_time))
    rotation, root = qr(X, mode="economic", check_finite=False)
    rotated = rotation.T @ targets
    unreached = np.square(targets - rotation @ rotated).sum(axis=0)
    coupling, deviations, precisions = np.empty((p, p)), np.empty((p, p)), np.empty(p)
    free_energies, unsettled = [], []
    fit = partial(_fit_region, root=root, n=n, rate=rate, tolerance=tolerance, max_iter=max_iter)
    for region in range(p):
        found = fit(region, rotated[:, region], unreached[region])
        coupling[:, region], deviations[:, region], precision, history, is_settled = found
        precisions[region] = precision / unit / unit
        free_energies.append(history - n * math.log(unit))
        if not is_settled:
            unsettled.append(table.columns[region])
    if unsettled:
        warnings.warn(
            f"task {task!r}: after {max_iter} iterations the free energy still changes by more than "
            f"{tolerance:g} in {listed(unsettled)}; raise max_iter",
            errors.ConvergenceWarning,  # imports scikit-learn, so only when it is needed
            stacklevel=2,
        )
    above = ndtr((coupling - threshold) / deviations) + ndtr((-coupling - threshold) / deviations)
    return RegressionDCMResult(coupling, deviations, above, precisions, free_energies)


def regression_rows(signals: np.ndarray, repetition_time: float) -> tuple[np.ndarray, np.ndarray]:
    """Return regressors and targets in the frequency domain, (n, p) each, for n volumes.

    Real parts come first, then imaginary parts except those that are zero for every real series (at
    frequency 0 and, for even n, at the highest frequency).
    """
    n = len(signals)
    spectrum = np.fft.rfft(signals, axis=0)
    # Factors that make Fourier coefficients of circular successive differences.
    step = np.expm1(2j * np.pi * np.arange(len(spectrum)) / n) / repetition_time
    free = slice(1, (n + 1) // 2)
    stacked = [np.vstack([z.real, z[free].imag]) for z in (spectrum, step[:, None] * spectrum)]
    return stacked[0], stacked[1]


def _fit_region(
    region: int,
    target: np.ndarray,
    unreached: float,
    *,
    root: np.ndarray,
    n: int,
    rate: float,
    tolerance: float,
    max_iter: int,
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray, bool]:
    """Maximise the free energy over the couplings and the noise precision in turn.

    Regressors (``root``) and target are rotated, so that an iteration does not depend on the number of
    rows n; ``unreached`` is the sum of squares of the target that is orthogonal to all regressors.
    Returns means, standard deviations, noise precision, free energies, and whether they settled.
    """
    p = root.shape[1]
    prior_mean = np.zeros(p)
    prior_mean[region] = -0.5
    prior_precision = np.full(p, p / 8)
    prior_precision[region] = 8 * p
    shape = _SHAPE + n / 2
    constant = (
        -n / 2 * math.log(2 * math.pi)
        + _SHAPE * math.log(rate)
        - gammaln(_SHAPE)
        + gammaln(shape)
        + np.log(prior_precision).sum() / 2
    )
    precision = _SHAPE / rate
    data = np.column_stack([root, target])
    prior_rows = np.sqrt(prior_precision)[:, None] * np.column_stack([np.eye(p), prior_mean])
    free_energies: list[float] = []
    settled = False
    while len(free_energies) < max_iter and not settled:
        # The Cholesky factor of the posterior precision, by QR: in the sum of both precisions, that of
        # the prior could be lost to rounding.
        stacked = np.vstack([math.sqrt(precision) * data, prior_rows])
        (triangle,) = qr(stacked, mode="r", overwrite_a=True, check_finite=False)
        factor = triangle[:p, :p]
        mean = solve_triangular(factor, triangle[:p, p], check_finite=False)
        # tr(W S) with W = root' root and S = (factor' factor)^-1
        spread = np.square(solve_triangular(factor, root.T, trans=1, check_finite=False)).sum()
        error = target - root @ mean
        new_rate = rate + (unreached + error @ error + spread) / 2
        shift = mean - prior_mean
        free_energies.append(
            constant
            - shape * math.log(new_rate)
            - np.log(np.abs(np.diag(factor))).sum()
            + (precision * spread - shift @ (prior_precision * shift)) / 2
        )
        precision = shape / new_rate
        settled = len(free_energies) > 1 and abs(free_energies[-1] - free_energies[-2]) < tolerance
    inverse = solve_triangular(factor, np.eye(p), check_finite=False)
    deviation = np.sqrt(np.einsum("jk,jk->j", inverse, inverse))
    return mean, deviation, float(precision), np.array(free_energies), settled


def _detrended(table: Table) -> tuple[np.ndarray, float]:
    """Return the series without means and linear trends in units of their root mean variance, and it."""
    values = table.values
    centred = values - values.mean(axis=0)
    largest = np.abs(centred).max(axis=0)
    time = np.linspace(-1, 1, len(values))
    relative = centred / largest
    relative -= relative.mean(axis=0)
    left = relative - np.outer(time, time @ relative / (time @ time))
    lengths = np.sqrt(np.mean(left * left, axis=0))
    if (straight := lengths <= TOLERANCE).any():
        raise InputError(
            f"task {table.task!r}, variable {table.columns[int(np.argmax(straight))]!r} is constant "
            "once its linear trend is removed; remove the variable from every task, or the task"
        )
    top = largest.max()
    unit = float(top * np.sqrt(np.mean(np.square(lengths * (largest / top)))))
    return left * (largest / unit), unit
