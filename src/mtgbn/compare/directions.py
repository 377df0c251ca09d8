"""What supports the direction of a connection: bootstrap cohorts, subjects, draws of chains.

See docs/model.md, section 19.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn.compare.fitting import AnyEstimator
from mtgbn.graphs.equivalence import restricted_cpdag
from mtgbn.learn.min_strength import MinStrength
from mtgbn.learn.ordering import Ordering
from mtgbn.learn.parallel import in_parallel, no_progress
from mtgbn.learn.single_task import search_single_task
from mtgbn.model.edge_prior_setting import edge_prior_of
from mtgbn.search.methods import SearchSettings

# Cohorts whose subjects are drawn anew. A share of .8 then has the standard error .04.
N_COHORTS = 100

# Fewer subjects, drawn anew, are too often the same ones.
FEWEST_SUBJECTS = 5

# The pooled graph of a cohort needs no more effort; with ten restarts the same directions are found.
_SEARCH = SearchSettings("boss", 2, 10)


class DirectionSupport(NamedTuple):
    """Support of the more frequent direction of pairs; arrays are (connections,), nan without an edge.

    Attributes
    ----------
    forward : array
        Of the subjects that have an edge, those in whom it goes from the first to the second variable.
    support : array
        Share of the bootstrap cohorts whose data direct the connection in the more frequent direction;
        nan with fewer than five subjects.
    probability : array, optional
        Mean posterior probability of an edge with this direction, over all subjects: the share of the
        draws. None without a posterior.
    """

    forward: np.ndarray
    support: np.ndarray
    probability: np.ndarray | None


def direction_support(
    graphs: np.ndarray,
    pairs: np.ndarray,
    supports: np.ndarray,
    probabilities: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> DirectionSupport:
    """Measure what supports the more frequent direction of every pair.

    Parameters
    ----------
    graphs : array (tasks, p, p)
        DAGs.
    pairs : array (connections, 2)
    supports : array (p, p)
        Shares of the bootstrap cohorts with i -> j, by `bootstrap_directions`.
    probabilities : array (tasks, p, p), optional
        Of edges i -> j: `edge_probabilities_` of a posterior fit.
    weights : array (tasks,), optional
        Such as one over the sessions of the subject; default: 1.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    i, j = pairs.T
    counts = np.tensordot(weights, graphs, axes=1)
    joined = counts[i, j] + counts[j, i]
    is_forward = counts[i, j] >= counts[j, i]
    source, target = np.where(is_forward, i, j), np.where(is_forward, j, i)
    with np.errstate(invalid="ignore"):
        forward = counts[i, j] / joined
    support = np.where(joined > 0, supports[source, target], np.nan)
    probability = None
    if probabilities is not None:
        mean = np.tensordot(weights / weights.sum(), probabilities, axes=1)
        probability = mean[source, target]
    return DirectionSupport(forward, support, probability)


def bootstrap_directions(
    estimator: AnyEstimator,
    rows: Sequence[Sequence[int]],
    *,
    random_state: np.random.SeedSequence,
    n_cohorts: int = N_COHORTS,
    progress: Callable[[str, int, int], Any] | None = None,
) -> np.ndarray:
    """Share of the bootstrap cohorts whose data direct an edge i -> j, (p, p).

    A cohort has as many subjects as the data, drawn with replacement. Its data are pooled and searched
    for one graph, with the minimal strength and the prior knowledge of the fit. An edge counts if all
    equivalent graphs that prior knowledge allows have it in this direction.

    Parameters
    ----------
    estimator : MTGBN, SIG or AVG
        Fitted. Tasks that are no members are left out.
    rows : sequence of sequences of int
        The tasks of every subject.
    random_state : numpy.random.SeedSequence

    Returns
    -------
    array (p, p)
        nan with fewer than five subjects.
    """
    ordering = Ordering.of(estimator.tasks_)
    tasks = ordering.tasks
    p, m = tasks.n_variables, len(tasks)
    places = np.argsort(ordering.task_order)
    is_member = np.asarray(getattr(estimator, "membership_", np.ones(m))) > 0.5
    subjects = [sorted(places[t] for t in each if is_member[t]) for each in rows]
    subjects = sorted(each for each in subjects if each)
    if len(subjects) < FEWEST_SUBJECTS:
        return np.full((p, p), np.nan)
    # Sessions count as parts of a subject.
    parts = np.array([np.isin(np.arange(m), each) / len(each) for each in subjects])
    limit = getattr(estimator, "min_strength_", MinStrength(0.0))
    scatters = np.tensordot(parts, tasks.scatters, axes=1)
    ns, costs = parts @ tasks.ns, parts @ limit.costs(tasks.ns)
    constraints = estimator.resolved_knowledge(tasks.variables)
    edge_prior = edge_prior_of("density", tasks.variables)
    calls = []
    for seed in random_state.spawn(n_cohorts):
        drawn = np.random.default_rng(seed).integers(len(subjects), size=len(subjects))
        calls.append(
            {
                "scatter": scatters[drawn].sum(axis=0),
                "n": float(ns[drawn].sum()),
                "edge_prior": edge_prior,
                "edge_cost": float(costs[drawn].sum()),
                "constraints": constraints,
                "search": _SEARCH,
                "seed": seed,
            }
        )
    total = np.zeros((p, p))
    found = in_parallel(
        search_single_task, calls, estimator.n_jobs, progress or no_progress, "directions"
    )
    for each in found:
        graphs = restricted_cpdag(each.adjacency, constraints.allowed)
        total += graphs & ~graphs.T
    return ordering.to_user(total / n_cohorts, "vv")
