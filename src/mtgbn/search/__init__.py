"""Search for the graph of one task."""

from mtgbn.search.boss import Found, boss
from mtgbn.search.hill_climbing import hill_climb
from mtgbn.search.local_scores import LocalScores, gather_scores

__all__ = ["Found", "LocalScores", "boss", "gather_scores", "hill_climb"]
