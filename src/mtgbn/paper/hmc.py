"""Hamiltonian Monte Carlo for sigma_h (docs/model.md, section 7; the paper's Algorithm 2).

The paper's algorithm with four additions that make it usable: coordinates centred at an estimate of
sigma_h, a step size found by dual averaging, a diagonal mass matrix learned during warm-up, and
trajectories of random length. The trajectories between two adaptations are one compiled loop.
"""

from numbers import Real
from typing import NamedTuple

import numpy as np

from mtgbn.chain.updates.sigma_h import (
    Hamiltonian,
    HMCInfo,
    TrajectorySettings,
    contiguous_factor,
    degrees_of_freedom,
    empty_info,
    find_step_size,
    learned_inverse_mass,
    run_trajectories,
)
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_positive_definite
from mtgbn.model.coordinates import (
    coordinates_workspace,
    from_unconstrained,
    to_unconstrained,
)
from mtgbn.model.posterior import Posterior

# Warm-up: after the second and the third window the coordinates are centred at the window's mean and
# the masses set to its precisions; the step size is adapted anew in every window.
_WINDOWS = (0.1, 0.2, 0.35, 0.35)

# Draws between two calls of ``progress``; an exception in such a call stops the run.
_PORTION = 25

# Smallest number of draws in a window from which something can be learned.
_SHORTEST_WINDOW = 10

# Largest number of steps of a trajectory that can be set.
_MOST_STEPS = 1_000_000


class HMCSettings(NamedTuple):
    """Settings of HMC; the symbols of the paper's Algorithm 2 are in brackets.

    Attributes
    ----------
    n_steps : int or None
        Leapfrog steps per trajectory [K]; None: the trajectory length over the step size.
    step_size : float or None
        [epsilon]; None: found by dual averaging during warm-up.
    mass_matrix : array (d,) or (d, d), or None
        [M], d = p (p + 1)/2; a vector is a diagonal matrix. None: learned during warm-up.
    whiten : bool
        Centre the coordinates at an estimate of sigma_h, which warm-up improves. False: the paper's
        coordinates, the log-Cholesky factor of sigma_h itself.
    trajectory_length : float
        In standard deviations of the posterior, as estimated by the mass matrix.
    jitter : float
        The length of each trajectory is drawn from 1 - jitter to 1 + jitter times the given one.
    target_acceptance : float
    max_steps : int
        Largest number of steps of a trajectory when ``n_steps`` is None.
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
        ranges = {
            "n_steps": (1, _MOST_STEPS),
            "step_size": (1e-100, 1e100),
            "trajectory_length": (1e-100, 1e100),
            "jitter": (0, 0.999),
            "target_acceptance": (0.001, 0.999),
            "max_steps": (1, _MOST_STEPS),
        }
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if value is None and name in ("n_steps", "step_size"):
                continue
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            is_whole = is_number and "steps" in name and float(value).is_integer()
            if not is_number or not least <= value <= most or ("steps" in name and not is_whole):
                kind = "a whole number" if "steps" in name else "a number"
                raise InputError(f"{name} must be {kind} from {least:g} to {most:g}; got {value!r}")


class HMCState(NamedTuple):
    """Where a chain of sigma_h given graphs stands, with its coordinates, masses and step size.

    A step size of 0 means that none has been found yet.
    """

    centre: np.ndarray
    position: np.ndarray
    inverse_mass: np.ndarray
    step_size: float
    whitened: bool

    @property
    def sigma_h(self) -> np.ndarray:
        """The present draw."""
        return from_unconstrained(self.position, self.centre)


def initial_state(
    posterior: Posterior,
    sigma_h: np.ndarray,
    whiten: bool = True,
    rng: np.random.Generator | None = None,
) -> HMCState:
    """Start at ``sigma_h``, with the masses of a Wishart distribution of as many degrees of freedom.

    Around its mean, a Wishart distribution with n degrees of freedom has variance 1/n in the whitened
    coordinates below the diagonal and 1/(2 n) on it. With ``rng`` the start is drawn from a normal
    distribution with these variances: R-hat needs chains that start at different points.
    """
    p = posterior.n_variables
    rows, columns = np.tril_indices(p)
    diagonal = rows == columns
    centre_factor = contiguous_factor(sigma_h)
    degrees = degrees_of_freedom(posterior, centre_factor, coordinates_workspace(posterior))
    variances = np.where(diagonal, 0.5, 1.0) / degrees
    position = np.zeros(len(rows))
    if rng is not None:
        position = rng.standard_normal(len(rows)) * np.sqrt(variances)
    state = HMCState(sigma_h, position, variances, 0.0, True)
    if whiten:
        return state
    # The same in the paper's coordinates: l_ij = sum_k (L0)_ik z_kj, with z_jj of half the variance.
    squares = centre_factor**2
    below = np.array(
        [squares[i, j] / 2 + squares[i, j + 1 :].sum() for i, j in zip(rows, columns, strict=True)]
    )
    variances = np.where(diagonal, 0.5, below) / degrees
    identity = np.eye(p)
    return HMCState(identity, to_unconstrained(state.sigma_h, identity), variances, 0.0, False)


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
        Where the chain ended; another run can go on from there.
    """
    if state.whitened != settings.whiten:
        state = initial_state(posterior, state.sigma_h, settings.whiten)
    dense_mass, state = _fixed_mass(posterior, state, settings)
    if settings.step_size is not None:
        state = state._replace(step_size=float(settings.step_size))
    state = _with_step_size(posterior, state, dense_mass, rng)
    windows = np.diff(np.round(np.cumsum([0.0, *_WINDOWS]) * n_warmup).astype(int))
    if windows.min() < _SHORTEST_WINDOW:  # enough for the step size only
        windows = np.array([n_warmup])
    for number, length in enumerate(windows):
        draws, _, state = _run(posterior, state, rng, length, settings, dense_mass, adapts=True)
        if 0 < number < len(windows) - 1:
            state = _learned(state, draws, settings)
        if progress is not None:
            progress(int(length))
    draws, infos = [], []
    for start in range(0, n_draws, _PORTION):
        length = min(_PORTION, n_draws - start)
        portion, info, state = _run(
            posterior, state, rng, length, settings, dense_mass, adapts=False
        )
        draws.append(portion)
        infos.append(info)
        if progress is not None:
            progress(length)
    info = HMCInfo(*(np.concatenate(columns) for columns in zip(*infos, strict=True)))
    return np.concatenate(draws), info, state


def _with_step_size(posterior, state, dense_mass, rng) -> HMCState:
    """The state with a step size, which is searched for if there is none yet."""
    if state.step_size != 0:
        return state
    hamiltonian = _hamiltonian(posterior, state, dense_mass)
    work = coordinates_workspace(posterior)
    return state._replace(step_size=find_step_size(rng, hamiltonian, state.position, work))


def _run(posterior, state, rng, n, settings, dense_mass, *, adapts):
    p = posterior.n_variables
    draws, info = np.empty((n, p, p)), empty_info(n)
    position = state.position.copy()
    step_size = run_trajectories(
        rng,
        _hamiltonian(posterior, state, dense_mass),
        position,
        state.step_size,
        adapts and settings.step_size is None and n >= _SHORTEST_WINDOW,
        TrajectorySettings(
            n_steps=float(settings.n_steps or 0),
            trajectory_length=float(settings.trajectory_length),
            jitter=float(settings.jitter),
            target_acceptance=float(settings.target_acceptance),
            max_steps=float(settings.max_steps),
        ),
        coordinates_workspace(posterior),
        draws,
        info,
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
        return contiguous_factor(check_positive_definite(mass, "mass_matrix")), state
    raise InputError(f"mass_matrix must have shape ({d},) or ({d}, {d}); got {mass.shape}")


def _learned(state: HMCState, draws: np.ndarray, settings: HMCSettings) -> HMCState:
    """Centre the coordinates at the mean of the draws and learn their variances there."""
    if settings.whiten:
        mean = draws.mean(axis=0)
        state = state._replace(centre=mean, position=to_unconstrained(state.sigma_h, mean))
    if settings.mass_matrix is not None:
        return state
    inverse_mass = learned_inverse_mass(draws, state.centre, state.inverse_mass)
    return state._replace(inverse_mass=inverse_mass)


def _hamiltonian(posterior: Posterior, state: HMCState, dense_mass: np.ndarray) -> Hamiltonian:
    return Hamiltonian(posterior, contiguous_factor(state.centre), state.inverse_mass, dense_mass)
