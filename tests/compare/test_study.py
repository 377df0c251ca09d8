"""Whole comparisons: every table recounted with pandas and tested with statsmodels."""

import json

import numpy as np
import pandas as pd
import pytest
from compare.studies import VARIABLES, series
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportions_ztest

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare import compare_graphs, compare_groups, compare_one, write_study
from mtgbn.compare.fitting import fit_groups
from mtgbn.compare.permutation import fit_seed, permutation_test
from mtgbn.compare.summary_text import study_sentences, subject_sentences
from mtgbn.errors import InputError
from mtgbn.graphs import cpdag
from mtgbn.paper import PaperMTGBN

IS_A = np.array([True, False] * 4 + [False])
LEARNER = SIG(edge_prior="density", n_restarts=0)
QUICK = MTGBN(n_draws=8, n_restarts=0, max_iter=2)
TEMPLATES = {"first": ("v2", "v0", "v1"), "second": ("v3", "v4", "v2")}


@pytest.fixture(scope="module")
def tasks():
    names = [f"s{k}" for k in range(9)]
    arrays = [series(k, bool(is_a)) for k, is_a in enumerate(IS_A)]
    return Tasks.from_arrays(arrays, VARIABLES, names)


@pytest.fixture(scope="module")
def study(tasks):
    return compare_groups(
        *(tasks, IS_A, LEARNER),
        labels=("patient", "control"),
        templates=TEMPLATES,
        n_permutations=3,
        methods=("mtgbn", "sig"),
        random_state=4,
    )


@pytest.fixture(scope="module")
def written(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    write_study(study, folder)
    tables = {path.stem: pd.read_csv(path, sep="\t") for path in folder.glob("*.tsv")}
    return folder, tables


def test_each_template_is_fitted_by_itself(study, tasks):
    second = study.templates[1]
    assert second.variables == TEMPLATES["second"]
    seed = np.random.SeedSequence(4).spawn(2)[1]
    part = tasks.select_variables(TEMPLATES["second"])
    expected = fit_groups(part, IS_A, LEARNER, random_state=fit_seed(seed), quiet=True)
    np.testing.assert_array_equal(second.fits.graphs_a, expected.graphs_a)
    permuted = permutation_test(part, IS_A, LEARNER, n_permutations=3, random_state=seed)
    np.testing.assert_array_equal(second.permutations.pvalues, permuted.pvalues)
    pair = second.undirected
    top = {second.variables[v] for v in (pair.source[0], pair.target[0])}
    assert top == {"v3", "v4"}
    assert (pair.count_a[0], pair.count_b[0]) == (4, 0)


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_the_columns_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(8, 40, 6)).cumsum(
        axis=2
    )  # a chain, of whose directions nothing is known
    names = np.array([f"v{i}" for i in range(6)])
    found = []
    for order in (np.arange(6), rng.permutation(6)):
        tasks = Tasks.from_arrays(rows[:, :, order], names[order])
        graphs = fit_groups(tasks, np.arange(8) < 4, LEARNER, random_state=1)
        back = np.argsort(order)
        found.append(np.concatenate(graphs[:2])[:, back[:, None], back])
    np.testing.assert_array_equal(*found)


def test_counts_and_degrees_follow_from_the_edges(written):
    _, tables = written
    edges = tables["edges"]
    for label, key in (("patient", "a"), ("control", "b")):
        own = edges[edges.group == label]
        expected = own.groupby(["template", "source", "target"]).size()
        counts = tables["counts"].set_index(["template", "source", "target"])[f"count_{key}"]
        assert counts[counts > 0].sort_index().to_dict() == expected.to_dict()
        degrees = tables["degrees"].set_index(["template", "variable"])
        for column, end in (("out", "source"), ("in", "target")):
            sums = own.groupby(["template", end]).size()
            found = degrees[f"{column}_{key}"]
            assert found[found > 0].to_dict() == sums.to_dict()
        total = degrees[f"in_{key}"] + degrees[f"out_{key}"]
        assert (degrees[f"total_{key}"] == total).all()
    row = tables["degrees"].set_index("variable").query("template == 'first'").loc["v2"]
    assert row.in_percent == pytest.approx(100 * (row.in_a / 4 - row.in_b / 5) / (row.in_b / 5))
    assert len(tables["counts"]) == 2 * 6


def test_tests_are_those_of_statsmodels(written):
    _, tables = written
    found = tables["connections"]
    assert found.groupby(["template", "kind"]).size().to_dict() == {
        ("first", "directed"): 6,
        ("first", "undirected"): 3,
        ("second", "directed"): 6,
        ("second", "undirected"): 3,
    }
    edges = tables["edges"]
    for row in found.itertuples():
        ways = {(row.source, row.target)}
        if row.kind == "undirected":
            ways.add((row.target, row.source))
        own = edges[
            (edges.template == row.template)
            & np.array([pair in ways for pair in zip(edges.source, edges.target, strict=True)])
        ]
        counts = [(own.group == label).sum() for label in ("patient", "control")]
        assert [row.count_a, row.count_b, row.n_a, row.n_b] == [*counts, 4, 5]
        if 0 < sum(counts) < 9:
            for column, side in (
                ("p_greater", "larger"),
                ("p_less", "smaller"),
                ("p_two_sided", "two-sided"),
            ):
                expected = proportions_ztest(counts, [4, 5], alternative=side)[1]
                assert getattr(row, column) == pytest.approx(expected)
        sign = np.sign(counts[0] / 4 - counts[1] / 5)
        assert {1: "patient", -1: "control"}.get(sign) == (
            None if pd.isna(row.more_in) else row.more_in
        )
    for _, part in found.groupby(["template", "kind"]):
        np.testing.assert_allclose(part.q, multipletests(part.p_two_sided, method="fdr_bh")[1])
    for _, part in found.groupby("kind"):
        expected = multipletests(part.p_two_sided, method="fdr_bh")[1]
        np.testing.assert_allclose(part.q_study, expected)
    assert found.p_permutation.between(0.25, 1).all()
    assert (found.p_permutation_corrected >= found.p_permutation).all()


def test_chosen_directions_are_reversible(written, study):
    _, tables = written
    template = study.templates[0]
    for name, graph in zip(study.names_a, template.fits.graphs_a, strict=True):
        edges = tables["edges"]
        own = edges[(edges.template == "first") & (edges.subject == name)]
        for row in own.itertuples():
            i, j = (template.variables.index(each) for each in (row.source, row.target))
            assert (row.direction == "chosen") == cpdag(graph)[j, i]


def test_methods_stand_beside_each_other(written, study):
    _, tables = written
    found = tables["methods"]
    assert len(found) == 12
    joined = found.merge(tables["connections"].query("kind == 'directed'"))
    assert (joined.mtgbn_count_a == joined.count_a).all()
    np.testing.assert_allclose(joined.mtgbn_p_greater, joined.p_greater)
    for template in study.templates:
        own = found[found.template == template.name]
        for method in template.methods:
            assert own[f"{method.method}_count_b"].sum() == method.graphs_b.sum()


def test_every_column_is_explained_and_the_record_says_what_was_done(written, study):
    folder, tables = written
    for name, table in tables.items():
        about = json.loads((folder / f"{name}.json").read_text())
        assert [key for key in about if key not in ("Description", "Groups")] == list(table)
        assert "i -> j" in about["Description"]
        assert about["Groups"] == {"a": "patient", "b": "control"}
    about = json.loads((folder / "comparison.json").read_text())
    assert about["groups"]["a"]["subjects"] == ["s0", "s2", "s4", "s6"]
    assert about["direction"].startswith("A[i, j] = 1 means i -> j")
    assert about["tests"]["permutation"]["refitted"] is True
    assert "fitted anew" in about["tests"]["permutation"]["how"]
    assert "independent" in about["tests"]["assumption"]
    words = "\n".join(study_sentences(study))
    assert "Group a is 'patient' (4 subjects), group b is 'control' (5)" in words
    assert "every relabelling was fitted anew" in words


def test_a_second_study_leaves_no_table_of_the_first(study, tmp_path):
    write_study(study, tmp_path)
    fewer = study._replace(templates=tuple(each._replace(methods=[]) for each in study.templates))
    write_study(fewer, tmp_path)
    assert not list(tmp_path.glob("methods.*"))


def test_together_says_so(tasks):
    found = compare_groups(
        *(tasks, IS_A, QUICK), fitting="together", n_permutations=20, random_state=0
    )
    assert "without new fits" in "\n".join(study_sentences(found))
    assert len(found.templates[0].fits.estimators) == 1
    assert "by relabelling p = " in "\n".join(study_sentences(found))


def test_groups_that_do_not_differ(study):
    same = study.templates[0]
    graphs = same.fits.graphs_a
    alike = same._replace(undirected=compare_graphs(graphs, graphs, directed=False))
    words = study_sentences(study._replace(templates=(alike,)))
    assert "Every pair has an edge equally often in both groups." in words


def test_posterior_edges_have_probabilities(tasks, tmp_path):
    learner = MTGBN(inference="posterior", n_rounds=20, n_restarts=0)
    study = compare_groups(tasks, IS_A, learner, random_state=0, templates={"t": VARIABLES[2:]})
    write_study(study, tmp_path)
    edges = pd.read_csv(tmp_path / "edges.tsv", sep="\t")
    assert (edges.adjacency_probability >= edges.probability - 1e-12).all()
    assert edges.adjacency_probability.min() > 0.5


def test_an_interrupted_study_goes_on(tasks, study, tmp_path):
    def compare(progress=None):
        return compare_groups(
            *(tasks, IS_A, LEARNER),
            templates=TEMPLATES,
            n_permutations=3,
            random_state=4,
            folder=tmp_path,
            progress=progress,
        )

    def stop(what, done, total):
        if what == "second, relabellings" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(stop)
    told = []
    resumed = compare(lambda *each: told.append(each))
    assert [each for each in told if "relabellings" in each[0]] == [("second, relabellings", 3, 3)]
    for one, other in zip(study.templates, resumed.templates, strict=True):
        np.testing.assert_array_equal(one.fits.graphs_b, other.fits.graphs_b)
        np.testing.assert_array_equal(one.permutations.corrected, other.permutations.corrected)


@pytest.fixture(scope="module")
def departures(tasks):
    """A patient against the five controls."""
    chosen = tasks[[1, 3, 5, 7, 8, 2]]
    templates = {"t": VARIABLES[1:]}
    return compare_one(chosen, "s2", QUICK, templates=templates, random_state=0)


def test_one_subject_departs_where_patients_do(departures, tmp_path):
    write_study(departures, tmp_path)
    found = pd.read_csv(tmp_path / "departures.tsv", sep="\t")
    assert len(found) == 6
    first = found.iloc[0]
    assert (first.variable_1, first.variable_2, first.departure) == ("v3", "v4", "new")
    assert (first.control_count, first.n_controls) == (0, 5)
    assert first.probability > 0.9
    alarms = pd.read_csv(tmp_path / "alarms.tsv", sep="\t")
    assert alarms.control.tolist() == ["s1", "s3", "s5", "s7", "s8"]
    scores = np.abs(departures.templates["t"][1].control_scores)
    for c, row in enumerate(alarms.itertuples()):
        pvalues = [(np.delete(scores, c, 0) >= each).mean() for each in scores[c]]
        assert row.alarms == sum(value < 0.05 for value in pvalues)
        assert row.rate == row.alarms / 6
    about = json.loads((tmp_path / "comparison.json").read_text())
    assert about["templates"]["t"]["false_alarm_rate"] == pytest.approx(alarms.rate.mean())
    words = "\n".join(subject_sentences(departures))
    assert "v3 - v4: partial correlation" in words
    assert "0 of 5 controls" in words


def test_bad_use_is_explained(tasks):
    with pytest.raises(InputError, match="there is no task named 's99'"):
        compare_one(tasks, "s99")
    with pytest.raises(InputError, match="there is no template"):
        compare_groups(tasks, IS_A, templates={})
    with pytest.raises(InputError, match="template 't': fewer than two variables"):
        compare_groups(tasks, IS_A, templates={"t": ["v0"]})


@pytest.mark.parametrize("estimator", [LEARNER, PaperMTGBN()], ids=["SIG", "PaperMTGBN"])
def test_one_subject_needs_the_joint_estimator(tasks, estimator):
    with pytest.raises(InputError, match=f"needs MTGBN.*got {type(estimator).__name__}"):
        compare_one(tasks, "s0", estimator)


def test_one_subject_needs_complete_data_of_all():
    rows = np.random.default_rng(0).normal(size=(5, 30, 3))
    rows[3, 0, 0] = np.nan
    gaps = Tasks.from_arrays(rows, names=list("abcde"), missing="em")
    with pytest.raises(InputError, match="needs complete data; 'd' lack values"):
        compare_one(gaps, "a", MTGBN(missing="em"))


def test_the_papers_method_keeps_checkpoints(tasks, tmp_path):
    estimator = PaperMTGBN(max_iter=1, n_draws=8)
    part = tasks.select_variables(("v0", "v1", "v2"))
    fit_groups(part, IS_A, estimator, quiet=True, random_state=0, checkpoints=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["group-a.npz", "group-b.npz"]
