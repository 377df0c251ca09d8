"""Theorems 1 and 2 against numerical integration, and closed forms of special cases.

Scales are integrated on the logarithmic axis, everything else on the real line, by the trapezoidal
rule: for smooth integrands that die out on both sides its error falls faster than any power of the
step.
"""

import itertools

import naive
import numpy as np
import pytest
from scipy.stats import invwishart, multivariate_normal, multivariate_t, wishart

from mtgbn.errors import GraphError, InputError
from mtgbn.model.densities import log_marginal_likelihood, log_normaliser
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS, log_structure_prior

INTEGRATION = 1e-7

COMPLETE = ((0, 1), (0, 2), (1, 2))
GRAPHS = {
    "p1": (1, ()),
    "p2-empty": (2, ()),
    "p2-complete": (2, ((1, 0),)),
    "p3-empty": (3, ()),
    "p3-one-edge": (3, ((2, 0),)),
    "p3-chain": (3, ((0, 1), (1, 2))),
    "p3-v-structure": (3, ((0, 2), (1, 2))),
    "p3-complete": (3, COMPLETE),
}
# Small and fractional on purpose: far from where a normal approximation would also pass.
NU0_ABOVE_P = 0.7
N = 3


def adjacency_of(p, arcs):
    adjacency = np.zeros((p, p), dtype=bool)
    for tail, head in arcs:
        adjacency[tail, head] = True
    return adjacency


def problem(p):
    rng = np.random.default_rng(100 + p)
    return rng.standard_normal((N, p)) @ np.triu(np.full((p, p), 0.8)), naive.random_covariance(
        rng, p, spread=0.5
    )


def even_axis(low, high, step):
    """Nodes and weights of the trapezoidal rule."""
    nodes = np.linspace(low, high, round((high - low) / step) + 1)
    return nodes, np.full(len(nodes), nodes[1] - nodes[0])


def normal_axis(count):
    """Nodes and weights of the Gauss-Hermite rule, for what is about standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights * np.exp(nodes**2 / 2)


def log_integral(log_density, axes):
    """Log integral of exp(log_density) over the grid of some axes."""
    grid = np.stack([part.ravel() for part in np.meshgrid(*(a[0] for a in axes), indexing="ij")])
    weights = np.ones(1)
    for _, axis_weights in axes:
        weights = np.multiply.outer(weights, axis_weights)
    values = log_density(grid)
    return values.max() + np.log(weights.ravel() @ np.exp(values - values.max()))


def log_prior_of_regression(coefficients, variances, sigma_h, df, sigma_parents):
    """Log density of (b, v) of the last variable given the others if Sigma ~ IW(df, sigma_h).

    Sigma of the family is (sigma_parents, sigma_parents b, v + b' sigma_parents b), with Jacobian
    |sigma_parents|; dividing by the parents' density leaves that of (b, v), whatever sigma_parents is.
    """
    a = len(sigma_parents)
    covariances = sigma_parents @ coefficients
    matrices = np.empty((a + 1, a + 1, len(variances)))
    matrices[:a, :a] = sigma_parents[:, :, None]
    matrices[:a, a] = matrices[a, :a] = covariances
    matrices[a, a] = variances + (coefficients * covariances).sum(axis=0)
    values = invwishart(df, sigma_h).logpdf(matrices)
    if a:
        values = values + np.linalg.slogdet(sigma_parents)[1]
        values -= invwishart(df - 1, sigma_h[:a, :a]).logpdf(sigma_parents)
    return values


def log_likelihood_of_regression(data, coefficients, variances):
    residuals = data[:, -1, None] - data[:, :-1] @ coefficients
    return -len(data) / 2 * np.log(2 * np.pi * variances) - (residuals**2).sum(axis=0) / (
        2 * variances
    )


def integrated_family(data, sigma_h, df):
    """Log of the integral of the last column's likelihood given the others over its parameters."""
    a = data.shape[1] - 1
    whole = sigma_h + data.T @ data
    ridge = np.linalg.solve(whole[:a, :a], whole[:a, a])
    spread = np.linalg.inv(np.linalg.cholesky(whole[:a, :a])).T
    sigma_parents = sigma_h[:a, :a]

    def log_density(points):
        # b = ridge + sqrt(v) * w, so that the width in b follows v
        log_variances = points[a]
        variances = np.exp(log_variances)
        coefficients = ridge[:, None] + np.sqrt(variances) * (spread @ points[:a])
        return (
            log_prior_of_regression(coefficients, variances, sigma_h, df, sigma_parents)
            + log_likelihood_of_regression(data, coefficients, variances)
            + log_variances * (1 + a / 2)
            + np.linalg.slogdet(spread)[1]
        )

    residual = whole[a, a] - whole[:a, a] @ ridge
    scale = np.log(residual / (df + len(data)))
    axes = [even_axis(-7.0, 7.0, 0.5)] * a + [even_axis(scale - 5.0, scale + 16.0, 0.25)]
    return log_integral(log_density, axes)


@pytest.mark.parametrize("name", GRAPHS)
def test_marginal_likelihood_is_the_integral_over_regressions(name):
    p, arcs = GRAPHS[name]
    adjacency = adjacency_of(p, arcs)
    data, sigma_h = problem(p)
    nu0 = p + NU0_ABOVE_P
    expected = 0.0
    for k in range(p):
        family = [*naive.parents_of(adjacency, k), k]
        # a submatrix of an inverse Wishart matrix loses one degree of freedom per variable left out
        df = nu0 - p + len(family)
        expected += integrated_family(data[:, family], naive.submatrix(sigma_h, family), df)
    value = log_marginal_likelihood(data.T @ data, N, adjacency, sigma_h, nu0)
    assert value == pytest.approx(expected, abs=INTEGRATION)


def test_the_prior_of_a_regression_does_not_depend_on_its_parents():
    _, sigma_h = problem(3)
    rng = np.random.default_rng(3)
    coefficients, variances = rng.standard_normal((2, 5)), rng.exponential(size=5)
    first, second = (
        log_prior_of_regression(
            coefficients, variances, sigma_h, 4.2, naive.random_covariance(rng, 2)
        )
        for _ in range(2)
    )
    np.testing.assert_allclose(first, second, rtol=1e-12)


def log_wishart(factors, df, sigma_h):
    """Log density of Wishart(df, sigma_h^-1) at L L' for lower triangular L (p, p, k)."""
    p = len(sigma_h)
    diagonal = np.array([factors[i, i] for i in range(p)])
    root = np.linalg.cholesky(sigma_h)
    trace = (np.tensordot(root.T, factors, 1) ** 2).sum(axis=(0, 1))
    return (
        (df - p - 1) * np.log(diagonal).sum(axis=0)
        - trace / 2
        - df * p / 2 * np.log(2)
        - naive.log_multigamma(df / 2, p)
        + df * np.log(np.diag(root)).sum()
    )


@pytest.mark.parametrize("p", [1, 2, 3])
def test_wishart_density_meets_scipy(p):
    rng = np.random.default_rng(p)
    sigma_h = naive.random_covariance(rng, p)
    df = p + NU0_ABOVE_P
    factors = np.stack(
        [np.linalg.cholesky(naive.random_covariance(rng, p)) for _ in range(6)], axis=-1
    )
    precisions = np.einsum("ikn,jkn->ijn", factors, factors)
    np.testing.assert_allclose(
        log_wishart(factors, df, sigma_h),
        wishart(df, np.linalg.inv(sigma_h)).logpdf(precisions),
        rtol=1e-10,
    )
    # and the covariance is inverse Wishart with the same sigma_h: |d precision| = |Sigma|^-(p+1)
    covariances = np.stack([np.linalg.inv(precisions[..., k]) for k in range(6)], axis=-1)
    log_sizes = [np.linalg.slogdet(covariances[..., k])[1] for k in range(6)]
    np.testing.assert_allclose(
        log_wishart(factors, df, sigma_h) - (p + 1) * np.array(log_sizes),
        np.atleast_1d(invwishart(df, sigma_h).logpdf(covariances)),
        rtol=1e-10,
    )


def integrate_precisions(log_density, df, scale, missing=()):
    """Log integral over precisions L L' that are zero at ``missing``, where then L is zero as well.

    The coordinates suit a Wishart density with ``df`` and the inverse of ``scale``: the logarithm of
    the diagonal element of every column of L, and the elements below it about their mean given it.
    """
    p = len(scale)
    free = [[i for i in range(c + 1, p) if (i, c) not in missing] for c in range(p)]
    n_free = sum(map(len, free))

    def log_transformed(points):
        factors = np.zeros((p, p, points.shape[1]))
        log_jacobian = np.zeros(points.shape[1])
        rows = iter(points[p:])
        for c, below in enumerate(free):
            factors[c, c] = np.exp(points[c])
            # d Omega_cc = 2 l_cc d l_cc, d Omega_ic = l_cc d l_ic, and d l_cc = l_cc d ln l_cc
            log_jacobian += np.log(2) + (2 + len(below)) * points[c]
            if below:
                spread = np.linalg.inv(np.linalg.cholesky(scale[np.ix_(below, below)])).T
                log_jacobian += np.linalg.slogdet(spread)[1]
                slope = -spread @ spread.T @ scale[below, c]
                standard = np.array([next(rows) for _ in below])
                factors[below, c] = np.multiply.outer(slope, factors[c, c]) + spread @ standard
        return log_density(factors) + log_jacobian

    axes = []
    for c, below in enumerate(free):
        power = df - p + 1 + len(below)
        schur = scale[c, c]
        if below:
            block = scale[np.ix_(below, below)]
            schur = schur - scale[c, below] @ np.linalg.solve(block, scale[below, c])
        mode = np.log(power / schur) / 2
        # exp(power (y - exp(2 y) / 2)) is below exp(-tail) outside
        tail = 20.0
        low, high = -tail / power - 0.5, np.log(2 * tail / power + 1) / 2 + 0.5
        axes.append(even_axis(mode + low, mode + high, 0.18))
    return log_integral(log_transformed, axes + [normal_axis(3)] * n_free)


def log_gaussian_likelihood(data, factors):
    n, p = data.shape
    diagonal = np.array([factors[i, i] for i in range(p)])
    squares = (np.tensordot(data, factors, 1) ** 2).sum(axis=(0, 1))
    return -n * p / 2 * np.log(2 * np.pi) + n * np.log(diagonal).sum(axis=0) - squares / 2


def test_gaussian_likelihood_meets_scipy():
    data, sigma_h = problem(3)
    factor = np.linalg.cholesky(np.linalg.inv(sigma_h))
    expected = multivariate_normal(np.zeros(3), sigma_h).logpdf(data).sum()
    assert log_gaussian_likelihood(data, factor[:, :, None])[0] == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("p", [1, 2, 3])
def test_marginal_likelihood_is_the_integral_over_precisions(p):
    data, sigma_h = problem(p)
    nu0 = p + NU0_ABOVE_P
    expected = integrate_precisions(
        lambda factors: log_wishart(factors, nu0, sigma_h) + log_gaussian_likelihood(data, factors),
        nu0 + N,
        sigma_h + data.T @ data,
    )
    complete = np.triu(np.ones((p, p), dtype=bool), 1)
    value = log_marginal_likelihood(data.T @ data, N, complete, sigma_h, nu0)
    assert value == pytest.approx(expected, abs=INTEGRATION)


# Every set of missing edges that leaves the factor of the precision zero at the same places.
@pytest.mark.parametrize(
    ("p", "missing", "arcs"),
    [
        (1, [], []),
        (2, [], [(0, 1)]),
        (2, [(1, 0)], []),
        (3, [], COMPLETE),
        (3, [(1, 0)], [(2, 0), (2, 1)]),
        (3, [(2, 0)], [(1, 0), (2, 1)]),
        (3, [(1, 0), (2, 0)], [(1, 2)]),
        (3, [(1, 0), (2, 0), (2, 1)], []),
    ],
)
def test_restricted_prior_is_the_wishart_density_integrated_over_the_graph(p, missing, arcs):
    _, sigma_h = problem(p)
    nu0 = p + NU0_ABOVE_P
    expected = integrate_precisions(
        lambda factors: log_wishart(factors, nu0, sigma_h), nu0, sigma_h, missing
    )
    for kind in ("restricted", "decomposable"):
        value = log_structure_prior(adjacency_of(p, arcs), sigma_h, nu0, kind)
        assert value == pytest.approx(expected, abs=INTEGRATION)


def test_restricted_prior_is_the_density_of_the_off_diagonal_element_at_zero():
    _, sigma_h = problem(2)
    nu0 = 2 + NU0_ABOVE_P
    density = wishart(nu0, np.linalg.inv(sigma_h))

    def log_density(points):
        diagonal = np.zeros((2, 2, points.shape[1]))
        diagonal[0, 0], diagonal[1, 1] = np.exp(points)
        return density.logpdf(diagonal) + points.sum(axis=0)

    expected = log_integral(log_density, [even_axis(-25.0, 7.0, 0.3)] * 2)
    value = log_structure_prior(np.zeros((2, 2)), sigma_h, nu0, "restricted")
    assert value == pytest.approx(expected, abs=INTEGRATION)


@pytest.mark.parametrize("name", GRAPHS)
def test_normaliser_of_a_dag_is_an_integral_over_its_regressions(name):
    """Of |Omega|^((d-2)/2) exp(-tr(M Omega)/2) times prod_k tau_k^|Pa_k|, over b_k and tau_k."""
    p, arcs = GRAPHS[name]
    adjacency = adjacency_of(p, arcs)
    _, matrix = problem(p)
    d = 1.3
    expected = 0.0
    for k in range(p):
        parents = list(naive.parents_of(adjacency, k))
        a = len(parents)
        block, column = matrix[np.ix_(parents, parents)], matrix[parents, k]
        root = np.linalg.cholesky(block)
        best = np.linalg.solve(block, column)

        def log_density(points, a=a, k=k, block=block, column=column, root=root, best=best):
            log_tau, u = points[0], points[1:]
            b = best[:, None] + np.linalg.solve(root.T, u) * np.exp(-log_tau / 2)
            form = matrix[k, k] - 2 * column @ b + (b * (block @ b)).sum(axis=0)
            return (
                ((d - 2) / 2 + a + 1) * log_tau
                - np.exp(log_tau) * form / 2
                - a * log_tau / 2
                - np.log(np.diag(root)).sum()
            )

        mode = np.log((d + a) / (matrix[k, k] - column @ best))
        axes = [even_axis(mode - 36.0, mode + 5.0, 0.25), *[normal_axis(3)] * a]
        expected += log_integral(log_density, axes)
    assert log_normaliser(adjacency, d, matrix) == pytest.approx(expected, abs=INTEGRATION)


@pytest.mark.parametrize("p", [1, 2, 5, 9])
def test_one_row_under_the_complete_dag_has_a_multivariate_t_density(p):
    rng = np.random.default_rng(p)
    sigma_h = naive.random_covariance(rng, p)
    nu0 = p + 1.5
    df = nu0 - p + 1
    complete = np.tril(np.ones((p, p)), -1)
    for row in rng.standard_normal((4, p)):
        expected = multivariate_t(np.zeros(p), sigma_h / df, df).logpdf(row)
        value = log_marginal_likelihood(np.outer(row, row), 1, complete, sigma_h, nu0)
        assert value == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_many_degrees_of_freedom_fix_the_covariance(p):
    """sigma_h = nu0 Psi and nu0 -> infinity: the data are normal with the DAG's version of Psi."""
    rng = np.random.default_rng(p)
    psi, data = naive.random_covariance(rng, p), rng.standard_normal((4, p))
    nu0 = 1e8
    for density in (0.0, 0.5, 1.0):
        adjacency = naive.random_dag(rng, p, density)
        expected = 0.0
        for k in range(p):
            parents = list(naive.parents_of(adjacency, k))
            for sign, members in ((1, [*parents, k]), (-1, parents)):
                if members:
                    normal = multivariate_normal(cov=naive.submatrix(psi, members))
                    expected += sign * normal.logpdf(data[:, members]).sum()
        value = log_marginal_likelihood(data.T @ data, 4, adjacency, nu0 * psi, nu0)
        assert value == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("p", [1, 3, 7])
def test_structure_priors_of_the_complete_and_the_empty_graph(p):
    sigma_h = naive.random_covariance(np.random.default_rng(p), p)
    nu0 = p + 0.4
    complete, empty = np.triu(np.ones((p, p)), 1), np.zeros((p, p))
    for kind in STRUCTURE_PRIORS:
        assert log_structure_prior(complete, sigma_h, nu0, kind) == pytest.approx(0, abs=1e-11)
    scale = np.sqrt(np.diag(sigma_h))
    log_correlation = np.linalg.slogdet(sigma_h / np.outer(scale, scale))[1]
    value = log_structure_prior(empty, sigma_h, nu0, "scale_free")
    assert value == pytest.approx(nu0 / 2 * log_correlation, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_densities_agree_with_naive(p):
    rng = np.random.default_rng(p)
    for density in (0.2, 0.5, 0.9):
        adjacency = naive.random_dag(rng, p, density)
        sigma_h, scatter = naive.random_covariance(rng, p), naive.random_covariance(rng, p) * 7.5
        nu0 = p - 1 + rng.exponential()
        value = log_marginal_likelihood(scatter, 7.5, adjacency, sigma_h, nu0)
        expected = naive.log_marginal_likelihood(scatter, 7.5, adjacency, sigma_h, nu0)
        assert value == pytest.approx(expected, rel=1e-11)
        for kind in STRUCTURE_PRIORS:
            value = log_structure_prior(adjacency, sigma_h, nu0, kind)
            expected = naive.log_structure_prior(adjacency, sigma_h, nu0, kind)
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-10)


# Every list of one wrong argument: name, value, the error and what its message must show.
SIGMA_H = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
GOOD = {
    "scatter": 3 * SIGMA_H,
    "n": 4.0,
    "adjacency": np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]]),
    "sigma_h": SIGMA_H,
    "nu0": 3.5,
}


def changed(matrix, **elements):
    matrix = np.array(matrix, dtype=float)
    for place, value in elements.items():
        matrix[int(place[1]), int(place[2])] = value
    return matrix


BAD = [
    ("nu0", 2.0, InputError, r"nu0 .* above p - 1 = 2; got 2\.0"),
    ("nu0", -1, InputError, "nu0"),
    ("nu0", np.nan, InputError, "nu0 .* got nan"),
    ("nu0", np.inf, InputError, "nu0 .* got inf"),
    ("sigma_h", changed(SIGMA_H, e01=0.4), InputError, r"sigma_h must be symmetric.*0\.4"),
    ("sigma_h", changed(SIGMA_H, e00=0.1), InputError, "sigma_h must be positive definite.*-0"),
    (
        "sigma_h",
        changed(SIGMA_H, e00=1e10, e12=0.2, e21=0.3),  # unsymmetric where the units are small
        InputError,
        r"sigma_h must be symmetric.*0\.3",
    ),
    ("sigma_h", np.zeros((3, 3)), InputError, "sigma_h must be positive definite"),
    ("sigma_h", changed(SIGMA_H, e12=np.nan), InputError, r"sigma_h .* \(1, 2\) is nan"),
    ("sigma_h", changed(SIGMA_H, e22=np.inf), InputError, r"sigma_h .* \(2, 2\) is inf"),
    ("sigma_h", SIGMA_H[:2], InputError, r"sigma_h .*\(2, 3\)"),
    ("sigma_h", SIGMA_H[0], InputError, r"sigma_h .*\(3,\)"),
    (
        "adjacency",
        [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
        GraphError,
        "0 -> 1 -> 2 -> 0",
    ),
    ("adjacency", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], GraphError, "0 -> 1 -> 0"),
    ("adjacency", np.diag([0, 1, 0]), GraphError, "node 1 has an edge to itself"),
    ("adjacency", changed(np.zeros((3, 3)), e01=0.5), GraphError, r"\(0, 1\) is 0\.5"),
    ("adjacency", np.zeros((2, 2)), InputError, r"adjacenc.*\(1, 2, 2\)"),
]
BAD_DATA = [
    ("n", 0, InputError, "n of task 0 .* got 0"),
    ("n", -2.5, InputError, r"n of task 0 .* got -2\.5"),
    ("n", np.nan, InputError, "n of task 0 .* got nan"),
    ("n", np.inf, InputError, "n of task 0 .* got inf"),
    ("scatter", changed(SIGMA_H, e01=0.4), InputError, "scatter of task 0 must be symmetric"),
    ("scatter", changed(SIGMA_H, e01=np.nan), InputError, r"scatter of task 0 .* \(0, 1\) is nan"),
    ("scatter", changed(SIGMA_H, e22=-1), InputError, "scatter of task 0 .* variable 2"),
    ("scatter", np.eye(2), InputError, r"scatters .*\(1, 2, 2\)"),
]


def bad_ids(value):
    return value if isinstance(value, str) and value in GOOD else None


@pytest.mark.parametrize(("name", "value", "error", "message"), BAD + BAD_DATA, ids=bad_ids)
def test_marginal_likelihood_names_the_culprit(name, value, error, message):
    with pytest.raises(error, match=message):
        log_marginal_likelihood(**(GOOD | {name: value}))


@pytest.mark.parametrize("kind", STRUCTURE_PRIORS)
@pytest.mark.parametrize(("name", "value", "error", "message"), BAD, ids=bad_ids)
def test_structure_prior_names_the_culprit(name, value, error, message, kind):
    arguments = {key: GOOD[key] for key in ("adjacency", "sigma_h", "nu0")} | {name: value}
    with pytest.raises(error, match=message):
        log_structure_prior(**arguments, kind=kind)


def test_an_unknown_structure_prior_is_told_the_choices():
    with pytest.raises(InputError, match=r"uniform.*restricted.*scale_free.*decomposable.*'flat'"):
        log_structure_prior(GOOD["adjacency"], SIGMA_H, 3.5, "flat")


@pytest.mark.parametrize("d", [0.0, -1.0, np.nan, np.inf])
def test_normaliser_names_a_bad_d(d):
    with pytest.raises(InputError, match=f"d must be a positive number; got {d}"):
        log_normaliser(GOOD["adjacency"], d, SIGMA_H)


@pytest.mark.parametrize(
    ("structure", "error", "message"),
    [
        ([(1, (0, 1, 0))], GraphError, r"\(0, 1, 0\) names a variable twice"),
        ([(1, (0, 3))], InputError, "variables 0 to 3, matrix has 3"),
        ([(1, (-1, 2))], InputError, "variables -1 to 2, matrix has 3"),
        ([(1, (0.5, 2))], (GraphError, InputError), r"0\.5"),
        (np.zeros((4, 4)), (GraphError, InputError), "matrix has 3"),
        (np.zeros((2, 2)), (GraphError, InputError), "2.* 3"),
        (np.zeros((2, 3)), GraphError, r"\(2, 3\)"),
        (np.zeros(3), GraphError, r"\(3,\)"),
        (GOOD["adjacency"] + np.diag([1, 0, 0]), GraphError, "node 0 has an edge to itself"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], GraphError, "0 -> 1 -> 2 -> 0"),
    ],
)
def test_normaliser_names_a_bad_structure(structure, error, message):
    with pytest.raises(error, match=message):
        log_normaliser(structure, 3.0, SIGMA_H)


def test_arguments_are_left_as_they_were():
    arguments = {key: np.array(value) for key, value in GOOD.items()}
    log_marginal_likelihood(**arguments)
    for key, value in GOOD.items():
        np.testing.assert_array_equal(arguments[key], value)


def test_all_p3_dags_have_the_naive_normaliser():
    pairs = list(itertools.permutations(range(3), 2))
    n_dags = 0
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        adjacency = adjacency_of(3, itertools.compress(pairs, chosen))
        if np.linalg.matrix_power(np.eye(3) + adjacency, 3).trace() > 3:
            continue
        n_dags += 1
        expected = naive.log_normaliser(naive.family_sets(adjacency), 0.3, SIGMA_H)
        assert log_normaliser(adjacency, 0.3, SIGMA_H) == pytest.approx(expected, rel=1e-12)
    assert n_dags == 25


@pytest.mark.parametrize(
    "sigma_h",
    [np.ma.masked_less(np.eye(3), 0.5), 1j * np.eye(3), [[1, 2], [3]], "text", 1e-310 * np.eye(3)],
)
def test_what_is_not_a_matrix_of_real_numbers_is_refused(sigma_h):
    with pytest.raises(InputError, match="sigma_h"):
        log_marginal_likelihood(np.eye(3), 5, np.zeros((3, 3)), sigma_h, 4)
