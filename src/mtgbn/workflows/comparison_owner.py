"""The folder of a comparison: whose it is, and the work in it that an interrupted command left."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtgbn._utils.files import locked, read_json, write_json
from mtgbn.compare.comparison_folder import ABOUT_FILE, remove_tables
from mtgbn.errors import InputError
from mtgbn.report.page import REPORT_FILE
from mtgbn.results.folder import RESULT_FILE

# Subfolder for checkpoints and stores, and the file in it that says what they belong to.
_WORK_FOLDER = "work"
_IDENTITY_FILE = "identity.json"


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder that holds anything but a comparison."""
    is_ours = (folder / _WORK_FOLDER / _IDENTITY_FILE).exists()
    # A run that failed at once leaves an empty folder for its work.
    if not is_ours and any(path.is_file() for path in folder.rglob("*")):
        held = "the result of a fit" if (folder / RESULT_FILE).exists() else "other files"
        raise InputError(f"{str(folder)!r} holds {held}; give a new or empty folder")


@contextlib.contextmanager
def owned(folder: Path, identity: dict[str, Any], overwrite: bool) -> Iterator[Path]:
    """Lock the folder, and return its subfolder for work in progress of the same data and settings."""
    is_new = not folder.exists()
    work = folder / _WORK_FOLDER
    work.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            earlier = read_json(work / _IDENTITY_FILE)
            if earlier and earlier != json.loads(json.dumps(identity)):
                if not overwrite:
                    raise InputError(
                        f"{str(folder)!r} holds a comparison of other data or settings; use another "
                        "folder, or --overwrite"
                    )
                _empty(folder)
            for part in folder.rglob(".*.part"):
                if part.is_file():
                    part.unlink(missing_ok=True)
            write_json(work / _IDENTITY_FILE, identity)
            yield work
            for checkpoint in work.glob("*/group-*.npz"):  # large, and not needed any more
                checkpoint.unlink()
    except (InputError, OSError):
        files = {path.name for path in folder.rglob("*") if path.is_file()}
        if is_new and files <= {_IDENTITY_FILE}:  # otherwise there is work to resume from
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _empty(folder: Path) -> None:
    """Remove the files of an earlier comparison, and no others."""
    for name in (REPORT_FILE, ABOUT_FILE):
        (folder / name).unlink(missing_ok=True)
    remove_tables(folder)
    shutil.rmtree(folder / _WORK_FOLDER)
    (folder / _WORK_FOLDER).mkdir()
