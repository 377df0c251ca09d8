"""The edge prior: how dense the graphs are and how alike (docs/model.md, section 11).

The undirected edge jk is in a task with probability pi_jk, the same for all tasks, and
pi_jk ~ Beta(s r, s (1 - r)), integrated out.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.errors import InputError
from mtgbn.graphs import skeleton

__all__ = ["EdgePrior", "edge_counts", "edge_prior_of"]

# Edges per variable that the default density expects, and the default similarity: docs/decisions.md.
_EDGES_PER_VARIABLE = 0.5
_SIMILARITY = 4.0


class EdgePrior(NamedTuple):
    """Density r and similarity s; the smaller s, the more alike the graphs."""

    density: float
    similarity: float

    def log_odds(self, counts: np.ndarray, n_tasks: int) -> np.ndarray:
        """Log prior odds of every edge in one task, when ``counts`` of ``n_tasks`` others have it."""
        r, s = self
        return np.log(r + counts / s) - np.log1p((n_tasks - counts) / s - r)

    def log_probability(self, counts: np.ndarray, n_tasks: int) -> float:
        """Joint log prior of the skeletons of all tasks, of which ``counts`` have every edge.

        Beta functions as products, divided by s throughout: exact for graphs that are almost identical
        (s -> 0) and for unrelated ones (s = inf).
        """
        r, s = self
        present = counts[np.triu_indices(len(counts), 1)]
        steps = np.arange(n_tasks) / s
        having, lacking, all_tasks = (
            np.concatenate([[0.0], np.cumsum(logarithms)])
            for logarithms in (np.log(r + steps), np.log1p(steps - r), np.log1p(steps))
        )
        values, times = np.unique(present, return_counts=True)
        return float(times @ (having[values] + lacking[n_tasks - values] - all_tasks[n_tasks]))


def edge_prior_of(given, p: int) -> EdgePrior:
    """The edge prior that a user's setting means: nothing, r, or (r, s)."""
    if given is None:
        return EdgePrior(min(2 * _EDGES_PER_VARIABLE / (p - 1), 0.5), _SIMILARITY)
    try:
        numbers = [float(number) for number in np.atleast_1d(np.asarray(given, dtype=float))]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) == 1:
        numbers.append(np.inf)
    if len(numbers) != 2 or not (0 < numbers[0] < 1 and numbers[1] > 0):
        raise InputError(
            "edge_prior must be a density r between 0 and 1, or a pair (r, s) with a similarity s "
            f"above 0 (inf: unrelated graphs); got {given!r}"
        )
    return EdgePrior(*numbers)


def edge_counts(adjacencies: np.ndarray) -> np.ndarray:
    """How many tasks have each edge, in either direction, (p, p)."""
    return sum(skeleton(adjacency).astype(np.int64) for adjacency in adjacencies)
