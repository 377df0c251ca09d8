"""Search for the graph of one task."""

from mtgbn.search.backward import delete_backward
from mtgbn.search.boss import boss
from mtgbn.search.found import Found
from mtgbn.search.hill_climbing import hill_climb
from mtgbn.search.knowledge import Constraints, Knowledge, no_constraints, restrict
from mtgbn.search.local_scores import LocalScores, gather_scores
from mtgbn.search.mmpc import find_candidates, mmpc, pooled_candidates
from mtgbn.search.search import SearchSettings, graph_score, score_differences, search_graph

__all__ = [
    "Constraints",
    "Found",
    "Knowledge",
    "LocalScores",
    "SearchSettings",
    "boss",
    "delete_backward",
    "find_candidates",
    "gather_scores",
    "graph_score",
    "hill_climb",
    "mmpc",
    "no_constraints",
    "pooled_candidates",
    "restrict",
    "score_differences",
    "search_graph",
]
