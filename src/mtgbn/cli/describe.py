"""`mtgbn describe`: is this folder what mtgbn can use?"""

import warnings

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mtgbn.errors import CollinearityWarning
from mtgbn.tasks import Tasks


def run_describe(folder: str, standardise: bool) -> None:
    """Read, check, print."""
    console = Console(emoji=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        tasks = Tasks.from_folder(folder, standardise=standardise)
    console.print(f"{len(tasks)} tasks over {tasks.n_variables} variables:")
    console.print(escape(", ".join(tasks.variables)))
    table = Table()
    table.add_column("task")
    table.add_column("rows", justify="right")
    table.add_column("n", justify="right")
    for name, rows, n in zip(tasks.names, tasks.n_rows, tasks.ns, strict=True):
        table.add_row(escape(name), str(rows), f"{n:g}")
    console.print(table)
    for warning in caught:
        console.print(f"Warning: {escape(str(warning.message))}")
