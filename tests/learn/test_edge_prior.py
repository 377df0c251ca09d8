"""The edge prior against enumeration, numerical integration and its limits."""

import itertools

import numpy as np
import pytest
from learn_oracles import all_dags, counts_of
from naive import random_dag
from scipy.integrate import quad
from scipy.special import beta as beta_function
from scipy.stats import bernoulli, beta

from mtgbn.errors import InputError
from mtgbn.learn import EdgePrior
from mtgbn.learn.edge_prior import edge_counts, edge_prior_of

PRIORS = [EdgePrior(0.3, 4.0), EdgePrior(0.05, 0.2), EdgePrior(0.7, 100.0), EdgePrior(0.2, np.inf)]


def skeletons(p, m):
    """All ways in which m tasks can have or lack each undirected edge."""
    pairs = list(itertools.combinations(range(p), 2))
    for present in itertools.product((False, True), repeat=m * len(pairs)):
        graphs = np.zeros((m, p, p), dtype=bool)
        for t, (i, j) in itertools.product(range(m), pairs):
            graphs[t, i, j] = present[t * len(pairs) + pairs.index((i, j))]
        yield graphs


EXTREMES = [EdgePrior(0.2, s) for s in (1e-18, 1e-9, 1e9, 1e16)]


@pytest.mark.parametrize("prior", [*PRIORS, *EXTREMES])
def test_log_odds_are_differences_of_the_joint_probability(prior):
    m, p = 3, 4
    rng = np.random.default_rng(0)
    graphs = np.array([random_dag(rng, p, 0.5) for _ in range(m)])
    for t, (i, j) in itertools.product(range(m), itertools.combinations(range(p), 2)):
        with_edge, without = graphs.copy(), graphs.copy()
        without[t, i, j] = without[t, j, i] = False
        with_edge[t, i, j], with_edge[t, j, i] = True, False
        difference = prior.log_probability(edge_counts(with_edge), m)
        difference -= prior.log_probability(edge_counts(without), m)
        others = edge_counts(np.delete(graphs, t, axis=0))
        assert prior.log_odds(others, m - 1)[i, j] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("p", "m"), [(2, 1), (2, 6), (3, 1), (3, 2), (3, 3)])
def test_the_probabilities_of_all_skeletons_sum_to_one(prior, p, m):
    total = sum(np.exp(prior.log_probability(edge_counts(graphs), m)) for graphs in skeletons(p, m))
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS[:3])
@pytest.mark.parametrize("present", range(5))
def test_the_edge_probability_is_integrated_out(prior, present):
    m, a, b = 4, prior.similarity * prior.density, prior.similarity * (1 - prior.density)

    # A beta density that is infinite at an end is left to the quadrature's weight.
    def likelihood(pi):
        return pi**present * (1 - pi) ** (m - present)

    if min(a, b) < 1:
        integral, error = quad(likelihood, 0, 1, weight="alg", wvar=(a - 1, b - 1))
        integral, error = integral / beta_function(a, b), error / beta_function(a, b)
    else:
        integral, error = quad(lambda pi: likelihood(pi) * beta(a, b).pdf(pi), 0, 1, epsabs=1e-14)
    counts = np.array([[0, present], [present, 0]])
    assert error < 1e-6 * integral
    assert prior.log_probability(counts, m) == pytest.approx(np.log(integral), abs=1e-6)


def test_edges_are_independent_of_each_other():
    prior = EdgePrior(0.3, 2.0)
    counts = counts_of(np.array([random_dag(np.random.default_rng(t), 5, 0.5) for t in range(4)]))
    single = [
        prior.log_probability(np.array([[0, c], [c, 0]]), 4) for c in counts[np.triu_indices(5, 1)]
    ]
    assert prior.log_probability(counts, 4) == pytest.approx(sum(single), abs=1e-12)


def test_unrelated_graphs_are_coin_tosses():
    graphs = np.array([random_dag(np.random.default_rng(t), 4, 0.5) for t in range(3)])
    present = np.array([g[np.triu_indices(4, 1)] | g.T[np.triu_indices(4, 1)] for g in graphs])
    tosses = bernoulli(0.3).logpmf(present).sum()
    infinite, large = EdgePrior(0.3, np.inf), EdgePrior(0.3, 1e8)
    counts = edge_counts(graphs)
    assert infinite.log_probability(counts, 3) == pytest.approx(tosses, abs=1e-12)
    assert large.log_probability(counts, 3) == pytest.approx(tosses, abs=1e-5)
    np.testing.assert_allclose(infinite.log_odds(counts, 3), np.log(0.3 / 0.7), rtol=1e-14)
    np.testing.assert_allclose(large.log_odds(counts, 3), infinite.log_odds(counts, 3), rtol=1e-6)


def test_graphs_as_alike_as_can_be_are_identical():
    prior = EdgePrior(0.3, 1e-18)
    all_have, nobody_has, some_have = (np.array([[0, c], [c, 0]]) for c in (4, 0, 2))
    assert np.exp(prior.log_probability(all_have, 4)) == pytest.approx(0.3, abs=1e-12)
    assert np.exp(prior.log_probability(nobody_has, 4)) == pytest.approx(0.7, abs=1e-12)
    assert np.exp(prior.log_probability(some_have, 4)) < 1e-12


def test_the_fewer_others_have_an_edge_the_lower_its_odds():
    odds = EdgePrior(0.3, 2.0).log_odds(np.arange(6), 5)
    assert (np.diff(odds) > 0).all()
    assert EdgePrior(0.3, 2.0).log_odds(np.zeros((2, 2)), 0)[0, 1] == pytest.approx(
        np.log(0.3 / 0.7)
    )


def test_counts_ignore_directions():
    dags = all_dags(3)
    graphs = dags[np.random.default_rng(0).integers(len(dags), size=7)]
    counts = edge_counts(graphs)
    np.testing.assert_array_equal(counts, counts_of(graphs))
    np.testing.assert_array_equal(counts, edge_counts(graphs.transpose(0, 2, 1)))


@pytest.mark.parametrize("p", [3, 4, 11])
def test_the_default_density_expects_half_an_edge_per_variable(p):
    prior = edge_prior_of(None, p)
    assert prior.density * p * (p - 1) / 2 == pytest.approx(p / 2)
    assert np.isfinite(prior.similarity)


def test_what_a_setting_means():
    assert edge_prior_of(0.2, 5) == (0.2, np.inf)
    assert edge_prior_of((0.2, 3), 5) == (0.2, 3.0)
    assert edge_prior_of(np.array([0.2, np.inf]), 5) == (0.2, np.inf)
    assert edge_prior_of(EdgePrior(0.1, 2.0), 5) == (0.1, 2.0)
    assert edge_prior_of(None, 2).density == 0.5


@pytest.mark.parametrize(
    "wrong",
    [0, 1, -0.1, np.nan, "shared", (0.2, 0), (0.2, -1), (0.2, np.nan), (0.2, 1, 1), (), {"r": 0.2}],
)
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(InputError, match="edge_prior must be a density r between 0 and 1"):
        edge_prior_of(wrong, 5)
