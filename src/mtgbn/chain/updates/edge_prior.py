"""Update of the edge prior: density r and similarity s (docs/model.md, section 14).

It is the only update in Python: few fits sample r and s, and its cost does not grow with the number of
moves between graphs.
"""

import numpy as np

from mtgbn.chain.state import ChainData, ChainState
from mtgbn.model.edge_prior import EdgePrior

# Metropolis steps per round, and the step sizes of the logits of r and of 1/(1 + s).
_STEPS = 10
_STEP_SIZES = np.array([0.15, 0.3])

# Below these limits logarithms of r, 1 - r or s lose digits.
_SMALLEST_DENSITY, _SMALLEST_SIMILARITY = 1e-8, 1e-6


def update_edge_prior(rng: np.random.Generator, data: ChainData, state: ChainState) -> None:
    """Make Metropolis steps for the logits of r and of 1/(1 + s), in place.

    r and 1/(1 + s) are uniform a priori. Their conditional distribution depends on the number of
    members that have each edge, and on the skeletons of the single tasks, whose density is r as well.
    """
    counts = state.counts + state.counts.T
    n_members = int(state.members.sum())
    single = state.adjacencies[~state.members]
    skeletons = single | np.swapaxes(single, 1, 2)
    single_counts = skeletons.sum(axis=0)

    def log_density(prior: EdgePrior) -> float:
        r, s = prior
        of_single = prior.single().log_probability(single_counts, len(skeletons), data.free)
        a_priori = np.log(r) + np.log1p(-r) + np.log(s) - 2 * np.log1p(s)
        return prior.log_probability(counts, n_members, data.free) + of_single + a_priori

    prior = EdgePrior(float(state.density[0, 1]), float(state.similarity))
    value = log_density(prior)
    for _ in range(_STEPS):
        steps = rng.standard_normal(2) * _STEP_SIZES
        threshold = np.log(rng.random())
        r = prior.density
        odds = r / (1 - r) * np.exp(steps[0])
        proposal = EdgePrior(odds / (1 + odds), prior.similarity * np.exp(-steps[1]))
        is_usable = _SMALLEST_DENSITY < proposal.density < 1 - _SMALLEST_DENSITY
        if not (is_usable and proposal.similarity > _SMALLEST_SIMILARITY):
            continue
        new = log_density(proposal)
        if threshold < new - value:
            prior, value = proposal, new
    state.density[:] = prior.density
    state.similarity[()] = prior.similarity
    state.single_log_odds[:] = prior.single().matrix_of_log_odds(len(counts))
