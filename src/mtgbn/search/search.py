"""One entry to the searches, for the M-step and for single tasks alike."""

from typing import Literal, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.graphs import topological_order
from mtgbn.model.arguments import check_adjacencies
from mtgbn.search.backward import delete_backward
from mtgbn.search.boss import boss
from mtgbn.search.found import Found
from mtgbn.search.hill_climbing import check_initial, hill_climb
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.local_scores import (
    LocalScores,
    add_scores_by_draw,
    local_score,
    parents_of,
    scores_workspace,
    thinned,
)

__all__ = ["SearchSettings", "graph_score", "score_differences", "search_graph"]

SearchMethod = Literal["boss", "mmhc"]

# With more variables than this, orders are searched with fewer draws of sigma_h, and all of them are for
# the polish: as good in the end, four times faster (docs/decisions.md).
_MANY_VARIABLES, _DRAWS_FOR_ORDERS = 20, 6

# More restarts or moves than anybody would wait for.
_MOST = 1_000_000


class SearchSettings(NamedTuple):
    """How to search.

    Attributes
    ----------
    method : {"boss", "mmhc"}
        Best order score search, or the paper's hill climbing.
    n_restarts : int
        Searches from other starting points, after the first.
    tabu : int
        Moves that hill climbing goes on over a local optimum; after BOSS, a last polish. 0: none.
    """

    method: SearchMethod = "boss"
    n_restarts: int = 10
    tabu: int = 10

    def check(self) -> None:
        """Raise an error that names the first setting that makes no sense."""
        if self.method not in ("boss", "mmhc"):
            raise InputError(f"search must be 'boss' or 'mmhc'; got {self.method!r}")
        for name, value in (("n_restarts", self.n_restarts), ("tabu", self.tabu)):
            check_count(name, value, 0)
            if value > _MOST:
                raise InputError(f"{name} must be at most {_MOST}; got {value}")


def search_graph(
    scores: LocalScores,
    constraints: Constraints | None = None,
    settings: SearchSettings = SearchSettings(),  # noqa: B008, a NamedTuple does not change
    *,
    initial=None,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Search for the DAG with the highest score.

    Parameters
    ----------
    scores : LocalScores
        From `gather_scores`.
    constraints : Constraints, optional
        From `Knowledge.resolve`, `find_candidates` or both.
    settings : SearchSettings
    initial : array (p, p), optional
        A DAG near which to start; it is what is returned unless a better one is found.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
    """
    settings.check()
    p = scores.matrices.shape[0]
    constraints = check_constraints(constraints, p)
    kept = None if initial is None else check_initial(initial, constraints)
    restarts = {"n_restarts": settings.n_restarts, "random_state": random_state}
    if settings.method == "mmhc":
        found = hill_climb(
            scores, constraints, initial=kept, tabu=settings.tabu, exchange=False, **restarts
        )
    else:
        order = None if kept is None else topological_order(kept)
        is_polished = settings.tabu > 0 and p > _MANY_VARIABLES
        rough = thinned(scores, _DRAWS_FOR_ORDERS) if is_polished else scores
        found = boss(rough, constraints, initial=order, **restarts)
        if rough is not scores:
            found = found._replace(score=graph_score(scores, found.adjacency))
        if _is_free(constraints):
            found = delete_backward(scores, found)
        if settings.tabu:
            found = hill_climb(scores, constraints, initial=found.adjacency, tabu=settings.tabu)
    if kept is not None:
        score = graph_score(scores, kept)
        if found.score <= score + scores.improvement:
            return Found(kept, score)
    return found


def _is_free(constraints: Constraints) -> bool:
    p = len(constraints.allowed)
    everything = constraints.allowed.sum() == p * (p - 1) and constraints.max_parents == p - 1
    return bool(everything and not constraints.required.any())


def graph_score(scores: LocalScores, adjacency: np.ndarray) -> float:
    """Sum of the local scores of all families of a DAG."""
    adjacency = _adjacency(scores, adjacency)
    work = scores_workspace(scores, len(adjacency) - 1)
    return float(_graph_score(scores, adjacency, work))


def score_differences(scores: LocalScores, adjacency, other) -> np.ndarray:
    """Score of a DAG minus that of another, under every draw; only families that differ cost."""
    adjacency, other = _adjacency(scores, adjacency), _adjacency(scores, other)
    work = scores_workspace(scores, len(adjacency) - 1)
    totals = np.zeros(scores.n_draws)
    _add_differences(scores, adjacency, other, totals, work)
    return totals


def _adjacency(scores: LocalScores, adjacency) -> np.ndarray:
    """A graph as compiled code wants it."""
    (adjacency,) = check_adjacencies([adjacency], 1, len(scores.matrices))
    return np.ascontiguousarray(adjacency)


@kernel
def _graph_score(scores, adjacency, work):
    total = 0.0
    for node in range(adjacency.shape[0]):
        parents = parents_of(adjacency, node)
        total += local_score(scores, node, parents, parents.size, work)
    return total


@kernel(error_model="numpy")
def _add_differences(scores, adjacency, other, totals, work):
    for node in range(adjacency.shape[0]):
        same = True
        for a in range(adjacency.shape[0]):
            same &= adjacency[a, node] == other[a, node]
        if same:
            continue
        for sign, graph in ((1.0, adjacency), (-1.0, other)):
            parents = parents_of(graph, node)
            add_scores_by_draw(scores, node, parents, parents.size, sign, totals, work)
