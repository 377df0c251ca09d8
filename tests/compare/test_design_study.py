"""Comparisons by a design: silent without a difference, and the altered connection first with one."""

import itertools
import warnings

import naive
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mtgbn import AVG, SIG, Tasks
from mtgbn.compare import compare_design
from mtgbn.compare.design_tables import describe_design
from mtgbn.compare.strengths import connection_strengths
from mtgbn.errors import InputError
from mtgbn.report import report_of
from mtgbn.simulate import simulate_misfit

LEARNER = SIG(n_restarts=1)


def cohort(seed=0, m=24, p=5, effect=0.0):
    """Tasks with a common network; in odd ones x0 and x1 are more strongly related."""
    arrays = simulate_misfit("none", m, p, 60, random_state=seed).arrays
    for t in range(1, m, 2):
        arrays[t][:, 1] += effect * arrays[t][:, 0]
    names = [f"s{t}" for t in range(m)]
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "group": ["patient" if t % 2 else "control" for t in range(m)],
            "age": rng.normal(40, 10, m),
        },
        index=names,
    )
    return Tasks.from_arrays(arrays, names=names, standardise=True), table


def test_strengths_are_tested_and_effects_are_differences_of_partial_correlations():
    tasks, table = cohort(effect=1.0)
    study = compare_design(tasks, table, "group", LEARNER, n_permutations=500, random_state=1)
    (template,) = study.templates
    strengths = connection_strengths(tasks.scatters, template.estimator.graphs_)
    i, j = template.pairs.T
    np.testing.assert_allclose(template.strengths, strengths[:, i, j])
    is_patient = (table["group"] == "patient").to_numpy()
    groups = [template.strengths[is_patient], template.strengths[~is_patient]]
    difference = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    prior = naive.prior_degrees(template.strengths.var(axis=0, ddof=1).tolist(), 23)
    variances = [
        naive.moderated(each.var(axis=0, ddof=1).tolist(), 11, prior)[0] for each in groups
    ]
    expected = difference / np.sqrt(np.sum(variances, axis=0) / 12)
    np.testing.assert_allclose(template.tests.statistic, expected, rtol=1e-5)
    shown = np.tanh(template.strengths)
    np.testing.assert_allclose(
        template.tests.effect, shown[is_patient].mean(axis=0) - shown[~is_patient].mean(axis=0)
    )
    frame = study.to_frame()
    assert frame.loc[0, ["source", "target"]].tolist() == ["x0", "x1"]
    assert frame.loc[0, "p_family"] < 0.01
    assert len(frame) == 10
    assert frame["p"].is_monotonic_increasing
    np.testing.assert_allclose(frame["mean_patient"] - frame["mean_control"], frame["effect"])
    row = frame.loc[0]
    words = study.in_words()
    n_found = int((frame["p_family"] <= 0.05).sum())
    assert "  and 1 more." in study.in_words(most=n_found - 1)
    assert not any("more." in line for line in study.in_words(most=n_found))
    means = f"(control {row['mean_control']:+.2f}, patient {row['mean_patient']:+.2f})"
    assert means in words[1]
    assert words[0].startswith("all: of 10 connections, ")
    assert "depend" in words[0]
    assert words[1].lstrip().startswith("x0 - x1: ")


def test_too_few_subjects_are_told_that_nothing_can_be_found():
    """Three and three have twenty orders, of which two are the observed one and its mirror image."""
    tasks, table = cohort(m=6, effect=3.0)
    study = compare_design(tasks, table, "group", LEARNER, n_permutations=300, random_state=1)
    values = study.design.matrix[:, 1]
    orders = {tuple(each) for each in itertools.permutations(values.tolist())}
    assert study.design.n_orders == pytest.approx(len(orders))
    assert study.design.smallest_p == pytest.approx(2 / len(orders))
    words = " ".join(study.in_words())
    assert "6 subjects have 20 different orders only, so that no p-value can be below 0.1" in words
    assert "no effect of any size could have been found" in words
    assert "would have been found with a probability" not in words
    assert describe_design(study)["templates"]["all"]["detectable_effect"] is None
    page = report_of(study).html
    assert "With so few subjects no effect of any size could have been found." in page


def test_the_fit_does_not_know_the_design():
    tasks, table = cohort(effect=0.5)
    options = {"n_permutations": 50, "random_state": 3}
    first = compare_design(tasks, table, "group", LEARNER, **options)
    other = compare_design(tasks, table, "age", LEARNER, **options)
    assert not [name for name in other.to_frame() if name.startswith("mean_")]
    for name in ("strengths", "pairs"):
        np.testing.assert_array_equal(
            getattr(first.templates[0], name), getattr(other.templates[0], name)
        )


def test_without_a_difference_hardly_any_study_finds_one():
    found = 0
    for seed in range(40):
        tasks, table = cohort(seed, m=16)
        study = compare_design(
            tasks, table, "group + age", LEARNER, n_permutations=99, random_state=seed
        )
        found += study.templates[0].tests.p_any <= 0.05
    assert stats.binomtest(int(found), 40, 0.05).pvalue > 0.01


def test_an_outcome_that_drives_a_connection_is_found():
    rng = np.random.default_rng(2)
    arrays = simulate_misfit("none", 30, 5, 80, random_state=2).arrays
    score = rng.normal(size=30)
    for rows, value in zip(arrays, score, strict=True):
        rows[:, 3] += 0.6 * value * rows[:, 0]
    people = {f"task{t}": {"score": str(value)} for t, value in enumerate(score)}
    study = compare_design(
        Tasks.from_arrays(arrays, standardise=True), people, "score", LEARNER, n_permutations=400
    )
    first = study.to_frame().iloc[0]
    assert (first["source"], first["target"]) == ("x0", "x3")
    assert first["p_family"] < 0.02
    assert first["low"] > 0


def test_subjects_are_matched_by_name_and_left_out_by_name():
    tasks, table = cohort(effect=1.0)
    table.loc["s5", "age"] = np.nan
    study = compare_design(
        tasks, table[::-1], "group + age", LEARNER, n_permutations=50, random_state=0
    )
    assert "s5" not in study.design.subjects
    assert study.design.subjects == tuple(name for name in tasks.names if name != "s5")
    assert study.templates[0].estimator.task_names_ == study.design.subjects
    assert "Left out for lack of a value: 's5'." in study.in_words()


def test_the_seed_decides_everything_and_templates_are_tested_by_themselves():
    tasks, table = cohort()
    options = {
        "templates": {"first": ["x0", "x1", "x2"], "second": ["x2", "x3", "x4"]},
        "n_permutations": 60,
    }
    first, again = (
        compare_design(tasks, table, "group", LEARNER, random_state=4, n_jobs=n, **options)
        for n in (1, 2)
    )
    pd.testing.assert_frame_equal(first.to_frame(), again.to_frame())
    assert [each.name for each in first.templates] == ["first", "second"]
    assert len(first.to_frame()) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_permutations": 10}, "n_permutations must be a whole number of at least 20"),
        ({"participants": [1]}, "participants must be a mapping of mappings or a data frame"),
        ({"participants": {"s0": {"group": "a"}}}, "there is no participant named 's1'"),
        ({"formula": "sex"}, "there is no column named 'sex'"),
    ],
)
def test_bad_arguments_are_refused_before_the_fit(change, message):
    tasks, table = cohort()
    arguments = {"participants": table, "formula": "group", "n_permutations": 50} | change
    with pytest.raises(InputError, match=message):
        compare_design(tasks, estimator=LEARNER, **arguments)


def test_incomplete_subjects_are_refused():
    tasks, table = cohort()
    rows = [np.full((20, 5), np.nan) if t == 3 else np.eye(20, 5) for t in range(24)]
    rng = np.random.default_rng(0)
    rows = [each + rng.normal(size=each.shape) for each in rows]
    rows[3] = rng.normal(size=(20, 5))
    rows[3][0, 0] = np.nan
    tasks = Tasks.from_arrays(rows, names=list(table.index), missing="em")
    with pytest.raises(InputError, match="need complete data, and 's3' lack values"):
        compare_design(tasks, table, "group", n_permutations=50)


def test_sessions_weigh_as_parts_of_a_subject_in_shares_of_edges():
    """One subject has three sessions in which x0 and x1 are joined; in the others they hardly are."""
    rng = np.random.default_rng(3)
    owners = ["a", "a", "a", *"bcdefghijk"]
    names = [f"{owner}_ses-{owners[:t].count(owner)}" for t, owner in enumerate(owners)]
    arrays = rng.normal(size=(len(owners), 80, 3))
    arrays[:3, :, 1] += 2 * arrays[:3, :, 0]
    arrays[3:5, :, 1] += 2 * arrays[3:5, :, 0]
    table = {
        name: {"group": "patient" if owner in "abcde" else "control"}
        for name, owner in zip(names, owners, strict=True)
    }
    study = compare_design(
        Tasks.from_arrays(arrays, names=names), table, "group", LEARNER, n_permutations=99
    )
    assert len(study.design.subjects) == 11
    graphs, frame = study.templates[0].estimator.graphs_, study.to_frame()
    is_checked = False
    for row in frame.itertuples():
        i, j = int(row.source[1:]), int(row.target[1:])
        of_subjects = {owner: [0.0, 0.0, 0] for owner in owners}
        for owner, graph in zip(owners, graphs, strict=True):
            for k, count in enumerate((graph[i, j] | graph[j, i], graph[i, j], 1)):
                of_subjects[owner][k] += count
        joined = sum(each[0] / each[2] for each in of_subjects.values()) / 11
        forward = sum(each[1] / each[2] for each in of_subjects.values()) / 11
        assert row.joined == pytest.approx(joined)
        if joined:
            assert row.forward == pytest.approx(forward / joined)
        is_checked |= (row.source, row.target) == ("x0", "x1") and 0 < joined < 0.6
    assert is_checked


@pytest.mark.parametrize(
    ("learner", "said"),
    [(SIG(n_restarts=0), "as a single task"), (AVG(n_restarts=0), "pooled data of all subjects")],
)
def test_the_description_says_how_the_networks_were_learned(learner, said):
    tasks, table = cohort(m=12)
    study = compare_design(tasks, table, "group", learner, n_permutations=20, random_state=0)
    description = describe_design(study)["description"]
    assert said in description
    assert "jointly" not in description


def test_time_series_whose_rows_count_in_full_are_warned_of_and_noted(tmp_path):
    rng = np.random.default_rng(0)
    series = rng.normal(size=(12, 60, 3)).cumsum(axis=1)
    table = {f"task{t}": {"group": "patient" if t % 2 else "control"} for t in range(12)}
    options = {"n_permutations": 50, "random_state": 1}
    words = "rows are autocorrelated, as in a time series"
    for size in (None, "bartlett", "none"):
        tasks = Tasks.from_arrays(series, standardise=True, effective_samples=size)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            study = compare_design(tasks, table, "group", LEARNER, **options)
        n_expected = 1 if size is None else 0
        assert sum(words in str(each.message) for each in caught) == n_expected
        assert sum(line.startswith(f"Note: {words}") for line in study.in_words()) == n_expected
        assert sum(words in each for each in describe_design(study)["warnings"]) == n_expected
        page = " ".join(
            report_of(study).save_as_html(tmp_path / "page.html").read_text().split()
        ).lower()
        assert (words in page) == bool(n_expected)
