"""`mtgbn fit` and `mtgbn show`: from data to a folder of results, and a look at it."""

import contextlib
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from mtgbn.cli.describe import escape
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import AVG, MTGBN, SIG, State
from mtgbn.results import load_result, save_result, summarise
from mtgbn.results.folder import RESULT_FILE
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks

__all__ = ["NOT_CONVERGED", "run_fit", "run_show"]

# Exit code of a fit whose result is there, but with a warning that EM had not settled.
NOT_CONVERGED = 3

_CHECKPOINT = "checkpoint.npz"


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
    quiet: bool,
) -> int:
    """Fit, write, say what was found; returns the exit code."""
    console = Console(stderr=True, quiet=quiet, emoji=False)
    folder = Path(out)
    if _already_done(folder, resume, overwrite):
        console.print(f"{escape(out)} holds a finished result; nothing to resume.")
        return 0
    tasks = Tasks.from_any(data, **reading)
    console.print(escape(f"Read {tasks!r} from {data}."), soft_wrap=True)
    if knowledge is not None:
        settings["knowledge"] = Knowledge.from_file(knowledge)
    folder.mkdir(parents=True, exist_ok=True)
    estimator = {"mtgbn": MTGBN, "sig": SIG, "avg": AVG}[method](**settings)
    checkpoint = folder / _CHECKPOINT
    start = time.monotonic()
    with _cluster(scheduler), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # they are in the result
        with _Watch(console, estimator) as watch:
            if method == "mtgbn":
                estimator.fit(
                    tasks, callback=watch.iterated, progress=watch.moved, checkpoint=checkpoint
                )
            else:
                estimator.fit(tasks, progress=watch.moved)
    save_result(estimator, folder, **writing)
    checkpoint.unlink(missing_ok=True)
    for line in summarise(estimator).lines:
        console.print(escape(line), soft_wrap=True)
    seconds = time.monotonic() - start
    console.print(
        escape(f"Wrote {folder / RESULT_FILE} after {seconds:.1f} s; see: mtgbn show {out}")
    )
    return 0 if getattr(estimator, "converged_", True) else NOT_CONVERGED


def run_show(folder: str, most_edges: int) -> None:
    """Print a result."""
    console = Console(emoji=False)
    summary = summarise(load_result(folder), most_edges)
    for line in summary.lines:
        console.print(escape(line), soft_wrap=True)
    for title, headings, rows in (
        ("Tasks", ("task", "n", "edges", "of which reversible"), summary.tasks),
        ("Most common edges", ("edge", "tasks", "mean coefficient"), summary.edges),
    ):
        table = Table(title=title, title_justify="left")
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
    console.print(
        "A reversible edge may point either way without changing what the data say. All edges: "
        f"{escape(str(Path(folder) / 'edges.tsv'))}"
    )


def _already_done(folder: Path, resume: bool, overwrite: bool) -> bool:
    """Whether there is nothing to do; refuses to overwrite or to mix."""
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the results")
    if overwrite:
        for name in (RESULT_FILE, _CHECKPOINT):  # the result first: half a result is none
            (folder / name).unlink(missing_ok=True)
        for name in ("graphml", "dot"):
            shutil.rmtree(folder / name, ignore_errors=True)
    if (folder / RESULT_FILE).exists():
        if resume:
            load_result(folder)  # raises if it is damaged
            return True
        raise InputError(
            f"{str(folder)!r} holds a result already; use --overwrite or another folder"
        )
    if (folder / _CHECKPOINT).exists() and not resume:
        raise InputError(
            f"{str(folder)!r} holds an interrupted fit; go on with --resume, or start anew with "
            "--overwrite"
        )
    return False


@contextlib.contextmanager
def _cluster(address: str | None):
    """Searches run on the Dask cluster at this address; without one, in threads here."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("--scheduler needs Dask: pip install 'mtgbn[dask]'") from error
    from joblib import parallel_config

    try:
        client = Client(address, timeout="10s", set_as_default=True)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"there is no Dask scheduler at {address!r}: {error}") from error
    with client, parallel_config("dask", wait_for_workers_timeout=60):
        yield


class _Watch:
    """What a person sees while waiting: the iteration, the change in Q, the step, the time left."""

    def __init__(self, console: Console, estimator: Any) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[text]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[step]}"),
            console=console,
            transient=True,
            disable=console.quiet or not console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=None, text="EM starts", step="")
        self._max_iter = getattr(estimator, "max_iter", 1)
        self._moments = [time.monotonic()]
        self._n_changed: list[int] = []

    def __enter__(self):
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def moved(self, what: str, done: int, total: int) -> None:
        """Show how far the present step has come."""
        self._progress.update(self._bar, completed=done, total=total, step=what)

    def iterated(self, state: State) -> None:
        """Show what the last iteration did."""
        last = state.history[-1]
        self._moments.append(time.monotonic())
        self._n_changed.append(last.n_changed)
        text = (
            f"EM iteration {len(state.history)}, Q +{last.gain:.2f}, {last.n_changed} graphs changed, "
            f"{self._time_left()} left"
        )
        self._progress.update(self._bar, text=text)

    def _time_left(self) -> str:
        """A guess: the number of changing graphs falls by its average factor, then two idle rounds."""
        last = self._n_changed[-1]
        done = len(self._n_changed)
        shrinkage = min(max((last / max(self._n_changed[0], 1)) ** (1 / done), 0.1), 0.8)
        rounds, changing = 2, float(last)
        while changing >= 1 and rounds + done < self._max_iter:
            changing *= shrinkage
            rounds += 1
        durations = [b - a for a, b in zip(self._moments, self._moments[1:], strict=False)]
        seconds = rounds * durations[-1]
        return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"
