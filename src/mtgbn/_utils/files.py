"""Files that are whole or not there: written beside, then renamed; read without trust."""

import contextlib
import csv
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from mtgbn.errors import InputError

__all__ = [
    "check_columns",
    "locked",
    "read_json",
    "read_npz",
    "read_records",
    "records_of",
    "sync_folder",
    "table_text",
    "write_json",
    "write_text",
    "writing",
]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of ``path`` when all is written, or leaves no trace."""
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other commands that would write there out of a folder, where the system can."""
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
    """All arrays of an .npz; ValueError, with the reason, if it is not one or would need unpickling."""
    content = Path(path).read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not an .npz, or was cut short")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # whatever a damaged file makes of itself
        raise ValueError(f"{type(error).__name__}: {error}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, in UTF-8."""
    with writing(path) as file:
        file.write(text.encode())


def write_json(path: str | os.PathLike[str], content: dict) -> None:
    """Write a JSON file that a person can read."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict:
    """What a JSON file of ours holds; nothing if it is not there or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def table_text(lines: Iterable[Sequence[object]]) -> str:
    """TSV; a name with a quote, a tab or a line break is quoted as in CSV."""
    found = []
    for line in lines:
        text = io.StringIO()
        # What is part of the end of a line is what Python's writer quotes.
        csv.writer(text, delimiter="\t", lineterminator="\r\n").writerow(line)
        found.append(text.getvalue().removesuffix("\r\n") + "\n")
    return "".join(found)


def read_records(path: Path, kind: str) -> list[dict[str, str]]:
    """The rows of a .tsv or .csv as dicts; names of columns in lower case.

    ``kind`` says in messages what a row is.
    """
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise InputError(
            f"{str(path)!r} is neither .tsv nor .csv; give a table with one row per {kind}"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text; save it as UTF-8") from error
    return records_of(text, delimiter, str(path), kind)


def records_of(text: str, delimiter: str, where: str, kind: str) -> list[dict[str, str]]:
    """As `read_records`, of text."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        rows = [row for row in reader if any(row)]
    except csv.Error as error:
        raise InputError(
            f"line {reader.line_num} of {where!r}, or a quote before it that is not closed, cannot be "
            f"read ({error}); repair it"
        ) from error
    if len(rows) < 2:
        raise InputError(f"{where!r} has no {kind}s; give a header and one row per {kind}")
    header = [cell.strip().lower() for cell in rows[0]]
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    if twice:
        raise InputError(
            f"{where!r} has the column {twice[0]!r} twice (capitals do not matter); rename one"
        )
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise InputError(
                f"row {number} of {where!r} has {len(row)} cells, the header {len(header)}; repair it"
            )
    return [dict(zip(header, (cell.strip() for cell in row), strict=True)) for row in rows[1:]]


def check_columns(records: list[dict[str, str]], wanted: Sequence[str], where: str) -> None:
    """Refuse a table without some columns."""
    missing = [column for column in wanted if column not in records[0]]
    if missing:
        raise InputError(
            f"{where!r} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has "
            f"{', '.join(records[0])}"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
