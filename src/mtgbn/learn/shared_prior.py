"""The edge prior with which tasks are learned together, from what they are by themselves and as one."""

import numpy as np

from mtgbn.learn import em
from mtgbn.model.edge_prior import (
    EdgePrior,
    edge_counts,
    free_pairs,
    shared_edge_prior,
    unshared_edge_prior,
)
from mtgbn.model.unstructured import estimate_delta
from mtgbn.tasks import Tasks

__all__ = ["pooled_graph", "prior_of_unrelated", "shared_prior"]


def prior_of_unrelated(problem: em.Problem, alone: np.ndarray) -> EdgePrior:
    """That of tasks whose graphs, ``alone``, say nothing of each other."""
    return unshared_edge_prior(edge_counts(alone), len(alone), _pairs_to_decide(problem))


def _pairs_to_decide(problem: em.Problem) -> np.ndarray:
    """Pairs that some task may join or not, (p, p)."""
    return np.any([free_pairs(each.allowed, each.required) for each in problem.constraints], axis=0)


def pooled_graph(problem: em.Problem, tasks: Tasks, n_jobs: int | None) -> np.ndarray | None:
    """The graph of some tasks as one; None where tasks have candidates of their own."""
    first = problem.constraints[0]
    if any((each.allowed != first.allowed).any() for each in problem.constraints):
        return None
    scatter, n = tasks.pooled_scatter()
    pooled = Tasks([scatter], [n], tasks.variables)
    (graph,), _ = em.learn_alone(
        pooled, (first,), problem.edge_prior, problem.search, problem.seeds, n_jobs, em.silent
    )
    return graph


def shared_prior(
    problem: em.Problem, tasks: Tasks, alone: np.ndarray, together: np.ndarray | None
) -> EdgePrior:
    """The edge prior of some tasks, whose graphs are ``alone`` by themselves and ``together`` as one."""
    share = 0.0
    if len(tasks) > 1:
        p = tasks.n_variables
        known = problem.nu0 is not None
        delta = problem.nu0 - p + 1 if known else estimate_delta(tasks.scatters, tasks.ns)
        share = delta / (delta + np.median(tasks.ns))
    free = _pairs_to_decide(problem)
    density = None
    if together is not None:
        density = unshared_edge_prior(edge_counts(together[None]), 1, free).density
    return shared_edge_prior(
        edge_counts(alone), len(alone), free, share=share, pooled_density=density
    )
