"""Groups in the model: labels, invariances, and P(different) against enumerated kinds of pairs."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from mtgbn import MTGBN, Tasks
from mtgbn.errors import InputError
from mtgbn.learn.group_differences import GroupDifferences, warnings_of_groups
from mtgbn.learn.groups import read_groups
from mtgbn.model.pair_kinds import FREQUENCIES, LEAST_DIFFERENCE, N_PLACES

NAMES = ("s1", "s2", "s3", "s4")
LABELS = ["patient", "control", "patient", "control"]


@pytest.mark.parametrize(
    "groups",
    [
        LABELS,
        tuple(LABELS),
        np.array(LABELS),
        dict(zip(NAMES, LABELS, strict=True)),
        dict(zip(NAMES[::-1], LABELS[::-1], strict=True)),
        pd.Series(LABELS, index=NAMES)[["s3", "s1", "s2", "s4"]],
        pd.Series(LABELS, index=NAMES, dtype="category"),
        [f" {label} " for label in LABELS],
    ],
)
def test_labels_are_read_in_order_or_by_name(groups):
    found = read_groups(groups, NAMES)
    assert found.labels == ("control", "patient")
    assert found.is_second.tolist() == [True, False, True, False]
    assert found.by_task(NAMES) == dict(zip(NAMES, LABELS, strict=True))


@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        (["b", "a", "a", "b"], ("a", "b")),
        (["TD", "ASD", "TD", "ASD"], ("TD", "ASD")),
        ([1.0, 2, 2.0, 1], ("1", "2")),
        ([True, False, False, True], ("False", "True")),
        (np.array([1, 0, 0, 1], dtype=np.int8), ("0", "1")),
    ],
)
def test_controls_are_the_first_group_or_else_the_alphabet_decides(groups, labels):
    assert read_groups(groups, NAMES).labels == labels


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "b"], "2 labels for 4 tasks"),
        ("abab", "one label per task"),
        (5, "one label per task"),
        (pd.DataFrame({"group": LABELS}), "one of its columns"),
        (pd.Series(LABELS), "no name of a task"),
        (pd.Series(LABELS, index=["s1", "s1", "s2", "s3"]), "'s1' twice"),
        ({"s1": "a", "s2": "b", "s3": "a"}, "no label for 's4'"),
        ({**dict.fromkeys(NAMES, "a"), "s44": "b"}, "close matches: 's4'"),
        (["a", None, "b", "a"], "'s2' has no label"),
        (["a", float("nan"), "b", "n/a"], "'s2', 's4' have no label"),
        (pd.Series(["a", "b", pd.NA, "a"], index=NAMES), "'s3' has no label"),
        (["a", "a", "a", "a"], "two different labels; it has 1"),
        (["a", "b", "c", "a"], "it has 3 .a: 2, b: 1, c: 1."),
        (["a", "a", "b", "a"], "group 'b' has one task"),
        ([["a"], ["b"], ["a"], ["b"]], "a text or a number"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        read_groups(groups, NAMES)


def some_differences(seed=0, p=4):
    rng = np.random.default_rng(seed)
    distribution = rng.dirichlet(np.full(2 * N_PLACES - 1, 0.1), (p, p))
    distribution[..., N_PLACES - 1] += rng.choice([0.0, 1.0, 30.0], (p, p))
    distribution = np.triu(distribution.T, 1).T + np.triu(distribution.T, 1).transpose(0, 2, 1).T
    distribution[np.arange(p), np.arange(p), N_PLACES - 1] = 1.0
    distribution /= distribution.sum(axis=-1, keepdims=True)
    variables = tuple("abcdefgh"[:p])
    zeros = np.zeros((p, p))
    return GroupDifferences(("c", "d"), (5, 6), variables, distribution, 0.1, zeros)


def test_numbers_of_a_pair_are_those_of_its_distribution():
    found = some_differences()
    grid = np.arange(-16, 17) / 16
    low, high = found.intervals
    for i, j in np.argwhere(~np.eye(4, dtype=bool)):
        weights = found.distribution[i, j]
        assert found.probabilities[i, j] == pytest.approx(weights[grid != 0].sum())
        assert found.means[i, j] == pytest.approx(weights @ grid)
        # At most 2.5 % are below the interval, and more than that if it began later; above as well.
        assert weights[grid < low[i, j]].sum() <= 0.025 < weights[grid <= low[i, j]].sum()
        assert weights[grid > high[i, j]].sum() <= 0.025 < weights[grid >= high[i, j]].sum()
        probability, share = found.probabilities[i, j], found.share
        expected = probability / (1 - probability) * (1 - share) / share
        assert found.bayes_factors[i, j] == pytest.approx(expected)
    turned = found.reversed()
    np.testing.assert_allclose(turned.means, -found.means, atol=1e-15)
    np.testing.assert_array_equal(turned.intervals[0], -high)
    np.testing.assert_array_equal(turned.outcomes, found.outcomes)


def test_the_false_discovery_rate_is_the_expected_share_of_wrong_pairs():
    found = some_differences()
    found.distribution[0, 1] = found.distribution[1, 0] = found.distribution[2, 3]  # a tie
    pairs = np.triu_indices(4, 1)
    probabilities = found.probabilities[pairs]
    for probability, rate in zip(probabilities, found.false_discovery_rates[pairs], strict=True):
        assert rate == pytest.approx((1 - probabilities[probabilities >= probability]).mean())
    rows = found.to_frame()
    assert rows["probability"].is_monotonic_decreasing
    assert rows["fdr"].is_monotonic_increasing


def test_the_same_needs_evidence_of_the_pair_itself():
    found = some_differences(p=2)

    def outcome(probability, share):
        distribution = found.distribution.copy()
        distribution[0, 1] = distribution[1, 0] = 0.0
        distribution[0, 1, [16, 30]] = distribution[1, 0, [16, 30]] = 1 - probability, probability
        return found._replace(distribution=distribution, share=share).outcomes[0, 1]

    assert outcome(0.96, 0.5) == "different"
    assert outcome(0.94, 0.5) == outcome(0.06, 0.5) == "undecided"
    assert outcome(0.04, 0.5) == "the same"
    # Only because hardly any pair is different.
    assert outcome(0.04, 0.04) == "undecided"


def test_groups_of_few_members_and_chains_that_disagree_are_named():
    groups = read_groups(["a"] * 5 + ["b"] * 6, [f"t{k}" for k in range(11)])
    found = some_differences()
    everybody = np.ones(11, dtype=bool)
    assert warnings_of_groups(found, groups, everybody) == []
    some = everybody.copy()
    some[6:10] = False
    (warning,) = warnings_of_groups(found, groups, some)
    assert "only 2 of 6 tasks of group 'b' share" in warning
    apart = np.zeros((4, 4))
    apart[1, 3] = apart[3, 1] = 0.6
    (warning,) = warnings_of_groups(found._replace(between_chains=apart), groups, everybody)
    assert "different between the groups: b - d. Raise n_rounds" in warning


# All join a - b, the second group b - c, half of both groups c - d.
VARIABLES = ("a", "b", "c", "d")
GROUPS = ["control"] * 7 + ["patient"] * 7


def cohort():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(14, 300, 4))
    rows[:, :, 1] += rows[:, :, 0]
    rows[7:, :, 2] += rows[7:, :, 1]
    rows[::2, :, 3] += rows[::2, :, 2]
    return Tasks.from_arrays(rows, VARIABLES, standardise=True)


def estimator(**options):
    options = {"n_rounds": 300, "random_state": 5, "min_strength": 0.0, "n_jobs": 1} | options
    return MTGBN(inference="posterior", **options)


@pytest.fixture(scope="module")
def fitted():
    return estimator().fit(cohort(), groups=GROUPS)


def test_a_gained_pair_is_different_and_others_are_not(fitted):
    found = fitted.differences_
    assert found.labels == ("control", "patient")
    assert found.sizes == (7, 7)
    outcomes = {(row["source"], row["target"]): row["outcome"] for row in found.records}
    assert outcomes.pop(("b", "c")) == "different"
    assert "different" not in outcomes.values()
    assert found.means[1, 2] > 0.6
    assert fitted.groups_ == dict(zip(fitted.task_names_, GROUPS, strict=True))
    assert any("b - c: patient minus control +0." in line for line in found.in_words())


def log_likelihood(frequency, c, n):
    return c * np.log(frequency) + (n - c) * np.log1p(-frequency)


def exact_probabilities(first, second, n_first, n_second, p, n=50_000):
    """P(different) of pairs that given numbers of tasks join, from draws of the prior of the kinds."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([p / 2, 0.5, 0.5, 0.5], n)
    rare, usual = rng.beta(0.5, 9.5, n), rng.beta(9.5, 0.5, n)
    places = np.array([rare, *np.broadcast_to(FREQUENCIES[:, None], (15, n)), usual])
    far = [(a, b) for a in range(17) for b in range(17) if abs(a - b) >= 16 * LEAST_DIFFERENCE]
    log_weights, shares_different = np.zeros(n), []
    for a, b in zip(first, second, strict=True):
        of_first, of_second = (
            log_likelihood(places, count, size) for count, size in ((a, n_first), (b, n_second))
        )
        both = of_first + of_second
        same = logsumexp(
            [
                np.log(shares[:, 0]) + both[0],
                np.log(shares[:, 1]) + both[16],
                np.log(shares[:, 2]) + logsumexp(both[1:16], axis=0) - np.log(15),
            ],
            axis=0,
        )
        different = logsumexp([of_first[k] + of_second[q] for k, q in far], axis=0)
        different += np.log(shares[:, 3]) - np.log(len(far))
        both_kinds = np.logaddexp(same, different)
        log_weights += both_kinds
        shares_different.append(np.exp(different - both_kinds))
    weights = np.exp(log_weights - logsumexp(log_weights))
    return np.array(shares_different) @ weights


def test_probabilities_are_those_of_all_kinds_given_clear_graphs(fitted):
    """300 rows tell every edge, so that the kinds depend on the numbers of the graphs only."""
    assert (fitted.membership_ > 0.99).all()
    joined = fitted.adjacency_probabilities_
    i, j = np.triu_indices(4, 1)
    clear = joined[:, i, j]
    assert np.minimum(clear, 1 - clear).max() < 0.25
    numbers = clear[:7].sum(axis=0), clear[7:].sum(axis=0)
    expected = exact_probabilities(*numbers, 7, 7, 4)
    # Edges that are not quite certain, and 600 draws of the kinds.
    np.testing.assert_allclose(fitted.differences_.probabilities[i, j], expected, atol=0.03)


def test_neither_the_order_of_tasks_and_variables_nor_the_names_of_groups_matter(fitted):
    tasks = cohort()
    order = np.random.default_rng(1).permutation(14).tolist()
    shuffled = tasks[order].select_variables(["c", "a", "d", "b"])
    other = estimator().fit(shuffled, groups=[GROUPS[t] for t in order])
    back, places = np.argsort(order), [1, 3, 0, 2]
    for name in ("probabilities", "means", "bayes_factors", "between_chains"):
        expected = getattr(fitted.differences_, name)
        found = getattr(other.differences_, name)[np.ix_(places, places)]
        np.testing.assert_array_equal(found, expected, err_msg=name)
    np.testing.assert_array_equal(other.graphs_[back][:, places][:, :, places], fitted.graphs_)

    swap = {"control": "patient", "patient": "control"}
    turned = estimator().fit(tasks, groups=[swap[label] for label in GROUPS])
    expected = fitted.differences_.reversed()._replace(labels=("control", "patient"))
    for one, two in zip(turned.differences_, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(turned.edge_probabilities_, fitted.edge_probabilities_)
    np.testing.assert_array_equal(turned.draws_.sigma_h, fitted.draws_.sigma_h)


def test_groups_without_a_difference_are_not_told_apart():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(12, 80, 5))
    rows[:, :, 1] += rows[:, :, 0]
    rows[::3, :, 3] += rows[::3, :, 2]
    found = estimator(n_rounds=100).fit(rows, groups=["a", "b"] * 6).differences_
    assert found.probabilities.max() < 0.5
    assert "none is different" in found.in_words()[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "map"}, "need inference='posterior'"),
        ({"edge_prior": "density"}, "need edge_prior='shared'"),
        ({"edge_prior": (0.2, 1.0)}, "need edge_prior='shared'"),
    ],
)
def test_settings_that_know_no_groups_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        estimator().set_params(**options).fit(cohort(), groups=GROUPS)


@pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")
def test_groups_belong_to_the_checkpoint(tmp_path):
    tasks, path = cohort()[list(range(3)) + list(range(7, 10))], tmp_path / "fit.npz"
    labels = ["a"] * 3 + ["b"] * 3
    short = {"n_rounds": 40}
    whole = estimator(**short).fit(tasks, groups=labels).differences_
    estimator(**short).fit(
        tasks, groups=labels, checkpoint=path, callback=lambda state: state.n_blocks == 4
    )
    for other in (None, ["a", "b"] * 3, ["a"] * 2 + ["b"] * 4):
        with pytest.raises(InputError, match="checkpoint of a fit with groups=3 a, 3 b"):
            estimator(**short).fit(tasks, groups=other, checkpoint=path)
    resumed = estimator(**short).fit(tasks, groups=labels, checkpoint=path)
    np.testing.assert_array_equal(resumed.differences_.distribution, whole.distribution)
    # A fit without groups leaves no differences of the fit before.
    assert not hasattr(resumed.fit(tasks), "differences_")


@pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")
def test_groups_may_lack_values():
    arrays = np.random.default_rng(6).normal(size=(8, 40, 3))
    arrays[:, :, 1] += arrays[:, :, 0]
    arrays[2, 3:6, 1] = np.nan
    arrays[5, :, 2] = np.nan
    options = {"missing": "em", "n_rounds": 40}
    found = estimator(**options).fit(arrays, groups=["b", "a"] * 4).differences_
    assert found.sizes == (4, 4)
    np.testing.assert_allclose(found.distribution[np.triu_indices(3, 1)].sum(axis=-1), 1.0)


def test_a_new_task_is_learned_though_its_group_is_not_known(fitted):
    rows = np.random.default_rng(4).normal(size=(200, 4))
    rows[:, 1] += rows[:, 0]
    learned = fitted.fit_task(rows)
    assert learned.adjacency_probabilities[0, 1] > 0.9
    assert learned.adjacency_probabilities[1, 2] < 0.5
    assert np.isfinite(fitted.predict_log_density("task3", rows)).all()
