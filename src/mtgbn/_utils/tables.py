"""Delimited tables: the one reader and the one writer of them."""

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mtgbn.errors import InputError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "blanks"}


class Line(NamedTuple):
    """One line of a table; a cell with a quoted line break makes it end on a later line."""

    number: int
    """Of the last line of the file that it takes up, counted from 1."""
    cells: list[str]


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file, with or without a byte order mark."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(path)!r} is not UTF-8 text; save it as UTF-8 (byte "
            f"{error.object[error.start]:#04x} at position {error.start})"
        ) from error


def parse_table(text: str, delimiter: str | None, source: str) -> list[Line]:
    """Split a text into lines and cells; blank lines are left out, cells are not stripped.

    Without a delimiter, runs of blanks are one. ``source`` is the name of the table in messages.
    """
    if delimiter is None:
        lines = [Line(k, line.split()) for k, line in enumerate(text.splitlines(), start=1)]
    else:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            lines = [Line(reader.line_num, cells) for cells in reader]
        except csv.Error as error:
            raise InputError(
                f"line {reader.line_num} of {source!r}, or an earlier quote that is not closed, is not "
                f"valid text with {delimiter!r} between cells ({error}); repair the line"
            ) from error
    return [line for line in lines if len(line.cells) > 1 or any(map(str.strip, line.cells))]


def read_table(path: str | os.PathLike[str]) -> list[Line]:
    """Read a .csv (commas), a .tsv (tabs) or another file, whose header shows the delimiter.

    The delimiter is a tab, a comma or a semicolon; if the header has none of them, blanks.
    """
    text = read_text(path)
    header = text.lstrip().partition("\n")[0]
    in_header = next((delimiter for delimiter in "\t,;" if delimiter in header), None)
    delimiter = DELIMITERS.get(Path(path).suffix.lower(), in_header)
    return parse_table(text, delimiter, str(path))


def read_records(path: Path, kind: str) -> list[dict[str, str]]:
    """Read a .tsv or .csv of one ``kind`` per row as dicts: columns in lower case, stripped cells."""
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        raise InputError(
            f"{str(path)!r} is neither .tsv nor .csv; give a table with one row per {kind}"
        )
    return parse_records(read_text(path), delimiter, str(path), kind)


def parse_records(text: str, delimiter: str, source: str, kind: str) -> list[dict[str, str]]:
    """As `read_records`, from text; ``source`` is the name of the table in messages."""
    lines = [line for line in parse_table(text, delimiter, source) if any(line.cells)]
    if len(lines) < 2:
        raise InputError(f"{source!r} has no {kind}s; give a header and one row per {kind}")
    header = [cell.strip().lower() for cell in lines[0].cells]
    others = {
        name: each for each, name in _NAMES.items() if each != delimiter and each in header[0]
    }
    if len(header) == 1 and others:
        raise InputError(
            f"{source!r} has {next(iter(others))} between the cells of its header, and not "
            f"{_NAMES[delimiter]}; save a .csv with commas, or a .tsv with tabs"
        )
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    if twice:
        raise InputError(
            f"{source!r} has the column {twice[0]!r} twice (capitals do not matter); rename one"
        )
    for row, line in enumerate(lines[1:], start=1):
        if len(line.cells) != len(header):
            raise InputError(
                f"row {row} of {source!r} (line {line.number}) has {len(line.cells)} cells, the header "
                f"{len(header)}; repair it"
            )
    return [dict(zip(header, map(str.strip, line.cells), strict=True)) for line in lines[1:]]


def check_columns(records: list[dict[str, str]], wanted: Sequence[str], source: str) -> None:
    """Refuse a table that lacks some columns."""
    missing = [column for column in wanted if column not in records[0]]
    if missing:
        raise InputError(
            f"{source!r} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has "
            f"{', '.join(records[0])}"
        )


def table_text(rows: Iterable[Iterable[object]], delimiter: str = "\t") -> str:
    """Write rows as text; a cell with a quote, a delimiter or a line break is quoted as in CSV."""
    text = io.StringIO()
    # Python's writer quotes a cell that has a character of the line terminator, so that is set to
    # both line breaks and each line then ends in one.
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
    lines = []
    for row in rows:
        writer.writerow(row)
        lines.append(text.getvalue().removesuffix("\r\n") + "\n")
        text.seek(0)
        text.truncate()
    return "".join(lines)
