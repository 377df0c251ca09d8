"""Exact linear relations are found and named; random data never raises a false alarm."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgbn.errors import CollinearityWarning
from mtgbn.tasks import Tasks

UNITS = np.array([1.0, 1e8, 1e-8, 1.0, 1e4])


def random_rows(rows, p, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, p))


def messages(arrays, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Tasks.from_arrays(arrays, **options)
    assert all(issubclass(warning.category, CollinearityWarning) for warning in caught)
    return [str(warning.message) for warning in caught]


def relations(message):
    """The relations that a message states, as (variable, others)."""
    found = {}
    for part in message.partition("variables: ")[2].partition(". Edges")[0].split("; "):
        dependent, _, others = part.partition(" is a ")
        others = others.removeprefix("multiple of ").removeprefix("linear combination of ")
        found[dependent.strip("'")] = [name.strip("'") for name in others.split(", ")]
    return found


@pytest.mark.parametrize(("rows", "p"), [(200, 20), (21, 20), (20, 20), (10, 20), (3, 20), (2, 5)])
@pytest.mark.parametrize("centre", [True, False])
def test_random_data_has_no_relations(rows, p, centre):
    arrays = [random_rows(rows, p, seed) * np.resize(UNITS, p) for seed in range(5)]
    assert messages(arrays, centre=centre) == []


def test_nearly_collinear_is_not_collinear():
    x = random_rows(50, 3)
    x[:, 2] = x[:, 0] + x[:, 1] + 1e-8 * x[:, 2]
    assert messages([x]) == []


@pytest.mark.parametrize("rows", [40, 8])
@pytest.mark.parametrize(("factor", "shift"), [(1, 0), (-1, 0), (1e8, 0), (-2.5, 3)])
def test_multiples_are_found_even_with_few_rows(rows, factor, shift):
    x = random_rows(rows, 12)
    x[:, 9] = factor * x[:, 4] + shift
    (message,) = messages([random_rows(rows, 12, 1), x])
    assert message.startswith("task 'task1' has exactly collinear variables: 'x9' is a multiple")
    assert relations(message) == {"x9": ["x4"]}


def test_three_copies_name_the_first():
    x = random_rows(30, 5)
    x[:, 2] = x[:, 4] = x[:, 0]
    (message,) = messages([x])
    assert relations(message) == {"x2": ["x0"], "x4": ["x0"]}


@pytest.mark.parametrize("units", [np.ones(5), UNITS, UNITS[::-1]])
@pytest.mark.parametrize("position", range(5))
def test_a_sum_is_found_in_any_units_and_place(units, position):
    free = random_rows(30, 4)
    x = np.insert(free, position, free[:, 0] + free[:, 2], axis=1) * units
    involved = sorted({position, *(j + (j >= position) for j in (0, 2))})
    (message,) = messages([x])
    expected = {f"x{involved[-1]}": [f"x{j}" for j in involved[:-1]]}
    assert relations(message) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 1, 2], {"x2": ["x0", "x1"]}),
        # Rounding forbids to solve for the small part, although it is the last.
        ([0, 2, 1], {"x1": ["x0", "x2"]}),
    ],
)
def test_a_sum_of_very_unequal_parts(order, expected):
    large, small, _ = (np.round(random_rows(30, 3) * 2**20) / 2**20).T
    large = large * 2.0**26
    (message,) = messages([np.column_stack([large, small, large + small])[:, order]])
    assert relations(message) == expected


def test_several_relations_at_once():
    x = random_rows(40, 7)
    x[:, 3] = x[:, 0] - 2 * x[:, 1]
    x[:, 5] = x[:, 0] + x[:, 1]
    x[:, 6] = -x[:, 2]
    (message,) = messages([x])
    assert relations(message) == {"x3": ["x0", "x1"], "x5": ["x0", "x1"], "x6": ["x2"]}


def test_variables_that_add_up_to_a_constant():
    shares = np.abs(random_rows(40, 4))
    (message,) = messages([shares / shares.sum(axis=1, keepdims=True)])
    assert relations(message) == {"x3": ["x0", "x1", "x2"]}


def test_low_rank_beyond_what_few_rows_explain():
    x = random_rows(10, 3) @ random_rows(3, 15, 1)
    (message,) = messages([x])
    assert "'x3' is a linear combination of 'x0', 'x1', 'x2'" in message
    assert "and 9 more relations" in message


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(8, 60))
def test_rank_agrees_with_the_number_of_relations(seed, rank, rows):
    p = 6
    x = random_rows(rows, rank, seed) @ random_rows(rank, p, seed + 1)
    (message,) = messages([x])
    counted = message.count(" is a ")
    if "more relations" in message:
        counted += int(message.partition("; and ")[2].split()[0])
    assert counted == p - np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-8)


def test_the_scatter_is_kept():
    x = random_rows(30, 3)
    x[:, 2] = x[:, 0] + x[:, 1]
    with pytest.warns(CollinearityWarning, match="'x2' is a linear combination of 'x0', 'x1'"):
        tasks = Tasks.from_arrays([x])
    np.testing.assert_allclose(tasks.scatters[0], np.cov(x, rowvar=False) * 29, rtol=1e-11)


def test_many_affected_tasks_are_summarised():
    x = random_rows(30, 3)
    x[:, 2] = x[:, 1]
    assert len(messages([x] * 5)) == 5
    (message,) = messages([random_rows(30, 3), *[x] * 6])
    assert message.startswith("6 tasks have exactly collinear variables ('task1', ")
    assert "task 'task1' has exactly collinear variables: 'x2' is a multiple of 'x1'" in message


def test_the_warning_points_at_the_caller():
    x = random_rows(30, 3)
    x[:, 2] = x[:, 1]
    with pytest.warns(CollinearityWarning) as caught:
        Tasks.from_arrays([x])
    assert caught[0].filename == __file__
