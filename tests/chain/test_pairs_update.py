"""Updates of pairs in all members at once: their naive twins, and exact distributions."""

import itertools

import naive
import naive_updates
import numpy as np
import pytest
from chain_problems import (
    KINDS,
    KINDS_OF_GROUPS,
    assert_same,
    chain_of,
    some_arrays,
    some_constraints,
)
from numpy.testing import assert_allclose
from sampling_oracles import MIXED_GRAPHS, dag

from mtgbn.chain.state import copy_of
from mtgbn.chain.updates.kinds import update_kinds
from mtgbn.chain.updates.pairs import update_pairs
from mtgbn.chain.updates.sigma_h import contiguous_factor
from mtgbn.search.knowledge import no_constraints
from mtgbn.tasks import Tasks

TIES = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
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
    "groups": {"groups": [0, 1, 1, 0, 1], "agreement": 1.5},
    "at most one parent": {"constraints": no_constraints(4)._replace(max_parents=1)},
}


def sigma_h_of(state):
    return float(state.delta) * state.centre


@pytest.mark.parametrize(
    ("members", "has_own"),
    [
        ("all members", False),
        ("all members", True),
        ("three members", True),
        ("no members", False),
    ],
)
@pytest.mark.parametrize("setting", SETTINGS)
def test_they_are_their_twins(setting, members, has_own):
    start = None if setting in ("knowledge", "at most one parent") else GRAPHS
    data, state = chain_of(
        TASKS,
        start=start,
        members=MEMBERS[members],
        ties=TIES if has_own else True,
        prior=KINDS_OF_GROUPS if setting == "groups" else KINDS,
        **SETTINGS[setting],
    )
    twin, before = copy_of(state), copy_of(state)
    rng, twin_rng = np.random.default_rng(1), np.random.default_rng(1)
    sigma_h, twins_sigma_h = sigma_h_of(state), sigma_h_of(twin)
    for _ in range(40):
        update_pairs(rng, data, state, contiguous_factor(state.centre), sigma_h)
        twins_sigma_h = naive_updates.update_pairs(twin_rng, data, twin, twins_sigma_h)
        assert_allclose(sigma_h, twins_sigma_h, rtol=1e-9)
        update_kinds(rng, data, state)
        naive_updates.update_kinds(twin_rng, data, twin)
        assert_same(state, twin, rtol=1e-9, atol=1e-12)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
    is_member = np.array(MEMBERS[members])
    assert (state.adjacencies[~is_member] == before.adjacencies[~is_member]).all()
    assert (state.adjacencies != before.adjacencies).any() == is_member.any()
    assert ((state.kinds != before.kinds) | (before.kinds == 0)).all()


@pytest.mark.parametrize(
    ("agreement", "ties", "groups"),
    [
        (np.inf, True, None),
        (0.8, True, None),
        (np.inf, [[True, False], [False, True], [True, True]], None),
        (np.inf, True, [0, 1, 1]),
    ],
)
def test_a_pair_has_the_distribution_of_all_its_patterns_and_elements(agreement, ties, groups):
    """Two variables, three tasks with fixed orders: eight patterns of edges, by brute force.

    Updates reach correlations in sigma_h that are a multiple of .05 away from the first one.
    """
    rng = np.random.default_rng(0)
    tasks = Tasks.from_arrays([rng.standard_normal((12, 2)) for _ in range(3)])
    kinds = KINDS if groups is None else KINDS_OF_GROUPS
    data, state = chain_of(tasks, prior=kinds, agreement=agreement, ties=ties, groups=groups)
    state.orders[:] = [[0, 1], [1, 0], [0, 1]]
    edges = [(0, 0, 1), (1, 1, 0), (2, 0, 1)]
    correlations, scale = np.arange(-0.96, 0.99, 0.05), np.sqrt(9.0 * 8.0)
    patterns = [*itertools.product([False, True], repeat=3)]
    values = np.empty((8, len(correlations)))
    for place, pattern in enumerate(patterns):
        for edge, is_there in zip(edges, pattern, strict=True):
            state.adjacencies[edge] = is_there
        forward = state.adjacencies[:, 0, 1].sum()
        of_groups = [[pattern[t] for t in range(3) if data.groups[t] == group] for group in (0, 1)]
        prior = naive_updates.log_probability_of_patterns(kinds, *of_groups)
        prior += naive.log_probability_of_directions(
            np.array([[0, forward], [sum(pattern) - forward, 0]]), agreement
        )
        for k, correlation in enumerate(correlations):
            sigma_h = np.array([[9.0, scale * correlation], [scale * correlation, 8.0]])
            values[place, k] = prior + naive_updates.log_prior_of_sigma_h(data, state, sigma_h)
            values[place, k] += sum(
                naive_updates.log_likelihood(data, state, t, sigma_h, state.ties[t])
                for t in range(3)
            )
    expected = np.exp(values - values.max())
    expected /= expected.sum()
    state.counts[:] = naive_updates.directed_counts(data, state)
    sigma_h = np.array([[9.0, scale * correlations[20]], [scale * correlations[20], 8.0]])
    factor = contiguous_factor(state.centre)
    n_draws = 100_000
    counts = np.zeros_like(expected)
    for _ in range(n_draws):
        update_pairs(rng, data, state, factor, sigma_h)
        pattern = tuple(bool(state.adjacencies[edge]) for edge in edges)
        counts[patterns.index(pattern), round((sigma_h[0, 1] / scale + 0.96) / 0.05)] += 1
    # One update in twenty draws the pair with its element, so that draws repeat. Given the share of a
    # direction, which is drawn first, successive draws depend on each other a little more.
    effective = n_draws / (45 if agreement == np.inf else 80)
    for axis in (0, 1):
        found, probabilities = counts.sum(axis=axis) / n_draws, expected.sum(axis=axis)
        errors = np.sqrt(probabilities * (1 - probabilities) / effective)
        assert probabilities.max() < 0.7
        assert (np.abs(found - probabilities) < 4.5 * errors + 1 / effective).all()
    assert expected.sum(axis=1).min() > 0.001


@pytest.mark.parametrize("has_groups", [False, True])
def test_kinds_have_the_distribution_of_their_conjugate_prior(has_groups):
    """Without members nothing is known: shares are Dirichlet, frequencies Beta."""
    groups = [0, 1, 1, 0, 0] if has_groups else None
    prior = KINDS_OF_GROUPS if has_groups else KINDS
    data, state = chain_of(TASKS, members=[False] * 5, prior=prior, groups=groups)
    rng = np.random.default_rng(2)
    draws = np.empty((6000, 6))
    for k in range(len(draws)):
        update_kinds(rng, data, state)
        draws[k] = state.kinds
    if not has_groups:
        assert not draws[:, 5].any()
    # p/2 for absent pairs, 1/2 for the others, of which there are six in all.
    parameters = np.array([2.0, 0.5, 0.5, *[0.5] * has_groups])
    shares = parameters / parameters.sum()
    sds = np.sqrt(shares * (1 - shares) / (parameters.sum() + 1))
    of_frequencies = np.sqrt(0.05 * 0.95 / 11)
    expected = np.array([*shares[:3], 0.05, 0.95, *shares[3:]])
    sds = np.array([*sds[:3], of_frequencies, of_frequencies, *sds[3:]])
    draws = draws[:, : len(expected)]
    # Kinds and shares are drawn in turns: with six pairs about ten rounds make one independent draw.
    errors = sds / np.sqrt(len(draws) / 10)
    assert (np.abs(draws.mean(axis=0) - expected) < 4.5 * errors).all()
