"""The weakest connection that counts: costs of edges in searches, chains, baselines and new tasks."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mtgbn import AVG, MTGBN, SIG, Knowledge, Tasks
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.errors import CollinearityWarning
from mtgbn.graphs import skeleton
from mtgbn.graphs.dags import topological_order
from mtgbn.learn.min_strength import MinStrength, shared_error
from mtgbn.model.edge_prior import edge_costs
from mtgbn.simulate import simulate_misfit, simulate_thresholded


def pairs_with_correlation(rho, n, m=1):
    """Tasks of two variables whose sample correlation is exactly rho."""
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(m):
        rows = rng.standard_normal((n, 2))
        rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * np.sqrt(n - 1)
        rows[:, 1] = rho * rows[:, 0] + np.sqrt(1 - rho**2) * rows[:, 1]
        arrays.append(rows)
    return Tasks.from_arrays(arrays)


def wrong_pairs(estimator, simulation):
    """False edges, missing edges, per task."""
    with without_convergence_warnings():  # of fits without a minimum
        graphs = estimator.fit(simulation.tasks).graphs_
    found = np.array([skeleton(graph) for graph in graphs])
    truth = np.array([skeleton(graph) for graph in simulation.adjacencies])
    return [(a & ~b).sum() / 2 / len(found) for a, b in ((found, truth), (truth, found))]


@pytest.mark.parametrize(("n", "rho"), [*itertools.product((10.0, 80.0), (0.0, 0.1, 0.6))])
def test_an_edge_costs_the_likelihood_ratio_of_its_effect(n, rho):
    """By the residual sums of squares of the regressions without and with the effect."""
    gain = n / 2 * (np.log(n) - np.log(n - rho**2 * n))
    assert edge_costs(n, rho) == pytest.approx(gain)


@pytest.mark.parametrize("estimator", [SIG, AVG])
def test_edges_count_from_the_given_strength_on(estimator):
    """With many rows the prior of coefficients and edges hardly matters."""
    for rho in (0.2, 0.4):
        tasks = pairs_with_correlation(rho, 20_000)
        for min_strength in (0.0, 0.1, 0.3, 0.5):
            settings = {"edge_prior": 0.5, "min_strength": min_strength, "random_state": 0}
            found = estimator(**settings).fit(tasks).graphs_.any()
            assert found == (rho > min_strength)


@pytest.mark.parametrize("inference", ["map", "posterior"])
def test_the_number_of_tasks_does_not_make_weak_effects_count(inference):
    settings = {"inference": inference, "n_rounds": 40, "n_draws": 8, "random_state": 0}
    shares = {}
    for rho, min_strength in ((0.15, 0.0), (0.15, 0.3), (0.6, 0.3)):
        tasks = pairs_with_correlation(rho, 150, m=25)
        estimator = MTGBN(min_strength=min_strength, **settings)
        with without_convergence_warnings():  # forty rounds are few
            graphs = estimator.fit(tasks).graphs_
        shares[rho, min_strength] = graphs.any(axis=(1, 2)).mean()
    assert shares == {(0.15, 0.0): 1.0, (0.15, 0.3): 0.0, (0.6, 0.3): 1.0}


def test_required_edges_stay():
    tasks = pairs_with_correlation(0.1, 50, m=3)
    knowledge = {"required": [("x0", "x1")]}
    for estimator in (MTGBN, SIG, AVG):
        graphs = estimator(knowledge=knowledge, min_strength=0.9, random_state=0).fit(tasks).graphs_
        assert graphs[:, 0, 1].all()


@pytest.mark.parametrize("single", [False, True])
def test_a_new_task_has_the_same_limit(single):
    tasks = pairs_with_correlation(0.2, 400, m=4)
    found = [
        MTGBN(min_strength=min_strength, random_state=0)
        .fit(tasks[:3])
        .fit_task(tasks[3], single=single)
        for min_strength in (0.0, 0.5)
    ]
    assert [bool(each.graph.any()) for each in found] == [True, False]
    assert found[0].adjacency_probabilities[0, 1] > 0.9
    assert found[1].adjacency_probabilities[0, 1] < 0.1


def test_shared_misfit_is_not_taken_for_edges():
    """A hidden cause: with 30 tasks, most false edges are weaker than .15, and no true one is."""
    simulation = simulate_misfit("hidden_cause", n_tasks=30, n_variables=10, random_state=1)
    assert np.abs(simulation.coefficients[simulation.adjacencies]).min() > 0.15
    false, missing = wrong_pairs(MTGBN(min_strength=0, random_state=0), simulation)
    for min_strength in (0.15, "auto"):
        estimator = MTGBN(min_strength=min_strength, random_state=0)
        fewer, missing_too = wrong_pairs(estimator, simulation)
        assert fewer < false / 2
        assert missing_too < missing + 1


# The minimum that the data decide.


def test_the_weakest_edge_makes_its_data_twice_as_likely():
    ns = np.array([20.0, 100.0, 1000.0])
    limit = MinStrength(0.0, 2.0)
    gains = ns / 2 * np.log(1 / (1 - limit.strengths(ns) ** 2))
    np.testing.assert_allclose(gains, np.log(2))
    np.testing.assert_allclose(limit.costs(ns), np.log(2))
    # A strength raises the minimum where it is larger than that of the ratio.
    both = MinStrength(0.1, 2.0)
    np.testing.assert_allclose(both.strengths(ns), np.maximum(limit.strengths(ns), 0.1))
    given = MinStrength(0.1)
    np.testing.assert_allclose(given.strengths(ns), 0.1)
    np.testing.assert_allclose(given.costs(ns), edge_costs(ns, 0.1))
    assert (MinStrength(0.0).costs(ns) == 0).all()


def test_the_minimum_says_where_it_comes_from():
    ns = np.array([50.0, 200.0])
    assert "0.1 (as set)" in MinStrength(0.1).in_words(ns)
    words = MinStrength(0.0, 2.0).in_words(ns)
    assert "0.083 to 0.17, depending on the task's n" in words
    assert "2 times as likely" in words
    assert "errors that all tasks share" in MinStrength(0.3, 2.0).in_words(ns)
    assert "2 times as likely" not in MinStrength(0.3, 2.0).in_words(ns)
    both = MinStrength(0.1, 2.0).in_words(ns)
    assert both.index("0.1 are expected from errors") < both.index("tasks with few rows")


def slow_shared_error(tasks, graph):
    """The largest expected error, pair by pair, with inverses."""
    p, found = tasks.n_variables, []
    order = list(topological_order(graph))
    for first, second in itertools.combinations(range(p), 2):
        a, node = order[first], order[second]
        if graph[a, node]:
            continue
        parents = [k for k in range(p) if graph[k, node]]
        chosen = [a, node, *parents]
        z = []
        for scatter in tasks.scatters:
            inverse = np.linalg.inv(scatter[np.ix_(chosen, chosen)])
            z.append(np.arctanh(-inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])))
        weights = tasks.ns - len(parents) - 2
        mean = np.average(z, weights=weights)
        spread = np.sum(weights * (np.array(z) - mean) ** 2) / (len(z) - 1)
        found.append((mean, spread, weights.mean(), weights.sum()))
    mean, spread, weight, total = np.transpose(found)
    average, m = max(spread.mean(), 1), len(tasks)
    ratio = np.maximum(((m - 1) * spread + 4 * average) / (m + 3), 1)
    chance = ratio / total
    # The upper quartile of standard normal squares is 1.3233; tau^2 by halving an interval.
    quartile, low, high = stats.norm.ppf(0.875) ** 2, 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        variance = chance + (average - 1) / weight + middle
        is_above = np.quantile(mean**2 / variance, 0.75) > quartile
        low, high = (middle, high) if is_above else (low, middle)
    # Standard error of a quantile of K squares, in units of the quantile.
    density = stats.norm.pdf(np.sqrt(quartile)) / np.sqrt(quartile)
    error = np.sqrt(0.75 * 0.25 / len(mean)) / density / quartile
    excess = high - 2 * error * chance.mean()
    return np.sqrt(2 * np.log(len(mean)) * max(excess, 0))


@pytest.mark.parametrize("misfit", ["hidden_cause", "none"])
def test_the_shared_error_is_that_of_a_slow_sum(misfit):
    simulation = simulate_misfit(misfit, n_tasks=12, n_variables=9, random_state=2)
    graph = AVG(random_state=0).fit(simulation.tasks).graphs_[0]
    found = shared_error(simulation.tasks, graph)
    assert found == pytest.approx(slow_shared_error(simulation.tasks, graph), rel=1e-9)
    assert (found > 0.05) == (misfit == "hidden_cause")


@pytest.mark.parametrize("misfit", ["none", "heavy_tails", "saturating", "autocorrelated"])
def test_there_is_no_shared_error_where_the_pooled_graph_is_right(misfit):
    for seed in range(4):
        simulation = simulate_misfit(misfit, n_tasks=20, n_variables=10, random_state=seed)
        assert shared_error(simulation.tasks, simulation.adjacencies[0]) < 0.06


def test_tasks_that_differ_have_no_shared_error():
    """Thresholded data: no graph suits all tasks, and what it misses is not the same in all."""
    for seed in range(3):
        tasks = simulate_thresholded(10, 10, 100, nu0=20.0, random_state=seed).tasks
        graph = AVG(random_state=0).fit(tasks).graphs_[0]
        assert shared_error(tasks, graph) == 0


def test_few_rows_or_few_variables_tell_nothing():
    rng = np.random.default_rng(0)
    for tasks in (
        Tasks.from_arrays(rng.standard_normal((3, 20, 2))),
        Tasks.from_arrays(rng.standard_normal((1, 20, 4))),
    ):
        assert AVG(random_state=0).fit(tasks).min_strength_ == (0.0, 2.0)
    # A graph without pairs that are not joined.
    full = np.triu(np.ones((3, 3), dtype=bool), 1)
    assert shared_error(Tasks.from_arrays(rng.standard_normal((3, 20, 3))), full) == 0
    # Fewer rows than parents.
    graph = np.zeros((6, 6), dtype=bool)
    graph[:4, 5] = True
    tasks = Tasks.from_arrays(rng.standard_normal((3, 5, 6)))
    assert np.isfinite(shared_error(tasks, graph))


def chains_of_variables(rho, n, m, p=10, seed=0):
    """Rows of x0 -> x1 -> ..., all correlations of neighbours rho."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((m, n, p))
    for j in range(1, p):
        rows[:, :, j] = rho * rows[:, :, j - 1] + np.sqrt(1 - rho**2) * rows[:, :, j]
    return rows


@pytest.mark.parametrize(("rho", "n", "m"), [(0.18, 2000, 6), (0.15, 1000, 20), (0.19, 1000, 10)])
def test_a_network_of_weak_edges_is_no_error(rho, n, m):
    """The first pooled graph, of edges of at least .2, is empty."""
    rows = chains_of_variables(rho, n, m)
    fitted = SIG(random_state=0).fit(rows)
    assert fitted.min_strength_.strength == 0
    neighbours = fitted.graphs_ | fitted.graphs_.swapaxes(1, 2)
    assert neighbours[:, np.arange(9), np.arange(1, 10)].mean() > 0.85


@pytest.mark.parametrize(
    "knowledge",
    [
        Knowledge(max_parents=1),
        Knowledge(max_parents=0),
        Knowledge(forbidden=[("x0", "x3"), ("x3", "x0")]),
    ],
)
def test_what_prior_knowledge_keeps_apart_is_no_error(knowledge):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((20, 150, 8))
    rows[:, :, 3] += rows[:, :, :3].sum(axis=2)
    for j in (5, 6, 7):
        rows[:, :, j] += 0.33 * rows[:, :, j - 1]
    assert AVG(random_state=0, knowledge=knowledge).fit(rows).min_strength_.strength == 0


@pytest.mark.parametrize("n_copies", [1, 6])
def test_copied_columns_tell_nothing_of_errors(n_copies):
    rows = chains_of_variables(0.5, 60, 6, p=5)
    rows[:n_copies, :, 1] = rows[:n_copies, :, 0]
    with pytest.warns(CollinearityWarning):
        fitted = SIG(random_state=0).fit(rows)
    assert np.isfinite(fitted.min_strength_.strength)
    assert fitted.min_strength_.strength < 0.2


@pytest.mark.parametrize("estimator", [MTGBN, SIG, AVG])
def test_all_estimators_have_the_same_minimum(estimator):
    """Also after the fit was written and read, and with incomplete tasks left out of the estimate."""
    simulation = simulate_misfit("hidden_cause", n_tasks=12, n_variables=9, random_state=2)
    fitted = estimator(random_state=0).fit(simulation.tasks)
    assert fitted.min_strength_ == AVG(random_state=0).fit(simulation.tasks).min_strength_
    assert fitted.min_strength_.strength > 0.1
    assert fitted.min_strength_.ratio == 2


@pytest.mark.parametrize("kind", ["lagged", "autocorrelated"])
def test_more_tasks_do_not_give_more_wrong_edges(kind):
    """The first 8 of 48 tasks, and all; without a minimum the number of wrong pairs rises."""
    simulation = simulate_misfit(kind, n_tasks=48, n_variables=12, random_state=3)
    few = simulation._replace(tasks=simulation.tasks[:8], adjacencies=simulation.adjacencies[:8])
    sums = {
        (setting, m): sum(wrong_pairs(MTGBN(min_strength=setting, random_state=0), each))
        for setting in ("auto", 0)
        for m, each in ((8, few), (48, simulation))
    }
    assert sums["auto", 48] < sums["auto", 8] + 0.5
    assert sums["auto", 48] < sums[0, 48] - 1


def test_a_hidden_cause_of_many_tasks_does_less_harm_than_learning_alone():
    """Without a minimum there are several times as many wrong pairs as single tasks have."""
    sums = np.zeros(3)
    for seed in (3, 4):
        simulation = simulate_misfit("hidden_cause", n_tasks=48, n_variables=10, random_state=seed)
        for place, estimator in enumerate((MTGBN(), SIG(), MTGBN(min_strength=0))):
            sums[place] += sum(wrong_pairs(estimator.set_params(random_state=0), simulation))
    auto, single, without = sums
    assert auto < single
    assert without > 3 * single
