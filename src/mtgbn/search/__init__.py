"""Search for the graph of one task.

`mtgbn.search.methods.search_graph` is the entry; `Knowledge` is what is known about the graph a priori.
"""

from mtgbn.search.knowledge import Knowledge

__all__ = ["Knowledge"]
