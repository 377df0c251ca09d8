"""Graphs come as arrays, frames or networkx graphs; labels are matched, never positions."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from mtgbn.errors import GraphError, InputError
from mtgbn.paper.labelled_graphs import stack_graphs
from mtgbn.tasks import Tasks

VARIABLES = ("front", "middle", "back")
CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)  # front -> middle -> back


@pytest.fixture
def tasks():
    rng = np.random.default_rng(0)
    return Tasks.from_arrays(rng.normal(size=(2, 10, 3)), VARIABLES, ["one", "two"])


def frame(adjacency, names):
    return pd.DataFrame(adjacency, index=names, columns=names)


def test_every_form_gives_the_same(tasks):
    other = ("back", "front", "middle")
    order = [VARIABLES.index(name) for name in other]
    shuffled = frame(CHAIN[np.ix_(order, order)].astype(int), other)
    rows_only = frame(CHAIN, VARIABLES).loc[list(other)]
    graph = nx.DiGraph([("middle", "back"), ("front", "middle")])
    expected = np.array([CHAIN, CHAIN])
    for graphs in (
        expected,
        expected.astype(int).tolist(),
        [shuffled, graph],
        {"two": rows_only, "one": CHAIN},
        (graph, CHAIN),
    ):
        stacked = stack_graphs(graphs, tasks)
        np.testing.assert_array_equal(stacked, expected)
        assert stacked.dtype == bool


def test_the_order_of_a_dict_does_not_matter(tasks):
    empty = np.zeros((3, 3))
    stacked = stack_graphs({"two": CHAIN, "one": empty}, tasks)
    np.testing.assert_array_equal(stacked, [empty, CHAIN])


@pytest.mark.parametrize(
    ("graphs", "error", "message"),
    [
        ([CHAIN], InputError, "1 graphs for 2 tasks"),
        (CHAIN, InputError, r"shape \(2, 3, 3\)"),
        ({"one": CHAIN, "three": CHAIN}, InputError, "'three' is not in both"),
        ([CHAIN, CHAIN[:2]], InputError, r"task 'two'.*shape \(3, 3\)"),
        ([CHAIN, CHAIN | CHAIN.T], GraphError, "task 'two'.*front -> middle -> front"),
        ([frame(CHAIN, ["front", "middle", "rear"]), CHAIN], InputError, "task 'one'.*'back'"),
        ([nx.DiGraph([("front", "rear")]), CHAIN], GraphError, "task 'one'.*'rear'"),
        ([2 * CHAIN.astype(int), CHAIN], GraphError, "task 'one'.*only 0 and 1"),
    ],
)
def test_errors_name_the_task_and_the_variable(tasks, graphs, error, message):
    with pytest.raises(error, match=message):
        stack_graphs(graphs, tasks)
