"""Reading and writing files, so that a killed process leaves a whole file or none.

A file is written under another name beside its place, then renamed.
"""

import contextlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from mtgbn.errors import InputError


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` once it is written; after an error nothing is left."""
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # reading the mask sets it
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other commands that write to it, where the system has locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another command is writing to {str(folder)!r}") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz; ValueError says why a file is damaged or holds pickled objects."""
    content = Path(path).read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not an .npz, or was cut short")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f"{type(error).__name__}: {error}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, in UTF-8."""
    with writing(path) as file:
        file.write(text.encode())


def write_json(path: str | os.PathLike[str], content: dict) -> None:
    """Write a JSON file, indented."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict:
    """Read a JSON object; an absent or damaged file counts as an empty one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def sync_folder(folder: Path) -> None:
    """Make a renaming survive a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
