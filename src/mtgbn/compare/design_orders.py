"""The different orders of the subjects of a design, and the smallest p-value that they allow.

Two orders are different if the rows of the design differ. Some of them have the statistic of the
observed order whatever the data are: two groups of the same size may change their names, a score may
change its sign. Therefore the smallest p-value is not one divided by the number of orders.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mtgbn.compare.design_statistics import divide

# Digits that decide whether two rows of a design are the same.
_DIGITS = 12

# Up to this number all orders are tried. If there are more, even all symmetries of a design leave the
# smallest p-value far below .05.
_MOST_TRIED = 2000

# Statistics of different orders are the same up to this share of their size.
_SAME = 1e-7


def number_of_orders(matrix: np.ndarray, blocks: np.ndarray | None) -> float:
    """Number of different orders of the rows of a design (m, k), within ``blocks`` (m,) if given."""
    logarithm = 0.0
    for kinds in _kinds(matrix, blocks):
        counts = np.bincount(kinds)
        logarithm += math.lgamma(len(kinds) + 1) - sum(math.lgamma(n + 1) for n in counts)
    return math.exp(min(logarithm, 700.0))


def smallest_pvalue(matrix: np.ndarray, contrast: np.ndarray, blocks: np.ndarray | None) -> float:
    """The smallest p-value that a contrast (r, k) could have in data without ties, with all orders.

    It is the share of the orders whose statistic always is that of the observed one. Of many orders
    the observed one alone is counted.
    """
    n_orders = number_of_orders(matrix, blocks)
    if n_orders > _MOST_TRIED:
        return 1 / n_orders
    orders = np.array(list(_different_orders(matrix, blocks)))
    divided = divide(matrix, contrast)
    # Whatever is the same in two outcomes without any structure is the same in all.
    outcomes = np.random.default_rng(0).normal(size=(len(matrix), 2))
    residuals = outcomes - divided.nuisance @ (divided.nuisance.T @ outcomes)
    moved = residuals[orders]
    explained = np.square(divided.tested.T @ moved).sum(axis=1)
    left = np.square(moved).sum(axis=1) - explained
    left -= np.square(divided.nuisance.T @ moved).sum(axis=1)
    # The share of what the nuisance covariates leave; t and F grow with it.
    share = explained / (explained + left)
    is_same = np.isclose(share, share[0], rtol=_SAME, atol=1e-12)
    return float(np.mean(is_same.all(axis=1)))


def _kinds(matrix: np.ndarray, blocks: np.ndarray | None) -> list[np.ndarray]:
    """For every block, numbers of its rows; the same ones for the same rows."""
    found = np.zeros(len(matrix), int) if blocks is None else blocks
    return [
        np.unique(np.round(matrix[found == block], _DIGITS), axis=0, return_inverse=True)[1].ravel()
        for block in np.unique(found)
    ]


def _different_orders(matrix: np.ndarray, blocks: np.ndarray | None) -> Iterator[np.ndarray]:
    """The rows that come to every place (m,), for all different orders; the observed one first."""
    found = np.zeros(len(matrix), int) if blocks is None else blocks
    places = [np.flatnonzero(found == block) for block in np.unique(found)]
    arranged = [list(_arrangements(kinds)) for kinds in _kinds(matrix, blocks)]
    for choice in itertools.product(*arranged):
        order = np.empty(len(matrix), int)
        for own, arrangement in zip(places, choice, strict=True):
            order[own] = own[arrangement]
        yield order


def _arrangements(kinds: np.ndarray) -> Iterator[np.ndarray]:
    """Who comes to every place, for all ways to share out people to the kinds of their places.

    The first one leaves all where they are.
    """
    wanted = [np.flatnonzero(kinds == kind) for kind in range(int(kinds.max()) + 1)]

    def shared(people: tuple[int, ...], kind: int) -> Iterator[list[int]]:
        if kind == len(wanted):
            yield []
            return
        # Those who are of the kind come first, so that the first way is the observed one.
        own = set(wanted[kind].tolist())
        first = sorted(people, key=lambda each: (each not in own, each))
        for chosen in itertools.combinations(first, len(own)):
            rest = tuple(each for each in people if each not in chosen)
            for more in shared(rest, kind + 1):
                yield [*chosen, *more]

    order = np.concatenate(wanted)
    for people in shared(tuple(range(len(kinds))), 0):
        arrangement = np.empty(len(kinds), int)
        arrangement[order] = people
        yield arrangement
