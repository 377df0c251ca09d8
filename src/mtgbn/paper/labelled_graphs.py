"""One DAG per task, in whatever form it comes, as a stack in the order of the tasks and variables."""

from collections.abc import Mapping

import numpy as np

from mtgbn.errors import GraphError, InputError
from mtgbn.graphs import from_networkx
from mtgbn.graphs.dags import find_cycle
from mtgbn.tasks import Tasks


def stack_graphs(graphs, tasks: Tasks) -> np.ndarray:
    """Return adjacencies (m, p, p); ``adjacencies[t, i, j]`` means i -> j in task t.

    Parameters
    ----------
    graphs : array (m, p, p), list of graphs or dict of graphs by task name
        A graph is an array (p, p), a DataFrame with the variables as index and columns (rows point to
        columns), or a networkx DiGraph over the variables. Labels are matched, never positions.
    tasks : Tasks
    """
    if isinstance(graphs, Mapping):
        by_name = {str(name): graph for name, graph in graphs.items()}
        if set(by_name) != set(tasks.names):
            odd = sorted(set(by_name) ^ set(tasks.names))
            raise InputError(
                f"the graphs must be those of the tasks by name; {odd[0]!r} is not in both"
            )
        graphs = [by_name[name] for name in tasks.names]
    if isinstance(graphs, np.ndarray) and graphs.ndim != 3:
        raise InputError(
            f"adjacencies must have shape ({len(tasks)}, {tasks.n_variables}, {tasks.n_variables}), "
            f"one DAG per task; got {graphs.shape}"
        )
    graphs = list(graphs)
    if len(graphs) != len(tasks):
        raise InputError(
            f"there are {len(graphs)} graphs for {len(tasks)} tasks; give one per task"
        )
    return np.array(
        [
            _adjacency(graph, tasks.variables, name)
            for graph, name in zip(graphs, tasks.names, strict=True)
        ]
    )


def _adjacency(graph, variables: tuple[str, ...], task: str) -> np.ndarray:
    p = len(variables)
    try:
        if hasattr(graph, "nodes"):
            adjacency, _ = from_networkx(graph, variables)
        elif hasattr(graph, "columns"):
            adjacency = _from_frame(graph, variables)
        else:
            adjacency = np.asarray(graph)
        if adjacency.shape != (p, p):
            raise InputError(f"its adjacency must have shape ({p}, {p}); got {adjacency.shape}")
        cycle = find_cycle(adjacency)
        if cycle:
            named = " -> ".join(variables[node] for node in [*cycle, cycle[0]])
            raise GraphError(f"a DAG is needed, but there is the cycle {named}")
    except (GraphError, InputError) as error:
        raise type(error)(f"the graph of task {task!r}: {error}") from None
    return adjacency.astype(bool)


def _from_frame(frame, variables: tuple[str, ...]) -> np.ndarray:
    for axis in ("index", "columns"):
        labels = [str(label) for label in getattr(frame, axis)]
        if sorted(labels) != sorted(variables):
            odd = sorted(set(labels) ^ set(variables))
            raise InputError(
                f"the {axis} of its DataFrame must be the variables; {odd[0]!r} is not in both"
                if odd
                else f"the {axis} of its DataFrame names a variable twice"
            )
    rows = {str(label): position for position, label in enumerate(frame.index)}
    columns = {str(label): position for position, label in enumerate(frame.columns)}
    return np.asarray(frame)[
        np.ix_([rows[name] for name in variables], [columns[name] for name in variables])
    ]
