"""EM against the objective computed another way, fresh draws, exact integration and enumeration."""

import itertools

import numpy as np
import pytest
from arviz_stats.base import array_stats
from learn_oracles import all_dags, log_likelihoods, related_tasks, silent
from scipy.special import logsumexp

from mtgbn.graphs import cpdag
from mtgbn.learn.joint import Iteration
from mtgbn.learn.single_task import FoundGraph
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.paper import em, sample_sigma_h
from mtgbn.paper.em import EMProblem, EMState
from mtgbn.paper.structure_priors import log_structure_prior
from mtgbn.search.knowledge import no_constraints
from mtgbn.search.methods import SearchSettings

# Means over draws, added up in another order.
ROUNDING = 1e-6


def pose(tasks, seed=0, *, nu0=None, edge_prior=None, structure_prior="uniform", **settings):
    """An `EMProblem` without an estimator; tasks and variables stay in their order."""
    p = tasks.n_variables
    return EMProblem(
        tasks=tasks,
        constraints=(no_constraints(p),) * len(tasks),
        nu0=p + 10.0 if nu0 is None else nu0,
        edge_prior=EdgePriorChoice(EdgePrior(0.4, 3.0) if edge_prior is None else edge_prior),
        structure_prior=structure_prior,
        search=SearchSettings(),
        seeds=np.random.SeedSequence(seed),
        **{"n_draws": 20, "tolerance": 0.1, "max_iter": 50, **settings},
    )


def counts_of(adjacencies):
    """Tasks with each edge, pair by pair."""
    m, p, _ = np.shape(adjacencies)
    counts = np.zeros((p, p), dtype=int)
    for t, i, j in itertools.product(range(m), range(p), range(p)):
        counts[i, j] += bool(adjacencies[t][i][j] or adjacencies[t][j][i])
    return counts


def q_by_draw(problem, adjacencies, draws):
    """Log joint density of data and graphs given each draw of sigma_h."""
    prior = problem.edge_prior.prior.log_probability(counts_of(adjacencies), len(adjacencies))
    total = np.full(len(draws), prior)
    for scatter, n, graph in zip(
        problem.tasks.scatters, problem.tasks.ns, adjacencies, strict=True
    ):
        total += log_likelihoods(scatter, n, graph, draws, problem.nu0)
        if problem.structure_prior != "uniform":
            total += [
                log_structure_prior(graph, draw, problem.nu0, problem.structure_prior)
                for draw in draws
            ]
    return total


class Recorder:
    """Stands in for `sample_sigma_h` within EM and keeps what it returned."""

    def __init__(self, monkeypatch):
        self.draws = []
        self._sample = em.sample_sigma_h
        monkeypatch.setattr(em, "sample_sigma_h", self)

    def __call__(self, *args, **kwargs):
        self.draws.append(self._sample(*args, **kwargs))
        return self.draws[-1]


def empty_state(problem):
    m, p = len(problem.tasks), problem.tasks.n_variables
    return EMState(np.zeros((m, p, p), dtype=bool), (), problem.n_draws)


def run(problem, state, n_jobs=1):
    """All states from this one to the last."""
    states = [state]
    while not states[-1].reason:
        states.append(em.advance(problem, states[-1], n_jobs, silent))
    return states


def fresh_draws(problem, adjacencies, seed, n_draws):
    return sample_sigma_h(
        problem.tasks,
        adjacencies,
        problem.nu0,
        structure_prior=problem.structure_prior,
        n_draws=n_draws,
        n_warmup=200,
        n_chains=em.N_CHAINS,
        n_jobs=1,
        random_state=seed,
    )


def random_state(problem, seed):
    """Graphs that have nothing to do with the data, so that the first M-step changes them."""
    rng = np.random.default_rng(seed)
    dags = all_dags(problem.tasks.n_variables)
    chosen = dags[rng.integers(len(dags), size=len(problem.tasks))]
    return empty_state(problem)._replace(adjacencies=chosen)


SEEDS = [2, 4, 5, 8]


def test_the_oracle_is_the_density():
    problem = pose(related_tasks(1, rows=14))
    draws = fresh_draws(problem, empty_state(problem).adjacencies, 0, 4).flat
    for scatter, n, graph in zip(
        problem.tasks.scatters, problem.tasks.ns, all_dags(3)[::9], strict=True
    ):
        expected = [log_marginal_likelihood(scatter, n, graph, s, problem.nu0) for s in draws]
        np.testing.assert_allclose(
            log_likelihoods(scatter, n, graph, draws, problem.nu0), expected, rtol=1e-12
        )


@pytest.mark.parametrize("structure_prior", ["uniform", "restricted", "scale_free", "decomposable"])
def test_q_and_its_gain_are_those_of_the_densities(structure_prior, monkeypatch):
    changes = 0
    for seed in SEEDS:
        problem = pose(
            related_tasks(seed, rows=14), seed, structure_prior=structure_prior, max_iter=4
        )
        recorder = Recorder(monkeypatch)
        states = run(problem, random_state(problem, seed))
        for old, new, draws in zip(states[:-1], states[1:], recorder.draws, strict=True):
            iteration = new.history[-1]
            before = q_by_draw(problem, old.adjacencies, draws.flat)
            after = q_by_draw(problem, new.adjacencies, draws.flat)
            if structure_prior == "uniform":
                assert iteration.q == pytest.approx(after.mean(), abs=ROUNDING)
            assert iteration.gain == pytest.approx((after - before).mean(), abs=ROUNDING)
            assert iteration.gain >= 0
            assert iteration.n_draws == len(draws.flat)
            assert iteration.n_edges == new.adjacencies.sum()
            assert iteration.n_changed == (new.adjacencies != old.adjacencies).any((1, 2)).sum()
            assert (iteration.n_changed > 0) == (iteration.gain > 0)
            assert (iteration.n_changed > 0) == (iteration.gain_error > 0)
            changes += iteration.n_changed
    assert changes > 5


def test_the_gain_is_real_on_fresh_draws_and_its_error_has_the_right_size():
    ratios = []
    for seed in SEEDS:
        problem = pose(related_tasks(seed, rows=14), seed, n_draws=100, max_iter=1)
        old = random_state(problem, seed)
        new = em.advance(problem, old, 1, silent)
        (iteration,) = new.history
        assert iteration.n_changed
        gains = []
        for number in range(30):
            draws = fresh_draws(problem, old.adjacencies, 1000 + number, 50)
            difference = q_by_draw(problem, new.adjacencies, draws.flat)
            difference -= q_by_draw(problem, old.adjacencies, draws.flat)
            gains.append(difference.mean())
        error = np.std(gains, ddof=1) / np.sqrt(len(gains))
        # The search has seen its own draws, which flatters it by less than their error.
        assert np.mean(gains) > -4 * error
        assert abs(iteration.gain - np.mean(gains)) < 5 * np.hypot(iteration.gain_error, error)
        ratios.append(iteration.gain_error / np.std(gains, ddof=1))
    # Both are estimates: one of 30 gains, the other of two chains of 50 correlated draws.
    assert 0.5 < np.exp(np.mean(np.log(ratios))) < 1.5


@pytest.mark.parametrize("structure_prior", ["uniform", "restricted"])
def test_the_draws_are_those_of_the_posterior_given_the_graphs(structure_prior, monkeypatch):
    problem = pose(related_tasks(4), 4, structure_prior=structure_prior, n_draws=400, max_iter=2)
    recorder = Recorder(monkeypatch)
    states = run(problem, random_state(problem, 4))
    for state, draws in zip(states[:-1], recorder.draws, strict=True):
        oracle = sample_sigma_h(
            problem.tasks,
            state.adjacencies,
            problem.nu0,
            structure_prior=structure_prior,
            sampler="gibbs" if structure_prior == "restricted" else "hmc",
            n_draws=1000,
            n_chains=2,
            random_state=77,
        )
        for i in range(3):
            values = [np.log(each.sigma_h[:, :, i, i]) for each in (draws, oracle)]
            errors = [
                array_stats.mcse(value, chain_axis=0, draw_axis=1, method="mean")
                for value in values
            ]
            # Six comparisons of standard normal size; 4.5 is exceeded with probability 7e-6.
            assert abs(values[0].mean() - values[1].mean()) < 4.5 * np.hypot(*errors)


# p = 2: sigma_h has three elements and a task two graphs up to equivalence, so everything is known.


def log_evidence(problem, adjacencies):
    """Log of the integral over sigma_h of the joint density of data and graphs, to 0.001."""
    scatters, ns = problem.tasks.scatters, problem.tasks.ns
    scales = np.sqrt(np.diag((scatters / ns[:, None, None]).mean(axis=0)))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    # Logarithms of the two variances, around nu0 times those of the data, and Fisher's z of the
    # correlation; hardly anything lies beyond these limits. Constant factors do not matter.
    variances, z = 4.5 * nodes + np.log(problem.nu0), 4 * nodes
    a, b, c = (grid.ravel() for grid in np.meshgrid(variances, variances, z, indexing="ij"))
    rho = np.tanh(c)
    sigma_h = np.array([[np.exp(a), rho * np.exp((a + b) / 2)]] * 2).transpose(2, 0, 1).copy()
    sigma_h[:, 1] = np.stack([rho * np.exp((a + b) / 2), np.exp(b)], axis=1)
    # d sigma_h = (s1 s2)^3 d(ln s1^2) d(ln s2^2) d rho, and d rho = (1 - rho^2) dz.
    volumes = 1.5 * (a + b) + np.log1p(-(rho**2))
    volumes += sum(
        np.log(grid.ravel()) for grid in np.meshgrid(weights, weights, weights, indexing="ij")
    )
    densities = q_by_draw(problem, adjacencies, sigma_h * np.outer(scales, scales))
    return logsumexp(densities + volumes)


def two_variable_graphs(m):
    """Every choice of tasks with the edge 0 -> 1, by the choice."""
    for present in itertools.product((False, True), repeat=m):
        graphs = np.zeros((m, 2, 2), dtype=bool)
        graphs[:, 0, 1] = present
        yield present, graphs


@pytest.mark.parametrize("seed", [0, 4])
def test_the_exact_posterior_of_the_graphs_never_falls(seed):
    tasks = related_tasks(seed, p=2, rows=15, strength=0.6)
    # Small samples move sigma_h a lot: many draws, so that Monte Carlo error stays small.
    problem = pose(tasks, seed, nu0=6.0, n_draws=400, max_iter=8, tolerance=0.01)
    exact = {
        present: log_evidence(problem, graphs)
        for present, graphs in two_variable_graphs(len(tasks))
    }
    moves = 0
    for _, graphs in two_variable_graphs(len(tasks)):
        states = run(problem, empty_state(problem)._replace(adjacencies=graphs))
        path = [
            exact[tuple((state.adjacencies | state.adjacencies.transpose(0, 2, 1))[:, 0, 1])]
            for state in states
        ]
        # The gain of the exact posterior is at least that of Q, which is known up to its error.
        for iteration, step in zip(states[-1].history, np.diff(path), strict=True):
            assert step >= iteration.gain - 4 * iteration.gain_error - 0.002
            moves += iteration.n_changed > 0
        assert path[-1] >= path[0]
    assert moves > 5


def test_every_task_ends_with_the_best_of_all_graphs():
    dags = all_dags(3)
    for seed in SEEDS:
        problem = pose(related_tasks(seed, rows=14), seed, n_draws=60, tolerance=0.0)
        state = run(problem, em.start(problem, 1, silent))[-1]
        draws = em.draw_finally(problem, state, 1, silent).flat
        for task in range(len(problem.tasks)):
            others = state.adjacencies.copy()
            scores = []
            for dag in dags:
                others[task] = dag
                scores.append(q_by_draw(problem, others, draws).mean())
            current = [np.array_equal(dag, state.adjacencies[task]) for dag in dags].index(True)
            # Other draws than those it was found with: an equal up to Monte Carlo error may lead.
            assert scores[current] > max(scores) - 0.5


# Taking the tasks' finds together.


def finds_problem(edge_prior, m):
    return pose(related_tasks(0, m=m, rows=14), edge_prior=edge_prior)


def find(adjacency, gain, n_draws=6):
    return FoundGraph(np.array(adjacency, dtype=bool), np.full(n_draws, float(gain)), 0.0)


def total(problem, old, new, finds):
    """Q of the data, relative to the old graphs, plus the edge prior."""
    gains = sum(
        find.gains.mean()
        for find, before, after in zip(finds, old, new, strict=True)
        if not np.array_equal(before, after)
    )
    return gains + problem.edge_prior.prior.log_probability(counts_of(new), len(new))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("edge_prior", [EdgePrior(0.3, 0.5), EdgePrior(0.3, np.inf)])
def test_finds_raise_q_in_whatever_order_they_come(seed, edge_prior):
    rng = np.random.default_rng(seed)
    m, dags = 5, all_dags(3)
    problem = finds_problem(edge_prior, m)
    old = dags[rng.integers(len(dags), size=m)]
    new = dags[rng.integers(len(dags), size=m)]
    finds = [find(graph, gain) for graph, gain in zip(new, rng.normal(1, 2, m), strict=True)]
    result, changed = em._take_best(problem, old, counts_of(old), finds)
    for task in range(m):
        expected = finds[task].adjacency if task in changed else old[task]
        np.testing.assert_array_equal(result[task], expected)
    # One by one, in the order in which they were taken, each is an improvement.
    graphs, value = old.copy(), total(problem, old, old, finds)
    for task in changed:
        graphs[task] = finds[task].adjacency
        better = total(problem, old, graphs, finds)
        assert better > value
        value = better
    order = rng.permutation(m)
    shuffled, moved = em._take_best(
        problem, old[order], counts_of(old), [finds[task] for task in order]
    )
    np.testing.assert_array_equal(shuffled, result[order])
    assert [order[task] for task in moved] == changed


def test_finds_that_are_good_alone_and_bad_together():
    # Graphs are nearly identical: each of two tasks would leave the other to join it.
    problem = finds_problem(EdgePrior(0.5, 0.1), 2)
    edge = np.zeros((3, 3), dtype=bool)
    edge[0, 1] = True
    nothing = np.zeros_like(edge)
    old = np.array([edge, nothing])
    finds = [find(nothing, -1.0), find(edge, -0.5)]
    odds = problem.edge_prior.prior.log_odds(np.array([0, 1]), 1)
    assert -1.0 - odds[0] > 0  # task 0 gives the edge up, because task 1 has none
    assert -0.5 + odds[1] > 0  # task 1 takes it, because task 0 has one
    both = total(problem, old, np.array([nothing, edge]), finds)
    assert both < total(problem, old, old, finds)
    result, changed = em._take_best(problem, old, counts_of(old), finds)
    assert changed == [1]
    np.testing.assert_array_equal(result, [edge, edge])


def test_the_most_valuable_find_comes_first():
    problem = finds_problem(EdgePrior(0.5, 0.1), 2)
    edge = np.zeros((3, 3), dtype=bool)
    edge[0, 1] = True
    nothing = np.zeros_like(edge)
    old = np.array([edge, nothing])
    result, changed = em._take_best(
        problem, old, counts_of(old), [find(nothing, -0.5), find(edge, -1.0)]
    )
    assert changed == [0]
    np.testing.assert_array_equal(result, [nothing, nothing])


def test_a_find_that_became_good_by_others_waits_for_the_next_iteration():
    problem = finds_problem(EdgePrior(0.5, 0.1), 3)
    edge = np.zeros((3, 3), dtype=bool)
    edge[0, 1] = True
    nothing = np.zeros_like(edge)
    old = np.array([nothing, nothing, nothing])
    finds = [find(edge, 20.0), find(edge, 20.0), find(nothing, 0.0)]
    result, changed = em._take_best(problem, old, counts_of(old), finds)
    assert sorted(changed) == [0, 1]
    np.testing.assert_array_equal(result, [edge, edge, nothing])


def test_differences_between_graphs_are_scored_for_every_draw(monkeypatch):
    problem = pose(related_tasks(5, rows=14), 5)
    recorder = Recorder(monkeypatch)
    seen = []
    original = em._take_best

    def spy(problem, adjacencies, counts, finds):
        seen.append((adjacencies, finds))
        return original(problem, adjacencies, counts, finds)

    monkeypatch.setattr(em, "_take_best", spy)
    em.advance(problem, random_state(problem, 5), 1, silent)
    ((adjacencies, finds),) = seen
    draws = recorder.draws[0].flat
    for task, found in enumerate(finds):
        with_find = adjacencies.copy()
        with_find[task] = found.adjacency
        m = len(adjacencies)
        prior = problem.edge_prior.prior.log_probability(counts_of(with_find), m)
        prior -= problem.edge_prior.prior.log_probability(counts_of(adjacencies), m)
        expected = q_by_draw(problem, with_find, draws) - q_by_draw(problem, adjacencies, draws)
        np.testing.assert_allclose(found.gains, expected - prior, atol=ROUNDING)


# When to stop.


def iteration(gain=1.0, error=0.1, n_changed=1, n_draws=20):
    return Iteration(-100.0, gain, error, n_changed, 3, n_draws)


STILL = iteration(0.0, 0.0, 0)


def idle(gain, error):
    return (
        f"in two iterations the gain in Q, at most {gain} (Monte Carlo standard error {error}), was "
        "below tol = 0.1 per task or within two errors"
    )


@pytest.mark.parametrize(
    ("history", "n_draws", "reason", "converged"),
    [
        ([iteration()], 20, "", False),
        ([STILL], 20, "", False),
        ([STILL, STILL], 20, "no graph changed in two iterations", True),
        ([STILL, iteration(), STILL], 20, "", False),
        ([iteration(0.1, 0.1)], 20, "", False),
        ([iteration(0.1, 0.1), iteration(), iteration(0.1, 0.1)], 20, "", False),
        ([iteration(0.1, 0.1), iteration(0.1, 0.7)], 40, "", False),
        ([iteration(0.1, 0.1), iteration(0.05, 0.2)], 20, idle("0.1", "0.1"), True),
        ([STILL, iteration(0.35, 0.2)], 20, idle("0.35", "0.2"), True),
        ([STILL, iteration(0.45, 0.2)], 20, "", False),
        # Below tol * tasks = 0.3, though more than noise.
        ([iteration(0.29, 0.01), iteration(0.2, 0.01)], 20, idle("0.29", "0.01"), True),
        ([iteration(0.31, 0.01), iteration(0.2, 0.01)], 20, "", False),
        # The error exceeds 2 * tol * tasks = 0.6: twice the draws, eight times the request at most.
        ([iteration(0.1, 0.7)], 40, "", False),
        ([iteration(0.1, 0.7, n_draws=80)], 160, "", False),
        ([iteration(0.1, 0.7, n_draws=100)], 160, "", False),
        ([iteration(0.1, 0.7, n_draws=160)], 160, "", False),
        ([iteration(0.1, 0.7, n_draws=160)] * 2, 160, idle("0.1", "0.7"), True),
        ([iteration(2.0, 0.7)], 20, "", False),
        ([iteration()] * 5, 20, "max_iter = 5 iterations were done", False),
        ([*[iteration()] * 3, STILL, STILL], 20, "no graph changed in two iterations", True),
    ],
)
def test_when_to_stop(history, n_draws, reason, converged):
    problem = pose(related_tasks(0), tolerance=0.1, max_iter=5)
    assert em._decide(problem, tuple(history)) == (n_draws, reason, converged)


def test_draws_become_more_numerous_when_their_error_is_too_large(monkeypatch):
    monkeypatch.setattr(em, "monte_carlo_error", lambda gains: 1e3)
    problem = pose(related_tasks(5, rows=14), 5, n_draws=8, max_iter=12)
    states = run(problem, random_state(problem, 5))
    expected = 8
    for iteration in states[-1].history:
        assert iteration.n_draws == expected
        if iteration.n_changed:
            expected = min(2 * expected, 8 * 8)
    assert expected > 8
    assert states[-1].reason == "no graph changed in two iterations"


def test_an_odd_number_of_draws_is_rounded_up_to_whole_chains():
    problem = pose(related_tasks(5, rows=14), 5, n_draws=9, max_iter=1)
    assert run(problem, em.start(problem, 1, silent))[-1].history[0].n_draws == 10


# Where nothing is shared, or everything.


def test_one_iteration_does_not_depend_on_the_number_of_jobs():
    problem = pose(related_tasks(5, m=4, rows=14), 5)
    one, two = (run(problem, em.start(problem, jobs, silent), jobs)[-1] for jobs in (1, 2))
    np.testing.assert_array_equal(one.adjacencies, two.adjacencies)
    assert one.history == two.history
    for chain, other in zip(one.chains, two.chains, strict=True):
        np.testing.assert_array_equal(chain.position, other.position)


def test_progress_is_reported_to_the_end():
    problem = pose(related_tasks(5, rows=14), 5, max_iter=1)
    calls = []
    run(problem, em.start(problem, 1, lambda *call: calls.append(call)))
    em.advance(problem, empty_state(problem), 1, lambda *call: calls.append(call))
    for what, steps in itertools.groupby(calls, key=lambda call: call[0]):
        done = [step[1] for step in steps]
        (total,) = {call[2] for call in calls if call[0] == what}
        assert done == sorted(done)
        assert done[-1] == total
    assert [what for what, _ in itertools.groupby(call[0] for call in calls)] == [
        "searching single tasks",
        "drawing sigma_h",
        "searching graphs",
    ]


def test_equal_tasks_may_still_pull_each_other_along():
    tasks = related_tasks(5, m=1, rows=14)
    doubled = tasks.scatters.repeat(2, axis=0)
    twice = type(tasks)(doubled, [tasks.ns[0]] * 2)
    problem = pose(twice, edge_prior=EdgePrior(0.4, 0.5))
    final = run(problem, em.start(problem, 1, silent))[-1].adjacencies
    np.testing.assert_array_equal(cpdag(final[0]), cpdag(final[1]))
