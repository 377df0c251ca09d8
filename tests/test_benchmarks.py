"""The benchmarks of accuracy, quickly: what the documents claim, on a problem of each kind."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from benchmarks import (
    adaptive,
    autocorrelated,
    calibration,
    design_power,
    designs,
    directions,
    group_differences,
    missing,
    one_patient,
    optimum,
    panel,
    posterior_misfit,
    prediction,
    two_groups,
)
from mtgbn import MTGBN
from mtgbn.simulate import simulate_misfit


@pytest.mark.parametrize(
    "row",
    [
        "thr 60, n 50",
        "thr 200, n 250",
        "dag, n 20 to 400",
        "4 of 12 unrelated, n 50",
        pytest.param("edges 0.1, n 250", marks=pytest.mark.slow),
        pytest.param("dag, n 50, m 40", marks=pytest.mark.slow),
    ],
)
def test_tasks_together_are_ahead_of_each_alone_and_of_all_as_one(row):
    found = adaptive.measure(row, 0, 0)
    for which in (0, 1):  # skeletons, arrowheads
        best = min(found[name][which] for name in ("SIG", "AVG"))
        assert found["map"][which] < best
    if "unrelated" in row:
        assert found["map"][3] <= found["SIG"][3]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["thr 60, n 50", "thr 200, n 250"])
def test_probabilities_make_no_more_mistakes(row):
    found = adaptive.measure(row, 0, 300)
    assert found["posterior"][0] <= found["map"][0]


def test_searches_end_with_the_best_graphs_there_are():
    """By dynamic programming, of which the search knows nothing."""
    assert max(map(abs, optimum.gaps_of(MTGBN(), 0))) < 1e-6


def test_the_panel_finds_one_changed_bit(tmp_path, capsys):
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for path in (first, second):
        assert panel.main([str(path), "single-tasks", "pooled"]) == 0
    assert panel.main(["--compare", str(first), str(second)]) == 0
    arrays = dict(np.load(second))
    arrays["pooled/covariances_"].view(np.uint8)[0, 0, 0] ^= 1
    np.savez(second, **arrays)
    capsys.readouterr()
    assert panel.main(["--compare", str(first), str(second)]) == 1
    assert capsys.readouterr().out.startswith("different: pooled/covariances_\n")


@pytest.mark.parametrize("kind", ["lagged", "thresholded, nu0 200"])
def test_rows_that_were_left_out_are_predicted_better_than_from_single_tasks(kind):
    found = prediction.measure(kind, 0)
    density, changed, allowed, _ = found["MTGBN"]
    assert density > found["SIG"][0]
    if kind == "lagged":  # where coefficients are nearly the same in all tasks
        assert changed <= allowed


@pytest.mark.slow
def test_missing_values_cost_less_than_filling_in_or_dropping():
    complete, drawn, filled, dropped = np.sum(
        [missing.measure("thr 60", seed) for seed in range(2)], axis=0
    )
    assert drawn < 1.15 * complete
    assert drawn < min(filled, dropped)


def test_probabilities_are_shares():
    """As many edges as their probabilities say, over a few simulations from the model."""
    outcomes = [calibration.calibrate(calibration.QUICK[0], seed) for seed in range(8)]
    probability = np.concatenate([each.probabilities for each in outcomes])
    present = np.concatenate([each.present for each in outcomes])
    assert len(present) > 200
    # Edges of a simulation depend on each other: ten times the variance of independent ones.
    error = np.sqrt(10 * np.sum(probability * (1 - probability)))
    assert abs(present.sum() - probability.sum()) < 3 * error
    assert present[probability > 0.9].mean() > 0.8
    assert present[probability < 0.1].mean() < 0.1


def test_probabilities_of_differences_are_shares():
    """As many different pairs as their probabilities say, over simulations from the model."""
    outcomes = [group_differences.calibrate(group_differences.QUICK[0], seed) for seed in range(12)]
    probability = np.concatenate([each.probabilities for each in outcomes])
    present = np.concatenate([each.is_different for each in outcomes])
    assert present.sum() >= 5
    # Pairs of a simulation share the kinds: five times the variance of independent ones.
    error = np.sqrt(5 * np.sum(probability * (1 - probability)))
    assert abs(present.sum() - probability.sum()) < 3 * error
    assert present[probability < 0.05].mean() < 0.05
    assert present[probability > 0.9].mean() > 0.7
    assert np.concatenate([each.is_covered for each in outcomes]).mean() > 0.9


def test_the_smallest_effect_is_that_of_many_rows():
    simulation = simulate_misfit("none", 2, 6, 200_000, variation=0.0, random_state=4)
    rows, graph = simulation.arrays[0], simulation.adjacencies[0]
    strengths = []
    for parent, node in np.argwhere(graph):
        others = np.flatnonzero(graph[:, node])
        chosen = rows[:, [parent, node, *others[others != parent]]]
        precision = np.linalg.inv(np.cov(chosen.T))
        strengths.append(abs(precision[0, 1]) / np.sqrt(precision[0, 0] * precision[1, 1]))
    assert posterior_misfit.smallest_effect(simulation) == pytest.approx(min(strengths), abs=0.01)


@pytest.mark.parametrize("n_edges", [0, 14])
def test_false_edges_of_series_are_those_of_independent_rows(n_edges):
    """rho = .8; 230 rows are worth about 50. Means of three problems, which are a few edges each."""
    problems = [autocorrelated.measure(0.8, n_edges, seed, quick=True) for seed in range(3)]
    for method in ("SIG", "MTGBN"):
        false = {
            way: np.mean([found[way][method][0] for found in problems])
            for way in ("none", "bartlett", "independent")
        }
        assert false["none"] > 0.1
        assert abs(false["bartlett"] - false["independent"]) < 0.03
        assert false["bartlett"] < 0.05


def test_altered_connections_of_a_group_have_smaller_pvalues_than_by_other_methods():
    found = two_groups.measure(0, two_groups.QUICK)
    own = found.pop("MTGBN")
    for each in found.values():
        assert own["log10 p, pair"] < each["log10 p, pair"]
        assert own["edges"] == each["edges"]
    assert own["pairs found"] == 1


@pytest.mark.slow
def test_altered_connections_of_one_patient_come_first():
    """Means of three problems, with quick fits; docs/benchmarks.md has twenty."""
    learner = two_groups.QUICK
    results = [one_patient.measure(seed, ("gained",), learner) for seed in range(3)]
    own, alone = (
        np.mean([each.auc["gained"][name] for each in results])
        for name in ("MTGBN", one_patient.SIG_BY_ODDS)
    )
    assert own > 0.9
    assert own > alone - 0.02
    # 55 pairs of three more controls that depend on each other: up to three times the level.
    assert np.mean([each.extra.pvalue <= 0.05 for each in results]) < 0.15


@pytest.mark.slow
def test_groups_that_do_not_differ_are_rarely_told_apart():
    """The smallest of 20 exchangeable values in 8 data sets: three or more once in 180 times."""
    results = [two_groups.measure_null(seed)["p"] for seed in range(8)]
    assert np.sum(np.array(results) <= 0.05) <= 2


def test_groups_are_drawn_from_their_distribution_given_ages_and_sites():
    """Two of five are patients: all ten groupings, with weights from the density of ages."""
    ages, gap = np.array([-1.0, -0.5, 0.0, 0.4, 1.5]), 1.0
    names = list("abcde")
    people = designs.values_by_name(
        names, group=["patient"] * 2 + ["control"] * 3, age=ages.tolist(), site=list("xxxyy")
    )
    chosen = list(combinations(range(5), 2))
    density = [
        np.prod(stats.norm.pdf(ages, np.where(np.isin(range(5), each), gap / 2, -gap / 2)))
        for each in chosen
    ]
    rng = np.random.default_rng(0)
    drawn = [designs.older_patients(people, rng, gap) == "patient" for _ in range(4000)]
    counts = [sum(is_patient[list(each)].all() for is_patient in drawn) for each in chosen]
    expected = np.array(density) / np.sum(density) * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    for _ in range(20):
        groups = designs.within_sites(people, rng)
        assert sorted(groups[:3]) == ["control", "patient", "patient"]


@pytest.mark.parametrize(
    "row", ["15 v 15, 11 regions", "two sites, one with three times the noise"]
)
def test_groupings_without_a_difference_are_rarely_told_apart(row):
    """One fit, 60 groupings: more than nine at the level .05 once in 1,000 times."""
    found = designs.measure(designs.VALIDITY[row], 0, n_groupings=60)
    for name, outcomes in found.items():
        if name != "site left out":
            assert len(outcomes) == 60
            assert sum(each.p_family.min() <= designs.LEVEL for each in outcomes) <= 9


def test_an_age_that_mimics_groups_is_removed():
    row = designs.COVARIATES["age drives three connections, patients older"]
    studies = [designs.measure(row, seed) for seed in range(2)]
    hits = {
        name: sum(np.sum(found[name][0].p_family <= designs.LEVEL) for found in studies)
        for name in row.tests
    }
    assert hits["age left out"] > 0
    assert hits["age in the formula"] == 0


def test_altered_connections_are_found_by_a_design():
    found = design_power.measure("three gained, 11 regions", 0)
    own = found.pop(design_power.OWN)
    assert own.altered_found == 1
    for each in found.values():
        assert own.altered_found >= each.altered_found
        assert own.area >= each.area - 0.01


def test_directions_that_bootstrap_cohorts_support_are_mostly_right():
    heads = [directions.measure(directions.KINDS["none"](seed), seed)[:3] for seed in (0, 1)]
    every, _, supported = np.sum(heads, axis=0)
    assert supported[0] >= 8
    assert supported[1:].sum() <= 1 < every[1:].sum()


def test_arrowheads_are_counted():
    truth = np.zeros((3, 3), dtype=bool)
    truth[0, 1] = truth[1, 2] = True
    shown = np.zeros((3, 3), dtype=bool)
    shown[0, 1] = shown[2, 1] = shown[0, 2] = True
    assert directions.heads_of(shown, truth) == (1, 1, 1)
