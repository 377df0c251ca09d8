"""`mtgbn describe`: are these data what mtgbn can use?"""

import warnings

import numpy as np
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from mtgbn.errors import CollinearityWarning
from mtgbn.tasks import Tasks
from mtgbn.tasks.names import listed


def run_describe(data: str, options: dict) -> None:
    """Read, check, print."""
    console = Console(emoji=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        tasks = Tasks.from_any(data, **options)
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
    for note in _notes(tasks):
        console.print(f"Note: {escape(note)}")


def escape(text: str) -> str:
    """Show names as they are: no markup, no terminal codes."""
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return escape_markup(printable)


def _notes(tasks: Tasks) -> list[str]:
    """What is allowed, but perhaps not meant."""
    notes = []
    few = [name for name, n in zip(tasks.names, tasks.ns, strict=True) if n < tasks.n_variables]
    if few:
        notes.append(
            f"{len(few)} of {len(tasks)} tasks have fewer degrees of freedom than variables: "
            f"{listed(few)}"
        )
    same = {}
    for name, scatter in zip(tasks.names, tasks.scatters, strict=True):
        same.setdefault(scatter.tobytes(), []).append(name)
    notes += [f"{listed(names)} hold the same data" for names in same.values() if len(names) > 1]
    # A column that counts 0, 1, 2, ... has this sum of squares, whatever its start.
    rows = tasks.n_rows.astype(float)
    counting = rows * (rows**2 - 1) / 12
    diagonals = np.einsum("tii->ti", tasks.scatters)
    for j in np.flatnonzero(np.all(np.isclose(diagonals, counting[:, None], rtol=1e-9), axis=0)):
        notes.append(f"{tasks.variables[j]!r} seems to count the rows; is it a variable?")
    total, p = tasks.ns.sum(), tasks.n_variables
    if total <= 2 * p:
        notes.append(
            f"the tasks have {total:g} degrees of freedom together; more than {2 * p}, twice the number "
            "of variables, are needed to be sure of a shared sigma_h"
        )
    return notes
