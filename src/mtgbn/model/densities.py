"""Normalising constants, marginal likelihood and structure priors (docs/model.md, sections 1 to 3)."""

from typing import Literal

import numpy as np

from mtgbn.errors import InputError
from mtgbn.graphs.chordal import triangulate
from mtgbn.graphs.dags import moral_graph
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
from mtgbn.model.signed_sets import (
    SignedSets,
    cliques_and_separators,
    families,
    is_adjacency,
    signed_sets,
)

__all__ = [
    "STRUCTURE_PRIORS",
    "StructurePrior",
    "log_marginal_likelihood",
    "log_normaliser",
    "log_structure_prior",
    "triangulated_sets",
]

StructurePrior = Literal["uniform", "restricted", "scale_free", "decomposable"]
STRUCTURE_PRIORS: tuple[StructurePrior, ...] = (
    "uniform",
    "restricted",
    "scale_free",
    "decomposable",
)


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
    return _log_normaliser(sets, d, matrix)


def log_marginal_likelihood(scatter, n: float, adjacency, sigma_h, nu0: float) -> float:
    """Log density of one task's data given its DAG and sigma_h (the BGe score with a zero mean).

    Parameters
    ----------
    scatter : array (p, p)
        X'X of the centred data.
    n : float
        Degrees of freedom of the scatter.
    adjacency : array (p, p)
        The DAG; ``adjacency[i, j]`` means i -> j.
    sigma_h : array (p, p)
        Scale matrix of the inverse Wishart prior.
    nu0 : float
        Its degrees of freedom, above p - 1.
    """
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    p = len(sigma_h)
    delta = check_delta(nu0, p)
    (scatter,), (n,) = check_scatters([scatter], [n], p)
    sets = families(check_adjacencies([adjacency], 1, p)[0])
    return (
        -n * p / 2 * np.log(2 * np.pi)
        + _log_normaliser(sets, delta + n, sigma_h + scatter)
        - _log_normaliser(sets, delta, sigma_h)
    )


def log_structure_prior(adjacency, sigma_h, nu0: float, kind: StructurePrior) -> float:
    """Log prior of a DAG given sigma_h.

    Parameters
    ----------
    adjacency : array (p, p)
        The DAG; ``adjacency[i, j]`` means i -> j.
    sigma_h : array (p, p)
    nu0 : float
    kind : {"uniform", "restricted", "scale_free", "decomposable"}
        ``uniform`` is 0. ``restricted`` is the inverse Wishart density integrated over the precisions
        that obey the DAG; it depends on the units of the data. ``scale_free`` is ``restricted``
        relative to the same with the diagonal of sigma_h, free of units. ``decomposable`` is
        ``restricted`` for the triangulated moral graph, as the paper writes it; it does not decompose
        over families, so every change of an edge means a new triangulation. Where a moral graph has
        several minimal triangulations the choice goes by the order of the variables.
    """
    check_structure_prior(kind)
    sigma_h = check_positive_definite(sigma_h, "sigma_h")
    p = len(sigma_h)
    delta = check_delta(nu0, p)
    (adjacency,) = check_adjacencies([adjacency], 1, p)
    if kind == "uniform":
        return 0.0
    sets = triangulated_sets(adjacency) if kind == "decomposable" else families(adjacency)
    complete = signed_sets([(+1, range(p))])
    value = _log_normaliser(sets, delta, sigma_h) - _log_normaliser(complete, delta, sigma_h)
    if kind == "scale_free":
        diagonal = np.diag(np.diag(sigma_h))
        value -= _log_normaliser(sets, delta, diagonal) - _log_normaliser(complete, delta, diagonal)
    return value


def check_structure_prior(kind: str) -> None:
    """Raise an error that lists the choices unless ``kind`` is one of them."""
    if kind not in STRUCTURE_PRIORS:
        raise InputError(f"the structure prior must be one of {STRUCTURE_PRIORS}; got {kind!r}")


def triangulated_sets(adjacency: np.ndarray) -> SignedSets:
    """Cliques and separators of the triangulated moral graph of a DAG."""
    return cliques_and_separators(triangulate(moral_graph(adjacency)))


def _log_normaliser(sets: SignedSets, d: float, matrix: np.ndarray) -> float:
    *coefficients, constant = normaliser_coefficients(sets, d)
    owners = np.zeros(len(sets.weights), dtype=np.int64)
    terms = batch(sets, *coefficients, owners, matrix[None])
    nothing = np.zeros(matrix.size)
    return constant + log_determinants(terms, nothing, np.zeros(matrix.size), workspace(terms))
