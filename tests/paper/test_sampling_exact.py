"""One task with a complete DAG: sigma_h has a matrix beta distribution, of which exact draws exist."""

import math

import numpy as np
import pytest
from sampling_oracles import complete_dag, data_scatters, exact_draws, shape_statistics
from scipy import stats

from mtgbn.model.coordinates import to_unconstrained
from mtgbn.paper import sample_sigma_h
from mtgbn.tasks import Tasks

P = 3
# Proper from n = 2 p on: at 2 p + 2 a variance has no second moment, and its logarithm is skewed.
N = 2.0 * P + 2
NU0 = P + 1.5
SCATTER = data_scatters(P, [30], seed=8)[0]
TASKS = Tasks([SCATTER], [N])
GRAPH = complete_dag(P)[None]

# Two-sample Kolmogorov-Smirnov, ten statistics per test: one false alarm in 10,000 tests.
P_LIMIT = 1e-5


def smallest_p_value(draws, reference):
    """Draws are thinned to where they are nearly independent; the p-value takes them to be."""
    ours, exact = shape_statistics(draws), shape_statistics(reference)
    return min(stats.ks_2samp(ours[name], exact[name]).pvalue for name in exact)


@pytest.fixture(scope="module")
def reference():
    return exact_draws(SCATTER, N, NU0, 100_000, np.random.default_rng(1))


def thinned(draws, every):
    return draws.sigma_h[:, ::every].reshape(-1, P, P)


def test_exact_draws_have_a_beta_prime_margin(reference):
    margin = stats.betaprime((NU0 + P + 1) / 2, (N - 2 * P) / 2)
    for j in range(P):
        assert stats.kstest(reference[:, j, j] / SCATTER[j, j], margin.cdf).pvalue > P_LIMIT
    assert stats.skew(np.log(reference[:, 0, 0])) > 0.5


@pytest.mark.parametrize("kind", ["uniform", "restricted"])
def test_hmc_draws_the_skewed_target(kind, reference):
    draws = sample_sigma_h(
        TASKS, GRAPH, NU0, structure_prior=kind, n_draws=6000, n_warmup=1000, random_state=2
    )
    assert smallest_p_value(thinned(draws, 10), reference) > P_LIMIT


def test_gibbs_draws_the_skewed_target(reference):
    draws = sample_sigma_h(
        TASKS,
        GRAPH,
        NU0,
        structure_prior="restricted",
        sampler="gibbs",
        n_draws=12_000,
        random_state=3,
    )
    assert smallest_p_value(thinned(draws, 20), reference) > P_LIMIT


@pytest.mark.parametrize(
    "settings",
    [
        {"mass_matrix": "dense"},
        {"mass_matrix": "diagonal"},
        {"whiten": False},
        pytest.param({"whiten": False, "mass_matrix": "dense"}, marks=pytest.mark.slow),
        {"n_steps": 4, "step_size": 0.3, "jitter": 0.0},
        {"trajectory_length": 1.5, "jitter": 0.9, "target_acceptance": 0.6},
    ],
    ids=str,
)
def test_no_setting_changes_the_distribution(settings, reference):
    settings = dict(settings)
    if "mass_matrix" in settings:
        centre = reference.mean(axis=0) if settings.get("whiten", True) else None
        x = np.array([to_unconstrained(sigma_h, centre) for sigma_h in reference[:1000]])
        mass = np.linalg.inv(np.cov(x.T))
        settings["mass_matrix"] = mass if settings["mass_matrix"] == "dense" else np.diag(mass)
    draws = sample_sigma_h(
        TASKS, GRAPH, NU0, n_draws=6000, n_warmup=1000, random_state=4, **settings
    )
    # The test is for independent draws, and some settings mix slowly.
    ess = float(np.min(draws.diagnostics().ess_bulk))
    every = max(10, math.ceil(4 * 6000 / ess))
    assert smallest_p_value(thinned(draws, every), reference) > P_LIMIT


@pytest.mark.parametrize(("n", "nu0"), [(N + 0.5, NU0), (N, NU0 + 0.5)])
def test_the_comparison_notices_half_a_degree_of_freedom(n, nu0, reference):
    # As many as the tests above have left after thinning.
    draws = exact_draws(SCATTER, n, nu0, 2400, np.random.default_rng(6))
    assert smallest_p_value(draws, reference) < P_LIMIT
