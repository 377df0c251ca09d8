"""Unconstrained coordinates: round trip, Jacobian, and the density that the samplers see."""

import naive
import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.model.coordinates import (
    from_unconstrained,
    log_jacobian,
    log_posterior_unconstrained,
    to_unconstrained,
)
from mtgbn.paper.posterior import build_posterior
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS

# The kernels work in blocks of 4 and 8 rows; these sizes lie below, on and above their borders.
SIZES = [1, 2, 3, 4, 5, 8, 9, 12, 17]


def centre_of(kind, rng, p):
    return None if kind == "identity" else naive.random_covariance(rng, p)


@pytest.mark.parametrize("kind", ["identity", "centre"])
@pytest.mark.parametrize("p", SIZES)
def test_round_trip(p, kind):
    rng = np.random.default_rng(p)
    centre = centre_of(kind, rng, p)
    sigma_h = naive.random_covariance(rng, p)
    x = to_unconstrained(sigma_h, centre)
    assert x.shape == (p * (p + 1) // 2,)
    np.testing.assert_allclose(from_unconstrained(x, centre), sigma_h, rtol=1e-10, atol=1e-13)
    x = rng.standard_normal(len(x))
    np.testing.assert_allclose(
        to_unconstrained(from_unconstrained(x, centre), centre), x, rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("p", SIZES)
def test_transform_agrees_with_naive(p):
    rng = np.random.default_rng(p)
    centre = naive.random_covariance(rng, p)
    x = rng.standard_normal(p * (p + 1) // 2)
    np.testing.assert_allclose(
        from_unconstrained(x, centre), naive.sigma_h_of(x, centre), rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(from_unconstrained(x), naive.sigma_h_of(x, np.eye(p)), rtol=1e-11)


def test_the_centre_is_the_origin():
    centre = naive.random_covariance(np.random.default_rng(0), 5)
    np.testing.assert_allclose(to_unconstrained(centre, centre), 0, atol=1e-14)
    np.testing.assert_allclose(from_unconstrained(np.zeros(15), centre), centre, rtol=1e-13)


@pytest.mark.parametrize("kind", ["identity", "centre"])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 9])
def test_log_jacobian_is_that_of_the_numerical_jacobian(p, kind):
    rng = np.random.default_rng(p)
    centre = centre_of(kind, rng, p)
    x = 0.7 * rng.standard_normal(p * (p + 1) // 2)
    jacobian = naive.jacobian(x, np.eye(p) if centre is None else centre)
    assert log_jacobian(x, centre) == pytest.approx(np.linalg.slogdet(jacobian)[1], rel=1e-10)


def random_posterior(rng, p, m=3):
    adjacencies = np.array([naive.random_dag(rng, p, 0.5) for _ in range(m)])
    scatters = np.array([5 * naive.random_covariance(rng, p) for _ in range(m)])
    return adjacencies, scatters, rng.integers(3, 40, m).astype(float), p - 0.5 + rng.exponential()


@pytest.mark.parametrize("kind", ["identity", "centre"])
@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize("p", [1, 2, 5, 8, 12])
def test_value_is_posterior_plus_jacobian(p, prior, kind):
    rng = np.random.default_rng(p)
    data = random_posterior(rng, p)
    centre = centre_of(kind, rng, p)
    x = 0.5 * rng.standard_normal(p * (p + 1) // 2)
    value, _ = log_posterior_unconstrained(x, build_posterior(*data, prior), centre)
    sigma_h = naive.sigma_h_of(x, np.eye(p) if centre is None else centre)
    expected = naive.log_posterior(sigma_h, *data, prior)
    if p <= 8:
        jacobian = naive.jacobian(x, np.eye(p) if centre is None else centre)
        expected += np.linalg.slogdet(jacobian)[1]
    else:
        expected += log_jacobian(x, centre)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", ["identity", "centre"])
@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize("p", [1, 2, 5, 8, 12, 17])
def test_gradient_meets_central_differences(p, prior, kind):
    rng = np.random.default_rng(p)
    posterior = build_posterior(*random_posterior(rng, p), prior)
    centre = centre_of(kind, rng, p)
    x = 0.3 * rng.standard_normal(p * (p + 1) // 2)
    _, gradient = log_posterior_unconstrained(x, posterior, centre)
    # The error is step^2 from the curvature and 1e-16 |value| / step from rounding: balanced, with
    # Richardson's extrapolation taking out the first.
    step = 1e-3
    slopes = np.empty((2, len(x)))
    for row, h in enumerate((step, step / 2)):
        for k in range(len(x)):
            move = np.zeros(len(x))
            move[k] = h
            up, down = (
                log_posterior_unconstrained(x + sign * move, posterior, centre)[0]
                for sign in (1, -1)
            )
            slopes[row, k] = (up - down) / (2 * h)
    expected = (4 * slopes[1] - slopes[0]) / 3
    scale = np.maximum(np.abs(gradient), np.abs(gradient).max() * 1e-2)
    np.testing.assert_array_less(np.abs(gradient - expected) / scale, 1e-6)


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
def test_gradient_meets_complex_steps(prior):
    rng = np.random.default_rng(4)
    p = 6
    data = random_posterior(rng, p)
    centre = naive.random_covariance(rng, p)
    x = 0.5 * rng.standard_normal(p * (p + 1) // 2)
    _, gradient = log_posterior_unconstrained(x, build_posterior(*data, prior), centre)
    expected = np.empty_like(x)
    for k in range(len(x)):
        moved = x.astype(complex)
        moved[k] += 1j * naive.COMPLEX_STEP
        slope = np.imag(naive.log_posterior(naive.sigma_h_of(moved, centre), *data, prior))
        expected[k] = slope / naive.COMPLEX_STEP
        expected[k] += jacobian_slope(k, p)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-9)


def jacobian_slope(k, p):
    """p - i + 2 for the i-th diagonal element (from 1), 0 elsewhere."""
    row, column = (indices[k] for indices in np.tril_indices(p))
    return p - row + 1 if row == column else 0


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
def test_the_centre_only_relabels_points(prior):
    rng = np.random.default_rng(9)
    p = 7
    posterior = build_posterior(*random_posterior(rng, p), prior)
    centre, sigma_h = naive.random_covariance(rng, p), naive.random_covariance(rng, p)
    densities = []
    for chosen in (None, centre):
        x = to_unconstrained(sigma_h, chosen)
        densities.append(
            log_posterior_unconstrained(x, posterior, chosen)[0] - log_jacobian(x, chosen)
        )
    assert densities[0] == pytest.approx(densities[1], rel=1e-11)


def test_bad_arguments_are_named():
    posterior = build_posterior(np.zeros((1, 2, 2)), [np.eye(2)], [5.0], 3.0)
    with pytest.raises(InputError, match="x belongs to 3 variables, the posterior has 2"):
        log_posterior_unconstrained(np.zeros(6), posterior)
    for function in (
        from_unconstrained,
        log_jacobian,
        lambda x: log_posterior_unconstrained(x, posterior),
    ):
        for length in (0, 2, 4):
            with pytest.raises(InputError, match=str(length)):
                function(np.zeros(length))
    for centre, message in (
        (np.eye(3), "centre"),
        (-np.eye(2), "centre must be positive definite"),
        ([[1.0, 0.5], [0.0, 1.0]], "centre must be symmetric"),
    ):
        with pytest.raises(InputError, match=message):
            to_unconstrained(np.eye(2), centre)
        with pytest.raises(InputError, match=message):
            log_posterior_unconstrained(np.zeros(3), posterior, centre)
    with pytest.raises(InputError, match="sigma_h must be positive definite"):
        to_unconstrained(np.diag([1.0, -1.0]))


def test_no_density_where_sigma_h_is_singular_to_working_precision():
    posterior = build_posterior(np.zeros((1, 2, 2)), [np.eye(2)], [5.0], 3.0)
    value, _ = log_posterior_unconstrained([0.0, 0.0, -800.0], posterior)
    assert value == -np.inf


@pytest.mark.parametrize("prior", STRUCTURE_PRIORS)
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("x", [400.0, 800.0])
def test_a_scale_that_overflows_has_no_density(prior, place, x):
    posterior = build_posterior([[[0, 1], [0, 0]]], [np.eye(2)], [50.0], 3.0, prior)
    point = np.zeros(3)
    point[place] = x
    value, _ = log_posterior_unconstrained(point, posterior)
    # infinity minus infinity on the way may make it NaN, which samplers reject as well
    assert not value > -np.inf
