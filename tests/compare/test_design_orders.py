"""The smallest p-value of a design, compared with all orders of its subjects, one least squares each."""

import itertools

import numpy as np
import pytest

from mtgbn.compare.design import make_design
from mtgbn.compare.design_orders import _different_orders, smallest_pvalue
from mtgbn.compare.design_study import notes_on_orders


def table_of(**columns):
    return {
        f"s{k}": dict(zip(columns, values, strict=True))
        for k, values in enumerate(zip(*columns.values(), strict=True))
    }


def residual_square(matrix, y):
    return np.sum((y - matrix @ np.linalg.lstsq(matrix, y, rcond=None)[0]) ** 2)


def by_brute_force(design, tested):
    """Share of all permutations (within blocks) with the F of the observed order, in random data.

    ``tested`` are the positions of the tested columns.
    """
    matrix, m = design.matrix, len(design.matrix)
    reduced = np.delete(matrix, tested, axis=1)
    y = np.random.default_rng(5).normal(size=m)
    fitted = reduced @ np.linalg.lstsq(reduced, y, rcond=None)[0]
    blocks = np.zeros(m, int) if design.blocks is None else design.blocks
    places = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    found = []
    for choice in itertools.product(*(itertools.permutations(own) for own in places)):
        order = np.empty(m, int)
        for own, new in zip(places, choice, strict=True):
            order[own] = new
        permuted = fitted + (y - fitted)[order]
        found.append(residual_square(reduced, permuted) / residual_square(matrix, permuted))
    return np.mean(np.isclose(found, found[0], rtol=1e-8))


CASES = {
    "two groups of three": ({"g": "aaabbb"}, {}, 2 / 20),
    "groups of two and four": ({"g": "aabbbb"}, {}, 1 / 15),
    "three groups of two": ({"g": "aabbcc"}, {}, 6 / 90),
    "one of three groups": ({"g": "aabbcc"}, {"contrast": "g[T.c] - g[T.b]"}, 2 / 90),
    "a score with a mirror image": ({"g": "1234"}, {}, 2 / 24),
    "a score without one": ({"g": "1249"}, {}, 1 / 24),
    "five pairs": ({"g": "ab" * 5, "who": "1122334455"}, {"blocks": "who"}, 2 / 32),
    "three blocks of three": (
        {"g": "abb" + "bab" + "aab", "who": "111222333"},
        {"blocks": "who"},
        1 / 27,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_smallest_p_value_is_that_of_all_orders(name):
    columns, options, expected = CASES[name]
    design = make_design(table_of(**columns), "g", **options)
    assert design.smallest_p == pytest.approx(expected)
    if "contrast" not in options:
        tested = np.flatnonzero(design.contrast.any(axis=0))
        assert by_brute_force(design, tested) == pytest.approx(expected)
    orders = list(_different_orders(design.matrix, design.blocks))
    np.testing.assert_array_equal(orders[0], np.arange(len(design.matrix)))
    assert len(set(map(tuple, orders))) == len(orders)
    assert len(orders) == pytest.approx(design.n_orders)
    notes = notes_on_orders(design)
    assert bool(notes) == (expected > 0.05)


def test_blocks_that_mirror_each_other_do_not_change_places():
    """Four and one of the groups in one block, one and four in the other: 25 orders, no symmetry."""
    design = make_design(table_of(g="aaaababbbb", b="1111122222"), "g", blocks="b")
    assert design.n_orders == pytest.approx(25)
    assert design.smallest_p == pytest.approx(1 / 25)


def test_a_covariate_breaks_the_symmetry_of_two_groups():
    table = table_of(g="aaabbb", x=["3", "7", "1", "9", "4", "8"])
    design = make_design(table, "g + x")
    assert design.n_orders == pytest.approx(720)
    assert design.smallest_p == pytest.approx(by_brute_force(design, [1]))


def test_many_orders_are_not_tried():
    design = make_design(table_of(g="a" * 20 + "b" * 20), "g")
    assert smallest_pvalue(design.matrix, design.contrast, None) == 1 / design.n_orders < 1e-6
