"""The posterior of sigma_h with a prior of its own, against scipy and numerical derivatives."""

import naive
import numpy as np
import pytest
from scipy.stats import invwishart

from mtgbn.errors import InputError
from mtgbn.model.coordinates import log_posterior_unconstrained, to_unconstrained
from mtgbn.model.posterior import HyperPrior, value_and_gradient
from mtgbn.paper.posterior import build_posterior


def problem(p, m=3, seed=0):
    rng = np.random.default_rng([p, seed])
    adjacencies = np.array([naive.random_dag(rng, p, 0.5) for _ in range(m)])
    rows = rng.standard_normal((m, 3 * p + 5, p))
    scatters = np.einsum("tni,tnj->tij", rows, rows)
    given = adjacencies, scatters, np.full(m, 3.0 * p + 5), p + 6.5
    return given, np.exp(rng.uniform(-2, 2, p)), rng


def scipy_log_density(hyperprior, sigma_h):
    p = len(sigma_h)
    return invwishart(hyperprior.degrees + p - 1, np.diag(hyperprior.scales)).logpdf(sigma_h)


@pytest.mark.parametrize("degrees", [2.0, 0.7, 9.5])
@pytest.mark.parametrize("p", [2, 3, 5, 9])
def test_it_adds_the_log_density_of_scipys_inverse_wishart(p, degrees):
    given, scales, rng = problem(p)
    hyperprior = HyperPrior(scales, degrees)
    flat, informed = build_posterior(*given), build_posterior(*given, hyperprior=hyperprior)
    centre = naive.random_covariance(rng, p)
    for _ in range(3):
        sigma_h = naive.random_covariance(rng, p)
        expected = scipy_log_density(hyperprior, sigma_h)
        found = value_and_gradient(informed, sigma_h)[0] - value_and_gradient(flat, sigma_h)[0]
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)
        for around in (None, centre):
            x = to_unconstrained(sigma_h, around)
            found = (
                log_posterior_unconstrained(x, informed, around)[0]
                - log_posterior_unconstrained(x, flat, around)[0]
            )
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("has_centre", [False, True])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8, 9])
def test_gradient_in_unconstrained_coordinates_by_central_differences(p, has_centre):
    given, scales, rng = problem(p)
    posterior = build_posterior(*given, hyperprior=HyperPrior(scales))
    centre = naive.random_covariance(rng, p) if has_centre else None
    x = rng.standard_normal(p * (p + 1) // 2) * 0.4
    step = 1e-5
    differences = [
        (
            log_posterior_unconstrained(x + step * unit, posterior, centre)[0]
            - log_posterior_unconstrained(x - step * unit, posterior, centre)[0]
        )
        / (2 * step)
        for unit in np.eye(len(x))
    ]
    gradient = log_posterior_unconstrained(x, posterior, centre)[1]
    # Rounding of values of some hundreds, divided by the step, and the third derivative.
    tolerance = 1e-6 * (1 + np.abs(gradient).max())
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("p", [2, 4, 7])
def test_gradient_by_sigma_h_along_random_directions(p):
    given, scales, rng = problem(p)
    posterior = build_posterior(*given, hyperprior=HyperPrior(scales))
    sigma_h = naive.random_covariance(rng, p)
    _, gradient = value_and_gradient(posterior, sigma_h)
    for _ in range(5):
        direction = rng.standard_normal((p, p))
        direction = direction + direction.T
        step = 1e-5 * np.linalg.eigvalsh(sigma_h)[0]
        difference = (
            value_and_gradient(posterior, sigma_h + step * direction)[0]
            - value_and_gradient(posterior, sigma_h - step * direction)[0]
        ) / (2 * step)
        assert np.sum(gradient * direction) == pytest.approx(difference, rel=1e-5, abs=1e-4)


def test_units_do_not_matter():
    """Data and scales in other units: the density changes by the Jacobian, whatever sigma_h."""
    p = 4
    (adjacencies, scatters, ns, nu0), scales, rng = problem(p)
    units = np.exp(rng.uniform(-3, 3, p))
    square = np.outer(units, units)
    here = build_posterior(adjacencies, scatters, ns, nu0, hyperprior=HyperPrior(scales))
    there = build_posterior(
        adjacencies, scatters * square, ns, nu0, hyperprior=HyperPrior(scales * units**2)
    )
    differences = []
    for _ in range(3):
        sigma_h = naive.random_covariance(rng, p)
        value = value_and_gradient(here, sigma_h)[0]
        differences.append(value_and_gradient(there, sigma_h * square)[0] - value)
    # (p + 1) ln|units| of sigma_h and n ln|units| of the rows of every task
    expected = -(p + 1 + ns.sum()) * np.log(units).sum()
    np.testing.assert_allclose(differences, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "wrong", [HyperPrior(np.ones(2)), HyperPrior(np.array([1, 1, 0.0])), HyperPrior(np.ones(3), 0)]
)
def test_nonsense_is_refused(wrong):
    given, _, _ = problem(3)
    with pytest.raises(InputError, match="3 positive scales"):
        build_posterior(*given, hyperprior=wrong)
