"""What commands print: messages, a progress bar, durations."""

import contextlib
import logging
from typing import Self

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


def escape(text: str) -> str:
    """Show names as they are: without markup and terminal codes."""
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return escape_markup(printable)


_logger = logging.getLogger("mtgbn")


class Screen:
    """Messages on stderr, and a progress bar from the first call of `moved` to the end of the block.

    Only a terminal shows the bar, which leaves no trace. Within the block, messages of the package's
    log are printed, too, such as the one that kernels are being compiled.
    """

    def __init__(self, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet, emoji=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.fields[text]}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=None, text="")

    def __enter__(self) -> Self:
        self._log = _LogToScreen(self)
        self._level = _logger.level
        _logger.addHandler(self._log)
        _logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *exception: object) -> None:
        _logger.removeHandler(self._log)
        _logger.setLevel(self._level)
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print a message; a closed terminal does not end the work."""
        with contextlib.suppress(OSError, ValueError):
            self.console.print(escape(text))

    def moved(self, step: str, done: int, total: int) -> None:
        """Show the current step, and how far it has come."""
        self._progress.start()
        self._progress.update(self._bar, description=step, completed=done, total=total)

    def show_text(self, text: str) -> None:
        """Put a text before the bar."""
        self._progress.update(self._bar, text=text)


class _LogToScreen(logging.Handler):
    """Prints the messages of the log on a screen, beginning with a capital letter."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._screen.say(text[:1].upper() + text[1:])


def duration(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
