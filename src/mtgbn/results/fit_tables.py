"""The tables of a fit: edges, probabilities of pairs, shared edges, tasks, EM iterations.

Each column stands in one place, with its name, its description and the function that gives its values.
`save_result` writes these tables, the report shows them, and both follow when a column is added here.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.graphs.equivalence import restricted_cpdag
from mtgbn.learn.group_differences import COLUMNS
from mtgbn.results.estimators import FittedEstimator

# With many variables, most pairs have an adjacency probability near 0; probabilities.tsv omits them.
_SMALLEST_PROBABILITY = 0.01

# Above this Pareto shape, a leave-one-out estimate is unreliable (Vehtari et al.).
_UNRELIABLE_PARETO = 0.7


# A column's name, its description, and a function of the fitted estimator that gives an array (m, p, p)
# with the cell of i -> j in task t at [t, i, j], or None if the table is to have no such column.
_Column = tuple[str, str, Callable[[FittedEstimator], np.ndarray | None]]


def _along(names: Sequence[str], axis: int) -> np.ndarray:
    """Names along one of the axes (t, i, j), to be broadcast along the others."""
    return np.array(names, dtype=object).reshape([-1 if each == axis else 1 for each in range(3)])


def edge_directions(estimator: FittedEstimator) -> np.ndarray:
    """Why each edge points as it does, (m, p, p); empty text where there is no edge.

    ``compelled``: the data exclude the other direction. ``known``: prior knowledge excludes the other
    direction, directly or through its rules for other edges. ``chosen``: the edge is reversible, so
    that the data say nothing about its direction; of the equally probable graphs, the one was taken that
    agrees best with the other tasks (with prior knowledge: the one that the search found).
    """
    reversible = estimator.cpdags_.transpose(0, 2, 1)
    still_reversible = reversible
    if getattr(estimator, "knowledge", None) is not None:
        allowed = estimator.resolved_knowledge().allowed
        still_reversible = np.array(
            [restricted_cpdag(graph, allowed).T for graph in estimator.graphs_]
        )
    reasons = np.where(reversible, np.where(still_reversible, "chosen", "known"), "compelled")
    return np.where(estimator.graphs_, reasons, "")


def _joined(estimator: FittedEstimator) -> np.ndarray:
    """How many tasks have an edge between i and j, in either direction, (p, p)."""
    return (estimator.graphs_ | estimator.graphs_.transpose(0, 2, 1)).sum(axis=0)


def _attribute(name: str) -> Callable[[FittedEstimator], np.ndarray | None]:
    return lambda estimator: getattr(estimator, name, None)


_PLACE: tuple[_Column, ...] = (
    ("task", "name of the task", lambda fit: _along(fit.task_names_, 0)),
    ("source", "variable i of i -> j", lambda fit: _along(fit.variables_, 1)),
    ("target", "variable j of i -> j", lambda fit: _along(fit.variables_, 2)),
)
_PROBABILITY = "posterior probability of the edge with this direction"
_ADJACENCY = "posterior probability of an edge between source and target, in either direction"
EDGE_COLUMNS: tuple[_Column, ...] = (
    *_PLACE,
    (
        "coefficient",
        "coefficient of the source in the regression of the target on its parents",
        _attribute("coefficients_"),
    ),
    (
        "direction",
        "compelled if the data exclude the other direction; known if prior knowledge excludes it; "
        "chosen if the edge is reversible, and then it points as agrees best with the other tasks",
        edge_directions,
    ),
    (
        "tasks_with_edge",
        "how many tasks have an edge between source and target, in either direction",
        _joined,
    ),
    ("probability", _PROBABILITY, _attribute("edge_probabilities_")),
    ("adjacency_probability", _ADJACENCY, _attribute("adjacency_probabilities_")),
)
PROBABILITY_COLUMNS: tuple[_Column, ...] = (
    *_PLACE,
    ("probability_forward", _PROBABILITY, _attribute("edge_probabilities_")),
    (
        "probability_backward",
        "posterior probability of the opposite direction",
        lambda fit: fit.edge_probabilities_.transpose(0, 2, 1),
    ),
    ("adjacency_probability", _ADJACENCY, _attribute("adjacency_probabilities_")),
    ("rhat", "split R-hat of the adjacency", lambda fit: fit.edge_diagnostics_.rhat),
    ("ess", "effective sample size of the adjacency", lambda fit: fit.edge_diagnostics_.ess),
)


def edge_table(estimator: FittedEstimator, n_tasks: int | None = None) -> DescribedTable:
    """Every edge of every task, or of the first ``n_tasks`` tasks: ``edges.tsv``."""
    rows = estimator.graphs_[:n_tasks]
    return _array_table("edges", "Every edge of every task", EDGE_COLUMNS, estimator, rows)


def probability_table(estimator: FittedEstimator) -> DescribedTable:
    """Every pair whose adjacency probability is above 0.01: ``probabilities.tsv`` of a posterior."""
    rows = np.triu(estimator.adjacency_probabilities_ > _SMALLEST_PROBABILITY, 1)
    about = f"Every task and pair with an adjacency probability above {_SMALLEST_PROBABILITY}"
    return _array_table("probabilities", about, PROBABILITY_COLUMNS, estimator, rows)


def difference_table(estimator: FittedEstimator) -> DescribedTable:
    """Every pair and whether it is different between the groups: ``differences.tsv``."""
    found = estimator.differences_
    first, second = found.labels
    columns = {"source": "one variable of the pair", "target": "the other variable"}
    text = f"Every pair, {second} minus {first}; the most probable differences first"
    rows = [list(row.values()) for row in found.records]
    return table_of("differences", text, columns | COLUMNS, rows, "nan")


def _array_table(
    name: str,
    description: str,
    columns: Sequence[_Column],
    estimator: FittedEstimator,
    rows: np.ndarray,
) -> DescribedTable:
    """One row for each [t, i, j] at which ``rows`` is true."""
    places = tuple(np.argwhere(rows).T)
    described, cells = {}, []
    for column, text, values_of in columns:
        values = values_of(estimator)
        if values is not None:
            described[column] = text
            cells.append(np.broadcast_to(values, estimator.graphs_.shape)[places].tolist())
    return table_of(name, description, described, zip(*cells, strict=True), "nan")


def shared_edge_table(estimator: FittedEstimator) -> DescribedTable:
    """Every pair that a task joins, in the direction of most tasks; the pairs of most tasks first."""
    columns = {
        "source": "variable i of i -> j",
        "target": "variable j of i -> j",
        "tasks": "tasks that have the edge, in either direction",
        "share": "the same, as a share of all tasks",
        "other_way": "tasks with target -> source",
        "compelled": "share of the tasks with the edge in which the data, or prior knowledge, exclude "
        "target -> source",
        "mean_coefficient": "mean coefficient over the tasks with source -> target",
    }
    probabilities = getattr(estimator, "adjacency_probabilities_", None)
    if probabilities is not None:
        columns["mean_probability"] = "probability of source -> target, mean over all tasks"
        columns["mean_adjacency_probability"] = "adjacency probability, mean over all tasks"
    graphs, names = estimator.graphs_, estimator.variables_
    joined = np.triu(_joined(estimator), 1)
    is_told = np.isin(edge_directions(estimator), ("compelled", "known"))
    pairs = np.argwhere(joined)
    order = np.argsort(-joined[pairs[:, 0], pairs[:, 1]], kind="stable")
    rows = []
    for i, j in pairs[order].tolist():
        n_tasks = int(joined[i, j])
        if graphs[:, i, j].sum() < graphs[:, j, i].sum():
            i, j = j, i
        mean = estimator.coefficients_[graphs[:, i, j], i, j].mean()
        row = [names[i], names[j], n_tasks, n_tasks / len(graphs), graphs[:, j, i].sum()]
        row += [is_told[:, i, j].sum() / n_tasks, mean]
        if probabilities is not None:
            row += [estimator.edge_probabilities_[:, i, j].mean(), probabilities[:, i, j].mean()]
        rows.append(row)
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
