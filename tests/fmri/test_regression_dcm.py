"""A slow twin with explicit inverses, the evidence by quadrature, processes of known coupling."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.linalg import cholesky, expm, solve_continuous_lyapunov
from scipy.signal import detrend
from scipy.special import digamma, gammaln

from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.fmri.regression_dcm import regression_dcm, regression_rows

TIGHT = {"tolerance": 1e-12, "max_iter": 5000}


def ornstein_uhlenbeck(coupling, n, step, rng):
    """Exact samples, ``step`` apart, of dx_j = sum_i coupling[i, j] x_i dt + dW_j, from stationarity."""
    drift = np.transpose(coupling)
    transition = expm(step * drift)
    stationary = solve_continuous_lyapunov(drift, -np.eye(len(drift)))
    noise = cholesky(stationary - transition @ stationary @ transition.T, lower=True)
    x = cholesky(stationary, lower=True) @ rng.standard_normal(len(drift))
    rows = [x]
    for _ in range(n - 1):
        rows.append(transition @ rows[-1] + noise @ rng.standard_normal(len(drift)))
    return np.array(rows)


def random_coupling(rng, p):
    """A third of the pairs are coupled, and every perturbation fades within 10 s or so."""
    sizes = rng.uniform(0.1, 0.4, (p, p)) * rng.choice([-1, 1], (p, p))
    coupling = np.where(rng.random((p, p)) < 0.3, sizes, 0)
    np.fill_diagonal(coupling, -0.5)
    slowest = np.linalg.eigvals(coupling).real.max()
    return coupling - max(0, slowest + 0.1) * np.eye(p)


def priors(p, region):
    mean, precision = np.zeros(p), np.full(p, p / 8)
    mean[region], precision[region] = -1 / 2, 8 * p
    return mean, np.diag(precision)


def frequency_rows(y, repetition_time):
    """Real and imaginary parts of all coefficients, without those that are zero for every series."""
    n = len(y)
    rows = []
    for k in range(n // 2 + 1):
        wave = np.exp(-2j * np.pi * k * np.arange(n) / n)
        signal = wave @ y
        change = (np.exp(2j * np.pi * k / n) - 1) * signal / repetition_time
        rows.append((signal.real, change.real))
        if k not in (0, n / 2):
            rows.append((signal.imag, change.imag))
    return np.array(rows).transpose(1, 0, 2)


def twin(series, repetition_time, rate, iterations):
    """The published updates, and the free energy as the sum of its five expectations."""
    X, targets = frequency_rows(detrend(series, axis=0), repetition_time)
    n, p = X.shape
    a0, a = 2.0, 2.0 + n / 2
    means, deviations, precisions, free_energies = [], [], [], []
    for region in range(p):
        y = targets[:, region]
        mean0, precision0 = priors(p, region)
        tau, history = a0 / rate, []
        for _ in range(iterations[region]):
            S = np.linalg.inv(tau * X.T @ X + precision0)
            mean = S @ (tau * X.T @ y + precision0 @ mean0)
            q = (np.square(y - X @ mean).sum() + np.trace(X.T @ X @ S)) / 2
            b = rate + q
            tau, log_tau = a / b, digamma(a) - np.log(b)
            likelihood = n / 2 * (log_tau - np.log(2 * np.pi)) - tau * q
            shift = mean - mean0
            of_mean = (
                np.linalg.slogdet(precision0 / (2 * np.pi))[1]
                - shift @ precision0 @ shift
                - np.trace(precision0 @ S)
            ) / 2
            of_tau = a0 * np.log(rate) - gammaln(a0) + (a0 - 1) * log_tau - rate * tau
            entropy = stats.gamma(a, scale=1 / b).entropy()
            entropy += np.linalg.slogdet(2 * np.pi * np.e * S)[1] / 2
            history.append(likelihood + of_mean + of_tau + entropy)
        means.append(mean)
        deviations.append(np.sqrt(np.diag(S)))
        precisions.append(tau)
        free_energies.append(history)
    return np.transpose(means), np.transpose(deviations), precisions, free_energies


@pytest.mark.parametrize(("n", "p", "step"), [(40, 2, 2.5), (41, 3, 0.7), (120, 6, 2), (9, 12, 1)])
def test_the_published_equations(n, p, step):
    """Also with more regions than volumes, and in units in which the published prior counts."""
    y = ornstein_uhlenbeck(-0.5 * np.eye(p), n, step, np.random.default_rng([n, p])) * 0.05
    result = regression_dcm(y, step, noise_rate=1.0)
    iterations = [len(history) for history in result.free_energies]
    means, deviations, precisions, free_energies = twin(y, step, 1.0, iterations)
    assert_allclose(result.coupling, means, rtol=1e-8, atol=1e-10)
    assert_allclose(result.standard_deviations, deviations, rtol=1e-8)
    assert_allclose(result.noise_precisions, precisions, rtol=1e-8)
    for ours, theirs in zip(result.free_energies, free_energies, strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("n", [7, 8, 31, 50])
def test_rows_are_differences_round_the_circle(n):
    """By Parseval's theorem, apart from the highest frequency of an even number, which counts double."""
    y = np.random.default_rng(n).standard_normal((n, 3))
    y -= y.mean(axis=0)
    X, targets = regression_rows(y, 2.5)
    assert X.shape == targets.shape == (n, 3)
    change = (np.roll(y, -1, axis=0) - y) / 2.5
    highest = np.zeros((2, 3))
    if n % 2 == 0:
        signs = (-1.0) ** np.arange(n)
        highest = np.array([signs @ y, signs @ change])
    assert_allclose(X.T @ X, n / 2 * y.T @ y + np.outer(highest[0], highest[0]) / 2)
    expected = n / 2 * y.T @ change + np.outer(highest[0], highest[1]) / 2
    assert_allclose(X.T @ targets, expected, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_a_ridge_regression(seed):
    rng = np.random.default_rng(seed)
    y = ornstein_uhlenbeck(random_coupling(rng, 5), 100, 1.5, rng)
    result = regression_dcm(y, 1.5, **TIGHT)
    X, targets = frequency_rows(detrend(y, axis=0), 1.5)
    for region in range(5):
        mean0, precision0 = priors(5, region)
        # Least squares with the prior as further rows, whose weight is the noise precision found.
        weight = np.sqrt(precision0 / result.noise_precisions[region])
        ridge = np.linalg.lstsq(
            np.vstack([X, weight]), np.append(targets[:, region], weight @ mean0), rcond=None
        )[0]
        assert_allclose(result.coupling[:, region], ridge, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rate", [0.3, 20.0])
def test_the_free_energy_is_a_tight_bound_on_the_log_evidence(rate):
    """The evidence by quadrature over ln tau, with the couplings integrated out exactly."""
    rng = np.random.default_rng(4)
    y = ornstein_uhlenbeck(random_coupling(rng, 2), 24, 1, rng)
    result = regression_dcm(y, 1, noise_rate=rate, **TIGHT)
    X, targets = frequency_rows(detrend(y, axis=0), 1)
    for region in range(2):
        mean0, precision0 = priors(2, region)
        spread = X @ np.linalg.inv(precision0) @ X.T
        error = targets[:, region] - X @ mean0
        peak = math.log(result.noise_precisions[region])

        def log_density(log_tau, spread=spread, error=error):
            tau = math.exp(log_tau)
            likelihood = stats.multivariate_normal(cov=np.eye(24) / tau + spread).logpdf(error)
            return likelihood + stats.gamma(2, scale=1 / rate).logpdf(tau) + log_tau

        top = log_density(peak)
        mass, _ = quad(lambda x, top=top: math.exp(log_density(x) - top), peak - 4, peak + 4)
        gap = top + math.log(mass) - result.free_energies[region][-1]
        # Two posterior means couple to one precision of 14 degrees of freedom: a small loss.
        assert 0 < gap < 0.1


@st.composite
def cases(draw):
    """Series of any length, smoothness, collinearity and unit."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(3, 60)), draw(st.integers(2, 6))
    y = rng.standard_normal((n, p))
    if draw(st.booleans()):
        y = np.cumsum(y, axis=0)
    if draw(st.booleans()):
        y[:, -1] = y[:, 0]
    y *= 10.0 ** draw(st.integers(-12, 12))
    rate = draw(st.sampled_from([None, 1e-6, 1.0, 1e6]))
    return y, draw(st.floats(0.1, 10)), rate


@given(cases())
@settings(max_examples=60)
def test_the_free_energy_never_decreases(case):
    y, repetition_time, rate = case
    result = regression_dcm(y, repetition_time, noise_rate=rate, tolerance=1e-8, max_iter=100000)
    for history in result.free_energies:
        assert np.isfinite(history).all()
        assert (np.diff(history) >= -1e-11 * np.abs(history).max()).all()
        assert abs(history[-1] - history[-2]) < 1e-8
    assert np.isfinite(result.coupling).all()
    assert (result.standard_deviations > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_an_ornstein_uhlenbeck_process(seed):
    """8 regions, 1200 volumes; of 300 seeds, one fails the first threshold and one the second."""
    rng = np.random.default_rng(seed)
    truth = random_coupling(rng, 8)
    y = ornstein_uhlenbeck(truth, 1200, 1.0, rng)
    found = regression_dcm(y, 1.0)
    off = ~np.eye(8, dtype=bool)
    assert np.corrcoef(found.coupling[off], truth[off])[0, 1] > 0.9
    # Transposed, it is not the truth.
    assert np.corrcoef(found.coupling.T[off], truth[off])[0, 1] < 0.5


def test_direction():
    rng = np.random.default_rng(0)
    y = ornstein_uhlenbeck([[-0.5, 0.4], [0, -0.5]], 2000, 0.5, rng)
    coupling = regression_dcm(y, 0.5).coupling
    assert coupling[0, 1] > 0.3
    assert abs(coupling[1, 0]) < 0.1
    assert (np.diag(coupling) < -0.3).all()


@given(st.integers(0, 2**32 - 1), st.floats(-30, 30))
@settings(max_examples=30)
def test_a_common_unit_does_not_matter(seed, exponent):
    rng = np.random.default_rng(seed)
    y = ornstein_uhlenbeck(random_coupling(rng, 4), 80, 2.0, rng)
    unit = 10.0**exponent
    result, scaled = regression_dcm(y, 2.0), regression_dcm(unit * y, 2.0)
    assert_allclose(scaled.coupling, result.coupling, rtol=1e-8, atol=1e-10)
    assert_allclose(scaled.standard_deviations, result.standard_deviations, rtol=1e-8)
    assert_allclose(scaled.probabilities, result.probabilities, rtol=1e-8)
    assert_allclose(scaled.noise_precisions * unit * unit, result.noise_precisions, rtol=1e-8)
    for ours, theirs in zip(scaled.free_energies, result.free_energies, strict=True):
        assert_allclose(ours, theirs - 80 * math.log(unit), rtol=1e-9, atol=1e-9)


def test_the_published_prior_takes_small_units_for_noise():
    rng = np.random.default_rng(1)
    truth = random_coupling(rng, 5)
    y = ornstein_uhlenbeck(truth, 300, 1.0, rng)
    y /= np.sqrt(np.mean(np.square(detrend(y, axis=0))))
    ours = regression_dcm(y, 1.0).coupling
    # The same prior where the mean variance is 1, and nearly the same result in larger units.
    assert_allclose(regression_dcm(y, 1.0, noise_rate=1).coupling, ours, rtol=1e-10, atol=1e-12)
    assert_allclose(regression_dcm(1000 * y, 1.0, noise_rate=1).coupling, ours, atol=1e-4)
    # The other limit is the prior itself.
    small = regression_dcm(1e-6 * y, 1.0, noise_rate=1)
    assert_allclose(small.coupling, -0.5 * np.eye(5), atol=1e-3)
    deviations = np.where(np.eye(5), math.sqrt(1 / 40), math.sqrt(8 / 5))
    assert_allclose(small.standard_deviations, deviations, rtol=1e-3)


def test_probabilities_are_those_of_normal_posteriors():
    rng = np.random.default_rng(2)
    y = ornstein_uhlenbeck(random_coupling(rng, 4), 60, 1.0, rng)
    for threshold in (0.0, 0.1, 0.5):
        result = regression_dcm(y, 1.0, threshold=threshold)
        posterior = stats.norm(result.coupling, result.standard_deviations)
        expected = posterior.sf(threshold) + posterior.cdf(-threshold)
        assert_allclose(result.probabilities, expected, rtol=1e-9)
        assert (result.probabilities <= 1).all()


def test_trends_and_the_order_of_regions_do_not_matter():
    rng = np.random.default_rng(3)
    y = ornstein_uhlenbeck(random_coupling(rng, 4), 90, 1.0, rng)
    result = regression_dcm(y, 1.0)
    slopes, offsets = rng.standard_normal(4), 100 * rng.standard_normal(4)
    tilted = regression_dcm(y + np.outer(np.arange(90), slopes) + offsets, 1.0)
    assert_allclose(tilted.coupling, result.coupling, rtol=1e-7, atol=1e-9)
    order = [2, 0, 3, 1]
    permuted = regression_dcm(y[:, order], 1.0)
    assert_allclose(permuted.coupling, result.coupling[np.ix_(order, order)], atol=1e-10)
    assert_allclose(permuted.noise_precisions, result.noise_precisions[order])


def test_regions_that_sum_to_zero_in_raw_units():
    """After global signal regression, with the published prior: data outweigh beliefs 10^17 times."""
    y = np.random.default_rng(0).standard_normal((230, 6)) * 1e6
    y -= y.mean(axis=1, keepdims=True)
    raw = regression_dcm(y, 2.5, noise_rate=1.0)
    assert_allclose(raw.coupling, regression_dcm(y / 1e6, 2.5).coupling, atol=1e-4)


def test_a_frame_is_the_array_it_holds_and_stays_as_it_was():
    y = np.random.default_rng(0).standard_normal((50, 3))
    frame = pd.DataFrame(y, columns=["PCC", "MPFC", "IPL"])
    before = frame.copy()
    assert_array_equal(regression_dcm(frame, 2).coupling, regression_dcm(y, 2).coupling)
    pd.testing.assert_frame_equal(frame, before)


def test_too_few_iterations_are_reported():
    y = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.warns(ConvergenceWarning, match="'sub-3': after 1 iterations .* 'x0', 'x1', 'x2'"):
        result = regression_dcm(y, 2, max_iter=1, task="sub-3")
    assert [len(history) for history in result.free_energies] == [1, 1, 1]


SERIES = np.random.default_rng(0).standard_normal((40, 3))


def changed(column, values):
    y = SERIES.copy()
    y[:, column] = values
    return y


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (SERIES, {"repetition_time": 0}, r"repetition_time must be a number in \(0, inf\); got 0"),
        (SERIES, {"repetition_time": "2"}, "repetition_time must be .*; got '2'"),
        (SERIES, {"repetition_time": np.nan}, "repetition_time must be .*; got nan"),
        (SERIES, {"repetition_time": True}, "repetition_time must be .*; got True"),
        (SERIES, {"threshold": -0.1}, r"threshold must be a number in \[0, inf\); got -0.1"),
        (SERIES, {"noise_rate": 0}, "noise_rate must be a number in"),
        (SERIES, {"tolerance": 0}, "tolerance must be a number in"),
        (SERIES, {"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        (SERIES[:2], {}, r"has 2 row\(s\); a series needs at least 3"),
        (SERIES[:, :1], {}, "fewer than two variables"),
        (changed(1, 2.0), {}, "variable 'x1' is constant"),
        (changed(2, 3 + 0.1 * np.arange(40)), {}, "'x2' is constant once its linear trend"),
        (changed(0, np.inf), {}, r"40 value\(s\) .* in 'x0'; the first is inf"),
    ],
)
def test_bad_input_is_named(series, options, message):
    with pytest.raises(InputError, match=message):
        regression_dcm(series, **{"repetition_time": 2.5, **options})
