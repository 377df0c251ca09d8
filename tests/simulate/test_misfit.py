"""Tasks with a misfit: each kind breaks its assumption, and no other one."""

from typing import get_args

import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.graphs import is_dag
from mtgbn.simulate import simulate_misfit
from mtgbn.simulate.misfit import Misfit

KINDS = get_args(Misfit)
SERIES = ("autocorrelated", "lagged", "delays")


def many_rows(misfit, strength=1.0, p=4, **options):
    return simulate_misfit(
        misfit,
        n_tasks=1,
        n_variables=p,
        n_rows=60_000,
        strength=strength,
        random_state=3,
        **options,
    )


def residuals(simulation, t=0):
    """Rows minus the regressions on the parents."""
    rows, graph = simulation.arrays[t], simulation.adjacencies[t]
    left = rows.copy()
    for node in range(len(graph)):
        parents = rows[:, graph[:, node]]
        if parents.shape[1]:
            left[:, node] -= parents @ np.linalg.lstsq(parents, rows[:, node])[0]
    return left


def lag_one(rows):
    return np.array([np.corrcoef(column[1:], column[:-1])[0, 1] for column in rows.T])


@pytest.mark.parametrize("misfit", KINDS)
def test_shapes_and_truth(misfit):
    simulation = simulate_misfit(misfit, 3, 6, 40, level=0.3, random_state=1)
    assert len(simulation.tasks) == len(simulation.arrays) == 3
    assert all(rows.shape == (40, 6) for rows in simulation.arrays)
    assert all(is_dag(graph) for graph in simulation.adjacencies)
    assert np.array_equal(simulation.coefficients != 0, simulation.adjacencies)
    assert (simulation.tasks.ns < 39).all() == (misfit in SERIES)


@pytest.mark.parametrize("misfit", KINDS)
def test_more_tasks_do_not_change_the_others(misfit):
    few, many = (simulate_misfit(misfit, m, 5, 30, random_state=2) for m in (2, 4))
    for t in range(2):
        assert np.array_equal(few.arrays[t], many.arrays[t])
    assert np.array_equal(few.coefficients, many.coefficients[:2])


@pytest.mark.parametrize("misfit", ["none", "hidden_cause", "saturating", "heavy_tails"])
def test_without_strength_rows_are_those_of_the_network(misfit):
    """Given their parents, residuals are independent, normal and uncorrelated in time."""
    simulation = many_rows(misfit, strength=0)
    left = residuals(simulation)
    sd = 1 / np.sqrt(len(left))  # of a correlation; six pairs, and five sds: false alarms 1e-5
    assert np.abs(np.corrcoef(left.T) - np.eye(4)).max() < 5 * sd
    assert np.abs(lag_one(left)).max() < 5 * sd
    kurtosis = np.mean((left / left.std(axis=0)) ** 4, axis=0)
    assert np.abs(kurtosis - 3).max() < 5 * np.sqrt(24) * sd


def test_a_hidden_cause_correlates_the_residuals():
    left = residuals(many_rows("hidden_cause", edges_per_variable=0))
    off = np.corrcoef(left.T)[np.triu_indices(4, 1)]
    assert (np.abs(off) > 0.02).all()
    # One cause: all tetrads vanish.
    a = np.corrcoef(left.T)
    assert abs(a[0, 1] * a[2, 3] - a[0, 2] * a[1, 3]) < 0.01


@pytest.mark.parametrize("misfit", SERIES)
def test_series_are_autocorrelated(misfit):
    assert (lag_one(many_rows(misfit).arrays[0]) > 0.4).all()


def test_autocorrelation_grows_with_the_strength():
    expected = {0.0: 0.0, 0.5: 0.36, 1.0: 0.6, 2.0: 0.6**0.5}
    for strength, correlation in expected.items():
        rows = many_rows("autocorrelated", strength, edges_per_variable=0).arrays[0]
        assert lag_one(rows) == pytest.approx(correlation, abs=0.02)


def test_autocorrelated_rows_have_the_right_network_otherwise():
    left = residuals(many_rows("autocorrelated"))
    # The effective number of rows is about (1 - .36)/(1 + .36) of them.
    assert np.abs(np.corrcoef(left.T) - np.eye(4)).max() < 5 / np.sqrt(0.4 * len(left))


def test_heavy_tails():
    left = residuals(many_rows("heavy_tails", edges_per_variable=0))
    assert (np.mean((left / left.std(axis=0)) ** 4, axis=0) > 6).all()


def test_large_causes_have_smaller_effects_where_they_saturate():
    simulation = many_rows("saturating", p=2, edges_per_variable=0.5)
    (i,), (j,) = np.nonzero(simulation.adjacencies[0])
    x, y = simulation.arrays[0][:, i], simulation.arrays[0][:, j]
    slopes = [np.polyfit(x[part], y[part], 1)[0] for part in (np.abs(x) < 1, np.abs(x) > 1.5)]
    assert abs(slopes[1]) < 0.9 * abs(slopes[0])


@pytest.mark.parametrize(
    ("misfit", "strength", "late"),
    [
        ("lagged", 1.0, 0.5),
        ("lagged", 0.5, 0.25),
        ("lagged", 0.0, 0.0),
        ("autocorrelated", 1.0, 0.0),
    ],
)
def test_a_share_of_every_effect_is_late(misfit, strength, late):
    """Residuals are independent of causes at all times, so that least squares has no bias."""
    simulation = many_rows(misfit, strength, p=2, edges_per_variable=0.5)
    (i,), (j,) = np.nonzero(simulation.adjacencies[0])
    x, y = simulation.arrays[0][:, i], simulation.arrays[0][:, j]
    now, before = np.linalg.lstsq(np.column_stack([x[1:], x[:-1]]), y[1:])[0]
    assert before / (now + before) == pytest.approx(late, abs=0.03)


def test_delays_turn_the_order_in_time():
    """Without them, series look the same backwards: covariances at lags 1 and -1 are equal."""

    def asymmetry(strength):
        simulation = many_rows("delays", strength, p=2, edges_per_variable=0.5)
        x, y = simulation.arrays[0].T
        return abs(x[1:] @ y[:-1] - x[:-1] @ y[1:]) / len(x)

    assert asymmetry(0.0) < 0.01
    assert asymmetry(1.0) > 0.03
    same = (many_rows("autocorrelated"), many_rows("delays", 0.0))
    assert np.allclose(*(each.arrays[0] for each in same))


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="misfit must be one of 'none', 'hidden_cause'"):
        simulate_misfit("other")
    with pytest.raises(InputError, match="strength"):
        simulate_misfit("none", strength=3)
    with pytest.raises(InputError, match="level"):
        simulate_misfit("none", level=-1)
    with pytest.raises(InputError, match="n_tasks"):
        simulate_misfit("none", 0)
