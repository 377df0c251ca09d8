"""Relabelling: exact small cases, and the same p-values whatever the processes and interruptions."""

import itertools

import numpy as np
import pytest

from mtgbn import AVG, SIG, Tasks
from mtgbn.compare.fitting import fit_groups
from mtgbn.compare.permutation import _pvalues, permutation_test
from mtgbn.errors import InputError
from mtgbn.simulate import simulate_misfit

IS_A = np.array([True] * 4 + [False] * 4)
LEARNER = SIG(edge_prior="density", n_restarts=0)


@pytest.fixture(scope="module")
def tasks():
    """Two groups of four, of whom only the first have x0 - x1."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(8, 60, 4))
    data[:4, :, 1] += data[:4, :, 0]
    data[:, :, 3] += data[:, :, 2]
    return Tasks.from_any(data)


def test_a_difference_is_found_and_only_that(tasks):
    found = permutation_test(
        tasks, IS_A, LEARNER, n_permutations=99, fitting="together", random_state=0
    )
    assert found.pair_differences[0, 1] == 1.0
    assert found.pair_pvalues[0, 1] <= 0.07  # 2 of the 70 relabellings are as extreme
    assert found.pair_corrected[2, 3] == 1.0
    assert found.pvalue == np.nanmin(found.pair_corrected)
    assert np.isnan(np.diag(found.pvalues)).all()


def test_single_tasks_do_not_care_how_groups_are_fitted(tasks):
    """Graphs learned one by one depend on no label, so that both ways are the same test."""
    options = {"n_permutations": 15, "random_state": 3}
    apart = permutation_test(tasks, IS_A, LEARNER, **options)
    together = permutation_test(tasks, IS_A, LEARNER, fitting="together", **options)
    np.testing.assert_allclose(apart.pair_pvalues, together.pair_pvalues)
    np.testing.assert_allclose(apart.pair_corrected, together.pair_corrected)
    assert (apart.fitting, together.fitting) == ("separate", "together")


def test_pvalues_by_counting():
    observed = np.zeros((2, 2, 2))
    observed[:, 0, 1] = 0.5
    found = np.zeros((4, 2, 2, 2))
    found[:, :, 0, 1] = np.array([0.5, -0.75, 0.25, 0.0])[:, None]
    found[:, :, 1, 0] = np.array([0.0, 0.0, 1.0, 0.0])[:, None]
    values, corrected = _pvalues(observed, found)
    assert values[0, 0, 1] == 3 / 5
    assert corrected[0, 0, 1] == 4 / 5
    assert values[0, 1, 0] == 1.0


def test_all_relabellings_of_a_small_study_are_uniform():
    """Under no difference, the share of labellings with p <= a is at most a: counted over all 70."""
    graphs = np.random.default_rng(1).random((8, 1)) < 0.5

    def difference(chosen):
        is_a = np.isin(np.arange(8), chosen)
        value = abs(graphs[is_a].mean() - graphs[~is_a].mean())
        matrix = np.zeros((2, 2, 2))
        matrix[:, 0, 1] = value
        return matrix

    every = np.array([difference(chosen) for chosen in itertools.combinations(range(8), 4)])
    pvalues = np.array([_pvalues(each, every)[0][0, 0, 1] for each in every])
    for level in (0.05, 0.1, 0.3, 0.5):
        assert np.mean(pvalues <= level) <= level


def test_neither_processes_nor_an_interruption_matter(tasks, tmp_path):
    store = tmp_path / "permutations.npz"
    options = {"n_permutations": 6, "random_state": 1}
    whole = permutation_test(tasks, IS_A, LEARNER, **options)
    told = []

    def stop(what, done, total):
        told.append((what, done, total))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        permutation_test(tasks, IS_A, LEARNER, store=store, progress=stop, **options)
    assert told == [("relabellings", k, 6) for k in (1, 2, 3)]
    told.clear()
    resumed = permutation_test(
        tasks,
        IS_A,
        LEARNER,
        store=store,
        n_jobs=2,
        progress=lambda what, done, total: told.append(done),
        **options,
    )
    assert told == [4, 5, 6]
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match="other data, settings or seed"):
        permutation_test(tasks, ~IS_A, LEARNER, store=store, **options)
    store.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is not a file of relabellings"):
        permutation_test(tasks, IS_A, LEARNER, store=store, **options)


def test_groups_are_fitted_as_asked(tasks):
    separate = fit_groups(tasks, IS_A, LEARNER, random_state=0)
    assert [len(each.task_names_) for each in separate.estimators] == [4, 4]
    together = fit_groups(tasks, IS_A, LEARNER, fitting="together", random_state=0)
    assert [len(each.task_names_) for each in together.estimators] == [8]
    assert not hasattr(LEARNER, "graphs_")
    assert separate.graphs_a[:, [0, 1], [1, 0]].sum() == 4


@pytest.mark.parametrize(
    ("is_a", "message"),
    [
        (IS_A[:-1], "each of the 8 tasks"),
        (IS_A.astype(int), "True or False"),
        (np.array([True] + [False] * 7), r"group a has 1 subject"),
        (np.ones(8, dtype=bool), r"group b has 0 subject"),
    ],
)
def test_bad_groups_are_refused(tasks, is_a, message):
    with pytest.raises(InputError, match=message):
        fit_groups(tasks, is_a, LEARNER)


def test_both_groups_have_the_same_minimal_strength():
    """Decided from all subjects, so that it cannot differ between the groups by itself."""
    simulation = simulate_misfit("hidden_cause", n_tasks=12, n_variables=9, random_state=2)
    tasks, is_a = simulation.tasks, np.arange(12) < 6
    fits = fit_groups(tasks, is_a, SIG(random_state=0))
    expected = AVG(random_state=0).fit(tasks).min_strength_
    assert expected.strength > 0
    assert [each.min_strength_ for each in fits.estimators] == [expected, expected]
    given = fit_groups(tasks, is_a, SIG(min_strength=0.3, random_state=0))
    assert {each.min_strength_ for each in given.estimators} == {(0.3, 1.0)}
