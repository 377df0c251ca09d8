"""`Draws`: diagnostics against ArviZ itself, problems in words, and the way to InferenceData."""

import numpy as np
import pytest

from mtgbn.chain.draws import Draws
from mtgbn.paper import sample_sigma_h
from mtgbn.simulate import simulate_tasks
from mtgbn.tasks import Tasks

arviz = pytest.importorskip("arviz")

SIMULATION = simulate_tasks(5, 3, 30, random_state=1)
VARIABLES = ("left", "mid", "right")
TASKS = Tasks(SIMULATION.tasks.scatters, SIMULATION.tasks.ns, variables=VARIABLES)


def sample(**options):
    options = {"n_draws": 300, "random_state": 1, **options}
    return sample_sigma_h(TASKS, SIMULATION.adjacencies, SIMULATION.nu0, **options)


def made_up(sigma_h, acceptance=0.9, diverging=False):
    """Draws around the identity with the given disturbance (chains, draws)."""
    shape = sigma_h.shape[:2]
    statistics = {
        "acceptance_rate": np.full(shape, acceptance),
        "energy": np.zeros(shape),
        "n_steps": np.ones(shape, dtype=np.int64),
        "diverging": np.full(shape, diverging),
    }
    return Draws(sigma_h, statistics, VARIABLES, "hmc")


def independent(n_chains=4, n_draws=1000):
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((n_chains, n_draws, 3, 3))
    return noise + np.swapaxes(noise, 2, 3)


@pytest.mark.parametrize(
    "options", [{}, {"sampler": "gibbs", "structure_prior": "restricted"}], ids=["hmc", "gibbs"]
)
@pytest.mark.parametrize("n_draws", [20, 300])
def test_diagnostics_are_those_of_arviz(options, n_draws):
    draws = sample(n_draws=n_draws, **options)
    data = draws.to_inference_data()
    diagnostics = draws.diagnostics()
    expected = {
        "rhat": arviz.rhat(data),
        "ess_bulk": arviz.ess(data, method="bulk"),
        "ess_tail": arviz.ess(data, method="tail"),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(diagnostics, name), values["sigma_h"], rtol=1e-6)
    assert diagnostics.acceptance == draws.statistics["acceptance_rate"].mean()


def test_good_draws_have_no_problems():
    assert made_up(independent()).diagnostics().problems == ()
    # One trajectory in thousands may diverge, which is a problem to be told of.
    found = (sample(n_draws=2000, random_state=seed).diagnostics() for seed in range(1, 5))
    assert any(diagnostics.problems == () for diagnostics in found)


def test_chains_apart_are_reported_with_the_element():
    sigma_h = independent()
    sigma_h[2, :, 2, 1] += 3
    sigma_h[2, :, 1, 2] += 3
    problems = made_up(sigma_h).diagnostics().problems
    assert "R-hat" in problems[0]
    assert "right, mid" in problems[0] or "mid, right" in problems[0]
    assert "effective" in problems[1]


def test_divergences_are_counted():
    diagnostics = made_up(independent(2, 400), diverging=True).diagnostics()
    assert diagnostics.n_divergent == 800
    assert any("800 trajectories diverged" in problem for problem in diagnostics.problems)


@pytest.mark.parametrize("n_chains", [1, 4])
def test_chains_that_never_move_are_a_problem(n_chains):
    """Every proposal rejected, none divergent; to ESS a constant looks perfectly known."""
    sigma_h = np.tile(np.eye(3), (n_chains, 1000, 1, 1))
    assert made_up(sigma_h, acceptance=0.0).diagnostics().problems


def test_a_step_size_far_too_large_is_a_problem():
    problems = sample(step_size=50.0, n_warmup=0).diagnostics().problems
    assert any("R-hat" in problem for problem in problems)
    assert any("diverged" in problem for problem in problems)


@pytest.mark.parametrize("n_draws", [1, 3])
def test_too_few_draws(n_draws):
    diagnostics = sample(n_draws=n_draws).diagnostics()
    assert "too few" in diagnostics.problems[0]
    assert np.isnan(diagnostics.rhat).all()


@pytest.mark.parametrize("n_draws", [1, 4, 200])
def test_a_single_chain(n_draws):
    """R-hat compares chains; of one there is none, and no warning either."""
    diagnostics = made_up(independent(1, n_draws)).diagnostics()
    assert np.isnan(diagnostics.rhat).all()
    expected = "too few" if n_draws < 4 else "one chain"
    assert expected in diagnostics.problems[0]
    assert len(diagnostics.problems) == (1 if n_draws != 4 else 2)  # four draws are few, too


def test_inference_data():
    draws = sample()
    data = draws.to_inference_data()
    sigma_h = data.posterior["sigma_h"]
    assert sigma_h.dims == ("chain", "draw", "variable", "variable_2")
    np.testing.assert_array_equal(sigma_h.values, draws.sigma_h)
    assert tuple(sigma_h.coords["variable"].values) == VARIABLES
    assert tuple(sigma_h.coords["variable_2"].values) == VARIABLES
    element = sigma_h.sel(variable="left", variable_2="right")
    np.testing.assert_array_equal(element, draws.sigma_h[:, :, 0, 2])
    for name, values in draws.statistics.items():
        np.testing.assert_array_equal(data.sample_stats[name], values)


def test_mean_and_flat():
    draws = made_up(independent(2, 5))
    np.testing.assert_allclose(draws.mean, draws.sigma_h.mean(axis=(0, 1)))
    np.testing.assert_array_equal(draws.flat[7], draws.sigma_h[1, 2])


def test_repr_is_short():
    assert repr(sample(n_draws=4)) == "<Draws of sigma_h: 4 chains x 4 draws, 3 variables, hmc>"
