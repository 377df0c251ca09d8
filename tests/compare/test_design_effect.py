"""Effects in words."""

import pytest

from mtgbn.compare.design_effect import effect_with_interval


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.334, 0.2711, 0.399), "+0.33 (+0.27 to +0.40)"),
        ((0.000031, 0.00001, 0.000052), "+0.00003 (+0.00001 to +0.00005)"),
        ((-0.012, -0.0211, -0.0029), "-0.012 (-0.021 to -0.003)"),
        ((0.1, 0.1, 0.1), "+0.10 (+0.10 to +0.10)"),
        ((float("nan"), 0.1, 0.2), "not defined"),
    ],
)
def test_of_an_interval_one_digit_counts_at_least(numbers, expected):
    assert effect_with_interval(*numbers) == expected
