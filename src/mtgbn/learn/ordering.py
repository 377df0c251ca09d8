"""An order of tasks and variables that the data decide, so that the order they came in cannot matter.

Searches break ties by position, and chains walk through coordinates one by one. In a canonical order the
same data give the same result, however their columns and tasks are arranged.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from mtgbn.graphs import consensus_members
from mtgbn.graphs.consensus import Consensus
from mtgbn.tasks import Tasks


class Ordering(NamedTuple):
    """Tasks in canonical order, and the way back into the user's order.

    Attributes
    ----------
    tasks : Tasks
        In canonical order.
    task_order, variable_order : list of int
        Positions among the user's tasks and variables, in canonical order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ordering = Ordering.of(Tasks.from_arrays([rng.normal(size=(9, 3)), rng.normal(size=(6, 3))]))
    >>> ordering.to_user(ordering.tasks.ns, "t")
    array([8., 5.])
    """

    tasks: Tasks
    task_order: list[int]
    variable_order: list[int]

    @classmethod
    def of(cls, tasks: Tasks) -> Self:
        """Order tasks by size and correlations, variables by correlations; ties by name."""
        scales = np.sqrt(np.einsum("tii->ti", tasks.scatters))
        squares = np.square(tasks.scatters / (scales[:, :, None] * scales[:, None]))
        by_variable = _sums(squares.transpose(1, 0, 2).reshape(tasks.n_variables, -1))
        by_task = _sums(squares.reshape(len(tasks), -1))
        sizes = np.log(scales)
        names, variables = np.array(tasks.names), np.array(tasks.variables)
        task_order = np.lexsort((names, _sums(sizes), by_task, tasks.ns)).tolist()
        variable_order = np.lexsort((variables, _sums(sizes.T), by_variable)).tolist()
        ordered = tasks[task_order].select_variables([tasks.variables[j] for j in variable_order])
        return cls(ordered, task_order, variable_order)

    def to_user(self, array: np.ndarray, axes: str) -> np.ndarray:
        """Put an array into the user's order.

        Parameters
        ----------
        array : array
        axes : {"t", "v", "tv", "vv", "tvv"}
            What its last axes are, one letter each: t for tasks, v for variables.
        """
        if axes.startswith("t"):
            chosen: Any = (..., np.argsort(self.task_order), *[slice(None)] * (len(axes) - 1))
            array = array[chosen]
        variables = np.argsort(self.variable_order)
        if axes.endswith("vv"):
            return array[..., variables[:, None], variables]
        return array[..., variables] if axes.endswith("v") else array


def agreeing_members(
    cpdags: np.ndarray, variable_order: list[int], weights: np.ndarray | None = None
) -> Consensus:
    """`consensus_members`, with ties broken in a canonical order of the variables."""
    order = np.asarray(variable_order)
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
