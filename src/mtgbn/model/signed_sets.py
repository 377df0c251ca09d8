"""Signed sets of variables: the form in which every density sees a graph (docs/model.md, section 1).

The sets come in nested pairs, ``+outer - inner`` with ``inner`` contained in ``outer``: a family and
its parents, a clique and its separator. One Cholesky factor of the outer set, inner variables first,
serves both, so pairs are stored, not sets.
"""

from collections.abc import Iterable, Sequence
from operator import index
from typing import NamedTuple

import numpy as np

from mtgbn.errors import GraphError
from mtgbn.graphs.chordal import junction_tree
from mtgbn.graphs.dags import topological_order


class SignedSets(NamedTuple):
    """Weighted nested pairs of sets of variables.

    Pair b is ``weights[b] * (+outer - inner)``, where outer is ``members[starts[b]:starts[b + 1]]``
    and inner its first ``inner_sizes[b]`` members.
    """

    members: np.ndarray
    starts: np.ndarray
    inner_sizes: np.ndarray
    weights: np.ndarray

    @property
    def outer_sizes(self) -> np.ndarray:
        """Number of variables of every outer set."""
        return np.diff(self.starts)


def families(adjacencies: np.ndarray) -> SignedSets:
    """Return +({k} u Pa_k) and -Pa_k for every node k of one DAG (p, p) or of many (m, p, p).

    ``adjacencies[..., i, j]`` means i -> j. The pairs are ordered by DAG, then by node.
    """
    p = adjacencies.shape[-1]
    parents = np.swapaxes(adjacencies, -1, -2).reshape(-1, p)
    return _families(np.arange(len(parents)) % p, parents, np.ones(len(parents)))


def distinct_families(adjacencies: np.ndarray) -> SignedSets:
    """Return the families that occur in any of the DAGs (m, p, p), weighted by their number."""
    p = adjacencies.shape[-1]
    parents = np.swapaxes(adjacencies, -1, -2).reshape(-1, p)
    children = np.arange(len(parents)) % p
    keys = np.column_stack([children, np.packbits(parents, axis=1)])
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return _families(children[first], parents[first], counts.astype(float))


def cliques_and_separators(adjacency: np.ndarray) -> SignedSets:
    """Return +C for every clique and -S for every separator of a chordal undirected graph."""
    tree = junction_tree(adjacency)
    return _from_sequences(
        [
            (*separator, *(v for v in clique if v not in separator))
            for clique, separator in zip(tree.cliques, tree.separators, strict=True)
        ],
        [len(separator) for separator in tree.separators],
        np.ones(len(tree.cliques)),
    )


def signed_sets(structure) -> SignedSets:
    """Return the signed sets of a structure in any form.

    Parameters
    ----------
    structure : array (p, p), SignedSets or sequence of (sign, variables)
        A symmetric adjacency matrix with at least one edge is an undirected, chordal graph; any other
        adjacency matrix is a DAG, with ``adjacency[i, j]`` meaning i -> j. A list such as
        ``[(+1, (0, 1)), (-1, (0,))]`` gives the sets directly.
    """
    if isinstance(structure, SignedSets):
        return _checked(structure)
    if not is_adjacency(structure):
        sets = [_checked_set(variables) for _, variables in structure]
        signs = np.array([float(sign) for sign, _ in structure])
        return _from_sequences(sets, np.zeros(len(sets), dtype=np.int64), signs)
    adjacency = np.asarray(structure)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(
            "a structure is a square adjacency matrix, SignedSets, or a list of (sign, variables); "
            f"got an array of shape {adjacency.shape}"
        )
    if adjacency.any() and np.array_equal(adjacency != 0, adjacency.T != 0):
        return cliques_and_separators(adjacency)
    topological_order(adjacency)  # raises, showing a cycle
    return families(adjacency != 0)


def concatenate(parts: Sequence[SignedSets]) -> SignedSets:
    """Join lists of signed sets."""
    sizes = np.concatenate([part.outer_sizes for part in parts])
    return SignedSets(
        np.concatenate([part.members for part in parts]),
        np.concatenate(([0], np.cumsum(sizes))),
        np.concatenate([part.inner_sizes for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def is_adjacency(structure) -> bool:
    """Whether a structure is given as a matrix, not as sets."""
    return not isinstance(structure, SignedSets) and not (
        isinstance(structure, list | tuple)
        and len(structure) > 0
        and all(
            isinstance(item, tuple | list)
            and len(item) == 2
            and np.ndim(item[0]) == 0
            and isinstance(item[1], Iterable)
            for item in structure
        )
    )


def _checked(sets: SignedSets) -> SignedSets:
    """Signed sets that kernels can use without further checks."""
    members, starts, inner_sizes, weights = sets
    sound = (
        all(isinstance(array, np.ndarray) for array in sets)
        and weights.dtype == np.float64
        and all(array.ndim == 1 and array.size for array in (starts, inner_sizes, weights))
        and all(array.dtype.kind in "iu" for array in (members, starts, inner_sizes))
        and starts.size == inner_sizes.size + 1 == weights.size + 1
        and starts[0] == 0
        and starts[-1] == members.size
        and np.all(np.diff(starts) >= inner_sizes)
        and np.all(inner_sizes >= 0)
    )
    if not sound:
        raise GraphError("these SignedSets do not fit together; make them with signed_sets()")
    return sets


def _checked_set(variables: Iterable) -> tuple[int, ...]:
    variables = tuple(variables)
    try:
        checked = tuple(index(v) for v in variables)
    except TypeError:
        raise GraphError(f"the set {variables} must hold whole numbers of variables") from None
    if len(set(checked)) != len(checked):
        raise GraphError(f"the set {checked} names a variable twice")
    return checked


def _families(children: np.ndarray, parents: np.ndarray, weights: np.ndarray) -> SignedSets:
    """Pairs of the given nodes with their parents, which the rows of a boolean matrix mark."""
    n_parents = parents.sum(axis=1)
    starts = np.concatenate(([0], np.cumsum(n_parents + 1)))
    members = np.empty(starts[-1], dtype=np.int64)
    is_parent = np.ones(starts[-1], dtype=bool)
    is_parent[starts[1:] - 1] = False
    members[is_parent] = np.nonzero(parents)[1]
    members[~is_parent] = children
    return SignedSets(members, starts, n_parents, weights)


def _from_sequences(sets: Sequence[Sequence[int]], inner_sizes, weights) -> SignedSets:
    return SignedSets(
        np.array([v for members in sets for v in members], dtype=np.int64),
        np.concatenate(([0], np.cumsum([len(members) for members in sets], dtype=np.int64))),
        np.array(inner_sizes, dtype=np.int64),
        np.asarray(weights, dtype=float),
    )
