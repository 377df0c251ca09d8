"""Compiled sums over the tasks' edges against the same in numpy, and against all graphs."""

import itertools

import numpy as np
import pytest
from mtgbn.sampling.shared_edges import (
    EdgeTerms,
    GraphStates,
    add_log_odds,
    draw_members,
    log_odds_of_edge,
    log_probability_of_edges,
)

from mtgbn.graphs.dags import topological_order
from mtgbn.model.edge_prior import EdgePrior, log_odds_of_directions, log_probability_of_directions

ALONE = EdgePrior(0.3, np.inf)


def random_states(rng, m, p, density=0.4):
    adjacencies = np.array([np.triu(rng.random((p, p)) < density, 1) for _ in range(m)])
    for adjacency in adjacencies:
        order = rng.permutation(p)
        adjacency[:] = adjacency[np.ix_(order, order)]
    orders = np.array([topological_order(each) for each in adjacencies])
    return GraphStates(adjacencies, orders, rng.random(m) < 0.7)


def terms_of(prior, agreement, p):
    alone = np.ascontiguousarray(ALONE.matrix_of_log_odds(p))
    return EdgeTerms(prior.matrix(p), float(prior.similarity), float(agreement), alone)


def random_density(rng, p):
    density = rng.uniform(0.05, 0.6, (p, p))
    return (density + density.T) / 2


PRIORS = [
    ("one density", 0.2, 3.0, 2.5),
    ("a density per pair", None, 3.0, 2.5),
    ("unrelated", 0.2, np.inf, np.inf),
    ("almost identical", 0.2, 1e-6, 1e-3),
    ("hardly related", 0.2, 1e9, 1e9),
]


@pytest.fixture(params=PRIORS, ids=lambda each: each[0])
def case(request):
    _, density, similarity, agreement = request.param
    rng = np.random.default_rng(3)
    m, p = 7, 6
    prior = EdgePrior(random_density(rng, p) if density is None else density, similarity)
    states = random_states(rng, m, p)
    counts = states.adjacencies[states.members].sum(axis=0)
    return prior, agreement, states, counts


def test_log_odds_against_numpy(case):
    prior, agreement, states, counts = case
    m, p, _ = states.adjacencies.shape
    total = np.ones((m, p, p))
    add_log_odds(states, counts, terms_of(prior, agreement, p), total)
    for t, adjacency in enumerate(states.adjacencies):
        belongs = bool(states.members[t])
        there = counts - (adjacency & belongs)
        n_others = int(states.members.sum()) - belongs
        expected = prior.log_odds(there + there.T, n_others)
        expected = expected + log_odds_of_directions(there, there + there.T, agreement)
        off = ~np.eye(p, dtype=bool)
        np.testing.assert_allclose(total[t][off] - 1, expected[off], rtol=1e-9, atol=1e-12)


def test_log_probability_against_numpy(case):
    prior, agreement, states, counts = case
    p = len(counts)
    free = np.ones((p, p), dtype=bool)
    free[0, 1] = free[1, 0] = False
    outside = states.adjacencies[~states.members]
    joined = outside | np.swapaxes(outside, 1, 2)
    expected = (
        prior.log_probability(counts + counts.T, int(states.members.sum()), free)
        + log_probability_of_directions(counts, agreement)
        + ALONE.log_probability(joined.sum(axis=0), len(joined), free)
    )
    found = log_probability_of_edges(states, counts, terms_of(prior, agreement, p), free)
    # betaln of numbers around 1e9 has lost digits; the products have not
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-4 if agreement > 1e6 else 1e-9)


def test_log_probability_of_many_tasks_stays_in_range():
    """With 3000 tasks the products leave the range of floating-point numbers many times over."""
    rng = np.random.default_rng(0)
    prior, m, p = EdgePrior(1e-3, 4.0), 3000, 3
    states = random_states(rng, m, p)
    states.members[:] = True
    counts = states.adjacencies.sum(axis=0)
    free = np.ones((p, p), dtype=bool)
    expected = prior.log_probability(counts + counts.T, m) + log_probability_of_directions(
        counts, 50.0
    )
    found = log_probability_of_edges(states, counts, terms_of(prior, 50.0, p), free)
    assert found == pytest.approx(expected, rel=1e-10)


def test_log_probability_of_tiny_densities():
    """Densities that no two of can be multiplied."""
    rng = np.random.default_rng(2)
    density = np.where(rng.random((4, 4)) < 0.5, 1e-140, 1e-200)
    prior = EdgePrior(np.triu(density, 1) + np.triu(density, 1).T + 0.5 * np.eye(4), 4.0)
    states = random_states(rng, 5, 4)
    states.members[:] = True
    counts = states.adjacencies.sum(axis=0)
    found = log_probability_of_edges(
        states, counts, terms_of(prior, np.inf, 4), np.ones((4, 4), dtype=bool)
    )
    assert found == pytest.approx(prior.log_probability(counts + counts.T, 5), rel=1e-12)


def test_a_task_with_every_graph_has_normalised_probabilities():
    """Summed over all graphs along an order, P(graph | belongs) is 1: what `draw_members` rests on."""
    p, rng = 4, np.random.default_rng(0)
    terms = terms_of(EdgePrior(0.15, 0.4), 1.5, p)
    counts = np.triu(rng.integers(0, 3, (p, p)), 1)
    places = np.argwhere(np.triu(np.ones((p, p), dtype=bool), 1))
    odds = np.array(
        [log_odds_of_edge(terms, i, j, counts[i, j], counts[j, i], 5) for i, j in places]
    )
    total = 0.0
    for present in itertools.product((False, True), repeat=len(places)):
        total += np.exp(odds[np.array(present)].sum() - np.logaddexp(0, odds).sum())
    assert total == pytest.approx(1)


def test_certain_members_and_counts_are_kept_up_to_date():
    rng = np.random.default_rng(1)
    m, p = 6, 5
    states = random_states(rng, m, p)
    counts = states.adjacencies[states.members].sum(axis=0)
    advantages = np.where(np.arange(m) % 2, 1e6, -1e6)
    everything = np.tile(~np.eye(p, dtype=bool), (m, 1, 1))
    terms = terms_of(EdgePrior(0.2, 3.0), 2.5, p)
    draw_members(rng, states, counts, advantages, terms, everything, everything)
    np.testing.assert_array_equal(states.members, advantages > 0)
    np.testing.assert_array_equal(counts, states.adjacencies[states.members].sum(axis=0))
