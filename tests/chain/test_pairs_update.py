"""Updates of pairs in all members at once: their naive twins, and exact distributions."""

import itertools

import naive
import naive_updates
import numpy as np
import pytest
from chain_problems import KINDS, assert_same, chain_of, some_arrays, some_constraints
from sampling_oracles import MIXED_GRAPHS, dag

from mtgbn.chain.state import copy_of
from mtgbn.chain.updates.pairs import update_kinds, update_pairs
from mtgbn.search.knowledge import no_constraints
from mtgbn.tasks import Tasks

GRAPHS = np.array([*MIXED_GRAPHS, MIXED_GRAPHS[0], dag(4, (2, 3))])
TASKS = Tasks.from_arrays(some_arrays(m=5))
MEMBERS = {
    "all members": [True] * 5,
    "three members": [True, False, True, True, False],
    "no members": [False] * 5,
}
SETTINGS = {
    "plain": {},
    "directions": {"agreement": 1.5},
    "costs": {"edge_costs": np.array([0.1, 3.0, 0.5, 0.0, 1.0])},
    "knowledge": {"constraints": some_constraints(4), "agreement": 0.7},
    "at most one parent": {"constraints": no_constraints(4)._replace(max_parents=1)},
}


def sigma_h_of(state):
    return float(state.delta) * state.centre


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_they_are_their_twins(setting, members):
    start = None if setting in ("knowledge", "at most one parent") else GRAPHS
    data, state = chain_of(
        TASKS, start=start, members=MEMBERS[members], prior=KINDS, **SETTINGS[setting]
    )
    twin, before = copy_of(state), copy_of(state)
    rng, twin_rng = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(15):
        update_pairs(rng, data, state, sigma_h_of(state))
        naive_updates.update_pairs(twin_rng, data, twin, sigma_h_of(twin))
        update_kinds(rng, data, state)
        naive_updates.update_kinds(twin_rng, data, twin)
        assert_same(state, twin, rtol=1e-9)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
    is_member = np.array(MEMBERS[members])
    assert (state.adjacencies[~is_member] == before.adjacencies[~is_member]).all()
    assert (state.adjacencies != before.adjacencies).any() == is_member.any()
    assert (state.kinds != before.kinds).all()


@pytest.mark.parametrize("agreement", [np.inf, 0.8])
def test_a_pair_has_the_distribution_of_all_its_patterns(agreement):
    """Two variables, three tasks with fixed orders: eight patterns of edges, by brute force."""
    rng = np.random.default_rng(0)
    tasks = Tasks.from_arrays([rng.standard_normal((12, 2)) for _ in range(3)])
    data, state = chain_of(tasks, prior=KINDS, agreement=agreement)
    state.orders[:] = [[0, 1], [1, 0], [0, 1]]
    edges = [(0, 0, 1), (1, 1, 0), (2, 0, 1)]
    sigma_h = np.array([[9.0, 5.0], [5.0, 8.0]])
    patterns = [*itertools.product([False, True], repeat=3)]
    expected = np.empty(8)
    for place, pattern in enumerate(patterns):
        for edge, is_there in zip(edges, pattern, strict=True):
            state.adjacencies[edge] = is_there
        forward = state.adjacencies[:, 0, 1].sum()
        value = naive.log_probability_of_pair(KINDS, sum(pattern), 3 - sum(pattern))
        value += naive.log_probability_of_directions(
            np.array([[0, forward], [sum(pattern) - forward, 0]]), agreement
        )
        value += sum(naive_updates.log_likelihood(data, state, t, sigma_h, True) for t in range(3))
        expected[place] = np.exp(value)
    expected /= expected.sum()
    assert expected.min() > 0.002
    state.counts[:] = state.adjacencies.sum(axis=0)
    counts = dict.fromkeys(patterns, 0)
    n_draws = 40_000
    for _ in range(n_draws):
        update_pairs(rng, data, state, sigma_h)
        counts[tuple(bool(state.adjacencies[edge]) for edge in edges)] += 1
    found = np.array([counts[pattern] for pattern in patterns]) / n_draws
    # One update in four draws the pair anew, so that draws repeat. Given the share of a direction,
    # which is drawn first, successive draws depend on each other a little more.
    errors = np.sqrt(expected * (1 - expected) / (n_draws / (7 if agreement == np.inf else 14)))
    assert (np.abs(found - expected) < 4.5 * errors).all()


def test_kinds_have_the_distribution_of_their_conjugate_prior():
    """Without members nothing is known: shares are Dirichlet, frequencies Beta."""
    data, state = chain_of(TASKS, members=[False] * 5, prior=KINDS)
    rng = np.random.default_rng(2)
    draws = np.empty((4000, 5))
    for k in range(len(draws)):
        update_kinds(rng, data, state)
        draws[k] = state.kinds
    # p/2 for absent pairs, 1/2 for the others, of which there are six in all.
    parameters = np.array([2.0, 0.5, 0.5])
    expected = [*(parameters / parameters.sum()), 0.05, 0.95]
    total = parameters.sum()
    sds = [np.sqrt(e * (1 - e) / (total + 1)) for e in expected[:3]]
    sds += [np.sqrt(0.05 * 0.95 / 11)] * 2
    # Kinds and shares are drawn in turns: with six pairs about ten rounds make one independent draw.
    errors = np.array(sds) / np.sqrt(len(draws) / 10)
    assert (np.abs(draws.mean(axis=0) - expected) < 4.5 * errors).all()
