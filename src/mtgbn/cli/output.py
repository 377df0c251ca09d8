"""What commands that write a folder share: is it one, how long does it take, telling the user."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from mtgbn.cli.describe import escape
from mtgbn.errors import ExtraNotInstalledError, InputError

__all__ = [
    "Watch",
    "add_report",
    "bar",
    "check_is_folder",
    "check_is_writable",
    "duration",
    "say_to",
]


def say_to(console: Console, text: str) -> None:
    """Tell the user; a terminal that went away is no reason to end the work."""
    with contextlib.suppress(OSError, ValueError):
        console.print(escape(text))


def add_report(
    folder: Path, say: Callable[[str], None], result: Any = None, **more: Any
) -> Path | None:
    """Write the page about a result into its folder; without the extra, say so and go on.

    ``result`` and ``more`` are arguments of `report_of`; without a result, the folder is read.
    """
    from mtgbn.report import report_of
    from mtgbn.report.page import REPORT_FILE

    try:
        report = report_of(folder if result is None else result, **more)
        return report.save_as_html(folder / REPORT_FILE)
    except ExtraNotInstalledError as error:
        say(f"Note: no {REPORT_FILE}; {error}.")
        return None


def bar(console: Console, *columns: ProgressColumn) -> Progress:
    """What a person sees while waiting; nobody else, and nothing of it stays."""
    hidden = console.quiet or not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=hidden)


class Watch:
    """The bar of a long computation: what is being done, how far it has come, and a text before it."""

    def __init__(self, console: Console) -> None:
        self._progress = bar(
            console,
            TextColumn("{task.fields[text]}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = self._progress.add_task("", total=None, text="")

    def __enter__(self):
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def moved(self, what: str, done: int, total: int) -> None:
        """Show what is being done, and how far it has come."""
        self._progress.update(self._bar, description=what, completed=done, total=total)

    def says(self, text: str) -> None:
        """Put a text before the bar."""
        self._progress.update(self._bar, text=text)


def check_is_folder(folder: Path) -> None:
    """Refuse what is no folder, or no name of one."""
    if not str(folder).strip() or folder == Path():
        raise click.UsageError("OUT must be a folder of its own")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the results")


def check_is_writable(folder: Path) -> None:
    """Refuse a folder that is there and cannot be written to."""
    if not os.access(folder, os.W_OK):
        raise InputError(f"the folder {str(folder)!r} cannot be written to")


def duration(seconds: float) -> str:
    """In the unit that a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
