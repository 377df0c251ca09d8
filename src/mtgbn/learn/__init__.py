"""Learning the graphs of all tasks: the estimators, and what they are made of."""

from mtgbn.learn.baselines import AVG, SIG
from mtgbn.learn.bootstrap import bootstrap_edges
from mtgbn.learn.multitask import MTGBN

__all__ = ["AVG", "MTGBN", "SIG", "bootstrap_edges"]
