"""The posterior estimate: how often the joint chains have each edge (docs/model.md, section 14)."""

import numpy as np

from mtgbn.learn.joint import (
    JointProblem,
    JointState,
    averaged_log_odds,
    search_directions,
)
from mtgbn.learn.joint_chains import go_on
from mtgbn.learn.joint_map import MAP_WARMUP
from mtgbn.learn.parallel import Progress
from mtgbn.learn.probabilities import graph_of_probabilities

# Share of the rounds that is the warm-up, and blocks into which the others are divided for R-hat.
_WARMUP_SHARE = 0.25
N_BLOCKS = 10

# Moves per pair of variables in a round, more than for the map estimate because chains must mix. With
# more variables than the second number most pairs are settled, and there are fewer moves per pair.
_MOVES_PER_PAIR, _MANY_VARIABLES = 60, 15


def advance_posterior(
    problem: JointProblem, state: JointState, n_jobs: int | None, progress: Progress
) -> JointState:
    """Run one block of rounds; the first one follows the warm-up."""
    n_warmup = 0
    if state.record is None:
        n_warmup = max(round(_WARMUP_SHARE * problem.n_rounds), MAP_WARMUP)
    state = go_on(
        problem,
        state,
        n_warmup=n_warmup,
        n_rounds=-(-problem.n_rounds // N_BLOCKS),
        moves_per_pair=_MOVES_PER_PAIR * min(1.0, _MANY_VARIABLES / problem.tasks.n_variables),
        keeps_blocks=True,
        n_jobs=n_jobs,
        progress=progress,
    )
    if state.n_blocks == N_BLOCKS:
        return state._replace(reason=f"{state.gathered.n_rounds} rounds were done", converged=True)
    return state


def posterior_graphs(
    problem: JointProblem, state: JointState, n_jobs: int | None, progress: Progress
) -> np.ndarray:
    """DAGs of the adjacencies with probability above 1/2, with the best mean score over the draws.

    Directions cannot be taken from their own probabilities, edge by edge: x - y - z with all
    directions open would become x -> y <- z as often as not, which has another meaning.
    """
    limits = problem.constraints
    graphs = np.array(
        [graph_of_probabilities(each, *limits) for each in state.gathered.edge_frequencies]
    )
    log_odds = averaged_log_odds(problem, state)
    return search_directions(
        problem, state, graphs, log_odds=log_odds, n_jobs=n_jobs, progress=progress
    )
