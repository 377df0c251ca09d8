"""Comparisons as files: tables of text, each with a JSON file that explains its columns."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

import mtgbn
from mtgbn._utils.files import table_text, write_json, write_text
from mtgbn.compare.groups import Connections, compare_graphs
from mtgbn.compare.methods import standardised_coefficients
from mtgbn.compare.study import Study, SubjectStudy, TemplateComparison

__all__ = ["ABOUT_FILE", "TABLES", "write_study", "write_subject_study"]

ABOUT_FILE = "comparison.json"
TABLES = ("connections", "degrees", "counts", "edges", "methods", "departures", "alarms")
CONVENTION = "A[i, j] = 1 means i -> j: source -> target; DCM's A matrix is the transpose"
_PACKAGES = ("numpy", "scipy", "numba", "joblib")
ALARM_LEVEL = 0.05

INDEPENDENCE = (
    "the z-test and Fisher's test (p_greater, p_less, p_two_sided, p_exact, q, q_study) take subjects "
    "for independent. Graphs that were learned together are not: they resemble each other also where "
    "only chance made them alike, and these p-values (and the intervals of differences) can be far too "
    "small. Relabelling the subjects needs no such assumption"
)
RELABELLING = {
    "separate": "every relabelling was fitted anew, group by group, as the groups themselves were",
    "together": "all subjects were fitted as one cohort without labels, so that labels were exchanged "
    "without new fits",
}

_TEMPLATE = {"template": "set of variables that were compared by themselves"}
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
    "more_in": "label of the group in which a larger share has it; n/a if the shares are the same",
    "p_two_sided": "two-sided p-value of the two-sample test of proportions, pooled, without continuity "
    "correction",
    "q": "Benjamini and Hochberg's, of p_two_sided, over the connections of this kind in the template",
    "q_study": "the same over the connections of this kind in all templates",
    "difference": "share of group a minus share of group b",
    "difference_low": "lower end of its 95 % confidence interval (Newcombe)",
    "difference_high": "upper end of its 95 % confidence interval (Newcombe)",
    "z": "statistic of the test",
    "p_greater": "one-sided p-value of the test: more in group a",
    "p_less": "one-sided p-value of the test: less in group a",
    "p_exact": "two-sided p-value of Fisher's exact test",
}
_PERMUTED = {
    "p_permutation": "two-sided p-value of the difference, by relabelling",
    "p_permutation_corrected": "the same for the largest difference anywhere in the template: below .05 "
    "is a difference however many connections of the template were looked at",
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
            "percent": "{}: mean of group a minus mean of group b, in percent of that of group b; n/a "
            "if group b has none",
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
    "group": "label",
    "subject": "subject",
    **_PAIR,
    "coefficient": "of i in the regression of j on its parents, all of variance 1",
    "direction": "compelled: the data exclude the other direction; chosen: the data allow either, and "
    "the edge points as agrees best with all other subjects of both groups",
}
_PROBABILITIES = {
    "probability": "posterior probability of i -> j",
    "adjacency_probability": "posterior probability of an edge in either direction",
}
_METHOD = {
    "{}_count_a": "{}: subjects of group a that have i -> j",
    "{}_count_b": "{}: subjects of group b that have i -> j",
    "{}_p_greater": "{}: one-sided p-value of the two-sample test of proportions, more in group a",
    "{}_p_less": "{}: the same, less in group a",
}
_METHOD_NAMES = {
    "mtgbn": "MTGBN (subjects of a group learned together)",
    "sig": "SIG (every subject alone)",
    "gc": "conditional Granger causality",
    "rdcm": "regression DCM",
}
_DEPARTURES = {
    **_TEMPLATE,
    "variable_1": "first variable of the pair; directions are not compared",
    "variable_2": "second variable of the pair",
    "departure": "stronger or weaker in the subject than in controls, whatever the sign",
    "strength": "partial correlation in the subject, given the parents in the controls' networks",
    "control_strength": "mean of the same over the controls",
    "p": "share of all controls and pairs with a score at least as large, either way, this one too",
    "fdr": "estimated share of false discoveries among the pairs up to this one, within the template",
    "expected_alarms": "pairs with a score as large that one control has against the others, on "
    "average; the subject's own is counted in",
    "score": "difference of the strengths, as Fisher's z, in units of its spread among controls",
    "probability": "posterior probability that the subject has the connection, by its own data alone",
    "control_probability": "mean of the same over the controls",
    "control_count": "controls who have it in the networks that were learned of all controls together",
    "n_controls": "controls",
}
_ALARMS = {
    **_TEMPLATE,
    "control": "a control, compared with the other controls as the subject was",
    "alarms": f"pairs with p below {ALARM_LEVEL}",
    "pairs": "all pairs",
    "rate": "alarms / pairs",
}


class _Table(NamedTuple):
    columns: dict[str, str]
    rows: list[list[object]]
    about: str


def write_study(study: Study, folder: str | Path, about: Mapping[str, Any] | None = None) -> Path:
    """Write the tables of a comparison of two groups to a folder.

    Parameters
    ----------
    study : Study
    folder : path
        Gets connections.tsv, degrees.tsv, counts.tsv, edges.tsv and perhaps methods.tsv, each with a
        .json, and comparison.json.
    about : mapping, optional
        What comparison.json is to say beyond the comparison itself.
    """
    groups = {"a": study.label_a, "b": study.label_b}
    tables = {
        "connections": _connections(study),
        "degrees": _degrees(study),
        "counts": _counts(study),
        "edges": _edges(study),
    }
    if any(each.methods for each in study.templates):
        tables["methods"] = _methods(study)
    relabelled = None
    if study.n_permutations:
        relabelled = {
            "relabellings": study.n_permutations,
            "refitted": study.fitting == "separate",
            "how": RELABELLING[study.fitting],
            "p_any_difference": {each.name: each.permutations.pvalue for each in study.templates},
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
        "tests": {"assumption": INDEPENDENCE, "permutation": relabelled},
        "converged": all(each.converged for each in study.templates),
    }
    if "methods" in tables:
        content["density"] = {
            "edges_per_subject": "as many as mtgbn finds in the subject"
            if study.n_edges is None
            else study.n_edges,
            "applies_to": "methods.tsv only; all other tables have mtgbn's graphs as they are",
        }
    warnings = [warning for each in study.templates for warning in each.warnings]
    return _write(Path(folder), tables, content, about, groups, warnings)


def write_subject_study(
    study: SubjectStudy, folder: str | Path, about: Mapping[str, Any] | None = None
) -> Path:
    """Write how a subject departs from controls: departures.tsv, alarms.tsv and comparison.json."""
    tables = {"departures": _departures(study), "alarms": _alarms(study)}
    content = {
        "description": "one subject, compared with controls",
        "direction": "connections are compared without their directions",
        "subject": study.subject,
        "controls": {"n": len(study.controls), "subjects": list(study.controls)},
        "templates": {
            name: {
                "variables": list(variables),
                "false_alarm_rate": found.alarm_rate(ALARM_LEVEL),
                "false_alarm_level": ALARM_LEVEL,
            }
            for name, (variables, found) in study.templates.items()
        },
    }
    return _write(Path(folder), tables, content, about, {}, [])


def _write(
    folder: Path,
    tables: Mapping[str, _Table],
    content: dict[str, Any],
    about: Mapping[str, Any] | None,
    groups: Mapping[str, str],
    warnings: list[str],
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in set(TABLES) - set(tables):  # of an earlier run that was asked for more
        for kind in ("tsv", "json"):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)
    for name, (columns, rows, description) in tables.items():
        lines = [list(columns), *([_cell(value) for value in row] for row in rows)]
        write_text(folder / f"{name}.tsv", table_text(lines))
        sidecar: dict[str, Any] = {"Description": description}
        if groups:
            sidecar["Groups"] = dict(groups)
        sidecar |= {column: {"Description": text} for column, text in columns.items()}
        write_json(folder / f"{name}.json", sidecar)
    extra = dict(about or {})
    content["warnings"] = [*extra.pop("warnings", ()), *warnings]
    content |= extra
    content["versions"] = {
        "mtgbn": mtgbn.__version__,
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }
    content["files"] = [f"{name}.tsv" for name in tables]
    path = folder / ABOUT_FILE
    write_json(path, content)  # last: a folder that has it is finished
    return path


def _cell(value: object) -> str:
    """As BIDS has it: n/a where there is nothing."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "n/a"
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value)


def _about_fits(template: TemplateComparison) -> dict[str, Any]:
    names = ("all",) if len(template.found.learners) == 1 else ("a", "b")
    fits = {}
    for name, learner in zip(names, template.found.learners, strict=True):
        prior = learner.edge_prior_
        fits[name] = {
            "seed": str(learner.random_state_),
            "edges_per_subject": float(learner.graphs_.sum(axis=(1, 2)).mean()),
            "nu0": getattr(learner, "nu0_", None),
            "edge_prior_density": float(np.mean(prior.density)),
            "converged": getattr(learner, "converged_", True),
            "stop_reason": getattr(learner, "stop_reason_", None),
        }
    return {"variables": list(template.variables), "fits": fits}


def _connections(study: Study) -> _Table:
    columns = dict(_CONNECTIONS) | (_PERMUTED if study.n_permutations else {})
    rows = []
    for kind in ("undirected", "directed"):
        tested: list[Connections] = [getattr(each, kind) for each in study.templates]
        over_all = false_discovery_control(np.concatenate([each.p_two_sided for each in tested]))
        place = 0
        for template, found in zip(study.templates, tested, strict=True):
            for k, (i, j) in enumerate(zip(found.source, found.target, strict=True)):
                row = [
                    *(template.name, kind, template.variables[i], template.variables[j]),
                    *(found.count_a[k], found.n_a, found.count_b[k], found.n_b),
                    more_in(study, found.difference[k]),
                    *(found.p_two_sided[k], found.q[k], over_all[place]),
                    *(found.difference[k], found.low[k], found.high[k], found.statistic[k]),
                    *(found.p_greater[k], found.p_less[k], found.p_exact[k]),
                ]
                if template.permutations is not None:
                    p, corrected = permuted(template, kind)
                    row += [p[i, j], corrected[i, j]]
                rows.append(row)
                place += 1
    return _Table(columns, rows, "Tests of every connection; " + CONVENTION)


def more_in(study: Study, difference: float) -> str | None:
    """The group with the larger share."""
    if difference == 0:
        return None
    return study.label_a if difference > 0 else study.label_b


def permuted(template: TemplateComparison, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """p-values by relabelling, (p, p): of every connection, and corrected."""
    found = template.permutations
    if kind == "directed":
        return found.pvalues, found.corrected
    return found.pair_pvalues, found.pair_corrected


def _degrees(study: Study) -> _Table:
    rows = []
    n_a, n_b = len(study.names_a), len(study.names_b)
    for template in study.templates:
        for v, variable in enumerate(template.variables):
            row: list[object] = [template.name, variable]
            for own, other in zip(template.degrees_a, template.degrees_b, strict=True):
                a, b = int(own[v]), int(other[v])
                row += [a, b, 100 * (a / n_a / (b / n_b) - 1) if b else None]
            rows.append(row)
    return _Table(_DEGREES, rows, "Connection degrees, as in the paper's Table 3; " + CONVENTION)


def _counts(study: Study) -> _Table:
    rows = []
    for template in study.templates:
        counts = [graphs.sum(axis=0) for graphs in template.found[:2]]
        for i, j in np.argwhere(~np.eye(len(template.variables), dtype=bool)):
            names = (template.variables[i], template.variables[j])
            rows.append([template.name, *names, *(int(count[i, j]) for count in counts)])
    return _Table(_COUNTS, rows, "How many subjects have a connection; " + CONVENTION)


def _edges(study: Study) -> _Table:
    rows = []
    is_sampled = all(
        hasattr(learner, "edge_probabilities_")
        for template in study.templates
        for learner in template.found.learners
    )
    columns = dict(_EDGES) | (_PROBABILITIES if is_sampled else {})
    for template in study.templates:
        owner = {
            name: (learner, t)
            for learner in template.found.learners
            for t, name in enumerate(learner.task_names_)
        }
        for label, names, graphs in (
            (study.label_a, study.names_a, template.found.graphs_a),
            (study.label_b, study.names_b, template.found.graphs_b),
        ):
            for name, graph in zip(names, graphs, strict=True):
                learner, t = owner[name]
                coefficients = standardised_coefficients(graph, learner.covariances_[t])
                for i, j in np.argwhere(graph):
                    row = [
                        *(template.name, label, name, template.variables[i], template.variables[j]),
                        coefficients[i, j],
                        "chosen"
                        if learner.cpdags_[t, j, i] and learner.cpdags_[t, i, j]
                        else "compelled",
                    ]
                    if is_sampled:
                        row.append(learner.edge_probabilities_[t, i, j])
                        row.append(learner.adjacency_probabilities_[t, i, j])
                    rows.append(row)
    return _Table(columns, rows, "Every edge of every subject; " + CONVENTION)


def _methods(study: Study) -> _Table:
    methods = [each.method for each in study.templates[0].methods]
    columns = {**_TEMPLATE, **_PAIR}
    for method in methods:
        for name, text in _METHOD.items():
            columns[name.format(method)] = text.format(_METHOD_NAMES[method])
    rows = []
    for template in study.templates:
        p = len(template.variables)
        tested = [compare_graphs(each.graphs_a, each.graphs_b) for each in template.methods]
        places = [{pair: k for k, pair in enumerate(_pairs(found))} for found in tested]
        for pair in _pairs(tested[0]) if p > 1 else ():
            row: list[object] = [template.name, *(template.variables[v] for v in pair)]
            for found, place in zip(tested, places, strict=True):
                k = place[pair]
                row += [found.count_a[k], found.count_b[k], found.p_greater[k], found.p_less[k]]
            rows.append(row)
    return _Table(
        columns,
        rows,
        "Methods beside each other, with as many edges in every subject, as in the paper's Table 4; "
        + CONVENTION,
    )


def _pairs(found: Connections) -> Iterable[tuple[int, int]]:
    return zip(found.source.tolist(), found.target.tolist(), strict=True)


def _departures(study: SubjectStudy) -> _Table:
    rows = []
    for name, (variables, found) in study.templates.items():
        for k, (i, j) in enumerate(zip(found.source, found.target, strict=True)):
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
    about = f"Connections of {study.subject}, those that depart most from the controls first"
    return _Table(_DEPARTURES, rows, about)


def _alarms(study: SubjectStudy) -> _Table:
    rows = []
    for name, (_, found) in study.templates.items():
        pairs = len(found.score)
        for control, rate in zip(study.controls, found.alarm_rates(ALARM_LEVEL), strict=True):
            rows.append([name, control, round(rate * pairs), pairs, rate])
    return _Table(_ALARMS, rows, "False alarms of every control against the other controls")
