"""One round of a chain, in compiled code: the updates in their order (docs/model.md, section 14).

With few variables a call from Python takes longer than an update. Therefore one call runs a portion of
several rounds.
"""

from math import lgamma

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import log_likelihoods
from mtgbn.chain.updates.delta import DELTA_STEPS, TARGET_DELTA_ACCEPTANCE, update_delta
from mtgbn.chain.updates.graphs import update_graphs
from mtgbn.chain.updates.kinds import add_differences, update_kinds
from mtgbn.chain.updates.membership import update_membership
from mtgbn.chain.updates.pairs import update_pairs
from mtgbn.chain.updates.sigma_h import TARGET_ACCEPTANCE, update_sigma_h
from mtgbn.chain.updates.ties import (
    log_probability_of_few_own,
    update_ties,
    write_advantages,
)
from mtgbn.model.edge_prior import add_log_odds, edge_terms, log_probability_of_edges
from mtgbn.model.unstructured import log_prior_of_delta

# The largest step of ln delta, in standard deviations of a proposal.
_LARGEST_DELTA_STEP = 3.0


@kernel(error_model="numpy")
def run_rounds(rng, data, state, psi_factor, first, last, adapts, trace):
    """Run some rounds, in place.

    Parameters
    ----------
    rng : numpy.random.Generator
    data : ChainData
    state : ChainState
    psi_factor : array (p, p)
        Cholesky factor of ``state.centre``.
    first, last : int
        Rows of ``trace`` that are written, one per round: first to last - 1.
    adapts : bool
        Whether step sizes are adapted.
    trace : ChainTrace
        Series get the state at the end of every round. Frequencies and means get sums, which
        `run_chain` divides by their number.
    """
    m, p, _ = state.scatters.shape
    nobody, everybody = np.zeros((m, p), dtype=np.bool_), np.ones((m, p), dtype=np.bool_)
    as_single, as_members = np.empty((m, p)), np.empty((m, p))
    sigma_h = np.empty((p, p))
    adjacencies, scatters = state.adjacencies, state.scatters
    ns, scales = data.ns, data.single_scales
    for k in range(first, last):
        acceptance, is_divergent = update_sigma_h(rng, data, state, psi_factor, sigma_h)
        accepted = update_delta(rng, data, state, sigma_h) if data.samples_delta else 0
        delta = state.delta[()]
        log_likelihoods(adjacencies, scatters, ns, scales, nobody, sigma_h, delta, as_single)
        log_likelihoods(adjacencies, scatters, ns, scales, everybody, sigma_h, delta, as_members)
        write_advantages(
            as_members, as_single, state.own_share[()], data.most_own, trace.advantages[k]
        )
        if data.samples_membership:
            update_membership(rng, data, state, trace.advantages[k])
        update_ties(rng, data, state, as_members, as_single)
        if data.n_moves > 0:
            if state.kinds.size:
                update_pairs(rng, data, state, psi_factor, sigma_h)
            update_graphs(rng, data, state, sigma_h, trace.move_frequencies)
        if data.samples_kinds and state.kinds.size:
            update_kinds(rng, data, state)
        trace.acceptance[k] = acceptance
        trace.n_divergent[()] += is_divergent
        _record(data, state, sigma_h, k, trace)
        if adapts:
            _adapt(state, acceptance, accepted, data.samples_delta)


@kernel(error_model="numpy", inline="always")
def _record(data, state, sigma_h, k, trace):
    """Write the state at the end of round k to the trace."""
    adjacencies, scatters, members = state.adjacencies, state.scatters, state.members
    counts, end_counts, psi = state.counts, trace.end_counts, trace.psi
    delta = state.delta[()]
    m, p, _ = scatters.shape
    terms = edge_terms(state, data.agreement, members, data.groups)
    add_log_odds(terms, adjacencies, members, data.groups, counts, trace.log_odds)
    if trace.differences.size:
        add_differences(data, state, trace.differences)
    ties, scales, own_share = state.ties, data.single_scales, state.own_share[()]
    values = np.empty((m, p))
    log_likelihoods(adjacencies, scatters, data.ns, scales, ties, sigma_h, delta, values)
    value = log_prior_of_delta(delta)
    value += log_probability_of_edges(terms, adjacencies, members, counts, data.free)
    n_members = n_edges = 0
    for t in range(m):
        for j in range(p):
            value += values[t, j]
            if members[t] and own_share > 0.0:
                value += np.log(1.0 - own_share if ties[t, j] else own_share)
        trace.members[k, t] = members[t]
        n_members += members[t]
        for i in range(p):
            for j in range(p):
                if adjacencies[t, i, j]:
                    n_edges += 1
                    value -= data.edge_costs[t]
                    end_counts[t, i, j] += 1
    value -= n_members * log_probability_of_few_own(p, own_share, data.most_own)
    # The share of members is uniform a priori.
    value += lgamma(n_members + 1.0) + lgamma(m - n_members + 1.0) - lgamma(m + 2.0)
    for i in range(p):
        for j in range(p):
            psi[k, i, j] = sigma_h[i, j] / delta
    trace.delta[k] = delta
    trace.own_share[k] = own_share
    for field in range(state.kinds.size):
        trace.kinds[k, field] = state.kinds[field]
    trace.log_density[k] = value
    trace.n_edges[k] = n_edges


@kernel(error_model="numpy", inline="always")
def _adapt(state, acceptance, accepted, samples_delta):
    """Raise or lower the step sizes, towards the target acceptance rates."""
    state.n_adapted[()] += 1
    n_adapted = state.n_adapted[()]
    gain = (n_adapted - state.n_learned[()]) ** -0.6
    state.step_size[()] *= np.exp(gain * (acceptance - TARGET_ACCEPTANCE))
    if samples_delta:
        error = accepted / DELTA_STEPS - TARGET_DELTA_ACCEPTANCE
        delta_step = state.delta_step[()] * np.exp(n_adapted**-0.6 * error)
        state.delta_step[()] = min(delta_step, _LARGEST_DELTA_STEP)
