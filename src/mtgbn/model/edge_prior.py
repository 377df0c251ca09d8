"""The edge prior: how dense the graphs are and how alike (docs/model.md, sections 11 and 14).

The undirected edge jk is in a task with probability pi_jk, the same for all members, and
pi_jk ~ Beta(s r_jk, s (1 - r_jk)), integrated out. r is the density, s the similarity. Members that
join the same pair are likely to do so in the same direction: the share of members whose edge goes one
way is Beta(agreement, agreement), integrated out as well. Single tasks share nothing.

All of it is here: prior odds and probabilities, in numpy and for compiled code; directions; edges that
can go one way only; what users may set; estimation. Other modules ask for odds and probabilities.
"""

from collections.abc import Sequence
from math import log, log1p
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.graphs import skeleton
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

# Edges per variable that the default density expects, and the default similarity: docs/decisions.md.
_EDGES_PER_VARIABLE = 0.5
_SIMILARITY = 4.0

# An estimated similarity is at least the default one or, with few tasks, this much per task.
_LEAST_SIMILARITY_PER_TASK = 0.4

# Both parameters of the Beta distribution of directions, per task.
_AGREEMENT_PER_TASK = 0.4


class EdgePrior(NamedTuple):
    """Density r, one for all pairs or one per pair, and similarity s.

    The smaller s, the more alike the graphs: 1/(1 + s) is the prior correlation between an edge's
    presence in one task and in another. s is infinite where tasks share no edges.

    Examples
    --------
    >>> prior = EdgePrior(density=0.1, similarity=2.0)
    >>> float(np.exp(prior.log_odds(np.array(3), 4)).round(3))  # three of four others have the edge
    1.143
    """

    density: float | np.ndarray
    similarity: float

    def log_odds(self, counts: np.ndarray, n_others: int) -> np.ndarray:
        """Log prior odds of every edge in one task, given that ``counts`` of ``n_others`` have it."""
        r, s = self
        return np.log(r + counts / s) - np.log1p((n_others - counts) / s - r)

    def log_probability(
        self, counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None
    ) -> float:
        """Joint log prior of the skeletons of all tasks, of which ``counts`` have every edge.

        ``free`` (p, p) are the pairs that count, all if left out: pairs that prior knowledge settles
        tell nothing.

        Beta functions are written as products and divided by s throughout, which is exact for graphs
        that are almost identical (s -> 0) and for unrelated ones (s = inf).
        """
        r, s = self
        pairs = _pairs(counts, free)
        present = counts[pairs]
        if not isinstance(r, np.ndarray):
            return self._log_probability_of(np.bincount(present, minlength=n_tasks + 1))
        steps = np.arange(n_tasks) / s
        r = r[pairs][:, None]
        having = np.where(np.arange(n_tasks) < present[:, None], np.log(r + steps), 0.0)
        absent = n_tasks - present[:, None]
        lacking = np.where(np.arange(n_tasks) < absent, np.log1p(steps - r), 0.0)
        return float(having.sum() + lacking.sum() - len(present) * np.log1p(steps).sum())

    def _log_probability_of(self, times: np.ndarray) -> float:
        """Log probability if ``times[k]`` pairs are joined in k tasks, and r is one number."""
        r, s = self
        steps = np.arange(len(times) - 1) / s
        having, lacking = np.zeros((2, len(times)))
        np.cumsum(np.log(r + steps), out=having[1:])
        np.cumsum(np.log1p(steps - r), out=lacking[1:])
        return float(times @ (having + lacking[::-1] - np.log1p(steps).sum()))

    def single(self) -> "EdgePrior":
        """The prior of a single task with the same density."""
        return self._replace(similarity=np.inf)

    def matrix_of_log_odds(self, p: int) -> np.ndarray:
        """Log prior odds of every edge in a single task, (p, p)."""
        return np.array(np.broadcast_to(self.log_odds(np.zeros((p, p)), 0), (p, p)))

    def matrix(self, p: int) -> np.ndarray:
        """Densities of all pairs, (p, p)."""
        return np.array(np.broadcast_to(self.density, (p, p)), dtype=float, order="C")


def edge_counts(adjacencies: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """How many tasks have each edge, in either direction, (p, p)."""
    return np.array([skeleton(each) for each in adjacencies]).sum(axis=0, dtype=np.int64)


def free_pairs(allowed: np.ndarray, required: np.ndarray) -> np.ndarray:
    """Pairs that may be joined or not, (p, p); prior knowledge settles the others."""
    return (allowed | np.swapaxes(allowed, -1, -2)) & ~(required | required.T)


def _pairs(counts: np.ndarray, free: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Positions above the diagonal of the free pairs."""
    everything = np.ones(counts.shape, dtype=bool) if free is None else free
    return np.nonzero(np.triu(everything, 1))


def one_way_log_odds(allowed: np.ndarray) -> np.ndarray:
    """What is added to the log prior odds of edges i -> j that can go one way only, (p, p).

    The prior odds of an edge are those of a pair. Every order of the variables admits one of its two
    directions. Only every second order admits an edge that can go one way, so that its odds given an
    order must be twice as large for the pair to have the same probability.
    """
    return np.log(2) * (allowed & ~allowed.T)


def log_odds_of_directions(
    n_forward: np.ndarray, n_joined: np.ndarray, agreement: float
) -> np.ndarray:
    """What is added to the log prior odds of i -> j for its direction.

    ``n_joined`` other members join i and j, ``n_forward`` of them by i -> j.
    """
    return np.log1p((n_forward - n_joined / 2) / (agreement + n_joined / 2))


def edge_costs(ns: np.ndarray | float, min_strength: float) -> np.ndarray:
    """What an edge must be worth in a task's own data, in nats, for every n of ``ns``.

    An effect with the partial correlation rho raises the log likelihood of n rows by
    -(n/2) ln(1 - rho^2). An edge counts from rho = ``min_strength`` on, so that the gain of the weakest
    one is subtracted from the log likelihood for every edge of a graph (docs/model.md, section 11).
    """
    return -0.5 * np.asarray(ns, dtype=float) * np.log1p(-(min_strength**2))


def agreement_of(n_tasks: int, edge_prior: EdgePrior) -> float:
    """How independent the directions of shared edges are; infinity where tasks share no edges."""
    return _AGREEMENT_PER_TASK * n_tasks if np.isfinite(edge_prior.similarity) else np.inf


# What users may set: nothing, r, (r, s), a matrix of r, (matrix, s), or what is to be estimated.
EdgePriorSetting = float | tuple | np.ndarray | Literal["shared", "density", "sampled"] | None


class EdgePriorChoice(NamedTuple):
    """An edge prior to begin with, and where its numbers come from.

    ``source`` is "fixed"; "shared": r and s are estimated from the graphs of the single tasks;
    "density": r alone is, and tasks share no edges; "sampled": both are sampled with the graphs.
    """

    prior: EdgePrior
    source: Literal["fixed", "shared", "density", "sampled"] = "fixed"

    @property
    def is_fixed(self) -> bool:
        """Whether the numbers were given."""
        return self.source == "fixed"


def arranged(choice: EdgePriorChoice, order: Sequence[int]) -> EdgePriorChoice:
    """The same prior for variables in another order."""
    density = choice.prior.density
    if not isinstance(density, np.ndarray):
        return choice
    return choice._replace(prior=choice.prior._replace(density=density[np.ix_(order, order)]))


def edge_prior_of(given: Any, variables: Sequence[str]) -> EdgePriorChoice:
    """The edge prior that a user's setting means.

    ``given`` is None (fixed defaults), r, (r, s), "shared", "density", "sampled", a matrix of r, or
    (matrix, s); a data frame is matched by name.
    """
    p, whole = len(variables), given
    default = EdgePrior(min(2 * _EDGES_PER_VARIABLE / (p - 1), 0.5), _SIMILARITY)
    if isinstance(given, str):
        if given == "shared":
            return EdgePriorChoice(default, "shared")
        if given == "sampled":
            return EdgePriorChoice(default, "sampled")
        if given == "density":
            return EdgePriorChoice(default.single(), "density")
        raise _refusal(given)
    if given is None:
        return EdgePriorChoice(default)
    similarity = np.inf
    if isinstance(given, tuple | list) and len(given) == 2 and np.ndim(given[1]) == 0:
        given, similarity = given
    if isinstance(given, np.ndarray) and given.shape == (2,):
        given, similarity = given
    if hasattr(given, "columns"):
        given = _by_name(given, variables)
    try:
        density = np.array(given, dtype=float)
        similarity = float(similarity)
    except (TypeError, ValueError):
        raise _refusal(given) from None
    if density.shape == (1,):
        density = density[0]
    if density.ndim not in (0, 2) or not similarity > 0:
        raise _refusal(whole)
    if density.ndim == 0:
        if not 0 < density < 1:
            raise _refusal(whole)
        return EdgePriorChoice(EdgePrior(float(density), similarity))
    return EdgePriorChoice(EdgePrior(_checked_matrix(density, variables), similarity))


def _by_name(frame: Any, variables: Sequence[str]) -> np.ndarray:
    for labels, what in ((frame.columns, "column"), (frame.index, "row")):
        missing = [name for name in variables if name not in list(labels)]
        if missing:
            raise InputError(f"edge_prior has no {what} {missing[0]!r}")
    return frame.loc[list(variables), list(variables)].to_numpy()


def _checked_matrix(density: np.ndarray, variables: Sequence[str]) -> np.ndarray:
    p = len(variables)
    if density.shape != (p, p):
        raise InputError(
            f"edge_prior must be a ({p}, {p}) matrix, one row per variable; got {density.shape}"
        )
    outside = ~((density > 0) & (density < 1))
    np.fill_diagonal(outside, False)
    if outside.any():
        i, j = np.argwhere(outside)[0]
        raise InputError(
            f"edge_prior must hold probabilities between 0 and 1; that of {variables[i]} and "
            f"{variables[j]} is {density[i, j]}. To forbid or require an edge use Knowledge"
        )
    different = ~np.isclose(density, density.T, rtol=1e-9, atol=0)
    np.fill_diagonal(different, False)
    if different.any():
        i, j = np.argwhere(different)[0]
        raise InputError(
            f"edge_prior must be symmetric: it is a prior on undirected edges; {variables[i]} and "
            f"{variables[j]} have {density[i, j]} and {density[j, i]}"
        )
    density = (density + density.T) / 2
    np.fill_diagonal(density, 0.5)  # not used, but logarithms are taken of the whole matrix
    return density


def _refusal(given: Any) -> InputError:
    return InputError(
        "edge_prior must be a density r between 0 and 1, a pair (r, s) with a similarity s above 0 "
        "(inf: unrelated graphs), 'shared', 'density', 'sampled', or a symmetric matrix of edge "
        f"probabilities, alone or with s; got {given!r}"
    )


def smoothed_density(counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None) -> float:
    """Pooled edge density with add-one smoothing."""
    present = counts[_pairs(counts, free)]
    return float((present.sum() + 1) / (n_tasks * len(present) + 2))


def estimate_edge_prior(
    counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None
) -> EdgePrior:
    """Most probable r and s, given that ``counts`` of the tasks have each edge.

    r and 1/(1 + s) are uniform a priori. The density that is maximised is that of their logits, so
    that neither ends at its limit. Pairs that are not ``free`` (p, p) are left out.
    """
    if n_tasks < 2:
        return EdgePrior(smoothed_density(counts, n_tasks, free), np.inf)

    times = np.bincount(counts[_pairs(counts, free)], minlength=n_tasks + 1)

    def loss(x: np.ndarray) -> float:
        prior = EdgePrior(expit(x[0]), np.exp(-x[1]))
        return -prior._log_probability_of(times) - np.sum(log_expit(x) + log_expit(-x))

    # scipy's default simplex is nearly degenerate where a coordinate starts at 0.
    simplex = np.array([[-1.5, 0.0], [-0.5, 0.0], [-1.5, 1.0]])
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-9}
    best = minimize(loss, simplex[0], method="Nelder-Mead", options=options)
    return EdgePrior(float(expit(best.x[0])), float(np.exp(-best.x[1])))


def shared_edge_prior(
    counts: np.ndarray,
    n_tasks: int,
    free: np.ndarray | None = None,
    *,
    share: float = 0.0,
    pooled_density: float | None = None,
) -> EdgePrior:
    """The edge prior for joint learning, given that ``counts`` of the single tasks have each edge.

    It is more cautious than the estimate (docs/decisions.md): the density is lower and the similarity
    has a lower bound, so that edges of all other tasks are not taken for granted and edges of no
    other task need more evidence. Both corrections are weaker the larger ``share`` is, the weight of
    the other tasks in a task's coefficients, because equal coefficients come with equal edges; with
    many tasks they stay, because many tasks show effects that are smaller than the model's own error.
    With a large share the density is that of the pooled graph, ``pooled_density``, since single tasks
    miss weak edges.
    """
    r, s = estimate_edge_prior(counts, n_tasks, free)
    if n_tasks < 2:
        return EdgePrior(r, s)
    if pooled_density is not None:
        r = r ** (1 - share) * pooled_density**share
    r /= 1 + (n_tasks - 1) / max(s, _SIMILARITY)
    s = max(s, min(_SIMILARITY, _LEAST_SIMILARITY_PER_TASK * n_tasks))
    return EdgePrior(float(r), float(s * (1 - share) ** (1 / n_tasks)))


class EdgeTerms(NamedTuple):
    """The edge prior as compiled code needs it.

    Attributes
    ----------
    density : array (p, p)
        r of every pair.
    similarity, agreement : float
        s, and the parameter of the distribution of directions; infinity where nothing is shared.
    single_log_odds : array (p, p)
        Log prior odds of every edge in a single task.
    """

    density: np.ndarray
    similarity: float
    agreement: float
    single_log_odds: np.ndarray


@kernel(error_model="numpy", forceinline=True)
def log_odds_of_edge(terms, i, j, n_forward, n_backward, n_others):
    """Log odds of i -> j given that n_forward of n_others members have i -> j, n_backward j -> i."""
    r, s = terms.density[i, j], terms.similarity
    n_joined = n_forward + n_backward
    odds = (r + n_joined / s) / (1.0 - r + (n_others - n_joined) / s)
    return log(odds * (1.0 + (n_forward - n_joined / 2) / (terms.agreement + n_joined / 2)))


@kernel(error_model="numpy")
def add_log_odds(terms, adjacencies, members, counts, total):
    """Add to ``total`` (m, p, p) the log odds of every edge in every task, given the other members.

    A single task gets the odds that it would have if it joined. ``counts`` (p, p) are the members that
    have i -> j.
    """
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    # Most members lack most pairs, and all members that lack a pair have the same odds.
    of_member, if_joining = np.empty((p, p)), np.empty((p, p))
    for i in range(p):
        for j in range(p):
            forward, backward = counts[i, j], counts[j, i]
            of_member[i, j] = log_odds_of_edge(terms, i, j, forward, backward, n_members - 1)
            if_joining[i, j] = log_odds_of_edge(terms, i, j, forward, backward, n_members)
    for t in range(m):
        adjacency = adjacencies[t]
        for i in range(p):
            for j in range(p):
                if not members[t]:
                    total[t, i, j] += if_joining[i, j]
                elif adjacency[i, j] or adjacency[j, i]:
                    forward = counts[i, j] - adjacency[i, j]
                    backward = counts[j, i] - adjacency[j, i]
                    total[t, i, j] += log_odds_of_edge(
                        terms, i, j, forward, backward, n_members - 1
                    )
                else:
                    total[t, i, j] += of_member[i, j]


@kernel(inline="always")
def add_edges(adjacency, counts, weight):
    """Add the edges of a member to the counts, or take them out with a weight of -1."""
    p = adjacency.shape[0]
    for i in range(p):
        for j in range(p):
            if adjacency[i, j]:
                counts[i, j] += weight


@kernel(forceinline=True)
def softplus(x):
    """ln(1 + exp(x))."""
    return log1p(np.exp(x)) if x < 0.0 else x + log1p(np.exp(-x))


@kernel(error_model="numpy")
def log_probability_of_edges(terms, adjacencies, members, counts, free):
    """Log prior of the graphs of all tasks, given their orders, over the ``free`` (p, p) pairs.

    Beta functions are written as products and divided by s throughout, which is exact for graphs that
    are almost identical (s -> 0) and for unrelated ones (s = inf).
    """
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    s, agreement = terms.similarity, terms.agreement
    value, product = 0.0, 1.0
    for i in range(p):
        for j in range(i + 1, p):
            forward, joined = counts[i, j], counts[i, j] + counts[j, i]
            if free[i, j]:
                r = terms.density[i, j]
                # Numerators and denominators alternate, so that products stay in range.
                for k in range(n_members):
                    factor = r + k / s if k < joined else 1.0 - r + (k - joined) / s
                    factor /= 1.0 + k / s
                    if not SMALLEST_PRODUCT < factor < LARGEST_PRODUCT:
                        value += log(factor)
                        continue
                    product *= factor
                    if not SMALLEST_PRODUCT < product < LARGEST_PRODUCT:
                        value += log(product)
                        product = 1.0
                n_single = 0
                for t in range(m):
                    n_single += not members[t] and (adjacencies[t, i, j] or adjacencies[t, j, i])
                value += n_single * terms.single_log_odds[i, j]
                value -= (m - n_members) * softplus(terms.single_log_odds[i, j])
            if agreement < np.inf:
                for k in range(joined):
                    factor = agreement + (k if k < forward else k - forward)
                    product *= 2.0 * factor / (2.0 * agreement + k)
                    if not SMALLEST_PRODUCT < product < LARGEST_PRODUCT:
                        value += log(product)
                        product = 1.0
    return value + log(product)
