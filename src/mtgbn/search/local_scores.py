"""Local scores of one task, averaged over draws of sigma_h (docs/model.md, section 10).

The score of node k with parents P is a mean over draws of logarithms of two quantities at sigma_h + T
and at sigma_h: the residual scale of k given P, and the determinant of P. Both are products of
conditional variances, so that all families with one parent more share one factorisation.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from mtgbn._utils.arguments import real_array
from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.model.arguments import (
    check_adjacencies,
    check_delta,
    check_positive_definite,
    check_scatters,
)
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

# An improvement of a score must exceed rounding errors, or ties would send searches in circles. Scores
# and their rounding errors grow with n and p.
_SMALLEST_IMPROVEMENT, _ROUNDING = 1e-9, 1e-13


class Found(NamedTuple):
    """The best DAG of a search and its score; ``adjacency[i, j]`` means i -> j."""

    adjacency: np.ndarray
    score: float


class LocalScores(NamedTuple):
    """The data of one task and the draws of sigma_h, in the form in which families are scored.

    ``matrices`` (p, p, lanes) holds sigma_h + T of all draws and then, except under a structure prior
    whose normaliser cancels it, sigma_h of all draws. ``edge_bonus`` (p, p) is added for every edge:
    the log odds of the edge prior, and the factor of the structure prior for single edges. Where it
    is symmetric, Markov equivalent graphs have equal scores.
    """

    matrices: np.ndarray
    n_draws: int
    degrees: np.ndarray  # delta + n and delta
    constants: np.ndarray  # (p,), the part of the score that depends on the number of parents only
    edge_bonus: np.ndarray
    end_deviations: np.ndarray  # (p, n_draws), bonus under a draw minus its mean, half for each end
    improvement: float  # the smallest difference between scores that is not a rounding error


def gather_scores(
    scatter, n: float, sigma_h_draws, nu0: float, log_odds=0.0, *, checked: bool = False
) -> LocalScores:
    """Prepare the local scores of one task.

    Summed over the families of a DAG they give the mean over the draws of the log marginal
    likelihood, up to a constant that is the same for all DAGs, plus the edge prior: ``log_odds``
    are the prior log odds of every edge i -> j, a number or an array (p, p). ``checked`` leaves out
    the checks of a scatter from a `Tasks` and of draws from a chain, (N, p, p) or (p, p).
    """
    draws = real_array(sigma_h_draws, "sigma_h_draws")
    draws = draws[None] if draws.ndim == 2 else draws
    if draws.ndim != 3 or len(draws) == 0:
        raise InputError(f"sigma_h_draws must have shape (N, p, p), N > 0; got {draws.shape}")
    if not checked:
        draws = np.array([check_positive_definite(draw, "a draw of sigma_h") for draw in draws])
    p = draws.shape[-1]
    delta = check_delta(nu0, p)
    if not checked:
        (scatter,), (n,) = check_scatters([scatter], [n], p)
    odds = real_array(log_odds, "log_odds")
    if odds.shape not in ((), (p, p)):
        raise InputError(f"log_odds must be a number or a ({p}, {p}) array; got {odds.shape}")
    odds = np.broadcast_to(odds, (p, p))
    if not (odds < np.inf).all():
        i, j = np.argwhere(~(odds < np.inf))[0]
        raise InputError(
            f"log_odds must be below infinity; element ({i}, {j}) is {odds[i, j]}. To require an "
            "edge use Knowledge"
        )
    sizes = np.arange(p)
    constants = gammaln((delta + n + sizes) / 2) - n / 2 * np.log(np.pi)
    constants -= gammaln((delta + sizes) / 2)
    degrees = np.array([delta + n, delta])
    matrices = np.concatenate([draws + scatter, draws]).transpose(1, 2, 0)
    return LocalScores(
        matrices=np.ascontiguousarray(matrices),
        n_draws=len(draws),
        degrees=degrees,
        constants=constants,
        edge_bonus=odds.copy(),
        end_deviations=np.zeros((p, len(draws))),
        improvement=_SMALLEST_IMPROVEMENT + _ROUNDING * p * degrees[0],
    )


def thinned(scores: LocalScores, n_draws: int) -> LocalScores:
    """The scores with ``n_draws`` evenly spaced draws; with all, if there are no more."""
    if scores.n_draws <= n_draws:
        return scores
    places = np.linspace(0, scores.n_draws - 1, n_draws).round().astype(int)
    halves = scores.matrices.shape[2] // scores.n_draws
    lanes = np.concatenate([places + half * scores.n_draws for half in range(halves)])
    return scores._replace(
        matrices=np.ascontiguousarray(scores.matrices[:, :, lanes]),
        n_draws=n_draws,
        end_deviations=np.ascontiguousarray(scores.end_deviations[:, places]),
    )


def scores_workspace(scores: LocalScores, max_parents: int) -> tuple[np.ndarray, ...]:
    """Scratch arrays of the kernels below, for families with up to ``max_parents`` parents."""
    p, _, lanes = scores.matrices.shape
    return np.empty((max_parents + 1, p, lanes)), np.empty((p, lanes)), np.empty(lanes)


def graph_score(scores: LocalScores, adjacency: np.ndarray) -> float:
    """Sum of the local scores of all families of a DAG."""
    adjacency = _adjacency(scores, adjacency)
    work = scores_workspace(scores, len(adjacency) - 1)
    return float(_graph_score(scores, adjacency, work))


def score_differences(scores: LocalScores, adjacency, other) -> np.ndarray:
    """Score of a DAG minus that of another, under every draw; only families that differ are scored."""
    adjacency, other = _adjacency(scores, adjacency), _adjacency(scores, other)
    work = scores_workspace(scores, len(adjacency) - 1)
    totals = np.zeros(scores.n_draws)
    _add_differences(scores, adjacency, other, totals, work)
    return totals


def _adjacency(scores: LocalScores, adjacency) -> np.ndarray:
    """A graph in the form that kernels take."""
    (adjacency,) = check_adjacencies([adjacency], 1, len(scores.matrices))
    return np.ascontiguousarray(adjacency)


@kernel(error_model="numpy")
def score_additions(scores, node, parents, n_parents, allowed, out, work):
    """Score node with its parents, and write the score with each allowed variable added.

    Returns the score of the family itself, minus infinity where a matrix is numerically singular.
    ``allowed`` marks the candidates; the others get minus infinity.
    """
    rows, variances, residual = work
    p, _, lanes = scores.matrices.shape
    base, bonus, determinant, determinant_at_sigma_h = _score(
        scores, node, parents, n_parents, allowed, rows, variances
    )
    for a in range(p):
        out[a] = -np.inf
        if not allowed[a]:
            continue
        variance, left, right = variances[a], scores.matrices[node, a], variances[node]
        for lane in range(lanes):
            residual[lane] = left[lane]
        for r in range(n_parents):
            ours, theirs = rows[r, node], rows[r, a]
            for lane in range(lanes):
                residual[lane] -= ours[lane] * theirs[lane]
        for lane in range(lanes):
            residual[lane] = right[lane] - residual[lane] * residual[lane] / variance[lane]
        of_added, of_added_at_sigma_h = _mean_logs(scores, variance)
        of_node, of_node_at_sigma_h = _mean_logs(scores, residual)
        out[a] = _family(
            scores,
            n_parents + 1,
            bonus + scores.edge_bonus[a, node],
            determinant + of_added,
            determinant_at_sigma_h + of_added_at_sigma_h,
            of_node,
            of_node_at_sigma_h,
        )
    return base


@kernel(error_model="numpy")
def local_score(scores, node, parents, n_parents, work):
    """Score of one family."""
    rows, variances, _ = work
    nobody = np.zeros(scores.matrices.shape[0], dtype=np.bool_)
    return _score(scores, node, parents, n_parents, nobody, rows, variances)[0]


@kernel(error_model="numpy", inline="always")
def add_scores_by_draw(scores, node, parents, n_parents, sign, totals, work):
    """Add ``sign`` times the family's score under every single draw; their mean is `local_score`."""
    rows, variances, _ = work
    nobody = np.zeros(scores.matrices.shape[0], dtype=np.bool_)
    _, bonus, _, _ = _score(scores, node, parents, n_parents, nobody, rows, variances)
    n = scores.n_draws
    two_halves = scores.matrices.shape[2] > n
    for draw in range(n):
        determinant = 0.0
        at_sigma_h = 0.0
        beyond = n_parents * scores.end_deviations[node, draw]
        for r in range(n_parents):
            beyond += scores.end_deviations[parents[r], draw]
            determinant += np.log(variances[parents[r], draw])
            if two_halves:
                at_sigma_h += np.log(variances[parents[r], n + draw])
        residual = np.log(variances[node, draw])
        residual_at_sigma_h = np.log(variances[node, n + draw]) if two_halves else 0.0
        edges = bonus + beyond
        totals[draw] += sign * _family(
            scores, n_parents, edges, determinant, at_sigma_h, residual, residual_at_sigma_h
        )


@kernel(error_model="numpy")
def _score(scores, node, parents, n_parents, allowed, rows, variances):
    """Condition on the parents; returns the family's score, the bonus of its edges, and ln|M_PP|.

    The mean of ln|M_PP| over the draws is returned at sigma_h + T and at sigma_h.
    """
    _condition(scores, node, parents, n_parents, allowed, rows, variances)
    determinant, determinant_at_sigma_h, bonus = 0.0, 0.0, 0.0
    for r in range(n_parents):
        bonus += scores.edge_bonus[parents[r], node]
        logs = _mean_logs(scores, variances[parents[r]])
        determinant += logs[0]
        determinant_at_sigma_h += logs[1]
    residual, residual_at_sigma_h = _mean_logs(scores, variances[node])
    value = _family(
        scores,
        n_parents,
        bonus,
        determinant,
        determinant_at_sigma_h,
        residual,
        residual_at_sigma_h,
    )
    return value, bonus, determinant, determinant_at_sigma_h


@kernel(error_model="numpy", inline="always")
def _condition(scores, node, parents, n_parents, allowed, rows, variances):
    """Conditional variances of the node and the candidates given the parents, all draws at once.

    ``rows[r, a]`` is the covariance of a with parent r given the parents before it, over that
    parent's conditional standard deviation; a parent's own variance is given the parents before it.
    """
    p, _, lanes = scores.matrices.shape
    wanted = allowed.copy()
    wanted[node] = True
    for r in range(n_parents):
        wanted[parents[r]] = True
    for a in range(p):
        if wanted[a]:
            for lane in range(lanes):
                variances[a, lane] = scores.matrices[a, a, lane]
    for r in range(n_parents):
        parent = parents[r]
        wanted[parent] = False
        pivot = variances[parent]
        for a in range(p):
            if not wanted[a]:
                continue
            row, covariance, variance = rows[r, a], scores.matrices[parent, a], variances[a]
            for lane in range(lanes):
                row[lane] = covariance[lane]
            for t in range(r):
                ours, theirs = rows[t, parent], rows[t, a]
                for lane in range(lanes):
                    row[lane] -= ours[lane] * theirs[lane]
            for lane in range(lanes):
                row[lane] /= np.sqrt(pivot[lane])
                variance[lane] -= row[lane] * row[lane]


@kernel(error_model="numpy")
def _mean_logs(scores, values):
    """Means over the draws of the logarithms of ``values`` (lanes,), at sigma_h + T and at sigma_h."""
    n = scores.n_draws
    at_sum = _sum_of_logs(values, 0, n)
    at_sigma_h = _sum_of_logs(values, n, values.size)
    return at_sum / n, at_sigma_h / n


@kernel(error_model="numpy", inline="always")
def _sum_of_logs(values, first, last):
    """Sum of the logarithms of some values; nan if one of them is not positive."""
    total, product = 0.0, 1.0
    for lane in range(first, last):
        value = values[lane]
        if not value > 0.0:
            return np.nan
        if not (SMALLEST_PRODUCT < product < LARGEST_PRODUCT):
            total += np.log(product)
            product = 1.0
        product *= value
    return total + np.log(product)


@kernel(error_model="numpy", inline="always")
def _family(scores, n_parents, bonus, determinant, at_sigma_h, residual, residual_at_sigma_h):
    """Assemble a score from ln|M_PP| and the log residual scale, each at sigma_h + T and at sigma_h."""
    value = scores.constants[n_parents] + bonus
    value -= (scores.degrees[0] + n_parents) / 2.0 * residual
    value -= determinant / 2.0
    value += (scores.degrees[1] + n_parents) / 2.0 * residual_at_sigma_h
    value += at_sigma_h / 2.0
    return value if np.isfinite(value) else -np.inf


@kernel
def best_first(values, least, order):
    """Write the places of the values above ``least``, the largest first; return how many there are."""
    count = 0
    for place in range(values.size):
        if values[place] > least:
            k = count
            while k > 0 and values[order[k - 1]] < values[place]:
                order[k] = order[k - 1]
                k -= 1
            order[k] = place
            count += 1
    return count


@kernel
def parents_of(adjacency, node):
    """The parents of a node, in their order; compiles faster than numpy's `flatnonzero`."""
    parents = np.empty(adjacency.shape[0], dtype=np.int64)
    count = 0
    for a in range(adjacency.shape[0]):
        if adjacency[a, node]:
            parents[count] = a
            count += 1
    return parents[:count]


@kernel
def _graph_score(scores, adjacency, work):
    total = 0.0
    for node in range(adjacency.shape[0]):
        parents = parents_of(adjacency, node)
        total += local_score(scores, node, parents, parents.size, work)
    return total


@kernel(error_model="numpy")
def _add_differences(scores, adjacency, other, totals, work):
    for node in range(adjacency.shape[0]):
        same = True
        for a in range(adjacency.shape[0]):
            same &= adjacency[a, node] == other[a, node]
        if same:
            continue
        for sign, graph in ((1.0, adjacency), (-1.0, other)):
            parents = parents_of(graph, node)
            add_scores_by_draw(scores, node, parents, parents.size, sign, totals, work)
