"""Monte Carlo EM (docs/model.md, section 12; the paper's Algorithm 1).

E-step: draws of sigma_h given all graphs. M-step: for every task, a graph with a higher mean score over
these draws. The tasks are searched side by side, each with the others' graphs of the iteration before in
its edge prior; their finds are then taken one by one, the most valuable first, as long as each still
improves the common objective Q. So Q cannot fall on the draws at hand, whatever the order of the tasks
and however many are searched at once.
"""

from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from mtgbn.learn.parallel import Report, in_parallel
from mtgbn.model import StructurePrior
from mtgbn.model.edge_prior import EdgePriorChoice, edge_counts, free_pairs, unshared_edge_prior
from mtgbn.sampling import Draws, diagnostics, sample_sigma_h
from mtgbn.sampling.joint import ALONE_DELTA, alone_scales
from mtgbn.search import Constraints
from mtgbn.search.local_scores import gather_scores, score_differences
from mtgbn.search.methods import SearchSettings, search_graph
from mtgbn.search.triangulated import TriangulatedPrior, climb_triangulated
from mtgbn.tasks import Tasks

__all__ = [
    "Iteration",
    "Problem",
    "State",
    "advance",
    "draw_finally",
    "learn_alone",
    "silent",
    "start",
]

N_CHAINS = 2

# Draws before the first E-step's, before a later one's, and before the last one's; per chain.
_FIRST_WARMUP, _WARMUP, _LAST_WARMUP = 150, 10, 20

# Draws per chain after EM has ended, of which the estimates of parameters are means.
_LAST_DRAWS = 100

# Most restarts of a search in an M-step, which starts at a graph that was searched for already.
_RESTARTS = 2

# Most rounds of searching and estimating the density in turn, for a task by itself.
_DENSITY_PASSES = 5

# A find that raises Q by less changes nothing but rounding.
_SMALLEST_GAIN = 1e-9

# A gain below this many Monte Carlo standard errors is no gain.
_CERTAINTY = 2.0

# Largest Monte Carlo error, in units of the tolerance, by which a gain can be called none.
_PRECISION = 2.0

# Most draws in an E-step, as a multiple of what was asked for.
_MOST_DRAWS = 8


class Problem(NamedTuple):
    """All that stays the same from iteration to iteration; ``seeds`` are spawned for each anew."""

    tasks: Tasks
    constraints: tuple[Constraints, ...]
    nu0: float | None
    edge_prior: EdgePriorChoice
    structure_prior: StructurePrior
    search: SearchSettings
    n_draws: int
    tolerance: float
    max_iter: int
    seeds: np.random.SeedSequence
    shares_directions: bool = True


class Iteration(NamedTuple):
    """What one EM iteration did.

    Attributes
    ----------
    q : float
        Mean log joint density of data and graphs over the draws, after the M-step; under structure
        priors other than ``uniform`` up to a constant that depends on the draws.
    gain, gain_error : float
        By how much the M-step raised it on the same draws, and the Monte Carlo standard error of that.
    n_changed : int
        Tasks whose graph changed.
    n_edges : int
        Edges in all graphs together.
    n_draws : int
        Draws of sigma_h.
    """

    q: float
    gain: float
    gain_error: float
    n_changed: int
    n_edges: int
    n_draws: int


class State(NamedTuple):
    """Where EM stands after an iteration; all that is needed to go on.

    Attributes
    ----------
    adjacencies : array (m, p, p)
    chains : tuple
        Ends of the chains of sigma_h; empty before the first E-step.
    n_draws : int
        Draws of the next E-step.
    history : tuple of Iteration
    reason : str
        Why EM ended; empty as long as it has not.
    converged : bool
    """

    adjacencies: np.ndarray
    chains: tuple
    n_draws: int
    history: tuple[Iteration, ...] = ()
    reason: str = ""
    converged: bool = False


class Find(NamedTuple):
    """What the search for one task found, and how much better its data like it, draw by draw."""

    adjacency: np.ndarray
    gains: np.ndarray
    score: float


def silent(what: str, done: int, total: int) -> None:
    """Report to nobody."""


def start(problem: Problem, n_jobs: int | None, report: Report) -> State:
    """Begin with the graphs that the tasks have by themselves (docs/decisions.md)."""
    return State(graphs_alone(problem, n_jobs, report), (), problem.n_draws)


def graphs_alone(problem: Problem, n_jobs: int | None, report: Report) -> np.ndarray:
    """Graphs that the tasks of a problem have by themselves."""
    graphs, _ = learn_alone(
        problem.tasks,
        problem.constraints,
        problem.edge_prior,
        problem.search,
        problem.seeds,
        n_jobs,
        report,
    )
    return graphs


def advance(problem: Problem, state: State, n_jobs: int | None, report: Report) -> State:
    """Do one iteration."""
    number = len(state.history)
    draws_seed, search_seed = spawn(problem.seeds, number + 1)
    per_chain = -(-state.n_draws // N_CHAINS)
    draws = _draw(problem, state, per_chain, _WARMUP, draws_seed, n_jobs, report)
    sigma_h = draws.flat  # one array for all tasks, which travels once
    counts = edge_counts(state.adjacencies)
    n_others = len(problem.tasks) - 1
    search = few_restarts(problem.search)
    finds = in_parallel(
        improve_task,
        [
            (
                problem.tasks.scatters[t],
                problem.tasks.ns[t],
                sigma_h,
                problem.nu0,
                problem.structure_prior,
                problem.edge_prior.prior.log_odds(counts - _joined(adjacency), n_others),
                problem.constraints[t],
                search,
                adjacency,
                search_seed,
            )
            for t, adjacency in enumerate(state.adjacencies)
        ],
        n_jobs,
        report,
        "searching graphs",
    )
    adjacencies, changed = _take_best(problem, state.adjacencies, counts, finds)
    iteration = _measure(problem, state, adjacencies, finds, changed, draws)
    history = (*state.history, iteration)
    n_draws, reason, converged = _decide(problem, history)
    return State(adjacencies, draws.states, n_draws, history, reason, converged)


def draw_finally(problem: Problem, state: State, n_jobs: int | None, report: Report) -> Draws:
    """Draw sigma_h given the graphs with which EM has ended."""
    seed, _ = spawn(problem.seeds, len(state.history) + 1)
    per_chain = max(_LAST_DRAWS, -(-problem.n_draws // N_CHAINS))
    return _draw(problem, state, per_chain, _LAST_WARMUP, seed, n_jobs, report)


def learn_alone(
    tasks: Tasks,
    constraints: tuple[Constraints, ...],
    edge_prior: EdgePriorChoice,
    search: SearchSettings,
    seeds: np.random.SeedSequence,
    n_jobs: int | None,
    report: Report,
) -> tuple[np.ndarray, np.ndarray]:
    """Search every task for itself, with a vague prior around its own variances.

    Returns the graphs and the density of each task's edge prior, its own where it is estimated.
    """
    _, seed = spawn(seeds, 0)
    found = in_parallel(
        _search_alone,
        [
            (scatter, n, edge_prior, allowed, search, seed)
            for scatter, n, allowed in zip(tasks.scatters, tasks.ns, constraints, strict=True)
        ],
        n_jobs,
        report,
        "searching graphs alone",
    )
    graphs, densities = zip(*found, strict=True)
    return np.array(graphs), np.array(densities)


def _search_alone(
    scatter: np.ndarray,
    n: float,
    edge_prior: EdgePriorChoice,
    constraints: Constraints,
    search: SearchSettings,
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, float]:
    """Graph of one task by itself, and the density of its edge prior.

    An estimated density is that of the graph found with it, one edge and one gap added.
    """
    p = len(scatter)
    prior = edge_prior.prior._replace(similarity=np.inf)
    adjacency = None
    for _ in range(1 if edge_prior.is_fixed else _DENSITY_PASSES):
        find = improve_task(
            scatter,
            n,
            vague_sigma_h(scatter, n),
            vague_nu0(p),
            "uniform",
            prior.matrix_of_log_odds(p),
            constraints,
            search,
            adjacency,
            seed,
        )
        adjacency = find.adjacency
        if edge_prior.is_fixed:
            break
        search = few_restarts(search)
        free = free_pairs(constraints.allowed, constraints.required)
        density = unshared_edge_prior(edge_counts([adjacency]), 1, free).density
        if density == prior.density:
            break
        prior = prior._replace(density=density)
    return adjacency, float(np.mean(prior.density))


def few_restarts(search: SearchSettings) -> SearchSettings:
    """For searches that start near a good graph."""
    return search._replace(n_restarts=min(search.n_restarts, _RESTARTS))


def vague_nu0(p: int) -> float:
    """Degrees of freedom of the prior of a task that is learned alone."""
    return p - 1 + ALONE_DELTA


def vague_sigma_h(scatter: np.ndarray, n: float) -> np.ndarray:
    """Prior matrix of a task that is learned alone."""
    return np.diag(alone_scales(scatter[None], np.array([n]))[0])


def improve_task(
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    nu0: float,
    structure_prior: StructurePrior,
    log_edge_odds: np.ndarray,
    constraints: Constraints,
    search: SearchSettings,
    current: np.ndarray | None,
    seed: np.random.SeedSequence,
) -> Find:
    """Search for one task's graph; plain data in and out, so that any worker can do it."""
    is_local = structure_prior != "decomposable"
    local_prior = structure_prior if is_local else "uniform"
    scores = gather_scores(scatter, n, draws, nu0, local_prior, log_edge_odds, checked=True)
    gains = np.zeros(scores.n_draws)
    if is_local:
        found = search_graph(scores, constraints, search, initial=current, random_state=seed)
    else:
        prior = TriangulatedPrior(draws, nu0)
        found = climb_triangulated(
            scores,
            prior,
            constraints,
            initial=current,
            n_restarts=search.n_restarts,
            random_state=seed,
        )
        if current is not None:
            gains += prior.by_draw(found.adjacency) - prior.by_draw(current)
    if current is not None and not np.array_equal(found.adjacency, current):
        gains += score_differences(scores, found.adjacency, current)
        gains -= log_edge_odds[found.adjacency].sum() - log_edge_odds[current].sum()
    data_score = found.score - log_edge_odds[found.adjacency].sum()
    return Find(found.adjacency, gains, float(data_score))


def _draw(problem, state, per_chain, warmup, seed, n_jobs, report) -> Draws:
    tasks = problem.tasks
    warm_start = None
    if state.chains:
        nothing = np.empty((N_CHAINS, 0, tasks.n_variables, tasks.n_variables))
        warm_start = Draws(nothing, {}, tasks.variables, "hmc", state.chains)
    else:
        warmup = _FIRST_WARMUP
    total = N_CHAINS * (per_chain + warmup)
    made = 0

    def progress(more: int) -> None:
        nonlocal made
        made += more
        report("drawing sigma_h", made, total)

    return sample_sigma_h(
        tasks,
        state.adjacencies,
        problem.nu0,
        structure_prior=problem.structure_prior,
        sampler="hmc",  # as in the paper, under every structure prior
        n_draws=per_chain,
        n_warmup=warmup,
        n_chains=N_CHAINS,
        random_state=seed,
        n_jobs=effective_n_jobs(n_jobs),
        warm_start=warm_start,
        progress=progress,
    )


def _take_best(
    problem: Problem, adjacencies: np.ndarray, counts: np.ndarray, finds: list[Find]
) -> tuple[np.ndarray, list[int]]:
    """Take finds, the most valuable first, as long as each raises Q given those taken before."""
    n_others = len(adjacencies) - 1
    adjacencies = adjacencies.copy()
    counts = counts.copy()

    def value(task: int) -> float:
        odds = problem.edge_prior.prior.log_odds(counts - _joined(adjacencies[task]), n_others)
        prior = odds[finds[task].adjacency].sum() - odds[adjacencies[task]].sum()
        return finds[task].gains.mean() + prior

    different = [t for t, find in enumerate(finds) if (find.adjacency != adjacencies[t]).any()]
    values = {t: value(t) for t in different}
    changed = []
    for task in sorted(different, key=lambda t: -values[t]):
        if value(task) > _SMALLEST_GAIN:
            counts += _joined(finds[task].adjacency).astype(np.int64) - _joined(adjacencies[task])
            adjacencies[task] = finds[task].adjacency
            changed.append(task)
    return adjacencies, changed


def _measure(problem, state, adjacencies, finds, changed, draws) -> Iteration:
    """Q and its gain; ``finds`` that were not taken leave the score of the old graph."""
    m = len(adjacencies)
    after = problem.edge_prior.prior.log_probability(edge_counts(adjacencies), m)
    before = problem.edge_prior.prior.log_probability(edge_counts(state.adjacencies), m)
    gains = np.zeros(len(draws.flat))
    q = after
    for task, find in enumerate(finds):
        q += find.score
        if task in changed:
            gains += find.gains
        else:
            q -= find.gains.mean()
    error = monte_carlo_error(gains) if changed else 0.0
    gain = float(gains.mean() + after - before)
    n_edges = int(adjacencies.sum())
    return Iteration(float(q), gain, error, len(changed), n_edges, len(gains))


def monte_carlo_error(gains: np.ndarray) -> float:
    """Standard error of the mean of values that come chain by chain."""
    (error,) = diagnostics.monte_carlo_error(gains.reshape(1, N_CHAINS, -1))
    return float(error)


def _decide(problem: Problem, history: tuple[Iteration, ...]) -> tuple[int, str, bool]:
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
    if len(history) >= problem.max_iter:
        return n_draws, f"max_iter = {problem.max_iter} iterations were done", False
    if not _is_exact(problem, last):
        n_draws = min(2 * n_draws, _MOST_DRAWS * problem.n_draws)
    return n_draws, "", False


def _is_idle(problem: Problem, iteration: Iteration) -> bool:
    """Whether nothing worth having was gained, by draws that could have told."""
    enough = max(_CERTAINTY * iteration.gain_error, problem.tolerance * len(problem.tasks))
    return iteration.gain <= enough and _is_exact(problem, iteration)


def _is_exact(problem: Problem, iteration: Iteration) -> bool:
    """Whether the gain is known well enough to decide, or as well as it will ever be."""
    if iteration.gain > _CERTAINTY * iteration.gain_error:
        return True
    exhausted = iteration.n_draws >= _MOST_DRAWS * problem.n_draws
    return exhausted or iteration.gain_error <= _PRECISION * problem.tolerance * len(problem.tasks)


def spawn(seeds: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Seeds for the draws and for the searches of an iteration, always the same ones."""
    key = (*seeds.spawn_key, number)
    return np.random.SeedSequence(seeds.entropy, spawn_key=key).spawn(2)


def _joined(adjacency: np.ndarray) -> np.ndarray:
    return adjacency | adjacency.T
