"""Tests by permutation: against regressions spelled out, exact distributions and naive components."""

import itertools
import tracemalloc

import naive
import networkx as nx
import numpy as np
import pytest
from scipy import stats

from mtgbn.compare import inference
from mtgbn.compare.power import detectable_effect
from mtgbn.errors import InputError


def example(seed=0, m=14, p=4, n_covariates=1, effect=0.0):
    """Strengths, a design with two groups and covariates, and its pairs."""
    rng = np.random.default_rng(seed)
    pairs = np.array(np.triu_indices(p, 1)).T
    group = np.arange(m) % 2
    covariates = rng.normal(size=(m, n_covariates)) + 0.5 * group[:, None]
    matrix = np.column_stack([np.ones(m), group, covariates])
    strengths = rng.normal(size=(m, len(pairs))) + 0.7 * covariates.sum(axis=1)[:, None]
    strengths[:, 0] += effect * group
    return strengths, matrix, pairs


def row(*weights):
    return np.array([weights], dtype=float)


def regression(strengths, matrix, contrast):
    """Estimates and standard errors by the textbook; F with moderated variances, its degrees."""
    inverse = np.linalg.inv(matrix.T @ matrix)
    betas = inverse @ matrix.T @ strengths
    free = len(matrix) - matrix.shape[1]
    variances = np.sum((strengths - matrix @ betas) ** 2, axis=0) / free
    estimates = contrast @ betas
    covariance = contrast @ inverse @ contrast.T
    moderated, degrees = naive.moderated(variances.tolist(), free)
    f = np.sum(estimates * np.linalg.solve(covariance, estimates), axis=0)
    return (
        estimates,
        np.sqrt(np.outer(np.diag(covariance), variances)),
        f / len(contrast) / moderated,
        degrees,
    )


def standardised(strengths, matrix, contrast):
    *_, f, degrees = regression(strengths, matrix, contrast)
    return naive.standardised(f, len(contrast), degrees)


def freedman_lane(strengths, matrix, contrast, orders):
    """Statistics under every order: residuals of the reduced model, permuted, added."""
    k = matrix.shape[1]
    _, _, rest = np.linalg.svd(contrast, full_matrices=True)
    reduced = matrix @ rest[len(contrast) :].T
    fitted = reduced @ np.linalg.lstsq(reduced, strengths, rcond=None)[0]
    residuals = strengths - fitted
    assert reduced.shape[1] == k - len(contrast)
    return np.array(
        [standardised(fitted + residuals[np.argsort(order)], matrix, contrast) for order in orders]
    )


@pytest.mark.parametrize(
    "contrast",
    [row(0, 1, 0), row(0, 0, 1), row(0, 1, -1), np.array([[0, 1, 0], [0, 0, 1.0]])],
    ids=["group", "covariate", "difference", "both"],
)
def test_pvalues_are_those_of_regressions_spelled_out(contrast):
    strengths, matrix, pairs = example(1)
    n = 60
    found = inference.contrast_tests(
        strengths, matrix, contrast, pairs=pairs, n_permutations=n, random_state=3
    )
    orders = np.concatenate(list(inference._orders(len(matrix), None, n, 3)))
    estimate, error, f, degrees = regression(strengths, matrix, contrast)
    observed = standardised(strengths, matrix, contrast)
    under_null = freedman_lane(strengths, matrix, contrast, orders)
    at_least = under_null >= observed * (1 - 1e-9)
    np.testing.assert_allclose(found.p, (1 + at_least.sum(axis=0)) / (n + 1))
    largest = under_null.max(axis=1)[:, None] >= observed * (1 - 1e-9)
    np.testing.assert_allclose(found.p_family, (1 + largest.sum(axis=0)) / (n + 1))
    np.testing.assert_allclose(found.effect, estimate[0], rtol=1e-9)
    reach = stats.t.ppf(0.975, len(matrix) - 3) * error[0]
    np.testing.assert_allclose(found.high - found.effect, reach, rtol=1e-9)
    statistic = np.sqrt(f) if len(contrast) == 1 else f
    np.testing.assert_allclose(np.abs(found.statistic), statistic, rtol=1e-6)
    np.testing.assert_allclose(found.degrees, degrees, rtol=1e-5)
    if len(contrast) == 1:
        assert (np.sign(found.statistic) == np.sign(found.effect)).all()


def test_two_groups_are_students_test():
    """One connection, whose variance has no others to learn from."""
    strengths, matrix, _ = example(2, p=2, n_covariates=0)
    found = inference.contrast_tests(
        strengths, matrix, row(0, 1), pairs=np.array([[0, 1]]), n_permutations=10, random_state=0
    )
    expected = stats.ttest_ind(strengths[1::2], strengths[::2])
    np.testing.assert_allclose(found.statistic, expected.statistic, rtol=1e-10)
    np.testing.assert_allclose(found.p_parametric, expected.pvalue, rtol=1e-8)
    np.testing.assert_allclose(
        found.effect, strengths[1::2].mean(axis=0) - strengths[::2].mean(axis=0), rtol=1e-10
    )


def test_pvalues_approach_those_of_all_relabellings():
    """Of one connection: orders by |t| and by the difference of the means are then the same."""
    strengths, matrix, _ = example(3, m=8, p=2, n_covariates=0, effect=1.0)
    n = 20_000
    found = inference.contrast_tests(
        strengths, matrix, row(0, 1), pairs=np.array([[0, 1]]), n_permutations=n, random_state=0
    )
    values = strengths[:, 0]
    differences = []
    for chosen in itertools.combinations(range(8), 4):
        group = np.isin(np.arange(8), chosen)
        differences.append(abs(values[group].mean() - values[~group].mean()))
    exact = np.mean(np.array(differences) >= abs(found.effect[0]) - 1e-12)
    assert found.p[0] == pytest.approx(exact, abs=4 * np.sqrt(exact / n))


def test_subjects_change_places_within_blocks_only():
    blocks = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    orders = np.concatenate(list(inference._orders(9, blocks, 1200, 1)))
    assert orders.shape == (1200, 9)
    assert (blocks[orders] == blocks).all()
    # Every order of a block is equally frequent.
    first = [tuple(order) for order in orders[:, :3].tolist()]
    counts = np.array([first.count(each) for each in itertools.permutations(range(3))])
    assert stats.chisquare(counts).pvalue > 1e-4


def test_a_covariate_that_mimics_the_groups_is_removed():
    rng = np.random.default_rng(5)
    m = 60
    group = np.repeat([0.0, 1.0], m // 2)
    age = rng.normal(size=m) + 1.5 * group
    strengths = rng.normal(size=(m, 3)) + age[:, None]
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    settings = {"pairs": pairs, "n_permutations": 500, "random_state": 0}
    without = np.column_stack([np.ones(m), group])
    found = inference.contrast_tests(strengths, without, row(0, 1), **settings)
    assert found.p_any < 0.01
    matrix = np.column_stack([without, age])
    assert inference.contrast_tests(strengths, matrix, row(0, 1, 0), **settings).p_any > 0.05


@pytest.mark.parametrize("has_blocks", [False, True])
def test_pvalues_are_uniform_without_a_difference(has_blocks):
    """The covariate matters and is not balanced, and errors are far from normal."""
    pvalues, families = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        strengths, matrix, pairs = example(seed, m=20)
        strengths += rng.exponential(size=strengths.shape)
        blocks = np.repeat([0, 1], 10) if has_blocks else None
        if has_blocks:
            site = np.repeat([0.0, 1.0], 10)
            matrix = np.column_stack([matrix, site])
            strengths += 2 * site[:, None]
        contrast = np.eye(matrix.shape[1])[1:2]
        found = inference.contrast_tests(
            *(strengths, matrix, contrast),
            pairs=pairs,
            blocks=blocks,
            n_permutations=99,
            random_state=seed,
        )
        pvalues.append(found.p[seed % len(pairs)])
        families.append(found.p_any)
    # p-values are multiples of .01.
    jittered = np.array(pvalues) - 0.01 * np.random.default_rng(0).random(len(pvalues))
    assert stats.kstest(jittered, "uniform").pvalue > 0.01
    rejected = np.sum(np.array(families) <= 0.05)
    assert stats.binomtest(int(rejected), 150, 0.05).pvalue > 0.01


def naive_enhancement(values, pairs):
    """Every height by itself, components by networkx."""
    out = np.zeros(len(values))
    step = values.max() / 100
    for level in range(1, 101):
        height = level * step
        above = [k for k in range(len(values)) if values[k] >= height * (1 - 1e-12)]
        graph = nx.Graph([tuple(pairs[k]) for k in above])
        for component in nx.connected_components(graph):
            members = [k for k in above if pairs[k][0] in component]
            for k in members:
                out[k] += np.sqrt(len(members)) * height**2 * step
    return out


@pytest.mark.parametrize("p", [2, 5, 9])
def test_enhancement_and_components_are_those_of_networkx(p):
    rng = np.random.default_rng(p)
    pairs = np.array(np.triu_indices(p, 1)).T
    values = np.abs(rng.normal(size=(6, len(pairs)))) ** 2
    values[0, 0] = values[0, -1]  # ties
    found = inference.enhance(values, pairs)
    for row_found, row_values in zip(found, values, strict=True):
        np.testing.assert_allclose(row_found, naive_enhancement(row_values, pairs), rtol=1e-9)
    for threshold in (0.3, 1.5, 100.0):
        extents = inference.largest_extents(values, pairs, threshold)
        for row_values, extent in zip(values, extents, strict=True):
            component = inference.component_of(row_values, pairs, threshold)
            above = np.flatnonzero(row_values >= threshold)
            graph = nx.Graph([tuple(pairs[k]) for k in above])
            expected = {
                frozenset(k for k in above if pairs[k][0] in nodes)
                for nodes in nx.connected_components(graph)
            }
            numbers = set(component[above].tolist())
            assert {frozenset(np.flatnonzero(component == n)) for n in numbers} == expected
            assert (component[row_values < threshold] == -1).all()
            assert extent == max(map(len, expected), default=0)


def test_a_weak_difference_along_a_path_is_found_as_a_component():
    rng = np.random.default_rng(0)
    p, m = 12, 40
    pairs = np.array(np.triu_indices(p, 1)).T
    group = np.arange(m) % 2
    on_path = pairs[:, 1] == pairs[:, 0] + 1
    strengths = rng.normal(size=(m, len(pairs))) + 1.1 * on_path * group[:, None]
    matrix = np.column_stack([np.ones(m), group])
    found = inference.contrast_tests(
        *(strengths, matrix, row(0, 1)),
        pairs=pairs,
        threshold=2.5,
        n_permutations=999,
        random_state=1,
    )
    largest = found.components[0]
    assert largest.p < 0.01
    assert on_path[largest.connections].mean() > 0.7
    assert np.sum(found.p_enhanced[on_path] <= 0.05) > np.sum(found.p_family[on_path] <= 0.05)
    assert found.p_enhanced[~on_path].min() > 0.01
    extents = [len(each.connections) for each in found.components]
    assert extents == sorted(extents, reverse=True)
    pvalues = [each.p for each in found.components]
    assert pvalues == sorted(pvalues)


def test_the_seed_decides_all_pvalues():
    strengths, matrix, pairs = example(4, m=30)
    settings = {"pairs": pairs, "n_permutations": 1200}
    first, again, other = (
        inference.contrast_tests(strengths, matrix, row(0, 1, 0), random_state=seed, **settings)
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first.p, again.p)
    assert (first.p != other.p).any()


def test_constant_strengths_and_perfect_fits_give_no_nan():
    strengths, matrix, pairs = example(6)
    strengths[:, 0] = 0.0
    strengths[:, 1] = matrix[:, 1]
    found = inference.contrast_tests(
        strengths, matrix, row(0, 1, 0), pairs=pairs, n_permutations=50, random_state=0
    )
    assert found.p[0] == 1
    assert found.p[1] == pytest.approx(1 / 51)
    for name in ("effect", "low", "high", "statistic", "p", "p_family", "q", "enhanced"):
        assert np.isfinite(getattr(found, name)).all(), name


@pytest.mark.parametrize("portion", [1, 20_000])
@pytest.mark.parametrize("has_groups", [False, True])
@pytest.mark.parametrize("has_blocks", [False, True])
def test_results_do_not_depend_on_the_memory(monkeypatch, portion, has_groups, has_blocks):
    strengths, matrix, pairs = example(4, m=30, p=7)
    settings = {
        "pairs": pairs,
        "n_permutations": 730,
        "random_state": 3,
        "variance_groups": np.arange(30) % 2 if has_groups else None,
        "blocks": np.arange(30) // 10 if has_blocks else None,
    }
    expected = inference.contrast_tests(strengths, matrix, row(0, 1, 0), **settings)
    monkeypatch.setattr(inference, "_PORTION", portion)
    done = []
    found = inference.contrast_tests(
        strengths, matrix, row(0, 1, 0), progress=lambda *each: done.append(each), **settings
    )
    assert done[-1] == (730, 730)
    assert len(done) > 20  # really in portions
    for name in ("p", "p_family", "p_enhanced"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for one, other in ((found.regions, expected.regions), (found.sets, expected.sets)):
        np.testing.assert_array_equal(one.p, other.p)
        np.testing.assert_array_equal(one.p_family, other.p_family)
    assert [each.p for each in found.components] == [each.p for each in expected.components]


def test_the_memory_of_many_connections_is_bounded():
    """In one piece the products alone would take twice the bytes of a portion."""
    rng = np.random.default_rng(0)
    m, p, n = 20, 80, 1000
    pairs = np.array(np.triu_indices(p, 1)).T
    strengths = rng.normal(size=(m, len(pairs)))
    matrix = np.column_stack([np.ones(m), np.arange(m) % 2, rng.normal(size=(m, 4))])
    tracemalloc.start()
    inference.contrast_tests(
        *(strengths, matrix, np.eye(6)[1:2]),
        pairs=pairs,
        variance_groups=np.arange(m) % 2,
        n_permutations=n,
        random_state=0,
    )
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = 8 * n * len(pairs) * (2 * 6 + 2)
    assert whole > 2 * inference._PORTION
    assert most < 1.3 * inference._PORTION


HOSTILE = {
    "all 0": lambda y, group: np.zeros_like(y),
    "all the same": lambda y, group: np.full_like(y, 0.3),
    "one constant": lambda y, group: np.where(np.arange(y.shape[1]) == 0, 0.7, y),
    "the groups themselves": lambda y, group: np.tile(14.5 * group[:, None], y.shape[1]),
    "at the limit of Fisher's z": lambda y, group: 14.5 * np.sign(y),
    "one group constant": lambda y, group: np.where(group[:, None] == 0, 0.1, y),
    "tiny": lambda y, group: 1e-150 * y,
    "one connection": lambda y, group: y[:, :1],
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("own_variances", [False, True])
def test_no_strengths_give_numbers_that_are_not_defined(kind, n_groups, own_variances):
    """The page is made of these numbers, and JSON has neither nan nor infinity."""
    m, rng = 18, np.random.default_rng(n_groups)
    pairs = np.array(np.triu_indices(4, 1)).T
    group = np.arange(m) % n_groups
    strengths = HOSTILE[kind](rng.normal(size=(m, len(pairs))), group)
    levels = [(group == k).astype(float) for k in range(1, n_groups)]
    matrix = np.column_stack([np.ones(m), *levels, rng.normal(size=m)])
    contrast = np.eye(matrix.shape[1])[1:n_groups]
    found = inference.contrast_tests(
        *(strengths, matrix, contrast),
        pairs=pairs[: strengths.shape[1]],
        variance_groups=group if own_variances else None,
        n_permutations=40,
        random_state=0,
    )
    for name, values in found._asdict().items():
        if name == "components":
            values = [component.p for component in values]
        elif name in ("regions", "sets"):
            values = np.concatenate(values)
        assert np.isfinite(values).all(), name
    assert np.isfinite(detectable_effect(found, len(contrast)).effect)


def test_too_many_columns_are_refused():
    strengths, _, pairs = example(0, m=4)
    with pytest.raises(InputError, match="4 subjects are too few for a design with 4 columns"):
        inference.contrast_tests(strengths, np.eye(4), row(0, 1, 0, 0), pairs=pairs)
