"""Hill climbing under the structure prior `decomposable`, which is no sum over families.

A change of one edge can change cliques anywhere in the triangulated moral graph, so every move that is
considered costs a triangulation; the normalisers of cliques are remembered. Meant for few variables and
for comparisons with the paper.
"""

import numpy as np

from mtgbn._utils.seeds import seed_sequence
from mtgbn.graphs.chordal import junction_tree, triangulate
from mtgbn.graphs.dags import moral_graph
from mtgbn.model.arguments import check_delta
from mtgbn.model.log_determinants import normaliser_coefficients
from mtgbn.model.signed_sets import signed_sets
from mtgbn.search.hill_climbing import check_initial, has_path, shake
from mtgbn.search.knowledge import Constraints, check_constraints
from mtgbn.search.local_scores import Found, LocalScores, graph_score


class TriangulatedPrior:
    """Log prior of a DAG under every draw of sigma_h, up to a constant that is the same for all DAGs."""

    def __init__(self, sigma_h_draws: np.ndarray, nu0: float) -> None:
        self._draws = sigma_h_draws
        self._delta = check_delta(nu0, sigma_h_draws.shape[-1])
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def by_draw(self, adjacency: np.ndarray) -> np.ndarray:
        """Log normaliser of the triangulated moral graph, (N,)."""
        tree = junction_tree(triangulate(moral_graph(adjacency)))
        total = np.zeros(len(self._draws))
        for sign, sets in ((1, tree.cliques), (-1, tree.separators)):
            for members in filter(None, sets):
                total += sign * self._of(members)
        return total

    def _of(self, members: tuple[int, ...]) -> np.ndarray:
        if members not in self._known:
            coefficient, _, constant = normaliser_coefficients(
                signed_sets([(1, members)]), self._delta
            )
            factors = np.linalg.cholesky(self._draws[:, np.array(members)[:, None], members])
            logarithms = 2 * np.log(np.einsum("tii->ti", factors)).sum(axis=1)
            self._known[members] = constant + coefficient[0] * logarithms
        return self._known[members]


def climb_triangulated(
    scores: LocalScores,
    prior: TriangulatedPrior,
    constraints: Constraints | None = None,
    *,
    initial=None,
    n_restarts: int = 0,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Found:
    """Climb to a DAG that no added, deleted or reversed edge improves.

    ``scores`` are those of the likelihood and the edge prior. A climb starts at ``initial``, by default
    the required edges alone; a restart changes some edges of the best graph so far at random.
    """
    constraints = check_constraints(constraints, len(scores.matrices))
    start = constraints.required if initial is None else check_initial(initial, constraints)
    rng = np.random.default_rng(seed_sequence(random_state))
    best = _climb(scores, prior, constraints, start)
    for _ in range(n_restarts):
        graph = shake(best.adjacency, constraints, rng)
        found = _climb(scores, prior, constraints, graph)
        if found.score > best.score + scores.improvement:
            best = found
    return best


def _climb(scores, prior, constraints, adjacency) -> Found:
    def score(graph: np.ndarray) -> float:
        return graph_score(scores, graph) + prior.by_draw(graph).mean()

    current = Found(adjacency, score(adjacency))
    while True:
        neighbours = _neighbours(current.adjacency, constraints)
        best = max(
            (Found(graph, score(graph)) for graph in neighbours), key=_score, default=current
        )
        if best.score <= current.score + scores.improvement:
            return current
        current = best


def _score(found: Found) -> float:
    return found.score


def _neighbours(adjacency: np.ndarray, constraints: Constraints):
    """All allowed DAGs that differ by one edge added, deleted or reversed."""
    counts = adjacency.sum(axis=0)
    for i, j in np.argwhere(constraints.allowed & ~constraints.required).tolist():
        changed = adjacency.copy()
        changed[i, j] = not adjacency[i, j]
        if adjacency[i, j]:
            yield changed
            continue
        changed[j, i] = False
        if adjacency[j, i] and constraints.required[j, i]:
            continue
        if counts[j] < constraints.max_parents and not has_path(adjacency, j, i):
            yield changed
