"""The page about a fit: warnings, words, networks, edges, diagnostics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn._utils.files import table_text
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.report.commands import fit_command
from mtgbn.report.page import Report, render, sentence
from mtgbn.report.places import labels_of, map_positions
from mtgbn.results.summary import fit_in_words, summarise
from mtgbn.results.tables import edge_table, shared_edge_table

__all__ = ["fit_report"]

# Networks of further tasks are left to edges.tsv: a browser should open the page within seconds.
_MOST_EDGES = 100_000

_DIAGNOSTICS = {
    "rhat": "largest R-hat",
    "ess": "smallest effective sample size",
    "acceptance": "mean acceptance",
    "n_divergent": "divergent trajectories",
}


def fit_report(estimator: MTGBN | SIG | AVG, about: Mapping[str, Any] | None = None) -> Report:
    """Make the page about a fitted estimator; ``about`` is what result.json says, if there is one."""
    about = {} if about is None else about
    reading = about.get("reading")
    graphs = estimator.graphs_
    m, p = graphs.shape[:2]
    n_shown = _tasks_to_show(graphs)
    summary = summarise(estimator)
    counts = graphs.sum(axis=0)
    edges = edge_table(estimator)
    if n_shown < m:
        edges = _first_lines(edges, int(graphs[:n_shown].sum()))
    data = {
        "variables": list(estimator.variables_),
        "positions": map_positions(estimator.variables_),
        "tasks": list(estimator.task_names_[:n_shown]),
        "counts": {
            "cells": [[i, j, int(counts[i, j])] for i, j in np.argwhere(counts).tolist()],
            "most": m,
        },
        "tables": {
            "edges": edges,
            "shared": shared_edge_table(estimator),
            "tasks": table_text([summary.tasks.headings, *summary.tasks.rows]),
            "history": _history(estimator),
        },
        "rhat": _rhat_histogram(estimator),
    }
    return render(
        "fit.html",
        data,
        title=f"Networks of {m} task{'s' * (m > 1)} over {p} variables",
        method=type(estimator).__name__,
        converged=getattr(estimator, "converged_", None),
        warnings=[sentence(warning) for warning in getattr(estimator, "warnings_", ())],
        notes=_notes(estimator),
        words=fit_in_words(estimator),
        facts=_facts(estimator),
        left_out=_left_out(m, n_shown),
        regions=labels_of(estimator.variables_),
        n_edges=int(graphs.sum()),
        n_tasks=m,
        is_posterior=hasattr(estimator, "edge_probabilities_"),
        has_relatedness=hasattr(estimator, "relatedness_"),
        diagnostics=_diagnostics(estimator),
        settings=_settings(estimator),
        versions=list(about.get("versions", {}).items()),
        command=None if reading is None else fit_command(estimator, reading),
        python=repr(_with_seed(estimator)) + ".fit(tasks)",
    )


def _tasks_to_show(graphs: np.ndarray) -> int:
    """As many of the first tasks as have no more edges than a page should hold; one at least."""
    total = graphs.sum(axis=(1, 2)).cumsum()
    return max(1, int(np.searchsorted(total, _MOST_EDGES, side="right")))


def _first_lines(table: str, n_rows: int) -> str:
    """The header and some rows; a name may have line breaks, and does not count as several."""
    quoted, seen = False, 0
    for place, character in enumerate(table):
        if character == '"':
            quoted = not quoted
        elif character == "\n" and not quoted:
            seen += 1
            if seen == n_rows + 1:
                return table[: place + 1]
    return table


def _left_out(m: int, n_shown: int) -> str | None:
    if n_shown == m:
        return None
    return (
        f"The page has the networks of the first {n_shown} of {m} tasks, so that it opens quickly; the "
        "others are in edges.tsv. The shared network, the heat map and all sums are of all tasks."
    )


def _notes(estimator) -> list[str]:
    """What a reader should know although nothing is wrong."""
    counts = estimator.graphs_.sum(axis=(1, 2))
    notes = []
    if len(counts) == 1:
        notes.append("There is only one task, so nothing could be borrowed from others.")
    if counts.sum() == 0:
        notes.append(
            "No edges were found, in no task: the data do not show that any variables depend on each "
            "other."
        )
    elif (counts == 0).any():
        empty = [name for name, n in zip(estimator.task_names_, counts, strict=True) if n == 0]
        some = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        notes.append(f"No edges were found in {len(empty)} of {len(counts)} tasks: {some}.")
    return notes


def _facts(estimator) -> list[tuple[str, str]]:
    counts = estimator.graphs_.sum(axis=(1, 2))
    low, high = counts.min(), counts.max()
    ns = estimator.tasks_.ns
    samples = f"{ns.min():.4g}" if ns.min() == ns.max() else f"{ns.min():.4g} to {ns.max():.4g}"
    facts = [
        ("tasks", str(len(counts))),
        ("variables", str(len(estimator.variables_))),
        ("samples n per task", samples),
        ("edges per task", str(low) if low == high else f"{low} to {high}"),
    ]
    if isinstance(estimator, MTGBN):
        facts.append(("converged", "yes" if estimator.converged_ else "no"))
    return facts


def _diagnostics(estimator) -> list[tuple[str, float]]:
    found = getattr(estimator, "diagnostics_", {})
    return [
        (_DIAGNOSTICS.get(name, name.replace("_", " ")), value) for name, value in found.items()
    ]


def _history(estimator) -> str | None:
    """EM's iterations as TSV."""
    history = getattr(estimator, "history_", ())
    if not history:
        return None
    columns = ["iteration", "q", "gain", "gain_error", "tasks_changed", "edges", "draws"]
    return table_text([columns, *([k, *each] for k, each in enumerate(history, start=1))])


def _rhat_histogram(estimator) -> list[list[Any]] | None:
    """How many adjacencies have which R-hat: labels and counts."""
    if not hasattr(estimator, "edge_diagnostics_"):
        return None
    pairs = np.triu_indices(len(estimator.variables_), 1)
    rhat = estimator.edge_diagnostics_.rhat[:, pairs[0], pairs[1]].ravel()
    limits = [-np.inf, 1.01, 1.02, 1.05, 1.1, 1.2, np.inf]
    words = ["up to 1.01", "1.02", "1.05", "1.1", "1.2", "above"]
    counts = np.histogram(rhat[np.isfinite(rhat)], limits)[0]
    return [[word, int(count)] for word, count in zip(words, counts, strict=True)]


def _settings(estimator) -> list[tuple[str, Any]]:
    settings = {**estimator.get_params(), "random_state": estimator.random_state_}
    del settings["n_jobs"]
    rows = []
    for name, value in settings.items():
        if np.ndim(value) == 2:
            value = "a matrix (networks.npz)"
        elif hasattr(value, "to_dict"):
            value = value.to_dict()
        rows.append((name, value))
    return rows


def _with_seed(estimator):
    settings = {**estimator.get_params(), "random_state": estimator.random_state_, "n_jobs": None}
    return type(estimator)(**settings)
