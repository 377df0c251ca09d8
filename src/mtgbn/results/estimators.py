"""The estimators whose fits can be saved, shown and reported. One more class is one more line here."""

from typing import Any, NamedTuple

from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.estimator import Estimator
from mtgbn.paper import PaperMTGBN

# Which attributes a fitted estimator has depends on its class and settings; a type cannot say it.
FittedEstimator = Any


class EstimatorKind(NamedTuple):
    """What results and reports have to know about a class of estimators."""

    make: type[Estimator]
    method: str
    """Value of ``mtgbn fit --method``."""
    how: str
    """How the tasks were learned, in words."""


ESTIMATORS = {
    "MTGBN": EstimatorKind(MTGBN, "mtgbn", "learned jointly"),
    "SIG": EstimatorKind(SIG, "sig", "each learned as a single task"),
    "AVG": EstimatorKind(AVG, "avg", "pooled and learned as one task"),
    "PaperMTGBN": EstimatorKind(PaperMTGBN, "paper", "learned jointly by the paper's method"),
}
