"""The detectable effect: data sets with this effect are found as often as it says."""

import numpy as np
import pytest
from scipy import stats

from mtgbn.compare.inference import contrast_tests
from mtgbn.compare.power import detectable_effect

PAIRS = np.array(np.triu_indices(5, 1)).T  # ten connections
N_SETS = 2000
N_UNEQUAL = 300  # a binomial standard error is .023


def design(n_groups, m=32):
    """Groups of equal size, the first one is the reference, and a covariate."""
    rng = np.random.default_rng(5)
    group = np.arange(m) % n_groups
    columns = [np.ones(m), *(group == g for g in range(1, n_groups)), rng.normal(size=m)]
    contrast = np.eye(n_groups + 1)[1:n_groups]
    return np.column_stack(columns).astype(float), contrast


def correlated(rng, m, n_sets):
    """Normal errors with a common part, so that connections depend on each other."""
    return rng.normal(size=(n_sets, m, 10)) + 0.8 * rng.normal(size=(n_sets, m, 1))


@pytest.mark.parametrize("n_groups", [2, 3])
def test_data_with_this_effect_are_found_as_often_as_stated(n_groups):
    matrix, contrast = design(n_groups)
    rng = np.random.default_rng(n_groups)
    # One study without an effect; its standard deviation is replaced with the true one.
    null = correlated(rng, len(matrix), 1)[0]
    tests = contrast_tests(null, matrix, contrast, pairs=PAIRS, n_permutations=99, random_state=1)
    told = detectable_effect(tests, len(contrast))
    truth = np.sqrt(1 + 0.8**2)
    effect = told.effect * truth * scale(matrix, contrast) / np.median(tests.error)
    found = 0
    for number, strengths in enumerate(correlated(rng, len(matrix), N_SETS)):
        strengths[:, 3] += effect * matrix[:, 1]
        again = contrast_tests(
            strengths, matrix, contrast, pairs=PAIRS, n_permutations=199, random_state=number
        )
        found += again.p_family[3] <= 0.05
    assert 0.76 <= found / N_SETS <= 0.84


def scale(matrix, contrast):
    """Standard error of the first combination, the others known, per residual standard deviation."""
    covariance = contrast @ np.linalg.inv(matrix.T @ matrix) @ contrast.T
    return 1 / np.sqrt(np.linalg.inv(covariance)[0, 0])


@pytest.mark.parametrize(
    ("sizes", "spreads"), [((8, 40), (1, 1)), ((8, 40), (2, 1)), ((8, 12, 60), (1, 1, 4))]
)
def test_groups_of_unequal_size_and_spread_have_the_power_that_is_stated(sizes, spreads):
    """With one spread for all groups the power of the third design would be .54 instead of .80."""
    pairs = np.array(np.triu_indices(10, 1)).T
    group = np.repeat(np.arange(len(sizes)), sizes)
    matrix = np.column_stack([np.ones(len(group)), *(group == g for g in range(1, len(sizes)))])
    contrast = np.eye(len(sizes))[1:]

    def study(number, effect, n_permutations):
        rng = np.random.default_rng(number)
        strengths = rng.normal(size=(len(group), 45)) * np.array(spreads)[group][:, None]
        strengths[:, 3] += effect * (group == 1)
        return contrast_tests(
            *(strengths, matrix.astype(float), contrast),
            pairs=pairs,
            variance_groups=group,
            n_permutations=n_permutations,
            random_state=number,
        )

    found = 0
    for number in range(N_UNEQUAL):
        told = detectable_effect(study(number, 0.0, 9), len(contrast))
        found += study(number + N_UNEQUAL, told.effect, 199).p_family[3] <= 0.05
    assert 0.75 <= found / N_UNEQUAL <= 0.87


def test_one_connection_has_the_power_of_a_t_test():
    rng = np.random.default_rng(0)
    matrix, contrast = design(2, m=20)
    strengths = rng.normal(size=(20, 1))
    tests = contrast_tests(
        strengths, matrix, contrast, pairs=np.array([[0, 1]]), n_permutations=2000, random_state=0
    )
    told = detectable_effect(tests, 1)
    np.testing.assert_allclose(told.critical, stats.t.ppf(0.975, 17), rtol=1e-6)
    tails = stats.nct(17, told.effect / tests.error[0])
    assert tails.sf(told.critical) + tails.cdf(-told.critical) == pytest.approx(0.8, abs=1e-6)


def test_the_critical_value_is_that_of_all_connections():
    matrix, contrast = design(2)
    rng = np.random.default_rng(1)
    strengths = rng.normal(size=(len(matrix), 10))
    tests = contrast_tests(
        strengths, matrix, contrast, pairs=PAIRS, n_permutations=99, random_state=0
    )
    critical = detectable_effect(tests, 1).critical
    # The largest of ten independent statistics exceeds it in 5 % of the cases. Variances are the same,
    # so that moderation adds to the 29 degrees of freedom of the residuals.
    degrees = tests.degrees[0]
    assert degrees > 29
    np.testing.assert_array_equal(tests.degrees, degrees)
    largest = np.abs(stats.t.rvs(degrees, size=(40_000, 10), random_state=rng)).max(axis=1)
    assert np.mean(largest > critical) == pytest.approx(0.05, abs=0.004)


def test_more_power_needs_a_larger_effect_and_units_do_not_matter():
    matrix, contrast = design(2)
    strengths = correlated(np.random.default_rng(3), len(matrix), 1)[0]
    options = {"pairs": PAIRS, "n_permutations": 999, "random_state": 0}
    tests = contrast_tests(strengths, matrix, contrast, **options)
    effects = [detectable_effect(tests, 1, power=power).effect for power in (0.5, 0.8, 0.95)]
    assert effects == sorted(effects)
    wider = matrix * [1.0, 10.0, 1.0]
    scaled = contrast_tests(strengths, wider, contrast, **options)
    assert detectable_effect(scaled, 1).effect == pytest.approx(effects[1] / 10)
