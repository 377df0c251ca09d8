"""The page about a comparison by a design: true answers, tables as in the files, methods in words."""

import json
import re
import shlex
import time
from html import unescape

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from compare.studies import QUICK, write_groups

from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.cli import cli
from mtgbn.compare import compare_design, write_study
from mtgbn.compare.comparison_folder import ComparisonTables, comparison_tables
from mtgbn.compare.inference import enhance
from mtgbn.compare.power import detectable_effect
from mtgbn.report import comparison_parts, design_page, report_of
from mtgbn.report.commands import compare_command
from mtgbn.report.references import REFERENCES

EVIL = ("<script>alert(1)</script>", 'a,b"c', "$v$", "tab\there", "<b>v</b>")
LEARNER = SIG(n_restarts=0)
M = 18


def arrays(effect, p=5, m=M, rows=70, seed=0):
    """v0 -> v2 <- v1 in all; in the later half of the tasks also v3 -> v4."""
    data = np.random.default_rng(seed).normal(size=(m, rows, p))
    data[:, :, 2] += data[:, :, 0] + data[:, :, 1]
    data[m // 2 :, :, 4] += effect * data[m // 2 :, :, 3]
    return data


def people(m=M):
    return {
        f"s<{k}>": {
            "group": "<b>patient</b>" if k >= m // 2 else "control",
            "age": 20.0 + 7 * k % 31,
            "arm": "abc"[k % 3],
            "site": "xyz"[k % m // 3 % 3],
        }
        for k in range(m)
    }


def made_study(effect=1.5, formula="group", variables=EVIL, learner=LEARNER, m=M, **options):
    data = arrays(effect, len(variables), m)
    tasks = Tasks.from_arrays(data, variables, list(people(m)), standardise=True)
    options = {"n_permutations": 99, "random_state": 1} | options
    return compare_design(tasks, people(m), formula, learner, **options)


@pytest.fixture(scope="module")
def study():
    return made_study(formula="group + age")


@pytest.fixture(scope="module")
def folder(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("design")
    write_study(study, folder, {"warnings": ["something <i>odd</i>"]})
    report_of(folder).save_as_html(folder / "report.html")
    return folder


def read(folder, name):
    return pd.read_csv(folder / f"{name}.tsv", sep="\t", na_values="n/a", keep_default_na=False)


def words_of(report, section):
    """The text of a section of a page, without its elements."""
    page = report.html
    start = page.index(f'<section id="{section}"')
    text = re.sub("<[^>]+>", " ", page[start : page.index("</section>", start)])
    return re.sub(r"\s+", " ", unescape(text).replace("\u00a0", " "))


def test_the_answer_comes_first_and_is_that_of_the_table(study, folder, opened):
    page, table = opened(folder / "report.html"), read(folder, "connections")
    assert page.page.locator("main > *").first.get_attribute("id") == "found"
    found = table[table.p_family <= 0.05]
    text = page.page.text_content("#found").replace("\u00a0", " ")
    verb = "depends" if len(found) == 1 else "depend"
    assert f"{len(found)} of 10 connections {verb} on 'group', with age held constant." in text
    assert f"smallest corrected p of 10 connections is {table.p_family.min():.3g}" in text
    cards = page.page.locator("#found .finding")
    assert cards.count() == len(found) > 0
    first, row = cards.first.text_content(), found.iloc[0]
    assert {row.source, row.target} == {EVIL[3], EVIL[4]}
    assert f"Effect {row.effect:+.2f} (95 % interval {row.low:+.2f} to {row.high:+.2f})" in first
    assert f"Corrected p = {row.p_family:.3g}" in first
    (template,) = study.templates
    limit = detectable_effect(template.tests, len(study.design.contrast))
    assert f"An effect of about {limit.effect:.2g} in partial correlation is found" in text
    assert "Something <i>odd</i>." in page.page.text_content("#warnings")
    assert page.page.locator("main b, main i, main script").count() == 0


def test_findings_have_the_means_of_the_groups(study, folder, opened):
    """The effect of age is 0 in these data: the effect is about the difference of the means."""
    page, table = opened(folder / "report.html"), read(folder, "connections")
    first, row = page.page.locator("#found .finding").first.text_content(), table.iloc[0]
    means = row["mean_control"], row["mean_<b>patient</b>"]
    text = first.replace("\u00a0", " ")
    assert f"{means[0]:+.2f} in control (n = 9), {means[1]:+.2f} in <b>patient</b> (n = 9)" in text
    assert means[1] - means[0] == pytest.approx(row.effect, abs=0.1)
    assert "Means are not adjusted for age" in page.page.text_content("#found")
    # The pointer, too, shows the means.
    texts = page.page.evaluate("DATA.templates[0].networks[0].edges.map((edge) => edge.text)")
    means = f"means: control {means[0]:+.2f}, <b>patient</b> {means[1]:+.2f}"
    assert any(means in each for each in texts)


@pytest.mark.parametrize("cell", ["n/a", "inf"])
def test_numbers_that_are_not_defined_do_not_stop_the_page(study, tmp_path, opened, cell):
    about, tables = comparison_tables(study)
    table = tables["connections"]
    names = [name for name in table.columns if name not in ("template", "source", "target")]
    for row, name in zip(table.rows, names, strict=False):
        row[list(table.columns).index(name)] = cell
    for name in ("effect", "low", "high", "statistic", "p", "p_family", "mean_control"):
        table.rows[0][list(table.columns).index(name)] = cell
    report = design_page.design_report(ComparisonTables(about, tables))
    page = opened(report.save_as_html(tmp_path / "page.html"))
    assert "NaN" not in page.page.text_content("main")
    assert len(page.table("connections-0")["rows"]) == len(table.rows)


@pytest.mark.parametrize("width", [400, 1600])
def test_without_a_finding_the_size_that_would_have_been_found_is_said(tmp_path, opened, width):
    study = made_study(effect=0.0)
    page = opened(report_of(study).save_as_html(tmp_path / "page.html"), width)
    assert page.overflow() <= 0
    frame = study.to_frame()
    text = page.page.text_content("#found").replace("\u00a0", " ")
    assert "No connection is shown to depend on 'group'." in text
    assert f"smallest corrected p of 10 connections is {frame['p_family'].min():.3g}" in text
    assert "would have been found with a probability of 80 %" in text
    assert "No connection is shown to differ." in page.page.text_content("#template-0")
    assert page.page.locator("#template-0 img").count() == 0
    grey = "mtgbnViews['effects-0'].edges('.doubtful').length"
    assert page.page.evaluate(grey) == len(frame)


def test_tables_are_the_files_and_important_columns_come_first(folder, opened):
    page = opened(folder / "report.html")
    for name, file in (("connections-0", "connections"), ("subjects", "subjects")):
        assert page.download(name) == (f"{file}.tsv", (folder / f"{file}.tsv").read_bytes())
    shown, table = page.table("connections-0"), read(folder, "connections")
    order = ["source", "target", "effect", "p_family", "low", "high", "p", "q"]
    assert shown["header"][:8] == [name.replace("_", " ") for name in order]
    assert sorted(shown["header"]) == sorted(name.replace("_", " ") for name in table)
    assert [row[:2] for row in shown["rows"]] == table[["source", "target"]].values.tolist()
    page.page.click('[data-table="connections-0"] th:nth-child(3) button')
    effects = [float(row[2]) for row in page.table("connections-0")["rows"]]
    assert effects == sorted(table.effect)
    ordered = page.page.locator('[data-table="connections-0"] th[aria-sort="ascending"]')
    assert ordered.text_content() == "effect"
    about = json.loads((folder / "connections.json").read_text())
    title = page.page.get_attribute('[data-table="connections-0"] th:nth-child(4) button', "title")
    assert title == about["p_family"]["Description"]


def test_arrowheads_and_colours_follow_the_table(folder, opened):
    page, table = opened(folder / "report.html"), read(folder, "connections")
    is_directed = (table.joined >= design_page.LEAST_JOINED) & (
        table.support >= design_page.LEAST_SUPPORT
    )
    assert 0 < is_directed.sum() < len(table)  # v0 -> v2 <- v1 is told by the data, v3 - v4 is not
    page.page.select_option('#effects-0 [data-part="network"]', "1")
    view = "mtgbnViews['effects-0']"
    ends = "(edge) => [edge.source(), edge.target()].map((end) => end.data('label'))"
    names = page.page.evaluate(f"{view}.edges().not('.undirected').map({ends})")
    expected = [
        [row.source, row.target] if row.forward >= 0.5 else [row.target, row.source]
        for row in table[is_directed].itertuples()
    ]
    assert sorted(names) == sorted(expected)
    grey = page.page.evaluate(f"{view}.edges('.doubtful').length")
    assert grey == (table.p_family > 0.05).sum()
    page.page.select_option('#effects-0 [data-part="network"]', "0")
    assert page.page.evaluate(f"{view}.edges().length") == (table.p_family <= 0.05).sum()
    limit = page.page.text_content("#template-0").replace("\u00a0", " ")
    assert "at least 20 % of the subjects have an edge" in limit
    assert "the data decide for the direction in at least 80 % of 100 bootstrap cohorts" in limit


@pytest.mark.parametrize("width", [400, 1600])
def test_readable_at_any_width(folder, opened, width):
    page = opened(folder / "report.html", width)
    assert page.overflow() <= 0
    images = page.page.locator("main img")
    assert images.count() == 1
    assert images.first.get_attribute("alt")
    decoded = "(image) => image.decode().then(() => image.naturalWidth)"
    assert images.first.evaluate(decoded) > 100


def test_a_folder_and_the_study_give_the_same_page(study, folder):
    about = {"warnings": ["something <i>odd</i>"]}
    assert report_of(study, about=about).html == (folder / "report.html").read_text("utf-8")


def test_every_template_has_a_section(tmp_path, opened):
    study = made_study(variables=EVIL, templates={"<u>one</u>": EVIL[:3], "two": EVIL[2:]})
    write_study(study, tmp_path)
    page = opened(report_of(tmp_path).save_as_html(tmp_path / "page.html"))
    table = read(tmp_path, "connections")
    for number, name in enumerate(("<u>one</u>", "two")):
        assert name in page.page.text_content(f"#template-{number} h2")
        rows = page.table(f"connections-{number}")["rows"]
        own = table[table.template == name]
        assert [row[:2] for row in rows] == own[["source", "target"]].values.tolist()
    file, content = page.download("connections-0")
    assert file == "connections_u-one-u.tsv"
    (tmp_path / file).write_bytes(content)
    pd.testing.assert_frame_equal(
        read(tmp_path, "connections_u-one-u"), table[table.template == "<u>one</u>"]
    )
    found = page.page.text_content("#found")
    assert "No connection is shown to depend" in found
    assert "of 3 connections depends on 'group'" in found
    assert page.page.locator("main u").count() == 0


def test_the_brain_where_coordinates_are_known(tmp_path, opened):
    pytest.importorskip("nilearn")
    study = made_study(variables=tuple(f"aDMN{k}" for k in (1, 2, 3, 7, 11)))
    page = opened(report_of(study).save_as_html(tmp_path / "page.html"))
    assert page.page.locator('#template-0 img[src^="data:image/png"]').count() == 1
    assert "Anterior medial prefrontal cortex" in page.page.text_content("#found")


def test_many_connections_are_cut_and_it_is_said(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(comparison_parts, "MOST_ROWS", 300)
    names = [f"a region with a long name, number {k}" for k in range(46)]
    study = made_study(variables=names, m=10)
    write_study(study, tmp_path)
    page = opened(report_of(tmp_path).save_as_html(tmp_path / "page.html"), 400)
    assert page.overflow() <= 0
    table = read(tmp_path, "connections")
    text = page.page.text_content("#template-0")
    assert f"connections.tsv has {len(table):,} rows of this template; the page has the 300" in text
    assert "The network has the 1,000 connections with the smallest p-values." in text
    file, content = page.download("connections-0")
    assert file == "connections_first.tsv"
    assert len(content.splitlines()) == 301
    assert "Only variables with such a connection are drawn." in text
    # The findings are shown at first, and not all of a thousand lines.
    number = (table.p_family <= 0.05).sum()
    shown = page.page.text_content('#effects-0 [data-part="shown"]')
    assert shown.startswith(f"{number} of {number} edge")
    page.page.select_option(
        '#effects-0 [data-part="network"]', label="the 1,000 with the smallest p"
    )
    shown = page.page.text_content('#effects-0 [data-part="shown"]')
    assert re.match(r"\d+ of 1000 edges", shown)
    assert 0 < int(shown.split()[0]) <= 3 * len(names)


def test_small_effects_per_unit_can_be_told_apart(tmp_path, opened):
    study = made_study(formula="age")
    page = opened(report_of(study).save_as_html(tmp_path / "page.html"))
    frame = study.to_frame()
    largest = frame["effect"].abs().max()
    assert largest < 0.05
    slider = page.page.locator('#effects-0 [data-part="threshold"]')
    assert float(slider.get_attribute("max")) < 2 * largest
    middle = float(frame["effect"].abs().median())
    slider.evaluate(
        "(it, value) => { it.value = value; it.dispatchEvent(new Event('input')); }", middle
    )
    value = float(slider.evaluate("(it) => it.value"))
    number = int((frame["effect"].abs() >= value).sum())
    shown = page.page.text_content('#effects-0 [data-part="shown"]')
    assert shown.startswith(f"{number} of {len(frame)} edges (at least ")


# What the methods say of a comparison, and what they must not say.
METHODS = {
    "groups": (
        {},
        ["We tested the term 'group'", "no nuisance covariates", "Welch's t", "each of 2 groups"],
        ["within", "was removed", "Johansen's F", "multitask", "intraclass"],
    ),
    "covariates": (
        {"formula": "group + age + site"},
        ["age and site were held constant", "what is held constant was removed"],
        ["no nuisance", "within"],
    ),
    "outcome": (
        {"formula": "age"},
        ["The test statistic was t.", "per unit of 'age'", "(|z| of at least", "moderated by"],
        ["Welch", "Johansen", "held constant"],
    ),
    "outcome and groups": (
        {"formula": "group + age", "test": "age"},
        ["We tested the term 'age'. group was held constant.", "The test statistic was t."],
        ["Welch", "Johansen"],
    ),
    "three groups": (
        {"formula": "arm"},
        ["of the 2 tested columns the first: 'b' minus", "Johansen's F", "each of 3 groups"],
        ["Welch's t", "|t|", "held constant"],
    ),
    "contrast": (
        {"formula": "arm", "contrast": "arm[T.b] - arm[T.c]"},
        [
            "We tested the contrast 'arm[T.b] - arm[T.c]'",
            "All other combinations of the columns of the design were held constant",
            "what is held constant was removed",
        ],
        ["the term", "no nuisance"],
    ),
    "one of three": (
        {"formula": "arm + age", "contrast": "arm[T.b]"},
        ["the contrast 'arm[T.b]'", "arm[T.c] and age were held constant"],
        ["no nuisance"],
    ),
    "blocks": (
        {"formula": "arm + age", "blocks": "site"},
        ["exchanged between subjects within 3 blocks of 6 subjects each"],
        [],
    ),
    "pooled": ({"learner": AVG(n_restarts=0)}, ["from the pooled data of all subjects"], ["[0]"]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_say_what_was_done(name):
    options, expected, absent = METHODS[name]
    study = made_study(variables=[f"v{k}" for k in range(5)], **options)
    report = report_of(study)
    text = words_of(report, "methods").split(" References ")[0]
    for phrase in (*expected, "99 random permutations", "for the 10 connections"):
        assert phrase in text, text
    for phrase in absent:
        assert phrase not in text, text
    threshold = study.templates[0].tests.threshold
    assert f"of at least {threshold:.3g}, which has p = 0.001" in text
    check_references(report, text)


def check_references(report, text):
    """Numbers run from 1 in the order of the text, and each has an entry in both lists."""
    cited = [int(n) for each in re.findall(r"\[([\d, ]+)\]", text) for n in each.split(", ")]
    assert list(dict.fromkeys(cited)) == list(range(1, max(cited) + 1))
    keys = re.findall(r"@article\{(\w+),", unescape(report.html))
    assert len(keys) == len(set(keys)) == max(cited)
    listed = words_of(report, "methods")
    places = [listed.index(REFERENCES[key].title) for key in keys]
    assert places == sorted(places)
    bibtex = unescape(report.html.split('id="bibtex">')[1].split("</code>")[0])
    assert bibtex.count("{") == bibtex.count("}")


def with_sessions(formula, **options):
    persons = [f"sub-{k:02d}" for k in range(9)]
    names = [f"{person}_ses-{s}" for person in persons for s in (1, 2)]
    table = {
        name: {
            "group": "patient" if k // 2 % 2 else "control",
            "visit": "early" if k % 2 else "late",
            "id": name.split("_")[0],
        }
        for k, name in enumerate(names)
    }
    tasks = Tasks.from_arrays(arrays(1.5), names=names)
    return compare_design(
        tasks,
        table,
        formula,
        LEARNER,
        n_permutations=99,
        random_state=1,
        **options,
    )


def test_sessions_are_not_called_subjects(tmp_path):
    averaged = with_sessions("group")
    write_study(averaged, tmp_path)
    report = report_of(tmp_path)
    text = words_of(report, "methods")
    assert "We compared 9 subjects (5 control, 4 patient)." in text
    assert "They had 2 sessions each, 18 in all." in text
    assert "averaged, weighted by their precision" in text
    assert "Every session had 70 rows of data." in text
    assert "The variables were not scaled." in text
    assert averaged.templates[0].reliability.in_words() in words_of(report, "subjects")
    subjects = read(tmp_path, "subjects")
    assert subjects.rows.tolist() == [140] * 9
    within = report_of(with_sessions("visit", blocks="id"))
    text = words_of(within, "methods")
    assert "We compared 18 sessions of 9 subjects" in text
    assert "exchanged between sessions within 9 blocks of 2 sessions each" in text
    assert "The strength of every connection in every session" in text
    assert "averaged, weighted" not in text


def test_people_who_are_left_out_and_fits_that_did_not_converge_are_named(tmp_path, opened):
    tasks = Tasks.from_arrays(arrays(0.0), names=list(people()))
    table = people()
    table["s<3>"]["age"] = None
    learner = MTGBN(n_draws=8, n_restarts=0, max_iter=1, tol=0.0)
    with pytest.warns(match="converge"):
        study = compare_design(
            tasks, table, "group + age", learner, n_permutations=99, random_state=1
        )
    about = {
        "excluded": [{"name": "s<99>", "reason": "is <empty>"}],
        "participants_without_data": ["x"],
    }
    page = opened(report_of(study, about=about).save_as_html(tmp_path / "page.html"))
    text = page.page.text_content("#subjects")
    assert (
        "1 further subject lacked a value that the design needs and was left out: s<3> (age)."
        in text
    )
    assert (
        "1 further subject with data could not be used and was left out: s<99> (is <empty>)."
        in text
    )
    assert "1 further participant had no data and was left out: x." in text
    assert "The fit did NOT converge" in page.page.text_content("#found")
    warnings = page.page.text_content("#warnings")
    assert "Not all fits converged: all." in warnings
    assert "1 subject with data was left out. s<99>: is <empty>." in warnings
    assert "does not make p-values too small" in page.page.text_content("#diagnostics")
    methods = page.page.text_content("#methods")
    assert "learned jointly as multitask Gaussian Bayesian networks [1]" in methods
    assert "found by expectation-maximisation" in methods
    for line in study.templates[0].estimator.relatedness_.in_words():
        assert line in page.page.text_content("#diagnostics")


def test_the_exponents_of_the_enhancement_are_those_that_the_methods_name():
    """Of two joined connections of height 1: the integral of 2^0.5 h^2 from 0 to 1."""
    found = enhance(np.ones((1, 2)), np.array([[0, 1], [1, 2]]))
    np.testing.assert_allclose(found, np.sqrt(2) / 3, rtol=0.02)


def run(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code in (0, 3), result.output
    return result


def test_the_command_makes_the_page_and_the_page_has_the_command(tmp_path):
    table = write_groups(tmp_path / "data", 5, 5)
    lines = table.read_text().splitlines()
    cells = ["Age", *(31, 45, 28, 52, 39, 33, 47, 29, 50, 36)], ["site", *"AABBAABBAB"]
    columns = zip(lines, *cells, strict=True)
    table.write_text("\n".join("\t".join(map(str, each)) for each in columns) + "\n")
    options = ("--formula", "group + Age", "--blocks", "site", "--permutations", 200, *QUICK)
    options += ("--column", "group", "--standardise", "--min-strength", 0.1)
    made = run(
        "compare", tmp_path / "data", tmp_path / "a", "--group", table, *options, "--seed", 3
    )
    assert str(tmp_path / "a" / "report.html") in made.output
    page = (tmp_path / "a" / "report.html").read_bytes()
    run("report", tmp_path / "a")
    assert (tmp_path / "a" / "report.html").read_bytes() == page
    about = json.loads((tmp_path / "a" / "comparison.json").read_text())
    command = compare_command(about, [])
    assert command in unescape(page.decode())
    words = shlex.split(command)
    run("compare", tmp_path / "data", tmp_path / "b", "--group", table, *words[6:])
    for path in (tmp_path / "a").glob("*.*"):
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name
    pasted = unescape(page.decode()).split('<code id="python">')[1].split("</code>")[0]
    for word, place in (("DATA", "data"), ("OUT", "c"), ("participants.tsv", table.name)):
        pasted = pasted.replace(f"'{word}'", repr(str(tmp_path / place)))
    namespace = {}
    exec(pasted, namespace)
    assert len(namespace["table"]) == 10
    assert f"{namespace['run'].summary[0]}\n" in made.output
    for path in (tmp_path / "a").glob("*.*"):
        assert (tmp_path / "c" / path.name).read_bytes() == path.read_bytes(), path.name
    text = words_of(report_of(tmp_path / "a"), "methods")
    for phrase in (
        "We compared 10 subjects (5 control, 5 patient).",
        "Every variable was scaled to variance 1 in every subject.",
        "The rows were taken to be independent samples (degrees of freedom: 79).",
        "max_iter = 2",
        "n_draws = 8",
        "worth an edge is 0.1 (as set)",
        "Age and site were held constant.",
        "within 2 blocks ('site') of 5 subjects each",
        "The random seed was 3.",
        f"with mtgbn {about['versions']['mtgbn']}",
        f"numba {about['versions']['numba']}",
    ):
        assert phrase in text, text
    without = ("--no-report", "--overwrite")
    run("compare", tmp_path / "data", tmp_path / "b", "--group", table, *words[6:], *without)
    assert not (tmp_path / "b" / "report.html").exists()


PLACES = {name: [12.0 * k - 40, 25.0 * k - 80, 30.0 - 9 * k] for k, name in enumerate(EVIL)}


@pytest.fixture(scope="module")
def in_brain(study, tmp_path_factory):
    """The page of the study with hostile names of regions, whose places are known."""
    report = report_of(study, about={"coordinates": PLACES})
    return report.save_as_html(tmp_path_factory.mktemp("brain") / "page.html")


def test_the_brain_shows_what_the_table_has(folder, in_brain, opened):
    page, table = opened(in_brain), read(folder, "connections")
    select, edges = '#brain-0 [data-part="choice"]', "#brain-0 .edge"
    numbers = [(table.p_family <= 0.05).sum(), (table.q <= 0.05).sum(), len(table)]
    options = page.page.locator(f"{select} option").all_text_contents()
    assert [int(re.search(r"\((\d+)\)$", text)[1]) for text in options] == numbers
    assert page.page.locator(edges).count() == numbers[0] > 0
    page.page.select_option(select, "2")
    assert page.page.locator(edges).count() == len(table)
    assert page.page.locator(f"{edges}.doubtful").count() == (table.p_family > 0.05).sum()
    assert page.page.locator(f"{edges}.negative").count() == (table.effect < 0).sum()
    is_told = (table.joined >= design_page.LEAST_JOINED) & (
        table.support >= design_page.LEAST_SUPPORT
    )
    assert page.page.locator(f"{edges} .head").count() == is_told.sum() > 0
    # The width of a line shows the size of its effect.
    page.page.click("#brain-0 summary")
    items = page.page.locator('#brain-0 [data-part="list"] li').all_text_contents()
    widths = page.page.eval_on_selector_all(
        f"{edges} .line", "all => all.map((line) => Number(line.getAttribute('stroke-width')))"
    )
    sizes = [abs(float(re.search(r"effect ([+-][.\d]+)", text)[1])) for text in items]
    largest = table.effect.abs().max()
    np.testing.assert_allclose(widths, [0.6 + 3 * size / largest for size in sizes], atol=0.05)
    said = page.page.text_content("#template-0").replace("\u00a0", " ")
    assert "Arrowhead: the data decide for the direction in at least 80 % of the bootstrap" in said


def test_names_in_the_brain_are_text(in_brain, opened):
    page = opened(in_brain)
    page.page.select_option('#brain-0 [data-part="choice"]', "2")
    names = page.page.locator("#brain-0 .name").all_text_contents()
    assert sorted(names) == sorted(name if len(name) <= 24 else f"{name[:23]}…" for name in EVIL)
    assert page.page.locator("#brain-0 b, #brain-0 script").count() == 0


def place_of(page, selector, name):
    return float(page.page.get_attribute(selector, name))


LONG = [f"Posterior_part_of_the_middle_frontal_gyrus (Brodmann area {k}, left)" for k in range(5)]


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """A page with long names of regions, at places at the border of the brain."""
    places = [[-75, 0, 0], [75, 0, 0], [0, 75, 0], [0, -100, 0], [0, 0, 75]]
    report = report_of(
        made_study(variables=LONG),
        about={"coordinates": dict(zip(LONG, places, strict=True))},
    )
    return report.save_as_html(tmp_path_factory.mktemp("long") / "page.html")


@pytest.mark.parametrize("width", [400, 1600])
def test_long_names_wrap_and_stay_in_the_picture(long_names, opened, width):
    page = opened(long_names, width)
    assert page.overflow() <= 0
    # Both ends of a connection and its effect are seen without a scroll of the table.
    cells = page.page.locator('[data-table="connections-0"] tbody tr').first.locator("td")
    for number in range(3):
        box = cells.nth(number).bounding_box()
        assert box["x"] + box["width"] <= width
    page.page.select_option('#brain-0 [data-part="choice"]', "2")
    for view in ("left", "right", "front", "top"):
        page.page.click(f'#brain-0 [data-part="{view}"]')
        frame = page.page.locator("#brain-0 svg").bounding_box()
        for name in page.page.locator("#brain-0 .name").all():
            if name.evaluate("(text) => text.style.visibility") != "hidden":
                box = name.bounding_box()  # with the white rim of the letters
                assert box["x"] >= frame["x"] - 3
                assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 3


def test_views_put_regions_where_they_are(in_brain, opened):
    page = opened(in_brain)
    middle = (0, -17, 8)
    # From the left, the front is on the left; from above and from the front, left is left or right.
    for view, (across, up) in {"left": (-2, 3), "top": (1, 2), "front": (-1, 3)}.items():
        page.page.click(f'#brain-0 [data-part="{view}"]')
        for number, place in enumerate(PLACES.values(), start=1):
            circle = f"#brain-0 .region:nth-of-type({number})"
            axis = abs(across) - 1
            expected = (place[axis] - middle[axis]) * np.sign(across)
            assert place_of(page, circle, "cx") == pytest.approx(expected, abs=0.02)
            height = middle[up - 1] - place[up - 1]
            assert place_of(page, circle, "cy") == pytest.approx(height, abs=0.02)
        assert page.page.get_attribute(f'#brain-0 [data-part="{view}"]', "aria-pressed") == "true"
        # All lines begin and end at regions.
        spots = page.page.eval_on_selector_all(
            "#brain-0 .region",
            "all => all.map((it) => `${it.getAttribute('cx')},${it.getAttribute('cy')}`)",
        )
        ends = page.page.eval_on_selector_all(
            "#brain-0 .reach",
            "all => all.flatMap((it) => [1, 2].map("
            "(k) => `${it.getAttribute(`x${k}`)},${it.getAttribute(`y${k}`)}`))",
        )
        assert ends
        assert set(ends) <= set(spots)


def test_the_brain_is_turned_and_read_with_the_keyboard_and_the_pointer(in_brain, opened):
    page = opened(in_brain)
    angles = "mtgbnViews['brain-0'].angles"
    assert page.page.evaluate(angles) == [-90, 0]
    page.page.focus("#brain-0 svg")
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowDown")
    assert page.page.evaluate(angles) == [-80, 10]
    page.page.locator("#brain-0 svg").scroll_into_view_if_needed()
    box = page.page.locator("#brain-0 svg").bounding_box()
    at = box["x"] + 10, box["y"] + 10
    page.page.mouse.move(*at)
    page.page.mouse.down()
    page.page.mouse.move(at[0] + 60, at[1] + 20)
    page.page.mouse.up()
    assert page.page.evaluate(angles) == [-50, 20]
    tip = '#brain-0 [data-part="tip"]'
    assert not page.page.is_visible(tip)
    page.page.focus('#brain-0 [data-part="next"]')
    page.page.keyboard.press("Enter")
    text = page.page.text_content(tip)
    assert re.search(r"effect [+-][.\d]+ \(95 % interval .* to .*\), corrected p = ", text)
    assert page.page.locator("#brain-0 .edge.chosen").count() == 1
    page.page.click("#brain-0 summary")
    page.page.focus('#brain-0 [data-part="list"] button')
    assert page.page.text_content(tip) == page.page.text_content('#brain-0 [data-part="list"] li')
    page.page.click('#brain-0 [data-part="front"]')
    page.page.locator("#brain-0 .reach").first.click(force=True)
    assert page.page.is_visible(tip)
    page.page.focus("#brain-0 svg")
    page.page.keyboard.press("Escape")
    assert not page.page.is_visible(tip)


@pytest.mark.parametrize("width", [400, 1600])
def test_the_brain_fits_any_width(in_brain, opened, width):
    page = opened(in_brain, width)
    page.page.select_option('#brain-0 [data-part="choice"]', "2")
    page.page.click('#brain-0 [data-part="next"]')
    assert page.overflow() <= 0
    frame = page.page.locator("#brain-0 .brain-frame").bounding_box()
    tip = page.page.locator('#brain-0 [data-part="tip"]').bounding_box()
    assert tip["x"] >= frame["x"]
    assert tip["x"] + tip["width"] <= frame["x"] + frame["width"]


def test_without_places_there_is_no_brain(folder, opened):
    page = opened(folder / "report.html")
    assert page.page.locator("[data-brain]").count() == 0
    assert "In the brain" not in page.page.text_content("#template-0")


def test_regions_that_differ_as_a_whole_are_said(folder, opened):
    page, table = opened(folder / "report.html"), read(folder, "regions")
    found = table[table.p_family <= 0.05]
    assert {EVIL[3], EVIL[4]} <= set(found.region)
    text = re.sub(r"\s+", " ", page.page.text_content("#components"))
    verb = "has" if len(found) == 1 else "have"
    assert f"Of 5 regions, {len(found)} {verb} connections that differ as a whole" in text
    whole = read(folder, "sets")
    assert f"All connections as one set differ: p = {whole.p[0]:.3g}." in text
    shown = page.table("regions")
    assert shown["header"][:4] == ["region", "p family", "statistic", "effect"]
    assert [row[0] for row in shown["rows"]] == table.region.tolist()
    assert page.download("regions")[1] == (folder / "regions.tsv").read_bytes()


@pytest.mark.parametrize("width", [400, 1600])
def test_a_thousand_regions_are_cut_to_the_smallest_p_values(study, tmp_path, opened, width):
    """The tables of a small study, made larger: a fit of a thousand regions would take long."""
    about, tables = comparison_tables(study)
    names = [f"region {k}" for k in range(1000)]
    first, *_ = tables["connections"].records
    pairs = [(i, j) for i in range(1000) for j in range(i + 1, min(i + 12, 1000))]
    rows = [
        list(
            (
                first | {"source": names[i], "target": names[j], "p_family": str((k + 1) / 11_000)}
            ).values()
        )
        for k, (i, j) in enumerate(pairs)
    ]
    tables["connections"] = tables["connections"]._replace(rows=rows)
    about["templates"]["all"]["variables"] = names
    rng = np.random.default_rng(0)
    about["coordinates"] = dict(
        zip(names, rng.uniform(-60, 60, (1000, 3)).round(1).tolist(), strict=True)
    )
    report = design_page.design_report(ComparisonTables(about, tables))
    assert len(report.html) < 6e6
    page = opened(report.save_as_html(tmp_path / "page.html"), width)
    assert page.overflow() <= 0
    text = page.page.text_content("#template-0")
    assert (
        f"connections.tsv has {len(rows):,} rows of this template; the page has the 8,000" in text
    )
    assert "The brain has the 1,000 connections with the smallest p-values." in (
        page.page.text_content("#template-0")
    )
    # 550 of them are below .05: too many to begin with.
    assert page.page.locator("#brain-0 .edge").count() == 20
    page.page.select_option('#brain-0 [data-part="choice"]', "0")
    assert page.page.locator("#brain-0 .edge").count() == 550
    assert page.page.text_content('#brain-0 [data-part="shown"]') == (
        f"550 of {len(rows):,} connections"
    )
    start = time.monotonic()
    page.page.click('#brain-0 [data-part="top"]')
    assert time.monotonic() - start < 5


def test_groups_of_connections_are_in_the_answer_if_no_connection_is_found():
    """Weak differences of all connections of a region, which no single connection shows."""
    study = made_study(effect=0.0, variables=[f"v{k}" for k in range(5)])
    about, tables = comparison_tables(study)
    regions = tables["regions"]
    place = list(regions.columns).index("p_family")
    for row in regions.rows:
        row[place] = "0.02" if row[1] == "v3" else "0.8"
    report = design_page.design_report(ComparisonTables(about, tables))
    text = words_of(report, "found")
    assert "No connection is shown to depend on 'group'." in text
    assert "But groups of connections differ as a whole" in text
    assert "those of v3 (section" in text


def test_a_card_names_the_groups_that_differ_most():
    design = {"contrast": [[0, 1, 0], [0, 0, 1]], "groups": {"a": 6, "b": 6, "c": 6}}
    row = {"mean_a": "0.37", "mean_b": "0.25", "mean_c": "0.01"}
    words = design_page._largest_difference(row, design)
    assert words.startswith("Of the means, those of 'a' and 'c' differ most, by 0.36 ")
    assert design_page._largest_difference(row, design | {"contrast": [[0, 1, 0]]}) == ""
    assert design_page._largest_difference(row | {"mean_b": "n/a"}, design) == ""
