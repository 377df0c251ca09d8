"""Sampling everything together, against what its own prior says.

If data are drawn anew from the model after every round of a chain, given all else, then graphs, edge
prior, delta and Psi must keep their prior distributions (Geweke 2004): an exact check of all conditional
distributions together. With data held fixed, the ranks of true parameters among draws must be uniform
(simulation-based calibration).
"""

import itertools

import numpy as np
import pytest
from arviz_stats.base import array_stats
from mtgbn.sampling.graph_moves import Alone
from mtgbn.sampling.joint import (
    begin_chain,
    joint_model,
    run_rounds,
)
from mtgbn.sampling.shared_edges import GraphStates, draw_members
from scipy.special import betaln, comb
from scipy.stats import invgamma, invwishart, kstest

from mtgbn.model.edge_prior import EdgePrior, EdgePriorChoice
from mtgbn.model.unstructured import TYPICAL_DELTA
from mtgbn.simulate import simulate_tasks
from mtgbn.simulate.hierarchical import draw_covariance
from mtgbn.tasks import Tasks

SAMPLED = EdgePriorChoice(EdgePrior(0.5, 1.0), "sampled")
FIXED = EdgePriorChoice(EdgePrior(0.4, 1.0))

# Two-sided; a few dozen comparisons with it have a false alarm in a thousand runs.
MOST_DEVIATIONS = 4.5


def free(m, p):
    return np.tile(~np.eye(p, dtype=bool), (m, 1, 1)), np.zeros((p, p), dtype=bool), p - 1


def draw_scatter(rng, adjacency, sigma_h, delta, n):
    p = len(sigma_h)
    covariance = draw_covariance(adjacency, sigma_h, delta + p - 1, rng)
    # With delta near 0 variances differ by orders of magnitude, and Cholesky may find a negative pivot.
    values, vectors = np.linalg.eigh(covariance)
    rows = rng.standard_normal((n, p)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    return rows.T @ rows


def successive_conditional(n, n_rounds, nu0, choice, has_outsiders=False, m=2, p=3, seed=0):
    """Let chain and data take turns; n = 0: no data at all. The trace and how many tasks belonged."""
    rng = np.random.default_rng(seed)
    size = n if n else 1e-9
    tasks = Tasks(np.array([size * np.eye(p)] * m), np.full(m, float(size)))
    scales, own = np.array([0.5, 1.0, 3.0]), np.array([1.0, 0.6, 2.0])
    # In a fit both come from the data, which the model knows nothing of.
    model = joint_model(tasks, nu0, choice, free(m, p), 60, has_outsiders)._replace(
        scales=scales, alone=Alone(np.tile(own, (m, 1)), 3.0)
    )
    delta = 20.0 if nu0 is None else nu0 - p + 1
    state = begin_chain(model, tasks, np.zeros((m, p, p), dtype=bool), delta)
    warmup = 150
    numbers = np.empty((6, n_rounds))
    psi = np.empty((n_rounds, p, p))
    for k in range(-warmup, n_rounds):
        trace, state = run_rounds(model, state, rng, 1, adapt=k < 0)
        if k >= 0:
            psi[k] = trace.psi[0]
            numbers[:, k] = (
                *(trace.delta[0], trace.density[0], trace.similarity[0], trace.n_edges[0]),
                *(state.members.sum(), trace.diverging),
            )
        if n:
            scatters = np.array(
                [
                    draw_scatter(rng, adjacency, state.delta * state.hmc.sigma_h, state.delta, n)
                    if belongs
                    else draw_scatter(rng, adjacency, np.diag(own), 3.0, n)
                    for adjacency, belongs in zip(state.adjacencies, state.members, strict=True)
                ]
            )
            model, state = model._replace(scatters=scatters), state._replace(scatters=scatters)
    return psi, scales, *numbers


def deviations(indicator, expected, values=None):
    """How many Monte Carlo standard errors the mean of a chain is away from what is expected."""
    # An indicator that is rarely 1 looks as if it mixed better than what it indicates.
    sizes = [
        float(array_stats.ess(each[None], method="mean", chain_axis=0, draw_axis=1))
        for each in (np.asarray(indicator, dtype=float), values)
        if each is not None
    ]
    return (np.mean(indicator) - expected) / np.sqrt(expected * (1 - expected) / min(sizes))


def assert_uniform(values, name):
    """By the shares below three places; as sharp as the chain's effective size allows."""
    for place in (0.2, 0.5, 0.8):
        assert abs(deviations(values < place, place, values)) < MOST_DEVIATIONS, (name, place)


def assert_psi_has_its_prior(psi, scales):
    """Diagonal elements are inverse gamma, correlations uniform from -1 to 1."""
    for i in range(len(scales)):
        shares = invgamma(1, scale=scales[i] / 2).cdf(psi[:, i, i])
        assert_uniform(shares, f"Psi[{i}, {i}]")
    roots = np.sqrt(np.diagonal(psi, axis1=1, axis2=2))
    for i, j in ((0, 1), (1, 2)):
        assert_uniform((psi[:, i, j] / (roots[:, i] * roots[:, j]) + 1) / 2, f"Psi[{i}, {j}]")


def total_edges(pairs, m, priors):
    """Distribution of the number of edges of m tasks, averaged over edge priors."""
    total = np.zeros(pairs * m + 1)
    for prior in priors:
        single = [prior.log_probability(np.array([[0, c], [c, 0]]), m) for c in range(m + 1)]
        probabilities = np.exp(single) * comb(m, np.arange(m + 1))
        distribution = np.ones(1)
        for _ in range(pairs):
            distribution = np.convolve(distribution, probabilities)
        total += distribution / len(priors)
    return total


def assert_edges(n_edges, expected):
    for most in range(len(expected) - 1):
        share = expected[: most + 1].sum()
        assert abs(deviations(n_edges <= most, share, n_edges)) < MOST_DEVIATIONS, most


def usual_divergences(psi, diverging):
    """Share of trajectories that diverged where Psi is not far out."""
    usual = np.array([np.linalg.cond(each) for each in psi]) < 100
    assert usual.mean() > 0.5
    return diverging[usual].mean()


@pytest.mark.parametrize("n", [0, 4])
def test_everything_keeps_its_prior(n):
    psi, scales, delta, density, similarity, n_edges, _, diverging = successive_conditional(
        n, 1500, None, SAMPLED
    )
    assert_psi_has_its_prior(psi, scales)
    assert_uniform(delta / (delta + TYPICAL_DELTA), "delta")
    assert_uniform(density, "r")
    assert_uniform(1 / (1 + similarity), "s")
    middles = (np.arange(40) + 0.5) / 40
    priors = [EdgePrior(r, 1 / c - 1) for r, c in itertools.product(middles, middles)]
    expected = total_edges(3, 2, priors)
    assert expected @ np.arange(7) == pytest.approx(3)  # six possible edges, r is 1/2 on average
    assert_edges(n_edges, expected)
    # The prior of Psi has heavy tails; far out one step size is too long, and trajectories diverge. How
    # often differs between runs: 0 to 1.2 % of the usual ones, so three are looked at together.
    shares = [usual_divergences(psi, diverging)]
    for seed in (1, 2):
        psi, *_, diverging = successive_conditional(n, 1500, None, SAMPLED, seed=seed)
        shares.append(usual_divergences(psi, diverging))
    assert np.mean(shares) < 0.01


def test_graphs_and_psi_keep_their_prior_when_the_rest_is_held():
    psi, scales, delta, density, similarity, n_edges, _, _ = successive_conditional(
        6, 1200, 10.0, FIXED
    )
    assert set(delta) == {8.0}
    assert set(density) == {0.4}
    assert set(similarity) == {1.0}
    assert_psi_has_its_prior(psi, scales)
    assert_edges(n_edges, total_edges(3, 2, [FIXED.prior]))


def test_membership_keeps_its_prior():
    """The number of tasks that belong is uniform from 0 to m, whatever the graphs and the data."""
    psi, scales, *_, n_edges, n_members, _ = successive_conditional(
        4, 1200, 10.0, FIXED, has_outsiders=True
    )
    assert_psi_has_its_prior(psi, scales)
    for number in range(3):
        assert abs(deviations(n_members == number, 1 / 3, n_members)) < MOST_DEVIATIONS
    # Edges are those of a mixture: with fewer than two members no edge is shared.
    unrelated = FIXED.prior._replace(similarity=np.inf)
    expected = total_edges(3, 2, [FIXED.prior, unrelated, unrelated])
    assert_edges(n_edges, expected)


@pytest.mark.parametrize("unrelated", [None, EdgePrior(0.35, np.inf)])
def test_membership_given_the_graphs_against_all_memberships(unrelated):
    """Every set of members has the probability that the priors and the likelihoods say."""
    m, p = 3, 4
    rng = np.random.default_rng(0)
    adjacencies = np.array([np.triu(rng.random((p, p)) < 0.5, 1) for _ in range(m)])
    adjacencies[1] = adjacencies[0]
    adjacencies[2] = adjacencies[2].T
    joined = adjacencies | np.swapaxes(adjacencies, 1, 2)
    advantages = np.array([0.3, -0.8, 1.2])
    prior = EdgePrior(0.15, 0.4)
    model = joint_model(
        Tasks(np.array([np.eye(p)] * m), np.full(m, 2.0)),
        None,
        EdgePriorChoice(prior),
        free(m, p),
        0,
        alone_prior=unrelated,
    )
    if unrelated is None:
        unrelated = prior._replace(similarity=np.inf)
    orders = np.array([[0, 1, 2, 3], [0, 1, 2, 3], [3, 2, 1, 0]])
    sets = list(itertools.product((False, True), repeat=m))
    logarithms = []
    for each in map(np.array, sets):
        k = int(each.sum())
        logarithms.append(
            betaln(k + 1, m - k + 1)
            + prior.log_probability(joined[each].sum(axis=0), k)
            + unrelated.log_probability(joined[~each].sum(axis=0), m - k)
            + advantages[each].sum()
        )
    expected = np.exp(np.array(logarithms) - max(logarithms))
    expected /= expected.sum()
    counts = dict.fromkeys(sets, 0)
    members = np.ones(m, dtype=bool)
    n = 6000
    for k in range(-50, n):
        states = GraphStates(adjacencies, orders, members)
        draw_members(
            rng,
            states,
            adjacencies[members].sum(axis=0),
            advantages,
            model.edge_terms(prior),
            model.constraints[0],
            model.free,
        )
        counts[tuple(members.tolist())] += k >= 0
    found = np.array([counts[each] for each in sets]) / n
    assert np.sort(expected)[-2] > 0.1  # several sets are probable
    # Five standard errors if no more than a fifth of the draws is worth anything.
    tolerance = 5 * np.sqrt(expected * (1 - expected) / (n / 5)) + 1e-3
    assert (np.abs(found - expected) < tolerance).all(), (found, expected)


def draw_from_the_model(rng, m, p, n, delta, prior):
    """Tasks, their graphs, Psi and the scales of its prior."""
    scales = np.exp(rng.uniform(-1, 1, p))
    psi = invwishart(p + 1, np.diag(scales)).rvs(random_state=rng)
    r, s = prior
    common = np.triu(rng.beta(s * r, s * (1 - r), (p, p)), 1)
    common += common.T
    adjacencies = np.zeros((m, p, p), dtype=bool)
    for adjacency in adjacencies:
        places = rng.permutation(p)
        adjacency[:] = (rng.random((p, p)) < common) & (places[:, None] < places)
    scatters = [draw_scatter(rng, each, delta * psi, delta, n) for each in adjacencies]
    return Tasks(scatters, np.full(m, float(n))), adjacencies, psi, scales


def ranked(psi, delta, density, similarity, n_edges):
    """What is ranked, (rounds,) each."""
    roots = np.sqrt(np.diagonal(psi, axis1=-2, axis2=-1))
    return {
        "Psi[0, 0]": psi[..., 0, 0],
        "Psi[3, 3]": psi[..., 3, 3],
        "|Psi|": np.linalg.slogdet(psi)[1],
        "correlation": psi[..., 1, 2] / (roots[..., 1] * roots[..., 2]),
        "sigma_h[0, 0]": psi[..., 0, 0] * delta,
        "delta": delta,
        "r": density,
        "s": similarity,
        "edges": n_edges,
    }


@pytest.mark.slow
@pytest.mark.parametrize("samples_all", [False, True])
def test_ranks_of_true_parameters_are_uniform(samples_all):
    m, p, n, n_rounds, n_ranked = 3, 4, 25, 240, 24
    ranks = {}
    for simulation in range(80):
        rng = np.random.default_rng([int(samples_all), simulation])
        prior, delta = FIXED.prior, 10.0
        if samples_all:
            r, c, share = rng.random(3)
            prior, delta = EdgePrior(r, 1 / c - 1), TYPICAL_DELTA * share / (1 - share)
        tasks, adjacencies, psi, scales = draw_from_the_model(rng, m, p, n, delta, prior)
        model = joint_model(
            tasks,
            None if samples_all else delta + p - 1,
            SAMPLED if samples_all else FIXED,
            free(m, p),
            150,
            has_outsiders=False,
        )._replace(scales=scales)
        first_delta = 30.0 if samples_all else delta
        state = begin_chain(model, tasks, np.zeros((m, p, p), dtype=bool), first_delta)
        _, state = run_rounds(model, state, rng, 80, adapt=True)
        trace, _ = run_rounds(model, state, rng, n_rounds, adapt=False)
        true = ranked(psi, delta, *prior, adjacencies.sum())
        found = ranked(trace.psi, trace.delta, trace.density, trace.similarity, trace.n_edges)
        for name, value in true.items():
            draws = found[name][:: n_rounds // n_ranked]
            # Counts have ties, broken at random.
            below = np.sum(draws < value) + rng.random() * (np.sum(draws == value) + 1)
            ranks.setdefault(name, []).append(below / (n_ranked + 1))
    for name, values in ranks.items():
        if samples_all or name not in ("delta", "r", "s"):
            assert kstest(values, "uniform").pvalue > 0.001, name


def small_chain(seed=0, choice=SAMPLED, constraints=None, m=3, p=5, n=40, start=None):
    tasks = simulate_tasks(m, p, n, random_state=seed).tasks
    model = joint_model(tasks, None, choice, constraints or free(m, p), 100)
    rng = np.random.default_rng(seed)
    start = np.zeros((m, p, p), dtype=bool) if start is None else start
    return model, begin_chain(model, tasks, start, 30.0), rng


def assert_same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("adapt", [False, True])
def test_the_seed_decides_everything(adapt):
    traces = []
    for _ in range(2):
        model, state, rng = small_chain()
        trace, state = run_rounds(model, state, rng, 12, adapt=adapt)
        traces.append(trace)
    assert_same(*traces)
    model, state, rng = small_chain()
    rng.random()
    other, _ = run_rounds(model, state, rng, 12, adapt=adapt)
    assert (other.psi != traces[0].psi).any()


@pytest.mark.parametrize("adapt", [False, True])
def test_two_halves_are_one_run(adapt):
    model, state, rng = small_chain()
    whole, last = run_rounds(model, state, rng, 24, adapt=adapt)
    model, state, rng = small_chain()
    first, state = run_rounds(model, state, rng, 7, adapt=adapt)
    kept = [each.copy() for each in (state.adjacencies, state.orders, state.hmc.position)]
    second, end = run_rounds(model, state, rng, 17, adapt=adapt)
    assert_same(kept, (state.adjacencies, state.orders, state.hmc.position))  # not changed in place
    for name in ("psi", "delta", "density", "similarity", "log_density", "n_edges", "members"):
        halves = np.concatenate([getattr(first, name), getattr(second, name)])
        np.testing.assert_array_equal(halves, getattr(whole, name))
    np.testing.assert_array_equal(first.ends + second.ends, whole.ends)
    np.testing.assert_array_equal(
        np.concatenate([first.advantages, second.advantages]), whole.advantages
    )
    for name in ("tallies", "log_odds", "means", "scatters"):
        mean = (7 * getattr(first, name) + 17 * getattr(second, name)) / 24
        np.testing.assert_allclose(mean, getattr(whole, name), atol=1e-12)
    assert_same(end.hmc, last.hmc)
    assert_same(
        (end.adjacencies, end.orders, end.window), (last.adjacencies, last.orders, last.window)
    )
    assert end[8:11] == last[8:11]


def test_tallies_are_shares_of_graphs_on_the_way():
    model, state, rng = small_chain(choice=FIXED)
    trace, _ = run_rounds(model, state, rng, 200, adapt=True)
    both = trace.tallies + np.swapaxes(trace.tallies, 1, 2)
    assert both.min() >= 0
    assert both.max() <= 1 + 1e-12
    shares = (trace.ends + np.swapaxes(trace.ends, 1, 2)) / 200
    assert both.max() > 0.1
    # More than four standard deviations of a share of 200 independent rounds.
    np.testing.assert_allclose(both, shares, atol=0.15)


def test_knowledge_is_obeyed_in_every_round():
    m, p = 3, 5
    allowed, required, _ = free(m, p)
    allowed[:, 0, 1] = allowed[:, 2, 3] = allowed[:, 3, 2] = False
    allowed[1, 0, 4] = False
    required[4, 2] = True
    allowed[:, 2, 4] = False
    constraints = allowed, required, 2
    start = np.tile(required, (m, 1, 1))
    model, state, rng = small_chain(choice=FIXED, constraints=constraints, start=start)
    seen = np.zeros((m, p, p), dtype=bool)
    for _ in range(60):
        _, state = run_rounds(model, state, rng, 1, adapt=True)
        assert not (state.adjacencies & ~allowed).any()
        assert (state.adjacencies | ~required).all()
        assert state.adjacencies.sum(axis=1).max() <= 2
        for adjacency, order in zip(state.adjacencies, state.orders, strict=True):
            place = np.argsort(order)
            parents, children = np.nonzero(adjacency)
            assert (place[parents] < place[children]).all()
        seen |= state.adjacencies
    assert (seen.sum(axis=(1, 2)) > 6).all()  # there was something to forbid


def test_a_task_that_is_unlike_the_others_is_found():
    m, p, n = 6, 6, 200
    simulation = simulate_tasks(m, p, n, nu0=p + 60.0, edge_change=0.05, random_state=1)
    rng = np.random.default_rng(0)
    other = simulate_tasks(1, p, n, random_state=99).arrays[0]
    arrays = [
        *simulation.arrays[:3],
        other[:, ::-1] * [0.3, 3, 1, 0.5, 2, 1],
        *simulation.arrays[3:5],
    ]
    tasks = Tasks.from_arrays(arrays)
    model = joint_model(tasks, None, SAMPLED, free(m, p), 300)
    state = begin_chain(model, tasks, np.zeros((m, p, p), dtype=bool), 30.0)
    assert state.members.all()
    _, state = run_rounds(model, state, rng, 150, adapt=True)
    trace, _ = run_rounds(model, state, rng, 150, adapt=False)
    membership = trace.members.mean(axis=0)
    assert membership[3] < 0.1
    assert np.delete(membership, 3).min() > 0.9
    assert np.median(trace.advantages, axis=0).argmin() == 3
