"""Strengths of connections: brute force by regressions, and zeros where a network says so."""

import numpy as np
import pytest

from mtgbn import Tasks
from mtgbn.compare.strengths import check_strengths, connection_strengths
from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.graphs import skeleton
from mtgbn.graphs.dags import descendants
from mtgbn.simulate.perturbed import random_network


def covariance_of(network):
    mixing = np.linalg.inv(np.eye(len(network)) - network)
    return mixing.T @ mixing


def test_pairs_that_the_network_does_not_join_have_none():
    """With the covariance of a network and its graph: the Markov property, exactly."""
    network = random_network(9, 14, random_state=1)
    found = connection_strengths(covariance_of(network)[None], (network != 0)[None])[0]
    joined = skeleton(network != 0)
    np.testing.assert_allclose(found[~joined], 0, atol=1e-9)
    assert (np.abs(found[joined]) > 0.01).all()


def test_they_are_correlations_of_residuals():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 60, 6)) @ rng.normal(size=(6, 6))
    rows -= rows.mean(axis=1, keepdims=True)
    graphs = np.array([random_network(6, k, random_state=k) != 0 for k in (0, 4, 7, 15)])
    found = connection_strengths(np.einsum("sni,snj->sij", rows, rows), graphs)

    def residual(data, node, given):
        if not given:
            return data[:, node]
        fitted, *_ = np.linalg.lstsq(data[:, given], data[:, node], rcond=None)
        return data[:, node] - data[:, given] @ fitted

    for subject, data in enumerate(rows):
        for i in range(6):
            for j in range(i):
                values = []
                for graph in graphs:
                    below = descendants(graph)
                    ways = [(i, j), (j, i)]
                    if below[i, j] or below[j, i]:
                        ways = [(i, j)] if below[i, j] else [(j, i)]
                    each = []
                    for first, last in ways:
                        given = [k for k in np.flatnonzero(graph[:, last]) if k != first]
                        parts = residual(data, first, given), residual(data, last, given)
                        each.append(np.arctanh(np.corrcoef(*parts)[0, 1]))
                    values.append(np.mean(each))
                np.testing.assert_allclose(found[subject, i, j], np.mean(values), atol=1e-9)
                assert found[subject, i, j] == found[subject, j, i]


def test_units_do_not_matter():
    rng = np.random.default_rng(2)
    rows, units = rng.normal(size=(40, 5)), 10.0 ** rng.uniform(-4, 4, 5)
    graph = random_network(5, 6, random_state=0)[None] != 0
    scatters = [(scaled.T @ scaled)[None] for scaled in (rows, rows * units)]
    np.testing.assert_allclose(*(connection_strengths(each, graph) for each in scatters), rtol=1e-9)


def test_collinear_variables_are_named():
    scatter = np.ones((1, 3, 3)) + np.diag([0.0, 0.0, 1.0])
    chain = np.triu(np.ones((1, 3, 3), dtype=bool), 1)
    with pytest.raises(InputError, match=r"positions \[0, 1\] are collinear"):
        connection_strengths(scatter, chain)


def test_collinear_variables_of_a_family_are_refused_by_name_and_never_nan():
    """x3 = x0 + x1 in the second subject: undefined where both are parents, defined elsewhere."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2, 30, 4))
    rows[1, :, 3] = rows[1, :, 0] + rows[1, :, 1]
    scatters = rows.transpose(0, 2, 1) @ rows
    graph = np.zeros((1, 4, 4), dtype=bool)
    graph[0, 0, 2] = True
    assert np.isfinite(connection_strengths(scatters, graph)).all()
    for ends in (((0, 2), (1, 2)), ((0, 3), (1, 3))):
        undefined = graph.copy()
        for i, j in ends:
            undefined[0, i, j] = True
        with pytest.raises(InputError, match=r"variables .* are collinear in 'bob', so that"):
            connection_strengths(
                scatters, undefined, subjects=["ann", "bob"], variables=["a", "b", "c", "d"]
            )


def test_copies_are_refused_before_a_fit():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(3, 30, 3))
    rows[1, :, 2] = -7.5 * rows[1, :, 0]
    with pytest.warns(CollinearityWarning):
        tasks = Tasks.from_arrays(rows, names=["ann", "bob", "cy"])
    with pytest.raises(InputError, match="'x0' and 'x2' of 'bob' are the same but for their scale"):
        check_strengths(tasks)
    check_strengths(tasks[["ann", "cy"]])
    few = Tasks.from_any({"ann": rows[0], "cy": rows[2][:4]})
    with pytest.raises(InputError, match="'cy' has 4 rows, too few for partial correlations"):
        check_strengths(few)
