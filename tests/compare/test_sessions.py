"""Sessions of one person are no independent subjects: invariance, level, and who is recognised."""

import warnings

import numpy as np
import pandas as pd
import pytest
from compare.studies import series as small_series
from compare.studies import write_series
from scipy import stats

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare import compare_design, split_halves
from mtgbn.compare.cohort import read_cohort
from mtgbn.compare.design_folder import Question, plan_design
from mtgbn.compare.inference import contrast_tests
from mtgbn.compare.participants import read_participants
from mtgbn.compare.reliability import intraclass_correlations
from mtgbn.compare.sessions import average_sessions, find_people, person_of
from mtgbn.compare.strengths import connection_strengths
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.simulate import simulate_misfit

LEARNER = SIG(n_restarts=1)


def people(m=16):
    return {
        f"sub-{k:02d}": {"group": "patient" if k % 2 else "control", "age": 30.0 + k**2 % 17}
        for k in range(m)
    }


def series(m=16, p=4, seed=0):
    return simulate_misfit("none", m, p, 60, random_state=seed).arrays


def with_sessions(arrays, persons, n_sessions=2):
    """The same rows as every session of a person, and their table."""
    names = [f"{person}_ses-{s}" for person in persons for s in range(n_sessions)]
    tasks = Tasks.from_arrays(
        [rows for rows in arrays for _ in range(n_sessions)], names=names, standardise=True
    )
    table = {
        f"{person}_ses-{s}": {**values, "who": person}
        for person, values in persons.items()
        for s in range(n_sessions)
    }
    return tasks, table


@pytest.mark.parametrize("by_column", [True, False])
def test_duplicated_sessions_change_no_pvalue(by_column):
    persons, arrays = people(), series()
    options = {"n_permutations": 199, "random_state": 0}
    single = Tasks.from_arrays(arrays, names=list(persons), standardise=True)
    once = compare_design(single, persons, "group + age", LEARNER, **options)
    tasks, table = with_sessions(arrays, persons)
    twice = compare_design(
        tasks, table, "group + age", LEARNER, subject="who" if by_column else None, **options
    )
    assert twice.design.subjects == once.design.subjects == tuple(persons)
    assert twice.sessions["sub-03"] == ("sub-03_ses-0", "sub-03_ses-1")
    assert once.sessions is None
    for name in ("p", "p_family", "p_enhanced", "statistic", "effect"):
        np.testing.assert_allclose(
            *(getattr(study.templates[0].tests, name) for study in (once, twice)), rtol=1e-9
        )
    frame = twice.to_frame()
    assert (frame["icc"] == 1).all()
    assert "icc" not in once.to_frame()
    assert once.to_frame()["support"].equals(frame["support"])
    assert any("because of their names" in line for line in twice.in_words()) != by_column
    # The sampling variance of two sessions is half of that of one.
    np.testing.assert_allclose(twice.templates[0].variances, once.templates[0].variances / 2)


def test_without_a_difference_sessions_do_not_make_one():
    """Persons differ much, their sessions little: as 32 subjects these would be found different."""
    pairs = np.array(np.triu_indices(5, 1)).T
    rows = [[2 * k, 2 * k + 1] for k in range(16)]
    matrix = np.column_stack([np.ones(16), np.arange(16) % 2])
    averaged, wrong = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        strengths = np.repeat(rng.normal(size=(16, 10)), 2, axis=0)
        strengths += 0.2 * rng.normal(size=(32, 10))
        means = average_sessions(strengths, rng.uniform(0.01, 0.03, size=(32, 10)), rows)
        settings = {"pairs": pairs, "n_permutations": 99, "random_state": seed}
        contrast = np.array([[0.0, 1]])
        averaged.append(contrast_tests(means, matrix, contrast, **settings).p_any)
        many = contrast_tests(strengths, np.repeat(matrix, 2, axis=0), contrast, **settings)
        wrong.append(many.p_any)
    found = int(np.sum(np.array(averaged) <= 0.05))
    assert stats.binomtest(found, 300, 0.05).pvalue > 0.01
    assert np.mean(np.array(wrong) <= 0.05) > 0.2


def test_averages_are_weighted_by_precision():
    strengths = np.array([[1.0, 2.0], [4.0, 2.0], [7.0, 7.0]])
    variances = np.array([[0.1, 0.1], [0.2, 0.1], [1.0, 1.0]])
    found = average_sessions(strengths, variances, [[0, 1], [2]])
    np.testing.assert_allclose(found, [[(10 * 1 + 5 * 4) / 15, 2], [7, 7]])


def test_reliability_of_sessions_and_of_halves_is_that_of_their_strengths():
    persons, arrays = people(8), series(16)
    names = [f"{person}_ses-{s}" for person in persons for s in (1, 2)]
    tasks = Tasks.from_arrays(arrays, names=names, standardise=True)
    options = {"n_permutations": 20, "random_state": 0}
    # The table has one row per person.
    study = compare_design(tasks, persons, "group", LEARNER, **options)
    (template,) = study.templates
    i, j = template.pairs.T
    graphs = template.estimator.graphs_
    strengths = connection_strengths(tasks.scatters, graphs)[:, i, j]
    expected = intraclass_correlations(strengths.reshape(8, 2, -1))
    np.testing.assert_allclose(template.reliability.icc, expected.icc)
    assert any("2 sessions of 8 subjects" in line for line in study.in_words())
    names = list(people(16))
    tasks = Tasks.from_arrays(arrays, names=names, standardise=True)
    halves = split_halves(dict(zip(names, arrays, strict=True)), standardise=True)
    study = compare_design(tasks, people(16), "group", LEARNER, halves=halves, **options)
    (template,) = study.templates
    first, second = (
        connection_strengths(half.scatters, template.estimator.graphs_)[:, i, j] for half in halves
    )
    expected = intraclass_correlations(np.stack([first, second], axis=1))
    np.testing.assert_allclose(template.reliability.icc, expected.icc)
    assert template.reliability.source == "halves"
    with pytest.raises(InputError, match="there is no task of the halves named 'sub-00'"):
        compare_design(
            *(tasks, people(16), "group", LEARNER),
            halves=tuple(half[names[1:]] for half in halves),
            **options,
        )


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("sub-01_ses-1", "sub-01"),
        ("sub-01_ses-1_run-2", "sub-01"),
        ("sub-01_task-rest_run-1", "sub-01"),
        ("S01_session2", "S01"),
        ("P7-visit-3", "P7"),
        ("sub-01", "sub-01"),
        ("patient_7", "patient_7"),
        ("sub-siteA_001", "sub-siteA_001"),
        ("run1", "run1"),
        ("control_rest", "control_rest"),
    ],
)
def test_names_of_sessions_are_recognised(name, person):
    assert person_of(name) == person


def test_values_of_a_person_are_constant_averaged_or_refused():
    table = {
        f"sub-{k}_ses-{s}": {
            "group": "ab"[k % 2] if s else "n/a",  # given in one session only
            "motion": f"{0.1 * (k + s):.1f}",
            "site": "AB"[s],
            "code": s,
            "who": k,
        }
        for k in range(4)
        for s in (0, 1)
    }
    found = find_people(table, "who", used=["group", "motion"])
    assert found.sessions["2"] == ("sub-2_ses-0", "sub-2_ses-1")
    assert [found.table[str(k)]["group"] for k in range(4)] == list("abab")
    assert found.table["2"]["motion"] == pytest.approx(0.25)
    assert found.notes == (
        "column 'motion' differs between the sessions of a person, and is averaged over them",
    )
    with pytest.raises(InputError, match="column 'site' has several values in the sessions of '0'"):
        find_people(table, "who", used=["site"])
    with pytest.raises(InputError, match="column 'code' has several values"):
        find_people(table, "who", used=["code"], categories=["code"])
    with pytest.raises(InputError, match="a person must have one value in all sessions"):
        find_people(table, "code", used=["group"])
    with pytest.raises(InputError, match="there is no column named 'whom'"):
        find_people(table, "whom", used=["group"])
    # Blocks that are the persons: sessions change places within a person, and are not averaged.
    assert not find_people(table, None, used=["site"], blocks="who").has_several
    table["sub-1_ses-0"]["who"] = ""
    with pytest.raises(InputError, match="task 'sub-1_ses-0' has no value in column 'who'"):
        find_people(table, "who", used=["group"])


def test_sessions_within_persons_can_be_compared_with_blocks():
    tasks, table = with_sessions(series(), people())
    for name, values in table.items():
        values["time"] = "before" if name.endswith("0") else "after"
    with pytest.raises(InputError, match=r"'time' has several values .* or give blocks"):
        compare_design(tasks, table, "time", LEARNER, n_permutations=20)
    study = compare_design(
        tasks, table, "time", LEARNER, blocks="who", n_permutations=50, random_state=0
    )
    assert len(study.design.subjects) == 32
    # Both sessions have the same rows, so that nothing but rounding errors changes within a person.
    tests = study.templates[0].tests
    for each in (tests.effect, tests.low, tests.high):
        np.testing.assert_allclose(each, 0, atol=1e-12)


def test_probabilities_of_directions_come_from_the_posterior():
    arrays = series(12)
    names = [f"s{k}" for k in range(12)]
    tasks = Tasks.from_arrays(arrays, names=names, standardise=True)
    table = pd.DataFrame({"group": ["a", "b"] * 6}, index=names)
    learner = MTGBN(inference="posterior", n_rounds=100, max_iter=1, n_restarts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        study = compare_design(tasks, table, "group", learner, n_permutations=20, random_state=0)
    estimator = study.templates[0].estimator
    for row in study.to_frame().itertuples():
        i, j = (estimator.variables_.index(name) for name in (row.source, row.target))
        if np.isnan(row.forward):
            continue
        source, target = (i, j) if row.forward >= 0.5 else (j, i)
        expected = estimator.edge_probabilities_[:, source, target].mean()
        assert row.support_probability == pytest.approx(expected)
        assert row.support == study.templates[0].directions[source, target]


def test_a_plan_counts_the_orders_of_persons_and_not_of_sessions(tmp_path):
    """Three and three persons have twenty orders; their twelve sessions would have 924."""
    data = tmp_path / "data"
    data.mkdir()
    lines = ["participant_id\tgroup"]
    for k in range(6):
        for session in (1, 2):
            lines.append(f"sub-{k}_ses-{session}\t{'patient' if k < 3 else 'control'}")
            write_series(data, f"sub-{k}_ses-{session}", small_series(10 * k + session, False))
    table = tmp_path / "participants.tsv"
    table.write_text("\n".join(lines) + "\n")
    participants = read_participants(table)
    cohort = read_cohort(data, participants, ("control", "patient"), effective_samples="none")
    assert len(cohort.tasks) == 12
    plan = plan_design(cohort, participants, Question(), MTGBN())
    assert plan.first_notes[-1].startswith("6 subjects have 20 different orders only")
    assert len(plan.design.subjects) == 12


def test_what_is_said_of_sessions_does_not_speak_of_tasks():
    tasks, table = with_sessions(series(), people())
    study = compare_design(tasks, table, "group", LEARNER, n_permutations=20, random_state=0)
    notes = " ".join(study.design.notes)
    assert "are taken as sessions of one person" in notes
    assert "task" not in notes
