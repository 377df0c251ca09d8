"""What differs between two groups of tasks, and between one task and a group."""

from mtgbn.compare.cohort import Cohort, read_cohort
from mtgbn.compare.comparison_folder import write_study
from mtgbn.compare.fitting import GroupGraphs, fit_groups
from mtgbn.compare.groups import Connections, Degrees, align, compare_graphs, count_degrees
from mtgbn.compare.methods import MethodGraphs, match_methods
from mtgbn.compare.one_subject import Departures, compare_subject
from mtgbn.compare.participants import Participants, choose_groups, read_participants
from mtgbn.compare.permutation import Permutations, permutation_test
from mtgbn.compare.proportions import (
    ProportionTest,
    RiskDifference,
    exact_test,
    proportion_test,
    risk_difference,
)
from mtgbn.compare.study import (
    Study,
    SubjectStudy,
    TemplateComparison,
    compare_groups,
    compare_one,
)
from mtgbn.compare.templates import find_templates

__all__ = [
    "Cohort",
    "Connections",
    "Degrees",
    "Departures",
    "GroupGraphs",
    "MethodGraphs",
    "Participants",
    "Permutations",
    "ProportionTest",
    "RiskDifference",
    "Study",
    "SubjectStudy",
    "TemplateComparison",
    "align",
    "choose_groups",
    "compare_graphs",
    "compare_groups",
    "compare_one",
    "compare_subject",
    "count_degrees",
    "exact_test",
    "find_templates",
    "fit_groups",
    "match_methods",
    "permutation_test",
    "proportion_test",
    "read_cohort",
    "read_participants",
    "risk_difference",
    "write_study",
]
