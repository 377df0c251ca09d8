"""Small chains for tests, and updates that are repeated in compiled code."""

import numpy as np
from numba import njit

from mtgbn.chain.state import chain_data, first_state
from mtgbn.chain.updates.delta import update_delta
from mtgbn.chain.updates.graphs import update_graphs
from mtgbn.chain.updates.membership import update_membership
from mtgbn.chain.updates.ties import update_ties, write_advantages
from mtgbn.model.edge_prior import EdgePrior, directed_counts
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.search.knowledge import Constraints, no_constraints
from mtgbn.tasks import Tasks

PRIOR = EdgePrior(0.3, 2.0)
KINDS = PairKinds(absent=0.5, common=0.2, varying=0.3, rare=0.1, usual=0.9)
KINDS_OF_GROUPS = PairKinds(absent=0.4, common=0.2, varying=0.2, rare=0.1, usual=0.9, different=0.2)

# Some families of three tasks are tied, others are own families.
MIXED_TIES = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0]], dtype=bool)

# delta of the prior of a single task, written out again.
SINGLE_DELTA = 3.0


def some_constraints(p):
    """An edge that is forbidden one way, one that is required, a pair that is settled, two parents."""
    constraints = no_constraints(p)
    constraints.allowed[0, 1] = False
    constraints.required[2, 3] = True
    constraints.allowed[3, 2] = False
    return Constraints(constraints.allowed, constraints.required, 2)


def some_arrays(m=3, p=4, rows=15, seed=0):
    """Rows of related tasks with variables in unequal units."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(p) + 0.6 * rng.standard_normal((p, p)) + 0.2 * rng.standard_normal((m, p, p))
    mixing *= np.linspace(0.7, 1.6, p)
    return [rng.standard_normal((rows + t, p)) @ mixing[t] for t in range(m)]


def chain_of(
    tasks=None,
    *,
    constraints=None,
    start=None,
    prior=PRIOR,
    delta=10.0,
    members=None,
    ties=True,
    n_moves=40,
    **options,
):
    """Data and first state of a chain.

    ``members`` if not all tasks are members, ``ties`` if not all of their families are tied,
    ``options`` of `chain_data`.
    """
    tasks = Tasks.from_arrays(some_arrays()) if tasks is None else tasks
    m, p = len(tasks), tasks.n_variables
    constraints = no_constraints(p) if constraints is None else constraints
    start = np.tile(constraints.required, (m, 1, 1)) if start is None else start
    data = chain_data(tasks, constraints, n_moves=n_moves, **{"most_own": 1, **options})
    state = first_state(data, tasks, start, delta=delta, edge_prior=prior)
    if members is not None:
        state.members[:] = members
        state.counts[:] = directed_counts(state.adjacencies, state.members, data.groups)
    state.ties[:] = state.members[:, None] & ties
    return data, state


def incomplete_tasks():
    """Three tasks, two of which have missing values: single ones, whole rows, a whole variable."""
    arrays = some_arrays()
    arrays[0][[2, 3, 7], 1] = arrays[0][5] = np.nan
    arrays[2][:, 3] = arrays[2][1:6, 0] = np.nan
    return Tasks.from_arrays(arrays, missing="em")


def assert_same(found, expected, **tolerance):
    """The same numbers in all fields; with a tolerance, nearly the same."""
    for name, one, other in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(one, other, err_msg=name, **{"rtol": 0, **tolerance})


# Updates are inlined where they are called. Here they are compiled once for all tests.


@njit(nogil=True, error_model="numpy")
def repeat_update_of_delta(rng, data, state, sigma_h, deltas):
    """Update delta again and again, given Psi; ``deltas`` gets what it was."""
    n_accepted = 0
    for k in range(deltas.size):
        n_accepted += update_delta(rng, data, state, sigma_h)
        deltas[k] = state.delta[()]
    return n_accepted


@njit(nogil=True, error_model="numpy")
def repeat_update_of_membership(rng, data, state, advantages, members):
    """Update the membership again and again, given the graphs; ``members`` gets what it was."""
    for k in range(members.shape[0]):
        update_membership(rng, data, state, advantages)
        for t in range(members.shape[1]):
            members[k, t] = state.members[t]


@njit(nogil=True, error_model="numpy")
def repeat_update_of_ties(rng, data, state, as_members, as_single, members, ties, own_shares):
    """Update membership and ties again and again, given the graphs and all likelihoods.

    ``members`` (updates, m), ``ties`` (updates, m, p) and ``own_shares`` (updates,) get what they were.
    """
    advantages = np.empty(members.shape[1])
    for k in range(members.shape[0]):
        write_advantages(as_members, as_single, state.own_share[()], data.most_own, advantages)
        if data.samples_membership:
            update_membership(rng, data, state, advantages)
        update_ties(rng, data, state, as_members, as_single)
        members[k] = state.members
        ties[k] = state.ties
        own_shares[k] = state.own_share[()]


@njit(nogil=True, error_model="numpy")
def repeat_update_of_graphs(rng, data, state, sigma_h, move_counts, codes):
    """Update the graphs again and again, given sigma_h.

    ``codes`` (updates, m) gets the graphs as numbers: bit i p + j is the edge i -> j.
    """
    m, p, _ = state.adjacencies.shape
    for k in range(codes.shape[0]):
        update_graphs(rng, data, state, sigma_h, move_counts)
        for t in range(m):
            code = 0
            for i in range(p):
                for j in range(p):
                    if state.adjacencies[t, i, j]:
                        code += 2 ** (i * p + j)
            codes[k, t] = code
