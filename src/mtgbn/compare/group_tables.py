"""The tables of a comparison of two groups, and what comparison.json says about it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.compare.connections import Connections, compare_graphs
from mtgbn.compare.fitting import AnyEstimator
from mtgbn.compare.permutation import Permutations
from mtgbn.compare.strengths import standardised_coefficients
from mtgbn.compare.study import Study
from mtgbn.graphs import cpdag
from mtgbn.graphs.equivalence import restricted_cpdag

CONVENTION = "A[i, j] = 1 means i -> j: source -> target; DCM's A matrix is the transpose"
INDEPENDENCE = (
    "the z-test and Fisher's test (p_greater, p_less, p_two_sided, p_exact, q, q_study) assume "
    "independent subjects. Graphs that were learned jointly are not independent: they also have chance "
    "features in common, so that these p-values (and the intervals of differences) can be far too "
    "small. Relabelling the subjects needs no such assumption"
)
PAPERS_WAY = (
    "the paper's way (--paper) fits each group separately and tests counts of edges; it is not the "
    "default, because subjects that are learned jointly copy each other, so that it calls many "
    "differences where there are none"
)
RELABELLING = {
    "separate": "every relabelling was fitted anew, group by group, like the groups themselves",
    "together": "all subjects were fitted as one cohort without labels, so that labels were exchanged "
    "without new fits",
}

_TEMPLATE = {"template": "set of variables that was compared separately"}
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
    "more_in": "label of the group in which a larger share has it; n/a if the shares are equal",
    "p_two_sided": "two-sided p-value of the two-sample test of proportions, pooled, without continuity "
    "correction",
    "q": "false discovery rate (Benjamini and Hochberg) of p_two_sided, over all connections of this "
    "kind in the template",
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
    "p_permutation_corrected": "the same, corrected for the number of connections in the template: "
    "compared with the largest difference of each relabelling",
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
            "n/a if group b has none",
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
    "group": "label of the group",
    "subject": "name of the subject",
    **_PAIR,
    "coefficient": "of i in the regression of j on its parents, all variables with variance 1",
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
    "{}_p_less": "{}: the same, less in group a",
}
_METHOD_NAMES = {
    "mtgbn": "MTGBN (the subjects of a group learned jointly)",
    "sig": "SIG (every subject learned as a single task)",
    "gc": "conditional Granger causality",
    "rdcm": "regression DCM",
}


def group_tables(study: Study) -> list[DescribedTable]:
    """The tables of connections, degrees, counts and edges and, if they were compared, methods."""
    tables = [_connections(study), _degrees(study), _counts(study), _edges(study)]
    if any(each.methods for each in study.templates):
        tables.append(_methods(study))
    return tables


def describe_groups(study: Study) -> dict[str, Any]:
    """What comparison.json says about a comparison of two groups."""
    relabelled = None
    if study.n_permutations:
        relabelled = {
            "relabellings": study.n_permutations,
            "refitted": study.fitting == "separate",
            "how": RELABELLING[study.fitting],
            "p_any_difference": {
                each.name: each.permutations.pvalue
                for each in study.templates
                if each.permutations is not None
            },
        }
    content = {
        "kind": "groups",
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
        "templates": {
            each.name: {
                "variables": list(each.variables),
                "fits": {
                    name: describe_fit(estimator)
                    for name, estimator in each.fits.named_estimators.items()
                },
            }
            for each in study.templates
        },
        "tests": {"method": PAPERS_WAY, "assumption": INDEPENDENCE, "permutation": relabelled},
        "converged": all(each.converged for each in study.templates),
    }
    if any(each.methods for each in study.templates):
        content["density"] = {
            "edges_per_subject": study.n_edges or "as many as mtgbn finds in the subject",
            "applies_to": "methods.tsv only; all other tables have mtgbn's graphs as they are",
        }
    content["warnings"] = [warning for each in study.templates for warning in each.warnings]
    return content


def describe_fit(estimator: AnyEstimator) -> dict[str, Any]:
    """What comparison.json says about a fitted estimator."""
    return {
        "seed": str(estimator.random_state_),
        "edges_per_subject": float(estimator.graphs_.sum(axis=(1, 2)).mean()),
        "nu0": getattr(estimator, "nu0_", None),
        "edge_prior_density": float(np.mean(estimator.edge_prior_.density)),
        "min_strength": estimator.min_strength_.in_words(estimator.tasks_.ns),
        "converged": getattr(estimator, "converged_", True),
        "stop_reason": getattr(estimator, "stop_reason_", None),
    }


def _connections(study: Study) -> DescribedTable:
    columns = dict(_CONNECTIONS) | (_PERMUTED if study.n_permutations else {})
    more_in = {1: study.label_a, 0: None, -1: study.label_b}
    rows = []
    for kind in ("undirected", "directed"):
        tested: list[Connections] = [getattr(each, kind) for each in study.templates]
        all_p = np.concatenate([each.p_two_sided for each in tested])
        over_all = iter(false_discovery_control(all_p))
        for template, found in zip(study.templates, tested, strict=True):
            for k, (i, j) in enumerate(zip(found.source, found.target, strict=True)):
                row = [
                    *(template.name, kind, template.variables[i], template.variables[j]),
                    *(found.count_a[k], found.n_a, found.count_b[k], found.n_b),
                    more_in[np.sign(found.difference[k])],
                    *(found.p_two_sided[k], found.q[k], next(over_all)),
                    *(found.difference[k], found.low[k], found.high[k], found.statistic[k]),
                    *(found.p_greater[k], found.p_less[k], found.p_exact[k]),
                ]
                if template.permutations is not None:
                    p, corrected = permuted_pvalues(template.permutations, kind)
                    row += [p[i, j], corrected[i, j]]
                rows.append(row)
    return table_of("connections", "Tests of every connection; " + CONVENTION, columns, rows)


def permuted_pvalues(permutations: Permutations, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """p-values by relabelling, (p, p): of every connection, and corrected for their number."""
    if kind == "directed":
        return permutations.pvalues, permutations.corrected
    return permutations.pair_pvalues, permutations.pair_corrected


def _degrees(study: Study) -> DescribedTable:
    rows = []
    n_a, n_b = len(study.names_a), len(study.names_b)
    for template in study.templates:
        for v, variable in enumerate(template.variables):
            row: list[object] = [template.name, variable]
            for own, other in zip(template.degrees_a, template.degrees_b, strict=True):
                a, b = int(own[v]), int(other[v])
                row += [a, b, 100 * (a / n_a / (b / n_b) - 1) if b else None]
            rows.append(row)
    about = "Connection degrees, as in the paper's Table 3; " + CONVENTION
    return table_of("degrees", about, _DEGREES, rows)


def _counts(study: Study) -> DescribedTable:
    rows = []
    for template in study.templates:
        counts = [graphs.sum(axis=0) for graphs in (template.fits.graphs_a, template.fits.graphs_b)]
        for i, j in np.argwhere(~np.eye(len(template.variables), dtype=bool)):
            names = (template.variables[i], template.variables[j])
            rows.append([template.name, *names, *(int(count[i, j]) for count in counts)])
    return table_of("counts", "How many subjects have a connection; " + CONVENTION, _COUNTS, rows)


def _edges(study: Study) -> DescribedTable:
    rows = []
    is_sampled = all(
        hasattr(estimator, "edge_probabilities_")
        for template in study.templates
        for estimator in template.fits.estimators
    )
    columns = dict(_EDGES) | (_PROBABILITIES if is_sampled else {})
    for template in study.templates:
        fits: dict[str, tuple[Any, int]] = template.fits.fit_of
        labels, members = (study.label_a, study.label_b), (study.names_a, study.names_b)
        for label, names, graphs in zip(labels, members, template.fits[:2], strict=True):
            for name, graph in zip(names, graphs, strict=True):
                estimator, t = fits[name]
                coefficients = standardised_coefficients(graph, estimator.covariances_[t])
                directions = _directions(graph, estimator)
                for i, j in np.argwhere(graph):
                    row = [template.name, label, name, template.variables[i], template.variables[j]]
                    row += [coefficients[i, j], directions[i, j]]
                    if is_sampled:
                        both = (estimator.edge_probabilities_, estimator.adjacency_probabilities_)
                        row += [each[t, i, j] for each in both]
                    rows.append(row)
    return table_of("edges", "Every edge of every subject; " + CONVENTION, columns, rows)


def _directions(graph: np.ndarray, estimator: AnyEstimator) -> np.ndarray:
    """Why every edge has its direction: compelled, known or chosen; (p, p)."""
    reversible = cpdag(graph).T
    free = reversible
    if estimator.knowledge is not None:
        free = restricted_cpdag(graph, estimator.resolved_knowledge().allowed).T
    return np.where(reversible, np.where(free, "chosen", "known"), "compelled")


def _methods(study: Study) -> DescribedTable:
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
    about = "Methods with the same number of edges in a subject, as in the paper's Table 4; "
    return table_of("methods", about + CONVENTION, columns, rows)


def _pairs(found: Connections) -> Iterable[tuple[int, int]]:
    return zip(found.source.tolist(), found.target.tolist(), strict=True)
