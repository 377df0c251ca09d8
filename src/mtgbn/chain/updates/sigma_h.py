"""Update of sigma_h: one trajectory of Hamiltonian Monte Carlo (docs/model.md, sections 7 and 14).

The paper's sampler of sigma_h given graphs, `mtgbn.paper.sample_sigma_h`, runs the same trajectories.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky

from mtgbn._utils.compiled import kernel
from mtgbn.model.coordinates import (
    GradientWork,
    coordinates_of,
    sigma_h_of,
    unconstrained_value_and_gradient,
)
from mtgbn.model.family_terms import family_terms
from mtgbn.model.log_determinants import LANES
from mtgbn.model.posterior import Posterior

# A trajectory whose energy error is larger than this diverged: it has left the true path for good.
_DIVERGENCE = 1000.0

# A trajectory that diverges is tried again with steps that are smaller by this factor.
_SMALLER = 5

# A step size is not doubled any more from here on. Steps are in standard deviations; where data are few
# and tails heavy, any step is accepted now and then, and would lead out of the range of numbers.
_LARGEST_STEP = 4.0

# Limit of doublings or halvings of a step size; more than any step size needs.
_MAX_DOUBLINGS = 60

# Target acceptance rate and trajectories of a chain. Trajectories are shorter than those of the paper's
# sampler, since the graphs change after each of them.
TARGET_ACCEPTANCE = 0.8
_LENGTH, _JITTER, _MAX_STEPS = 1.5, 0.5, 256.0


class TrajectorySettings(NamedTuple):
    """How long trajectories are; all fields are floats, so that one version is compiled.

    ``n_steps`` is the number of leapfrog steps, or 0 for as many as ``trajectory_length`` needs, which
    is in standard deviations of the posterior, as far as the mass matrix knows them. The length of each
    trajectory is drawn from 1 - ``jitter`` to 1 + ``jitter`` times the given one.
    """

    n_steps: float
    trajectory_length: float
    jitter: float
    target_acceptance: float
    max_steps: float


class HMCInfo(NamedTuple):
    """Per transition, (n,): acceptance probability, energy, leapfrog steps, whether it diverged."""

    acceptance: np.ndarray
    energy: np.ndarray
    n_steps: np.ndarray
    divergent: np.ndarray


def empty_info(n: int) -> HMCInfo:
    """Room for a number of transitions."""
    return HMCInfo(np.empty(n), np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=bool))


class Hamiltonian(NamedTuple):
    """What trajectories follow: a posterior, the centre of its coordinates, and the masses.

    ``centre_factor`` is the Cholesky factor of the centre, ``dense_mass`` the one of a dense mass
    matrix. If ``dense_mass`` is 0 x 0, ``inverse_mass`` is used, the diagonal of the inverse mass
    matrix.
    """

    posterior: Posterior
    centre_factor: np.ndarray
    inverse_mass: np.ndarray
    dense_mass: np.ndarray


@kernel(error_model="numpy", inline="always")
def update_sigma_h(rng, data, state, psi_factor, sigma_h):
    """Update sigma_h given the tied families of all graphs and delta, by one trajectory.

    The coordinates in ``state`` change, and ``sigma_h`` (p, p) gets the new matrix. ``psi_factor`` is
    the Cholesky factor of ``state.centre``. Returns the acceptance probability, and whether the
    trajectory diverged.
    """
    p = data.psi_scales.size
    hamiltonian, work = _given_graphs(data, state, psi_factor)
    draws = np.empty((1, p, p))
    info = HMCInfo(
        np.empty(1), np.empty(1), np.empty(1, dtype=np.int64), np.empty(1, dtype=np.bool_)
    )
    settings = TrajectorySettings(0.0, _LENGTH, _JITTER, TARGET_ACCEPTANCE, _MAX_STEPS)
    step_size = state.step_size[()]
    run_trajectories(
        rng, hamiltonian, state.coordinates, step_size, False, settings, work, draws, info
    )
    for i in range(p):
        for j in range(p):
            sigma_h[i, j] = draws[0, i, j]
    return info.acceptance[0], info.divergent[0]


@kernel(error_model="numpy", inline="always")
def _given_graphs(data, state, psi_factor):
    """The Hamiltonian of sigma_h given tied families and delta, and room for its gradients."""
    p = data.psi_scales.size
    delta = state.delta[()]
    terms = family_terms(state.adjacencies, state.ties, state.scatters, data.ns, delta)
    size = 0
    for each in terms.outer_sizes:
        size = max(size, each)
    triangle = (size * (size + 1) // 2, LANES)
    small = (np.empty(triangle), np.empty(triangle), np.empty(LANES), np.empty(LANES))
    squares = np.zeros((5, p, p))
    work = GradientWork(squares[0], squares[1], squares[2], squares[3], squares[4], small)
    centre_factor = np.empty((p, p))
    for i in range(p):
        for j in range(p):
            centre_factor[i, j] = sqrt(delta) * psi_factor[i, j]
    posterior = Posterior(terms, data.log_determinant_coefficient, 0.0, p, delta * data.psi_scales)
    return Hamiltonian(posterior, centre_factor, state.inverse_mass, np.empty((0, 0))), work


@kernel(error_model="numpy")
def begin_trajectories(rng, data, state, psi_factor, is_first):
    """Choose a step size, in place; for the first trajectories masses and coordinates before it.

    Around its mean, a Wishart distribution with n degrees of freedom has variance 1/n in the whitened
    coordinates below the diagonal and 1/(2 n) on it. The coordinates are drawn from that distribution,
    so that R-hat can tell chains apart. With masses that were learned a step size no longer suits that
    was found for others. Arguments as for `update_sigma_h`.
    """
    hamiltonian, work = _given_graphs(data, state, psi_factor)
    if is_first:
        degrees = degrees_of_freedom(hamiltonian.posterior, hamiltonian.centre_factor, work)
        index = 0
        for i in range(data.psi_scales.size):
            for j in range(i + 1):
                variance = (0.5 if i == j else 1.0) / degrees
                state.inverse_mass[index] = variance
                state.coordinates[index] = np.sqrt(variance) * rng.standard_normal()
                index += 1
    state.step_size[()] = find_step_size(rng, hamiltonian, state.coordinates, work)


@kernel(error_model="numpy", inline="always")
def degrees_of_freedom(posterior, centre_factor, work):
    """Degrees of freedom n of a Wishart distribution that is as curved as the posterior.

    Curvatures are compared where all diagonal coordinates move at once, which scales the whole matrix.
    There a Wishart distribution has 2 n p.
    """
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


@kernel(error_model="numpy", inline="always")
def find_step_size(rng, hamiltonian, position, work):
    """A step size from which adaptation converges (Hoffman and Gelman 2014, Algorithm 4).

    It is doubled or halved until a single step has an acceptance probability of about one half.
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
    for _ in range(_MAX_DOUBLINGS):
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
        if step_size >= _LARGEST_STEP:
            break
    # A step size that suffices for one step may be too large for many: take a smaller one.
    return step_size / (4.0 if direction == 1 else 2.0)


@kernel(error_model="numpy", inline="always")
def run_trajectories(rng, hamiltonian, position, step_size, adapts, settings, work, draws, info):
    """Make as many transitions from ``position`` as ``draws`` has room for, in place.

    Parameters
    ----------
    rng : numpy.random.Generator
    hamiltonian : Hamiltonian
    position : array (d,)
    step_size : float
    adapts : bool
        Whether to adapt the step size by dual averaging.
    settings : TrajectorySettings
    work : GradientWork
    draws, info : array (n, p, p), HMCInfo
        Get sigma_h after every transition, and its statistics.

    Returns the step size to go on with.
    """
    d = position.size
    gradient = np.empty(d)
    proposal = np.empty(d)
    proposal_gradient = np.empty(d)
    momentum, start_momentum = np.empty(d), np.empty(d)
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
        wanted = settings.n_steps
        if not wanted > 0:
            wanted = min(settings.trajectory_length / step_size, settings.max_steps)
        wanted *= 1.0 + settings.jitter * (2.0 * rng.random() - 1.0)
        steps = int(max(1.0, np.round(wanted)))
        # Loops are compiled faster than assignments of arrays, which check their shapes.
        for k in range(d):
            proposal[k], proposal_gradient[k] = position[k], gradient[k]
            start_momentum[k] = momentum[k]
        new_value, new_energy, done = _follow(
            hamiltonian, proposal, momentum, proposal_gradient, step_size, steps, velocity, work
        )
        divergent = not energy - new_energy > -_DIVERGENCE
        acceptance = 0.0 if divergent else min(1.0, np.exp(energy - new_energy))
        chance = acceptance
        if divergent:
            # Again with smaller steps. For the way back to be as probable, it must not be accepted
            # with the given steps (delayed rejection; Mira 2001).
            for k in range(d):
                proposal[k], proposal_gradient[k] = position[k], gradient[k]
                momentum[k] = start_momentum[k]
            size, number = step_size / _SMALLER, steps * _SMALLER
            new_value, new_energy, more = _follow(
                hamiltonian, proposal, momentum, proposal_gradient, size, number, velocity, work
            )
            done += more
            divergent = not energy - new_energy > -_DIVERGENCE
            if not divergent:
                back, back_gradient = proposal.copy(), proposal_gradient.copy()
                for k in range(d):
                    momentum[k] = -momentum[k]
                _, back_energy, more = _follow(
                    hamiltonian, back, momentum, back_gradient, step_size, steps, velocity, work
                )
                done += more
                change = new_energy - back_energy
                rejected = 1.0 - (min(1.0, np.exp(change)) if change > -_DIVERGENCE else 0.0)
                chance = min(1.0, np.exp(energy - new_energy) * rejected)
        if rng.random() < chance:
            for k in range(d):
                position[k], gradient[k] = proposal[k], proposal_gradient[k]
            value = new_value
            energy = new_energy
        if adapts:
            count = t + 1.0
            share = 1.0 / (count + 10.0)
            error = (1.0 - share) * error + share * (settings.target_acceptance - acceptance)
            logarithm = start - np.sqrt(count) / 0.05 * error
            weight = count**-0.75
            smoothed = weight * logarithm + (1.0 - weight) * smoothed
            step_size = np.exp(logarithm)
        sigma_h = sigma_h_of(hamiltonian.centre_factor, position, work)
        for i in range(sigma_h.shape[0]):
            for j in range(i + 1):
                draws[t, i, j] = sigma_h[i, j]
                draws[t, j, i] = sigma_h[i, j]
        info.acceptance[t] = acceptance
        info.energy[t] = energy
        info.n_steps[t] = done
        info.divergent[t] = divergent
    return np.exp(smoothed) if adapts else step_size


@kernel(error_model="numpy")
def _follow(hamiltonian, position, momentum, gradient, step_size, n_steps, velocity, work):
    """Make leapfrog steps, in place; returns log density and energy at the end, and their number."""
    value, done = 0.0, 0
    for _ in range(n_steps):
        value = leapfrog(hamiltonian, position, momentum, gradient, step_size, velocity, work)
        done += 1
        if not value > -np.inf:
            break
    return value, to_velocity(hamiltonian, momentum, velocity) - value, done


@kernel(error_model="numpy", inline="always")
def leapfrog(hamiltonian, position, momentum, gradient, step_size, velocity, work):
    """Make one leapfrog step, in place, and return the log density at the new position.

    ``gradient`` is the one at ``position``, before and after the step.
    """
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
    """Write the velocity, M^-1 times the momentum, and return the kinetic energy."""
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


# Weight, in draws, of the present variances against those of the draws of a window.
_SHRINKAGE = 10.0

# Largest variance, in those of the coordinates about which the data say most. While no task joins a
# pair, nothing is known of its coordinate. If many tasks then join the pair, its variance falls by
# orders of magnitude, and trajectories with the masses of before would diverge (docs/decisions.md).
_LARGEST_RATIO = 4.0

# Largest growth of a variance at once. A chain that starts far out would otherwise fly off with all the
# energy that it has there.
_LARGEST_GROWTH = 10.0


def learned_inverse_mass(
    draws: np.ndarray, centre: np.ndarray, inverse_mass: np.ndarray
) -> np.ndarray:
    """Variances of the coordinates of ``draws`` (n, p, p) about a centre.

    They are shrunk towards the present variances ``inverse_mass``, scaled to the same average.
    """
    variances = coordinates_of(draws, contiguous_factor(centre)).var(axis=0)
    weight = len(draws) / (len(draws) + _SHRINKAGE)
    expected = inverse_mass * np.mean(variances / inverse_mass)
    return weight * variances + (1 - weight) * expected


def bounded_inverse_mass(learned: np.ndarray, before: np.ndarray, p: int) -> np.ndarray:
    """Learned variances, none larger than `_LARGEST_RATIO` times those that data tell most about.

    These are the diagonal ones, since every variable has a family. Below the diagonal a Wishart
    distribution has twice their variance. None grows by more than `_LARGEST_GROWTH`.
    """
    learned = np.minimum(learned, _LARGEST_GROWTH * before)
    rows, columns = np.tril_indices(p)
    is_diagonal = rows == columns
    typical = np.median(learned[is_diagonal]) * np.where(is_diagonal, 1.0, 2.0)
    return np.minimum(learned, _LARGEST_RATIO * typical)


def contiguous_factor(matrix: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, in the one memory layout for which kernels are compiled."""
    return np.ascontiguousarray(cholesky(matrix, lower=True))
