"""Measures of how strong a connection is (docs/model.md, section 18).

All measures are here. `MEASURES` has those that compare one subject with a group, by name: to add one,
write its functions and add an entry; `compare_one(measure=NAME)` then uses it, and tables and
sentences take their words from the entry. `standardised_coefficients` measures the edges of one graph.

The measure "partial_correlation": given its parents, a variable of a network is independent of all
other variables that are not its descendants. So the partial correlation of two variables given the
parents of the later one is 0 where the network has no edge between them, and measures the edge where
it has one. The parents are those in the group's networks, because the data of one subject would
otherwise have to tell the parents as well as the strength.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mtgbn._utils.names import listed, unknown_name
from mtgbn.errors import InputError
from mtgbn.graphs.dags import descendants
from mtgbn.tasks import Tasks

# Fisher's z of a partial correlation closer to 1 would not be finite.
_LARGEST_CORRELATION = 1 - 1e-12

# Fewer rows have no partial correlation given two variables with an error of its own.
_FEWEST_ROWS = 5

# A variable of which others leave less than this share of its variance is a combination of them.
_COLLINEAR = 1e-12


class StrengthMeasure(NamedTuple):
    """A measure of the strength of every pair, with which one subject can be compared with a group."""

    label: str  # what sentences call it
    description: str  # what tables say about it
    # From scatters of subjects, (subjects, p, p), and DAGs of the group, (members, p, p): symmetric
    # strengths, (subjects, p, p), on a scale on which differences are meaningful.
    of_pairs: Callable[[np.ndarray, np.ndarray], np.ndarray]
    # From n of the subjects, (subjects,), and the DAGs: sampling variances of the strengths.
    variance: Callable[[np.ndarray, np.ndarray], np.ndarray]
    # From the scale of of_pairs to the scale that tables show.
    to_display: Callable[[np.ndarray], np.ndarray]


def measure_named(name: str) -> StrengthMeasure:
    """Return the entry of `MEASURES`, or say which entries there are."""
    if name not in MEASURES:
        raise unknown_name(name, list(MEASURES), "measure")
    return MEASURES[name]


def check_strengths(tasks: Tasks) -> None:
    """Refuse data whose strengths are undefined in nearly all networks: gaps, few rows, copies.

    Combinations of more variables are refused by `connection_strengths`, if they are in one family.
    """
    if tasks.incomplete:
        names = listed([tasks.names[t] for t in sorted(tasks.incomplete)])
        raise InputError(
            f"strengths of connections need complete data, and {names} lack values; fill them in, or "
            "leave these subjects out"
        )
    n_rows = [None] * len(tasks) if tasks.n_rows is None else tasks.n_rows.tolist()
    for name, scatter, rows in zip(tasks.names, tasks.scatters, n_rows, strict=True):
        if rows is not None and rows < _FEWEST_ROWS:
            raise InputError(
                f"{name!r} has {rows} rows, too few for partial correlations; at least {_FEWEST_ROWS} "
                "are needed. Leave this subject out"
            )
        deviations = np.sqrt(np.diag(scatter))
        shared = np.triu((scatter / np.outer(deviations, deviations)) ** 2, 1)
        copies = np.argwhere(shared > 1 - _COLLINEAR)
        if len(copies):
            first, second = (tasks.variables[k] for k in copies[0])
            raise InputError(
                f"variables {first!r} and {second!r} of {name!r} are the same but for their scale, so "
                "that partial correlations are undefined; leave one of the variables out of the data, "
                "or the subject out"
            )


def standardised_coefficients(graph: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Regress every variable on its parents, all scaled to variance 1; (p, p), 0 without an edge."""
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    coefficients = np.zeros(graph.shape)
    for child in range(len(graph)):
        parents = np.flatnonzero(graph[:, child])
        if len(parents):
            square = correlation[np.ix_(parents, parents)]
            coefficients[parents, child] = np.linalg.solve(square, correlation[parents, child])
    return coefficients


def connection_strengths(
    scatters: np.ndarray,
    graphs: np.ndarray,
    *,
    subjects: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
) -> np.ndarray:
    """Fisher's z of the partial correlations of all pairs, given parents in the DAGs of a group.

    Returns the mean over the graphs: (subjects, p, p), symmetric, 0 on the diagonal. Where neither
    variable is a descendant of the other in a graph, it is the mean over the parents of one and the
    parents of the other. Names of subjects and variables are for messages.
    """
    p = scatters.shape[1]
    weights = _weights(graphs)
    strengths = np.zeros(scatters.shape)
    for node in range(p):
        kinds, kind = np.unique(graphs[:, :, node], axis=0, return_inverse=True)
        for number, is_parent in enumerate(kinds):
            weight = weights[kind.reshape(-1) == number, :, node].sum(axis=0)
            parents = np.flatnonzero(is_parent)
            try:
                found = _given_parents(scatters, node, parents)
            except _CollinearError as error:
                raise _in_words(error, subjects, variables) from None
            strengths[:, :, node] += weight * found
    strengths /= len(graphs)
    strengths += strengths.transpose(0, 2, 1)
    strengths[:, np.arange(p), np.arange(p)] = 0.0
    return strengths


def mean_conditions(graphs: np.ndarray) -> np.ndarray:
    """Count the variables that every pair's strength is conditional on, mean over the graphs, (p, p)."""
    # Parents of the column's variable, other than the row's variable.
    n_parents = graphs.sum(axis=1)[:, None, :] - graphs
    mean = (_weights(graphs) * n_parents).mean(axis=0)
    mean += mean.T
    np.fill_diagonal(mean, 0.0)
    return mean


def sampling_variance(n: float | np.ndarray, n_given: np.ndarray) -> np.ndarray:
    """Variance of Fisher's z of a partial correlation given ``n_given`` variables, from n samples.

    The usual formula needs n of at least ``n_given + 3``; below that, the variance is taken to be 1.
    """
    return 1.0 / np.maximum(n - n_given - 2.0, 1.0)


def _weights(graphs: np.ndarray) -> np.ndarray:
    """1 where the column's variable is a descendant of the row's, 0 for the reverse, else 1/2."""
    below = np.array([descendants(graph) for graph in graphs])
    return (1.0 + below - below.transpose(0, 2, 1)) / 2


class _CollinearError(Exception):
    """Variables (positions) of a subject (position) are collinear."""

    def __init__(self, subject: int, variables: Sequence[int]) -> None:
        self.subject, self.variables = subject, list(variables)


def _in_words(
    error: _CollinearError, subjects: Sequence[str] | None, variables: Sequence[str] | None
) -> InputError:
    """The error with names, or with positions where there are none."""
    who = "a subject" if subjects is None else repr(subjects[error.subject])
    which = (
        f"the variables at positions {error.variables}"
        if variables is None
        else f"the variables {listed([variables[k] for k in error.variables], 8)}"
    )
    return InputError(
        f"{which} are collinear in {who}, so that their partial correlations are undefined; leave one "
        "of them out, or use more rows"
    )


def _given_parents(scatters: np.ndarray, node: int, parents: np.ndarray) -> np.ndarray:
    """Fisher's z of every variable's partial correlation with a node, given the node's other parents."""
    family = np.append(parents, node)
    q = len(parents)
    squares = scatters[:, family[:, None], family]
    try:
        factor = np.linalg.cholesky(squares)
    except np.linalg.LinAlgError:
        raise _CollinearError(_first_singular(squares), family.tolist()) from None
    whitened = np.linalg.solve(factor[:, :q, :q], scatters[:, parents])
    residuals = scatters[:, :, node] - np.einsum("sqi,sq->si", whitened, factor[:, q, :q])
    totals = np.einsum("sii->si", scatters)
    variances = totals - (whitened**2).sum(axis=1)
    variances[:, parents] = totals[:, parents]
    # Rounding errors are all that is left of the variance of a combination of the parents.
    unclear = np.argwhere(variances <= _COLLINEAR * totals)
    if len(unclear):
        subject, other = unclear[0].tolist()
        raise _CollinearError(subject, [*parents.tolist(), other])
    correlations = residuals / np.sqrt(variances * variances[:, node, None])
    # A parent's partial correlation follows from the precision matrix of the family.
    inverse = np.linalg.solve(factor, np.eye(q + 1))
    correlations[:, parents] = -inverse[:, q, :q] / np.linalg.norm(inverse[:, :, :q], axis=1)
    correlations[:, node] = 0.0
    return np.arctanh(np.clip(correlations, -_LARGEST_CORRELATION, _LARGEST_CORRELATION))


def _first_singular(matrices: np.ndarray) -> int:
    """Position of the first matrix without a Cholesky factor."""
    for place, matrix in enumerate(matrices):
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return place
    return 0


DEFAULT_MEASURE = "partial_correlation"
MEASURES = {
    DEFAULT_MEASURE: StrengthMeasure(
        label="partial correlation",
        description="partial correlation in the subject, given the parents in the controls' networks",
        of_pairs=connection_strengths,
        variance=lambda ns, graphs: sampling_variance(ns[:, None, None], mean_conditions(graphs)),
        to_display=np.tanh,
    )
}
