"""The parameters with which `SIG`, `AVG` and the paper's method say how to search."""

from typing import Any, Literal

from mtgbn.learn.parameter_checks import ParameterTable, one_of, optional, whole
from mtgbn.search.knowledge import Constraints, restrict
from mtgbn.search.methods import SearchSettings
from mtgbn.search.mmpc import find_candidates
from mtgbn.tasks import Tasks

# More restarts or moves than anybody would wait for.
MAX_EFFORT = 1_000_000

# Restarts, and moves over a local optimum, of each search.
_DEFAULT_EFFORT = {"boss": 10, "mmhc": 0}

# Pairs that each search considers.
_DEFAULT_CANDIDATES: dict[str, Literal["all", "mmpc"]] = {"boss": "all", "mmhc": "mmpc"}

SEARCH_PARAMETERS: ParameterTable = {
    "search": one_of("boss", "mmhc"),
    "n_restarts": optional(whole(0, MAX_EFFORT)),
    "tabu": optional(whole(0, MAX_EFFORT)),
    "candidates": optional(one_of("all", "mmpc", "pooled")),
}


def search_settings(estimator: Any) -> SearchSettings:
    """The settings of an estimator with these parameters."""
    default = _DEFAULT_EFFORT[estimator.search]
    return SearchSettings(
        estimator.search,
        default if estimator.n_restarts is None else estimator.n_restarts,
        default if estimator.tabu is None else estimator.tabu,
    )


def candidate_constraints(
    estimator: Any, tasks: Tasks, knowledge: Constraints
) -> tuple[Constraints, ...]:
    """What every task's search may do: what prior knowledge allows, among the candidate pairs."""
    method: Any = estimator.candidates or _DEFAULT_CANDIDATES[estimator.search]
    candidates = find_candidates(tasks.scatters, tasks.ns, method)
    return tuple(restrict(knowledge, each) for each in candidates)
