"""Likelihoods of tasks in compiled code against the public ones."""

import naive
import naive_updates
import numpy as np
from chain_problems import SINGLE_DELTA, chain_of, some_arrays

from mtgbn.chain.likelihoods import log_likelihoods
from mtgbn.chain.run import single_log_likelihoods
from mtgbn.chain.state import single_scales
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.tasks import Tasks


def test_likelihoods_are_the_public_ones_up_to_a_constant():
    p, m, delta = 5, 3, 4.0
    rng = np.random.default_rng(0)
    tasks = Tasks.from_arrays(some_arrays(m, p))
    scatters, ns = np.array(tasks.scatters), np.array(tasks.ns)
    sigma_h = naive.random_covariance(rng, p)
    members = np.array([True, False, True])
    scales = single_scales(scatters, ns)
    data, _ = chain_of(tasks)
    differences, single_differences = [], []
    for _ in range(4):
        dags = np.array([naive.random_dag(rng, p, 0.5) for _ in range(m)])
        values = np.empty((m, p))
        ties = np.repeat(members[:, None], p, axis=1)
        log_likelihoods(dags, scatters, ns, scales, ties, sigma_h, delta, values)
        as_member, as_single = (
            np.array(
                [log_marginal_likelihood(scatters[t], ns[t], dags[t], *prior(t)) for t in range(m)]
            )
            for prior in (
                lambda t: (sigma_h, delta + p - 1),
                lambda t: (np.diag(np.diag(scatters[t]) / ns[t]), SINGLE_DELTA + p - 1),
            )
        )
        differences.append(values.sum(axis=1) - np.where(members, as_member, as_single))
        single_differences.append(single_log_likelihoods(data, scatters, dags) - as_single)
    # The constant is of the data alone, so it is the same for members and single tasks.
    np.testing.assert_allclose(differences, [ns * p / 2 * np.log(np.pi)] * 4, atol=1e-9)
    np.testing.assert_allclose(single_differences, differences, atol=1e-9)


def test_every_family_has_the_prior_matrix_of_its_tie():
    p, m = 5, 3
    rng = np.random.default_rng(1)
    tasks = Tasks.from_arrays(some_arrays(m, p))
    sigma_h = naive.random_covariance(rng, p)
    for share in (0.0, 0.2, 0.5, 1.0):
        dags = np.array([naive.random_dag(rng, p, 0.5) for _ in range(m)])
        data, state = chain_of(tasks, start=dags, delta=4.0)
        ties, values = rng.random((m, p)) < share, np.empty((m, p))
        log_likelihoods(
            dags, state.scatters, data.ns, data.single_scales, ties, sigma_h, 4.0, values
        )
        expected = [
            [
                naive_updates.log_likelihood_of_family(data, state, t, j, sigma_h, ties[t, j])
                for j in range(p)
            ]
            for t in range(m)
        ]
        np.testing.assert_allclose(values, expected, atol=1e-9)


def test_a_matrix_that_is_not_positive_definite_has_no_likelihood():
    scatters, ns = np.zeros((1, 2, 2)), np.array([3.0])
    sigma_h, values = np.array([[1.0, 2.0], [2.0, 1.0]]), np.empty((1, 2))
    ties = np.ones((1, 2), dtype=bool)
    for edge, expected in ((False, True), (True, False)):
        dags = np.array([[[False, edge], [False, False]]])
        log_likelihoods(dags, scatters, ns, np.ones((1, 2)), ties, sigma_h, 4.0, values)
        assert np.isfinite(values).all() == expected
