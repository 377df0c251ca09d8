"""Perturbed networks: counts, order, cycles, and covariances of large samples."""

from math import comb

import numpy as np
import pytest
from scipy import stats

from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import is_dag
from mtgbn.graphs.dags import topological_order
from mtgbn.simulate import simulate_perturbed
from mtgbn.simulate.perturbed import perturb_network, random_network


def changed_pairs(one, other):
    """Unordered pairs in which two graphs differ."""
    different = (one != 0) != (other != 0)
    return np.triu(different | different.T)


@pytest.mark.parametrize(("p", "n_edges"), [(1, 0), (5, 0), (5, 10), (15, 30), (46, 70)])
def test_random_network_has_the_arcs_asked_for(p, n_edges):
    coefficients = random_network(p, n_edges, random_state=0)
    assert coefficients.shape == (p, p)
    sizes = np.abs(coefficients[coefficients != 0])
    assert len(sizes) == n_edges
    assert is_dag(coefficients != 0)
    assert (sizes >= 0.3).all()
    assert (sizes <= 0.9).all()


def test_random_network_is_random():
    """Sizes are uniform, signs fair, arcs fall on all ordered pairs alike (each at 1e-6)."""
    networks = np.array([random_network(5, 4, random_state=seed) for seed in range(500)])
    values = networks[networks != 0]
    assert stats.kstest(np.abs(values), stats.uniform(0.3, 0.6).cdf).pvalue > 1e-6
    assert stats.binomtest(int((values > 0).sum()), len(values)).pvalue > 1e-6
    counts = (networks != 0).sum(axis=0)[~np.eye(5, dtype=bool)]
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("level", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("relative_to", ["edges", "pairs"])
def test_exactly_the_share_asked_for_changes(level, relative_to):
    for seed in range(10):
        network = random_network(15, 30, random_state=seed)
        changed = perturb_network(network, level, relative_to, random_state=seed)
        pairs = changed_pairs(network, changed)
        assert pairs.sum() == round(level * (30 if relative_to == "edges" else 105))
        assert is_dag(changed != 0)
        if relative_to == "edges":
            had_an_arc = (network != 0) | (network.T != 0)
            assert not (pairs & ~had_an_arc).any()
            assert not ((changed != 0) & ~had_an_arc).any()
        kept = (network != 0) & (changed != 0)
        np.testing.assert_array_equal(changed[kept], network[kept])
        turned = (network.T != 0) & (changed != 0)
        np.testing.assert_array_equal(changed[turned], network.T[turned])
        added = (changed != 0) & ~kept & ~turned
        assert np.isin(np.abs(changed[added]), np.abs(network)).all()


def test_dense_networks_stay_acyclic():
    """Most reversals in a complete DAG would close a cycle; still, all 45 pairs change."""
    for seed in range(10):
        network = random_network(10, 45, random_state=seed)
        for relative_to in ("edges", "pairs"):
            changed = perturb_network(network, 1.0, relative_to, random_state=seed)
            assert changed_pairs(network, changed).sum() == 45
            assert is_dag(changed != 0)


def test_arcs_are_added_along_the_topological_order():
    """With arcs that cannot be in the way of the order, no added one goes against it."""
    network = np.zeros((6, 6))
    network[5, 4] = 0.5  # topological order: 0 1 2 3 5 4
    places = np.argsort(topological_order(network != 0))
    for seed in range(30):
        changed = perturb_network(network, 1.0, "pairs", random_state=seed)
        added = (changed != 0) & (network == 0) & (network.T == 0)
        assert added.sum() == 14
        parents, children = np.nonzero(added)
        against = places[parents] > places[children]
        if changed[4, 5]:  # reversed: now, and only now, arcs between 5, 4 and others may turn
            assert np.isin([parents[against], children[against]], [4, 5]).any(axis=0).all()
        else:
            assert not against.any()


def test_arcs_are_deleted_or_reversed_and_signs_given_by_fair_coins():
    """In a network of separate arcs no reversal closes a cycle; binomial tests at 1e-6."""
    network = np.zeros((40, 40))
    network[np.arange(0, 40, 2), np.arange(1, 40, 2)] = 0.5
    reversals, signs = [], []
    for seed in range(50):
        changed = perturb_network(network, 1.0, random_state=seed)
        reversals.append((changed.T[network != 0] != 0).sum())
        assert (changed[network != 0] == 0).all()
        more = perturb_network(network, 0.1, "pairs", random_state=seed)
        signs.append(more[(more != 0) & (network == 0) & (network.T == 0)] > 0)
    assert stats.binomtest(int(sum(reversals)), 50 * 20).pvalue > 1e-6
    signs = np.concatenate(signs)
    assert stats.binomtest(int(signs.sum()), len(signs)).pvalue > 1e-6


@pytest.mark.parametrize("relative_to", ["edges", "pairs"])
def test_simulated_tasks_differ_from_the_network_by_the_level(relative_to):
    network = random_network(12, 20, random_state=1)
    (common, *others), simulation = (
        simulate_perturbed(
            network, 6, 30, level=level, relative_to=relative_to, random_state=2
        ).adjacencies
        for level in (0.0, 0.2)
    )
    assert all((other == common).all() for other in others)
    # the same seed has the same column order, so that common is the network's graph in it
    assert sorted(common.sum(axis=0)) == sorted((network != 0).sum(axis=0))
    for adjacency in simulation:
        assert is_dag(adjacency)
        expected = round(0.2 * (20 if relative_to == "edges" else comb(12, 2)))
        assert changed_pairs(common, adjacency).sum() == expected
    assert len({adjacency.tobytes() for adjacency in simulation}) == 6


def test_covariance_is_that_of_the_equations():
    """Level 0, one arc 0 -> 1: variances and covariance by hand, whatever the column order."""
    network = np.array([[0.0, 0.5], [0.0, 0.0]])
    simulation = simulate_perturbed(
        network, 2, 5, level=0.0, residual_variances=[4.0, 3.0], random_state=0
    )
    expected = np.array([[4.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(simulation.covariances, [expected, expected])
    for adjacency in simulation.adjacencies:
        assert adjacency.sum() == 1


def test_rows_have_the_covariance_and_graphs_its_independences():
    simulation = simulate_perturbed(
        random_network(8, 12, random_state=3),
        3,
        40_000,
        residual_variances=np.linspace(0.5, 4, 8),
        level=0.3,
        standardise=False,
        random_state=4,
    )
    assert simulation.sigma_h is None
    assert simulation.nu0 is None
    for rows, covariance, adjacency in zip(
        simulation.arrays, simulation.covariances, simulation.adjacencies, strict=True
    ):
        deviations = np.sqrt(np.diag(covariance))
        error = np.sqrt(2 / len(rows))
        z = (np.cov(rows.T) - covariance) / np.outer(deviations, deviations) / error
        assert np.abs(z).max() < 4.5
        # regressing a variable on all before it has coefficients at its parents only
        order = topological_order(adjacency)
        for place in range(1, len(order)):
            before, node = order[:place], order[place]
            found = np.linalg.solve(covariance[np.ix_(before, before)], covariance[before, node])
            np.testing.assert_array_equal(np.abs(found) > 1e-9, adjacency[before, node])


def test_standardised_columns():
    rows_of = [20, 50, 30]
    plain, standardised = (
        simulate_perturbed(
            random_network(9, 12, random_state=1), 3, rows_of, standardise=flag, random_state=5
        )
        for flag in (False, True)
    )
    np.testing.assert_array_equal(plain.covariances, standardised.covariances)
    for one, other, n in zip(plain.arrays, standardised.arrays, rows_of, strict=True):
        assert other.shape == (n, 9)
        np.testing.assert_allclose(other.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.cov(other.T), np.corrcoef(one.T), atol=1e-12)
    for scatter, n in zip(standardised.tasks.scatters, standardised.tasks.ns, strict=True):
        np.testing.assert_allclose(np.diag(scatter), n)


def test_unrelated_tasks_share_no_more_edges_than_chance():
    """Shared pairs of two independent graphs are hypergeometric; the sum over 3 x 40 at 4.5 sds."""
    network = random_network(20, 30, random_state=0)
    excess = variance = related = 0.0
    for seed in range(40):
        graphs = simulate_perturbed(
            network, 5, 3, n_unrelated=3, level=0.1, standardise=False, random_state=seed
        ).adjacencies
        *unrelated, one, other = graphs | graphs.transpose(0, 2, 1)
        for graph in unrelated:
            law = stats.hypergeom(comb(20, 2), graph.sum() // 2, other.sum() // 2)
            excess += np.triu(graph & other).sum() - law.mean()
            variance += law.var()
        related += np.triu(one & other).sum() / 40
    assert abs(excess) < 4.5 * np.sqrt(variance)
    assert related > 25  # of 30, where chance has 4


def test_unrelated_tasks_are_unrelated_to_each_other_and_as_dense():
    network = random_network(20, 30, random_state=0)
    graphs = simulate_perturbed(network, 4, 3, n_unrelated=4, level=0.0, random_state=1).adjacencies
    assert (graphs.sum(axis=(1, 2)) == 30).all()
    assert all(is_dag(graph) for graph in graphs)
    for t in range(4):
        for s in range(t):
            assert (graphs[s] & graphs[t]).sum() < 15


def test_default_network_and_random_state():
    one, two, other = (simulate_perturbed(n_rows=5, random_state=seed) for seed in (1, 1, 2))
    assert one.adjacencies.shape == (10, 46, 46)
    # seven of the 70 arcs are deleted or reversed
    assert ((one.adjacencies.sum(axis=(1, 2)) >= 63) & (one.adjacencies.sum((1, 2)) <= 70)).all()
    np.testing.assert_array_equal(one.arrays, two.arrays)
    np.testing.assert_array_equal(one.adjacencies, two.adjacencies)
    assert not np.array_equal(one.arrays, other.arrays)
    generated = simulate_perturbed(n_rows=5, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(one.arrays, generated.arrays)


def test_column_order_is_random():
    """A network numbered along its arrows does not come out so: its one arc is anywhere."""
    network = np.zeros((4, 4))
    network[0, 1] = 0.5
    counts = sum(
        simulate_perturbed(network, 1, 3, level=0.0, random_state=seed).adjacencies[0] + 0
        for seed in range(300)
    )[~np.eye(4, dtype=bool)]
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_tasks": 0}, "n_tasks must be a whole number of at least 1; got 0"),
        ({"n_rows": 1}, "n_rows must be a whole number of at least 2; got 1"),
        ({"n_rows": [9, 9]}, "one for each of the 10 tasks; got 2"),
        ({"level": 1.5}, r"level must be a number in \[0, 1\]; got 1.5"),
        ({"level": "0.1"}, r"level must be a number in \[0, 1\]; got '0.1'"),
        ({"relative_to": "nodes"}, 'relative_to must be "edges" or "pairs"; got \'nodes\''),
        ({"n_unrelated": 11}, "n_unrelated = 11 is more than there are tasks, n_tasks = 10"),
        ({"n_unrelated": -1}, "n_unrelated must be a whole number of at least 0"),
        ({"network": np.zeros((2, 3))}, r"coefficients must be a square .* \(2, 3\)"),
        ({"network": [[0, np.nan], [0, 0]]}, "that of 0 -> 1 is nan"),
        (
            {"network": np.zeros((5, 5)), "relative_to": "pairs"},
            "the network has no edges",
        ),
        (
            {"network": np.zeros((2, 2)), "residual_variances": [1.0]},
            r"one number per variable, 2; got shape \(1,\)",
        ),
        (
            {"network": np.zeros((2, 2)), "residual_variances": [1.0, 0.0]},
            "residual_variances must be positive; that of variable 1 is 0.0",
        ),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(InputError, match=message):
        simulate_perturbed(**options)


def test_a_network_with_a_cycle_or_too_many_arcs_is_refused():
    with pytest.raises(GraphError, match="cycle 0 -> 1 -> 0"):
        simulate_perturbed([[0, 0.5], [0.5, 0]])
    with pytest.raises(InputError, match="4 variables have 6 pairs; n_edges = 7 is too many"):
        random_network(4, 7)
