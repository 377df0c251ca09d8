"""Two groups of graphs: degrees, counts, and a test of every connection.

Data tell a DAG only up to Markov equivalence. Directions mean the same in all subjects of both groups
only if one rule chooses the member of every equivalence class; `align` is that rule.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from mtgbn.compare.proportions import exact_test, proportion_test, risk_difference
from mtgbn.errors import InputError
from mtgbn.graphs import cpdag, skeleton
from mtgbn.learn.ordering import agreeing_members


class Degrees(NamedTuple):
    """Edges into, out of and at every variable, summed over the subjects of a group; each is (p,)."""

    into: np.ndarray
    out_of: np.ndarray
    total: np.ndarray


class Connections(NamedTuple):
    """Counts and tests of every possible connection, the smallest two-sided p-value first.

    Attributes
    ----------
    source, target : array of int
        Positions of the variables: i -> j, or i - j with i < j if ``is_directed`` is False.
    n_a, n_b : int
        Subjects of each group; ``count_a`` and ``count_b`` of them have the connection.
    difference, low, high : array
        Share of group a minus share of group b, with Newcombe's 95 % confidence interval.
    statistic, p_greater, p_less, p_two_sided : array
        z statistic with the pooled variance, and p-values of the z-test.
    p_exact : array
        Two-sided p-value of Fisher's exact test.
    q : array
        False discovery rate of Benjamini and Hochberg for the two-sided z-test, over all connections.
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
    """Choose the member of every graph's equivalence class so that directions agree over both groups.

    The variables in ``order`` break ties; default: the order of the columns. With an order that the
    data decide (`Ordering`) the result does not depend on the order of the columns. Graphs that were
    learned with prior knowledge, which excludes members of a class, must not be aligned.
    """
    graphs_a, graphs_b = _check_graphs(graphs_a, graphs_b)
    both = np.concatenate([graphs_a, graphs_b])
    classes = np.array([cpdag(graph) for graph in both])
    order = list(range(both.shape[1])) if order is None else list(order)
    chosen = agreeing_members(classes, order).graphs
    return chosen[: len(graphs_a)], chosen[len(graphs_a) :]


def count_degrees(graphs: np.ndarray) -> Degrees:
    """Count the edges at every variable over the graphs of one group, (subjects, p, p)."""
    into = np.asarray(graphs).sum(axis=(0, 1))
    out_of = np.asarray(graphs).sum(axis=(0, 2))
    return Degrees(into, out_of, into + out_of)


def compare_graphs(
    graphs_a: np.ndarray, graphs_b: np.ndarray, *, directed: bool = True
) -> Connections:
    """Test every connection for a difference between the shares of two groups that have it.

    The tests assume independent subjects. Graphs that were learned jointly are not independent, and
    p-values can be far too small; a permutation test with new fits (``n_permutations`` of
    `compare_groups`) does not need the assumption.

    Parameters
    ----------
    graphs_a, graphs_b : array (subjects, p, p)
        ``A[i, j]`` means i -> j. Directions of DAGs should agree between subjects; see
        `mtgbn.compare.connections.align`.
    directed : bool
        False: i -> j and j -> i are the same connection.

    Examples
    --------
    All six patients have 0 -> 1, and none of six controls.

    >>> import numpy as np
    >>> patients = np.zeros((6, 2, 2), dtype=bool)
    >>> patients[:, 0, 1] = True
    >>> tested = compare_graphs(patients, np.zeros((6, 2, 2), dtype=bool))
    >>> tested.source[0].item(), tested.target[0].item(), tested.count_a[0].item()
    (0, 1, 6)
    >>> round(tested.p_two_sided[0].item(), 4)
    0.0005
    """
    graphs_a, graphs_b = _check_graphs(graphs_a, graphs_b)
    p = graphs_a.shape[1]
    if directed:
        rows, columns = np.nonzero(~np.eye(p, dtype=bool))
    else:
        rows, columns = np.triu_indices(p, 1)
        graphs_a, graphs_b = (np.array([*map(skeleton, each)]) for each in (graphs_a, graphs_b))
    n_a, n_b = len(graphs_a), len(graphs_b)
    counts = [graphs.sum(axis=0)[rows, columns] for graphs in (graphs_a, graphs_b)]
    table = (counts[0], n_a, counts[1], n_b)
    statistic, two_sided = proportion_test(*table, "two-sided")
    order = np.lexsort((columns, rows, -np.abs(statistic), two_sided))
    values = {
        "source": rows,
        "target": columns,
        "count_a": counts[0],
        "count_b": counts[1],
        **risk_difference(*table)._asdict(),
        "statistic": statistic,
        "p_greater": proportion_test(*table, "greater").pvalue,
        "p_less": proportion_test(*table, "less").pvalue,
        "p_two_sided": two_sided,
        "p_exact": exact_test(*table, "two-sided").pvalue,
        "q": false_discovery_control(two_sided),
    }
    values = {name: value[order] for name, value in values.items()}
    return Connections(is_directed=directed, n_a=n_a, n_b=n_b, **values)


def _check_graphs(graphs_a: ArrayLike, graphs_b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
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
