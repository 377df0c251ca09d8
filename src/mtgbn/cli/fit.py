"""`mtgbn fit` and `mtgbn show`: from data to a folder of results, and a look at it."""

import contextlib
import os
import shutil
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mtgbn._utils.files import locked
from mtgbn.cli.cluster import connected
from mtgbn.cli.describe import escape, read_tasks
from mtgbn.cli.edge_prior import EdgePriorFile, read_edge_prior
from mtgbn.cli.output import (
    Watch,
    add_report,
    check_is_folder,
    check_is_writable,
    duration,
    say_to,
)
from mtgbn.errors import ConvergenceWarning, ImproperPosteriorError, InputError
from mtgbn.learn import AVG, MTGBN, SIG, State
from mtgbn.learn.explore import N_BLOCKS, Exploration
from mtgbn.report.page import REPORT_FILE
from mtgbn.results import load_result, save_result, summarise
from mtgbn.results.encoding import plain
from mtgbn.results.folder import GRAPH_FORMATS, RESULT_FILE
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks
from mtgbn.tasks.notes import notes_on

__all__ = ["NOT_CONVERGED", "run_fit", "run_show"]

# Exit code of a fit whose result is there, but with a warning that EM had not settled.
NOT_CONVERGED = 3

_CHECKPOINT = "checkpoint.npz"
_METHODS = {"mtgbn": MTGBN, "sig": SIG, "avg": AVG}


def run_fit(
    data: str,
    out: str,
    method: str,
    reading: dict[str, Any],
    settings: dict[str, Any],
    knowledge: str | None,
    scheduler: str | None,
    writing: dict[str, Any],
    resume: bool,
    overwrite: bool,
    report: bool,
    quiet: bool,
) -> int:
    """Fit, write, say what was found; returns the exit code."""
    console = Console(stderr=True, quiet=quiet, emoji=False, soft_wrap=True)
    say = partial(say_to, console)
    folder = Path(out)
    _check_folder(data, folder, resume, overwrite)
    tasks = _read(data, reading, say)
    if knowledge is not None:
        settings["knowledge"] = Knowledge.from_file(knowledge)
    if isinstance(settings["edge_prior"], EdgePriorFile):
        settings["edge_prior"] = read_edge_prior(settings["edge_prior"].path, tasks.variables)
    estimator = _METHODS[method](**settings)
    estimator.check(tasks)
    for kind in writing["graph_formats"]:  # before the work, not after it
        GRAPH_FORMATS[kind](np.zeros((tasks.n_variables,) * 2, dtype=bool), tasks.variables)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        with locked(folder):
            if resume and (code := _finished(folder, estimator, tasks)) is not None:
                say(f"{out} holds this very result, finished; nothing to resume.")
                if report and not (folder / REPORT_FILE).exists():  # it was killed in between
                    add_report(folder, say)
                return code
            _clean(folder, estimator, resume)
            _fit(estimator, tasks, folder, scheduler, console)
            (folder / REPORT_FILE).unlink(missing_ok=True)  # of the result that is replaced now
            save_result(estimator, folder, reading=reading, **writing)
            page = add_report(folder, say, estimator, reading=reading) if report else None
            converged = getattr(estimator, "converged_", True)
            if converged:  # otherwise a larger --max-iter can go on from it
                (folder / _CHECKPOINT).unlink(missing_ok=True)
    except (InputError, ImproperPosteriorError):
        if is_new:
            with contextlib.suppress(OSError):  # it holds a checkpoint
                folder.rmdir()
        raise
    for line in summarise(estimator).lines:
        say(line)
    seconds = time.monotonic() - start
    say(f"Wrote {folder / RESULT_FILE} after {seconds:.1f} s; see: mtgbn show {out}")
    if page is not None:
        say(f"Open {page} in a browser.")
    return 0 if converged else NOT_CONVERGED


def _read(data: str, reading: dict[str, Any], say) -> Tasks:
    tasks, caught = read_tasks(data, reading)
    say(f"Read {tasks!r} from {data}.")
    for warning in caught:
        say(f"Warning: {warning}")
    for note in notes_on(tasks):
        say(f"Note: {note}.")
    return tasks


def _fit(estimator, tasks: Tasks, folder: Path, scheduler: str | None, console: Console) -> None:
    with _cluster(scheduler), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # they are in the result
        with _Watch(console) as watch:
            if isinstance(estimator, MTGBN):
                estimator.fit(
                    tasks,
                    callback=watch.iterated,
                    progress=watch.moved,
                    checkpoint=folder / _CHECKPOINT,
                )
            else:
                estimator.fit(tasks, progress=watch.moved)


def run_show(folder: str, most_edges: int) -> None:
    """Print a result."""
    console = Console(emoji=False)
    summary = summarise(load_result(folder), most_edges)
    for line in summary.lines:
        console.print(escape(line))
    for title, content in (("Tasks", summary.tasks), ("Most common edges", summary.edges)):
        table = Table(title=title, title_justify="left")
        for number, heading in enumerate(content.columns):
            table.add_column(heading, justify="right" if number else "left", overflow="fold")
        for row in content.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for name in ("membership", "leave-one-out"):
        if name in summary.tasks.columns:
            console.print(f"{name}: {summary.tasks.columns[name]}.")
    console.print(
        "An edge whose direction was chosen may point either way without changing what the data say; it "
        "points as agrees best with the other tasks. All edges: "
        f"{escape(str(Path(folder) / 'edges.tsv'))}"
    )


def _check_folder(data: str, folder: Path, resume: bool, overwrite: bool) -> None:
    """Refuse to overwrite or to mix."""
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    check_is_folder(folder)
    if os.path.realpath(folder) == os.path.realpath(data):
        raise InputError("OUT must be another folder than DATA")
    if not folder.exists():
        return
    check_is_writable(folder)
    has_result, has_checkpoint = ((folder / name).exists() for name in (RESULT_FILE, _CHECKPOINT))
    if has_result and not (resume or overwrite):
        raise InputError(
            f"{str(folder)!r} holds a result already; use --overwrite or another folder"
        )
    if has_checkpoint and not (resume or overwrite):
        raise InputError(
            f"{str(folder)!r} holds an interrupted fit; go on with --resume, or start anew with "
            "--overwrite"
        )
    others = [name for name in os.listdir(folder) if not name.endswith(".part")]
    if others and not (has_result or has_checkpoint):
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _clean(folder: Path, estimator, resume: bool) -> None:
    """Remove what a killed fit left half written, and a checkpoint that is not wanted."""
    for path in [*folder.glob(".*.part"), *folder.glob("*/.*.part")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    checkpoint = folder / _CHECKPOINT
    if resume and checkpoint.exists() and not isinstance(estimator, MTGBN):
        raise InputError(
            f"{str(folder)!r} holds an interrupted fit of MTGBN; resume that, or use another folder"
        )
    if not resume:
        checkpoint.unlink(missing_ok=True)


def _finished(folder: Path, estimator, tasks: Tasks) -> int | None:
    """Exit code of the result in a folder, if it is what was asked for; None if there is more to do."""
    if not (folder / RESULT_FILE).exists():
        return None
    found = load_result(folder)  # raises if it is damaged
    converged = getattr(found, "converged_", True)
    then, now = found.get_params(), estimator.get_params()
    may_differ = {"n_jobs"} if converged else {"n_jobs", "max_iter"}
    same = type(found) is type(estimator) and _same_data(found.tasks_, tasks)
    for name in sorted(set(now) - may_differ) if same else ():
        same = same and plain(then[name]) == plain(now[name])
    if not same and (folder / _CHECKPOINT).exists():
        return None  # of a fit that was to replace the result; it knows what it belongs to
    if not same:
        raise InputError(
            f"{str(folder)!r} holds a finished result of other data or settings; use --overwrite or "
            "another folder"
        )
    if not converged and now["max_iter"] > found.n_iter_:
        return None
    return 0 if converged else NOT_CONVERGED


def _same_data(fitted: Tasks, tasks: Tasks) -> bool:
    """Whether a fit was of these tasks."""
    if not (np.array_equal(fitted.scales, tasks.scales) and len(fitted) == len(tasks)):
        return False
    if not tasks.incomplete:
        return fitted == tasks and np.array_equal(fitted.centres, tasks.centres)
    if fitted.scatters.shape != tasks.scatters.shape:
        return False
    # A fit puts means over imputed rows in the place of scatters and centres, and the means of what
    # never changed may differ in the last bits.
    complete = [t for t in range(len(tasks)) if t not in tasks.incomplete]
    return (
        fitted.with_scatters(tasks.scatters) == tasks
        and np.array_equal(fitted.centres[complete], tasks.centres[complete])
        and np.allclose(fitted.scatters[complete], tasks.scatters[complete], rtol=1e-9, atol=0)
    )


@contextlib.contextmanager
def _cluster(address: str | None):
    """Searches run on the Dask cluster at this address; without one, in threads here."""
    with connected(address, "the same command with --resume goes on") as client:
        if client is None:
            yield
            return
        from joblib import parallel_config

        with parallel_config("dask", wait_for_workers_timeout=60):
            yield


class _Watch(Watch):
    """Also says what the last iteration did, and how long the fit may still take."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._moment = time.monotonic()

    def iterated(self, state: State | Exploration) -> None:
        """Say what the last iteration or block of rounds did; a callback of the fit."""
        now = time.monotonic()
        seconds, self._moment = now - self._moment, now
        if state.history:
            last = state.history[-1]
            text = (
                f"EM iteration {len(state.history)}, Q +{last.gain:.2f}, {last.n_changed} graphs "
                f"changed, {duration(2 * seconds)} left or more"  # two must follow it
            )
        else:
            left = duration((N_BLOCKS - state.n_blocks) * seconds)
            text = f"Block {state.n_blocks} of {N_BLOCKS}, about {left} left"
        self.says(text)
