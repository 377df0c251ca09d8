"""Running a chain: portions of rounds, adaptation, the trace (docs/model.md, section 14)."""

from collections.abc import Callable

import numpy as np

from mtgbn.chain.kernel import run_rounds
from mtgbn.chain.likelihoods import task_log_likelihoods
from mtgbn.chain.state import ChainData, ChainState, ChainTrace, copy_of, empty_trace
from mtgbn.chain.updates.edge_prior import update_edge_prior
from mtgbn.chain.updates.missing_values import update_missing_values
from mtgbn.chain.updates.sigma_h import contiguous_factor, learned_inverse_mass
from mtgbn.errors import InputError
from mtgbn.model.coordinates import from_unconstrained, to_unconstrained

__all__ = ["run_chain", "single_log_likelihoods"]

# Rounds of adaptation after which the coordinates of Psi are centred anew and their masses learned.
_LEARNING_ROUNDS = (10, 25, 50, 100, 200, 400)

# A portion of rounds, between two calls of ``progress``: this number divided by the number of variables
# in all tasks, but at most the second number.
_PORTION, _LARGEST_PORTION = 1000, 25


def run_chain(
    data: ChainData,
    state: ChainState,
    rng: np.random.Generator,
    n_rounds: int,
    *,
    adapts: bool,
    progress: Callable[[int], None] | None = None,
) -> tuple[ChainTrace, ChainState]:
    """Run a number of rounds; while a chain adapts its draws are not yet those of the posterior.

    Parameters
    ----------
    data : ChainData
    state : ChainState
        Stays as it is.
    rng : numpy.random.Generator
    n_rounds : int
    adapts : bool
        Whether step sizes, and in some rounds the coordinates, are adapted.
    progress : callable, optional
        Called with the number of rounds just run; the chain can be stopped by an exception there.

    Returns
    -------
    trace : ChainTrace
    state : ChainState
        The end; another run goes on from there.
    """
    m, p, _ = state.scatters.shape
    state, trace = copy_of(state), empty_trace(n_rounds, m, p)
    portion = int(np.clip(_PORTION // (m * p), 1, _LARGEST_PORTION))
    if data.samples_edge_prior or data.incomplete.size:
        portion = 1  # their updates follow every round
    psi_factor = contiguous_factor(state.centre)
    first = 0
    while first < n_rounds:
        last = min(first + portion, n_rounds)
        if adapts:
            left = [each - int(state.n_adapted) for each in _LEARNING_ROUNDS]
            last = min([last, *(first + each for each in left if each > 0)])
        run_rounds(rng, data, state, psi_factor, first, last, adapts, trace)
        trace.scatters[:] += (last - first) * state.scatters
        _update_the_rest(rng, data, state, trace, last)
        if adapts:
            window = np.concatenate([state.window, trace.psi[first:last]])
            state = state._replace(window=window)
            if int(state.n_adapted) in _LEARNING_ROUNDS:
                state = _learned(state)
                psi_factor = contiguous_factor(state.centre)
        if progress is not None:
            progress(last - first)
        first = last
    n_moves = max(n_rounds * data.n_moves, 1)
    return trace._replace(
        log_odds=trace.log_odds / max(n_rounds, 1),
        move_frequencies=trace.move_frequencies / n_moves,
        scatters=trace.scatters / max(n_rounds, 1),
        row_means=trace.row_means / max(n_rounds, 1),
    ), state


def _update_the_rest(
    rng: np.random.Generator, data: ChainData, state: ChainState, trace: ChainTrace, last: int
) -> None:
    """The updates at the end of a round that most fits do not need; see docs/decisions.md."""
    for k, t in enumerate(data.incomplete):
        rows = state.rows[data.row_starts[k] : data.row_starts[k + 1]]
        trace.row_means[t] += rows.mean(axis=0)
    if data.samples_edge_prior:
        update_edge_prior(rng, data, state)
    if data.incomplete.size:
        sigma_h = float(state.delta) * trace.psi[last - 1]
        if not update_missing_values(rng, data, state, sigma_h):
            raise InputError(
                "sigma_h or a precision became numerically singular; rescale or drop variables"
            )


def _learned(state: ChainState) -> ChainState:
    """Centre the coordinates at the mean of the window, and learn their variances there."""
    centre = state.window.mean(axis=0)
    psi = from_unconstrained(state.coordinates, state.centre)
    return state._replace(
        centre=centre,
        coordinates=to_unconstrained(psi, centre),
        inverse_mass=learned_inverse_mass(state.window, centre, state.inverse_mass),
        n_learned=state.n_adapted.copy(),
        window=state.window[:0],
    )


def single_log_likelihoods(
    data: ChainData, scatters: np.ndarray, adjacencies: np.ndarray
) -> np.ndarray:
    """Log marginal likelihood of every task as a single task, up to a constant of the data, (m,)."""
    m, p, _ = scatters.shape
    values = np.empty(m)
    task_log_likelihoods(
        np.array(adjacencies, order="C"),  # in another order the kernel would be compiled once more
        np.zeros(m, dtype=bool),
        np.array(scatters),
        data.ns,
        np.zeros((p, p)),
        0.0,
        data.single_scales,
        values,
    )
    return values
