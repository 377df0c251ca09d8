"""Tests of two proportions, and their difference with a confidence interval.

All functions take numbers or arrays and work element by element.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import fisher_exact

from mtgbn.errors import InputError

Alternative = Literal["greater", "less", "two-sided"]
Counts = ArrayLike

_ALTERNATIVES = get_args(Alternative)


class ProportionTest(NamedTuple):
    """A test of count_a / n_a against count_b / n_b."""

    statistic: np.ndarray
    pvalue: np.ndarray


class RiskDifference(NamedTuple):
    """count_a / n_a - count_b / n_b with the bounds of its confidence interval."""

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray


def proportion_test(
    count_a: Counts, n_a: Counts, count_b: Counts, n_b: Counts, alternative: Alternative = "greater"
) -> ProportionTest:
    """Two-sample z-test of proportions, with the pooled variance and no continuity correction.

    "greater": the proportion in a is larger than the proportion in b. Where both proportions are 0 or
    both are 1, the statistic is 0 and the p-value 1. With few subjects the normal approximation is
    rough; see `exact_test`.

    Examples
    --------
    >>> round(float(proportion_test(6, 15, 0, 15).pvalue), 4)
    0.0031
    """
    a, n_a, b, n_b = _check_counts(count_a, n_a, count_b, n_b, alternative)
    pooled = (a + b) / (n_a + n_b)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    varies = error > 0
    statistic = np.divide(a / n_a - b / n_b, error, out=np.zeros(error.shape), where=varies)
    if alternative == "two-sided":
        pvalue = 2 * ndtr(-np.abs(statistic))
    else:
        pvalue = ndtr(-statistic if alternative == "greater" else statistic)
    return ProportionTest(statistic, np.where(varies, pvalue, 1.0))


def exact_test(
    count_a: Counts, n_a: Counts, count_b: Counts, n_b: Counts, alternative: Alternative = "greater"
) -> ProportionTest:
    """Fisher's exact test; the statistic is the odds ratio of the sample."""
    a, n_a, b, n_b = _check_counts(count_a, n_a, count_b, n_b, alternative)
    tables = np.stack([a, n_a - a, b, n_b - b], axis=-1).reshape(-1, 4)
    # Many pairs have few different tables, and the test of one takes long.
    different, places = np.unique(tables, axis=0, return_inverse=True)
    tests = [fisher_exact(each.reshape(2, 2), alternative) for each in different]
    values = np.array([(each.statistic, each.pvalue) for each in tests])[places.reshape(-1)]
    return ProportionTest(values[:, 0].reshape(a.shape), values[:, 1].reshape(a.shape))


def risk_difference(
    count_a: Counts, n_a: Counts, count_b: Counts, n_b: Counts, level: float = 0.95
) -> RiskDifference:
    """Difference of two proportions with Newcombe's interval, which combines two Wilson intervals.

    Unlike Wald's interval it stays within -1 and 1, and has a width above 0 where both counts are 0.
    """
    a, n_a, b, n_b = _check_counts(count_a, n_a, count_b, n_b, "greater")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; got {level!r}")
    z = ndtri((1 + level) / 2)

    def wilson(count: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share = count / n
        centre = share + z**2 / (2 * n)
        width = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        scale = 1 + z**2 / n
        return (centre - width) / scale, (centre + width) / scale

    low_a, high_a = wilson(a, n_a)
    low_b, high_b = wilson(b, n_b)
    difference = a / n_a - b / n_b
    low = difference - np.hypot(a / n_a - low_a, high_b - b / n_b)
    high = difference + np.hypot(high_a - a / n_a, b / n_b - low_b)
    return RiskDifference(difference, np.maximum(low, -1.0), np.minimum(high, 1.0))


def _check_counts(
    count_a: Counts, n_a: Counts, count_b: Counts, n_b: Counts, alternative: str
) -> tuple[np.ndarray, ...]:
    if alternative not in _ALTERNATIVES:
        raise InputError(f"alternative must be one of {_ALTERNATIVES}; got {alternative!r}")
    try:
        shaped = np.broadcast_arrays(count_a, n_a, count_b, n_b)
        numbers = [np.array(each, dtype=float) for each in shaped]
    except (TypeError, ValueError) as error:
        raise InputError(f"counts must be numbers or arrays of one shape ({error})") from error
    for name, count, n in (("a", numbers[0], numbers[1]), ("b", numbers[2], numbers[3])):
        sound = (count == np.floor(count)) & (n == np.floor(n)) & (count >= 0) & (n >= 1)
        sound &= (count <= n) & np.isfinite(n)
        if not sound.all():
            place = np.unravel_index(np.argmin(sound), sound.shape)
            raise InputError(
                f"count_{name} = {count[place]:g} of n_{name} = {n[place]:g}: counts must be whole "
                "numbers from 0 to n, and n at least 1"
            )
    return tuple(numbers)
