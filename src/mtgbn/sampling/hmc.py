"""Hamiltonian Monte Carlo for sigma_h (docs/model.md, section 7; the paper's Algorithm 2).

The paper's algorithm with what makes it usable: coordinates centred at a good guess of sigma_h, a step
size found by dual averaging, a diagonal mass matrix learned during warm-up, trajectories of random
length. Everything between two adaptations is one compiled loop.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import cholesky, solve_triangular

from mtgbn.errors import InputError
from mtgbn.model.coordinates import (
    coordinates_workspace,
    from_unconstrained,
    sigma_h_of,
    to_unconstrained,
    unconstrained_value_and_gradient,
)
from mtgbn.model.posterior import Posterior

__all__ = [
    "HMCInfo",
    "HMCSettings",
    "HMCState",
    "disperse",
    "initial_state",
    "leapfrog",
    "run_chain",
]

# An energy error beyond this is a divergence: the integrator has left the path for good.
_DIVERGENCE = 1000.0

# Warm-up: after each window but the last the coordinates are centred at the window's mean and the
# masses set to its precisions; the step size starts anew in every window.
_WINDOWS = (0.1, 0.2, 0.35, 0.35)

# Weight, in draws, of the average variance of all coordinates of a kind against the coordinate's own.
_SHRINKAGE = 10.0


class HMCSettings(NamedTuple):
    """What can be set; the names of the paper's Algorithm 2 in brackets.

    Attributes
    ----------
    n_steps : int or None
        Leapfrog steps per trajectory [K]; None: as many as the trajectory length needs.
    step_size : float or None
        [epsilon]; None: found by dual averaging during warm-up.
    mass_matrix : array (d,) or (d, d), or None
        [M], d = p (p + 1)/2; a vector is a diagonal matrix. None: learned during warm-up.
    whiten : bool
        Centre the coordinates at a good guess of sigma_h, improved during warm-up. False: the paper's
        coordinates, the logarithmic Cholesky factor of sigma_h itself.
    trajectory_length : float
        In standard deviations of the posterior, as far as the mass matrix knows them.
    jitter : float
        The length of each trajectory is drawn from 1 - jitter to 1 + jitter times the given one.
    target_acceptance : float
    max_steps : int
        No trajectory is longer than this.
    """

    n_steps: int | None = None
    step_size: float | None = None
    mass_matrix: np.ndarray | None = None
    whiten: bool = True
    trajectory_length: float = 3.0
    jitter: float = 0.5
    target_acceptance: float = 0.8
    max_steps: int = 256

    def check(self) -> None:
        """Raise an error that names the first setting that makes no sense."""
        rules = {
            "n_steps": self.n_steps is None or self.n_steps >= 1,
            "step_size": self.step_size is None or 0 < self.step_size < np.inf,
            "trajectory_length": 0 < self.trajectory_length < np.inf,
            "jitter": 0 <= self.jitter < 1,
            "target_acceptance": 0 < self.target_acceptance < 1,
            "max_steps": self.max_steps >= 1,
        }
        for name, holds in rules.items():
            if not holds:
                raise InputError(f"{name} = {getattr(self, name)} is out of range")


class HMCState(NamedTuple):
    """Where a chain stands, and all that it has learned on the way."""

    centre: np.ndarray
    position: np.ndarray
    inverse_mass: np.ndarray
    step_size: float

    @property
    def sigma_h(self) -> np.ndarray:
        """The draw at which the chain stands."""
        return from_unconstrained(self.position, self.centre)


class HMCInfo(NamedTuple):
    """Per draw: acceptance probability, energy, leapfrog steps, and whether the path diverged."""

    acceptance: np.ndarray
    energy: np.ndarray
    n_steps: np.ndarray
    divergent: np.ndarray


def initial_state(posterior: Posterior, sigma_h: np.ndarray, whiten: bool = True) -> HMCState:
    """Start at ``sigma_h``, with the masses of a Wishart distribution that carries as much weight.

    Around its mean, a Wishart distribution with n degrees of freedom has variance 1/n in the whitened
    coordinates below the diagonal and 1/(2 n) on it.
    """
    p = posterior.n_variables
    centre = sigma_h if whiten else np.eye(p)
    position = to_unconstrained(sigma_h, centre)
    diagonal = np.cumsum(np.arange(1, p + 1)) - 1
    # The curvature along the common scale tells how many degrees of freedom there are: 2 n p.
    centre_factor = cholesky(centre, lower=True)
    work = coordinates_workspace(posterior)
    step = 1e-4
    slopes = []
    for sign in (-1, 1):
        probe, gradient = position.copy(), np.empty_like(position)
        probe[diagonal] += sign * step
        unconstrained_value_and_gradient(posterior, centre_factor, probe, gradient, work)
        slopes.append(gradient[diagonal].sum())
    degrees = max((slopes[0] - slopes[1]) / (2 * step) / (2 * p), 1.0)
    inverse_mass = np.full(position.size, 1 / degrees)
    inverse_mass[diagonal] = 1 / (2 * degrees)
    return HMCState(centre, position, inverse_mass, 0.5)


def disperse(state: HMCState, rng: np.random.Generator) -> HMCState:
    """Move a starting point by about a posterior standard deviation, so that R-hat can tell chains."""
    shift = rng.standard_normal(state.position.size) * np.sqrt(state.inverse_mass)
    return state._replace(position=state.position + shift)


def run_chain(
    posterior: Posterior,
    state: HMCState,
    rng: np.random.Generator,
    n_draws: int,
    n_warmup: int,
    settings: HMCSettings,
    progress=None,
) -> tuple[np.ndarray, HMCInfo, HMCState]:
    """Run one chain: warm up, then draw.

    Returns
    -------
    draws : array (n_draws, p, p)
    info : HMCInfo
    state : HMCState
        The end of the chain; handed to another run, the chain goes on.
    """
    dense_mass, state = _fixed_mass(posterior, state, settings)
    windows = np.diff(np.round(np.cumsum([0.0, *_WINDOWS]) * n_warmup).astype(int))
    for number, length in enumerate(windows):
        if length == 0:
            continue
        draws, _, state = _run(posterior, state, rng, length, settings, dense_mass, adapt=True)
        if 0 < number < len(windows) - 1:
            state = _learn(state, draws, settings)
        if progress is not None:
            progress(length)
    draws, info, state = _run(posterior, state, rng, n_draws, settings, dense_mass, adapt=False)
    if progress is not None:
        progress(n_draws)
    return draws, info, state


def _run(posterior, state, rng, n, settings, dense_mass, adapt):
    p = posterior.n_variables
    draws = np.empty((n, p, p))
    statistics = np.empty((4, n))
    position = state.position.copy()
    step_size = _compiled_run(
        rng,
        posterior,
        cholesky(state.centre, lower=True),
        position,
        state.inverse_mass,
        dense_mass,
        settings.step_size or state.step_size,
        adapt and settings.step_size is None,
        (
            float(settings.n_steps or 0),
            float(settings.trajectory_length),
            float(settings.jitter),
            float(settings.target_acceptance),
            float(settings.max_steps),
        ),
        coordinates_workspace(posterior),
        draws,
        statistics,
    )
    info = HMCInfo(
        statistics[0], statistics[1], statistics[2].astype(np.int64), statistics[3].astype(bool)
    )
    return draws, info, state._replace(position=position, step_size=step_size)


def _fixed_mass(posterior, state, settings) -> tuple[np.ndarray, HMCState]:
    """Cholesky factor of a dense mass matrix (0 x 0: none), and the state with the given masses."""
    none = np.empty((0, 0))
    if settings.mass_matrix is None:
        return none, state
    mass = np.asarray(settings.mass_matrix, dtype=float)
    d = posterior.n_variables * (posterior.n_variables + 1) // 2
    if mass.shape == (d,):
        if not (np.isfinite(mass).all() and (mass > 0).all()):
            raise InputError("mass_matrix must hold positive numbers")
        return none, state._replace(inverse_mass=1 / mass)
    if mass.shape == (d, d):
        return cholesky(mass, lower=True), state
    raise InputError(f"mass_matrix must have shape ({d},) or ({d}, {d}); got {mass.shape}")


def _learn(state: HMCState, draws: np.ndarray, settings: HMCSettings) -> HMCState:
    """Centre the coordinates at the mean of the draws and learn their variances there."""
    p = draws.shape[-1]
    mean = draws.mean(axis=0) if settings.whiten else state.centre
    state = state._replace(centre=mean, position=to_unconstrained(state.sigma_h, mean))
    if settings.mass_matrix is not None:
        return state
    factors = np.linalg.cholesky(draws)
    whitened = solve_triangular(
        cholesky(mean, lower=True), factors.transpose(1, 0, 2).reshape(p, -1), lower=True
    )
    whitened = whitened.reshape(p, len(draws), p).transpose(1, 0, 2)
    rows, columns = np.tril_indices(p)
    coordinates = whitened[:, rows, columns]
    on_diagonal = rows == columns
    coordinates[:, on_diagonal] = np.log(coordinates[:, on_diagonal])
    variances = coordinates.var(axis=0)
    for kind in (on_diagonal, ~on_diagonal):
        if kind.any():
            average = variances[kind].mean()
            weight = len(draws) / (len(draws) + _SHRINKAGE)
            variances[kind] = weight * variances[kind] + (1 - weight) * average
    return state._replace(inverse_mass=variances)


@njit(cache=True, nogil=True, error_model="numpy")
def _compiled_run(
    rng,
    posterior,
    centre_factor,
    position,
    inverse_mass,
    dense_mass,
    step_size,
    adapt,
    numbers,
    work,
    draws,
    statistics,
):
    """Make transitions from ``position``, in place, and return the step size to go on with."""
    n_steps, trajectory_length, jitter, target_acceptance, max_steps = numbers
    d = position.size
    gradient = np.empty(d)
    proposal = np.empty(d)
    proposal_gradient = np.empty(d)
    momentum = np.empty(d)
    velocity = np.empty(d)
    value = unconstrained_value_and_gradient(posterior, centre_factor, position, gradient, work)
    # Dual averaging (Hoffman and Gelman 2014, section 3.2).
    start = np.log(10.0 * step_size)
    error = 0.0
    smoothed = np.log(step_size)
    for t in range(draws.shape[0]):
        kinetic = _draw_momentum(rng, inverse_mass, dense_mass, momentum)
        energy = kinetic - value
        wanted = n_steps if n_steps > 0 else trajectory_length / step_size
        wanted *= 1.0 + jitter * (2.0 * rng.random() - 1.0)
        steps = int(max(1.0, min(np.round(wanted), max_steps)))
        proposal[:] = position
        proposal_gradient[:] = gradient
        new_value = value
        done = 0
        for _ in range(steps):
            new_value = leapfrog(
                posterior,
                centre_factor,
                proposal,
                momentum,
                proposal_gradient,
                inverse_mass,
                dense_mass,
                step_size,
                velocity,
                work,
            )
            done += 1
            if not new_value > -np.inf:
                break
        kinetic = _velocity(momentum, inverse_mass, dense_mass, velocity)
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
        sigma_h = sigma_h_of(centre_factor, position, work)
        for i in range(sigma_h.shape[0]):
            for j in range(i + 1):
                draws[t, i, j] = sigma_h[i, j]
                draws[t, j, i] = sigma_h[i, j]
        statistics[0, t] = acceptance
        statistics[1, t] = energy
        statistics[2, t] = done
        statistics[3, t] = divergent
    return np.exp(smoothed) if adapt else step_size


@njit(cache=True, nogil=True, error_model="numpy")
def leapfrog(
    posterior,
    centre_factor,
    position,
    momentum,
    gradient,
    inverse_mass,
    dense_mass,
    step_size,
    velocity,
    work,
):
    """One step, in place; ``gradient`` belongs to ``position`` before and after. Returns the value."""
    for k in range(position.size):
        momentum[k] += 0.5 * step_size * gradient[k]
    _velocity(momentum, inverse_mass, dense_mass, velocity)
    for k in range(position.size):
        position[k] += step_size * velocity[k]
    value = unconstrained_value_and_gradient(posterior, centre_factor, position, gradient, work)
    for k in range(position.size):
        momentum[k] += 0.5 * step_size * gradient[k]
    return value


@njit(cache=True, nogil=True)
def _draw_momentum(rng, inverse_mass, dense_mass, momentum):
    """Draw a momentum from N(0, M) and return its kinetic energy."""
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


@njit(cache=True, nogil=True)
def _velocity(momentum, inverse_mass, dense_mass, velocity):
    """Write M^-1 momentum and return the kinetic energy."""
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
