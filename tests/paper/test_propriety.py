"""When has the posterior of sigma_h a finite integral? Closed forms, slopes and brute force."""

import itertools

import numpy as np
import pytest
from scipy import integrate

from mtgbn.errors import ImproperPosteriorError
from mtgbn.paper.posterior import build_posterior, log_posterior
from mtgbn.paper.propriety import (
    _exponent_of_collapse,
    _exponents_of_growing_variables,
    _pairs,
    _worst_growing_direction,
    check_proper,
)

PRIORS = ("uniform", "restricted", "scale_free", "decomposable")


def complete_dag(p):
    return np.triu(np.ones((p, p), dtype=bool), 1)


def random_problem(seed, m, p, n):
    rng = np.random.default_rng(seed)
    adjacencies = np.triu(rng.random((m, p, p)) < 0.5, 1)
    rows = rng.standard_normal((m, max(int(n), p) + 2, p))
    return adjacencies, np.einsum("tni,tnj->tij", rows, rows), np.full(m, float(n))


def is_proper(adjacencies, scatters, ns, nu0, prior):
    try:
        check_proper(build_posterior(adjacencies, scatters, ns, nu0, prior))
    except ImproperPosteriorError:
        return False
    return True


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("prior", ["uniform", "restricted", "scale_free"])
def test_one_task_with_a_complete_graph_needs_more_than_2p(p, prior):
    """The posterior is a matrix-variate beta distribution of type II, which exists for n > 2 p."""
    scatter = np.eye(p)[None]
    graph = complete_dag(p)[None]
    assert not is_proper(graph, scatter, [2.0 * p], p + 3.0, prior)
    assert is_proper(graph, scatter, [2.0 * p + 0.01], p + 3.0, prior)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_empty_graphs_need_more_than_p_plus_1(p):
    """Every variance is beta prime times the free range of its correlations, var^((p - 1)/2)."""
    graph = np.zeros((1, p, p), dtype=bool)
    assert not is_proper(graph, np.eye(p)[None], [p + 1.0], p + 3.0, "uniform")
    assert is_proper(graph, np.eye(p)[None], [p + 1.01], p + 3.0, "uniform")


# Limits of the logarithms of two scales and of a shear, and growing limits of the first.
BOUNDS = (4.0, 8.0, 12.0)
BOX = ((-8.0, BOUNDS[-1]), (-8.0, 6.0), (0.0, 12.0))


@pytest.mark.parametrize(("n", "finite"), [(3.5, False), (6.0, True)])
def test_the_integral_itself(n, finite):
    """p = 2, complete graph: integrate over sigma_h with a growing bound on its scale.

    n = 3.5 exceeds p + 1, so the common scale of sigma_h is under control; a single direction is not.
    """
    nu0 = 4.0
    assert is_proper(complete_dag(2)[None], np.eye(2)[None], [n], nu0, "uniform") is finite

    def density(log_first, log_second, shear):
        # sigma_h = L L' with L = [[a, 0], [a s, b]]: volume 4 a^3 b * a, logs add a b
        a, b = np.exp(log_first), np.exp(log_second)
        determinant = (a * b) ** 2
        shifted = (1 + a**2) * (1 + b**2) + (a * shear) ** 2
        volume = a**5 * b**2
        return volume * determinant ** (nu0 / 2) * shifted ** (-(nu0 + n) / 2)

    # The trapezoidal rule; the integrand is smooth, and even in the shear.
    step = 0.1
    first, second, shear = (np.arange(low, high + step / 2, step) for low, high in BOX)
    values = density(first[:, None, None], second[:, None], np.sinh(shear)) * np.cosh(shear)
    by_scale = integrate.trapezoid(integrate.trapezoid(values, dx=step), dx=step)
    totals = [integrate.trapezoid(by_scale[first < bound + step / 2], dx=step) for bound in BOUNDS]
    growth = np.diff(totals)
    if finite:
        assert growth[1] < 1e-3 * totals[-1]
    else:
        assert growth[1] > growth[0] > 0


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("seed", range(4))
def test_exponents_are_the_slopes_of_the_log_posterior(prior, seed):
    """Along sigma_h + t v v', D sigma_h D and v' sigma_h v -> 0, on a logarithmic scale."""
    m, p, nu0 = 3, 4, 8.0
    adjacencies, scatters, ns = random_problem(seed, m, p, 12)
    rng = np.random.default_rng(seed)
    support = rng.permutation(p) < 2
    direction = np.where(support, rng.uniform(0.5, 1.0, p), 0.0)
    # task 0 does not vary along the direction
    basis = np.eye(p) - np.outer(direction, direction) / (direction @ direction)
    scatters[0] = basis @ scatters[0] @ basis
    posterior = build_posterior(adjacencies, scatters, ns, nu0, prior)
    pairs = list(_pairs(posterior))
    sigma_h = np.eye(p) + 0.3

    def slope(path, t):
        values = [
            log_posterior(path(s), adjacencies, scatters, ns, nu0, prior)[0] for s in (t, 1.1 * t)
        ]
        return (values[1] - values[0]) / np.log(1.1)

    def stretched(t):
        scale = np.where(np.arange(p) == 1, np.sqrt(t), 1.0)
        return sigma_h * np.outer(scale, scale)

    volume = (p + 1) / 2
    exponents = _exponents_of_growing_variables(pairs, posterior.full_coefficient, p)
    assert exponents[1] - volume == pytest.approx(slope(stretched, 1e9), abs=1e-3)

    everything = _worst_growing_direction_at(pairs, posterior.full_coefficient, p, np.ones(p, bool))
    grown = slope(lambda t: sigma_h + t * np.ones((p, p)), 1e9)
    assert everything - p == pytest.approx(grown, abs=1e-3)

    collapsed = slope(lambda t: basis @ sigma_h @ basis + t * np.outer(direction, direction), 1e-7)
    exponent = _exponent_of_collapse(pairs, posterior.full_coefficient, direction)
    assert exponent == pytest.approx(collapsed, abs=1e-3)


def _worst_growing_direction_at(pairs, full_coefficient, p, chosen):
    total = full_coefficient + (p + chosen.sum()) / 2
    for batch in pairs:
        met = chosen[batch.members]
        total += batch.exponent(met[:, : batch.inner].any(axis=1), met.any(axis=1))
    return total


@pytest.mark.parametrize("prior", PRIORS)
def test_search_for_the_worst_direction(prior):
    """Against all sets of variables: it never overstates, and its verdict is right."""
    wrong = 0
    for seed in range(300):
        p = 4 + seed % 4
        adjacencies, scatters, ns = random_problem(seed, m=1 + seed % 3, p=p, n=1 + seed % 11)
        posterior = build_posterior(adjacencies, scatters, ns, p + 2.0, prior)
        pairs = list(_pairs(posterior))
        best, chosen = _worst_growing_direction(pairs, posterior.full_coefficient, p)
        assert best == pytest.approx(
            _worst_growing_direction_at(pairs, posterior.full_coefficient, p, chosen)
        )
        worst = max(
            _worst_growing_direction_at(pairs, posterior.full_coefficient, p, np.array(mask))
            for mask in itertools.product([False, True], repeat=p)
            if any(mask)
        )
        assert best <= worst + 1e-9
        growth = _exponents_of_growing_variables(pairs, posterior.full_coefficient, p).max()
        wrong += (max(best, growth) >= 0) != (max(worst, growth) >= 0)
    assert wrong == 0


def test_messages_name_the_culprit_and_the_remedy():
    graph = np.zeros((1, 3, 3), dtype=bool)
    with pytest.raises(
        ImproperPosteriorError,
        match=r"scale of variable a .* Add tasks or rows, or leave out variables\.$",
    ):
        check_proper(build_posterior(graph, np.eye(3)[None], [3.0], 6.0), ["a", "b", "c"])
    complete = complete_dag(3)[None]
    with pytest.raises(ImproperPosteriorError, match=r"all variables can grow .* 2 p = 6"):
        check_proper(build_posterior(complete, np.eye(3)[None], [5.0], 6.0), ["a", "b", "c"])


def test_restricted_needs_edges_or_rows():
    """model.md's condition on the whole scale is met, but an isolated variable can still drift."""
    m, p, n = 4, 6, 5.0
    graph = complete_dag(p)
    graph[:, -1] = False  # the last variable has no neighbours
    adjacencies = np.repeat(graph[None], m, axis=0)
    scatters = np.repeat(np.eye(p)[None], m, axis=0)
    edges = graph.sum()
    assert m * (p * n / 2 - p * (p - 1) / 2 + edges) > p * (p + 1) / 2
    posterior = build_posterior(adjacencies, scatters, np.full(m, n), p + 3.0, "restricted")
    with pytest.raises(
        ImproperPosteriorError, match=r"scale of variable 5 .*='uniform' asks for less"
    ):
        check_proper(posterior)
    uniform = build_posterior(adjacencies, scatters, np.full(m, n), p + 3.0, "uniform")
    check_proper(uniform)


def collinear_scatters(m, n, n_collinear):
    rng = np.random.default_rng(0)
    scatters = []
    for task in range(m):
        rows = rng.standard_normal((n, 3))
        if task < n_collinear:
            rows[:, 2] = rows[:, 0] - 2 * rows[:, 1]
        scatters.append(rows.T @ rows)
    return np.array(scatters), np.full(m, float(n))


def test_collinear_families_are_found():
    names = ["left", "right", "difference"]
    scatters, ns = collinear_scatters(m=3, n=30, n_collinear=1)
    graphs = np.repeat(complete_dag(3)[None], 3, axis=0)
    posterior = build_posterior(graphs, scatters, ns, 6.0)
    with pytest.raises(ImproperPosteriorError, match="all variables are exactly collinear"):
        check_proper(posterior, names)
    # a graph that does not join the three is no trouble
    graphs[0] = False
    check_proper(build_posterior(graphs, scatters, ns, 6.0), names)
    # nor is one collinear task among many others that hold sigma_h in place
    scatters, ns = collinear_scatters(m=20, n=30, n_collinear=1)
    check_proper(build_posterior(np.repeat(graphs[1:2], 20, axis=0), scatters, ns, 6.0), names)


def test_few_rows_are_not_collinearity():
    """A scatter of fewer rows than variables is singular, and the posterior proper all the same."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((12, 4, 6))
    rows -= rows.mean(axis=1, keepdims=True)
    scatters = np.einsum("tni,tnj->tij", rows, rows)
    posterior = build_posterior(
        np.repeat(complete_dag(6)[None], 12, axis=0), scatters, np.full(12, 3.0), 8.0
    )
    check_proper(posterior)


@pytest.mark.parametrize("seed", range(3))
def test_collapse_in_a_null_space_of_several_dimensions(seed):
    """Two relations in one family: the one with the fewest variables decides."""
    rng = np.random.default_rng(seed)
    p, nu0 = 6, 12.0
    first, second = rng.standard_normal((2, 6, p))
    first[:, 4], first[:, 1] = first[:, 2], first[:, 0]
    second[:, 4], second[:, 5] = second[:, 2], second[:, 3]
    third = rng.standard_normal((40, p))
    graphs = np.zeros((3, p, p), dtype=bool)
    graphs[0, [0, 1, 2], 4] = True
    graphs[1, [2, 3, 5], 4] = True
    scatters = [x.T @ x for x in (first, second, third)]
    ns = [6.0, 6.0, 40.0]
    v = np.zeros(p)
    v[[2, 4]] = 1, -1
    basis = np.eye(p) - np.outer(v, v) / (v @ v)

    def log_mass(t):  # log density plus log volume along the collapse
        sigma_h = basis @ basis + t * np.outer(v, v)
        return log_posterior(sigma_h, graphs, scatters, ns, nu0)[0] + (p + 1) / 2 * np.log(t)

    assert log_mass(1e-10) > log_mass(1e-6) > log_mass(1e-2)
    with pytest.raises(ImproperPosteriorError, match="exactly collinear"):
        check_proper(build_posterior(graphs, scatters, ns, nu0))
