"""Seeds, settings, warm starts, short runs and errors of `sample_sigma_h`."""

import dataclasses
import re
from dataclasses import replace

import numpy as np
import pytest
from sampling_oracles import complete_dag, data_scatters, exact_draws, shape_statistics
from scipy import stats

from mtgbn.errors import GraphError, ImproperPosteriorError, InputError
from mtgbn.model.coordinates import from_unconstrained
from mtgbn.paper import sample_sigma_h
from mtgbn.paper.gibbs import run_chain as run_gibbs_chain
from mtgbn.paper.hmc import HMCSettings, initial_state
from mtgbn.paper.posterior import build_posterior
from mtgbn.simulate import simulate_tasks
from mtgbn.tasks import Tasks

SIMULATION = simulate_tasks(5, 4, 30, random_state=1)
SAMPLERS = {"hmc": {}, "gibbs": {"sampler": "gibbs", "structure_prior": "restricted"}}


def sample(
    tasks=SIMULATION.tasks, adjacencies=SIMULATION.adjacencies, nu0=SIMULATION.nu0, **options
):
    options = {"n_draws": 20, "n_warmup": 40, "random_state": 1, **options}
    return sample_sigma_h(tasks, adjacencies, nu0, **options)


@pytest.fixture(params=SAMPLERS)
def sampler(request):
    return SAMPLERS[request.param]


class TestRandomState:
    def test_decides_the_draws_whatever_the_number_of_jobs(self, sampler):
        runs = [sample(n_jobs=n_jobs, **sampler).sigma_h for n_jobs in (1, 2, 4, None)]
        for run in runs[1:]:
            np.testing.assert_array_equal(run, runs[0])

    def test_other_seeds_and_other_chains_differ(self, sampler):
        one, other = sample(**sampler), sample(random_state=2, **sampler)
        ends = np.concatenate([one.sigma_h[:, -1, 0, 0], other.sigma_h[:, -1, 0, 0]])
        assert len(np.unique(ends)) == 8
        assert len(np.unique(one.sigma_h[:, 0, 0, 0])) == 4

    def test_more_chains_leave_the_first_ones_alone(self, sampler):
        np.testing.assert_array_equal(
            sample(n_chains=2, **sampler).sigma_h, sample(n_chains=4, **sampler).sigma_h[:2]
        )

    def test_a_seed_sequence_is_not_consumed(self, sampler):
        parent = np.random.SeedSequence(1)
        first = sample(random_state=parent, **sampler).sigma_h
        assert parent.n_children_spawned == 0
        parent.spawn(3)
        np.testing.assert_array_equal(sample(random_state=parent, **sampler).sigma_h, first)
        np.testing.assert_array_equal(sample(random_state=1, **sampler).sigma_h, first)

    def test_children_of_a_seed_sequence_differ(self):
        one, other = np.random.SeedSequence(1).spawn(2)
        assert not np.array_equal(
            sample(random_state=one).sigma_h, sample(random_state=other).sigma_h
        )

    def test_none_is_fresh_every_time(self):
        assert not np.array_equal(
            sample(random_state=None).sigma_h, sample(random_state=None).sigma_h
        )


class TestAlgorithm2:
    """The paper's plain HMC must run with exactly the numbers that are given."""

    @pytest.mark.parametrize("dense", [False, True])
    def test_runs_as_given(self, dense):
        mass = np.full(10, 60.0)
        mass[[0, 2, 5, 9]] = 120.0
        draws = sample(
            n_steps=13,
            step_size=0.11,
            mass_matrix=np.diag(mass) if dense else mass,
            whiten=False,
            jitter=0.0,
            n_warmup=0,
            n_draws=50,
        )
        assert (draws.statistics["n_steps"] == 13).all()
        assert draws.statistics["acceptance_rate"].mean() > 0.5
        for state in draws.states:
            assert state.step_size == 0.11
            np.testing.assert_array_equal(state.centre, np.eye(4))
            if not dense:
                np.testing.assert_array_equal(state.inverse_mass, 1 / mass)

    def test_dense_and_diagonal_masses_make_the_same_chain(self):
        """The same matrix in two forms gives the same momenta, so the same draws up to rounding."""
        mass = np.linspace(60.0, 120.0, 10)
        options = {"n_steps": 4, "step_size": 0.1, "n_warmup": 0, "n_draws": 5}
        np.testing.assert_allclose(
            sample(mass_matrix=mass, **options).sigma_h,
            sample(mass_matrix=np.diag(mass), **options).sigma_h,
            rtol=1e-6,
        )

    def test_a_given_number_of_steps_has_no_limit(self):
        n_steps = HMCSettings().max_steps + 10
        draws = sample(n_steps=n_steps, step_size=1e-3, jitter=0, n_warmup=0, n_draws=2)
        assert (draws.statistics["n_steps"] == n_steps).all()

    def test_a_trajectory_length_is_bounded_by_max_steps(self):
        draws = sample(trajectory_length=1e9, max_steps=7, jitter=0, n_warmup=0, n_draws=2)
        assert (draws.statistics["n_steps"] == 7).all()

    def test_jitter_varies_the_length_around_the_given_one(self):
        steps = sample(n_steps=20, jitter=0.5, n_draws=400).statistics["n_steps"]
        assert steps.min() >= 10
        assert steps.max() <= 30
        assert abs(steps.mean() - 20) < 4.5 * np.sqrt(20**2 / 12 / steps.size)


class TestAdaptation:
    @pytest.mark.parametrize("target", [0.65, 0.8, 0.95])
    def test_acceptance_comes_near_the_target(self, target):
        draws = sample(n_warmup=2000, n_draws=2000, target_acceptance=target)
        # Dual averaging settles a little above the target; it must never end far below.
        assert target - 0.05 < draws.statistics["acceptance_rate"].mean() < (1 + target) / 2 + 0.05

    @pytest.mark.parametrize("n_warmup", [*range(13), 20, 50])
    def test_however_short_the_warm_up_the_chains_move(self, n_warmup):
        draws = sample(n_warmup=n_warmup, n_draws=100)
        assert np.isfinite(draws.sigma_h).all()
        moved = np.diff(draws.sigma_h[:, :, 0, 0], axis=1) != 0
        assert moved.mean(axis=1).min() > 0.2
        assert draws.statistics["diverging"].mean() < 0.1

    @pytest.mark.parametrize("scale", [1e-4, 1e4])
    def test_a_poor_start_is_overcome(self, scale):
        draws = sample(n_warmup=500, n_draws=1000, initial=scale * np.eye(4))
        reference = sample(n_warmup=500, n_draws=1000, random_state=3)
        ours, theirs = (np.linalg.slogdet(d.sigma_h)[1] for d in (draws, reference))
        assert abs(ours.mean() - theirs.mean()) < theirs.std()

    @pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
    def test_the_papers_coordinates_run_in_any_units(self, scale):
        tasks = Tasks.from_arrays([scale * rows for rows in SIMULATION.arrays])
        draws = sample(tasks, whiten=False, n_warmup=300, n_draws=200)
        assert np.isfinite(draws.sigma_h).all()
        assert draws.statistics["acceptance_rate"].mean() > 0.5

    def test_the_whitened_chain_does_not_see_the_units(self):
        """A power of two changes no digit of a trajectory, only of energies (which adapt step sizes)."""
        arrays = [rows * 2.0**20 for rows in SIMULATION.arrays]
        options = {"n_warmup": 0, "n_draws": 60}
        np.testing.assert_allclose(
            sample(Tasks.from_arrays(arrays), **options).sigma_h,
            2.0**40 * sample(**options).sigma_h,
            rtol=1e-9,
        )


class TestShapes:
    @pytest.mark.parametrize("p", [2, 3])
    @pytest.mark.parametrize("n_tasks", [1, 3])
    def test_small_problems(self, p, n_tasks, sampler):
        simulation = simulate_tasks(n_tasks, p, 30, random_state=p)
        draws = sample(simulation.tasks, simulation.adjacencies, simulation.nu0, **sampler)
        assert draws.sigma_h.shape == (4, 20, p, p)
        assert (np.linalg.eigvalsh(draws.sigma_h) > 0).all()
        np.testing.assert_array_equal(draws.sigma_h, draws.sigma_h.transpose(0, 1, 3, 2))

    def test_one_draw_of_one_chain(self, sampler):
        draws = sample(n_draws=1, n_chains=1, **sampler)
        assert draws.sigma_h.shape == (1, 1, 4, 4)
        assert draws.flat.shape == (1, 4, 4)
        np.testing.assert_array_equal(draws.mean, draws.sigma_h[0, 0])

    def test_many_tasks(self, sampler):
        simulation = simulate_tasks(200, 5, 20, random_state=2)
        draws = sample(
            simulation.tasks,
            simulation.adjacencies,
            simulation.nu0,
            n_draws=100,
            n_warmup=100,
            **sampler,
        )
        # 200 tasks know the diagonal of sigma_h to about 5 %; `restricted` is off by its own prior
        if not sampler:
            ratio = np.diag(draws.mean) / np.diag(simulation.sigma_h)
            np.testing.assert_allclose(ratio, 1, atol=0.3)
        assert np.isfinite(draws.sigma_h).all()

    def test_progress_counts_every_draw(self, sampler):
        made = []
        sample(progress=made.append, n_warmup=30, n_draws=20, n_chains=3, n_jobs=1, **sampler)
        assert sum(made) == 3 * 50


class TestWarmStart:
    # One task with a complete DAG, of which exact draws exist.
    P, N, NU0 = 2, 8.0, 4.0
    SCATTER = data_scatters(2, [20], seed=5)[0]
    TASKS = Tasks([SCATTER], [N])
    GRAPH = complete_dag(2)[None]

    @pytest.mark.parametrize("before", SAMPLERS)
    def test_hmc_starts_where_the_chain_ended(self, before):
        """One step of no length stays where it is."""
        first = sample(**{**SAMPLERS[before], "structure_prior": "restricted"})
        second = sample(
            warm_start=first,
            structure_prior="restricted",
            n_warmup=0,
            n_draws=1,
            n_steps=1,
            step_size=1e-9,
            random_state=7,
        )
        np.testing.assert_allclose(second.sigma_h[:, 0], first.sigma_h[:, -1], rtol=1e-6)

    def test_gibbs_goes_on_from_the_last_draw_of_either(self):
        """The same seed and the same start give the same next draw."""
        for options in ({}, SAMPLERS["gibbs"]):
            first = sample(**{**options, "structure_prior": "restricted"})
            second = sample(warm_start=first, n_warmup=0, n_draws=1, **SAMPLERS["gibbs"])
            posterior = build_posterior(
                SIMULATION.adjacencies,
                SIMULATION.tasks.scatters,
                SIMULATION.tasks.ns,
                SIMULATION.nu0,
                "restricted",
            )
            for chain, seed in enumerate(np.random.SeedSequence(1).spawn(4)):
                draws, _ = run_gibbs_chain(
                    posterior, first.sigma_h[chain, -1], np.random.default_rng(seed), 1, 0
                )
                np.testing.assert_allclose(second.sigma_h[chain], draws, rtol=1e-6)

    @pytest.mark.parametrize("before", SAMPLERS)
    @pytest.mark.parametrize("after", SAMPLERS)
    def test_chains_stay_in_the_stationary_distribution(self, before, after):
        """The first draws of 800 independent chains, against exact ones (KS, p above 1e-5)."""
        options = {"n_chains": 800, "n_draws": 1, "n_jobs": 1, "structure_prior": "restricted"}
        run = (self.TASKS, self.GRAPH, self.NU0)
        first = sample(*run, **{**SAMPLERS[before], **options}, n_warmup=60)
        second = sample(
            *run, **{**SAMPLERS[after], **options}, n_warmup=0, warm_start=first, random_state=2
        )
        exact = exact_draws(self.SCATTER, self.N, self.NU0, 50_000, np.random.default_rng(3))
        expected = shape_statistics(exact)
        for name, values in shape_statistics(second.flat).items():
            assert stats.ks_2samp(values, expected[name]).pvalue > 1e-5, name

    def test_other_graphs_and_another_nu0(self):
        first = sample()
        other = sample(
            adjacencies=SIMULATION.adjacencies[::-1], nu0=SIMULATION.nu0 + 3, warm_start=first
        )
        assert other.statistics["diverging"].sum() == 0
        assert not np.array_equal(other.sigma_h, first.sigma_h)

    def test_a_state_is_the_end_of_its_chain(self):
        draws = sample()
        for state, last in zip(draws.states, draws.sigma_h[:, -1], strict=True):
            np.testing.assert_allclose(state.sigma_h, last, rtol=1e-10)
            np.testing.assert_allclose(
                from_unconstrained(state.position, state.centre), last, rtol=1e-10
            )

    def test_is_not_changed_by_being_used(self, sampler):
        first = sample(**sampler)
        copy = first.sigma_h.copy()
        one = sample(warm_start=first, **sampler)
        two = sample(warm_start=first, **sampler)
        np.testing.assert_array_equal(one.sigma_h, two.sigma_h)
        np.testing.assert_array_equal(first.sigma_h, copy)

    def test_wrong_number_of_chains(self):
        with pytest.raises(InputError, match=r"4 chains .* wants 3"):
            sample(warm_start=sample(), n_chains=3)

    def test_other_variables(self):
        renamed = Tasks(SIMULATION.tasks.scatters, SIMULATION.tasks.ns, variables=list("abcd"))
        with pytest.raises(InputError, match=r"x0.*wants 4 over .*'a'"):
            sample(renamed, warm_start=sample())

    def test_not_both_kinds_of_start(self):
        with pytest.raises(InputError, match="either initial or warm_start"):
            sample(warm_start=sample(), initial=np.eye(4))

    def test_papers_coordinates_after_a_whitened_run(self):
        """`whiten=False` means the coordinates of sigma_h itself, also after a warm start."""
        draws = sample(warm_start=sample(), whiten=False, n_warmup=0)
        for state in draws.states:
            np.testing.assert_array_equal(state.centre, np.eye(4))


class TestInitialState:
    @pytest.mark.parametrize("whiten", [True, False])
    def test_starts_at_the_given_matrix(self, whiten):
        posterior = build_posterior(
            SIMULATION.adjacencies, SIMULATION.tasks.scatters, SIMULATION.tasks.ns, SIMULATION.nu0
        )
        sigma_h = SIMULATION.sigma_h
        state = initial_state(posterior, sigma_h, whiten)
        np.testing.assert_allclose(state.sigma_h, sigma_h, rtol=1e-12)
        np.testing.assert_array_equal(state.centre, sigma_h if whiten else np.eye(4))
        assert (state.inverse_mass > 0).all()


class TestErrors:
    @pytest.mark.parametrize("kind", ["uniform", "restricted", "scale_free", "decomposable"])
    def test_an_improper_posterior_is_refused_before_sampling(self, kind):
        rng = np.random.default_rng(0)
        tasks = Tasks.from_arrays([rng.standard_normal((4, 4))])
        made = []
        with pytest.raises(ImproperPosteriorError, match=r"improper: .*(Add tasks|Leave out)"):
            sample(tasks, complete_dag(4)[None], 10.0, structure_prior=kind, progress=made.append)
        assert made == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sampler": "nuts"}, "'hmc' or 'gibbs'; got 'nuts'"),
            ({"sampler": "gibbs"}, "needs structure_prior='restricted'; got 'uniform'"),
            ({"structure_prior": "flat"}, "got 'flat'"),
            ({"n_draws": 0}, "n_draws must be a whole number of at least 1; got 0"),
            ({"n_draws": 2.5}, "n_draws must be a whole number"),
            ({"n_chains": 0}, "n_chains must be"),
            ({"n_warmup": -1}, "n_warmup must be a whole number of at least 0; got -1"),
            ({"n_jobs": -1}, "n_jobs"),
            ({"random_state": -1}, "random_state"),
            ({"random_state": "seed"}, "random_state"),
            ({"stepsize": 0.1}, "unknown settings ['stepsize']"),
            ({"n_steps": 0}, "n_steps must be a whole number from 1 to 1e+06; got 0"),
            ({"n_steps": 1e300}, "got 1e+300"),
            ({"n_steps": "3"}, "got '3'"),
            ({"max_steps": np.inf}, "got inf"),
            ({"warm_start": 5}, "warm_start must be Draws; got int"),
            ({"n_steps": 2.5}, "n_steps"),
            ({"step_size": 0.0}, "got 0.0"),
            ({"step_size": np.nan}, "got nan"),
            ({"step_size": np.inf}, "got inf"),
            ({"trajectory_length": -1.0}, "got -1.0"),
            ({"jitter": 1.0}, "got 1.0"),
            ({"target_acceptance": 1.0}, "got 1.0"),
            ({"max_steps": 0}, "max_steps must be"),
            ({"mass_matrix": np.ones(3)}, "mass_matrix must have shape (10,) or (10, 10)"),
            ({"mass_matrix": np.zeros(10)}, "mass_matrix must hold positive numbers"),
            ({"mass_matrix": -np.eye(10)}, "mass_matrix must be positive definite"),
            ({"mass_matrix": np.full((10, 10), np.nan)}, "mass_matrix must be finite"),
            ({"mass_matrix": np.eye(10) + np.eye(10, k=1) / 9}, "mass_matrix must be symmetric"),
            ({"initial": np.eye(3)}, "initial must be a 4 x 4 matrix"),
            ({"initial": -np.eye(4)}, "initial must be positive definite"),
            ({"nu0": 3.0}, "nu0 must be a number above p - 1 = 3"),
            ({"adjacencies": SIMULATION.adjacencies[:2]}, "there are 2 graphs for 5 tasks"),
        ],
        ids=lambda value: str(value)[:40].replace("\n", " "),
    )
    def test_the_message_names_the_setting(self, options, message):
        with pytest.raises(InputError, match=re.escape(message)):
            sample(**options)

    def test_states_that_were_tampered_with(self):
        draws = sample(n_draws=2)
        states = tuple(state._replace(position=state.position[:3]) for state in draws.states)
        with pytest.raises(InputError, match="states of warm_start do not fit"):
            sample(warm_start=replace(draws, states=states))

    def test_an_error_in_the_callback_ends_the_run(self):
        calls = []

        def fail(made):
            calls.append(made)
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            sample(n_draws=5000, progress=fail)
        assert len(calls) <= 4  # at most once per chain

    def test_gibbs_has_no_settings(self):
        with pytest.raises(InputError, match=r"no settings; got \['step_size'\]"):
            sample(**SAMPLERS["gibbs"], step_size=0.1)

    def test_a_cycle(self):
        cyclic = SIMULATION.adjacencies.copy()
        cyclic[2] = np.roll(np.eye(4), 1, axis=1)
        with pytest.raises((GraphError, InputError), match="cycle"):
            sample(adjacencies=cyclic)

    @pytest.mark.parametrize("kind", ["uniform", "scale_free", "decomposable"])
    def test_the_gibbs_chain_itself_refuses_other_priors(self, kind):
        posterior = build_posterior(
            SIMULATION.adjacencies,
            SIMULATION.tasks.scatters,
            SIMULATION.tasks.ns,
            SIMULATION.nu0,
            kind,
        )
        with pytest.raises(InputError, match="restricted"):
            run_gibbs_chain(posterior, np.eye(4), np.random.default_rng(0), 1, 0)

    def test_draws_are_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            sample().sigma_h = None


def test_the_default_sampler_is_the_faster_one():
    tasks = Tasks(np.array([10.0 * np.eye(3)] * 4), np.full(4, 10.0))
    graphs = np.zeros((4, 3, 3), dtype=bool)
    given = {"n_draws": 2, "n_warmup": 0, "n_chains": 1, "random_state": 0}
    for prior, settings, expected in (
        ("restricted", {}, "gibbs"),
        ("restricted", {"jitter": 0.1}, "hmc"),
        ("uniform", {}, "hmc"),
    ):
        found = sample_sigma_h(tasks, graphs, 8.0, structure_prior=prior, **given, **settings)
        assert found.sampler == expected
