"""The search for the graph of one task: as a single task, for SIG and AVG, or given the other tasks.

Arguments and results are plain data, so that a search can run in a thread or on a worker of a cluster.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.chain.state import SINGLE_DELTA, single_scales
from mtgbn.learn.parallel import Progress, in_parallel
from mtgbn.model.edge_prior import (
    EdgePrior,
    edge_counts,
    free_pairs,
    single_prior,
    smoothed_density,
)
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.search.knowledge import Constraints
from mtgbn.search.local_scores import OwnFamilies, gather_scores, score_differences
from mtgbn.search.methods import SearchSettings, search_graph
from mtgbn.tasks import Tasks

# Restarts of a search that starts at the result of an earlier search.
_FEW_RESTARTS = 6

# Largest number of times that a single task is searched and its density estimated in turn.
_DENSITY_PASSES = 5


class FoundGraph(NamedTuple):
    """What the search for one task found.

    Attributes
    ----------
    adjacency : array (p, p)
    gains : array (draws,)
        Log likelihood under every draw of sigma_h, minus that of the graph where the search started.
    data_score : float
        Mean log likelihood over the draws, without the edge prior.
    """

    adjacency: np.ndarray
    gains: np.ndarray
    data_score: float


def search_task(
    *,
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    nu0: float,
    log_odds: np.ndarray,
    constraints: Constraints,
    search: SearchSettings,
    initial: np.ndarray | None,
    seed: np.random.SeedSequence,
    own: OwnFamilies | None = None,
) -> FoundGraph:
    """Search for the graph of one task with the highest mean score over draws of sigma_h.

    ``draws`` is (N, p, p) or one matrix (p, p), ``log_odds`` (p, p) are the prior log odds of edges.
    With ``own`` a family may be an own family.
    """
    scores = gather_scores(scatter, n, draws, nu0, log_odds, own=own, checked=True)
    found = search_graph(scores, constraints, search, initial=initial, random_state=seed)
    gains = np.zeros(scores.n_draws)
    if initial is not None and not np.array_equal(found.adjacency, initial):
        gains += score_differences(scores, found.adjacency, initial)
        gains -= log_odds[found.adjacency].sum() - log_odds[initial].sum()
    data_score = found.score - log_odds[found.adjacency].sum()
    return FoundGraph(found.adjacency, gains, float(data_score))


def learn_single_tasks(
    tasks: Tasks,
    constraints: tuple[Constraints, ...],
    edge_prior: EdgePriorChoice,
    search: SearchSettings,
    *,
    edge_costs: np.ndarray | float = 0.0,
    seeds: np.random.SeedSequence,
    n_jobs: int | None,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Search every task as a single task, with a vague prior around its own variances.

    Every edge of a task costs its ``edge_costs`` (m,), in nats.
    Returns the graphs (m, p, p) and the density of each task's edge prior (m,): the given one, or the
    one that was estimated from the task's own graph.
    """
    _, seed = iteration_seeds(seeds, 0)
    costs = np.broadcast_to(edge_costs, len(tasks))
    found = in_parallel(
        search_single_task,
        [
            {
                "scatter": scatter,
                "n": n,
                "edge_prior": edge_prior,
                "edge_cost": cost,
                "constraints": limits,
                "search": search,
                "seed": seed,
            }
            for scatter, n, limits, cost in zip(
                tasks.scatters, tasks.ns, constraints, costs, strict=True
            )
        ],
        n_jobs,
        progress,
        "searching single tasks",
    )
    graphs = np.array([each.adjacency for each in found])
    return graphs, np.array([each.density for each in found])


class SingleGraph(NamedTuple):
    """What the search for a single task found: its graph, the density of its edge prior, its score."""

    adjacency: np.ndarray
    density: float
    score: float


def search_single_task(
    *,
    scatter: np.ndarray,
    n: float,
    edge_prior: EdgePriorChoice,
    edge_cost: float,
    constraints: Constraints,
    search: SearchSettings,
    seed: np.random.SeedSequence,
) -> SingleGraph:
    """Search for the graph of a single task.

    An estimated density is the density of the graph that was found with it, with add-one smoothing.
    The score is the log likelihood plus the prior log odds of the edges minus their costs.
    """
    p = len(scatter)
    free = free_pairs(constraints.allowed, constraints.required)

    def found(prior: EdgePrior, search: SearchSettings, initial: np.ndarray | None) -> FoundGraph:
        return search_task(
            scatter=scatter,
            n=n,
            draws=single_sigma_h(scatter, n),
            nu0=single_nu0(p),
            log_odds=prior.matrix_of_log_odds(p) - edge_cost,
            constraints=constraints,
            search=search,
            initial=initial,
            seed=seed,
        )

    prior = single_prior(edge_prior.prior)
    graph = found(prior, search, None)
    for number in range(0 if edge_prior.is_fixed else _DENSITY_PASSES):
        density = smoothed_density(edge_counts([graph.adjacency]), 1, free)
        if density == prior.density:
            break
        prior = prior._replace(density=density)
        if number < _DENSITY_PASSES - 1:
            graph = found(prior, few_restarts(search), graph.adjacency)
    log_odds = prior.matrix_of_log_odds(p)[graph.adjacency].sum()
    score = graph.data_score + log_odds - edge_cost * graph.adjacency.sum()
    return SingleGraph(graph.adjacency, float(np.mean(prior.density)), float(score))


def few_restarts(search: SearchSettings) -> SearchSettings:
    """Settings for searches that start near a good graph."""
    return search._replace(n_restarts=min(search.n_restarts, _FEW_RESTARTS))


def single_nu0(p: int) -> float:
    """Degrees of freedom of the prior of a single task."""
    return p - 1 + SINGLE_DELTA


def own_families(
    scatter: np.ndarray, n: float, log_share: float, log_rest: float
) -> OwnFamilies | None:
    """Own families of a member, with the prior of a single task; None if there are none a priori."""
    if log_share == -np.inf:
        return None
    return OwnFamilies(single_sigma_h(scatter, n), SINGLE_DELTA, log_share, log_rest)


def single_sigma_h(scatter: np.ndarray, n: float) -> np.ndarray:
    """Prior matrix of a single task."""
    return np.diag(single_scales(scatter[None], np.array([n]))[0])


def iteration_seeds(seeds: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Seeds for the chains and for the searches of an iteration; equal arguments give equal seeds."""
    key = (*seeds.spawn_key, number)
    return np.random.SeedSequence(seeds.entropy, spawn_key=key).spawn(2)
