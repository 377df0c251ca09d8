"""Repeated searches for the pooled graph: the best of all DAGs, and nothing that depends on a seed."""

import numpy as np
import pytest

from mtgbn import MTGBN, SIG
from mtgbn.graphs import skeleton
from mtgbn.learn.pooled import pooled_graphs
from mtgbn.model.edge_prior_setting import edge_prior_of
from mtgbn.search.knowledge import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.simulate import simulate_misfit
from tests.learn_oracles import all_dags
from tests.naive import log_marginal_likelihood

COST = 3.0


def found_in(tasks, density=0.3, **settings):
    """Pooled graphs with a fixed density of edges, or an estimated one."""
    p = tasks.n_variables
    anything = Constraints(~np.eye(p, dtype=bool), np.zeros((p, p), dtype=bool), p - 1)
    search = SearchSettings("boss", 2, 10)
    prior = edge_prior_of(density, tasks.variables)
    return pooled_graphs(tasks, anything, prior, search, edge_cost=COST, **settings)


def small_tasks(seed, n_variables=4):
    simulation = simulate_misfit("lagged", 5, n_variables, 30, random_state=seed)
    return simulation.tasks


@pytest.mark.parametrize("seed", range(3))
def test_the_first_graph_is_the_best_of_all_dags(seed):
    tasks = small_tasks(seed)
    scatter, n = tasks.scatters.sum(axis=0), tasks.ns.sum()
    sigma_h = np.diag(np.diag(scatter)) / n  # so that these variances are the prior mean

    def score(graph):
        value = log_marginal_likelihood(scatter, n, graph, sigma_h, 4 - 1 + 3)
        return value + graph.sum() * (np.log(0.3 / 0.7) - COST)

    best = max(score(graph) for graph in all_dags(4))
    found = found_in(tasks)
    none = np.zeros((4, 4), dtype=bool)
    assert score(found[0].adjacency) == pytest.approx(best, abs=1e-8)
    # Scores are those densities up to a constant.
    for each in found:
        above_none = each.score - found[0].score
        assert above_none == pytest.approx(score(each.adjacency) - best, abs=1e-8)
    assert best > score(none)


def test_graphs_are_different_and_in_the_order_of_their_scores():
    found = found_in(small_tasks(0, n_variables=12), density="density")
    scores = [each.score for each in found]
    assert (np.diff(scores) < 0).all()
    assert len({each.adjacency.tobytes() for each in found}) == len(found)
    assert len(found_in(small_tasks(0, n_variables=12), is_repeated=False)) == 1


def test_what_counts_as_an_edge_does_not_depend_on_the_seed():
    tasks = simulate_misfit("hidden_cause", 6, 8, 60, random_state=1).tasks
    limits = {SIG(random_state=seed).fit(tasks).min_strength_ for seed in range(4)}
    assert len(limits) == 1
    assert limits.pop().strength > 0


@pytest.mark.parametrize("misfit", ["hidden_cause", "delays"])
def test_fits_that_differ_in_their_seed_agree(misfit):
    tasks = simulate_misfit(misfit, 20, 12, 60, random_state=3).tasks
    found = []
    for seed in range(3):
        graphs = MTGBN(random_state=seed).fit(tasks).graphs_
        frequencies = np.mean([skeleton(graph) for graph in graphs], axis=0)
        found.append(frequencies[np.triu_indices(12, 1)])
    assert np.corrcoef(found).min() > 0.95
