"""Three samplers and two densities, written apart, must describe the same posterior."""

import functools

import numpy as np
import nutpie
import pytest
from nutpie.compiled_pyfunc import from_pyfunc
from sampling_oracles import MIXED_GRAPHS, Z_LIMIT, NaiveDensity, dag, data_scatters, largest_z
from scipy.optimize import approx_fprime

from mtgbn.paper import sample_sigma_h
from mtgbn.tasks import Tasks

NS = np.array([40.0, 50.0, 60.0])
NU0 = 12.0
SCATTERS = data_scatters(4, [40, 50, 60], seed=3)
TASKS = Tasks(SCATTERS, NS)
PRIORS = ("uniform", "restricted", "scale_free", "decomposable")


@functools.cache
def hmc_draws(kind):
    return sample_sigma_h(
        TASKS, MIXED_GRAPHS, NU0, structure_prior=kind, n_draws=6000, random_state=1
    ).sigma_h


def gibbs_draws(graphs=MIXED_GRAPHS, nu0=NU0, seed=2):
    return sample_sigma_h(
        TASKS,
        graphs,
        nu0,
        structure_prior="restricted",
        sampler="gibbs",
        n_draws=10_000,
        random_state=seed,
    ).sigma_h


@functools.cache
def nutpie_draws(kind):
    """NUTS on the naive density, from a point far from where mtgbn's chains start."""
    density = NaiveDensity(MIXED_GRAPHS, SCATTERS, NS, NU0, kind)

    def value_and_gradient(x):
        try:
            with np.errstate(all="ignore"):
                return density(x)
        except np.linalg.LinAlgError:  # a trial step far outside
            return -np.inf, np.zeros(10)

    model = from_pyfunc(
        10,
        lambda: value_and_gradient,
        lambda *_: lambda x: {"sigma_h": density.sigma_h(np.asarray(x)).ravel()},
        [np.dtype("float64")],
        [(16,)],
        ["sigma_h"],
        make_initial_point_fn=lambda seed: np.where(np.arange(10) % 3, 0.1, 1.0),
    )
    trace = nutpie.sample(
        model, draws=1000, tune=300, chains=2, cores=1, seed=5, progress_bar=False
    )
    return trace.posterior["sigma_h"].values.reshape(2, 1000, 4, 4)


@pytest.mark.parametrize("kind", PRIORS)
def test_naive_density_has_the_gradient_it_says(kind):
    density = NaiveDensity(MIXED_GRAPHS, SCATTERS, NS, NU0, kind)
    x = np.random.default_rng(0).standard_normal(10) + 0.5
    numerical = approx_fprime(x, lambda point: density(point)[0], 1e-6)
    np.testing.assert_allclose(density(x)[1], numerical, rtol=1e-4, atol=1e-3)


def test_hmc_and_gibbs_agree_on_every_kind_of_dag():
    assert largest_z(hmc_draws("restricted"), gibbs_draws()) < Z_LIMIT


def test_two_gibbs_runs_agree():
    assert largest_z(gibbs_draws(seed=3), gibbs_draws(seed=4)) < Z_LIMIT


@pytest.mark.parametrize(
    "kind",
    ["uniform", *(pytest.param(kind, marks=pytest.mark.slow) for kind in PRIORS[2:])],
)
def test_hmc_and_nutpie_agree(kind):
    assert largest_z(hmc_draws(kind), nutpie_draws(kind)) < Z_LIMIT


def test_gibbs_and_nutpie_agree_with_v_structures():
    """The Gibbs sampler's claim to hold for every DAG, against a density that knows only sets."""
    assert largest_z(gibbs_draws(), nutpie_draws("restricted")) < Z_LIMIT


@pytest.mark.parametrize(
    ("graphs", "nu0"),
    [
        (MIXED_GRAPHS, NU0 + 0.5),
        # the v-structure of the first task as the chain with the same edges
        (np.array([dag(4, (0, 2), (2, 1), (2, 3)), *MIXED_GRAPHS[1:]]), NU0),
    ],
    ids=["half a degree of freedom", "one arrow turned"],
)
def test_the_comparison_notices_a_neighbouring_model(graphs, nu0):
    assert largest_z(hmc_draws("restricted"), gibbs_draws(graphs, nu0)) > Z_LIMIT


@pytest.mark.parametrize("kind", ["uniform", "scale_free", "decomposable"])
def test_the_comparison_notices_another_prior(kind):
    assert largest_z(hmc_draws(kind), gibbs_draws()) > Z_LIMIT


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("units", [1e-9, np.array([1e-6, 1e-2, 1e2, 1e6])], ids=["tiny", "mixed"])
def test_rescaled_data_give_the_rescaled_posterior(kind, units):
    """Units enter every prior as a factor that does not depend on sigma_h, the graphs being given."""
    scale = np.ones(4) * units
    other = Tasks(SCATTERS * np.outer(scale, scale), NS)
    draws = sample_sigma_h(
        other, MIXED_GRAPHS, NU0, structure_prior=kind, n_draws=2000, random_state=9
    )
    assert largest_z(hmc_draws(kind), draws.sigma_h / np.outer(scale, scale)) < Z_LIMIT
