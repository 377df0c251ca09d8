"""One more task: close to a fit of all, exact probabilities in a small case, and clear refusals."""

from itertools import permutations

import naive
import numpy as np
import pandas
import pytest
from learn_oracles import all_dags
from scipy.special import logsumexp

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.errors import ConvergenceWarning, InputError, NotFittedError
from mtgbn.graphs import cpdag, skeleton
from mtgbn.graphs.dags import topological_order
from mtgbn.learn.new_task import _sample_graphs, _Terms
from mtgbn.metrics import compare_adjacencies
from mtgbn.search import Knowledge
from mtgbn.simulate import simulate_perturbed
from mtgbn.simulate.perturbed import random_network


@pytest.fixture(scope="module")
def simulation():
    return simulate_perturbed(random_network(8, 12, random_state=0), 9, 40, random_state=0)


@pytest.fixture(scope="module")
def cohort(simulation):
    return MTGBN(random_state=0, n_jobs=1).fit(simulation.tasks[list(range(8))])


@pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")
def test_it_is_nearer_the_truth_than_as_a_single_task():
    """Mean over ten cohorts; each has one more member, of which it knows nothing."""
    errors = {"new": [], "single": []}
    for seed in range(10):
        simulation = simulate_perturbed(
            random_network(8, 12, random_state=seed), 7, 30, random_state=seed
        )
        tasks, truth = simulation.tasks, simulation.adjacencies[6]
        cohort = MTGBN(random_state=0, n_draws=16, max_iter=3).fit(tasks[list(range(6))])
        single = SIG(edge_prior="density", random_state=0).fit(tasks[6])
        for name, graph in (
            ("new", cohort.fit_task(tasks[6]).graph),
            ("single", single.graphs_[0]),
        ):
            errors[name].append(compare_adjacencies(graph, truth).error)
    assert np.mean(errors["new"]) < 0.6 * np.mean(errors["single"])


def test_what_it_returns_fits_together(simulation, cohort):
    task = simulation.tasks[8]
    found = cohort.fit_task(task)
    topological_order(found.graph)
    np.testing.assert_array_equal(cpdag(found.graph), found.cpdag)
    assert (found.name, found.n) == (task.names[0], task.ns[0])
    np.testing.assert_allclose(
        found.adjacency_probabilities, found.edge_probabilities + found.edge_probabilities.T
    )
    pairs = np.triu_indices(8, 1)
    assert (found.diagnostics.rhat[pairs] < 1.1).mean() > 0.95
    again = cohort.fit_task(task)
    np.testing.assert_array_equal(found.edge_probabilities, again.edge_probabilities)


def test_as_a_single_task_it_is_told_nothing(simulation, cohort):
    """The same whoever the others are, with SIG's adjacencies."""
    task = simulation.tasks[8]
    others = MTGBN(random_state=0, n_jobs=1, n_draws=16, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        others.fit(simulation.tasks[[0, 1, 2]])
    found = [each.fit_task(task, single=True, random_state=3) for each in (cohort, others)]
    np.testing.assert_array_equal(*(each.edge_probabilities for each in found))
    sig = SIG(edge_prior="density", random_state=0).fit(task)
    np.testing.assert_array_equal(skeleton(found[0].graph), skeleton(sig.graphs_[0]))
    told = cohort.fit_task(task, random_state=3)
    assert np.abs(told.edge_probabilities - found[0].edge_probabilities).max() > 0.1


@pytest.mark.parametrize("own_share", [0.0, 0.3])
def test_probabilities_are_those_of_all_dags(own_share):
    """Three variables, one draw: every DAG can be counted, with the number of its orders."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(25, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.4], [0, 0, 1]])
    scatter, n, delta = rows.T @ rows, 25.0, 4.0
    sigma_h = delta * np.array([[1, 0.3, 0], [0.3, 1.5, 0.2], [0, 0.2, 1.0]])
    log_odds = rng.normal(size=(3, 3))
    weights, graphs = [], []
    for dag in all_dags(3):
        places = [np.argsort(order) for order in permutations(range(3))]
        n_orders = sum((place[:, None] < place)[dag].all() for place in places)
        families = [(scatter, n, node, naive.parents_of(dag, node)) for node in range(3)]
        tied = [naive.family_score(sigma_h, delta, *family) for family in families]
        own = [naive.family_score(np.diag(np.diag(scatter)) / n, 3.0, *each) for each in families]
        # All are tied, or all but one.
        value = logsumexp(
            [sum(tied), *(sum(tied) - tied[k] + own[k] for k in range(3))],
            b=[1 - own_share, *[own_share] * 3],
        )
        weights.append(value + log_odds[dag].sum() + np.log(n_orders))
        graphs.append(dag)
    weights = np.exp(np.array(weights) - max(weights))
    expected = np.tensordot(weights / weights.sum(), np.array(graphs, dtype=float), 1)
    constraints = Knowledge().resolve(("a", "b", "c"))
    found, _ = _sample_graphs(
        scatter,
        n,
        _Terms(np.array([sigma_h] * 200), delta, log_odds, own_share, 1),
        constraints,
        np.zeros((3, 3), dtype=bool),
        rng,
    )
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_columns_go_by_their_names(simulation, cohort):
    rows = np.random.default_rng(0).normal(size=(30, 8))
    frame = pandas.DataFrame(rows, columns=cohort.variables_)
    by_position = cohort.fit_task(rows)
    by_name = cohort.fit_task(frame[list(cohort.variables_[::-1])])
    np.testing.assert_array_equal(by_position.graph, by_name.graph)
    assert by_name.variables == cohort.variables_


def test_bad_use_is_explained(simulation, cohort):
    rows = np.random.default_rng(0).normal(size=(30, 8))
    with pytest.raises(NotFittedError):
        MTGBN().fit_task(rows)
    with pytest.raises(InputError, match="learns one task; got 9"):
        cohort.fit_task(simulation.tasks)
    with pytest.raises(InputError, match="no variable"):
        cohort.fit_task(pandas.DataFrame(rows[:, :7], columns=cohort.variables_[:7]))
    rows[0, 0] = np.nan
    with pytest.raises(InputError, match="missing or infinite"):
        cohort.fit_task(rows)
    with pytest.raises(InputError, match="needs complete data"):
        cohort.fit_task(Tasks.from_arrays([rows], cohort.variables_, missing="em"))
