"""Sorting by hand as the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mtgbn.errors import InputError
from mtgbn.fmri.density import strongest_edges


@st.composite
def strengths_and_count(draw):
    """Small integers, so that many pairs are equally strong."""
    p = draw(st.integers(2, 6))
    values = draw(st.lists(st.integers(-3, 3), min_size=p * p, max_size=p * p))
    matrix = np.array(values, dtype=float).reshape(p, p)
    return matrix, draw(st.integers(0, int((matrix[~np.eye(p, dtype=bool)] != 0).sum())))


@given(strengths_and_count())
def test_the_strongest_ordered_pairs(case):
    matrix, count = case
    p = len(matrix)
    order = sorted(
        ((i, j) for i in range(p) for j in range(p) if i != j),
        key=lambda pair: (-abs(matrix[pair]), pair),
    )
    expected = np.zeros((p, p), dtype=bool)
    for pair in order[:count]:
        expected[pair] = True
    np.fill_diagonal(matrix, np.nan)
    assert_array_equal(strongest_edges(matrix, count), expected)


@given(strengths_and_count())
def test_the_strongest_unordered_pairs(case):
    matrix, count = case
    p = len(matrix)
    strength = {
        (i, j): max(abs(matrix[i, j]), abs(matrix[j, i])) for j in range(p) for i in range(j)
    }
    count = min(count, sum(value > 0 for value in strength.values()))
    expected = np.zeros((p, p), dtype=bool)
    for i, j in sorted(strength, key=lambda pair: (-strength[pair], pair))[:count]:
        expected[i, j] = expected[j, i] = True
    assert_array_equal(strongest_edges(matrix, count, undirected=True), expected)


def test_infinite_is_strongest():
    found = strongest_edges([[0, 1, 2], [-np.inf, 0, 3], [4, 5, 0]], 1)
    assert_array_equal(np.argwhere(found), [[1, 0]])


@pytest.mark.parametrize(
    ("strengths", "count", "message"),
    [
        ([[0, 1, 2]], 1, r"square array; its shape is \(1, 3\)"),
        ([["a", "b"], ["c", "d"]], 1, "square array of numbers"),
        ([[0, np.nan], [1, 0]], 1, "strength of 0 -> 1 is nan"),
        ([[0, 1], [2, 0]], 3, "n_edges is 3, but only 2 of the 2 ordered pairs"),
        ([[0, 0], [2, 0]], 2, "only 1 of the 2 ordered pairs have a strength other than 0"),
        ([[0, 1], [2, 0]], -1, "n_edges must be a whole number of at least 0"),
        ([[0, 1], [2, 0]], 1.5, "n_edges must be a whole number of at least 0"),
    ],
)
def test_bad_input_is_named(strengths, count, message):
    with pytest.raises(InputError, match=message):
        strongest_edges(strengths, count)


def test_too_many_undirected_edges():
    with pytest.raises(InputError, match="only 1 of the 1 unordered pairs"):
        strongest_edges([[0, 1], [2, 0]], 2, undirected=True)
