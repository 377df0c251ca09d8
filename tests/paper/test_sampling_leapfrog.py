"""The integrator alone: reversible, volume preserving, of second order."""

import numpy as np
import pytest
from sampling_oracles import dag, data_scatters

from mtgbn.chain.updates.sigma_h import Hamiltonian, leapfrog
from mtgbn.model.coordinates import coordinates_workspace, unconstrained_value_and_gradient
from mtgbn.paper.posterior import build_posterior

# The v-structure and the chain on three variables, in unequal units; d = 6.
D = 6
POSTERIOR = build_posterior(
    np.array([dag(3, (0, 1), (2, 1)), dag(3, (2, 1), (1, 0))]),
    data_scatters(3, [9, 14], seed=4),
    [9.0, 14.0],
    6.0,
    "uniform",
)
CENTRE_FACTOR = np.linalg.cholesky(np.array([[9.0, 2.0, 1.0], [2.0, 12.0, 3.0], [1.0, 3.0, 20.0]]))


def _masses():
    rng = np.random.default_rng(11)
    root = rng.standard_normal((D, 3 * D))
    dense = 5 * root @ root.T / D
    diagonal = rng.uniform(10, 60, D)
    # the kernel takes the inverse of a diagonal mass matrix, or the Cholesky factor of a dense one
    return {
        "diagonal": (1 / diagonal, np.empty((0, 0)), np.diag(diagonal)),
        "dense": (np.ones(D), np.linalg.cholesky(dense), dense),
    }


MASSES = _masses()


@pytest.fixture(params=MASSES)
def mass(request):
    return MASSES[request.param]


@pytest.fixture
def point():
    rng = np.random.default_rng(12)
    return 0.2 * rng.standard_normal(D), 4 * rng.standard_normal(D)


def density(position):
    gradient = np.empty(D)
    work = coordinates_workspace(POSTERIOR)
    value = unconstrained_value_and_gradient(POSTERIOR, CENTRE_FACTOR, position, gradient, work)
    return value, gradient


def flow(position, momentum, mass, step_size, n_steps):
    inverse_mass, factor, _ = mass
    position, momentum = position.copy(), momentum.copy()
    _, gradient = density(position)
    work = coordinates_workspace(POSTERIOR)
    hamiltonian = Hamiltonian(POSTERIOR, CENTRE_FACTOR, inverse_mass, factor)
    for _ in range(n_steps):
        value = leapfrog(hamiltonian, position, momentum, gradient, step_size, np.empty(D), work)
    # the value and the gradient that come back belong to the position that comes back
    expected_value, expected_gradient = density(position)
    assert value == pytest.approx(expected_value, rel=1e-13)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-12)
    return position, momentum


def energy(position, momentum, mass):
    return momentum @ np.linalg.solve(mass[2], momentum) / 2 - density(position)[0]


def test_reversible(point, mass):
    position, momentum = flow(*point, mass, 0.1, 30)
    assert np.abs(position - point[0]).max() > 0.1
    position, momentum = flow(position, -momentum, mass, 0.1, 30)
    np.testing.assert_allclose(position, point[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(-momentum, point[1], rtol=0, atol=1e-10)


def test_preserves_volume(point, mass):
    start = np.concatenate(point)
    step = 1e-4

    def end(z):
        return np.concatenate(flow(z[:D], z[D:], mass, 0.1, 10))

    columns = []
    for unit in np.eye(2 * D):
        near = end(start + step * unit) - end(start - step * unit)
        far = end(start + 2 * step * unit) - end(start - 2 * step * unit)
        columns.append((8 * near - far) / (12 * step))
    jacobian = np.array(columns).T
    assert np.abs(jacobian - np.eye(2 * D)).max() > 0.1
    assert np.linalg.det(jacobian) == pytest.approx(1, abs=1e-7)


def test_energy_error_is_of_second_order(point, mass):
    before = energy(*point, mass)
    errors = [
        energy(*flow(*point, mass, 0.04 / halving, 20 * halving), mass) - before
        for halving in (1, 2, 4, 8)
    ]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    np.testing.assert_allclose(ratios, 4, rtol=0.05)


def test_follows_the_differential_equation(point, mass):
    """Hamilton's equations, integrated by another method to ten digits."""
    from scipy.integrate import solve_ivp

    def derivative(_, z):
        return np.concatenate([np.linalg.solve(mass[2], z[D:]), density(z[:D])[1]])

    exact = solve_ivp(
        derivative, (0, 0.5), np.concatenate(point), rtol=1e-10, atol=1e-10, method="DOP853"
    ).y[:, -1]
    ours = np.concatenate(flow(*point, mass, 0.0005, 1000))
    np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-4)


def test_a_dense_diagonal_matrix_is_a_diagonal_one(point):
    inverse_mass, _, matrix = MASSES["diagonal"]
    as_dense = (np.ones(D), np.linalg.cholesky(matrix), matrix)
    one = flow(*point, (inverse_mass, np.empty((0, 0)), matrix), 0.1, 20)
    other = flow(*point, as_dense, 0.1, 20)
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
