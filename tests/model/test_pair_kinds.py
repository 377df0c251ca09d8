"""Kinds of pairs: their tables against sums over all frequencies, without and with two groups."""

import naive
import numpy as np
import pytest
from scipy.special import comb

from mtgbn.model.edge_prior import single_prior
from mtgbn.model.pair_kinds import LEAST_DIFFERENCE, PairKinds, first_kinds

KINDS = [
    PairKinds(0.8, 0.15, 0.05, 0.01, 0.97),
    PairKinds(0.2, 0.3, 0.5, 0.2, 0.6),
    PairKinds(1 - 2e-12, 1e-12, 1e-12, 1e-12, 1 - 1e-12),
]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_table_of_the_kinds_sums_over_all_frequencies(kinds, n):
    table = kinds.log_table(n)[:, 0]
    expected = [naive.log_probability_of_pair(kinds, c, n - c) for c in range(n + 1)]
    np.testing.assert_allclose(table, expected, rtol=1e-9, atol=1e-11)
    # All patterns of n tasks together.
    assert np.sum(np.exp(table) * comb(n, np.arange(n + 1))) == pytest.approx(1)
    # The odds of one more task.
    more = kinds.log_table(n + 1)[:, 0]
    expected = more[1:] - more[:-1]
    np.testing.assert_allclose(kinds.log_odds(np.arange(n + 1), n), expected, rtol=1e-12)


def test_many_tasks_do_not_make_the_table_underflow():
    table = PairKinds(0.9, 0.05, 0.05, 1e-9, 1 - 1e-9).log_table(5000)[:, 0]
    assert np.isfinite(table).all()
    assert table[0] == pytest.approx(np.log(0.9), abs=1e-3)
    assert table[-1] == pytest.approx(np.log(0.05), abs=1e-3)


@pytest.mark.parametrize("kinds", KINDS[:2])
def test_density_and_similarity_are_moments_of_the_frequencies(kinds):
    frequencies, weights = np.transpose(naive.frequencies_of_pairs(kinds))
    mean = weights @ frequencies
    variance = weights @ (frequencies - mean) ** 2
    assert kinds.density == pytest.approx(mean)
    # A Beta distribution has the variance r (1 - r)/(1 + s).
    assert kinds.similarity == pytest.approx(mean * (1 - mean) / variance - 1)
    assert single_prior(kinds) == (pytest.approx(mean), np.inf)


def test_chains_begin_with_as_many_edges_as_the_pooled_graph():
    for density in (0.02, 0.3, 0.9):
        kinds = first_kinds(density)
        assert kinds.absent + kinds.common + kinds.varying == pytest.approx(1)
        assert kinds.common + kinds.varying == pytest.approx(density)
        assert min(kinds[:5]) > 0


OF_GROUPS = [
    PairKinds(0.75, 0.15, 0.05, 0.01, 0.97, 0.05),
    PairKinds(0.2, 0.2, 0.2, 0.2, 0.6, 0.4),
]


@pytest.mark.parametrize("kinds", OF_GROUPS)
@pytest.mark.parametrize(("n_first", "n_second"), [(1, 1), (3, 5), (20, 12)])
def test_the_table_of_two_groups_sums_over_all_pairs_of_frequencies(kinds, n_first, n_second):
    table = kinds.log_table(n_first, n_second)
    expected = [
        [
            naive.log_probability_of_pair(kinds, a, n_first - a, b, n_second - b)
            for b in range(n_second + 1)
        ]
        for a in range(n_first + 1)
    ]
    np.testing.assert_allclose(table, expected, rtol=1e-9, atol=1e-11)
    ways = np.outer(comb(n_first, range(n_first + 1)), comb(n_second, range(n_second + 1)))
    assert np.sum(np.exp(table) * ways) == pytest.approx(1)
    # The odds of one more task of the first group, and of the second.
    more = kinds.log_table(n_first, n_second + 1)
    a, b = np.indices((n_first + 1, n_second + 1))
    odds = kinds.log_odds_in_group(b, n_second, a, n_first)
    np.testing.assert_allclose(odds, more[:, 1:] - more[:, :-1], rtol=1e-9)
    # Groups have no names: the table of the exchanged groups is the transposed one.
    np.testing.assert_allclose(kinds.log_table(n_second, n_first), table.T, rtol=1e-10)


def test_large_groups_do_not_make_the_table_underflow():
    table = OF_GROUPS[0].log_table(700, 400)
    assert np.isfinite(table).all()
    # All tasks of one group and none of the other: a different pair with the outermost frequencies,
    # which is one of 182 combinations.
    expected = np.log(0.05 / 182) + 700 * np.log(0.97) + 400 * np.log(0.99)
    assert table[700, 0] == pytest.approx(expected, abs=0.1)
    assert table[0, 0] == pytest.approx(np.log(0.75) + 1100 * np.log(0.99), abs=0.1)


def test_where_the_group_is_not_known_different_pairs_count_as_the_others():
    kinds = OF_GROUPS[1]
    rest = kinds.without_groups()
    assert sum(rest[:3]) == pytest.approx(1)
    assert rest[0] / rest[1] == pytest.approx(kinds.absent / kinds.common)
    np.testing.assert_allclose(kinds.log_odds(np.arange(5), 4), rest.log_odds(np.arange(5), 4))


def test_density_of_different_pairs():
    kinds = OF_GROUPS[1]
    frequencies = [frequency for frequency, _ in naive.frequencies_of_pairs(kinds)]
    places = naive.places_of_different_pairs()
    mean = np.mean([(frequencies[a] + frequencies[b]) / 2 for a, b in places])
    rest = kinds.without_groups().density
    assert kinds.density == pytest.approx(0.6 * rest + 0.4 * mean)
    gaps = [abs(frequencies[a] - frequencies[b]) for a, b in places if 0 < a < 16 and 0 < b < 16]
    assert min(gaps) == LEAST_DIFFERENCE
