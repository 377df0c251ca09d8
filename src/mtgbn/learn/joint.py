"""Chains over all tasks: how they start, how they go on, and what they gather.

The map estimate (`joint_map`) and the posterior estimate (`joint_posterior`) stand on top of it
(docs/model.md, sections 12 and 14).
"""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.special import logsumexp

from mtgbn.chain.run import run_chain, single_log_likelihoods
from mtgbn.chain.state import (
    ChainData,
    ChainState,
    ChainTrace,
    chain_data,
    first_state,
    with_edge_prior,
)
from mtgbn.chain.threads import stoppable_threads
from mtgbn.chain.updates.membership import reassign_members
from mtgbn.learn.min_strength import MinStrength, MinStrengthSetting, resolve_min_strength
from mtgbn.learn.parallel import Progress, in_parallel
from mtgbn.learn.pooled import pooled_graphs
from mtgbn.learn.single_task import (
    FoundGraph,
    iteration_seeds,
    learn_single_tasks,
    own_families,
    search_task,
    single_nu0,
    single_sigma_h,
)
from mtgbn.model.edge_prior import (
    EdgePrior,
    PairKinds,
    agreement_of,
    edge_counts,
    first_kinds,
    free_pairs,
    smoothed_density,
)
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.search.knowledge import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

N_CHAINS = 2

# Draws of Psi that are kept per chain; when there are twice as many, every second one is dropped.
_MAX_KEPT = 100

# After each warm-up stage, a chain that trails the best by more than _MAX_LAG in log density restarts
# from it. If a search follows, such a chain ends. Then the largest lag is smaller in small cohorts: what
# _LAG_IN_EDGES edges must be worth if all tasks have them. After the last stage it is _LAST_LAG: the
# mean over two modes is not a mode, and the better one is searched. Tasks whose membership is wrong may
# then change sides, too.
_WARMUP_STAGES, _MAX_LAG = 3, 100.0
_LAG_IN_EDGES, _LAST_LAG = 4, 5.0

# Rounds before the warm-up in which graphs are held, so that sigma_h and delta suit them.
_SETTLING_ROUNDS = 15

# Chains that start at the dense pooled graph, if a search follows.
_DENSE_STARTS = 2

# If a search follows: chains that start at pooled graphs of nearly the same score, and all chains that
# go on before the last warm-up stage. After it there are N_CHAINS.
_POOLED_STARTS, _MOST_CHAINS = 3, 4

# Chains are in different modes if some pair is joined in shares of the tasks that differ by this.
_OTHER_MODE = 0.5

# Chains disagree about a task if their membership frequencies differ by more than this.
_MAX_DISAGREEMENT = 0.9

# Start a task from the pooled graph if that explains at least this fraction of the likelihood gain of
# its own graph; a task of another kind would take long to leave the pooled graph.
_MIN_EXPLAINED = 0.5

# delta at which chains start.
_FIRST_DELTA = 30.0


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


class Record(NamedTuple):
    """What the chains have gathered since their warm-up; fields as in `ChainTrace`, with a chain axis.

    ``psi`` (chains, kept, p, p) has at most 2 `_MAX_KEPT` draws per chain, one every ``stride`` rounds.
    ``log_odds`` (chains, m, p, p), ``scatters`` and ``row_means`` are means over the rounds.
    ``edge_frequencies`` (m, p, p) is the share of all moves after which i -> j was there. ``blocks``
    (chains, blocks, m, p, p) counts the rounds of a block at whose end it was there; there are no
    blocks unless probabilities are wanted.
    """

    psi: np.ndarray
    stride: int
    delta: np.ndarray
    kinds: np.ndarray
    log_density: np.ndarray
    n_edges: np.ndarray
    acceptance: np.ndarray
    members: np.ndarray
    advantages: np.ndarray
    own_share: np.ndarray
    log_odds: np.ndarray
    edge_frequencies: np.ndarray
    blocks: np.ndarray
    scatters: np.ndarray
    row_means: np.ndarray
    n_divergent: int

    @property
    def n_rounds(self) -> int:
        """Rounds per chain."""
        return self.delta.shape[1]

    @property
    def membership(self) -> np.ndarray:
        """Share of the rounds in which a task was a member, (m,)."""
        return self.members.mean(axis=(0, 1))

    @property
    def own_log_shares(self) -> tuple[float, float]:
        """Means of the logarithms of the shares of own and of tied families."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.own_share).mean()), float(np.log1p(-self.own_share).mean())

    @property
    def mean_delta(self) -> float:
        """Geometric mean of delta."""
        return float(np.exp(np.log(self.delta).mean()))


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
        edge_prior = first_kinds(smoothed_density(edge_counts(pooled[:1]), 1, problem.free))
    data = _chain_data(problem, edge_prior, limit, 0)
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
    near = [each for each in found if found[0].score - each.score <= _max_lag(costs)]
    return [each.adjacency for each in near[:most]]


def _max_lag(edge_costs: np.ndarray) -> float:
    """By how much chains may trail the best one and go on, if a search follows."""
    return min(max(_LAST_LAG, _LAG_IN_EDGES * float(edge_costs.sum())), _MAX_LAG)


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


def _chain_data(
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
        n_moves=n_moves,
        samples_delta=problem.nu0 is None,
    )


def go_on(
    problem: JointProblem,
    state: JointState,
    *,
    n_warmup: int,
    n_rounds: int,
    moves_per_pair: float,
    keeps_blocks: bool,
    n_jobs: int | None,
    progress: Progress,
) -> JointState:
    """Run all chains, and add what they went through to the record.

    ``n_warmup`` rounds per chain adapt, ``n_rounds`` are recorded, with ``moves_per_pair`` moves between
    graphs per pair of variables in every task and round. ``keeps_blocks`` says that edge probabilities
    are wanted. Otherwise a search follows: there are more starts, the best chains go on after the first
    warm-up stage, and tasks whose membership is wrong may change sides uphill after each stage. Chains
    that tell how sure an edge is must be free to disagree because of their starts.
    """
    p = problem.tasks.n_variables
    n_moves = round(moves_per_pair * p * (p - 1) / 2)
    data = _chain_data(problem, state.edge_prior, state.min_strength, n_moves)
    draws_seed, _ = iteration_seeds(problem.seeds, state.n_blocks + 1)
    per_stage = -(-n_warmup // _WARMUP_STAGES)
    n_settling = _SETTLING_ROUNDS if n_warmup and not state.n_blocks else 0
    chains: Sequence[ChainState] = state.chains
    if keeps_blocks:
        chains = chains[:N_CHAINS]
    seeds = draws_seed.spawn(len(chains))
    # Some chains end after a stage. Progress counts rounds that all chains of the time have made.
    total = n_settling + _WARMUP_STAGES * per_stage + n_rounds
    done = 0.0
    counting = Lock()
    workers = min(max(effective_n_jobs(n_jobs), 1), len(chains))
    with stoppable_threads(workers) as (pool, raise_if_stopped):

        def run(chain: ChainState, seed, n_chains: int, length: int, data: ChainData, how: dict):
            def made(more: int) -> None:
                nonlocal done
                raise_if_stopped()
                with counting:
                    done += more / n_chains
                    progress("exploring", round(done), total)

            rng = np.random.default_rng(seed)
            return run_chain(data, chain, rng, length, **how, progress=made)

        def run_all(chains, seeds, length: int, data: ChainData, **adaptation: bool):
            n = len(chains)
            same = (n, length, data, adaptation)
            ended = pool.map(run, chains, seeds, *([each] * n for each in same))
            return tuple(zip(*ended, strict=True))

        if n_settling:
            held = data._replace(
                n_moves=0, samples_membership=False, samples_ties=False, samples_kinds=False
            )
            stage_seeds = [seed.spawn(1)[0] for seed in seeds]
            _, chains = run_all(chains, stage_seeds, n_settling, held, adapts=True)
        for stage in range(_WARMUP_STAGES if per_stage else 0):
            stage_seeds = [seed.spawn(1)[0] for seed in seeds[: len(chains)]]
            traces, chains = run_all(chains, stage_seeds, per_stage, data, adapts=True)
            if keeps_blocks:
                places = _going_on(traces, chains, _MAX_LAG, N_CHAINS)
            elif stage < _WARMUP_STAGES - 1:
                places = _going_on(traces, chains, _max_lag(data.edge_costs), _MOST_CHAINS)
            else:
                places = _going_on(traces, chains, _LAST_LAG, N_CHAINS)
            chains = [chains[place] for place in places]
            if not keeps_blocks:
                chains = [
                    reassign_members(
                        data, chain, chain.delta * traces[place].psi[-1], state.adjacencies
                    )
                    for chain, place in zip(chains, places, strict=True)
                ]
        # Before a search draws need not be exactly those of the posterior: step sizes follow the graphs.
        adapts = not keeps_blocks
        traces, chains = run_all(
            chains, seeds[: len(chains)], n_rounds, data, adapts=adapts, learns=False
        )
    record = _extended(state.record, traces, keeps_blocks)
    return state._replace(chains=tuple(chains), record=record, n_blocks=state.n_blocks + 1)


def _going_on(
    traces: Sequence[ChainTrace], chains: Sequence[ChainState], max_lag: float, most: int
) -> list[int]:
    """The chains that go on, the best first: at most ``most`` that do not trail too far.

    Beyond `N_CHAINS`, chains that have met a better one end: more starts are there for other modes. If
    there are fewer than `N_CHAINS`, the best one goes on several times.
    """
    ends = np.array([trace.log_density[len(trace.log_density) // 2 :].mean() for trace in traces])
    order = np.argsort(-ends, kind="stable").tolist()
    near = [place for place in order if ends[order[0]] - ends[place] <= max_lag]
    frequencies = [_pair_frequencies(chain) for chain in chains]
    going: list[int] = []
    for place in near:
        others = [np.abs(frequencies[place] - frequencies[other]).max() for other in going]
        if len(going) < N_CHAINS or min(others) >= _OTHER_MODE:
            going.append(place)
    return going[:most] + [order[0]] * (N_CHAINS - len(going))


def _pair_frequencies(chain: ChainState) -> np.ndarray:
    """Share of the tasks that join each pair, (p, p)."""
    return (chain.adjacencies | np.swapaxes(chain.adjacencies, 1, 2)).mean(axis=0)


def disputed(members: np.ndarray) -> np.ndarray:
    """Tasks that are members in nearly all rounds of one chain and in hardly any of another, (m,)."""
    return np.ptp(members.mean(axis=1), axis=0) > _MAX_DISAGREEMENT


# Fields of a trace that belong to rounds, and those that belong to rounds and tasks.
_PER_ROUND = ("delta", "own_share", "kinds", "log_density", "n_edges", "acceptance")
_PER_ROUND_AND_TASK = ("members", "advantages")


def _extended(record: Record | None, traces: tuple[ChainTrace, ...], keeps_blocks: bool) -> Record:
    """The record with one more run of all chains."""
    m, p = traces[0].log_odds.shape[:2]
    stacked = {
        name: np.array([getattr(trace, name) for trace in traces])
        for name in (*_PER_ROUND, *_PER_ROUND_AND_TASK, "psi", "log_odds")
    }
    blocks = np.empty((len(traces), 0, m, p, p), dtype=np.int32)
    if keeps_blocks:
        blocks = np.array([trace.end_counts for trace in traces])[:, None]
    new = Record(
        **stacked,
        stride=1,
        edge_frequencies=np.mean([trace.move_frequencies for trace in traces], axis=0),
        blocks=blocks,
        scatters=np.mean([trace.scatters for trace in traces], axis=0),
        row_means=np.mean([trace.row_means for trace in traces], axis=0),
        n_divergent=int(sum(int(trace.n_divergent) for trace in traces)),
    )
    if record is not None:
        new = _joined(record, new)
    psi, stride = new.psi, new.stride
    while psi.shape[1] >= 2 * _MAX_KEPT:
        psi, stride = psi[:, ::2], 2 * stride
    return new._replace(psi=psi, stride=stride)


def _joined(record: Record, new: Record) -> Record:
    """What was gathered in two runs, one after the other."""
    weight = new.n_rounds / (record.n_rounds + new.n_rounds)
    means = {
        name: (1 - weight) * getattr(record, name) + weight * getattr(new, name)
        for name in ("log_odds", "edge_frequencies", "scatters", "row_means")
    }
    series = {
        name: np.concatenate([getattr(record, name), getattr(new, name)], axis=1)
        for name in (*_PER_ROUND, *_PER_ROUND_AND_TASK, "blocks")
    }
    offset = -record.n_rounds % record.stride
    psi = np.concatenate([record.psi, new.psi[:, offset :: record.stride]], axis=1)
    return Record(
        **means,
        **series,
        psi=psi,
        stride=record.stride,
        n_divergent=record.n_divergent + new.n_divergent,
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
    single = prior.single().matrix_of_log_odds(problem.tasks.n_variables)
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


def spaced_draws(record: Record, n_draws: int) -> np.ndarray:
    """About ``n_draws`` draws of sigma_h, (draws, p, p), evenly spaced in every chain."""
    psi = record.psi
    per_chain = min(psi.shape[1], -(-n_draws // len(psi)))
    places = np.linspace(0, psi.shape[1] - 1, per_chain).round().astype(int)
    return psi[:, places].reshape(-1, *psi.shape[2:]) * record.mean_delta
