"""The log posterior of sigma_h: the sum it must be, Theorem 3 as printed, and its gradient."""

import naive
import numpy as np
import pytest
from scipy.stats import invwishart

from mtgbn.errors import GraphError, InputError
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.model.unstructured import TYPICAL_DELTA, estimate_delta, unstructured_sigma_h
from mtgbn.paper.posterior import build_posterior, log_posterior
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS, log_structure_prior

CASES = [
    (1, 1, 0.5),
    (2, 3, 0.5),
    (4, 2, 0.0),
    (4, 2, 1.0),
    (7, 4, 0.3),
    (12, 5, 0.2),
    (12, 3, 0.7),
]


def random_problem(p, m, density, seed=0):
    """Sigma_h, DAGs, scatters, unequal degrees of freedom and nu0; fewer rows than variables too."""
    rng = np.random.default_rng([seed, p, m, int(10 * density)])
    adjacencies = np.array([naive.random_dag(rng, p, density) for _ in range(m)])
    adjacencies[m // 2] = adjacencies[0]  # tasks that share all their families
    ns = np.linspace(2.5, 30, m)
    data = [rng.standard_normal((int(n) + 1, p)) for n in ns]
    scatters = np.array([x.T @ x for x in data])
    return (
        naive.random_covariance(rng, p),
        adjacencies,
        scatters,
        ns,
        p - 1 + rng.exponential() + 0.1,
    )


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize(("p", "m", "density"), CASES)
def test_value_is_the_sum_over_tasks(p, m, density, prior):
    sigma_h, adjacencies, scatters, ns, nu0 = random_problem(p, m, density)
    value, _ = log_posterior(sigma_h, adjacencies, scatters, ns, nu0, prior)
    expected = sum(
        log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
        + log_structure_prior(adjacency, sigma_h, nu0, prior)
        for adjacency, scatter, n in zip(adjacencies, scatters, ns, strict=True)
    )
    assert value == pytest.approx(expected, rel=1e-11)
    expected = naive.log_posterior(sigma_h, adjacencies, scatters, ns, nu0, prior)
    assert value == pytest.approx(expected, rel=1e-11)


def test_the_default_prior_is_uniform():
    problem = random_problem(4, 2, 0.5)
    assert log_posterior(*problem)[0] == log_posterior(*problem, "uniform")[0]
    assert log_posterior(*problem)[0] != log_posterior(*problem, "restricted")[0]


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize(("p", "m", "density"), CASES)
def test_differences_are_those_of_theorem_3(p, m, density, prior):
    sigma_h, *data = random_problem(p, m, density)
    other = random_problem(p, m, density, seed=1)[0]
    difference = log_posterior(sigma_h, *data, prior)[0] - log_posterior(other, *data, prior)[0]
    expected = naive.log_posterior_up_to_a_constant(
        sigma_h, *data, prior
    ) - naive.log_posterior_up_to_a_constant(other, *data, prior)
    assert difference == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize(("p", "m", "density"), CASES)
def test_gradient_meets_central_differences(p, m, density, prior):
    sigma_h, *data = random_problem(p, m, density)
    _, gradient = log_posterior(sigma_h, *data, prior)
    np.testing.assert_array_equal(gradient, gradient.T)
    # Steps relative to the factor of sigma_h stay inside the cone and suit every direction alike.
    factor = np.linalg.cholesky(sigma_h)
    step = 1e-3
    slopes, expected = [], []
    for i in range(p):
        for j in range(i + 1):
            unit = np.zeros((p, p))
            unit[i, j] = unit[j, i] = 1.0
            direction = factor @ unit @ factor.T
            estimates = []
            for h in (step, step / 2):
                up, down = (
                    log_posterior(sigma_h + sign * h * direction, *data, prior)[0]
                    for sign in (1, -1)
                )
                estimates.append((up - down) / (2 * h))
            expected.append((4 * estimates[1] - estimates[0]) / 3)
            slopes.append(np.sum(gradient * direction))
    slopes = np.array(slopes)
    scale = np.maximum(np.abs(slopes), np.abs(slopes).max() * 1e-2)
    np.testing.assert_array_less(np.abs(slopes - expected) / scale, 1e-6)


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize(("p", "m", "density"), [case for case in CASES if case[0] < 12])
def test_gradient_meets_complex_steps(p, m, density, prior):
    sigma_h, *data = random_problem(p, m, density)
    _, gradient = log_posterior(sigma_h, *data, prior)
    expected = naive.symmetric_gradient(
        lambda matrix: naive.log_posterior(matrix, *data, prior), sigma_h
    )
    scale = np.sqrt(np.outer(np.diag(sigma_h), np.diag(sigma_h)))
    np.testing.assert_allclose(gradient * scale, expected * scale, rtol=1e-9, atol=1e-9)


def test_many_tasks_more_than_one_chunk_of_equal_families():
    sigma_h, adjacencies, scatters, ns, nu0 = random_problem(5, 90, 0.4)
    for prior in STRUCTURE_PRIORS:
        value, _ = log_posterior(sigma_h, adjacencies, scatters, ns, nu0, prior)
        expected = naive.log_posterior(sigma_h, adjacencies, scatters, ns, nu0, prior)
        assert value == pytest.approx(expected, rel=1e-11)


def test_unstructured_sigma_h_maximises_the_likelihood_of_complete_graphs():
    _, _, scatters, ns, nu0 = random_problem(4, 6, 0.5)
    sigma_h = unstructured_sigma_h(scatters, ns, nu0 + 4, tolerance=1e-12, max_iter=100_000)
    complete = np.broadcast_to(np.triu(np.ones((4, 4)), 1), (6, 4, 4))
    value, gradient = log_posterior(sigma_h, complete, scatters, ns, nu0 + 4)
    factor = np.linalg.cholesky(sigma_h)
    np.testing.assert_allclose(factor.T @ gradient @ factor, 0, atol=1e-8)
    rng = np.random.default_rng(5)
    for _ in range(20):
        near = factor @ (np.eye(4) + 0.05 * rng.standard_normal((4, 4)))
        assert log_posterior(near @ near.T, complete, scatters, ns, nu0 + 4)[0] < value


def test_delta_of_complete_graphs_is_the_most_probable():
    """Against a grid, with the log likelihood of complete DAGs by the slow twin."""
    rng = np.random.default_rng(8)
    p, m, n, delta = 3, 40, 30, 25.0
    scatters = []
    for _ in range(m):
        covariance = invwishart.rvs(delta + p - 1, delta * np.eye(p), random_state=rng)
        rows = rng.multivariate_normal(np.zeros(p), covariance, n)
        scatters.append(rows.T @ rows)
    scatters, ns = np.array(scatters), np.full(m, float(n))
    complete = np.broadcast_to(np.triu(np.ones((p, p)), 1), (m, p, p))

    def log_density(delta):
        sigma_h = unstructured_sigma_h(scatters, ns, delta + p - 1, 1e-6, 1000)
        value = naive.log_posterior(sigma_h, complete, scatters, ns, delta + p - 1, "uniform")
        return value + np.log(delta) - 2 * np.log(delta + TYPICAL_DELTA)

    grid = np.exp(np.linspace(0, np.log(3000), 42))
    best = grid[np.argmax([log_density(each) for each in grid])]
    found = estimate_delta(scatters, ns)
    assert abs(np.log(found / best)) < 0.4  # two steps of the grid; it asks for 0.2
    assert delta / 2 < found < 2 * delta


def test_delta_of_identical_tasks_is_large_and_of_unrelated_ones_small():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((200, 4))
    same = np.array([rows.T @ rows] * 5)
    assert estimate_delta(same, np.full(5, 200.0)) > 10 * 200
    mixed = [rows @ rng.standard_normal((4, 4)) for _ in range(5)]
    unrelated = np.array([each.T @ each for each in mixed])
    assert estimate_delta(unrelated, np.full(5, 200.0)) < 10


TWO = np.eye(2)
EDGE = [[0, 1], [0, 0]]
GOOD = {
    "sigma_h": TWO,
    "adjacencies": [EDGE, EDGE],
    "scatters": [3 * TWO, 4 * TWO],
    "ns": [3.0, 4.0],
    "nu0": 2.5,
    "structure_prior": "uniform",
}


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("sigma_h", -TWO, InputError, "sigma_h must be positive definite"),
        ("sigma_h", np.eye(3), InputError, "sigma_h has 3 variables, the scatters have 2"),
        ("sigma_h", [[1, 0.5], [0.2, 1]], InputError, "sigma_h must be symmetric"),
        ("sigma_h", [[1, np.nan], [np.nan, 1]], InputError, "sigma_h must be finite"),
        ("adjacencies", [EDGE], InputError, r"adjacencies must have shape \(2, 2, 2\)"),
        ("adjacencies", EDGE, InputError, r"adjacencies must have shape \(2, 2, 2\)"),
        ("adjacencies", [EDGE, [[0, 1], [1, 0]]], GraphError, "0 -> 1 -> 0"),
        ("adjacencies", [EDGE, [[0, 1], [1, 0]]], GraphError, "task 1"),
        ("adjacencies", [EDGE, [[0, 2], [0, 0]]], GraphError, r"\(0, 1\) is 2"),
        ("scatters", TWO, InputError, r"scatters must have shape \(m, 2, 2\)"),
        ("scatters", [TWO, [[1, 0.5], [0.2, 1]]], InputError, "task 1 must be symmetric"),
        ("scatters", [TWO, [[1, np.inf], [np.inf, 1]]], InputError, "task 1 must be finite"),
        ("scatters", [TWO, [[1, 0], [0, -1]]], InputError, "task 1 has the negative .* variable 1"),
        ("ns", [3.0], InputError, "ns must hold one number per scatter, 2"),
        ("ns", [3.0, 0.0], InputError, "n of task 1 must be a positive number; got 0.0"),
        ("ns", [np.nan, 1.0], InputError, "n of task 0 must be a positive number; got nan"),
        ("nu0", 1.0, InputError, "nu0 must be a number above p - 1 = 1; got 1.0"),
        ("nu0", np.nan, InputError, "nu0"),
        ("structure_prior", "flat", InputError, "uniform.*'flat'"),
    ],
)
def test_bad_arguments_are_named(name, value, error, message):
    with pytest.raises(error, match=message):
        log_posterior(**(GOOD | {name: value}))


def test_no_tasks_is_an_error():
    with pytest.raises(InputError, match="at least one task"):
        build_posterior(np.zeros((0, 2, 2)), np.zeros((0, 2, 2)), [], 3.0)
