"""The tables of a fit: edges, probabilities of pairs, shared edges, tasks, EM iterations.

Each column stands in one place, with its name, its description and the function that gives its values.
`save_result` writes these tables, the report shows them, and both follow when a column is added here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.graphs import restricted_cpdag
from mtgbn.results.estimators import FittedEstimator

__all__ = [
    "SharedEdge",
    "edge_directions",
    "edge_table",
    "history_table",
    "probability_table",
    "shared_edge_table",
    "shared_edges",
    "task_table",
]

# With many variables, most pairs have an adjacency probability near 0; probabilities.tsv omits them.
_SMALLEST_PROBABILITY = 0.01

# Above this Pareto shape, a leave-one-out estimate is unreliable (Vehtari et al.).
_UNRELIABLE_PARETO = 0.7


class _ArrayColumn(NamedTuple):
    """A column of a table with one row per task and pair of variables."""

    name: str
    description: str
    values: Callable[[FittedEstimator], np.ndarray | None]
    """Array (m, p, p) with the cell of i -> j in task t at [t, i, j], or None to omit the column."""


def _along(names: Sequence[str], axis: int) -> np.ndarray:
    """Names along one of the axes (t, i, j), to be broadcast along the others."""
    return np.array(names, dtype=object).reshape([-1 if each == axis else 1 for each in range(3)])


def edge_directions(estimator: FittedEstimator) -> np.ndarray:
    """Why each edge points as it does, (m, p, p); empty text where there is no edge.

    ``compelled``: the data exclude the other direction. ``known``: prior knowledge excludes the other
    direction, alone or through what it says about other edges. ``chosen``: the edge is reversible, so
    that the data say nothing about its direction; of the equally probable graphs, the one was taken that
    agrees best with the other tasks (with prior knowledge: the one that the search found).
    """
    reversible = estimator.cpdags_.transpose(0, 2, 1)
    still_reversible = reversible
    if estimator.knowledge is not None:
        allowed = estimator.resolved_knowledge().allowed
        still_reversible = np.array(
            [restricted_cpdag(graph, allowed).T for graph in estimator.graphs_]
        )
    reasons = np.where(reversible, np.where(still_reversible, "chosen", "known"), "compelled")
    return np.where(estimator.graphs_, reasons, "")


def _joined(estimator: FittedEstimator) -> np.ndarray:
    """How many tasks have an edge between i and j, in either direction, (p, p)."""
    return (estimator.graphs_ | estimator.graphs_.transpose(0, 2, 1)).sum(axis=0)


def _edge_probabilities(estimator: FittedEstimator) -> np.ndarray | None:
    return getattr(estimator, "edge_probabilities_", None)


def _adjacency_probabilities(estimator: FittedEstimator) -> np.ndarray | None:
    return getattr(estimator, "adjacency_probabilities_", None)


_PLACE = (
    _ArrayColumn("task", "name of the task", lambda fit: _along(fit.task_names_, 0)),
    _ArrayColumn("source", "variable i of i -> j", lambda fit: _along(fit.variables_, 1)),
    _ArrayColumn("target", "variable j of i -> j", lambda fit: _along(fit.variables_, 2)),
)

EDGE_COLUMNS = (
    *_PLACE,
    _ArrayColumn(
        "coefficient",
        "coefficient of the source in the regression of the target on its parents",
        lambda fit: fit.coefficients_,
    ),
    _ArrayColumn(
        "direction",
        "compelled if the data exclude the other direction; known if prior knowledge excludes it; "
        "chosen if the edge is reversible, and then it points as agrees best with the other tasks",
        edge_directions,
    ),
    _ArrayColumn(
        "tasks_with_edge",
        "how many tasks have an edge between source and target, in either direction",
        lambda fit: _joined(fit)[None],
    ),
    _ArrayColumn(
        "probability",
        "posterior probability of the edge with this direction; directions are chosen jointly, so that "
        "it can be smaller than the probability of the opposite direction",
        _edge_probabilities,
    ),
    _ArrayColumn(
        "adjacency_probability",
        "posterior probability of an edge between source and target, in either direction",
        _adjacency_probabilities,
    ),
)

PROBABILITY_COLUMNS = (
    *_PLACE,
    _ArrayColumn(
        "probability_forward", "posterior probability of source -> target", _edge_probabilities
    ),
    _ArrayColumn(
        "probability_backward",
        "posterior probability of target -> source",
        lambda fit: fit.edge_probabilities_.transpose(0, 2, 1),
    ),
    _ArrayColumn(
        "adjacency_probability", "posterior probability of either", _adjacency_probabilities
    ),
    _ArrayColumn("rhat", "split R-hat of the adjacency", lambda fit: fit.edge_diagnostics_.rhat),
    _ArrayColumn(
        "ess", "effective sample size of the adjacency", lambda fit: fit.edge_diagnostics_.ess
    ),
)


def edge_table(estimator: FittedEstimator, n_tasks: int | None = None) -> DescribedTable:
    """Every edge of every task, or of the first ``n_tasks`` tasks: ``edges.tsv``."""
    return _array_table(
        "edges", "Every edge of every task", EDGE_COLUMNS, estimator, estimator.graphs_[:n_tasks]
    )


def probability_table(estimator: FittedEstimator) -> DescribedTable:
    """Every pair whose adjacency probability is above 0.01: ``probabilities.tsv`` of a posterior."""
    either = estimator.adjacency_probabilities_
    return _array_table(
        "probabilities",
        "Every task and pair whose adjacency probability is above 0.01",
        PROBABILITY_COLUMNS,
        estimator,
        np.triu(either > _SMALLEST_PROBABILITY, 1),
    )


def _array_table(
    name: str,
    description: str,
    columns: Sequence[_ArrayColumn],
    estimator: FittedEstimator,
    rows: np.ndarray,
) -> DescribedTable:
    """One row for each [t, i, j] at which ``rows`` is true."""
    places = tuple(np.argwhere(rows).T)
    described, cells = {}, []
    for column in columns:
        values = column.values(estimator)
        if values is not None:
            described[column.name] = column.description
            cells.append(np.broadcast_to(values, estimator.graphs_.shape)[places].tolist())
    return table_of(name, description, described, zip(*cells, strict=True), "nan")


class SharedEdge(NamedTuple):
    """A pair that at least one task joins, in the direction that most of these tasks have."""

    source: str
    target: str
    n_forward: int
    """Tasks with source -> target."""
    n_backward: int
    """Tasks with target -> source."""
    share: float
    """Share of all tasks that have the edge, in either direction."""
    coefficient: float
    """Mean over the tasks with source -> target."""
    probability: float | None
    """Mean adjacency probability over all tasks; only of a posterior estimate."""

    @property
    def n_tasks(self) -> int:
        """Tasks that have the edge, in either direction."""
        return self.n_forward + self.n_backward


def shared_edges(estimator: FittedEstimator) -> list[SharedEdge]:
    """Every pair that a task joins, the pairs of most tasks first."""
    graphs, names = estimator.graphs_, estimator.variables_
    probabilities = _adjacency_probabilities(estimator)
    joined = np.triu(_joined(estimator), 1)
    pairs = np.argwhere(joined)
    order = np.argsort(-joined[pairs[:, 0], pairs[:, 1]], kind="stable")
    found = []
    for i, j in pairs[order].tolist():
        if graphs[:, i, j].sum() < graphs[:, j, i].sum():
            i, j = j, i
        found.append(
            SharedEdge(
                source=names[i],
                target=names[j],
                n_forward=int(graphs[:, i, j].sum()),
                n_backward=int(graphs[:, j, i].sum()),
                share=int(joined[min(i, j), max(i, j)]) / len(graphs),
                coefficient=float(estimator.coefficients_[graphs[:, i, j], i, j].mean()),
                probability=None if probabilities is None else float(probabilities[:, i, j].mean()),
            )
        )
    return found


def shared_edge_table(estimator: FittedEstimator) -> DescribedTable:
    """`shared_edges` as a table."""
    columns = {
        "source": "variable i of i -> j",
        "target": "variable j of i -> j",
        "tasks": "tasks that have the edge, in either direction",
        "share": "the same, as a share of all tasks",
        "other_way": "tasks with target -> source",
        "mean_coefficient": "mean coefficient over the tasks with source -> target",
    }
    rows: list[list[object]] = [
        [
            *(each.source, each.target, each.n_tasks),
            *(each.share, each.n_backward, each.coefficient),
        ]
        for each in shared_edges(estimator)
    ]
    if _adjacency_probabilities(estimator) is not None:
        columns["mean_adjacency_probability"] = "adjacency probability, mean over all tasks"
        for row, each in zip(rows, shared_edges(estimator), strict=True):
            row.append(each.probability)
    description = "Every pair of variables that at least one task joins"
    return table_of("shared_edges", description, columns, rows, "nan")


def task_table(estimator: FittedEstimator) -> DescribedTable:
    """Every task, in numbers that a person can read."""
    columns = {
        "task": "name of the task",
        "n": "degrees of freedom of its scatter",
        "edges": "edges of its network",
        "of which chosen": "edges whose direction was chosen",
    }
    cells: list[Iterable[object]] = [
        estimator.task_names_,
        [f"{n:g}" for n in estimator.tasks_.ns],
        estimator.graphs_.sum(axis=(1, 2)),
        (edge_directions(estimator) == "chosen").sum(axis=(1, 2)),
    ]
    if hasattr(estimator, "relatedness_"):
        found = estimator.relatedness_
        columns["membership"] = "probability that the task shares sigma_h and edges with the others"
        columns["leave-one-out"] = (
            "how much the other tasks help to predict its data (log density per row, minus that of the "
            "single task); rough if few draws determine it"
        )
        cells += [
            [f"{probability:.2f}" for probability in estimator.membership_],
            [
                f"{value:+.3f}{' (rough)' * bool(shape > _UNRELIABLE_PARETO)}"
                for value, shape in zip(found.leave_one_out, found.pareto, strict=True)
            ],
        ]
    return table_of("tasks", "Every task", columns, zip(*cells, strict=True))


def history_table(estimator: FittedEstimator) -> DescribedTable | None:
    """EM, iteration by iteration; None if there was no EM."""
    history = getattr(estimator, "history_", ())
    if not history:
        return None
    columns = {
        "iteration": "number of the EM iteration",
        "q": "mean log joint density of data and graphs after the M-step",
        "gain": "by how much the M-step raised q",
        "gain_error": "Monte Carlo standard error of the gain",
        "tasks_changed": "tasks whose graph changed",
        "edges": "edges of all tasks",
        "draws": "draws of sigma_h",
    }
    rows = ([k, *each] for k, each in enumerate(history, start=1))
    return table_of("history", "EM iterations", columns, rows, "nan")
