"""Counts over pairs of nodes, and the measures made of them.

``A[i, j]`` is true when there is an edge i -> j; ``A[i, j]`` and ``A[j, i]`` together are the
undirected edge i - j. DAGs, PDAGs and CPDAGs are compared alike, and so are undirected graphs, such
as moral graphs, as to their adjacencies.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn.errors import InputError
from mtgbn.graphs import skeleton
from mtgbn.graphs.checks import as_adjacency


class Comparison(NamedTuple):
    """Counts of pairs, and measures from them; a measure that has no value is NaN."""

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
        """Share of wrong pairs; NaN if there are no pairs."""
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
        """Harmonic mean of precision and recall, 0 if both are; NaN if one of them is."""
        if math.isnan(self.precision + self.recall):
            return math.nan
        return 2 * self.true_positives / (2 * self.true_positives + self.distance)


def compare_adjacencies(estimate: ArrayLike, truth: ArrayLike) -> Comparison:
    """Compare skeletons: unordered pairs, directions are ignored.

    Parameters
    ----------
    estimate, truth : array (p, p)
        For the moral graphs of DAGs, pass `mtgbn.graphs.moral_graph` of both.
    """
    estimate, truth = _same_size(estimate, truth)
    pairs = np.triu_indices(len(truth), 1)
    return _count(skeleton(estimate)[pairs], skeleton(truth)[pairs])


def compare_arrowheads(estimate: ArrayLike, truth: ArrayLike) -> Comparison:
    """Compare directed edges: ordered pairs, so a reversed edge is one FP and one FN.

    An undirected edge has no arrowhead: of a CPDAG, only the compelled edges count.

    Parameters
    ----------
    estimate, truth : array (p, p)
        DAGs both, or, as only compelled directions can be learned from Gaussian data,
        `mtgbn.graphs.cpdag` of both.
    """
    estimate, truth = _same_size(estimate, truth)
    pairs = ~np.eye(len(truth), dtype=bool)
    return _count((estimate & ~estimate.T)[pairs], (truth & ~truth.T)[pairs])


def structural_hamming_distance(estimate: ArrayLike, truth: ArrayLike) -> int:
    """Count the unordered pairs that differ: no edge, i -> j, j -> i or i - j.

    A reversed edge counts once, and so does one that is directed in one graph only.
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
