"""What the tasks' edges say of each other, in compiled code (docs/model.md, sections 11 and 14).

``counts`` (p, p) are those of the members: how many of them have i -> j.
"""

from math import log, log1p
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

__all__ = [
    "EdgeTerms",
    "GraphStates",
    "add_edges",
    "add_log_odds",
    "draw_members",
    "log_odds_of_edge",
    "log_probability_of_edges",
]


class GraphStates(NamedTuple):
    """Where the chains over graphs stand; changed in place.

    Attributes
    ----------
    adjacencies : array (m, p, p)
    orders : array (m, p)
        Variables from first to last; parents come before their children.
    members : array (m,) of bool
        Tasks that share sigma_h and edges with each other; the others are on their own.
    """

    adjacencies: np.ndarray
    orders: np.ndarray
    members: np.ndarray


class EdgeTerms(NamedTuple):
    """The edge prior, as compiled code needs it.

    Attributes
    ----------
    density : array (p, p)
        r of every pair.
    similarity, agreement : float
        s, and the same for directions: infinity if those are unrelated.
    alone : array (p, p)
        Log odds of every edge in a task on its own.
    """

    density: np.ndarray
    similarity: float
    agreement: float
    alone: np.ndarray


@kernel(error_model="numpy")
def log_odds_of_edge(terms, i, j, there, back, n_others):
    """Log odds of i -> j in a task when ``there`` of so many others have it, and ``back`` j -> i."""
    r, s = terms.density[i, j], terms.similarity
    joined = there + back
    odds = (r + joined / s) / (1.0 - r + (n_others - joined) / s)
    return log(odds * (1.0 + (there - joined / 2) / (terms.agreement + joined / 2)))


@kernel(error_model="numpy")
def add_log_odds(states, counts, terms, total):
    """Add to ``total`` (m, p, p) the log odds of every edge in every task, given the other tasks.

    For a task on its own: as if it belonged.
    """
    adjacencies, _, members = states
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    # Most members lack a pair, and all that do so have the same odds.
    lacking, outside = np.empty((p, p)), np.empty((p, p))
    for i in range(p):
        for j in range(p):
            there, back = counts[i, j], counts[j, i]
            lacking[i, j] = log_odds_of_edge(terms, i, j, there, back, n_members - 1)
            outside[i, j] = log_odds_of_edge(terms, i, j, there, back, n_members)
    for t in range(m):
        adjacency = adjacencies[t]
        for i in range(p):
            for j in range(p):
                if not members[t]:
                    total[t, i, j] += outside[i, j]
                elif adjacency[i, j] or adjacency[j, i]:
                    there = counts[i, j] - adjacency[i, j]
                    back = counts[j, i] - adjacency[j, i]
                    total[t, i, j] += log_odds_of_edge(terms, i, j, there, back, n_members - 1)
                else:
                    total[t, i, j] += lacking[i, j]


@kernel(error_model="numpy")
def draw_members(rng, states, counts, advantages, terms, allowed, free):
    """Draw for every task whether it belongs to the others, given its graph; in place.

    A task on its own has a vague prior of its own and shares no edges. The share of tasks that belong is
    uniform beforehand and integrated out. Shared directions are normalised given the task's order.
    ``advantages`` are the log likelihoods together minus those alone.
    """
    adjacencies, orders, members = states
    m, p, _ = adjacencies.shape
    n_others = members.sum()
    for t in range(m):
        adjacency, order = adjacencies[t], orders[t]
        if members[t]:
            add_edges(adjacency, counts, -1)
            n_others -= 1
        change = advantages[t] + log((n_others + 1.0) / (m - n_others))
        for first in range(p):
            i = order[first]
            for second in range(first + 1, p):
                j = order[second]
                if not free[t, i, j]:
                    continue
                together = log_odds_of_edge(terms, i, j, counts[i, j], counts[j, i], n_others)
                alone = terms.alone[i, j]
                if adjacency[i, j]:
                    change += together - alone
                # as the moves have it
                twice = log(2.0) if allowed[t, i, j] and not allowed[t, j, i] else 0.0
                change += _softplus(alone + twice) - _softplus(together + twice)
        # P = 1 / (1 + exp(-change)), in logarithms
        members[t] = log(rng.random()) < -_softplus(-change)
        if members[t]:
            add_edges(adjacency, counts, 1)
            n_others += 1


@kernel
def add_edges(adjacency, counts, weight):
    """Let a task into the counts, or take it out with a weight of -1."""
    p = adjacency.shape[0]
    for i in range(p):
        for j in range(p):
            if adjacency[i, j]:
                counts[i, j] += weight


@kernel
def _softplus(x):
    """ln(1 + exp(x))."""
    return log1p(np.exp(x)) if x < 0.0 else x + log1p(np.exp(-x))


@kernel(error_model="numpy")
def log_probability_of_edges(states, counts, terms, free):
    """Log prior of the graphs of all tasks, given their orders; ``free`` (p, p): pairs that count.

    Beta functions as products, divided by s throughout: exact for graphs that are almost identical
    (s -> 0) and for unrelated ones (s = inf).
    """
    adjacencies, _, members = states
    m, p, _ = adjacencies.shape
    n_members = members.sum()
    s, agreement = terms.similarity, terms.agreement
    value, product = 0.0, 1.0
    for i in range(p):
        for j in range(i + 1, p):
            forward, joined = counts[i, j], counts[i, j] + counts[j, i]
            if free[i, j]:
                r = terms.density[i, j]
                # Numerators and denominators take turns, so that products stay in range.
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
                alone = 0
                for t in range(m):
                    alone += not members[t] and (adjacencies[t, i, j] or adjacencies[t, j, i])
                value += alone * terms.alone[i, j]
                value -= (m - n_members) * _softplus(terms.alone[i, j])
            if agreement < np.inf:
                for k in range(joined):
                    factor = agreement + (k if k < forward else k - forward)
                    product *= 2.0 * factor / (2.0 * agreement + k)
                    if not SMALLEST_PRODUCT < product < LARGEST_PRODUCT:
                        value += log(product)
                        product = 1.0
    return value + log(product)
