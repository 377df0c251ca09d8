"""Residual variances of many connections, shrunk to a common value (docs/model.md, section 19).

Empirical Bayes after Smyth (2004): the variances of the connections come from a scaled inverse
chi-square distribution. Its two parameters are estimated in closed form, from the mean and the
variance of the logarithms.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

# Variances smaller than this share of the median count as this share, as in limma: the logarithm of a
# variance that is 0 up to rounding errors would decide the estimate alone.
_SMALLEST_SHARE = 1e-5

# The largest degrees of freedom that the distribution of variances is given: with these all variances
# are the same for all purposes.
_MOST_DEGREES = 1e6

# Of Newton's method, which doubles the correct digits in every step.
_MOST_STEPS, _STEP = 50, 1e-10


class VariancePrior(NamedTuple):
    """A scaled inverse chi-square distribution per map: degrees of freedom and scale, (maps,)."""

    degrees: np.ndarray
    variance: np.ndarray


def moderated(
    variances: np.ndarray, degrees: float, prior_degrees: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink the variances (maps, connections) of every map to each other.

    ``degrees`` are those of each variance, ``prior_degrees`` those of the distribution that they come
    from; by default they are estimated. Returned are the shrunk variances and their degrees of freedom
    (maps,).
    """
    prior = variance_prior(variances, degrees, prior_degrees)
    total = prior.degrees + degrees
    # Kept as a weight, so that many degrees of freedom lose no digits.
    weight = (degrees / total)[:, None]
    return weight * variances + (1 - weight) * prior.variance[:, None], total


def variance_prior(
    variances: np.ndarray, degrees: float, prior_degrees: float | None = None
) -> VariancePrior:
    """Estimate the distribution that the variances (maps, connections) of every map come from.

    A map with fewer than two connections, or whose median variance is 0, tells nothing: its
    distribution gets no degrees of freedom. If ``prior_degrees`` are given, only the scale is
    estimated.
    """
    n_maps, n = variances.shape
    middle = np.median(variances, axis=1) if n else np.zeros(n_maps)
    if n < 2 or prior_degrees == 0:
        return VariancePrior(np.zeros(n_maps), middle)
    tells = middle > 0
    floor = np.where(tells, middle * _SMALLEST_SHARE, 1.0)
    logs = np.log(np.maximum(variances, floor[:, None]))
    if prior_degrees is None:
        # What remains of the variance of the logarithms beyond the sampling of each variance.
        excess = logs.var(axis=1, ddof=1) - polygamma(1, degrees / 2)
        prior = np.minimum(2 * inverse_trigamma(np.maximum(excess, 1e-12)), _MOST_DEGREES)
    else:
        prior = np.full(n_maps, prior_degrees)
    bias = digamma(degrees / 2) - np.log(degrees / 2) - digamma(prior / 2) + np.log(prior / 2)
    return VariancePrior(np.where(tells, prior, 0.0), np.exp(logs.mean(axis=1) - bias))


def inverse_trigamma(values: np.ndarray) -> np.ndarray:
    """Solve trigamma(x) = value for x by Newton's method, for positive values.

    The method is applied to 1/trigamma, which is convex and nearly linear, so that it converges from
    any start below the solution.
    """
    x = 0.5 + 1 / values
    for _ in range(_MOST_STEPS):
        found = polygamma(1, x)
        step = found * (1 - found / values) / polygamma(2, x)
        x = x + step
        if np.max(-step / x, initial=0.0) < _STEP:
            break
    return x
