"""What must not change the numbers: equivalent DAGs, names, the order of tasks, units."""

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtgbn.graphs import cpdag
from mtgbn.graphs.equivalence import consistent_extension
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper.posterior import log_posterior
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS, log_structure_prior

TOLERANCE = 1e-9

# The first call compiles, which is slow once.
examples = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def problems(draw, largest=8):
    """A DAG, sigma_h, a scatter with its degrees of freedom, nu0, and a generator for the rest."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = draw(st.integers(1, largest))
    adjacency = naive.random_dag(rng, p, draw(st.sampled_from([0.2, 0.5, 0.8, 1.0])))
    n = draw(st.integers(1, 20))
    data = rng.standard_normal((n, p)) * np.exp(rng.standard_normal(p))
    nu0 = p - 1 + draw(st.floats(0.05, 30))
    return adjacency, naive.random_covariance(rng, p), data.T @ data, n + 0.0, nu0, rng


def close(expected):
    return pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def equivalents(adjacency, rng):
    """DAGs of the same Markov equivalence class, by two ways that know nothing of each other."""
    p = len(adjacency)
    order = rng.permutation(p)
    back = np.argsort(order)
    relabelled = cpdag(adjacency)[np.ix_(order, order)]
    yield consistent_extension(relabelled)[np.ix_(back, back)]
    walked = adjacency.copy()
    for _ in range(10):
        covered = naive.covered_edges(walked)
        if not covered:
            break
        i, j = covered[rng.integers(len(covered))]
        walked[i, j], walked[j, i] = False, True
    yield walked


@examples
@given(problems())
def test_equivalent_dags_have_equal_densities(problem):
    adjacency, sigma_h, scatter, n, nu0, rng = problem
    for other in equivalents(adjacency, rng):
        assert log_marginal_likelihood(scatter, n, other, sigma_h, nu0) == close(
            log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
        )
        for kind in STRUCTURE_PRIORS:
            assert log_structure_prior(other, sigma_h, nu0, kind) == close(
                log_structure_prior(adjacency, sigma_h, nu0, kind)
            )
            value, gradient = log_posterior(sigma_h, [other], [scatter], [n], nu0, kind)
            expected, expected_gradient = log_posterior(
                sigma_h, [adjacency], [scatter], [n], nu0, kind
            )
            assert value == close(expected)
            scale = np.sqrt(np.outer(np.diag(sigma_h), np.diag(sigma_h)))
            np.testing.assert_allclose(
                gradient * scale, expected_gradient * scale, rtol=1e-8, atol=1e-8
            )


def test_the_walk_over_covered_edges_changes_the_dag():
    adjacency = np.triu(np.ones((4, 4), dtype=bool), 1)
    first, second = equivalents(adjacency, np.random.default_rng(0))
    assert (first != adjacency).any()
    assert (second != adjacency).any()


def test_dags_that_are_not_equivalent_differ():
    collider = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    fork = collider.T
    sigma_h = naive.random_covariance(np.random.default_rng(1), 3)
    values = [
        log_marginal_likelihood(5 * np.eye(3), 5, dag, sigma_h, 4.0) for dag in (collider, fork)
    ]
    assert abs(values[0] - values[1]) > 0.01


@examples
@given(problems())
def test_names_of_variables_do_not_matter(problem):
    adjacency, sigma_h, scatter, n, nu0, rng = problem
    other = naive.random_dag(rng, len(adjacency), 0.4)
    order = rng.permutation(len(adjacency))
    mixed = np.ix_(order, order)
    for kind in STRUCTURE_PRIORS:
        if kind == "decomposable" and not is_moral_graph_chordal(adjacency, other):
            continue  # the triangulation is a choice, and ties go by index
        value, gradient = log_posterior(
            sigma_h, [adjacency, other], [scatter, 2 * scatter], [n, 2 * n], nu0, kind
        )
        mixed_value, mixed_gradient = log_posterior(
            sigma_h[mixed],
            [adjacency[mixed], other[mixed]],
            [scatter[mixed], 2 * scatter[mixed]],
            [n, 2 * n],
            nu0,
            kind,
        )
        assert mixed_value == close(value)
        scale = np.sqrt(np.outer(np.diag(sigma_h), np.diag(sigma_h)))
        np.testing.assert_allclose(
            (mixed_gradient * scale[mixed]), (gradient * scale)[mixed], rtol=1e-8, atol=1e-8
        )


def is_moral_graph_chordal(*adjacencies):
    return all(
        naive.elimination_sets(naive.moral_graph(adjacency)) is not None
        for adjacency in adjacencies
    )


@examples
@given(problems(largest=5), st.integers(2, 6), st.sampled_from(STRUCTURE_PRIORS))
def test_the_order_of_tasks_does_not_matter(problem, m, kind):
    _, sigma_h, scatter, _, nu0, rng = problem
    p = len(sigma_h)
    adjacencies = np.array([naive.random_dag(rng, p, 0.4) for _ in range(m)])
    scatters = np.array([scatter * rng.exponential() for _ in range(m)])
    ns = rng.uniform(0.5, 20, m)
    order = rng.permutation(m)
    value, gradient = log_posterior(sigma_h, adjacencies, scatters, ns, nu0, kind)
    mixed_value, mixed_gradient = log_posterior(
        sigma_h, adjacencies[order], scatters[order], ns[order], nu0, kind
    )
    assert mixed_value == close(value)
    scale = np.sqrt(np.outer(np.diag(sigma_h), np.diag(sigma_h)))
    np.testing.assert_allclose(mixed_gradient * scale, gradient * scale, rtol=1e-8, atol=1e-8)


@examples
@given(problems(), st.floats(1, 60))
def test_units_only_change_the_density_of_the_data(problem, decades):
    adjacency, sigma_h, scatter, n, nu0, rng = problem
    p = len(sigma_h)
    log_units = decades * np.log(10) * rng.uniform(-1, 1, p)
    units = np.exp(log_units[:, None] + log_units)
    value = log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
    rescaled = log_marginal_likelihood(scatter * units, n, adjacency, sigma_h * units, nu0)
    assert rescaled == close(value - n * log_units.sum())
    for kind in ("uniform", "scale_free"):
        # ln|R| is a difference of logarithms of determinants as large as the units make them
        assert log_structure_prior(adjacency, sigma_h * units, nu0, kind) == pytest.approx(
            log_structure_prior(adjacency, sigma_h, nu0, kind),
            rel=TOLERANCE,
            abs=1e-14 * (nu0 + p) * p * max(1, np.abs(log_units).sum()) + 1e-11,
        )


@examples
@given(problems(), st.floats(-3, 3))
def test_units_move_restricted_by_their_logarithm_per_missing_edge(problem, log_unit):
    adjacency, sigma_h, _, _, nu0, _ = problem
    p = len(sigma_h)
    n_missing = p * (p - 1) // 2 - adjacency.sum()
    value = log_structure_prior(adjacency, sigma_h, nu0, "restricted")
    rescaled = log_structure_prior(adjacency, np.exp(2 * log_unit) * sigma_h, nu0, "restricted")
    # sigma_h has squared units, so every precision left out counts them squared
    assert rescaled - value == close(2 * n_missing * log_unit)


@examples
@given(problems(), st.integers(1, 15))
def test_learning_in_two_steps_is_learning_in_one(problem, n_more):
    adjacency, sigma_h, scatter, n, nu0, rng = problem
    more = rng.standard_normal((n_more, len(sigma_h)))
    more = more.T @ more
    at_once = log_marginal_likelihood(scatter + more, n + n_more, adjacency, sigma_h, nu0)
    first = log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
    then = log_marginal_likelihood(more, n_more, adjacency, sigma_h + scatter, nu0 + n)
    assert at_once == close(first + then)


@examples
@given(problems(largest=6))
def test_unconnected_parts_are_independent(problem):
    """Without an edge between two blocks only the blocks of sigma_h and of the scatter count."""
    adjacency, _, _, n, nu0, rng = problem
    p, q = len(adjacency), 3
    other = naive.random_dag(rng, q, 0.5)
    whole = np.zeros((p + q, p + q), dtype=bool)
    whole[:p, :p], whole[p:, p:] = adjacency, other
    sigma_h, scatter = (naive.random_covariance(rng, p + q) for _ in range(2))
    nu0 += q
    expected = log_marginal_likelihood(
        scatter[:p, :p], n, adjacency, sigma_h[:p, :p], nu0 - q
    ) + log_marginal_likelihood(scatter[p:, p:], n, other, sigma_h[p:, p:], nu0 - p)
    assert log_marginal_likelihood(scatter, n, whole, sigma_h, nu0) == close(expected)


@examples
@given(problems(largest=6))
def test_variables_that_nobody_has_as_parents_integrate_out(problem):
    """A childless node changes the rest only through its own family."""
    adjacency, sigma_h, scatter, n, nu0, rng = problem
    p = len(sigma_h)
    childless = np.flatnonzero(~adjacency.any(axis=1))
    k = childless[rng.integers(len(childless))]
    kept = np.delete(np.arange(p), k)
    if not len(kept):
        return
    family = [*naive.parents_of(adjacency, k), k]
    complete = np.triu(np.ones((len(family), len(family))), 1)

    def of(variables, graph):
        chosen = np.ix_(variables, variables)
        return log_marginal_likelihood(
            scatter[chosen], n, graph, sigma_h[chosen], nu0 - p + len(variables)
        )

    expected = of(kept, adjacency[np.ix_(kept, kept)]) + of(family, complete)
    if len(family) > 1:
        expected -= of(family[:-1], complete[:-1, :-1])
    assert of(np.arange(p), adjacency) == close(expected)
