"""The kinds of pairs of variables: absent, common, varying, and different between two groups.

The distribution of the frequencies of pairs (docs/model.md, sections 11 and 14). Frequencies are summed
out: what counts is how many tasks, or how many tasks of each group, have the pair. The tables are here,
in numpy and for compiled code.
"""

from math import exp, log, log1p
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel

# Frequencies that a varying pair may have, all with the same probability.
FREQUENCIES = np.arange(1, 16) / 16

# Places of the fields of `PairKinds` in an array.
ABSENT, COMMON, VARYING, RARE, USUAL, DIFFERENT = range(6)

# All frequencies of a pair in a group, in their order: that of absent pairs, those of varying pairs,
# that of common pairs. In a pair that is different between two groups, the places of both are
# at least _LEAST_DISTANCE apart, and all such combinations are equally probable.
N_PLACES = FREQUENCIES.size + 2
_LEAST_DISTANCE = 4
_N_COMBINATIONS = (N_PLACES - _LEAST_DISTANCE) * (N_PLACES - _LEAST_DISTANCE + 1)

# Between two frequencies of a different pair there is at least this difference.
LEAST_DIFFERENCE = _LEAST_DISTANCE / (N_PLACES - 1)


class PairKinds(NamedTuple):
    """Kinds of pairs: absent in nearly all tasks, common to nearly all tasks, varying, and different.

    ``absent``, ``common``, ``varying`` and ``different`` are the shares of the kinds among all pairs. A
    task joins an absent pair with the probability ``rare``, a common pair with the probability
    ``usual``. A varying pair has one of the frequencies 1/16, 2/16, ..., 15/16, which are equally
    probable. A pair that is different has another frequency in each of two groups of tasks: any two of
    ``rare``, 1/16, ..., 15/16, ``usual`` that are at least four places apart, all with the same
    probability. Without groups there are no such pairs.

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
    different: float = 0.0

    def log_odds(self, counts: np.ndarray, n_others: int) -> np.ndarray:
        """Log prior odds of every edge in one task, given that ``counts`` of ``n_others`` have it.

        The group of the task is not known: pairs that are different count as pairs of the other kinds.
        """
        table = self.without_groups().log_table(n_others + 1)[:, 0]
        return table[counts + 1] - table[counts]

    def log_odds_in_group(
        self, counts: np.ndarray, n_others: int, other_counts: np.ndarray, n_in_other: int
    ) -> np.ndarray:
        """The same for a task of a group, given the counts in its group and in the other group."""
        table = self.log_table(n_others + 1, n_in_other)
        return table[counts + 1, other_counts] - table[counts, other_counts]

    def log_table(self, n_first: int, n_second: int = 0) -> np.ndarray:
        """Log probability that exactly a given tasks of one group and b of another have a pair.

        An array (n_first + 1, n_second + 1) for all a and b. Without groups there is one group.
        """
        table = np.empty((n_first + 1, n_second + 1))
        write_log_table(np.array(self, dtype=float), n_first, n_second, table)
        return table

    def without_groups(self) -> "PairKinds":
        """The other kinds in the same proportions, without different pairs."""
        rest = 1.0 - self.different
        shares = (self.absent / rest, self.common / rest, self.varying / rest)
        return PairKinds(*shares, self.rare, self.usual)

    @property
    def density(self) -> float:
        """Prior probability of an edge; the frequencies of different pairs have the mean 1/2 nearly."""
        ends = 0.5 * (self.rare + self.usual)
        mean = _MEAN_IN_GRID + _SHARE_OF_ENDS * ends
        of_others = self.absent * self.rare + self.common * self.usual + self.varying / 2
        return of_others + self.different * mean

    @property
    def similarity(self) -> float:
        """The s of a Beta distribution of frequencies that has the same mean and variance.

        1/(1 + s) is the correlation between an edge's presence in one task and in another of its group.
        """
        absent, common, varying, rare, usual, _ = self.without_groups()
        second = absent * rare**2 + common * usual**2 + varying * float(np.mean(FREQUENCIES**2))
        r = self.without_groups().density
        return (r - second) / (second - r**2)


def _weights_of_different() -> np.ndarray:
    """Probability of every place in one group, if a pair is different."""
    places = np.arange(N_PLACES)
    is_apart = np.abs(places[:, None] - places) >= _LEAST_DISTANCE
    return is_apart.sum(axis=1) / is_apart.sum()


_SHARE_OF_ENDS = float(2 * _weights_of_different()[0])
_MEAN_IN_GRID = float(_weights_of_different()[1:-1] @ FREQUENCIES)


def first_kinds(density: float, has_groups: bool = False) -> PairKinds:
    """The kinds with which chains begin: as many common pairs as a density says, few varying ones."""
    common, varying = 0.8 * density, 0.2 * density
    different = 0.1 * density if has_groups else 0.0
    varying -= different
    absent = 1 - common - varying - different
    return PairKinds(absent, common, varying, rare=0.02, usual=0.95, different=different)


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
    """Write the log probability of absent, common and varying with c given tasks of n having a pair."""
    values[ABSENT] = log(kinds[ABSENT]) + c * log(kinds[RARE]) + (n - c) * log1p(-kinds[RARE])
    values[COMMON] = log(kinds[COMMON]) + c * log(kinds[USUAL]) + (n - c) * log1p(-kinds[USUAL])
    values[VARYING] = log(kinds[VARYING]) + log_varying(c, n)


@kernel(error_model="numpy")
def places_of_frequencies(kinds):
    """All frequencies of a pair in a group, in their order, (N_PLACES,)."""
    frequencies = np.empty(N_PLACES)
    frequencies[0], frequencies[N_PLACES - 1] = kinds[RARE], kinds[USUAL]
    for k in range(FREQUENCIES.size):
        frequencies[k + 1] = FREQUENCIES[k]
    return frequencies


@kernel(error_model="numpy")
def write_likelihoods(frequencies, c, n, values):
    """Write the probabilities that c given tasks of n have a pair, for all frequencies, scaled.

    Returns the logarithm of the largest one, by which they are divided.
    """
    top = -np.inf
    for k in range(N_PLACES):
        values[k] = c * log(frequencies[k]) + (n - c) * log1p(-frequencies[k])
        top = max(top, values[k])
    for k in range(N_PLACES):
        values[k] = exp(values[k] - top)
    return top


@kernel(forceinline=True)
def are_far(place, other):
    """Whether the places of two frequencies are far enough from each other."""
    return abs(place - other) >= _LEAST_DISTANCE


@kernel(error_model="numpy")
def write_far_sums(values, sums):
    """Write, for every place, the sum of the values whose places are far enough from it."""
    total = 0.0
    for k in range(N_PLACES):
        sums[k] = total
        if k + 1 >= _LEAST_DISTANCE:
            total += values[k + 1 - _LEAST_DISTANCE]
    total = 0.0
    for k in range(N_PLACES - 1, -1, -1):
        sums[k] += total
        if k + _LEAST_DISTANCE - 1 < N_PLACES:
            total += values[k + _LEAST_DISTANCE - 1]


@kernel(error_model="numpy")
def log_different(first, far_second):
    """Log probability of a different pair, from scaled likelihoods of a group and the other's sums."""
    total = 0.0
    for k in range(N_PLACES):
        total += first[k] * far_second[k]
    return log(total / _N_COMBINATIONS) if total > 0.0 else -np.inf


@kernel(error_model="numpy")
def write_log_table(kinds, n_first, n_second, table):
    """Write `PairKinds.log_table` to the first rows and columns of ``table``."""
    n = n_first + n_second
    of_same, values = np.empty(n + 1), np.empty(3)
    for c in range(n + 1):
        log_shares(kinds, c, n, values)
        top = values.max()
        of_same[c] = top + log(np.exp(values - top).sum())
    for a in range(n_first + 1):
        for b in range(n_second + 1):
            table[a, b] = of_same[a + b]
    if kinds[DIFFERENT] == 0.0:
        return
    frequencies, log_share = places_of_frequencies(kinds), log(kinds[DIFFERENT])
    first, second = np.empty(N_PLACES), np.empty(N_PLACES)
    tops, sums = np.empty(n_second + 1), np.empty((n_second + 1, N_PLACES))
    for b in range(n_second + 1):
        tops[b] = write_likelihoods(frequencies, b, n_second, second)
        write_far_sums(second, sums[b])
    for a in range(n_first + 1):
        top = write_likelihoods(frequencies, a, n_first, first)
        for b in range(n_second + 1):
            value = log_share + top + tops[b] + log_different(first, sums[b])
            larger = max(table[a, b], value)
            table[a, b] = larger + log1p(exp(min(table[a, b], value) - larger))


@kernel(error_model="numpy")
def log_weights_of_places(kinds):
    """Log probabilities of all frequencies of a pair that is not different, (N_PLACES,)."""
    weights = np.full(N_PLACES, log(kinds[VARYING] / FREQUENCIES.size))
    weights[0], weights[N_PLACES - 1] = log(kinds[ABSENT]), log(kinds[COMMON])
    return weights
