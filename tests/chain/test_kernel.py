"""Rounds in one kernel, against the same steps called one by one from Python."""

from math import lgamma

import numpy as np
import pytest
from mtgbn.sampling.conditionals import step_delta
from mtgbn.sampling.graph_moves import log_likelihoods, move_graphs
from mtgbn.sampling.joint import begin_chain, joint_model, run_rounds
from mtgbn.sampling.rounds import Position, make_rounds, nothing_gathered
from mtgbn.sampling.shared_edges import (
    GraphStates,
    add_log_odds,
    draw_members,
    log_probability_of_edges,
)
from mtgbn.sampling.trajectories import Hamiltonian, begin, run_trajectories
from sampling_oracles import data_scatters

from mtgbn.model.coordinates import coordinates_workspace
from mtgbn.model.edge_prior import EdgePrior, EdgePriorChoice
from mtgbn.model.family_terms import family_terms
from mtgbn.model.posterior import Posterior
from mtgbn.model.unstructured import log_prior_of_delta
from mtgbn.tasks import Tasks

M, P, N_ROUNDS = 4, 5, 12
NS = [12, 20, 30, 25]


def setting(nu0, has_outsiders, source="fixed", tasks=None):
    if tasks is None:
        tasks = Tasks(data_scatters(P, NS, seed=2), np.array(NS, dtype=float))
    allowed = np.tile(~np.eye(P, dtype=bool), (M, 1, 1))
    model = joint_model(
        tasks,
        nu0,
        EdgePriorChoice(EdgePrior(0.3, 2.0), source),
        (allowed, np.zeros((P, P), dtype=bool), P - 1),
        40,
        has_outsiders,
        agreement=1.5,
    )
    return model, begin_chain(model, tasks, np.zeros((M, P, P), dtype=bool), 10.0)


def empty():
    gathered = nothing_gathered(N_ROUNDS, M, P)
    gathered.numbers[...] = 0.0  # r and s are not the kernel's to write
    return gathered


def likelihoods(model, graphs, members, sigma_h, delta, scatters=None):
    values = np.empty(M)
    scatters = np.array(model.scatters if scatters is None else scatters)
    log_likelihoods(
        graphs.adjacencies, members, scatters, model.ns, sigma_h, delta, model.alone, values
    )
    return values


def log_density(model, graphs, sigma_h, delta, edge_prior, scatters=None):
    """Of data, graphs, members and ln delta given Psi and the edge prior."""
    n = int(graphs.members.sum())
    counts = graphs.adjacencies[graphs.members].sum(axis=0)
    value = likelihoods(model, graphs, graphs.members, sigma_h, delta, scatters).sum()
    terms, anywhere = model.edge_terms(edge_prior), model.given().anywhere
    value += log_probability_of_edges(graphs, counts, terms, anywhere)
    return value + log_prior_of_delta(delta) + lgamma(n + 1) + lgamma(M - n + 1) - lgamma(M + 2)


def one_by_one(rng, model, state, adapts):
    """What `make_rounds` does, in as many steps as it has."""
    graphs = GraphStates(state.adjacencies.copy(), state.orders.copy(), state.members.copy())
    counts = graphs.adjacencies.sum(axis=0)
    terms, gathered = model.edge_terms(state.edge_prior), empty()
    scatters = np.array(model.scatters)
    factor = np.linalg.cholesky(state.hmc.centre)
    coordinates, inverse_mass = state.hmc.position.copy(), state.hmc.inverse_mass.copy()
    delta, step_size, nu0_step, diverging = state.delta, 0.0, state.nu0_step, 0
    for k in range(N_ROUNDS):
        families = family_terms(graphs.adjacencies, graphs.members, scatters, model.ns, delta)
        posterior = Posterior(families, -1.0 - P, 0.0, P, delta * model.scales)
        hamiltonian = Hamiltonian(
            posterior, np.sqrt(delta) * factor, inverse_mass, np.empty((0, 0))
        )
        work = coordinates_workspace(posterior)
        if k == 0:
            step_size = begin(rng, hamiltonian, coordinates, work)
        draws, statistics = np.empty((1, P, P)), np.empty((4, 1))
        numbers = (0.0, 1.5, 0.5, 0.8, 256.0)
        run_trajectories(
            rng, hamiltonian, coordinates, step_size, False, numbers, work, draws, statistics
        )
        sigma_h, acceptance = draws[0], statistics[0, 0]
        diverging += int(statistics[3, 0])
        if model.nu0 is None:
            before = delta
            delta, accepted = step_delta(
                rng,
                graphs.adjacencies,
                graphs.members,
                scatters,
                model.ns,
                sigma_h,
                delta,
                model.alone,
                nu0_step,
            )
            sigma_h = sigma_h * (delta / before)
        together = likelihoods(model, graphs, np.ones(M, dtype=bool), sigma_h, delta)
        alone = likelihoods(model, graphs, np.zeros(M, dtype=bool), sigma_h, delta)
        gathered.advantages[k] = together - alone
        if model.has_outsiders:
            allowed = model.constraints[0]
            draw_members(rng, graphs, counts, together - alone, terms, allowed, model.free)
        move_graphs(
            rng,
            graphs,
            counts,
            scatters,
            model.ns,
            sigma_h,
            delta,
            model.alone,
            terms,
            model.constraints,
            model.n_moves,
            gathered.tallies,
        )
        add_log_odds(graphs, counts, terms, gathered.log_odds)
        gathered.members[k] = graphs.members
        gathered.ends[...] += graphs.adjacencies
        gathered.psi[k] = sigma_h / delta
        value = log_density(model, graphs, sigma_h, delta, state.edge_prior)
        gathered.numbers[[0, 3, 4, 5], k] = delta, value, graphs.adjacencies.sum(), acceptance
        if adapts:
            step_size *= np.exp((k + 1) ** -0.6 * (acceptance - 0.8))
            if model.nu0 is None:
                nu0_step = min(nu0_step * np.exp((k + 1) ** -0.6 * (accepted / 2 - 0.4)), 3.0)
    return graphs, coordinates, inverse_mass, (delta, step_size, nu0_step, diverging), gathered


@pytest.mark.parametrize("adapts", [True, False])
@pytest.mark.parametrize("has_outsiders", [True, False])
@pytest.mark.parametrize("nu0", [None, 12.0])
def test_rounds_are_their_steps(nu0, has_outsiders, adapts):
    model, state = setting(nu0, has_outsiders)
    expected = one_by_one(np.random.default_rng(5), model, state, adapts)
    graphs = GraphStates(state.adjacencies.copy(), state.orders.copy(), state.members.copy())
    factor = np.linalg.cholesky(state.hmc.centre)
    position = Position(factor, state.hmc.position.copy(), state.hmc.inverse_mass.copy())
    gathered = empty()
    numbers = make_rounds(
        np.random.default_rng(5),
        model.given(),
        model.edge_terms(state.edge_prior),
        graphs,
        graphs.adjacencies.sum(axis=0),
        np.array(model.scatters),
        position,
        (state.delta, 0.0, state.nu0_step),
        (0, 0) if adapts else (-1, 0),
        0,
        N_ROUNDS,
        gathered,
    )
    found = (graphs, position.coordinates, position.inverse_mass, numbers, gathered)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(ours, np.ndarray):
            ours, theirs = [ours], [theirs]
        for one, other in zip(ours, theirs, strict=True):
            # The same numbers, rounded elsewhere: code is optimised together with what surrounds it.
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert len(np.unique(gathered.numbers[4])) > 1  # graphs did move


@pytest.mark.parametrize("source", ["fixed", "sampled"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_what_is_recorded_belongs_together(source, is_complete):
    """Also where r, s and missing values are renewed between rounds."""
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal((n, P)) for n in NS]
    if not is_complete:
        arrays[1][3:9, 2] = arrays[2][:5, 0] = np.nan
    tasks = Tasks.from_arrays(arrays, missing="error" if is_complete else "em")
    model, state = setting(None, True, source, tasks)
    seen = set()
    for _ in range(5):
        trace, state = run_rounds(model, state, rng, 1, adapt=False)
        graphs = GraphStates(state.adjacencies, state.orders, state.members)
        prior = EdgePrior(trace.density[0], trace.similarity[0])
        sigma_h = trace.psi[0] * trace.delta[0]
        expected = log_density(model, graphs, sigma_h, trace.delta[0], prior, trace.scatters)
        assert trace.log_density[0] == pytest.approx(expected, rel=1e-10)
        seen.add((prior.density, trace.scatters[1, 2, 2]))
    assert len(seen) == (1 if is_complete and source == "fixed" else 5)


def test_a_chain_begins_once():
    """The masses of the start are those of a Wishart distribution: two values, in the ratio of 2."""
    model, state = setting(None, True)
    rng = np.random.default_rng(0)
    _, state = run_rounds(model, state, rng, 1, adapt=False)
    masses = state.hmc.inverse_mass
    diagonal = np.cumsum(np.arange(1, P + 1)) - 1
    assert masses[diagonal] == pytest.approx(masses[1] / 2)
    assert len(np.unique(masses)) == 2
    _, after = run_rounds(model, state, rng, 3, adapt=False)
    np.testing.assert_array_equal(after.hmc.inverse_mass, masses)
    assert after.hmc.step_size == state.hmc.step_size
