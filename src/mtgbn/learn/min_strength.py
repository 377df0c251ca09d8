"""The weakest partial correlation that counts as an edge (docs/model.md, section 11).

What all tasks share is found however weak it is, errors of the model included. Therefore an edge must
be worth something in the tasks' own data: in every task it costs what an effect of the minimal strength
is worth there. By default two rules decide the cost, and the larger one counts. An edge costs ln 2, so
that, on average over its tasks, it must make a task's data twice as likely. And it costs what the errors
are worth that all tasks share: partial correlations of pairs that the pooled graph does not join.
"""

import contextlib
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from mtgbn.graphs.dags import topological_order
from mtgbn.learn.pooled import pooled_graphs
from mtgbn.model.edge_prior import edge_costs
from mtgbn.model.edge_prior_setting import edge_prior_of
from mtgbn.search.knowledge import Constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

# An edge must raise the likelihood of a task's own data by this factor.
_LEAST_RATIO = 2.0

# The pooled graph is first searched with this minimum, so that it has clear edges only: a graph that
# has already taken errors for edges shows none. Then it is searched with the minimum that the errors of
# the first graph suggest. What both find counts, since a weak edge that is left out looks like an error.
_FIRST_STRENGTH, _PASSES = 0.2, 2

# How the pooled graph is searched, whatever the settings of the estimator are.
_SEARCH = SearchSettings("boss", 10, 10)

# No error is taken to be larger than this.
_LARGEST_ERROR = 0.5

# Errors of the model are taken to touch most pairs, edges that the pooled graph lacks at most a quarter:
# the size of the errors is read from this quantile of their squares.
_QUANTILE = 0.75

# Weight of the mean spread over all pairs in the spread of one pair, in degrees of freedom, and the
# standard errors that are subtracted from the variance of the errors.
_PRIOR_DEGREES, _STANDARD_ERRORS = 4.0, 2.0

# Partial correlations are not used where less than this share of a variance is left.
_LEAST_VARIANCE = 1e-9


class MinStrength(NamedTuple):
    """What an edge must be worth: a partial correlation, and what it does for a task's own data.

    In every task an edge costs what an effect of the partial correlation ``strength`` is worth in the
    task's own data, and at least the logarithm of ``ratio``.

    Examples
    --------
    >>> MinStrength(strength=0.0, ratio=2.0).strengths([50, 200]).round(3).tolist()
    [0.165, 0.083]
    >>> MinStrength(strength=0.1, ratio=2.0).strengths([50, 200]).round(3).tolist()
    [0.165, 0.1]
    """

    strength: float
    ratio: float = 1.0

    def costs(self, ns: Any) -> np.ndarray:
        """What an edge must be worth in tasks with ``ns`` degrees of freedom, in nats."""
        return np.maximum(np.log(self.ratio), edge_costs(ns, self.strength))

    def strengths(self, ns: Any) -> np.ndarray:
        """The weakest partial correlations that count in tasks with ``ns`` degrees of freedom."""
        return np.sqrt(-np.expm1(-2 * self.costs(ns) / np.asarray(ns, dtype=float)))

    def in_words(self, ns: Any) -> str:
        """One sentence: the numbers of tasks with ``ns`` degrees of freedom, and their reason."""
        found = self.strengths(ns)
        low, high = f"{found.min():.2g}", f"{found.max():.2g}"
        numbers = low if low == high else f"{low} to {high}, depending on the task's n"
        why = "as set"
        if self.ratio > 1:
            by_ratio = np.asarray(found > self.strength * (1 + 1e-9))
            rule = f"such an edge makes a task's own data {self.ratio:g} times as likely"
            errors = (
                f"dependences of {self.strength:.2g} are expected from errors that all tasks share, "
                "such as a common signal"
            )
            why = rule if by_ratio.all() else errors
            if by_ratio.any() and not by_ratio.all():
                why = f"{errors}; in tasks with few rows, {rule}"
        return f"The weakest partial correlation that is worth an edge is {numbers} ({why})."


MinStrengthSetting = float | Literal["auto"] | MinStrength


def resolve_min_strength(
    setting: MinStrengthSetting,
    tasks: Tasks,
    constraints: Constraints,
) -> MinStrength:
    """The minimum that a setting means for some tasks; the same for all estimators."""
    if isinstance(setting, MinStrength):  # decided before, from more tasks
        return setting
    if setting != "auto":
        return MinStrength(float(setting))
    complete = [t for t in range(len(tasks)) if t not in tasks.incomplete]
    if len(complete) < 2 or tasks.n_variables < 3:
        return MinStrength(0.0, _LEAST_RATIO)
    chosen = tasks[complete]
    prior = edge_prior_of(None, tasks.variables)
    error, limit = np.inf, MinStrength(_FIRST_STRENGTH, _LEAST_RATIO)
    for _ in range(_PASSES):
        cost = float(limit.costs(chosen.ns).sum())
        found = pooled_graphs(chosen, constraints, prior, _SEARCH, edge_cost=cost)
        # Graphs with nearly the same score differ in what they call an error.
        errors = [shared_error(chosen, each.adjacency, constraints) for each in found]
        error = min(error, float(np.median(errors)))
        limit = MinStrength(error, _LEAST_RATIO)
    return limit


def shared_error(tasks: Tasks, graph: np.ndarray, constraints: Constraints | None = None) -> float:
    """The largest partial correlation that errors of the model are expected to cause in all tasks.

    A DAG says that a variable is independent of earlier variables given its parents. If it is right,
    the mean over the tasks of such a partial correlation differs from 0 by its standard error only. What
    its square exceeds in most pairs is tau^2, the variance of the errors that all tasks share. Not
    counted are differences between tasks, which are no shared error, and what can be chance. Pairs that
    prior knowledge keeps apart are not used. The largest of K normal errors is about tau sqrt(2 ln K).
    """
    found = []
    order = topological_order(graph)
    for place in range(1, len(order)):
        node, earlier = order[place], order[:place]
        parents = np.flatnonzero(graph[:, node])
        others = np.setdiff1d(earlier, parents)
        if constraints is not None:
            others = others[constraints.allowed[others, node]]
            if len(parents) >= constraints.max_parents:
                continue
        # Fisher's z of n + 1 rows, given |parents| variables, has the variance 1/(n - |parents| - 2).
        precisions = tasks.ns - len(parents) - 2.0
        usable = precisions > 0
        if len(others) and usable.sum() > 1:
            z = _fisher_z(tasks.scatters[usable], node, parents, others)
            found.append(_averages(z, precisions[usable]))
    if not found:
        return 0.0
    is_known = np.concatenate([each.is_known for each in found])
    pairs = _Averages(*(np.concatenate(field)[is_known] for field in zip(*found, strict=True)))
    if not len(pairs.mean):
        return 0.0
    # Spreads are 1 if tasks differ by chance only. Those of single pairs are noisy: they are shrunk.
    mean_spread = max(pairs.spread.mean(), 1.0)
    weight = pairs.degrees / (pairs.degrees + _PRIOR_DEGREES)
    ratio = np.maximum(weight * pairs.spread + (1 - weight) * mean_spread, 1.0)
    chance, between = ratio / pairs.total_precision, (mean_spread - 1.0) / pairs.precision
    tau_squared = _excess_variance(pairs.mean, chance + between)
    # The standard error of a quantile is that of a share, divided by the density.
    n_pairs, quantile = len(ratio), chi2.ppf(_QUANTILE, 1)
    relative = np.sqrt(_QUANTILE * (1 - _QUANTILE) / n_pairs) / (chi2.pdf(quantile, 1) * quantile)
    tau_squared -= _STANDARD_ERRORS * relative * chance.mean()
    largest = np.sqrt(2 * np.log(max(n_pairs, 2)) * max(tau_squared, 0.0))
    return float(min(largest, _LARGEST_ERROR))


def _excess_variance(values: np.ndarray, variances: np.ndarray) -> float:
    """tau^2 with which values have the upper quartile of normal ones, variance variances + tau^2."""
    quantile = chi2.ppf(_QUANTILE, 1)

    def excess(tau_squared: float) -> float:
        return float(np.quantile(values**2 / (variances + tau_squared), _QUANTILE) - quantile)

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, (values**2).max() / quantile + 1.0))


class _Averages(NamedTuple):
    """Fisher's z of pairs over the tasks, each (pairs,).

    Weighted ``mean`` and ``spread``, the mean square around it in units of what chance explains, with
    its ``degrees`` of freedom; mean ``precision`` of a task and ``total_precision`` of all tasks;
    ``is_known``: at least two tasks have a value.
    """

    mean: np.ndarray
    spread: np.ndarray
    degrees: np.ndarray
    precision: np.ndarray
    total_precision: np.ndarray
    is_known: np.ndarray


def _averages(z: np.ndarray, precisions: np.ndarray) -> _Averages:
    """Averages of ``z`` (tasks, pairs), NaN where there is no value, with ``precisions`` (tasks,)."""
    has_value = np.isfinite(z)
    weights = precisions[:, None] * has_value
    total, count = weights.sum(axis=0), has_value.sum(axis=0)
    is_known = count > 1
    safe_total, degrees = np.where(is_known, total, 1.0), np.maximum(count - 1, 1)
    z = np.where(has_value, z, 0.0)
    mean = (weights * z).sum(axis=0) / safe_total
    return _Averages(
        mean=mean,
        spread=(weights * (z - mean) ** 2).sum(axis=0) / degrees,
        degrees=degrees.astype(float),
        precision=safe_total / np.maximum(count, 1),
        total_precision=safe_total,
        is_known=is_known,
    )


def _fisher_z(
    scatters: np.ndarray, node: int, parents: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Fisher's z of the partial correlations of a node with others given parents, (tasks, others).

    NaN where the variables of a task are collinear.
    """
    chosen = np.append(others, node)
    variances = np.einsum("tii->ti", scatters)[:, chosen]
    covariances, left = scatters[:, others, node], variances
    if len(parents):
        factors = _factors(scatters[:, parents[:, None], parents])
        explained = np.linalg.solve(factors, scatters[:, parents[:, None], chosen])
        left = variances - np.sum(explained**2, axis=1)
        covariances = covariances - np.einsum(
            "tpo,tp->to", explained[:, :, :-1], explained[:, :, -1]
        )
    has_rest = left > _LEAST_VARIANCE * variances  # not where it is NaN
    scales = np.sqrt(np.where(has_rest, left, 1.0))
    correlations = covariances / (scales[:, :-1] * scales[:, -1:])
    is_known = has_rest[:, :-1] & has_rest[:, -1:]
    is_known &= np.abs(correlations) < 1 - _LEAST_VARIANCE
    return np.where(is_known, np.arctanh(np.where(is_known, correlations, 0.0)), np.nan)


def _factors(matrices: np.ndarray) -> np.ndarray:
    """Cholesky factors, NaN for matrices that are singular."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.full(matrices.shape, np.nan)
        for matrix, factor in zip(matrices, factors, strict=True):
            with contextlib.suppress(np.linalg.LinAlgError):
                factor[:] = np.linalg.cholesky(matrix)
        return factors
