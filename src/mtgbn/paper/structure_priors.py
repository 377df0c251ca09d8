"""The paper's priors of a graph given sigma_h (docs/model.md, section 3)."""

from typing import Literal

import numpy as np
from scipy.special import gammaln

from mtgbn.errors import InputError
from mtgbn.graphs.chordal import triangulate
from mtgbn.graphs.dags import moral_graph
from mtgbn.model.arguments import check_adjacencies, check_delta, check_positive_definite
from mtgbn.model.densities import checked_log_normaliser
from mtgbn.model.signed_sets import SignedSets, cliques_and_separators, families, signed_sets
from mtgbn.search.local_scores import LocalScores, gather_scores

StructurePrior = Literal["uniform", "restricted", "scale_free", "decomposable"]
STRUCTURE_PRIORS: tuple[StructurePrior, ...] = (
    "uniform",
    "restricted",
    "scale_free",
    "decomposable",
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
    value = checked_log_normaliser(sets, delta, sigma_h) - checked_log_normaliser(
        complete, delta, sigma_h
    )
    if kind == "scale_free":
        diagonal = np.diag(np.diag(sigma_h))
        value -= checked_log_normaliser(sets, delta, diagonal) - checked_log_normaliser(
            complete, delta, diagonal
        )
    return value


def check_structure_prior(kind: str) -> None:
    """Raise an error that lists the choices unless ``kind`` is one of them."""
    if kind not in STRUCTURE_PRIORS:
        raise InputError(f"the structure prior must be one of {STRUCTURE_PRIORS}; got {kind!r}")


def triangulated_sets(adjacency: np.ndarray) -> SignedSets:
    """Cliques and separators of the triangulated moral graph of a DAG."""
    return cliques_and_separators(triangulate(moral_graph(adjacency)))


def gather_prior_scores(
    scatter: np.ndarray,
    n: float,
    draws: np.ndarray,
    nu0: float,
    structure_prior: StructurePrior,
    log_odds: np.ndarray,
) -> LocalScores:
    """`gather_scores` with the log structure prior in every family, averaged over the draws.

    The scatter is that of a `Tasks` and the draws are a sampler's. ``decomposable`` is not a sum over
    families: its scores are those of ``uniform``, and `TriangulatedPrior` has the rest.
    """
    scores = gather_scores(scatter, n, draws, nu0, log_odds, checked=True)
    if structure_prior in ("uniform", "decomposable"):
        return scores
    p = len(scatter)
    delta, sizes = check_delta(nu0, p), np.arange(p)
    constants = gammaln((delta + n + sizes) / 2) - n / 2 * np.log(np.pi)
    bonus, deviations = scores.edge_bonus, scores.end_deviations
    if structure_prior == "restricted":
        constants += (delta + sizes) / 2 * np.log(2) + sizes / 2 * np.log(2 * np.pi)
    else:
        constants -= gammaln((delta + sizes) / 2)
        halves = np.log(np.einsum("tii->it", draws)) / 2
        means = halves.mean(axis=1)
        bonus = bonus + (means[:, None] + means)
        # In C order like the others, or kernels would be compiled for one more type of array.
        deviations = np.ascontiguousarray(halves - means[:, None])
    # The normaliser of the prior cancels the determinants of sigma_h itself.
    return scores._replace(
        matrices=np.ascontiguousarray((draws + scatter).transpose(1, 2, 0)),
        constants=constants[None],
        edge_bonus=bonus,
        end_deviations=deviations,
    )
