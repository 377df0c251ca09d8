"""The update of the membership against its naive twin and against all memberships."""

import itertools

import naive_updates
import numpy as np
import pytest
from chain_problems import (
    assert_same,
    chain_of,
    repeat_update_of_membership,
    some_arrays,
    some_constraints,
)
from sampling_oracles import MIXED_GRAPHS, dag
from scipy.special import betaln, log_expit

from mtgbn.chain.state import copy_of, with_edge_prior
from mtgbn.chain.updates.membership import reassign_members
from mtgbn.graphs.dags import topological_order
from mtgbn.model.edge_prior import EdgePrior, single_prior
from mtgbn.tasks import Tasks

GRAPHS = np.array([*MIXED_GRAPHS, MIXED_GRAPHS[0], dag(4, (2, 3)), dag(4)])
TASKS = Tasks.from_arrays(some_arrays(m=6, seed=3))
SINGLE = EdgePrior(0.2, np.inf)


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize(("similarity", "agreement"), [(0.5, 0.8), (8.0, np.inf), (np.inf, np.inf)])
def test_it_is_its_twin(similarity, agreement, knows):
    constraints = some_constraints(4) if knows else None
    graphs = GRAPHS.copy()
    if knows:
        graphs[:, 2, 3], graphs[:, 3, 2] = True, False
        graphs[:, 0, 1] = graphs[:, 0, 3] = False
    seen = set()
    for seed in range(12):
        rng, twin_rng = np.random.default_rng(seed), np.random.default_rng(seed)
        data, state = chain_of(
            TASKS,
            start=graphs,
            constraints=constraints,
            prior=EdgePrior(0.3, similarity),
            agreement=agreement,
            members=[True, True, False, True, False, False],
        )
        state = with_edge_prior(state, EdgePrior(0.3, similarity), SINGLE)
        twin = copy_of(state)
        advantages = np.linspace(-1.5, 1.5, 6)
        repeat_update_of_membership(rng, data, state, advantages, np.empty((1, 6), dtype=bool))
        naive_updates.update_membership(twin_rng, data, twin, advantages)
        assert_same(state, twin)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
        seen.add(tuple(state.members))
    assert len(seen) > 3


@pytest.mark.parametrize("of_single", [None, EdgePrior(0.35, np.inf)])
def test_given_the_graphs_every_membership_has_its_probability(of_single):
    """Every set of members has the probability that the priors and the likelihoods say."""
    m, p = 3, 4
    rng = np.random.default_rng(0)
    adjacencies = np.array([np.triu(rng.random((p, p)) < 0.5, 1) for _ in range(m)])
    adjacencies[1] = adjacencies[0]
    adjacencies[2] = adjacencies[2].T
    joined = adjacencies | np.swapaxes(adjacencies, 1, 2)
    advantages = np.array([0.3, -0.8, 1.2])
    prior = EdgePrior(0.15, 0.4)
    data, state = chain_of(start=adjacencies, prior=prior)
    state = with_edge_prior(state, prior, of_single)
    of_single = single_prior(prior) if of_single is None else of_single
    sets = list(itertools.product((False, True), repeat=m))
    logarithms = []
    for each in map(np.array, sets):
        k = int(each.sum())
        logarithms.append(
            betaln(k + 1, m - k + 1)
            + prior.log_probability(joined[each].sum(axis=0), k)
            + of_single.log_probability(joined[~each].sum(axis=0), m - k)
            + advantages[each].sum()
        )
    expected = np.exp(np.array(logarithms) - max(logarithms))
    expected /= expected.sum()
    n = 20_000
    members = np.empty((n, m), dtype=bool)
    repeat_update_of_membership(rng, data, state, advantages, members)
    found = np.bincount(members @ [4, 2, 1], minlength=8) / n
    assert np.sort(expected)[-2] > 0.1  # several sets are probable
    # Five standard errors if no more than a fifth of the draws is worth anything.
    tolerance = 5 * np.sqrt(expected * (1 - expected) / (n / 5)) + 1e-3
    assert (np.abs(found - expected) < tolerance).all(), (found, expected)


def test_certain_members():
    data, state = chain_of(TASKS, start=GRAPHS)
    advantages = np.where(np.arange(6) % 2, 1e6, -1e6)
    members = np.empty((2, 6), dtype=bool)
    repeat_update_of_membership(np.random.default_rng(1), data, state, advantages, members)
    np.testing.assert_array_equal(members, [advantages > 0] * 2)
    np.testing.assert_array_equal(state.counts[0], GRAPHS[advantages > 0].sum(axis=0))


# Changes of the membership and the graph at once.


def log_density_of_task(data, state, t, graph, is_member, sigma_h):
    """Log density of a task's data, graph and membership given the others, up to a constant."""
    state = copy_of(state)
    state.adjacencies[t] = graph
    value = naive_updates.log_likelihood(data, state, t, sigma_h, False)
    if is_member:
        value += naive_updates.advantages_of(data, state, sigma_h)[t]
    value -= data.edge_costs[t] * graph.sum()
    for i, j in itertools.combinations(topological_order(graph), 2):
        if data.free[i, j]:
            odds = naive_updates.log_odds_of_edge(data, state, t, i, j, is_member)
            odds += naive_updates.one_way(data, i, j)
            value += log_expit(odds if graph[i, j] else -odds)
    n_others = int(state.members.sum() - state.members[t])
    m = len(state.members)
    return value + betaln(n_others + 1 + is_member, m - n_others - is_member + 1)


def reassigned(data, state, sigma_h, single_graphs):
    """The twin of `reassign_members`: one task after the other, with everything computed anew."""
    state = copy_of(state)
    for t in range(len(state.members)):
        others = [u for u in np.flatnonzero(state.members) if u != t]
        was_member, now = bool(state.members[t]), state.adjacencies[t].copy()
        if not others:
            continue
        candidates = single_graphs[[t]] if was_member else state.adjacencies[others[:20]]
        values = [
            log_density_of_task(data, state, t, each, not was_member, sigma_h)
            for each in candidates
        ]
        stays = log_density_of_task(data, state, t, now, was_member, sigma_h)
        if max(values) > stays:
            state.members[t] = not was_member
            state.adjacencies[t] = candidates[int(np.argmax(values))]
            state.orders[t] = topological_order(state.adjacencies[t])
            state.ties[t] = state.members[t]  # until they are drawn
    state.counts[0] = state.adjacencies[state.members].sum(axis=0)
    return state


@pytest.mark.parametrize("edge_costs", [0.0, 0.3])
@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("agreement", [0.8, np.inf])
def test_tasks_join_or_leave_where_another_graph_makes_that_more_probable(
    agreement, knows, edge_costs
):
    constraints, graphs = None, GRAPHS.copy()
    if knows:
        constraints = some_constraints(4)
        graphs[:, 2, 3], graphs[:, 3, 2] = True, False
        graphs[:, 0, 1] = False
    single_graphs = np.roll(graphs, 2, axis=0)
    prior, m = EdgePrior(0.3, 1.0), len(TASKS)
    n_joined = n_left = 0
    for scale, n_members in itertools.product(np.geomspace(0.2, 20, 12), (0, 1, 3, 6)):
        data, state = chain_of(
            TASKS,
            start=graphs,
            constraints=constraints,
            members=np.arange(m) < n_members,
            ties=np.arange(4 * m).reshape(m, 4) % 5 > 0,
            prior=prior,
            agreement=agreement,
            edge_costs=edge_costs,
        )
        state = with_edge_prior(state, prior, SINGLE)
        before, sigma_h = copy_of(state), scale * 10.0 * state.centre
        found = reassign_members(data, state, sigma_h, single_graphs)
        assert_same(found, reassigned(data, state, sigma_h, single_graphs))
        assert_same(state, before)  # not changed in place
        n_joined += (found.members & ~state.members).sum()
        n_left += (state.members & ~found.members).sum()
    assert n_joined > 3
    assert n_left > 3


def test_members_that_are_held_fixed_are_not_reassigned():
    data, state = chain_of(TASKS, start=GRAPHS, samples_membership=False)
    assert reassign_members(data, state, 1e6 * state.centre, GRAPHS) is state
