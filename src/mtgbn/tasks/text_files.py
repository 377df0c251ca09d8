"""Tasks in text files: a folder with one file per task, or one long table."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import read_json
from mtgbn._utils.names import default_variables, listed, natural_key, unknown_name
from mtgbn._utils.tables import DELIMITERS, read_table
from mtgbn.errors import InputError
from mtgbn.tasks.table import Table

_EXTENSIONS = (*DELIMITERS, ".txt")
# Names of series in BIDS derivatives (XCP-D, giga_connectome, mtgbn extract), and of other tables there.
_SERIES = "sub-*_timeseries.tsv"
_ENTITIES = re.compile(r"((?:[^_-]+-[^_]+_)+)timeseries\.tsv")
_NO_DATA = {"participants.tsv", "excluded.tsv"}
# Entities that say what was measured and where: series that differ in one are not different tasks.
_KINDS = ("space", "cohort", "res", "den", "atlas", "seg", "stat", "desc")
# In the record of `mtgbn extract` for every run: the number of independent samples that white noise is
# worth after the same cleaning.
MOST_SAMPLES = "EffectiveSamplesAtMost"
_MISSING = {"", "na", "n/a", "#n/a", "<na>", "null", "none", "."}


def tables_from_folder(
    path: str | os.PathLike[str],
    pattern: str | None,
    unreadable: Callable[[str, InputError], object] | None = None,
) -> list[Table]:
    """Read one table per file, in the natural order of the file names (sub-2 before sub-10).

    ``unreadable`` is that of `mtgbn.tasks.read_tables`.
    """
    files = _task_files(Path(path), pattern)
    tables = []
    for file, name in zip(files, _names(files), strict=True):
        try:
            columns, rows, lines = _read_cells(file)
            values = _values(rows, len(columns))
            most = _most_samples(sidecar(file))
            tables.append(Table(name, columns, values, str(file), lines, most))
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
    hidden = {f for f in found if any(p.startswith(".") for p in f.relative_to(folder).parts)}
    named = [file for file in found if file not in hidden]
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
    return sorted(files, key=lambda file: (natural_key(file.stem), str(file)))


def _tables_or_series(folder: Path, found: list[Path]) -> list[Path]:
    """Return the tables in a folder or, if there are none, the series at any depth."""
    # The names of fMRIPrep's confounds also end in "timeseries".
    series = [f for f in folder.rglob(_SERIES) if _entities(f).get("desc", "") != "confounds"]
    series = [file for file in series if _entities(file)]
    subjects = {file.name.partition("_")[0] for file in series}
    tables = [
        file
        for file in found
        if file.suffix.lower() in _EXTENSIONS
        and not file.name.startswith(".")
        and not file.is_dir()
        and file.name not in _NO_DATA
        and file.name.partition("_")[0] not in subjects  # their motion, coverage, ...
    ]
    if tables and series:
        raise InputError(
            f"folder {str(folder)!r} holds series ({series[0].name!r}) and other tables "
            f"({tables[0].name!r}); say which are the tasks with a pattern, such as '*.csv'"
        )
    return tables or series


def _entities(file: Path) -> dict[str, str]:
    """Return the entities of a name such as sub-01_ses-1_task-rest_timeseries.tsv; else none."""
    match = _ENTITIES.fullmatch(file.name)
    if match is None or not file.name.startswith("sub-"):
        return {}
    return dict(part.split("-", 1) for part in match[1].strip("_").split("_"))


def _names(files: Sequence[Path]) -> list[str]:
    """Name series after the subject and the entities that differ between series of one subject."""
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


def tables_from_long_file(file: Path, task: str) -> list[Table]:
    """Read all tasks of one long text table, in which a column names the task of every row."""
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
    tables = []
    for name, numbers in rows_of.items():
        values = _values([rows[number] for number in numbers], len(variables))
        tables.append(Table(name, variables, values, str(file), [lines[k] for k in numbers]))
    return tables


def sidecar(file: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Read the JSON record beside a series, such as that of `mtgbn extract`; empty if there is none."""
    if file is None or not str(file).endswith("_timeseries.tsv"):
        return {}
    return read_json(Path(file).with_suffix(".json"))


def _most_samples(record: dict[str, Any]) -> float | None:
    try:
        found = sum(float(run[MOST_SAMPLES]) for run in record["Runs"])
    except (KeyError, TypeError, ValueError):  # the record of another program
        return None
    return found if found > 0 else None


def _read_cells(file: Path) -> tuple[tuple[str, ...], list[list[str]], list[int]]:
    """Return the names of the columns, the cells of every row, and the line numbers of the rows."""
    lines = read_table(file)
    if not lines:
        raise InputError(f"task {file.stem!r}: file {str(file)!r} is empty; remove or fill it")
    header, *lines = lines
    columns = _check_header(file, header.cells)
    for line, cells in lines:
        if len(cells) != len(columns):
            raise InputError(
                f"task {file.stem!r}: line {line} of {file} has {len(cells)} cells but the header "
                f"has {len(columns)} (the line starts with {cells[0]!r}); repair the line"
            )
    return columns, [line.cells for line in lines], [line.number for line in lines]


def _values(rows: list[list[str]], n_columns: int) -> np.ndarray:
    numbers: list[Sequence[float | str]] = []
    numeric = True
    for cells in rows:
        try:
            numbers.append(_floats(cells))
        except ValueError:
            # Text stays in its cell, so that the check of all tasks can name it and its line.
            numbers.append([_number_or_text(cell) for cell in cells])
            numeric = numeric and not any(isinstance(cell, str) for cell in numbers[-1])
    values = np.array(numbers, dtype=np.float64 if numeric else object)
    return values.reshape(-1, n_columns)


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
    # Python reads 1_000 as a number; other readers of such files do not.
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
