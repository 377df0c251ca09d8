"""BOLD of two groups: exact covariances, responses, seeds, and what was altered."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.optimize import minimize_scalar
from scipy.stats import gamma, rankdata

from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import is_dag, skeleton
from mtgbn.graphs.dags import moral_graph
from mtgbn.simulate import simulate_bold_groups
from mtgbn.simulate.bold import (
    discretise,
    haemodynamic_response,
    neural_activity,
    signal_covariance,
    slow_cosines,
)
from mtgbn.simulate.perturbed import random_network

PLAIN = {"drift": 0, "snr": np.inf, "response_delay_sd": 0, "variation": 0}


def partial_correlations(covariance):
    precision = np.linalg.inv(covariance)
    deviations = np.sqrt(np.diag(precision))
    return -precision / np.outer(deviations, deviations)


def without_drift(series, repetition_time):
    n = len(series)
    line = np.linspace(-1, 1, n)[:, None]
    basis = np.hstack([np.ones((n, 1)), line, slow_cosines(n, repetition_time)])
    return series - basis @ np.linalg.lstsq(basis, series, rcond=None)[0]


def auc(values, labels):
    ranks, n = rankdata(values), labels.sum()
    return (ranks[labels].sum() - n * (n + 1) / 2) / (n * (~labels).sum())


@pytest.mark.parametrize(("tau", "step"), [(1.0, 0.1), (0.3, 0.25), (4.0, 0.01)])
def test_stationary_covariance_is_that_of_the_continuous_equation(tau, step):
    coupling = random_network(8, 14, random_state=0) / tau
    drift = coupling.T - np.eye(8) / tau
    expected = solve_continuous_lyapunov(drift, -2 / tau * np.eye(8))
    dynamics = discretise(coupling, tau, step)
    np.testing.assert_allclose(dynamics.stationary_covariance, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(dynamics.transition, expm(step * drift), atol=1e-12)


def test_activity_has_the_stationary_covariance_and_its_lags():
    """Moments over 3,000 independent runs; within 4.5 of the largest standard error possible."""
    tau, step = 0.5, 0.1
    coupling = random_network(5, 6, random_state=1) / tau
    drift = coupling.T - np.eye(5) / tau
    expected = solve_continuous_lyapunov(drift, -2 / tau * np.eye(5))
    dynamics = discretise(coupling, tau, step)
    runs = [
        neural_activity(coupling, dynamics, 200, np.random.default_rng(seed))
        for seed in range(3000)
    ]
    for time in (0, 1, 199):
        states = np.array([run[time] for run in runs])
        deviations = np.sqrt(np.diag(expected))
        z = (states.T @ states / len(runs) - expected) / np.outer(deviations, deviations)
        assert np.abs(z).max() < 4.5 * np.sqrt(2 / len(runs))
    late = np.array([run[150] for run in runs]).T @ np.array([run[143] for run in runs])
    z = (late / len(runs) - expm(0.7 * drift) @ expected) / np.outer(deviations, deviations)
    assert np.abs(z).max() < 4.5 * np.sqrt(2 / len(runs))


def test_the_recursion_region_by_region_is_that_of_the_vector():
    coupling = random_network(6, 9, random_state=2)
    dynamics = discretise(coupling, 1.0, 0.1)
    found = neural_activity(coupling, dynamics, 50, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    z = np.linalg.cholesky(dynamics.stationary_covariance) @ rng.standard_normal(6)
    root = np.linalg.cholesky(dynamics.innovation_covariance)
    for k in range(50):
        np.testing.assert_allclose(found[k], z, atol=1e-12)
        z = dynamics.transition @ z + root @ rng.standard_normal(6)


@pytest.mark.parametrize("delay", [4.0, 6.0, 8.5])
def test_response(delay):
    """Integral 1, peak near the mode of the first gamma, undershoot thereafter, back to 0 at 32 s."""
    assert quad(haemodynamic_response, 0, 100, args=(delay,))[0] == pytest.approx(1, abs=1e-6)
    peak = minimize_scalar(
        lambda t: -haemodynamic_response(t, delay), bounds=(1, 10), method="bounded"
    ).x
    assert peak == pytest.approx(delay - 1, abs=0.15)
    trough = minimize_scalar(
        lambda t: haemodynamic_response(t, delay), bounds=(10, 25), method="bounded"
    ).x
    assert trough == pytest.approx(delay + 9, abs=1.5)  # the first gamma still pulls
    assert haemodynamic_response(trough, delay) < 0
    assert haemodynamic_response(0.0, delay) == 0
    times = np.arange(0, 32, 0.5)
    expected = gamma.pdf(times, delay) - gamma.pdf(times, delay + 10) / 6
    np.testing.assert_allclose(haemodynamic_response(times, delay), 1.2 * expected, atol=1e-15)
    assert abs(haemodynamic_response(32.0, delay)) < 1e-3


def test_signal_covariance_by_quadrature():
    """One pair, two delays: double integral of h_i(s) h_j(t) K_ij(s, t) on a fine grid."""
    tau, step = 1.0, 0.05
    coupling = np.array([[0.0, 0.6], [0.0, 0.0]])
    times = np.arange(0, 32, step)
    responses = np.column_stack([haemodynamic_response(times, delay) for delay in (5.0, 7.0)])
    found = signal_covariance(discretise(coupling, tau, step), responses) * step**2
    drift = coupling.T - np.eye(2) / tau
    stationary = solve_continuous_lyapunov(drift, -2 / tau * np.eye(2))
    # z(t) with z(t - s): expm(s drift) has decay e^-s and, below the diagonal, 0.6 s e^-s
    ages = times[None, :] - times[:, None]  # of z_j's time before z_i's
    decay = np.exp(-np.abs(ages))
    later_1 = decay * (stationary[0, 1] + 0.6 * np.abs(ages) * stationary[0, 0])
    kernels = {
        (0, 0): decay * stationary[0, 0],
        (1, 1): decay * (stationary[1, 1] + 0.6 * np.abs(ages) * stationary[0, 1]),
        (0, 1): np.where(ages < 0, later_1, decay * stationary[0, 1]),
    }
    for (i, j), kernel in kernels.items():
        expected = responses[:, i] @ kernel @ responses[:, j] * step**2
        assert found[i, j] == pytest.approx(expected, rel=1e-6)
        assert found[j, i] == pytest.approx(expected, rel=1e-6)


def test_a_region_alone_has_a_signal_of_one_percent_and_the_stated_noise():
    for repetition_time in (0.8, 2.5):
        simulation = simulate_bold_groups(
            1,
            0,
            10,
            repetition_time=repetition_time,
            coupling=np.zeros((2, 2)),
            n_altered=0,
            **PLAIN,
        )
        np.testing.assert_allclose(simulation.covariances[0], np.eye(2), atol=1e-12)
    options = {"coupling": np.zeros((2, 2)), "n_altered": 0, "random_state": 0}
    noisy = simulate_bold_groups(1, 0, 40_000, **options, **PLAIN | {"snr": 2.0})
    clear = simulate_bold_groups(1, 0, 40_000, **options, **PLAIN)
    noise = noisy.series[0] - clear.series[0]
    np.testing.assert_allclose(noisy.covariances[0], 1.25 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(noise.std(axis=0), 0.5, rtol=0.025)  # 4.5 standard errors
    lagged = (noise[1:] * noise[:-1]).mean(axis=0) / noise.var(axis=0)
    np.testing.assert_allclose(lagged, 0.3, atol=4.5 / np.sqrt(40_000))


def test_series_have_the_exact_covariance():
    """Standard errors from 40 subjects, who are independent; 4.5 of them.

    With 39 degrees of freedom, one of the 66 elements is further away in 0.4 % of all seeds. The bounds
    are 4 to 8 % of the products of the standard deviations, so a larger error fails.
    """
    simulation = simulate_bold_groups(
        40, 0, 400, variation=0, response_delay_sd=0, drift=0, random_state=3
    )
    assert np.ptp(simulation.covariances, axis=0).max() < 1e-12
    found = np.array([series.T @ series / len(series) for series in simulation.series])
    z = (found.mean(axis=0) - simulation.covariances[0]) / found.std(axis=0, ddof=1) * np.sqrt(40)
    assert np.abs(z).max() < 4.5


def test_repetition_time_is_the_sampling_rate():
    """Every fourth volume of one simulation is another with four times the repetition time."""
    fast = simulate_bold_groups(1, 1, 100, repetition_time=0.5, random_state=0, **PLAIN)
    slow = simulate_bold_groups(1, 1, 25, repetition_time=2.0, random_state=0, **PLAIN)
    for one, other in zip(fast.series, slow.series, strict=True):
        assert one.shape == (100, 11)
        np.testing.assert_allclose(one[::4], other, atol=1e-12)
    assert slow.repetition_time == 2.0
    odd = simulate_bold_groups(1, 0, 5, repetition_time=0.73, time_step=0.1, random_state=0)
    assert odd.series[0].shape == (5, 11)


def test_longer_series_begin_as_shorter_ones():
    options = {"drift": 0, "random_state": 4}
    short, long = (simulate_bold_groups(1, 1, n, **options) for n in (30, 60))
    for one, other in zip(short.series, long.series, strict=True):
        np.testing.assert_allclose(other[:30], one, atol=1e-12)


def test_drift_has_the_stated_size_and_is_slow():
    options = {"random_state": 5, "n_controls": 2, "n_patients": 0}
    with_drift = simulate_bold_groups(drift=0.8, **options)
    without = simulate_bold_groups(drift=0.0, **options)
    noise_share = 1 + 1 / 9  # of the covariances, at a signal-to-noise ratio of 3
    for one, other, covariance in zip(
        with_drift.series, without.series, without.covariances, strict=True
    ):
        drift = one - other
        signal = np.sqrt(np.diag(covariance) / noise_share)
        np.testing.assert_allclose(drift.std(axis=0), 0.8 * signal, rtol=1e-9)
        np.testing.assert_allclose(without_drift(drift, 2.5), 0, atol=1e-9)
        assert np.abs(np.diff(drift, axis=0)).max() < 0.2 * np.ptp(drift, axis=0).min()


@pytest.mark.parametrize(("n", "repetition_time"), [(230, 2.5), (40, 2.0), (20, 2.0)])
def test_slow_cosines_are_those_of_nilearn(n, repetition_time):
    nilearn = pytest.importorskip("nilearn.glm.first_level.design_matrix")
    expected = nilearn.create_cosine_drift(1 / 128, np.arange(n) * repetition_time)[:, :-1]
    np.testing.assert_allclose(slow_cosines(n, repetition_time), expected, atol=1e-12)


@pytest.mark.parametrize("alteration", ["gained", "lost", "mixed"])
@pytest.mark.parametrize("seed", range(5))
def test_groups_differ_by_the_altered_connections_only(alteration, seed):
    simulation = simulate_bold_groups(
        3, 4, 10, n_altered=4, alteration=alteration, density=0.3, random_state=seed
    )
    assert simulation.subjects == [f"sub-0{k}" for k in range(1, 8)]
    assert simulation.groups.tolist() == ["control"] * 3 + ["patient"] * 4
    controls, patients = simulation.adjacencies[:3], simulation.adjacencies[3:]
    assert (controls == controls[0]).all()
    assert (patients == patients[0]).all()
    assert controls[0].sum() == round(0.3 * 55)
    assert is_dag(controls[0])
    assert is_dag(patients[0])
    assert {(i, j) for i, j, kind in simulation.altered if kind == "gained"} == set(
        map(tuple, np.argwhere(patients[0] & ~controls[0]).tolist())
    )
    assert {(i, j) for i, j, kind in simulation.altered if kind == "lost"} == set(
        map(tuple, np.argwhere(controls[0] & ~patients[0]).tolist())
    )
    kinds = [connection.kind for connection in simulation.altered]
    assert kinds == (["gained", "lost"] * 2 if alteration == "mixed" else [alteration] * 4)
    np.testing.assert_array_equal(simulation.couplings != 0, simulation.adjacencies)


def test_one_patient_and_no_difference():
    alone = simulate_bold_groups(6, 1, 10, random_state=0)
    assert alone.groups.tolist() == ["control"] * 6 + ["patient"]
    assert (alone.adjacencies[6] ^ alone.adjacencies[0]).sum() == 3
    same = simulate_bold_groups(6, 3, 10, n_altered=0, random_state=0)
    assert same.altered == []
    assert (same.adjacencies == alone.adjacencies[0]).all()
    np.testing.assert_array_equal(same.series[:6], alone.series[:6])


def test_given_network_regions_and_altered_connections():
    coupling = np.array([[0, 0.5, 0], [0, 0, -0.4], [0, 0, 0]])
    simulation = simulate_bold_groups(
        2, 2, 8, coupling=coupling, regions=["a", "b", "c"], altered=[(0, 1), (0, 2)], variation=0
    )
    assert simulation.regions == ["a", "b", "c"]
    assert simulation.altered == [(0, 1, "lost"), (0, 2, "gained")]
    np.testing.assert_array_equal(simulation.couplings[:2], [coupling, coupling])
    np.testing.assert_array_equal(
        simulation.adjacencies[3], [[False, False, True], [False, False, True], [False] * 3]
    )
    assert 0.4 <= simulation.couplings[3, 0, 2] <= 0.7
    assert simulate_bold_groups(1, 0, 4, regions=3, n_altered=0).regions == ["R01", "R02", "R03"]


def test_couplings_vary_around_the_groups():
    """Their logarithms are normal with the stated deviation; means are kept (4.5 standard errors)."""
    simulation = simulate_bold_groups(300, 0, 2, variation=0.2, time_step=1.0, random_state=1)
    fixed = simulate_bold_groups(1, 0, 2, variation=0, time_step=1.0, random_state=1).couplings[0]
    ratios = simulation.couplings[:, fixed != 0] / fixed[fixed != 0]
    count = ratios.size
    assert abs(ratios.mean() - 1) < 4.5 * 0.2 / np.sqrt(count) * 1.1
    assert np.log(ratios).std() == pytest.approx(0.2, rel=4.5 / np.sqrt(2 * count))


def test_subjects_do_not_depend_on_how_many_there_are():
    small = simulate_bold_groups(2, 1, 20, random_state=7)
    large = simulate_bold_groups(4, 3, 20, random_state=7)
    for one, other in ((0, 0), (1, 1), (2, 4)):
        np.testing.assert_array_equal(small.series[one], large.series[other])
        np.testing.assert_array_equal(small.couplings[one], large.couplings[other])
    assert small.altered == large.altered
    again = simulate_bold_groups(2, 1, 20, random_state=7)
    np.testing.assert_array_equal(small.series, again.series)
    assert not np.array_equal(
        small.series[0], simulate_bold_groups(2, 1, 20, random_state=8).series[0]
    )
    distinct = {series.tobytes() for series in large.series}
    assert len(distinct) == 7


def test_settings_change_only_what_they_are_about():
    """Another signal-to-noise ratio leaves networks, delays, activity and drift as they were."""
    one, other = (simulate_bold_groups(2, 2, 20, snr=snr, random_state=1) for snr in (2.0, 4.0))
    clear = simulate_bold_groups(2, 2, 20, snr=np.inf, random_state=1)
    np.testing.assert_array_equal(one.couplings, other.couplings)
    for a, b, c in zip(one.series, other.series, clear.series, strict=True):
        np.testing.assert_allclose(a - c, 2 * (b - c), atol=1e-9)


def test_partial_correlations_show_the_connections():
    """The claim of the docstring: AUC of connected pairs, exact, and from 230 volumes."""
    upper = np.triu_indices(11, 1)
    exact, long, short = [], [], []
    for seed in range(5):
        simulation = simulate_bold_groups(3, 3, random_state=seed)
        for series, adjacency, covariance in zip(
            simulation.series, simulation.adjacencies, simulation.covariances, strict=True
        ):
            connected = skeleton(adjacency)[upper]
            clean = without_drift(series, 2.5)
            exact.append(auc(np.abs(partial_correlations(covariance))[upper], connected))
            short.append(auc(np.abs(partial_correlations(np.cov(clean.T)))[upper], connected))
        simulation = simulate_bold_groups(1, 1, 4000, drift=0, random_state=seed)
        for series, adjacency in zip(simulation.series, simulation.adjacencies, strict=True):
            found = np.abs(partial_correlations(np.cov(series.T)))
            long.append(auc(found[upper], skeleton(adjacency)[upper]))
            married = moral_graph(adjacency)
            assert np.median(found[skeleton(adjacency)]) > 4 * np.median(found[~married])
    assert np.mean(exact) > 0.97
    assert np.mean(long) > 0.97
    assert np.mean(short) > 0.85


def test_slow_signals_are_a_network_with_coefficients_tau_times_coupling():
    """With tau far below the response's width, regressing on parents gives tau A, others 0."""
    coupling = np.array([[0, 6.0, 3.0], [0, 0, 0], [0, 0, 0]])
    coupling[1, 2] = -4.0
    simulation = simulate_bold_groups(
        1, 0, 4, coupling=coupling, time_constant=0.1, time_step=0.02, n_altered=0, **PLAIN
    )
    covariance = simulation.covariances[0]
    found = np.linalg.solve(covariance[:2, :2], covariance[:2, 2])
    np.testing.assert_allclose(found, [0.3, -0.4], atol=0.01)
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(0.6, abs=0.01)


def test_altered_connections_show_between_groups():
    """With many volumes, altered pairs have the largest differences of partial correlations."""
    coupling = np.zeros((6, 6))
    coupling[0, 1] = coupling[1, 2] = coupling[3, 4] = coupling[4, 5] = 0.6
    simulation = simulate_bold_groups(
        4, 4, 3000, coupling=coupling, altered=[(0, 1), (2, 3)], drift=0, random_state=0
    )
    values = np.array([partial_correlations(np.cov(series.T)) for series in simulation.series])
    difference = np.abs(values[4:].mean(axis=0) - values[:4].mean(axis=0))
    altered = np.zeros((6, 6), dtype=bool)
    for i, j, _ in simulation.altered:
        altered[min(i, j), max(i, j)] = True
    upper = np.triu_indices(6, 1)
    changed, others = difference[upper][altered[upper]], difference[upper][~altered[upper]]
    assert changed.min() > 0.25
    assert changed.min() > 2 * others.max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_controls": -1}, "n_controls must be a whole number of at least 0; got -1"),
        ({"n_controls": 0, "n_patients": 0}, "there must be one subject at least"),
        ({"n_volumes": 1}, "n_volumes must be a whole number of at least 2; got 1"),
        ({"repetition_time": 0}, r"repetition_time must be a number in \(0, inf\); got 0"),
        ({"repetition_time": np.inf}, r"repetition_time must be a number in \(0, inf\); got inf"),
        ({"density": 1.5}, r"density must be a number in \[0, 1\]; got 1.5"),
        ({"snr": 0}, r"snr must be a number in \(0, inf\]; got 0"),
        ({"snr": "3"}, r"snr must be a number in \(0, inf\]; got '3'"),
        ({"drift": np.nan}, r"drift must be a number in \[0, inf\); got nan"),
        ({"noise_correlation": 1}, r"noise_correlation must be a number in \(-1, 1\); got 1"),
        ({"response_delay_sd": 3}, r"response_delay_sd must be a number in \[0, 2\]; got 3"),
        ({"strengths": (0.5, 0.2)}, r"strengths must be .* got \(0.5, 0.2\)"),
        ({"strengths": 0.5}, "strengths must be the least and the largest coupling"),
        ({"alteration": "new"}, "alteration must be .* got 'new'"),
        ({"n_altered": 50}, "patients cannot gain 50 of 41 connections; lower n_altered"),
        ({"n_altered": 15, "alteration": "lost"}, "patients cannot lose 15 of 14 connections"),
        ({"altered": [(0, 11)]}, r"altered\[0\] must be two different .* 0 to 10; got \(0, 11\)"),
        ({"altered": [(1, 2), (3, 3)]}, r"altered\[1\] must be two different"),
        ({"altered": [3]}, r"altered\[0\] must be two different regions \(i, j\) .*; got 3"),
        ({"altered": [(0, 1), (0, 1)]}, r"altered has \(0, 1\) twice"),
        ({"regions": 0}, "regions must be a whole number of at least 1; got 0"),
        ({"regions": "PCC"}, "regions must be a number or a list of names; got 'PCC'"),
        ({"regions": []}, "regions is empty"),
        ({"regions": ["a", "b", "a"]}, "duplicate region name 'a'"),
        ({"regions": 3, "coupling": np.zeros((2, 2))}, "coupling has 2 regions, regions 3"),
        ({"coupling": np.zeros((2, 3))}, r"coupling must be a square matrix; got shape \(2, 3\)"),
        ({"coupling": [[0, np.inf], [0, 0]]}, "that of 0 -> 1 is inf"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(InputError, match=message):
        simulate_bold_groups(**options)


def test_cycles_are_refused():
    with pytest.raises(GraphError, match="cycle 0 -> 1 -> 0"):
        simulate_bold_groups(coupling=[[0, 0.5], [0.5, 0]])
    with pytest.raises(GraphError, match=r"the network of patients: .*cycle 0 -> 1 -> 0"):
        simulate_bold_groups(coupling=[[0, 0.5], [0, 0]], altered=[(1, 0)])
