"""Update of the ties: which families of the members follow sigma_h (docs/model.md, section 14).

Tasks often differ in few mechanisms: a family of one task has other coefficients, or another residual
variance, than the same family of all other tasks. One family of this sort would make the whole task a
single task, or decide what sigma_h says of this family for everybody. Therefore a family of a member is
either tied, with the prior matrix sigma_h, or an own family, with the prior matrix of a single task. The
share of own families is one of `OWN_SHARES`, all equally probable a priori, and the number of own
families of a member has a limit: a task with more has little in common with the others, and is a single
task.
"""

from math import exp, log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import OWN, TIED, family_score
from mtgbn.search.local_scores import parents_of

# Shares of own families that are possible, from one in a thousand to one in eight.
OWN_SHARES = tuple(0.001 * 2.0**k for k in range(8))
_SHARES = np.array(OWN_SHARES)


@kernel(error_model="numpy")
def write_advantages(as_members, as_single, own_share, most_own, advantages):
    """Write the log likelihood of tasks as members, with ties summed out, minus the one as single tasks.

    ``as_members`` and ``as_single`` (m, p) are the log likelihoods of all families as tied and as own
    families; a member has at most ``most_own`` own families.
    """
    m, p = as_members.shape
    if own_share == 0.0:
        for t in range(m):
            advantages[t] = 0.0
            for j in range(p):
                advantages[t] += as_members[t, j] - as_single[t, j]
        return
    table, gains = np.empty((p + 1, most_own + 1)), np.empty(p)
    log_usual = log_probability_of_few_own(p, own_share, most_own)
    for t in range(m):
        for j in range(p):
            gains[j] = as_members[t, j] - as_single[t, j]
        advantages[t] = _sum_out(gains, own_share, table) - log_usual


@kernel(error_model="numpy")
def update_ties(rng, data, state, as_members, as_single):
    """Draw which families of the members are tied, then the share of own families, in place.

    ``as_members`` and ``as_single`` as for `write_advantages`.
    """
    members, ties, own_share = state.members, state.ties, state.own_share[()]
    m, p = ties.shape
    n_own = n_tied = n_members = 0
    table, gains = np.empty((p + 1, data.most_own + 1)), np.empty(p)
    for t in range(m):
        if not (members[t] and data.samples_ties):
            for j in range(p):
                ties[t, j] = members[t]
            continue
        n_members += 1
        for j in range(p):
            gains[j] = as_members[t, j] - as_single[t, j]
        _draw(rng, gains, own_share, table, ties[t])
        for j in range(p):
            n_tied += ties[t, j]
            n_own += not ties[t, j]
    if data.samples_ties:
        state.own_share[()] = _drawn_share(rng, n_own, n_tied, n_members, table)


@kernel(error_model="numpy")
def log_probability_of_few_own(p, own_share, most_own):
    """Log probability that p families have no more own ones than a member may have, ties independent."""
    if own_share == 0.0:
        return 0.0
    return _sum_out(np.zeros(p), own_share, np.empty((p + 1, most_own + 1)))


@kernel(error_model="numpy")
def _sum_out(gains, own_share, table):
    """Log of the sum over all ties with few own families of the probability times the likelihood.

    ``gains`` (p,) are the log likelihoods of families as tied minus those as own ones; the sum is
    relative to all families being own ones. ``table`` gets log sums: row j over the ties of the first j
    families, column k those with k own families.
    """
    p, most = gains.size, table.shape[1] - 1
    log_tied, log_own = log(1.0 - own_share), log(own_share)
    for k in range(most + 1):
        table[0, k] = 0.0 if k == 0 else -np.inf
    for j in range(p):
        for k in range(most + 1):
            tied = table[j, k] + log_tied + gains[j]
            own = table[j, k - 1] + log_own if k > 0 else -np.inf
            table[j + 1, k] = _log_sum(tied, own)
    total = -np.inf
    for k in range(most + 1):
        total = _log_sum(total, table[p, k])
    return total


@kernel(error_model="numpy")
def _draw(rng, gains, own_share, table, ties):
    """Draw the ties of one task from their distribution given everything else, in place."""
    p, most = gains.size, table.shape[1] - 1
    total = _sum_out(gains, own_share, table)
    left, place = rng.random(), 0
    for k in range(most + 1):
        left -= exp(table[p, k] - total)
        place = k
        if left < 0.0:
            break
    log_own = log(own_share)
    for j in range(p - 1, -1, -1):
        log_probability = -np.inf  # that family j is an own one
        if place > 0:
            log_probability = table[j, place - 1] + log_own - table[j + 1, place]
        ties[j] = not rng.random() < exp(log_probability)
        place -= not ties[j]


@kernel(error_model="numpy", inline="always")
def _log_sum(a, b):
    """ln(e^a + e^b)."""
    largest = max(a, b)
    if largest == -np.inf:
        return largest
    return largest + np.log1p(exp(min(a, b) - largest))


@kernel(error_model="numpy")
def _drawn_share(rng, n_own, n_tied, n_members, table):
    """A share of own families, given how many families of the members are own and tied."""
    weights, no_gains = np.empty(_SHARES.size), np.zeros(table.shape[0] - 1)
    for k in range(_SHARES.size):
        weights[k] = n_own * log(_SHARES[k]) + n_tied * log(1.0 - _SHARES[k])
        weights[k] -= n_members * _sum_out(no_gains, _SHARES[k], table)
    weights = np.exp(weights - weights.max())
    threshold = rng.random() * weights.sum()
    place, total = 0, weights[0]
    while total <= threshold and place < _SHARES.size - 1:
        place += 1
        total += weights[place]
    return _SHARES[place]


@kernel(error_model="numpy")
def draw_ties(rng, scores, adjacency, own_share, most_own):
    """Draw which families of one task are tied, (p,), given its graph and the share of own families.

    ``scores`` are prepared for tied and for own families; their ``sources`` change. At most ``most_own``
    families are own ones.
    """
    p = adjacency.shape[0]
    gains, ties = np.empty(p), np.empty(p, dtype=np.bool_)
    for node in range(p):
        parents = parents_of(adjacency, node)
        scores.sources[node] = TIED
        gains[node] = family_score(scores, node, parents, parents.size)
        scores.sources[node] = OWN
        gains[node] -= family_score(scores, node, parents, parents.size)
    _draw(rng, gains, own_share, np.empty((p + 1, most_own + 1)), ties)
    return ties
