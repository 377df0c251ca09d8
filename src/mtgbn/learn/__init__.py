"""Learning the graphs of all tasks: Monte Carlo EM and the estimators."""

from mtgbn.learn.baselines import AVG, SIG
from mtgbn.learn.edge_prior import EdgePrior
from mtgbn.learn.em import Iteration, State
from mtgbn.learn.multitask import MTGBN

__all__ = ["AVG", "MTGBN", "SIG", "EdgePrior", "Iteration", "State"]
