"""One subject against controls: what was altered comes first; controls alarm as often as they say."""

import numpy as np
import pytest

from mtgbn import MTGBN, Tasks
from mtgbn.compare import compare_one
from mtgbn.compare.comparison_folder import comparison_tables
from mtgbn.compare.covariates import design_of_subject
from mtgbn.compare.one_subject import compare_subject, expect_strengths, score_departures
from mtgbn.compare.strengths import (
    MEASURES,
    StrengthMeasure,
    connection_strengths,
    mean_conditions,
    sampling_variance,
)
from mtgbn.compare.summary_text import subject_sentences
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
    assert found.probability[of[1, 2]] > 0.9 > 0.3 > found.control_probability[of[1, 2]]


def test_strengths_are_partial_correlations_of_the_data(tasks, found):
    """Of x2 and x3, which nothing else explains: the correlation itself."""
    place = list(zip(found.source, found.target, strict=True)).index((2, 3))
    scatters = tasks.scatters[:, 2:4, 2:4]
    correlations = scatters[:, 0, 1] / np.sqrt(scatters[:, 0, 0] * scatters[:, 1, 1])
    assert abs(found.strength[place] - correlations[6]) < 0.03
    expected = np.tanh(np.arctanh(correlations[:6]).mean())
    assert abs(found.control_strength[place] - expected) < 0.03


def test_numbers_follow_from_the_scores(found):
    """Counted by hand from the controls' own scores."""
    sizes, controls = np.abs(found.score), np.abs(found.control_scores)
    assert (np.diff(sizes) <= 0).all()
    for k, size in enumerate(sizes):
        alarms = (controls >= size - 1e-12).sum()
        assert found.expected_alarms[k] == (1 + alarms) / 7
        assert found.pvalue[k] == (1 + alarms) / (1 + controls.size)
    raw = np.minimum(found.expected_alarms / np.arange(1, 11), 1)
    np.testing.assert_allclose(found.fdr, [raw[k:].min() for k in range(10)])


def test_scores_by_hand():
    others = np.array([[0.0, 0.5], [0.2, 0.5], [0.4, 0.5]])
    ns = np.array([50.0, 100.0, 100.0])
    drawn = (np.array([0.04, 0.0]) + 0.02) / 2
    spread = np.sqrt(drawn - (1 / 50 + 2 / 100) / 3 + 1 / 80)
    spread[1] = np.sqrt(
        1 / 80
    )  # less than the samples' own variance is no variance between subjects
    expected = np.array([0.7 / spread[0], -0.1 / spread[1]])  # stronger, weaker
    found = score_departures(
        np.array([0.9, 0.4]), expect_strengths(others), 1 / 80, np.mean(1 / ns)
    )
    np.testing.assert_allclose(found, expected)


def test_weaker_is_negative_whatever_the_sign():
    others = np.array([[-0.5, 0.5], [-0.7, 0.3], [-0.6, 0.4]])
    weaker, stronger = (
        score_departures(np.array(own), expect_strengths(others), 0.01, 0.01)
        for own in ([-0.1, 0.1], [-0.9, 0.9])
    )
    assert (weaker < 0).all()
    assert (stronger > 0).all()


def test_few_samples_excuse_a_departure():
    rng = np.random.default_rng(0)
    others, own = 0.1 * rng.normal(size=(10, 6)), 0.4 * np.ones(6)
    sizes = [
        np.abs(score_departures(own, expect_strengths(others), 1 / n, 0.01)) for n in (20, 100)
    ]
    assert (sizes[0] < 0.7 * sizes[1]).all()


@pytest.mark.parametrize(("density", "n"), [(0.3, 15), (0.7, 20), (0.7, 100)])
def test_a_subject_like_the_controls_but_with_fewer_samples_is_no_case(density, n):
    """One graph for all, controls with 100 samples: p-values of the subject are uniform."""
    rng = np.random.default_rng(0)
    p, n_controls = 9, 12
    graph = np.triu(rng.random((p, p)) < density, 1)
    mixing = np.linalg.inv(np.eye(p) - 0.3 * graph.T)
    pairs = np.triu_indices(p, 1)
    given = mean_conditions(graph[None])[pairs]
    noises = [sampling_variance(size, given) for size in (100, n)]
    small = []
    for _ in range(60):
        rows = [rng.normal(size=(size + 1, p)) @ mixing.T for size in [100] * n_controls + [n]]
        scatters = np.array([np.cov(each.T) * (len(each) - 1) for each in rows])
        z = connection_strengths(scatters, graph[None])[:, *pairs]
        own, controls = z[-1], z[:-1]
        among = [
            score_departures(
                controls[c],
                expect_strengths(np.delete(controls, c, axis=0)),
                noises[0],
                noises[0],
            )
            for c in range(n_controls)
        ]
        score = score_departures(own, expect_strengths(controls), noises[1], noises[0])
        small.append(np.mean(np.abs(score) >= np.quantile(np.abs(among), 0.95)))
    # .13 and .09 with 1/n for the variance, whatever is conditioned on.
    assert np.mean(small) == pytest.approx(0.05, abs=0.025)


def test_covariates_are_predicted_by_least_squares():
    """Against numpy's solver, and the textbook's variance of a prediction."""
    rng = np.random.default_rng(3)
    strengths = rng.normal(size=(9, 4))
    design = np.column_stack([np.ones(10), rng.normal(50, 20, 10), rng.random(10) < 0.5])
    found = expect_strengths(strengths, design)
    solution, squares, _, _ = np.linalg.lstsq(design[:9], strengths)
    np.testing.assert_allclose(found.mean, design[9] @ solution)
    np.testing.assert_allclose(found.variance, squares / 6)
    leverage = design[9] @ np.linalg.inv(design[:9].T @ design[:9]) @ design[9]
    assert found.widening == pytest.approx((1 + leverage) / (1 + 1 / 9))
    plain = expect_strengths(strengths)
    np.testing.assert_allclose(plain.mean, strengths.mean(axis=0))
    np.testing.assert_allclose(plain.variance, strengths.var(axis=0, ddof=1))
    assert plain.widening == pytest.approx(1)


def aging_subjects():
    """x0 -> x1, as Fisher's z, grows with age in everybody; the last subject is old, nothing else."""
    rng = np.random.default_rng(1)
    ages = np.array([*np.linspace(20, 80, 12), 85])
    data = rng.normal(size=(13, 200, 3))
    data[:, :, 1] += np.sinh((ages[:, None] - 15) / 50) * data[:, :, 0]
    people = {f"task{t}": {"age": age, "sex": "fm"[t % 2]} for t, age in enumerate(ages)}
    return Tasks.from_any(data), people


def test_an_effect_of_age_is_no_departure():
    tasks, people = aging_subjects()
    without = compare_one(tasks, "task12", LEARNER, random_state=0)
    with_age = compare_one(
        tasks, "task12", LEARNER, formula="age + sex", participants=people, random_state=0
    )
    first, second = (study.templates["all"][1] for study in (without, with_age))
    of = [
        list(zip(each.source, each.target, strict=True)).index((0, 1)) for each in (first, second)
    ]
    assert first.score[of[0]] > 1.4
    assert second.score[of[1]] < first.score[of[0]] - 1.4
    assert second.fdr[of[1]] > first.fdr[of[0]]
    assert second.control_strength[of[1]] > first.control_strength[of[0]] + 0.1
    assert any("Held constant: age + sex" in line for line in subject_sentences(with_age))


def test_controls_without_a_value_are_left_out():
    tasks, people = aging_subjects()
    people["task3"]["age"] = "n/a"
    study = compare_one(
        tasks, "task12", LEARNER, formula="age", participants=people, random_state=0
    )
    assert study.left_out == {"task3": "age"}
    assert "task3" not in study.controls
    assert len(study.controls) == 11
    assert study.templates["all"][1].control_scores.shape[0] == 11
    assert comparison_tables(study).about["controls_without_covariates"] == {"task3": "age"}


@pytest.mark.parametrize(
    ("change", "formula", "message"),
    [
        ({"task12": {"age": "n/a"}}, "age", "'task12' has no value in column 'age'"),
        ({"task12": {"sex": "x"}}, "sex", "category 'x' of column 'sex' has one subject"),
        (
            {"task12": {"sex": "x"}, "task2": {"sex": "x"}},
            "age + sex",
            "the controls without 'task2' do not tell the effect of 'sex",
        ),
        ({}, "hight", "hight"),
    ],
)
def test_covariates_that_cannot_be_used(change, formula, message):
    tasks, people = aging_subjects()
    for task, values in change.items():
        people[task] |= values
    with pytest.raises(InputError, match=message):
        compare_one(tasks, "task12", LEARNER, formula=formula, participants=people)


def test_controls_must_outnumber_covariates(tasks):
    """With as many columns as other controls, a control's score would be 0/0."""
    people = {
        name: {"age": float(k**2), "motion": float(k % 3)} for k, name in enumerate(tasks.names)
    }
    chosen = tasks[[0, 1, 2, 3, 6]]
    with pytest.raises(InputError, match="4 controls are too few for a design with 3 columns"):
        compare_one(chosen, "task6", LEARNER, formula="age + motion", participants=people)
    with pytest.raises(InputError, match="4 controls are too few for a design with 3 columns"):
        compare_subject(tasks[[0, 1, 2, 3]], tasks[6], LEARNER, design=np.eye(5, 3) + 1)


def test_covariates_may_have_large_values():
    """Such as a date in seconds, which hardly varies relative to its size."""
    names = tuple(f"task{k}" for k in range(12))
    dates = 1.7e9 + 300.0 * np.random.default_rng(0).normal(size=12)
    people = {name: {"date": date} for name, date in zip(names, dates, strict=True)}
    matrix, left_out = design_of_subject(names, "task11", people, "date")
    assert matrix.shape == (12, 2)
    assert not left_out


def test_a_formula_and_its_values_belong_together(tasks):
    with pytest.raises(InputError, match="a formula needs the values"):
        compare_one(tasks, "task6", LEARNER, formula="age")
    with pytest.raises(InputError, match="no use without a formula"):
        compare_one(tasks, "task6", LEARNER, participants={"task0": {"age": 3}})


def test_processes_do_not_matter(tasks, found):
    told = []
    again = compare_subject(
        tasks[list(range(6))],
        tasks[6],
        LEARNER,
        random_state=0,
        n_jobs=2,
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    np.testing.assert_array_equal(again.score, found.score)
    np.testing.assert_array_equal(again.control_scores, found.control_scores)
    assert told == [("fits", k, 7) for k in range(1, 8)]


def test_bad_use_is_explained(tasks):
    with pytest.raises(InputError, match="3 controls are too few"):
        compare_subject(tasks[[0, 1, 2]], tasks[6])
    with pytest.raises(InputError, match="is among the controls"):
        compare_subject(tasks[list(range(6))], tasks[2])


def test_another_measure_of_strength_is_one_entry_in_the_table(tasks, tmp_path, monkeypatch):
    """Marginal correlations instead of partial ones: used for the scores, and named in the tables."""

    def correlations(scatters, graphs):
        deviations = np.sqrt(np.einsum("sii->si", scatters))
        values = scatters / (deviations[:, :, None] * deviations[:, None])
        return np.arctanh(values * ~np.eye(scatters.shape[1], dtype=bool))

    measure = StrengthMeasure(
        label="correlation",
        description="marginal correlation",
        of_pairs=correlations,
        variance=lambda ns, graphs: np.broadcast_to(
            1 / (ns[:, None, None] - 2), (len(ns), *graphs.shape[1:])
        ),
        to_display=np.tanh,
    )
    monkeypatch.setitem(MEASURES, "correlation", measure)
    study = compare_one(tasks, "task6", LEARNER, measure="correlation", random_state=0)
    departures = study.templates["all"][1]
    i, j = departures.source[0], departures.target[0]
    scatter = tasks.scatters[6]
    expected = scatter[i, j] / np.sqrt(scatter[i, i] * scatter[j, j])
    assert departures.strength[0] == pytest.approx(expected)
    assert "marginal correlation" in str(comparison_tables(study).tables["departures"].sidecar())
    assert f": correlation {expected:.2f} in task6" in "\n".join(subject_sentences(study))
    with pytest.raises(InputError, match="there is no measure named 'corelation'; close matches"):
        compare_one(tasks, "task6", LEARNER, measure="corelation")
