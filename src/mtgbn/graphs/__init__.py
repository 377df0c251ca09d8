"""DAGs, their equivalence classes, decomposable graphs, and ways in and out of them.

A graph is a (p, p) array: ``A[i, j]`` is true when there is an edge i -> j. An undirected graph
is a symmetric array; in a PDAG or CPDAG, ``A[i, j]`` and ``A[j, i]`` together mean the undirected
edge i - j. The diagonal is false. Every function takes anything array-like of 0 and 1, raises
`GraphError` when it is not the kind of graph asked for, and returns new boolean arrays.
"""

from typing import TYPE_CHECKING

from mtgbn.graphs.chordal import (
    JunctionTree,
    is_chordal,
    junction_tree,
    perfect_dag,
    triangulate,
)
from mtgbn.graphs.convert import (
    from_dot,
    from_edge_list,
    from_graphml,
    from_networkx,
    to_dot,
    to_edge_list,
    to_graphml,
    to_networkx,
)
from mtgbn.graphs.dags import (
    descendants,
    find_cycle,
    is_dag,
    moral_graph,
    skeleton,
    topological_order,
    v_structures,
)
from mtgbn.graphs.equivalence import consistent_extension, cpdag, restricted_cpdag

if TYPE_CHECKING:
    from mtgbn.graphs.consensus import Consensus, consensus_members

__all__ = [
    "Consensus",
    "JunctionTree",
    "consensus_members",
    "consistent_extension",
    "cpdag",
    "descendants",
    "find_cycle",
    "from_dot",
    "from_edge_list",
    "from_graphml",
    "from_networkx",
    "is_chordal",
    "is_dag",
    "junction_tree",
    "moral_graph",
    "perfect_dag",
    "restricted_cpdag",
    "skeleton",
    "to_dot",
    "to_edge_list",
    "to_graphml",
    "to_networkx",
    "topological_order",
    "triangulate",
    "v_structures",
]


def __getattr__(name):
    # Loaded on first use: only these need numba.
    if name in ("Consensus", "consensus_members"):
        from mtgbn.graphs import consensus

        return getattr(consensus, name)
    raise AttributeError(f"module 'mtgbn.graphs' has no attribute {name!r}")
