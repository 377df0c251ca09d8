"""The graph of all tasks as one dataset, searched several times (docs/model.md, section 11).

Time series with a common signal have many pooled graphs whose scores are nearly the same. One search
finds any of these graphs. Searches are therefore repeated until the best graph was found three times.
They do not depend on the seed of the fit: what is decided from the data is the same for every seed.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.learn.single_task import search_single_task
from mtgbn.model.edge_prior import free_pairs
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.search.knowledge import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

# Searches end when the best score was found this number of times, or after the second number.
_ENOUGH, _MOST_SEARCHES = 3, 12

# Scores that differ by less are those of the same graph, or of an equivalent one.
_SAME_SCORE = 1e-3


class PooledGraph(NamedTuple):
    """A graph of the pooled data with its score, the log density of data and graph."""

    adjacency: np.ndarray
    score: float


def pooled_graphs(
    tasks: Tasks,
    constraints: Constraints,
    edge_prior: EdgePriorChoice,
    search: SearchSettings,
    *,
    edge_cost: float,
    is_repeated: bool = True,
) -> list[PooledGraph]:
    """The different graphs that were found, the best one first; an edge costs ``edge_cost`` nats.

    Unless the search ``is_repeated``, there is one graph.
    """
    scatter, n = tasks.pooled_scatter()
    pairs = np.triu(free_pairs(constraints.allowed, constraints.required)).sum()
    found: list[PooledGraph] = []
    for number in range(_MOST_SEARCHES if is_repeated else 1):
        graph = search_single_task(
            scatter=scatter,
            n=n,
            edge_prior=edge_prior,
            edge_cost=edge_cost,
            constraints=constraints,
            search=search,
            seed=np.random.SeedSequence(number),
        )
        # The prior log odds of the edges are part of the score; the rest of the edge prior is this.
        absent = pairs * np.log1p(-graph.density) if not edge_prior.is_fixed else 0.0
        found.append(PooledGraph(graph.adjacency, graph.score + absent))
        best = max(each.score for each in found)
        if sum(best - each.score < _SAME_SCORE for each in found) >= _ENOUGH:
            break
    found.sort(key=lambda each: -each.score)
    last = np.inf
    different = []
    for each in found:
        if last - each.score >= _SAME_SCORE:
            different.append(each)
            last = each.score
    return different
