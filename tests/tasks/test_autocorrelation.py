"""Effective sample sizes against Bartlett's formula by hand, theory, and what correlations do."""

import numpy as np
import pytest
from scipy import signal

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks, effective_samples
from mtgbn.tasks.data_warnings import time_series


def autoregression(rng, rows, coefficients, mixing=None):
    """Independent AR(1) series, or linear combinations of their innovations."""
    noise = rng.normal(size=(rows + 200, len(coefficients)))
    noise = noise if mixing is None else noise @ mixing
    series = [
        signal.lfilter([1.0], [1.0, -a], column)
        for a, column in zip(coefficients, noise.T, strict=True)
    ]
    return np.array(series).T[200:]


def band_passed(rng, rows, p):
    """White noise between 0.01 and 0.08 Hz at a repetition time of 2.5 s."""
    b, a = signal.butter(5, [0.01, 0.08], btype="band", fs=0.4)
    return signal.filtfilt(b, a, rng.normal(size=(rows + 400, p)), axis=0)[200:-200]


def naive_bartlett(series):
    """The definition, pair by pair and lag by lag."""
    rows, p = series.shape
    x = series - series.mean(axis=0)

    def rho(i, k):
        return sum(x[t, i] * x[t + k, i] for t in range(rows - k)) / sum(x[:, i] ** 2)

    pairs = [(i, j) for i in range(p) for j in range(i)]
    lags = range(1, rows // 4 + 1)
    means = [np.mean([rho(i, k) * rho(j, k) for i, j in pairs]) for k in lags]
    last = 0
    while last + 1 < len(means) and means[last] + means[last + 1] > 0:
        last += 2
    if len(means) % 2 and last == len(means) - 1:
        last = len(means)
    sums = [sum(rho(i, k) * rho(j, k) for k in range(1, last + 1)) for i, j in pairs]
    return np.mean([rows / max(1 + 2 * total, 1) for total in sums])


@pytest.mark.parametrize("rows", [20, 43, 80])
@pytest.mark.parametrize("coefficient", [-0.5, 0.0, 0.5, 0.9])
def test_bartlett_is_what_the_definition_says(rows, coefficient):
    rng = np.random.default_rng([rows, int(10 * coefficient) + 10])
    series = autoregression(rng, rows, [coefficient] * 3, rng.normal(size=(3, 3)))
    assert effective_samples(series) == pytest.approx(naive_bartlett(series), rel=1e-10)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.5, 0.5), (0.8, 0.8), (0.9, 0.4)])
def test_autoregressions_have_the_size_that_theory_gives(a, b):
    rng = np.random.default_rng(0)
    rows = 2000
    expected = rows * (1 - a * b) / (1 + a * b)
    series = [autoregression(rng, rows, [a, b]) for _ in range(40)]
    for method in ("bartlett", "ar1"):
        found = np.mean([effective_samples(each, method) for each in series])
        assert found == pytest.approx(expected, rel=0.04)


def test_correlations_of_band_passed_noise_vary_as_if_there_were_so_many_rows():
    """The oracle is the variance of the correlations themselves."""
    rng = np.random.default_rng(0)
    series = [band_passed(rng, 230, 10) for _ in range(100)]
    first, second = np.triu_indices(10, 1)
    squares = [np.corrcoef(each.T)[first, second] ** 2 for each in series]
    assert np.mean([effective_samples(each) for each in series]) == pytest.approx(
        1 / np.mean(squares), rel=0.1
    )


def test_correlation_between_series_hardly_matters():
    rng = np.random.default_rng(0)
    mixing = np.linalg.cholesky(0.5 * np.eye(8) + 0.5).T
    alone = [effective_samples(autoregression(rng, 230, [0.6] * 8)) for _ in range(30)]
    mixed = [effective_samples(autoregression(rng, 230, [0.6] * 8, mixing)) for _ in range(30)]
    assert np.mean(mixed) == pytest.approx(np.mean(alone), rel=0.05)


def test_units_and_order_of_the_variables_do_not_matter():
    series = autoregression(np.random.default_rng(1), 100, [0.7, 0.2, 0.5])
    other = (1e150 * series * [1.0, -1e-3, 1e4] + [5e150, 0.0, 0.0])[:, [2, 0, 1]]
    for method in ("bartlett", "ar1"):
        assert effective_samples(other, method) == pytest.approx(effective_samples(series, method))


def test_tasks_are_scaled_by_it():
    series = autoregression(np.random.default_rng(2), 150, [0.7, 0.2, 0.5])
    size = effective_samples(series)
    tasks = Tasks.from_any({"a": series, "b": series[::-1]}, effective_samples="bartlett")
    np.testing.assert_allclose(tasks.ns, size)
    np.testing.assert_allclose(tasks.scatters[0] / size, np.cov(series.T, ddof=0))
    assert Tasks.from_any([series], effective_samples="none") == Tasks.from_any([series])
    assert tasks.n_rows.tolist() == [150, 150]


def test_alternating_series_are_not_worth_more_than_their_rows():
    series = autoregression(np.random.default_rng(2), 100, [0.9, -0.9])
    assert effective_samples(series) <= 100
    assert effective_samples(series, "ar1") <= 100


def test_bad_use_is_explained():
    series = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match="'none', 'ar1', 'bartlett'"):
        effective_samples(series, "bartlet")
    with pytest.raises(InputError, match="got 'fast'"):
        Tasks.from_any([series], effective_samples="fast")
    with pytest.raises(InputError, match="has 3 rows, too few"):
        Tasks.from_any([series[:3]], effective_samples="ar1")
    with pytest.raises(InputError, match="'x1' is constant"):
        effective_samples(np.column_stack([series[:, 0], np.ones(30)]))
    series[4, 1] = np.nan
    with pytest.raises(InputError, match="missing or infinite"):
        effective_samples(series)
    series[3:, 1] = np.nan
    with pytest.raises(InputError, match="1 variables with at least 4 observed values"):
        Tasks.from_any([series], effective_samples="bartlett", missing="em")


def with_missing(rng, series, share, n_rows):
    """The series without a share of its values, and without all values of ``n_rows`` rows."""
    holey = np.where(rng.random(series.shape) < share, np.nan, series)
    holey[rng.choice(np.arange(1, len(series) - 1), n_rows, replace=False)] = np.nan
    return holey


def naive_with_missing(series):
    """The definition, pair by pair and lag by lag, over the rows that are observed."""
    rows, p = series.shape
    x = series - np.nanmean(series, axis=0)

    def rho(i, k):
        products = x[: rows - k, i] * x[k:, i]
        found = products[~np.isnan(products)]
        return (1 - k / rows) * found.mean() / np.nanmean(x[:, i] ** 2) if len(found) else 0.0

    table = np.array([[rho(i, k) for i in range(p)] for k in range(1, rows // 4 + 1)])
    pairs = [(i, j) for i in range(p) for j in range(i)]
    means = [np.mean([each[i] * each[j] for i, j in pairs]) for each in table]
    last = 0
    while last + 1 < len(means) and means[last] + means[last + 1] > 0:
        last += 2
    if len(means) % 2 and last == len(means) - 1:
        last = len(means)
    filled = int((~np.isnan(series)).any(axis=1).sum())
    sums = [(table[:last, i] * table[:last, j]).sum() for i, j in pairs]
    return np.mean([filled / max(1 + 2 * total, 1) for total in sums])


def read(series, **options):
    return Tasks.from_any([series], missing="em", **options)


def test_missing_values_leave_the_pairs_of_rows_that_are_observed():
    rng = np.random.default_rng(3)
    for rows, a in ((40, 0.8), (80, 0.5), (81, 0.9)):
        series = with_missing(rng, autoregression(rng, rows, [a] * 3), 0.15, 5)
        expected = naive_with_missing(series)
        assert read(series, effective_samples="bartlett").ns[0] == pytest.approx(expected)
        tasks = read(series)
        assert tasks.independent_shares[0] == pytest.approx(expected / tasks.n_rows[0])
        # A variable that a task lacks changes nothing.
        lacking = np.column_stack([series, np.full(rows, np.nan)])
        other = autoregression(rng, rows, [a] * 4)
        both = Tasks.from_any([lacking, other], missing="em", effective_samples="bartlett")
        assert both.ns[0] == pytest.approx(expected)


def test_complete_series_are_worth_the_same_if_values_may_be_missing():
    series = autoregression(np.random.default_rng(2), 150, [0.7, 0.2, 0.5])
    for method in ("bartlett", "ar1"):
        expected = effective_samples(series, method)
        assert read(series, effective_samples=method).ns[0] == pytest.approx(expected)
    assert naive_with_missing(series) == pytest.approx(naive_bartlett(series))


@pytest.mark.parametrize(("share", "n_rows"), [(0.2, 0), (0.0, 300), (0.1, 200)])
def test_series_with_gaps_are_worth_the_share_that_theory_gives(share, n_rows):
    rng = np.random.default_rng(0)
    for a in (0.0, 0.6, 0.8):
        found = []
        for _ in range(30):
            tasks = read(with_missing(rng, autoregression(rng, 1500, [a] * 2), share, n_rows))
            found.append(tasks.independent_shares[0])
        assert np.mean(found) == pytest.approx((1 - a**2) / (1 + a**2), rel=0.06)


def test_time_series_with_missing_values_are_warned_of():
    rng = np.random.default_rng(0)
    series = autoregression(rng, 120, [0.9] * 3)
    for each in (series, with_missing(rng, series, 0.0, 1), with_missing(rng, series, 0.1, 10)):
        assert "rows are autocorrelated" in time_series(read(each))[0]
        for method in ("bartlett", "none", 60):
            assert time_series(read(each, effective_samples=method)) == []
    assert time_series(read(with_missing(rng, rng.normal(size=(120, 3)), 0.1, 10))) == []
