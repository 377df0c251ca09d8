"""`mtgbn demo`: the main job on a simulated example, with the truth beside it."""

import time
import warnings

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from mtgbn.errors import ConvergenceWarning
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.metrics import compare_adjacencies
from mtgbn.simulate import Simulation, simulate_tasks

_METHODS = ((SIG, "each task alone"), (AVG, "all tasks as one"), (MTGBN, "all tasks together"))
_MOST_EDGES = 12


def run_demo(n_tasks: int, n_variables: int, n_rows: int, seed: int) -> None:
    """Simulate, fit, print."""
    console = Console()
    simulation = simulate_tasks(n_tasks, n_variables, n_rows, edge_change=0.3, random_state=seed)
    n_edges = simulation.adjacencies.sum(axis=(1, 2))
    console.print(
        f"Simulated {n_tasks} related tasks: {n_variables} variables, {n_rows} rows and "
        f"{n_edges.min()} to {n_edges.max()} edges each, many too weak to be seen in so few rows."
    )
    table = Table(title="Wrong edges per task, directions left aside", title_justify="left")
    for heading in ("method", "", "missing", "too many", "seconds"):
        table.add_column(heading, justify="left" if heading in ("method", "") else "right")
    for kind, words in _METHODS:
        start = time.perf_counter()
        with Progress(console=console, transient=True) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # they are printed below
            bar = progress.add_task(kind.__name__, total=None)

            def show(what, done, total, bar=bar, progress=progress, name=kind.__name__):
                progress.update(bar, description=f"{name}: {what}", completed=done, total=total)

            learner = kind(random_state=seed, n_jobs=-1).fit(simulation.tasks, progress=show)
        wrong = [
            compare_adjacencies(graph, truth)
            for graph, truth in zip(learner.graphs_, simulation.adjacencies, strict=True)
        ]
        table.add_row(
            kind.__name__,
            words,
            f"{np.mean([w.false_negatives for w in wrong]):.1f}",
            f"{np.mean([w.false_positives for w in wrong]):.1f}",
            f"{time.perf_counter() - start:.1f}",
        )
    console.print(table)
    if learner.converged_:
        console.print(
            f"MTGBN converged after {learner.n_iter_} iterations: {learner.stop_reason_}. The first run "
            "ever also compiles."
        )
    for warning in learner.warnings_:
        console.print(f"Warning: {warning}.")
    for line in learner.relatedness_.in_words():
        console.print(line)
    console.print(_edges(learner, simulation))


def _edges(learner: MTGBN, simulation: Simulation) -> Table:
    """The pairs that most tasks join, with how many truly do."""
    table = Table(title="Most common edges", title_justify="left")
    for heading in ("pair", "tasks, learned", "truth", "mean coefficient"):
        table.add_column(heading, justify="left" if heading == "pair" else "right")
    joined, true = (
        np.triu(graphs | graphs.transpose(0, 2, 1)).sum(axis=0)
        for graphs in (learner.graphs_, simulation.adjacencies)
    )
    rows, columns = np.nonzero(joined)
    order = np.argsort(-joined[rows, columns], kind="stable")[:_MOST_EDGES]
    for i, j in zip(rows[order], columns[order], strict=True):
        coefficients = learner.coefficients_[:, i, j] + learner.coefficients_[:, j, i]
        table.add_row(
            f"{learner.variables_[i]} - {learner.variables_[j]}",
            f"{joined[i, j]} of {len(learner.graphs_)}",
            str(true[i, j]),
            f"{coefficients[coefficients != 0].mean():+.2f}",
        )
    return table
