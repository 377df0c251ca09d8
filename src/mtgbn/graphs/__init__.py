"""DAGs, their equivalence classes, decomposable graphs, and conversions.

A graph is a (p, p) array: ``A[i, j]`` is true when there is an edge i -> j. An undirected graph
is a symmetric array; in a PDAG or CPDAG, ``A[i, j]`` and ``A[j, i]`` both true mean the undirected
edge i - j. The diagonal is false. Every function takes anything array-like of 0 and 1, raises
`GraphError` when it is not the kind of graph asked for, and returns new boolean arrays.
"""

from typing import TYPE_CHECKING

from mtgbn.graphs.convert import from_networkx, to_networkx
from mtgbn.graphs.dags import is_dag, skeleton
from mtgbn.graphs.equivalence import cpdag

if TYPE_CHECKING:
    from mtgbn.graphs.consensus import consensus_members

__all__ = ["consensus_members", "cpdag", "from_networkx", "is_dag", "skeleton", "to_networkx"]


def __getattr__(name: str) -> object:
    # Loaded on first use: it alone needs numba.
    if name == "consensus_members":
        from mtgbn.graphs.consensus import consensus_members

        return consensus_members
    raise AttributeError(f"module 'mtgbn.graphs' has no attribute {name!r}")
