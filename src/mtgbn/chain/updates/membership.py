"""Update of the membership: which tasks share sigma_h and edges (docs/model.md, section 14).

A single task has a vague prior of its own and shares no edges. The proportion of members among the
tasks is uniform a priori and integrated out.
"""

from math import log

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.likelihoods import log_likelihoods
from mtgbn.chain.state import ChainData, ChainState, copy_of
from mtgbn.chain.updates.ties import write_advantages
from mtgbn.graphs.dags import topological_order
from mtgbn.model.edge_prior import (
    EdgePrior,
    add_member,
    directed_counts,
    edge_terms,
    log_odds_of_directions,
    log_odds_of_edge,
    softplus,
)
from mtgbn.model.pair_kinds import PairKinds

# Number of members whose graphs are tried for a single task.
_MAX_TRIED = 20


@kernel(error_model="numpy", inline="always")
def update_membership(rng, data, state, advantages):
    """Draw for every task whether it is a member, given its graph; ``counts`` follow.

    ``advantages`` (m,) are the log likelihoods as a member, with ties summed out, minus those as a
    single task.
    """
    adjacencies, orders, members, counts = (
        state.adjacencies,
        state.orders,
        state.members,
        state.counts,
    )
    free, one_way = data.free, data.one_way
    m, p, _ = adjacencies.shape
    n_others = members.sum()
    terms = edge_terms(state, data.agreement, members, data.groups)
    for t in range(m):
        adjacency, order, group = adjacencies[t], orders[t], data.groups[t]
        if members[t]:
            add_member(adjacency, group, counts, -1)
            n_others -= 1
        change = advantages[t] + log((n_others + 1.0) / (m - n_others))
        for first in range(p):
            i = order[first]
            for second in range(first + 1, p):
                j = order[second]
                if not free[i, j]:
                    continue
                forward, backward = counts[0, i, j], counts[0, j, i]
                in_second = counts[1, i, j] + counts[1, j, i]
                as_member = log_odds_of_edge(
                    terms, i, j, forward, backward, in_second, group, n_others
                )
                as_single = terms.single_log_odds[i, j]
                if adjacency[i, j]:
                    change += as_member - as_single
                twice = one_way[i, j]
                change += softplus(as_single + twice) - softplus(as_member + twice)
        # The probability is 1 / (1 + exp(-change)); it is compared in logarithms.
        members[t] = log(rng.random()) < -softplus(-change)
        if members[t]:
            add_member(adjacency, group, counts, 1)
            n_others += 1
        if n_others != terms.n_members:
            terms = edge_terms(state, data.agreement, members, data.groups)


def reassign_members(
    data: ChainData, state: ChainState, sigma_h: np.ndarray, single_graphs: np.ndarray
) -> ChainState:
    """The state after tasks have become members or single tasks, each with another graph.

    Given its graph a task hardly ever joins or leaves the members: a graph like those of the members
    speaks for membership, any other graph against it. Here graph and membership change at once, where
    that is more probable: a member may become a single task with its graph of ``single_graphs``
    (m, p, p), a single task may become a member with the graph of another member. The density only
    increases, so this is for chains that have not reached their stationary distribution.
    """
    if not data.samples_membership:
        return state
    state = copy_of(state)
    adjacencies, members = state.adjacencies, state.members
    m = len(members)
    for t in range(m):
        was_member, members[t] = bool(members[t]), False
        others = adjacencies[members]
        if not len(others):
            members[t] = was_member
            continue
        tried = single_graphs[t : t + 1].copy()
        if not was_member:
            tried = np.unique(others[:_MAX_TRIED], axis=0)
        n_others = int(members.sum())
        as_member = _log_odds_of_member(data, state, t)
        as_member += data.one_way
        as_single = state.single_log_odds + data.one_way
        of_membership = np.log(n_others + 1) - np.log(m - n_others)
        now = adjacencies[t : t + 1].copy()
        graphs_of_member, graphs_of_single = (now, tried) if was_member else (tried, now)
        member_value, member_graph = _best_graph(
            data, state, t, graphs_of_member, True, as_member, sigma_h=sigma_h
        )
        single_value, single_graph = _best_graph(
            data, state, t, graphs_of_single, False, as_single, sigma_h=sigma_h
        )
        members[t] = member_value + of_membership > single_value
        if members[t] != was_member:
            adjacencies[t] = member_graph if members[t] else single_graph
            state.orders[t] = topological_order(adjacencies[t])
            state.ties[t] = members[t]
    state.counts[:] = directed_counts(adjacencies, members, data.groups)
    return state


def _log_odds_of_member(data: ChainData, state: ChainState, t: int) -> np.ndarray:
    """Log prior odds of the edges of task t if it joined the members, (p, p)."""
    counts, in_second = directed_counts(state.adjacencies, state.members, data.groups)
    joined, second = counts + counts.T, in_second + in_second.T
    n_others, n_second = int(state.members.sum()), int(data.groups[state.members].sum())
    if not state.kinds.size:
        prior = EdgePrior(state.density, float(state.similarity))
        of_pairs = prior.log_odds(joined, n_others)
    else:
        both = [(joined - second, n_others - n_second), (second, n_second)]
        own, other = both[:: -1 if data.groups[t] else 1]
        of_pairs = PairKinds(*state.kinds.tolist()).log_odds_in_group(*own, *other)
    return of_pairs + log_odds_of_directions(counts, joined, data.agreement)


def _best_graph(
    data: ChainData,
    state: ChainState,
    t: int,
    graphs: np.ndarray,
    is_member: bool,
    log_odds: np.ndarray,
    *,
    sigma_h: np.ndarray,
) -> tuple[float, np.ndarray]:
    """The most probable of some graphs of task t, with its log density."""
    (k, p), own_share = graphs.shape[:2], float(state.own_share)
    of_families = np.empty((2, k, p))  # as own families, as tied ones
    for is_tied in (False, True):
        log_likelihoods(
            graphs,
            np.repeat(state.scatters[t : t + 1], k, axis=0),
            np.repeat(data.ns[t], k),
            np.repeat(data.single_scales[t : t + 1], k, axis=0),
            np.full((k, p), is_tied),
            sigma_h,
            float(state.delta),
            of_families[int(is_tied)],
        )
    values = of_families[0].sum(axis=1)
    if is_member:
        advantages = np.empty(k)
        write_advantages(of_families[1], of_families[0], own_share, data.most_own, advantages)
        values += advantages
    for position, graph in enumerate(graphs):
        places = np.argsort(topological_order(graph))
        open_edges = data.free & (places[:, None] < places)
        values[position] += (
            log_odds[graph & open_edges].sum() - np.logaddexp(0, log_odds[open_edges]).sum()
        )
        values[position] -= data.edge_costs[t] * graph.sum()
    return values.max(), graphs[values.argmax()]
