"""Tasks on disk: a folder of text files, a long table or an .npz, with no more than numpy."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mtgbn._utils.files import read_json, read_npz
from mtgbn._utils.names import default_variables, listed, unknown_name
from mtgbn.errors import InputError
from mtgbn.tasks.tables import Table, tables_from_arrays

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_EXTENSIONS = (*_DELIMITERS, ".txt")
# Series as BIDS derivatives name them (XCP-D, giga_connectome, mtgbn extract), and tables beside them.
_SERIES = "sub-*_timeseries.tsv"
_ENTITIES = re.compile(r"((?:[^_-]+-[^_]+_)+)timeseries\.tsv")
_NO_DATA = {"participants.tsv", "excluded.tsv"}
# What was measured where, rather than when: series that differ in it are no tasks beside each other.
_KINDS = ("space", "cohort", "res", "den", "atlas", "seg", "stat", "desc")
# What `mtgbn extract` says of every run: independent samples that noise would be worth after cleaning.
MOST_SAMPLES = "EffectiveSamplesAtMost"
_MISSING = {"", "na", "n/a", "#n/a", "<na>", "null", "none", "."}


def tables_from_path(
    path: str | os.PathLike[str],
    pattern: str | None,
    task: str,
    unreadable: Callable[[str, InputError], None] | None = None,
) -> list[Table]:
    """All tasks of a file or of a folder, whichever it is."""
    if os.path.isfile(path):
        return tables_from_file(path, task)
    return tables_from_folder(path, pattern, unreadable)


def tables_from_folder(
    path: str | os.PathLike[str],
    pattern: str | None,
    unreadable: Callable[[str, InputError], None] | None = None,
) -> list[Table]:
    """One table per file, in the natural order of the file names (sub-2 before sub-10).

    ``unreadable``, if given, is called with the task and the error of a file that is no table, and the
    others are read; otherwise the first such error is raised.
    """
    files = _task_files(Path(path), pattern)
    tables = []
    for file, name in zip(files, _names(files), strict=True):
        try:
            tables.append(_read_table(file, name))
        except InputError as error:
            if unreadable is None:
                raise
            unreadable(name, error)
    return tables


def _task_files(folder: Path, pattern: str | None) -> list[Path]:
    if not folder.exists():
        raise InputError(f"folder {str(folder)!r} does not exist; check the path")
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give the folder that holds one file per task")
    try:
        found = list(folder.glob("*" if pattern is None else pattern))
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"pattern {pattern!r} cannot be used ({error}); give one such as '*_timeseries.tsv'"
        ) from error
    if pattern is None:
        found = _tables_or_series(folder, found)
    named = [
        file
        for file in found
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    for file in named:
        if file.is_symlink() and not os.path.exists(file):
            raise InputError(
                f"{str(file)!r} is a link to a file that is not there; fetch it (git annex get, "
                "datalad get), or remove the link"
            )
    files = [file for file in named if file.is_file()]
    if not files:
        wanted = f"matching {pattern!r}" if pattern is not None else "ending in .csv, .tsv or .txt"
        raise InputError(f"folder {str(folder)!r} holds no task: there is no file {wanted}")
    return sorted(files, key=lambda file: (_natural(file.stem), str(file)))


def _tables_or_series(folder: Path, found: list[Path]) -> list[Path]:
    """The tables in a folder or, if there are none, the series at any depth."""
    series = [file for file in folder.rglob(_SERIES) if _is_series(file)]
    subjects = {file.name.partition("_")[0] for file in series}
    tables = [
        file
        for file in found
        if file.suffix.lower() in _EXTENSIONS
        and not file.name.startswith(".")
        and not file.is_dir()
        and file.name not in _NO_DATA
        and file.name.partition("_")[0] not in subjects  # whose motion, coverage, ... they are
    ]
    if tables and series:
        raise InputError(
            f"folder {str(folder)!r} holds series ({series[0].name!r}) and other tables "
            f"({tables[0].name!r}); say which are the tasks with a pattern, such as '*.csv'"
        )
    return tables or series


def _is_series(file: Path) -> bool:
    # fMRIPrep's confounds end in the same word.
    return bool(_entities(file)) and _entities(file).get("desc") != "confounds"


def _entities(file: Path) -> dict[str, str]:
    """The parts of a name such as sub-01_ses-1_task-rest_timeseries.tsv; none of other names."""
    match = _ENTITIES.fullmatch(file.name)
    if match is None or not file.name.startswith("sub-"):
        return {}
    return dict(part.split("-", 1) for part in match[1].strip("_").split("_"))


def _names(files: Sequence[Path]) -> list[str]:
    """Series are called after the subject and, where one has several, what tells them apart."""
    entities = [_entities(file) for file in files]
    if not all(entities):
        return [file.stem for file in files]
    values: dict[tuple[str, str], set[str | None]] = {}
    for key in dict.fromkeys(key for each in entities for key in each):
        for each in entities:
            values.setdefault((key, each["sub"]), set()).add(each.get(key))
    several = {key for (key, _), found in values.items() if len(found) > 1}
    for key in _KINDS:
        if key in several:
            found = sorted({each.get(key, "none") for each in entities})
            raise InputError(
                f"subjects have series with several {key} ({listed(found)}); choose with a pattern, "
                f"such as '**/sub-*_{key}-{found[0]}_*timeseries.tsv'"
            )
    return [
        "_".join(f"{key}-{value}" for key, value in each.items() if key in {"sub", *several})
        for each in entities
    ]


def _natural(name: str) -> list[str | int]:
    pieces = re.split(r"(\d+)", name)
    return [int(piece) if odd % 2 else piece.casefold() for odd, piece in enumerate(pieces)]


def tables_from_file(path: str | os.PathLike[str], task: str) -> list[Table]:
    """All tasks of one file: an .npz with one array each, or a long text table with a task column."""
    file = Path(path)
    if file.suffix.lower() == ".npz":
        return _tables_from_npz(file)
    columns, rows, lines = _read_cells(file)
    if task not in columns:
        raise InputError(f"file {str(file)!r}: {unknown_name(task, columns, 'column')}")
    if len(columns) == 1 or columns.count(task) > 1:
        raise InputError(
            f"file {str(file)!r} must have one column {task!r} and, beside it, one per variable"
        )
    place = columns.index(task)
    rows_of: dict[str, list[int]] = {}
    for number, cells in enumerate(rows):
        name = cells.pop(place).strip()
        if not name:
            raise InputError(
                f"line {lines[number]} of {file} names no task in column {task!r}; fill it in"
            )
        rows_of.setdefault(name, []).append(number)
    variables = columns[:place] + columns[place + 1 :]
    return [
        Table(
            name,
            variables,
            _values([rows[number] for number in numbers], len(variables)),
            str(file),
            [lines[number] for number in numbers],
        )
        for name, numbers in rows_of.items()
    ]


def _tables_from_npz(file: Path) -> list[Table]:
    try:
        arrays = read_npz(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"file {str(file)!r} is not an .npz of plain arrays ({error}); write it with "
            "numpy.savez(file, sub1=array1, sub2=array2, variables=names)"
        ) from error
    variables = arrays.pop("variables", None)
    if variables is not None and (variables.ndim != 1 or variables.dtype.kind not in "US"):
        raise InputError(f"file {str(file)!r}: 'variables' must be a list of names")
    names = None if variables is None else variables.astype(str)
    return tables_from_arrays(list(arrays.values()), names, list(arrays))


def _read_table(file: Path, name: str) -> Table:
    columns, rows, lines = _read_cells(file)
    values = _values(rows, len(columns))
    return Table(name, columns, values, str(file), lines, _most_samples(sidecar(file)))


def sidecar(file: str | os.PathLike[str] | None) -> dict:
    """What the file beside a series says, such as that of `mtgbn extract`; of other files nothing."""
    if file is None or not str(file).endswith("_timeseries.tsv"):
        return {}
    return read_json(Path(file).with_suffix(".json"))


def _most_samples(record: dict) -> float | None:
    runs = record.get("Runs")
    try:
        found = sum(float(run[MOST_SAMPLES]) for run in runs)
    except (KeyError, TypeError, ValueError):  # somebody else's file
        return None
    return found if found > 0 else None


def _read_cells(file: Path) -> tuple[tuple[str, ...], list[list[str]], list[int]]:
    """Names of the columns, cells of the lines below, and the numbers of these lines."""
    records = _records(file)
    _, header = next(records, (0, []))
    if not header:
        raise InputError(f"task {file.stem!r}: file {str(file)!r} is empty; remove or fill it")
    columns = _check_header(file, header)
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, cells in records:
        if len(cells) != len(columns):
            raise InputError(
                f"task {file.stem!r}: line {line} of {file} has {len(cells)} cells but the header "
                f"has {len(columns)} (the line starts with {cells[0]!r}); repair the line"
            )
        rows.append(cells)
        lines.append(line)
    return columns, rows, lines


def _values(rows: list[list[str]], n_columns: int) -> np.ndarray:
    numbers: list[list[float | str]] = []
    numeric = True
    for cells in rows:
        try:
            numbers.append(_floats(cells))
        except ValueError:
            # The text stays in its cell: the check that all tasks share names it, with its line.
            numbers.append([_number_or_text(cell) for cell in cells])
            numeric = numeric and not any(isinstance(cell, str) for cell in numbers[-1])
    values = np.array(numbers, dtype=np.float64 if numeric else object)
    return values.reshape(-1, n_columns)


def _records(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"task {file.stem!r}: {file} is not UTF-8 text (byte {error.object[error.start]:#04x} "
            f"at position {error.start}); save it as UTF-8"
        ) from error
    delimiter = _DELIMITERS.get(file.suffix.lower()) or _sniff(text)
    if delimiter is None:
        lines = ((line, text.split()) for line, text in enumerate(text.splitlines(), start=1))
    else:
        lines = _csv_lines(file, text, delimiter)
    return (
        (line, cells) for line, cells in lines if cells and (len(cells) > 1 or cells[0].strip())
    )


def _csv_lines(file: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"task {file.stem!r}: line {reader.line_num} of {file} is not valid text with "
            f"{delimiter!r} between cells ({error}); repair the line"
        ) from error


def _sniff(text: str) -> str | None:
    """The delimiter of the header line; None stands for runs of blanks."""
    header = text.lstrip().partition("\n")[0]
    return next((delimiter for delimiter in "\t,;" if delimiter in header), None)


def _check_header(file: Path, header: list[str]) -> tuple[str, ...]:
    columns = tuple(cell.strip() for cell in header)
    where = f"task {file.stem!r}: the header of {file}"
    if "" in columns:
        raise InputError(
            f"{where} has no name for column {columns.index('') + 1} of {len(columns)}; name it, "
            "or remove the column if it is a row index (pandas: to_csv(..., index=False))"
        )
    if _entities(file) and columns == tuple(map(str, range(len(columns)))):
        return default_variables(len(columns))  # giga_connectome numbers them
    if all(_is_number(cell) for cell in columns):
        raise InputError(
            f"{where} is all numbers ({listed(columns)}); add a first line with variable names"
        )
    if len(columns) == 1 and any(delimiter in columns[0] for delimiter in "\t,; "):
        raise InputError(
            f"{where} is a single cell, {columns[0]!r}; use commas in .csv and tabs in .tsv "
            "files, or rename the file to .txt to have the delimiter detected"
        )
    return columns


def _floats(cells: list[str]) -> list[float]:
    # Python reads 1_000 as a number, no other reader of such files does.
    if "_" in "".join(cells):
        raise ValueError
    return list(map(float, cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number_or_text(cell: str) -> float | str:
    if cell.strip().lower() in _MISSING:
        return float("nan")
    try:
        return _floats([cell])[0]
    except ValueError:
        return cell
