"""Directions that the data of all tasks support: skeletons stay, and own evidence can outweigh them."""

import numpy as np
import pytest

from mtgbn import MTGBN, Knowledge, Tasks
from mtgbn.graphs import cpdag, skeleton
from mtgbn.learn import agreed_directions
from mtgbn.learn.agreed_directions import log_odds_of_agreement

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def colliders(m, rows, seed, flipped=0):
    """x -> y <- z with weak effects; the last tasks have x <- y -> z with strong ones."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(m, rows, 3))
    own = m - flipped
    data[:own, :, 1] += 0.45 * (data[:own, :, 0] + data[:own, :, 2])
    data[own:, :, 0] += 1.2 * data[own:, :, 1]
    data[own:, :, 2] += 1.2 * data[own:, :, 1]
    return Tasks.from_any(data)


def fitted(tasks, monkeypatch=None, **settings):
    if monkeypatch is not None:
        monkeypatch.setattr(agreed_directions, "_PASSES", 0)
    return MTGBN(random_state=0, **settings).fit(tasks)


def test_odds_by_hand():
    pooled = np.zeros((3, 3), dtype=bool)
    pooled[0, 1] = pooled[1, 2] = True
    graphs = np.zeros((4, 3, 3), dtype=bool)
    graphs[:3, 0, 1] = graphs[3, 1, 0] = graphs[:2, 1, 2] = graphs[:, 0, 2] = True
    found = log_odds_of_agreement(graphs, pooled)
    share = (5 + 1) / (5 + 1 + 2)
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 2] = np.log(2 * share)
    expected[1, 0] = expected[2, 1] = np.log(2 * (1 - share))
    np.testing.assert_allclose(found, expected)
    # a priori, both directions together have the odds of one
    np.testing.assert_allclose(np.exp(found[0, 1]) + np.exp(found[1, 0]), 2)


def test_directions_that_no_task_shows_alone(monkeypatch):
    """60 rows hardly tell a collider of weak effects; those of twenty tasks do."""
    tasks = colliders(20, 60, 1)
    collider = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], dtype=bool)
    found = fitted(tasks)
    before = fitted(tasks, monkeypatch)
    right, right_before = (
        np.mean([np.array_equal(graph, collider) for graph in each.cpdags_])
        for each in (found, before)
    )
    assert right > 0.9
    assert right >= right_before
    for one, other in zip(found.graphs_, before.graphs_, strict=True):
        np.testing.assert_array_equal(skeleton(one), skeleton(other))


def test_a_task_with_other_directions_keeps_them():
    found = fitted(colliders(12, 200, 2, flipped=3))
    fork = cpdag(np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]], dtype=bool))
    for graph in found.cpdags_[-3:]:
        np.testing.assert_array_equal(graph, fork)
    # Most of the others have the collider.
    assert np.mean((found.cpdags_[:9, 1] == 0).all(axis=1)) > 0.8


def test_prior_knowledge_is_obeyed():
    tasks = colliders(8, 100, 3)
    names = tasks.variables
    knowledge = Knowledge(required=[(names[1], names[0])], forbidden=[(names[2], names[1])])
    found = fitted(tasks, knowledge=knowledge)
    assert found.graphs_[:, 1, 0].all()
    assert not found.graphs_[:, 2, 1].any()


@pytest.mark.parametrize("settings", [{"shared_directions": False}, {"edge_prior": "density"}])
def test_nothing_is_agreed_on_where_directions_are_not_shared(settings, monkeypatch):
    tasks = colliders(6, 40, 4)
    found = fitted(tasks, **settings)
    before = fitted(tasks, monkeypatch, **settings)
    np.testing.assert_array_equal(found.graphs_, before.graphs_)
