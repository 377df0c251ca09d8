"""One subject against controls: what was altered comes first; controls alarm as often as they say."""

import numpy as np
import pytest

from mtgbn import MTGBN, Tasks
from mtgbn.compare import compare_subject
from mtgbn.compare.one_subject import _scores
from mtgbn.errors import InputError

LEARNER = MTGBN(n_draws=16, n_restarts=0, max_iter=2)


@pytest.fixture(scope="module")
def tasks():
    """Six controls with x0 -> x1 and x2 -> x3; the last subject has x1 -> x2 instead of x0 -> x1."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(7, 150, 5))
    data[:6, :, 1] += data[:6, :, 0]
    data[6, :, 2] += data[6, :, 1]
    data[:, :, 3] += data[:, :, 2]
    return Tasks.from_any(data)


@pytest.fixture(scope="module")
def found(tasks):
    return compare_subject(tasks[list(range(6))], tasks[6], LEARNER, random_state=0)


def test_what_differs_comes_first_with_its_sign(found):
    rows = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert set(rows[:2]) == {(0, 1), (1, 2)}
    of = {pair: k for k, pair in enumerate(rows)}
    assert found.score[of[0, 1]] < 0 < found.score[of[1, 2]]
    assert found.control_count[of[0, 1]] == 6
    assert found.control_count[of[1, 2]] == 0
    assert found.fdr[:2].max() < 0.2
    assert abs(found.probability[of[2, 3]] - found.control_probability[of[2, 3]]) < 0.05


def test_numbers_follow_from_the_scores(found):
    """Counted by hand from the controls' own scores."""
    sizes, controls = np.abs(found.score), np.abs(found.control_scores)
    assert (np.diff(sizes) <= 0).all()
    for k, size in enumerate(sizes):
        alarms = (controls >= size - 1e-12).sum()
        assert found.expected_alarms[k] == alarms / 6
        assert found.pvalue[k] == (1 + alarms) / (1 + controls.size)
    raw = np.minimum(found.expected_alarms / np.arange(1, 11), 1)
    np.testing.assert_allclose(found.fdr, [raw[k:].min() for k in range(10)])


def test_scores_by_hand():
    others = np.array([[0.0, 0.5], [0.2, 0.5], [0.4, 0.5]])
    variances = np.array([0.04, 0.0])
    expected = (np.array([0.9, 0.4]) - [0.2, 0.5]) / np.sqrt((variances + 0.02) / 2 + 1e-6)
    np.testing.assert_allclose(_scores(np.array([0.9, 0.4]), others), expected)


def test_processes_do_not_matter(tasks, found):
    told = []
    again = compare_subject(
        tasks[list(range(6))],
        tasks[6],
        LEARNER,
        random_state=0,
        n_jobs=2,
        progress=lambda done, total: told.append((done, total)),
    )
    np.testing.assert_array_equal(again.score, found.score)
    np.testing.assert_array_equal(again.control_scores, found.control_scores)
    assert told == [(k, 7) for k in range(1, 8)]


def test_bad_use_is_explained(tasks):
    with pytest.raises(InputError, match="3 controls are too few"):
        compare_subject(tasks[[0, 1, 2]], tasks[6])
    with pytest.raises(InputError, match="is among the controls"):
        compare_subject(tasks[list(range(6))], tasks[2])
