"""Data augmentation for tasks with missing values (docs/model.md, sections 2 and 13).

One round for one task, given its graph and sigma_h: precision Omega and mean mu given the completed
rows, then the missing values given Omega, mu and the observed values. The mean has a flat prior,
so that Omega given the completed rows depends on their scatter with rows - 1 degrees of freedom
alone, as everywhere else. Together with a sampler of sigma_h and of the graphs given the scatters,
rounds leave the joint posterior as it is. Values are taken to be missing at random.
"""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.errors import InputError
from mtgbn.model.triangular import factorise, solve_backward, solve_forward

__all__ = ["Completed", "complete_rows", "draw_missing", "first_completion"]


class Completed(NamedTuple):
    """Where the imputation of one task stands; ``rows`` is changed in place.

    Attributes
    ----------
    rows : array (rows, p)
        Observed values and the present draw of the missing ones.
    is_missing : array (rows, p) of bool
    """

    rows: np.ndarray
    is_missing: np.ndarray


def first_completion(rows: np.ndarray) -> Completed:
    """Column means where ``rows`` has nan, 0 in a column without any value: a start."""
    is_missing = np.isnan(rows)
    known = np.where(is_missing, 0.0, rows)
    means = known.sum(axis=0) / np.maximum((~is_missing).sum(axis=0), 1)
    return Completed(np.ascontiguousarray(np.where(is_missing, means, rows)), is_missing)


def draw_missing(
    rng: np.random.Generator,
    completed: Completed,
    adjacency: np.ndarray,
    sigma_h: np.ndarray,
    scatter: np.ndarray,
    n: float,
    delta: float,
    factor: float = 1.0,
) -> np.ndarray:
    """Draw the missing values of one task anew, in place, and return the scatter, (p, p).

    Parameters
    ----------
    rng : Generator
    completed : Completed
        `first_completion` of the rows, or where the last round ended.
    adjacency : array (p, p)
        A DAG; A[i, j] = 1 for the edge i -> j.
    sigma_h : array (p, p)
    scatter : array (p, p)
        Of the completed rows: what the last round returned, or a first guess.
    n : float
        Degrees of freedom of ``scatter``.
    delta : float
        nu0 - p + 1.
    factor : float
        What the scatter of the rows is multiplied by: `Tasks.scatter_factor`. If it is not 1, rows
        count for less than they are, and the values are drawn from what so many rows can tell.
    """
    outcome = np.empty(completed.rows.shape[1:] * 2)
    done = complete_rows(
        rng,
        completed,
        np.ascontiguousarray(adjacency, dtype=np.bool_),
        np.ascontiguousarray(sigma_h, dtype=np.float64),
        np.ascontiguousarray(scatter, dtype=np.float64),
        float(n),
        float(delta),
        float(factor),
        outcome,
    )
    if not done:
        raise InputError(
            "sigma_h or a precision became numerically singular; rescale or drop variables"
        )
    return outcome


@kernel(error_model="numpy")
def complete_rows(rng, completed, adjacency, sigma_h, scatter, n, delta, factor, outcome):
    """`draw_missing` for compiled callers; the new scatter goes to ``outcome``.

    False if a matrix lost its definiteness; the rows are then of no use any more.
    """
    p = sigma_h.shape[0]
    matrix = sigma_h + scatter
    precision = np.zeros((p, p))
    work = np.empty((p, p))
    means = np.empty(p)
    if not draw_precision(rng, adjacency, matrix, delta + n, precision, work):
        return False
    if not draw_means(rng, completed, precision, means, work):
        return False
    if not draw_rows(rng, completed, precision, means, work):
        return False
    _scatter_rows(completed.rows, factor, means, outcome)
    return True


@kernel(error_model="numpy")
def draw_precision(rng, adjacency, matrix, degrees, precision, factor):
    """Add sum_k omega_k u_k u_k' to ``precision``, drawn family by family with M = ``matrix``.

    The Cholesky factor of a family, the node after its parents, has the factor L of M_PP, the row
    L^-1 M_Pk, and the root of the residual scale s.
    """
    p = matrix.shape[0]
    members = np.empty(p, dtype=np.int64)
    direction = np.empty(p)
    for node in range(p):
        q = 0
        for j in range(p):
            if adjacency[j, node]:
                members[q] = j
                q += 1
        members[q] = node
        if not factorise(matrix, members, q + 1, factor):
            return False
        omega = 2.0 * rng.standard_gamma((degrees + q) / 2.0) / factor[q, q] ** 2
        for a in range(q):
            direction[a] = factor[q, a] + rng.standard_normal() / np.sqrt(omega)
        solve_backward(factor, direction, q)
        for a in range(q):
            direction[a] = -direction[a]
        direction[q] = 1.0
        for a in range(q + 1):
            for b in range(q + 1):
                precision[members[a], members[b]] += omega * direction[a] * direction[b]
    return True


@kernel(error_model="numpy")
def draw_means(rng, completed, precision, means, factor):
    """Draw the mean of the rows, normal around that of the completed ones with (rows Omega)^-1."""
    rows, is_missing = completed
    n_rows, p = rows.shape
    for j in range(p):
        means[j] = rng.standard_normal() / np.sqrt(n_rows)
    if not factorise(precision, np.arange(p), p, factor):
        return False
    solve_backward(factor, means, p)
    for j in range(p):
        total = 0.0
        observed = False
        for i in range(n_rows):
            total += rows[i, j]
            observed |= not is_missing[i, j]
        # A variable without any value may lie anywhere, and the scatter does not see where. All its
        # values are drawn around this mean, so it can be moved back to 0 rather than drift.
        means[j] = means[j] + total / n_rows if observed else 0.0
    return True


@kernel(error_model="numpy")
def draw_rows(rng, completed, precision, means, factor):
    """Draw the missing values of every row given its observed ones, in place."""
    rows, is_missing = completed
    n_rows, p = rows.shape
    members = np.empty(p, dtype=np.int64)
    values = np.empty(p)
    size = 0
    for i in range(n_rows):
        # neighbours often lack the same variables; their factor serves again
        same = i > 0
        for j in range(p):
            same = same and is_missing[i, j] == is_missing[i - 1, j]
        if not same:
            size = 0
            for j in range(p):
                if is_missing[i, j]:
                    members[size] = j
                    size += 1
            if not factorise(precision, members, size, factor):
                return False
        for a in range(size):
            pull = 0.0
            for j in range(p):
                if not is_missing[i, j]:
                    pull += precision[members[a], j] * (rows[i, j] - means[j])
            values[a] = -pull
        solve_forward(factor, values, size)
        # with Omega_mm = L L', L'^-1 z has the covariance Omega_mm^-1
        for a in range(size):
            values[a] += rng.standard_normal()
        solve_backward(factor, values, size)
        for a in range(size):
            rows[i, members[a]] = means[members[a]] + values[a]
    return True


@kernel(error_model="numpy")
def _scatter_rows(rows, factor, means, outcome):
    """Scatter of the rows about their own mean, times ``factor``; exactly symmetric."""
    n_rows, p = rows.shape
    row = np.empty(p)
    means[:] = 0.0
    for i in range(n_rows):
        for j in range(p):
            means[j] += rows[i, j] / n_rows
    outcome[:] = 0.0
    for i in range(n_rows):
        for j in range(p):
            row[j] = rows[i, j] - means[j]
        for j in range(p):
            for k in range(j + 1):
                outcome[j, k] += row[j] * row[k]
    for j in range(p):
        for k in range(j + 1):
            outcome[j, k] *= factor
            outcome[k, j] = outcome[j, k]
