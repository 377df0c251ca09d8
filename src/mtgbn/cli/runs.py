"""Run `mtgbn fit`, `extract`, `compare`, `bids` and `demo`, and print how it goes."""

import os
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from joblib import parallel_config

from mtgbn.cli.cluster import connected
from mtgbn.cli.edge_prior import EdgePriorFile, read_edge_prior
from mtgbn.cli.methods import METHODS
from mtgbn.cli.output import Screen, duration
from mtgbn.fmri.extract import Extraction
from mtgbn.learn.joint_posterior import N_BLOCKS
from mtgbn.results import summarise
from mtgbn.results.folder import RESULT_FILE
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks
from mtgbn.workflows import fit_folder
from mtgbn.workflows.compare import ComparisonRun

# Exit code when all is written, but subjects were left out or a fit did not converge.
WITH_WARNINGS = 3


def run_fit(
    data: str,
    out: str,
    method: str,
    parameters: Mapping[str, Any],
    *,
    scheduler: str | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Fit, and print what was found; returns the exit code. ``options`` are those of `fit_folder`."""

    def make_estimator(tasks: Tasks) -> Any:
        made = dict(parameters)
        if "knowledge" in made:
            made["knowledge"] = Knowledge.from_file(made["knowledge"])
        if isinstance(made.get("edge_prior"), EdgePriorFile):
            made["edge_prior"] = read_edge_prior(made["edge_prior"].path, tasks.variables)
        return METHODS[method].estimator_class()(**made)

    with (
        _FitScreen(quiet) as screen,
        connected(scheduler, "the same command with --resume goes on") as client,
        # Searches run on the Dask cluster, or in threads of this process.
        parallel_config("dask", wait_for_workers_timeout=60) if client else nullcontext(),
    ):
        options |= {"tell": screen.say, "progress": screen.moved, "callback": screen.iterated}
        run = fit_folder(data, out, make_estimator, **options)
    if run.was_finished:
        screen.say(f"{out} holds this very result, finished; nothing to resume.")
    else:
        for line in summarise(run.estimator).lines:
            screen.say(line)
        path = run.folder / RESULT_FILE
        screen.say(f"Wrote {path} after {run.seconds:.1f} s; see: mtgbn show {out}")
        if run.report is not None:
            screen.say(f"Open {run.report} in a browser.")
    return 0 if run.converged else WITH_WARNINGS


class _FitScreen(Screen):
    """Also shows what the last iteration did, and how long the fit may still take."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._moment = time.monotonic()

    def iterated(self, state: Any) -> None:
        """Show the last iteration or block of rounds; a callback of the fit."""
        now = time.monotonic()
        seconds, self._moment = now - self._moment, now
        if state.history:
            last = state.history[-1]
            text = (
                f"EM iteration {len(state.history)}, Q +{last.gain:.2f}, {last.n_changed} graphs "
                f"changed, {duration(2 * seconds)} left or more"  # at least two more iterations
            )
        else:
            left = duration((N_BLOCKS - state.n_blocks) * seconds)
            text = f"Block {state.n_blocks} of {N_BLOCKS}, about {left} left"
        self.show_text(text)


def run(
    workflow: Callable[..., Extraction | ComparisonRun],
    *arguments: Any,
    quiet: bool,
    **options: Any,
) -> tuple[int, Extraction | ComparisonRun]:
    """Call a workflow, and print what it found; returns the exit code and the result."""
    start = time.monotonic()
    with Screen(quiet) as screen:
        result = workflow(*arguments, tell=screen.say, progress=screen.moved, **options)
    if isinstance(result, ComparisonRun):
        return _show_comparison(screen, result), result
    return _show_extraction(screen, result, time.monotonic() - start), result


def _show_extraction(screen: Screen, extraction: Extraction, seconds: float) -> int:
    for warning in extraction.warnings:
        screen.say(f"Warning: {warning}")
    screen.say(
        f"Computed {extraction.n_computed} of {len(extraction.series)} series in "
        f"{duration(seconds)}; they are in {extraction.folder}"
    )
    for excluded in extraction.excluded:
        screen.say(f"Excluded: {excluded.name}: {excluded.reason}")
    if extraction.excluded:
        table = extraction.folder / "excluded.tsv"
        screen.say(f"{len(extraction.excluded)} excluded, listed in {table}")
    return 1 if extraction.excluded else 0


def _show_comparison(screen: Screen, comparison: ComparisonRun) -> int:
    for line in comparison.summary:
        screen.say(line)
    path = comparison.folder / "comparison.json"
    screen.say(f"Wrote {path} and tables after {duration(comparison.seconds)}.")
    if comparison.report is not None:
        screen.say(f"Open {comparison.report} in a browser.")
    return 0 if comparison.is_clean else WITH_WARNINGS


def open_report(result: Extraction | ComparisonRun) -> None:
    """Open the report of a comparison in a browser, if a person sits at a screen."""
    page = result.report if isinstance(result, ComparisonRun) else None
    is_unix = sys.platform not in ("win32", "darwin")
    has_display = not is_unix or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if page is not None and sys.stderr.isatty() and has_display:
        webbrowser.open(page.resolve().as_uri())
