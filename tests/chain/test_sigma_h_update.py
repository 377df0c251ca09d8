"""The update of sigma_h against its naive twin, and against numerical integration."""

import naive_updates
import numpy as np
import pytest
from chain_problems import assert_same, chain_of, some_arrays
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT

from mtgbn.chain.diagnostics import monte_carlo_error
from mtgbn.chain.run import run_chain
from mtgbn.tasks import Tasks

FIXED = {"n_moves": 0, "samples_delta": False, "samples_membership": False}


@pytest.mark.parametrize("members", [(True, True, True), (True, False, True), (False,) * 3])
@pytest.mark.parametrize("delta", [0.3, 10.0, 2000.0])
def test_it_is_its_twin(delta, members):
    data, state = chain_of(start=MIXED_GRAPHS, members=members, delta=delta, **FIXED)
    for seed in range(3):
        trace, end = run_chain(data, state, np.random.default_rng(seed), 2, adapts=False)
        expected, expected_end = naive_updates.run_chain(
            data, state, np.random.default_rng(seed), 2, adapts=False
        )
        # The start takes differences of gradients, and trajectories enlarge what rounding there is.
        assert_same(trace, expected, rtol=1e-6, atol=1e-7)
        assert_same(end, expected_end, rtol=1e-6, atol=1e-7)
        assert trace.psi[1] == pytest.approx(trace.psi[1].T, rel=1e-14)


def integrals(data, state, size=60):
    """Posterior means of ln Psi_11, ln Psi_22 and the correlation of two variables, on a grid.

    The graphs are 0 -> 1 in the first task and empty in the second.
    """
    delta = float(state.delta)
    a, b, z = np.meshgrid(
        *(np.linspace(*ends, size) for ends in ((-3, 5), (-3, 5), (-3, 3))), indexing="ij"
    )
    first, second, correlation = np.exp(a), np.exp(b), np.tanh(z)
    covariance = correlation * np.sqrt(first * second)

    def log_determinants(scatter):
        one = delta * first + scatter[0, 0]
        other = delta * second + scatter[1, 1]
        return (
            np.log(one),
            np.log(other),
            np.log(one * other - (delta * covariance + scatter[0, 1]) ** 2),
        )

    value = 0.0
    zero = np.zeros((2, 2))
    for scatter, n, is_joined in zip(state.scatters, data.ns, (True, False), strict=True):
        for sign, (one, other, both) in (
            (-1, log_determinants(scatter)),
            (1, log_determinants(zero)),
        ):
            degrees = delta + (n if sign < 0 else 0)
            value = value + sign * degrees / 2 * one
            if is_joined:
                value += sign * (degrees + 1) / 2 * (both - one) + sign * one / 2
            else:
                value += sign * degrees / 2 * other
    # Inverse Wishart with 3 degrees of freedom, in ln Psi_11, ln Psi_22 and artanh of the correlation.
    determinant = first * second * (1 - correlation**2)
    value -= 3 * np.log(determinant)
    value -= (data.psi_scales[0] * second + data.psi_scales[1] * first) / determinant / 2
    value += 1.5 * (a + b) + np.log1p(-(correlation**2))
    weights = np.exp(value - value.max())
    weights /= weights.sum()
    for axis in range(3):
        assert weights.sum(axis=tuple({0, 1, 2} - {axis}))[[0, -1]].max() < 1e-4
    return np.array([(weights * each).sum() for each in (a, b, correlation)])


def test_draws_have_the_moments_of_numerical_integration():
    tasks = Tasks.from_arrays(some_arrays(2, 2, rows=9, seed=1))
    start = np.zeros((2, 2, 2), dtype=bool)
    start[0, 0, 1] = True
    data, state = chain_of(tasks, start=start, delta=6.0, **FIXED)
    expected = integrals(data, state)
    np.testing.assert_allclose(integrals(data, state, 45), expected, atol=1e-3)
    rng = np.random.default_rng(2)
    _, state = run_chain(data, state, rng, 200, adapts=True)
    trace, _ = run_chain(data, state, rng, 6000, adapts=False)
    one, other = trace.psi[:, 0, 0], trace.psi[:, 1, 1]
    draws = np.array([np.log(one), np.log(other), trace.psi[:, 0, 1] / np.sqrt(one * other)])
    errors = monte_carlo_error(draws[:, None])
    assert (errors < 0.03).all()
    assert (np.abs(draws.mean(axis=1) - expected) < Z_LIMIT * errors).all()
    assert trace.n_divergent == 0


def test_a_chain_begins_once():
    """The masses of the start are those of a Wishart distribution: two values, in the ratio of 2."""
    data, state = chain_of()
    p = len(state.centre)
    rng = np.random.default_rng(0)
    assert state.step_size == 0
    _, state = run_chain(data, state, rng, 1, adapts=False)
    masses = state.inverse_mass
    diagonal = np.cumsum(np.arange(1, p + 1)) - 1
    assert masses[diagonal] == pytest.approx(masses[1] / 2)
    assert len(np.unique(masses)) == 2
    _, after = run_chain(data, state, rng, 3, adapts=False)
    np.testing.assert_array_equal(after.inverse_mass, masses)
    assert after.step_size == state.step_size
