"""The benchmarks of accuracy, quickly: what the documents claim, on a problem of each kind."""

import numpy as np
import pytest

from benchmarks import adaptive, calibration, missing


@pytest.mark.parametrize(
    "row",
    [
        "thr 60, n 50",
        "thr 200, n 250",
        "dag, n 20 to 400",
        "4 of 12 unrelated, n 50",
        pytest.param("edges 0.1, n 250", marks=pytest.mark.slow),
        pytest.param("dag, n 50, m 40", marks=pytest.mark.slow),
    ],
)
def test_tasks_together_are_ahead_of_each_alone_and_of_all_as_one(row):
    found = adaptive.measure(row, 0, 0)
    for which in (0, 1):  # skeletons, arrowheads
        best = min(found[name][which] for name in ("SIG", "AVG"))
        assert found["map"][which] < best
    if "unrelated" in row:
        assert found["map"][3] <= found["SIG"][3]


@pytest.mark.parametrize("row", ["thr 60, n 50", "thr 200, n 250"])
def test_probabilities_make_no_more_mistakes(row):
    found = adaptive.measure(row, 0, 300)
    assert found["posterior"][0] <= found["map"][0]


def test_missing_values_cost_less_than_filling_in_or_dropping():
    complete, drawn, filled, dropped = np.sum(
        [missing.measure("thr 60", seed) for seed in range(2)], axis=0
    )
    assert drawn < 1.15 * complete
    assert drawn < min(filled, dropped)


def test_probabilities_are_shares():
    """As many edges as their probabilities say, over a few simulations from the model."""
    outcomes = [calibration.calibrate(calibration.QUICK[0], seed) for seed in range(8)]
    probability = np.concatenate([each.probabilities for each in outcomes])
    present = np.concatenate([each.present for each in outcomes])
    assert len(present) > 200
    # Edges of a simulation depend on each other: ten times the variance of independent ones.
    error = np.sqrt(10 * np.sum(probability * (1 - probability)))
    assert abs(present.sum() - probability.sum()) < 3 * error
    assert present[probability > 0.9].mean() > 0.8
    assert present[probability < 0.1].mean() < 0.1
