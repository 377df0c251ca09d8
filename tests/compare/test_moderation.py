"""Moderated variances: a hand calculation, known distributions, limits, and what they are for."""

import naive
import numpy as np
import pytest
from scipy import stats
from scipy.special import polygamma

from mtgbn.compare import design_statistics, inference
from mtgbn.compare.moderation import inverse_trigamma, moderated, variance_prior

EULER = 0.5772156649015329


def test_the_closed_form_is_that_of_a_hand_calculation():
    """Smyth (2004), section 6.2, with digamma and trigamma of 1 and 1/2, whose values are known.

    Variances have d = 2 degrees of freedom: trigamma(1) = pi^2/6. The logarithms -a, 0, a have the
    variance a^2. With a^2 = pi^2/6 + pi^2/2 the rest is pi^2/2 = trigamma(1/2), so that d0 = 1.
    The mean of e = log s^2 - digamma(1) + log 1 is the Euler constant, and log s0^2 = mean of e +
    digamma(1/2) - log(1/2), with digamma(1/2) = -Euler - 2 log 2.
    """
    a = np.sqrt(2 * np.pi**2 / 3)
    variances = np.exp([[-a, 0.0, a]])
    prior = variance_prior(variances, 2)
    assert prior.degrees[0] == pytest.approx(1, rel=1e-9)
    scale = np.exp(EULER + (-EULER - 2 * np.log(2)) + np.log(2))
    assert scale == pytest.approx(0.5)
    assert prior.variance[0] == pytest.approx(0.5, rel=1e-9)
    found, degrees = moderated(variances, 2)
    np.testing.assert_allclose(found, (1 * 0.5 + 2 * variances) / 3, rtol=1e-9)
    assert degrees[0] == pytest.approx(3)


def test_trigamma_is_inverted():
    x = 10.0 ** np.arange(-6, 7)
    np.testing.assert_allclose(inverse_trigamma(polygamma(1, x)), x, rtol=1e-8)
    assert inverse_trigamma(np.array([np.pi**2 / 6]))[0] == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("degrees", [3, 14, 28.5])
@pytest.mark.parametrize("spread", [0.0, 0.2, 1.5])
def test_the_twin_agrees(degrees, spread):
    rng = np.random.default_rng(0)
    variances = rng.chisquare(degrees, (5, 12)) * np.exp(spread * rng.normal(size=12))
    variances[1, 0] = 0.0
    found, total = moderated(variances, degrees)
    for row in range(5):
        expected, expected_total = naive.moderated(variances[row].tolist(), degrees)
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)
        assert total[row] == pytest.approx(expected_total, rel=1e-5)
    given, total = moderated(variances, degrees, 7.5)
    for row in range(5):
        expected, expected_total = naive.moderated(variances[row].tolist(), degrees, 7.5)
        np.testing.assert_allclose(given[row], expected, rtol=1e-9)
        assert total[row] == expected_total == degrees + 7.5


def test_the_distribution_that_variances_come_from_is_found():
    """Smyth's model: variances d0 s0^2/chi-square(d0), each measured with d degrees of freedom."""
    rng = np.random.default_rng(1)
    true = 8 * 2.0 / rng.chisquare(8, 40_000)
    measured = true * rng.chisquare(12, true.size) / 12
    prior = variance_prior(measured[None], 12)
    assert prior.degrees[0] == pytest.approx(8, rel=0.05)
    assert prior.variance[0] == pytest.approx(2, rel=0.02)
    # Nothing else with these data has a smaller mean squared error of the inverse (Smyth, section 3).
    found, total = moderated(measured[None], 12)
    assert np.mean((1 / found[0] - 1 / true) ** 2) < 0.5 * np.mean((1 / measured - 1 / true) ** 2)
    errors = rng.normal(size=true.size) * np.sqrt(true / found[0])
    assert stats.kstest(errors, stats.t(total[0]).cdf).pvalue > 0.01


def test_limits():
    rng = np.random.default_rng(2)
    variances = rng.chisquare(10, (1, 300))
    np.testing.assert_allclose(
        moderated(variances * 7, 10)[0], 7 * moderated(variances, 10)[0]
    )  # units do not matter
    same, degrees = moderated(np.full((1, 5), 3.0), 10)
    assert degrees[0] > 1e5  # no more spread than chance gives: one variance for all
    np.testing.assert_allclose(same, np.exp(np.log(3) - polygamma(0, 5) + np.log(5)), rtol=1e-4)
    single, degrees = moderated(np.array([[4.0]]), 10)
    np.testing.assert_array_equal([single[0, 0], degrees[0]], [4, 10])  # there are no others
    nothing, degrees = moderated(np.zeros((2, 4)), 10)
    assert not nothing.any()
    assert (degrees == 10).all()


def found_and_false(n_per_group, monkeypatch, n_studies=60):
    """Shares: of 55 connections three that differ by three standard errors, and any of the others."""
    pairs = np.array(np.triu_indices(11, 1)).T
    group = np.repeat([0, 1], n_per_group)
    matrix = np.column_stack([np.ones(len(group)), group]).astype(float)
    found, false = [], []
    for seed in range(n_studies):
        strengths = np.random.default_rng(seed).normal(size=(len(group), 55))
        strengths[:, :3] += 3.5 * np.sqrt(2 / n_per_group) * group[:, None]
        tests = inference.contrast_tests(
            *(strengths, matrix, np.array([[0.0, 1]])),
            pairs=pairs,
            variance_groups=group,
            n_permutations=199,
            random_state=seed,
        )
        found.append(np.mean(tests.p_family[:3] <= 0.05))
        false.append(np.any(tests.p_family[3:] <= 0.05))
    return np.mean(found), np.mean(false)


def test_few_subjects_profit(monkeypatch):
    """As many false alarms: at most six more or fewer of 60 (a binomial standard error is 1.7)."""
    found, false = found_and_false(8, monkeypatch)
    monkeypatch.setattr(
        design_statistics,
        "moderated",
        lambda values, d, prior: (values, np.full(len(values), float(d))),
    )
    before, false_before = found_and_false(8, monkeypatch)
    assert found > before + 0.1
    assert abs(false - false_before) <= 0.1
