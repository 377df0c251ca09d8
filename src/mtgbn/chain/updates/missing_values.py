"""Update of the missing values: data augmentation (docs/model.md, sections 2 and 13).

For each task, given its graph and sigma_h, precision Omega and mean mu are drawn given the completed
rows, then the missing values given Omega, mu and the observed values. The mean has a flat prior, so
that Omega depends on the completed rows only through their scatter, which has rows - 1 degrees of
freedom, as for complete tasks. Together with the other updates, which are given the scatters, rounds
leave the joint posterior invariant. Values are assumed to be missing at random.
"""

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.model.triangular import factorise, solve_backward, solve_forward


@kernel(error_model="numpy")
def update_missing_values(rng, data, state, sigma_h):
    """Draw the missing values of every task; ``rows`` and ``scatters`` of the state change.

    Returns False if a matrix lost its definiteness; the rows are then useless.
    """
    p = sigma_h.shape[0]
    for k in range(data.incomplete.size):
        t = data.incomplete[k]
        own = np.copy(state.scatters[t])
        for j in range(p):
            own[j, j] += data.single_scales[t, j]
        first, last = data.row_starts[k], data.row_starts[k + 1]
        if not draw_missing(
            rng,
            state.rows[first:last],
            data.is_missing[first:last],
            state.adjacencies[t],
            (sigma_h + state.scatters[t], own),
            (state.delta[()] + data.ns[t], SINGLE_DELTA + data.ns[t]),
            state.ties[t],
            data.scatter_factors[k],
            state.scatters[t],
        ):
            return False
    return True


@kernel(error_model="numpy")
def draw_missing(rng, rows, is_missing, adjacency, matrices, degrees, ties, factor, scatter):
    """Draw the missing values of one task given its graph; ``rows`` and ``scatter`` change.

    Parameters
    ----------
    rng : numpy.random.Generator
    rows, is_missing : array (rows, p)
        Observed values with the present draw of the missing ones, and which are missing.
    adjacency : array (p, p) of bool
    matrices, degrees : (array (p, p), array (p, p)), (float, float)
        Prior matrix plus the scatter of the completed rows, and the degrees of freedom, of tied and of
        own families.
    ties : array (p,) of bool
        Which families are tied.
    factor : float
        What the scatter of the rows is multiplied by. If it is not 1, rows count for less than they
        are, and the values are drawn from what that number of rows can tell.
    scatter : array (p, p)

    Returns False if a matrix lost its definiteness; the rows are then useless.
    """
    p = ties.size
    precision = np.zeros((p, p))
    work = np.empty((p, p))
    means = np.empty(p)
    if not draw_precision(rng, adjacency, matrices, degrees, ties, precision, work):
        return False
    if not draw_means(rng, rows, is_missing, precision, means, work):
        return False
    if not draw_rows(rng, rows, is_missing, precision, means, work):
        return False
    _scatter_rows(rows, factor, means, scatter)
    return True


@kernel(error_model="numpy")
def draw_precision(rng, adjacency, matrices, degrees, ties, precision, factor):
    """Draw a precision, sum_k omega_k u_k u_k', and add it to ``precision``.

    omega_k is the precision of node k given its parents P, u_k has 1 at k and minus the coefficients
    at P. With M the matrix of the family, the Cholesky factor of the family, the node after its
    parents, consists of the factor L of M_PP, the row L^-1 M_Pk, and the square root of the residual
    scale.
    """
    p = ties.size
    members = np.empty(p, dtype=np.int64)
    direction = np.empty(p)
    for node in range(p):
        q = 0
        for j in range(p):
            if adjacency[j, node]:
                members[q] = j
                q += 1
        members[q] = node
        source = 0 if ties[node] else 1
        if not factorise(matrices[source], members, q + 1, factor):
            return False
        omega = 2.0 * rng.standard_gamma((degrees[source] + q) / 2.0) / factor[q, q] ** 2
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
def draw_means(rng, rows, is_missing, precision, means, factor):
    """Draw mu: normal around the mean of the completed rows, with the precision n_rows Omega."""
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
        # The mean of a variable without any value is arbitrary and does not change the scatter. All
        # values are drawn around it, so it is set to 0, lest it drift away from round to round.
        means[j] = means[j] + total / n_rows if observed else 0.0
    return True


@kernel(error_model="numpy")
def draw_rows(rng, rows, is_missing, precision, means, factor):
    """Draw the missing values of every row given its observed ones, in place."""
    n_rows, p = rows.shape
    members = np.empty(p, dtype=np.int64)
    values = np.empty(p)
    size = 0
    for i in range(n_rows):
        # Successive rows often lack the same variables, and then have the same factor.
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
        # With Omega_mm = L L', L'^-1 z has the covariance Omega_mm^-1.
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
