"""The second fit of a comparison by a design: which designs have two groups, and what it adds."""

import json

import numpy as np
import pandas as pd
import pytest

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare import compare_design, write_study
from mtgbn.compare.comparison_folder import comparison_tables, read_comparison
from mtgbn.compare.design import make_design
from mtgbn.compare.design_groups import two_groups
from mtgbn.compare.difference_tables import difference_tables
from mtgbn.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")

M = 14
LEARNER = MTGBN(n_draws=8, n_restarts=0, max_iter=2, n_rounds=120)


def table():
    rng = np.random.default_rng(0)
    columns = {
        "group": ["patient" if t % 2 else "control" for t in range(M)],
        "age": rng.normal(40, 10, M),
        "dose": [float(t % 3) for t in range(M)],
        "code": [t % 2 for t in range(M)],
        "site": ["abc"[t % 3] for t in range(M)],
    }
    return pd.DataFrame(columns, index=[f"s{t}" for t in range(M)])


def cohort():
    """All have x0 - x1, patients also x2 - x3; the order of both groups differs."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(M, 80, 4))
    rows[:, :, 1] += rows[:, :, 0]
    rows[1::2, :, 3] += rows[1::2, :, 2]
    return Tasks.from_arrays(rows, names=table().index.tolist(), standardise=True)


def study_of(formula="group + age", estimator=LEARNER, **options):
    options = {"n_permutations": 50, "random_state": 2, "probabilities": True} | options
    return compare_design(cohort(), table(), formula, estimator, **options)


@pytest.fixture(scope="module")
def study():
    return study_of()


def rows_of(table):
    return {
        name: {key: str(cell) for key, cell in row.items()}
        for name, row in table.to_dict("index").items()
    }


@pytest.mark.parametrize(
    ("formula", "options", "labels"),
    [
        ("group", {}, ("control", "patient")),
        ("age + group", {"test": "group"}, ("control", "patient")),
        ("age + C(group)", {"test": "C(group)"}, ("control", "patient")),
        ("code", {}, ("0", "1")),
        ("group", {"contrast": "-1 * group[T.patient]"}, ("patient", "control")),
    ],
)
def test_the_second_group_is_the_one_with_the_larger_value(formula, options, labels):
    values = rows_of(table())
    found = two_groups(make_design(values, formula, **options), values)
    assert found.labels == labels
    assert list(found.by_subject) == list(values)


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("age", {}, "'age' is a quantity"),
        ("site", {}, "more than two categories"),
        ("site", {"contrast": "site[T.b]"}, "leaves 'a', 'c' in one group"),
        ("site", {"contrast": "site[T.b] - site[T.c]"}, "no column of groups"),
        ("group * age", {"test": "group:age"}, "no column of groups"),
    ],
)
def test_other_designs_are_refused_before_any_fit(formula, options, message):
    with pytest.raises(InputError, match=message):
        study_of(formula, **options)


def test_estimators_and_sessions_that_the_model_does_not_know_are_refused():
    with pytest.raises(InputError, match=r"has groups; got SIG"):
        study_of(estimator=SIG())
    with pytest.raises(InputError, match="edge_prior='shared'"):
        study_of(estimator=MTGBN(edge_prior="density"))
    names = [f"sub-{t // 2}_ses-{t % 2}" for t in range(M)]
    people = table().assign(group=["a" if t < 6 else "b" for t in range(M)]).set_axis(names)
    tasks = Tasks.from_arrays(np.random.default_rng(0).normal(size=(M, 40, 3)), names=names)
    with pytest.raises(InputError, match=r"'sub-0_ses-0', 'sub-0_ses-1' are sessions"):
        compare_design(tasks, people, "group", LEARNER, probabilities=True)


def test_the_tests_are_those_of_the_blind_fit_and_the_second_fit_has_the_same_sign(study):
    (template,), (blind,) = study.templates, study_of(probabilities=False).templates
    assert blind.differences is None
    np.testing.assert_array_equal(template.tests.p, blind.tests.p)
    np.testing.assert_array_equal(template.estimator.graphs_, blind.estimator.graphs_)
    found = template.differences
    assert found.labels == ("control", "patient")
    assert found.outcomes[2, 3] == "different"
    assert "different" not in (found.outcomes[0, 1], found.outcomes[0, 2])
    (place,) = np.flatnonzero((template.pairs == [2, 3]).all(axis=1))
    assert found.means[2, 3] > 0.5
    assert template.tests.effect[place] > 0.1
    # The contrast with the other sign turns both.
    other = study_of(contrast="-1 * group[T.patient]")
    np.testing.assert_array_equal(
        other.templates[0].differences.distribution, found.distribution[..., ::-1]
    )
    np.testing.assert_allclose(other.templates[0].tests.effect, -template.tests.effect)


def test_the_table_has_both_answers_and_says_what_is_not_held_constant(study, tmp_path):
    words = "\n".join(study.in_words())
    assert (
        "who has a connection: groups: 7 control, 7 patient. Of 6 connections, 1 is diff" in words
    )
    assert "'age' is not held constant in these probabilities." in words
    content = read_comparison(write_study(study, tmp_path).parent)
    rows = content.tables["differences"].records
    assert len(rows) == 6
    first = rows[0]
    assert (first["source"], first["target"], first["outcome"]) == ("x2", "x3", "different")
    tests = {(row["source"], row["target"]): row for row in content.tables["connections"].records}
    for row in rows:
        beside = tests[row["source"], row["target"]]
        assert (row["effect"], row["p_family"]) == (beside["effect"], beside["p_family"])
    described = content.about["templates"]["all"]["differences"]
    assert described["labels"] == ["control", "patient"]
    assert sum(described["counts"].values()) == 6
    assert described["not_held_constant"] == ["age"]
    assert (
        "second group minus first"
        in json.loads((tmp_path / "differences.json").read_text())["difference"]["Description"]
    )
    assert "differences" not in comparison_tables(study_of(probabilities=False)).tables


def test_shares_of_the_groups_are_means_over_their_subjects(study):
    (found,) = difference_tables(study)
    template = study.templates[0]
    fitted = template.with_groups
    is_patient = np.arange(M) % 2 == 1
    assert [fitted.groups_[name] == "patient" for name in fitted.task_names_] == is_patient.tolist()
    for row in found.records:
        i, j = (template.variables.index(row[end]) for end in ("source", "target"))
        for label, chosen in (("control", ~is_patient), ("patient", is_patient)):
            expected = fitted.adjacency_probabilities_[chosen, i, j].mean()
            assert float(row[f"share_{label}"]) == pytest.approx(expected, rel=1e-4, abs=1e-4)
