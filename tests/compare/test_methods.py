"""Methods at the same density: sizes, the edges that stay, and what each method would say by itself."""

import numpy as np
import pytest
from compare.studies import VARIABLES, series

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare.fitting import fit_groups
from mtgbn.compare.methods import METHODS, match_methods
from mtgbn.compare.strengths import standardised_coefficients
from mtgbn.errors import InputError
from mtgbn.fmri import granger_causality, regression_dcm
from mtgbn.graphs import skeleton
from mtgbn.graphs.dags import topological_order

IS_A = np.array([True] * 4 + [False] * 4)
LEARNER = MTGBN(n_draws=8, n_restarts=0, max_iter=2)


@pytest.fixture(scope="module")
def rows():
    return {f"s{k}": series(k, k < 4) for k in range(8)}


@pytest.fixture(scope="module")
def tasks(rows):
    return Tasks.from_arrays(rows.values(), VARIABLES, list(rows))


@pytest.fixture(scope="module")
def observed(tasks):
    return fit_groups(tasks, IS_A, LEARNER, random_state=0, quiet=True)


def match(tasks, observed, rows, methods=METHODS, **options):
    return match_methods(
        *(tasks, IS_A, methods, observed, LEARNER),
        **({"series": rows, "repetition_time": 2.0, "random_state": 0} | options),
    )


def test_left_alone_every_method_has_the_edges_of_mtgbn(tasks, observed, rows):
    found = match(tasks, observed, rows)
    assert [each.method for each in found] == list(METHODS)
    for each in found:
        for own, theirs in zip(observed[:2], each[1:], strict=True):
            np.testing.assert_array_equal(own.sum(axis=(1, 2)), theirs.sum(axis=(1, 2)))
    np.testing.assert_array_equal(found[0].graphs_a, observed.graphs_a)
    assert found[0].graphs_a[:, 0, 2].all()
    assert found[1].graphs_b[:, 1, 2].sum() >= 3


@pytest.mark.parametrize("n_edges", [1, 4])
def test_a_given_number_of_edges(tasks, observed, rows, n_edges):
    """Fewer than there are, and more: graphs of mtgbn and sig stay DAGs."""
    for each in match(tasks, observed, rows, n_edges=n_edges):
        graphs = np.concatenate(each[1:])
        assert (graphs.sum(axis=(1, 2)) == n_edges).all()
        if each.method in ("mtgbn", "sig"):
            for graph in graphs:
                topological_order(graph)
    strongest = match(tasks, observed, rows, ("mtgbn",), n_edges=1)[0].graphs_a
    # Of patients the coefficient of v3 -> v4, 1.5/sqrt(3.25) = .83, is the largest.
    assert all(skeleton(graph)[3, 4] for graph in strongest)


def test_the_strongest_of_granger_and_dcm(tasks, observed, rows):
    by = {each.method: each for each in match(tasks, observed, rows, ("gc", "rdcm"), n_edges=3)}
    statistics = granger_causality(rows["s5"]).f_statistics
    np.fill_diagonal(statistics, 0)
    expected = statistics >= np.sort(statistics, axis=None)[-3]
    np.testing.assert_array_equal(by["gc"].graphs_b[1], expected)
    scaled = (rows["s2"] - rows["s2"].mean(axis=0)) / rows["s2"].std(axis=0)
    sizes = np.abs(regression_dcm(scaled, 2.0).coupling)
    np.fill_diagonal(sizes, 0)
    np.testing.assert_array_equal(by["rdcm"].graphs_a[2], sizes >= np.sort(sizes, axis=None)[-3])


def test_units_do_not_matter_to_dcm(tasks, observed, rows):
    other = {name: values * [1, 10, 0.1, 3, 1] for name, values in rows.items()}
    few = tasks[[0, 1, 6, 7]]
    one, two = (
        match_methods(
            *(few, np.array([True, True, False, False]), ("rdcm",), observed, LEARNER),
            n_edges=4,
            series=each,
            repetition_time=2.0,
        )[0]
        for each in (rows, other)
    )
    np.testing.assert_array_equal(one.graphs_a, two.graphs_a)


def test_standardised_coefficients_are_those_of_a_regression(tasks, rows):
    graph = SIG(random_state=0).fit(tasks).graphs_[0]
    values = (rows["s0"] - rows["s0"].mean(axis=0)) / rows["s0"].std(axis=0)
    found = standardised_coefficients(graph, np.cov(rows["s0"].T))
    for child in range(5):
        parents = np.flatnonzero(graph[:, child])
        expected = np.linalg.lstsq(values[:, parents], values[:, child], rcond=None)[0]
        np.testing.assert_allclose(found[parents, child], expected)
    assert (found[~graph] == 0).all()


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        (("pc",), {}, "there is no method 'pc'; there are mtgbn, sig, gc, rdcm"),
        (("gc", "gc"), {}, "names one twice"),
        (("sig",), {"n_edges": 11}, "5 variables have 10 pairs"),
        (("gc",), {"series": None}, "method 'gc' needs the complete series"),
        (("rdcm",), {"repetition_time": None}, "give the TR"),
    ],
)
def test_bad_use_is_explained(tasks, observed, rows, methods, options, message):
    with pytest.raises(InputError, match=message):
        match(tasks, observed, rows, methods, **options)
