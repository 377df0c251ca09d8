"""The chains of a joint fit: warm-up with competing starts, then rounds that are recorded.

See docs/model.md, sections 12 and 14.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import numpy as np
from joblib import effective_n_jobs

from mtgbn.chain.run import run_chain
from mtgbn.chain.state import ChainData, ChainState, ChainTrace, with_graphs
from mtgbn.chain.threads import stoppable_threads
from mtgbn.chain.updates.membership import reassign_members
from mtgbn.learn.joint import N_CHAINS, JointProblem, JointState, given_to_chains
from mtgbn.learn.parallel import Progress
from mtgbn.learn.record import Record, extended
from mtgbn.learn.single_task import iteration_seeds

# After each warm-up stage, a chain that trails the best by more than _MAX_LAG in log density restarts
# from it. If a search follows, such a chain ends. Then the largest lag is smaller in small cohorts: what
# _LAG_IN_EDGES edges must be worth if all tasks have them. After the last stage it is _LAST_LAG: the
# mean over two modes is not a mode, and the better one is searched. Tasks whose membership is wrong may
# then change sides, too.
_WARMUP_STAGES, _MAX_LAG = 3, 100.0
_LAG_IN_EDGES, _LAST_LAG = 4, 5.0

# Rounds before the warm-up in which graphs are held, so that sigma_h and delta suit them.
_SETTLING_ROUNDS = 15

# If a search follows: all chains that go on before the last warm-up stage. After it there are N_CHAINS.
_MOST_CHAINS = 4

# Chains are in different modes if some pair is joined in shares of the tasks that differ by this.
_OTHER_MODE = 0.5


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
    data = given_to_chains(problem, state.edge_prior, state.min_strength, n_moves)
    draws_seed, _ = iteration_seeds(problem.seeds, state.n_blocks + 1)
    per_stage = -(-n_warmup // _WARMUP_STAGES)
    n_settling = _SETTLING_ROUNDS if n_warmup and not state.n_blocks else 0
    chains: Sequence[ChainState] = state.chains
    if keeps_blocks:
        chains = chains[:N_CHAINS]
    seeds = draws_seed.spawn(len(chains))
    total = n_settling + _WARMUP_STAGES * per_stage + n_rounds
    with _threads(len(chains), total, n_jobs, progress) as run_all:
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
                places = _going_on(traces, chains, largest_lag(data.edge_costs), _MOST_CHAINS)
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
    record = extended(state.record, traces, keeps_blocks)
    return state._replace(chains=tuple(chains), record=record, n_blocks=state.n_blocks + 1)


def draws_given_graphs(
    problem: JointProblem,
    state: JointState,
    graphs: np.ndarray,
    n_jobs: int | None,
    progress: Progress,
) -> Record:
    """What the chains go through when the graphs (m, p, p) and the members are those of the result.

    In the rounds before, every task had an edge where its own data showed it most. Parameters of graphs
    that are point estimates must be those that these graphs have.
    """
    data = given_to_chains(problem, state.edge_prior, state.min_strength, 0)
    data = data._replace(samples_membership=False, samples_kinds=False)
    members = state.gathered.membership > 0.5
    chains = [with_graphs(data, chain, graphs, members) for chain in state.chains[:N_CHAINS]]
    n_rounds = -(-problem.n_draws // N_CHAINS)
    draws_seed, _ = iteration_seeds(problem.seeds, state.n_blocks + 1)
    seeds, later_seeds = (each.spawn(N_CHAINS) for each in draws_seed.spawn(2))
    with _threads(N_CHAINS, _SETTLING_ROUNDS + n_rounds, n_jobs, progress) as run_all:
        _, chains = run_all(chains, seeds, _SETTLING_ROUNDS, data, adapts=True, learns=False)
        traces, _ = run_all(chains, later_seeds, n_rounds, data, adapts=False)
    return extended(None, traces, False)


@contextmanager
def _threads(
    n_chains: int, total: int, n_jobs: int | None, progress: Progress
) -> Iterator[Callable[..., tuple]]:
    """A function that runs chains side by side, and returns their traces and the chains.

    Some chains end before others. ``progress`` counts rounds that all chains of the time have made, up
    to ``total``.
    """
    done = 0.0
    counting = Lock()
    workers = min(max(effective_n_jobs(n_jobs), 1), n_chains)
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

        yield run_all


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


def largest_lag(edge_costs: np.ndarray) -> float:
    """By how much chains may trail the best one and go on, if a search follows."""
    return min(max(_LAST_LAG, _LAG_IN_EDGES * float(edge_costs.sum())), _MAX_LAG)
