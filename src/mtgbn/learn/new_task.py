"""A task that comes after the fit: learned with what the cohort taught, without fitting again.

The cohort's draws of sigma_h, its nu0 and its edge prior are held fixed, as if one more task could not
change them. The new task's graph is searched and sampled as those of the cohort were. Alternatively the
new task is learned as a single task (docs/model.md, section 14).
"""

from typing import Any, NamedTuple

import numpy as np

from mtgbn.chain.likelihoods import empty_scores, prepare_own, prepare_tied, set_sources
from mtgbn.chain.state import SINGLE_DELTA, most_own_families, single_scales
from mtgbn.chain.updates.graphs import walk
from mtgbn.chain.updates.ties import draw_ties
from mtgbn.graphs import cpdag
from mtgbn.graphs.dags import topological_order
from mtgbn.learn.parallel import no_progress
from mtgbn.learn.probabilities import EdgeDiagnostics, diagnose_edges
from mtgbn.learn.single_task import (
    learn_single_tasks,
    own_families,
    search_task,
    single_sigma_h,
)
from mtgbn.model.edge_prior import (
    agreement_of,
    log_odds_of_directions,
    one_way_log_odds,
    single_prior,
)
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

_N_CHAINS, _N_BLOCKS = 2, 10

# Draws of sigma_h that each chain goes through, and the share of them that is the warm-up.
_MAX_DRAWS, _WARMUP_SHARE = 250, 0.2

# Moves per pair of variables at each draw.
_MOVES_PER_PAIR = 60


class LearnedTask(NamedTuple):
    """What was learned of one new task with ``n`` samples.

    ``graph`` (p, p) is a DAG, ``graph[i, j]`` meaning i -> j: the member of its Markov equivalence class
    ``cpdag`` (p, p) that agrees best with the cohort. ``edge_probabilities`` (p, p) are those of i -> j,
    ``adjacency_probabilities`` (p, p) of an edge in either direction, ``diagnostics`` their R-hat and
    effective sample size.

    Examples
    --------
    >>> from mtgbn import MTGBN
    >>> from mtgbn.simulate import simulate_tasks
    >>> arrays = simulate_tasks(n_tasks=4, n_variables=3, n_rows=60, random_state=0).arrays
    >>> MTGBN(random_state=0).fit(arrays[:3]).fit_task(arrays[3]).graph.shape
    (3, 3)
    """

    name: str
    variables: tuple[str, ...]
    n: float
    graph: np.ndarray
    cpdag: np.ndarray
    edge_probabilities: np.ndarray
    adjacency_probabilities: np.ndarray
    diagnostics: EdgeDiagnostics


class _Terms(NamedTuple):
    """What the members say of one more task.

    Draws of sigma_h (N, p, p), delta, log odds minus costs of edges (p, p), share and largest number of
    own families.
    """

    draws: np.ndarray
    delta: float
    log_odds: np.ndarray
    own_share: float
    most_own: int


def learn_new_task(
    fitted: Any,
    task: Tasks,
    constraints: Constraints,
    search: SearchSettings,
    *,
    single: bool,
    seeds: np.random.SeedSequence,
) -> LearnedTask:
    """Learn one task, as a member of the cohort of a fitted `MTGBN` or as a single task."""
    search_seed, chain_seed = seeds.spawn(2)
    scatter, n = task.scatters[0], task.ns[0]
    if single:
        choice = fitted.edge_prior_choice(task.variables)
        start, terms = _learn_single(
            task, constraints, choice, search, search_seed, cost=fitted.min_strength_.costs(n)
        )
    else:
        terms = _terms_of_cohort(fitted, n)
        start = search_task(
            scatter=scatter,
            n=n,
            draws=terms.draws[:: max(len(terms.draws) // fitted.n_draws, 1)],
            nu0=fitted.nu0_,
            log_odds=terms.log_odds,
            constraints=constraints,
            search=search,
            initial=None,
            seed=search_seed,
            own=None
            if terms.own_share == 0
            else own_families(scatter, n, np.log(terms.own_share), np.log1p(-terms.own_share)),
        ).adjacency
    probabilities, diagnostics = _sample_graphs(
        scatter, float(n), terms, constraints, start, np.random.default_rng(chain_seed)
    )
    return LearnedTask(
        name=task.names[0],
        variables=task.variables,
        n=float(n),
        graph=start,
        cpdag=cpdag(start),
        edge_probabilities=probabilities,
        adjacency_probabilities=np.minimum(probabilities + probabilities.T, 1.0),
        diagnostics=diagnostics,
    )


def _terms_of_cohort(fitted: Any, n: float) -> _Terms:
    """What the members say: draws of sigma_h, delta, and the odds of edges in a task of n rows."""
    p = len(fitted.variables_)
    members = fitted.graphs_[fitted.membership_ > 0.5]
    counts = members.sum(axis=0)
    odds = fitted.edge_prior_.log_odds(counts + counts.T, len(members))
    if fitted.shared_directions:
        agreement = agreement_of(len(fitted.tasks_), fitted.edge_prior_)
        odds = odds + log_odds_of_directions(counts, counts + counts.T, agreement)
    draws = np.ascontiguousarray(fitted.draws_.sigma_h.reshape(-1, p, p))
    return _Terms(
        draws=draws,
        delta=fitted.nu0_ - p + 1,
        log_odds=odds - fitted.min_strength_.costs(n),
        own_share=fitted.relatedness_.own_share,
        most_own=most_own_families(p),
    )


def _learn_single(
    task: Tasks,
    constraints: Constraints,
    edge_prior: EdgePriorChoice,
    search: SearchSettings,
    seed: np.random.SeedSequence,
    *,
    cost: np.ndarray,
) -> tuple[np.ndarray, _Terms]:
    """Graph of a single task, and the terms on which it was found."""
    p = task.n_variables
    (graph,), (density,) = learn_single_tasks(
        task,
        (constraints,),
        edge_prior,
        search,
        edge_costs=cost,
        seeds=seed,
        n_jobs=1,
        progress=no_progress,
    )
    prior = single_prior(edge_prior.prior)
    if not edge_prior.is_fixed:
        prior = prior._replace(density=float(density))
    sigma_h = single_sigma_h(task.scatters[0], task.ns[0])
    draws = np.broadcast_to(sigma_h, (_MAX_DRAWS, p, p))
    odds = prior.matrix_of_log_odds(p) - cost
    return graph, _Terms(draws=draws, delta=SINGLE_DELTA, log_odds=odds, own_share=0.0, most_own=0)


def _sample_graphs(
    scatter: np.ndarray,
    n: float,
    terms: _Terms,
    constraints: Constraints,
    start: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, EdgeDiagnostics]:
    """Probabilities of the edges of one task.

    One chain begins at ``start``, the other with the required edges only.
    """
    p, draws = len(scatter), terms.draws
    used = min(len(draws), _MAX_DRAWS)
    per_block = max(round(used * (1 - _WARMUP_SHARE) / _N_BLOCKS), 1)
    n_warmup = max(used - per_block * _N_BLOCKS, 1)
    blocks = np.zeros((_N_CHAINS, _N_BLOCKS, 1, p, p), dtype=np.int32)
    move_counts, unused = np.zeros((p, p)), np.zeros((p, p))
    n_moves = round(_MOVES_PER_PAIR * p * (p - 1) / 2)
    limits = check_constraints(constraints, p)
    scores = empty_scores(p)
    scores.log_odds[:] = terms.log_odds + one_way_log_odds(limits.allowed)
    scatter = np.array(scatter, order="C")
    scales = single_scales(scatter[None], np.array([n]))[0]
    prepare_own(scores, scatter, n, scales, limits.max_parents)
    for chain, first in enumerate((start, limits.required)):
        adjacency = np.array(first, dtype=bool, order="C")
        order = np.array(topological_order(adjacency))
        chosen = rng.permutation(len(draws))
        for k in range(n_warmup + per_block * _N_BLOCKS):
            sigma_h = np.array(draws[chosen[k % len(draws)]])
            prepare_tied(scores, scatter, n, sigma_h, float(terms.delta), limits.max_parents)
            if terms.own_share > 0:
                set_sources(
                    scores,
                    draw_ties(rng, scores, adjacency, float(terms.own_share), terms.most_own),
                )
            counted = unused if k < n_warmup else move_counts
            walk(rng, adjacency, order, scores, limits, n_moves, counted)
            if k >= n_warmup:
                blocks[chain, (k - n_warmup) // per_block, 0] += adjacency
    probabilities = move_counts / (_N_CHAINS * per_block * _N_BLOCKS * n_moves)
    diagnostics = diagnose_edges(blocks, per_block)
    return probabilities, EdgeDiagnostics(diagnostics.rhat[0], diagnostics.ess[0])
