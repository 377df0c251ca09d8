"""How large an effect has to be for a comparison by a design to find it.

For normal errors the statistic F of a connection with effect d has a noncentral F distribution with r
and nu degrees of freedom. Because variances are moderated, nu is more than that of the connection's own
variance; it is the median over connections. With c = C beta the tested combinations and V the
covariance matrix of their estimates, the noncentrality is c' V^-1 c. If the first combination is d and
the others are 0, this is (d/e)^2 with 1/e^2 = (V^-1)_11: e is the standard error that the first one has
if the others are known. A connection is found if F exceeds the critical value f, so that

    P(F(r, nu; (d/e)^2) > f) = power

is solved for d. e is the median over connections. Where groups have variances of their own, V is made
of these, and the statistics of Welch and Johansen are only about F: the probability is then a few per
cent off.

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
    tests: Tests, n_rows: int, *, power: float = 0.8, level: float = 0.05
) -> Detectable:
    """Find the effect at which a connection of median variability is found with probability ``power``.

    ``tests`` are those of a contrast with ``n_rows`` rows; found means that the corrected p-value is at
    most ``level``.
    """
    degrees = float(np.median(tests.degrees))
    # 1 - (1 - level)^(1/K), with all digits also for many connections.
    single = -np.expm1(np.log1p(-level) / len(tests.p))
    critical = float(f_distribution.isf(single, n_rows, degrees))

    def excess(noncentrality: float) -> float:
        return float(ncf.sf(critical, n_rows, degrees, noncentrality)) - power

    noncentrality = brentq(excess, 1e-9, 100 + 10 * n_rows * critical)
    return Detectable(
        effect=float(np.median(tests.error) * np.sqrt(noncentrality)),
        power=power,
        critical=float(np.sqrt(critical)) if n_rows == 1 else critical,
    )
