"""How often an edge is found again when the rows are drawn anew: the bootstrap, for any estimator."""

import copy
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mtgbn._utils.arguments import check_count
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import CollinearityWarning, ConvergenceWarning, InputError
from mtgbn.graphs.equivalence import restricted_cpdag
from mtgbn.learn.estimator import Estimator
from mtgbn.learn.multitask import MTGBN
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.checks import finite_floats, refuse_constant
from mtgbn.tasks.readers import READING_OPTIONS
from mtgbn.tasks.reduction import without_empty_rows
from mtgbn.tasks.table import Table, align

# Resamples of a task in which a variable is constant are drawn anew this often.
_MOST_REDRAWS = 100


class Bootstrap(NamedTuple):
    """How often edges were found."""

    edge_frequencies: np.ndarray
    """(m, p, p), share of the resamples in which task t has i -> j. Data alone cannot tell the direction
    of an edge that is undirected in the CPDAG, so it counts one half each way."""
    adjacency_frequencies: np.ndarray
    """(m, p, p), in either direction; symmetric."""
    n_resamples: int
    task_names: tuple[str, ...]
    variables: tuple[str, ...]


def bootstrap_edges(
    data,
    estimator=None,
    *,
    n_resamples: int = 100,
    block_length: int | Literal["auto"] | None = None,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: Callable[[str, int, int], Any] | None = None,
    **options: Any,
) -> Bootstrap:
    """Draw the rows of every task anew, with replacement, learn the graphs again, and count edges.

    Frequencies say how stable a finding is, not how probable an edge is (``inference="posterior"`` of
    MTGBN): a resample repeats rows, which makes chance correlations stronger than in fresh data.

    Parameters
    ----------
    data : path, dict, list, array or DataFrame
        Whatever `Tasks.from_any` reads, as long as it has rows; not a Tasks.
    estimator : MTGBN, SIG, AVG or alike, optional
        Anything with ``fit(tasks)`` and then ``graphs_``; each resample has a copy with its own
        ``random_state``. Default: ``MTGBN()``.
    n_resamples : int
    block_length : int or "auto", optional
        For time series: blocks of this number of consecutive rows are drawn instead of rows, the first
        row following the last (circular block bootstrap). "auto": for every task the length
        (6 n a^2 / (1 - a^2)^2)^(1/3), rounded up, at least 1 and at most n / 3, where a is the root mean
        square of the variables' autocorrelations at lag 1. For an autoregression of first order this is
        the best length for the variance of a mean (Politis and White 2004).
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.
    n_jobs : int, optional
        Resamples learned at once, in processes or wherever ``joblib.parallel_config`` says.
    progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.
    **options
        Of `Tasks.from_any`: ``standardise``, ``task``, ``variables``, ...

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG
    >>> rows = np.random.default_rng(0).standard_normal((2, 60, 3))
    >>> rows[:, :, 1] += rows[:, :, 0]
    >>> found = bootstrap_edges(rows, SIG(), n_resamples=10, random_state=0)
    >>> found.adjacency_frequencies[:, 0, 1].tolist()
    [1.0, 1.0]
    """
    check_count("n_resamples", n_resamples, 1)
    if estimator is None:
        estimator = MTGBN()
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(
            f"the estimator must have a method fit, as MTGBN() has; got {type(estimator).__name__}"
        )
    if getattr(estimator, "missing", "error") == "em":
        options = {"missing": "em", **options}
    tables, options = _read(data, options)
    whole = Tasks.from_tables(tables, **options)  # checks the data, once
    lengths = _block_lengths(tables, block_length)
    is_centred = options.get("centre", True)
    seeds = seed_sequence(random_state).spawn(n_resamples)
    jobs = (
        delayed(_learn)(tables, lengths, is_centred, options, estimator, seed) for seed in seeds
    )
    edges = np.zeros((len(whole), whole.n_variables, whole.n_variables))
    n_warned, warned = 0, ""
    for done, (directed, message) in enumerate(Parallel(n_jobs, return_as="generator")(jobs), 1):
        if directed.shape != edges.shape:
            raise InputError(
                f"the estimator's graphs_ have shape {directed.shape}; {edges.shape} is needed, one "
                "(p, p) matrix per task"
            )
        edges += directed
        if message:
            n_warned, warned = n_warned + 1, message
        if progress is not None:
            progress("resampling", done, n_resamples)
    if n_warned:
        warnings.warn(
            f"{n_warned} of {n_resamples} fits warned, the last of them: {warned}",
            ConvergenceWarning,
            stacklevel=2,
        )
    edges /= n_resamples
    joined = edges + np.swapaxes(edges, 1, 2)
    return Bootstrap(edges, joined, n_resamples, whole.names, whole.variables)


def _read(data: Any, options: dict[str, Any]) -> tuple[list[Table], dict[str, Any]]:
    """Return the rows of all tasks with the same columns, and the options of `Tasks.from_tables`."""
    if isinstance(data, Tasks):
        raise InputError(
            "a Tasks holds scatters and no rows to draw from; give the rows themselves, as to "
            "Tasks.from_any"
        )
    reading = {name: value for name, value in options.items() if name in READING_OPTIONS}
    options = {name: value for name, value in options.items() if name not in reading}
    tables = read_tables(data, **reading)
    is_missing_allowed = options.get("missing", "error") == "em"
    tables = align(tables, union=is_missing_allowed)
    if is_missing_allowed:  # else resamples would have different numbers of rows with a value
        return [without_empty_rows(table) for table in tables], options
    return [
        each._replace(values=finite_floats(each, missing_allowed=False)) for each in tables
    ], options


def _block_lengths(tables: list[Table], block_length) -> list[int]:
    if block_length is None:
        return [1] * len(tables)
    if isinstance(block_length, str):
        if block_length != "auto":
            raise InputError(
                f"block_length must be a number of rows, 'auto' or None; got {block_length!r}"
            )
        return [automatic_length(table.values) for table in tables]
    check_count("block_length", block_length, 1)
    for table in tables:
        if block_length > len(table.values):
            raise InputError(
                f"task {table.task!r} has {len(table.values)} rows, fewer than block_length = "
                f"{block_length}; choose shorter blocks"
            )
    return [int(block_length)] * len(tables)


def automatic_length(values: np.ndarray) -> int:
    """Length of blocks that suits the autocorrelation of a task's rows; see `bootstrap_edges`."""
    n = len(values)
    observed = ~np.isnan(values)
    means = np.where(observed, values, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    centred = np.where(observed, values - means, 0.0)
    totals = np.square(centred).sum(axis=0)
    lagged = (centred[1:] * centred[:-1]).sum(axis=0)
    correlations = lagged[totals > 0] / totals[totals > 0]
    square = np.mean(np.square(correlations)) if correlations.size else 0.0
    best = np.cbrt(6 * square / (1 - square) ** 2 * n)
    return int(np.clip(np.ceil(best), 1, max(n // 3, 1)))


def draw_rows(rng: np.random.Generator, n: int, block_length: int) -> np.ndarray:
    """Numbers of n rows in blocks of consecutive ones; the first row follows the last."""
    starts = rng.integers(n, size=-(-n // block_length))
    return ((starts[:, None] + np.arange(block_length)) % n).ravel()[:n]


def _resampled(rng, table: Table, block_length: int, is_centred: bool) -> Table:
    """Rows of a task drawn anew until no variable is constant that was not."""
    values = table.values
    varies = np.sum(~np.isnan(values), axis=0) >= 2
    names = [name for name, does in zip(table.columns, varies, strict=True) if does]
    numbers = np.arange(len(values)) if table.row_numbers is None else np.asarray(table.row_numbers)
    error = None
    for _ in range(_MOST_REDRAWS):
        rows = draw_rows(rng, len(values), block_length)
        drawn = values[rows]
        if (np.sum(~np.isnan(drawn[:, varies]), axis=0) < 2).any():
            error = error or InputError("a variable has fewer than two observed values")
            continue
        try:
            refuse_constant(drawn[:, varies], table.task, names, is_centred)
        except InputError as found:
            error = found
            continue
        return table._replace(values=drawn, row_numbers=numbers[rows].tolist())
    raise InputError(
        f"task {table.task!r}: in {_MOST_REDRAWS} resamples of its {len(values)} rows some variable "
        f"did not vary; the last time: {error}. Too few rows differ for a bootstrap"
        + (", or blocks are too long" if block_length > 1 else "")
    )


def _learn(tables, lengths, is_centred, options, estimator, seed) -> tuple[np.ndarray, str]:
    """Edges of one resample, an undirected one as two halves; and what the fit warned of."""
    rows_seed, fit_seed = seed.spawn(2)
    rng = np.random.default_rng(rows_seed)
    drawn = [
        _resampled(rng, table, length, is_centred)
        for table, length in zip(tables, lengths, strict=True)
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        # A resample of few rows repeats them, and columns become collinear that are not.
        warnings.simplefilter("ignore", CollinearityWarning)
        # Whether the rows are a time series is asked once, of the rows as they are, not of resamples.
        size = options.get("effective_samples")
        counted = options | {"effective_samples": "none" if size is None else size}
        tasks = Tasks.from_tables(drawn, **counted)
        fitted = _copy_of(estimator, fit_seed)
        fitted.fit(tasks)
    if not hasattr(fitted, "graphs_"):
        raise InputError(f"{type(fitted).__name__} has no graphs_ after fit")
    message = ""
    for each in caught:
        if issubclass(each.category, ConvergenceWarning):
            message = str(each.message)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    p = tasks.n_variables
    allowed = np.ones((p, p), dtype=bool)
    if isinstance(fitted, Estimator):
        allowed = fitted.resolved_knowledge().allowed
    graphs = np.asarray(fitted.graphs_, dtype=bool)
    classes = np.array([restricted_cpdag(graph, allowed) for graph in graphs])
    directed = classes * np.where(np.swapaxes(classes, 1, 2), 0.5, 1.0)
    return directed, message


def _copy_of(estimator, seed: np.random.SeedSequence):
    """An estimator like this one that is not fitted, with a seed of its own."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    settings = estimator.get_params(deep=False)
    if "random_state" in settings:
        settings["random_state"] = int(seed.generate_state(1)[0])
    return type(estimator)(**settings)
