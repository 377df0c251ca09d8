"""Print what data hold (`mtgbn describe`) and what a result says (`mtgbn show`)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from mtgbn.cli.output import escape
from mtgbn.results import load_result, summarise
from mtgbn.tasks.data_warnings import data_warnings
from mtgbn.workflows.reading import read_tasks


def run_describe(data: str, reading: Mapping[str, Any]) -> None:
    """Read, check, print."""
    console = Console(emoji=False)
    tasks, warnings = read_tasks(data, reading)
    console.print(f"{len(tasks)} tasks over {tasks.n_variables} variables:")
    console.print(escape(", ".join(tasks.variables)))
    n_rows = tasks.ns if tasks.n_rows is None else tasks.n_rows
    counts = zip(tasks.names, map(str, n_rows), (f"{n:g}" for n in tasks.ns), strict=True)
    console.print(_grid(("task", "rows", "n"), counts))
    for warning in warnings:
        console.print(f"Warning: {escape(warning)}")
    for note in data_warnings(tasks):
        console.print(f"Note: {escape(note)}")


def run_show(folder: str, most_edges: int) -> None:
    """Print a result."""
    console = Console(emoji=False)
    summary = summarise(load_result(folder), most_edges)
    for line in summary.lines:
        console.print(escape(line))
    for title, content in (("Tasks", summary.tasks), ("Most common edges", summary.edges)):
        console.print(_grid(content.columns, content.rows, title))
    if "membership" in summary.tasks.columns:
        console.print(
            "membership: probability that a task is a member, which shares sigma_h and edges with the "
            "others. leave-one-out: log density of a task's data given all other tasks minus that of "
            "the single task, per row; inaccurate if it rests on few draws."
        )
    console.print(
        "The data allow both directions of an edge whose direction was chosen; it has the one that "
        f"agrees best with the other tasks. All edges: {escape(str(Path(folder) / 'edges.tsv'))}"
    )


def _grid(columns: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None) -> Grid:
    table = Grid(title=title, title_justify="left")
    for number, heading in enumerate(columns):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
