"""The update of sigma_h against its naive twin, and against numerical integration."""

import itertools

import naive_updates
import numpy as np
import pytest
from chain_problems import MIXED_TIES, SINGLE_DELTA, assert_same, chain_of, some_arrays
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT
from scipy.special import gammaln, logsumexp, softmax

from mtgbn.chain.diagnostics import monte_carlo_error
from mtgbn.chain.run import run_chain
from mtgbn.tasks import Tasks

FIXED = {"n_moves": 0, "samples_delta": False, "samples_membership": False}


@pytest.mark.parametrize(
    ("members", "ties"),
    [((True,) * 3, True), ((True, False, True), MIXED_TIES), ((False,) * 3, True)],
)
@pytest.mark.parametrize("delta", [0.3, 10.0, 2000.0])
def test_it_is_its_twin(delta, members, ties):
    data, state = chain_of(start=MIXED_GRAPHS, members=members, ties=ties, delta=delta, **FIXED)
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
    """Posterior means of ln Psi_11, ln Psi_22, the correlation of two variables, and the share of
    own families.

    The graphs are 0 -> 1 in the first task and empty in the second. Psi is on a grid, ties are summed
    over all their patterns if they are sampled, with every share of own families.
    """
    delta = float(state.delta)
    a, b, z = np.meshgrid(
        *(np.linspace(*ends, size) for ends in ((-3, 5), (-3, 5), (-3, 3))), indexing="ij"
    )
    first, second, correlation = np.exp(a), np.exp(b), np.tanh(z)
    covariance = correlation * np.sqrt(first * second)

    def log_likelihood(t, node, is_tied):
        """Log likelihood of a family, without the Gamma functions."""
        prior = [delta * first, delta * second, delta * covariance]
        if not is_tied:
            prior = [*data.single_scales[t], 0.0]
        scatter, value = state.scatters[t], 0.0
        for sign, added in ((-1, scatter[[0, 1, 0], [0, 1, 1]]), (1, np.zeros(3))):
            degrees = (delta if is_tied else SINGLE_DELTA) + (data.ns[t] if sign < 0 else 0)
            one, other, both = (each + more for each, more in zip(prior, added, strict=True))
            log_one = np.log(one)
            if node == 1 and t == 0:
                log_both = np.log(one * other - both**2)
                value += sign * ((degrees + 1) / 2 * (log_both - log_one) + log_one / 2)
            else:
                value += sign * degrees / 2 * (np.log(other) if node else log_one)
        # Gamma functions matter where different deltas are compared.
        of_delta = delta if is_tied else SINGLE_DELTA
        q = int(node == 1 and t == 0)
        return value + gammaln((of_delta + data.ns[t] + q) / 2) - gammaln((of_delta + q) / 2)

    # Inverse Wishart with 3 degrees of freedom, in ln Psi_11, ln Psi_22 and artanh of the correlation.
    determinant = first * second * (1 - correlation**2)
    log_prior = -3 * np.log(determinant)
    log_prior -= (data.psi_scales[0] * second + data.psi_scales[1] * first) / determinant / 2
    log_prior += 1.5 * (a + b) + np.log1p(-(correlation**2))
    families = [*itertools.product(range(2), repeat=2)]
    values = {
        (*family, tie): log_likelihood(*family, tie) for family in families for tie in (False, True)
    }
    patterns = [(True,) * 4]
    if data.samples_ties:  # of two families, one may be an own one
        patterns = [
            (*one, *other)
            for one, other in itertools.product(
                itertools.product([False, True], repeat=2), repeat=2
            )
            if any(one) and any(other)
        ]
    joint = [
        log_prior
        + logsumexp(naive_updates.log_probabilities_of_ties(np.reshape(ties, (2, 2))))
        + sum(values[*family, tie] for family, tie in zip(families, ties, strict=True))
        for ties in patterns
    ]
    joint = softmax(joint)
    weights = joint.sum(axis=0)
    for axis in range(3):
        assert weights.sum(axis=tuple({0, 1, 2} - {axis}))[[0, -1]].max() < 1e-4
    own_share = 0.0
    if data.samples_ties:
        assert joint.sum(axis=(1, 2, 3)).max() < 0.9  # no pattern is certain
        for ties, probability in zip(patterns, joint.sum(axis=(1, 2, 3)), strict=True):
            shares = softmax(naive_updates.log_probabilities_of_ties(np.reshape(ties, (2, 2))))
            own_share += probability * (shares @ naive_updates.OWN_SHARES)
    return np.array([*((weights * each).sum() for each in (a, b, correlation)), own_share])


@pytest.mark.parametrize("samples_ties", [False, True])
def test_draws_have_the_moments_of_numerical_integration(samples_ties):
    arrays = some_arrays(2, 2, rows=9, seed=1)
    arrays[1][:, 1] *= 3.0
    start = np.zeros((2, 2, 2), dtype=bool)
    start[0, 0, 1] = True
    data, state = chain_of(
        Tasks.from_arrays(arrays), start=start, delta=6.0, samples_ties=samples_ties, **FIXED
    )
    expected = integrals(data, state)
    np.testing.assert_allclose(integrals(data, state, 45), expected, atol=1e-3)
    rng = np.random.default_rng(2)
    _, state = run_chain(data, state, rng, 200, adapts=True)
    trace, _ = run_chain(data, state, rng, 10_000 if samples_ties else 6000, adapts=False)
    one, other = trace.psi[:, 0, 0], trace.psi[:, 1, 1]
    correlation = trace.psi[:, 0, 1] / np.sqrt(one * other)
    draws = np.array([np.log(one), np.log(other), correlation, trace.own_share])
    errors = np.zeros(4)
    n_sampled = 4 if samples_ties else 3
    errors[:n_sampled] = monte_carlo_error(draws[:n_sampled, None])
    assert (errors < 0.05).all()
    assert (np.abs(draws.mean(axis=1) - expected) <= Z_LIMIT * errors).all()
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
