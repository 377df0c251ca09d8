"""Normalising constants and marginal likelihood (docs/model.md, sections 1 and 2)."""

import numpy as np

from mtgbn.errors import InputError
from mtgbn.model.arguments import (
    check_adjacencies,
    check_degree,
    check_delta,
    check_positive_definite,
    check_scatters,
)
from mtgbn.model.log_determinants import (
    batch,
    log_determinants,
    normaliser_coefficients,
    workspace,
)
from mtgbn.model.signed_sets import SignedSets, families, is_adjacency, signed_sets


def log_normaliser(signed_sets_or_adjacency, d: float, matrix) -> float:
    """Log normalising constant log I(d, matrix) of a DAG or of a decomposable undirected graph.

    For an undirected graph G it is the log of the integral of
    ``|Omega|^((d - 2)/2) exp(-tr(matrix Omega)/2)`` over the precision matrices of G; for a DAG, the sum
    over its families of the log normaliser of their normal-gamma density (docs/model.md, section 2).

    Parameters
    ----------
    signed_sets_or_adjacency : array (p, p), SignedSets or list of (sign, variables)
        A symmetric adjacency matrix is an undirected, chordal graph, any other a DAG with
        ``adjacency[i, j]`` meaning i -> j.
    d : float
        Degrees of freedom in the convention of Dawid and Lauritzen, the same for every subset.
    matrix : array (p, p)
        Symmetric positive definite.
    """
    sets = signed_sets(signed_sets_or_adjacency)
    matrix = check_positive_definite(matrix, "matrix")
    d = check_degree(d)
    p = len(matrix)
    if sets.members.size and not 0 <= sets.members.min() <= sets.members.max() < p:
        raise InputError(
            f"the structure names variables {sets.members.min()} to {sets.members.max()}, "
            f"matrix has {p}"
        )
    shape = np.shape(signed_sets_or_adjacency) if is_adjacency(signed_sets_or_adjacency) else (p, p)
    if shape != (p, p):
        raise InputError(f"the adjacency matrix has shape {shape}, matrix has shape {(p, p)}")
    return checked_log_normaliser(sets, d, matrix)


def log_marginal_likelihood(scatter, n: float, adjacency, sigma_h, nu0: float) -> float:
    """Log density of one task's data given its DAG and sigma_h (the BGe score with a zero mean).

    ``scatter`` (p, p) is X'X of the centred data with ``n`` degrees of freedom, ``sigma_h`` the scale
    matrix of the inverse Wishart prior with ``nu0`` degrees of freedom, above p - 1.
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    p = len(sigma_h)
    delta = check_delta(nu0, p)
    (scatter,), (n,) = check_scatters([scatter], [n], p)
    sets = families(check_adjacencies([adjacency], 1, p)[0])
    return (
        -n * p / 2 * np.log(2 * np.pi)
        + checked_log_normaliser(sets, delta + n, sigma_h + scatter)
        - checked_log_normaliser(sets, delta, sigma_h)
    )


def checked_log_normaliser(sets: SignedSets, d: float, matrix: np.ndarray) -> float:
    """`log_normaliser` of arguments that were checked before."""
    outer, inner, constant = normaliser_coefficients(sets, d)
    owners = np.zeros(len(sets.weights), dtype=np.int64)
    terms = batch(sets, outer, inner, owners, matrix[None])
    nothing = np.zeros(matrix.size)
    return constant + log_determinants(terms, nothing, np.zeros(matrix.size), workspace(terms))
