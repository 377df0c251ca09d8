"""Blocks are held constant: within sites, within persons, and what does not vary within them."""

import numpy as np
import pytest
from scipy import stats

from mtgbn.compare.design import make_design
from mtgbn.compare.design_statistics import estimates
from mtgbn.compare.inference import contrast_tests
from mtgbn.errors import InputError


def two_sites():
    """Nine and three of the groups at one site, three and nine at the other one."""
    groups = "a" * 9 + "b" * 3 + "a" * 3 + "b" * 9
    return {
        f"s{k}": {"group": group, "site": str(1 + k // 12), "age": str(30 + k * k % 17)}
        for k, group in enumerate(groups)
    }


def pairs(n=12):
    """Before and after of n persons, whose sex and age are the same in both."""
    return {
        f"s{k}": {
            "time": "ab"[k % 2],
            "who": f"p{k // 2}",
            "sex": "mf"[k // 2 % 2],
            "age": str(30 + (k // 2) ** 2 % 17),
        }
        for k in range(2 * n)
    }


def outcomes(table, effect, between, n=2000, seed=0):
    """Standard normal outcomes with an effect of group b, and one of the second site."""
    rng = np.random.default_rng(seed)
    is_b = np.array([values["group"] == "b" for values in table.values()])
    second = np.array([values["site"] == "2" for values in table.values()])
    return rng.normal(size=(len(table), n)) + (effect * is_b + between * second)[:, None]


@pytest.mark.parametrize("formula", ["group", "group + age"])
def test_blocks_have_the_result_of_the_same_column_in_the_formula(formula):
    table = two_sites()
    found = make_design(table, formula, blocks="site")
    spelled = make_design(table, f"{formula} + C(site)", test="group", blocks="site")
    assert found.nuisance == (*(["age"] if "age" in formula else []), "site[T.2]")
    assert "the blocks 'site' are held constant" in found.notes[0]
    assert not any("held constant" in note for note in spelled.notes)
    np.testing.assert_array_equal(found.blocks, spelled.blocks)
    np.testing.assert_array_equal(found.variance_groups, spelled.variance_groups)
    values = outcomes(table, -1.5, 3, n=6)
    tests = []
    for design in (found, spelled):
        tests.append(
            contrast_tests(
                values,
                design.matrix,
                design.contrast,
                pairs=np.array(np.triu_indices(4, 1)).T,
                blocks=design.blocks,
                variance_groups=design.variance_groups,
                n_permutations=200,
                random_state=0,
            )
        )
    for name in ("statistic", "p", "p_family", "p_parametric", "effect", "low", "high"):
        np.testing.assert_allclose(getattr(tests[0], name), getattr(tests[1], name), rtol=1e-8)


def test_effects_within_unbalanced_sites_are_found_and_their_intervals_cover():
    table = two_sites()
    design = make_design(table, "group", blocks="site")
    values = outcomes(table, -1.5, 3)
    found = estimates(values, design.matrix, design.contrast, design.variance_groups)
    # With 2,000 draws the mean is known to .01 and the coverage to .005.
    assert found.effect.mean() == pytest.approx(-1.5, abs=0.04)
    assert np.mean((found.low <= -1.5) & (found.high >= -1.5)) == pytest.approx(0.95, abs=0.02)
    assert np.mean(found.high < 0) > 0.75


@pytest.mark.parametrize("formula", ["time", "time + age", "time + sex"])
def test_two_measurements_of_persons_are_the_paired_t_test(formula):
    """Covariates of the person add nothing to the blocks, and take nothing from them."""
    design = make_design(pairs(), formula, blocks="who")
    rng = np.random.default_rng(1)
    values = rng.normal(size=(24, 30)) + np.repeat(rng.normal(size=(12, 30)) * 5, 2, axis=0)
    found = estimates(values, design.matrix, design.contrast, design.variance_groups)
    expected = stats.ttest_rel(values[1::2], values[::2]).confidence_interval()
    np.testing.assert_allclose(found.low, expected.low, rtol=1e-9)
    np.testing.assert_allclose(found.high, expected.high, rtol=1e-9)


def test_a_change_that_differs_between_groups_is_tested_within_persons():
    """The interaction is the difference between two groups of the changes of their persons."""
    design = make_design(pairs(), "sex * time", test="sex:time", blocks="who")
    values = np.random.default_rng(2).normal(size=(24, 20))
    found = estimates(values, design.matrix, design.contrast)
    changes = values[1::2] - values[::2]
    expected = stats.ttest_ind(changes[::2], changes[1::2]).confidence_interval()
    np.testing.assert_allclose(found.low, expected.low, rtol=1e-9)
    np.testing.assert_allclose(found.high, expected.high, rtol=1e-9)


def test_what_does_not_vary_within_blocks_is_refused():
    table = two_sites()
    for k in range(6):
        table[f"c{k}"] = {"group": "c", "site": "3", "age": str(40 + k)}
    with pytest.raises(InputError, match="'group', or a part of it, does not vary within"):
        make_design(table, "group", blocks="site")
    assert make_design(table, "group", contrast="group[T.b]", blocks="site").contrast.any()
    with pytest.raises(InputError, match="blocks by 'site' allow no permutation"):
        make_design(table, "group", contrast="group[T.c]", blocks="site")
    with pytest.raises(InputError, match="whole blocks do not change places"):
        make_design(two_sites(), "group + site", contrast="group[T.b] + site[T.2]", blocks="site")
    # Within the sites the score is the group, apart from the mean of the site.
    for values in table.values():
        values["score"] = str(10 * int(values["site"]) + (values["group"] == "b"))
    with pytest.raises(InputError, match="given the other columns"):
        make_design(
            {name: values for name, values in table.items() if values["group"] != "c"},
            "group + score",
            blocks="site",
        )


def test_blocks_take_degrees_of_freedom():
    table = {
        f"s{k}": {
            "score": str(k * k % 11),
            "who": f"p{k // 2}",
            "x": str(k**3 % 7),
            "y": str(k % 5),
        }
        for k in range(10)
    }
    table |= {f"t{k}": {"score": str(k), "who": f"q{k}", "x": str(k), "y": "1"} for k in range(3)}
    assert len(make_design(table, "score + x", blocks="who").columns) == 10
    with pytest.raises(InputError, match=r"13 subjects are too few.*12 columns .*larger blocks"):
        make_design(table, "score + x + y + x:y", test="score", blocks="who")
