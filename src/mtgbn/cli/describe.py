"""`mtgbn describe`: are these data what mtgbn can use?"""

import warnings

import numpy as np
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table as Grid

from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.autocorrelation import effective_size
from mtgbn.tasks.data_warnings import data_warnings
from mtgbn.tasks.table import Table

# Share of the rows in independent samples below which rows hardly are independent themselves.
_INDEPENDENT = 0.7


def run_describe(data: str, options: dict) -> None:
    """Read, check, print."""
    console = Console(emoji=False)
    tasks, caught = read_tasks(data, options)
    console.print(f"{len(tasks)} tasks over {tasks.n_variables} variables:")
    console.print(escape(", ".join(tasks.variables)))
    table = Grid()
    table.add_column("task")
    table.add_column("rows", justify="right")
    table.add_column("n", justify="right")
    for name, rows, n in zip(tasks.names, tasks.n_rows, tasks.ns, strict=True):
        table.add_row(escape(name), str(rows), f"{n:g}")
    console.print(table)
    for warning in caught:
        console.print(f"Warning: {escape(warning)}")
    for note in data_warnings(tasks):
        console.print(f"Note: {escape(note)}")


def read_tasks(data: str, options: dict) -> tuple[Tasks, list[str]]:
    """The tasks, and what they were warned of."""
    tables = read_tables(data, pattern=options.get("pattern"), task=options.get("task"))
    reading = {name: value for name, value in options.items() if name not in ("pattern", "task")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        tasks = Tasks.from_tables(tables, **reading)
    return tasks, [str(warning.message) for warning in caught] + _follow_each_other(tables, reading)


def _follow_each_other(tables: list[Table], reading: dict) -> list[str]:
    """Say so if rows that are taken for independent seem to be a time series."""
    if reading.get("effective_samples") is not None or reading.get("missing") == "em":
        return []
    try:
        sizes = [effective_size("bartlett", table) for table in tables]
    except InputError:  # too few rows to tell
        return []
    rows = [len(table.values) for table in tables]
    worth = float(np.median(np.divide(sizes, rows)))
    if worth > _INDEPENDENT:
        return []
    return [
        f"rows follow each other as in a time series: they are worth {worth:.0%} of so many independent "
        "samples (median over tasks). Taken as independent they show edges that are none; give "
        "--effective-samples bartlett, or none if they are no time series"
    ]


def escape(text: str) -> str:
    """Show names as they are: no markup, no terminal codes."""
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return escape_markup(printable)
