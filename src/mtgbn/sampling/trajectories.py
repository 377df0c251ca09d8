"""Leapfrog trajectories in compiled code: everything that HMC does between two adaptations."""

from typing import NamedTuple

import numpy as np

from mtgbn.compiled import kernel
from mtgbn.model.coordinates import sigma_h_of, unconstrained_value_and_gradient
from mtgbn.model.posterior import Posterior

__all__ = [
    "Hamiltonian",
    "draw_momentum",
    "leapfrog",
    "run_trajectories",
    "to_velocity",
]

# An energy error beyond this is a divergence: the integrator has left the path for good.
_DIVERGENCE = 1000.0


class Hamiltonian(NamedTuple):
    """What the trajectories follow: a posterior in its coordinates, and the masses.

    ``dense_mass`` is the Cholesky factor of a dense mass matrix, or 0 x 0; then ``inverse_mass``, the
    diagonal of an inverse mass matrix, counts.
    """

    posterior: Posterior
    centre_factor: np.ndarray
    inverse_mass: np.ndarray
    dense_mass: np.ndarray


@kernel(error_model="numpy")
def run_trajectories(
    rng, hamiltonian, position, step_size, adapt, numbers, work, draws, statistics
):
    """Make transitions from ``position``, in place, and return the step size to go on with."""
    n_steps, trajectory_length, jitter, target_acceptance, max_steps = numbers
    d = position.size
    gradient = np.empty(d)
    proposal = np.empty(d)
    proposal_gradient = np.empty(d)
    momentum = np.empty(d)
    velocity = np.empty(d)
    value = unconstrained_value_and_gradient(
        hamiltonian.posterior, hamiltonian.centre_factor, position, gradient, work
    )
    # Dual averaging (Hoffman and Gelman 2014, section 3.2).
    start = np.log(10.0 * step_size)
    error = 0.0
    smoothed = np.log(step_size)
    for t in range(draws.shape[0]):
        kinetic = draw_momentum(rng, hamiltonian, momentum)
        energy = kinetic - value
        wanted = n_steps if n_steps > 0 else min(trajectory_length / step_size, max_steps)
        wanted *= 1.0 + jitter * (2.0 * rng.random() - 1.0)
        steps = int(max(1.0, np.round(wanted)))
        proposal[:] = position
        proposal_gradient[:] = gradient
        new_value = value
        done = 0
        for _ in range(steps):
            new_value = leapfrog(
                hamiltonian, proposal, momentum, proposal_gradient, step_size, velocity, work
            )
            done += 1
            if not new_value > -np.inf:
                break
        kinetic = to_velocity(hamiltonian, momentum, velocity)
        change = energy - (kinetic - new_value)
        divergent = not change > -_DIVERGENCE
        acceptance = 0.0 if divergent else min(1.0, np.exp(change))
        if rng.random() < acceptance:
            position[:] = proposal
            gradient[:] = proposal_gradient
            value = new_value
            energy = kinetic - new_value
        if adapt:
            count = t + 1.0
            share = 1.0 / (count + 10.0)
            error = (1.0 - share) * error + share * (target_acceptance - acceptance)
            logarithm = start - np.sqrt(count) / 0.05 * error
            weight = count**-0.75
            smoothed = weight * logarithm + (1.0 - weight) * smoothed
            step_size = np.exp(logarithm)
        sigma_h = sigma_h_of(hamiltonian.centre_factor, position, work)
        for i in range(sigma_h.shape[0]):
            for j in range(i + 1):
                draws[t, i, j] = sigma_h[i, j]
                draws[t, j, i] = sigma_h[i, j]
        statistics[0, t] = acceptance
        statistics[1, t] = energy
        statistics[2, t] = done
        statistics[3, t] = divergent
    return np.exp(smoothed) if adapt else step_size


@kernel(error_model="numpy")
def leapfrog(hamiltonian, position, momentum, gradient, step_size, velocity, work):
    """One step, in place; ``gradient`` belongs to ``position`` before and after. Returns the value."""
    for k in range(position.size):
        momentum[k] += 0.5 * step_size * gradient[k]
    to_velocity(hamiltonian, momentum, velocity)
    for k in range(position.size):
        position[k] += step_size * velocity[k]
    value = unconstrained_value_and_gradient(
        hamiltonian.posterior, hamiltonian.centre_factor, position, gradient, work
    )
    for k in range(position.size):
        momentum[k] += 0.5 * step_size * gradient[k]
    return value


@kernel
def draw_momentum(rng, hamiltonian, momentum):
    """Draw a momentum from N(0, M) and return its kinetic energy."""
    inverse_mass, dense_mass = hamiltonian.inverse_mass, hamiltonian.dense_mass
    d = momentum.size
    kinetic = 0.0
    for k in range(d):
        momentum[k] = rng.standard_normal()
        kinetic += 0.5 * momentum[k] ** 2
    if dense_mass.size > 0:
        for i in range(d - 1, -1, -1):
            total = 0.0
            for j in range(i + 1):
                total += dense_mass[i, j] * momentum[j]
            momentum[i] = total
    else:
        for k in range(d):
            momentum[k] /= np.sqrt(inverse_mass[k])
    return kinetic


@kernel
def to_velocity(hamiltonian, momentum, velocity):
    """Write M^-1 momentum and return the kinetic energy."""
    inverse_mass, dense_mass = hamiltonian.inverse_mass, hamiltonian.dense_mass
    d = momentum.size
    if dense_mass.size > 0:
        for i in range(d):
            total = momentum[i]
            for j in range(i):
                total -= dense_mass[i, j] * velocity[j]
            velocity[i] = total / dense_mass[i, i]
        for i in range(d - 1, -1, -1):
            total = velocity[i]
            for j in range(i + 1, d):
                total -= dense_mass[j, i] * velocity[j]
            velocity[i] = total / dense_mass[i, i]
    else:
        for k in range(d):
            velocity[k] = inverse_mass[k] * momentum[k]
    kinetic = 0.0
    for k in range(d):
        kinetic += 0.5 * momentum[k] * velocity[k]
    return kinetic
