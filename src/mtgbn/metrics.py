"""How far an estimated graph is from the true graph.

``A[i, j]`` is true if there is an edge i -> j; if both ``A[i, j]`` and ``A[j, i]`` are true, the edge
i - j is undirected. All functions take DAGs, PDAGs, CPDAGs and undirected graphs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn.errors import InputError
from mtgbn.graphs import skeleton
from mtgbn.graphs.checks import as_adjacency

__all__ = ["compare_adjacencies", "compare_arrowheads", "structural_hamming_distance"]


class Comparison(NamedTuple):
    """Counts of pairs, and measures made of them; a measure without a value is NaN."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def distance(self) -> int:
        """Number of wrong pairs, FP + FN."""
        return self.false_positives + self.false_negatives

    @property
    def error(self) -> float:
        """Share of wrong pairs, distance / pairs; NaN if there are no pairs."""
        return _ratio(self.distance, sum(self))

    @property
    def precision(self) -> float:
        """TP / (TP + FP); NaN if the estimate is empty."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """TP / (TP + FN); NaN if the truth is empty."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f_score(self) -> float:
        """Harmonic mean of precision and recall, 0 if both are 0; NaN if one of them is NaN."""
        if math.isnan(self.precision + self.recall):
            return math.nan
        return 2 * self.true_positives / (2 * self.true_positives + self.distance)


def compare_adjacencies(estimate: ArrayLike, truth: ArrayLike) -> Comparison:
    """Compare two skeletons: count unordered pairs of nodes, whatever the directions of edges.

    Parameters
    ----------
    estimate, truth : array (p, p)
        To compare moral graphs of DAGs, give `mtgbn.graphs.moral_graph` of both.

    Returns
    -------
    Comparison
        Counts, and the measures ``distance``, ``error``, ``precision``, ``recall`` and ``f_score``.

    Examples
    --------
    >>> found = compare_adjacencies([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [1, 0, 1], [0, 0, 0]])
    >>> found.true_positives, found.distance, found.precision
    (1, 2, 0.5)
    """
    estimate, truth = _same_size(estimate, truth)
    pairs = np.triu_indices(len(truth), 1)
    return _count(skeleton(estimate)[pairs], skeleton(truth)[pairs])


def compare_arrowheads(estimate: ArrayLike, truth: ArrayLike) -> Comparison:
    """Compare directed edges: count ordered pairs, so that a reversed edge is one FP and one FN.

    An undirected edge has no arrowhead: of a CPDAG, only the compelled edges count.

    Parameters
    ----------
    estimate, truth : array (p, p)
        Two DAGs; or `mtgbn.graphs.cpdag` of both, because Gaussian data determine only the compelled
        directions.

    Examples
    --------
    >>> compare_arrowheads([[0, 1], [0, 0]], [[0, 0], [1, 0]]).error
    1.0
    """
    estimate, truth = _same_size(estimate, truth)
    pairs = ~np.eye(len(truth), dtype=bool)
    return _count((estimate & ~estimate.T)[pairs], (truth & ~truth.T)[pairs])


def structural_hamming_distance(estimate: ArrayLike, truth: ArrayLike) -> int:
    """Count the unordered pairs whose edges differ: no edge, i -> j, j -> i or i - j.

    A reversed edge counts once, and so does an edge that is directed in only one of the graphs.

    Parameters
    ----------
    estimate, truth : array (p, p)

    Examples
    --------
    >>> structural_hamming_distance([[0, 1], [0, 0]], [[0, 0], [1, 0]])
    1
    """
    estimate, truth = _same_size(estimate, truth)
    different = estimate != truth
    return int(np.triu(different | different.T).sum())


def _same_size(*graphs: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    estimate, truth = map(as_adjacency, graphs)
    if len(estimate) != len(truth):
        raise InputError(
            f"the estimate has {len(estimate)} nodes and the truth {len(truth)}; compare graphs "
            "over the same variables in the same order"
        )
    return estimate, truth


def _count(estimate: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Comparison:
    both = int((estimate & truth).sum())
    false_positives, false_negatives = int(estimate.sum()) - both, int(truth.sum()) - both
    negatives = truth.size - both - false_positives - false_negatives
    return Comparison(both, false_positives, false_negatives, negatives)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
