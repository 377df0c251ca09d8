"""The entry to the search methods: which one runs, and with which settings.

A new method is one more branch of `search_graph`. The moves of hill climbing, which is also the last
polish of BOSS, are in `hill_climbing._best_move` and `hill_climbing._exchange`.
"""

from typing import Literal, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn.errors import InputError
from mtgbn.graphs.dags import topological_order
from mtgbn.search.backward import delete_backward
from mtgbn.search.boss import boss
from mtgbn.search.hill_climbing import check_initial, hill_climb
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.local_scores import Found, LocalScores, graph_score, thinned

SearchMethod = Literal["boss", "mmhc"]

# With more variables than this, orders are searched with few draws of sigma_h, and only the polish uses
# all draws: the graphs are as good, and found four times faster (docs/decisions.md).
_MANY_VARIABLES, _DRAWS_FOR_ORDERS = 20, 6

# More restarts or moves would never end.
_MOST_RESTARTS_OR_MOVES = 1_000_000


class SearchSettings(NamedTuple):
    """How to search: by best order score search or by the hill climbing of the paper ("mmhc").

    ``n_restarts`` are searches from other starting points, after the first. ``tabu`` is the number
    of moves beyond a local optimum after which hill climbing ends. After BOSS, hill climbing is a
    last polish; 0 leaves it out.
    """

    method: SearchMethod = "boss"
    n_restarts: int = 10
    tabu: int = 10

    def check(self) -> None:
        """Raise an error that names the first invalid setting."""
        if self.method not in ("boss", "mmhc"):
            raise InputError(f"search must be 'boss' or 'mmhc'; got {self.method!r}")
        for name, value in (("n_restarts", self.n_restarts), ("tabu", self.tabu)):
            check_count(name, value, 0)
            if value > _MOST_RESTARTS_OR_MOVES:
                raise InputError(f"{name} must be at most {_MOST_RESTARTS_OR_MOVES}; got {value}")


def search_graph(
    scores: LocalScores,
    constraints: Constraints | None = None,
    settings: SearchSettings = SearchSettings(),  # noqa: B008, a NamedTuple does not change
    *,
    initial=None,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Search for the DAG with the highest score.

    ``initial`` (p, p) is a DAG near which to start; it is returned unless a better one is found.
    ``constraints`` come from `Knowledge.resolve`, `find_candidates` or both.
    """
    settings.check()
    p = scores.matrices.shape[0]
    constraints = check_constraints(constraints, p)
    kept = None if initial is None else check_initial(initial, constraints)
    if settings.method == "mmhc":
        found = hill_climb(
            scores,
            constraints,
            initial=kept,
            n_restarts=settings.n_restarts,
            tabu=settings.tabu,
            exchange=False,
            random_state=random_state,
        )
    else:
        order = None if kept is None else topological_order(kept)
        is_polished = settings.tabu > 0 and p > _MANY_VARIABLES
        rough = thinned(scores, _DRAWS_FOR_ORDERS) if is_polished else scores
        found = boss(
            rough,
            constraints,
            initial=order,
            n_restarts=settings.n_restarts,
            random_state=random_state,
        )
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
    """Whether every DAG meets the constraints."""
    p = len(constraints.allowed)
    everything = constraints.allowed.sum() == p * (p - 1) and constraints.max_parents == p - 1
    return bool(everything and not constraints.required.any())
