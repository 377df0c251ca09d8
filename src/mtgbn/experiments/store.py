"""The store of finished cells: an SQLite file with one row per cell, each written in a transaction.

SQLite needs no other package, keeps the file whole after any crash, and lets other processes read while
one writes: ``pandas.read_sql("select * from cells", sqlite3.connect("cells.sqlite"))``.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import mtgbn
from mtgbn._utils.tables import parse_table, read_text, table_text
from mtgbn.errors import InputError
from mtgbn.experiments.cells import Row, measures_of
from mtgbn.experiments.designs import METHODS, Cell, Experiment

_FILE, _ROWS = "cells.sqlite", "rows.csv"

# How long a write waits for another process that reads.
_SECONDS_TO_WAIT = 300.0


class Store:
    """The finished cells of one experiment, in ``cells.sqlite`` of a folder; a context manager.

    A new file takes over the rows of ``rows.csv``, if an earlier run left it in the folder. A file
    with cells of another experiment or of another seed is refused.
    """

    def __init__(self, folder: Path, experiment: Experiment, seed: int) -> None:
        self.experiment = experiment
        self.seed = seed
        self._key = (*experiment.keys, "repetition", "method")
        self.columns = (*self._key, *measures_of(experiment), "converged")
        self._path = folder / _FILE
        with self._guarded():
            # We begin transactions ourselves, so that the file is set up completely or not at all.
            self._connection = sqlite3.connect(self._path, _SECONDS_TO_WAIT, isolation_level=None)
            try:
                with self._transaction():
                    if self._prepare() and (folder / _ROWS).exists():
                        self._take_over(folder / _ROWS)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _guarded(self, consequence: str = "") -> Iterator[None]:
        """Turn errors of the database into errors that say what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}{consequence}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{str(self._path)!r} is damaged or no file of mtgbn ({error}); move it away, and what "
                f"is in {_ROWS} beside it is taken over"
            ) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            # With a full disk, SQLite has rolled back already.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("rollback")
            raise
        self._connection.execute("commit")

    def _prepare(self) -> bool:
        """Set up the tables, or check them; returns whether they are new."""
        columns = ", ".join(f'"{name}"' for name in (*self.columns, "cpu_seconds", "version"))
        key = ", ".join(f'"{name}"' for name in self._key)
        self._connection.execute("create table if not exists about (name primary key, value)")
        self._connection.execute(
            f"create table if not exists cells ({columns}, primary key ({key}))"
        )
        wanted = {
            "experiment": self.experiment.name,
            "seed": str(self.seed),
            "columns": json.dumps(self.columns),
        }
        found = dict(self._connection.execute("select name, value from about"))
        (n_cells,) = self._connection.execute("select count(*) from cells").fetchone()
        if n_cells and not wanted.keys() <= found.keys():
            raise sqlite3.DatabaseError("it does not say which experiment its cells are from")
        for name, value in wanted.items():
            if name in found and found[name] != value:
                raise InputError(
                    f"{str(self._path)!r} holds cells of another run: its {name} is {found[name]}, not "
                    f"{value}; use another folder"
                )
        self._connection.executemany(
            "insert or ignore into about values (?, ?)", list(wanted.items())
        )
        return not found

    def _take_over(self, path: Path) -> None:
        expected = [*self.columns, "seed", "version"]
        lines = parse_table(read_text(path), ",", str(path))
        if not lines or lines[0].cells != expected:
            raise InputError(
                f"{str(path)!r} is not from this experiment; use another folder, or remove it"
            )
        for number, cells in lines[1:]:
            where = f"{str(path)!r}, line {number}"
            if len(cells) != len(expected):
                raise InputError(
                    f"{where}: {len(cells)} fields instead of {len(expected)}; repair or remove the line"
                )
            row = {name: _value(text) for name, text in zip(expected, cells, strict=True)}
            for name in self.columns[len(self._key) :]:
                if isinstance(row[name], str):
                    raise InputError(
                        f"{where}: {name} is {row[name]!r}, not a number; repair the line"
                    )
            if row["seed"] != self.seed:
                raise InputError(
                    f"{where}: a cell of seed {row['seed']}, not {self.seed}; use another folder or "
                    "seed"
                )
            try:
                self._insert(row, None, str(row["version"]))
            except sqlite3.IntegrityError:
                raise InputError(f"{where}: this cell occurs twice; remove one") from None

    def _insert(self, row: Row, seconds: float | None, version: str) -> None:
        values = [*(row[name] for name in self.columns), seconds, version]
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"insert into cells values ({marks})", values)

    def add(self, row: Row, seconds: float) -> None:
        """Store a row."""
        with self._guarded("; the cells before it are safe"), self._transaction():
            self._insert(row, seconds, mtgbn.__version__)

    def note(self, command: str) -> list[str]:
        """Store a command that computed cells; returns all stored commands."""
        with self._guarded(), self._transaction():
            query = "select value from about where name = 'commands'"
            found = self._connection.execute(query).fetchone()
            commands = json.loads(found[0]) if found else []
            if command not in commands:
                commands.append(command)
            self._connection.execute(
                "insert or replace into about values ('commands', ?)", [json.dumps(commands)]
            )
        return commands

    def _stored(self) -> list[Row]:
        """All cells with all columns, in the order of a full run, whenever they were computed."""
        with self._guarded():
            found = self._connection.execute("select * from cells").fetchall()
        names = (*self.columns, "cpu_seconds", "version")
        settings = {tuple(each.values()): k for k, each in enumerate(self.experiment.full)}
        methods = {name: k for k, name in enumerate(METHODS)}

        def place(row: Row) -> tuple[Any, ...]:
            *setting, repetition, method = key = self._key_of(row)
            known = settings.get(tuple(setting), len(settings)), methods.get(method, len(methods))
            return (repetition, *known, str(key))

        return sorted((dict(zip(names, values, strict=True)) for values in found), key=place)

    def rows(self) -> list[Row]:
        """All rows, in the order of a full run."""
        return [{name: row[name] for name in self.columns} for row in self._stored()]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not in the store."""
        done = {self._key_of(row) for row in self._stored()}
        return [cell for cell in cells if cell.key not in done]

    def seconds(self) -> list[tuple[Row, float]]:
        """CPU seconds of the cells; cells from ``rows.csv`` have none."""
        return [
            ({name: row[name] for name in self._key}, row["cpu_seconds"])
            for row in self._stored()
            if row["cpu_seconds"] is not None
        ]

    def versions(self) -> list[str]:
        """The versions of mtgbn that computed the cells."""
        return sorted({row["version"] for row in self._stored()})

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._key)

    def as_csv(self) -> str:
        """All rows as text, numbers in full; a missing value is an empty field."""
        header = (*self.columns, "seed", "version")
        rows = ({**row, "seed": self.seed} for row in self._stored())
        return table_text([header, *([row[name] for name in header] for row in rows)], ",")


def _value(text: str) -> float | int | str | None:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
