"""Marginal likelihoods of tasks given sigma_h, in compiled code (docs/model.md, sections 2, 10)."""

from math import lgamma, log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import NONE, kernel
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT


class TaskScores(NamedTuple):
    """All that is needed to score any family of one task at one sigma_h.

    Families of tied variables have the prior matrix sigma_h, own families the diagonal one of a single
    task; `TIED` and `OWN` are their places on the first axis. `prepare_tied`, `prepare_own` write them.

    ``posterior_matrices`` and ``prior_matrices`` (2, p, p) are the prior matrices with and without the
    scatter, ``posterior_degrees`` and ``prior_degrees`` (2,) their degrees of freedom. ``constants``
    (2, p) depend on the number of parents only. ``sources`` (p,) says which of both the family of a
    variable has. ``log_odds`` (p, p) are the prior log odds of every edge i -> j, given all other tasks.
    The rest is scratch space.
    """

    posterior_matrices: np.ndarray
    prior_matrices: np.ndarray
    posterior_degrees: np.ndarray
    prior_degrees: np.ndarray
    constants: np.ndarray
    sources: np.ndarray
    log_odds: np.ndarray
    posterior_factor: np.ndarray
    prior_factor: np.ndarray


# Places of tied and of own families in `TaskScores`.
TIED, OWN = np.int64(0), np.int64(1)


@kernel
def empty_scores(p):
    """Room for the scores of a task with p variables; log prior odds are 0, all families are tied."""
    return TaskScores(
        posterior_matrices=np.empty((2, p, p)),
        prior_matrices=np.zeros((2, p, p)),
        posterior_degrees=np.empty(2),
        prior_degrees=np.empty(2),
        constants=np.empty((2, p)),
        sources=np.zeros(p, dtype=np.int64),
        log_odds=np.zeros((p, p)),
        posterior_factor=np.empty((p, p)),
        prior_factor=np.empty((p, p)),
    )


@kernel
def prepare_tied(scores, scatter, n, sigma_h, delta, max_parents):
    """Write what tied families need at this sigma_h and delta.

    Families can then be scored that have at most ``max_parents`` parents.
    """
    p = scatter.shape[0]
    for i in range(p):
        for j in range(p):
            scores.prior_matrices[TIED, i, j] = sigma_h[i, j]
    _prepare(scores, TIED, scatter, n, delta, max_parents)


@kernel
def prepare_own(scores, scatter, n, scales, max_parents):
    """Write what own families need, whose prior matrix is diagonal with these ``scales``."""
    for i in range(scales.size):
        scores.prior_matrices[OWN, i, i] = scales[i]
    _prepare(scores, OWN, scatter, n, SINGLE_DELTA, max_parents)


@kernel
def _prepare(scores, source, scatter, n, delta, max_parents):
    """Write posterior matrix, degrees of freedom and constants that belong to a prior matrix."""
    p = scatter.shape[0]
    for i in range(p):
        for j in range(p):
            scores.posterior_matrices[source, i, j] = (
                scores.prior_matrices[source, i, j] + scatter[i, j]
            )
    scores.posterior_degrees[source] = delta + n
    scores.prior_degrees[source] = delta
    for q in range(max_parents + 1):
        scores.constants[source, q] = lgamma((delta + n + q) / 2) - lgamma((delta + q) / 2)


@kernel
def set_sources(scores, ties):
    """Say which variables of the task are tied, (p,)."""
    for j in range(ties.size):
        scores.sources[j] = TIED if ties[j] else OWN


@kernel(error_model="numpy")
def log_likelihoods(adjacencies, scatters, ns, single_scales, ties, sigma_h, delta, values):
    """Write the log marginal likelihood of every family, up to a constant of the data alone.

    Parameters
    ----------
    adjacencies : array (m, p, p) of bool
    scatters : array (m, p, p)
    ns : array (m,)
    single_scales : array (m, p)
        Diagonals of the prior matrices of own families.
    ties : array (m, p) of bool
        Families whose prior matrix is sigma_h.
    sigma_h : array (p, p)
    delta : float
    values : array (m, p)
        Gets the result, by task and variable.
    """
    m, p, _ = scatters.shape
    scores = empty_scores(p)
    parents, n_parents = np.empty((p, p), dtype=np.int64), np.empty(p, dtype=np.int64)
    for t in range(m):
        most_tied, most_own = NONE, NONE
        for node in range(p):
            n_parents[node] = 0
            for a in range(p):
                if adjacencies[t, a, node]:
                    parents[node, n_parents[node]] = a
                    n_parents[node] += 1
            if ties[t, node]:
                most_tied = max(most_tied, n_parents[node])
            else:
                most_own = max(most_own, n_parents[node])
        # Gamma functions take longer than the factors of small families: only those in use.
        if most_tied >= 0:
            prepare_tied(scores, scatters[t], ns[t], sigma_h, delta, most_tied)
        if most_own >= 0:
            prepare_own(scores, scatters[t], ns[t], single_scales[t], most_own)
        set_sources(scores, ties[t])
        for node in range(p):
            values[t, node] = family_score(scores, node, parents[node], n_parents[node])


@kernel(error_model="numpy", forceinline=True)
def family_score(scores, node, parents, n_parents):
    """Local score of one family: the node with the first ``n_parents`` of ``parents``."""
    source = scores.sources[node]
    value = scores.constants[source, n_parents]
    for k in range(n_parents):
        value += scores.log_odds[parents[k], node]
    # Both matrices in one loop: the processor works on one while it waits for the other.
    both, prior = scores.posterior_matrices[source], scores.prior_matrices[source]
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
    value += (scores.prior_degrees[source] + n_parents) / 2 * log(prior_pivot)
    return value - (scores.posterior_degrees[source] + n_parents) / 2 * log(pivot)
