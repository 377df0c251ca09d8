"""The update of the edge prior against its naive twin, and against numerical integration."""

import itertools

import naive
import naive_updates
import numpy as np
import pytest
from chain_problems import assert_same, chain_of, some_arrays, some_constraints
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT, dag

from mtgbn.chain.diagnostics import ess_mean
from mtgbn.chain.state import copy_of
from mtgbn.chain.updates.edge_prior import update_edge_prior
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.tasks import Tasks

GRAPHS = np.array([*MIXED_GRAPHS, MIXED_GRAPHS[0], dag(4, (2, 3))])
TASKS = Tasks.from_arrays(some_arrays(m=5))
MEMBERS = {
    "all members": [True] * 5,
    "three members": [True, False, True, True, False],
    "one member": [False, True, False, False, False],
    "no members": [False] * 5,
}


def chain(members, prior, constraints=None):
    return chain_of(
        TASKS,
        start=GRAPHS,
        members=MEMBERS[members],
        prior=prior,
        constraints=constraints,
        samples_edge_prior=True,
    )


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("prior", [(0.3, 2.0), (1e-6, 2e-6), (1 - 2e-8, 1e4)])
def test_it_is_its_twin(prior, members, knows):
    """Also where proposals fall outside the limits of r and s."""
    for seed in range(3):
        constraints = some_constraints(4) if knows else None
        data, state = chain(members, EdgePrior(*prior), constraints)
        twin = copy_of(state)
        rng, twin_rng = np.random.default_rng(seed), np.random.default_rng(seed)
        update_edge_prior(rng, data, state)
        naive_updates.update_edge_prior(twin_rng, data, twin)
        # 1 - r has lost digits where r is near 1.
        assert_same(state, twin, rtol=1e-7 if prior[0] > 0.9 else 1e-9)
        assert rng.bit_generator.state == twin_rng.bit_generator.state
        assert state.similarity != prior[1]
        assert len(np.unique(state.density)) == 1


@pytest.mark.parametrize("members", ["three members", "no members"])
def test_draws_have_the_distribution_of_numerical_integration(members):
    """Shares of draws of r and of 1/(1 + s), both uniform a priori, below places on a grid."""
    data, state = chain(members, EdgePrior(0.3, 2.0))
    is_member = np.array(MEMBERS[members])
    joined = GRAPHS | np.swapaxes(GRAPHS, 1, 2)
    size = 60
    middles = (np.arange(size) + 0.5) / size
    log_density = np.empty((size, size))
    for a, b in itertools.product(range(size), repeat=2):
        r, s = np.full((4, 4), middles[a]), 1 / middles[b] - 1
        log_density[a, b] = naive.log_probability_of_skeletons(
            r, s, joined[is_member].sum(axis=0), is_member.sum()
        ) + naive.log_probability_of_skeletons(
            r, np.inf, joined[~is_member].sum(axis=0), (~is_member).sum()
        )
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    rng = np.random.default_rng(1)
    draws = np.empty((2, 3000))
    for k in range(draws.shape[1]):
        update_edge_prior(rng, data, state)
        draws[:, k] = state.density[0, 1], 1 / (1 + state.similarity)
    for values, expected in zip(draws, (weights.sum(axis=1), weights.sum(axis=0)), strict=True):
        for place in (0.2, 0.4, 0.6, 0.8):
            share = expected[middles < place].sum()
            below = (values < place).astype(float)
            size = min(ess_mean(each[None, None])[0] for each in (below, values))
            error = np.sqrt(share * (1 - share) / size)
            # The grid is right to some thousandths.
            assert abs(below.mean() - share) < Z_LIMIT * error + 2e-3
