"""Sampling everything together: sigma_h, nu0, the graphs and the edge prior (docs/model.md, section 14).

One round of a chain renews each of these given the others: sigma_h by a trajectory of HMC, delta by
Metropolis steps with Psi = sigma_h / delta held, the graphs by the moves of `graph_moves`, r and s by
Metropolis steps given the number of tasks that have each edge, missing values from their conditional
distribution. Which of them are held fixed is a setting.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.graphs.dags import descendants, topological_order
from mtgbn.model.edge_prior import (
    EdgePrior,
    EdgePriorChoice,
    free_pairs,
)
from mtgbn.model.posterior import HyperPrior
from mtgbn.model.unstructured import unstructured_sigma_h
from mtgbn.sampling import hmc
from mtgbn.sampling.conditionals import (
    likelihoods,
    reconsider_members,
    renew_edge_prior,
)
from mtgbn.sampling.graph_moves import Alone
from mtgbn.sampling.imputation import Completed, draw_missing, first_completion
from mtgbn.sampling.rounds import Given, Position, make_rounds, nothing_gathered
from mtgbn.sampling.shared_edges import EdgeTerms, GraphStates
from mtgbn.tasks import Tasks

__all__ = [
    "ALONE_DELTA",
    "JointModel",
    "JointState",
    "Trace",
    "alone_scales",
    "begin_chain",
    "joint_model",
    "likelihoods_alone",
    "reconsidered",
    "run_rounds",
]

# delta of the prior of a task on its own, whose mean are its variances.
ALONE_DELTA = 3.0

# Rounds after which the coordinates of sigma_h are centred anew and their masses learned.
_LEARNING = (10, 25, 50, 100, 200, 400)

# Rounds between two calls of ``progress``, at which a run can be stopped: so many divided by the number
# of variables in all tasks together, within limits.
_AT_ONCE, _MOST_AT_ONCE = 1000, 25


class JointModel(NamedTuple):
    """What is given: data, priors, what to hold fixed.

    Attributes
    ----------
    scatters, ns : array (m, p, p), (m,)
    scales : array (p,)
        Diagonal of the scale matrix of the prior of Psi = sigma_h / delta.
    nu0 : float or None
        None: sampled.
    edge_prior : EdgePriorChoice
    constraints : tuple
        Allowed edges (m, p, p), required ones (p, p), most parents.
    n_moves : int
        Moves between graphs, per task and round; 0 holds the graphs fixed.
    incomplete : tuple of (int, float)
        Tasks with missing values, and what the scatter of their completed rows is multiplied by.
    alone : Alone
        Prior of tasks that do not belong.
    has_outsiders : bool
        Whether a task may turn out not to belong to the others.
    alone_prior : EdgePrior or None
        Of the edges of tasks that do not belong. None: with the density of the others.
    agreement : float
        How independent the directions of shared edges are; infinity: not shared.
    """

    scatters: np.ndarray
    ns: np.ndarray
    scales: np.ndarray
    nu0: float | None
    edge_prior: EdgePriorChoice
    constraints: tuple
    n_moves: int
    incomplete: tuple[tuple[int, float], ...]
    alone: Alone
    has_outsiders: bool
    alone_prior: EdgePrior | None
    agreement: float

    @property
    def free(self) -> np.ndarray:
        """Pairs that may be joined or not, (m, p, p)."""
        allowed, required, _ = self.constraints
        return free_pairs(allowed, required)

    def edge_prior_alone(self, prior: EdgePrior) -> EdgePrior:
        """That of a task that does not belong, when the others have this one."""
        return self.alone_prior or prior._replace(similarity=np.inf)

    def log_odds_alone(self, prior: EdgePrior) -> np.ndarray:
        """Log odds of every edge in a task that does not belong, (p, p)."""
        alone = self.edge_prior_alone(prior)
        return np.ascontiguousarray(alone.matrix_of_log_odds(len(self.scales)))

    def given(self) -> Given:
        """What stays the same from round to round, as compiled code needs it."""
        free = self.free
        return Given(
            self.ns,
            self.scales,
            HyperPrior(self.scales).coefficient,
            self.alone,
            self.constraints,
            free,
            free.any(axis=0),
            self.n_moves,
            self.has_outsiders,
            self.nu0 is None,
        )

    def edge_terms(self, prior: EdgePrior) -> EdgeTerms:
        """The edge prior, as compiled code needs it."""
        return EdgeTerms(
            prior.matrix(len(self.scales)),
            float(prior.similarity),
            self.agreement,
            self.log_odds_alone(prior),
        )


class JointState(NamedTuple):
    """Where a chain stands; ``rounds`` counts those in which it adapted.

    The centre of ``hmc`` is one of Psi = sigma_h / delta, whose coordinates do not depend on delta.
    ``scatters`` are those of the data with the present draw of missing values, ``completed`` the rows of
    the tasks that lack some.
    """

    hmc: hmc.HMCState
    delta: float
    edge_prior: EdgePrior
    adjacencies: np.ndarray
    orders: np.ndarray
    members: np.ndarray
    scatters: np.ndarray
    completed: tuple[Completed, ...]
    nu0_step: float = 0.3
    rounds: int = 0
    learned: int = 0
    window: np.ndarray = np.empty((0, 0, 0))


class Trace(NamedTuple):
    """What some rounds of a chain went through.

    Attributes
    ----------
    psi : array (rounds, p, p)
        sigma_h / delta.
    delta, density, similarity, log_density, n_edges, acceptance : array (rounds,)
        ``log_density`` is that of data, graphs, members and ln delta given Psi and the edge prior.
    log_odds : array (m, p, p)
        Mean over the rounds of the edge prior's log odds in every task, given the other tasks' graphs.
    tallies : array (m, p, p)
        Share of the moves after which i -> j was there.
    ends : array (m, p, p)
        Rounds at whose end i -> j was there.
    scatters : array (m, p, p)
        Mean over the rounds.
    means : array (m, p)
        Of the completed rows, over the rounds; 0 for tasks without missing values.
    members : array (rounds, m)
        Whether a task belonged to the others.
    advantages : array (rounds, m)
        Log likelihood of a task's data with the shared sigma_h minus that on its own.
    diverging : int
    """

    psi: np.ndarray
    delta: np.ndarray
    density: np.ndarray
    similarity: np.ndarray
    log_density: np.ndarray
    n_edges: np.ndarray
    acceptance: np.ndarray
    log_odds: np.ndarray
    tallies: np.ndarray
    ends: np.ndarray
    scatters: np.ndarray
    means: np.ndarray
    members: np.ndarray
    advantages: np.ndarray
    diverging: int


def joint_model(
    tasks: Tasks,
    nu0: float | None,
    edge_prior: EdgePriorChoice,
    constraints: tuple,
    n_moves: int,
    has_outsiders: bool = True,
    alone_prior: EdgePrior | None = None,
    agreement: float = np.inf,
) -> JointModel:
    """Put together what is given; the prior of Psi is centred at the pooled variances."""
    scatters = np.ascontiguousarray(tasks.scatters)
    scales = np.einsum("tii->i", scatters) / tasks.ns.sum()
    allowed, required, most_parents = constraints
    # An edge with one direction gets odds for two, since half of the orders do not admit it. Where
    # required edges settle the order all do; the other direction closes a cycle, and may be allowed.
    allowed = allowed | (np.swapaxes(allowed, 1, 2) & descendants(required).T)
    incomplete = tuple((t, tasks.scatter_factor(t)) for t in sorted(tasks.incomplete))
    return JointModel(
        scatters,
        tasks.ns,
        scales,
        nu0,
        edge_prior,
        (allowed, required, most_parents),
        n_moves,
        incomplete,
        Alone(alone_scales(scatters, tasks.ns), ALONE_DELTA),
        has_outsiders and len(tasks) > 1,
        alone_prior,
        float(agreement),
    )


def alone_scales(scatters: np.ndarray, ns: np.ndarray) -> np.ndarray:
    """Diagonals of the prior matrices of tasks on their own: their variances, which are its mean."""
    return np.einsum("tii->ti", scatters) / ns[:, None]


def likelihoods_alone(model: JointModel, adjacencies: np.ndarray) -> np.ndarray:
    """Log marginal likelihood of every task on its own, up to a constant of the data, (m,)."""
    m, p, _ = model.scatters.shape
    nobody, unused = np.zeros(m, dtype=bool), np.zeros((p, p))
    # Copies, since arrays that may not be written to would have kernels of their own.
    graphs = GraphStates(np.array(adjacencies), np.empty((m, 0), dtype=np.int64), nobody)
    return likelihoods(model, graphs, nobody, np.array(model.scatters), unused, 0.0)


def begin_chain(
    model: JointModel, tasks: Tasks, adjacencies: np.ndarray, delta: float
) -> JointState:
    """Start at given graphs; the first round begins near the sigma_h that complete graphs would have."""
    p = len(model.scales)
    sigma_h = unstructured_sigma_h(model.scatters, model.ns, delta + p - 1, checked=True)
    adjacencies = np.ascontiguousarray(adjacencies)
    orders = np.array([topological_order(adjacency) for adjacency in adjacencies])
    members = np.ones(len(adjacencies), dtype=bool)
    d = p * (p + 1) // 2
    start = hmc.HMCState(sigma_h / delta, np.zeros(d), np.ones(d), 0.0, True)
    completed = tuple(first_completion(tasks.incomplete[t]) for t, _ in model.incomplete)
    return JointState(
        start,
        float(delta),
        model.edge_prior.prior,
        adjacencies,
        orders,
        members,
        model.scatters,
        completed,
    )


def reconsidered(
    model: JointModel, state: JointState, psi: np.ndarray, own: np.ndarray
) -> JointState:
    """Where a chain stands once misplaced tasks are let in or out; ``psi`` is its sigma_h / delta."""
    if not model.has_outsiders:
        return state
    graphs = GraphStates(state.adjacencies.copy(), state.orders.copy(), state.members.copy())
    reconsider_members(
        model,
        graphs,
        own,
        np.array(state.scatters),
        state.delta * psi,
        state.delta,
        state.edge_prior,
    )
    adjacencies, orders, members = graphs
    return state._replace(adjacencies=adjacencies, orders=orders, members=members)


def run_rounds(
    model: JointModel,
    state: JointState,
    rng: np.random.Generator,
    n_rounds: int,
    *,
    adapt: bool,
    progress=None,
) -> tuple[Trace, JointState]:
    """Go on with a chain; while it adapts its draws are not yet those of the posterior."""
    m, p, _ = model.scatters.shape
    graphs = GraphStates(state.adjacencies.copy(), state.orders.copy(), state.members.copy())
    position, delta, prior, nu0_step = state.hmc, state.delta, state.edge_prior, state.nu0_step
    rounds, learned = state.rounds, state.learned
    window = list(state.window)
    scatters = state.scatters.copy()
    completed = tuple(Completed(each.rows.copy(), each.is_missing) for each in state.completed)
    total_scatters = np.zeros_like(scatters)
    means = np.zeros((m, p))
    given = model.given()
    terms = model.edge_terms(prior)
    counts = graphs.adjacencies[graphs.members].sum(axis=0)
    gathered = nothing_gathered(n_rounds, m, p)
    changes_between = model.edge_prior.source == "sampled" or model.incomplete
    at_once = 1 if changes_between else int(np.clip(_AT_ONCE // (m * p), 1, _MOST_AT_ONCE))
    centre_factor = hmc.contiguous_factor(position.centre)
    first, diverging = 0, 0
    while first < n_rounds:
        last = min(first + at_once, n_rounds)
        if adapt:
            last = min([last, *(first + each - rounds for each in _LEARNING if each > rounds)])
        coordinates, inverse_mass = position.position.copy(), position.inverse_mass.copy()
        delta, step_size, nu0_step, n_diverging = make_rounds(
            rng,
            given,
            terms,
            graphs,
            counts,
            scatters,
            Position(centre_factor, coordinates, inverse_mass),
            (delta, position.step_size, nu0_step),
            (rounds, learned) if adapt else (-1, 0),
            first,
            last,
            gathered,
        )
        diverging += n_diverging
        position = position._replace(
            position=coordinates, inverse_mass=inverse_mass, step_size=step_size
        )
        # What is recorded is all of one state, before the rest is renewed.
        gathered.numbers[1, first:last] = np.mean(prior.density)
        gathered.numbers[2, first:last] = prior.similarity
        total_scatters += (last - first) * scatters
        for (t, _), rows in zip(model.incomplete, completed, strict=True):
            means[t] += rows.rows.mean(axis=0)
        if model.edge_prior.source == "sampled":
            outside = graphs.adjacencies[~graphs.members]
            prior = renew_edge_prior(
                model,
                prior,
                counts + counts.T,
                int(graphs.members.sum()),
                outside | np.swapaxes(outside, 1, 2),
                given.anywhere,
                rng,
            )
            terms = model.edge_terms(prior)
        sigma_h = delta * gathered.psi[last - 1]
        for (t, factor), rows in zip(model.incomplete, completed, strict=True):
            scatters[t] = draw_missing(
                rng,
                rows,
                graphs.adjacencies[t],
                sigma_h if graphs.members[t] else np.diag(model.alone.scales[t]),
                scatters[t],
                model.ns[t],
                delta if graphs.members[t] else model.alone.delta,
                factor,
            )
        if adapt:
            rounds += last - first
            window.extend(gathered.psi[first:last])
            if rounds in _LEARNING:
                position = hmc.learn(position, np.array(window))
                centre_factor = hmc.contiguous_factor(position.centre)
                window, learned = [], rounds
        if progress is not None:
            progress(last - first)
        first = last
    adjacencies, orders, members = graphs
    shape = (len(window), p, p)
    state = JointState(
        position,
        delta,
        prior,
        adjacencies,
        orders,
        members,
        scatters,
        completed,
        nu0_step,
        rounds,
        learned,
        np.array(window).reshape(shape),
    )
    n_moves = max(n_rounds * model.n_moves, 1)
    trace = Trace(
        gathered.psi,
        *gathered.numbers,
        gathered.log_odds / max(n_rounds, 1),
        gathered.tallies / n_moves,
        gathered.ends,
        total_scatters / max(n_rounds, 1),
        means / max(n_rounds, 1),
        gathered.members,
        gathered.advantages,
        diverging,
    )
    return trace, state
