"""statsmodels is the oracle; where it has no number, restricted and full regressions are refitted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.api import OLS
from statsmodels.tsa.api import VAR

from mtgbn.errors import InputError
from mtgbn.fmri.granger import granger_causality


def autoregression(rng, n, p, order=1, strength=0.3):
    """A stationary series whose coefficients fade with the lag."""
    coefficients = [
        strength / lag * (np.eye(p) + rng.standard_normal((p, p)) / np.sqrt(p) * 0.7)
        for lag in range(1, order + 1)
    ]
    y = rng.standard_normal((n + 100, p))
    for t in range(order, n + 100):
        y[t] += sum(b @ y[t - lag] for lag, b in enumerate(coefficients, 1))
    return y[100:]


def pairs(p):
    return [(i, j) for i in range(p) for j in range(p) if i != j]


def sum_of_squares(X, y):
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    return residual @ residual


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("n", "p"), [(40, 2), (80, 3), (160, 8)])
def test_statistics_and_p_values_are_those_of_statsmodels(n, p, order):
    y = autoregression(np.random.default_rng([n, p, order]), n, p, order)
    result = granger_causality(y, order=order)
    model = VAR(y).fit(order)
    assert result.order == order
    assert np.isnan(np.diag(result.f_statistics)).all()
    assert np.isnan(np.diag(result.p_values)).all()
    for i, j in pairs(p):
        oracle = model.test_causality(j, [i], kind="f")
        assert_allclose(result.f_statistics[i, j], oracle.test_statistic, rtol=1e-8, atol=1e-8)
        assert_allclose(result.p_values[i, j], oracle.pvalue, rtol=1e-8, atol=1e-8)
        assert result.degrees_of_freedom == oracle.df


@pytest.mark.parametrize("order", [1, 4])
def test_one_equation_by_itself_is_the_usual_f_test(order):
    n, p = 120, 5
    y = autoregression(np.random.default_rng(order), n, p, 2)
    result = granger_causality(y, order=order, denominator="equation")
    system = granger_causality(y, order=order)
    assert_array_equal(result.f_statistics, system.f_statistics)
    past = np.hstack([y[order - lag : n - lag] for lag in range(1, order + 1)])
    for i, j in pairs(p):
        others = np.column_stack([np.ones(n - order), past[:, np.arange(p * order) % p != i]])
        full = OLS(y[order:, j], np.column_stack([np.ones(n - order), past])).fit()
        statistic, p_value, difference = full.compare_f_test(OLS(y[order:, j], others).fit())
        assert_allclose(result.f_statistics[i, j], statistic, rtol=1e-8)
        assert_allclose(result.p_values[i, j], p_value, rtol=1e-8)
        assert result.degrees_of_freedom == (difference, full.df_resid)


def test_size_of_the_paper():
    """30 regions, 230 volumes, and hardly more rows than coefficients."""
    n, p, order = 230, 30, 5
    y = autoregression(np.random.default_rng(3), n, p, 1)
    result = granger_causality(y, order=order)
    assert result.degrees_of_freedom == (5, 30 * (225 - 151))
    X = np.hstack([np.ones((225, 1)), *(y[order - lag : n - lag] for lag in range(1, 6))])
    for i, j in [(0, 1), (29, 0), (7, 22)]:
        full = sum_of_squares(X, y[order:, j])
        rest = sum_of_squares(np.delete(X, 1 + i + p * np.arange(order), axis=1), y[order:, j])
        assert_allclose(result.f_statistics[i, j], (rest - full) / 5 / (full / 74), rtol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_bic_chooses_as_statsmodels(seed):
    rng = np.random.default_rng(seed)
    p, true_order, max_order = 2 + seed % 3, 1 + seed // 4, 3 + seed % 4
    y = autoregression(rng, 200, p, true_order, strength=0.35)
    oracle = VAR(y).select_order(max_order)
    found = granger_causality(y, max_order=max_order).order
    assert found == 1 + np.argmin(oracle.ics["bic"][1:])
    assert found == max(1, oracle.selected_orders["bic"])


def test_bic_finds_orders_above_one():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((600, 2))
    for t in range(3, 600):
        y[t] += [0.5 * y[t - 3, 1], -0.4 * y[t - 2, 0]]
    assert granger_causality(y).order == VAR(y).select_order(5).bic == 3


def test_white_noise_gets_order_one():
    """BIC prefers order 0, of which there is nothing to test."""
    y = np.random.default_rng(0).standard_normal((200, 4))
    assert VAR(y).select_order(5).bic == 0
    assert granger_causality(y).order == 1


def test_direction_and_conditioning():
    """0 -> 1 -> 2: 0 precedes 2 as well, but adds nothing to 1."""
    y = np.random.default_rng(0).standard_normal((3000, 3))
    y[1:, 1] += 0.8 * y[:-1, 0]
    y[1:, 2] += 0.8 * y[:-1, 1]
    found = granger_causality(y, order=2).p_values < 1e-6
    assert_array_equal(found, [[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def test_p_values_are_uniform_without_an_effect():
    """Kolmogorov and Smirnov's tests: two, each with a false alarm in 1 of 10,000 seeds.

    A distribution function that is .16 off somewhere (2.2 / sqrt(200)) fails.
    """
    rng = np.random.default_rng(8)
    drawn = [
        granger_causality(autoregression(rng, 200, 3) * [1, 1, 0] + noise * [0, 0, 1], order=1)
        for noise in rng.standard_normal((200, 200, 3))
    ]
    # The third series is noise of its own, so it neither leads nor follows.
    assert stats.kstest([r.p_values[2, 0] for r in drawn], "uniform").pvalue > 1e-4
    assert stats.kstest([r.p_values[0, 2] for r in drawn], "uniform").pvalue > 1e-4


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 3))
@settings(max_examples=30)
def test_units_and_the_order_of_columns_do_not_matter(seed, p, order):
    rng = np.random.default_rng(seed)
    y = autoregression(rng, 80, p)
    result = granger_causality(y, order=order)
    moved = y * 10.0 ** rng.integers(-60, 60, p) * rng.choice([-1, 1], p)
    moved += 100 * moved.std(axis=0) * rng.standard_normal(p)
    assert_allclose(granger_causality(moved, order=order).f_statistics, result.f_statistics, 1e-6)
    columns = rng.permutation(p)
    permuted = granger_causality(y[:, columns], order=order).f_statistics
    assert_allclose(permuted, result.f_statistics[np.ix_(columns, columns)], 1e-7)


def test_a_frame_is_the_array_it_holds_and_stays_as_it_was():
    y = autoregression(np.random.default_rng(0), 60, 3)
    frame = pd.DataFrame(y, columns=["PCC", "MPFC", "IPL"])
    before = frame.copy()
    assert_array_equal(granger_causality(frame).p_values, granger_causality(y).p_values)
    pd.testing.assert_frame_equal(frame, before)


SERIES = autoregression(np.random.default_rng(0), 60, 3)


def changed(column, values):
    y = SERIES.copy()
    y[:, column] = values
    return y


def with_value(row, column, value):
    y = SERIES.copy()
    y[row, column] = value
    return y


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (SERIES, {"order": 0}, "order must be a whole number of at least 1; got 0"),
        (SERIES, {"order": 1.0}, "order must be a whole number of at least 1; got 1.0"),
        (SERIES, {"order": "aic"}, "order must be a whole number .* or \"bic\"; got 'aic'"),
        (SERIES, {"max_order": 0}, "max_order must be a whole number of at least 1"),
        (SERIES, {"denominator": "both"}, "denominator must be .*got 'both'"),
        (SERIES[:8], {"order": 2}, "8 rows; order=2 with 3 variables needs 10; lower order to 1"),
        (SERIES[:5], {"order": 1}, "5 rows; order=1 with 3 variables needs 6; use fewer variables"),
        (SERIES[:15], {}, "15 rows; max_order=5 with 3 variables needs 24; lower max_order to 2"),
        (SERIES[:2], {}, r"has 2 row\(s\)"),
        (SERIES[:, 0], {}, "1 dimension"),
        (SERIES[:, :1], {}, "fewer than two variables"),
        (changed(1, 4.5), {}, r"variable 'x1' is constant \(value 4.5 in all 60 rows\)"),
        (with_value(7, 2, np.nan), {}, r"1 value\(s\) .* in 'x2'; the first is nan .* at row 7"),
        (with_value(7, 2, -np.inf), {}, "the first is -inf of 'x2' at row 7"),
        (changed(0, 1e300 * SERIES[:, 0]), {}, "'x0'.* rescale the variable"),
        (changed(2, SERIES[:, 0] - 2 * SERIES[:, 1]), {}, "'x2' is a linear .* of 'x0', 'x1'"),
        (changed(2, 5 - 3 * SERIES[:, 1]), {}, "'x2' is a linear combination of 'x1'"),
        # A copy that lags by one row is predicted without error, and its past is known already.
        (changed(2, np.roll(SERIES[:, 0], 1)), {"order": 1}, "'x2' is predicted without error"),
        (changed(2, np.roll(SERIES[:, 0], 1)), {"order": 2}, r"'x0': its values 2 row\(s\) before"),
        (np.array([["a", "b"]] * 9), {}, "value 'a' at row 0 .* is not a real number"),
    ],
)
def test_bad_input_is_named(series, options, message):
    with pytest.raises(InputError, match=message):
        granger_causality(series, **options)


def test_bic_names_what_makes_residuals_collinear():
    y = np.random.default_rng(0).standard_normal((80, 3))
    y[1:, 2] = y[1:, 0] + y[:-1, 1]
    with pytest.raises(InputError, match="'x2' is an exact function of the present"):
        granger_causality(y[1:], max_order=1)


def test_messages_use_the_names_of_the_user():
    frame = pd.DataFrame(changed(1, 0.0), columns=["PCC", "MPFC", "IPL"])
    with pytest.raises(InputError, match="task 'sub-07', variable 'MPFC' is constant"):
        granger_causality(frame, task="sub-07")
