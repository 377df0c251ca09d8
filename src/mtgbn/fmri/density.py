"""Networks with a given number of edges, to compare methods at the same density."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtgbn._utils.arguments import check_count
from mtgbn.errors import InputError


def strongest_edges(
    strengths: ArrayLike, n_edges: int, *, undirected: bool = False
) -> NDArray[np.bool_]:
    """Return the adjacency matrix of the ``n_edges`` strongest pairs of variables; it may have cycles.

    ``strengths[i, j]`` is that of i -> j: F statistics, couplings, probabilities (not p-values, which
    are small for strong edges). Absolute values count, the diagonal does not; of equally strong pairs
    those in earlier rows, then in earlier columns, come first. ``undirected`` counts unordered pairs,
    each as strong as the stronger of its directions, and returns edges i - j (both entries true).
    """
    try:
        sizes = np.abs(np.asarray(strengths, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"strengths must be a square array of numbers ({error})") from error
    if sizes.ndim != 2 or sizes.shape[0] != sizes.shape[1]:
        raise InputError(f"strengths must be a square array; its shape is {sizes.shape}")
    check_count("n_edges", n_edges, 0)
    p = len(sizes)
    if (missing := np.isnan(sizes) & ~np.eye(p, dtype=bool)).any():
        i, j = np.argwhere(missing)[0]
        raise InputError(f"the strength of {i} -> {j} is nan; use 0 for a pair that cannot be")
    if undirected:
        sizes = np.maximum(sizes, sizes.T)
    rows, columns = np.nonzero(~np.tri(p, dtype=bool) if undirected else ~np.eye(p, dtype=bool))
    candidates = sizes[rows, columns]
    if n_edges > (available := int(np.count_nonzero(candidates))):
        raise InputError(
            f"n_edges is {n_edges}, but only {available} of the {len(candidates)} "
            f"{'unordered' if undirected else 'ordered'} pairs have a strength other than 0"
        )
    chosen = np.argsort(-candidates, kind="stable")[:n_edges]
    adjacency = np.zeros((p, p), dtype=bool)
    adjacency[rows[chosen], columns[chosen]] = True
    return adjacency | adjacency.T if undirected else adjacency
