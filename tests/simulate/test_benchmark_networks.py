"""Benchmark networks: published counts, and samples against the implied moments."""

import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.graphs import is_dag
from mtgbn.simulate import load_network, simulate_perturbed
from mtgbn.simulate.benchmark_networks import NETWORKS

PUBLISHED = {  # nodes and arcs, as the Bayesian Network Repository states them
    "ecoli70": (46, 70),
    "magic-niab": (44, 66),
    "magic-irri": (64, 102),
    "arth150": (107, 150),
}


def moments(network):
    """Means and covariance by passing through the variables one after the other."""
    p = len(network.variables)
    means, covariance = np.zeros(p), np.zeros((p, p))
    done = []
    while len(done) < p:
        for node in set(range(p)) - set(done):
            parents = np.flatnonzero(network.coefficients[:, node])
            if not set(parents) <= set(done):
                continue
            weights = network.coefficients[parents, node]
            means[node] = network.intercepts[node] + weights @ means[parents]
            covariance[done, node] = covariance[node, done] = (
                covariance[np.ix_(done, parents)] @ weights
            )
            covariance[node, node] = (
                network.residual_variances[node]
                + weights @ covariance[np.ix_(parents, parents)] @ weights
            )
            done.append(node)
    return means, covariance


def test_all_networks_are_listed():
    assert set(NETWORKS) == set(PUBLISHED)


@pytest.mark.parametrize("name", NETWORKS)
def test_published_counts(name):
    network = load_network(name)
    arcs = network.coefficients != 0
    assert (len(network.variables), arcs.sum()) == PUBLISHED[name]
    assert is_dag(arcs)
    assert len(set(network.variables)) == len(network.variables)
    assert (network.residual_variances > 0).all()
    assert np.isfinite(network.intercepts).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_many_rows_have_the_implied_moments(name):
    """Means and covariances within 5.5 standard errors; a variance that is 2.5 % off fails.

    Over all networks, there is a false alarm in .04 % of all seeds.
    """
    network = load_network(name)
    n = 100_000
    simulation = simulate_perturbed(network, 1, n, level=0.0, standardise=False, random_state=1)
    places = [network.variables.index(variable) for variable in simulation.tasks.variables]
    means, covariance = moments(network)
    means, covariance = means[places], covariance[np.ix_(places, places)]
    np.testing.assert_allclose(simulation.covariances[0], covariance, rtol=1e-10, atol=1e-14)
    (rows,) = simulation.arrays
    variances = np.diag(covariance)
    assert (np.abs(rows.mean(axis=0) - means) < 5.5 * np.sqrt(variances / n)).all()
    # Var(s_ij) = (c_ii c_jj + c_ij^2) / n for normal rows
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
    assert (np.abs(np.cov(rows.T) - covariance) < 5.5 * error).all()


def test_a_name_is_enough_and_columns_keep_their_names():
    by_name = simulate_perturbed("magic-niab", 2, 10, random_state=3)
    by_network = simulate_perturbed(load_network("magic-niab"), 2, 10, random_state=3)
    assert by_name.tasks == by_network.tasks
    names = by_name.tasks.variables
    assert sorted(names) == sorted(load_network("magic-niab").variables)
    assert list(names) != list(load_network("magic-niab").variables)
    unchanged = simulate_perturbed("magic-niab", 1, 10, level=0.0, random_state=3)
    network = load_network("magic-niab")
    places = [network.variables.index(name) for name in unchanged.tasks.variables]
    np.testing.assert_array_equal(
        unchanged.adjacencies[0], (network.coefficients != 0)[np.ix_(places, places)]
    )


def test_residual_variances_may_be_replaced():
    simulation = simulate_perturbed(
        "ecoli70", 1, 5, level=0.0, residual_variances=np.full(46, 2.0), random_state=0
    )
    network = load_network("ecoli70")
    root = network.variables.index("b1191")  # has no parents
    assert not network.coefficients[:, root].any()
    place = simulation.tasks.variables.index("b1191")
    assert simulation.covariances[0, place, place] == pytest.approx(2.0)


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="no benchmark network 'ecoli'; there are ecoli70, magic"):
        simulate_perturbed("ecoli")
