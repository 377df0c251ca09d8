"""Comparisons as files: tables of text, each with a JSON file that explains its columns."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from mtgbn._utils.files import table_text, write_text
from mtgbn._utils.versions import versions_of
from mtgbn.compare.connections import Connections, compare_graphs
from mtgbn.compare.fitting import AnyEstimator
from mtgbn.compare.one_subject import Departures
from mtgbn.compare.permutation import Permutations
from mtgbn.compare.strengths import DEFAULT_MEASURE, MEASURES, standardised_coefficients
from mtgbn.compare.study import Study, SubjectStudy, TemplateComparison
from mtgbn.graphs import cpdag
from mtgbn.graphs.equivalence import restricted_cpdag
from mtgbn.learn import MTGBN

__all__ = ["ABOUT_FILE", "ALARM_LEVEL", "TABLES", "permuted_pvalues", "study_files", "write_study"]

ABOUT_FILE = "comparison.json"
TABLES = ("connections", "degrees", "counts", "edges", "methods", "departures", "alarms")
CONVENTION = "A[i, j] = 1 means i -> j: source -> target; DCM's A matrix is the transpose"
_PACKAGES = ("numpy", "scipy", "numba", "joblib")
ALARM_LEVEL = 0.05

INDEPENDENCE = (
    "the z-test and Fisher's test (p_greater, p_less, p_two_sided, p_exact, q, q_study) assume "
    "independent subjects. Graphs that were learned jointly are not independent: they resemble each "
    "other also in edges that are there by chance, so that these p-values (and the intervals of "
    "differences) can be far too small. A permutation test needs no such assumption"
)
RELABELLING = {
    "separate": "every relabelling was fitted anew, group by group, as the true groups were",
    "together": "all subjects were fitted as one cohort without labels, so that labels were exchanged "
    "without new fits",
}

_TEMPLATE = {"template": "set of variables that was compared as one network"}
_PAIR = {"source": "variable i of i -> j", "target": "variable j of i -> j"}
_CONNECTIONS = {
    **_TEMPLATE,
    "kind": "directed: i -> j; undirected: an edge between both, in either direction",
    "source": "variable i of i -> j, or the first of an undirected pair",
    "target": "variable j of i -> j, or the second of an undirected pair",
    "count_a": "subjects of group a that have the connection",
    "n_a": "subjects of group a",
    "count_b": "subjects of group b that have the connection",
    "n_b": "subjects of group b",
    "more_in": "label of the group with the larger share; n/a if the shares are equal",
    "p_two_sided": "two-sided p-value of the two-sample z-test of proportions, with the pooled variance "
    "and without continuity correction",
    "q": "false discovery rate (Benjamini and Hochberg) of p_two_sided, over the connections of this "
    "kind in the template",
    "q_study": "false discovery rate of p_two_sided, over the connections of this kind in all templates",
    "difference": "share of group a minus share of group b",
    "difference_low": "lower end of the difference's 95 % confidence interval (Newcombe)",
    "difference_high": "upper end of the difference's 95 % confidence interval (Newcombe)",
    "z": "statistic of the z-test",
    "p_greater": "one-sided p-value of the z-test: more in group a",
    "p_less": "one-sided p-value of the z-test: less in group a",
    "p_exact": "two-sided p-value of Fisher's exact test",
}
_PERMUTED = {
    "p_permutation": "two-sided p-value of the difference, by relabelling",
    "p_permutation_corrected": "p_permutation, corrected for the number of connections in the template "
    "by the distribution of the largest difference",
}
_DEGREES = {
    **_TEMPLATE,
    "variable": "variable",
    **{
        f"{kind}_{what}": text.format(words)
        for kind, words in {
            "in": "edges into the variable",
            "out": "edges out of the variable",
            "total": "edges at the variable",
        }.items()
        for what, text in {
            "a": "{}, summed over the subjects of group a",
            "b": "{}, summed over the subjects of group b",
            "percent": "{}: mean of group a minus mean of group b, in percent of the mean of group b; "
            "n/a if group b has no such edge",
        }.items()
    },
}
_COUNTS = {
    **_TEMPLATE,
    **_PAIR,
    "count_a": "subjects of group a that have i -> j",
    "count_b": "subjects of group b that have i -> j",
}
_EDGES = {
    **_TEMPLATE,
    "group": "label of the subject's group",
    "subject": "subject",
    **_PAIR,
    "coefficient": "coefficient of i in the regression of j on its parents, all scaled to variance 1",
    "direction": "compelled: the data exclude the other direction; known: prior knowledge excludes it; "
    "chosen: the data allow either, and the direction agrees best with all other subjects of both "
    "groups (with prior knowledge: it is the direction that the search found)",
}
_PROBABILITIES = {
    "probability": "posterior probability of i -> j",
    "adjacency_probability": "posterior probability of an edge in either direction",
}
_METHOD = {
    "{}_count_a": "{}: subjects of group a that have i -> j",
    "{}_count_b": "{}: subjects of group b that have i -> j",
    "{}_p_greater": "{}: one-sided p-value of the two-sample test of proportions, more in group a",
    "{}_p_less": "{}: one-sided p-value of the two-sample test of proportions, less in group a",
}
_METHOD_NAMES = {
    "mtgbn": "MTGBN (subjects of a group learned jointly)",
    "sig": "SIG (every subject as a single task)",
    "gc": "conditional Granger causality",
    "rdcm": "regression DCM",
}
_DEPARTURES = {
    **_TEMPLATE,
    "variable_1": "first variable of the pair; directions are not compared",
    "variable_2": "second variable of the pair",
    "departure": "whether the connection is stronger or weaker in the subject than in controls, in "
    "absolute value",
    "strength": MEASURES[DEFAULT_MEASURE].description,
    "control_strength": "mean strength over the controls",
    "p": "share of all pairs of all controls with an absolute score at least as large; the subject's "
    "pair is counted too",
    "fdr": "estimated share of false discoveries among the pairs up to this one, within the template",
    "expected_alarms": "mean number of pairs in which one control has a score as large against the "
    "other controls; the subject is counted as one of them",
    "score": "difference between strength and control_strength (for correlations as Fisher's z), in "
    "units of its standard deviation among controls",
    "probability": "posterior probability that the subject has the connection, from the subject's data "
    "as a single task",
    "control_probability": "mean of the same probability over the controls",
    "control_count": "controls who have the connection in the joint fit of all controls",
    "n_controls": "number of controls",
}
_ALARMS = {
    **_TEMPLATE,
    "control": "a control, compared with the other controls in the same way as the subject",
    "alarms": f"pairs with p below {ALARM_LEVEL}",
    "pairs": "number of pairs",
    "rate": "alarms / pairs",
}


class _Table(NamedTuple):
    columns: dict[str, str]
    rows: list[list[object]]
    about: str


def write_study(
    study: Study | SubjectStudy, folder: str | Path, about: Mapping[str, Any] | None = None
) -> Path:
    """Write a comparison to a folder as tables, each with a .json that explains its columns.

    Parameters
    ----------
    study : Study or SubjectStudy
    folder : path
        Of two groups it gets connections.tsv, degrees.tsv, counts.tsv, edges.tsv and, if methods were
        compared, methods.tsv; of one subject departures.tsv and alarms.tsv; and comparison.json.
    about : mapping, optional
        More entries of comparison.json.

    Returns
    -------
    Path
        Of comparison.json.

    Examples
    --------
    >>> import tempfile
    >>> study = SubjectStudy("sub-01", ("sub-02", "sub-03", "sub-04", "sub-05"), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_study(study, folder)
    ...     print(path.name, *sorted(each.name for each in path.parent.glob("*.tsv")))
    comparison.json alarms.tsv departures.tsv
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = study_files(study, about)
    for table in TABLES:  # an earlier comparison may have had more tables
        for kind in ("tsv", "json"):
            if f"{table}.{kind}" not in files:
                (folder / f"{table}.{kind}").unlink(missing_ok=True)
    for (
        name,
        text,
    ) in files.items():  # comparison.json is the last: a folder that has it is finished
        write_text(folder / name, text)
    return folder / ABOUT_FILE


def study_files(
    study: Study | SubjectStudy, about: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the texts of the files that `write_study` writes, by file name."""
    if isinstance(study, Study):
        tables, content = _group_tables(study), _about_groups(study)
        groups = {"a": study.label_a, "b": study.label_b}
        warnings = [warning for each in study.templates for warning in each.warnings]
    else:
        tables = {"departures": _departures(study), "alarms": _alarms(study)}
        content, groups, warnings = _about_subject(study), {}, []
    files = {}
    for name, (columns, rows, description) in tables.items():
        lines = [list(columns), *([_cell(value) for value in row] for row in rows)]
        files[f"{name}.tsv"] = table_text(lines)
        sidecar: dict[str, Any] = {"Description": description}
        if groups:
            sidecar["Groups"] = groups
        sidecar |= {column: {"Description": text} for column, text in columns.items()}
        files[f"{name}.json"] = _json_text(sidecar)
    extra = dict(about or {})
    content["warnings"] = [*extra.pop("warnings", ()), *warnings]
    content |= extra
    content["versions"] = versions_of(_PACKAGES)
    content["files"] = [f"{name}.tsv" for name in tables]
    files[ABOUT_FILE] = _json_text(content)
    return files


def _json_text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _group_tables(study: Study) -> dict[str, _Table]:
    tables = {
        "connections": _connections(study),
        "degrees": _degrees(study),
        "counts": _counts(study),
        "edges": _edges(study),
    }
    if any(each.methods for each in study.templates):
        tables["methods"] = _methods(study)
    return tables


def _about_groups(study: Study) -> dict[str, Any]:
    permutation = None
    if study.n_permutations:
        permutation = {
            "relabellings": study.n_permutations,
            "refitted": study.fitting == "separate",
            "how": RELABELLING[study.fitting],
            "p_any_difference": {
                each.name: each.permutations.pvalue for each in study.templates if each.permutations
            },
        }
    content = {
        "description": "two groups of networks, compared connection by connection",
        "direction": CONVENTION,
        "groups": {
            key: {"label": label, "n": len(names), "subjects": list(names)}
            for key, label, names in (
                ("a", study.label_a, study.names_a),
                ("b", study.label_b, study.names_b),
            )
        },
        "fitting": study.fitting,
        "templates": {each.name: _about_fits(each) for each in study.templates},
        "tests": {"assumption": INDEPENDENCE, "permutation": permutation},
        "converged": all(each.converged for each in study.templates),
    }
    if any(each.methods for each in study.templates):
        content["density"] = {
            "edges_per_subject": "as many as mtgbn finds in the subject"
            if study.n_edges is None
            else study.n_edges,
            "applies_to": "methods.tsv only; all other tables have mtgbn's graphs as they are",
        }
    return content


def _about_subject(study: SubjectStudy) -> dict[str, Any]:
    return {
        "description": "one subject, compared with controls",
        "direction": "connections are compared without their directions",
        "subject": study.subject,
        "controls": {"n": len(study.controls), "subjects": list(study.controls)},
        "templates": {
            name: {
                "variables": list(variables),
                "false_alarm_rate": departures.alarm_rate(ALARM_LEVEL),
                "false_alarm_level": ALARM_LEVEL,
            }
            for name, (variables, departures) in study.templates.items()
        },
    }


def _cell(value: object) -> str:
    """The text of a value; n/a where there is none, as in BIDS."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "n/a"
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value)


def _about_fits(template: TemplateComparison) -> dict[str, Any]:
    fits = {
        name: {
            "seed": str(each.random_state_),
            "edges_per_subject": float(each.graphs_.sum(axis=(1, 2)).mean()),
            "nu0": getattr(each, "nu0_", None),
            "edge_prior_density": float(np.mean(each.edge_prior_.density)),
            "converged": getattr(each, "converged_", True),
            "stop_reason": getattr(each, "stop_reason_", None),
        }
        for name, each in template.fits.named_estimators.items()
    }
    return {"variables": list(template.variables), "fits": fits}


def _connections(study: Study) -> _Table:
    columns = dict(_CONNECTIONS) | (_PERMUTED if study.n_permutations else {})
    rows: list[list[object]] = []
    for kind in ("undirected", "directed"):
        tests: list[Connections] = [getattr(each, kind) for each in study.templates]
        q_study = iter(false_discovery_control(np.concatenate([t.p_two_sided for t in tests])))
        for template, test in zip(study.templates, tests, strict=True):
            for k, (i, j) in enumerate(_pairs(test)):
                difference = test.difference[k]
                larger = study.label_a if difference > 0 else study.label_b
                row = [
                    *(template.name, kind, template.variables[i], template.variables[j]),
                    *(test.count_a[k], test.n_a, test.count_b[k], test.n_b),
                    larger if difference else None,
                    *(test.p_two_sided[k], test.q[k], next(q_study)),
                    *(difference, test.low[k], test.high[k], test.statistic[k]),
                    *(test.p_greater[k], test.p_less[k], test.p_exact[k]),
                ]
                if template.permutations is not None:
                    p, corrected = permuted_pvalues(template.permutations, kind)
                    row += [p[i, j], corrected[i, j]]
                rows.append(row)
    return _Table(columns, rows, "Tests of every connection; " + CONVENTION)


def permuted_pvalues(permutations: Permutations, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """p-values and corrected p-values of all connections of a kind by relabelling, (p, p) each."""
    if kind == "directed":
        return permutations.pvalues, permutations.corrected
    return permutations.pair_pvalues, permutations.pair_corrected


def _degrees(study: Study) -> _Table:
    rows = []
    n_a, n_b = len(study.names_a), len(study.names_b)
    for template in study.templates:
        for v, variable in enumerate(template.variables):
            row: list[object] = [template.name, variable]
            for of_a, of_b in zip(template.degrees_a, template.degrees_b, strict=True):
                a, b = int(of_a[v]), int(of_b[v])
                row += [a, b, 100 * (a / n_a / (b / n_b) - 1) if b else None]
            rows.append(row)
    return _Table(_DEGREES, rows, "Connection degrees, as in the paper's Table 3; " + CONVENTION)


def _counts(study: Study) -> _Table:
    rows: list[list[object]] = []
    for template in study.templates:
        counts = [graphs.sum(axis=0) for graphs in (template.fits.graphs_a, template.fits.graphs_b)]
        for i, j in np.argwhere(~np.eye(len(template.variables), dtype=bool)):
            names = (template.variables[i], template.variables[j])
            rows.append([template.name, *names, *(int(count[i, j]) for count in counts)])
    return _Table(_COUNTS, rows, "Number of subjects with a connection; " + CONVENTION)


def _edges(study: Study) -> _Table:
    estimators = [each for template in study.templates for each in template.fits.estimators]
    has_probabilities = all(hasattr(each, "edge_probabilities_") for each in estimators)
    rows = []
    for template in study.templates:
        fit_of = {
            name: (estimator, t)
            for estimator in template.fits.estimators
            for t, name in enumerate(estimator.task_names_)
        }
        for label, names, graphs in (
            (study.label_a, study.names_a, template.fits.graphs_a),
            (study.label_b, study.names_b, template.fits.graphs_b),
        ):
            for name, graph in zip(names, graphs, strict=True):
                estimator, t = fit_of[name]
                coefficients = standardised_coefficients(graph, estimator.covariances_[t])
                directions = _directions(graph, estimator)
                for i, j in np.argwhere(graph):
                    row = [
                        *(template.name, label, name, template.variables[i], template.variables[j]),
                        coefficients[i, j],
                        directions[i, j],
                    ]
                    if isinstance(estimator, MTGBN) and has_probabilities:
                        row.append(estimator.edge_probabilities_[t, i, j])
                        row.append(estimator.adjacency_probabilities_[t, i, j])
                    rows.append(row)
    columns = dict(_EDGES) | (_PROBABILITIES if has_probabilities else {})
    return _Table(columns, rows, "Every edge of every subject; " + CONVENTION)


def _directions(graph: np.ndarray, estimator: AnyEstimator) -> np.ndarray:
    """Why every edge has its direction: compelled, known or chosen; (p, p)."""
    reversible = cpdag(graph).T
    free = reversible
    if estimator.knowledge is not None:
        free = restricted_cpdag(graph, estimator.resolved_knowledge().allowed).T
    return np.where(reversible, np.where(free, "chosen", "known"), "compelled")


def _methods(study: Study) -> _Table:
    methods = [each.method for each in study.templates[0].methods]
    columns = {**_TEMPLATE, **_PAIR}
    for method in methods:
        for name, text in _METHOD.items():
            columns[name.format(method)] = text.format(_METHOD_NAMES[method])
    rows = []
    for template in study.templates:
        tests = [compare_graphs(each.graphs_a, each.graphs_b) for each in template.methods]
        places = [{pair: k for k, pair in enumerate(_pairs(test))} for test in tests]
        for pair in _pairs(tests[0]):
            row: list[object] = [template.name, *(template.variables[v] for v in pair)]
            for test, place in zip(tests, places, strict=True):
                k = place[pair]
                row += [test.count_a[k], test.count_b[k], test.p_greater[k], test.p_less[k]]
            rows.append(row)
    about = "Methods at the same number of edges in every subject, as in the paper's Table 4; "
    return _Table(columns, rows, about + CONVENTION)


def _pairs(rows: Connections | Departures) -> Iterable[tuple[int, int]]:
    return zip(rows.source.tolist(), rows.target.tolist(), strict=True)


def _departures(study: SubjectStudy) -> _Table:
    columns, rows = dict(_DEPARTURES), []
    for name, (variables, found) in study.templates.items():
        columns["strength"] = MEASURES[found.measure].description
        for k, (i, j) in enumerate(_pairs(found)):
            rows.append(
                [
                    *(name, variables[i], variables[j]),
                    "stronger" if found.score[k] > 0 else "weaker",
                    *(found.strength[k], found.control_strength[k]),
                    *(found.pvalue[k], found.fdr[k], found.expected_alarms[k], found.score[k]),
                    *(found.probability[k], found.control_probability[k]),
                    *(found.control_count[k], found.n_controls),
                ]
            )
    about = f"Connections of {study.subject}, the largest departure from the controls first"
    return _Table(columns, rows, about)


def _alarms(study: SubjectStudy) -> _Table:
    rows: list[list[object]] = []
    for name, (_, departures) in study.templates.items():
        pairs = len(departures.score)
        rates = departures.alarm_rates(ALARM_LEVEL)
        for control, rate in zip(study.controls, rates, strict=True):
            rows.append([name, control, round(rate * pairs), pairs, rate])
    return _Table(_ALARMS, rows, "False alarms of every control against the other controls")
