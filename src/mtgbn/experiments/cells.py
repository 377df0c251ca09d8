"""One cell: simulate data, fit, compare with the truth. A cell gives the same row on every machine."""

import time
import warnings
from typing import Any

import numpy as np

from mtgbn.errors import ConvergenceWarning
from mtgbn.experiments.designs import EXPERIMENTS, METHODS, Cell, Experiment
from mtgbn.graphs import cpdag
from mtgbn.graphs.dags import moral_graph
from mtgbn.metrics import (
    Comparison,
    compare_adjacencies,
    compare_arrowheads,
    structural_hamming_distance,
)

# Values of a cell by column: numbers, text, or None where there is no value.
Row = dict[str, Any]

_MEASURES = ("error", "distance", "precision", "recall", "f_score")
# These measures have no value if a graph is empty; the number of such tasks is a measure, too.
_SOMETIMES_UNDEFINED = ("precision", "recall", "f_score")


def measures_of(experiment: Experiment) -> tuple[str, ...]:
    """Names of the measures that `measure` returns."""
    views = ["skeleton", "moral"]
    if experiment.has_directions:
        views += ["arrowhead", "cpdag_arrowhead"]
    names = [f"{view}_{measure}" for view in views for measure in _MEASURES]
    names += [f"{view}_{measure}_undefined" for view in views for measure in _SOMETIMES_UNDEFINED]
    if experiment.has_directions:
        names += ["shd", "cpdag_shd"]
    return tuple(names)


def measure(experiment: Experiment, graphs: np.ndarray, truths: np.ndarray) -> Row:
    """Means over tasks; tasks in which a measure has no value are left out of its mean, and counted.

    ``skeleton``: adjacencies. ``moral``: adjacencies of the learned graph's moral graph, compared with
    the truth if the truth is undirected, else with the moral graph of the truth. ``arrowhead``: directed
    edges of the DAGs. ``cpdag_arrowhead``: compelled edges. ``shd``, ``cpdag_shd``: structural Hamming
    distance of the DAGs and of the CPDAGs.
    """
    pairs = list(zip(graphs, truths, strict=True))
    has_directions = experiment.has_directions
    views: dict[str, list[Comparison]] = {
        "skeleton": [compare_adjacencies(*pair) for pair in pairs],
        "moral": [
            compare_adjacencies(moral_graph(graph), moral_graph(truth) if has_directions else truth)
            for graph, truth in pairs
        ],
    }
    distances = {}
    if has_directions:
        classes = [(cpdag(graph), cpdag(truth)) for graph, truth in pairs]
        views["arrowhead"] = [compare_arrowheads(*pair) for pair in pairs]
        views["cpdag_arrowhead"] = [compare_arrowheads(*pair) for pair in classes]
        for name, compared in (("shd", pairs), ("cpdag_shd", classes)):
            counts = [structural_hamming_distance(*pair) for pair in compared]
            distances[name] = float(np.mean(counts))
    row: Row = {}
    for view, comparisons in views.items():
        for name in _MEASURES:
            values = np.array([getattr(each, name) for each in comparisons], dtype=float)
            known = values[~np.isnan(values)]
            row[f"{view}_{name}"] = float(known.mean()) if known.size else None
            if name in _SOMETIMES_UNDEFINED:
                row[f"{view}_{name}_undefined"] = int(values.size - known.size)
    row |= distances
    return {name: row[name] for name in measures_of(experiment)}


def run_cell(cell: Cell, seed: int) -> tuple[Row, float]:
    """Compute a cell; returns its row and the CPU seconds of the fit.

    The data depend only on the setting, the seed of the experiment and the repetition, so that all
    methods get the same data, and data of settings that differ in one number have as much in common as
    possible.
    """
    experiment = EXPERIMENTS[cell.experiment]
    data_seed, fit_seed = np.random.SeedSequence([seed, cell.repetition]).spawn(2)
    simulation = experiment.simulate(cell.setting, np.random.default_rng(data_seed))
    estimator: Any = METHODS[cell.method](simulation.tasks.n_variables)
    estimator.set_params(n_jobs=1, random_state=fit_seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row has a column for it
        estimator.fit(simulation.tasks)
    seconds = time.process_time() - start
    row: Row = {**cell.setting, "repetition": cell.repetition, "method": cell.method}
    row |= measure(experiment, estimator.graphs_, simulation.adjacencies)
    row["converged"] = int(getattr(estimator, "converged_", True))
    return row, seconds
