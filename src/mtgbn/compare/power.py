"""How large an effect has to be for a comparison by a design to find it.

For normal errors the statistic F of a connection with effect d has a noncentral F distribution with r
and nu degrees of freedom. Because variances are moderated, nu is more than the m - k of the residuals;
it is the median over connections. With c = C beta the tested combinations, V = C (M'M)^-1 C' and s the
residual standard deviation, its noncentrality is c' V^-1 c / s^2. If the first combination is d and the
others are 0, this is d^2 (V^-1)_11 / s^2; for one combination it is the square of d divided by its
standard error. A connection is found if F exceeds the critical value f, so that

    P(F(r, nu; d^2 (V^-1)_11 / s^2) > f) = power

is solved for d. s is that of a connection of median variability.

The critical value f is that of the largest statistic over all K connections, by Sidak's formula: its
p-value for normal errors is 1 - (1 - level)^(1/K). The permutation test takes into account that
connections depend on each other, and its critical value is a little smaller. The effect is therefore
rather too large than too small.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import f as f_distribution
from scipy.stats import ncf
from scipy.stats import t as t_distribution

from mtgbn.compare.design_statistics import divide
from mtgbn.compare.inference import Tests


class Detectable(NamedTuple):
    """The effect that a comparison finds with a given probability.

    Attributes
    ----------
    effect : float
        On the scale of ``Tests.effect``; of several tested rows the first, with the others 0.
    power : float
        Probability with which it is found.
    critical : float
        Critical value of |t|, or of F for several rows.
    """

    effect: float
    power: float
    critical: float


def detectable_effect(
    tests: Tests,
    matrix: np.ndarray,
    contrast: np.ndarray,
    *,
    power: float = 0.8,
    level: float = 0.05,
) -> Detectable:
    """Find the effect at which a connection of median variability is found with probability ``power``.

    ``tests`` are those of a design ``matrix`` (m, k) and a ``contrast`` (r, k); found means that the
    corrected p-value is at most ``level``.
    """
    r, degrees = len(contrast), float(np.median(tests.degrees))
    # 1 - (1 - level)^(1/K), with all digits also for many connections.
    single = -np.expm1(np.log1p(-level) / len(tests.p))
    critical = float(f_distribution.isf(single, r, degrees))

    def excess(noncentrality: float) -> float:
        return float(ncf.sf(critical, r, degrees, noncentrality)) - power

    noncentrality = brentq(excess, 1e-9, 100 + 10 * r * critical)
    half = np.linalg.solve(np.linalg.qr(matrix)[1].T, contrast.T)
    covariance = half.T @ half  # of the estimated combinations, per unit of the residual variance
    residual = divide(matrix, contrast).degrees
    deviation = median_error(tests, residual) / np.sqrt(covariance[0, 0])
    effect = deviation * np.sqrt(noncentrality / np.linalg.inv(covariance)[0, 0])
    return Detectable(
        effect=float(effect),
        power=power,
        critical=float(np.sqrt(critical)) if r == 1 else critical,
    )


def median_error(tests: Tests, degrees: int) -> float:
    """Standard error of the effect of a connection of median variability, from the intervals."""
    half = np.median(tests.high - tests.low) / 2
    return float(half / t_distribution.ppf(0.975, degrees))
