"""The map estimate: Monte Carlo EM over the joint chains (docs/model.md, section 12).

E-step: the chains go on, and draw everything but the graphs that are searched. M-step: for every task,
the graph with the highest mean score over these draws.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.chain import diagnostics
from mtgbn.learn.joint import (
    N_CHAINS,
    Iteration,
    JointProblem,
    JointState,
    averaged_log_odds,
    search_all,
)
from mtgbn.learn.joint_chains import go_on
from mtgbn.learn.parallel import Progress
from mtgbn.learn.record import spaced_draws
from mtgbn.learn.single_task import FoundGraph, few_restarts

# Rounds of warm-up before the first search, per chain.
MAP_WARMUP = 45

# From the third iteration on, each has twice as many rounds as the one before, up to this multiple.
_MAX_GROWTH = 4

# After this number of iterations, three times as many edges may change.
_PATIENCE = 3

# Moves per pair of variables in a round. With more variables than the second number most pairs are
# settled, and there are fewer moves per pair.
_MOVES_PER_PAIR, _MANY_VARIABLES = 8, 20


class _Expectation(NamedTuple):
    """What an E-step gives: draws of sigma_h (N, p, p), log odds of edges (m, p, p)."""

    draws: np.ndarray
    log_odds: np.ndarray


def advance_map(
    problem: JointProblem, state: JointState, n_jobs: int | None, progress: Progress
) -> JointState:
    """One iteration of EM."""
    before = state.adjacencies
    state, expectation = _e_step(problem, state, n_jobs, progress)
    found = _m_step(problem, state, expectation, n_jobs, progress)
    iteration = _measure(state, found, expectation)
    state = state._replace(
        adjacencies=np.array([each.adjacency for each in found]),
        history=(*state.history, iteration),
    )
    return _judged(problem, state, before)


def _e_step(
    problem: JointProblem, state: JointState, n_jobs: int | None, progress: Progress
) -> tuple[JointState, _Expectation]:
    """Run the chains. Draws of earlier iterations are forgotten: chains need time to converge."""
    number, p = len(state.history), problem.tasks.n_variables
    growth = min(2 ** max(number - 1, 0), _MAX_GROWTH)
    state = go_on(
        problem,
        state._replace(record=None),
        n_warmup=0 if number else MAP_WARMUP,
        n_rounds=-(-problem.n_draws // N_CHAINS) * growth,
        moves_per_pair=_MOVES_PER_PAIR * min(1.0, _MANY_VARIABLES / p),
        keeps_blocks=False,
        n_jobs=n_jobs,
        progress=progress,
    )
    draws = spaced_draws(state.gathered, problem.n_draws)
    return state, _Expectation(draws, averaged_log_odds(problem, state))


def _m_step(
    problem: JointProblem,
    state: JointState,
    expectation: _Expectation,
    n_jobs: int | None,
    progress: Progress,
) -> list[FoundGraph]:
    """Search every task's graph given the draws; searches after the first have few restarts."""
    search = few_restarts(problem.search) if state.history else problem.search
    return search_all(
        problem._replace(search=search),
        state,
        draws=expectation.draws,
        log_odds=expectation.log_odds,
        constraints=(problem.constraints,) * len(problem.tasks),
        n_jobs=n_jobs,
        progress=progress,
    )


def _measure(state: JointState, found: list[FoundGraph], expectation: _Expectation) -> Iteration:
    """Q after the M-step, and its gain with the Monte Carlo error."""
    log_odds = expectation.log_odds
    changed = [t for t, each in enumerate(found) if (each.adjacency != state.adjacencies[t]).any()]
    gains = np.zeros(len(expectation.draws))
    of_prior = 0.0
    for t in changed:
        gains += found[t].gains  # the same number under every draw, for a single task
        of_prior += log_odds[t, found[t].adjacency].sum()
        of_prior -= log_odds[t, state.adjacencies[t]].sum()
    q = sum(each.data_score + log_odds[t][each.adjacency].sum() for t, each in enumerate(found))
    return Iteration(
        q=float(q),
        gain=float(gains.mean() + of_prior),
        gain_error=monte_carlo_error(gains) if changed else 0.0,
        n_changed=len(changed),
        n_edges=int(sum(each.adjacency.sum() for each in found)),
        n_draws=state.gathered.n_rounds * N_CHAINS,
    )


def monte_carlo_error(gains: np.ndarray) -> float:
    """Standard error of the mean of values that come chain by chain."""
    (error,) = diagnostics.monte_carlo_error(gains.reshape(1, N_CHAINS, -1))
    return float(error)


def _judged(problem: JointProblem, state: JointState, before: np.ndarray) -> JointState:
    """The state with the reason to stop, if there is one.

    Where data are few, some edges are as probable as not, and go on changing from draw to draw. EM
    has converged when few edges change.
    """
    number = len(state.history) - 1
    now = state.adjacencies | np.swapaxes(state.adjacencies, 1, 2)
    before = before | np.swapaxes(before, 1, 2)
    share = (now != before).sum() / max(now.sum(), 1)
    enough = problem.tolerance * (1 if number < _PATIENCE else 3)
    if number and share <= enough:
        times = "" if number < _PATIENCE else ", three times tol after the third iteration"
        reason = f"on fresh draws, {share:.1%} of the edges changed (enough: {enough:.1%}{times})"
        return state._replace(reason=reason, converged=True)
    if len(state.history) >= problem.max_iter:
        return state._replace(reason=f"max_iter = {problem.max_iter} iterations were done")
    return state
