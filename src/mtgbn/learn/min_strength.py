"""The weakest partial correlation that counts as an edge (docs/model.md, section 11).

What all tasks share is found however weak it is, errors of the model included. Therefore an edge must
be worth something in every task's own data. By default this is decided by two rules. An edge must make
the data of the task at least twice as likely. And it must be stronger than the errors that all tasks
share: partial correlations of pairs that the pooled graph does not join.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

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

# Weight of the mean spread over all pairs in the spread of one pair, in degrees of freedom, and the
# standard errors that are subtracted from the mean square of the errors.
_PRIOR_DEGREES, _STANDARD_ERRORS = 4.0, 2.0

MinStrengthSetting = float | Literal["auto"]


class MinStrength(NamedTuple):
    """What counts as an edge: its partial correlation, and what it does for a task's own data.

    An edge counts from the partial correlation ``strength`` on, if it makes the data of its task at
    least ``ratio`` times as likely.

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
            why = "chosen from the data: "
            if found.min() > self.strength * (1 + 1e-9):
                why += f"an edge must make a task's own data {self.ratio:g} times as likely"
            else:
                why += "errors that all tasks share are expected to be as large as that"
        return f"The weakest partial correlation that counts as an edge is {numbers} ({why})."


def resolve_min_strength(
    setting: MinStrengthSetting,
    tasks: Tasks,
    constraints: Constraints,
) -> MinStrength:
    """The minimum that a setting means for some tasks; the same for all estimators."""
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
        error = min(error, float(np.median([shared_error(chosen, g.adjacency) for g in found])))
        limit = MinStrength(error, _LEAST_RATIO)
    return limit


def shared_error(tasks: Tasks, graph: np.ndarray) -> float:
    """The largest partial correlation that errors of the model are expected to cause in all tasks.

    A DAG says that a variable is independent of earlier variables given its parents. If it is right,
    the mean over the tasks of such a partial correlation differs from 0 by its standard error only. What
    the mean squares exceed is tau^2, the variance of the errors that all tasks share. Not counted are
    differences between tasks, which are no shared error, and what can be chance. The largest of K normal
    errors is about tau sqrt(2 ln K).
    """
    found = []
    order = topological_order(graph)
    for place in range(1, len(order)):
        node, earlier = order[place], order[:place]
        parents = np.flatnonzero(graph[:, node])
        others = np.setdiff1d(earlier, parents)
        precisions = tasks.ns - len(parents) - 1.0
        usable = precisions > 0
        if len(others) and usable.sum() > 1:
            z = _fisher_z(tasks.scatters[usable], node, parents, others)
            found.append(_averages(z, precisions[usable]))
    if not found:
        return 0.0
    pairs = _Averages(*np.concatenate(found, axis=1))
    # Spreads are 1 if tasks differ by chance only. Those of single pairs are noisy: they are shrunk.
    mean_spread = max(pairs.spread.mean(), 1.0)
    weight = pairs.degrees / (pairs.degrees + _PRIOR_DEGREES)
    ratio = np.maximum(weight * pairs.spread + (1 - weight) * mean_spread, 1.0)
    chance, between = ratio / pairs.total_precision, (mean_spread - 1.0) / pairs.precision
    n_pairs = len(ratio)
    by_chance = _STANDARD_ERRORS * np.sqrt(2 * np.mean(chance**2) / n_pairs)
    tau_squared = np.mean(pairs.mean**2 - chance - between) - by_chance
    largest = np.sqrt(2 * np.log(max(n_pairs, 2)) * max(tau_squared, 0.0))
    return float(min(largest, _LARGEST_ERROR))


class _Averages(NamedTuple):
    """Fisher's z of pairs over the tasks, each (pairs,).

    Weighted ``mean`` and ``spread``, the mean square around it in units of what chance explains, with
    its ``degrees`` of freedom; mean ``precision`` of a task and ``total_precision`` of all tasks.
    """

    mean: np.ndarray
    spread: np.ndarray
    degrees: np.ndarray
    precision: np.ndarray
    total_precision: np.ndarray


def _averages(z: np.ndarray, precisions: np.ndarray) -> _Averages:
    """Averages of ``z`` (tasks, pairs) with the ``precisions`` (tasks,)."""
    same, total, degrees = np.ones(z.shape[1]), precisions.sum(), len(z) - 1
    mean = precisions @ z / total
    return _Averages(
        mean=mean,
        spread=precisions @ (z - mean) ** 2 / degrees,
        degrees=degrees * same,
        precision=precisions.mean() * same,
        total_precision=total * same,
    )


def _fisher_z(
    scatters: np.ndarray, node: int, parents: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Fisher's z of the partial correlations of a node with others given parents, (tasks, others)."""
    chosen = np.append(others, node)
    variances = np.einsum("tii->ti", scatters)[:, chosen]
    covariances = scatters[:, others, node]
    if len(parents):
        factors = np.linalg.cholesky(scatters[:, parents[:, None], parents])
        explained = np.linalg.solve(factors, scatters[:, parents[:, None], chosen])
        variances = variances - np.sum(explained**2, axis=1)
        covariances = covariances - np.einsum(
            "tpo,tp->to", explained[:, :, :-1], explained[:, :, -1]
        )
    correlations = covariances / np.sqrt(variances[:, :-1] * variances[:, -1:])
    return np.arctanh(correlations)
