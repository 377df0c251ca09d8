"""The update of delta against its naive twin, and against numerical integration."""

import naive_updates
import numpy as np
import pytest
from chain_problems import MIXED_TIES, assert_same, chain_of, repeat_update_of_delta
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT

from mtgbn.chain.diagnostics import ess_mean
from mtgbn.chain.state import copy_of

# Members, and which of their families are tied.
GIVEN = [((True,) * 3, True), ((True, False, True), MIXED_TIES), ((False,) * 3, True)]


def given_sigma_h(members, ties, delta, step=0.3):
    """Data, a state and a sigma_h that is not far from the data."""
    data, state = chain_of(start=MIXED_GRAPHS, members=members, ties=ties, delta=delta)
    state.delta_step[()] = step
    return data, state, delta * state.centre


@pytest.mark.parametrize(("members", "ties"), GIVEN)
@pytest.mark.parametrize(("delta", "step"), [(10.0, 0.3), (300.0, 3.0), (2e-3, 1.0), (5e4, 1.0)])
def test_it_is_its_twin(members, ties, delta, step):
    """Also where proposals fall outside the limits of delta."""
    accepted = []
    for seed in range(10):
        data, state, sigma_h = given_sigma_h(members, ties, delta, step)
        twin = copy_of(state)
        rng, twin_rng = np.random.default_rng(seed), np.random.default_rng(seed)
        found = sigma_h.copy()
        accepted.append(repeat_update_of_delta(rng, data, state, found, np.empty(1)))
        expected, n_accepted = naive_updates.update_delta(twin_rng, data, twin, sigma_h)
        assert accepted[-1] == n_accepted
        assert_same(state, twin, rtol=1e-12)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
        assert 1e-3 < state.delta < 1e5
    assert len(set(accepted)) > 1


@pytest.mark.parametrize(("members", "ties"), GIVEN)
def test_draws_have_the_distribution_of_numerical_integration(members, ties):
    """Shares of draws below places on a grid of ln delta, with Psi held."""
    data, state, sigma_h = given_sigma_h(members, ties, 30.0, 1.5)
    psi = sigma_h / 30.0
    grid = np.linspace(np.log(1e-3), np.log(1e5), 800)
    log_density = np.array(
        [
            naive_updates.log_prior_of_delta(delta)
            + sum(
                naive_updates.log_likelihood_of_family(
                    data, state, *family, delta * psi, True, delta
                )
                for family in np.argwhere(state.ties)
            )
            for delta in np.exp(grid)
        ]
    )
    shares = np.exp(log_density - log_density.max()).cumsum()
    shares = (shares - shares[0] / 2) / shares[-1]
    deltas = np.empty(40_000)
    repeat_update_of_delta(np.random.default_rng(0), data, state, sigma_h, deltas)
    np.testing.assert_allclose(sigma_h, deltas[-1] * psi, rtol=1e-9)
    for wanted in (0.1, 0.3, 0.5, 0.7, 0.9):
        k = np.searchsorted(shares, wanted)
        place, expected = (grid[k] + grid[k + 1]) / 2, (shares[k] + shares[k + 1]) / 2
        below = (np.log(deltas) < place).astype(float)
        error = np.sqrt(expected * (1 - expected) / ess_mean(below[None, None])[0])
        assert error < 0.02
        assert abs(below.mean() - expected) < Z_LIMIT * error
