"""How strong every connection is in a subject, by the networks of a group (docs/model.md, section 18).

In a network a variable depends on those that are not its descendants through its parents alone. So the
partial correlation of two variables given the parents of the later one is 0 where the network joins
them by no edge, and measures the edge where it does. The group says which are the parents; a subject's
own data would have to say that as well as how strong a connection is.
"""

import numpy as np

from mtgbn.errors import InputError
from mtgbn.graphs.dags import descendants

__all__ = ["connection_strengths", "mean_conditions", "sampling_variance"]

# Partial correlations of collinear variables stay finite.
_LARGEST = 1 - 1e-12


def connection_strengths(scatters: np.ndarray, graphs: np.ndarray) -> np.ndarray:
    """Partial correlations of all pairs given parents in the graphs of a group, as Fisher's z.

    Parameters
    ----------
    scatters : array (subjects, p, p)
    graphs : array (members, p, p)
        DAGs of the group; ``graphs[t, i, j]`` means i -> j.

    Returns
    -------
    array (subjects, p, p)
        Symmetric, 0 on the diagonal; the mean over the graphs. Where a graph has neither variable before
        the other, the mean of both ways.
    """
    p = scatters.shape[1]
    weights = _weights(graphs)
    strengths = np.zeros(scatters.shape)
    for node in range(p):
        kinds, kind = np.unique(graphs[:, :, node], axis=0, return_inverse=True)
        for number, is_parent in enumerate(kinds):
            weight = weights[kind.reshape(-1) == number, :, node].sum(axis=0)
            parents = np.flatnonzero(is_parent)
            strengths[:, :, node] += weight * _given_parents(scatters, node, parents)
    strengths /= len(graphs)
    strengths += strengths.transpose(0, 2, 1)
    strengths[:, np.arange(p), np.arange(p)] = 0.0
    return strengths


def mean_conditions(graphs: np.ndarray) -> np.ndarray:
    """How many variables the strength of every pair is conditional on, mean over the graphs, (p, p)."""
    # Parents of the column's variable, other than the row's.
    numbers = graphs.sum(axis=1)[:, None, :] - graphs
    found = (_weights(graphs) * numbers).mean(axis=0)
    found += found.T
    np.fill_diagonal(found, 0.0)
    return found


def sampling_variance(n: float, n_given: np.ndarray) -> np.ndarray:
    """Variance of Fisher's z of a partial correlation given so many variables, with n samples.

    Below three samples more than variables it has none; it is then taken to be 1.
    """
    return 1.0 / np.maximum(n - n_given - 2.0, 1.0)


def _weights(graphs: np.ndarray) -> np.ndarray:
    """1 where the row's variable comes first, 0 where the column's does, 1/2 where neither."""
    below = np.array([descendants(graph) for graph in graphs])
    return (1.0 + below - below.transpose(0, 2, 1)) / 2


def _given_parents(scatters: np.ndarray, node: int, parents: np.ndarray) -> np.ndarray:
    """Fisher's z of every variable's partial correlation with a node, given its (other) parents."""
    family = np.append(parents, node)
    q = len(parents)
    try:
        factor = np.linalg.cholesky(scatters[:, family[:, None], family])
    except np.linalg.LinAlgError:
        raise InputError(
            f"in some subject the variables at positions {family.tolist()} are collinear, so that their "
            "partial correlations have no value; leave one of them out, or use more rows"
        ) from None
    whitened = np.linalg.solve(factor[:, :q, :q], scatters[:, parents])
    residuals = scatters[:, :, node] - np.einsum("sqi,sq->si", whitened, factor[:, q, :q])
    variances = np.einsum("sii->si", scatters) - (whitened**2).sum(axis=1)
    variances[:, parents] = 1.0
    correlations = residuals / np.sqrt(variances * variances[:, node, None])
    # Of a parent: columns of the inverse factor belong to the precisions within the family.
    inverse = np.linalg.solve(factor, np.eye(q + 1))
    correlations[:, parents] = -inverse[:, q, :q] / np.linalg.norm(inverse[:, :, :q], axis=1)
    correlations[:, node] = 0.0
    return np.arctanh(np.clip(correlations, -_LARGEST, _LARGEST))
