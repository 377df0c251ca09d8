"""Several methods on the same two groups, each with the same number of edges (the paper's Table 4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mtgbn._utils.arguments import check_count
from mtgbn.compare.fitting import (
    AnyEstimator,
    Fitting,
    GroupGraphs,
    agreeing_graphs,
    check_groups,
    clone,
    fit_groups,
    without_convergence_warnings,
)
from mtgbn.compare.strengths import standardised_coefficients
from mtgbn.errors import InputError
from mtgbn.fmri import granger_causality, regression_dcm
from mtgbn.fmri.density import strongest_edges
from mtgbn.learn import SIG
from mtgbn.tasks import Tasks

Method = Literal["mtgbn", "sig", "gc", "rdcm"]
METHODS = ("mtgbn", "sig", "gc", "rdcm")
_FOR_SERIES = ("gc", "rdcm")

# Where graphs have too few edges, the prior log odds of an edge rise by this step ...
_LOG_ODDS_STEP = 1.0
# ... until the prior probability of an edge reaches this limit.
_LARGEST_DENSITY = 0.995


class MethodGraphs(NamedTuple):
    """Graphs of both groups by one method, (subjects, p, p); ``A[i, j]`` means i -> j."""

    method: Method
    graphs_a: np.ndarray
    graphs_b: np.ndarray


def match_methods(
    tasks: Tasks,
    is_a: ArrayLike,
    methods: Sequence[Method],
    observed: GroupGraphs,
    estimator: AnyEstimator,
    *,
    n_edges: int | None = None,
    series: Mapping[str, np.ndarray] | None = None,
    repetition_time: float | None = None,
    fitting: Fitting = "separate",
    random_state: int | np.random.SeedSequence | None = None,
) -> list[MethodGraphs]:
    """Learn graphs of both groups by several methods, a subject's graphs with equally many edges.

    Graphs of mtgbn and sig with too many edges lose the edges with the smallest standardised
    coefficients; graphs with too few edges are learned again with a larger prior probability of edges.
    Granger causality keeps the edges with the largest F statistics, regression DCM (on standardised
    series) those with the largest couplings. Directions of mtgbn's and of sig's graphs agree over both
    groups, unless there is prior knowledge, which mtgbn and sig then both obey.

    ``observed`` is the result of `fit_groups` with ``estimator``, ``fitting`` and ``random_state``;
    it is the method "mtgbn". Every subject gets ``n_edges`` edges, by default as many as it has in
    ``observed``. gc and rdcm need the rows of every subject by name, in temporal order (``series``),
    and rdcm the seconds between rows.
    """
    is_a = check_groups(tasks, is_a)
    check_methods(tasks, methods, n_edges, series, repetition_time)
    if n_edges is None:
        sizes = np.empty(len(tasks), dtype=int)
        sizes[is_a], sizes[~is_a] = (graphs.sum(axis=(1, 2)) for graphs in observed[:2])
    else:
        sizes = np.full(len(tasks), int(n_edges))
    matched = []
    for method in methods:
        if method in _FOR_SERIES:
            strengths = _series_strengths(method, tasks, series or {}, repetition_time)
            graphs = np.array([*map(strongest_edges, strengths, sizes.tolist())])
            matched.append(MethodGraphs(method, graphs[is_a], graphs[~is_a]))
            continue
        first, used = observed, estimator
        options: dict[str, Any] = {"fitting": fitting, "random_state": random_state, "quiet": True}
        if method == "sig":
            used = SIG(
                edge_prior="density",
                min_strength=getattr(estimator, "min_strength", "auto"),
                knowledge=estimator.knowledge,
                n_jobs=estimator.n_jobs,
                random_state=random_state,
            )
            first = fit_groups(tasks, is_a, used, **options)
        graphs = _graphs_of_sizes(tasks, is_a, sizes, first, used, method, options)
        agreeing = agreeing_graphs(tasks, graphs[is_a], graphs[~is_a], used)
        matched.append(MethodGraphs(method, *agreeing))
    return matched


def check_methods(
    tasks: Tasks,
    methods: Sequence[str] = ("mtgbn",),
    n_edges: int | None = None,
    series: Mapping[str, np.ndarray] | None = None,
    repetition_time: float | None = None,
) -> None:
    """Refuse a choice of methods that cannot be carried out, before anything is fitted."""
    known = ", ".join(METHODS)
    if not methods:
        raise InputError(f"there is no method to compare; there are {known}")
    if repetition_time is not None and not 0 < repetition_time < np.inf:
        raise InputError(f"the TR must be a number of seconds above 0; got {repetition_time}")
    for method in methods:
        if method not in METHODS:
            raise InputError(f"there is no method {method!r}; there are {known}")
    if len(set(methods)) < len(methods):
        raise InputError(f"methods names one twice: {', '.join(methods)}")
    p = tasks.n_variables
    n_pairs = p * (p - 1) // 2
    if n_edges is not None:
        check_count("n_edges", n_edges, 1)
        if n_edges > n_pairs:
            raise InputError(
                f"n_edges is {n_edges}, but {p} variables have {n_pairs} pairs; lower it"
            )
    if "sig" in methods and tasks.incomplete:
        raise InputError(
            "method 'sig' needs complete data; leave it out, or fill in missing values"
        )
    for method in set(methods) & set(_FOR_SERIES):
        lacking = [name for name in tasks.names if name not in (series or {})]
        if lacking:
            raise InputError(
                f"method {method!r} needs the complete series of every subject; that of {lacking[0]!r} "
                "is missing"
            )
    if "rdcm" in methods and repetition_time is None:
        raise InputError(
            "method 'rdcm' needs the seconds between volumes, and no file beside the series has them; "
            "give the TR (repetition_time=..., --tr)"
        )


def _graphs_of_sizes(
    tasks: Tasks,
    is_a: np.ndarray,
    sizes: np.ndarray,
    fits: GroupGraphs,
    estimator: AnyEstimator,
    method: str,
    options: dict[str, Any],
) -> np.ndarray:
    """Return graphs with ``sizes[t]`` edges: the strongest part of the first graph that has enough.

    Fits follow with ever more probable edges; ``options`` are those of `fit_groups`.
    """
    graphs: dict[int, np.ndarray] = {}
    priors = [each.edge_prior_ for each in fits.estimators]
    density = float(np.mean([np.mean(prior.density) for prior in priors]))
    similarity = float(np.mean([prior.similarity for prior in priors]))
    log_odds = np.log(density / (1 - density))
    while True:
        found = np.empty((len(tasks), *fits.graphs_a.shape[1:]), dtype=bool)
        found[is_a], found[~is_a] = fits.graphs_a, fits.graphs_b
        fit_of = fits.fit_of
        for t, (name, graph) in enumerate(zip(tasks.names, found, strict=True)):
            if t not in graphs and graph.sum() >= sizes[t]:
                fitted, place = fit_of[name]
                # The coefficients of all other pairs are 0; a part of a DAG is a DAG again.
                coefficients = standardised_coefficients(graph, fitted.covariances_[place])
                graphs[t] = strongest_edges(coefficients, int(sizes[t]))
        if len(graphs) == len(tasks):
            return np.array([graphs[t] for t in range(len(tasks))])
        if density >= _LARGEST_DENSITY:
            name = next(name for t, name in enumerate(tasks.names) if t not in graphs)
            raise InputError(
                f"method {method!r} finds fewer edges in {name!r} than asked for, however large their "
                "prior probability is; lower the density"
            )
        log_odds += _LOG_ODDS_STEP
        density = 1 / (1 + np.exp(-log_odds))
        prior = (density, similarity) if np.isfinite(similarity) else density
        fits = fit_groups(tasks, is_a, clone(estimator, edge_prior=prior), **options)


def _series_strengths(
    method: str, tasks: Tasks, series: Mapping[str, np.ndarray], repetition_time: float | None
) -> list[np.ndarray]:
    """F statistics (gc) or couplings (rdcm) of every ordered pair, (p, p), for every subject."""
    strengths = []
    for name in tasks.names:
        rows = np.asarray(series[name], dtype=float)
        if rows.ndim != 2 or rows.shape[1] != tasks.n_variables:
            raise InputError(
                f"the series of {name!r} must have shape (rows, {tasks.n_variables}); got {rows.shape}"
            )
        if method == "gc":
            strengths.append(granger_causality(rows, task=name).f_statistics)
            continue
        assert repetition_time is not None  # check_methods
        # What is left to converge does not change the ranks of the couplings.
        with without_convergence_warnings():
            rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
            coupling = regression_dcm(rows, repetition_time, task=name).coupling
        np.fill_diagonal(coupling, 0.0)
        strengths.append(coupling)
    return strengths
