"""The backward phase of greedy equivalence search (Chickering 2002): delete edges of a class.

Single deletions from a DAG miss deletions that only another member of its Markov equivalence class
makes possible. Here the edge x -> y or x - y of the CPDAG is deleted, with a choice of which common
neighbours become children, whenever the deletion improves the score.
"""

from itertools import combinations

import numpy as np

from mtgbn.graphs import cpdag
from mtgbn.graphs.equivalence import consistent_extension
from mtgbn.search.local_scores import Found, LocalScores, local_score, scores_workspace

# An edge with ten common neighbours has over a thousand deletions. Common neighbours beyond this number
# always become children.
_MOST_NEIGHBOURS = 5


def delete_backward(scores: LocalScores, found: Found) -> Found:
    """Delete edges, the best first, while a deletion improves the score; there are no constraints.

    Gains are computed for a Markov equivalence class. Where its members do not score equally, the last
    graph may be worse than the one that was given, which is then returned.
    """
    workspace = scores_workspace(scores, len(found.adjacency) - 1)
    known: dict[tuple[int, bytes], float] = {}

    def score(node: int, family: np.ndarray) -> float:
        key = node, family.tobytes()
        if key not in known:
            parents = np.flatnonzero(family)
            known[key] = local_score(scores, node, parents, len(parents), workspace)
        return known[key]

    adjacency = found.adjacency
    while True:
        pattern = cpdag(adjacency)
        gain, source, target, children = max(
            _deletions(pattern, score), key=lambda move: move[0], default=(0.0, 0, 0, ())
        )
        if gain <= scores.improvement:
            total = sum(score(j, adjacency[:, j]) for j in range(len(adjacency)))
            return Found(adjacency, total) if total > found.score else found
        pattern[source, target] = pattern[target, source] = False
        for child in children:
            pattern[child, target] = False
            if pattern[child, source] and pattern[source, child]:
                pattern[child, source] = False
        adjacency = consistent_extension(pattern)


def _deletions(pattern: np.ndarray, score):
    """All valid deletions from a CPDAG: gain, source, target, neighbours that become children."""
    joined = pattern | pattern.T
    undirected = pattern & pattern.T
    for source, target in np.argwhere(pattern).tolist():
        parents = pattern[:, target] & ~undirected[:, target]
        common = np.flatnonzero(undirected[:, target] & joined[:, source]).tolist()
        for size in range(min(len(common), _MOST_NEIGHBOURS) + 1):
            for kept in map(list, combinations(common[:_MOST_NEIGHBOURS], size)):
                if size > 1 and not all(joined[a, b] for a, b in combinations(kept, 2)):
                    continue
                family = parents.copy()
                family[kept] = True
                family[source] = True
                with_source = score(target, family)
                family[source] = False
                gain = score(target, family) - with_source
                yield gain, source, target, [c for c in common if c not in kept]
