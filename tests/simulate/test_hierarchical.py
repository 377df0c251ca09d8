"""The simulator against closed forms, and against the density that it should have."""

import numpy as np
import pytest
from scipy import stats

from mtgbn.errors import GraphError, InputError
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper import sample_sigma_h
from mtgbn.simulate import simulate_tasks
from mtgbn.simulate.hierarchical import draw_covariance

SIGMA_H = np.array([[9.0, 3.0, -2.0], [3.0, 4.0, 1.0], [-2.0, 1.0, 6.0]])
NU0 = 7.5
DAGS = {
    "empty": [],
    "edge against the order": [(2, 0)],
    "chain": [(0, 1), (1, 2)],
    "v-structure": [(0, 1), (2, 1)],
    "complete": [(0, 1), (0, 2), (1, 2)],
    "complete, another order": [(2, 1), (2, 0), (1, 0)],
}


def dag(edges, p=3):
    adjacency = np.zeros((p, p), dtype=bool)
    for i, j in edges:
        adjacency[i, j] = True
    return adjacency


def covariances(edges, n, seed):
    rng = np.random.default_rng(seed)
    return np.array([draw_covariance(dag(edges), SIGMA_H, NU0, rng) for _ in range(n)])


@pytest.mark.parametrize("name", ["complete", "complete, another order"])
def test_complete_dag_is_inverse_wishart(name):
    ours = covariances(DAGS[name], 4000, seed=1)
    exact = stats.invwishart(NU0, SIGMA_H).rvs(40_000, random_state=np.random.default_rng(2))

    def statistics(matrices):
        yield np.linalg.slogdet(matrices)[1]
        for i in range(3):
            yield matrices[:, i, i]
            for j in range(i):
                yield matrices[:, i, j] / np.sqrt(matrices[:, i, i] * matrices[:, j, j])

    # seven tests at 1e-5: one false alarm in 14,000 seeds
    for one, other in zip(statistics(ours), statistics(exact), strict=True):
        assert stats.ks_2samp(one, other).pvalue > 1e-5
    # E[Sigma^-1] = nu0 Psi^-1 exactly
    precisions = np.linalg.inv(ours)
    error = precisions.std(axis=0) / np.sqrt(len(ours))
    z = (precisions.mean(axis=0) - NU0 * np.linalg.inv(SIGMA_H)) / error
    assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("name", DAGS)
def test_covariance_obeys_the_dag(name):
    """Given its parents, a node does not depend on the other nodes before it."""
    adjacency = dag(DAGS[name])
    order = [int(k) for k in np.argsort(_depths(adjacency), kind="stable")]
    for covariance in covariances(DAGS[name], 5, seed=3):
        assert (np.linalg.eigvalsh(covariance) > 0).all()
        for place, node in enumerate(order):
            before = order[:place]
            if not before:
                continue
            coefficients = np.linalg.solve(
                covariance[np.ix_(before, before)], covariance[before, node]
            )
            for other, coefficient in zip(before, coefficients, strict=True):
                assert (abs(coefficient) > 1e-9) == adjacency[other, node]


def _depths(adjacency):
    depths = np.zeros(len(adjacency))
    for _ in adjacency:
        for i, j in np.argwhere(adjacency):
            depths[j] = max(depths[j], depths[i] + 1)
    return depths


@pytest.mark.parametrize("name", DAGS)
def test_average_likelihood_is_the_marginal_likelihood(name):
    """Simulator and density describe the same model: E over Sigma of N(X | 0, Sigma).

    4.5 standard errors: one false alarm in 150,000 seeds for a normal mean. The square of
    N(X | 0, Sigma) is the density of the rows taken twice, so the error is known: at most .0294.
    """
    rows = np.random.default_rng(4).standard_normal((3, 3)) * [1.2, 0.8, 1.0]
    scatter = rows.T @ rows
    draws = covariances(DAGS[name], 5_000, seed=5)
    traces = np.einsum("sij,ji->s", np.linalg.inv(draws), scatter)
    logs = -0.5 * (3 * 3 * np.log(2 * np.pi) + 3 * np.linalg.slogdet(draws)[1] + traces)
    expected = log_marginal_likelihood(scatter, 3, dag(DAGS[name]), SIGMA_H, NU0)
    ratios = np.exp(logs - expected)
    twice = log_marginal_likelihood(2 * scatter, 6, dag(DAGS[name]), SIGMA_H, NU0)
    error = np.sqrt(np.expm1(twice - 2 * expected) / len(ratios))
    assert abs(ratios.mean() - 1) < 4.5 * error
    assert error < 0.03
    # Another DAG's density is told apart: the nearest ratio is .22 away from 1, 8 standard errors.
    for other, edges in DAGS.items():
        if other.split(",")[0] != name.split(",")[0]:
            value = log_marginal_likelihood(scatter, 3, dag(edges), SIGMA_H, NU0)
            assert abs(ratios.mean() - np.exp(value - expected)) > 4.5 * error, other


def test_simulated_tasks_have_what_was_asked_for():
    simulation = simulate_tasks(7, 5, 12, nu0=9.5, edge_probability=0.7, random_state=3)
    assert len(simulation.tasks) == 7
    assert simulation.nu0 == 9.5
    assert simulation.sigma_h.shape == (5, 5)
    assert (np.linalg.eigvalsh(simulation.sigma_h) > 0).all()
    for rows, scatter in zip(simulation.arrays, simulation.tasks.scatters, strict=True):
        centred = rows - rows.mean(axis=0)
        np.testing.assert_allclose(scatter, centred.T @ centred, rtol=1e-10, atol=1e-10)
    assert (simulation.tasks.ns == 11).all()
    for covariance, adjacency in zip(simulation.covariances, simulation.adjacencies, strict=True):
        precision = np.linalg.inv(covariance)
        moral = adjacency | adjacency.T | (adjacency @ adjacency.T)
        np.fill_diagonal(moral, True)
        assert np.abs(precision[~moral]).max(initial=0) < 1e-8 * np.abs(precision).max()


def test_rows_have_the_covariance_that_was_drawn():
    simulation = simulate_tasks(2, 3, 20_000, random_state=5)
    for rows, covariance in zip(simulation.arrays, simulation.covariances, strict=True):
        deviations = np.sqrt(np.diag(covariance))
        error = np.sqrt(2 / len(rows))
        z = (np.cov(rows.T) - covariance) / np.outer(deviations, deviations) / error
        assert np.abs(z).max() < 4.5


def test_tasks_lack_the_given_share_of_the_shared_edges():
    simulation = simulate_tasks(400, 8, 3, edge_change=0.2, random_state=6)
    present = simulation.adjacencies.mean(axis=0)
    shared = present > 0
    error = np.sqrt(0.16 / 400)
    assert np.abs(present[shared] - 0.8).max() < 4.5 * error
    identical = simulate_tasks(5, 8, 3, edge_change=0.0, random_state=6).adjacencies
    assert (identical == identical[0]).all()


def test_random_state_decides():
    one, two, other = (simulate_tasks(random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.arrays, two.arrays)
    assert not np.array_equal(one.arrays, other.arrays)
    generated = simulate_tasks(random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(one.arrays, generated.arrays)


def test_intervals_cover_sigma_h():
    """90 % intervals under a flat prior cover about 90 %; 0.8 is 4 sds away for 24 x 6 elements.

    Elements of one simulation are correlated, so the sd is that of the mean over 24 simulations.
    """
    shares = []
    for seed in range(24):
        simulation = simulate_tasks(25, 3, 30, random_state=seed)
        draws = sample_sigma_h(
            simulation.tasks,
            simulation.adjacencies,
            simulation.nu0,
            n_draws=400,
            n_warmup=200,
            n_chains=2,
            random_state=seed,
        ).flat
        low, high = np.quantile(draws, (0.05, 0.95), axis=0)
        inside = (low <= simulation.sigma_h) & (simulation.sigma_h <= high)
        shares.append(inside[np.tril_indices(3)].mean())
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.9) < max(4.5 * error, 0.03)
    assert error < 0.06


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_tasks": 0}, "n_tasks must be a whole number of at least 1; got 0"),
        ({"n_variables": 1}, "n_variables must be a whole number of at least 2; got 1"),
        ({"n_rows": 1}, "n_rows must be a whole number of at least 2; got 1"),
        ({"nu0": 5.0}, "nu0 must be a number above p - 1 = 5"),
        ({"edge_probability": 1.5}, "edge_probability"),
        ({"edge_change": -0.1}, "edge_change"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(InputError, match=message):
        simulate_tasks(**options)


def test_draw_covariance_refuses_what_it_cannot_use():
    rng = np.random.default_rng(0)
    with pytest.raises((GraphError, InputError), match="cycle"):
        draw_covariance(dag([(0, 1), (1, 0)]), SIGMA_H, NU0, rng)
    with pytest.raises(InputError, match="positive definite"):
        draw_covariance(dag([]), -SIGMA_H, NU0, rng)
