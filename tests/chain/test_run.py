"""Whole chains against what their prior says; runs in portions, adaptation, stopping.

If data are drawn anew from the model after every round of a chain, given all else, then graphs, edge
prior, delta, membership, ties and Psi must keep their prior distributions (Geweke 2004): an exact check
of all updates at once. With data held fixed, the ranks of true parameters among draws must be uniform
(simulation-based calibration).
"""

import itertools

import naive
import numpy as np
import pytest
from arviz_stats.base import array_stats
from chain_problems import KINDS, SINGLE_DELTA, assert_same, chain_of, incomplete_tasks
from naive_updates import OWN_SHARES, patterns_of_ties
from scipy.special import comb
from scipy.stats import beta, binom, invgamma, invwishart, kstest

from mtgbn.chain.run import run_chain
from mtgbn.chain.state import copy_of
from mtgbn.graphs.dags import topological_order
from mtgbn.model.edge_prior import EdgePrior, single_prior
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.model.unstructured import TYPICAL_DELTA
from mtgbn.search.knowledge import Constraints, no_constraints
from mtgbn.simulate import simulate_tasks
from mtgbn.simulate.hierarchical import draw_covariance
from mtgbn.tasks import Tasks

PRIOR = EdgePrior(0.4, 1.0)

# Two-sided; a few dozen comparisons with it have a false alarm in a thousand runs.
MOST_DEVIATIONS = 4.5


def draw_scatter(rng, adjacency, priors, ties, n):
    """Scatter of n rows; ``priors`` are prior matrix and delta of tied and of own families."""
    p = len(adjacency)
    covariances = []
    for matrix, delta in priors:
        covariances.append(draw_covariance(adjacency, matrix, delta + p - 1, rng))
    rows = np.empty((n, p))
    # Parameters of families are independent: each is taken from the covariance of its prior.
    for node in topological_order(adjacency):
        parents, covariance = np.flatnonzero(adjacency[:, node]), covariances[not ties[node]]
        slopes = np.linalg.solve(covariance[np.ix_(parents, parents)], covariance[parents, node])
        # With delta near 0 variances differ by orders of magnitude, and a residual may be negative.
        residual = max(covariance[node, node] - slopes @ covariance[parents, node], 0)
        rows[:, node] = rows[:, parents] @ slopes + np.sqrt(residual) * rng.standard_normal(n)
    return rows.T @ rows


def successive_conditional(n, n_rounds, *, delta=None, seed=0, prior=PRIOR, **options):
    """Let chain and data take turns; n = 0: no data at all. Without a ``delta`` it is sampled.

    The trace by name, with the number of members and of divergent trajectories in every round.
    """
    m, p = 2, 3
    rng = np.random.default_rng(seed)
    size = n if n else 1e-9
    tasks = Tasks(np.array([size * np.eye(p)] * m), np.full(m, float(size)))
    data, state = chain_of(
        tasks,
        prior=prior,
        delta=20.0 if delta is None else delta,
        n_moves=60,
        samples_delta=delta is None,
        **options,
    )
    # In a fit both come from the data, which the model knows nothing of.
    single_scales = np.array([1.0, 0.6, 2.0])
    data.psi_scales[:] = 0.5, 1.0, 3.0
    data.single_scales[:] = single_scales
    _, state = run_chain(data, state, rng, 25, adapts=True)
    rounds, n_own = [], []
    for k in range(-125, n_rounds):
        trace, state = run_chain(data, state, rng, 1, adapts=k < 0)
        if k >= 0:
            rounds.append(trace)
        now = float(state.delta)
        for t in range(m if n else 0):
            priors = (now * trace.psi[0], now), (np.diag(single_scales), SINGLE_DELTA)
            state.scatters[t] = draw_scatter(rng, state.adjacencies[t], priors, state.ties[t], n)
        n_own.append((~state.ties[state.members]).sum())
    names = ("psi", "delta", "kinds", "n_edges", "own_share")
    found = {name: np.array([getattr(each, name)[0] for each in rounds]) for name in names}
    found["n_members"] = np.array([each.members.sum() for each in rounds])
    found["n_own"] = np.array(n_own[125:])
    found["is_divergent"] = np.array([each.n_divergent for each in rounds])
    return data.psi_scales, found


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


def assert_ties_have_their_prior(found, p=3):
    """The share of own families is uniform, whoever is a member; given it members are independent."""
    for share in OWN_SHARES:
        is_there, expected = found["own_share"] == share, 1 / len(OWN_SHARES)
        distance = deviations(is_there, expected, found["own_share"])
        assert abs(distance) < MOST_DEVIATIONS, share
    n_own, n_members = found["n_own"], found["n_members"]
    expected = np.zeros(4)
    for number in set(n_members):
        # Of three families one may be an own one.
        rates = [(1 + (1 - share) / (p * share)) ** -1 for share in OWN_SHARES]
        shares = np.mean([binom(number, rate).cdf(np.arange(4)) for rate in rates], axis=0)
        expected += (n_members == number).mean() * shares
    assert (n_own <= n_members).all()
    for most, share in enumerate(expected):
        if share > 1 - 1e-9:  # there are no more members
            continue
        assert abs(deviations(n_own <= most, share, n_own)) < MOST_DEVIATIONS, most


def total_edges(pairs, m, priors):
    """Distribution of the number of edges of m tasks, averaged over edge priors."""
    total = np.zeros(pairs * m + 1)
    for prior in priors:
        if isinstance(prior, PairKinds):
            single = [naive.log_probability_of_pair(prior, c, m - c) for c in range(m + 1)]
        else:
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


def drawn_kinds(rng, p, n):
    """Kinds of pairs from their prior."""
    shares = rng.dirichlet([p / 2, 0.5, 0.5], n)
    rare, usual = rng.beta(0.5, 9.5, n), rng.beta(9.5, 0.5, n)
    return [PairKinds(*each) for each in np.column_stack([shares, rare, usual]).tolist()]


def usual_divergences(found):
    """Share of trajectories that diverged where Psi is not far out."""
    usual = np.array([np.linalg.cond(each) for each in found["psi"]]) < 100
    assert usual.mean() > 0.5
    return found["is_divergent"][usual].mean()


EVERYTHING = {"samples_membership": False, "prior": KINDS}


@pytest.mark.parametrize("n", [0, 4])
def test_everything_keeps_its_prior(n):
    scales, found = successive_conditional(n, 1500, **EVERYTHING)
    assert_psi_has_its_prior(found["psi"], scales)
    assert_ties_have_their_prior(found)
    assert_uniform(found["delta"] / (found["delta"] + TYPICAL_DELTA), "delta")
    for name, values, distribution in (
        ("absent", found["kinds"][:, 0], beta(1.5, 1)),
        ("common", found["kinds"][:, 1], beta(0.5, 2)),
        ("rare", found["kinds"][:, 3], beta(0.5, 9.5)),
        ("usual", found["kinds"][:, 4], beta(9.5, 0.5)),
    ):
        assert_uniform(distribution.cdf(values), name)
    assert_edges(
        found["n_edges"], total_edges(3, 2, drawn_kinds(np.random.default_rng(1), 3, 4000))
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 4])
def test_few_trajectories_diverge(n):
    """The prior of Psi has heavy tails; far out one step size is too long, and trajectories diverge.

    How often differs between runs: 0 to 1.2 % of the usual ones, so the mean of three runs is compared.
    """
    runs = [successive_conditional(n, 1500, seed=seed, **EVERYTHING)[1] for seed in range(3)]
    assert np.mean([usual_divergences(found) for found in runs]) < 0.01


def test_graphs_and_psi_keep_their_prior_when_the_rest_is_held():
    scales, found = successive_conditional(6, 1200, delta=8.0, samples_membership=False)
    assert set(found["delta"]) == {8.0}
    assert np.isnan(found["kinds"]).all()
    assert set(found["n_members"]) == {2}
    assert_psi_has_its_prior(found["psi"], scales)
    assert_ties_have_their_prior(found)
    assert_edges(found["n_edges"], total_edges(3, 2, [PRIOR]))


def test_membership_keeps_its_prior():
    """The number of members is uniform from 0 to m, whatever the graphs and the data."""
    scales, found = successive_conditional(4, 1200, delta=8.0)
    assert_psi_has_its_prior(found["psi"], scales)
    assert_ties_have_their_prior(found)
    n_members = found["n_members"]
    for number in range(3):
        assert abs(deviations(n_members == number, 1 / 3, n_members)) < MOST_DEVIATIONS
    # Edges are those of a mixture: with fewer than two members no edge is shared.
    expected = total_edges(3, 2, [PRIOR, single_prior(PRIOR), single_prior(PRIOR)])
    assert_edges(found["n_edges"], expected)


def draw_from_the_model(rng, m, p, n, delta, prior, own_share):
    """Tasks, their graphs, Psi, the scales of its prior, and those of own families."""
    scales, single_scales = np.exp(rng.uniform(-1, 1, (2, p)))
    psi = invwishart(p + 1, np.diag(scales)).rvs(random_state=rng)
    if isinstance(prior, PairKinds):
        frequencies, weights = np.transpose(naive.frequencies_of_pairs(prior))
        common = np.triu(rng.choice(frequencies, (p, p), p=weights / weights.sum()), 1)
    else:
        r, s = prior
        common = np.triu(rng.beta(s * r, s * (1 - r), (p, p)), 1)
    common += common.T
    adjacencies = np.zeros((m, p, p), dtype=bool)
    for adjacency in adjacencies:
        places = rng.permutation(p)
        adjacency[:] = (rng.random((p, p)) < common) & (places[:, None] < places)
    priors = (delta * psi, delta), (np.diag(single_scales), SINGLE_DELTA)
    ties = np.ones((m, p), dtype=bool)
    if own_share > 0:
        patterns, log_prior = patterns_of_ties(p, own_share)
        ties = patterns[rng.choice(len(patterns), m, p=np.exp(log_prior))]
    scatters = [
        draw_scatter(rng, *task, n)
        for task in zip(adjacencies, itertools.repeat(priors), ties, strict=False)
    ]
    return Tasks(scatters, np.full(m, float(n))), adjacencies, psi, scales, single_scales


def ranked(psi, delta, kinds, n_edges, own_share):
    """What is ranked, (rounds,) each."""
    roots = np.sqrt(np.diagonal(psi, axis1=-2, axis2=-1))
    return {
        "Psi[0, 0]": psi[..., 0, 0],
        "Psi[3, 3]": psi[..., 3, 3],
        "|Psi|": np.linalg.slogdet(psi)[1],
        "correlation": psi[..., 1, 2] / (roots[..., 1] * roots[..., 2]),
        "sigma_h[0, 0]": psi[..., 0, 0] * delta,
        "delta": delta,
        "absent": kinds[..., 0],
        "common": kinds[..., 1],
        "usual": kinds[..., 4],
        "edges": n_edges,
        "own share": own_share,
    }


@pytest.mark.slow
@pytest.mark.parametrize("samples_all", [False, True])
def test_ranks_of_true_parameters_are_uniform(samples_all):
    m, p, n, n_rounds, n_ranked = 3, 4, 25, 240, 24
    ranks = {}
    for simulation in range(80):
        rng = np.random.default_rng([int(samples_all), simulation])
        prior, delta, own_share = PRIOR, 10.0, 0.0
        if samples_all:
            share = rng.random()
            (prior,) = drawn_kinds(rng, p, 1)
            delta = TYPICAL_DELTA * share / (1 - share)
            own_share = rng.choice(OWN_SHARES)
        tasks, adjacencies, psi, scales, single_scales = draw_from_the_model(
            rng, m, p, n, delta, prior, own_share
        )
        data, state = chain_of(
            tasks,
            prior=KINDS if samples_all else prior,
            delta=30.0 if samples_all else delta,
            n_moves=150,
            samples_delta=samples_all,
            samples_membership=False,
            samples_ties=samples_all,
        )
        data.psi_scales[:], data.single_scales[:] = scales, single_scales
        _, state = run_chain(data, state, rng, 80, adapts=True)
        trace, _ = run_chain(data, state, rng, n_rounds, adapts=False)
        kinds = np.array(prior if samples_all else [np.nan] * 5)
        true = ranked(psi, delta, kinds, adjacencies.sum(), own_share)
        found = ranked(trace.psi, trace.delta, trace.kinds, trace.n_edges, trace.own_share)
        for name, value in true.items():
            draws = found[name][:: n_rounds // n_ranked]
            # Counts have ties, broken at random.
            below = np.sum(draws < value) + rng.random() * (np.sum(draws == value) + 1)
            ranks.setdefault(name, []).append(below / (n_ranked + 1))
    for name, values in ranks.items():
        if samples_all or name not in ("delta", "absent", "common", "usual", "own share"):
            assert kstest(values, "uniform").pvalue > 0.001, name


# Runs.


def small_chain(**options):
    """A chain in which everything is sampled, and which is quick."""
    tasks = options.pop("tasks", simulate_tasks(3, 5, 40, random_state=0).tasks)
    options = {"prior": KINDS, "n_moves": 100, "delta": 30.0, **options}
    return *chain_of(tasks, **options), np.random.default_rng(0)


CHAINS = {
    "everything": {},
    "fixed edge prior": {"prior": PRIOR, "agreement": 1.5},
    "missing values": {"tasks": incomplete_tasks()},
}


@pytest.mark.parametrize("adapts", [False, True])
def test_the_seed_decides_everything(adapts):
    data, state, rng = small_chain()
    trace, end = run_chain(data, state, rng, 12, adapts=adapts)
    again, same_end = run_chain(data, state, np.random.default_rng(0), 12, adapts=adapts)
    assert_same(again, trace)
    assert_same(same_end, end)
    other, _ = run_chain(data, state, np.random.default_rng(1), 12, adapts=adapts)
    assert (other.psi != trace.psi).any()


@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_two_short_runs_are_one_long_run(chain, adapts):
    """Also where masses are learned after the tenth round, and for portions of several rounds."""
    data, state, rng = small_chain(**CHAINS[chain])
    whole, last = run_chain(data, state, rng, 24, adapts=adapts)
    rng = np.random.default_rng(0)
    first, middle = run_chain(data, state, rng, 7, adapts=adapts)
    kept = copy_of(middle)
    second, end = run_chain(data, middle, rng, 17, adapts=adapts)
    assert_same(kept, middle)  # not changed in place
    for name in (
        *("psi", "delta", "kinds", "log_density", "n_edges", "acceptance"),
        *("members", "advantages", "own_share"),
    ):
        both = np.concatenate([getattr(first, name), getattr(second, name)])
        np.testing.assert_array_equal(both, getattr(whole, name), err_msg=name)
    for name in ("end_counts", "n_divergent"):
        np.testing.assert_array_equal(
            getattr(first, name) + getattr(second, name), getattr(whole, name)
        )
    for name in ("move_frequencies", "log_odds", "row_means", "scatters"):
        mean = (7 * getattr(first, name) + 17 * getattr(second, name)) / 24
        np.testing.assert_allclose(mean, getattr(whole, name), atol=1e-10)
    assert_same(end, last)
    assert end.n_adapted == (24 if adapts else 0)
    assert end.n_learned == (10 if adapts else 0)
    assert len(end.window) == (14 if adapts else 0)


def test_no_rounds_change_nothing():
    data, state, rng = small_chain()
    trace, end = run_chain(data, state, rng, 0, adapts=True)
    assert_same(end, state)
    assert len(trace.psi) == 0
    assert not trace.move_frequencies.any()


@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_progress_is_told_and_can_stop_a_chain(chain, adapts):
    data, state, rng = small_chain(**CHAINS[chain])
    before, portions = copy_of(state), []
    told, _ = run_chain(data, state, rng, 60, adapts=adapts, progress=portions.append)
    assert sum(portions) == 60
    if chain == "missing values":
        assert portions == [1] * 60
    else:
        # Portions have 1000 / (3 * 5) rounds, but 25 at most, and end where masses are learned.
        assert portions == ([10, 15, 25, 10] if adapts else [25, 25, 10])
    silent, _ = run_chain(data, state, np.random.default_rng(0), 60, adapts=adapts)
    assert_same(told, silent)

    def stop(n_rounds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_chain(data, state, rng, 60, adapts=adapts, progress=stop)
    assert_same(state, before)


def test_large_chains_come_in_short_portions():
    tasks = simulate_tasks(30, 6, 20, random_state=0).tasks
    data, state, rng = small_chain(tasks=tasks, prior=PRIOR)
    portions = []
    run_chain(data, state, rng, 12, adapts=False, progress=portions.append)
    assert portions == [5, 5, 2]  # 1000 / (30 * 6)


def test_step_sizes_reach_their_targets():
    data, state, rng = small_chain()
    _, state = run_chain(data, state, rng, 480, adapts=True)  # masses were last learned at 400
    trace, end = run_chain(data, state, rng, 400, adapts=False)
    assert trace.acceptance.mean() == pytest.approx(0.8, abs=0.1)
    # Two steps per round: delta stays where it is with probability 0.6 squared.
    assert (np.diff(trace.delta) != 0).mean() == pytest.approx(0.64, abs=0.15)
    assert end.step_size == state.step_size
    assert end.delta_step == state.delta_step


def test_frequencies_of_moves_are_those_of_rounds():
    data, state, rng = small_chain(prior=PRIOR)
    trace, _ = run_chain(data, state, rng, 200, adapts=True)
    both = trace.move_frequencies + np.swapaxes(trace.move_frequencies, 1, 2)
    assert both.min() >= 0
    assert both.max() <= 1 + 1e-12
    shares = (trace.end_counts + np.swapaxes(trace.end_counts, 1, 2)) / 200
    assert both.max() > 0.1
    # More than four standard deviations of a share of 200 independent rounds.
    np.testing.assert_allclose(both, shares, atol=0.15)


def test_knowledge_is_obeyed_in_every_round():
    m, p = 3, 5
    constraints = no_constraints(p)
    allowed, required, _ = constraints
    allowed[0, 1] = allowed[2, 3] = allowed[3, 2] = False
    required[4, 2] = True
    allowed[2, 4] = False
    constraints = Constraints(allowed, required, 2)
    data, state, rng = small_chain(constraints=constraints, prior=PRIOR)
    seen = np.zeros((m, p, p), dtype=bool)
    for _ in range(60):
        _, state = run_chain(data, state, rng, 1, adapts=True)
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
    other = simulate_tasks(1, p, n, random_state=99).arrays[0]
    arrays = [
        *simulation.arrays[:3],
        other[:, ::-1] * [0.3, 3, 1, 0.5, 2, 1],
        *simulation.arrays[3:5],
    ]
    data, state, rng = small_chain(tasks=Tasks.from_arrays(arrays), n_moves=300)
    assert state.members.all()
    _, state = run_chain(data, state, rng, 150, adapts=True)
    trace, _ = run_chain(data, state, rng, 150, adapts=False)
    membership = trace.members.mean(axis=0)
    assert membership[3] < 0.1
    assert np.delete(membership, 3).min() > 0.9
    assert np.median(trace.advantages, axis=0).argmin() == 3
