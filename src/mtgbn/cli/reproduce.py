"""`mtgbn reproduce`: run one of the paper's simulations; write its rows, tables and figure."""

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import locked, write_json, write_text, writing
from mtgbn._utils.versions import versions_of
from mtgbn.cli.cluster import connected
from mtgbn.cli.output import Screen, duration
from mtgbn.errors import ExtraNotInstalledError, InputError
from mtgbn.experiments.designs import EXPERIMENTS, Cell, Experiment, cells_of
from mtgbn.experiments.figures import draw_figure
from mtgbn.experiments.run import Failure, count_workers, run_cells
from mtgbn.experiments.store import Store
from mtgbn.experiments.summaries import (
    Summary,
    as_csv,
    as_markdown,
    headline,
    summarise,
    times_as_csv,
)
from mtgbn.plot import figure_as_bytes
from mtgbn.workflows.output_folder import check_output_folder

# Files that this command writes. It refuses a folder that holds only other files.
_OUR_FILES = {
    *("cells.sqlite", "cells.sqlite-journal", "rows.csv", "table.csv", "table.md", "times.csv"),
    *("run.json", "figure.svg", "figure.png"),
}
_PACKAGES = ("numpy", "scipy", "numba", "joblib")
_MOST_FAILURES_SHOWN = 5


def run_reproduce(
    name: str,
    out: str,
    *,
    seed: int,
    n_jobs: int,
    scheduler: str | None,
    quiet: bool,
    **choice: Any,
) -> int:
    """Compute the cells that are missing, and write all files; returns the exit code.

    ``choice`` are the options of `cells_of`.
    """
    screen = Screen(quiet)
    say = screen.say
    experiment = EXPERIMENTS[name]
    plan = list(cells_of(experiment, **choice | {"methods": choice["methods"] or None}))
    folder = Path(out)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), Store(folder, experiment, seed) as store:
        for part in filter(_is_part, os.listdir(folder)):
            (folder / part).unlink(missing_ok=True)
        missing = store.missing(plan)
        jobs = max(min((os.cpu_count() or 1) if n_jobs < 0 else n_jobs, len(missing)), 1)
        done = len(plan) - len(missing)
        is_long = not choice["quick"] and len(missing) > 100
        say(
            f"{experiment.title}: {len(plan)} cells"
            + (f", of which {done} are finished" if done else "")
            + (" (--quick takes about a minute)" if is_long else "")
            + ". Interrupt it at any time; the same command goes on."
        )
        start = time.monotonic()
        failures: list[Failure] = []
        is_interrupted = False
        if missing:
            with connected(scheduler, "the same command goes on") as client, screen:
                show = _time_left(screen, store, plan, missing, count_workers(jobs, client))
                try:
                    failures = run_cells(missing, seed, store, jobs=jobs, client=client, done=show)
                except KeyboardInterrupt:
                    is_interrupted = True
        # All rows of the store, so that parts of a plan can be run one after the other.
        rows = store.rows()
        n_computed = len(plan) - done - len(store.missing(plan))
        if not rows and is_interrupted:
            raise KeyboardInterrupt
        summaries = summarise(experiment, rows)
        seconds = store.seconds()
        write_text(folder / "rows.csv", store.as_csv())
        write_text(folder / "table.csv", as_csv(experiment, summaries))
        write_text(folder / "table.md", as_markdown(experiment, summaries))
        write_text(folder / "times.csv", times_as_csv(experiment, seconds))
        about = {
            "commands": store.note(_command(name, seed, **choice)),
            "cells": len(rows),
            "cpu_hours": round(sum(value for _, value in seconds) / 3600, 2),
            "versions": versions_of(_PACKAGES) | {"mtgbn": store.versions()},
            "processor": platform.machine(),
        }
        write_json(folder / "run.json", about)
        drawn = _draw(folder, experiment, summaries)
    say(headline(experiment, summaries))
    say(
        f"Computed {n_computed} cells in {duration(time.monotonic() - start)}; wrote "
        f"{folder / 'table.md'}, table.csv, rows.csv{drawn}"
    )
    if is_interrupted:
        raise KeyboardInterrupt
    for failure in failures[:_MOST_FAILURES_SHOWN]:
        where = ", ".join(f"{key} {value}" for key, value in failure.cell.setting.items())
        say(
            f"Failed: {failure.cell.method}, {where}, repetition {failure.cell.repetition}: "
            f"{failure.reason}"
        )
    if failures:
        say(f"{len(failures)} cells failed; the same command tries them again.")
    return 1 if failures else 0


def _check_folder(folder: Path) -> None:
    check_output_folder(folder)
    names = os.listdir(folder) if folder.exists() else []
    is_ours = "cells.sqlite" in names or "rows.csv" in names
    if not is_ours and not all(map(_is_part, names)):
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _is_part(name: str) -> bool:
    """Whether a killed run left this file half written."""
    return name.endswith(".part") and any(name.startswith(f".{ours}.") for ours in _OUR_FILES)


def _command(
    name: str, seed: int, quick: bool, repetitions: int | None, methods: Any, only: Any
) -> str:
    parts = [f"mtgbn reproduce {name} OUT {'--quick' if quick else '--full'}"]
    parts += [] if repetitions is None else [f"--repetitions {repetitions}"]
    parts += [f"--method {each}" for each in methods] + [f"--only {each}" for each in only]
    return " ".join([*parts, f"--seed {seed}"])


def _draw(folder: Path, experiment: Experiment, summaries: list[Summary]) -> str:
    """Write the figure, if matplotlib is installed; returns what to tell the user about it."""
    try:
        figure = draw_figure(experiment, summaries)
    except ExtraNotInstalledError as error:
        return f"; {error}"
    for kind in ("svg", "png"):
        with writing(folder / f"figure.{kind}") as file:
            file.write(figure_as_bytes(figure, kind))
    return ", figure.svg and figure.png"


def _time_left(
    screen: Screen, store: Store, plan: list[Cell], missing: list[Cell], n_workers: int
) -> Callable[[Cell, float], None]:
    """Return the callback of finished cells: it shows the time left, from cells of the same method."""
    left = {cell.key: cell for cell in missing}
    seconds_of: dict[str, list[float]] = defaultdict(list)
    for row, seconds in store.seconds():
        seconds_of[row["method"]].append(seconds)

    def show(cell: Cell, seconds: float) -> None:
        left.pop(cell.key, None)
        seconds_of[cell.method].append(seconds)
        typical = np.mean([value for values in seconds_of.values() for value in values])
        expected = sum(np.mean(seconds_of[each.method] or typical) for each in left.values())
        screen.show_text(f"about {duration(float(expected) / n_workers)} left")
        screen.moved("cells", len(plan) - len(left), len(plan))

    screen.moved("cells", len(plan) - len(missing), len(plan))
    return show
