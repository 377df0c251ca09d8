"""Learning the graphs of all tasks: Monte Carlo EM and the estimators."""

from mtgbn.learn.baselines import AVG, SIG
from mtgbn.learn.bootstrap import Bootstrap, bootstrap_edges
from mtgbn.learn.em import Iteration, State
from mtgbn.learn.multitask import MTGBN
from mtgbn.learn.new_task import LearnedTask
from mtgbn.model.edge_prior import EdgePrior

__all__ = [
    "AVG",
    "MTGBN",
    "SIG",
    "Bootstrap",
    "EdgePrior",
    "Iteration",
    "LearnedTask",
    "State",
    "bootstrap_edges",
]
