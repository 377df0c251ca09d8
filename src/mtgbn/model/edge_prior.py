"""The edge prior: how dense the graphs are and how alike (docs/model.md, sections 11 and 14).

The undirected edge jk is in a task with probability pi_jk, its frequency, the same for all members.
The distribution of the frequencies is that of three kinds of pairs, whose weights are sampled with the
graphs (`PairKinds`), or one that the user has fixed, Beta(s r_jk, s (1 - r_jk)) with the density r and
the similarity s (`EdgePrior`). Frequencies are integrated out: odds depend on the number of other
members that have the edge. Members that join the same pair are likely to do so in the same direction:
the share of members whose edge goes one way is Beta(agreement, agreement), integrated out as well.
Single tasks share nothing.

Prior odds and probabilities are here, in numpy and for compiled code; directions; edges that can go one
way only; what an edge costs. Other modules ask for odds and probabilities.
"""

from collections.abc import Sequence
from math import log, log1p
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mtgbn._utils.compiled import kernel
from mtgbn.graphs import skeleton
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT
from mtgbn.model.pair_kinds import PairKinds, write_log_table

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

    def matrix_of_log_odds(self, p: int) -> np.ndarray:
        """Log prior odds of every edge in a single task, (p, p)."""
        return np.array(np.broadcast_to(self.log_odds(np.zeros((p, p)), 0), (p, p)))

    def matrix(self, p: int) -> np.ndarray:
        """Densities of all pairs, (p, p)."""
        return np.array(np.broadcast_to(self.density, (p, p)), dtype=float, order="C")


def single_prior(prior: EdgePrior | PairKinds) -> EdgePrior:
    """The prior of a single task with the same density."""
    return EdgePrior(prior.density, np.inf)


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


def agreement_of(n_tasks: int, edge_prior: EdgePrior | PairKinds) -> float:
    """How independent the directions of shared edges are; infinity where tasks share no edges."""
    return _AGREEMENT_PER_TASK * n_tasks if np.isfinite(edge_prior.similarity) else np.inf


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
    n_members : int
    log_tables : array (3, members of the first group + 2, members of the second group + 2)
        Tables of the kinds of pairs for the members of both groups, for one more member of the first
        group, and for one more of the second; see `PairKinds.log_table`. Without groups all tasks are
        in the first one. Without any element, r and s hold.
    """

    density: np.ndarray
    similarity: float
    agreement: float
    single_log_odds: np.ndarray
    n_members: int
    log_tables: np.ndarray


@kernel(error_model="numpy")
def edge_terms(prior, agreement, members, groups):
    """The terms of ``prior``, a chain's state: its density, similarity, single_log_odds and kinds.

    ``groups`` (m,) is 1 for the tasks of the second group, 0 for all others.
    """
    n_members = n_second = 0
    for t in range(members.size):
        if members[t]:
            n_members += 1
            n_second += groups[t]
    n_first = n_members - n_second
    tables = np.empty((0, 0, 0))
    if prior.kinds.size:
        tables = np.empty((3, n_first + 2, n_second + 2))
        write_log_table(prior.kinds, n_first, n_second, tables[0])
        write_log_table(prior.kinds, n_first + 1, n_second, tables[1])
        if groups.any():
            write_log_table(prior.kinds, n_first, n_second + 1, tables[2])
    return EdgeTerms(
        prior.density, prior.similarity[()], agreement, prior.single_log_odds, n_members, tables
    )


@kernel(error_model="numpy", forceinline=True)
def log_odds_of_edge(terms, i, j, n_forward, n_backward, n_in_second, group, n_others):
    """Log odds of i -> j given that n_forward of n_others members have i -> j, n_backward j -> i.

    ``n_in_second`` of these members are in the second group, the task is in ``group``. With kinds of
    pairs, ``n_others`` is the number of members or one less.
    """
    n_joined = n_forward + n_backward
    of_direction = 1.0 + (n_forward - n_joined / 2) / (terms.agreement + n_joined / 2)
    if terms.log_tables.size:
        table = 0 if n_others < terms.n_members else 1 + group
        a, b = n_joined - n_in_second, n_in_second
        of_pair = terms.log_tables[table, a + 1 - group, b + group] - terms.log_tables[table, a, b]
        return of_pair + log(of_direction)
    r, s = terms.density[i, j], terms.similarity
    return log((r + n_joined / s) / (1.0 - r + (n_others - n_joined) / s) * of_direction)


@kernel(error_model="numpy")
def add_log_odds(terms, adjacencies, members, groups, counts, total):
    """Add to ``total`` (m, p, p) the log odds of every edge in every task, given the other members.

    A single task gets the odds that it would have if it joined. ``counts`` (2, p, p) are the members
    that have i -> j: all, and those of the second group.
    """
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    n_groups = 2 if groups.any() else 1
    # Most members lack most pairs, and all members of a group that lack a pair have the same odds.
    of_member, if_joining = np.empty((n_groups, p, p)), np.empty((n_groups, p, p))
    for group in range(n_groups):
        for i in range(p):
            for j in range(p):
                forward, backward = counts[0, i, j], counts[0, j, i]
                second = counts[1, i, j] + counts[1, j, i]
                of_member[group, i, j] = log_odds_of_edge(
                    terms, i, j, forward, backward, second, group, n_members - 1
                )
                if_joining[group, i, j] = log_odds_of_edge(
                    terms, i, j, forward, backward, second, group, n_members
                )
    for t in range(m):
        adjacency, group = adjacencies[t], groups[t]
        for i in range(p):
            for j in range(p):
                if not members[t]:
                    total[t, i, j] += if_joining[group, i, j]
                elif adjacency[i, j] or adjacency[j, i]:
                    forward = counts[0, i, j] - adjacency[i, j]
                    backward = counts[0, j, i] - adjacency[j, i]
                    second = counts[1, i, j] + counts[1, j, i] - group
                    total[t, i, j] += log_odds_of_edge(
                        terms, i, j, forward, backward, second, group, n_members - 1
                    )
                else:
                    total[t, i, j] += of_member[group, i, j]


@kernel(error_model="numpy")
def directed_counts(adjacencies, members, groups):
    """How many members have i -> j, (2, p, p): all members, and those of the second group."""
    m, p, _ = adjacencies.shape
    counts = np.zeros((2, p, p), dtype=np.int64)
    for t in range(m):
        if members[t]:
            add_member(adjacencies[t], groups[t], counts, 1)
    return counts


@kernel(inline="always")
def add_member(adjacency, group, counts, weight):
    """Add the edges of a member to the ``counts`` (2, p, p), or take them out with a weight of -1."""
    p = adjacency.shape[0]
    for i in range(p):
        for j in range(p):
            if adjacency[i, j]:
                counts[0, i, j] += weight
                counts[1, i, j] += weight * group


@kernel(forceinline=True)
def softplus(x):
    """ln(1 + exp(x))."""
    return log1p(np.exp(x)) if x < 0.0 else x + log1p(np.exp(-x))


@kernel(error_model="numpy")
def log_probability_of_edges(terms, adjacencies, members, counts, free):
    """Log prior of the graphs of all tasks, given their orders, over the ``free`` (p, p) pairs.

    ``counts`` (2, p, p) are those of `directed_counts`.

    Beta functions are written as products and divided by s throughout, which is exact for graphs that
    are almost identical (s -> 0) and for unrelated ones (s = inf).
    """
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    s, agreement = terms.similarity, terms.agreement
    value, product = 0.0, 1.0
    for i in range(p):
        for j in range(i + 1, p):
            forward, joined = counts[0, i, j], counts[0, i, j] + counts[0, j, i]
            if free[i, j]:
                r = terms.density[i, j]
                n_factors = n_members
                if terms.log_tables.size:
                    second = counts[1, i, j] + counts[1, j, i]
                    value += terms.log_tables[0, joined - second, second]
                    n_factors = 0
                # Numerators and denominators alternate, so that products stay in range.
                for k in range(n_factors):
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
