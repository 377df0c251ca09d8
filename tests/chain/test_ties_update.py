"""The update of the ties against its naive twin and against all patterns of ties."""

import itertools

import naive
import naive_updates
import numpy as np
import pytest
from chain_problems import (
    MIXED_TIES,
    SINGLE_DELTA,
    assert_same,
    chain_of,
    repeat_update_of_ties,
    some_arrays,
)
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT, dag
from scipy.special import betaln, logsumexp, softmax, xlogy

from mtgbn.chain.diagnostics import ess_mean
from mtgbn.chain.likelihoods import empty_scores, prepare_own, prepare_tied
from mtgbn.chain.state import copy_of, with_edge_prior
from mtgbn.chain.updates.ties import draw_ties, write_advantages
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.tasks import Tasks

SINGLE = EdgePrior(0.2, np.inf)


def likelihoods_of(data, state, sigma_h):
    """Log likelihoods of all families as tied and as own ones, (m, p) each."""
    return tuple(
        np.array(
            [
                [
                    naive_updates.log_likelihood_of_family(data, state, t, j, sigma_h, is_tied)
                    for j in range(len(sigma_h))
                ]
                for t in range(len(state.members))
            ]
        )
        for is_tied in (True, False)
    )


def updated(rng, data, state, likelihoods, n_updates=1):
    """What members, ties and the share of own families were after every update."""
    m, p = state.ties.shape
    members = np.empty((n_updates, m), dtype=bool)
    ties = np.empty((n_updates, m, p), dtype=bool)
    own_shares = np.empty(n_updates)
    repeat_update_of_ties(rng, data, state, *likelihoods, members, ties, own_shares)
    return members, ties, own_shares


# The twin.


@pytest.mark.parametrize("members", [(True, True, True), (True, False, True), (False,) * 3])
@pytest.mark.parametrize("samples_ties", [True, False])
@pytest.mark.parametrize("samples_membership", [True, False])
def test_it_is_its_twin(samples_membership, samples_ties, members):
    data, state = chain_of(
        start=MIXED_GRAPHS,
        members=members,
        ties=MIXED_TIES,
        samples_ties=samples_ties,
        samples_membership=samples_membership,
    )
    twin, sigma_h = copy_of(state), 25.0 * state.centre
    likelihoods = likelihoods_of(data, state, sigma_h)
    rng, twin_rng = np.random.default_rng(4), np.random.default_rng(4)
    seen = set()
    for _ in range(30):
        updated(rng, data, state, likelihoods)
        if samples_membership:
            advantages = naive_updates.advantages_of(data, twin, sigma_h)
            naive_updates.update_membership(twin_rng, data, twin, advantages)
        naive_updates.update_ties(twin_rng, data, twin, sigma_h)
        assert_same(state, twin, rtol=1e-12)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
        seen.add(state.ties.tobytes())
    assert (len(seen) > 1) == (samples_membership or (samples_ties and any(members)))


# Enumeration.


def exact(data, state, sigma_h):
    """Probabilities of all memberships with all ties and every share of own families.

    The share of members is uniform. Rows are patterns, columns shares of own families.
    """
    m, p = state.ties.shape
    tied, own = likelihoods_of(data, state, sigma_h)
    memberships = [state.members]
    if data.samples_membership:
        memberships = [np.array(each) for each in itertools.product([False, True], repeat=m)]
    found, logarithms, whose = [], [], []
    for members in memberships:
        n_families = p * int(members.sum())
        given = state._replace(members=members)
        prior = naive_updates.log_probability_of_edges(data, given)
        prior += betaln(members.sum() + 1, m - members.sum() + 1)
        for pattern in itertools.product([False, True], repeat=n_families):
            ties = np.zeros((m, p), dtype=bool)
            ties[members] = np.reshape(pattern, (-1, p))
            if (~ties[members]).sum(axis=1).max(initial=0) > 1:
                continue  # of three families one may be an own one
            found.append(ties)
            whose.append(members)
            logarithms.append(naive_updates.log_probabilities_of_ties(ties[members]))
            logarithms[-1] += prior + np.where(ties, tied, own).sum()
    return np.array(whose), np.array(found), softmax(logarithms)


def effective_size(values):
    return ess_mean(np.asarray(values, dtype=float)[None, None])[0]


def assert_probability(is_there, expected, most):
    """The share of draws is as expected; Z_LIMIT is exceeded with probability 7e-6.

    What is rare looks as if it were independent from draw to draw; its effective size is ``most``.
    """
    size = min(effective_size(is_there), most)
    error = np.sqrt(expected * (1 - expected) / size)
    assert abs(np.mean(is_there) - expected) < Z_LIMIT * error + 1 / size


@pytest.mark.parametrize(
    ("samples_membership", "members"),
    [(False, [True, True]), (False, [True, False]), (True, [True, True])],
)
def test_all_patterns_have_their_probabilities(samples_membership, members):
    """Two tasks of three variables, one of them unlike the other; graphs and sigma_h are fixed.

    About 200 shares are compared in all cases: a false alarm in 700 runs.
    """
    p = 3
    arrays = some_arrays(2, p, rows=9, seed=2)
    arrays[1] *= [1.0, 3.0, 0.8]
    start = np.array([dag(p, (0, 1), (1, 2)), dag(p, (0, 1))])
    prior = EdgePrior(0.4, 2.0)
    data, state = chain_of(
        Tasks.from_arrays(arrays),
        start=start,
        members=members,
        prior=prior,
        delta=10.0,
        samples_membership=samples_membership,
    )
    state = with_edge_prior(state, prior, SINGLE)
    sigma_h = 12.0 * state.centre  # not far from the data, but not as near as it could be
    all_members, all_ties, probabilities = exact(data, state, sigma_h)
    expected = probabilities.sum(axis=1)
    draws = updated(
        np.random.default_rng(0), data, state, likelihoods_of(data, state, sigma_h), 60_000
    )
    found_members, found_ties, own_shares = draws
    most = effective_size(np.log(own_shares))
    assert most > 3000
    for pattern in np.unique(all_members, axis=0):
        probability = expected[(all_members == pattern).all(axis=1)].sum()
        assert_probability((found_members == pattern).all(axis=1), probability, most)
        assert probability > 0.03  # every membership is probable
    for t, node in itertools.product(range(2), range(p)):
        probability = expected[all_ties[:, t, node]].sum()
        assert_probability(found_ties[:, t, node], probability, most)
    is_found = np.zeros(len(found_ties), dtype=bool)
    for pattern, ties, probability in zip(all_members, all_ties, expected, strict=True):
        is_here = (found_members == pattern).all(axis=1) & (found_ties == ties).all(axis=(1, 2))
        assert_probability(is_here, probability, most)
        is_found |= is_here
    assert is_found.all()
    assert np.sum(expected > 0.02) >= 3  # several patterns are probable
    for share, probability in zip(naive_updates.OWN_SHARES, probabilities.sum(axis=0), strict=True):
        assert_probability(own_shares == share, probability, most)


@pytest.mark.parametrize(("p", "most"), [(5, 0), (5, 1), (8, 2), (16, 2)])
@pytest.mark.parametrize("own_share", [0.0, 0.05, 0.7])
def test_advantages_are_sums_over_all_patterns(own_share, p, most):
    rng = np.random.default_rng(1)
    m = 2
    as_members, as_single = rng.normal(-50, 4, (2, m, p))
    patterns = np.array(
        [
            [k not in own for k in range(p)]
            for number in range(most + 1 if own_share > 0 else 1)
            for own in itertools.combinations(range(p), number)
        ]
    )
    n_own = (~patterns).sum(axis=1)
    log_prior = xlogy(n_own, own_share) + (p - n_own) * np.log(1 - own_share)
    log_prior -= logsumexp(log_prior)
    values = np.where(patterns[:, None], as_members, as_single).sum(axis=2)
    expected = logsumexp(values + log_prior[:, None], axis=0) - as_single.sum(axis=1)
    found = np.empty(m)
    write_advantages(as_members, as_single, own_share, most, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_advantages_of_families_that_are_far_apart_are_finite():
    """An own family costs the logarithm of its share, however unlike the others it is."""
    as_members, as_single = np.array([[0.0, -1e5], [1e5, 0.0]]), np.zeros((2, 2))
    found = np.empty(2)
    write_advantages(as_members, as_single, 0.05, 1, found)
    usual = 1 - 0.05**2  # of two families one may be an own one
    expected = [np.log(0.95 * 0.05 / usual), 1e5 + np.log(0.95 / usual)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    write_advantages(np.full((2, 2), -1e5), as_single, 0.05, 1, found)
    assert found[0] == pytest.approx(-1e5 + np.log(2 * 0.95 * 0.05 / usual))


def test_families_that_are_far_apart_are_certain():
    data, state = chain_of(start=MIXED_GRAPHS, samples_membership=False)
    expected = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0]], dtype=bool)
    as_members, as_single = np.where(expected, 1e5, -1e5), np.zeros(expected.shape)
    _, ties, _ = updated(np.random.default_rng(0), data, state, (as_members, as_single), 50)
    assert (ties == expected).all()


# A new task.


@pytest.mark.parametrize("own_share", [0.05, 0.6])
def test_ties_of_a_new_task_have_their_probabilities(own_share):
    """Draws are independent. Eight shares: a false alarm in 15,000 runs."""
    p, n, delta, n_draws = 4, 20.0, 8.0, 20_000
    rng = np.random.default_rng(3)
    root = rng.standard_normal((12, p)) * [1.0, 2.5, 0.4, 1.0]
    scatter = root.T @ root  # to which sigma_h is near enough that no tie is certain
    sigma_h = delta * (0.6 * scatter / n + 0.2 * naive.random_covariance(rng, p))
    scales, adjacency = rng.uniform(0.5, 2.0, p), MIXED_GRAPHS[2]
    scores = empty_scores(p)
    scores.log_odds[:] = rng.normal(0, 3, (p, p))  # edges say nothing of ties
    prepare_tied(scores, scatter, n, sigma_h, delta, p - 1)
    prepare_own(scores, scatter, n, scales, p - 1)
    draws = np.array([draw_ties(rng, scores, adjacency, own_share, 1) for _ in range(n_draws)])
    gains = np.empty(p)
    for node in range(p):
        parents = naive.parents_of(adjacency, node)
        tied, own = (
            naive_updates.family_score(*prior, scatter, n, node, parents)
            for prior in ((sigma_h, delta), (np.diag(scales), SINGLE_DELTA))
        )
        gains[node] = tied - own
    patterns, log_prior = naive_updates.patterns_of_ties(p, own_share)
    weights = softmax(log_prior + patterns @ gains)
    expected = weights @ patterns
    errors = np.sqrt(expected * (1 - expected) / n_draws)
    assert (np.abs(draws.mean(axis=0) - expected) < Z_LIMIT * errors + 1e-9).all()
    assert np.sum((expected > 0.01) & (expected < 0.99)) > 1
    assert (~draws).sum(axis=1).max() == 1
