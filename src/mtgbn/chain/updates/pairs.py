"""Updates of pairs of variables in all members at once (docs/model.md, section 14).

Moves within one task cannot find an edge that no task shows alone but that all tasks support: the first
task that takes it pays for it alone. They cannot drop an edge either that every task has only because
the others have it. Here the frequency of a pair is drawn first, with the edges of all members summed
out, then the edge of every member given the frequency. After the pairs, the shares of their kinds are
drawn.
"""

from math import exp, log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import TaskScores, empty_scores, family_score, prepare_scores
from mtgbn.model.edge_prior import (
    ABSENT,
    COMMON,
    FREQUENCIES,
    RARE,
    USUAL,
    VARYING,
    log_shares,
)
from mtgbn.model.log_determinants import LARGEST_PRODUCT, SMALLEST_PRODUCT

# Share of the pairs that are drawn anew in a round.
_SHARE = 0.25

# A priori, the shares of the kinds have a Dirichlet distribution, with this parameter for common and
# for varying pairs, and p times as much for absent pairs. The frequencies of absent pairs, and one minus
# those of common pairs, have a Beta distribution with the parameters _RARE.
_KIND = 0.5
_RARE = (0.5, 9.5)

# Shares and frequencies stay away from 0 and 1, so that their logarithms are finite.
_LEAST = 1e-12


@kernel(error_model="numpy")
def update_pairs(rng, data, state, sigma_h):
    """Draw a random part of the free pairs anew in all members, in place; orders stay as they are."""
    adjacencies, members, counts = state.adjacencies, state.members, state.counts
    m, p, _ = adjacencies.shape
    delta, limit = state.delta[()], data.max_parents
    frequencies, log_weights = _frequencies(state.kinds)
    n_values = frequencies.size
    # Matrices and constants of all members; the rest of the scores is the same for all.
    matrices, constants = np.empty((m, p, p)), np.empty((m, p))
    places = np.empty((m, p), dtype=np.int64)
    scores = empty_scores(p)
    for t in range(m):
        if not members[t]:
            continue
        prepare_scores(scores, state.scatters[t], data.ns[t], sigma_h, delta, limit)
        for i in range(p):
            places[t, state.orders[t, i]] = i
            constants[t, i] = scores.constants[i] if i <= limit else 0.0
            for j in range(p):
                matrices[t, i, j] = scores.posterior_matrix[i, j]
    gains, values, products = np.empty(m), np.empty(n_values), np.empty(n_values)
    parents = np.empty(p, dtype=np.int64)
    for i in range(p):
        for j in range(i + 1, p):
            if not data.free[i, j] or rng.random() >= _SHARE:
                continue
            forward = _share_of_direction(rng, data.agreement, counts[i, j], counts[j, i])
            for k in range(n_values):
                values[k], products[k] = log_weights[k], 1.0
            for t in range(m):
                if not members[t]:
                    continue
                is_forward = places[t, i] < places[t, j]
                a, node = (i, j) if is_forward else (j, i)
                n_parents = 0
                for b in range(p):
                    if adjacencies[t, b, node] and b != a:
                        parents[n_parents] = b
                        n_parents += 1
                if n_parents >= limit or not data.allowed[a, node]:
                    gains[t] = -np.inf
                else:
                    scores.posterior_degrees[()] = delta + data.ns[t]
                    of_task = TaskScores(
                        matrices[t],
                        scores.prior_matrix,
                        scores.posterior_degrees,
                        scores.prior_degrees,
                        constants[t],
                        scores.log_odds,
                        scores.posterior_factor,
                        scores.prior_factor,
                    )
                    gains[t] = -family_score(of_task, node, parents, n_parents)
                    parents[n_parents] = a
                    gains[t] += family_score(of_task, node, parents, n_parents + 1)
                    gains[t] += data.one_way[a, node] - data.edge_costs[t]
                    gains[t] += log(2.0 * (forward if is_forward else 1.0 - forward))
                excess = max(gains[t], 0.0)
                present, absent = exp(gains[t] - excess), exp(-excess)
                for k in range(n_values):
                    products[k] *= frequencies[k] * present + (1.0 - frequencies[k]) * absent
                    if not SMALLEST_PRODUCT < products[k] < LARGEST_PRODUCT:
                        values[k] += log(products[k])
                        products[k] = 1.0
            for k in range(n_values):
                values[k] += log(products[k])
            frequency = frequencies[_drawn(rng, values)]
            for t in range(m):
                if not members[t]:
                    continue
                a, node = (i, j) if places[t, i] < places[t, j] else (j, i)
                excess = max(gains[t], 0.0)
                present = frequency * exp(gains[t] - excess)
                absent = (1.0 - frequency) * exp(-excess)
                joined = rng.random() * (present + absent) < present
                if joined != adjacencies[t, a, node]:
                    adjacencies[t, a, node] = joined
                    counts[a, node] += 1 if joined else -1


@kernel(error_model="numpy")
def update_kinds(rng, data, state):
    """Draw the kind of every pair, then the shares and the frequencies of the kinds, in place."""
    counts, kinds = state.counts, state.kinds
    p = counts.shape[0]
    n = state.members.sum()
    by_count = np.empty((n + 1, 3))
    for c in range(n + 1):
        log_shares(kinds, c, n, by_count[c])
    sizes, edges = np.zeros(3), np.zeros(3)
    values = np.empty(3)
    for i in range(p):
        for j in range(i + 1, p):
            if data.free[i, j]:
                c = counts[i, j] + counts[j, i]
                for kind in range(3):
                    values[kind] = by_count[c, kind]
                kind = _drawn(rng, values)
                sizes[kind] += 1
                edges[kind] += c
    shares = np.empty(3)
    for kind in range(3):
        shares[kind] = rng.standard_gamma(_KIND * (p if kind == ABSENT else 1) + sizes[kind])
    total = shares.sum()
    for kind in range(3):
        kinds[kind] = max(shares[kind] / total, _LEAST)
    lacking = n * sizes - edges
    kinds[RARE] = _beta(rng, _RARE[0] + edges[ABSENT], _RARE[1] + lacking[ABSENT])
    kinds[USUAL] = _beta(rng, _RARE[1] + edges[COMMON], _RARE[0] + lacking[COMMON])


@kernel(error_model="numpy")
def _frequencies(kinds):
    """All frequencies that a pair may have, and their log probabilities."""
    n_varying = FREQUENCIES.size
    frequencies, log_weights = np.empty(n_varying + 2), np.empty(n_varying + 2)
    frequencies[0], log_weights[0] = kinds[RARE], log(kinds[ABSENT])
    frequencies[1], log_weights[1] = kinds[USUAL], log(kinds[COMMON])
    for k in range(n_varying):
        frequencies[k + 2] = FREQUENCIES[k]
        log_weights[k + 2] = log(kinds[VARYING] / n_varying)
    return frequencies, log_weights


@kernel(error_model="numpy")
def _share_of_direction(rng, agreement, n_forward, n_backward):
    """A draw of the share of members whose edge goes one way, given the present directions."""
    if agreement == np.inf:
        return 0.5
    return _beta(rng, agreement + n_forward, agreement + n_backward)


@kernel(error_model="numpy")
def _drawn(rng, values):
    """A place, drawn with probabilities proportional to the exponentials of ``values``."""
    top, total = values.max(), 0.0
    for value in values:
        total += exp(value - top)
    left = rng.random() * total
    for k in range(values.size - 1):
        left -= exp(values[k] - top)
        if left < 0.0:
            return k
    return values.size - 1


@kernel(error_model="numpy")
def _beta(rng, a, b):
    """A draw from a Beta distribution, not closer to 0 or 1 than `_LEAST`."""
    first = rng.standard_gamma(a)
    share = first / (first + rng.standard_gamma(b))
    return min(max(share, _LEAST), 1.0 - _LEAST)
