"""Differences between groups of tasks, between one task and a group, and along a design."""

from mtgbn.compare.comparison_folder import write_study
from mtgbn.compare.connections import compare_graphs
from mtgbn.compare.design_study import DesignStudy, compare_design
from mtgbn.compare.reliability import split_halves
from mtgbn.compare.study import Study, SubjectStudy, compare_groups, compare_one
from mtgbn.compare.templates import find_templates

__all__ = [
    "DesignStudy",
    "Study",
    "SubjectStudy",
    "compare_design",
    "compare_graphs",
    "compare_groups",
    "compare_one",
    "find_templates",
    "split_halves",
    "write_study",
]
