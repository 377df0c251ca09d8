"""R-hat and effective sample sizes of many quantities, against arviz-stats."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from mtgbn.sampling import diagnostics

AXES = {"chain_axis": 1, "draw_axis": 2}
PAIRS = {
    "rhat": (diagnostics.rhat, array_stats.rhat, {"method": "rank"}),
    "bulk": (diagnostics.ess_bulk, array_stats.ess, {"method": "bulk"}),
    "tail": (diagnostics.ess_tail, array_stats.ess, {"method": "tail", "prob": (0.05, 0.95)}),
    "mean": (diagnostics.ess_mean, array_stats.ess, {"method": "mean"}),
    "error": (diagnostics.monte_carlo_error, array_stats.mcse, {"method": "mean"}),
}


def autoregressions(n_chains, n_draws, persistence):
    values = np.random.default_rng(n_draws).standard_normal((6, n_chains, n_draws))
    for t in range(1, n_draws):
        values[..., t] += persistence * values[..., t - 1]
    values[1] = np.round(values[1])  # ties
    values[2, 0] += 10  # a chain apart
    values[3] = 3.0  # nothing moves
    values[4, 0] = 3.0  # a chain that never moved
    return values


@pytest.mark.parametrize("persistence", [-0.9, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("n_draws", [4, 5, 6, 7, 15, 100, 401])
@pytest.mark.parametrize("n_chains", [1, 2, 4])
@pytest.mark.parametrize("measure", PAIRS)
def test_the_numbers_are_those_of_arviz(measure, n_chains, n_draws, persistence):
    values = autoregressions(n_chains, n_draws, persistence)
    ours, theirs, options = PAIRS[measure]
    with np.errstate(all="ignore"):
        expected = theirs(values, **AXES, **options)
    np.testing.assert_allclose(ours(values), expected, rtol=1e-8)
