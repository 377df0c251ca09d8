"""The table of who has a connection, and what comparison.json says about the fit behind it."""

from typing import Any

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.compare.design import Design
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
        for row in found.records:
            own = tests[row["source"], row["target"]]
            rows.append([template.name, *row.values(), *own])
    if labels is None:
        return []
    text = (
        f"Who has a connection, {labels[1]} minus {labels[0]}: from a fit that knows the groups and no "
        "covariates; the most probable differences of each template first"
    )
    return [table_of("differences", text, {**_PLACE, **COLUMNS, **_TESTED}, rows)]


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
        "not_held_constant": list(design.nuisance),
        "rounds": fitted.n_rounds,
        "fit": describe_fit(fitted),
    }
