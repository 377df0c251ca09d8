"""An order of tasks and variables that the data decide, so that the order they came in cannot matter.

Searches break ties by position and chains of sigma_h walk through coordinates one by one; in a fixed
order the same data give the same result, however their columns and tasks are arranged.
"""

import numpy as np

from mtgbn.graphs import consensus_members
from mtgbn.graphs.consensus import Consensus
from mtgbn.tasks import Tasks

__all__ = ["agreeing_members", "canonical_order"]


def canonical_order(tasks: Tasks) -> tuple[list[int], list[int]]:
    """Positions of the tasks and of the variables in canonical order; ties are broken by name."""
    scales = np.sqrt(np.einsum("tii->ti", tasks.scatters))
    squares = np.square(tasks.scatters / (scales[:, :, None] * scales[:, None]))
    by_variable = _sums(squares.transpose(1, 0, 2).reshape(tasks.n_variables, -1))
    by_task = _sums(squares.reshape(len(tasks), -1))
    sizes = np.log(scales)
    task_order = np.lexsort((tasks.names, _sums(sizes), by_task, tasks.ns))
    variable_order = np.lexsort((tasks.variables, _sums(sizes.T), by_variable))
    return task_order.tolist(), variable_order.tolist()


def agreeing_members(
    cpdags: np.ndarray, order: list[int], weights: np.ndarray | None = None
) -> Consensus:
    """`consensus_members`, with ties broken in a canonical order of the variables."""
    order = np.asarray(order)
    rows, columns = order[:, None], order
    found = consensus_members(
        cpdags[:, rows, columns], None if weights is None else weights[:, rows, columns]
    )
    back = np.argsort(order)
    return found._replace(graphs=found.graphs[:, back[:, None], back], order=order[found.order])


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums over rows, whatever the order of their elements, rounded so that ties are ties."""
    sums = np.sort(np.ascontiguousarray(values), axis=1).sum(axis=1)
    return np.array([float(f"{total:.10g}") for total in sums])
