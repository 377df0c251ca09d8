"""Learning by exploring the joint posterior (docs/model.md, sections 12 and 14).

Chains sample sigma_h, nu0, the edge prior and all graphs together. The map estimate is Monte Carlo EM
on top of them: for every task the graph with the highest mean log score over the chains' draws of
everything else, found by search. The posterior estimate counts how often the chains have each edge.
"""

from threading import Lock
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from mtgbn.graphs import skeleton
from mtgbn.learn import em
from mtgbn.learn.compile_ahead import compiling_chains
from mtgbn.learn.parallel import in_parallel
from mtgbn.learn.probabilities import graph_of_probabilities
from mtgbn.learn.shared_prior import pooled_graph, prior_of_unrelated, shared_prior
from mtgbn.model.edge_prior import EdgePrior, edge_prior_of
from mtgbn.sampling.joint import (
    JointModel,
    JointState,
    Trace,
    begin_chain,
    joint_model,
    likelihoods_alone,
    reconsidered,
    run_rounds,
)
from mtgbn.sampling.threads import stoppable_threads
from mtgbn.search.knowledge import check_constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

__all__ = [
    "Exploration",
    "Record",
    "advance_map",
    "advance_posterior",
    "agreement_of",
    "disputed",
    "posterior_graphs",
    "rehearse",
    "start",
]

N_CHAINS = em.N_CHAINS

# Rounds of adaptation before the first search, per chain.
_MAP_WARMUP = 60

# From the third iteration on, each has twice as many rounds as the one before, up to this multiple.
_MOST_GROWTH = 4

# Iterations after which three times as many edges may change.
_PATIENCE = 3

# Share of the rounds of a posterior estimate that adapt and are thrown away.
_WARMUP_SHARE = 0.25

# Blocks into which the rounds are divided for R-hat and ESS.
N_BLOCKS = 10

# Draws of sigma_h that are kept, per chain: every second one is dropped when there are twice as many.
_MOST_KEPT = 100

# After each of so many parts of the warm-up, a chain whose log density is so much below another's is
# given up, and tasks that have come to be on the wrong side change it.
_RACES, _HOPELESS = 3, 100.0

# Difference between chains in the share of rounds in which a task belongs that is no chance.
_DISPUTE = 0.9

# A chain begins with the graph of all tasks as one where that explains so much of what a task's own
# graph does; a task of another kind would take long to get away from it.
_EXPLAINS = 0.5

# Added to the log odds of edges that are settled, so that only their directions are searched.
_SETTLED = 1e4

# delta at which chains begin.
_FIRST_DELTA = 30.0

# The Beta distribution of the share of tasks in which an edge goes one way, per task.
_AGREEMENT_PER_TASK = 0.4

# Moves per pair of variables in a round: few where a search follows, more where chains must mix. With
# more variables than the second number most pairs are settled, and there are fewer.
_MAP_MOVES, _POSTERIOR_MOVES = (8, 30), (60, 15)


class Record(NamedTuple):
    """What the chains have gathered since they adapted.

    Attributes
    ----------
    psi : array (chains, kept, p, p)
        sigma_h / delta, at most 200 per chain, evenly spaced.
    stride : int
        Rounds from one kept draw to the next.
    numbers : array (6, chains, rounds)
        delta, r, s, log likelihood, edges, acceptance.
    log_odds : array (chains, m, p, p)
        Mean over all rounds of the edge prior's log odds.
    tallies : array (m, p, p)
        Share of the moves after which i -> j was there.
    blocks : array (chains, blocks, m, p, p)
        Rounds of a block at whose end i -> j was there; empty unless probabilities are wanted.
    scatters : array (m, p, p)
        Mean over the rounds; those of the data unless values are missing.
    means : array (m, p)
        Of the completed rows, over the rounds; 0 for tasks without missing values.
    members : array (chains, rounds, m)
        Whether a task belonged to the others.
    advantages : array (chains, rounds, m)
        Log likelihood of a task's data with the shared sigma_h minus that on its own.
    diverging : int
    """

    psi: np.ndarray
    stride: int
    numbers: np.ndarray
    log_odds: np.ndarray
    tallies: np.ndarray
    blocks: np.ndarray
    scatters: np.ndarray
    means: np.ndarray
    members: np.ndarray
    advantages: np.ndarray
    diverging: int

    @property
    def n_rounds(self) -> int:
        """Rounds per chain."""
        return self.numbers.shape[2]

    @property
    def membership(self) -> np.ndarray:
        """Share of the rounds in which a task belonged to the others, (m,)."""
        return self.members.mean(axis=(0, 1))

    @property
    def delta(self) -> float:
        """Geometric mean of delta."""
        return float(np.exp(np.log(self.numbers[0]).mean()))


class Exploration(NamedTuple):
    """Where the exploration stands; all that is needed to go on.

    ``edge_prior`` is the given one, or what was estimated from the tasks by themselves; ``alone_prior``
    that of a task that does not belong to the others.
    """

    adjacencies: np.ndarray
    edge_prior: EdgePrior
    alone_prior: EdgePrior | None
    chains: tuple[JointState, ...]
    record: Record | None
    n_blocks: int = 0
    history: tuple[em.Iteration, ...] = ()
    reason: str = ""
    converged: bool = False


def start(problem: em.Problem, n_jobs: int | None, report: em.Report) -> Exploration:
    """Begin one chain with the graphs that the tasks have by themselves, the other with that of all."""
    with compiling_chains():
        alone = em.graphs_alone(problem, n_jobs, report)
        together = pooled_graph(problem, problem.tasks, n_jobs)
        return _begin(problem, alone, together)


def _begin(problem: em.Problem, alone: np.ndarray, together: np.ndarray | None) -> Exploration:
    edge_prior, alone_prior = problem.edge_prior.prior, None
    if problem.edge_prior.source in ("shared", "density"):
        alone_prior = prior_of_unrelated(problem, alone)
        edge_prior = alone_prior
    if problem.edge_prior.source == "shared":
        edge_prior = shared_prior(problem, problem.tasks, alone, together)
    model = _model(problem, edge_prior, alone_prior, 0)
    p = problem.tasks.n_variables
    delta = _FIRST_DELTA if problem.nu0 is None else problem.nu0 - p + 1
    chains = tuple(
        begin_chain(model, problem.tasks, graphs, delta)
        for graphs in (alone, _as_one(problem, model, alone, together))
    )
    return Exploration(alone, edge_prior, alone_prior, chains, None)


def rehearse() -> None:
    """Make a round of a chain with made-up data, so that its kernel is compiled."""
    rng = np.random.default_rng(0)
    tasks = Tasks.from_arrays([rng.standard_normal((20, 3)) for _ in range(2)])
    choice = edge_prior_of("shared", tasks.variables)
    constraints = (check_constraints(None, 3),) * 2
    problem = em.Problem(
        *(tasks, constraints, None, choice, "uniform", SearchSettings()),
        *(8, 0.0, 1, np.random.SeedSequence(0)),
    )
    model = _model(problem, choice.prior, None, 1)
    nothing = np.zeros((2, 3, 3), dtype=bool)
    run_rounds(model, begin_chain(model, tasks, nothing, _FIRST_DELTA), rng, 1, adapt=False)


def _as_one(
    problem: em.Problem, model: JointModel, alone: np.ndarray, together: np.ndarray | None
) -> np.ndarray:
    """The graph of all tasks as one, for each that it suits; the others keep their own.

    Where tasks have candidates of their own, none has any edge.
    """
    required = problem.constraints[0].required
    nothing = np.ascontiguousarray(np.broadcast_to(required, alone.shape))
    if together is None:
        return nothing
    same = np.ascontiguousarray(np.broadcast_to(together, alone.shape))
    own, common, least = (likelihoods_alone(model, graphs) for graphs in (alone, same, nothing))
    suits = common - least >= _EXPLAINS * (own - least)
    return np.where(suits[:, None, None], same, alone)


def _model(
    problem: em.Problem, edge_prior: EdgePrior, alone_prior: EdgePrior | None, n_moves: int
) -> JointModel:
    """What the chains work on."""
    allowed = np.array([each.allowed for each in problem.constraints])
    first = problem.constraints[0]
    return joint_model(
        problem.tasks,
        problem.nu0,
        problem.edge_prior._replace(prior=edge_prior),
        (allowed, np.ascontiguousarray(first.required), int(first.max_parents)),
        n_moves,
        alone_prior=alone_prior,
        agreement=_agreement(problem, edge_prior),
    )


def _agreement(problem: em.Problem, edge_prior: EdgePrior) -> float:
    """Infinity also where r and s are sampled: the sum over all graphs matters."""
    if not problem.shares_directions or problem.edge_prior.source == "sampled":
        return np.inf
    return agreement_of(len(problem.tasks), edge_prior)


def agreement_of(n_tasks: int, edge_prior: EdgePrior) -> float:
    """How independent the directions of shared edges are; infinity where tasks share no edges."""
    return _AGREEMENT_PER_TASK * n_tasks if np.isfinite(edge_prior.similarity) else np.inf


def advance_map(
    problem: em.Problem, state: Exploration, n_jobs: int | None, report: em.Report
) -> Exploration:
    """One iteration: the chains go on, and every task's graph is searched given all that they drew."""
    number = len(state.history)
    warmup = 0 if number else _MAP_WARMUP
    growth = min(2 ** max(number - 1, 0), _MOST_GROWTH)
    per_chain = -(-problem.n_draws // N_CHAINS) * growth
    # Draws of earlier iterations are forgotten: chains that begin anywhere need time to arrive.
    fresh = state._replace(record=None)
    state = _go_on(problem, fresh, warmup, per_chain, False, n_jobs, report)
    record = state.record
    draws = _spaced(record.psi, problem.n_draws) * record.delta
    by_chain = _log_odds(problem, state)
    odds = by_chain.mean(axis=0)
    search = em.few_restarts(problem.search) if number else problem.search
    finds = _search_all(problem._replace(search=search), state, draws, odds, n_jobs, report)
    adjacencies = np.array([find.adjacency for find in finds])
    changed = [t for t in range(len(finds)) if (adjacencies[t] != state.adjacencies[t]).any()]
    gains = np.zeros(len(draws))
    priors = np.zeros(N_CHAINS)
    for t in changed:
        gains += finds[t].gains  # one number for a task on its own
        priors += by_chain[:, t, adjacencies[t]].sum(axis=1)
        priors -= by_chain[:, t, state.adjacencies[t]].sum(axis=1)
    error = np.hypot(em.monte_carlo_error(gains), priors.std(ddof=1) / np.sqrt(N_CHAINS))
    q = sum(find.score + odds[t][find.adjacency].sum() for t, find in enumerate(finds))
    iteration = em.Iteration(
        float(q),
        float(gains.mean() + priors.mean()),
        float(error) if changed else 0.0,
        len(changed),
        int(adjacencies.sum()),
        record.n_rounds * N_CHAINS,
    )
    history = (*state.history, iteration)
    reason, converged = "", False
    joined = adjacencies | np.swapaxes(adjacencies, 1, 2)
    before = state.adjacencies | np.swapaxes(state.adjacencies, 1, 2)
    share = (joined != before).sum() / max(joined.sum(), 1)
    # Where data are few, some edges are as good in as out, and go on changing for ever.
    enough = problem.tolerance * (1 if number < _PATIENCE else 3)
    if number and share <= enough:
        converged = True
        times = "" if number < _PATIENCE else ", three times tol after the third iteration"
        reason = f"on fresh draws, {share:.1%} of the edges changed (enough: {enough:.1%}{times})"
    elif len(history) >= problem.max_iter:
        reason = f"max_iter = {problem.max_iter} iterations were done"
    return state._replace(
        adjacencies=adjacencies, history=history, reason=reason, converged=converged
    )


def advance_posterior(
    problem: em.Problem, state: Exploration, n_jobs: int | None, report: em.Report, n_rounds: int
) -> Exploration:
    """One of the blocks of rounds, after a warm-up."""
    warmup = 0 if state.record is not None else max(round(_WARMUP_SHARE * n_rounds), _MAP_WARMUP)
    per_block = -(-n_rounds // N_BLOCKS)
    state = _go_on(problem, state, warmup, per_block, True, n_jobs, report)
    if state.n_blocks == N_BLOCKS:
        return state._replace(reason=f"{state.record.n_rounds} rounds were done", converged=True)
    return state


def posterior_graphs(
    problem: em.Problem, state: Exploration, n_jobs: int | None, report: em.Report
) -> np.ndarray:
    """DAGs of the adjacencies with probability above 1/2, with the best mean score over the draws.

    Directions cannot be taken from their own probabilities, edge by edge: x - y - z with all directions
    open would become x -> y <- z as often as not, which says something else.
    """
    graphs = np.array(
        [
            graph_of_probabilities(each, *limits)
            for each, limits in zip(state.record.tallies, problem.constraints, strict=True)
        ]
    )
    joined = np.array([skeleton(graph) for graph in graphs])
    constraints = tuple(
        limits._replace(allowed=limits.allowed & each)
        for limits, each in zip(problem.constraints, joined, strict=True)
    )
    odds = _log_odds(problem, state).mean(axis=0) + _SETTLED * joined
    draws = _spaced(state.record.psi, problem.n_draws) * state.record.delta
    problem = problem._replace(constraints=constraints)
    finds = _search_all(problem, state._replace(adjacencies=graphs), draws, odds, n_jobs, report)
    return np.array([find.adjacency for find in finds])


def _go_on(
    problem, state, warmup: int, n_rounds: int, keeps_blocks: bool, n_jobs, report
) -> Exploration:
    """Run all chains and add what they went through to the record."""
    p = problem.tasks.n_variables
    per_pair, many = _POSTERIOR_MOVES if keeps_blocks else _MAP_MOVES
    n_moves = round(per_pair * p * (p - 1) / 2 * min(1.0, many / p))
    model = _model(problem, state.edge_prior, state.alone_prior, n_moves)
    seeds = _chain_seeds(problem, state.n_blocks + 1)
    warmup = _RACES * -(-warmup // _RACES)
    total = N_CHAINS * (warmup + n_rounds)
    done = 0
    counting = Lock()

    def run(position: JointState, seed, length: int, adapt: bool) -> tuple[Trace, JointState]:
        def progress(made: int) -> None:
            nonlocal done
            look_up()
            with counting:
                done += made
                report("exploring", done, total)

        rng = np.random.default_rng(seed)
        return run_rounds(model, position, rng, length, adapt=adapt, progress=progress)

    chains = state.chains
    members = np.ones(len(problem.tasks), dtype=bool)
    workers = min(max(effective_n_jobs(n_jobs), 1), N_CHAINS)
    with stoppable_threads(workers) as (pool, look_up):
        for _ in range(_RACES if warmup else 0):
            first = [seed.spawn(1)[0] for seed in seeds]
            traces, chains = _run_all(pool, run, chains, first, warmup // _RACES, adapt=True)
            places = _worth_going_on(traces)
            chains = [chains[place] for place in places]
            now = _who_belongs(traces)
            if problem.edge_prior.source == "shared" and now.sum() > 1 and (now != members).any():
                # How alike tasks are is a matter of those that belong together.
                members, belonging = now, problem.tasks[now]
                together = pooled_graph(problem, belonging, n_jobs)
                prior = shared_prior(problem, belonging, state.adjacencies[now], together)
                state = state._replace(edge_prior=prior)
                chains = [chain._replace(edge_prior=prior) for chain in chains]
                model = _model(problem, prior, state.alone_prior, n_moves)
            if not keeps_blocks:
                # Uphill, as a search may. Chains that are to tell how sure they are must disagree if
                # their starts make them.
                chains = [
                    reconsidered(model, chain, traces[place].psi[-1], state.adjacencies)
                    for chain, place in zip(chains, places, strict=True)
                ]
        traces, chains = _run_all(pool, run, chains, seeds, n_rounds, adapt=False)
    record = _extend(state.record, traces, keeps_blocks)
    return state._replace(chains=chains, record=record, n_blocks=state.n_blocks + 1)


def _run_all(pool, run, chains, seeds, length: int, *, adapt: bool) -> tuple[tuple, tuple]:
    """What all chains went through, and where they stand."""
    n = len(chains)
    return tuple(zip(*pool.map(run, chains, seeds, [length] * n, [adapt] * n), strict=True))


def _worth_going_on(traces: tuple[Trace, ...]) -> list[int]:
    """For every chain the one to go on from: itself, or the best if it is hopeless."""
    ends = [trace.log_density[len(trace.log_density) // 2 :].mean() for trace in traces]
    best = int(np.argmax(ends))
    return [best if ends[best] - end > _HOPELESS else place for place, end in enumerate(ends)]


def _who_belongs(traces: tuple[Trace, ...]) -> np.ndarray:
    """Tasks that belonged in most of the later rounds of all chains together, (m,)."""
    shares = [trace.members[len(trace.members) // 2 :].mean(axis=0) for trace in traces]
    return np.mean(shares, axis=0) > 0.5


def disputed(members: np.ndarray) -> np.ndarray:
    """Tasks that belong to the others in nearly all rounds of one chain and in hardly any of another."""
    return np.ptp(members.mean(axis=1), axis=0) > _DISPUTE


def _extend(record: Record | None, traces: tuple[Trace, ...], keeps_blocks: bool) -> Record:
    psi = np.array([trace.psi for trace in traces])
    numbers = np.array([trace[1:7] for trace in traces]).transpose(1, 0, 2)
    log_odds = np.array([trace.log_odds for trace in traces])
    tallies = np.mean([trace.tallies for trace in traces], axis=0)
    scatters = np.mean([trace.scatters for trace in traces], axis=0)
    means = np.mean([trace.means for trace in traces], axis=0)
    members = np.array([trace.members for trace in traces])
    advantages = np.array([trace.advantages for trace in traces])
    ends = np.array([trace.ends for trace in traces])[:, None] if keeps_blocks else None
    blocks = ends if keeps_blocks else np.empty((len(traces), 0, 0, 0, 0), dtype=np.int32)
    diverging = sum(trace.diverging for trace in traces)
    stride = 1
    if record is not None:
        offset = -record.n_rounds % record.stride
        psi = np.concatenate([record.psi, psi[:, offset :: record.stride]], axis=1)
        share = numbers.shape[2] / (record.n_rounds + numbers.shape[2])
        log_odds = (1 - share) * record.log_odds + share * log_odds
        tallies = (1 - share) * record.tallies + share * tallies
        scatters = (1 - share) * record.scatters + share * scatters
        means = (1 - share) * record.means + share * means
        members = np.concatenate([record.members, members], axis=1)
        advantages = np.concatenate([record.advantages, advantages], axis=1)
        numbers = np.concatenate([record.numbers, numbers], axis=2)
        if keeps_blocks:
            blocks = np.concatenate([record.blocks, blocks], axis=1)
        diverging += record.diverging
        stride = record.stride
    while psi.shape[1] >= 2 * _MOST_KEPT:
        psi, stride = psi[:, ::2], 2 * stride
    return Record(
        psi,
        stride,
        numbers,
        log_odds,
        tallies,
        blocks,
        scatters,
        means,
        members,
        advantages,
        diverging,
    )


def _log_odds(problem: em.Problem, state: Exploration) -> np.ndarray:
    """Mean log odds of the edges of every task, by chain: (chains, m, p, p)."""
    by_chain = state.record.log_odds.copy()
    model = _model(problem, state.edge_prior, state.alone_prior, 0)
    prior = state.edge_prior
    if problem.edge_prior.source == "sampled":
        prior = prior._replace(density=float(state.record.numbers[1].mean()))
    by_chain[:, ~_belong(state.record)] = model.log_odds_alone(prior)
    return by_chain


def _belong(record: Record) -> np.ndarray:
    """Tasks that are searched with the others' sigma_h, (m,)."""
    return record.membership > 0.5


def _search_all(
    problem: em.Problem, state: Exploration, draws, odds, n_jobs: int | None, report: em.Report
) -> list[em.Find]:
    """The graph with the best mean score over the draws, for every task."""
    record, p = state.record, problem.tasks.n_variables
    nu0 = record.delta + p - 1
    _, seed = em.spawn(problem.seeds, state.n_blocks)
    arguments = [
        (
            scatter,
            n,
            draws if belongs else em.vague_sigma_h(scatter, n),
            nu0 if belongs else em.vague_nu0(p),
            "uniform",
            odds[t],
            problem.constraints[t],
            problem.search,
            state.adjacencies[t],
            seed,
        )
        for t, (scatter, n, belongs) in enumerate(
            zip(record.scatters, problem.tasks.ns, _belong(record), strict=True)
        )
    ]
    return in_parallel(em.improve_task, arguments, n_jobs, report, "searching graphs")


def _spaced(psi: np.ndarray, n_draws: int) -> np.ndarray:
    """About so many draws in all, (draws, p, p), evenly spaced in every chain."""
    per_chain = min(psi.shape[1], -(-n_draws // len(psi)))
    places = np.linspace(0, psi.shape[1] - 1, per_chain).round().astype(int)
    return psi[:, places].reshape(-1, *psi.shape[2:])


def _chain_seeds(problem: em.Problem, number: int) -> list[np.random.SeedSequence]:
    draws_seed, _ = em.spawn(problem.seeds, number)
    return draws_seed.spawn(N_CHAINS)
