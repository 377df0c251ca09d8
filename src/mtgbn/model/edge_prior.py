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
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mtgbn._utils.compiled import kernel
from mtgbn.graphs import skeleton
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

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


# Frequencies that a varying pair may have, all with the same probability.
FREQUENCIES = np.arange(1, 16) / 16

# Places of the fields of `PairKinds` in an array.
ABSENT, COMMON, VARYING, RARE, USUAL = range(5)


class PairKinds(NamedTuple):
    """Three kinds of pairs: absent in nearly all tasks, common to nearly all tasks, and varying.

    ``absent``, ``common`` and ``varying`` are the shares of the kinds among all pairs. A task joins an
    absent pair with the probability ``rare``, a common pair with the probability ``usual``. A varying
    pair has one of the frequencies 1/16, 2/16, ..., 15/16, which are equally probable.

    Examples
    --------
    >>> prior = PairKinds(absent=0.85, common=0.1, varying=0.05, rare=0.01, usual=0.99)
    >>> odds = np.exp(prior.log_odds(np.array([0, 5, 9]), 9))  # none, five, all of nine others have it
    >>> odds.round(3).tolist()
    [0.011, 1.2, 67.904]
    """

    absent: float
    common: float
    varying: float
    rare: float
    usual: float

    def log_odds(self, counts: np.ndarray, n_others: int) -> np.ndarray:
        """Log prior odds of every edge in one task, given that ``counts`` of ``n_others`` have it."""
        table = self.log_table(n_others + 1)
        return table[counts + 1] - table[counts]

    def log_table(self, n_tasks: int) -> np.ndarray:
        """Log probability that exactly c given tasks have a pair, for c = 0, ..., n_tasks."""
        table = np.empty(n_tasks + 1)
        write_log_table(np.array(self, dtype=float), table)
        return table

    @property
    def density(self) -> float:
        """Prior probability of an edge."""
        return self.absent * self.rare + self.common * self.usual + self.varying / 2

    @property
    def similarity(self) -> float:
        """The s of a Beta distribution of frequencies that has the same mean and variance.

        1/(1 + s) is the correlation between an edge's presence in one task and in another.
        """
        second = self.absent * self.rare**2 + self.common * self.usual**2
        second += self.varying * float(np.mean(FREQUENCIES**2))
        r = self.density
        return (r - second) / (second - r**2)

    def single(self) -> EdgePrior:
        """The prior of a single task with the same density."""
        return EdgePrior(self.density, np.inf)

    def matrix(self, p: int) -> np.ndarray:
        """Densities of all pairs, (p, p)."""
        return self.single().matrix(p)


def first_kinds(density: float) -> PairKinds:
    """The kinds with which chains begin: as many common pairs as a density says, few varying ones."""
    common, varying = 0.8 * density, 0.2 * density
    return PairKinds(1 - common - varying, common, varying, rare=0.02, usual=0.95)


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
    log_tables : array (2, n_members + 2)
        Tables of the kinds of pairs for n_members and for one more; see `PairKinds.log_table`. Without
        any element, r and s hold.
    """

    density: np.ndarray
    similarity: float
    agreement: float
    single_log_odds: np.ndarray
    n_members: int
    log_tables: np.ndarray


@kernel(error_model="numpy")
def log_varying(c, n):
    """Log probability that c given tasks of n have a pair, if the pair is varying."""
    top, total = -np.inf, 0.0
    for frequency in FREQUENCIES:
        value = c * log(frequency) + (n - c) * log1p(-frequency)
        if value > top:
            total = total * exp(top - value) + 1.0
            top = value
        else:
            total += exp(value - top)
    return top + log(total / FREQUENCIES.size)


@kernel(error_model="numpy")
def log_shares(kinds, c, n, values):
    """Write the log probability of each kind together with c given tasks of n that have the pair."""
    values[ABSENT] = log(kinds[ABSENT]) + c * log(kinds[RARE]) + (n - c) * log1p(-kinds[RARE])
    values[COMMON] = log(kinds[COMMON]) + c * log(kinds[USUAL]) + (n - c) * log1p(-kinds[USUAL])
    values[VARYING] = log(kinds[VARYING]) + log_varying(c, n)


@kernel(error_model="numpy")
def write_log_table(kinds, table):
    """Write `PairKinds.log_table`; the length of ``table`` tells the number of tasks."""
    n = table.size - 1
    values = np.empty(3)
    for c in range(n + 1):
        log_shares(kinds, c, n, values)
        top = values.max()
        table[c] = top + log(np.exp(values - top).sum())


@kernel(error_model="numpy")
def edge_terms(prior, agreement, n_members):
    """The terms of ``prior``, a chain's state: its density, similarity, single_log_odds and kinds."""
    tables = np.empty((0, 0))
    if prior.kinds.size:
        tables = np.empty((2, n_members + 2))
        write_log_table(prior.kinds, tables[0, : n_members + 1])
        write_log_table(prior.kinds, tables[1])
    return EdgeTerms(
        prior.density, prior.similarity[()], agreement, prior.single_log_odds, n_members, tables
    )


@kernel(error_model="numpy", forceinline=True)
def log_odds_of_edge(terms, i, j, n_forward, n_backward, n_others):
    """Log odds of i -> j given that n_forward of n_others members have i -> j, n_backward j -> i.

    With kinds of pairs, ``n_others`` is the number of members or one less.
    """
    n_joined = n_forward + n_backward
    of_direction = 1.0 + (n_forward - n_joined / 2) / (terms.agreement + n_joined / 2)
    if terms.log_tables.size:
        row = n_others + 1 - terms.n_members
        of_pair = terms.log_tables[row, n_joined + 1] - terms.log_tables[row, n_joined]
        return of_pair + log(of_direction)
    r, s = terms.density[i, j], terms.similarity
    return log((r + n_joined / s) / (1.0 - r + (n_others - n_joined) / s) * of_direction)


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
                n_factors = n_members
                if terms.log_tables.size:
                    value += terms.log_tables[0, joined]
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
