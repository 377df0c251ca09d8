"""The page about a fit, in a real browser that has no network."""

import html
import html.parser
import io
import json
import re
import shlex
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from report.browser import Opened
from report.fits import made_up

from mtgbn import AVG, SIG, Tasks, save_result
from mtgbn.cli import cli
from mtgbn.errors import ExtraNotInstalledError, InputError, NotFittedError
from mtgbn.report import report_of
from mtgbn.results.fit_tables import edge_table, shared_edge_table
from mtgbn.simulate import simulate_tasks

EVIL = (
    "<script>alert(1)</script>",
    'a,b"c',
    "</script><b>",
    "$x_1$",
    "tab\there",
    "Łódź & ' `",
    "{{ 7 }}",
)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """A posterior estimate, saved, with its report."""
    folder = tmp_path_factory.mktemp("sampled")
    learner = made_up(7, 9, posterior=True)
    save_result(learner, folder)
    report_of(folder).save_as_html(folder / "report.html")
    return learner, folder


@pytest.fixture(scope="module")
def shared_page(sampled, browser):
    """The page about the posterior estimate, opened once."""
    page = Opened(browser, sampled[1] / "report.html")
    yield page
    page.check()
    page.close()


@pytest.fixture
def page(shared_page):
    """The shared page, with its first network and all edges of it."""
    controls = "#task-networks [data-part="
    shared_page.page.select_option(f'{controls}"network"]', "0")
    shared_page.page.select_option(f'{controls}"measure"]', "coefficient")
    shared_page.page.uncheck(f'{controls}"undirected"]')
    set_slider(shared_page, 0)
    shared_page.page.fill('[data-table="edges"] input', "")
    return shared_page


def edges_of(folder):
    return pd.read_csv(folder / "edges.tsv", sep="\t")


def shown(page, view="#task-networks"):
    """Edges that the page says it shows, and that cytoscape does show."""
    text = page.page.text_content(f'{view} [data-part="shown"]')
    name = {"#task-networks": "tasks", "#shared-network": "shared"}[view]
    return int(text.split()[0]), page.page.evaluate(
        f"mtgbnViews.{name}.edges().filter((edge) => edge.style('display') !== 'none').length"
    )


def set_slider(page, value, view="#task-networks"):
    page.page.evaluate(
        """([view, value]) => {
          const slider = document.querySelector(`${view} [data-part="threshold"]`);
          slider.value = value;
          slider.dispatchEvent(new Event("input"));
          return slider.value;
        }""",
        [view, str(value)],
    )


def test_the_slider_shows_the_edges_that_the_file_has(sampled, page):
    table = edges_of(sampled[1])
    for number, task in enumerate(table.task.unique()[:3]):
        page.page.select_option('#task-networks [data-part="network"]', str(number))
        own = table[table.task == task]
        for measure, values in (
            ("coefficient", own.coefficient.abs()),
            ("probability", own.probability),
            ("adjacency_probability", own.adjacency_probability),
        ):
            page.page.select_option('#task-networks [data-part="measure"]', measure)
            for threshold in (0, 0.1, 0.37, 0.6, 1):
                set_slider(page, threshold)
                expected = int((values >= threshold).sum())
                assert shown(page) == (expected, expected)
    page.page.select_option('#task-networks [data-part="measure"]', "coefficient")
    page.page.focus('#task-networks [data-part="threshold"]')
    for _ in range(30):
        page.page.keyboard.press("ArrowRight")
    expected = int((own.coefficient.abs() >= 0.30).sum())
    assert shown(page) == (expected, expected)


def test_the_shared_network_has_shares_of_tasks(sampled, page):
    graphs = sampled[0].graphs_
    shares = np.triu((graphs | graphs.transpose(0, 2, 1)).mean(axis=0), 1)
    for threshold in (0, 0.3, 0.5):
        set_slider(page, threshold, "#shared-network")
        expected = int(((shares > 0) & (shares >= threshold)).sum())
        assert shown(page, "#shared-network") == (expected, expected)
    cells = page.page.evaluate(
        "[...document.querySelectorAll('#counts [data-cell]')]"
        ".map((cell) => [...cell.dataset.cell.split(',').map(Number), Number(cell.dataset.count)])"
    )
    counts = np.zeros((9, 9), dtype=int)
    for i, j, count in cells:
        counts[i, j] = count
    np.testing.assert_array_equal(counts, graphs.sum(axis=0))


def headless(page, view="tasks"):
    return page.page.evaluate(f"mtgbnViews.{view}.edges('.undirected').length")


def test_directions_that_few_draws_support_have_no_head(sampled, page):
    table = edges_of(sampled[1])
    own = table[table.task == "task0"]
    few = int((own.probability < 0.8 * own.adjacency_probability).sum())
    assert 0 < few < len(own)
    assert headless(page) == 0  # the fixture takes the tick away
    page.page.check('#task-networks [data-part="undirected"]')
    assert headless(page) == few
    shared = pd.read_csv(io.StringIO(shared_edge_table(sampled[0]).tsv), sep="\t")
    set_slider(page, 0, "#shared-network")
    few = int((shared.mean_probability < 0.8 * shared.mean_adjacency_probability).sum())
    assert headless(page, "shared") == few > 0
    said = page.page.text_content("#networks").replace("\u00a0", " ")
    assert "at least 80 % of the draws with the edge have this direction" in said


def test_directions_that_the_data_leave_open_have_no_head(tmp_path, opened):
    learner = made_up(7, 9)
    page = opened(report_of(learner).save_as_html(tmp_path / "page.html"))
    table = pd.read_csv(io.StringIO(edge_table(learner).tsv), sep="\t")
    chosen = int((table[table.task == "task0"].direction == "chosen").sum())
    assert headless(page) == chosen > 0
    page.page.uncheck('#task-networks [data-part="undirected"]')
    assert headless(page) == 0
    shared = pd.read_csv(io.StringIO(shared_edge_table(learner).tsv), sep="\t")
    for row in shared.itertuples():
        own = table[(table.source == row.source) & (table.target == row.target)]
        assert row.compelled == pytest.approx((own.direction == "compelled").sum() / row.tasks)
    set_slider(page, 0, "#shared-network")
    assert headless(page, "shared") == (shared.compelled < 0.8).sum() > 0
    said = page.page.text_content("#shared").replace("\u00a0", " ")
    assert "in at least 80 % of the tasks that join the pair" in said


def test_hovering_tells_coefficient_and_probability(sampled, page):
    row = edges_of(sampled[1]).iloc[0]
    page.page.evaluate(
        "mtgbnViews.tasks.edges()[0].emit({type: 'mouseover', renderedPosition: {x: 9, y: 9}}); null"
    )
    text = page.page.text_content('#task-networks [data-part="tip"]')
    assert f"{row.source} → {row.target}" in text
    assert f"coefficient {row.coefficient:.3f}" in text
    assert (
        f"probability {row.probability:.2f} (in either direction {row.adjacency_probability:.2f})"
        in text
    )
    page.page.focus("#task-networks summary")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#task-networks details li")
    items = page.page.locator("#task-networks details li").all_text_contents()
    assert items[0] == text
    assert len(items) == shown(page)[0]


def test_the_table_of_edges_is_the_file(sampled, page):
    learner, folder = sampled
    name, content = page.download("edges")
    assert name == "edges.tsv"
    assert content == (folder / "edges.tsv").read_bytes() == edge_table(learner).tsv.encode()
    table = page.table("edges")
    lines = [line.split("\t") for line in content.decode().splitlines()]
    assert [each.replace("_", " ") for each in lines[0]] == table["header"]
    assert table["rows"] == lines[1:26]
    page.page.click('[data-table="edges"] >> text=Next')
    assert page.table("edges")["rows"] == lines[26:51]


def test_sorting_and_filtering(sampled, page):
    table = edges_of(sampled[1])
    head = '[data-table="edges"] thead th:nth-child(4)'
    for state, ascending in (("ascending", True), ("descending", False)):
        page.page.focus(f"{head} button")
        page.page.keyboard.press("Enter")
        assert page.page.get_attribute(head, "aria-sort") == state
        first = [float(row[3]) for row in page.table("edges")["rows"]]
        expected = table.coefficient.sort_values(ascending=ascending).tolist()[:25]
        assert first == expected
    page.page.fill('[data-table="edges"] input', "TASK3 chosen")
    found = page.table("edges")
    expected = table[(table.task == "task3") & (table.direction == "chosen")]
    assert len(found["rows"]) == len(expected)
    assert f"of {len(expected)} that fit, {len(table)} in all" in found["status"]
    assert [float(row[3]) for row in found["rows"]] == sorted(expected.coefficient, reverse=True)
    page.page.fill('[data-table="edges"] input', "nobody")
    assert "No row" in page.table("edges")["status"]


def test_the_grid_opens_a_task(sampled, page):
    learner = sampled[0]
    thumbnails = page.page.locator("#network-grid .thumbnail")
    assert thumbnails.count() == 7
    assert thumbnails.nth(4).get_attribute("aria-label") == "Open the network of task4, 9 edges"
    assert thumbnails.nth(4).locator("line").count() == learner.graphs_[4].sum()
    thumbnails.nth(4).focus()
    page.page.keyboard.press("Enter")
    assert page.page.input_value('#task-networks [data-part="network"]') == "4"
    ends = page.page.evaluate(
        "mtgbnViews.tasks.edges().map((edge) => [edge.source().id(), edge.target().id()])"
    )
    assert sorted(ends) == sorted([f"v{i}", f"v{j}"] for i, j in np.argwhere(learner.graphs_[4]))


@pytest.mark.parametrize("width", [400, 1600])
def test_readable_at_any_width_and_without_a_mouse(sampled, opened, width):
    page = opened(sampled[1] / "report.html", width)
    assert page.overflow() <= 0
    page.page.wait_for_timeout(50)
    assert page.page.evaluate("getComputedStyle(document.body).fontSize") == "16px"
    for role, least in (("button", 20), ("slider", 2), ("combobox", 5), ("heading", 8)):
        elements = page.page.get_by_role(role)
        assert elements.count() >= least
    nameless = page.page.evaluate(
        """[...document.querySelectorAll("button, select, input, [role]:not([role=status])")]
          .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim()
            || each.labels?.[0]?.textContent.trim()))
          .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert page.page.get_attribute("html", "lang") == "en"
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_numbers_and_words_are_those_of_the_result(sampled, page):
    learner, folder = sampled
    text = page.page.text_content("#found")
    for line in learner.relatedness_.in_words():
        assert line in text
    facts = dict(
        zip(
            page.page.locator("#found dt").all_text_contents(),
            page.page.locator("#found dd").all_text_contents(),
            strict=True,
        )
    )
    assert facts == {
        "tasks": "7",
        "variables": "9",
        "samples n per task": "30",
        "edges per task": "9",
        "converged": "yes",
    }
    pairs = np.triu_indices(9, 1)
    numbers = page.page.locator("#rhat td.number").all_text_contents()
    assert sum(map(int, numbers)) == 7 * len(pairs[0])
    rhat = learner.edge_diagnostics_.rhat[:, pairs[0], pairs[1]]
    assert int(numbers[0]) == (rhat < 1.01).sum()
    about = json.loads((folder / "result.json").read_text())
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    assert page.page.text_content("#versions") == versions
    tasks = page.table("tasks")["rows"]
    assert [row[0] for row in tasks] == list(learner.task_names_)
    assert [int(row[2]) for row in tasks] == learner.graphs_.sum(axis=(1, 2)).tolist()


def test_names_are_text_everywhere(tmp_path, opened):
    learner = made_up(3, len(EVIL), variables=list(EVIL), names=["</script>", "<i>t</i>", "t2"])
    save_result(learner, tmp_path)
    page = opened(report_of(tmp_path).save_as_html(tmp_path / "report.html"))
    assert page.page.locator("body script:not([type])").count() == 5  # the page's own
    assert page.page.locator("main b, main i").count() == 0
    labels = page.page.evaluate("mtgbnViews.tasks.nodes().map((node) => node.data('label'))")
    assert labels == list(EVIL)
    assert page.download("edges")[1] == (tmp_path / "edges.tsv").read_bytes()
    seen = {cell for row in page.table("edges")["rows"] for cell in row[:3]}
    expected = pd.read_csv(tmp_path / "edges.tsv", sep="\t")
    assert seen == set(expected.task) | set(expected.source) | set(expected.target)
    options = page.page.locator('#task-networks [data-part="network"] option').all_text_contents()
    assert options == ["</script>", "<i>t</i>", "t2"]
    titles = page.page.locator("#counts text title").all_text_contents()
    assert set(titles) == set(EVIL)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (made_up(1, 5), ["There is only one task"]),
        (made_up(3, 4, n_edges=0), ["No edges were found in any task"]),
        (made_up(2, 2, n_edges=1), ["Networks of 2 tasks over 2 variables"]),
        (
            made_up(
                *(3, 4),
                converged_=False,
                stop_reason_="50 iterations were done",
                warnings_=("EM did not converge: 50 iterations were done",),
            ),
            ["EM did not converge: 50 iterations", "not converged", "Did NOT converge"],
        ),
    ],
    ids=["one task", "no edges", "two variables", "not converged"],
)
def test_odd_results_render_and_say_so(learner, words, tmp_path, opened):
    page = opened(report_of(learner).save_as_html(tmp_path / "page.html"), 400)
    text = page.page.text_content("body")
    for each in words:
        assert each in text
    assert page.overflow() <= 0
    assert shown_text(page) == ("no edges" if not learner.graphs_.any() else shown_text(page))
    first = page.page.locator("main > *").first
    has_news = bool(learner.warnings_) or len(learner.graphs_) == 1 or not learner.graphs_.any()
    assert (first.get_attribute("id") in ("warnings", "notes")) == has_news


def shown_text(page):
    return page.page.text_content('#task-networks [data-part="shown"]')


def test_a_large_result_opens_within_seconds(tmp_path, opened):
    """200 subjects and 116 regions; nobody waits for a fit."""
    learner = made_up(200, 116, n_edges=600)
    start = time.monotonic()
    path = report_of(learner).save_as_html(tmp_path / "page.html")
    made = time.monotonic() - start
    start = time.monotonic()
    page = opened(path)
    loaded = time.monotonic() - start
    size = path.stat().st_size
    assert size < 12e6
    assert made < 60
    assert loaded < 20  # of a busy machine; a quiet one takes a few
    text = page.page.text_content("#networks")
    tasks = int(re.search(r"first (\d+) of 200 tasks", text)[1])
    assert tasks == 100_000 // 600
    assert page.page.locator("#network-grid .thumbnail").count() == 24
    rows = learner.graphs_[:tasks].sum()
    assert f"of {rows}" in page.table("edges")["status"]
    assert page.download("edges")[1].count(b"\n") == rows + 1
    cells = page.page.locator("#counts [data-cell]").count()
    assert cells == np.count_nonzero(learner.graphs_.sum(axis=0))
    assert shown(page, "#shared-network")[0] <= 3 * 116


def test_size_for_thirty_subjects_and_regions(tmp_path):
    learner = made_up(30, 30, n_edges=90, posterior=True)
    assert len(report_of(learner).html.encode()) < 6e6


class Addresses(html.parser.HTMLParser):
    """Everything in a page that a browser would go and get."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [
            value
            for name, value in attrs
            if name in ("src", "href", "srcset", "action") and not value.startswith(("#", "data:"))
        ]


def test_no_address_outside_the_file_and_the_same_bytes_every_time(sampled):
    _, folder = sampled
    text = (folder / "report.html").read_text()
    parser = Addresses()
    parser.feed(text)
    assert parser.found == []
    assert "default-src 'none'" in text
    assert report_of(folder).html == text
    assert str(folder) not in text


def test_the_page_is_the_same_from_memory_and_from_the_folder(tmp_path):
    learner = made_up(2, 3, edge_prior=(np.full((3, 3), 0.2), 2.0))
    save_result(learner, tmp_path, reading={"standardise": True})
    page = report_of(learner, reading={"standardise": True}).html
    assert page == report_of(tmp_path).html
    assert "a matrix (networks.npz), 2" in page
    assert 'id="command"' not in page  # no command line has a similarity beside a matrix
    learner.edge_prior = learner.edge_prior[0]
    page = report_of(learner, reading={"standardise": True}).html
    assert "--edge-prior PROBABILITIES.tsv --standardise --seed 5" in page
    for text in list(edge_table(learner).columns.values())[
        3:
    ]:  # task, source and target need no words
        assert html.escape(text) in page


def test_from_python_and_in_notebooks(sampled, opened, tmp_path):
    learner, _ = sampled
    report = report_of(learner)
    (tmp_path / "notebook.html").write_text(
        f"<html data-ready><body>{report._repr_html_()}</body></html>", encoding="utf-8"
    )
    page = opened(tmp_path / "notebook.html")
    frame = page.page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached", timeout=20_000)
    assert frame.locator("h1").text_content() == "Networks of 7 tasks over 9 variables"
    page.requests = page.requests[:1]  # then the frame, which is within the page
    with pytest.raises(NotFittedError):
        report_of(SIG())
    with pytest.raises(InputError, match=r"neither result\.json nor comparison\.json"):
        report_of(tmp_path)


@pytest.mark.parametrize("kind", [SIG, AVG])
def test_baselines_have_a_page(kind, tmp_path, opened):
    arrays = simulate_tasks(n_tasks=2, n_variables=3, n_rows=40, random_state=1).arrays
    learner = kind(random_state=1, n_restarts=0).fit(Tasks.from_arrays(arrays))
    page = opened(report_of(learner).save_as_html(tmp_path / "page.html"))
    assert f"{kind.__name__} draws no samples" in page.page.text_content("#diagnostics")


def test_commands_write_it_and_its_command_repeats_the_fit(tmp_path, opened, monkeypatch):
    rng = np.random.default_rng(1)
    (tmp_path / "data").mkdir()
    for k in range(2):
        x = rng.normal(size=(40, 3))
        x[:, 2] += x[:, 0]
        pd.DataFrame(x, columns=["a", "b b", "c"]).to_csv(tmp_path / f"data/t{k}.csv", index=False)

    def run(*words):
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code in (0, 3), result.output
        return result.output

    options = (
        "--draws",
        12,
        "--max-iter",
        3,
        "--standardise",
        "--effective-samples",
        30,
        "--seed",
        4,
    )
    output = run("fit", tmp_path / "data", tmp_path / "out", *options, "--edge-prior", "0.2,3")
    assert str(tmp_path / "out" / "report.html") in output
    written = (tmp_path / "out" / "report.html").read_bytes()
    page = opened(tmp_path / "out" / "report.html")
    words = shlex.split(page.page.text_content("#command"))
    assert words[:4] == ["mtgbn", "fit", "DATA", "OUT"]
    run("fit", tmp_path / "data", tmp_path / "again", *words[4:], "--no-report")
    assert not (tmp_path / "again" / "report.html").exists()
    for name in ("edges.tsv", "result.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    run("report", tmp_path / "again")
    assert (tmp_path / "again" / "report.html").read_bytes() == written
    assert "nothing to resume" in run(
        "fit", tmp_path / "data", tmp_path / "out", *words[4:], "--resume"
    )

    def missing(*_, **__):
        raise ExtraNotInstalledError("reports need jinja2: pip install 'mtgbn[report]'")

    monkeypatch.setattr("mtgbn.workflows.output_folder.report_of", missing)
    output = run("fit", tmp_path / "data", tmp_path / "out", *options, "--overwrite")
    assert "Note: no report.html; reports need jinja2" in output
    assert not (tmp_path / "out" / "report.html").exists()


def test_without_jinja_the_error_names_the_extra(sampled, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ExtraNotInstalledError, match=r"mtgbn\[report\]"):
        report_of(sampled[0])


def test_a_failed_write_leaves_the_old_page(sampled, tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        report_of(sampled[0]).save_as_html(path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
