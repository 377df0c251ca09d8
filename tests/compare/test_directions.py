"""Support of directions: shares of subjects, of bootstrap cohorts, of draws."""

import numpy as np
import pytest

from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.compare.directions import N_COHORTS, bootstrap_directions, direction_support
from mtgbn.learn.ordering import Ordering

PAIRS = np.array([[0, 1], [0, 2], [1, 2]])
NOWHERE = np.zeros((3, 3))

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def graph(*edges):
    found = np.zeros((3, 3), dtype=bool)
    for i, j in edges:
        found[i, j] = True
    return found


def test_shares_are_counted_over_the_subjects_that_have_the_edge():
    graphs = np.array(
        [
            graph((0, 1), (2, 1)),
            graph((0, 1), (2, 1)),
            graph((0, 1), (1, 2)),
            graph((1, 0)),
            graph(),
        ]
    )
    supports = np.arange(9.0).reshape(3, 3) / 10
    found = direction_support(graphs, PAIRS, supports)
    np.testing.assert_allclose(found.forward, [3 / 4, np.nan, 1 / 3])
    # 0 -> 1 and 2 -> 1 are the more frequent directions.
    np.testing.assert_allclose(found.support, [supports[0, 1], np.nan, supports[2, 1]])
    assert found.probability is None


def test_sessions_count_as_parts_of_a_subject():
    graphs = np.array([graph((1, 0)), graph((1, 0)), graph((0, 1)), graph((0, 1))])
    weights = np.array([0.5, 0.5, 1, 1])
    found = direction_support(graphs, PAIRS[:1], NOWHERE, weights=weights)
    assert found.forward[0] == pytest.approx(2 / 3)


def test_probabilities_are_those_of_the_same_direction():
    graphs = np.array([graph((1, 0)), graph((1, 0)), graph((0, 1))])
    probabilities = np.zeros((3, 3, 3))
    probabilities[:, 1, 0], probabilities[:, 0, 1] = [0.9, 0.6, 0.3], 0.05
    found = direction_support(graphs, PAIRS, NOWHERE, probabilities)
    assert found.probability[0] == pytest.approx(0.6)


# Bootstrap cohorts.


def rows(seed, m=12, n=25):
    """x0 -> x2 <- x1 is told by the data, x3 - x4 is not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, n, 5))
    x[..., 2] += 0.5 * (x[..., 0] + x[..., 1])
    x[..., 4] += x[..., 3]
    return list(x)


def each_alone(m):
    return [[t] for t in range(m)]


def supports(arrays, subjects=None, learner=None, **options):
    tasks = Tasks.from_arrays(arrays)
    fitted = (learner or SIG(random_state=0)).fit(tasks)
    subjects = each_alone(len(arrays)) if subjects is None else subjects
    seeds = np.random.SeedSequence(3)
    return fitted, bootstrap_directions(fitted, subjects, random_state=seeds, **options)


@pytest.mark.parametrize("seed", range(3))
def test_a_cohort_is_pooled_as_by_avg(seed):
    """The same subjects, drawn with replacement, are learned by AVG."""
    arrays = rows(seed, m=6)
    fitted, found = supports(arrays, n_cohorts=20)
    expected = np.zeros((5, 5))
    order = np.array(Ordering.of(fitted.tasks_).task_order)
    for child in np.random.SeedSequence(3).spawn(20):
        drawn = order[np.random.default_rng(child).integers(6, size=6)]
        pooled = AVG(
            edge_prior="density", min_strength=fitted.min_strength_, n_restarts=20, random_state=0
        ).fit(Tasks.from_arrays([arrays[t] for t in drawn]))
        expected += pooled.cpdags_[0] & ~pooled.cpdags_[0].T
    np.testing.assert_array_equal(found, expected / 20)
    assert found[0, 2] + found[1, 2] > 0


def test_what_the_data_tell_is_supported_and_what_they_cannot_tell_is_not():
    _, found = supports(rows(0, n=60))
    assert found[0, 2] > 0.95
    assert found[1, 2] > 0.95
    assert found[3, 4] == found[4, 3] == 0.0
    assert (found * N_COHORTS == np.round(found * N_COHORTS)).all()


def test_weak_evidence_is_less_than_certain():
    """One sample that points one way is not a direction that other samples would show."""
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(8, 12, 3))
        x[..., 1] += 0.6 * x[..., 0]
        x[..., 2] += 0.6 * x[..., 1]  # a chain: no direction can be told
        _, found = supports(list(x))
        shares.append(found.max())
    assert np.mean(np.array(shares) >= 0.8) <= 0.25


def test_the_order_of_subjects_and_variables_does_not_matter():
    arrays = rows(1, m=7)
    _, found = supports(arrays)
    tasks, variables = [3, 0, 6, 1, 5, 2, 4], [2, 4, 0, 1, 3]
    _, moved = supports([arrays[t][:, variables] for t in tasks])
    np.testing.assert_array_equal(moved, found[np.ix_(variables, variables)])
    _, parallel = supports(arrays, learner=SIG(random_state=0, n_jobs=2))
    np.testing.assert_array_equal(parallel, found)


def test_sessions_are_drawn_with_their_subject_and_count_once():
    arrays = rows(2, m=6)
    _, once = supports(arrays)
    pairs = [[2 * t, 2 * t + 1] for t in range(6)]
    _, twice = supports([each for each in arrays for _ in range(2)], pairs)
    np.testing.assert_array_equal(twice, once)


def test_prior_knowledge_directs_edges():
    tiers = {"tiers": [["x3"], ["x4"]]}
    _, found = supports(rows(0), learner=MTGBN(knowledge=tiers, max_iter=1, random_state=0))
    assert found[3, 4] == 1.0


def test_few_subjects_support_nothing():
    _, found = supports(rows(0, m=4))
    assert np.isnan(found).all()
