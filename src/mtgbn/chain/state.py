"""The structures of a chain: what is given, the present state, a record of its rounds.

Python and compiled code use the same structures. Everything in a `ChainState` and a `ChainTrace` is an
array, so that updates can change it in place; single numbers are arrays without dimensions.
m is the number of tasks, p the number of variables, d = p (p + 1)/2 the number of coordinates.
"""

from typing import NamedTuple

import numpy as np

from mtgbn.graphs.dags import descendants, topological_order
from mtgbn.model.edge_prior import (
    EdgePrior,
    directed_counts,
    free_pairs,
    one_way_log_odds,
    single_prior,
)
from mtgbn.model.pair_kinds import N_PLACES, PairKinds
from mtgbn.model.posterior import HyperPrior
from mtgbn.model.unstructured import unstructured_sigma_h
from mtgbn.search.knowledge import Constraints
from mtgbn.tasks import Tasks

# delta of the prior of a single task, whose mean is the diagonal matrix of the task's variances.
SINGLE_DELTA = 3.0

# Share of own families among those of members with which chains begin.
FIRST_OWN_SHARE = 0.016

# A member has at most one own family for this number of variables.
_VARIABLES_PER_OWN = 8

# Step size of ln delta before a chain has adapted it.
_FIRST_DELTA_STEP = 0.3


class ChainData(NamedTuple):
    """What is given to a chain and stays the same.

    Attributes
    ----------
    ns : array (m,)
        Degrees of freedom of the scatters.
    groups : array (m,) of int
        1 for the tasks of the second group, 0 for all others; without groups, 0 for all.
    psi_scales : array (p,)
        Diagonal of the scale matrix of the prior of Psi = sigma_h / delta.
    log_determinant_coefficient : float
        Coefficient of ln|sigma_h| in the log density of the prior of Psi.
    single_scales : array (m, p)
        Diagonals of the prior matrices of the tasks as single tasks, with delta `SINGLE_DELTA`.
    allowed, required : array (p, p) of bool
        Edges i -> j that may be in a graph, and those that must be in every graph.
    max_parents : int
    free : array (p, p) of bool
        Pairs that may be joined or not.
    one_way : array (p, p)
        What is added to the log prior odds of edges that can go one way only; see
        `one_way_log_odds`.
    edge_costs : array (m,)
        What every edge of a task costs, in nats; see `edge_costs` in `mtgbn.model.edge_prior`.
    agreement : float
        How independent the directions of shared edges are; infinity where tasks share no
        directions.
    incomplete : array (k,)
        Positions of the tasks with missing values.
    row_starts : array (k + 1,)
        Where the rows of each task with missing values begin in ``rows`` of the state.
    is_missing : array (rows, p) of bool
        Which values are missing in ``rows`` of the state.
    scatter_factors : array (k,)
        What the scatter of the completed rows of each of these tasks is multiplied by.
    n_moves : int
        Moves between graphs, per task and round; 0 holds the graphs fixed.
    most_own : int
        Largest number of own families of a member.
    samples_delta, samples_membership, samples_kinds : bool
        Whether delta, the membership and the kinds of pairs are updated; otherwise they are held
        fixed.
    samples_ties : bool
        Whether ties and the share of own families are updated; otherwise all families of members are
        tied.
    """

    ns: np.ndarray
    groups: np.ndarray
    psi_scales: np.ndarray
    log_determinant_coefficient: float
    single_scales: np.ndarray
    allowed: np.ndarray
    required: np.ndarray
    max_parents: int
    free: np.ndarray
    one_way: np.ndarray
    edge_costs: np.ndarray
    agreement: float
    incomplete: np.ndarray
    row_starts: np.ndarray
    is_missing: np.ndarray
    scatter_factors: np.ndarray
    n_moves: int
    most_own: int
    samples_delta: bool
    samples_membership: bool
    samples_ties: bool
    samples_kinds: bool


class ChainState(NamedTuple):
    """The present values of all unknowns, and of the step sizes; changed in place.

    Attributes
    ----------
    centre : array (p, p)
        The Psi that has the coordinates 0.
    coordinates : array (d,)
        Position of HMC: Psi in unconstrained coordinates, which do not depend on delta.
    inverse_mass : array (d,)
        Diagonal of HMC's inverse mass matrix.
    step_size : array ()
        Step size of HMC; 0 before the first round of a chain.
    delta, delta_step : array ()
        delta, and the step size of the Metropolis steps for ln delta.
    density, similarity, single_log_odds : array (p, p), (), (p, p)
        The edge prior: r of every pair, s, and the log prior odds of every edge in a single task.
    kinds : array (6,)
        The kinds of pairs in place of r and s, fields as in `PairKinds`; or without any element.
    adjacencies : array (m, p, p) of bool
    orders : array (m, p)
        Variables of every task from first to last; parents come before their children.
    members : array (m,) of bool
        Tasks that share sigma_h and edges with each other; the others are single tasks.
    ties : array (m, p) of bool
        Families of members that follow sigma_h. The other families, and all of single tasks, are own
        families: their parameters are learned from the task's own data.
    own_share : array ()
        A priori, the share of own families among those of members.
    counts : array (2, p, p)
        Members that have i -> j: all members, and those of the second group.
    scatters : array (m, p, p)
        Scatters of the data, with the present draw of missing values.
    rows : array (rows, p)
        Rows of the tasks with missing values, completed by the present draw.
    n_adapted, n_learned : array ()
        Number of rounds that adapted step sizes, and what it was at the last change of coordinates.
    window : array (rounds, p, p)
        Psi of the rounds since the last change of coordinates, from which the next coordinates are
        learned.
    """

    centre: np.ndarray
    coordinates: np.ndarray
    inverse_mass: np.ndarray
    step_size: np.ndarray
    delta: np.ndarray
    delta_step: np.ndarray
    density: np.ndarray
    similarity: np.ndarray
    single_log_odds: np.ndarray
    kinds: np.ndarray
    adjacencies: np.ndarray
    orders: np.ndarray
    members: np.ndarray
    ties: np.ndarray
    own_share: np.ndarray
    counts: np.ndarray
    scatters: np.ndarray
    rows: np.ndarray
    n_adapted: np.ndarray
    n_learned: np.ndarray
    window: np.ndarray


class ChainTrace(NamedTuple):
    """A record of some rounds of a chain.

    Attributes
    ----------
    psi : array (rounds, p, p)
        sigma_h / delta.
    delta : array (rounds,)
    kinds : array (rounds, 6)
        nan where the edge prior is fixed.
    differences : array (p, p, differences)
        Mean over the rounds of the probabilities of all differences between the frequencies of a pair
        in the two groups; see `add_differences`. Without groups it has no element.
    log_density : array (rounds,)
        Log density of data, graphs, membership, ties and ln delta, given Psi, the edge prior and the
        share of own families, minus the costs of all edges.
    n_edges, acceptance : array (rounds,)
        Number of edges in all tasks; acceptance probability of HMC.
    members : array (rounds, m) of bool
    advantages : array (rounds, m)
        Log likelihood of a task's data as a member minus the one as a single task.
    own_share : array (rounds,)
    log_odds : array (m, p, p)
        Mean over the rounds of the prior log odds of every edge, given the other tasks' graphs.
    move_frequencies : array (m, p, p)
        Share of the moves after which a task had i -> j.
    end_counts : array (m, p, p) of int
        Number of rounds at whose end a task had i -> j.
    scatters : array (m, p, p)
        Mean of the scatters over the rounds.
    row_means : array (m, p)
        Means of the completed rows, averaged over the rounds; 0 for tasks without missing values.
    n_divergent : array () of int
        Number of trajectories that diverged.
    """

    psi: np.ndarray
    delta: np.ndarray
    kinds: np.ndarray
    differences: np.ndarray
    log_density: np.ndarray
    n_edges: np.ndarray
    acceptance: np.ndarray
    members: np.ndarray
    advantages: np.ndarray
    own_share: np.ndarray
    log_odds: np.ndarray
    move_frequencies: np.ndarray
    end_counts: np.ndarray
    scatters: np.ndarray
    row_means: np.ndarray
    n_divergent: np.ndarray


def chain_data(
    tasks: Tasks,
    constraints: Constraints,
    *,
    agreement: float = np.inf,
    edge_costs: np.ndarray | float = 0.0,
    groups: np.ndarray | None = None,
    n_moves: int,
    most_own: int | None = None,
    samples_delta: bool = True,
    samples_membership: bool = True,
    samples_ties: bool = True,
    samples_kinds: bool = True,
) -> ChainData:
    """Gather what is given to a chain; the prior of Psi is centred at the pooled variances.

    ``most_own`` is that of `most_own_families`, unless it is given. ``groups`` (m,) has two different
    numbers, 0 and 1, if there are groups.
    """
    scatters, p = tasks.scatters, tasks.n_variables
    most_own = most_own_families(p) if most_own is None else most_own
    psi_scales = np.einsum("tii->i", np.ascontiguousarray(scatters)) / tasks.ns.sum()
    required = np.ascontiguousarray(constraints.required)
    # Where required edges settle the order of a pair, every order admits its edge. Allowing the
    # other direction, which would close a cycle, exempts the edge from `one_way_log_odds`.
    allowed = constraints.allowed | (constraints.allowed.T & descendants(required).T)
    incomplete = sorted(tasks.incomplete)
    rows = [tasks.incomplete[t] for t in incomplete]
    return ChainData(
        ns=np.array(tasks.ns),
        groups=np.array(np.zeros(len(tasks)) if groups is None else groups, dtype=np.int64),
        psi_scales=psi_scales,
        log_determinant_coefficient=HyperPrior(psi_scales).coefficient,
        single_scales=single_scales(scatters, tasks.ns),
        allowed=np.ascontiguousarray(allowed),
        required=required,
        max_parents=int(constraints.max_parents),
        free=free_pairs(allowed, required),
        one_way=one_way_log_odds(allowed),
        edge_costs=np.array(np.broadcast_to(edge_costs, len(tasks)), dtype=float),
        agreement=float(agreement),
        incomplete=np.array(incomplete, dtype=np.int64),
        row_starts=np.cumsum([0, *map(len, rows)]),
        is_missing=np.isnan(np.concatenate(rows)) if rows else np.empty((0, p), dtype=bool),
        scatter_factors=np.array([tasks.scatter_factor(t) for t in incomplete], dtype=float),
        n_moves=int(n_moves),
        most_own=int(most_own),
        samples_delta=bool(samples_delta),
        samples_membership=bool(samples_membership) and len(tasks) > 1,
        samples_ties=bool(samples_ties) and len(tasks) > 1 and most_own > 0,
        samples_kinds=bool(samples_kinds),
    )


def most_own_families(p: int) -> int:
    """Largest number of own families of a member with p variables; none with few variables."""
    return p // _VARIABLES_PER_OWN


def single_scales(scatters: np.ndarray, ns: np.ndarray) -> np.ndarray:
    """Diagonals of the prior matrices of the tasks as single tasks, (m, p): their own variances."""
    return np.einsum("tii->ti", scatters) / ns[:, None]


def first_state(
    data: ChainData,
    tasks: Tasks,
    adjacencies: np.ndarray,
    *,
    delta: float,
    edge_prior: EdgePrior | PairKinds,
) -> ChainState:
    """The state before the first round: given graphs, all tasks are members, all families tied.

    sigma_h starts near the one that is most probable with complete graphs, missing values start at
    their column means. Single tasks have the density of ``edge_prior``.
    """
    m, p = len(tasks), tasks.n_variables
    d = p * (p + 1) // 2
    scatters = np.array(tasks.scatters)
    sigma_h = unstructured_sigma_h(scatters, data.ns, delta + p - 1, checked=True)
    graphs = np.array(adjacencies, dtype=bool, order="C")
    rows = [_with_column_means(tasks.incomplete[t]) for t in data.incomplete]
    return ChainState(
        centre=sigma_h / delta,
        coordinates=np.zeros(d),
        inverse_mass=np.ones(d),
        step_size=np.array(0.0),
        delta=np.array(float(delta)),
        delta_step=np.array(_FIRST_DELTA_STEP),
        density=single_prior(edge_prior).matrix(p),
        similarity=np.array(float(edge_prior.similarity)),
        single_log_odds=single_prior(edge_prior).matrix_of_log_odds(p),
        kinds=_kinds_of(edge_prior),
        adjacencies=graphs,
        orders=np.array([topological_order(graph) for graph in graphs]),
        members=np.ones(m, dtype=bool),
        ties=np.ones((m, p), dtype=bool),
        own_share=np.array(FIRST_OWN_SHARE if data.samples_ties else 0.0),
        counts=directed_counts(graphs, np.ones(m, dtype=bool), data.groups),
        scatters=scatters,
        rows=np.concatenate(rows) if rows else np.empty((0, p)),
        n_adapted=np.array(0),
        n_learned=np.array(0),
        window=np.empty((0, p, p)),
    )


def _with_column_means(rows: np.ndarray) -> np.ndarray:
    """Rows with the column means in place of nan, and 0 in a column without any value."""
    is_missing = np.isnan(rows)
    known = np.where(is_missing, 0.0, rows)
    means = known.sum(axis=0) / np.maximum((~is_missing).sum(axis=0), 1)
    return np.where(is_missing, means, rows)


def _kinds_of(prior: EdgePrior | PairKinds) -> np.ndarray:
    return np.array(prior if isinstance(prior, PairKinds) else (), dtype=float)


def with_edge_prior(
    state: ChainState, prior: EdgePrior | PairKinds, single_edge_prior: EdgePrior | None = None
) -> ChainState:
    """The same state with another edge prior; None leaves single tasks with their own."""
    p = len(state.density)
    state = state._replace(
        density=single_prior(prior).matrix(p),
        similarity=np.array(float(prior.similarity)),
        kinds=_kinds_of(prior),
    )
    if single_edge_prior is not None:
        state = state._replace(single_log_odds=single_edge_prior.matrix_of_log_odds(p))
    return state


def with_graphs(
    data: ChainData, state: ChainState, adjacencies: np.ndarray, members: np.ndarray
) -> ChainState:
    """The same state with other graphs (m, p, p) and members (m,); families of new members are tied."""
    graphs = np.array(adjacencies, dtype=bool, order="C")
    return state._replace(
        adjacencies=graphs,
        orders=np.array([topological_order(graph) for graph in graphs]),
        members=np.array(members, dtype=bool),
        ties=members[:, None] & (state.ties | ~state.members[:, None]),
        counts=directed_counts(graphs, members, data.groups),
    )


def copy_of(state: ChainState) -> ChainState:
    """A state that can be changed in place while the original stays."""
    return state._replace(
        **{name: np.array(array, order="C") for name, array in state._asdict().items()}
    )


def empty_trace(n_rounds: int, m: int, p: int, has_groups: bool = False) -> ChainTrace:
    """Room for a number of rounds of m tasks with p variables."""
    return ChainTrace(
        psi=np.empty((n_rounds, p, p)),
        delta=np.empty(n_rounds),
        kinds=np.full((n_rounds, len(PairKinds._fields)), np.nan),
        differences=np.zeros((p, p, 2 * N_PLACES - 1) if has_groups else (0, 0, 0)),
        log_density=np.empty(n_rounds),
        n_edges=np.empty(n_rounds),
        acceptance=np.empty(n_rounds),
        members=np.empty((n_rounds, m), dtype=bool),
        advantages=np.empty((n_rounds, m)),
        own_share=np.empty(n_rounds),
        log_odds=np.zeros((m, p, p)),
        move_frequencies=np.zeros((m, p, p)),
        end_counts=np.zeros((m, p, p), dtype=np.int32),
        scatters=np.zeros((m, p, p)),
        row_means=np.zeros((m, p)),
        n_divergent=np.array(0),
    )
