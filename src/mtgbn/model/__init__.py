"""Densities of the model: signed sets in, log-determinants of small matrices out (docs/model.md)."""

from mtgbn.model.coordinates import (
    from_unconstrained,
    log_jacobian,
    log_posterior_unconstrained,
    to_unconstrained,
)
from mtgbn.model.densities import (
    STRUCTURE_PRIORS,
    StructurePrior,
    log_marginal_likelihood,
    log_normaliser,
    log_structure_prior,
)
from mtgbn.model.posterior import Posterior, build_posterior, log_posterior
from mtgbn.model.propriety import check_proper
from mtgbn.model.signed_sets import SignedSets, cliques_and_separators, families, signed_sets
from mtgbn.model.unstructured import unstructured_sigma_h

__all__ = [
    "STRUCTURE_PRIORS",
    "Posterior",
    "SignedSets",
    "StructurePrior",
    "build_posterior",
    "check_proper",
    "cliques_and_separators",
    "families",
    "from_unconstrained",
    "log_jacobian",
    "log_marginal_likelihood",
    "log_normaliser",
    "log_posterior",
    "log_posterior_unconstrained",
    "log_structure_prior",
    "signed_sets",
    "to_unconstrained",
    "unstructured_sigma_h",
]
