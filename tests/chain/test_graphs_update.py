"""Moves between DAGs against all DAGs and all orders, of members and of tasks on their own."""

import itertools

import numpy as np
import pytest
from mtgbn.sampling.graph_moves import Alone, log_likelihoods, move_graphs
from mtgbn.sampling.shared_edges import EdgeTerms, GraphStates

from mtgbn.graphs.dags import topological_order
from mtgbn.model import log_marginal_likelihood
from mtgbn.model.edge_prior import EdgePrior, log_odds_of_directions, log_probability_of_directions

ALONE_DELTA = 3.0


def problem(seed, m, p, rows=20):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((m, p, p)) * 0.5 + np.eye(p)
    data = rng.standard_normal((m, rows, p)) @ mixing
    scatters = np.einsum("tni,tnj->tij", data, data)
    root = rng.standard_normal((p, 3 * p))
    return scatters, np.full(m, float(rows)), root @ root.T, 4.0


def alone_of(scatters, ns):
    return Alone(np.einsum("tii->ti", scatters) / ns[:, None], ALONE_DELTA)


def begin(adjacencies, members=None):
    """States with any order that the graphs obey."""
    adjacencies = np.array(adjacencies)
    orders = np.array([topological_order(each) for each in adjacencies])
    everyone = np.ones(len(adjacencies), dtype=bool)
    return GraphStates(adjacencies, orders, everyone if members is None else np.array(members))


def empty(m, p, members=None):
    return begin(np.zeros((m, p, p), dtype=bool), members)


def free(m, p):
    return np.tile(~np.eye(p, dtype=bool), (m, 1, 1)), np.zeros((p, p), dtype=bool), p - 1


def ordered_dags(p, allowed, required, max_parents):
    """Every DAG with the number of orders that it obeys."""
    weights = {}
    pairs = list(itertools.combinations(range(p), 2))
    for order in itertools.permutations(range(p)):
        for present in itertools.product((False, True), repeat=len(pairs)):
            adjacency = np.zeros((p, p), dtype=bool)
            for (first, second), there in zip(pairs, present, strict=True):
                adjacency[order[first], order[second]] = there
            obeys = not (adjacency & ~allowed).any() and not (required & ~adjacency).any()
            if obeys and adjacency.sum(axis=0).max() <= max_parents:
                weights[adjacency.tobytes()] = weights.get(adjacency.tobytes(), 0) + 1
    dags = [np.frombuffer(key, dtype=bool).reshape(p, p) for key in weights]
    return np.array(dags), np.log(list(weights.values()))


def run(seed, states, data, prior, constraints, n_rounds, n_moves, *, agreement=np.inf, alone=None):
    """Shares of the moves after which each edge was there, and the members' counts at the end.

    ``alone`` is the edge prior of tasks on their own, with the others' density if left out.
    """
    scatters, ns, sigma_h, delta = data
    m, p, _ = scatters.shape
    tallies = np.zeros((m, p, p))
    counts = np.zeros((p, p), dtype=np.int64)
    for graph, belongs in zip(states.adjacencies, states.members, strict=True):
        counts += graph & belongs
    alone = prior._replace(similarity=np.inf) if alone is None else alone
    terms = EdgeTerms(
        prior.matrix(p), prior.similarity, agreement, np.array(alone.matrix_of_log_odds(p))
    )
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        move_graphs(
            rng,
            states,
            counts,
            scatters,
            ns,
            sigma_h,
            delta,
            alone_of(scatters, ns),
            terms,
            constraints,
            n_moves,
            tallies,
        )
    return tallies / (n_rounds * n_moves), counts


def some_knowledge(p):
    allowed, required, _ = free(1, p)
    allowed[0, 0, 1] = False
    required[2, 3] = True
    allowed[0, 3, 2] = False
    return allowed, required, 2


def exact(scatter, n, sigma_h, delta, odds, constraints):
    """Edge probabilities by enumeration; ``odds`` are log prior odds, one or (p, p)."""
    p = len(scatter)
    allowed = constraints[0][0]
    odds = odds + np.log(2) * (allowed & ~allowed.T)
    dags, log_weights = ordered_dags(p, constraints[0][0], *constraints[1:])
    log_posterior = log_weights + [
        log_marginal_likelihood(scatter, n, dag, sigma_h, delta + p - 1) + odds[dag].sum()
        for dag in dags
    ]
    weights = np.exp(log_posterior - log_posterior.max())
    return np.tensordot(weights / weights.sum(), dags, 1), dags


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("belongs", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_edge_probabilities_are_those_of_all_orders_and_dags(seed, belongs, knows):
    p = 4
    data = problem(seed, 1, p)
    scatters, ns, sigma_h, delta = data
    constraints = some_knowledge(p) if knows else free(1, p)
    if not belongs:  # its own variances, whatever the others share
        sigma_h, delta = np.diag(np.diag(scatters[0]) / ns[0]), ALONE_DELTA
    expected, dags = exact(scatters[0], ns[0], sigma_h, delta, np.log(0.3 / 0.7), constraints)
    first = dags[np.argmin(dags.sum(axis=(1, 2)))]
    found, _ = run(
        seed, begin(first[None], [belongs]), data, EdgePrior(0.3, np.inf), constraints, 1, 2_000_000
    )
    assert expected[expected > 0.001].min() > 0.02 or knows or not belongs
    np.testing.assert_allclose(found[0], expected, atol=0.012)


def test_pairs_have_odds_of_their_own():
    p = 4
    data = problem(1, 1, p)
    scatters, ns, sigma_h, delta = data
    density = np.random.default_rng(0).uniform(0.05, 0.8, (p, p))
    density = (density + density.T) / 2
    expected, _ = exact(
        scatters[0], ns[0], sigma_h, delta, np.log(density / (1 - density)), free(1, p)
    )
    found, _ = run(1, empty(1, p), data, EdgePrior(density, np.inf), free(1, p), 1, 2_000_000)
    np.testing.assert_allclose(found[0], expected, atol=0.012)


def test_a_task_on_its_own_does_not_see_the_others_nor_they_it():
    """Graphs that can hardly move beside one that does: its prior odds tell what it was told."""
    p, m = 3, 4
    scatters, ns, sigma_h, delta = problem(2, m, p)
    chain = np.zeros((p, p), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    allowed, _, most = free(m, p)
    allowed[:3] = chain  # the first three keep their edges, which are required of all
    constraints = allowed, chain, most
    prior, alone, agreement = EdgePrior(0.3, 0.5), EdgePrior(0.4, np.inf), 0.8
    data = scatters, ns, sigma_h, delta
    for members in ([True, True, True, True], [True, True, False, True], [True, True, True, False]):
        states = begin(np.array([chain] * m), members)
        found, counts = run(
            0, states, data, prior, constraints, 20, 40_000, agreement=agreement, alone=alone
        )
        np.testing.assert_array_equal(found[:3], np.array([chain] * 3))
        np.testing.assert_array_equal(counts, states.adjacencies[np.array(members)].sum(axis=0))
        limits = allowed[3:], chain, most
        if members[3]:
            others = np.sum(members) - 1
            odds = prior.log_odds(others * (chain | chain.T), others)
            odds += log_odds_of_directions(others * chain, others * (chain | chain.T), agreement)
            expected, _ = exact(scatters[3], ns[3], sigma_h, delta, odds, limits)
        else:
            own = np.diag(np.diag(scatters[3]) / ns[3])
            expected, _ = exact(scatters[3], ns[3], own, ALONE_DELTA, np.log(0.4 / 0.6), limits)
        np.testing.assert_allclose(found[3], expected, atol=0.012)


@pytest.mark.parametrize("outsiders", [0, 1, 2])
def test_without_data_skeletons_follow_the_edge_prior(outsiders):
    """Every combination of the members' skeletons is as probable as the edge prior says."""
    p, m = 3, 2 + outsiders
    scatters, _, sigma_h, delta = problem(0, m, p)
    data = 1e-9 * scatters, np.full(m, 1e-9), sigma_h, delta
    prior = EdgePrior(0.3, 0.7)
    members = np.arange(m) >= outsiders
    states = empty(m, p, members)
    counts, apart = np.zeros(3), np.zeros(outsiders)
    rng = np.random.default_rng(1)
    n_runs = 6000
    for seed in rng.integers(1 << 30, size=n_runs):
        _, now = run(seed, states, data, prior, free(m, p), 1, 8)
        counts += np.bincount((now + now.T)[np.triu_indices(p, 1)], minlength=3)
        apart += states.adjacencies[~members].sum(axis=(1, 2)) / 3
    single = [prior.log_probability(np.array([[0, c], [c, 0]]), 2) for c in range(3)]
    expected = np.exp(single) * [1, 2, 1]
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.02)
    assert expected.sum() == pytest.approx(1)
    np.testing.assert_allclose(apart / n_runs, 0.3, atol=0.02)


@pytest.mark.parametrize("belongs", [True, False])
def test_an_edge_of_known_direction_is_as_probable_as_any(belongs):
    p = 2
    data = np.eye(p)[None] * 1e-9, np.array([1e-9]), np.eye(p), 4.0
    allowed, required, most = free(1, p)
    allowed[0, 1, 0] = False
    found, _ = run(
        0, empty(1, p, [belongs]), data, EdgePrior(0.3, 1.0), (allowed, required, most), 1, 400_000
    )
    assert found[0, 0, 1] == pytest.approx(0.3, abs=0.01)
    assert found[0, 1, 0] == 0


@pytest.mark.parametrize("agreement", [0.3, 2.0])
def test_shared_directions_against_all_pairs_of_graphs(agreement):
    """Two tasks: every pair of DAGs, with the number of orders that they obey."""
    p, m = 3, 2
    data = problem(5, m, p, rows=6)
    scatters, ns, sigma_h, delta = data
    prior = EdgePrior(0.4, 0.8)
    dags, log_orders = ordered_dags(p, *(each for each in (free(1, p)[0][0], *free(1, p)[1:])))
    values = [
        [log_marginal_likelihood(scatters[t], ns[t], dag, sigma_h, delta + p - 1) for dag in dags]
        for t in range(m)
    ]
    total = np.add.outer(values[0] + log_orders, values[1] + log_orders)
    for a, b in itertools.product(range(len(dags)), repeat=2):
        directed = dags[a].astype(int) + dags[b]
        total[a, b] += prior.log_probability(directed + directed.T, m)
        total[a, b] += log_probability_of_directions(directed, agreement)
    weights = np.exp(total - total.max())
    weights /= weights.sum()
    found, _ = run(0, empty(m, p), data, prior, free(m, p), 30_000, 20, agreement=agreement)
    np.testing.assert_allclose(found[0], np.tensordot(weights.sum(axis=1), dags, 1), atol=0.012)
    np.testing.assert_allclose(found[1], np.tensordot(weights.sum(axis=0), dags, 1), atol=0.012)


def test_orders_obey_graphs_and_counts_are_right():
    p, m = 6, 4
    data = problem(3, m, p)
    states = empty(m, p, [True, False, True, True])
    tallies, counts = run(0, states, data, EdgePrior(0.4, 2.0), free(m, p), 50, 200)
    for adjacency, order in zip(states.adjacencies, states.orders, strict=True):
        assert sorted(order) == list(range(p))
        place = np.argsort(order)
        parents, children = np.nonzero(adjacency)
        assert (place[parents] < place[children]).all()
    joined = states.adjacencies | np.swapaxes(states.adjacencies, 1, 2)
    np.testing.assert_array_equal(counts, states.adjacencies[states.members].sum(axis=0))
    assert joined[1].any()
    assert (tallies + tallies.transpose(0, 2, 1) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(states.members, [True, False, True, True])


def test_likelihoods_are_the_public_ones_up_to_a_constant():
    p, m = 5, 3
    scatters, ns, sigma_h, delta = problem(4, m, p)
    members = np.array([True, False, True])
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(4):
        dags = np.array([np.triu(rng.random((p, p)) < 0.5, 1) for _ in range(m)])
        values = np.empty(m)
        log_likelihoods(dags, members, scatters, ns, sigma_h, delta, alone_of(scatters, ns), values)
        public = [
            log_marginal_likelihood(scatters[t], ns[t], dags[t], sigma_h, delta + p - 1)
            if members[t]
            else log_marginal_likelihood(
                scatters[t],
                ns[t],
                dags[t],
                np.diag(np.diag(scatters[t]) / ns[t]),
                ALONE_DELTA + p - 1,
            )
            for t in range(m)
        ]
        differences.append(values - public)
    # The constant is of the data alone, so it is the same for members and others.
    np.testing.assert_allclose(differences, differences[0][0], atol=1e-9)
