"""The tables and matrices of a comparison by a design, and what comparison.json says about it.

Every column is described here, in one place: files, reports and `DesignStudy.to_frame` follow when a
column is added.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn._utils.tables import table_text
from mtgbn.compare.connection_sets import SetTests
from mtgbn.compare.design import Design
from mtgbn.compare.design_effect import effect_in_words, statistic_in_words
from mtgbn.compare.design_study import LEVEL, DesignStudy, TestedTemplate, detectable, group_means
from mtgbn.compare.difference_tables import describe_differences, difference_tables
from mtgbn.compare.directions import FEWEST_SUBJECTS, N_COHORTS, direction_support
from mtgbn.compare.group_tables import describe_fit
from mtgbn.compare.sessions import person_of
from mtgbn.graphs import skeleton
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import time_series, unequal_scales

_LEARNED = {
    "SIG": "the network of every subject was learned as a single task, without groups and covariates",
    "AVG": "one network was learned from the pooled data of all subjects, without groups and covariates",
}
_LEARNED_JOINTLY = (
    "all subjects were learned jointly in one fit that knows neither groups nor covariates"
)
_TESTED = (
    "the strength of every connection (partial correlation given the parents in the learned networks) "
    "was tested by exchanging subjects (Freedman and Lane)"
)

_TEMPLATE = {"template": "set of variables that was compared separately"}
_PAIR = {
    "source": "first variable of the connection, i of i -> j; strengths have no direction",
    "target": "second variable of the connection, j of i -> j",
}
CONNECTIONS = {
    **_TEMPLATE,
    **_PAIR,
    "effect": "estimated effect in partial correlation",
    "low": "lower end of its 95 % confidence interval",
    "high": "upper end of its 95 % confidence interval",
    "statistic": "t of the effect, or F if several columns of the design are tested; the residual "
    "variances of the connections are moderated",
    "p": "two-sided p-value by permutation of the subjects",
    "p_family": "the same, corrected for all connections of the template: compared with the largest "
    "statistic of each permutation",
    "q": "false discovery rate (Benjamini and Hochberg) of p over all connections of the template",
    "p_enhanced": "corrected p-value after threshold-free enhancement over the network",
    "strength": "mean partial correlation of all subjects",
    "joined": "share of the subjects whose network has an edge between both, in either direction",
    "forward": "share of these edges that go from source to target; n/a without an edge",
    "support": f"share of {N_COHORTS} bootstrap cohorts, whose subjects are drawn anew, in which the "
    "data direct the connection in the more frequent direction; n/a without an edge, and with fewer "
    f"than {FEWEST_SUBJECTS} subjects",
}
_OF_POSTERIOR = {
    "support_probability": "mean probability of an edge with the more frequent direction",
}
_RELIABILITY = {
    "icc": "reliability of the strength, ICC(2,1) over sessions or halves",
    "icc_low": "lower end of its 95 % confidence interval",
    "icc_high": "upper end of its 95 % confidence interval",
}
_COMPONENTS = {
    **_TEMPLATE,
    "component": "number of the component within the template, the largest first",
    "connections": "number of its connections",
    "p": "p-value of this number by permutation, corrected for all components",
    "threshold": "smallest absolute statistic of a connection that counts",
    **_PAIR,
    "statistic": "statistic of this connection",
}
_TESTED_AS_A_WHOLE = {
    "connections": "number of its connections",
    "effect": "mean of the effects of its connections",
    "statistic": "mean of the squared statistics of its connections, about 1 without a difference",
    "p": "p-value of this mean by permutation of the subjects",
}
_REGIONS = {
    **_TEMPLATE,
    "region": "variable whose connections are tested as a whole",
    **_TESTED_AS_A_WHOLE,
    "p_family": "the same, corrected for all regions of the template",
}
_SETS = {
    **_TEMPLATE,
    "kind": "all connections of the template, those within a set of variables, or between two",
    "first": "the set; n/a for all connections",
    "second": "the other set, if connections between two are meant",
    **_TESTED_AS_A_WHOLE,
    "p_family": "the same, corrected for all sets of the template",
}
_ENDING = {
    "rows": "rows of data, of all sessions",
    "n": "degrees of freedom of its data, from the effective samples",
    "used": "whether the subject was compared",
    "reason": "why it was not; n/a if it was",
}


class Matrix(NamedTuple):
    """A relationship matrix in the form of BIDS' extension proposal 17; ``name`` is that of its file."""

    name: str
    variables: tuple[str, ...]
    values: np.ndarray
    sidecar: dict[str, Any]

    @property
    def tsv(self) -> str:
        """The file: names of the variables and the full matrix, n/a on the diagonal."""
        cells = [
            ["n/a" if np.isnan(value) else repr(value) for value in row]
            for row in self.values.tolist()
        ]
        return table_text([self.variables, *cells])


def design_tables(
    study: DesignStudy, about: Mapping[str, Any] | None = None
) -> list[DescribedTable]:
    """The tables of connections, strengths, components, regions, sets and subjects.

    ``about`` is what comparison.json says beyond the study: values of the covariates, and subjects that
    were excluded before the comparison.
    """
    known = dict(about or {})
    columns = connection_columns(study)
    columns["effect"] += f": {known.get('effect', effect_in_words(study.design))}"
    rows = [list(row.values()) for row in connection_rows(study)]
    text = "Tests of every connection, the smallest p-value of each template first"
    return [
        table_of("connections", text, columns, rows),
        *difference_tables(study),
        _strengths(study),
        _components(study),
        _regions(study),
        _sets(study),
        _subjects(study, known),
    ]


def connection_columns(study: DesignStudy) -> dict[str, str]:
    """The columns of the table of connections: some depend on the fit and on the data."""
    has_sessions = any(each.reliability is not None for each in study.templates)
    is_posterior = any(_edge_probabilities(each) is not None for each in study.templates)
    columns = CONNECTIONS | {
        f"mean_{label}": f"mean partial correlation of the subjects with {label!r}, not adjusted for "
        "other columns of the design"
        for label in study.design.group_sizes
    }
    columns |= _OF_POSTERIOR if is_posterior else {}
    return columns | (_RELIABILITY if has_sessions else {})


def connection_rows(study: DesignStudy) -> list[dict[str, Any]]:
    """Every connection by its columns, the smallest p-value of each template first."""
    columns = connection_columns(study)
    rows = []
    for template in study.templates:
        values = _values_of_connections(template, study.task_weights)
        means = group_means(study.design, template)
        values |= {f"mean_{label}": each for label, each in means.items()}
        tests = template.tests
        for k in np.lexsort((-np.abs(tests.statistic), tests.p)):
            names = dict(zip((*_TEMPLATE, *_PAIR), _names(template, k), strict=True))
            numbers = {name: float(each[k]) for name, each in values.items()}
            rows.append({name: (names | numbers)[name] for name in columns})
    return rows


def _values_of_connections(template: TestedTemplate, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers of every connection by column; ``weights`` are those of the tasks."""
    graphs, tests = template.estimator.graphs_, template.tests
    i, j = template.pairs.T
    joined = weights @ np.array([skeleton(graph)[i, j] for graph in graphs])
    support = direction_support(
        graphs, template.pairs, template.directions, _edge_probabilities(template), weights
    )
    values = {
        name: getattr(tests, name)
        for name in ("effect", "low", "high", "statistic", "p", "p_family", "q", "p_enhanced")
    }
    values |= {
        "strength": np.tanh(template.strengths.mean(axis=0)),
        "joined": joined / weights.sum(),
        "forward": support.forward,
        "support": support.support,
    }
    if support.probability is not None:
        values["support_probability"] = support.probability
    if template.reliability is not None:
        found = template.reliability
        values |= {"icc": found.icc, "icc_low": found.low, "icc_high": found.high}
    return values


def _edge_probabilities(template: TestedTemplate) -> np.ndarray | None:
    return getattr(template.estimator, "edge_probabilities_", None)


def design_matrices(study: DesignStudy, effect: str | None = None) -> list[Matrix]:
    """Effects and corrected p-values of every template as symmetric matrices."""
    meant = {
        "effect": effect or effect_in_words(study.design),
        "pFamily": CONNECTIONS["p_family"],
    }
    matrices = []
    for label, template in zip(_labels(study), study.templates, strict=True):
        values = {"effect": template.tests.effect, "pFamily": template.tests.p_family}
        for measure, found in values.items():
            sidecar = {
                "Measure": measure,
                "MeasureDescription": meant[measure],
                "Weighted": True,
                "Directed": False,
                "ValidDiagonal": False,
                "StorageFormat": "Full",
                "NonNegative": measure != "effect",
                "Template": template.name,
            }
            matrix = _square(template, found)
            name = f"seg-{label}_meas-{measure}_relmat"
            matrices.append(Matrix(name, template.variables, matrix, sidecar))
    return matrices


def describe_design(study: DesignStudy) -> dict[str, Any]:
    """What comparison.json says about a comparison by a design."""
    design = study.design
    return {
        "kind": "design",
        "description": f"strengths of connections, tested along a design: {_method_in_words(study)}",
        "answer": study.in_words(),
        "effect": effect_in_words(design),
        "design": {
            "formula": design.formula,
            "tested": design.tested,
            "columns": list(design.columns),
            "contrast": design.contrast.tolist(),
            "nuisance": list(design.nuisance),
            "has_blocks": design.blocks is not None,
            "block_sizes": None if design.blocks is None else np.bincount(design.blocks).tolist(),
            "statistic": statistic_in_words(design),
            "variance_groups": None
            if design.variance_groups is None
            else int(design.variance_groups.max()) + 1,
            "level": LEVEL,
            "groups": design.group_sizes,
            "n_subjects": len(design.subjects),
            # Fewer than the subjects if sessions are exchanged within persons.
            "n_persons": len(set(map(person_of, design.subjects))),
            "left_out": design.left_out,
        },
        "data": _describe_data(study.templates[0].estimator.tasks_),
        "sessions": study.sessions,
        "templates": {each.name: _describe_template(each, design) for each in study.templates},
        "converged": is_converged(study),
        "matrices": [f"{each.name}.tsv" for each in design_matrices(study)],
        "warnings": [*design.notes, *fit_warnings(study)],
    }


def _method_in_words(study: DesignStudy) -> str:
    learner = type(study.templates[0].estimator).__name__
    return f"{_LEARNED.get(learner, _LEARNED_JOINTLY)}, and {_TESTED}"


def _describe_template(template: TestedTemplate, design: Design) -> dict[str, Any]:
    """What comparison.json says about the fit and the tests of a template."""
    estimator, tests = template.estimator, template.tests
    relatedness = getattr(estimator, "relatedness_", None)
    limit = detectable(tests, design)
    return {
        "variables": list(template.variables),
        "fit": {
            **describe_fit(estimator),
            "method": type(estimator).__name__,
            "is_posterior": _edge_probabilities(template) is not None,
            "relatedness": [] if relatedness is None else relatedness.in_words(),
        },
        "permutations": tests.n_permutations,
        "n_connections": len(template.pairs),
        "sets": [each.first for each in template.sets if each.kind == "within"],
        "smallest_corrected_p": tests.p_any,
        # None where there are too few subjects to find an effect of any size.
        "detectable_effect": None if limit is None else limit.effect,
        "power": None if limit is None else limit.power,
        "threshold_of_components": float(tests.threshold),
        "differences": describe_differences(template, design),
        "reliability": None
        if template.reliability is None
        else {
            "in_words": template.reliability.in_words(),
            "source": template.reliability.source,
        },
    }


def _describe_data(tasks: Tasks) -> dict[str, Any]:
    """What is known about the data from themselves, also without the options that read them."""
    rows = tasks.n_rows
    return {
        "tasks": len(tasks),
        "rows": None if rows is None else [int(rows.min()), int(rows.max())],
        "n": [float(tasks.ns.min()), float(tasks.ns.max())],
        "standardised": bool(np.any(tasks.scales != 1)),
    }


def is_converged(study: DesignStudy) -> bool:
    """Whether all fits converged."""
    fits = [each for one in study.templates for each in (one.estimator, one.with_groups)]
    return all(getattr(each, "converged_", True) for each in fits if each is not None)


def fit_warnings(study: DesignStudy) -> list[str]:
    """Warnings of the fits, without those about the data, which notes and `read_cohort` give once."""
    return [
        f"{template.name}{which}: {warning}"
        for template in study.templates
        for which, fit in (("", template.estimator), (", with groups", template.with_groups))
        for warning in getattr(fit, "warnings_", ())
        if warning not in _about_data(template.estimator.tasks_)
    ]


def _about_data(tasks: Tasks) -> list[str]:
    return [*time_series(tasks), *unequal_scales(tasks)]


def _strengths(study: DesignStudy) -> DescribedTable:
    subjects = study.design.subjects
    columns = {
        **_TEMPLATE,
        **_PAIR,
        **{name: f"partial correlation in {name}" for name in subjects},
    }
    rows = [
        [*_names(template, k), *np.tanh(template.strengths[:, k])]
        for template in study.templates
        for k in range(len(template.pairs))
    ]
    text = "Strength of every connection in every subject, one column per subject"
    return table_of("strengths", text, columns, rows)


def _components(study: DesignStudy) -> DescribedTable:
    rows = [
        [
            *(template.name, number, len(component.connections), component.p),
            *(template.tests.threshold, *_names(template, k)[1:], template.tests.statistic[k]),
        ]
        for template in study.templates
        for number, component in enumerate(template.tests.components, start=1)
        for k in component.connections
    ]
    text = "Network-based statistic: connections above a threshold that hang together"
    return table_of("components", text, _COMPONENTS, rows)


def _regions(study: DesignStudy) -> DescribedTable:
    rows = [
        [template.name, template.variables[k], len(template.variables) - 1, *numbers]
        for template in study.templates
        for k, numbers in _ranked(template.tests.regions)
    ]
    text = "All connections of a region tested as a whole, the smallest p-value of a template first"
    return table_of("regions", text, _REGIONS, rows)


def _sets(study: DesignStudy) -> DescribedTable:
    rows = [
        [template.name, own.kind, own.first, own.second, len(own.connections), *numbers]
        for template in study.templates
        for k, numbers in _ranked(template.tests.sets)
        for own in [template.sets[k]]
    ]
    text = "Sets of connections tested as a whole, the smallest p-value of a template first"
    return table_of("sets", text, _SETS, rows)


def _ranked(tests: SetTests) -> list[tuple[int, tuple[float, ...]]]:
    """Position and numbers of every set, the smallest p-value first."""
    order = np.lexsort((-tests.statistic, tests.p))
    columns = (tests.effect, tests.statistic, tests.p, tests.p_family)
    return [(k, tuple(float(each[k]) for each in columns)) for k in order.tolist()]


def _subjects(study: DesignStudy, about: Mapping[str, Any]) -> DescribedTable:
    """Compared subjects, those without a covariate, excluded ones, and participants without data."""
    design, tasks = study.design, study.templates[0].estimator.tasks_
    given = {each["subject"]: each for each in about.get("subjects", ())}
    for person, sessions in (study.sessions or {}).items():
        parts = [given.pop(name) for name in sessions if name in given]
        if parts:
            given[person] = _joined_sessions(parts)
    values = {name: each["covariates"] for name, each in given.items() if "covariates" in each}
    columns = {name: f"value of {name}" for each in values.values() for name in each}
    values |= about.get("covariates_of_unused", {})
    if not values:
        columns = {name: "column of the design" for name in design.columns if name != "Intercept"}
        values = {
            name: dict(zip(design.columns, row, strict=True))
            for name, row in zip(design.subjects, design.matrix.tolist(), strict=True)
        }
    n_rows = [None] * len(tasks) if tasks.n_rows is None else tasks.n_rows.tolist()
    sizes = dict(zip(tasks.names, zip(n_rows, tasks.ns.tolist(), strict=True), strict=True))
    for person, sessions in (study.sessions or {}).items():
        of_person = [sizes[name] for name in sessions]
        rows_of_person = [rows for rows, _ in of_person if rows is not None]
        sizes[person] = (sum(rows_of_person) or None, sum(n for _, n in of_person))
    sizes |= {name: (each["rows"], each["n"]) for name, each in given.items() if "rows" in each}
    reasons: dict[str, str | None] = dict.fromkeys(design.subjects)
    reasons |= {name: f"has no value of {column!r}" for name, column in design.left_out.items()}
    reasons |= {each["name"]: each["reason"] for each in about.get("excluded", ())}
    reasons |= dict.fromkeys(about.get("participants_without_data", ()), "has no data")
    rows = [
        [
            *(name, *(values.get(name, {}).get(column) for column in columns)),
            *(*sizes.get(name, (None, None)), "no" if reason else "yes", reason),
        ]
        for name, reason in reasons.items()
    ]
    described = {"subject": "name of the subject", **columns, **_ENDING}
    return table_of("subjects", "Every subject, compared or not", described, rows)


def _joined_sessions(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of the sessions of a person as one entry: rows and n are sums."""
    joined: dict[str, Any] = {key: sum(part[key] for part in parts) for key in ("rows", "n")}
    known = [part["covariates"] for part in parts if "covariates" in part]
    if known:
        joined["covariates"] = {
            name: "; ".join(dict.fromkeys(str(values[name]) for values in known))
            for name in known[0]
        }
    return joined


def _names(template: TestedTemplate, k: int) -> tuple[str, str, str]:
    i, j = template.pairs[k]
    return template.name, template.variables[i], template.variables[j]


def _square(template: TestedTemplate, values: np.ndarray) -> np.ndarray:
    """Values of the connections as a symmetric matrix; nan on the diagonal."""
    p = len(template.variables)
    matrix = np.full((p, p), np.nan)
    i, j = template.pairs.T
    matrix[i, j] = matrix[j, i] = values
    return matrix


def _labels(study: DesignStudy) -> list[str]:
    """Names of the templates as BIDS wants them in file names: letters and digits, no name twice."""
    labels: list[str] = []
    for number, template in enumerate(study.templates):
        label = re.sub(r"[^A-Za-z0-9]", "", template.name)
        taken = {each.lower() for each in labels}  # some file systems ignore capitals
        labels.append(f"{label}{number}" if not label or label.lower() in taken else label)
    return labels
