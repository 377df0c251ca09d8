"""Several methods on the same two groups, all with as many edges per subject (the paper's Table 4)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn.compare.fitting import Fitting, GroupGraphs, check_groups, fit_groups
from mtgbn.compare.groups import align
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.fmri import granger_causality, regression_dcm
from mtgbn.fmri.density import strongest_edges
from mtgbn.learn import SIG
from mtgbn.learn.canonical import canonical_order
from mtgbn.learn.estimator import Estimator
from mtgbn.tasks import Tasks

__all__ = ["METHODS", "Method", "MethodGraphs", "match_methods", "standardised_coefficients"]

Method = Literal["mtgbn", "sig", "gc", "rdcm"]
METHODS = ("mtgbn", "sig", "gc", "rdcm")
_FOR_SERIES = ("gc", "rdcm")

# By how much the log odds of an edge are raised at a time until graphs have enough of them, and the
# probability at which this ends.
_STEP, _MOST = 1.0, 0.995


class MethodGraphs(NamedTuple):
    """Graphs of both groups by one method, (subjects, p, p); ``A[i, j]`` means i -> j."""

    method: Method
    graphs_a: np.ndarray
    graphs_b: np.ndarray


def match_methods(
    tasks: Tasks,
    is_a,
    methods: Sequence[Method],
    observed: GroupGraphs,
    learner: Estimator,
    *,
    n_edges: int | None = None,
    series: Mapping[str, np.ndarray] | None = None,
    repetition_time: float | None = None,
    fitting: Fitting = "separate",
    random_state=None,
) -> list[MethodGraphs]:
    """Graphs of both groups by several methods, with the same number of edges in every subject.

    Graphs of mtgbn and sig with too many edges lose those with the smallest standardised coefficients;
    with too few, they are learned again with a larger prior probability of edges. Of Granger causality
    the largest F statistics are kept, of regression DCM (on standardised series) the largest couplings.
    Directions of mtgbn's and of sig's graphs are aligned over both groups.

    Parameters
    ----------
    tasks : Tasks
    is_a : array (m,) of bool
    methods : sequence of {"mtgbn", "sig", "gc", "rdcm"}
    observed : GroupGraphs
        What "mtgbn" found, from `fit_groups`.
    learner : Estimator
        What ``observed`` was fitted with.
    n_edges : int, optional
        Of every subject. Left out: as many as the subject has in ``observed``.
    series : mapping, optional
        The rows of every subject by name, in the order of time; gc and rdcm need them.
    repetition_time : float, optional
        Seconds between rows; rdcm needs it.
    fitting : {"separate", "together"}
        That of ``observed``.
    random_state : int or numpy.random.SeedSequence, optional
        That of ``observed``.
    """
    is_a = check_groups(tasks, is_a)
    check_methods(methods, tasks, n_edges, series, repetition_time)
    if n_edges is None:
        sizes = np.empty(len(tasks), dtype=int)
        sizes[is_a], sizes[~is_a] = (graphs.sum(axis=(1, 2)) for graphs in observed[:2])
    else:
        sizes = np.full(len(tasks), int(n_edges))
    _, order = canonical_order(tasks)
    found = []
    for method in methods:
        if method in _FOR_SERIES:
            strengths = _strengths(method, tasks, series, repetition_time)
            graphs = np.array(
                [strongest_edges(each, size) for each, size in zip(strengths, sizes, strict=True)]
            )
            found.append(MethodGraphs(method, graphs[is_a], graphs[~is_a]))
            continue
        first = (observed, learner)
        if method == "sig":
            density = {"edge_prior": "density", "n_jobs": learner.n_jobs}
            first = (None, SIG(random_state=random_state, **density))
        graphs = _learned_at(
            tasks, is_a, *first, sizes, method=method, fitting=fitting, random_state=random_state
        )
        found.append(MethodGraphs(method, *align(graphs[is_a], graphs[~is_a], order)))
    return found


def check_methods(
    methods: Sequence[str],
    tasks: Tasks,
    n_edges: int | None,
    series: Mapping[str, np.ndarray] | None,
    repetition_time: float | None,
) -> None:
    """Raise what is wrong with a choice of methods, before anything is fitted."""
    if not methods:
        raise InputError(f"there is no method to compare; there are {', '.join(METHODS)}")
    if repetition_time is not None and not 0 < repetition_time < np.inf:
        raise InputError(f"the TR must be a number of seconds above 0; got {repetition_time}")
    for method in methods:
        if method not in METHODS:
            raise InputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    if len(set(methods)) < len(methods):
        raise InputError(f"methods names one twice: {', '.join(methods)}")
    p = tasks.n_variables
    if n_edges is not None:
        check_count("n_edges", n_edges, 1)
        if n_edges > p * (p - 1) // 2:
            raise InputError(
                f"n_edges is {n_edges}, but {p} variables have {p * (p - 1) // 2} pairs; lower it"
            )
    if "sig" in methods and tasks.incomplete:
        raise InputError(
            "method 'sig' needs complete data; leave it out, or fill in missing values"
        )
    for method in set(methods) & set(_FOR_SERIES):
        lacking = [name for name in tasks.names if name not in (series or {})]
        if lacking:
            raise InputError(
                f"method {method!r} needs the complete series of every subject; there is none of "
                f"{lacking[0]!r}"
            )
    if "rdcm" in methods and repetition_time is None:
        raise InputError(
            "method 'rdcm' needs the seconds between volumes, which no file beside the series tells; "
            "give the TR (repetition_time=..., --tr)"
        )


def standardised_coefficients(graph: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Regression of every variable on its parents, all of variance 1; (p, p), 0 where no edge is."""
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    coefficients = np.zeros(graph.shape)
    for child in range(len(graph)):
        parents = np.flatnonzero(graph[:, child])
        if len(parents):
            square = correlation[np.ix_(parents, parents)]
            coefficients[parents, child] = np.linalg.solve(square, correlation[parents, child])
    return coefficients


def of_everybody(found: GroupGraphs, is_a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Graphs and covariances of all subjects, in the order of the tasks."""
    graphs = np.empty((len(is_a), *found.graphs_a.shape[1:]), dtype=bool)
    graphs[is_a], graphs[~is_a] = found.graphs_a, found.graphs_b
    if len(found.learners) == 1:
        return graphs, found.learners[0].covariances_
    covariances = np.empty(graphs.shape)
    covariances[is_a], covariances[~is_a] = (each.covariances_ for each in found.learners)
    return graphs, covariances


def _learned_at(
    tasks: Tasks,
    is_a: np.ndarray,
    found: GroupGraphs | None,
    learner: Estimator,
    sizes: np.ndarray,
    *,
    method: str,
    fitting: Fitting,
    random_state,
) -> np.ndarray:
    """Graphs of so many edges: the first that have enough when edges become ever more probable."""
    graphs: dict[int, np.ndarray] = {}
    options = {"fitting": fitting, "random_state": random_state, "quiet": True}
    if found is None:
        found = fit_groups(tasks, is_a, learner, **options)
    priors = [each.edge_prior_ for each in found.learners]
    density = float(np.mean([np.mean(prior.density) for prior in priors]))
    similarity = float(np.mean([prior.similarity for prior in priors]))
    log_odds = np.log(density / (1 - density))
    while True:
        for t, (graph, covariance) in enumerate(zip(*of_everybody(found, is_a), strict=True)):
            if t not in graphs and graph.sum() >= sizes[t]:
                strengths = standardised_coefficients(graph, covariance)
                graphs[t] = _strongest(graph, strengths, int(sizes[t]))
        if len(graphs) == len(tasks):
            return np.array([graphs[t] for t in range(len(tasks))])
        if density >= _MOST:
            name = next(name for t, name in enumerate(tasks.names) if t not in graphs)
            raise InputError(
                f"method {method!r} finds fewer edges in {name!r} than asked for, however probable they "
                "are taken to be; lower the density"
            )
        log_odds += _STEP
        density = 1 / (1 + np.exp(-log_odds))
        prior = (density, similarity) if np.isfinite(similarity) else density
        denser = type(learner)(**learner.get_params()).set_params(edge_prior=prior)
        found = fit_groups(tasks, is_a, denser, **options)


def _strongest(graph: np.ndarray, strengths: np.ndarray, size: int) -> np.ndarray:
    """The edges of a graph with the largest strengths; part of a DAG is a DAG."""
    places = np.argwhere(graph)
    order = np.argsort(-np.abs(strengths[tuple(places.T)]), kind="stable")[:size]
    kept = np.zeros_like(graph)
    kept[tuple(places[order].T)] = True
    return kept


def _strengths(method: str, tasks: Tasks, series, repetition_time) -> list[np.ndarray]:
    """Of every ordered pair, for every subject."""
    found = []
    for name in tasks.names:
        rows = np.asarray(series[name], dtype=float)
        if rows.ndim != 2 or rows.shape[1] != tasks.n_variables:
            raise InputError(
                f"the series of {name!r} must have shape (rows, {tasks.n_variables}); got {rows.shape}"
            )
        if method == "gc":
            found.append(granger_causality(rows, task=name).f_statistics)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # by a hair, and ranks do not change
            rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
            coupling = regression_dcm(rows, repetition_time, task=name).coupling
        np.fill_diagonal(coupling, 0.0)
        found.append(coupling)
    return found
