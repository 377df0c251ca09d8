"""Run `mtgbn extract`, `compare`, `bids` and `demo`, and print how it goes."""

import os
import sys
import time
import webbrowser
from collections.abc import Callable
from typing import Any

from mtgbn.cli.output import Screen, duration
from mtgbn.fmri.extract import Extraction
from mtgbn.workflows.compare import ComparisonRun

# Exit code when all is written, but subjects were left out or a fit did not converge.
WITH_WARNINGS = 3


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
