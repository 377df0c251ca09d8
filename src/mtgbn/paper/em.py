"""The paper's Monte Carlo EM, corrected (docs/model.md, section 12; the paper's Algorithm 1).

E-step: draws of sigma_h given all graphs. M-step: for every task, a graph with a higher mean score over
these draws. The tasks are searched side by side, each with the others' graphs of the iteration before in
its edge prior. The graphs found are then accepted one by one, the most valuable first, as long as each
still improves the common objective Q. Q therefore cannot fall on the draws at hand, whatever the order
of the tasks and however many are searched at once.
"""

from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from mtgbn.chain.draws import Draws
from mtgbn.learn.joint import N_CHAINS, Iteration
from mtgbn.learn.joint_map import monte_carlo_error
from mtgbn.learn.parallel import Progress, in_parallel
from mtgbn.learn.single_task import (
    FoundGraph,
    few_restarts,
    iteration_seeds,
    learn_single_tasks,
)
from mtgbn.model.edge_prior import edge_counts
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.paper.sampling import sample_sigma_h
from mtgbn.paper.structure_priors import StructurePrior, gather_prior_scores
from mtgbn.paper.triangulated import TriangulatedPrior, climb_triangulated
from mtgbn.search.knowledge import Constraints
from mtgbn.search.local_scores import score_differences
from mtgbn.search.methods import SearchSettings, search_graph
from mtgbn.tasks import Tasks

# Warm-up draws per chain: of the first E-step, of a later one, and after EM has ended.
_FIRST_WARMUP, _WARMUP, _LAST_WARMUP = 150, 10, 20

# Draws per chain after EM has ended; parameters are means over them.
_LAST_DRAWS = 100

# A smaller gain in Q is rounding.
_SMALLEST_GAIN = 1e-9

# A gain below this many Monte Carlo standard errors is not significant.
_CERTAINTY = 2.0

# Largest Monte Carlo error, in units of the tolerance, with which a gain can be called negligible.
_PRECISION = 2.0

# Largest number of draws in an E-step, as a multiple of what was asked for.
_MAX_GROWTH = 8


class EMProblem(NamedTuple):
    """All that stays the same from iteration to iteration; fields as in `JointProblem`.

    ``constraints`` has one entry per task.
    """

    tasks: Tasks
    constraints: tuple[Constraints, ...]
    nu0: float
    edge_prior: EdgePriorChoice
    structure_prior: StructurePrior
    search: SearchSettings
    n_draws: int
    tolerance: float
    max_iter: int
    seeds: np.random.SeedSequence


class EMState(NamedTuple):
    """Where EM stands after an iteration; all that is needed to go on.

    ``chains`` are the ends of the chains of sigma_h, empty before the first E-step; ``n_draws`` belongs
    to the next E-step. The other fields are as in `JointState`.
    """

    adjacencies: np.ndarray
    chains: tuple
    n_draws: int
    history: tuple[Iteration, ...] = ()
    reason: str = ""
    converged: bool = False


def start(problem: EMProblem, n_jobs: int | None, progress: Progress) -> EMState:
    """Begin with the graphs of the single tasks (docs/decisions.md)."""
    graphs, _ = learn_single_tasks(
        problem.tasks,
        problem.constraints,
        problem.edge_prior,
        problem.search,
        seeds=problem.seeds,
        n_jobs=n_jobs,
        progress=progress,
    )
    return EMState(graphs, (), problem.n_draws)


def advance(problem: EMProblem, state: EMState, n_jobs: int | None, progress: Progress) -> EMState:
    """Do one iteration."""
    draws_seed, search_seed = iteration_seeds(problem.seeds, len(state.history) + 1)
    per_chain = -(-state.n_draws // N_CHAINS)
    draws = _draw(problem, state, per_chain, _WARMUP, draws_seed, n_jobs=n_jobs, progress=progress)
    found = _search_all(problem, state, draws.flat, search_seed, n_jobs, progress)
    counts = edge_counts(state.adjacencies)
    adjacencies, changed = _take_best(problem, state.adjacencies, counts, found)
    history = (*state.history, _measure(problem, state, adjacencies, found, changed))
    n_draws, reason, converged = _decide(problem, history)
    return EMState(adjacencies, draws.states, n_draws, history, reason, converged)


def draw_finally(
    problem: EMProblem, state: EMState, n_jobs: int | None, progress: Progress
) -> Draws:
    """Draw sigma_h given the graphs with which EM has ended."""
    seed, _ = iteration_seeds(problem.seeds, len(state.history) + 1)
    per_chain = max(_LAST_DRAWS, -(-problem.n_draws // N_CHAINS))
    return _draw(problem, state, per_chain, _LAST_WARMUP, seed, n_jobs=n_jobs, progress=progress)


def _search_all(
    problem: EMProblem,
    state: EMState,
    sigma_h: np.ndarray,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
    progress: Progress,
) -> list[FoundGraph]:
    """The M-step's searches; ``sigma_h`` (N, p, p) is one array, so that it travels once."""
    counts, n_others = edge_counts(state.adjacencies), len(problem.tasks) - 1
    search = few_restarts(problem.search)
    calls = [
        {
            "scatter": problem.tasks.scatters[t],
            "n": problem.tasks.ns[t],
            "draws": sigma_h,
            "nu0": problem.nu0,
            "structure_prior": problem.structure_prior,
            "log_odds": problem.edge_prior.prior.log_odds(counts - _joined(adjacency), n_others),
            "constraints": problem.constraints[t],
            "search": search,
            "initial": adjacency,
            "seed": seed,
        }
        for t, adjacency in enumerate(state.adjacencies)
    ]
    return in_parallel(_search_task, calls, n_jobs, progress, "searching graphs")


def _search_task(
    *,
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    nu0: float,
    structure_prior: StructurePrior,
    log_odds: np.ndarray,
    constraints: Constraints,
    search: SearchSettings,
    initial: np.ndarray,
    seed: np.random.SeedSequence,
) -> FoundGraph:
    """As `mtgbn.learn.single_task.search_task`, with a structure prior."""
    scores = gather_prior_scores(scatter, n, draws, nu0, structure_prior, log_odds)
    gains = np.zeros(scores.n_draws)
    if structure_prior == "decomposable":
        prior = TriangulatedPrior(draws, nu0)
        found = climb_triangulated(
            scores,
            prior,
            constraints,
            initial=initial,
            n_restarts=search.n_restarts,
            random_state=seed,
        )
        gains += prior.by_draw(found.adjacency) - prior.by_draw(initial)
    else:
        found = search_graph(scores, constraints, search, initial=initial, random_state=seed)
    if not np.array_equal(found.adjacency, initial):
        gains += score_differences(scores, found.adjacency, initial)
        gains -= log_odds[found.adjacency].sum() - log_odds[initial].sum()
    data_score = found.score - log_odds[found.adjacency].sum()
    return FoundGraph(found.adjacency, gains, float(data_score))


def _draw(
    problem: EMProblem,
    state: EMState,
    per_chain: int,
    n_warmup: int,
    seed: np.random.SeedSequence,
    *,
    n_jobs: int | None,
    progress: Progress,
) -> Draws:
    tasks = problem.tasks
    warm_start = None
    if state.chains:
        nothing = np.empty((N_CHAINS, 0, tasks.n_variables, tasks.n_variables))
        warm_start = Draws(nothing, {}, tasks.variables, "hmc", state.chains)
    else:
        n_warmup = _FIRST_WARMUP
    total = N_CHAINS * (per_chain + n_warmup)
    made = 0

    def count(more: int) -> None:
        nonlocal made
        made += more
        progress("drawing sigma_h", made, total)

    return sample_sigma_h(
        tasks,
        state.adjacencies,
        problem.nu0,
        structure_prior=problem.structure_prior,
        sampler="hmc",  # as in the paper, under every structure prior
        n_draws=per_chain,
        n_warmup=n_warmup,
        n_chains=N_CHAINS,
        random_state=seed,
        n_jobs=effective_n_jobs(n_jobs),
        warm_start=warm_start,
        progress=count,
    )


def _take_best(
    problem: EMProblem, adjacencies: np.ndarray, counts: np.ndarray, found: list[FoundGraph]
) -> tuple[np.ndarray, list[int]]:
    """Accept graphs, the most valuable first, as long as each raises Q given those before it."""
    n_others = len(adjacencies) - 1
    adjacencies = adjacencies.copy()
    counts = counts.copy()

    def value(task: int) -> float:
        odds = problem.edge_prior.prior.log_odds(counts - _joined(adjacencies[task]), n_others)
        prior = odds[found[task].adjacency].sum() - odds[adjacencies[task]].sum()
        return found[task].gains.mean() + prior

    different = [t for t, each in enumerate(found) if (each.adjacency != adjacencies[t]).any()]
    values = {t: value(t) for t in different}
    changed = []
    for task in sorted(different, key=lambda t: -values[t]):
        if value(task) > _SMALLEST_GAIN:
            counts += _joined(found[task].adjacency).astype(np.int64) - _joined(adjacencies[task])
            adjacencies[task] = found[task].adjacency
            changed.append(task)
    return adjacencies, changed


def _measure(
    problem: EMProblem,
    state: EMState,
    adjacencies: np.ndarray,
    found: list[FoundGraph],
    changed: list[int],
) -> Iteration:
    """Q and its gain; a graph that was found but not accepted leaves the score of the old one.

    Under a structure prior, Q is known up to a constant that depends on the draws.
    """
    m = len(adjacencies)
    after = problem.edge_prior.prior.log_probability(edge_counts(adjacencies), m)
    before = problem.edge_prior.prior.log_probability(edge_counts(state.adjacencies), m)
    gains = np.zeros(len(found[0].gains))
    q = after
    for task, each in enumerate(found):
        q += each.data_score
        if task in changed:
            gains += each.gains
        else:
            q -= each.gains.mean()
    return Iteration(
        q=float(q),
        gain=float(gains.mean() + after - before),
        gain_error=monte_carlo_error(gains) if changed else 0.0,
        n_changed=len(changed),
        n_edges=int(adjacencies.sum()),
        n_draws=len(gains),
    )


def _decide(problem: EMProblem, history: tuple[Iteration, ...]) -> tuple[int, str, bool]:
    """Draws for the next iteration, why to stop if so, and whether that is convergence."""
    last = history[-1]
    n_draws = last.n_draws
    if len(history) > 1 and _is_idle(problem, last) and _is_idle(problem, history[-2]):
        if last.n_changed == history[-2].n_changed == 0:
            return n_draws, "no graph changed in two iterations", True
        gain, error = max((each.gain, each.gain_error) for each in history[-2:])
        reason = (
            f"in two iterations the gain in Q, at most {gain:.2g} (Monte Carlo standard error "
            f"{error:.2g}), was below tol = {problem.tolerance:g} per task or within two errors"
        )
        return n_draws, reason, True
    if not _is_exact(problem, last):
        n_draws = min(2 * n_draws, _MAX_GROWTH * problem.n_draws)
    if len(history) >= problem.max_iter:
        return n_draws, f"max_iter = {problem.max_iter} iterations were done", False
    return n_draws, "", False


def _is_idle(problem: EMProblem, iteration: Iteration) -> bool:
    """Whether the gain is negligible and precisely estimated."""
    enough = max(_CERTAINTY * iteration.gain_error, problem.tolerance * len(problem.tasks))
    return iteration.gain <= enough and _is_exact(problem, iteration)


def _is_exact(problem: EMProblem, iteration: Iteration) -> bool:
    """Whether the gain is known precisely enough, or as precisely as it will ever be."""
    if iteration.gain > _CERTAINTY * iteration.gain_error:
        return True
    exhausted = iteration.n_draws >= _MAX_GROWTH * problem.n_draws
    return exhausted or iteration.gain_error <= _PRECISION * problem.tolerance * len(problem.tasks)


def _joined(adjacency: np.ndarray) -> np.ndarray:
    return adjacency | adjacency.T
