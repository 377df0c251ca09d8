"""What was learned as tables of text: every edge, and every pair that may be one."""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.files import table_text
from mtgbn.graphs.equivalence import restricted_cpdag
from mtgbn.learn import AVG, MTGBN, SIG

__all__ = [
    "SharedEdge",
    "edge_directions",
    "edge_table",
    "probability_table",
    "shared_edge_table",
    "shared_edges",
]

# Pairs whose adjacency probability is not above this are left out: with many variables they are most.
_SMALLEST_PROBABILITY = 0.01


class SharedEdge(NamedTuple):
    """A pair that at least one task joins; it points as most of them have it."""

    source: int
    target: int
    forward: int
    """Tasks with source -> target."""
    backward: int
    """Tasks with target -> source."""
    coefficient: float
    """Mean over the tasks with source -> target."""
    probability: float | None
    """Mean over all tasks of the adjacency probability; only of a posterior estimate."""


def shared_edges(estimator: MTGBN | SIG | AVG) -> list[SharedEdge]:
    """Every pair that a task joins, those of most tasks first."""
    graphs = estimator.graphs_
    probabilities = getattr(estimator, "adjacency_probabilities_", None)
    joined = np.triu((graphs | graphs.transpose(0, 2, 1)).sum(axis=0), 1)
    pairs = np.argwhere(joined)
    order = np.argsort(-joined[pairs[:, 0], pairs[:, 1]], kind="stable")
    found = []
    for i, j in pairs[order].tolist():
        forward, backward = int(graphs[:, i, j].sum()), int(graphs[:, j, i].sum())
        if forward < backward:
            i, j, forward, backward = j, i, backward, forward
        coefficient = float(estimator.coefficients_[graphs[:, i, j], i, j].mean())
        mean = None if probabilities is None else float(probabilities[:, i, j].mean())
        found.append(SharedEdge(i, j, forward, backward, coefficient, mean))
    return found


def shared_edge_table(estimator: MTGBN | SIG | AVG) -> str:
    """`shared_edges` as TSV, with a header."""
    columns = ["source", "target", "tasks", "share", "other_way", "mean_coefficient"]
    if hasattr(estimator, "adjacency_probabilities_"):
        columns.append("mean_adjacency_probability")
    lines = [columns]
    for edge in shared_edges(estimator):
        tasks = edge.forward + edge.backward
        names = (estimator.variables_[edge.source], estimator.variables_[edge.target])
        numbers = [tasks / len(estimator.graphs_), edge.backward, edge.coefficient]
        if edge.probability is not None:
            numbers.append(edge.probability)
        lines.append([*names, str(tasks), *map(repr, numbers)])
    return table_text(lines)


def edge_directions(estimator: MTGBN | SIG | AVG) -> np.ndarray:
    """Why every edge points as it does, (m, p, p); empty text where there is none.

    ``compelled``: the data exclude the other direction. ``known``: prior knowledge does, by itself or
    together with what it says of other edges. ``chosen``: the
    edge is reversible, the data say nothing about its direction, and of the graphs that are equally
    probable the one was taken that agrees best with the other tasks (with prior knowledge: the one that
    the search found).
    """
    reversible = estimator.cpdags_.transpose(0, 2, 1)
    still = reversible
    if estimator.knowledge is not None:
        allowed = estimator.resolved_knowledge().allowed
        still = np.array([restricted_cpdag(graph, allowed).T for graph in estimator.graphs_])
    reasons = np.where(reversible, np.where(still, "chosen", "known"), "compelled")
    return np.where(estimator.graphs_, reasons, "")


def edge_table(estimator: MTGBN | SIG | AVG) -> str:
    """All edges of all tasks as TSV, one line each, with a header.

    The column ``direction`` is explained at `edge_directions`. A posterior estimate adds
    ``probability``, that the edge is there with this direction, and ``adjacency_probability``, that it
    is there with either. Directions are chosen all together, so that a single arrow can be less probable
    than its reverse.
    """
    directions = edge_directions(estimator)
    joined = (estimator.graphs_ | estimator.graphs_.transpose(0, 2, 1)).sum(axis=0)
    columns = ["task", "source", "target", "coefficient", "direction", "tasks_with_edge"]
    added = []
    if hasattr(estimator, "edge_probabilities_"):
        columns += ["probability", "adjacency_probability"]
        added = [estimator.edge_probabilities_, estimator.adjacency_probabilities_]
    lines = [columns]
    for t, i, j in np.argwhere(estimator.graphs_).tolist():
        lines.append(
            [
                *_names(estimator, t, i, j),
                repr(float(estimator.coefficients_[t, i, j])),
                str(directions[t, i, j]),
                str(int(joined[i, j])),
                *(repr(float(array[t, i, j])) for array in added),
            ]
        )
    return table_text(lines)


def probability_table(estimator: MTGBN) -> str:
    """Edge probabilities of a posterior estimate as TSV, with a header.

    One line per task and pair (source before target in the order of the variables) whose adjacency
    probability is above 0.01: the probabilities of source -> target, of target -> source and of either,
    and split R-hat and effective sample size of the last.
    """
    either = estimator.adjacency_probabilities_
    arrays = {
        "probability_forward": estimator.edge_probabilities_,
        "probability_backward": estimator.edge_probabilities_.transpose(0, 2, 1),
        "adjacency_probability": either,
        "rhat": estimator.edge_diagnostics_.rhat,
        "ess": estimator.edge_diagnostics_.ess,
    }
    lines = [["task", "source", "target", *arrays]]
    for t, i, j in np.argwhere(np.triu(either > _SMALLEST_PROBABILITY, 1)).tolist():
        numbers = (repr(float(array[t, i, j])) for array in arrays.values())
        lines.append([*_names(estimator, t, i, j), *numbers])
    return table_text(lines)


def _names(estimator, t: int, i: int, j: int) -> list[str]:
    return [estimator.task_names_[t], estimator.variables_[i], estimator.variables_[j]]
