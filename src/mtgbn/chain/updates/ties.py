"""Update of the ties: which families of the members follow sigma_h (docs/model.md, section 14).

Tasks often differ in few mechanisms: a family of one task has other coefficients, or another residual
variance, than the same family of all other tasks. One family of this sort would make the whole task a
single task, or decide what sigma_h says of this family for everybody. Therefore a family of a member is
either tied, with the prior matrix sigma_h, or an own family, with the prior matrix of a single task. The
share of own families is one of `OWN_SHARES`, all equally probable a priori: a task with a larger share
has little in common with the others, and is better learned as a single task.
"""

from math import log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import OWN, TIED, family_score
from mtgbn.model.edge_prior import softplus
from mtgbn.search.local_scores import parents_of

# Shares of own families that are possible, from one in a thousand to one in eight.
OWN_SHARES = tuple(0.001 * 2.0**k for k in range(8))
_SHARES = np.array(OWN_SHARES)


@kernel(error_model="numpy", inline="always")
def write_advantages(as_members, as_single, own_share, advantages):
    """Write the log likelihood of tasks as members, with ties summed out, minus the one as single tasks.

    ``as_members`` and ``as_single`` (m, p) are the log likelihoods of all families as tied and as own
    families.
    """
    m, p = as_members.shape
    for t in range(m):
        advantages[t] = 0.0
        for j in range(p):
            advantages[t] += _log_mixture(as_members[t, j] - as_single[t, j], own_share)


@kernel(error_model="numpy", inline="always")
def update_ties(rng, data, state, as_members, as_single):
    """Draw which families of the members are tied, then the share of own families, in place.

    ``as_members`` and ``as_single`` as for `write_advantages`.
    """
    members, ties, own_share = state.members, state.ties, state.own_share[()]
    m, p = ties.shape
    n_own = n_tied = 0
    for t in range(m):
        for j in range(p):
            if not (members[t] and data.samples_ties):
                ties[t, j] = members[t]
                continue
            log_odds = log_odds_of_tie(as_members[t, j] - as_single[t, j], own_share)
            ties[t, j] = log(rng.random()) < -softplus(-log_odds)
            n_tied += ties[t, j]
            n_own += not ties[t, j]
    if data.samples_ties:
        state.own_share[()] = _drawn_share(rng, n_own, n_tied)


@kernel(error_model="numpy")
def _drawn_share(rng, n_own, n_tied):
    """A share of own families, given how many families are own and tied."""
    weights = np.empty(_SHARES.size)
    for k in range(_SHARES.size):
        weights[k] = n_own * log(_SHARES[k]) + n_tied * log(1.0 - _SHARES[k])
    weights = np.exp(weights - weights.max())
    threshold = rng.random() * weights.sum()
    place, total = 0, weights[0]
    while total <= threshold and place < _SHARES.size - 1:
        place += 1
        total += weights[place]
    return _SHARES[place]


@kernel(error_model="numpy", inline="always")
def log_odds_of_tie(gain, own_share):
    """Log odds that a family is tied; ``gain`` is its log likelihood as a tied minus as an own one."""
    return gain + log((1.0 - own_share) / own_share)


@kernel(error_model="numpy", inline="always")
def _log_mixture(gain, own_share):
    """Log likelihood of a family with its tie summed out, minus the one of an own family."""
    if own_share == 0.0:
        return gain
    return log(own_share) + softplus(log_odds_of_tie(gain, own_share))


@kernel(error_model="numpy")
def draw_ties(rng, scores, adjacency, own_share):
    """Draw which families of one task are tied, (p,), given its graph and the share of own families.

    ``scores`` are prepared for tied and for own families; their ``sources`` change.
    """
    p = adjacency.shape[0]
    ties = np.empty(p, dtype=np.bool_)
    for node in range(p):
        parents = parents_of(adjacency, node)
        scores.sources[node] = TIED
        gain = family_score(scores, node, parents, parents.size)
        scores.sources[node] = OWN
        gain -= family_score(scores, node, parents, parents.size)
        ties[node] = log(rng.random()) < -softplus(-log_odds_of_tie(gain, own_share))
    return ties
