"""Thresholded precision matrices against what was asked for, scipy's laws and sampling error."""

import numpy as np
import pytest
from scipy import stats

from mtgbn.errors import InputError
from mtgbn.simulate import simulate_thresholded

COMPLETE = 0.75  # 12 ordered edges / 4^2: nothing is thresholded


def off_diagonal_precisions(simulation):
    """Partial correlations from an explicit inverse, which the simulator itself avoids."""
    for covariance, adjacency in zip(simulation.covariances, simulation.adjacencies, strict=True):
        precision = np.linalg.inv(covariance)
        deviations = np.sqrt(np.diag(precision))
        yield np.abs(precision / np.outer(deviations, deviations)), adjacency


@pytest.mark.parametrize(
    ("p", "density", "n_edges"),
    [(15, 0.3, 34), (15, 0.2, 22), (10, 0.3, 15), (6, 0.5, 9), (4, COMPLETE, 6), (5, 0.0, 0)],
)
def test_graphs_are_undirected_with_the_edges_asked_for(p, density, n_edges):
    simulation = simulate_thresholded(4, p, 10, density=density, random_state=p)
    assert simulation.adjacencies.shape == (4, p, p)
    assert simulation.adjacencies.dtype == bool
    for adjacency in simulation.adjacencies:
        assert (adjacency == adjacency.T).all()
        assert not adjacency.diagonal().any()
        assert np.triu(adjacency).sum() == n_edges


@pytest.mark.parametrize("seed", range(5))
def test_precision_is_zero_exactly_where_there_is_no_edge(seed):
    simulation = simulate_thresholded(random_state=seed)
    for partial, adjacency in off_diagonal_precisions(simulation):
        pairs = ~np.eye(len(partial), dtype=bool)
        # conditions of 1e5 leave some 1e-10 of the zeros, kept elements are the largest of 105
        assert partial[pairs & ~adjacency].max() < 1e-7
        assert partial[adjacency].min() > 1e-4
        assert (np.linalg.eigvalsh(simulation.covariances) > 0).all()


def test_without_a_threshold_the_law_is_inverse_wishart():
    simulation = simulate_thresholded(4000, 4, 2, nu0=7.5, density=COMPLETE, random_state=1)
    exact = stats.invwishart(7.5, simulation.sigma_h).rvs(
        40_000, random_state=np.random.default_rng(2)
    )

    def statistics(matrices):
        yield np.linalg.slogdet(matrices)[1]
        for i in range(4):
            yield matrices[:, i, i]
            for j in range(i):
                yield matrices[:, i, j] / np.sqrt(matrices[:, i, i] * matrices[:, j, j])

    # eleven tests at 1e-5: one false alarm in 9,000 seeds
    for one, other in zip(statistics(simulation.covariances), statistics(exact), strict=True):
        assert stats.ks_2samp(one, other).pvalue > 1e-5


@pytest.mark.parametrize("degrees", [None, 5.5])
def test_sigma_h_is_a_wishart_matrix_of_unit_trace(degrees):
    ours = np.array(
        [
            simulate_thresholded(
                1, 4, 2, density=COMPLETE, wishart_degrees=degrees, random_state=s
            ).sigma_h
            for s in range(1000)
        ]
    )
    np.testing.assert_allclose(np.trace(ours, axis1=1, axis2=2), 1)
    rng = np.random.default_rng(3)
    exact = stats.wishart(degrees or 8, np.eye(4)).rvs(20_000, random_state=rng)
    exact /= np.trace(exact, axis1=1, axis2=2)[:, None, None]
    # six tests at 1e-5 for each of two laws: one false alarm in 8,000 seeds
    for statistic in (
        lambda matrices: np.linalg.eigvalsh(matrices)[:, 0],
        lambda matrices: np.linalg.eigvalsh(matrices)[:, -1],
        *(lambda matrices, i=i: matrices[:, i, i] for i in range(4)),
    ):
        assert stats.ks_2samp(statistic(ours), statistic(exact)).pvalue > 1e-5


def test_kept_elements_are_the_largest():
    """A lower density keeps a subset: one task, no redraw, same random numbers up to the threshold."""
    dense, *sparser = (
        simulate_thresholded(1, 4, 2, density=density, random_state=5)
        for density in (COMPLETE, 0.5, 0.25)
    )
    precision = np.linalg.inv(dense.covariances[0])
    sizes = np.abs(precision[np.triu_indices(4, 1)])
    for simulation, n_edges in zip(sparser, (4, 2), strict=True):
        np.testing.assert_array_equal(simulation.sigma_h, dense.sigma_h)  # no redraw happened
        expected = np.abs(precision) >= np.sort(sizes)[-n_edges]
        np.fill_diagonal(expected, False)
        np.testing.assert_array_equal(simulation.adjacencies[0], expected)
        kept = np.linalg.inv(simulation.covariances[0])[expected]
        np.testing.assert_allclose(kept, precision[expected], rtol=1e-8)


def test_rows_have_the_covariance_and_tasks_their_scatter():
    simulation = simulate_thresholded(2, 8, 40_000, nu0=20.0, random_state=4)
    for rows, covariance in zip(simulation.arrays, simulation.covariances, strict=True):
        deviations = np.sqrt(np.diag(covariance))
        error = np.sqrt(2 / len(rows))
        z = (np.cov(rows.T) - covariance) / np.outer(deviations, deviations) / error
        assert np.abs(z).max() < 4.5
    for rows, scatter in zip(simulation.arrays, simulation.tasks.scatters, strict=True):
        np.testing.assert_allclose(scatter, np.cov(rows.T) * (len(rows) - 1), rtol=1e-8)


def test_larger_nu0_makes_graphs_more_alike():
    """The share of pairs in which two tasks differ falls; ten simulations of ten tasks each."""

    def differences(nu0):
        for seed in range(10):
            graphs = simulate_thresholded(10, 10, 2, nu0=nu0, random_state=seed).adjacencies
            share = graphs.mean(axis=0)
            yield 2 * (share * (1 - share)).mean()

    little, more, much = (np.mean(list(differences(nu0))) for nu0 in (12.0, 60.0, 1000.0))
    assert little > 1.1 * more
    assert more > 1.1 * much


def test_column_order_is_random_and_rows_may_differ():
    """Edges of 200 networks fall on every pair of columns alike: chi-square at 1e-6."""
    counts = sum(
        simulate_thresholded(1, 5, 2, density=0.24, random_state=s).adjacencies[0] + 0
        for s in range(200)
    )[np.triu_indices(5, 1)]
    assert counts.sum() == 200 * 3
    assert stats.chisquare(counts).pvalue > 1e-6
    simulation = simulate_thresholded(3, 5, (7, 20, 11), random_state=1)
    assert [len(rows) for rows in simulation.arrays] == [7, 20, 11]
    assert simulation.tasks.ns.tolist() == [6, 19, 10]


def test_random_state_decides():
    one, two, other = (simulate_thresholded(3, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.arrays, two.arrays)
    np.testing.assert_array_equal(one.adjacencies, two.adjacencies)
    assert not np.array_equal(one.arrays, other.arrays)
    generated = simulate_thresholded(3, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(one.arrays, generated.arrays)


@pytest.mark.parametrize("seed", range(3))
def test_the_uniform_law_of_the_paper_never_succeeds_at_15_variables(seed):
    with pytest.raises(InputError, match=r"practically never succeeds.*raise wishart_degrees"):
        simulate_thresholded(wishart_degrees=16, random_state=seed)
    small = simulate_thresholded(10, 4, density=0.25, wishart_degrees=5, random_state=seed)
    assert (small.adjacencies.sum(axis=(1, 2)) == 4).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_tasks": 0}, "n_tasks must be a whole number of at least 1; got 0"),
        ({"n_variables": 1}, "n_variables must be a whole number of at least 2; got 1"),
        ({"n_rows": 1}, "n_rows must be a whole number of at least 2; got 1"),
        ({"n_rows": [50, 40]}, "one for each of the 10 tasks; got 2"),
        ({"n_tasks": 2, "n_rows": [50, 1]}, "n_rows of task 1 must be .* at least 2; got 1"),
        ({"n_rows": "50"}, "n_rows must be a whole number"),
        ({"nu0": 14.0}, "nu0 must be a number above p - 1 = 14"),
        ({"density": 1.1}, r"density must be a number in \[0, 1\]; got 1.1"),
        ({"density": "0.3"}, r"density must be a number in \[0, 1\]; got '0.3'"),
        ({"density": 0.99}, "asks for 111 edges, but 15 variables have 105 pairs"),
        ({"wishart_degrees": 14}, r"wishart_degrees must be a number in \(14, inf\); got 14"),
        ({"wishart_degrees": np.nan}, "wishart_degrees must be a number in"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(InputError, match=message):
        simulate_thresholded(**options)
