"""Leapfrog trajectories in compiled code: everything that HMC does between two adaptations."""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.model.coordinates import sigma_h_of, unconstrained_value_and_gradient
from mtgbn.model.posterior import Posterior

__all__ = [
    "Hamiltonian",
    "begin",
    "degrees_of_freedom",
    "find_step_size",
    "leapfrog",
    "run_trajectories",
]

# An energy error beyond this is a divergence: the integrator has left the path for good.
_DIVERGENCE = 1000.0


# Doubling a step size so often is enough for any.
_MOST_DOUBLINGS = 60


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
def begin(rng, hamiltonian, position, work):
    """Choose masses and a position near the centre, in place; returns a step size.

    Around its mean, a Wishart distribution with n degrees of freedom has variance 1/n in the whitened
    coordinates below the diagonal and 1/(2 n) on it. The start is a draw of that, so that R-hat can
    tell chains apart.
    """
    degrees = degrees_of_freedom(hamiltonian.posterior, hamiltonian.centre_factor, work)
    index = 0
    for i in range(hamiltonian.posterior.n_variables):
        for j in range(i + 1):
            variance = (0.5 if i == j else 1.0) / degrees
            hamiltonian.inverse_mass[index] = variance
            position[index] = np.sqrt(variance) * rng.standard_normal()
            index += 1
    return find_step_size(rng, hamiltonian, position, work)


@kernel(error_model="numpy")
def degrees_of_freedom(posterior, centre_factor, work):
    """Of the Wishart distribution with the same curvature, 2 n p, along the common scale; at least 1."""
    p = posterior.n_variables
    position, gradient = np.empty(p * (p + 1) // 2), np.empty(p * (p + 1) // 2)
    curvature = 0.0
    for sign in (-1.0, 1.0):
        index = 0
        for i in range(p):
            for j in range(i + 1):
                position[index] = sign * 1e-4 if i == j else 0.0
                index += 1
        unconstrained_value_and_gradient(posterior, centre_factor, position, gradient, work)
        index = -1
        for i in range(p):
            index += i + 1
            curvature -= sign * gradient[index] / 2e-4
    return max(curvature / (2 * p), 1.0)


@kernel(error_model="numpy")
def find_step_size(rng, hamiltonian, position, work):
    """Double or halve the step size until one step is accepted about as often as not; take half.

    After Hoffman and Gelman (2014), Algorithm 4: a start from which dual averaging converges.
    """
    d = position.size
    start_gradient, start_momentum = np.empty(d), np.empty(d)
    proposal, gradient, momentum = np.empty(d), np.empty(d), np.empty(d)
    velocity = np.empty(d)
    value = unconstrained_value_and_gradient(
        hamiltonian.posterior, hamiltonian.centre_factor, position, start_gradient, work
    )
    energy = draw_momentum(rng, hamiltonian, start_momentum) - value
    step_size, direction = 0.5, 0
    for _ in range(_MOST_DOUBLINGS):
        for k in range(d):
            proposal[k], gradient[k] = position[k], start_gradient[k]
            momentum[k] = start_momentum[k]
        new_value = leapfrog(hamiltonian, proposal, momentum, gradient, step_size, velocity, work)
        change = energy - to_velocity(hamiltonian, momentum, velocity) + new_value
        now = 1 if change > np.log(0.5) else -1
        if direction == 0:
            direction = now
        elif now != direction:
            break
        step_size *= 2.0**direction
    # One step may be accepted where many would leave the path: stay well inside.
    return step_size / (4.0 if direction == 1 else 2.0)


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
        # Loops are compiled faster than assignments of arrays, which check their shapes.
        for k in range(d):
            proposal[k], proposal_gradient[k] = position[k], gradient[k]
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
            for k in range(d):
                position[k], gradient[k] = proposal[k], proposal_gradient[k]
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
