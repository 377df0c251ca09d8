"""From a table and a formula to a design: the right columns, and errors that name the culprit."""

import itertools

import numpy as np
import pytest

from mtgbn.compare.design import make_design
from mtgbn.errors import InputError


def people(n=18, **more):
    """Three groups in turn, an age, a site that alternates every three subjects."""
    rng = np.random.default_rng(0)
    return {
        f"s{k}": {
            "group": ["patient", "control", "mci"][k % 3],
            "age": f"{rng.normal(40, 9):.1f}",
            "site": "AB"[(k // 3) % 2],
            "sex": "mf"[k % 2],
            "change": str(k * k - 20),
            "same": "5",
            "code": f"x{k}",
            "only_a": "ab"[(k // 3) % 2],
            **{name: values[k] for name, values in more.items()},
        }
        for k in range(n)
    }


def test_columns_are_those_of_the_formula_and_controls_are_the_reference():
    table = people()
    design = make_design(table, "group + age")
    assert design.columns == ("Intercept", "group[T.mci]", "group[T.patient]", "age")
    groups = np.array([values["group"] for values in table.values()])
    np.testing.assert_array_equal(design.matrix[:, 2], groups == "patient")
    np.testing.assert_array_equal(
        design.matrix[:, 3], [float(values["age"]) for values in table.values()]
    )
    assert design.tested == "group"
    np.testing.assert_array_equal(design.contrast, np.eye(4)[1:3])
    assert design.nuisance == ("age",)
    assert design.subjects == tuple(table)


def test_terms_interactions_and_contrasts():
    design = make_design(people(), "age * sex + group", test="age:sex")
    assert design.columns[design.contrast[0].argmax()] == "age:sex[T.m]"
    turned = make_design(people(), "age * sex + group", test="sex : age")
    np.testing.assert_array_equal(turned.contrast, design.contrast)
    design = make_design(people(), "group", contrast="group[T.patient] - group[T.mci]")
    np.testing.assert_array_equal(design.contrast, [[0, -1, 1]])
    codes = people(dx=[str(1 + k % 3) for k in range(18)])
    assert make_design(codes, "dx").columns == ("Intercept", "dx")
    assert len(make_design(codes, "C(dx)").columns) == 3


def test_a_contrast_is_accepted_if_and_only_if_a_shift_of_all_subjects_leaves_it_alone():
    """A number that is added to all values changes a mean, and never what a permutation can test."""
    full = make_design(people(), "group + age")
    shift = np.linalg.lstsq(full.matrix, np.ones(18), rcond=None)[0]
    for weights in itertools.product((-1, 0, 1), repeat=4):
        if not any(weights):
            continue
        words = " ".join(
            f"{weight:+d}*{name}"
            for weight, name in zip(weights, full.columns, strict=True)
            if weight
        )
        if abs(np.dot(weights, shift)) > 1e-9:
            with pytest.raises(InputError, match="asks for a mean"):
                make_design(people(), "group + age", contrast=words)
        else:
            found = make_design(people(), "group + age", contrast=words)
            np.testing.assert_array_equal(found.contrast, [weights])
    equal = make_design(people(), "group", contrast="group[T.mci] = group[T.patient]")
    np.testing.assert_array_equal(equal.contrast, [[0, 1, -1]])


def test_subjects_without_a_value_are_left_out_or_refused():
    ages = [str(30 + k) for k in range(18)]
    ages[4], ages[7] = "n/a", ""
    table = people(years=ages)
    design = make_design(table, "group + years")
    assert design.left_out == {"s4": "years", "s7": "years"}
    assert "s4" not in design.subjects
    assert len(design.matrix) == 16
    assert make_design(table, "group").left_out == {}
    emptied = people(iq=["" if k % 3 else "90" for k in range(18)])
    with pytest.raises(InputError, match=r"is patient in all .* 12 subjects .* 's1', who .* 'iq'"):
        make_design(emptied, "group + iq")
    with pytest.raises(InputError, match="2 subjects lack a value, such as 's4' in column 'years'"):
        make_design(table, "group + years", missing="error")


def test_blocks_are_those_of_the_column():
    design = make_design(people(), "group", blocks="site")
    sites = np.array([values["site"] for values in people().values()])
    for value in (0, 1):
        assert len(set(sites[design.blocks == value])) == 1


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("grup", {}, "there is no column named 'grup'; close matches: 'group'"),
        ("group + same", {}, "column 'same' is 5 in all subjects"),
        ("group + code", {}, "column 'code' has another text in every subject"),
        ("site + only_a", {}, "'only_a' and 'site' are confounded"),
        ("y ~ group", {}, "give the right side only"),
        (" ", {}, "the formula is empty"),
        ("__import__('os')", {}, "characters that are not allowed"),
        ("exp(age)", {}, "calls 'exp'"),
        ("age.__class__", {}, "characters that are not allowed"),
        ("0 + group", {}, "removes the intercept"),
        ("group +", {}, "is not a formula"),
        ("1", {}, "has no column of the table"),
        ("group", {"test": "age"}, "there is no term of the formula named 'age'"),
        ("group", {"contrast": "nothing"}, "The columns are 'Intercept'"),
        ("group", {"contrast": "group[T.mci]", "test": "group"}, "not both"),
        ("group", {"contrast": "group[T.mci] = 0.5"}, "compared with 0.5, and .* leave the number"),
        ("group", {"contrast": "group[T.mci] - group[T.patient] + 2"}, "compared with -2"),
        ("group", {"contrast": "group[T.mci], group[T.patient] = 1"}, "compared with 1"),
        ("group + age", {"contrast": "Intercept"}, "asks for a mean.*'age'$"),
        ("group", {"contrast": "Intercept + group[T.mci]"}, "leave 'Intercept' out"),
        ("only_a", {"blocks": "site"}, "allow no permutation"),
        ("group", {"blocks": "where"}, "there is no column named 'where'"),
        (
            "group + log(change)",
            {},
            r"'log\(change\)' of the design has no number in 's0', such as",
        ),
    ],
)
def test_what_a_test_could_not_answer_is_refused(formula, options, message):
    with pytest.raises(InputError, match=message):
        make_design(people(), formula, **options)


def test_small_groups_and_few_subjects():
    table = people()
    table["s0"]["group"] = "rare"
    with pytest.raises(InputError, match="category 'rare' of column 'group' has one subject"):
        make_design(table, "group")
    assert "fewer than eight subjects" in make_design(people(), "group").notes[0]
    assert make_design(people(48), "group").notes == ()
    few = dict(list(people().items())[:6])
    with pytest.raises(InputError, match=r"6 subjects are too few|explained by"):
        make_design(few, "group * age + sex")
    assert len(make_design(few, "group").subjects) == 6
    three = {name: {"score": name[1]} for name in ("s1", "s2", "s4")}
    with pytest.raises(InputError, match="3 subjects are too few for a design with 2 columns"):
        make_design(three, "score")
    two = people(4)
    with pytest.raises(InputError, match="blocks by 'code' allow no permutation"):
        make_design(people(), "group", blocks="code")
    with pytest.raises(InputError):
        make_design({k: two[k] for k in ("s0", "s1")}, "group")


def test_few_orders_within_blocks_are_refused():
    table = {f"s{k}": {"group": "ab"[k % 2], "pair": str(k // 2)} for k in range(6)}
    with pytest.raises(InputError, match="allow 8 permutations only"):
        make_design(table, "group", blocks="pair")
    more = {f"s{k}": {"group": "ab"[k % 2], "pair": str(k // 2)} for k in range(16)}
    assert make_design(more, "group", blocks="pair").blocks is not None


@pytest.mark.parametrize(
    ("formula", "options", "sizes"),
    [
        ("group + age", {}, [16, 16, 16]),
        ("age + group", {}, None),
        ("age * sex + group", {"test": "age:sex"}, [24, 24]),
        ("group * sex", {"test": "group:sex"}, [8] * 6),
        ("group + age", {"contrast": "group[T.patient] - group[T.mci]"}, [16, 16, 16]),
        ("center(age) + group", {}, None),
        ("C(dx) + age", {}, [24, 24]),
    ],
)
def test_groups_of_the_tested_term_may_differ_in_spread(formula, options, sizes):
    found = make_design(
        people(48, dx=[str(k % 2) for k in range(48)]), formula, **options
    ).variance_groups
    assert sizes is None if found is None else np.bincount(found).tolist() == sizes


def test_spreads_of_tiny_groups_are_not_estimated():
    table = people(24)
    for k in range(24):
        table[f"s{k}"]["group"] = "patient" if k < 4 else "control"
    assert make_design(table, "group").variance_groups is None
    table["s4"]["group"] = "patient"
    assert make_design(table, "group").variance_groups is not None


def test_a_site_with_one_group_only_is_named():
    table = people(48)
    for k, values in enumerate(table.values()):
        values["group"] = "patient" if k % 2 else "control"
        values["site"] = "C" if k >= 40 else values["site"]
    for values in list(table.values())[40:]:
        values["group"] = "patient"
    for options in ({"formula": "group + site"}, {"formula": "group", "blocks": "site"}):
        *others, note = make_design(table, **options).notes
        assert all("held constant" in other for other in others)
        assert note.startswith("all subjects with 'C' of 'site' have the same 'group'")
    both = make_design(table, "group + site", blocks="site")
    assert both.columns == ("Intercept", "group[T.patient]", "site[T.B]", "site[T.C]")
    assert np.bincount(both.blocks).tolist() == [21, 19, 8]
    for values in table.values():
        values["group"] = "patient" if values["site"] == "A" else "control"
    with pytest.raises(
        InputError, match=r"'site' and 'group' are confounded.*leave one of them out"
    ):
        make_design(table, "group + site")
