"""Tests of proportions against the paper's table, statsmodels and scipy."""

import re
from itertools import product

import numpy as np
import pytest
from scipy.stats import fisher_exact
from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

from mtgbn.compare.proportions import exact_test, proportion_test, risk_difference
from mtgbn.errors import InputError

SIDES = {"greater": "larger", "less": "smaller", "two-sided": "two-sided"}
TABLES = [
    (a, n_a, b, n_b)
    for n_a, n_b in ((15, 15), (8, 20), (1, 3))
    for a, b in product(range(n_a + 1), range(n_b + 1))
]


# All p-values of the paper's Table 4, with counts of 15 patients and 15 controls that give them. The
# only other one, .4721, belongs to no whole counts.
TABLE_4 = {
    (6, 0): 0.0031, (5, 1): 0.0339, (9, 3): 0.0127, (7, 5): 0.2280, (6, 1): 0.0155, (6, 4): 0.2193,
    (9, 6): 0.1367, (5, 4): 0.3452, (9, 5): 0.0716, (7, 3): 0.0607, (8, 5): 0.1345, (4, 1): 0.0708,
    (2, 1): 0.2714, (7, 4): 0.1279, (7, 6): 0.3563, (8, 7): 0.3575, (10, 2): 0.0014, (8, 4): 0.0680,
    (8, 6): 0.2321, (6, 2): 0.0493, (5, 3): 0.2045, (6, 7): 0.6437, (6, 5): 0.3524, (9, 4): 0.0327,
    (4, 5): 0.6548, (4, 6): 0.7807,
}  # fmt: skip


@pytest.mark.parametrize(("counts", "expected"), TABLE_4.items())
def test_the_values_of_the_papers_table_4(counts, expected):
    patients, controls = counts
    assert proportion_test(patients, 15, controls, 15).pvalue == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize("alternative", SIDES)
def test_the_z_test_is_that_of_statsmodels(alternative):
    for a, n_a, b, n_b in TABLES:
        if 0 < a + b < n_a + n_b:
            statistic, pvalue = proportions_ztest(
                [a, b], [n_a, n_b], alternative=SIDES[alternative]
            )
            found = proportion_test(a, n_a, b, n_b, alternative)
            assert found.statistic == pytest.approx(statistic, abs=1e-12)
            assert found.pvalue == pytest.approx(pvalue, rel=1e-10)


def test_nothing_to_test_is_no_evidence():
    for count in (0, 1):
        assert proportion_test(15 * count, 15, 20 * count, 20) == (0.0, 1.0)


@pytest.mark.parametrize("alternative", SIDES)
def test_the_exact_test_is_that_of_scipy(alternative):
    columns = np.array(TABLES).T
    found = exact_test(*columns, alternative)
    expected = [fisher_exact([[a, n - a], [b, k - b]], alternative).pvalue for a, n, b, k in TABLES]
    np.testing.assert_allclose(found.pvalue, expected)


def test_intervals_are_those_of_statsmodels():
    columns = np.array([each for each in TABLES if each[1] > 1]).T
    found = risk_difference(*columns, level=0.9)
    for k, (a, n_a, b, n_b) in enumerate(columns.T):
        low, high = confint_proportions_2indep(a, n_a, b, n_b, method="newcomb", alpha=0.1)
        assert found.difference[k] == pytest.approx(a / n_a - b / n_b)
        assert (found.low[k], found.high[k]) == pytest.approx((low, high), abs=1e-10)


def test_arrays_keep_their_shape():
    counts = np.arange(6).reshape(2, 3)
    for test in (proportion_test, exact_test):
        assert test(counts, 10, 2, 15).pvalue.shape == (2, 3)
        assert np.shape(test(3, 10, 2, 15).pvalue) == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4, 1, 4), "count_a = 5 of n_a = 4"),
        ((1, 4, -1, 4), "count_b = -1"),
        ((1, 4, 0.5, 4), "whole numbers"),
        ((0, 0, 1, 4), "n at least 1"),
        ((1, 4, 1, 4, "larger"), "alternative must be one of"),
        (("x", 4, 1, 4), "must be numbers"),
    ],
)
def test_bad_counts_are_named(arguments, message):
    for test in (proportion_test, exact_test):
        with pytest.raises(InputError, match=re.escape(message)):
            test(*arguments)
