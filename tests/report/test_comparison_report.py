"""The pages about comparisons: two groups, and one subject among controls."""

import html
import json
import shlex

import numpy as np
import pandas as pd
import pytest
from compare.studies import series, write_groups

from mtgbn import SIG, Tasks
from mtgbn.compare import compare_groups, write_study
from mtgbn.compare.one_subject import Departures
from mtgbn.compare.study import SubjectStudy
from mtgbn.errors import InputError
from mtgbn.report import comparison_parts, figures, report_of
from mtgbn.report.brain_regions import coordinates_of
from mtgbn.report.commands import compare_command

EVIL = ("<script>alert(1)</script>", 'a,b"c', "$v$", "aDMN1", "aDMN2")
REGIONS = tuple(f"aDMN{k}" for k in (1, 2, 3, 7, 11))


def made_study(variables, **options):
    """Everybody has v0 -> v2 <- v1, those of group a also v3 -> v4; each is learned alone."""
    is_a = np.arange(9) < 4
    arrays = [series(k, bool(a)) for k, a in enumerate(is_a)]
    tasks = Tasks.from_arrays(arrays, variables, [f"s<{k}>" for k in range(9)])
    learner = SIG(edge_prior="density", n_restarts=0)
    return compare_groups(tasks, is_a, learner, random_state=1, **options)


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    study = made_study(
        EVIL,
        labels=("<b>patients</b>", "controls"),
        templates={"<u>one</u>": EVIL, "two": EVIL[2:]},
        n_permutations=5,
        fitting="together",
        methods=("mtgbn", "sig"),
    )
    write_study(study, folder, {"warnings": ["something <i>odd</i>"], "excluded": []})
    report_of(folder).save_as_html(folder / "report.html")
    return folder


def read(folder, name):
    return pd.read_csv(folder / f"{name}.tsv", sep="\t", na_values="n/a", keep_default_na=False)


def test_tables_are_the_files(groups, opened):
    page = opened(groups / "report.html")
    for name in ("connections", "degrees", "methods", "edges"):
        file, content = page.download(name)
        assert file == f"{name}.tsv"
        assert content == (groups / file).read_bytes()
        lines = [line.split("\t") for line in content.decode().splitlines()]
        rows = page.table(name)["rows"]
        assert len(rows) == min(25, len(lines) - 1)
        assert [row[5:] for row in rows] == [line[5:] for line in lines[1:26]]
    about = json.loads((groups / "connections.json").read_text())
    title = page.page.get_attribute('[data-table="connections"] th:nth-child(16) button', "title")
    assert title == about["z"]["Description"]


def test_what_is_said_of_the_groups(groups, opened):
    page, table = opened(groups / "report.html"), read(groups, "connections")
    pairs, directed = (table[table.kind == kind] for kind in ("undirected", "directed"))
    text = page.page.text_content("#found")
    number, arrows = (int((each.q_study <= 0.05).sum()) for each in (pairs, directed))
    assert f"Of {len(pairs)} pairs, {number or 'none'} differ" in text
    assert (
        f"of {len(directed)} possible connections with a direction, i → j, {arrows or 'none'}."
        in text
    )
    corrected = int((pairs.p_permutation_corrected <= 0.05).sum())
    assert f"relabellings of the subjects, {corrected or 'none'} of the pairs" in text
    top = pairs[pairs.difference != 0].sort_values("p_two_sided", kind="stable").iloc[0]
    first = page.page.locator("#found .finding").first.text_content()
    assert f"{top.source} – {top.target}" in first
    for row in directed.itertuples():
        if row.template == top.template and {row.source, row.target} == {top.source, top.target}:
            assert f"{row.source} → {row.target}: {row.count_a} and {row.count_b}" in first
    assert f"{top.count_a} of 4 <b>patients</b>, {top.count_b} of 5 controls" in first
    assert f"p = {top.p_two_sided:.3g}, q = {top.q:.3g}" in first
    assert f"corrected {top.p_permutation_corrected:.3g}" in first
    assert page.page.locator("main > *").first.get_attribute("id") == "warnings"
    assert "Something <i>odd</i>." in page.page.text_content("#warnings")
    assert page.page.locator("main b, main i, main u").count() == 0


def test_group_networks_have_the_counts(groups, opened):
    page, counts = opened(groups / "report.html"), read(groups, "counts")
    own = counts[counts.template == "<u>one</u>"]
    shares = {"0": own.count_a / 4, "1": own.count_b / 5, "2": own.count_a / 4 - own.count_b / 5}
    for number, values in shares.items():
        page.page.select_option('#group-networks-0 [data-part="network"]', number)
        for threshold in (0, 0.5, 1):
            page.page.evaluate(
                """value => {
                  const slider = document.querySelector('#group-networks-0 [data-part="threshold"]');
                  slider.value = value;
                  slider.dispatchEvent(new Event("input"));
                }""",
                str(threshold),
            )
            shown = page.page.text_content('#group-networks-0 [data-part="shown"]')
            expected = int(((values != 0) & (values.abs() >= threshold)).sum())
            assert shown.split()[0] == str(expected or (0 if (values != 0).any() else "no"))


@pytest.mark.parametrize("width", [400, 1600])
def test_readable_at_any_width(groups, opened, width):
    page = opened(groups / "report.html", width)
    assert page.overflow() <= 0
    images = page.page.locator("main img")
    assert images.count() >= 2 * (3 + 2 + 1 + 2)
    for k in range(images.count()):
        assert images.nth(k).get_attribute("alt")
        assert (
            images.nth(k).evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
        )


def test_the_brain_where_coordinates_are_known(tmp_path, opened):
    pytest.importorskip("nilearn")
    study = made_study(REGIONS, labels=("p", "c"))
    page = opened(report_of(study).save_as_html(tmp_path / "page.html"))
    assert "from behind" in page.page.text_content("#template-0")
    assert page.page.locator('#template-0 img[src^="data:image/png"]').count() == 1
    page.page.select_option('#group-networks-0 [data-part="layout"]', "map")
    x = page.page.evaluate(
        "mtgbnViews['group-networks-0'].nodes().map((node) => node.position('x'))"
    )
    known = coordinates_of(REGIONS)[:, 0]
    assert np.argsort(x, kind="stable").tolist() == np.argsort(known, kind="stable").tolist()
    assert coordinates_of(("aDMN1", "v")) is None


@pytest.fixture
def no_figures(monkeypatch):
    """Pages without static figures, which take seconds to draw."""
    for name in ("circle_pictures", "counts_pictures"):
        monkeypatch.setattr(figures, name, lambda *_: [])
    monkeypatch.setattr(figures, "degrees_picture", lambda *_: figures.Picture("data:,", "none"))


@pytest.mark.usefixtures("no_figures")
def test_a_simulation_is_called_one(tmp_path, opened):
    truth = {
        "description": "They are nobody's.",
        "altered": [{"source": "v3", "target": "v4", "kind": "gained"}],
    }
    study = made_study([f"v{k}" for k in range(5)], labels=("patient", "control"))
    write_study(study, tmp_path, {"simulation": truth})
    page = opened(report_of(tmp_path).save_as_html(tmp_path / "report.html"))
    from_memory = report_of(study, about={"simulation": truth}).html
    assert from_memory == (tmp_path / "report.html").read_text(encoding="utf-8")
    text = page.page.text_content("#simulation")
    assert "These data are simulated" in text
    table = read(tmp_path, "connections").query("kind == 'undirected'")
    row = table[(table.source == "v3") & (table.target == "v4")].iloc[0]
    assert (
        f"v3 → v4, gained in group patient: {row.count_a} of 4 patient and {row.count_b} of 5"
        in text
    )


def test_with_covariates_controls_are_not_called_an_average():
    found = {"all": (EVIL, departures(5, 6, 0.01))}
    study = SubjectStudy("sub-7", tuple(f"c{k}" for k in range(6)), found)
    assert "0.10 in controls on average" in report_of(study).html
    page = report_of(study._replace(formula="age + sex")).html
    assert "0.10 expected of controls with the same covariates" in page
    assert "control with the same covariates (age + sex)" in page
    assert "on average in controls" not in page
    assert "the average of the controls" not in page


def departures(p, n_controls, fdr):
    pairs = np.triu_indices(p, 1)
    size = len(pairs[0])
    falling = np.linspace(3, 0.1, size)
    scores = np.random.default_rng(1).normal(size=(n_controls, size))
    return Departures(
        *(None, *pairs, np.linspace(0.98, 0.1, size), np.full(size, 0.25)),
        *(np.full(size, 2), n_controls, np.linspace(0.8, -0.5, size), np.full(size, 0.1)),
        *(falling, np.linspace(0.001, 1, size)),
        *(np.linspace(0.1, 5, size), np.maximum(fdr, np.linspace(0, 1, size)), scores),
    )


@pytest.mark.parametrize(("fdr", "expected"), [(0.01, True), (0.6, False)])
def test_one_subject_for_a_clinician(fdr, expected, tmp_path, opened):
    controls = tuple(f"c{k}" for k in range(6))
    study = SubjectStudy("sub-<7>", controls, {"all": (EVIL, departures(5, 6, fdr))})
    write_study(study, tmp_path)
    page = opened(report_of(tmp_path).save_as_html(tmp_path / "report.html"), 400)
    assert page.overflow() <= 0
    table = read(tmp_path, "departures")
    number = int((table.fdr <= 0.2).sum())
    assert (number > 0) == expected
    text = page.page.text_content("#found")
    assert ("No connection" in text) == (not expected)
    assert page.page.locator("#found .finding").count() == max(number, 1)
    first, row = page.page.locator("#found .finding").first.text_content(), table.iloc[0]
    assert f"{row.variable_1} – {row.variable_2}: stronger than in controls" in first
    assert f"Partial correlation {row.strength:.2f} in sub-<7>, 0.10 in controls" in first
    assert "2 of 6 controls have the connection" in first
    assert f"it has probability {row.probability:.2f}" in first
    assert f"{100 * row.fdr:.0f} % are expected to be due to chance" in first
    assert "no diagnosis" in page.page.text_content("#not")
    alarms = read(tmp_path, "alarms")
    rate = alarms.alarms.sum() / alarms.pairs.sum()
    assert f"({100 * rate:.1f} % of the pairs)" in page.page.text_content("#rare")
    for name in ("departures", "alarms"):
        assert page.download(name)[1] == (tmp_path / f"{name}.tsv").read_bytes()


@pytest.mark.parametrize(
    ("count", "probability", "strength", "score", "word", "words"),
    [
        (0, 0.9, -0.4, 3.0, "new", "new in this subject, absent in the controls"),
        (0, 0.07, -0.2, 3.0, "nobody", "in nobody's network"),
        (0, 0.07, 0.01, -3.0, "nobody", "in nobody's network"),
        (5, 0.9, -0.4, 3.0, "opposite", "of the opposite sign"),
        (5, 0.9, 0.4, 3.0, "stronger", "stronger than in controls"),
        (5, 0.1, 0.01, -3.0, "weaker", "weaker than in controls"),
        (5, 0.1, -0.01, -3.0, "weaker", "weaker than in controls"),
    ],
)
def test_table_and_card_say_alike_who_has_a_connection(
    count, probability, strength, score, word, words, tmp_path
):
    found = departures(5, 6, 0.01)
    values = {"control_count": count, "probability": probability}
    values |= {"strength": strength, "score": score}
    for name, value in values.items():
        changed = np.array(getattr(found, name))
        changed[0] = value
        found = found._replace(**{name: changed})
    study = SubjectStudy("sub-7", tuple(f"c{k}" for k in range(6)), {"all": (EVIL, found)})
    write_study(study, tmp_path)
    assert read(tmp_path, "departures").departure[0] == word
    page = html.unescape(report_of(tmp_path).html)
    heading = page.split('<div class="finding"><h4>')[1].split("</h4>")[0]
    assert heading.endswith(f": {words}")
    assert ("no connection that is gained or lost" in page) == (word == "nobody")


@pytest.mark.usefixtures("no_figures")
def test_long_tables_are_cut_and_say_so(groups, tmp_path, opened, monkeypatch):
    monkeypatch.setattr(comparison_parts, "MOST_ROWS", 20)
    page = opened(report_of(groups).save_as_html(tmp_path / "page.html"))
    table = read(groups, "connections")
    hint = page.page.text_content("#connections")
    assert f"connections.tsv has {len(table)} rows; the page has 20 of them" in hint
    name, content = page.download("connections")
    assert name == "connections_first.tsv"
    (tmp_path / "shown.tsv").write_bytes(content)
    shown = read(tmp_path, "shown")
    assert sorted(shown.p_two_sided) == sorted(table.p_two_sided)[:20]


def test_a_damaged_folder_is_an_error(groups, tmp_path):
    for name in ("connections.tsv", "comparison.json"):
        copy = tmp_path / name.replace(".", "-")
        copy.mkdir()
        for path in groups.iterdir():
            if path.is_file():
                (copy / path.name).write_bytes(path.read_bytes())
        (copy / name).write_text("x\ty\n1\n")
        with pytest.raises(InputError, match="not what mtgbn wrote"):
            report_of(copy)


def test_the_command_that_repeats_a_comparison(tmp_path):
    from click.testing import CliRunner

    from mtgbn.cli import cli

    table = write_groups(tmp_path / "data", 3, 3)

    def run(*words):
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code in (0, 3), result.output

    options = ("--draws", 8, "--restarts", 0, "--max-iter", 2, "--effective-samples", "none")
    options += (
        "--paper",
        "--groups",
        "control",
        "patient",
        "--methods",
        "mtgbn,sig",
        "--density",
        3,
    )
    run("compare", tmp_path / "data", tmp_path / "a", "--group", table, *options, "--seed", 3)
    about = json.loads((tmp_path / "a" / "comparison.json").read_text())
    words = shlex.split(compare_command(about, ["mtgbn", "sig"]))
    assert words[:6] == ["mtgbn", "compare", "DATA", "OUT", "--group", "participants.tsv"]
    run("compare", tmp_path / "data", tmp_path / "b", "--group", table, *words[6:])
    for path in (tmp_path / "a").glob("*.*"):
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name
