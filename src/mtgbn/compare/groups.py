"""Two groups of graphs: degrees, counts, and a test of every connection.

Directions mean the same in all subjects of both groups only if representatives of the equivalence
classes are chosen together; `align` does it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from mtgbn.compare.proportions import exact_test, proportion_test, risk_difference
from mtgbn.errors import InputError
from mtgbn.graphs import cpdag, skeleton
from mtgbn.learn.canonical import agreeing_members

__all__ = ["Connections", "Degrees", "align", "compare_graphs", "count_degrees"]


class Degrees(NamedTuple):
    """Edges into, out of and at every variable, summed over the subjects of a group; (p,) each."""

    into: np.ndarray
    out_of: np.ndarray
    total: np.ndarray


class Connections(NamedTuple):
    """Every possible connection, in rows, the smallest two-sided p-value first.

    Attributes
    ----------
    source, target : array of int
        Positions of the variables: i -> j, or i - j with i < j of undirected connections.
    is_directed : bool
    n_a, n_b : int
        Subjects.
    count_a, count_b : array of int
        Subjects that have it.
    difference, low, high : array
        Of the shares, a minus b, with a 95 % confidence interval (Newcombe's).
    statistic : array
        z, with the pooled variance.
    p_greater, p_less, p_two_sided : array
        Of the z-test.
    p_exact : array
        Fisher's, two-sided.
    q : array
        Benjamini and Hochberg's, of the two-sided z-test, over all connections in the table.
    """

    source: np.ndarray
    target: np.ndarray
    is_directed: bool
    n_a: int
    n_b: int
    count_a: np.ndarray
    count_b: np.ndarray
    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    statistic: np.ndarray
    p_greater: np.ndarray
    p_less: np.ndarray
    p_two_sided: np.ndarray
    p_exact: np.ndarray
    q: np.ndarray


def align(
    graphs_a: np.ndarray, graphs_b: np.ndarray, order: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Representatives of the same equivalence classes whose directions agree over both groups.

    Parameters
    ----------
    graphs_a, graphs_b : array (subjects, p, p)
        DAGs; ``A[i, j]`` means i -> j.
    order : sequence of int, optional
        Positions of the variables in the order in which ties are broken; as they are, if left out. One
        that the data decide (`canonical_order`) makes the result independent of the columns' order.
    """
    graphs_a, graphs_b = _check_graphs(graphs_a, graphs_b)
    both = np.concatenate([graphs_a, graphs_b])
    classes = np.array([cpdag(graph) for graph in both])
    order = list(range(both.shape[1])) if order is None else list(order)
    chosen = agreeing_members(classes, order).graphs
    return chosen[: len(graphs_a)], chosen[len(graphs_a) :]


def count_degrees(graphs: np.ndarray) -> Degrees:
    """Of the graphs of one group, (subjects, p, p)."""
    into = np.asarray(graphs).sum(axis=(0, 1))
    out_of = np.asarray(graphs).sum(axis=(0, 2))
    return Degrees(into, out_of, into + out_of)


def compare_graphs(
    graphs_a: np.ndarray, graphs_b: np.ndarray, *, directed: bool = True
) -> Connections:
    """Test for every connection whether as many subjects of one group have it as of the other.

    Parameters
    ----------
    graphs_a, graphs_b : array (subjects, p, p)
        ``A[i, j]`` means i -> j. Directions of DAGs should agree; see `align`.
    directed : bool
        False: i -> j and j -> i are the same connection.

    Notes
    -----
    The tests take subjects for independent. Graphs that were learned together are not, and p-values can
    be far too small; a permutation test with new fits (`permutation_test`) does not need it.
    """
    graphs_a, graphs_b = _check_graphs(graphs_a, graphs_b)
    p = graphs_a.shape[1]
    if directed:
        rows, columns = np.nonzero(~np.eye(p, dtype=bool))
    else:
        rows, columns = np.triu_indices(p, 1)
        graphs_a, graphs_b = (
            np.array([skeleton(graph) for graph in graphs]) for graphs in (graphs_a, graphs_b)
        )
    n_a, n_b = len(graphs_a), len(graphs_b)
    counts = [graphs.sum(axis=0)[rows, columns] for graphs in (graphs_a, graphs_b)]
    table = (counts[0], n_a, counts[1], n_b)
    statistic, two_sided = proportion_test(*table, "two-sided")
    order = np.lexsort((columns, rows, -np.abs(statistic), two_sided))
    values = (
        *risk_difference(*table),
        statistic,
        proportion_test(*table, "greater").pvalue,
        proportion_test(*table, "less").pvalue,
        two_sided,
        exact_test(*table, "two-sided").pvalue,
        false_discovery_control(two_sided),
    )
    return Connections(
        rows[order],
        columns[order],
        directed,
        n_a,
        n_b,
        *(each[order] for each in (*counts, *values)),
    )


def _check_graphs(graphs_a, graphs_b) -> tuple[np.ndarray, np.ndarray]:
    checked = []
    for name, graphs in (("graphs_a", graphs_a), ("graphs_b", graphs_b)):
        array = np.asarray(graphs)
        if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < 2:
            raise InputError(
                f"{name} must have shape (subjects, p, p) with p of at least 2; got {array.shape}"
            )
        if len(array) == 0:
            raise InputError(f"{name} is empty; each group needs a subject")
        checked.append(array != 0)
    if checked[0].shape[1] != checked[1].shape[1]:
        raise InputError(
            f"graphs_a has {checked[0].shape[1]} variables, graphs_b {checked[1].shape[1]}"
        )
    return checked[0], checked[1]
