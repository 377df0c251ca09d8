"""Directions that the data of all tasks support: a last search, with the skeletons held.

In chains and searches every task decides its directions nearly by itself, lest a cohort lock itself into
a wrong order (docs/model.md, section 11). But one task's data say little of a direction that all tasks
share. When skeletons are settled, nothing can lock itself in any more. Then the pooled data of the
members direct the pairs that most members join, and every task is searched once more. How much the
pooled directions count depends on how many of the learned directions agree with them.
"""

import numpy as np

from mtgbn.learn.joint import SETTLED, JointProblem, JointState, search_directions
from mtgbn.learn.parallel import Progress
from mtgbn.learn.single_task import (
    few_restarts,
    iteration_seeds,
    search_task,
    single_nu0,
    single_sigma_h,
)
from mtgbn.model.edge_prior import agreement_of

# Searches of the directions: the first raises the agreement, from which the weight of the next follows.
_PASSES = 2


def agree_on_directions(
    problem: JointProblem,
    state: JointState,
    graphs: np.ndarray,
    n_jobs: int | None,
    progress: Progress,
) -> np.ndarray:
    """The graphs (m, p, p) with the same skeletons, and directions that all data support."""
    is_member = state.gathered.membership > 0.5
    shares = problem.shares_directions and np.isfinite(
        agreement_of(len(problem.tasks), state.edge_prior)
    )
    if not shares or is_member.sum() < 2:
        return graphs
    pooled = _pooled_directions(problem, state, graphs[is_member])
    problem = problem._replace(search=few_restarts(problem.search))
    for _ in range(_PASSES):
        before = graphs
        log_odds = log_odds_of_agreement(graphs[is_member], pooled)
        found = search_directions(
            problem, state, graphs, log_odds=log_odds, n_jobs=n_jobs, progress=progress
        )
        graphs = np.where(is_member[:, None, None], found, graphs)
        if np.array_equal(graphs, before):
            break
    return graphs


def _pooled_directions(problem: JointProblem, state: JointState, graphs: np.ndarray) -> np.ndarray:
    """The DAG of the pairs that most members join, with the directions of their pooled data, (p, p)."""
    is_member = state.gathered.membership > 0.5
    limits, p = problem.constraints, problem.tasks.n_variables
    joined = graphs.mean(axis=0)
    skeleton = joined + joined.T > 0.5
    scatter = state.gathered.scatters[is_member].sum(axis=0)
    n = float(problem.tasks.ns[is_member].sum())
    _, seed = iteration_seeds(problem.seeds, state.n_blocks)
    return search_task(
        scatter=scatter,
        n=n,
        draws=single_sigma_h(scatter, n),
        nu0=single_nu0(p),
        log_odds=SETTLED * skeleton,
        constraints=limits._replace(allowed=limits.allowed & (skeleton | limits.required)),
        search=problem.search,
        initial=None,
        seed=seed,
    ).adjacency


def log_odds_of_agreement(graphs: np.ndarray, pooled: np.ndarray) -> np.ndarray:
    """Log prior odds of i -> j for its direction, (p, p).

    They follow from the share of the directions of ``graphs`` (members, p, p) that agree with those of
    ``pooled``, smoothed by one edge of each kind.
    """
    agree = float(graphs[:, pooled].sum())
    differ = float(graphs[:, pooled.T].sum())
    share = (agree + 1) / (agree + differ + 2)
    return np.log(2 * share) * pooled + np.log(2 * (1 - share)) * pooled.T
