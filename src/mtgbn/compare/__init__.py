"""Differences between two groups of tasks, and between one task and a group."""

from mtgbn.compare.comparison_folder import write_study
from mtgbn.compare.connections import compare_graphs
from mtgbn.compare.study import Study, SubjectStudy, compare_groups, compare_one
from mtgbn.compare.templates import find_templates

__all__ = [
    "Study",
    "SubjectStudy",
    "compare_graphs",
    "compare_groups",
    "compare_one",
    "find_templates",
    "write_study",
]
