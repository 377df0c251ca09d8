"""Intraclass correlations: the published example, another program, an analysis of variance by hand."""

import numpy as np
import pytest
from scipy import stats

from mtgbn import Tasks
from mtgbn.compare import split_halves
from mtgbn.compare.reliability import (
    half_reliability,
    intraclass_correlations,
    session_reliability,
)
from mtgbn.errors import InputError

# Shrout and Fleiss (1979), Table 2: six targets, four judges.
SHROUT = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]],
    dtype=float,
)


def by_hand(table, level=0.95):
    """ICC(2,1) and its interval in the form of Shrout and Fleiss, with sums spelled out."""
    n, k = table.shape
    mean = table.sum() / (n * k)
    rows = sum(k * (sum(row) / k - mean) ** 2 for row in table)
    columns = sum(n * (sum(column) / n - mean) ** 2 for column in table.T)
    total = sum((value - mean) ** 2 for value in table.ravel())
    bms, jms = rows / (n - 1), columns / (k - 1)
    ems = (total - rows - columns) / ((n - 1) * (k - 1))
    icc = (bms - ems) / (bms + (k - 1) * ems + k * (jms - ems) / n)
    f = jms / ems
    top = (k - 1) * (n - 1) * (k * icc * f + n * (1 + (k - 1) * icc) - k * icc) ** 2
    bottom = (n - 1) * k**2 * icc**2 * f**2 + (n * (1 + (k - 1) * icc) - k * icc) ** 2
    v = top / bottom
    upper = stats.f.ppf(1 - (1 - level) / 2, n - 1, v)
    lower = stats.f.ppf(1 - (1 - level) / 2, v, n - 1)
    low = n * (bms - upper * ems) / (upper * (k * jms + (k * n - k - n) * ems) + n * bms)
    high = n * (lower * bms - ems) / (k * jms + (k * n - k - n) * ems + n * lower * bms)
    return icc, low, high


def test_the_published_example():
    found = intraclass_correlations(SHROUT[:, :, None])
    assert found.icc[0] == pytest.approx(0.29, abs=0.005)
    # pingouin 0.7.0 gives .289764 and the interval .02 to .76.
    assert found.icc[0] == pytest.approx(0.289764, abs=5e-7)
    assert found.low[0] == pytest.approx(0.02, abs=0.005)
    assert found.high[0] == pytest.approx(0.76, abs=0.005)
    assert (found.n_subjects, found.n_sessions) == (6, 4)


def test_many_tables_are_those_by_hand():
    rng = np.random.default_rng(0)
    spreads = np.linspace(0, 2, 12)
    values = rng.normal(size=(9, 1, 12)) * spreads + rng.normal(size=(9, 3, 12))
    values += rng.normal(size=(1, 3, 12))
    found = intraclass_correlations(values)
    expected = np.array([by_hand(values[:, :, c]) for c in range(12)]).T
    np.testing.assert_allclose([found.icc, found.low, found.high], expected, rtol=1e-8, atol=1e-8)


def test_intervals_cover_the_true_correlation():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(25, 1, 2000)) + rng.normal(size=(25, 2, 2000))
    found = intraclass_correlations(values + 0.3 * rng.normal(size=(1, 2, 2000)))
    truth = 1 / (1 + 1 + 0.3**2)
    covered = np.sum((found.low <= truth) & (truth <= found.high))
    assert stats.binomtest(int(covered), 2000, 0.95).pvalue > 1e-3


def test_perfect_agreement_and_constant_strengths():
    same = np.repeat(np.arange(5.0)[:, None, None], 2, axis=1)
    found = intraclass_correlations(np.concatenate([same, np.zeros((5, 2, 1))], axis=2))
    assert (found.icc[0], found.low[0], found.high[0]) == (1, 1, 1)
    assert np.isnan(found.icc[1])


def test_subjects_with_too_few_sessions_are_left_out():
    rng = np.random.default_rng(2)
    strengths = rng.normal(size=(14, 4))
    rows = [[0, 1], [2, 3], [4], [5, 6, 7], [8, 9], [10], [11, 12, 13]]
    found = session_reliability(strengths, rows)
    expected = intraclass_correlations(strengths[[[0, 1], [2, 3], [5, 6], [8, 9], [11, 12]]])
    np.testing.assert_array_equal(found.icc, expected.icc)
    assert (found.n_subjects, found.n_sessions) == (5, 2)
    assert session_reliability(strengths, [[0, 1], [2], [3]]) is None
    assert "5 subjects" in found.in_words()


def test_halves_are_the_rows_in_order():
    rng = np.random.default_rng(3)
    arrays = {"a": rng.normal(size=(21, 3)), "b": rng.normal(size=(30, 3))}
    first, second = split_halves(arrays, standardise=True)
    parts = {"a": (slice(10), slice(10, 21)), "b": (slice(15), slice(15, 30))}
    for k, half in enumerate((first, second)):
        expected = Tasks.from_any(
            {name: rows[parts[name][k]] for name, rows in arrays.items()}, standardise=True
        )
        np.testing.assert_allclose(half.scatters, expected.scatters)
        assert half.names == ("a", "b")
    with pytest.raises(InputError, match="task 'short' has 6 rows, too few for two halves"):
        split_halves({"short": rng.normal(size=(6, 2))})
    with pytest.raises(InputError, match="effective_samples must be a method"):
        split_halves(arrays, effective_samples=12.0)
    values = rng.normal(size=(6, 2, 5))
    found = half_reliability(values[:, 0], values[:, 1])
    np.testing.assert_array_equal(found.icc, intraclass_correlations(values).icc)
    assert "two halves" in found.in_words()
