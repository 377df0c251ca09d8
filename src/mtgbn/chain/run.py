"""Running a chain: portions of rounds, adaptation, trace (docs/model.md, section 14)."""

from collections.abc import Callable

import numpy as np

from mtgbn.chain.kernel import run_rounds
from mtgbn.chain.likelihoods import log_likelihoods
from mtgbn.chain.state import (
    ChainData,
    ChainState,
    ChainTrace,
    chain_data,
    copy_of,
    empty_trace,
    first_state,
)
from mtgbn.chain.updates.missing_values import update_missing_values
from mtgbn.chain.updates.sigma_h import (
    begin_trajectories,
    bounded_inverse_mass,
    contiguous_factor,
    learned_inverse_mass,
)
from mtgbn.errors import InputError
from mtgbn.model.coordinates import from_unconstrained, to_unconstrained
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.search.knowledge import no_constraints
from mtgbn.tasks import Tasks

# Rounds of adaptation after which the coordinates of Psi are centred anew and their masses learned.
_LEARNING_ROUNDS = (10, 25, 50, 100, 200, 400)

# Rounds in a portion, after which ``progress`` is called: the first number divided by the number of
# variables in all tasks, at most the second number.
_PORTION, _LARGEST_PORTION = 1000, 25


def run_chain(
    data: ChainData,
    state: ChainState,
    rng: np.random.Generator,
    n_rounds: int,
    *,
    adapts: bool,
    learns: bool = True,
    progress: Callable[[int], None] | None = None,
) -> tuple[ChainTrace, ChainState]:
    """Run a number of rounds; while a chain adapts its draws are not yet those of the posterior.

    The given state stays as it is. With ``adapts``, step sizes are adapted and, if the chain also
    ``learns``, in some rounds the coordinates. ``progress`` is called with the number of rounds just
    run; an exception there stops the chain. Returns the trace, and the state at the end, from which
    another run goes on.
    """
    m, p, _ = state.scatters.shape
    has_groups = bool(data.groups.any()) and state.kinds.size > 0
    state, trace = copy_of(state), empty_trace(n_rounds, m, p, has_groups)
    portion = int(np.clip(_PORTION // (m * p), 1, _LARGEST_PORTION))
    if data.incomplete.size:
        portion = 1  # the update of missing values follows every round
    psi_factor = contiguous_factor(state.centre)
    if n_rounds and state.step_size == 0:
        begin_trajectories(rng, data, state, psi_factor, True)
    first = 0
    while first < n_rounds:
        last = min(first + portion, n_rounds)
        if adapts and learns:
            left = [each - int(state.n_adapted) for each in _LEARNING_ROUNDS]
            last = min([last, *(first + each for each in left if each > 0)])
        run_rounds(rng, data, state, psi_factor, first, last, adapts, trace)
        trace.scatters[:] += (last - first) * state.scatters
        if data.incomplete.size:
            _fill_in(rng, data, state, trace, last)
        if adapts and learns:
            window = np.concatenate([state.window, trace.psi[first:last]])
            state = state._replace(window=window)
            if int(state.n_adapted) in _LEARNING_ROUNDS:
                state = _learned(state)
                psi_factor = contiguous_factor(state.centre)
                begin_trajectories(rng, data, state, psi_factor, False)
        if progress is not None:
            progress(last - first)
        first = last
    n_moves = max(n_rounds * data.n_moves, 1)
    return trace._replace(
        log_odds=trace.log_odds / max(n_rounds, 1),
        differences=trace.differences / max(n_rounds, 1),
        move_frequencies=trace.move_frequencies / n_moves,
        scatters=trace.scatters / max(n_rounds, 1),
        row_means=trace.row_means / max(n_rounds, 1),
    ), state


def _fill_in(
    rng: np.random.Generator, data: ChainData, state: ChainState, trace: ChainTrace, last: int
) -> None:
    """Update the missing values, after their rows have been recorded."""
    for k, t in enumerate(data.incomplete):
        rows = state.rows[data.row_starts[k] : data.row_starts[k + 1]]
        trace.row_means[t] += rows.mean(axis=0)
    sigma_h = float(state.delta) * trace.psi[last - 1]
    if not update_missing_values(rng, data, state, sigma_h):
        raise InputError(
            "sigma_h or a precision became numerically singular; rescale or drop variables"
        )


def _learned(state: ChainState) -> ChainState:
    """Centre the coordinates at the mean of the window, and learn the masses from their variances."""
    centre = state.window.mean(axis=0)
    psi = from_unconstrained(state.coordinates, state.centre)
    learned = learned_inverse_mass(state.window, centre, state.inverse_mass)
    return state._replace(
        centre=centre,
        coordinates=to_unconstrained(psi, centre),
        inverse_mass=bounded_inverse_mass(learned, state.inverse_mass, len(centre)),
        n_learned=state.n_adapted.copy(),
        window=state.window[:0],
    )


def single_log_likelihoods(
    data: ChainData, scatters: np.ndarray, adjacencies: np.ndarray
) -> np.ndarray:
    """Log marginal likelihood of every task as a single task, (m,), up to a constant of the data."""
    m, p, _ = scatters.shape
    values = np.empty((m, p))
    log_likelihoods(
        np.array(adjacencies, order="C"),  # in another order the kernel would be compiled once more
        np.array(scatters),
        data.ns,
        data.single_scales,
        np.zeros((m, p), dtype=bool),
        np.zeros((p, p)),
        0.0,
        values,
    )
    return values.sum(axis=1)


def rehearse(begins: bool) -> None:
    """Compile kernels on made-up data: the one with which a chain begins, or that of a round."""
    rng = np.random.default_rng(0)
    tasks = Tasks.from_arrays([rng.standard_normal((20, 3)) for _ in range(2)])
    data = chain_data(tasks, no_constraints(3), n_moves=1)
    graphs = np.zeros((2, 3, 3), dtype=bool)
    state = first_state(data, tasks, graphs, delta=30.0, edge_prior=EdgePrior(0.5, 4.0))
    if begins:
        begin_trajectories(rng, data, state, contiguous_factor(state.centre), True)
    else:
        run_chain(data, state._replace(step_size=np.array(0.1)), rng, 1, adapts=False)
