"""All tasks learned jointly: what is posed, where a fit stands, and the search given the chains.

The chains start in `starts` and run in `joint_chains`. The map estimate (`joint_map`) and the posterior
estimate (`joint_posterior`) stand on top of them (docs/model.md, sections 12 and 14).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mtgbn.chain.state import ChainData, ChainState, chain_data
from mtgbn.learn.min_strength import MinStrength, MinStrengthSetting
from mtgbn.learn.parallel import Progress, in_parallel
from mtgbn.learn.record import Record, spaced_draws
from mtgbn.learn.single_task import (
    FoundGraph,
    iteration_seeds,
    own_families,
    search_task,
    single_nu0,
    single_sigma_h,
)
from mtgbn.model.edge_prior import EdgePrior, agreement_of, free_pairs, single_prior
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.search.knowledge import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

N_CHAINS = 2

# Added to the log odds of edges that are settled, so that only their directions are searched.
SETTLED = 1e4


class JointProblem(NamedTuple):
    """All that stays the same during a fit; tasks and variables are in canonical order.

    Attributes
    ----------
    tasks : Tasks
    constraints : Constraints
    nu0 : float or None
        None: delta is sampled.
    edge_prior : EdgePriorChoice
    shares_directions : bool
    min_strength : float or "auto"
        The weakest partial correlation that counts.
    search : SearchSettings
    n_draws : int
        Draws of sigma_h over which searches average.
    n_rounds : int
        Rounds per chain of a posterior estimate.
    tolerance : float
    max_iter : int
    seeds : SeedSequence
        From which those of every iteration are spawned.
    groups : array (m,) of int, optional
        1 for the tasks of the second group, 0 for those of the first, which has the first task.
    """

    tasks: Tasks
    constraints: Constraints
    nu0: float | None
    edge_prior: EdgePriorChoice
    shares_directions: bool
    min_strength: MinStrengthSetting
    search: SearchSettings
    n_draws: int
    n_rounds: int
    tolerance: float
    max_iter: int
    seeds: np.random.SeedSequence
    groups: np.ndarray | None = None

    @property
    def free(self) -> np.ndarray:
        """Pairs that may be joined or not, (p, p)."""
        return free_pairs(self.constraints.allowed, self.constraints.required)


class Iteration(NamedTuple):
    """What one EM iteration did.

    ``q`` is the mean log joint density of data and graphs over the draws after the M-step, ``gain`` by
    how much the M-step raised it on the same draws, ``gain_error`` the Monte Carlo standard error of the
    gain. ``n_changed`` tasks got another graph; all graphs have ``n_edges`` edges. ``n_draws`` draws of
    sigma_h were used.
    """

    q: float
    gain: float
    gain_error: float
    n_changed: int
    n_edges: int
    n_draws: int


class JointState(NamedTuple):
    """Where a fit stands; all that is needed to go on.

    ``adjacencies`` (m, p, p) are the graphs of the last search. ``edge_prior`` is the given one or the
    one with which the chains began, ``single_edge_prior`` that of single tasks (None: with the same
    density). ``min_strength`` is the weakest partial correlation that counts. The chains have run
    ``n_blocks`` times. ``reason`` says why the fit ended; it is empty as long as it has not.
    """

    adjacencies: np.ndarray
    edge_prior: EdgePrior | PairKinds
    single_edge_prior: EdgePrior | None
    min_strength: MinStrength
    chains: tuple[ChainState, ...]
    record: Record | None = None
    n_blocks: int = 0
    history: tuple[Iteration, ...] = ()
    reason: str = ""
    converged: bool = False

    @property
    def gathered(self) -> Record:
        """The record of chains that have run."""
        if self.record is None:
            raise RuntimeError("the chains have not run yet")
        return self.record


def given_to_chains(
    problem: JointProblem, edge_prior: EdgePrior | PairKinds, limit: MinStrength, n_moves: int
) -> ChainData:
    """What the chains are given."""
    agreement = np.inf
    if problem.shares_directions:
        agreement = agreement_of(len(problem.tasks), edge_prior)
    return chain_data(
        problem.tasks,
        problem.constraints,
        agreement=agreement,
        edge_costs=limit.costs(problem.tasks.ns),
        groups=problem.groups,
        n_moves=n_moves,
        samples_delta=problem.nu0 is None,
    )


def averaged_log_odds(problem: JointProblem, state: JointState) -> np.ndarray:
    """Prior log odds minus costs of the edges of every task, (m, p, p).

    They belong to the mean of the probabilities over the chains. A mean of log odds would let one chain
    that excludes an edge outvote all others.
    """
    record = state.gathered
    by_chain = record.log_odds
    of_edge = logsumexp(-np.logaddexp(0.0, -by_chain), axis=0)
    averaged = of_edge - logsumexp(-np.logaddexp(0.0, by_chain), axis=0)
    prior = state.single_edge_prior or state.edge_prior
    single = single_prior(prior).matrix_of_log_odds(problem.tasks.n_variables)
    averaged[~(record.membership > 0.5)] = single
    return averaged - state.min_strength.costs(problem.tasks.ns)[:, None, None]


def search_all(
    problem: JointProblem,
    state: JointState,
    *,
    draws: np.ndarray,
    log_odds: np.ndarray,
    constraints: tuple[Constraints, ...],
    n_jobs: int | None,
    progress: Progress,
) -> list[FoundGraph]:
    """The graph with the highest mean score over the draws, for every task.

    Tasks that are members in at most half of the rounds are searched as single tasks. ``draws``
    (N, p, p) are those of sigma_h, ``log_odds`` (m, p, p) the prior log odds of edges.
    """
    record, p = state.gathered, problem.tasks.n_variables
    _, seed = iteration_seeds(problem.seeds, state.n_blocks)
    is_member = record.membership > 0.5
    calls = [
        {
            "scatter": scatter,
            "n": n,
            "draws": draws if is_member[t] else single_sigma_h(scatter, n),
            "nu0": record.mean_delta + p - 1 if is_member[t] else single_nu0(p),
            "log_odds": log_odds[t],
            "constraints": constraints[t],
            "search": problem.search,
            "initial": state.adjacencies[t],
            "seed": seed,
            "own": own_families(scatter, n, *record.own_log_shares) if is_member[t] else None,
        }
        for t, (scatter, n) in enumerate(zip(record.scatters, problem.tasks.ns, strict=True))
    ]
    return in_parallel(search_task, calls, n_jobs, progress, "searching graphs")


def search_directions(
    problem: JointProblem,
    state: JointState,
    graphs: np.ndarray,
    *,
    log_odds: np.ndarray,
    n_jobs: int | None,
    progress: Progress,
) -> np.ndarray:
    """The DAGs with the skeletons of ``graphs`` and the highest mean score over the draws, (m, p, p).

    ``log_odds``, (m, p, p) or (p, p), are the prior log odds of edges.
    """
    limits = problem.constraints
    skeletons = graphs | np.swapaxes(graphs, 1, 2)
    found = search_all(
        problem,
        state._replace(adjacencies=graphs),
        draws=spaced_draws(state.gathered, problem.n_draws),
        log_odds=log_odds + SETTLED * skeletons,
        constraints=tuple(
            limits._replace(allowed=limits.allowed & skeleton) for skeleton in skeletons
        ),
        n_jobs=n_jobs,
        progress=progress,
    )
    return np.array([each.adjacency for each in found])
