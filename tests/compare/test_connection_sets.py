"""Sets of connections tested as a whole: against loops over lists, and without a difference."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mtgbn import SIG, Tasks
from mtgbn.compare import compare_design, inference
from mtgbn.compare.connection_sets import check_sets, connection_sets
from mtgbn.errors import InputError

P = 5
PAIRS = np.array(list(itertools.combinations(range(P), 2)))
SETS = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 4], [9], [2, 3, 5, 6]]


def example(seed, m=12, effect=0.0):
    rng = np.random.default_rng(seed)
    group = np.arange(m) % 3
    matrix = np.column_stack([np.ones(m), group == 1, group == 2, rng.normal(size=m)])
    strengths = rng.normal(size=(m, len(PAIRS)))
    strengths[:, :3] += effect * (group == 1)[:, None]
    return strengths, matrix


def naive_tests(values, members):
    """p-values of sets from statistics by order, the observed one first, by loops over lists."""
    means = [[sum(row[k] for k in each) / len(each) for each in members] for row in values.tolist()]
    columns = list(zip(*means, strict=True))
    p = [sum(value >= column[0] - 1e-12 for value in column) / len(column) for column in columns]
    standard = []
    for column in columns:
        roots = [value ** (1 / 3) for value in column]
        middle = sum(roots) / len(roots)
        spread = (sum((root - middle) ** 2 for root in roots) / len(roots)) ** 0.5
        standard.append([(root - middle) / spread for root in roots])
    largest = [max(row) for row in zip(*standard, strict=True)]
    p_family = [sum(value >= column[0] - 1e-9 for value in largest[1:]) + 1 for column in standard]
    return np.array(means[0]), np.array(p), np.array(p_family) / len(values)


@pytest.mark.parametrize("has_groups", [False, True], ids=["equal spread", "groups"])
@pytest.mark.parametrize(
    "contrast", [[[0, 1, 0, 0]], [[0, 1, 0, 0], [0, 0, 1, 0]]], ids=["one row", "two rows"]
)
def test_tests_of_sets_are_those_of_loops(contrast, has_groups, monkeypatch):
    strengths, matrix = example(3, m=24, effect=0.8)
    seen = []
    for kind in ("EqualVariances", "VarianceGroups"):
        values_of = getattr(inference, kind).values

        def remember(self, orders, values_of=values_of):
            seen.append(values_of(self, orders))
            return seen[-1]

        monkeypatch.setattr(getattr(inference, kind), "values", remember)
    monkeypatch.setattr(inference, "_AT_ONCE", 40)
    found = inference.contrast_tests(
        *(strengths, matrix, np.array(contrast, dtype=float)),
        pairs=PAIRS,
        variance_groups=np.arange(24) % 3 if has_groups else None,
        sets=[np.array(each) for each in SETS],
        n_permutations=99,
        random_state=1,
    )
    # The last values are those that `observed` asks for, unless groups have a way of their own.
    values = np.concatenate(seen)[:100]
    squares = values**2 if len(contrast) == 1 else values
    regions = [[k for k, pair in enumerate(PAIRS.tolist()) if v in pair] for v in range(P)]
    for tests, members in ((found.regions, regions), (found.sets, SETS)):
        statistic, p, p_family = naive_tests(squares, members)
        np.testing.assert_allclose(tests.statistic, statistic, rtol=1e-12)
        np.testing.assert_array_equal(tests.p, p)
        np.testing.assert_array_equal(tests.p_family, p_family)
        effects = [np.mean(found.effect[each]) for each in members]
        np.testing.assert_allclose(tests.effect, effects, rtol=1e-12)
    assert found.sets.p[2] == found.p[9]  # a set with one connection


def test_pvalues_are_uniform_without_a_difference():
    """The sets overlap, and have very different sizes; errors are far from normal."""
    regions, sets, single = [], [], []
    for seed in range(200):
        strengths, matrix = example(seed, m=18)
        strengths += np.random.default_rng(seed).exponential(size=strengths.shape)
        found = inference.contrast_tests(
            *(strengths, matrix, np.array([[0.0, 1, 0, 0]])),
            pairs=PAIRS,
            sets=[np.array(each) for each in SETS],
            n_permutations=99,
            random_state=seed,
        )
        regions.append(found.regions.p_family.min())
        sets.append(found.sets.p_family.min())
        single.append(found.regions.p[seed % P])
    for pvalues in (regions, sets, single):
        jittered = np.array(pvalues) - 0.01 * np.random.default_rng(0).random(200)
        assert stats.kstest(jittered, "uniform").pvalue > 0.01
        rejected = int(np.sum(np.array(pvalues) <= 0.05))
        assert stats.binomtest(rejected, 200, 0.05).pvalue > 0.01


def test_weak_differences_of_a_region_add_up():
    rng = np.random.default_rng(0)
    p, m = 10, 40
    pairs = np.array(np.triu_indices(p, 1)).T
    group = np.arange(m) % 2
    signs = np.where(np.arange(len(pairs)) % 2, 1, -1)
    at_first = (pairs == 0).any(axis=1)
    strengths = rng.normal(size=(m, len(pairs))) + np.outer(group, 0.7 * signs * at_first)
    matrix = np.column_stack([np.ones(m), group])
    found = inference.contrast_tests(
        *(strengths, matrix, np.array([[0.0, 1]])), pairs=pairs, n_permutations=999, random_state=1
    )
    assert found.regions.p_family[0] <= 0.01
    assert (found.regions.p_family[1:] > 0.05).all()


def test_sets_without_a_common_member_have_connections_between_them():
    names = tuple("abcde")
    found = connection_sets(PAIRS, names, {"A": ("a", "b"), "B": ("c", "d"), "C": ("b", "e", "x")})
    by_name = {
        each.name: {"".join(names[v] for v in PAIRS[k]) for k in each.connections} for each in found
    }
    assert by_name.pop("all connections") == {
        "".join(pair) for pair in itertools.combinations("abcde", 2)
    }
    assert by_name == {
        "within A": {"ab"},
        "within B": {"cd"},
        "within C": {"be"},
        "between A and B": {"ac", "ad", "bc", "bd"},
        "between B and C": {"bc", "bd", "ce", "de"},
    }


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"A": ["a", "f"]}, "no variable named 'f'"),
        ({"A": ["a"]}, "'A' has 1 variables; it needs at least two"),
        ({"A": ["a", "b", "a"]}, "duplicate variable"),
        ({"A": "ab"}, "is a text"),
    ],
)
def test_wrong_sets_are_refused(sets, message):
    with pytest.raises(InputError, match=message):
        check_sets(sets, tuple("abcde"))


def test_a_study_names_its_sets():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(16, 60, 4))
    rows[:8, :, 1] += 2 * rows[:8, :, 0]
    people = {f"task{t}": {"group": "patient" if t < 8 else "control"} for t in range(16)}
    study = compare_design(
        *(Tasks.from_any(rows), people, "group", SIG(n_restarts=0)),
        sets={"front": ["x0", "x1"], "back": ["x2", "x3"]},
        n_permutations=199,
        random_state=0,
    )
    (template,) = study.templates
    names = [each.name for each in template.sets]
    assert names == ["all connections", "within front", "within back", "between front and back"]
    pvalues = dict(zip(names, template.tests.sets.p_family, strict=True))
    assert pvalues["within front"] <= 0.05 < pvalues["within back"]
    words = "\n".join(study.in_words())
    assert (
        "Groups of connections that differ as a whole: all connections, within front, those of x0, "
        "those of x1 (smallest"
    ) in words
