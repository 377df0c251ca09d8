import itertools

import numpy as np
import pytest
from graph_oracles import (
    all_dags,
    markov_classes,
    random_chordal,
    random_dag,
    sparse_dag,
    v_structure_flags,
)

from mtgbn import graphs
from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import consensus_members, cpdag, is_dag
from mtgbn.graphs.consensus import _sorted_by_index
from mtgbn.graphs.dags import topological_order
from mtgbn.graphs.equivalence import consistent_extension


def classes_of(p):
    """The CPDAG and all DAGs of every Markov equivalence class, without `cpdag`."""
    dags = all_dags(p)
    numbers = markov_classes(dags)
    unions = np.zeros((numbers.max() + 1, p, p), dtype=bool)
    np.logical_or.at(unions, numbers, dags)
    by_class = np.argsort(numbers, kind="stable")
    members = np.split(dags[by_class], np.cumsum(np.bincount(numbers))[:-1])
    return unions, members


def precedence(order):
    place = np.argsort(order)
    return place[:, None] < place[None, :]


def all_orders(p):
    orders = np.array(list(itertools.permutations(range(p))))
    return orders, np.array([precedence(order) for order in orders])


def most_along(members, weights, before):
    """The greatest weight along each order that a DAG among the members has."""
    flat = (members * weights).reshape(len(members), -1)
    return (flat @ before.reshape(len(before), -1).T.astype(float)).max(axis=0)


def assert_members(result, classes):
    for graph, expected in zip(result.graphs, classes, strict=True):
        assert is_dag(graph)
        np.testing.assert_array_equal(cpdag(graph), expected)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
def test_every_class_gets_one_of_its_members(p):
    classes, _ = classes_of(p)
    if p == 5:
        classes = classes[:: len(classes) // 300]
    for pdag in classes:
        result = consensus_members(pdag[None])
        assert_members(result, pdag[None])
        # A task on its own can always follow an order of one of its members.
        reversible = (pdag & pdag.T).any()
        assert result.agreement == 1 if reversible else np.isnan(result.agreement)
        assert not (result.graphs[0] & ~precedence(result.order)).any()
    together = consensus_members(classes)
    assert_members(together, classes)
    assert sorted(together.order) == list(range(p))


@pytest.mark.parametrize(("p", "n_cases"), [(4, 80), (5, 40)])
def test_brute_force_over_members_and_orders(p, n_cases):
    classes, members = classes_of(p)
    orders, before = all_orders(p)
    rng = np.random.default_rng(p)
    n_optimal = 0
    for case in range(n_cases):
        tasks = rng.integers(len(classes), size=rng.integers(2, 4))
        shape = (len(tasks), p, p)
        # Every other case has weights, and every other of these has some that are zero.
        weights = rng.random(shape) * (rng.random(shape) < 0.7 if case % 4 == 1 else 1)
        if case % 2 == 0:
            weights = np.ones(shape)
        result = consensus_members(classes[tasks], weights if case % 2 else None)
        assert_members(result, classes[tasks])

        greatest = sum(
            most_along(members[task], own, before) for task, own in zip(tasks, weights, strict=True)
        )
        found = (result.graphs * weights * precedence(result.order)).sum()
        # No members do better with this order, arbitrary ones among them.
        same = (orders == result.order).all(axis=1).argmax()
        np.testing.assert_allclose(found, greatest[same], rtol=1e-9)
        n_optimal += found > greatest.max() * (1 - 1e-9)

        reversible = classes[tasks] & classes[tasks].transpose(0, 2, 1)
        if reversible.any():
            along = (result.graphs & reversible & precedence(result.order)).sum()
            assert result.agreement == along / (reversible.sum() / 2)
    assert n_optimal >= 0.98 * n_cases  # measured: all; 1000 of 1000 elsewhere


@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_members_of_larger_chordal_classes(weighted):
    # With seven nodes there are cliques within cliques; all orders give all orientations.
    p, m = 7, 24
    rng = np.random.default_rng(7)
    tasks = np.array([random_chordal(rng, p, rng.choice([0.5, 0.8, 1.0])) for _ in range(m)])
    weights = rng.random((m, p, p)) if weighted else np.ones((m, p, p))
    result = consensus_members(tasks, weights)
    assert_members(result, tasks)
    before = all_orders(p)[1]
    along = precedence(result.order)
    for task, own, graph in zip(tasks, weights, result.graphs, strict=True):
        oriented = before & task
        perfect = oriented[~v_structure_flags(oriented).any(axis=1)]
        greatest = most_along(perfect, own, along[None])[0]
        np.testing.assert_allclose((graph * own * along).sum(), greatest, rtol=1e-9)


def test_a_compelled_arrow_guides_a_reversible_edge():
    for x, y, z, w in itertools.permutations(range(4)):
        chain, collider = np.zeros((2, 4, 4), dtype=bool)
        chain[[x, y, y, z], [y, x, z, y]] = True
        collider[[x, w], [y, y]] = True
        result = consensus_members([chain, collider])
        assert result.graphs[0, x, y]
        assert result.graphs[0, y, z]  # z -> y would be a v-structure
        assert result.agreement == 1


def test_the_order_of_the_tasks_does_not_matter():
    rng = np.random.default_rng(1)
    classes = np.array([cpdag(random_dag(rng, 9, 0.25)) for _ in range(12)])
    weights = rng.random((12, 9, 9))
    plain, weighted = consensus_members(classes), consensus_members(classes, weights)
    assert plain.agreement < 1  # else there was nothing to decide
    for _ in range(3):
        mixed = rng.permutation(12)
        for result, again in [
            (plain, consensus_members(classes[mixed])),
            (weighted, consensus_members(classes[mixed], weights[mixed])),
        ]:
            np.testing.assert_array_equal(again.graphs, result.graphs[mixed])
            np.testing.assert_array_equal(again.order, result.order)
            assert again.agreement == result.agreement


def test_what_weights_mean():
    rng = np.random.default_rng(2)
    classes = np.array([cpdag(random_dag(rng, 7, 0.3)) for _ in range(6)])
    weights = rng.random((7, 7))
    result = consensus_members(classes, weights)
    for same in (np.tile(weights, (6, 1, 1)), weights * 1e-300, weights * 2.0**900):
        again = consensus_members(classes, same)
        np.testing.assert_array_equal(again.graphs, result.graphs)
        np.testing.assert_array_equal(again.order, result.order)
    plain = consensus_members(classes)
    for constant in (0.0, 3.0):  # the number of edges is then all that counts
        again = consensus_members(classes, np.full((7, 7), constant))
        np.testing.assert_array_equal(again.graphs, plain.graphs)

    pair = ~np.eye(2, dtype=bool)[None]
    assert consensus_members(pair).order.tolist() == [0, 1]
    assert consensus_members(pair, [[0, 0.4], [0.5, 0]]).order.tolist() == [1, 0]
    # One task that is sure outweighs two that are not.
    sure = [[[0, 0.1], [0.9, 0]], [[0, 0.3], [0.2, 0]], [[0, 0.3], [0.2, 0]]]
    assert consensus_members(np.repeat(pair, 3, axis=0), sure).graphs[:, 1, 0].all()


def test_the_seed_is_fixed_unless_given():
    rng = np.random.default_rng(3)
    classes = np.array([cpdag(random_dag(rng, 8, 0.3)) for _ in range(10)])
    result = consensus_members(classes)
    for state in (None, 0, np.random.SeedSequence(0), np.random.default_rng(0)):
        again = consensus_members(classes, random_state=state)
        np.testing.assert_array_equal(again.graphs, result.graphs)
    assert_members(consensus_members(classes, random_state=5), classes)
    with pytest.raises(InputError, match="random_state"):
        consensus_members(classes, random_state="now")


def test_ties_are_broken_by_index():
    complete = ~np.eye(5, dtype=bool)
    for pdag in (np.zeros((5, 5), dtype=bool), complete):
        result = consensus_members([pdag, pdag])
        assert result.order.tolist() == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(result.graphs[0], np.triu(pdag))


def test_without_reversible_edges_there_is_no_agreement_to_measure():
    collider = np.zeros((3, 3), dtype=bool)
    collider[[0, 2], 1] = True
    result = consensus_members([collider] * 3)
    assert np.isnan(result.agreement)
    assert result.order.tolist() == [0, 2, 1]
    np.testing.assert_array_equal(result.graphs, [collider] * 3)


def test_many_tasks_of_sixty_variables():
    classes = np.array([cpdag(sparse_dag(seed, 60, 75)) for seed in range(200)])
    result = consensus_members(classes)
    assert_members(result, classes)
    # Members that know nothing of each other follow the same order less.
    reversible = classes & classes.transpose(0, 2, 1)
    arbitrary = np.array([consistent_extension(pdag) for pdag in classes])
    along = arbitrary & reversible & precedence(result.order)
    assert result.agreement > along.sum() / (reversible.sum() / 2) + 0.1


@pytest.mark.parametrize(
    ("cpdags", "error", "message"),
    [
        (np.zeros((3, 3)), InputError, r"\(m, p, p\).*\(3, 3\)"),
        (np.zeros((0, 3, 3)), InputError, "at least one task"),
        (np.zeros((2, 3, 4)), InputError, r"\(2, 3, 4\)"),
        ([np.zeros((2, 2)), np.zeros((3, 3))], InputError, "same p"),
        ([np.zeros((2, 2)), np.eye(2)], GraphError, "task 1 .*node 0 has an edge to itself"),
        ([[[0, 2], [0, 0]]], GraphError, "task 0 .*only 0 and 1"),
        ([[[0, 1], [0, 0]]], GraphError, "task 0 .*0 -> 1 is directed.*have 1 -> 0"),
        ([[[0, 1, 0], [0, 0, 1], [1, 0, 0]]], GraphError, "task 0 .*cycle 0 -> 1 -> 2 -> 0"),
        # A chordless square; and 0 -> 2 <- 1 with 2 - 3, where 2 -> 3 is compelled.
        ([[[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]], GraphError, "no DAG extends"),
        (
            [[[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0]]],
            GraphError,
            "3 - 2 is undirected, but all DAGs of the class have 2 -> 3",
        ),
    ],
)
def test_what_is_no_stack_of_cpdags_is_refused(cpdags, error, message):
    with pytest.raises(error, match=message):
        consensus_members(cpdags)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 2, 2)), r"\(2, 2\) or \(4, 2, 2\).*\(3, 2, 2\)"),
        ([[0, -1], [0, 0]], "weight of 0 -> 1 is -1"),
        (np.where(np.arange(16).reshape(4, 2, 2) == 6, np.nan, 1), "1 -> 0 of task 1 is nan"),
        ([["a", "b"], ["c", "d"]], "array of numbers"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        consensus_members(np.zeros((4, 2, 2)), weights)


def test_the_package_offers_it_without_loading_it():
    assert graphs.consensus_members is consensus_members
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = graphs.nothing


def test_orders_with_the_smallest_indices_first():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(1, 9))
        joined = rng.random((p, p)) < 0.3
        joined |= joined.T
        np.fill_diagonal(joined, False)
        order = rng.permutation(p)
        expected = topological_order(joined & precedence(order))
        assert _sorted_by_index(joined, order).tolist() == expected
