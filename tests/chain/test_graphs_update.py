"""The update of the graphs against its naive twin, and against all DAGs and all orders."""

import itertools

import naive
import naive_updates
import numpy as np
import pytest
from chain_problems import (
    MIXED_TIES,
    PRIOR,
    SINGLE_DELTA,
    assert_same,
    chain_of,
    repeat_update_of_graphs,
    some_arrays,
    some_constraints,
)

from mtgbn.chain.state import copy_of, with_edge_prior
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.search.knowledge import Constraints, no_constraints
from mtgbn.tasks import Tasks


def run(seed, data, state, sigma_h, n_updates):
    """Shares of the moves after which each edge was there, and the graphs after every update."""
    m, p, _ = state.adjacencies.shape
    move_counts = np.zeros((m, p, p))
    codes = np.empty((n_updates, m), dtype=np.int64)
    repeat_update_of_graphs(np.random.default_rng(seed), data, state, sigma_h, move_counts, codes)
    return move_counts / (n_updates * data.n_moves), codes


def problem(seed, m, p, rows=20, **options):
    """Tasks, a sigma_h that they do not follow, and a chain with delta = 4."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((m, p, p)) * 0.5 + np.eye(p)
    arrays = rng.standard_normal((m, rows, p)) @ mixing
    tasks = Tasks(np.einsum("tni,tnj->tij", arrays, arrays), np.full(m, float(rows)))
    root = rng.standard_normal((p, 3 * p))
    data, state = chain_of(tasks, delta=4.0, **options)
    return data, state, root @ root.T


def without_data(m, p, **options):
    tasks = Tasks(np.array([1e-9 * np.eye(p)] * m), np.full(m, 1e-9))
    data, state = chain_of(tasks, delta=4.0, **options)
    return data, state, np.eye(p)


# The twin.


@pytest.mark.parametrize(
    ("agreement", "knows", "edge_costs"),
    [(0.8, False, 0.0), (0.8, True, 0.4), (np.inf, False, 0.4), (np.inf, True, 0.0)],
)
def test_it_is_its_twin(agreement, knows, edge_costs):
    p = 5
    constraints = some_constraints(p) if knows else None
    arrays = some_arrays(3, p, rows=10, seed=4)
    changes = 0
    mixed = np.hstack([MIXED_TIES, MIXED_TIES[:, :1]])
    for seed, (members, ties) in enumerate(
        (([True] * 3, True), ([True] * 3, mixed), ([True, False, True], mixed), ([False] * 3, True))
    ):
        data, state = chain_of(
            Tasks.from_arrays(arrays),
            members=members,
            ties=ties,
            constraints=constraints,
            agreement=agreement,
            edge_costs=edge_costs,
            n_moves=250,
        )
        state = with_edge_prior(state, PRIOR, EdgePrior(0.4, np.inf))
        twin, sigma_h = copy_of(state), 10.0 * state.centre
        frequencies, codes = run(seed, data, state, sigma_h, 2)
        rng, expected = np.random.default_rng(seed), np.zeros((3, p, p))
        for _ in range(2):
            naive_updates.update_graphs(rng, data, twin, sigma_h, expected)
        assert_same(state, twin)
        np.testing.assert_allclose(frequencies, expected / 500, rtol=1e-12)
        changes += (codes[0] != codes[1]).sum()
    assert changes > 3


@pytest.mark.parametrize("kind", ["toggle", "exchange", "reverse", "renew", "replace"])
def test_the_twin_makes_every_kind_of_move(kind, monkeypatch):
    """Without any one of them it ends elsewhere: all are put to the test."""
    data, state = chain_of(n_moves=200)
    rooms = np.zeros((2, 3, 4, 4))
    complete, lacking = copy_of(state), copy_of(state)
    naive_updates.update_graphs(
        np.random.default_rng(0), data, complete, 10 * state.centre, rooms[0]
    )
    monkeypatch.setattr(naive_updates.Walk, kind, lambda self: None)
    naive_updates.update_graphs(
        np.random.default_rng(0), data, lacking, 10 * state.centre, rooms[1]
    )
    assert (rooms[0] != rooms[1]).any()


# Enumeration.


def ordered_dags(constraints):
    """Every DAG with the logarithm of the number of orders that it obeys."""
    allowed, required, max_parents = constraints
    p, weights = len(allowed), {}
    pairs = list(itertools.combinations(range(p), 2))
    for order in itertools.permutations(range(p)):
        for present in itertools.product((False, True), repeat=len(pairs)):
            adjacency = np.zeros((p, p), dtype=bool)
            for (first, second), is_there in zip(pairs, present, strict=True):
                adjacency[order[first], order[second]] = is_there
            obeys = not (adjacency & ~allowed).any() and not (required & ~adjacency).any()
            if obeys and adjacency.sum(axis=0).max() <= max_parents:
                weights[adjacency.tobytes()] = weights.get(adjacency.tobytes(), 0) + 1
    dags = [np.frombuffer(key, dtype=bool).reshape(p, p) for key in weights]
    return np.array(dags), np.log(list(weights.values()))


def log_likelihoods_of(dags, priors, scatter, n):
    """Log likelihood of every DAG; ``priors`` are prior matrix and delta of every node."""
    p = len(scatter)
    if all(prior is priors[0] for prior in priors):
        sigma_h, delta = priors[0]
        return [log_marginal_likelihood(scatter, n, dag, sigma_h, delta + p - 1) for dag in dags]
    scores = {
        (node, parents): naive_updates.family_score(*priors[node], scatter, n, node, parents)
        for node in range(p)
        for size in range(p)
        for parents in itertools.combinations(set(range(p)) - {node}, size)
    }
    return [sum(scores[k, naive.parents_of(dag, k)] for k in range(p)) for dag in dags]


def exact(scatter, n, priors, odds, constraints):
    """Edge probabilities by enumeration; ``odds`` are log prior odds, one or (p, p)."""
    allowed = constraints.allowed
    odds = odds + np.log(2) * (allowed & ~allowed.T)
    dags, log_weights = ordered_dags(constraints)
    log_posterior = log_weights + log_likelihoods_of(dags, priors, scatter, n)
    log_posterior += [odds[dag].sum() for dag in dags]
    weights = np.exp(log_posterior - log_posterior.max())
    return np.tensordot(weights / weights.sum(), dags, 1)


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("ties", [[True] * 4, [True, False, True, False], None])
@pytest.mark.parametrize("seed", [0, 1])
def test_edge_probabilities_are_those_of_all_orders_and_dags(seed, ties, knows):
    """Of a member whose families are tied, or some of them, and of a single task."""
    p = 4
    constraints = some_constraints(p) if knows else no_constraints(p)
    data, state, sigma_h = problem(
        seed,
        1,
        p,
        constraints=constraints,
        prior=EdgePrior(0.3, np.inf),
        members=[ties is not None],
        ties=ties or [False] * p,
        n_moves=2_000_000,
    )
    scatter, n = state.scatters[0], data.ns[0]
    tied, own = (sigma_h, 4.0), (np.diag(np.diag(scatter) / n), SINGLE_DELTA)
    priors = [tied if is_tied else own for is_tied in state.ties[0]]
    expected = exact(scatter, n, priors, np.log(0.3 / 0.7), constraints)
    found, _ = run(seed, data, state, sigma_h, 1)
    assert expected[expected > 0.001].min() > 0.02 or knows or not state.ties.all()
    np.testing.assert_allclose(found[0], expected, atol=0.012)


def test_pairs_have_densities_of_their_own():
    p = 4
    density = np.random.default_rng(0).uniform(0.05, 0.8, (p, p))
    density = (density + density.T) / 2
    data, state, sigma_h = problem(1, 1, p, prior=EdgePrior(density, np.inf), n_moves=2_000_000)
    odds = np.log(density / (1 - density))
    priors = [(sigma_h, 4.0)] * p
    expected = exact(state.scatters[0], data.ns[0], priors, odds, no_constraints(p))
    found, _ = run(1, data, state, sigma_h, 1)
    np.testing.assert_allclose(found[0], expected, atol=0.012)


@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("agreement", [0.3, 2.0])
def test_members_share_edges_and_directions_and_single_tasks_do_not(agreement, has_own):
    """Two members: every pair of DAGs, with the number of orders that they obey. Two single tasks."""
    p, m = 3, 4
    prior, single_prior = EdgePrior(0.4, 0.8), EdgePrior(0.25, np.inf)
    constraints = no_constraints(p)
    ties = np.ones((m, p), dtype=bool)
    if has_own:
        ties[0, 1] = ties[2, :2] = False
    data, state, sigma_h = problem(
        5,
        m,
        p,
        rows=6,
        members=[True, False, True, False],
        ties=ties,
        n_moves=20,
        agreement=agreement,
    )
    state = with_edge_prior(state, prior, single_prior)
    dags, log_orders = ordered_dags(constraints)
    tied = sigma_h, 4.0
    own = [(np.diag(np.diag(state.scatters[t]) / data.ns[t]), SINGLE_DELTA) for t in range(m)]
    values = [
        log_likelihoods_of(
            dags,
            [tied if is_tied else own[t] for is_tied in ties[t]],
            state.scatters[t],
            data.ns[t],
        )
        for t in (0, 2)
    ]
    total = np.add.outer(values[0] + log_orders, values[1] + log_orders)
    for a, b in itertools.product(range(len(dags)), repeat=2):
        directed = dags[a].astype(int) + dags[b]
        total[a, b] += prior.log_probability(directed + directed.T, 2)
        total[a, b] += naive.log_probability_of_directions(directed, agreement)
    weights = np.exp(total - total.max())
    weights /= weights.sum()
    found, _ = run(0, data, state, sigma_h, 30_000)
    np.testing.assert_allclose(found[0], np.tensordot(weights.sum(axis=1), dags, 1), atol=0.012)
    np.testing.assert_allclose(found[2], np.tensordot(weights.sum(axis=0), dags, 1), atol=0.012)
    for t in (1, 3):
        odds = np.log(0.25 / 0.75)
        expected = exact(state.scatters[t], data.ns[t], [own[t]] * p, odds, constraints)
        np.testing.assert_allclose(found[t], expected, atol=0.012)
    np.testing.assert_array_equal(state.counts[0], state.adjacencies[[0, 2]].sum(axis=0))


@pytest.mark.parametrize("n_single", [0, 1, 2])
def test_without_data_skeletons_follow_the_edge_prior(n_single):
    """Every combination of the members' skeletons is as probable as the edge prior says."""
    p, m = 3, 2 + n_single
    prior = EdgePrior(0.3, 0.7)
    members = np.arange(m) >= n_single
    data, state, sigma_h = without_data(m, p, prior=prior, members=members, n_moves=8)
    _, codes = run(1, data, state, sigma_h, 6000)
    graphs = (codes[:, :, None] >> np.arange(p * p)) % 2
    graphs = graphs.reshape(len(codes), m, p, p)
    joined = graphs + np.swapaxes(graphs, 2, 3)
    pairs = np.triu_indices(p, 1)
    n_having = joined[:, members].sum(axis=1)[:, *pairs]
    counts = np.bincount(n_having.ravel(), minlength=3)
    single = [prior.log_probability(np.array([[0, c], [c, 0]]), 2) for c in range(3)]
    expected = np.exp(single) * [1, 2, 1]
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.02)
    assert expected.sum() == pytest.approx(1)
    shares = joined[:, ~members][..., *pairs].mean(axis=(0, 2))
    np.testing.assert_allclose(shares, 0.3, atol=0.02)


@pytest.mark.parametrize("is_member", [True, False])
def test_an_edge_of_known_direction_is_as_probable_as_any(is_member):
    constraints = no_constraints(2)
    constraints.allowed[1, 0] = False
    data, state, sigma_h = without_data(
        1,
        2,
        constraints=constraints,
        prior=EdgePrior(0.3, 1.0),
        members=[is_member],
        n_moves=400_000,
    )
    found, _ = run(0, data, state, sigma_h, 1)
    assert found[0, 0, 1] == pytest.approx(0.3, abs=0.01)
    assert found[0, 1, 0] == 0


def test_where_required_edges_settle_the_order_odds_are_not_doubled():
    """0 -> 1 -> 2 is required, so 0 comes before 2 in every order."""
    required = np.zeros((3, 3), dtype=bool)
    required[0, 1] = required[1, 2] = True
    allowed = ~np.eye(3, dtype=bool) & ~required.T
    allowed[2, 0] = False
    data, state, sigma_h = without_data(
        1,
        3,
        constraints=Constraints(allowed, required, 2),
        prior=EdgePrior(0.3, np.inf),
        n_moves=400_000,
    )
    found, _ = run(0, data, state, sigma_h, 1)
    assert found[0, 0, 2] == pytest.approx(0.3, abs=0.01)
    np.testing.assert_array_equal(found[0][required], 1)


def test_orders_obey_graphs_and_counts_are_right():
    p, m = 6, 4
    members = [True, False, True, True]
    data, state, sigma_h = problem(3, m, p, prior=EdgePrior(0.4, 2.0), members=members, n_moves=200)
    frequencies, _ = run(0, data, state, sigma_h, 50)
    for adjacency, order in zip(state.adjacencies, state.orders, strict=True):
        assert sorted(order) == list(range(p))
        place = np.argsort(order)
        parents, children = np.nonzero(adjacency)
        assert (place[parents] < place[children]).all()
    np.testing.assert_array_equal(state.counts[0], state.adjacencies[members].sum(axis=0))
    assert state.adjacencies[1].any()
    assert (frequencies + frequencies.transpose(0, 2, 1) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(state.members, members)
