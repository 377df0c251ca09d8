"""Local scores of one task, averaged over draws of sigma_h (docs/model.md, section 10).

The score of node k with parents P is a mean over draws of logarithms of two quantities at sigma_h + T
and at sigma_h: the residual scale of k given P, and the determinant of P. Both are products of
conditional variances, so that all families with one parent more share one factorisation. Where a family
may be an own family, the score is that of a mixture of a tied and an own family.
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


class OwnFamilies(NamedTuple):
    """What a family of a task is if it is an own family, and how probable that is a priori.

    ``matrix`` (p, p) and ``delta`` are its prior matrix and degrees of freedom, ``log_share`` and
    ``log_rest`` the log prior probabilities of an own and of a tied family.
    """

    matrix: np.ndarray
    delta: float
    log_share: float
    log_rest: float


class LocalScores(NamedTuple):
    """The data of one task and its prior matrices, in the form in which families are scored.

    Prior matrices come in components: the draws of sigma_h, and for own families one matrix more. The
    score of a family under a component is the mean over its matrices; the score is that of the mixture.

    Attributes
    ----------
    matrices : array (p, p, lanes)
        Prior matrix plus T for all prior matrices, and then, except under a structure prior whose
        normaliser cancels them, all prior matrices.
    starts : array (components + 1,)
        Place of the first matrix of every component, and the number of all.
    log_weights : array (components,)
        Log prior probabilities of the components.
    degrees : array (components, 2)
        delta + n and delta.
    constants : array (components, p)
        The part of the score that depends on the number of parents only.
    edge_bonus : array (p, p)
        Added for every edge: the log odds of the edge prior, and the factor of the structure prior for
        single edges. Where it is symmetric, and there is one component, Markov equivalent graphs have
        equal scores.
    end_deviations : array (p, draws)
        Bonus under a draw minus its mean, half for each end of an edge.
    improvement : float
        The smallest difference between scores that is not a rounding error.
    """

    matrices: np.ndarray
    starts: np.ndarray
    log_weights: np.ndarray
    degrees: np.ndarray
    constants: np.ndarray
    edge_bonus: np.ndarray
    end_deviations: np.ndarray
    improvement: float

    @property
    def n_draws(self) -> int:
        """Number of draws of sigma_h, the matrices of the first component."""
        return int(self.starts[1])


class Workspace(NamedTuple):
    """Scratch arrays of the kernels, for families with a largest number of parents.

    ``rows`` (parents + 1, p, lanes), ``variances`` (p, lanes), ``residual`` (lanes,). ``logs``
    (3, components, 2) are means of logarithms with and without T: the log determinant of the parents,
    that of one parent more, and the log residual scale of the node. One array, because structures with
    many arrays make calls slow.
    """

    rows: np.ndarray
    variances: np.ndarray
    residual: np.ndarray
    logs: np.ndarray


def gather_scores(
    scatter,
    n: float,
    sigma_h_draws,
    nu0: float,
    log_odds=0.0,
    *,
    own: OwnFamilies | None = None,
    checked: bool = False,
) -> LocalScores:
    """Prepare the local scores of one task.

    Summed over the families of a DAG they give the mean over the draws of the log marginal
    likelihood, up to a constant that is the same for all DAGs, plus the edge prior: ``log_odds``
    are the prior log odds of every edge i -> j, a number or an array (p, p). With ``own``, every family
    is a mixture of a family tied to sigma_h and an own family. ``checked`` leaves out
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
    deltas, log_weights = np.array([delta]), np.zeros(1)
    starts, priors = np.array([0, len(draws)]), draws
    if own is not None:
        deltas = np.append(deltas, own.delta)
        log_weights = np.array([own.log_rest, own.log_share])
        starts = np.append(starts, len(draws) + 1)
        priors = np.concatenate([draws, own.matrix[None]])
    sizes = deltas[:, None] + np.arange(p)
    constants = gammaln((sizes + n) / 2) - n / 2 * np.log(np.pi)
    constants -= gammaln(sizes / 2)
    degrees = np.stack([deltas + n, deltas], axis=1)
    matrices = np.concatenate([priors + scatter, priors]).transpose(1, 2, 0)
    return LocalScores(
        matrices=np.ascontiguousarray(matrices),
        starts=starts,
        log_weights=log_weights,
        degrees=degrees,
        constants=constants,
        edge_bonus=odds.copy(),
        end_deviations=np.zeros((p, len(draws))),
        improvement=_SMALLEST_IMPROVEMENT + _ROUNDING * p * float(degrees.max()),
    )


def thinned(scores: LocalScores, n_draws: int) -> LocalScores:
    """The scores with ``n_draws`` evenly spaced draws; with all, if there are no more."""
    if scores.n_draws <= n_draws:
        return scores
    places = np.linspace(0, scores.n_draws - 1, n_draws).round().astype(int)
    n_matrices = int(scores.starts[-1])
    kept = np.concatenate([places, np.arange(scores.n_draws, n_matrices)])
    halves = scores.matrices.shape[2] // n_matrices
    lanes = np.concatenate([kept + half * n_matrices for half in range(halves)])
    starts = np.array(scores.starts)
    starts[1:] -= n_matrices - len(kept)
    return scores._replace(
        matrices=np.ascontiguousarray(scores.matrices[:, :, lanes]),
        starts=starts,
        end_deviations=np.ascontiguousarray(scores.end_deviations[:, places]),
    )


def scores_workspace(scores: LocalScores, max_parents: int) -> Workspace:
    """Scratch arrays of the kernels below, for families with up to ``max_parents`` parents."""
    p, _, lanes = scores.matrices.shape
    return Workspace(
        rows=np.empty((max_parents + 1, p, lanes)),
        variances=np.empty((p, lanes)),
        residual=np.empty(lanes),
        logs=np.empty((3, len(scores.log_weights), 2)),
    )


def graph_score(scores: LocalScores, adjacency: np.ndarray) -> float:
    """Sum of the local scores of all families of a DAG."""
    adjacency = _adjacency(scores, adjacency)
    work = scores_workspace(scores, len(adjacency) - 1)
    return float(_graph_score(scores, adjacency, work))


def score_differences(scores: LocalScores, adjacency, other) -> np.ndarray:
    """Score of a DAG minus that of another, under every draw; only families that differ are scored.

    Their mean is the difference of the scores. Of a mixture, the score of the tied family varies with
    the draw, weighted with the probability that the family is tied.
    """
    adjacency, other = _adjacency(scores, adjacency), _adjacency(scores, other)
    work = scores_workspace(scores, len(adjacency) - 1)
    totals = np.zeros(scores.n_draws)
    _add_differences(scores, adjacency, other, totals, work)
    return totals


def _adjacency(scores: LocalScores, adjacency) -> np.ndarray:
    """A graph in the form that kernels take."""
    (adjacency,) = check_adjacencies([adjacency], 1, len(scores.matrices))
    return np.ascontiguousarray(adjacency)


def log_odds_of_ties(scores: LocalScores, adjacency: np.ndarray) -> np.ndarray:
    """Log odds that the families of a DAG are tied, (p,); of scores with own families."""
    adjacency = _adjacency(scores, adjacency)
    work = scores_workspace(scores, len(adjacency) - 1)
    values = np.empty((len(scores.log_weights), len(adjacency)))
    _write_components(scores, adjacency, values, work)
    return values[0] - values[1]


@kernel(error_model="numpy")
def score_additions(scores, node, parents, n_parents, allowed, out, work):
    """Score node with its parents, and write the score with each allowed variable added.

    Returns the score of the family itself, minus infinity where a matrix is numerically singular.
    ``allowed`` marks the candidates; the others get minus infinity.
    """
    rows, variances, residual = work.rows, work.variances, work.residual
    p, _, lanes = scores.matrices.shape
    base, bonus = _score(scores, node, parents, n_parents, allowed, work)
    of_parents, of_added, of_node = work.logs[0], work.logs[1], work.logs[2]
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
        _write_mean_logs(scores, variance, of_added)
        _write_mean_logs(scores, residual, of_node)
        for c in range(scores.log_weights.size):
            of_added[c, 0] += of_parents[c, 0]
            of_added[c, 1] += of_parents[c, 1]
        edges = bonus + scores.edge_bonus[a, node]
        out[a] = edges + _mixture(scores, n_parents + 1, of_added, of_node)
    return base


@kernel(error_model="numpy")
def local_score(scores, node, parents, n_parents, work):
    """Score of one family."""
    nobody = np.zeros(scores.matrices.shape[0], dtype=np.bool_)
    return _score(scores, node, parents, n_parents, nobody, work)[0]


@kernel(error_model="numpy", inline="always")
def add_scores_by_draw(scores, node, parents, n_parents, sign, totals, work):
    """Add ``sign`` times the family's score under every single draw; their mean is `local_score`."""
    variances = work.variances
    nobody = np.zeros(scores.matrices.shape[0], dtype=np.bool_)
    value, bonus = _score(scores, node, parents, n_parents, nobody, work)
    mean = _component(scores, 0, n_parents, work.logs[0], work.logs[2])
    share = np.exp(scores.log_weights[0] + mean - (value - bonus))
    n_draws, n_matrices = totals.size, scores.starts[-1]
    two_halves = scores.matrices.shape[2] > n_matrices
    of_parents, of_node = work.logs[1], work.logs[2]
    of_parents[0, 1] = of_node[0, 1] = 0.0
    for draw in range(n_draws):
        of_parents[0, 0] = of_parents[0, 1] = 0.0
        beyond = n_parents * scores.end_deviations[node, draw]
        for r in range(n_parents):
            beyond += scores.end_deviations[parents[r], draw]
            of_parents[0, 0] += np.log(variances[parents[r], draw])
            if two_halves:
                of_parents[0, 1] += np.log(variances[parents[r], n_matrices + draw])
        of_node[0, 0] = np.log(variances[node, draw])
        if two_halves:
            of_node[0, 1] = np.log(variances[node, n_matrices + draw])
        of_draw = _component(scores, 0, n_parents, of_parents, of_node)
        totals[draw] += sign * (value + beyond + share * (of_draw - mean))


@kernel(error_model="numpy", forceinline=True)
def _score(scores, node, parents, n_parents, allowed, work):
    """Condition on the parents; returns the family's score, and the bonus of its edges in it.

    The first and the last of ``logs`` in ``work`` belong to the family afterwards.
    """
    _condition(scores, node, parents, n_parents, allowed, work.rows, work.variances)
    of_parents, of_added, of_node = work.logs[0], work.logs[1], work.logs[2]
    n_components = scores.log_weights.size
    for c in range(n_components):
        of_parents[c, 0] = of_parents[c, 1] = 0.0
    bonus = 0.0
    for r in range(n_parents):
        bonus += scores.edge_bonus[parents[r], node]
        _write_mean_logs(scores, work.variances[parents[r]], of_added)
        for c in range(n_components):
            of_parents[c, 0] += of_added[c, 0]
            of_parents[c, 1] += of_added[c, 1]
    _write_mean_logs(scores, work.variances[node], of_node)
    return bonus + _mixture(scores, n_parents, of_parents, of_node), bonus


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
def _write_mean_logs(scores, values, means):
    """Write the means of the logarithms of ``values`` (lanes,) with and without T, by component."""
    n_matrices = scores.starts[-1]
    for c in range(scores.log_weights.size):
        first, last = scores.starts[c], scores.starts[c + 1]
        means[c, 0] = _sum_of_logs(values, first, last) / (last - first)
        means[c, 1] = 0.0
        if values.size > n_matrices:
            without = _sum_of_logs(values, n_matrices + first, n_matrices + last)
            means[c, 1] = without / (last - first)


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
def _component(scores, c, n_parents, of_parents, of_node):
    """Score of a family under one component, from ln|M_PP| and the log residual scale."""
    value = scores.constants[c, n_parents]
    value -= (scores.degrees[c, 0] + n_parents) / 2.0 * of_node[c, 0]
    value -= of_parents[c, 0] / 2.0
    value += (scores.degrees[c, 1] + n_parents) / 2.0 * of_node[c, 1]
    value += of_parents[c, 1] / 2.0
    return value if np.isfinite(value) else -np.inf


@kernel(error_model="numpy")
def _mixture(scores, n_parents, of_parents, of_node):
    """Score of a family under the mixture of all components."""
    value = scores.log_weights[0] + _component(scores, 0, n_parents, of_parents, of_node)
    for c in range(1, scores.log_weights.size):
        other = scores.log_weights[c] + _component(scores, c, n_parents, of_parents, of_node)
        largest = max(value, other)
        if largest > -np.inf:
            value = largest + np.log1p(np.exp(min(value, other) - largest))
    return value


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


@kernel(error_model="numpy")
def _write_components(scores, adjacency, values, work):
    """Write the log weight of every component plus the score under it, for all families of a DAG."""
    nobody = np.zeros(adjacency.shape[0], dtype=np.bool_)
    for node in range(adjacency.shape[0]):
        parents = parents_of(adjacency, node)
        _score(scores, node, parents, parents.size, nobody, work)
        for c in range(values.shape[0]):
            values[c, node] = scores.log_weights[c] + _component(
                scores, c, parents.size, work.logs[0], work.logs[2]
            )
