"""The edge prior against enumeration, numerical integration and its limits."""

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from naive import (
    log_probability_of_directions,
    log_probability_of_skeletons,
    random_dag,
)
from numba import njit
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import beta as beta_function
from scipy.special import expit, logit
from scipy.stats import bernoulli, beta

from mtgbn.errors import InputError
from mtgbn.model.edge_prior import (
    EdgePrior,
    EdgeTerms,
    add_log_odds,
    directed_counts,
    edge_counts,
    edge_terms,
    estimate_edge_prior,
    free_pairs,
    log_odds_of_directions,
    log_odds_of_edge,
    log_probability_of_edges,
    one_way_log_odds,
    single_prior,
    smoothed_density,
    softplus,
)
from mtgbn.model.edge_prior_setting import EdgePriorChoice, arranged, edge_prior_of
from mtgbn.model.pair_kinds import PairKinds

PRIORS = [EdgePrior(0.3, 4.0), EdgePrior(0.05, 0.2), EdgePrior(0.7, 100.0), EdgePrior(0.2, np.inf)]


def counts_of(adjacencies):
    """Tasks with each edge, pair by pair."""
    m, p, _ = np.shape(adjacencies)
    counts = np.zeros((p, p), dtype=int)
    for t, i, j in itertools.product(range(m), range(p), range(p)):
        counts[i, j] += bool(adjacencies[t][i][j] or adjacencies[t][j][i])
    return counts


def random_densities(seed, p):
    density = np.random.default_rng(seed).uniform(0.02, 0.9, (p, p))
    density = np.triu(density, 1) + np.triu(density, 1).T
    np.fill_diagonal(density, 0.5)
    return density


def symmetric(values, p):
    """Numbers of pairs as a symmetric matrix."""
    matrix = np.zeros((p, p), dtype=np.asarray(values).dtype)
    matrix[np.triu_indices(p, 1)] = values
    return matrix + matrix.T


def skeletons(p, m):
    """All ways in which m tasks can have or lack each undirected edge."""
    pairs = list(itertools.combinations(range(p), 2))
    for present in itertools.product((False, True), repeat=m * len(pairs)):
        graphs = np.zeros((m, p, p), dtype=bool)
        for t, (i, j) in itertools.product(range(m), pairs):
            graphs[t, i, j] = present[t * len(pairs) + pairs.index((i, j))]
        yield graphs


MATRICES = [EdgePrior(random_densities(0, 4), s) for s in (0.3, 5.0, np.inf)]
EXTREMES = [EdgePrior(0.2, s) for s in (1e-18, 1e-9, 1e9, 1e16)]


@pytest.mark.parametrize("prior", [*PRIORS, *EXTREMES, *MATRICES])
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


@pytest.mark.parametrize("similarity", [0.05, 1.0, 7.5, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_with_densities_of_their_own_are_products_of_beta_functions(seed, similarity):
    rng = np.random.default_rng(seed)
    m, p = 5, 6
    counts = symmetric(rng.integers(0, m + 1, p * (p - 1) // 2), p)
    density = random_densities(seed, p)
    expected = log_probability_of_skeletons(density, similarity, counts, m)
    found = EdgePrior(density, similarity).log_probability(counts, m)
    assert found == pytest.approx(expected, abs=1e-9)
    # Where all pairs have the same one, a number says the same.
    same = EdgePrior(np.full((p, p), 0.3), similarity).log_probability(counts, m)
    assert same == pytest.approx(EdgePrior(0.3, similarity).log_probability(counts, m), abs=1e-10)
    slow = log_probability_of_skeletons(np.full((p, p), 0.3), similarity, counts, m)
    assert same == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("m", [1, 2])
def test_the_probabilities_of_all_skeletons_sum_to_one_with_a_matrix(m):
    for similarity in (0.4, np.inf):
        prior = EdgePrior(random_densities(1, 3), similarity)
        total = sum(
            np.exp(prior.log_probability(edge_counts(graphs), m)) for graphs in skeletons(3, m)
        )
        assert total == pytest.approx(1, abs=1e-12)


def test_log_odds_of_pairs_with_densities_of_their_own():
    density = random_densities(2, 5)
    counts = symmetric(np.arange(10) % 4, 5)
    odds = EdgePrior(density, 2.0).log_odds(counts, 3)
    for i, j in itertools.permutations(range(5), 2):
        single = EdgePrior(density[i, j], 2.0).log_odds(counts[i, j], 3)
        assert odds[i, j] == pytest.approx(single)
    np.testing.assert_array_equal(odds, odds.T)


def test_matrices_of_a_prior():
    density = random_densities(3, 4)
    np.testing.assert_array_equal(EdgePrior(density, 2.0).matrix(4), density)
    np.testing.assert_array_equal(EdgePrior(0.2, 2.0).matrix(4), np.full((4, 4), 0.2))
    # A kernel would be compiled again for an array that cannot be written to.
    for prior in (EdgePrior(density, 2.0), EdgePrior(0.2, 2.0)):
        assert prior.matrix(4).flags.writeable
        assert prior.matrix(4).flags.c_contiguous
    for prior in (EdgePrior(density, 2.0), EdgePrior(0.2, 0.1)):
        # In a single task s does not matter.
        np.testing.assert_allclose(prior.matrix_of_log_odds(4), logit(prior.matrix(4)))


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
    rng = np.random.default_rng(0)
    graphs = np.array([random_dag(rng, 4, 0.5) for _ in range(7)])
    counts = edge_counts(graphs)
    np.testing.assert_array_equal(counts, counts_of(graphs))
    np.testing.assert_array_equal(counts, edge_counts(graphs.transpose(0, 2, 1)))


# Estimating r and s.


def simulated_counts(rng, p, m, r, s):
    """How many of m tasks have each edge, of which pi ~ Beta(s r, s (1 - r))."""
    n_pairs = p * (p - 1) // 2
    probabilities = rng.beta(s * r, s * (1 - r), n_pairs) if np.isfinite(s) else np.full(n_pairs, r)
    return symmetric(rng.binomial(m, probabilities), p)


def penalised(x, counts, m):
    """Log density of the logits of r and of 1/(1 + s), which are uniform a priori."""
    r, share = expit(x)
    similarity = 1 / share - 1
    density = np.full(counts.shape, r)
    value = log_probability_of_skeletons(density, similarity, counts, m)
    return value + np.log(r * (1 - r)) + np.log(share * (1 - share))


@pytest.mark.parametrize(("r", "s"), [(0.1, 0.5), (0.3, 2.0), (0.5, 8.0)])
def test_r_and_s_are_recovered_from_many_edges(r, s):
    p, m = 60, 8
    found = estimate_edge_prior(simulated_counts(np.random.default_rng(0), p, m, r, s), m)
    # 1770 pairs: pi has a standard deviation of at most 1/2, so r is known to 0.012 and better.
    assert found.density == pytest.approx(r, abs=0.04)
    assert np.log(found.similarity / s) == pytest.approx(0, abs=0.3)


@pytest.mark.parametrize("seed", range(40))
def test_the_estimate_is_the_best_from_any_start(seed):
    rng = np.random.default_rng(seed)
    m, p = int(rng.integers(2, 30)), int(rng.integers(4, 20))
    counts = simulated_counts(rng, p, m, rng.uniform(0.05, 0.6), np.exp(rng.uniform(-2, 5)))
    found = estimate_edge_prior(counts, m)
    value = penalised(np.array([logit(found.density), -np.log(found.similarity)]), counts, m)
    for start in itertools.product((-4, -1.5, 0), (-5, -2, 1, 4)):
        other = minimize(lambda x: -penalised(x, counts, m), start, bounds=[(-8, 8)] * 2)
        assert -other.fun <= value + 1e-5


def test_counts_from_which_a_narrow_simplex_did_not_get_away():
    counts = symmetric(np.repeat([0, 1, 2], [20, 22, 24]), 12)
    found = estimate_edge_prior(counts, 2)
    assert found.similarity == pytest.approx(1.868, abs=0.002)
    assert found.density == pytest.approx(0.530, abs=0.001)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("p", "m"), [(4, 3), (12, 6)])
def test_the_estimate_is_a_stationary_point(seed, p, m):
    rng = np.random.default_rng(seed)
    counts = simulated_counts(rng, p, m, rng.uniform(0.1, 0.6), rng.uniform(0.3, 6))
    found = estimate_edge_prior(counts, m)
    best = np.array([logit(found.density), -np.log(found.similarity)])
    value = penalised(best, counts, m)
    for direction in np.eye(2):
        step = 1e-4 * direction
        slope = (penalised(best + step, counts, m) - penalised(best - step, counts, m)) / 2e-4
        assert slope == pytest.approx(0, abs=1e-3)
    for step in rng.normal(0, [[0.1], [1.0], [4.0]], (3, 2)):
        assert penalised(best + step, counts, m) < value


@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_estimates_stay_off_their_limits(m, level):
    """Empty, complete and identical graphs do not make anything certain."""
    p = 5
    present = np.arange(10) < 10 * level
    found = estimate_edge_prior(symmetric(m * present, p), m)
    assert 0.01 < found.density < 0.99
    assert 0 < found.similarity < np.inf
    assert estimate_edge_prior(symmetric(m * ~present, p), m).density == pytest.approx(
        1 - found.density, abs=1e-4
    )


def test_a_single_task_tells_nothing_of_similarity():
    counts = symmetric(np.arange(10) < 3, 5).astype(int)
    assert estimate_edge_prior(counts, 1) == ((3 + 1) / (10 + 2), np.inf)


def test_the_smoothed_density_is_that_of_all_graphs():
    counts = symmetric(np.arange(10) % 4, 5)
    assert smoothed_density(counts, 3) == (13 + 1) / (30 + 2)
    free = symmetric(np.arange(10) < 6, 5)
    assert smoothed_density(counts, 3, free) == (7 + 1) / (18 + 2)


# Directions.


@pytest.mark.parametrize("agreement", [0.5, 4.0])
@pytest.mark.parametrize("forward", [0, 1, 3])
@pytest.mark.parametrize("backward", [0, 2])
def test_directions_are_as_probable_as_a_share_integrated_out(agreement, forward, backward):
    counts = np.array([[0, forward], [backward, 0]])
    integral, _ = quad(
        lambda share: (
            share**forward * (1 - share) ** backward * beta.pdf(share, agreement, agreement)
        ),
        0,
        1,
    )
    expected = np.log(integral) + (forward + backward) * np.log(2)
    assert log_probability_of_directions(counts, agreement) == pytest.approx(expected, abs=1e-6)
    # One more task with i -> j or with j -> i.
    others = counts + counts.T
    odds = log_odds_of_directions(counts, others, agreement)
    for i, j in ((0, 1), (1, 0)):
        more = counts.copy()
        more[i, j] += 1
        difference = log_probability_of_directions(more, agreement) - log_probability_of_directions(
            counts, agreement
        )
        assert odds[i, j] == pytest.approx(difference)
    # Over both directions the edge is as probable as before.
    assert np.exp(odds[0, 1]) + np.exp(odds[1, 0]) == pytest.approx(2)


def test_unrelated_directions_say_nothing():
    counts = np.array([[0, 3], [1, 0]])
    assert log_probability_of_directions(counts, np.inf) == 0
    np.testing.assert_array_equal(log_odds_of_directions(counts, counts + counts.T, np.inf), 0)


# The same in compiled code.


@njit(error_model="numpy")
def add_log_odds_and_sum(terms, adjacencies, members, groups, counts, free, log_odds):
    """Both sums over all edges; they are inlined where they are called, here once for all tests."""
    add_log_odds(terms, adjacencies, members, groups, counts, log_odds)
    return log_probability_of_edges(terms, adjacencies, members, counts, free)


SINGLE = EdgePrior(0.3, np.inf)


class PriorOfChain(NamedTuple):
    """The fields of a chain's state that hold the edge prior."""

    density: np.ndarray
    similarity: np.ndarray
    single_log_odds: np.ndarray
    kinds: np.ndarray


def compiled_sums(prior, agreement, adjacencies, members, free=None, groups=None):
    """Log odds of every edge, and the joint log probability."""
    m, p, _ = adjacencies.shape
    state = PriorOfChain(
        single_prior(prior).matrix(p),
        np.array(float(prior.similarity)),
        SINGLE.matrix_of_log_odds(p),
        np.array(prior if isinstance(prior, PairKinds) else (), dtype=float),
    )
    groups = np.zeros(m, dtype=np.int64) if groups is None else groups
    terms = edge_terms(state, float(agreement), members, groups)
    free = np.ones((p, p), dtype=bool) if free is None else free
    log_odds = np.ones((m, p, p))
    counts = directed_counts(adjacencies, members, groups)
    value = add_log_odds_and_sum(terms, adjacencies, members, groups, counts, free, log_odds)
    return log_odds - 1, value  # they are added


COMPILED = {
    "one density": (EdgePrior(0.2, 3.0), 2.5),
    "a density per pair": (EdgePrior(random_densities(8, 6), 3.0), 2.5),
    "unrelated": (EdgePrior(0.2, np.inf), np.inf),
    "almost identical": (EdgePrior(0.2, 1e-6), 1e-3),
    "hardly related": (EdgePrior(0.2, 1e9), 1e6),
}


@pytest.mark.parametrize("case", COMPILED)
def test_compiled_sums_against_numpy(case):
    prior, agreement = COMPILED[case]
    rng = np.random.default_rng(3)
    m, p = 7, 6
    adjacencies = np.array([random_dag(rng, p, 0.4) for _ in range(m)])
    members = np.array([True, True, False, True, False, True, True])
    free = ~np.eye(p, dtype=bool)
    free[0, 1] = free[1, 0] = False
    log_odds, value = compiled_sums(prior, agreement, adjacencies, members, free)
    for t in range(m):
        others = members & (np.arange(m) != t)
        forward = adjacencies[others].sum(axis=0)
        joined = forward + forward.T
        expected = prior.log_odds(joined, others.sum())
        expected = expected + log_odds_of_directions(forward, joined, agreement)
        off = ~np.eye(p, dtype=bool)
        np.testing.assert_allclose(log_odds[t][off], expected[off], rtol=1e-9, atol=1e-12)
    counts = edge_counts(adjacencies[members])
    expected = (
        prior.log_probability(counts, int(members.sum()), free)
        + log_probability_of_directions(adjacencies[members].sum(axis=0), agreement)
        + SINGLE.log_probability(edge_counts(adjacencies[~members]), int((~members).sum()), free)
    )
    # betaln of numbers around 1e6 has lost digits; the products have not
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-7 if agreement > 1e5 else 1e-9)


def test_log_probability_of_many_tasks_stays_in_range():
    """With 3000 tasks the products leave the range of floating-point numbers many times over."""
    rng = np.random.default_rng(0)
    prior, m, p = EdgePrior(1e-3, 4.0), 3000, 3
    adjacencies = np.array([random_dag(rng, p, 0.4) for _ in range(m)])
    expected = prior.log_probability(edge_counts(adjacencies), m)
    expected += log_probability_of_directions(adjacencies.sum(axis=0), 50.0)
    _, found = compiled_sums(prior, 50.0, adjacencies, np.ones(m, dtype=bool))
    assert found == pytest.approx(expected, rel=1e-10)


def test_log_probability_of_tiny_densities():
    """Densities so small that the product of two underflows."""
    rng = np.random.default_rng(2)
    density = np.where(rng.random((4, 4)) < 0.5, 1e-140, 1e-200)
    prior = EdgePrior(np.triu(density, 1) + np.triu(density, 1).T + 0.5 * np.eye(4), 4.0)
    adjacencies = np.array([random_dag(rng, 4, 0.4) for _ in range(5)])
    _, found = compiled_sums(prior, np.inf, adjacencies, np.ones(5, dtype=bool))
    assert found == pytest.approx(prior.log_probability(edge_counts(adjacencies), 5), rel=1e-12)


def test_the_graphs_of_one_task_have_probabilities_that_sum_to_one():
    """Over all graphs along an order, given the other members: what the membership update rests on."""
    p, rng = 4, np.random.default_rng(0)
    prior = EdgePrior(0.15, 0.4)
    single = SINGLE.matrix_of_log_odds(p)
    terms = EdgeTerms(prior.matrix(p), prior.similarity, 1.5, single, 6, np.empty((0, 0, 0)))
    counts = np.triu(rng.integers(0, 3, (p, p)), 1)
    places = np.argwhere(np.triu(np.ones((p, p), dtype=bool), 1))
    odds = np.array(
        [log_odds_of_edge(terms, i, j, counts[i, j], counts[j, i], 0, 0, 5) for i, j in places]
    )
    assert [softplus(each) for each in odds] == pytest.approx(np.logaddexp(0, odds), rel=1e-14)
    total = 0.0
    for present in itertools.product((False, True), repeat=len(places)):
        total += np.exp(odds[np.array(present)].sum() - np.logaddexp(0, odds).sum())
    assert total == pytest.approx(1)


# Prior knowledge.


def test_pairs_that_knowledge_settles_are_not_free():
    allowed = ~np.eye(4, dtype=bool)
    required = np.zeros((4, 4), dtype=bool)
    allowed[0, 1] = False  # one way is left
    allowed[0, 2] = allowed[2, 0] = False  # no way is left
    required[1, 3], allowed[3, 1] = True, False
    free = free_pairs(allowed, required)
    settled = {(0, 2), (1, 3)}
    for i, j in itertools.permutations(range(4), 2):
        assert free[i, j] == ((min(i, j), max(i, j)) not in settled)


def test_half_of_the_orders_admit_an_edge_that_can_go_one_way():
    """Doubled odds given an order: over all orders the pair has the probability that it should."""
    allowed = ~np.eye(3, dtype=bool)
    allowed[1, 0] = False
    log_odds = np.log(0.3 / 0.7) + one_way_log_odds(allowed)
    weights = {True: 0.0, False: 0.0}
    for order in itertools.permutations(range(3)):
        for present in itertools.product((False, True), repeat=3):
            edges = [
                edge
                for edge, is_there in zip(itertools.combinations(order, 2), present, strict=True)
                if is_there
            ]
            if all(allowed[edge] for edge in edges):
                pair = (0, 1) in edges
                weights[pair] += np.exp(sum(log_odds[edge] for edge in edges))
    assert weights[True] / sum(weights.values()) == pytest.approx(0.3)
    np.testing.assert_array_equal(one_way_log_odds(allowed) != 0, allowed & ~allowed.T)


# What users may say.

NAMES = tuple("abcde")


@pytest.mark.parametrize("p", [3, 4, 11])
def test_the_default_density_expects_half_an_edge_per_variable(p):
    for given in (None, "shared", "density"):
        prior, source = edge_prior_of(given, range(p))
        assert prior.density * p * (p - 1) / 2 == pytest.approx(p / 2)
        assert np.isfinite(prior.similarity) == (given != "density")
        assert source == ("fixed" if given is None else given)


def test_what_a_setting_means():
    def prior_of(given, variables=NAMES):
        choice = edge_prior_of(given, variables)
        assert choice.is_fixed
        return choice.prior

    assert prior_of(0.2) == (0.2, np.inf)
    assert prior_of((0.2, 3)) == (0.2, 3.0)
    assert prior_of([0.2, 3]) == (0.2, 3.0)
    assert prior_of(np.array([0.2, np.inf])) == (0.2, np.inf)
    assert prior_of(EdgePrior(0.1, 2.0)) == (0.1, 2.0)
    assert prior_of(None, "ab").density == 0.5
    assert not edge_prior_of("shared", NAMES).is_fixed


@pytest.mark.parametrize("p", [2, 5])
@pytest.mark.parametrize("as_list", [False, True])
def test_what_a_matrix_means(p, as_list):
    density = random_densities(4, p)
    given = density.tolist() if as_list else density
    for setting, similarity in ((given, np.inf), ((given, 3), 3.0), ([given, np.inf], np.inf)):
        choice = edge_prior_of(setting, NAMES[:p])
        np.testing.assert_array_equal(choice.prior.density, density)
        assert choice.prior.similarity == similarity
        assert choice.is_fixed
    # The diagonal is never looked at, and the user's matrix is left alone.
    odd = density.copy()
    np.fill_diagonal(odd, np.nan)
    found = edge_prior_of(odd, NAMES[:p]).prior.density
    np.testing.assert_array_equal(found, density)
    assert np.isnan(np.diag(odd)).all()


def test_frames_are_matched_by_name():
    density = random_densities(5, 5)
    frame = pd.DataFrame(density, NAMES, NAMES)
    shuffled = frame.loc[list("cabed"), list("ebdca")].assign(more=7.0)
    for setting in (frame, shuffled):
        np.testing.assert_array_equal(edge_prior_of(setting, NAMES).prior.density, density)
        prior, _ = edge_prior_of((setting, 2.5), NAMES)
        np.testing.assert_array_equal(prior.density, density)
        assert prior.similarity == 2.5
    with pytest.raises(InputError, match="edge_prior has no column 'd'"):
        edge_prior_of(frame.drop(columns="d"), NAMES)
    with pytest.raises(InputError, match="edge_prior has no row 'e'"):
        edge_prior_of(frame.drop(index="e"), NAMES)


def test_another_order_of_the_variables():
    density, order = random_densities(6, 5), [3, 0, 4, 1, 2]
    choice = arranged(edge_prior_of((density, 2.0), NAMES), order)
    for i, j in itertools.product(range(5), repeat=2):
        assert choice.prior.density[i, j] == density[order[i], order[j]]
    assert choice.prior.similarity == 2.0
    assert choice.is_fixed
    frame = pd.DataFrame(density, NAMES, NAMES)
    by_name = edge_prior_of(frame, [NAMES[j] for j in order])
    np.testing.assert_array_equal(by_name.prior.density, choice.prior.density)
    for setting in (0.2, "shared"):
        number = edge_prior_of(setting, NAMES)
        assert arranged(number, order) is number
    assert isinstance(choice, EdgePriorChoice)


@pytest.mark.parametrize(
    "wrong",
    [
        0,
        1,
        -0.1,
        np.nan,
        True,
        "common",
        (0.2, 0),
        (0.2, -1),
        (0.2, np.nan),
        (0.2, "much"),
        (0.2, 1, 1),
        (),
        {"r": 0.2},
        (np.full((5, 5), 0.3), 0),
        np.full(5, 0.3),
        np.full((5, 5, 5), 0.3),
        [["a", "b"]],
        [[0.1, 0.2], [0.3]],
        pd.DataFrame([["x"] * 5] * 5, NAMES, NAMES),
    ],
)
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(InputError, match="edge_prior must be a density r between 0 and 1"):
        edge_prior_of(wrong, NAMES)


def test_matrices_that_make_no_sense():
    density = random_densities(7, 5)
    for shape in ((4, 4), (5, 4), (1, 5)):
        with pytest.raises(InputError, match=rf"a \(5, 5\) matrix.*got \({shape[0]}, {shape[1]}\)"):
            edge_prior_of(np.full(shape, 0.3), NAMES)
    for value in (0.0, 1.0, -0.2, 1.5, np.nan, np.inf):
        wrong = density.copy()
        wrong[1, 3] = wrong[3, 1] = value
        with pytest.raises(InputError, match=f"that of b and d is {value}.*use Knowledge"):
            edge_prior_of(wrong, NAMES)
    wrong = density.copy()
    wrong[0, 2], wrong[2, 0] = 0.25, 0.75
    with pytest.raises(InputError, match=r"must be symmetric.*a and c have 0.25 and 0.75"):
        edge_prior_of(wrong, NAMES)
