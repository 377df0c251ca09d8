"""Learning the graphs of all tasks: the estimators, and what they are made of."""

from mtgbn.learn.baselines import AVG, SIG
from mtgbn.learn.bootstrap import Bootstrap, bootstrap_edges
from mtgbn.learn.multitask import MTGBN
from mtgbn.learn.new_task import LearnedTask

__all__ = ["AVG", "MTGBN", "SIG", "Bootstrap", "LearnedTask", "bootstrap_edges"]
