"""Parameters and predictions against inverse Wishart, multivariate t, simulation and quadrature."""

import copy

import naive
import numpy as np
import pandas as pd
import pytest
from learn_oracles import all_dags, related_arrays
from naive import covered_edges, random_covariance, random_dag, submatrix
from scipy.special import logsumexp
from scipy.stats import kstest, multivariate_t, t

from mtgbn.errors import InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.parameters import posterior_network
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.simulate.hierarchical import draw_covariance
from mtgbn.tasks import Tasks

# A standard normal exceeds this with probability 7e-6; no test compares more than 60 numbers.
Z_LIMIT = 4.5

# Kolmogorov-Smirnov tests: one false alarm in a thousand seeds, and seeds are fixed.
SMALLEST_P = 1e-3

DELTA, N = 3.5, 12.0


def complete_dag(p, rng):
    order = rng.permutation(p)
    adjacency = np.zeros((p, p), dtype=bool)
    adjacency[np.ix_(order, order)] = np.triu(np.ones((p, p), dtype=bool), 1)
    return adjacency


def problem(seed, p=4, n_draws=1):
    """A scatter and draws of sigma_h in very different units."""
    rng = np.random.default_rng(seed)
    base = random_covariance(rng, p)
    roots = np.linalg.cholesky(base) @ (
        np.eye(p) + 0.2 * np.tril(rng.standard_normal((n_draws, p, p)))
    )
    return N * random_covariance(rng, p), roots @ roots.transpose(0, 2, 1), rng


def z_scores(sample, expected):
    """How many standard errors the mean of a sample is off; 0 where it is always the same number."""
    sample = np.asarray(sample)
    error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
    return np.where(error > 0, (sample.mean(axis=0) - expected) / np.where(error > 0, error, 1), 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_complete_graph_has_the_mean_of_the_inverse_wishart(seed):
    p = 4
    scatter, draws, rng = problem(seed, p, n_draws=3)
    network = posterior_network(complete_dag(p, rng), scatter, N, draws, DELTA)
    nu0 = DELTA + p - 1
    expected = (draws.mean(axis=0) + scatter) / (nu0 + N - p - 1)
    np.testing.assert_allclose(network.parameters().covariance, expected, rtol=1e-10)


def test_a_graph_without_edges_keeps_the_variances():
    scatter, draws, _ = problem(0, n_draws=2)
    empty = np.zeros((4, 4), dtype=bool)
    covariance, coefficients, variances = posterior_network(
        empty, scatter, N, draws, DELTA
    ).parameters()
    expected = np.diag(draws.mean(axis=0) + scatter) / (DELTA + N - 2)
    np.testing.assert_allclose(covariance, np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(variances, expected, rtol=1e-12)
    assert not coefficients.any()


@pytest.mark.parametrize("seed", range(6))
def test_markov_equivalent_graphs_have_the_same_covariance_and_predictions(seed):
    p = 5
    scatter, draws, rng = problem(seed, p, n_draws=3)
    graph = random_dag(rng, p, 0.6)
    rows = rng.standard_normal((7, p))
    before = posterior_network(graph, scatter, N, draws, DELTA)
    turned = 0
    for _ in range(20):
        covered = covered_edges(graph)
        if not covered:
            break
        i, j = covered[rng.integers(len(covered))]
        graph[i, j], graph[j, i] = False, True
        turned += 1
        after = posterior_network(graph, scatter, N, draws, DELTA)
        np.testing.assert_allclose(
            after.parameters().covariance, before.parameters().covariance, rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(after.log_density(rows), before.log_density(rows), rtol=1e-10)
    assert turned


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_means_are_those_of_simulated_covariances(seed, mixed):
    """With own families, every family is drawn as a tied or as an own one."""
    p = 4
    scatter, draws, rng = problem(seed, p)
    graph = random_dag(np.random.default_rng(seed), p, 0.6)
    ties = np.array([0.3, 1.0, 0.6, 0.0]) if mixed else np.ones(p)
    means = posterior_network(graph, scatter, N, draws, DELTA, ties).parameters()
    of_task = np.diag(np.diag(scatter)) / N
    covariances, coefficients, variances = [], [], []
    for _ in range(1500):
        tied = draw_covariance(graph, draws[0] + scatter, DELTA + p - 1 + N, rng)
        own = draw_covariance(graph, of_task + scatter, 3.0 + p - 1 + N, rng)
        slopes, residuals = np.zeros((p, p)), np.zeros(p)
        for k in range(p):
            source = tied if rng.random() < ties[k] else own
            parents = np.flatnonzero(graph[:, k])
            slopes[parents, k] = np.linalg.solve(
                submatrix(source, parents).reshape(parents.size, parents.size),
                source[parents, k],
            )
            residuals[k] = source[k, k] - slopes[:, k] @ source[:, k]
        total = np.linalg.inv(np.eye(p) - slopes)
        covariances.append(total.T @ np.diag(residuals) @ total)
        coefficients.append(slopes)
        variances.append(residuals)
    assert np.abs(z_scores(covariances, means.covariance)).max() < Z_LIMIT
    assert np.abs(z_scores(coefficients, means.coefficients)).max() < Z_LIMIT
    assert np.abs(z_scores(variances, means.residual_variances)).max() < Z_LIMIT
    assert ((means.coefficients != 0) == graph).all()


def test_much_data_and_a_weak_prior_give_least_squares():
    rng = np.random.default_rng(0)
    p, n = 4, 500
    rows = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    graph = random_dag(rng, p, 0.7)
    means = posterior_network(graph, rows.T @ rows, n, 1e-9 * np.eye(p)[None], 1e-9).parameters()
    for k in range(p):
        parents = np.flatnonzero(graph[:, k])
        slopes, *_ = np.linalg.lstsq(rows[:, parents], rows[:, k])
        np.testing.assert_allclose(means.coefficients[parents, k], slopes, rtol=1e-8)
        residual = ((rows[:, k] - rows[:, parents] @ slopes) ** 2).sum()
        assert means.residual_variances[k] == pytest.approx(residual / (n + parents.size - 2))


@pytest.mark.parametrize("graph", [*all_dags(2), np.triu(np.ones((4, 4), dtype=bool), 1)])
def test_variances_that_do_not_exist_are_infinite(graph):
    scatter, draws, _ = problem(1, p=len(graph))
    # With delta + n = 2 a root has a t distribution with 2 degrees of freedom, which has no variance,
    # and so has nothing that depends on it. Coefficients have means all the same.
    parameters = posterior_network(graph, scatter, 1.5, draws, 0.5).parameters()
    assert (np.diag(parameters.covariance) == np.inf).all()
    assert np.isfinite(parameters.coefficients).all()
    roots = ~graph.any(axis=0)
    assert (parameters.residual_variances[roots] == np.inf).all()
    assert np.isfinite(parameters.residual_variances[~roots]).all()


@pytest.mark.parametrize("seed", range(4))
def test_log_density_is_the_gain_of_the_likelihood_by_one_row(seed):
    p = 4
    scatter, draws, rng = problem(seed, p, n_draws=3)
    graph = random_dag(rng, p, 0.5)
    rows = rng.standard_normal((5, p)) * np.sqrt(np.diag(scatter) / N)
    nu0 = DELTA + p - 1
    by_draw = np.array(
        [
            [
                log_marginal_likelihood(scatter + np.outer(row, row), N + 1, graph, draw, nu0)
                - log_marginal_likelihood(scatter, N, graph, draw, nu0)
                for row in rows
            ]
            for draw in draws
        ]
    )
    for draw, expected in zip(draws, by_draw, strict=True):
        single = posterior_network(graph, scatter, N, draw[None], DELTA)
        np.testing.assert_allclose(single.log_density(rows), expected, atol=1e-10)
    network = posterior_network(graph, scatter, N, draws, DELTA)
    mean = logsumexp(by_draw, axis=0) - np.log(len(draws))
    np.testing.assert_allclose(network.log_density(rows), mean, atol=1e-10)


def test_a_complete_graph_predicts_a_multivariate_t():
    p = 4
    scatter, draws, rng = problem(5, p)
    network = posterior_network(complete_dag(p, rng), scatter, N, draws, DELTA)
    rows = 3 * rng.standard_normal((20, p)) * np.sqrt(np.diag(scatter) / N)
    degrees = DELTA + N
    expected = multivariate_t(np.zeros(p), (draws[0] + scatter) / degrees, degrees).logpdf(rows)
    np.testing.assert_allclose(network.log_density(rows), expected, atol=1e-9)


@pytest.mark.parametrize("graph", all_dags(2))
def test_the_density_integrates_to_one(graph):
    scatter, draws, _ = problem(6, p=2, n_draws=3)
    network = posterior_network(graph, scatter, 1.0, draws, 2.0)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    angles = nodes * np.pi / 2
    scales = np.sqrt(np.diag(draws[0] + scatter))
    axes = [scale * np.tan(angles) for scale in scales]
    volume = [scale * weights * np.pi / 2 / np.cos(angles) ** 2 for scale in scales]
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    densities = np.exp(network.log_density(rows)).reshape(300, 300)
    assert volume[0] @ densities @ volume[1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_a_complete_graph_follow_the_t_distribution(seed):
    p, degrees = 4, DELTA + N
    scatter, draws, rng = problem(seed, p)
    network = posterior_network(complete_dag(p, rng), scatter, N, draws, DELTA)
    rows = network.sample(4000, rng)
    scale = (draws[0] + scatter) / degrees
    for direction in (*np.eye(p), rng.standard_normal(p), rng.standard_normal(p)):
        law = t(degrees, scale=np.sqrt(direction @ scale @ direction))
        assert kstest(rows @ direction, law.cdf).pvalue > SMALLEST_P
    entropy = multivariate_t(np.zeros(p), scale, degrees).entropy()
    assert abs(z_scores(network.log_density(rows), -entropy)) < Z_LIMIT


def test_samples_and_densities_of_own_families_belong_together():
    """E[g(x)/f(x)] over samples is the integral of g, whatever the ties."""
    p = 3
    scatter, draws, rng = problem(21, p, n_draws=3)
    graph = random_dag(rng, p, 0.7)
    network = posterior_network(graph, scatter, N, 5 * draws, DELTA, np.array([0.2, 0.9, 0.5]))
    rows = network.sample(20000, rng)
    products = rows[:, :, None] * rows[:, None]
    assert np.abs(z_scores(products, network.parameters().covariance)).max() < Z_LIMIT
    half = 1.5 * np.sqrt(np.diag(scatter) / N)
    inside = (np.abs(rows) < half).all(axis=1)
    inverse = np.where(inside, np.exp(-network.log_density(rows)), 0)
    assert abs(z_scores(inverse, np.prod(2 * half))) < Z_LIMIT


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_a_sparse_graph_have_uniform_conditional_probabilities(seed):
    p = 4
    scatter, draws, rng = problem(seed + 10, p)
    graph = random_dag(rng, p, 0.5)
    rows = posterior_network(graph, scatter, N, draws, DELTA).sample(4000, rng)
    matrix = draws[0] + scatter
    for k in range(p):
        parents = np.flatnonzero(graph[:, k])
        inverse = np.linalg.inv(matrix[np.ix_(parents, parents)])
        slopes = inverse @ matrix[parents, k]
        scale = matrix[k, k] - matrix[k, parents] @ slopes
        degrees = DELTA + N + parents.size
        given = rows[:, parents]
        spread = scale / degrees * (1 + np.einsum("ni,ij,nj->n", given, inverse, given))
        uniform = t(degrees).cdf((rows[:, k] - given @ slopes) / np.sqrt(spread))
        assert kstest(uniform, "uniform").pvalue > SMALLEST_P


def test_samples_average_over_draws():
    p = 3
    scatter, draws, rng = problem(20, p, n_draws=4)
    draws[0] *= 30  # one draw unlike the others
    graph = random_dag(rng, p, 0.7)
    network = posterior_network(graph, scatter, N, draws, DELTA)
    rows = network.sample(20000, rng)
    products = rows[:, :, None] * rows[:, None]
    assert np.abs(z_scores(rows, 0)).max() < Z_LIMIT
    assert np.abs(z_scores(products, network.parameters().covariance)).max() < Z_LIMIT
    # E[1/f(x)] over a region is its volume: density and samples belong together.
    half = 1.5 * np.sqrt(np.diag(scatter) / N)
    inside = (np.abs(rows) < half).all(axis=1)
    inverse = np.where(inside, np.exp(-network.log_density(rows)), 0)
    assert abs(z_scores(inverse, np.prod(2 * half))) < Z_LIMIT


# Units: what an estimator says in the user's own.

SCALE = np.array([3.0, 0.01, 250.0])
OFFSET = np.array([-40.0, 7.0, 1e3])


def fitted(cls, arrays, **options):
    settings = {"random_state": 0} | ({"n_draws": 400, "nu0": 50.0} if cls is MTGBN else {})
    return cls(**settings).fit(Tasks.from_arrays(arrays, **options))


# Rounding is all that a change of units does to a single task. The chains of sigma_h enlarge it to
# their Monte Carlo error; a forgotten Jacobian would be off by 2.
ROUNDING, MONTE_CARLO = 1e-8, 0.1


@pytest.mark.parametrize(
    ("cls", "tolerance"), [(MTGBN, MONTE_CARLO), (SIG, ROUNDING), (AVG, ROUNDING)]
)
def test_densities_follow_a_change_of_units(cls, tolerance):
    arrays = related_arrays(3, rows=40)
    changed = [x * SCALE + OFFSET for x in arrays]
    one, other = fitted(cls, arrays), fitted(cls, changed)
    np.testing.assert_array_equal(one.graphs_, other.graphs_)
    for task in range(3):
        np.testing.assert_allclose(
            other.predict_log_density(task, changed[task]),
            one.predict_log_density(task, arrays[task]) - np.log(SCALE).sum(),
            atol=tolerance,
        )
        if cls is not MTGBN:
            samples = (other.sample(task, 4, 1) - OFFSET) / SCALE
            np.testing.assert_allclose(samples, one.sample(task, 4, 1), atol=tolerance)
    covariances = other.covariances_ / np.outer(SCALE, SCALE)
    np.testing.assert_allclose(covariances, one.covariances_, atol=tolerance)
    coefficients = other.coefficients_ * SCALE[:, None] / SCALE
    np.testing.assert_allclose(coefficients, one.coefficients_, atol=tolerance)
    variances = other.residual_variances_ / SCALE**2
    np.testing.assert_allclose(variances, one.residual_variances_, atol=tolerance)


def test_an_estimator_predicts_by_the_likelihood_of_one_row_more():
    tasks = Tasks.from_arrays(related_arrays(3, rows=40), centre=False)
    learner = MTGBN(nu0=4.5, n_draws=100, random_state=0).fit(tasks)
    assert (learner.membership_ > 0.5).all()
    row = np.array([0.5, -1.0, 2.0])
    for task, graph in enumerate(learner.graphs_):
        scatter, n, ties = tasks.scatters[task], tasks.ns[task], learner.ties_[task]
        assert (ties == 1).all()  # with three variables there are no own families
        of_task = np.diag(np.diag(scatter)) / n

        def gain(prior, delta, node, graph=graph, scatter=scatter, n=n):
            family = node, naive.parents_of(graph, node)
            more = naive.family_score(prior, delta, scatter + np.outer(row, row), n + 1, *family)
            return more - naive.family_score(prior, delta, scatter, n, *family)

        gains = [
            sum(
                np.log(
                    ties[node] * np.exp(gain(draw, 2.5, node))
                    + (1 - ties[node]) * np.exp(gain(of_task, 3.0, node))
                )
                for node in range(3)
            )
            for draw in learner.draws_.flat
        ]
        expected = logsumexp(gains) - np.log(len(gains))
        assert learner.predict_log_density(task, row[None])[0] == pytest.approx(expected, abs=1e-9)
        # Roots have the variance of the inverse Wishart's marginal.
        for root in np.flatnonzero(~graph.any(axis=0)):
            tied = (learner.sigma_h_[root, root] + scatter[root, root]) / (2.5 + n - 2)
            own = (of_task[root, root] + scatter[root, root]) / (3.0 + n - 2)
            expected = ties[root] * tied + (1 - ties[root]) * own
            assert learner.covariances_[task, root, root] == pytest.approx(expected, rel=1e-9)


def test_samples_are_in_the_users_units():
    arrays = [x * SCALE + OFFSET for x in related_arrays(3, rows=40)]
    learner = fitted(MTGBN, arrays, standardise=True)
    rows = learner.sample(1, 4000, 0)
    centre, deviation = arrays[1].mean(axis=0), arrays[1].std(axis=0, ddof=1)
    assert np.abs(z_scores(rows, centre)).max() < Z_LIMIT
    expected = learner.covariances_[1] * np.outer(deviation, deviation)
    residuals = rows - centre
    assert np.abs(z_scores(residuals[:, :, None] * residuals[:, None], expected)).max() < Z_LIMIT


def test_densities_follow_a_change_of_units_without_centring():
    arrays = related_arrays(4, rows=40)
    one = fitted(SIG, arrays, centre=False)
    other = fitted(SIG, [x * SCALE for x in arrays], centre=False)
    np.testing.assert_allclose(
        other.predict_log_density(1, arrays[1] * SCALE),
        one.predict_log_density(1, arrays[1]) - np.log(SCALE).sum(),
        atol=1e-9,
    )


def test_standardising_within_or_before_is_the_same_to_a_task_alone():
    arrays = [x * SCALE + OFFSET for x in related_arrays(5, rows=40)]
    raw, standardised = fitted(SIG, arrays), fitted(SIG, arrays, standardise=True)
    for task, rows in enumerate(arrays):
        np.testing.assert_allclose(
            standardised.predict_log_density(task, rows),
            raw.predict_log_density(task, rows),
            atol=1e-9,
        )
        np.testing.assert_allclose(
            standardised.sample(task, 3, 0), raw.sample(task, 3, 0), rtol=1e-9
        )


@pytest.mark.parametrize("cls", [MTGBN, AVG])
def test_standardised_data_predict_in_the_users_units(cls):
    arrays = [x * SCALE + OFFSET for x in related_arrays(5, rows=40)]
    within = fitted(cls, arrays, standardise=True)
    deviations = [x.std(axis=0, ddof=1) for x in arrays]
    standardised = [(x - x.mean(axis=0)) / d for x, d in zip(arrays, deviations, strict=True)]
    if cls is MTGBN:
        # The same fit, told that its data came so: fits of rounded data have other draws and graphs.
        before = copy.copy(within)
        before.tasks_ = Tasks.from_arrays(standardised, within.variables_, within.task_names_)
    else:
        before = fitted(cls, standardised)
    for task, (rows, deviation) in enumerate(zip(arrays, deviations, strict=True)):
        alike = (rows - rows.mean(axis=0)) / deviation
        found = within.predict_log_density(task, rows)
        expected = before.predict_log_density(task, alike) - np.log(deviation).sum()
        np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_a_density_integrates_to_one_in_the_users_units():
    arrays = [x[:, :2] * [0.1, 20] + [5, -300] for x in related_arrays(6, rows=20)]
    learner = fitted(MTGBN, arrays, standardise=True)
    centre, deviation = arrays[0].mean(axis=0), arrays[0].std(axis=0)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    axes = [c + 9 * d * nodes for c, d in zip(centre, deviation, strict=True)]
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    densities = np.exp(learner.predict_log_density(0, rows)).reshape(60, 60)
    total = np.prod(9 * deviation) * (weights @ densities @ weights)
    assert total == pytest.approx(1, abs=1e-4)


def test_rows_as_frames_are_matched_by_name():
    arrays = related_arrays(7, rows=40)
    learner = SIG(random_state=0).fit(Tasks.from_arrays(arrays, ["a", "b", "c"], list("stu")))
    expected = learner.predict_log_density(1, arrays[1])
    frame = pd.DataFrame(arrays[1], columns=["a", "b", "c"])[["c", "a", "b"]].assign(more=1)
    np.testing.assert_array_equal(learner.predict_log_density("t", frame), expected)
    np.testing.assert_array_equal(learner.predict_log_density("t", arrays[1].tolist()), expected)
    assert learner.sample("t", 5, 0).shape == (5, 3)
    np.testing.assert_array_equal(learner.sample("t", 5, 0), learner.sample(1, 5, 0))


@pytest.mark.parametrize(
    ("task", "rows", "message"),
    [
        ("v", np.zeros((1, 3)), "no task named 'v'"),
        (3, np.zeros((1, 3)), "there are 3 tasks; task 3 is not one"),
        (-1, np.zeros((1, 3)), "task must be a whole number of at least 0"),
        (1.5, np.zeros((1, 3)), "task must be a whole number"),
        (0, np.zeros((1, 2)), r"X must have shape \(rows, 3\); got \(1, 2\)"),
        (0, np.zeros(3), r"X must have shape \(rows, 3\); got \(3,\)"),
        (0, [["a", 1, 2]], "X must be an array of numbers"),
        (0, [[0, 0, 0], [0, np.nan, 0]], "value nan in row 1, variable 'b'"),
        (0, pd.DataFrame({"a": [1.0], "c": [1.0]}), "X has no column 'b'"),
    ],
)
def test_rows_that_cannot_be_used(task, rows, message):
    learner = SIG(random_state=0).fit(
        Tasks.from_arrays(related_arrays(7, rows=40), ["a", "b", "c"], list("stu"))
    )
    with pytest.raises(InputError, match=message):
        learner.predict_log_density(task, rows)


def test_samples_must_be_asked_for_in_whole_numbers():
    learner = SIG(random_state=0).fit(related_arrays(7, rows=40))
    for wrong in (0, -1, 2.5):
        with pytest.raises(InputError, match="n must be a whole number of at least 1"):
            learner.sample(0, wrong)
