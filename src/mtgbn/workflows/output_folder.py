"""The folder that a workflow writes, and the report in it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtgbn.errors import ExtraNotInstalledError, InputError
from mtgbn.report import report_of
from mtgbn.report.page import REPORT_FILE

Tell = Callable[[str], object]
Progress = Callable[[str, int, int], object]


def silent(text: str) -> None:
    """Tell nobody."""


def check_output_folder(folder: Path, data: str | os.PathLike[str] | None = None) -> None:
    """Refuse a folder that cannot be written to, or that holds the data."""
    if not str(folder).strip() or folder == Path():
        raise InputError("the results need a folder of their own; name one")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the results")
    if data is not None and os.path.realpath(folder) == os.path.realpath(data):
        raise InputError(f"{str(folder)!r} holds the data; give another folder for the results")
    if folder.exists() and not os.access(folder, os.W_OK):
        raise InputError(f"the folder {str(folder)!r} cannot be written to")


def add_report(folder: Path, tell: Tell, result: Any, **known: Any) -> Path | None:
    """Write the report of a result into its folder; without the extra, tell how to install it.

    ``result`` and ``known`` are the arguments of `report_of`.
    """
    try:
        return report_of(result, **known).save_as_html(folder / REPORT_FILE)
    except ExtraNotInstalledError as error:
        tell(f"Note: no {REPORT_FILE}; {error}.")
        return None
