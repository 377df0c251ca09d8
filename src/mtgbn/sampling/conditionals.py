"""What a round renews beside sigma_h and the graphs, each given the rest (docs/model.md, section 14).

How alike the tasks are (delta), which of them belong together, and the edge prior.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.graphs.dags import topological_order
from mtgbn.model.edge_prior import EdgePrior, log_odds_of_directions
from mtgbn.model.unstructured import log_prior_of_delta
from mtgbn.sampling.graph_moves import log_likelihoods
from mtgbn.sampling.shared_edges import GraphStates

if TYPE_CHECKING:
    from mtgbn.sampling.joint import JointModel

__all__ = [
    "NU0_STEPS",
    "likelihoods",
    "log_probability_alone",
    "reconsider_members",
    "renew_edge_prior",
    "step_delta",
]

# Beyond the larger, tasks are as good as identical, and sums of sigma_h and scatters lose digits; below
# the smaller, whose prior probability is 1e-5, as good as unrelated.
_SMALLEST_DELTA, _LARGEST_DELTA = 1e-3, 1e5

# Graphs of other tasks that are tried for one that does not belong.
_MOST_TRIED = 20

# Metropolis steps per round, and their sizes for the logits of r and 1/(1 + s).
NU0_STEPS, _PRIOR_STEPS = 2, 10
_PRIOR_STEP_SIZES = np.array([0.15, 0.3])


def likelihoods(model, graphs, members, scatters, sigma_h, delta) -> np.ndarray:
    """Log marginal likelihood of every task."""
    values = np.empty(len(members))
    log_likelihoods(
        graphs.adjacencies, members, scatters, model.ns, sigma_h, delta, model.alone, values
    )
    return values


@kernel(error_model="numpy")
def step_delta(rng, adjacencies, members, scatters, ns, sigma_h, delta, alone, step):
    """Metropolis steps for ln delta with Psi held; the new delta, and how many were accepted."""
    values = np.empty(ns.size)
    log_likelihoods(adjacencies, members, scatters, ns, sigma_h, delta, alone, values)
    value = values.sum()
    first, accepted = delta, 0
    for _ in range(NU0_STEPS):
        proposal = delta * np.exp(step * rng.standard_normal())
        threshold = log(rng.random())
        if not _SMALLEST_DELTA < proposal < _LARGEST_DELTA:
            continue
        scaled = sigma_h * (proposal / first)
        log_likelihoods(adjacencies, members, scatters, ns, scaled, proposal, alone, values)
        new = values.sum()
        change = new - value + log_prior_of_delta(proposal) - log_prior_of_delta(delta)
        if threshold < change:
            delta, value = proposal, new
            accepted += 1
    return delta, accepted


def reconsider_members(
    model, graphs: GraphStates, own: np.ndarray, scatters, sigma_h, delta, prior: EdgePrior
) -> None:
    """Let tasks in or out where that is better with another graph; in place.

    Given its graph a task hardly ever changes sides: a graph like the others' speaks for belonging, one
    of its own against it. This tries the graph that it has by itself, ``own``, outside, and some of the
    others' inside. It goes uphill, so it is for chains that have yet to arrive.
    """
    adjacencies, orders, members = graphs
    allowed, *_ = model.constraints
    free = model.free

    def best(t: int, candidates: np.ndarray, belongs: bool, log_odds) -> tuple[float, np.ndarray]:
        """The most probable of some graphs for a task, as if each were that of a task like it."""
        k = len(candidates)
        ns = np.repeat(model.ns[t], k)
        ns.setflags(write=model.ns.flags.writeable)  # others would have kernels of their own
        copies = model._replace(
            ns=ns,
            alone=model.alone._replace(scales=np.repeat(model.alone.scales[t : t + 1], k, axis=0)),
        )
        data = np.repeat(scatters[t : t + 1], k, axis=0)
        sides = np.full(k, belongs)
        states = GraphStates(candidates, np.empty((k, 0), dtype=np.int64), sides)
        values = likelihoods(copies, states, sides, data, sigma_h, delta)
        for place, graph in enumerate(candidates):
            along = _along(free[t], topological_order(graph))
            values[place] += _log_probability(graph, along, log_odds)
        return values.max(), candidates[values.argmax()]

    for t in range(len(members)):
        belonged, members[t] = bool(members[t]), False
        others = adjacencies[members]
        elsewhere = own[t : t + 1].copy()
        if not belonged:
            possible = ~(others[:_MOST_TRIED] & ~allowed[t]).any(axis=(1, 2))
            elsewhere = np.unique(others[:_MOST_TRIED][possible], axis=0)
        if not (len(others) and len(elsewhere)):
            members[t] = belonged
            continue
        odds_inside, odds_outside, of_members = _odds_of(
            model, others.sum(axis=0), members, t, prior
        )
        now = adjacencies[t : t + 1].copy()
        value_inside, inside = best(t, now if belonged else elsewhere, True, odds_inside)
        value_outside, outside = best(t, elsewhere if belonged else now, False, odds_outside)
        members[t] = value_inside + of_members > value_outside
        if members[t] != belonged:
            adjacencies[t] = inside if members[t] else outside
            orders[t] = topological_order(adjacencies[t])


def _odds_of(model, there: np.ndarray, members: np.ndarray, t: int, prior: EdgePrior) -> tuple:
    """Log odds of a task's edges inside and outside, and of belonging.

    It is not among the members, and ``there`` counts their edges.
    """
    n_others = int(members.sum())
    together = prior.log_odds(there + there.T, n_others)
    together += log_odds_of_directions(there, there + there.T, model.agreement)
    allowed = model.constraints[0][t]
    one_way = np.log(2) * (allowed & ~allowed.T)  # as the moves have it
    of_members = np.log(n_others + 1) - np.log(len(members) - n_others)
    return together + one_way, model.log_odds_alone(prior) + one_way, of_members


def _along(free: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Edges that an order and prior knowledge leave open."""
    places = np.argsort(order)
    return free & (places[:, None] < places)


def _log_probability(adjacency, along, log_odds) -> float:
    """Of a graph, given its order."""
    return float(log_odds[adjacency & along].sum() - np.logaddexp(0, log_odds[along]).sum())


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
