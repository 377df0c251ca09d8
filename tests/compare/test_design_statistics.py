"""Groups of unequal spread: Welch's and Johansen's statistics, and the level of their permutations."""

import naive
import numpy as np
import pytest
from scipy import stats

from mtgbn.compare import inference
from mtgbn.compare.design_statistics import (
    EqualVariances,
    VarianceGroups,
    divide,
    estimates,
)


def dummies(groups, *covariates):
    """Intercept, one column for every group but the first, covariates."""
    columns = [groups == g for g in range(1, groups.max() + 1)]
    return np.column_stack([np.ones(len(groups)), *columns, *covariates]).astype(float)


def welch_anova(samples):
    """F, its second degrees of freedom and p, as printed by Welch (1951)."""
    sizes = np.array([len(each) for each in samples])
    means = np.array([each.mean() for each in samples])
    weights = sizes / np.array([each.var(ddof=1) for each in samples])
    k, mean = len(samples), (weights * means).sum() / weights.sum()
    spread = ((1 - weights / weights.sum()) ** 2 / (sizes - 1)).sum()
    between = (weights * (means - mean) ** 2).sum() / (k - 1)
    f = between / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    degrees = (k**2 - 1) / (3 * spread)
    return f, degrees, stats.f.sf(f, k - 1, degrees)


def johansen(strengths, matrix, contrast, groups, prior):
    """Johansen's statistic with matrices spelled out: estimates, their variance, its uncertainty."""
    inverse = np.linalg.inv(matrix.T @ matrix)
    weights = contrast @ inverse @ matrix.T
    hat = matrix @ inverse @ matrix.T
    residuals, free = strengths - hat @ strengths, 1 - np.diag(hat)
    estimates, r = weights @ strengths, len(contrast)
    variances, degrees = [], []
    for g in np.unique(groups):
        own = free[groups == g].sum()
        measured = (residuals[groups == g] ** 2).sum(axis=0) / own
        shrunk, total = naive.moderated(measured.tolist(), own, prior)
        variances.append(shrunk)
        degrees.append(total)
    found = []
    for c in range(strengths.shape[1]):
        parts = [
            variances[g][c] * weights[:, groups == g] @ weights[:, groups == g].T
            for g in np.unique(groups)
        ]
        total = np.sum(parts, axis=0)
        shares = [np.linalg.inv(total) @ part for part in parts]
        a = 0.5 * sum(
            (np.trace(share @ share) + np.trace(share) ** 2) / d
            for share, d in zip(shares, degrees, strict=True)
        )
        wald = estimates[:, c] @ np.linalg.inv(total) @ estimates[:, c]
        found.append((wald / (r + 2 * a - 6 * a / (r + 2)), r * (r + 2) / (3 * a)))
    return found


def unequal(seed, sizes, spreads, n_connections=10):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    strengths = rng.normal(size=(len(groups), n_connections)) * np.array(spreads)[groups][:, None]
    return strengths, groups


def one_by_one(strengths, matrix, contrast, groups):
    """Statistics and p-values of single connections, whose variances have no others to learn from."""
    divided = divide(matrix, contrast)
    residuals = strengths - divided.nuisance @ (divided.nuisance.T @ strengths)
    for c in range(strengths.shape[1]):
        found = VarianceGroups(divided, residuals[:, c : c + 1], groups).observed()
        yield found.statistic[0], found.p[0]


def test_two_groups_are_welchs_test():
    strengths, groups = unequal(0, [9, 17], [2, 1])
    matrix, contrast = dummies(groups), np.array([[0.0, 1]])
    found = np.array(list(one_by_one(strengths, matrix, contrast, groups)))
    expected = stats.ttest_ind(strengths[9:], strengths[:9], equal_var=False)
    np.testing.assert_allclose(found[:, 0], np.abs(expected.statistic), rtol=1e-9)
    np.testing.assert_allclose(found[:, 1], expected.pvalue, rtol=1e-9)
    interval = expected.confidence_interval()
    effect, low, high, error = estimates(strengths, matrix, contrast, groups)
    np.testing.assert_allclose(low, interval.low, rtol=1e-9)
    np.testing.assert_allclose(high, interval.high, rtol=1e-9)
    np.testing.assert_allclose(effect, strengths[9:].mean(axis=0) - strengths[:9].mean(axis=0))
    # Half of the estimated variances are smaller than the median of chi-square per degree.
    unbiased = np.sqrt(stats.chi2.median(expected.df) / expected.df)
    np.testing.assert_allclose(error * unbiased, np.abs(effect / expected.statistic), rtol=1e-9)


def test_several_groups_are_welchs_analysis_of_variance():
    strengths, groups = unequal(1, [7, 12, 9, 15], [1, 3, 2, 1])
    found = one_by_one(strengths, dummies(groups), np.eye(4)[1:], groups)
    for y, (statistic, pvalue) in zip(strengths.T, found, strict=True):
        f, _, p = welch_anova([y[groups == g] for g in range(4)])
        assert statistic == pytest.approx(f, rel=1e-9)
        assert pvalue == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize("r", [1, 2])
def test_statistics_of_permutations_are_those_of_matrices_spelled_out(r):
    strengths, groups = unequal(2, [8, 11, 9], [1, 2, 3], n_connections=6)
    rng = np.random.default_rng(3)
    matrix = dummies(groups, rng.normal(size=28), rng.normal(size=28))
    strengths *= [1, 1, 2, 0.5, 1, 4]
    strengths += matrix[:, 3:4]
    contrast = np.eye(5)[1 : 1 + r]
    divided = divide(matrix, contrast)
    fitted = divided.nuisance @ (divided.nuisance.T @ strengths)
    statistics = VarianceGroups(divided, strengths - fitted, groups)
    left = 28 - divided.nuisance.shape[1]
    whole = np.sum((strengths - fitted) ** 2, axis=0) / left
    prior = naive.prior_degrees(whole.tolist(), left)
    orders = np.array([rng.permutation(28) for _ in range(6)])
    found = statistics.values(orders)
    for row, order in zip(found, orders, strict=True):
        permuted = fitted.copy()
        permuted[order] += strengths - fitted
        for c, (f, nu) in enumerate(johansen(permuted, matrix, contrast, groups, prior)):
            assert row[c] == pytest.approx(naive.standardised(f, r, nu), rel=1e-6)


def test_standardised_statistics_have_the_quantiles_of_the_normal_distribution():
    """z of Welch's t of many samples, against the exact transformation of its p-value.

    Variances of the samples are alike and so have many degrees of freedom when they are moderated;
    with spreads of their own they have few."""
    strengths, groups = unequal(4, [10, 30], [2, 1], n_connections=400)
    strengths *= np.exp(np.random.default_rng(5).normal(size=400))
    divided = divide(dummies(groups), np.array([[0.0, 1]]))
    statistics = VarianceGroups(divided, strengths - strengths.mean(axis=0), groups)
    found = statistics.values(np.arange(40)[None])[0]
    exact = stats.norm.isf(statistics.observed().p / 2)
    np.testing.assert_allclose(found, exact, atol=0.02)
    assert statistics.threshold(0.05) == pytest.approx(1.96, abs=0.001)


def test_one_group_has_the_same_estimates_as_no_groups():
    strengths, groups = unequal(5, [10, 12], [1, 2])
    matrix, contrast = dummies(groups), np.array([[0.0, 1]])
    alone = np.zeros(22, dtype=int)
    for one, none in zip(
        estimates(strengths, matrix, contrast, alone),
        estimates(strengths, matrix, contrast),
        strict=True,
    ):
        np.testing.assert_allclose(one, none, rtol=1e-10)
    divided = divide(matrix, contrast)
    residuals = strengths - strengths.mean(axis=0)
    # Not moderated: with groups it is the spread of all subjects that decides how much.
    for c in range(10):
        one = VarianceGroups(divided, residuals[:, c : c + 1], alone).observed()
        other = EqualVariances(divided, residuals[:, c : c + 1]).observed()
        np.testing.assert_allclose(one.statistic, other.statistic, rtol=1e-9)


def test_constant_strengths_and_perfect_fits_give_no_nan():
    strengths, groups = unequal(6, [8, 9, 10], [1, 1, 1])
    strengths[:, 0] = 0.0
    strengths[:, 1] = groups == 1
    strengths[groups == 2, 2] = 1.0
    found = inference.contrast_tests(
        *(strengths, dummies(groups), np.eye(3)[1:]),
        pairs=np.array(np.triu_indices(5, 1)).T,
        variance_groups=groups,
        n_permutations=50,
        random_state=0,
    )
    assert found.p[0] == 1
    assert found.p[1] == pytest.approx(1 / 51)
    for name in ("effect", "low", "high", "statistic", "p", "p_family", "q", "enhanced"):
        assert np.isfinite(getattr(found, name)).all(), name


def levels(make, n_studies, variance_groups=True, n_permutations=199):
    """p-values of single connections and smallest corrected ones, over studies without a difference."""
    single, family = [], []
    pairs = np.array(np.triu_indices(10, 1)).T
    for seed in range(n_studies):
        strengths, matrix, groups, blocks = make(np.random.default_rng(seed), len(pairs))
        found = inference.contrast_tests(
            *(strengths, matrix, np.eye(matrix.shape[1])[1:2]),
            pairs=pairs,
            blocks=blocks,
            variance_groups=groups if variance_groups else None,
            n_permutations=n_permutations,
            random_state=seed,
        )
        single.append(found.p[seed % len(pairs)])
        family.append(found.p_any)
    # p-values are multiples of 1/(n + 1).
    jitter = np.random.default_rng(0).random(n_studies) / (n_permutations + 1)
    return np.array(single) - jitter, np.array(family)


def two_sites(rng, n_connections):
    """Sites with their own level, twice the noise in one, and other shares of the groups."""
    site = np.repeat([0, 1], 20)
    group = np.concatenate([np.arange(20) % 3 == 0, np.arange(20) % 2 == 0]).astype(int)
    strengths = rng.normal(size=(40, n_connections)) * (1 + site)[:, None] + 2 * site[:, None]
    return strengths, np.column_stack([np.ones(40), group, site]), group, site


def unbalanced_covariate(rng, n_connections):
    """Ages differ between the groups, and change all strengths."""
    group = np.arange(36) % 2
    age = rng.normal(size=36) + group
    strengths = rng.standard_t(4, size=(36, n_connections)) + 0.8 * age[:, None]
    return strengths, np.column_stack([np.ones(36), group, age]), group, None


@pytest.mark.parametrize("make", [two_sites, unbalanced_covariate])
def test_the_level_is_kept(make):
    single, family = levels(make, 400)
    assert stats.kstest(single, "uniform").pvalue > 0.01
    assert stats.binomtest(int(np.sum(family <= 0.05)), 400, 0.05).pvalue > 0.01


def small_and_wide(rng, n_connections):
    """Ten subjects with twice the spread, and thirty others."""
    group = (np.arange(40) < 10).astype(int)
    strengths = rng.normal(size=(40, n_connections)) * (1 + group)[:, None]
    return strengths, np.column_stack([np.ones(40), group]), group, None


def test_a_small_group_with_twice_the_spread_is_no_difference():
    """Without variance groups more than a third of these studies would find a difference."""
    single, family = levels(small_and_wide, 400)
    assert stats.kstest(single, "uniform").pvalue > 0.01
    # The statistic is standardised, so that the level holds approximately.
    assert np.mean(family <= 0.05) < 0.12
    _, wrong = levels(small_and_wide, 100, variance_groups=False)
    assert np.mean(wrong <= 0.05) > 0.35


@pytest.mark.parametrize(
    ("sizes", "spreads", "most"), [((10, 30), (2, 1), 0.07), ((6, 20), (3, 1), 0.11)]
)
def test_many_connections_keep_the_level_with_unequal_spread(sizes, spreads, most):
    """435 connections; with other degrees of freedom for every order it was .09 and .22."""
    pairs = np.array(np.triu_indices(30, 1)).T
    found = 0
    for seed in range(200):
        strengths, groups = unequal(seed, sizes, spreads, n_connections=len(pairs))
        tests = inference.contrast_tests(
            *(strengths, dummies(groups), np.array([[0.0, 1]])),
            pairs=pairs,
            variance_groups=groups,
            n_permutations=99,
            random_state=seed,
        )
        found += tests.p_any <= 0.05
    assert found / 200 <= most


@pytest.mark.parametrize("has_covariate", [False, True])
def test_how_much_variances_are_shrunk_does_not_depend_on_the_order(has_covariate):
    """Only then equal groups have an exact test: permuted residuals give the same numbers."""
    strengths, groups = unequal(7, [8, 14], [2, 1], n_connections=30)
    rng = np.random.default_rng(8)
    matrix = dummies(groups, *([rng.normal(size=22)] if has_covariate else []))
    divided = divide(matrix, np.eye(matrix.shape[1])[1:2])
    residuals = strengths - divided.nuisance @ (divided.nuisance.T @ strengths)
    order = rng.permutation(22)
    moved = np.empty_like(residuals)
    moved[order] = residuals
    np.testing.assert_allclose(
        VarianceGroups(divided, residuals, groups).values(order[None])[0],
        VarianceGroups(divided, moved, groups).values(np.arange(22)[None])[0],
        rtol=1e-9,
    )
