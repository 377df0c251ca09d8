"""`mtgbn reproduce`: run one of the paper's simulations; write its rows, tables and figure."""

import os
import platform
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from mtgbn._utils.files import locked, write_json, write_text, writing
from mtgbn._utils.versions import versions_of
from mtgbn.cli.cluster import connected
from mtgbn.cli.output import Screen, bar, duration
from mtgbn.errors import ExtraNotInstalledError, InputError
from mtgbn.experiments import EXPERIMENTS, cells_of
from mtgbn.experiments.designs import Cell, Experiment
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
    quick: bool,
    repetitions: int | None,
    methods: tuple[str, ...],
    only: tuple[str, ...],
    seed: int,
    jobs: int,
    scheduler: str | None,
    quiet: bool,
) -> int:
    """Compute the cells that are missing, and write all files; returns the exit code."""
    screen = Screen(quiet)
    say = screen.say
    experiment = EXPERIMENTS[name]
    plan = list(
        cells_of(
            experiment, quick=quick, repetitions=repetitions, methods=methods or None, only=only
        )
    )
    folder = Path(out)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    jobs = (os.cpu_count() or 1) if jobs < 0 else jobs
    with locked(folder), Store(folder, experiment, seed) as store:
        _remove_parts(folder)
        missing = store.missing(plan)
        jobs = max(min(jobs, len(missing)), 1)
        n_missing = len(missing)
        done = len(plan) - n_missing
        say(
            f"{experiment.title}: {len(plan)} cells"
            + (f", of which {done} are finished" if done else "")
            + (" (--quick takes about a minute)" if not quick and len(missing) > 100 else "")
            + ". Interrupt it at any time; the same command goes on."
        )
        start = time.monotonic()
        failures: list[Failure] = []
        is_interrupted = False
        if missing:
            with (
                connected(scheduler, "the same command goes on") as client,
                _Watch(screen.console, store, plan, missing, count_workers(jobs, client)) as watch,
            ):
                try:
                    failures = run_cells(
                        missing, seed, store, jobs=jobs, client=client, done=watch.done
                    )
                except KeyboardInterrupt:
                    is_interrupted = True
        # All rows of the store, so that parts of a plan can be run one after the other.
        rows = store.rows()
        n_computed = n_missing - len(store.missing(plan))
        if not rows and is_interrupted:
            raise KeyboardInterrupt
        summaries = summarise(experiment, rows)
        seconds = store.seconds()
        write_text(folder / "rows.csv", store.as_csv())
        write_text(folder / "table.csv", as_csv(experiment, summaries))
        write_text(folder / "table.md", as_markdown(experiment, summaries))
        write_text(folder / "times.csv", times_as_csv(experiment, seconds))
        about = {
            "commands": store.note(_command(name, quick, repetitions, methods, only, seed)),
            "cells": len(rows),
            "cpu_hours": round(sum(value for _, value in seconds) / 3600, 2),
            "versions": versions_of(_PACKAGES) | {"mtgbn": store.versions()},
            "processor": platform.machine(),
        }
        write_json(folder / "run.json", about)
        drawn = _draw(folder, experiment, summaries)
    say(headline(experiment, summaries))
    elapsed = time.monotonic() - start
    say(
        f"Computed {n_computed} cells in {duration(elapsed)}; wrote "
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
    if not folder.exists():
        return
    if any((folder / name).exists() for name in ("cells.sqlite", "rows.csv")):
        return
    if any(not _is_part(name) for name in os.listdir(folder)):
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _is_part(name: str) -> bool:
    """Whether a killed run left this file half written."""
    return name.endswith(".part") and any(name.startswith(f".{ours}.") for ours in _OUR_FILES)


def _remove_parts(folder: Path) -> None:
    for name in filter(_is_part, os.listdir(folder)):
        (folder / name).unlink(missing_ok=True)


def _command(
    name: str,
    quick: bool,
    repetitions: int | None,
    methods: tuple[str, ...],
    only: tuple[str, ...],
    seed: int,
) -> str:
    parts = ["mtgbn", "reproduce", name, "OUT", "--quick" if quick else "--full"]
    if repetitions is not None:
        parts += ["--repetitions", str(repetitions)]
    for method in methods:
        parts += ["--method", method]
    for each in only:
        parts += ["--only", each]
    return " ".join([*parts, "--seed", str(seed)])


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


class _Watch:
    """The progress bar, with the time left as estimated from finished cells of the same method."""

    def __init__(
        self, console: Console, store: Store, plan: list[Cell], missing: list[Cell], n_workers: int
    ) -> None:
        self._progress = bar(
            console,
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._n_workers = n_workers
        self._left = {cell.key: cell for cell in missing}
        self._seconds: dict[str, list[float]] = defaultdict(list)
        for row, seconds in store.seconds():
            self._seconds[row["method"]].append(seconds)
        self._bar = self._progress.add_task(
            "Cells", total=len(plan), completed=len(plan) - len(missing), left=""
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def done(self, cell: Cell, seconds: float) -> None:
        """Count a finished cell."""
        self._left.pop(cell.key, None)
        self._seconds[cell.method].append(seconds)
        typical = np.mean([value for values in self._seconds.values() for value in values])
        expected = sum(
            np.mean(self._seconds[each.method]) if self._seconds[each.method] else typical
            for each in self._left.values()
        )
        left = f"about {duration(float(expected) / self._n_workers)} left"
        self._progress.update(self._bar, advance=1, left=left)
