"""`mtgbn compare` by a design: files, exit codes, interruption, and every kind of bad input."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from compare.studies import QUICK, series, write_groups, write_series

from mtgbn import MTGBN, Tasks
from mtgbn.cli import cli
from mtgbn.compare import compare_design, inference
from mtgbn.learn import multitask
from mtgbn.report.commands import compare_command

FEW = ("--permutations", 200, *QUICK)
N_PATIENTS, N_CONTROLS = 5, 5


def run(*arguments):
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)])


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def read(folder, name):
    return pd.read_csv(Path(folder) / f"{name}.tsv", sep="\t")


def add_columns(table, **columns):
    """Add columns to a table of participants, in place; returns it."""
    lines = table.read_text().splitlines()
    for name, values in columns.items():
        lines = [f"{line}\t{cell}" for line, cell in zip(lines, [name, *values], strict=True)]
    table.write_text("\n".join(lines) + "\n")
    return table


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Five patients, who have v3 -> v4, and five controls; some covariates."""
    root = tmp_path_factory.mktemp("study")
    table = write_groups(root / "data", N_PATIENTS, N_CONTROLS)
    columns = {
        "Age": [31, 45, 28, 52, 39, 33, 47, 29, 50, 36],
        "sex": list("mfmfmfmfmf"),
        "site": list("AABBAABBAB"),
        "only": list("PPPPPQQQQQ"),
        "same": [7] * 10,
        "months": [12 * age for age in (31, 45, 28, 52, 39, 33, 47, 29, 50, 36)],
        "name": [f"x{k}" for k in range(10)],
        "pair": [k % 5 for k in range(10)],
        "scanner": [1, 2, 3, 1, 2, 3, 1, 2, 3, 1],
        "dx group": [1] * 5 + [2] * 5,
        "arm": list("aabbccaabb"),
        "odd": ["a", *"bbbbbcccc"],
    }
    return root / "data", add_columns(table, **columns)


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """A comparison with a covariate, never interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    options = ("--participants", study[1], "--formula", "group + age + sex", *FEW, "--seed", 7)
    result = run(study[0], out, *options, "--jobs", 1)
    assert result.exit_code in (0, 3), result.exception
    return out, options, result


def test_the_folder_has_what_python_finds(study, whole):
    out, _, result = whole
    people = pd.read_csv(study[1], sep="\t", index_col=0)
    found = compare_design(
        Tasks.from_folder(study[0], effective_samples="none"),
        people.rename(columns=str.lower),
        "group + age + sex",
        MTGBN(n_draws=8, n_restarts=0, max_iter=2),
        n_permutations=200,
        random_state=7,
    )
    expected = found.to_frame()
    pd.testing.assert_frame_equal(read(out, "connections"), expected, check_exact=True)
    assert tuple(expected.loc[0, ["source", "target"]]) == ("v3", "v4")
    (template,) = found.templates
    strengths = read(out, "strengths")
    np.testing.assert_allclose(
        strengths[[f"sub-{k:02d}" for k in range(1, 11)]].to_numpy().T, np.tanh(template.strengths)
    )
    effect = read(out, "seg-all_meas-effect_relmat").to_numpy()
    i, j = template.pairs.T
    np.testing.assert_array_equal(effect[i, j], template.tests.effect)
    np.testing.assert_array_equal(effect, effect.T)
    assert np.isnan(np.diag(effect)).all()
    about = json.loads((out / "comparison.json").read_text())
    assert about["answer"] == found.in_words()
    assert about["effect"] == "'patient' minus 'control'"
    assert about["design"]["nuisance"] == ["age", "sex[T.m]"]
    assert about["settings"]["design"]["n_permutations"] == 200
    # Notes come before the fit; then the answer, what the effect means and where the files are.
    notes = [line for line in found.in_words() if line.startswith("Note: ")]
    answer = [line for line in found.in_words() if line not in notes]
    assert notes
    assert all(result.output.count(note) == 1 for note in notes)
    places = [result.output.index(text) for text in (*notes, *answer, "Effect:", "Wrote")]
    assert places == sorted(places)
    subjects = read(out, "subjects")
    assert subjects.columns.tolist() == [
        *("subject", "group", "age", "sex", "rows", "n", "used", "reason")
    ]
    assert subjects.age.tolist() == people["Age"].tolist()


def test_every_file_is_explained_and_no_other_is_there(whole):
    out, _, _ = whole
    tables = ("connections", "strengths", "components", "regions", "sets", "subjects")
    matrices = tuple(f"seg-all_meas-{name}_relmat" for name in ("effect", "pFamily"))
    names = {f"{name}.{kind}" for name in (*tables, *matrices) for kind in ("tsv", "json")}
    assert {path.name for path in out.iterdir()} - {"report.html"} == {
        *names,
        *("comparison.json", "work"),
    }
    for name in tables:
        described = json.loads((out / f"{name}.json").read_text())
        assert all(described[column]["Description"] for column in read(out, name).columns)
    for name in matrices:
        described = json.loads((out / f"{name}.json").read_text())
        assert described["StorageFormat"] == "Full"
        assert described["Directed"] is described["ValidDiagonal"] is False
    assert not list((out / "work").rglob("group-*.npz"))


@pytest.mark.parametrize("step", ["the fit", "the permutations"])
def test_neither_jobs_nor_an_interruption_matter(study, whole, tmp_path, monkeypatch, step):
    out, options, _ = whole
    calls = []
    is_fit = step == "the fit"
    place, name = (multitask, "advance_map") if is_fit else (inference, "_orders")
    original = getattr(place, name)

    def interrupted(*arguments, **keywords):
        calls.append(name)
        if len(calls) == (2 if is_fit else 1):
            raise KeyboardInterrupt
        return original(*arguments, **keywords)

    monkeypatch.setattr(place, name, interrupted)
    stopped = run(study[0], tmp_path / "b", *options, "--jobs", 1)
    assert stopped.exit_code == 130, stopped.exception
    assert "the same command goes on" in stopped.output
    assert not (tmp_path / "b" / "comparison.json").exists()
    assert len(list((tmp_path / "b" / "work").rglob("group-all.npz"))) == 1
    calls.clear()

    def counted(*arguments, **keywords):
        calls.append(name)
        return original(*arguments, **keywords)

    monkeypatch.setattr(place, name, counted)
    resumed = run(study[0], *options, tmp_path / "b", "--jobs", 2, "--quiet")
    assert resumed.exit_code in (0, 3), resumed.exception
    assert resumed.output == ""
    assert len(calls) == 1  # the first of two iterations was not repeated
    assert contents(tmp_path / "b") == contents(out)


def test_folders_of_others_are_left_alone_and_settings_are_compared(study, whole, tmp_path):
    out, options, _ = whole
    data, table = study
    before = contents(out)
    changes = (
        ("--seed", 8),
        ("--formula", "group + age"),
        ("--test", "age"),
        ("--contrast", "group[T.patient]"),
        ("--permutations", 300),
        ("--blocks", "sex"),
        ("--paper",),
    )
    for change in changes:
        used = options[:2] + FEW[2:] if change == ("--paper",) else options
        other = run(data, out, *used, *change)
        assert "of other data or settings; use another folder, or --over" in str(other.exception)
    assert contents(out) == before
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds other files" in str(run(data, tmp_path, "--group", table).exception)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_other_values_of_a_covariate_are_another_comparison(study, whole, tmp_path):
    out, options, _ = whole
    table = tmp_path / "participants.tsv"
    table.write_text(study[1].read_text().replace("\t31\t", "\t32\t", 1))
    changed = run(study[0], out, *options, "--participants", table)
    assert "of other data or settings" in str(changed.exception)


def test_the_short_form_tests_the_groups(study, tmp_path):
    short = run(study[0], tmp_path / "a", "--group", study[1], "--column", "group", *FEW)
    long = run(study[0], tmp_path / "b", "--participants", study[1], "--formula", "group", *FEW)
    assert short.exit_code == long.exit_code
    for name in ("connections.tsv", "strengths.tsv", "components.tsv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "Effect: 'patient' minus 'control'." in short.output


def test_three_groups_are_tested_together_and_two_can_be_chosen(study, tmp_path):
    data, table = study
    all_of_them = run(data, tmp_path / "a", "--group", table, "--column", "arm", *FEW)
    assert all_of_them.exit_code in (0, 3), all_of_them.exception
    about = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert np.shape(about["design"]["contrast"]) == (2, 3)
    assert "Effect: of the 2 tested columns the first: 'b' minus 'a'." in all_of_them.output
    two = ("--column", "arm", "--groups", "a", "b")
    chosen = run(data, tmp_path / "b", "--group", table, *two, *FEW)
    assert "Not compared: 2 of group 'c'." in chosen.output
    about = json.loads((tmp_path / "b" / "comparison.json").read_text())
    assert about["design"]["columns"] == ["Intercept", "arm[T.b]"]
    assert about["design"]["n_subjects"] == 8


def test_numbers_as_labels_are_categories_and_columns_may_have_blanks(study, tmp_path):
    result = run(study[0], tmp_path / "a", "--group", study[1], "--column", "dx group", *FEW)
    about = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert about["design"]["formula"] == "C(dx_group)"
    assert "minus '1'." in result.output
    first = read(tmp_path / "a", "connections").iloc[0]
    assert (first.source, first.target) == ("v3", "v4")
    assert first.effect < 0  # group 2 are the controls


def test_codes_that_are_taken_as_numbers_are_a_note(study, tmp_path):
    options = ("--participants", study[1], *FEW)
    result = run(study[0], tmp_path / "a", *options, "--formula", "group + scanner")
    assert "if they are categories, write C(scanner)" in result.output
    result = run(study[0], tmp_path / "b", *options, "--formula", "group + C(scanner)")
    assert "if they are categories" not in result.output


def test_who_is_left_out_is_said_and_code_3(tmp_path):
    table = write_groups(tmp_path / "data", 4, 4)
    add_columns(table, age=[30, "n/a", 41, 28, 36, 39, 44, 25])
    flat = series(40, True)
    flat[:, 1] = 0
    write_series(tmp_path / "data", "sub-40", flat)
    write_series(tmp_path / "data", "sub-41", series(41, True))
    with table.open("a") as file:
        file.write("sub-40\tpatient\t33\nsub-42\tpatient\t34\n")
    options = ("--participants", table, "--formula", "group + age", *FEW)
    result = run(tmp_path / "data", tmp_path / "out", *options)
    assert result.exit_code == 3
    assert "Left out: sub-02: has no value in column 'age'." in result.output
    assert "Excluded: sub-40: task 'sub-40', variable 'v1' is constant" in result.output
    assert "Excluded: sub-41: has no row" in result.output
    assert "Without data: 'sub-42'." in result.output
    subjects = read(tmp_path / "out", "subjects").set_index("subject")
    assert (subjects.used == "yes").sum() == 7
    assert subjects.loc["sub-02", "reason"] == "has no value of 'age'"
    assert subjects.loc["sub-02", "rows"] == 80
    assert "constant" in subjects.loc["sub-40", "reason"]
    assert subjects.loc["sub-42", "reason"] == "has no data"
    # Who is not compared has the values that the table of participants gives.
    of_table = pd.read_csv(table, sep="\t", index_col=0).loc[[*subjects.index.drop("sub-41")]]
    assert (subjects["group"].drop("sub-41") == of_table["group"]).all()
    assert subjects.loc[["sub-40", "sub-42"], "age"].astype(float).tolist() == [33, 34]
    assert pd.isna(subjects.loc["sub-41", "group"])  # has no row there
    assert "sub-02" not in read(tmp_path / "out", "strengths").columns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--formula", "group + weight"), "there is no column named 'weight'"),
        (("--formula", "odd"), "category 'a' of column 'odd' has one subject"),
        (("--column", "odd"), "group 'a' has one subject"),
        (("--formula", "group + same"), "column 'same' is 7 in all subjects"),
        (("--formula", "group + age + months"), "is explained by 'age'"),
        (("--formula", "name"), "column 'name' has another text in every subject"),
        (
            ("--formula", "group + only"),
            "'only' and 'group' are confounded: all subjects with the same 'only'",
        ),
        (("--formula", "group", "--blocks", "only"), "blocks by 'only' allow no permutation"),
        (("--formula", "group", "--permutations", "10"), "10 permutations are too few"),
        (("--formula", "group", "--test", "age"), "no term of the formula named 'age'"),
        (("--formula", "group", "--contrast", "age"), "The columns are 'Intercept'"),
        (("--formula", "group +"), "is not a formula"),
        (("--formula", "exp(age)"), "calls 'exp'"),
        (("--formula", "group", "--blocks", "house"), "there is no column named 'house'"),
        (("--test", "age"), "give a formula that has 'age'"),
        (("--formula", "group", "--draws", "5"), "n_draws must be"),
        (("--formula", "group", "--groups", "patient", "x"), "group 'x' is empty"),
        (("--formula", "group", "--templates", "nothing.tsv"), "there is no file 'nothing.tsv'"),
    ],
)
def test_what_is_refused_costs_nothing(study, whole, tmp_path, monkeypatch, options, message):
    """One sentence, before the fit; an earlier comparison in the folder stays, also with --overwrite."""
    monkeypatch.setattr(MTGBN, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    arguments = ("--participants", study[1], *options, *QUICK[4:])
    refused = run(study[0], tmp_path / "out", *arguments)
    assert refused.exit_code == 1
    assert message in str(refused.exception)
    assert "\n" not in str(refused.exception)
    assert not (tmp_path / "out").exists()
    before = contents(whole[0]), contents(whole[0] / "work")
    again = run(study[0], whole[0], *arguments, "--overwrite")
    assert message in str(again.exception)
    assert (contents(whole[0]), contents(whole[0] / "work")) == before


def test_subjects_with_gaps_are_refused_by_name(tmp_path):
    table = write_groups(tmp_path / "data", 3, 3)
    rows = series(2, True)
    rows[3, 2] = np.nan
    write_series(tmp_path / "data", "sub-02", rows)
    refused = run(tmp_path / "data", tmp_path / "out", "--group", table, "--missing", "em", *QUICK)
    assert "need complete data, and 'sub-02' lack values" in str(refused.exception)


def with_two_series(root, name="sub-{:02d}_ses-{}", m=8):
    """Two series of every participant, of whom the first half are patients."""
    (root / "data").mkdir()
    rows = ["participant_id\tgroup"]
    for number in range(1, m + 1):
        for session in (1, 2):
            values = series(10 * number + session, number <= m // 2)
            write_series(root / "data", name.format(number, session), values)
        rows.append(f"sub-{number:02d}\t{'patient' if number <= m // 2 else 'control'}")
    (root / "participants.tsv").write_text("\n".join(rows) + "\n")
    return root / "data", root / "participants.tsv"


def test_sessions_of_a_participant_are_averaged_and_not_counted_as_subjects(tmp_path):
    data, table = with_two_series(tmp_path)
    result = run(data, tmp_path / "out", "--group", table, *FEW)
    assert result.exit_code in (0, 3), result.exception
    assert "16 series of 8 subjects over 5 variables" in result.output
    assert "are taken as sessions of one person" in result.output
    assert "Reliability of single connections over 2 sessions of 8 subjects" in result.output
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert about["design"]["groups"] == {"control": 4, "patient": 4}
    assert about["sessions"]["sub-03"] == ["sub-03_ses-1", "sub-03_ses-2"]
    assert len(read(tmp_path / "out", "subjects")) == 8
    # The paper's way counts subjects, and refuses.
    refused = run(data, tmp_path / "paper", "--group", table, "--paper", *QUICK)
    assert "participant '01' has several series" in str(refused.exception)


def test_two_series_that_are_no_sessions_are_refused(tmp_path):
    data, table = with_two_series(tmp_path, "sub-{:02d}_acq-{}")
    refused = run(data, tmp_path / "out", "--group", table, *FEW)
    assert refused.exit_code == 1
    for words in ("'sub-01_acq-1' and 'sub-01_acq-2'", "not independent subjects", "join them"):
        assert words in str(refused.exception)


def test_two_templates_have_a_matrix_each(study, tmp_path):
    templates = tmp_path / "templates.tsv"
    names = {"v0": "T 1", "v1": "T 1", "v2": "T-1", "v3": "T-1"}
    templates.write_text("name\ttemplate\n" + "".join(f"{k}\t{v}\n" for k, v in names.items()))
    options = ("--group", study[1], "--column", "group", "--templates", templates, *FEW)
    result = run(study[0], tmp_path / "out", *options)
    assert result.exit_code in (0, 3), result.exception
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    effects = [name for name in about["matrices"] if "effect" in name]
    assert effects == ["seg-T1_meas-effect_relmat.tsv", "seg-T11_meas-effect_relmat.tsv"]
    for name, variables in zip(effects, (["v0", "v1"], ["v2", "v3"]), strict=True):
        assert pd.read_csv(tmp_path / "out" / name, sep="\t").columns.tolist() == variables
    assert read(tmp_path / "out", "connections").template.tolist() == ["T 1", "T-1"]


def test_sets_of_a_table_are_tested_and_the_command_names_them(study, tmp_path):
    table = tmp_path / "sets.tsv"
    table.write_text("name\ttemplate\nv0\tfront\nv1\tfront\nv3\tback\nv4\tback\n")
    data, people = study
    options = ("--group", people, "--column", "group", "--templates", "all", *FEW)
    result = run(data, tmp_path / "out", *options, "--sets", table)
    assert result.exit_code in (0, 3), result.exception
    sets = read(tmp_path / "out", "sets")
    assert sorted(sets.kind) == ["all", "between", "within", "within"]
    assert sets.loc[sets.kind == "within", "first"].tolist()[0] == "back"  # v3 -> v4 in patients
    about = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert about["settings"]["design"]["sets"] == {"front": ["v0", "v1"], "back": ["v3", "v4"]}
    assert "--sets SETS.tsv" in compare_command(about, [])
    refused = run(data, tmp_path / "b", *options, "--sets", table, "--paper")
    assert refused.exit_code == 2
    assert "--sets" in refused.output
