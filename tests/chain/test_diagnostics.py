"""R-hat and effective sample sizes of many quantities and smoothed weights, against arviz-stats."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from mtgbn.chain import diagnostics

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
    values[5] = np.arange(n_chains)[:, None]  # none of them did
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


@pytest.mark.parametrize("measure", PAIRS)
def test_what_is_not_a_number_has_no_diagnostics(measure):
    values = autoregressions(2, 30, 0.5)
    values[0, 1, 7] = np.nan
    ours, _, _ = PAIRS[measure]
    found = ours(values)
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9, 1.5])
@pytest.mark.parametrize("n_draws", [25, 30, 100, 225, 226, 1000])
def test_smoothed_weights_are_those_of_arviz(n_draws, shape):
    rng = np.random.default_rng(n_draws)
    log_weights = 3.0 + shape * rng.standard_exponential(n_draws)
    expected, expected_shape = array_stats.psislw(-log_weights)
    found, found_shape = diagnostics.smooth_weights(log_weights)
    assert found_shape == pytest.approx(expected_shape, rel=1e-9)
    np.testing.assert_allclose(found - logsumexp(found), expected, rtol=1e-9)


@pytest.mark.parametrize("n_draws", [200, 20_000])
def test_the_shape_is_that_of_the_tail(n_draws):
    """Exponents of exponential variates with mean k are Pareto of shape k."""
    for k in (0.3, 0.8):
        rng = np.random.default_rng(1)
        shapes = [
            diagnostics.smooth_weights(k * rng.standard_exponential(n_draws))[1] for _ in range(20)
        ]
        # With few draws the prior, ten draws at 1/2, has its say.
        n_tail = min(n_draws // 5, 3 * n_draws**0.5)
        expected = (n_tail * k + 5) / (n_tail + 10)
        error = (1 + k) / np.sqrt(20 * n_tail)
        assert abs(np.mean(shapes) - expected) < 3 * error


@pytest.mark.parametrize(
    "log_weights",
    [
        np.arange(24.0),
        np.zeros(100),
        np.repeat([0.0, 1.0], [90, 10]),
        np.repeat([0.0, 9.0], [99, 1]),
    ],
    ids=["few", "equal", "two values", "one outlier"],
)
def test_weights_without_a_tail_stay_as_they_are(log_weights):
    found, shape = diagnostics.smooth_weights(log_weights)
    assert shape == np.inf
    np.testing.assert_array_equal(found, log_weights)
