"""Finished cells on disk, one transaction each.

SQLite, because a cell is a row: a single file that is whole after any crash, needs no other package,
is written by one process and read by many, and answers questions from pandas
(``pandas.read_sql("select * from cells", sqlite3.connect("cells.sqlite"))``).
"""

import csv
import io
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import mtgbn
from mtgbn.errors import InputError
from mtgbn.experiments.cells import Row, measures_of
from mtgbn.experiments.designs import Cell, Experiment

__all__ = ["Store"]

_FILE, _ROWS = "cells.sqlite", "rows.csv"


class Store:
    """The cells of one experiment that are done; a context manager.

    Parameters
    ----------
    folder : path
        Where the file is, or will be. If it is not there but the ``rows.csv`` of an earlier run is, its
        rows are taken over.
    experiment : Experiment
    seed : int
        Of all cells; a store of another seed is refused.
    """

    def __init__(self, folder: Path, experiment: Experiment, seed: int) -> None:
        self.experiment = experiment
        self.columns = (
            *experiment.keys,
            "repetition",
            "method",
            *measures_of(experiment),
            "converged",
        )
        self._key = self.columns[: self.columns.index("method") + 1]
        self._path = folder / _FILE
        is_new = not self._path.exists()
        try:
            self._connection = sqlite3.connect(self._path)
            with self._connection:
                self._prepare(seed)
                if is_new and (folder / _ROWS).exists():
                    self._take_over(folder / _ROWS)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{str(self._path)!r} is damaged or no file of mtgbn ({error}); move it away, and what "
                f"is in {_ROWS} beside it is taken over"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception) -> None:
        self._connection.close()

    def _prepare(self, seed: int) -> None:
        columns = ", ".join(f'"{name}"' for name in (*self.columns, "cpu_seconds", "version"))
        key = ", ".join(f'"{name}"' for name in self._key)
        self._connection.execute("create table if not exists about (name primary key, value)")
        self._connection.execute(
            f"create table if not exists cells ({columns}, primary key ({key}))"
        )
        wanted = {
            "experiment": self.experiment.name,
            "seed": str(seed),
            "columns": json.dumps(self.columns),
        }
        found = dict(self._connection.execute("select name, value from about"))
        for name, value in wanted.items():
            if name in found and found[name] != value:
                raise InputError(
                    f"{str(self._path)!r} holds cells of another run: its {name} is {found[name]}, not "
                    f"{value}; use another folder"
                )
        self._connection.executemany(
            "insert or ignore into about values (?, ?)", list(wanted.items())
        )

    def _take_over(self, path: Path) -> None:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != self.columns:
                raise InputError(
                    f"{str(path)!r} is not from this experiment; use another folder, or remove it"
                )
            for texts in reader:
                row = {name: _value(name, text) for name, text in texts.items()}
                self._insert(row, None, "")

    def _insert(self, row: Row, seconds: float | None, version: str) -> None:
        values = [*(row[name] for name in self.columns), seconds, version]
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"insert into cells values ({marks})", values)

    def add(self, row: Row, seconds: float) -> None:
        """Keep a row for good."""
        try:
            with self._connection:
                self._insert(row, seconds, mtgbn.__version__)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}; the cells before it are safe") from error

    def rows(self, cells: Iterable[Cell] | None = None) -> list[Row]:
        """All rows, or those of some cells that are there, in the order of the cells."""
        names = ", ".join(f'"{name}"' for name in self.columns)
        found = [
            dict(zip(self.columns, values, strict=True))
            for values in self._connection.execute(f"select {names} from cells order by rowid")
        ]
        if cells is None:
            return found
        by_key = {self._key_of(row): row for row in found}
        return [by_key[cell.key] for cell in cells if cell.key in by_key]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those of the cells that are still to be done."""
        done = {self._key_of(row) for row in self.rows()}
        return [cell for cell in cells if cell.key not in done]

    def seconds(self) -> list[tuple[Row, float]]:
        """CPU seconds of the cells of which they are known."""
        names = ", ".join(f'"{name}"' for name in self._key)
        query = f"select {names}, cpu_seconds from cells where cpu_seconds is not null"
        return [
            (dict(zip(self._key, values, strict=True)), seconds)
            for *values, seconds in self._connection.execute(query)
        ]

    def versions(self) -> list[str]:
        """Versions of mtgbn that computed the cells."""
        query = "select distinct version from cells where version != '' order by version"
        return [version for (version,) in self._connection.execute(query)]

    def _key_of(self, row: Row) -> tuple:
        return tuple(row[name] for name in self._key)

    def as_csv(self, rows: list[Row]) -> str:
        """Rows as text; no value is an empty field, and numbers come back as they were."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([row[name] for name in self.columns] for row in rows)
        return text.getvalue()


def _value(name: str, text: str) -> float | int | str | None:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
