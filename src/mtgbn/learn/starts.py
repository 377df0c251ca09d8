"""Where the chains of a joint fit start (docs/model.md, section 12)."""

import numpy as np

from mtgbn.chain.run import single_log_likelihoods
from mtgbn.chain.state import ChainData, first_state, with_edge_prior
from mtgbn.learn.joint import JointProblem, JointState, given_to_chains
from mtgbn.learn.joint_chains import largest_lag
from mtgbn.learn.min_strength import MinStrength, resolve_min_strength
from mtgbn.learn.parallel import Progress
from mtgbn.learn.pooled import pooled_graphs
from mtgbn.learn.single_task import learn_single_tasks
from mtgbn.model.edge_prior import EdgePrior, edge_counts, smoothed_density
from mtgbn.model.pair_kinds import PairKinds, first_kinds
from mtgbn.tasks import Tasks

# Chains that start at pooled graphs of nearly the same score, and at the dense pooled graph.
_POOLED_STARTS, _DENSE_STARTS = 3, 2

# Start a task from the pooled graph if that explains at least this fraction of the likelihood gain of
# its own graph; a task of another kind would take long to leave the pooled graph.
_MIN_EXPLAINED = 0.5

# delta at which chains start.
_FIRST_DELTA = 30.0


def start(problem: JointProblem, n_jobs: int | None, progress: Progress) -> JointState:
    """Chains that begin at the graphs of the single tasks, at pooled graphs, and at a dense one.

    The dense graph is the pooled graph without a minimal strength: to drop an edge is easier for a chain
    than to find one.
    """
    tasks = problem.tasks
    limit = resolve_min_strength(problem.min_strength, tasks, problem.constraints)
    single_graphs, _ = learn_single_tasks(
        tasks,
        (problem.constraints,) * len(tasks),
        problem.edge_prior,
        problem.search,
        edge_costs=limit.costs(tasks.ns),
        seeds=problem.seeds,
        n_jobs=n_jobs,
        progress=progress,
    )
    pooled = _pooled_graphs(problem, limit, _POOLED_STARTS)
    edge_prior: EdgePrior | PairKinds = problem.edge_prior.prior
    single_edge_prior = None
    if not problem.edge_prior.is_fixed:
        counts = edge_counts(single_graphs)
        single_edge_prior = EdgePrior(smoothed_density(counts, len(tasks), problem.free), np.inf)
        edge_prior = single_edge_prior
    if problem.edge_prior.source == "shared" and len(tasks) > 1:
        density = smoothed_density(edge_counts(pooled[:1]), 1, problem.free)
        edge_prior = first_kinds(density, has_groups=problem.groups is not None)
    data = given_to_chains(problem, edge_prior, limit, 0)
    delta = _FIRST_DELTA if problem.nu0 is None else problem.nu0 - tasks.n_variables + 1
    chains = []
    dense = _pooled_graphs(problem, MinStrength(0.0), 1)
    starts = [
        _pooled_where_it_suits(data, tasks, single_graphs, each)
        for each in (*pooled, *dense * _DENSE_STARTS)
    ]
    for graphs in (single_graphs, *starts):
        chain = first_state(data, tasks, graphs, delta=delta, edge_prior=edge_prior)
        chains.append(with_edge_prior(chain, edge_prior, single_edge_prior))
    return JointState(
        adjacencies=single_graphs,
        edge_prior=edge_prior,
        single_edge_prior=single_edge_prior,
        min_strength=limit,
        chains=tuple(chains),
    )


def _pooled_graphs(problem: JointProblem, limit: MinStrength, most: int) -> list[np.ndarray]:
    """At most ``most`` graphs of all tasks as one dataset, whose scores are nearly the same."""
    costs = limit.costs(problem.tasks.ns)
    found = pooled_graphs(
        problem.tasks,
        problem.constraints,
        problem.edge_prior,
        problem.search,
        edge_cost=float(costs.sum()),
        is_repeated=most > 1,
    )
    near = [each for each in found if found[0].score - each.score <= largest_lag(costs)]
    return [each.adjacency for each in near[:most]]


def _pooled_where_it_suits(
    data: ChainData, tasks: Tasks, single_graphs: np.ndarray, pooled: np.ndarray
) -> np.ndarray:
    """The pooled graph for every task that it explains well enough, single-task graphs for others."""
    shape = single_graphs.shape
    same, least = (np.broadcast_to(graph, shape) for graph in (pooled, data.required))
    own, common, none = (
        single_log_likelihoods(data, tasks.scatters, graphs)
        for graphs in (single_graphs, same, least)
    )
    suits = common - none >= _MIN_EXPLAINED * (own - none)
    return np.where(suits[:, None, None], same, single_graphs)
