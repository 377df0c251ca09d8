"""Tables of participants as they come out of spreadsheets: read as meant, or refused by name at once."""

import itertools
import re

import numpy as np
import pytest
from click.testing import CliRunner
from compare.studies import write_groups

from mtgbn import MTGBN
from mtgbn.cli import cli

AGES = (31, 45, 28, 52, 39, 33, 47, 29, 50, 36)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Series of five patients and five controls, and their table as text."""
    root = tmp_path_factory.mktemp("study")
    return root / "data", write_groups(root / "data", 5, 5).read_text()


@pytest.fixture
def compare(study, tmp_path, monkeypatch):
    """Runs the command up to the fit; returns its exit code, what it printed, and its error."""

    class FittedError(Exception):
        pass

    def fit(*_, **__):
        raise FittedError

    monkeypatch.setattr(MTGBN, "fit", fit)
    numbers = itertools.count()

    def run(table, *options, name="participants.tsv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(table.encode(encoding))
        out = tmp_path / f"out{next(numbers)}"
        words = ["compare", study[0], out, "--group", path, "--permutations", 99]
        result = CliRunner().invoke(cli, [str(word) for word in (*words, *options)])
        is_fitted = isinstance(result.exception, FittedError)
        message = "" if is_fitted else str(result.exception)
        assert "\n" not in message
        if not is_fitted:
            assert result.exit_code == 1
            assert not out.exists()
        return is_fitted, result.output, message

    return run


def with_column(text, name, cells):
    lines = zip(text.splitlines(), (name, *cells), strict=True)
    return "\n".join(f"{line}\t{cell}" for line, cell in lines) + "\n"


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        (lambda text: text.replace("\n", "\r\n"), {"encoding": "utf-8-sig"}),
        (lambda text: text.replace("\n", "\r"), {}),
        (lambda text: text.replace("\tpatient", "\t patient\u00a0"), {}),
        (lambda text: text.replace("patient", '"patient"'), {}),
        (lambda text: text.replace("\t", ","), {"name": "participants.csv"}),
        (lambda text: text + "\n\n", {}),
    ],
    ids=["Windows", "old Mac", "blanks", "quotes", "csv", "blank lines"],
)
def test_forms_of_the_same_table(compare, study, change, settings):
    is_fitted, output, message = compare(change(study[1]), **settings)
    assert is_fitted, message
    assert "10 subjects" in output
    assert "Tested: 'group'" in output
    assert "Excluded" not in output


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (
            lambda text: text.replace("\t", ";"),
            {"name": "p.csv"},
            "has semicolons between the cells of its header, and not commas",
        ),
        (lambda text: text.replace("\t", ","), {}, "has commas between the cells"),
        (lambda text: text, {"name": "p.csv"}, "has tabs between the cells"),
        (lambda text: text.replace("\t", "  "), {}, "has blanks between the cells"),
        (lambda text: text, {"name": "p.xlsx"}, "is neither .tsv nor .csv"),
        (lambda text: text, {"encoding": "utf-16"}, "is not UTF-8 text; save it as UTF-8"),
        (lambda text: text.replace("pat", "pät"), {"encoding": "latin-1"}, "is not UTF-8 text"),
        (lambda text: text + "sub-01\tpatient\n", {}, "has participant 'sub-01' twice"),
        (lambda text: text + "01\tpatient\n", {}, "has participant '01' twice"),
        (
            lambda text: text.replace("-01\tp", "-01\tP").replace("-02\tp", "-02\tP"),
            {},
            "column 'group' has 'Patient' and 'patient', which differ in capitals or blanks only",
        ),
        (
            lambda text: text.replace("\tpatient", "\tthe patient").replace("1\tthe ", "1\tthe  "),
            {},
            "differ in capitals or blanks only",
        ),
        (
            lambda text: text.replace("sub-0", ""),
            {},
            "participant '1' of .* and the data of 'sub-01' differ in capitals or leading zeros",
        ),
        (lambda text: text.replace("sub-", "S"), {}, "none of the participants"),
        (lambda text: text.replace("sub-03\tpatient", "sub-03"), {}, "row 3 of .* has 1 cells"),
        (lambda text: "", {}, "has no participants"),
    ],
)
def test_tables_that_cannot_be_read_as_meant(compare, study, change, settings, message):
    is_fitted, _, error = compare(change(study[1]), **settings)
    assert not is_fitted
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("cells", "formula", "message"),
    [
        (
            [*AGES[:9], "5O"],
            "group + x",
            "'x' has numbers, but '5O' in 'sub-10'; correct it, or write n/a",
        ),
        ([*AGES[:9], "."], "x", "has numbers, but '.' in 'sub-10'"),
        ([*AGES[:9], "inf"], "x", "has numbers, but 'inf' in 'sub-10'"),
        ([f"{age},5" for age in AGES], "group + x", "decimal commas, such as '31,5' in 'sub-01'"),
        (list("abcdefghij"), "x", "column 'x' has another text in every subject"),
        ([7] * 10, "group + x", "column 'x' is 7 in all subjects"),
        ([1] * 5 + [2] * 5, "group + x", "'x' and 'group' are confounded"),
        ([1] * 5 + [2] * 5, "group + C(x)", "'x' and 'group' are confounded"),
        (list("AAABBCCDDD"), "group + x", "'x' and 'group' are confounded: all subjects with the"),
        ([1] * 9 + [2], "x", "category '2' of column 'x' has one subject"),
        (list("aAbbaAbbaa"), "group + x", "column 'x' has 'a' and 'A', which differ in capitals"),
    ],
)
def test_columns_that_cannot_answer(compare, study, cells, formula, message):
    is_fitted, _, error = compare(with_column(study[1], "x", cells), "--formula", formula)
    assert not is_fitted
    assert message in error


@pytest.mark.parametrize(
    ("name", "formula", "message"),
    [
        ("mean fd", "group + mean fd", "is not a formula: .* Join columns with .+ 'mean_fd'"),
        ("age (y)", "group + age (y)", "calls 'age'; .* The columns are 'group', 'age_y_'"),
        ("C", "group + C", "column 'C' has the name of a function of formulas; rename it"),
        ("age", "group + age + weight", "there is no column named 'weight'"),
    ],
)
def test_names_of_columns_that_a_formula_cannot_have(compare, study, name, formula, message):
    is_fitted, _, error = compare(with_column(study[1], name, AGES), "--formula", formula)
    assert not is_fitted
    assert re.search(message, error), error


def test_columns_that_a_formula_cannot_tell_apart(compare, study):
    table = with_column(with_column(study[1], "mean fd", AGES), "mean_fd", AGES[::-1])
    is_fitted, _, error = compare(table, "--formula", "group + mean_fd")
    assert not is_fitted
    assert "'mean_fd' may be the column 'mean fd' or 'mean_fd'" in error
    assert compare(table, "--formula", "group")[0]


def test_sessions_in_rows_of_their_own_are_not_independent_subjects(compare, study):
    persons = [f"P{k // 2}" for k in (0, 1, 2, 3, 10, 11, 4, 5, 6, 7)]
    table = with_column(with_column(study[1], "subject", persons), "visit", [1, 2] * 5)
    is_fitted, _, error = compare(table, "--formula", "group")
    assert not is_fitted
    assert "'sub-01' and 'sub-02' are both of 'P0'" in error
    assert "sub-P0_ses-1" in error
    assert "--blocks subject" in error
    # Within a person, visits may be exchanged: five persons have 32 orders.
    assert compare(table, "--formula", "visit", "--blocks", "subject")[0]


def test_numbers_that_stand_for_missing_values_are_a_note(compare, study):
    table = with_column(study[1], "age", [*AGES[:9], 999])
    is_fitted, output, _ = compare(table, "--formula", "group + age")
    assert is_fitted
    note = "Note: column 'age' is 999 in 'sub-10', far from the others (28 to 52); if this stands"
    assert note in output
    _, output, _ = compare(with_column(study[1], "x", np.arange(91, 101)), "--formula", "group + x")
    assert "far from the others" not in output


def test_two_codes_are_two_groups(compare, study):
    table = study[1].replace("patient", "1").replace("control", "2")
    for options in ((), ("--formula", "group"), ("--formula", "C(group)")):
        is_fitted, output, message = compare(table, *options)
        assert is_fitted, message
        assert "have fewer than eight subjects" in output  # said of groups, not of quantities
