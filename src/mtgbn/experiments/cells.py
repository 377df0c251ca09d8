"""One cell: simulate, fit, compare with the truth. The same cell gives the same row anywhere."""

import time
import warnings

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

__all__ = ["Row", "measure", "measures_of", "run_cell"]

Row = dict[str, float | int | str | None]

_MEASURES = ("error", "distance", "precision", "recall", "f_score")
# These have no value where a graph is empty; the tasks of which that is true are counted.
_SOMETIMES_UNDEFINED = ("precision", "recall", "f_score")


def measures_of(experiment: Experiment) -> tuple[str, ...]:
    """Names of what `measure` returns."""
    views = ["skeleton", "moral"]
    if experiment.has_directions:
        views += ["arrowhead", "cpdag_arrowhead"]
    names = [f"{view}_{measure}" for view in views for measure in _MEASURES]
    names += [f"{view}_{measure}_undefined" for view in views for measure in _SOMETIMES_UNDEFINED]
    if experiment.has_directions:
        names += ["shd", "cpdag_shd"]
    return tuple(names)


def measure(experiment: Experiment, graphs: np.ndarray, truths: np.ndarray) -> Row:
    """Means over tasks; those without a value are left out of a mean, and counted.

    ``skeleton``: adjacencies. ``moral``: adjacencies of the moral graph of what was learned, with the
    truth if that is undirected, else with its moral graph. ``arrowhead``: directed edges of the DAGs.
    ``cpdag_arrowhead``: compelled edges. shd: structural Hamming distance, of DAGs and of CPDAGs.
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
    """The row of a cell, and the CPU seconds that its fit took.

    Data depend on the seed and the repetition alone, so that all methods have the same, and settings
    that differ in one number have as much in common as can be.
    """
    experiment = EXPERIMENTS[cell.experiment]
    data_seed, fit_seed = np.random.SeedSequence([seed, cell.repetition]).spawn(2)
    simulation = experiment.simulate(cell.setting, np.random.default_rng(data_seed))
    learner = METHODS[cell.method](simulation.tasks.n_variables)
    learner.set_params(n_jobs=1, random_state=fit_seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # thousands; the row says converged
        learner.fit(simulation.tasks)
    seconds = time.process_time() - start
    row: Row = {**cell.setting, "repetition": cell.repetition, "method": cell.method}
    row |= measure(experiment, learner.graphs_, simulation.adjacencies)
    row["converged"] = int(getattr(learner, "converged_", True))
    return row, seconds
