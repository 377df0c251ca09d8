"""What a round renews beside sigma_h and the graphs, each given the rest (docs/model.md, section 14).

How alike the tasks are (delta), which of them belong together, and the edge prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtgbn.model.edge_prior import EdgePrior, log_odds_of_directions
from mtgbn.sampling.graph_moves import GraphStates, log_likelihoods

if TYPE_CHECKING:
    from mtgbn.sampling.joint import JointModel

__all__ = [
    "TYPICAL_DELTA",
    "likelihoods",
    "log_probability_alone",
    "log_ratio",
    "renew_delta",
    "renew_edge_prior",
    "renew_members",
]

# Prior of delta: delta / (delta + this) is uniform between 0 and 1.
TYPICAL_DELTA = 100.0

# Beyond this, tasks are as good as identical, and sums of sigma_h and scatters lose digits.
_LARGEST_DELTA = 1e5

# Metropolis steps per round, and their sizes for the logits of r and 1/(1 + s).
_NU0_STEPS, _PRIOR_STEPS = 2, 10
_PRIOR_STEP_SIZES = np.array([0.15, 0.3])


def likelihoods(model, graphs, members, scatters, sigma_h, delta) -> np.ndarray:
    """Log marginal likelihood of every task."""
    values = np.empty(len(members))
    log_likelihoods(
        graphs.adjacencies, members, scatters, model.ns, sigma_h, delta, model.alone, values
    )
    return values


def renew_delta(model, graphs, scatters, sigma_h, delta, step, rng):
    """Metropolis steps for ln delta with Psi held; the share of them that was accepted."""
    psi = sigma_h / delta
    value = likelihoods(model, graphs, graphs.members, scatters, sigma_h, delta).sum()
    accepted = 0
    for _ in range(_NU0_STEPS):
        proposal = delta * np.exp(step * rng.standard_normal())
        threshold = np.log(rng.random())
        if not proposal < _LARGEST_DELTA:
            continue
        new = likelihoods(model, graphs, graphs.members, scatters, proposal * psi, proposal).sum()
        change = new - value + _log_prior_of_delta(proposal) - _log_prior_of_delta(delta)
        if threshold < change:
            delta, value = proposal, new
            accepted += 1
    return delta * psi, delta, accepted / _NU0_STEPS


def renew_members(model, graphs: GraphStates, advantages, prior: EdgePrior, free, rng) -> None:
    """Draw for every task whether it belongs to the others, given its graph; in place.

    A task on its own has a vague prior of its own and shares no edges. The share of tasks that belong is
    uniform beforehand and integrated out. Shared directions are normalised given the task's order.
    """
    adjacencies, orders, members = graphs
    m = len(adjacencies)
    alone = model.log_odds_alone(prior)
    allowed, *_ = model.constraints
    one_way = np.log(2) * (allowed & ~np.swapaxes(allowed, 1, 2))  # as the moves have it
    there = adjacencies[members].sum(axis=0)
    for t, adjacency in enumerate(adjacencies):
        there -= adjacency & members[t]
        members[t] = False
        n_others = int(members.sum())
        together = prior.log_odds(there + there.T, n_others)
        together += log_odds_of_directions(there, there + there.T, model.agreement)
        places = np.argsort(orders[t])
        along = free[t] & (places[:, None] < places)
        odds = together + one_way[t], alone + one_way[t]
        change = advantages[t] + log_ratio(adjacency, along, *odds)
        change += np.log(n_others + 1) - np.log(m - n_others)
        # P = 1 / (1 + exp(-change)), in logarithms
        members[t] = np.log(rng.random()) < -np.logaddexp(0, -change)
        there += adjacency & members[t]


def log_ratio(adjacency, along, log_odds, others) -> float:
    """Log probability of a graph with these odds of its edges minus that with others.

    ``along`` are the edges that its order and prior knowledge leave open.
    """
    change = np.sum((log_odds - others)[adjacency & along])
    return float(change + np.sum((np.logaddexp(0, others) - np.logaddexp(0, log_odds))[along]))


def _log_prior_of_delta(delta: float) -> float:
    """Log density of ln delta."""
    return np.log(delta) - 2 * np.log(delta + TYPICAL_DELTA)


def log_probability_alone(model: JointModel, prior: EdgePrior, skeletons, free) -> float:
    """Log prior of the skeletons of the tasks that do not belong."""
    alone = model.edge_prior_alone(prior)
    return alone.log_probability(skeletons.sum(axis=0), len(skeletons), free)


def renew_edge_prior(
    model: JointModel, prior: EdgePrior, counts, n_members: int, others, free, rng
) -> EdgePrior:
    """Metropolis steps for the logits of r and of 1/(1 + s), both uniform beforehand.

    ``counts`` are those of the ``n_members`` members, ``others`` the skeletons of the tasks that do not
    belong.
    """
    if model.edge_prior.source != "sampled":
        return prior

    def value_of(prior: EdgePrior) -> float:
        r, s = prior
        alone = log_probability_alone(model, prior, others, free)
        beforehand = np.log(r) + np.log1p(-r) + np.log(s) - 2 * np.log1p(s)
        return prior.log_probability(counts, n_members, free) + alone + beforehand

    value = value_of(prior)
    for _ in range(_PRIOR_STEPS):
        steps = rng.standard_normal(2) * _PRIOR_STEP_SIZES
        threshold = np.log(rng.random())
        r = prior.density
        odds = r / (1 - r) * np.exp(steps[0])
        proposal = EdgePrior(odds / (1 + odds), prior.similarity * np.exp(-steps[1]))
        if not (1e-8 < proposal.density < 1 - 1e-8 and proposal.similarity > 1e-6):
            continue
        new = value_of(proposal)
        if threshold < new - value:
            prior, value = proposal, new
    return prior
