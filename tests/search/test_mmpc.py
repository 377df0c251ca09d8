"""MMPC against a slow twin on the rows themselves, known distributions, limits and invariances."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from mtgbn.errors import InputError
from mtgbn.graphs import skeleton
from mtgbn.search.mmpc import find_candidates, negative_log_tail


def mmpc(scatter, n, **options):
    """Candidates of one task."""
    return find_candidates(np.asarray(scatter, dtype=float)[None], [n], **options)[0]


def pooled_candidates(scatters, ns, **options):
    """Pooled candidates, which are the same for all tasks."""
    return find_candidates(scatters, ns, "pooled", **options)[0]


def residual(column, others):
    """What regression on the others leaves of a column; everything has length one beforehand."""
    if not others.shape[1]:
        return column
    return column - others @ np.linalg.lstsq(others, column, rcond=1e-6)[0]


def squared_z(unit, x, t, given):
    """Square of Fisher's z by regression; None where the test does not exist."""
    weight = len(unit) - 1 - len(given) - 2
    if weight <= 0 or not unit[:, [x, t]].any(axis=0).all():
        return None
    others = unit[:, given]
    if given and np.linalg.svd(others, compute_uv=False)[-1] < 1e-5:
        return None
    ours, theirs = residual(unit[:, x], others), residual(unit[:, t], others)
    lengths = np.linalg.norm(ours), np.linalg.norm(theirs)
    if min(lengths) < 1e-5:
        return None
    r = min(abs(ours @ theirs) / np.prod(lengths), np.sqrt(1 - 1e-10))
    return weight * np.arctanh(r) ** 2


def naive_mmpc(tables, alpha, most=3):
    """MMPC as in the paper, one test at a time; the tasks' squared z are added up."""
    p = tables[0].shape[1]
    units = []
    for rows in tables:
        centred = rows - rows.mean(axis=0)
        lengths = np.linalg.norm(centred, axis=0)
        lengths[lengths < 1e-12] = np.inf
        units.append(centred / lengths)

    def association(x, t, given):
        """Minus log p-value; None where no task can test."""
        squares = [squared_z(unit, x, t, list(given)) for unit in units]
        squares = [square for square in squares if square is not None]
        if not squares:
            return None if given else 0.0
        if len(squares) == 1:
            return -np.log(2) - special.log_ndtr(-np.sqrt(squares[0]))
        return -stats.chi2.logsf(sum(squares), len(squares))

    def weakest(x, t, candidates):
        values = [
            association(x, t, given)
            for size in range(min(most, len(candidates)) + 1)
            for given in itertools.combinations(candidates, size)
        ]
        return min(value for value in values if value is not None)

    found = np.zeros((p, p), dtype=bool)
    for t in range(p):
        candidates, waiting = [], [x for x in range(p) if x != t]
        while waiting:
            values = {x: weakest(x, t, candidates) for x in waiting}
            waiting = [x for x in waiting if values[x] >= -np.log(alpha)]
            if waiting:
                best = max(waiting, key=values.get)
                candidates.append(best)
                waiting.remove(best)
        for x in list(candidates):
            rest = [y for y in candidates if y != x]
            if weakest(x, t, rest) < -np.log(alpha):
                candidates = rest
        found[t, candidates] = True
    return found & found.T


def random_weights(rng, p, share=0.4):
    """Coefficients of a random DAG; ``[i, j]``: of i in the equation of j."""
    order = rng.permutation(p)
    weights = rng.uniform(0.3, 1.0, (p, p)) * rng.choice([-1, 1], (p, p))
    weights *= np.triu(rng.random((p, p)) < share, 1)
    return weights[np.ix_(order, order)]


def draw_rows(rng, weights, n_rows):
    p = len(weights)
    return rng.standard_normal((n_rows, p)) @ np.linalg.inv(np.eye(p) - weights)


def scatter_of(rows):
    centred = rows - rows.mean(axis=0)
    return centred.T @ centred


def moments(tables):
    return np.array([scatter_of(rows) for rows in tables]), [len(rows) - 1.0 for rows in tables]


def spoil(rng, rows):
    """Copies, combinations and constants."""
    rows = rows.copy()
    a, b, c = rng.permutation(rows.shape[1])[:3]
    kind = rng.integers(4)
    if kind == 0:
        rows[:, a] = -3 * rows[:, b]
    elif kind == 1:
        rows[:, a] = rows[:, b] - 2 * rows[:, c]
    elif kind == 2:
        rows[:, a] = rows[:, b] = rows[:, c]
    else:
        rows[:, a] = 0.0
    return rows


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_twin(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 8))
    rows = draw_rows(rng, random_weights(rng, p), int(rng.choice([3, 5, 7, 10, 30, 200])))
    if seed % 3 == 0:
        rows = spoil(rng, rows)
    most = int(rng.integers(0, 5))
    alpha = float(rng.choice([0.01, 0.05, 0.3]))
    found = mmpc(scatter_of(rows), len(rows) - 1, alpha=alpha, max_conditioning=most)
    np.testing.assert_array_equal(found, naive_mmpc([rows], alpha, most))


@pytest.mark.parametrize("seed", range(20))
def test_pooled_agrees_with_the_twin(seed):
    rng = np.random.default_rng(100 + seed)
    p = int(rng.integers(3, 6))
    weights = random_weights(rng, p)
    tables = [
        draw_rows(rng, weights * rng.normal(size=(p, p)), int(rng.choice([3, 4, 5, 6, 10, 40])))
        for _ in range(rng.integers(1, 5))
    ]
    if seed % 3 == 0:
        tables[0] = spoil(rng, tables[0])
    alpha = float(rng.choice([0.01, 0.05, 0.3]))
    expected = naive_mmpc(tables, alpha)
    for rows in tables:
        expected |= naive_mmpc([rows], alpha)
    np.testing.assert_array_equal(pooled_candidates(*moments(tables), alpha=alpha), expected)


def test_tail_meets_the_normal_and_the_chi_square_distribution():
    for z in (0.0, 1e-8, 0.5, 1.96, 10.0, 35.3, 35.4, 1e3, 1e6):
        expected = -np.log(2) - special.log_ndtr(-z)
        assert negative_log_tail(z * z, 1) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    for count in (1, 2, 3, 4, 7, 10, 51, 400):
        for statistic in (0.0, 1e-9, 0.01, 1.0, 10.0, 100.0, 700.0):
            expected = -stats.chi2.logsf(statistic, count)
            assert negative_log_tail(statistic, count) == pytest.approx(
                expected, rel=1e-11, abs=1e-14
            )
    # Where the p-value itself is zero: the leading terms of the expansion for large arguments.
    for count in (2, 5, 1001):
        half, shape = 1e9, count / 2
        terms = 1 + (shape - 1) / half + (shape - 1) * (shape - 2) / half**2
        expected = half - (shape - 1) * np.log(half) + special.gammaln(shape) - np.log(terms)
        assert negative_log_tail(2 * half, count) == pytest.approx(expected, rel=1e-14)


def test_one_pair_is_decided_by_its_p_value():
    rng = np.random.default_rng(5)
    for n_rows in (4, 10, 50):
        rows = rng.standard_normal((n_rows, 2))
        r = stats.pearsonr(*rows.T)[0]
        p_value = 2 * stats.norm.sf(np.sqrt(n_rows - 3) * abs(np.arctanh(r)))
        for alpha, expected in ((p_value * 1.0001, True), (p_value * 0.9999, False)):
            assert mmpc(scatter_of(rows), n_rows - 1, alpha=alpha)[0, 1] == expected


def test_one_pooled_pair_is_decided_by_the_chi_square_distribution():
    rng = np.random.default_rng(13)
    outcomes = []
    for _ in range(200):
        tables = rng.standard_normal((3, 12, 2)) + 0.4 * rng.standard_normal((3, 12, 1))
        squares = [9 * np.arctanh(stats.pearsonr(*rows.T)[0]) ** 2 for rows in tables]
        expected = stats.chi2.sf(sum(squares), 3) <= 0.1 or stats.chi2.sf(max(squares), 1) <= 0.1
        assert pooled_candidates(*moments(tables), alpha=0.1)[0, 1] == expected
        outcomes.append(expected)
    assert 40 < sum(outcomes) < 160


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_false_positives_of_independent_pairs(alpha):
    rng = np.random.default_rng(6)
    repeats = 1000
    tables = rng.standard_normal((repeats, 60, 2))
    found = [mmpc(scatter_of(rows), 59, alpha=alpha)[0, 1] for rows in tables]
    deviation = np.sqrt(alpha * (1 - alpha) / repeats)
    assert abs(np.mean(found) - alpha) < 4 * deviation  # false alarm: 6e-5


def test_more_variables_do_not_raise_the_rate_per_pair():
    rng = np.random.default_rng(7)
    shares = []
    for _ in range(50):
        found = mmpc(scatter_of(rng.standard_normal((100, 12))), 99)
        shares.append(found[np.triu_indices(12, 1)].mean())
    assert 0.01 < np.mean(shares) < 0.05


@pytest.mark.parametrize("seed", range(20))
def test_population_covariance_gives_the_skeleton(seed):
    """A faithful DAG: adjacent pairs are dependent given any set, and few others stay.

    With n this large, partial correlations down to 1e-6 count; rounding is far below.
    """
    rng = np.random.default_rng(200 + seed)
    weights = random_weights(rng, 8, share=0.35)
    root = np.linalg.inv(np.eye(8) - weights)
    found = mmpc(1e14 * root.T @ root, 1e14, max_conditioning=6)
    truth = skeleton(weights != 0)
    assert not (truth & ~found).any()
    assert (found & ~truth).sum() <= 2
    assert not (truth & ~mmpc(1e14 * root.T @ root, 1e14)).any()


def test_units_and_order_of_the_variables_do_not_matter():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = [draw_rows(rng, random_weights(rng, 9), 60) for _ in range(3)]
        scatters, ns = moments(tables)
        units = 10 ** rng.uniform(-6, 6, 9) * rng.choice([-1, 1], 9)
        order = rng.permutation(9)
        square = np.ix_(range(3), order, order)
        for method in ("mmpc", "pooled"):
            found = find_candidates(scatters, ns, method)
            rescaled = find_candidates(scatters * np.outer(units, units), ns, method)
            np.testing.assert_array_equal(rescaled, found)
            permuted = find_candidates(scatters[square], ns, method)
            np.testing.assert_array_equal(permuted, found[square])


def test_order_and_number_of_equal_tasks():
    rng = np.random.default_rng(9)
    scatters, ns = moments([draw_rows(rng, random_weights(rng, 7), n) for n in (20, 40, 80)])
    found = pooled_candidates(scatters, ns)
    np.testing.assert_array_equal(pooled_candidates(scatters[::-1], ns[::-1]), found)
    one = mmpc(scatters[0], ns[0])
    np.testing.assert_array_equal(pooled_candidates(scatters[:1], ns[:1]), one)


def test_methods_and_their_inclusion():
    rng = np.random.default_rng(10)
    weights = random_weights(rng, 10)
    scatters, ns = moments([draw_rows(rng, weights, 40) for _ in range(5)])
    separate, pooled, everything = (
        find_candidates(scatters, ns, method) for method in ("mmpc", "pooled", "all")
    )
    assert separate.shape == pooled.shape == everything.shape == (5, 10, 10)
    for task in range(5):
        np.testing.assert_array_equal(separate[task], mmpc(scatters[task], ns[task]))
        np.testing.assert_array_equal(pooled[task], pooled_candidates(scatters, ns))
        np.testing.assert_array_equal(everything[task], ~np.eye(10, dtype=bool))
    for smaller, larger in ((separate, pooled), (pooled, everything)):
        assert not (smaller & ~larger).any()
        assert (larger & ~smaller).any()
    np.testing.assert_array_equal(pooled, pooled.transpose(0, 2, 1))


@pytest.mark.parametrize("signs", [np.ones(20), np.tile([1, -1], 10)])
def test_pooling_finds_weak_shared_edges_whatever_their_signs(signs):
    """A correlation of 0.3 in 20 tasks of 30 rows; at this alpha a single task has little power."""
    found, single = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = [draw_rows(rng, np.array([[0, 0.3 * s], [0, 0]]), 30) for s in signs]
        scatters, ns = moments(tables)
        found.append(pooled_candidates(scatters, ns, alpha=1e-4)[0, 1])
        single.append(find_candidates(scatters, ns, "mmpc", alpha=1e-4)[:, 0, 1].mean())
    assert np.mean(found) >= 0.9
    assert np.mean(single) < 0.05


def test_copies_do_not_drive_out_each_other():
    """x -> y -> z with a copy of y: both are candidates of x and of z, which stay apart."""
    rng = np.random.default_rng(11)
    weights = np.zeros((3, 3))
    weights[0, 1] = weights[1, 2] = 1.0
    rows = draw_rows(rng, weights, 500)[:, [0, 1, 1, 2]]
    expected = ~np.eye(4, dtype=bool)
    expected[0, 3] = expected[3, 0] = False
    np.testing.assert_array_equal(mmpc(scatter_of(rows), 499, alpha=0.001), expected)


def test_what_cannot_be_tested_is_no_candidate():
    rng = np.random.default_rng(12)
    rows = rng.standard_normal((20, 1)) + 0.01 * rng.standard_normal((20, 3))
    scatter = scatter_of(rows)
    assert mmpc(scatter, 19).any()
    assert not mmpc(scatter, 2.0).any()
    scatter[:, 1] = scatter[1] = 0.0
    found = mmpc(scatter, 19)
    assert not found[1].any()
    assert found[0, 2]
    assert not mmpc([[1.0]], 9).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mmpc(np.eye(3), 9, alpha=0), r"alpha must be a number in \(0, 1\); got 0"),
        (lambda: mmpc(np.eye(3), 9, alpha=1.0), "alpha"),
        (lambda: mmpc(np.eye(3), 9, alpha="low"), "alpha"),
        (lambda: mmpc(np.eye(3), 9, alpha=float("nan")), "alpha"),
        (
            lambda: mmpc(np.eye(3), 9, max_conditioning=-1),
            "max_conditioning must be a whole number",
        ),
        (lambda: mmpc(np.eye(3), 9, max_conditioning=1.5), "max_conditioning"),
        (lambda: mmpc(np.eye(3), 0), "n of task 0 must be a positive number; got 0"),
        (lambda: mmpc(np.ones((2, 3)), 9), r"scatters must have shape \(m, 3, 3\)"),
        (lambda: mmpc([[1, 2], [2, 1]], 9), "positive semidefinite"),
        (lambda: mmpc([[1, np.nan], [np.nan, 1]], 9), "must be finite"),
        (lambda: pooled_candidates(np.eye(3), [9]), r"shape \(m, p, p\)"),
        (lambda: pooled_candidates(np.empty((0, 3, 3)), []), "at least 1"),
        (lambda: pooled_candidates([np.eye(3)], [9, 9]), "one number per scatter"),
        (lambda: find_candidates([np.eye(3)], [9], "pc"), "'mmpc', 'pooled' or 'all'; got 'pc'"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(InputError, match=message):
        call()
