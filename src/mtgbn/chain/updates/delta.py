"""Update of delta: how closely tied families follow sigma_h (docs/model.md, section 14).

Psi = sigma_h / delta is held fixed, so that sigma_h changes with delta.
"""

from math import log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import log_likelihoods
from mtgbn.model.unstructured import log_prior_of_delta

# Above the largest delta tasks are practically identical, and sums of sigma_h and scatters lose digits.
# Below the smallest delta, where the prior has a probability of 1e-5, they are practically unrelated.
_SMALLEST_DELTA, _LARGEST_DELTA = 1e-3, 1e5

# Metropolis steps per round, and the acceptance rate to which the step size is adapted.
DELTA_STEPS = 2
TARGET_DELTA_ACCEPTANCE = 0.4


@kernel(error_model="numpy", inline="always")
def update_delta(rng, data, state, sigma_h):
    """Metropolis steps for ln delta with Psi = sigma_h / delta held; ``sigma_h`` (p, p) follows.

    Returns the number of accepted steps.
    """
    adjacencies, scatters, ties = state.adjacencies, state.scatters, state.ties
    ns, scales = data.ns, data.single_scales
    delta = first = state.delta[()]
    values = np.empty(ties.shape)
    log_likelihoods(adjacencies, scatters, ns, scales, ties, sigma_h, delta, values)
    value = values.sum()
    accepted = 0
    for _ in range(DELTA_STEPS):
        proposal = delta * np.exp(state.delta_step[()] * rng.standard_normal())
        threshold = log(rng.random())
        if not _SMALLEST_DELTA < proposal < _LARGEST_DELTA:
            continue
        scaled = sigma_h * (proposal / first)
        log_likelihoods(adjacencies, scatters, ns, scales, ties, scaled, proposal, values)
        new = values.sum()
        change = new - value + log_prior_of_delta(proposal) - log_prior_of_delta(delta)
        if threshold < change:
            delta, value = proposal, new
            accepted += 1
    state.delta[()] = delta
    for i in range(sigma_h.shape[0]):
        for j in range(sigma_h.shape[1]):
            sigma_h[i, j] *= delta / first
    return accepted
