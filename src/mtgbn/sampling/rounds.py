"""Rounds of a chain over everything, in compiled code (docs/model.md, section 14).

A round renews sigma_h, delta, who belongs to the others, and the graphs, each given the rest. With few
variables calls from Python would take longer than the work, so that rounds come in portions.
"""

from math import lgamma, sqrt
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.model.family_terms import family_terms
from mtgbn.model.log_determinants import LANES
from mtgbn.model.posterior import Posterior
from mtgbn.model.unstructured import log_prior_of_delta
from mtgbn.sampling.conditionals import NU0_STEPS, step_delta
from mtgbn.sampling.graph_moves import Alone, log_likelihoods, move_graphs
from mtgbn.sampling.shared_edges import add_log_odds, draw_members, log_probability_of_edges
from mtgbn.sampling.trajectories import Hamiltonian, begin, run_trajectories

__all__ = ["Gathered", "Given", "Position", "make_rounds", "nothing_gathered"]

_TARGET_ACCEPTANCE, _NU0_ACCEPTANCE = 0.8, 0.4

# The largest step of ln delta, in standard deviations of a proposal.
_LARGEST_NU0_STEP = 3.0

# No fixed number of steps; trajectories of so many standard deviations (shorter than for draws of
# sigma_h alone, since a round moves on), by so much longer or shorter; a target; most steps.
_TRAJECTORIES = (0.0, 1.5, 0.5, _TARGET_ACCEPTANCE, 256.0)


class Given(NamedTuple):
    """What stays the same from round to round; see `JointModel`.

    ``free`` (m, p, p): pairs that may be joined or not; ``anywhere`` (p, p): in any task.
    ``coefficient``: of ln|sigma_h| in its prior.
    """

    ns: np.ndarray
    scales: np.ndarray
    coefficient: float
    alone: Alone
    constraints: tuple
    free: np.ndarray
    anywhere: np.ndarray
    n_moves: int
    has_outsiders: bool
    samples_delta: bool


class Position(NamedTuple):
    """Where HMC stands.

    ``centre_factor`` is the Cholesky factor of the centre of Psi = sigma_h / delta; the others are
    changed in place.
    """

    centre_factor: np.ndarray
    coordinates: np.ndarray
    inverse_mass: np.ndarray


class Gathered(NamedTuple):
    """What is written or added to; see `Trace`. ``numbers`` (6, rounds) are the arrays after ``psi``."""

    psi: np.ndarray
    numbers: np.ndarray
    log_odds: np.ndarray
    tallies: np.ndarray
    ends: np.ndarray
    members: np.ndarray
    advantages: np.ndarray


def nothing_gathered(n_rounds: int, m: int, p: int) -> Gathered:
    """Room for so many rounds of m tasks with p variables."""
    return Gathered(
        np.empty((n_rounds, p, p)),
        np.empty((6, n_rounds)),
        np.zeros((m, p, p)),
        np.zeros((m, p, p)),
        np.zeros((m, p, p), dtype=np.int32),
        np.empty((n_rounds, m), dtype=bool),
        np.empty((n_rounds, m)),
    )


@kernel(error_model="numpy")
def make_rounds(
    rng,
    given,
    edge_terms,
    graphs,
    counts,
    scatters,
    position,
    steps,
    adapted,
    first,
    last,
    gathered,
):
    """Make the rounds ``first`` to ``last``, in place.

    Parameters
    ----------
    rng : numpy.random.Generator
    given : Given
    edge_terms : EdgeTerms
    graphs : GraphStates
    counts : array (p, p)
        Members that have i -> j.
    scatters : array (m, p, p)
    position : Position
    steps : tuple of float
        delta; the step size of HMC, 0 for a chain that has yet to begin; that of ln delta.
    adapted : tuple of int
        Rounds that adapted step sizes so far, those up to the last change of coordinates; negative if
        step sizes are not to be adapted.
    first, last : int
    gathered : Gathered

    Returns
    -------
    delta, step_size, nu0_step : float
    diverging : int
    """
    m, p, _ = scatters.shape
    delta, step_size, nu0_step = steps
    adapted_rounds, learned = adapted
    nobody, everybody = np.zeros(m, dtype=np.bool_), np.ones(m, dtype=np.bool_)
    alone, together, values = np.empty(m), np.empty(m), np.empty(m)
    squares = np.zeros((5, p, p))
    no_mass = np.empty((0, 0))
    draws, statistics = np.empty((1, p, p)), np.empty((4, 1))
    sigma_h = draws[0]
    centre_factor = np.empty((p, p))
    diverging = 0
    for k in range(first, last):
        terms = family_terms(graphs.adjacencies, graphs.members, scatters, given.ns, delta)
        size = 0
        for each in terms.outer_sizes:
            size = max(size, each)
        triangle = (size * (size + 1) // 2, LANES)
        small = (np.empty(triangle), np.empty(triangle), np.empty(LANES), np.empty(LANES))
        work = (squares[0], squares[1], squares[2], squares[3], squares[4], small)
        posterior = Posterior(terms, given.coefficient, 0.0, p, delta * given.scales)
        for i in range(p):
            for j in range(p):
                centre_factor[i, j] = sqrt(delta) * position.centre_factor[i, j]
        hamiltonian = Hamiltonian(posterior, centre_factor, position.inverse_mass, no_mass)
        if step_size == 0.0:
            step_size = begin(rng, hamiltonian, position.coordinates, work)
        run_trajectories(
            rng,
            hamiltonian,
            position.coordinates,
            step_size,
            False,
            _TRAJECTORIES,
            work,
            draws,
            statistics,
        )
        acceptance = statistics[0, 0]
        diverging += statistics[3, 0] > 0
        accepted = 0
        if given.samples_delta:
            before = delta
            delta, accepted = step_delta(
                rng,
                graphs.adjacencies,
                graphs.members,
                scatters,
                given.ns,
                sigma_h,
                delta,
                given.alone,
                nu0_step,
            )
            # Psi is held, and so are its coordinates.
            for i in range(p):
                for j in range(p):
                    sigma_h[i, j] *= delta / before
        _likelihoods(given, graphs, nobody, scatters, sigma_h, delta, alone)
        _likelihoods(given, graphs, everybody, scatters, sigma_h, delta, together)
        for t in range(m):
            gathered.advantages[k, t] = together[t] - alone[t]
        if given.has_outsiders:
            draw_members(
                rng,
                graphs,
                counts,
                gathered.advantages[k],
                edge_terms,
                given.constraints[0],
                given.free,
            )
        if given.n_moves > 0:
            move_graphs(
                rng,
                graphs,
                counts,
                scatters,
                given.ns,
                sigma_h,
                delta,
                given.alone,
                edge_terms,
                given.constraints,
                given.n_moves,
                gathered.tallies,
            )
        add_log_odds(graphs, counts, edge_terms, gathered.log_odds)
        _likelihoods(given, graphs, graphs.members, scatters, sigma_h, delta, values)
        value = log_prior_of_delta(delta)
        value += log_probability_of_edges(graphs, counts, edge_terms, given.anywhere)
        n_members = n_edges = 0
        for t in range(m):
            value += values[t]
            gathered.members[k, t] = graphs.members[t]
            n_members += graphs.members[t]
            for i in range(p):
                for j in range(p):
                    if graphs.adjacencies[t, i, j]:
                        n_edges += 1
                        gathered.ends[t, i, j] += 1
        # Their share is uniform beforehand.
        value += lgamma(n_members + 1.0) + lgamma(m - n_members + 1.0) - lgamma(m + 2.0)
        for i in range(p):
            for j in range(p):
                gathered.psi[k, i, j] = sigma_h[i, j] / delta
        gathered.numbers[0, k] = delta
        gathered.numbers[3, k] = value
        gathered.numbers[4, k] = n_edges
        gathered.numbers[5, k] = acceptance
        if adapted_rounds >= 0:
            adapted_rounds += 1
            gain = (adapted_rounds - learned) ** -0.6
            step_size *= np.exp(gain * (acceptance - _TARGET_ACCEPTANCE))
            if given.samples_delta:
                error = accepted / NU0_STEPS - _NU0_ACCEPTANCE
                nu0_step *= np.exp(adapted_rounds**-0.6 * error)
                nu0_step = min(nu0_step, _LARGEST_NU0_STEP)
    return delta, step_size, nu0_step, diverging


@kernel(error_model="numpy")
def _likelihoods(given, graphs, members, scatters, sigma_h, delta, values):
    """Write the log likelihood of every task, as if these were the members."""
    log_likelihoods(
        graphs.adjacencies, members, scatters, given.ns, sigma_h, delta, given.alone, values
    )
