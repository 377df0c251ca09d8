"""The weakest connection that counts: costs of edges in searches, chains, baselines and new tasks."""

import itertools

import numpy as np
import pytest

from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.graphs import skeleton
from mtgbn.model.edge_prior import edge_costs
from mtgbn.simulate import simulate_misfit


def pairs_with_correlation(rho, n, m=1):
    """Tasks of two variables whose sample correlation is exactly rho."""
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(m):
        rows = rng.standard_normal((n, 2))
        rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * np.sqrt(n - 1)
        rows[:, 1] = rho * rows[:, 0] + np.sqrt(1 - rho**2) * rows[:, 1]
        arrays.append(rows)
    return Tasks.from_arrays(arrays)


def wrong_pairs(estimator, simulation):
    """False edges, missing edges, per task."""
    found = np.array([skeleton(graph) for graph in estimator.fit(simulation.tasks).graphs_])
    truth = np.array([skeleton(graph) for graph in simulation.adjacencies])
    return [(a & ~b).sum() / 2 / len(found) for a, b in ((found, truth), (truth, found))]


@pytest.mark.parametrize(("n", "rho"), [*itertools.product((10.0, 80.0), (0.0, 0.1, 0.6))])
def test_an_edge_costs_the_likelihood_ratio_of_its_effect(n, rho):
    """By the residual sums of squares of the regressions without and with the effect."""
    gain = n / 2 * (np.log(n) - np.log(n - rho**2 * n))
    assert edge_costs(n, rho) == pytest.approx(gain)


@pytest.mark.parametrize("estimator", [SIG, AVG])
def test_edges_count_from_the_given_strength_on(estimator):
    """With many rows the prior of coefficients and edges hardly matters."""
    for rho in (0.2, 0.4):
        tasks = pairs_with_correlation(rho, 20_000)
        for min_strength in (0.0, 0.1, 0.3, 0.5):
            settings = {"edge_prior": 0.5, "min_strength": min_strength, "random_state": 0}
            found = estimator(**settings).fit(tasks).graphs_.any()
            assert found == (rho > min_strength)


@pytest.mark.parametrize("inference", ["map", "posterior"])
def test_the_number_of_tasks_does_not_make_weak_effects_count(inference):
    settings = {"inference": inference, "n_rounds": 40, "n_draws": 8, "random_state": 0}
    shares = {}
    for rho, min_strength in ((0.15, 0.0), (0.15, 0.3), (0.6, 0.3)):
        tasks = pairs_with_correlation(rho, 150, m=25)
        estimator = MTGBN(min_strength=min_strength, **settings)
        with without_convergence_warnings():  # forty rounds are few
            graphs = estimator.fit(tasks).graphs_
        shares[rho, min_strength] = graphs.any(axis=(1, 2)).mean()
    assert shares == {(0.15, 0.0): 1.0, (0.15, 0.3): 0.0, (0.6, 0.3): 1.0}


def test_required_edges_stay():
    tasks = pairs_with_correlation(0.1, 50, m=3)
    knowledge = {"required": [("x0", "x1")]}
    for estimator in (MTGBN, SIG, AVG):
        graphs = estimator(knowledge=knowledge, min_strength=0.9, random_state=0).fit(tasks).graphs_
        assert graphs[:, 0, 1].all()


@pytest.mark.parametrize("single", [False, True])
def test_a_new_task_has_the_same_limit(single):
    tasks = pairs_with_correlation(0.2, 400, m=4)
    found = [
        MTGBN(min_strength=min_strength, random_state=0)
        .fit(tasks[:3])
        .fit_task(tasks[3], single=single)
        for min_strength in (0.0, 0.5)
    ]
    assert [bool(each.graph.any()) for each in found] == [True, False]
    assert found[0].adjacency_probabilities[0, 1] > 0.9
    assert found[1].adjacency_probabilities[0, 1] < 0.1


def test_shared_misfit_is_not_taken_for_edges():
    """A hidden cause: with 30 tasks, most false edges are weaker than .15, and no true one is."""
    simulation = simulate_misfit("hidden_cause", n_tasks=30, n_variables=10, random_state=1)
    assert np.abs(simulation.coefficients[simulation.adjacencies]).min() > 0.15
    false, missing = wrong_pairs(MTGBN(random_state=0), simulation)
    fewer, missing_too = wrong_pairs(MTGBN(min_strength=0.15, random_state=0), simulation)
    assert fewer < false / 2
    assert missing_too < missing + 1
