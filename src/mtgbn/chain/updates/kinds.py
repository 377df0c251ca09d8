"""Update of the kinds of pairs, given the graphs (docs/model.md, section 14)."""

from math import exp, log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.updates.chance import LEAST, beta, drawn
from mtgbn.model.pair_kinds import (
    ABSENT,
    COMMON,
    DIFFERENT,
    N_PLACES,
    RARE,
    USUAL,
    VARYING,
    are_far,
    log_different,
    log_shares,
    places_of_frequencies,
    write_far_sums,
    write_likelihoods,
)

# A priori, the shares of the kinds have a Dirichlet distribution, with this parameter for common, for
# varying and for different pairs, and p times as much for absent pairs. The frequencies of absent pairs,
# and one minus those of common pairs, have a Beta distribution with the parameters _RARE.
_KIND = 0.5
_RARE = (0.5, 9.5)


@kernel(error_model="numpy")
def update_kinds(rng, data, state):
    """Draw the kind of every pair, then the shares and the frequencies of the kinds, in place."""
    counts, kinds = state.counts, state.kinds
    p = counts.shape[1]
    n = state.members.sum()
    n_second = (state.members * data.groups).sum()
    n_first = n - n_second
    has_groups = data.groups.any()
    n_kinds = 4 if has_groups else 3
    by_count = np.empty((n + 1, 3))
    for c in range(n + 1):
        log_shares(kinds, c, n, by_count[c])
    # Pairs of every kind; edges and missing edges of pairs with the frequency of absent pairs, and with
    # that of common pairs.
    sizes, joined, lacking = np.zeros(4), np.zeros(2), np.zeros(2)
    values = np.empty(n_kinds)
    frequencies = places_of_frequencies(kinds)
    first, second, far = np.empty(N_PLACES), np.empty(N_PLACES), np.empty(N_PLACES)
    for i in range(p):
        for j in range(i + 1, p):
            if not data.free[i, j]:
                continue
            c = counts[0, i, j] + counts[0, j, i]
            b = counts[1, i, j] + counts[1, j, i]
            for kind in range(3):
                values[kind] = by_count[c, kind]
            if has_groups:
                values[3] = log(kinds[DIFFERENT])
                values[3] += write_likelihoods(frequencies, c - b, n_first, first)
                values[3] += write_likelihoods(frequencies, b, n_second, second)
                write_far_sums(second, far)
                values[3] += log_different(first, far)
            kind = drawn(rng, values)
            sizes[kind] += 1
            if kind < VARYING:  # absent or common
                joined[kind] += c
                lacking[kind] += n - c
            elif kind == 3:
                place, other = drawn_places(rng, first, second)
                for end, kind_of_end in ((0, ABSENT), (N_PLACES - 1, COMMON)):
                    if place == end:
                        joined[kind_of_end] += c - b
                        lacking[kind_of_end] += n_first - (c - b)
                    if other == end:
                        joined[kind_of_end] += b
                        lacking[kind_of_end] += n_second - b
    shares = np.empty(n_kinds)
    for kind in range(n_kinds):
        shares[kind] = rng.standard_gamma(_KIND * (p if kind == ABSENT else 1) + sizes[kind])
    total = shares.sum()
    for kind in range(3):
        kinds[kind] = max(shares[kind] / total, LEAST)
    kinds[DIFFERENT] = max(shares[3] / total, LEAST) if has_groups else 0.0
    kinds[RARE] = beta(rng, _RARE[0] + joined[ABSENT], _RARE[1] + lacking[ABSENT])
    kinds[USUAL] = beta(rng, _RARE[1] + joined[COMMON], _RARE[0] + lacking[COMMON])


@kernel(error_model="numpy")
def drawn_places(rng, first, second):
    """A draw of the places of the frequencies of a different pair in both groups.

    ``first`` and ``second`` (places,) are the likelihoods of the frequencies, up to a factor.
    """
    far, log_weights = np.empty(N_PLACES), np.empty(N_PLACES)
    write_far_sums(second, far)
    for k in range(N_PLACES):
        weight = first[k] * far[k]
        log_weights[k] = log(weight) if weight > 0.0 else -np.inf
    place = drawn(rng, log_weights)
    for k in range(N_PLACES):
        is_far = are_far(place, k) and second[k] > 0.0
        log_weights[k] = log(second[k]) if is_far else -np.inf
    return place, drawn(rng, log_weights)


@kernel(error_model="numpy")
def add_differences(data, state, total):
    """Add the probabilities of all differences of frequencies, second group minus first, to ``total``.

    ``total`` (p, p, 2 N_PLACES - 1) has one place for every difference of places, from the most
    negative to the most positive. A pair that is not different has the difference 0.
    """
    counts, kinds = state.counts, state.kinds
    p = counts.shape[1]
    n, n_second = state.members.sum(), (state.members * data.groups).sum()
    n_first = n - n_second
    frequencies = places_of_frequencies(kinds)
    first, second, far = np.empty(N_PLACES), np.empty(N_PLACES), np.empty(N_PLACES)
    of_same = np.empty(3)
    for i in range(p):
        for j in range(i + 1, p):
            probability = 0.0
            if data.free[i, j]:
                c = counts[0, i, j] + counts[0, j, i]
                b = counts[1, i, j] + counts[1, j, i]
                log_shares(kinds, c, n, of_same)
                top = of_same.max()
                log_same = top + log(np.exp(of_same - top).sum())
                log_other = log(kinds[DIFFERENT])
                log_other += write_likelihoods(frequencies, c - b, n_first, first)
                log_other += write_likelihoods(frequencies, b, n_second, second)
                write_far_sums(second, far)
                log_other += log_different(first, far)
                probability = 1.0 / (1.0 + exp(log_same - log_other))
            total[i, j, N_PLACES - 1] += 1.0 - probability
            total[j, i, N_PLACES - 1] += 1.0 - probability
            if probability == 0.0:
                continue
            whole = 0.0
            for k in range(N_PLACES):
                whole += first[k] * far[k]
            for k in range(N_PLACES):
                for q in range(N_PLACES):
                    if are_far(k, q):
                        share = probability * first[k] * second[q] / whole
                        total[i, j, N_PLACES - 1 + q - k] += share
                        total[j, i, N_PLACES - 1 + q - k] += share
