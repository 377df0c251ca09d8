"""Support of directions, counted subject by subject."""

import numpy as np
import pytest

from mtgbn.compare.directions import direction_support

PAIRS = np.array([[0, 1], [0, 2], [1, 2]])


def graph(*edges):
    found = np.zeros((3, 3), dtype=bool)
    for i, j in edges:
        found[i, j] = True
    return found


def test_shares_are_counted_over_the_subjects_that_have_the_edge():
    # Colliders at 1 (compelled), a chain (not compelled), the reverse edge alone, no edge.
    graphs = np.array(
        [
            graph((0, 1), (2, 1)),
            graph((0, 1), (2, 1)),
            graph((0, 1), (1, 2)),
            graph((1, 0)),
            graph(),
        ]
    )
    found = direction_support(graphs, PAIRS)
    np.testing.assert_allclose(found.share, [3 / 4, np.nan, 2 / 3])
    np.testing.assert_allclose(found.compelled, [2 / 4, np.nan, 2 / 3])
    assert found.probability is None


def test_sessions_count_as_parts_of_a_subject():
    graphs = np.array([graph((1, 0)), graph((1, 0)), graph((0, 1)), graph((0, 1))])
    found = direction_support(graphs, PAIRS[:1], weights=np.array([0.5, 0.5, 1, 1]))
    assert found.share[0] == pytest.approx(2 / 3)


def test_probabilities_are_those_of_the_same_direction():
    graphs = np.array([graph((1, 0)), graph((1, 0)), graph((0, 1))])
    probabilities = np.zeros((3, 3, 3))
    probabilities[:, 1, 0], probabilities[:, 0, 1] = [0.9, 0.6, 0.3], 0.05
    found = direction_support(graphs, PAIRS, probabilities)
    assert found.probability[0] == pytest.approx(0.6)
