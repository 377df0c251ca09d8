"""The table of who has a connection, and what comparison.json says about the fit behind it."""

from typing import Any

import numpy as np

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.compare.design import Design
from mtgbn.compare.design_effect import held_constant
from mtgbn.compare.design_groups import outcome_counts
from mtgbn.compare.design_study import DesignStudy, TestedTemplate
from mtgbn.compare.group_tables import describe_fit
from mtgbn.learn.group_differences import COLUMNS, LEAST_EVIDENCE, LEAST_PROBABILITY

_PLACE = {
    "template": "set of variables that was compared separately",
    "source": "first variable of the connection; frequencies have no direction",
    "target": "second variable of the connection",
}
_TESTED = {
    "effect": "effect on the strength, in partial correlation, as in connections.tsv",
    "p_family": "its p-value by permutation, corrected for all connections of the template",
}


def difference_tables(study: DesignStudy) -> list[DescribedTable]:
    """The table of the fits that know two groups, or nothing without such fits."""
    rows, labels = [], None
    for template in study.templates:
        found = template.differences
        if found is None:
            continue
        labels = found.labels
        tests = {
            (template.variables[i], template.variables[j]): (float(effect), float(p))
            for (i, j), effect, p in zip(
                template.pairs, template.tests.effect, template.tests.p_family, strict=True
            )
        }
        shares = _shares_of_groups(template)
        for row in found.records:
            pair = row["source"], row["target"]
            rows.append([template.name, *row.values(), *shares[pair], *tests[pair]])
    if labels is None:
        return []
    text = (
        f"Who has a connection, {labels[1]} minus {labels[0]}: from a fit that knows the groups and no "
        "covariates; the most probable differences of each template first"
    )
    of_groups = {
        f"share_{label}": f"mean posterior probability that a subject with {label!r} has the connection"
        for label in labels
    }
    return [table_of("differences", text, {**_PLACE, **COLUMNS, **of_groups, **_TESTED}, rows)]


def _shares_of_groups(template: TestedTemplate) -> dict[tuple[str, str], tuple[float, float]]:
    """For every pair of variables, the mean probability of an edge in both groups."""
    found, fitted = template.differences, template.with_groups
    assert found is not None
    assert fitted is not None
    group_of = np.array([fitted.groups_[name] for name in fitted.task_names_])
    first, second = (
        fitted.adjacency_probabilities_[group_of == label].mean(axis=0) for label in found.labels
    )
    names = found.variables
    return {
        (names[i], names[j]): (float(first[i, j]), float(second[i, j]))
        for i in range(len(names))
        for j in range(len(names))
    }


def describe_differences(template: TestedTemplate, design: Design) -> dict[str, Any] | None:
    """What comparison.json says about the fit of a template that knows the groups, if there is one."""
    found, fitted = template.differences, template.with_groups
    if found is None or fitted is None:
        return None
    return {
        "labels": list(found.labels),
        "sizes": list(found.sizes),
        "counts": outcome_counts(found),
        "least_probability": LEAST_PROBABILITY,
        "least_evidence": LEAST_EVIDENCE,
        "share": found.share,
        "not_held_constant": held_constant(design),
        "rounds": fitted.n_rounds,
        "fit": describe_fit(fitted),
    }
