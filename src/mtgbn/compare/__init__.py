"""What differs between two groups of tasks, and between one task and a group."""

from mtgbn.compare.fitting import GroupGraphs, fit_groups
from mtgbn.compare.groups import Connections, Degrees, align, compare_graphs, count_degrees
from mtgbn.compare.one_subject import Departures, compare_subject
from mtgbn.compare.permutation import Permutations, permutation_test
from mtgbn.compare.proportions import (
    ProportionTest,
    RiskDifference,
    exact_test,
    proportion_test,
    risk_difference,
)

__all__ = [
    "Connections",
    "Degrees",
    "Departures",
    "GroupGraphs",
    "Permutations",
    "ProportionTest",
    "RiskDifference",
    "align",
    "compare_graphs",
    "compare_subject",
    "count_degrees",
    "exact_test",
    "fit_groups",
    "permutation_test",
    "proportion_test",
    "risk_difference",
]
