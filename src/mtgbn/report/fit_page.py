"""The page about a fit: warnings, sentences, networks, edges, diagnostics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.report.brain_regions import labels_of, map_positions
from mtgbn.report.commands import fit_command
from mtgbn.report.page import Report, brief, render, sentence
from mtgbn.results.estimators import FittedEstimator
from mtgbn.results.fit_tables import edge_table, history_table, shared_edge_table, task_table
from mtgbn.results.summary import fit_in_words

# A page with more edges would take a browser long to open; the other tasks are in edges.tsv only.
_MOST_EDGES = 100_000

# A line of a network has an arrowhead if this share supports its direction: of the draws with the edge,
# or, in the shared network of a point estimate, of the tasks with the edge.
LEAST_SUPPORT = 0.8

_DIAGNOSTICS = {
    "rhat": "largest R-hat",
    "ess": "smallest effective sample size",
    "acceptance": "mean acceptance",
    "n_divergent": "divergent trajectories",
}


def fit_report(estimator: FittedEstimator, about: Mapping[str, Any]) -> Report:
    """Make the page about a fitted estimator; ``about`` is what result.json says about it."""
    reading = about.get("reading")
    graphs = estimator.graphs_
    m, p = graphs.shape[:2]
    # The first tasks that have no more than _MOST_EDGES edges in all; at least one.
    total = graphs.sum(axis=(1, 2)).cumsum()
    n_shown = max(1, int(np.searchsorted(total, _MOST_EDGES, side="right")))
    left_out = (
        f"The page has the networks of the first {n_shown} of {m} tasks, so that it opens quickly; the "
        "others are in edges.tsv. The shared network, the heat map and all sums are of all tasks."
    )
    counts = graphs.sum(axis=0)
    edges, tasks = edge_table(estimator, n_shown), task_table(estimator)
    history = history_table(estimator)
    data = {
        "variables": list(estimator.variables_),
        "positions": map_positions(estimator.variables_),
        "tasks": list(estimator.task_names_[:n_shown]),
        "counts": {
            "cells": [[i, j, int(counts[i, j])] for i, j in np.argwhere(counts).tolist()],
            "most": m,
        },
        "tables": {
            "edges": edges.tsv,
            "shared": shared_edge_table(estimator).tsv,
            "tasks": tasks.tsv,
            "history": None if history is None else history.tsv,
        },
        "rhat": _rhat_histogram(estimator),
        "least_support": LEAST_SUPPORT,
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
        left_out=left_out if n_shown < m else None,
        regions=labels_of(estimator.variables_),
        n_edges=int(graphs.sum()),
        n_tasks=m,
        least_support=LEAST_SUPPORT,
        edge_columns=edges.columns,
        task_columns=tasks.columns,
        is_posterior=hasattr(estimator, "edge_probabilities_"),
        has_relatedness=hasattr(estimator, "relatedness_"),
        diagnostics=[
            (_DIAGNOSTICS.get(name, name.replace("_", " ")), value)
            for name, value in getattr(estimator, "diagnostics_", {}).items()
        ],
        settings=_settings(about["settings"]),
        versions=list(about.get("versions", {}).items()),
        command=None if reading is None else fit_command(estimator, reading),
        python=repr(_with_seed(estimator)) + ".fit(tasks)",
    )


def _notes(estimator: FittedEstimator) -> list[str]:
    """Remarks on results that are valid but unusual."""
    counts = estimator.graphs_.sum(axis=(1, 2))
    notes = []
    if len(counts) == 1:
        notes.append(
            "There is only one task, so that no information could be shared between tasks."
        )
    empty = [name for name, n in zip(estimator.task_names_, counts, strict=True) if n == 0]
    if len(empty) == len(counts):
        notes.append(
            "No edges were found in any task: the data do not show that any variables depend on each "
            "other."
        )
    elif empty:
        some = listed(empty, quote=False)
        notes.append(f"No edges were found in {len(empty)} of {len(counts)} tasks: {some}.")
    return notes


def _facts(estimator: FittedEstimator) -> list[tuple[str, str]]:
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
    if hasattr(estimator, "converged_"):
        facts.append(("converged", "yes" if estimator.converged_ else "no"))
    return facts


def _rhat_histogram(estimator: FittedEstimator) -> list[list[Any]] | None:
    """Intervals of R-hat, each with the number of adjacencies in it."""
    if not hasattr(estimator, "edge_diagnostics_"):
        return None
    pairs = np.triu_indices(len(estimator.variables_), 1)
    rhat = estimator.edge_diagnostics_.rhat[:, pairs[0], pairs[1]].ravel()
    limits = [-np.inf, 1.01, 1.02, 1.05, 1.1, 1.2, np.inf]
    words = ["up to 1.01", "1.02", "1.05", "1.1", "1.2", "above"]
    counts = np.histogram(rhat[np.isfinite(rhat)], limits)[0]
    return [[word, int(count)] for word, count in zip(words, counts, strict=True)]


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The settings for the page; result.json has the place of a matrix instead of the matrix."""

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return ", ".join(brief(shown(part)) for part in value)
        is_matrix = isinstance(value, dict) and "array" in value
        return "a matrix (networks.npz)" if is_matrix else value

    return [(name, shown(value)) for name, value in settings.items()]


def _with_seed(estimator: FittedEstimator) -> FittedEstimator:
    """An estimator with the same settings and the seed that was used, which repeats the fit."""
    settings = {**estimator.get_params(), "random_state": estimator.random_state_}
    return type(estimator)(**{name: settings[name] for name in settings if name != "n_jobs"})
