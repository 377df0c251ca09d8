"""A table whose columns are explained: in memory, as a .tsv file, and as the .json file beside it."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.tables import table_text


class DescribedTable(NamedTuple):
    """A table of text.

    ``name`` is that of its file without ``.tsv``, ``description`` says what a row is, and ``columns``
    says what each column means, by its name and in the order of the columns.
    """

    name: str
    description: str
    columns: dict[str, str]
    rows: list[list[str]]

    @property
    def tsv(self) -> str:
        """The file: a header and the rows."""
        return table_text([list(self.columns), *self.rows])

    @property
    def records(self) -> list[dict[str, str]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def sidecar(self, **more: Any) -> dict[str, Any]:
        """Contents of the .json file, as BIDS wants it; ``more`` follows the description."""
        described = {name: {"Description": text} for name, text in self.columns.items()}
        return {"Description": self.description, **more, **described}


def table_of(
    name: str,
    description: str,
    columns: dict[str, str],
    rows: Iterable[Iterable[object]],
    missing: str = "n/a",
) -> DescribedTable:
    """Make a table of values: floats in full, ``missing`` (BIDS: n/a) in place of None and NaN."""

    def text(value: object) -> str:
        if isinstance(value, float | np.floating):
            return missing if np.isnan(value) else repr(float(value))
        return missing if value is None else str(value)

    return DescribedTable(
        name, description, columns, [[text(cell) for cell in row] for row in rows]
    )


def read_table(path: Path) -> DescribedTable:
    """Read a .tsv and its .json; any exception says that they are not what `DescribedTable` gave."""
    text = path.read_bytes().decode("utf-8")
    header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{path.name} has rows of different lengths")
    described = {name: about[name]["Description"] for name in header}
    return DescribedTable(path.stem, about["Description"], described, rows)
