"""Plans against the paper's grid, measures by hand, the store's promises, tables against pandas."""

import io
import sqlite3

import numpy as np
import pandas
import pytest

from mtgbn import SIG, __version__
from mtgbn.errors import InputError
from mtgbn.experiments.cells import measure, measures_of, run_cell
from mtgbn.experiments.designs import EXPERIMENTS, METHODS, Cell, cells_of
from mtgbn.experiments.figures import draw_figure
from mtgbn.experiments.run import run_cells
from mtgbn.experiments.store import Store
from mtgbn.experiments.summaries import PAPERS_TABLE, as_csv, as_markdown, headline, summarise
from mtgbn.plot import figure_as_bytes

SYNTHETIC = ("sample-size", "task-number", "density")


def invented_rows(experiment, methods=("SIG", "AVG", "MTGBN"), repetitions=3, quick=True):
    """Rows as if cells had been run."""
    rng = np.random.default_rng(0)
    rows = []
    for cell in cells_of(experiment, quick=quick, repetitions=repetitions, methods=methods):
        row = {**cell.setting, "repetition": cell.repetition, "method": cell.method}
        row |= {name: float(rng.random()) for name in measures_of(experiment)}
        rows.append({**row, "converged": 1})
    return rows


# Plans.


def settings_of(name, key):
    return sorted({setting[key] for setting in EXPERIMENTS[name].full})


def test_the_grid_is_the_papers():
    assert settings_of("sample-size", "n_rows") == [50, 100, 150, 200, 250, 300]
    assert settings_of("task-number", "n_tasks") == [2, 4, 6, 8, 10]
    assert settings_of("density", "density") == [0.2, 0.3, 0.4, 0.5, 0.6]
    assert settings_of("density", "n_rows") == [100, 200, 300]
    assert settings_of("perturbation", "level") == [0.05, 0.1, 0.2, 0.3]
    assert settings_of("perturbation", "network") == sorted(PAPERS_TABLE)
    assert settings_of("perturbation", "relative_to") == ["edges", "pairs"]
    for name in SYNTHETIC:
        assert settings_of(name, "nu0") == [30, 60, 200]
    assert [len(experiment.full) for experiment in EXPERIMENTS.values()] == [18, 15, 45, 72]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_quick_run_is_the_beginning_of_a_full_one(name):
    experiment = EXPERIMENTS[name]
    full = list(cells_of(experiment))
    quick = list(cells_of(experiment, quick=True))
    assert all(cell in full for cell in quick)
    assert max(cell.repetition for cell in full) == 9
    numbers = [cell.repetition for cell in full]
    assert numbers == sorted(numbers)
    for setting in experiment.full:
        methods = {cell.method for cell in full if cell.setting == setting}
        assert {"SIG", "AVG", "MTGBN", "MTGBN-paper"} <= methods
    more = list(cells_of(experiment, repetitions=12))
    assert more[: len(full)] == full


def test_unknown_methods_are_refused():
    with pytest.raises(InputError, match="no method 'MTG'; there are SIG, AVG"):
        list(cells_of(EXPERIMENTS["density"], methods=("MTG",)))


# Cells.


def test_measures_by_hand():
    """Truth 0 -> 1 -> 2 <- 3 and 0 alone of the second task; one reversed edge, one empty estimate."""
    experiment = EXPERIMENTS["perturbation"]
    truths, graphs = np.zeros((2, 4, 4), dtype=bool), np.zeros((2, 4, 4), dtype=bool)
    for i, j in ((0, 1), (1, 2), (3, 2)):
        truths[0, i, j] = True
    truths[1, 0, 1] = True
    for i, j in ((1, 0), (1, 2), (3, 2)):
        graphs[0, i, j] = True
    row = measure(experiment, graphs, truths)
    assert tuple(row) == measures_of(experiment)
    # Skeletons: none of 6 pairs wrong, one of 6.
    assert row["skeleton_error"] == pytest.approx(1 / 12)
    assert row["skeleton_distance"] == 0.5
    # The empty estimate has no precision: the mean is that of the first task.
    assert row["skeleton_precision"] == 1
    assert row["skeleton_precision_undefined"] == 1
    assert row["skeleton_recall"] == 0.5
    assert row["skeleton_recall_undefined"] == 0
    assert row["skeleton_f_score_undefined"] == 1
    # Arrowheads of the DAGs: the reversed edge is wrong twice among 12; one missing among 12.
    assert row["arrowhead_error"] == pytest.approx((2 / 12 + 1 / 12) / 2)
    assert row["shd"] == 1
    # Compelled: 1 -> 2 <- 3 in both; 0 - 1 is reversible everywhere.
    assert row["cpdag_arrowhead_error"] == 0
    assert row["cpdag_shd"] == 0.5
    # Moral graphs both have 1 - 3 as well.
    assert row["moral_error"] == pytest.approx(1 / 12)


def test_undirected_truths_have_no_arrowheads():
    experiment = EXPERIMENTS["sample-size"]
    truth = np.zeros((1, 3, 3), dtype=bool)
    truth[0, [0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]] = True
    graph = np.zeros((1, 3, 3), dtype=bool)
    graph[0, [0, 2], [1, 1]] = True  # 0 -> 1 <- 2, whose moral graph is complete
    row = measure(experiment, graph, truth)
    assert row["skeleton_error"] == pytest.approx(1 / 3)
    assert row["moral_error"] == 0
    assert not any("arrowhead" in name or "shd" in name for name in row)


def test_a_cell_is_a_fit_of_its_own_data():
    setting = {"nu0": 60, "n_tasks": 2, "n_rows": 60, "density": 0.3}
    row, seconds = run_cell(Cell("task-number", setting, 3, "SIG"), 7)
    assert seconds > 0
    assert (row["n_tasks"], row["repetition"], row["method"]) == (2, 3, "SIG")
    data_seed, fit_seed = np.random.SeedSequence([7, 3]).spawn(2)
    experiment = EXPERIMENTS["task-number"]
    simulation = experiment.simulate(setting, np.random.default_rng(data_seed))
    learner = SIG(edge_prior="density", random_state=fit_seed).fit(simulation.tasks)
    expected = measure(experiment, learner.graphs_, simulation.adjacencies)
    assert {name: row[name] for name in expected} == expected
    assert run_cell(Cell("task-number", setting, 3, "SIG"), 7)[0] == row
    assert run_cell(Cell("task-number", setting, 3, "SIG"), 8)[0] != row
    assert run_cell(Cell("task-number", setting, 4, "SIG"), 7)[0] != row


def test_settings_share_what_they_can():
    """The same repetition has the same graphs at every number of rows."""
    experiment = EXPERIMENTS["sample-size"]
    few, many = (
        experiment.simulate(
            {"nu0": 60, "n_tasks": 3, "n_rows": n, "density": 0.3}, np.random.default_rng(1)
        )
        for n in (20, 50)
    )
    np.testing.assert_array_equal(few.adjacencies, many.adjacencies)


def test_methods_are_what_they_are_called():
    paper = METHODS["MTGBN-paper"](15)
    assert (paper.structure_prior, paper.search, paper.nu0) == ("decomposable", "mmhc", 64)
    assert METHODS["MTGBN-posterior"](15).inference == "posterior"
    default = type(METHODS["MTGBN"](15))().get_params()
    assert METHODS["MTGBN"](15).get_params() == default


# The store.


@pytest.fixture
def experiment():
    return EXPERIMENTS["sample-size"]


def test_rows_come_back_as_they_were(tmp_path, experiment):
    rows = invented_rows(experiment)
    rows[0]["skeleton_precision"] = None
    plan = list(cells_of(experiment, quick=True, repetitions=3, methods=("SIG", "AVG", "MTGBN")))
    with Store(tmp_path, experiment, 1) as store:
        assert store.missing(plan) == plan
        for row in rows[::-1]:
            store.add(row, 1.5)
        assert store.rows() == rows
        assert store.missing(plan) == []
        assert len(store.seconds()) == len(rows)
    with Store(tmp_path, experiment, 1) as store:
        assert store.rows() == rows
        (tmp_path / "rows.csv").write_text(store.as_csv())
    frame = pandas.read_sql(
        "select * from cells", sqlite3.connect(tmp_path / "cells.sqlite")
    ).set_index(["n_rows", "repetition", "method"])
    for row in rows[1:]:
        found = frame.loc[(row["n_rows"], row["repetition"], row["method"])]
        assert found["skeleton_error"] == row["skeleton_error"]
    # From rows.csv alone, bit for bit.
    (tmp_path / "cells.sqlite").unlink()
    with Store(tmp_path, experiment, 1) as store:
        assert store.rows() == rows
        assert store.versions() == [__version__]


def test_a_cell_is_kept_once(tmp_path, experiment):
    row, *_ = invented_rows(experiment)
    with Store(tmp_path, experiment, 1) as store:
        store.add(row, 1.0)
        with pytest.raises(InputError, match="UNIQUE constraint"):
            store.add(row, 1.0)


def test_another_run_is_refused(tmp_path, experiment):
    with Store(tmp_path, experiment, 1):
        pass
    with pytest.raises(InputError, match="its seed is 1, not 2; use another folder"):
        Store(tmp_path, experiment, 2)
    with pytest.raises(InputError, match="its experiment is sample-size, not density"):
        Store(tmp_path, EXPERIMENTS["density"], 1)


def test_damage_is_said(tmp_path, experiment):
    (tmp_path / "cells.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(InputError, match="damaged or no file of mtgbn"):
        Store(tmp_path, experiment, 1)
    (tmp_path / "cells.sqlite").unlink()
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for _ in range(2):  # the second time, too: nothing of a failed beginning is left
        with pytest.raises(InputError, match="is not from this experiment"):
            Store(tmp_path, experiment, 1)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-60], "line 19: .* fields instead of"),
        (lambda text: text.replace("0.25", "abc", 1), "is 'abc', not a number"),
        (
            lambda text: text + text.splitlines(keepends=True)[-1],
            "line 20: this cell occurs twice",
        ),
        (lambda text: text.replace(",1,0.1", ",7,0.1", 1), "a cell of seed 7, not 1"),
        (lambda text: text.encode() + b"\xff\n", "is not UTF-8 text"),
    ],
)
def test_rows_that_cannot_be_taken_over_are_named_and_stay(tmp_path, experiment, damage, message):
    path = tmp_path / "rows.csv"
    with Store(tmp_path, experiment, 1) as store:
        for row in invented_rows(experiment):
            store.add(row | {"skeleton_error": 0.25}, 1.0)
        whole = store.as_csv()
    damaged = damage(whole)
    for _ in range(2):
        (tmp_path / "cells.sqlite").unlink(missing_ok=True)
        (tmp_path / "cells.sqlite").touch()  # as a full disk leaves it
        path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
        with pytest.raises(InputError, match=message):
            Store(tmp_path, experiment, 1)
        with pytest.raises(InputError, match=message):
            Store(tmp_path, experiment, 1)
    path.write_text("\ufeff" + whole, encoding="utf-8")
    with Store(tmp_path, experiment, 1) as store:
        assert store.as_csv() == whole


def test_a_store_that_forgot_what_it_is_is_refused(tmp_path, experiment):
    with Store(tmp_path, experiment, 1) as store:
        store.add(invented_rows(experiment)[0], 1.0)
    with sqlite3.connect(tmp_path / "cells.sqlite") as connection:
        connection.execute("delete from about")
    with pytest.raises(InputError, match="does not say which experiment"):
        Store(tmp_path, experiment, 1)


def test_a_full_disk_keeps_what_was_there(tmp_path, experiment):
    rows = invented_rows(experiment, repetitions=200)
    with Store(tmp_path, experiment, 1) as store:
        store._connection.execute("pragma max_page_count = 10")  # of 4096 bytes
        kept = 0

        def add_all():
            nonlocal kept
            for row in rows:
                store.add(row, 1.0)
                kept += 1

        with pytest.raises(OSError, match="full; the cells before it are safe"):
            add_all()
    assert kept > 5
    with Store(tmp_path, experiment, 1) as store:
        assert store.rows() == rows[:kept]


# Runs.


def test_a_failing_cell_stops_nothing(tmp_path):
    experiment = EXPERIMENTS["task-number"]
    good = {"nu0": 60, "n_tasks": 2, "n_rows": 30, "density": 0.3}
    bad = {**good, "nu0": 3}
    cells = [Cell("task-number", setting, 0, "AVG") for setting in (bad, good)]
    told = []
    with Store(tmp_path, experiment, 1) as store:
        failures = run_cells(
            list(cells), 1, store, jobs=1, done=lambda cell, seconds: told.append(cell)
        )
        assert [row["nu0"] for row in store.rows()] == [60]
    assert [failure.cell for failure in failures] == cells[:1]
    assert "InputError: nu0" in failures[0].reason
    assert told == cells[1:]


# Tables and figures.


def test_the_table_is_that_of_pandas(experiment):
    rows = invented_rows(experiment, repetitions=5)
    rows[3]["moral_recall"] = None
    text = as_csv(experiment, summarise(experiment, rows))
    found = pandas.read_csv(io.StringIO(text)).set_index([*experiment.keys, "method"])
    frame = pandas.DataFrame(rows).astype({"moral_recall": float})
    groups = frame.groupby([*experiment.keys, "method"])
    for name in measures_of(experiment):
        expected = groups[name].agg(["mean", "sem"])
        expected, mine = expected.sort_index(), found[[name, f"{name}_se"]].sort_index()
        np.testing.assert_allclose(mine.to_numpy(), expected.to_numpy(), rtol=1e-12)
    assert (found["repetitions"] == 5).all()


def test_the_headline_counts_settings_and_names_defeats(experiment):
    rows = invented_rows(experiment)
    for row in rows:
        level = {"SIG": 0.2, "AVG": 0.3, "MTGBN": 0.1 if row["n_rows"] == 50 else 0.21}
        row["skeleton_error"] = level[row["method"]] + row["repetition"] / 100
    text = headline(experiment, summarise(experiment, rows))
    assert text.startswith("MTGBN is ahead of SIG and AVG in 1 of 2 settings. Not ahead: ")
    assert "n_rows 250" in text
    assert "n_rows 50" not in text
    assert "(SIG by 0.0100, beyond one standard error)" in text
    table = as_markdown(experiment, summarise(experiment, rows))
    assert "| -0.1000 ± 0.0000 |" in table
    assert "**0.1100 ± 0.0058**" in table
    single = as_markdown(experiment, summarise(experiment, rows[:6]))
    assert "| **0.1000** | -0.1000 |" in single
    assert "nan" not in single


def test_differences_are_over_common_repetitions(experiment):
    """A baseline that is better in the only common repetition is not beaten by its other ones."""

    def row(method, repetition, error):
        made = next(r for r in invented_rows(experiment) if r["method"] == method)
        return made | {"repetition": repetition, "skeleton_error": error}

    rows = [row("SIG", 0, 0.1), row("SIG", 1, 0.4), row("AVG", 0, 0.2), row("MTGBN", 0, 0.15)]
    text = as_markdown(experiment, summarise(experiment, rows))
    assert "+0.0500" in text
    assert "**" not in text
    assert "ahead of SIG and AVG in 0 of 1" in text
    only_apart = [row("SIG", 1, 0.1), row("AVG", 0, 0.2), row("MTGBN", 0, 0.15)]
    assert "-0.0500" in as_markdown(experiment, summarise(experiment, only_apart))
    without = [row("SIG", 0, 0.2), row("MTGBN", 0, 0.15)]
    assert "ahead of SIG in 1 of 1" in headline(experiment, summarise(experiment, without))


def test_the_papers_figures_are_beside_ours():
    experiment = EXPERIMENTS["perturbation"]
    rows = invented_rows(experiment, repetitions=1, quick=False)
    lines = as_markdown(experiment, summarise(experiment, rows)).splitlines()
    (line,) = [each for each in lines if "| 250 | pairs | magic-irri | 0.2 |" in each]
    for figure in ("(0.124)", "(0.110)", "(0.090)"):
        assert figure in line
    assert not any("(0." in each for each in lines if "| edges |" in each or "| 50 |" in each)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_show_every_mean(name):
    experiment = EXPERIMENTS[name]
    summaries = summarise(experiment, invented_rows(experiment, quick=False))
    figure = draw_figure(experiment, summaries)
    measures = 1 if experiment.columns else 4
    n_panels = len(experiment.full) // len(settings_of(name, experiment.axis)) * measures
    assert len(figure.axes) == n_panels
    drawn = sum(len(line.get_xdata()) for panel in figure.axes for line in panel.lines)
    assert drawn == len(summaries) * measures
    # A point of the first panel is the mean that belongs there.
    panel = figure.axes[0]
    line = next(each for each in panel.lines if each.get_label() == "AVG")
    setting = min(experiment.full, key=lambda each: tuple(each.values()))
    first = next(each for each in summaries if each.method == "AVG" and each.setting == setting)
    at = list(line.get_xdata()).index(setting[experiment.axis])
    measure_name = "arrowhead_error" if name == "perturbation" else "skeleton_error"
    assert line.get_ydata()[at] == pytest.approx(first.mean(measure_name))
    if name == "sample-size":  # the smallest: rendering takes seconds
        again = draw_figure(experiment, summaries)
        assert figure_as_bytes(figure, "svg") == figure_as_bytes(again, "svg")
