"""What supports the direction of a connection: subjects, equivalence classes, draws of chains."""

from typing import NamedTuple

import numpy as np

from mtgbn.graphs import cpdag


class DirectionSupport(NamedTuple):
    """Support of the more frequent direction of pairs; arrays are (connections,), nan without an edge.

    Attributes
    ----------
    share : array
        Of the subjects that have an edge, those in whom it has this direction.
    compelled : array
        Of the subjects that have an edge, those whose equivalence class has this direction only. In
        the others the data cannot tell it, and the graphs have the direction that agrees best.
    probability : array, optional
        Mean posterior probability of an edge with this direction, over all subjects: the share of the
        draws. None without a posterior.
    """

    share: np.ndarray
    compelled: np.ndarray
    probability: np.ndarray | None


def direction_support(
    graphs: np.ndarray,
    pairs: np.ndarray,
    probabilities: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> DirectionSupport:
    """Measure what supports the more frequent direction of every pair.

    Parameters
    ----------
    graphs : array (tasks, p, p)
        DAGs.
    pairs : array (connections, 2)
    probabilities : array (tasks, p, p), optional
        Of edges i -> j: `edge_probabilities_` of a posterior fit.
    weights : array (tasks,), optional
        Such as one over the sessions of the subject; default: 1.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    i, j = pairs.T
    counts = np.tensordot(weights, graphs, axes=1)
    classes = np.array([cpdag(graph) for graph in graphs])
    compelled = np.tensordot(weights, classes & ~classes.transpose(0, 2, 1), axes=1)
    joined = counts[i, j] + counts[j, i]
    is_forward = counts[i, j] >= counts[j, i]
    source, target = np.where(is_forward, i, j), np.where(is_forward, j, i)
    with np.errstate(invalid="ignore"):
        share, told = counts[source, target] / joined, compelled[source, target] / joined
    probability = None
    if probabilities is not None:
        mean = np.tensordot(weights / weights.sum(), probabilities, axes=1)
        probability = mean[source, target]
    return DirectionSupport(share, told, probability)
