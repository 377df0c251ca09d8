"""What updates of pairs in all members at once share (docs/model.md, section 14)."""

from math import log
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import OWN, TIED, empty_scores, prepare_own, prepare_tied
from mtgbn.chain.updates.chance import beta
from mtgbn.chain.updates.elements import CANDIDATES, shift_element, upper_factor
from mtgbn.model.pair_kinds import (
    DIFFERENT,
    N_PLACES,
    log_weights_of_places,
    places_of_frequencies,
)


class PairWork(NamedTuple):
    """What all pairs of a round share, and room for the tables of one of them.

    Attributes
    ----------
    places : array (m, p)
        Place of every variable in the order of a member.
    matrices, constants : array (m, 2, p, p), (m, 2, p)
        Posterior matrices and constants of the scores of members, for tied and for own families.
    factor : array (p, p)
        U with U'U = sigma_h.
    frequencies, log_weights : array (places,)
        All frequencies of a pair, and their log probabilities if it is not different.
    log_share : float
        Log share of the pairs that are different between groups.
    gains : array (m, candidates)
        By how much the edge raises the log density of a member's data.
    values : array (2, candidates, places)
        Log likelihood of every candidate and frequency in each group, with all edges summed out.
    log_weights_of_pair : array (candidates, places + 1)
        Log probability of every candidate and frequency, at last of different frequencies.
    patterns : array (m, 4, candidates)
        Log density of a member's data with neither of two edges, with the first, the second, both.
    log_weights_of_two : array (2, candidates)
        Log probability of every candidate with the frequencies of two pairs, and with these exchanged.
    shifts, rests : array (candidates,)
        Changes of the element, and the log density of all that depends on it but not on the edges.
    no_shifts, columns, rows, parents : array
        No shift of own families, which do not depend on sigma_h; scratch.
    """

    places: np.ndarray
    matrices: np.ndarray
    constants: np.ndarray
    factor: np.ndarray
    frequencies: np.ndarray
    log_weights: np.ndarray
    log_share: float
    gains: np.ndarray
    values: np.ndarray
    log_weights_of_pair: np.ndarray
    patterns: np.ndarray
    log_weights_of_two: np.ndarray
    shifts: np.ndarray
    rests: np.ndarray
    no_shifts: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    parents: np.ndarray


@kernel(error_model="numpy")
def pair_work(data, state, sigma_h):
    """What all pairs of a round share."""
    m, p = data.ns.size, sigma_h.shape[0]
    delta, limit = state.delta[()], data.max_parents
    has_groups = state.kinds[DIFFERENT] > 0.0 and data.groups.any()
    matrices, constants = np.empty((m, 2, p, p)), np.zeros((m, 2, p))
    places = np.empty((m, p), dtype=np.int64)
    scores = empty_scores(p)
    for t in range(m):
        if not state.members[t]:
            continue
        prepare_tied(scores, state.scatters[t], data.ns[t], sigma_h, delta, limit)
        prepare_own(scores, state.scatters[t], data.ns[t], data.single_scales[t], limit)
        for i in range(p):
            places[t, state.orders[t, i]] = i
            for source in (TIED, OWN):
                constants[t, source, i] = scores.constants[source, i] if i <= limit else 0.0
                for j in range(p):
                    matrices[t, source, i, j] = scores.posterior_matrices[source, i, j]
    return PairWork(
        places,
        matrices,
        constants,
        upper_factor(sigma_h),
        places_of_frequencies(state.kinds),
        log_weights_of_places(state.kinds),
        log(state.kinds[DIFFERENT]) if has_groups else -np.inf,
        np.empty((m, CANDIDATES)),
        np.empty((2, CANDIDATES, N_PLACES)),
        np.empty((CANDIDATES, N_PLACES + 1)),
        np.empty((m, 4, CANDIDATES)),
        np.empty((2, CANDIDATES)),
        np.empty(CANDIDATES),
        np.empty(CANDIDATES),
        np.zeros(CANDIDATES),
        np.empty((2, p)),
        np.empty((p, p)),
        np.empty(p, dtype=np.int64),
    )


@kernel(error_model="numpy")
def set_element(state, sigma_h, work, i, j, candidate):
    """Set an element of sigma_h, and of the posterior matrices of all members, to a candidate."""
    shift = work.shifts[candidate]
    shift_element(work.factor, i, j, shift, work.columns)
    sigma_h[i, j] += shift
    sigma_h[j, i] = sigma_h[i, j]
    for t in range(state.members.size):
        if state.members[t]:
            work.matrices[t, TIED, i, j] = work.matrices[t, TIED, j, i] = (
                sigma_h[i, j] + state.scatters[t, i, j]
            )


@kernel(error_model="numpy")
def share_of_direction(rng, agreement, n_forward, n_backward):
    """A draw of the share of members whose edge goes one way, given the present directions."""
    if agreement == np.inf:
        return 0.5
    return beta(rng, agreement + n_forward, agreement + n_backward)
