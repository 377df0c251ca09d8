"""Marginal likelihoods of tasks given sigma_h, in compiled code (docs/model.md, sections 2, 10)."""

from math import lgamma, log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import ZERO, kernel
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT


class TaskScores(NamedTuple):
    """All that is needed to score any family of one task at one sigma_h; see `prepare_scores`.

    ``posterior_matrix`` and ``prior_matrix`` (p, p) are sigma_h + T and sigma_h, with their degrees of
    freedom. ``constants`` (p,) depend on the number of parents only. ``log_odds`` (p, p) are
    the prior log odds of every edge i -> j, given all other tasks. The rest is scratch space.
    """

    posterior_matrix: np.ndarray
    prior_matrix: np.ndarray
    posterior_degrees: np.ndarray
    prior_degrees: np.ndarray
    constants: np.ndarray
    log_odds: np.ndarray
    posterior_factor: np.ndarray
    prior_factor: np.ndarray


@kernel
def empty_scores(p):
    """Room for the scores of a task with p variables; log prior odds are 0."""
    return TaskScores(
        np.empty((p, p)),
        np.empty((p, p)),
        np.empty(()),
        np.empty(()),
        np.empty(p),
        np.zeros((p, p)),
        np.empty((p, p)),
        np.empty((p, p)),
    )


@kernel
def prepare_scores(scores, scatter, n, sigma_h, delta, max_parents):
    """Write matrices, degrees of freedom and constants of a task with this sigma_h and delta.

    Families can then be scored that have at most ``max_parents`` parents.
    """
    p = scatter.shape[0]
    for i in range(p):
        for j in range(p):
            scores.prior_matrix[i, j] = sigma_h[i, j]
            scores.posterior_matrix[i, j] = sigma_h[i, j] + scatter[i, j]
    scores.posterior_degrees[()] = delta + n
    scores.prior_degrees[()] = delta
    for q in range(max_parents + 1):
        scores.constants[q] = lgamma((delta + n + q) / 2) - lgamma((delta + q) / 2)


@kernel
def prepare_single(scores, scatter, n, scales, max_parents):
    """`prepare_scores` for a single task, whose prior matrix is diagonal with these ``scales``."""
    for i in range(scales.size):
        for j in range(scales.size):
            scores.prior_matrix[i, j] = scales[i] if i == j else 0.0
    prepare_scores(scores, scatter, n, scores.prior_matrix, SINGLE_DELTA, max_parents)


@kernel(error_model="numpy")
def log_likelihoods(adjacencies, scatters, ns, single_scales, members, sigma_h, delta, values):
    """Write the log marginal likelihood of every task, up to a constant of the data alone.

    Parameters
    ----------
    adjacencies : array (m, p, p) of bool
    scatters : array (m, p, p)
    ns : array (m,)
    single_scales : array (m, p)
        Diagonals of the prior matrices of tasks that are not members.
    members : array (m,) of bool
        Tasks whose prior matrix is sigma_h.
    sigma_h : array (p, p)
    delta : float
    values : array (m,)
        Gets the result.
    """
    m, p, _ = scatters.shape
    scores = empty_scores(p)
    parents, n_parents = np.empty((p, p), dtype=np.int64), np.empty(p, dtype=np.int64)
    for t in range(m):
        most = ZERO
        for node in range(p):
            n_parents[node] = 0
            for a in range(p):
                if adjacencies[t, a, node]:
                    parents[node, n_parents[node]] = a
                    n_parents[node] += 1
            most = max(most, n_parents[node])
        # Gamma functions take longer than the factors of small families: only those in use.
        if members[t]:
            prepare_scores(scores, scatters[t], ns[t], sigma_h, delta, most)
        else:
            prepare_single(scores, scatters[t], ns[t], single_scales[t], most)
        values[t] = 0.0
        for node in range(p):
            values[t] += family_score(scores, node, parents[node], n_parents[node])


@kernel(error_model="numpy", forceinline=True)
def family_score(scores, node, parents, n_parents):
    """Local score of one family: the node with the first ``n_parents`` of ``parents``."""
    value = scores.constants[n_parents]
    for k in range(n_parents):
        value += scores.log_odds[parents[k], node]
    # Both matrices in one loop: the processor works on one while it waits for the other.
    both, prior = scores.posterior_matrix, scores.prior_matrix
    factor, prior_factor = scores.posterior_factor, scores.prior_factor
    determinant, prior_determinant, logarithm = 1.0, 1.0, 0.0
    pivot = prior_pivot = 1.0
    for i in range(n_parents + 1):
        row = parents[i] if i < n_parents else node
        for j in range(i):
            column = parents[j]
            entry, prior_entry = both[row, column], prior[row, column]
            for k in range(j):
                entry -= factor[i, k] * factor[j, k]
                prior_entry -= prior_factor[i, k] * prior_factor[j, k]
            factor[i, j] = entry * factor[j, j]
            prior_factor[i, j] = prior_entry * prior_factor[j, j]
        pivot, prior_pivot = both[row, row], prior[row, row]
        for k in range(i):
            pivot -= factor[i, k] ** 2
            prior_pivot -= prior_factor[i, k] ** 2
        if not (pivot > 0.0 and prior_pivot > 0.0):
            return -np.inf
        if i < n_parents:
            # The diagonals of the factors hold reciprocals.
            factor[i, i] = 1.0 / np.sqrt(pivot)
            prior_factor[i, i] = 1.0 / np.sqrt(prior_pivot)
            if not (
                SMALLEST_PRODUCT < determinant < LARGEST_PRODUCT
                and SMALLEST_PRODUCT < prior_determinant < LARGEST_PRODUCT
            ):
                logarithm += log(prior_determinant) - log(determinant)
                determinant = prior_determinant = 1.0
            determinant *= pivot
            prior_determinant *= prior_pivot
    value += (logarithm + log(prior_determinant) - log(determinant)) / 2
    value += (scores.prior_degrees[()] + n_parents) / 2 * log(prior_pivot)
    return value - (scores.posterior_degrees[()] + n_parents) / 2 * log(pivot)
