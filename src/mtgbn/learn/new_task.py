"""A task that comes after the fit: learned with what the others taught, without fitting them again.

The cohort's draws of sigma_h, its nu0 and its edge prior are held, as if one more task could not change
them; the new task's graph is searched and sampled as those of the cohort were. Or it is learned alone,
with the prior of a task that does not belong (docs/model.md, section 14).
"""

from typing import NamedTuple

import numpy as np

from mtgbn.graphs.dags import topological_order
from mtgbn.learn import em
from mtgbn.learn.probabilities import EdgeDiagnostics, diagnose_edges
from mtgbn.model.edge_prior import EdgePriorChoice
from mtgbn.sampling.graph_moves import walk
from mtgbn.sampling.joint import ALONE_DELTA
from mtgbn.search import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

__all__ = ["LearnedTask", "Terms", "learn_alone", "sample_graphs"]

# Chains, draws of sigma_h that each goes through, the share of them that is thrown away, blocks of the
# rest that R-hat compares, and moves per pair of variables at each draw.
_N_CHAINS, _MOST_DRAWS, _WARMUP_SHARE, _N_BLOCKS, _MOVES = 2, 250, 0.2, 10, 60


class LearnedTask(NamedTuple):
    """What was learned of one new task.

    Attributes
    ----------
    name : str
    variables : tuple of str
    n : float
        Samples that its rows were worth.
    graph : array (p, p)
        A DAG; ``graph[i, j]`` means i -> j. Of its Markov equivalence class the member that agrees best
        with the cohort.
    cpdag : array (p, p)
        The class; an edge in both directions has none that data could tell.
    edge_probabilities, adjacency_probabilities : array (p, p)
        Of i -> j, and of an edge in either direction.
    diagnostics : EdgeDiagnostics
        R-hat and effective sample size of every adjacency, (p, p).
    """

    name: str
    variables: tuple[str, ...]
    n: float
    graph: np.ndarray
    cpdag: np.ndarray
    edge_probabilities: np.ndarray
    adjacency_probabilities: np.ndarray
    diagnostics: EdgeDiagnostics


class Terms(NamedTuple):
    """What is known beforehand: draws of sigma_h (N, p, p), delta, and log odds of edges (p, p)."""

    draws: np.ndarray
    delta: float
    log_odds: np.ndarray


def learn_alone(
    task: Tasks,
    constraints: Constraints,
    edge_prior: EdgePriorChoice,
    search: SearchSettings,
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, Terms]:
    """Graph of one task by itself, and the terms on which it was found."""
    p = task.n_variables
    (graph,), (density,) = em.learn_alone(
        task, (constraints,), edge_prior, search, seed, 1, em.silent
    )
    prior = edge_prior.prior._replace(similarity=np.inf)
    if not edge_prior.is_fixed:
        prior = prior._replace(density=float(density))
    scale = em.vague_sigma_h(task.scatters[0], task.ns[0])
    draws = np.broadcast_to(scale, (_MOST_DRAWS, p, p))
    return graph, Terms(draws, ALONE_DELTA, prior.matrix_of_log_odds(p))


def sample_graphs(
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    delta: float,
    log_odds: np.ndarray,
    constraints: Constraints,
    start: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, EdgeDiagnostics]:
    """Probabilities of the edges of one task, given draws of sigma_h and the odds of its edges.

    One chain begins at ``start``, the other with the required edges only.
    """
    p = len(scatter)
    used = min(len(draws), _MOST_DRAWS)
    per_block = max(round(used * (1 - _WARMUP_SHARE) / _N_BLOCKS), 1)
    blocks = np.zeros((_N_CHAINS, _N_BLOCKS, 1, p, p), dtype=np.int32)
    tally, unused = np.zeros((p, p)), np.zeros((p, p))
    n_moves = round(_MOVES * p * (p - 1) / 2)
    required = np.ascontiguousarray(constraints.required)
    limits = (np.ascontiguousarray(constraints.allowed), required, int(constraints.max_parents))
    # Only every second order admits an edge that may go one way only.
    odds = log_odds + np.log(2) * (limits[0] & ~limits[0].T)
    for chain, first in enumerate((start, required)):
        adjacency = np.array(first, dtype=bool, order="C")
        order = np.array(topological_order(adjacency))
        warmup = max(used - per_block * _N_BLOCKS, 1)
        chosen = rng.permutation(len(draws))
        for k in range(warmup + per_block * _N_BLOCKS):
            sigma_h = draws[chosen[k % len(draws)]]
            matrices = np.array([sigma_h + scatter, sigma_h])
            counted = unused if k < warmup else tally
            walk(
                rng, adjacency, order, matrices, (delta + n, delta), odds, limits, n_moves, counted
            )
            if k >= warmup:
                blocks[chain, (k - warmup) // per_block, 0] += adjacency
    probabilities = tally / (_N_CHAINS * per_block * _N_BLOCKS * n_moves)
    diagnostics = diagnose_edges(blocks, per_block)
    return probabilities, EdgeDiagnostics(diagnostics.rhat[0], diagnostics.ess[0])
