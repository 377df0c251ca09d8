"""What users may set as edge prior, and what it means."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from mtgbn.errors import InputError
from mtgbn.model.edge_prior import EdgePrior, single_prior

# Edges per variable that the default density expects, and the default similarity: docs/decisions.md.
_EDGES_PER_VARIABLE = 0.5
_SIMILARITY = 4.0

# What users may set: nothing, r, (r, s), a matrix of r, (matrix, s), or what is to be estimated.
EdgePriorSetting = float | tuple | np.ndarray | Literal["shared", "density"] | None


class EdgePriorChoice(NamedTuple):
    """An edge prior to begin with, and where its numbers come from.

    ``source`` is "fixed"; "shared": three kinds of pairs, sampled with the graphs; "density": r is
    estimated from the graphs of the single tasks, and tasks share no edges.
    """

    prior: EdgePrior
    source: Literal["fixed", "shared", "density"] = "fixed"

    @property
    def is_fixed(self) -> bool:
        """Whether the numbers were given."""
        return self.source == "fixed"


def arranged(choice: EdgePriorChoice, order: Sequence[int]) -> EdgePriorChoice:
    """The same prior for variables in another order."""
    density = choice.prior.density
    if not isinstance(density, np.ndarray):
        return choice
    return choice._replace(prior=choice.prior._replace(density=density[np.ix_(order, order)]))


def edge_prior_of(given: Any, variables: Sequence[str]) -> EdgePriorChoice:
    """The edge prior that a user's setting means.

    ``given`` is None (fixed defaults), r, (r, s), "shared", "density", a matrix of r, or
    (matrix, s); a data frame is matched by name.
    """
    p, whole = len(variables), given
    default = EdgePrior(min(2 * _EDGES_PER_VARIABLE / (p - 1), 0.5), _SIMILARITY)
    if isinstance(given, str):
        if given == "shared":
            return EdgePriorChoice(default, "shared")
        if given == "density":
            return EdgePriorChoice(single_prior(default), "density")
        raise _refusal(given)
    if given is None:
        return EdgePriorChoice(default)
    similarity = np.inf
    if isinstance(given, tuple | list) and len(given) == 2 and np.ndim(given[1]) == 0:
        given, similarity = given
    if isinstance(given, np.ndarray) and given.shape == (2,):
        given, similarity = given
    if hasattr(given, "columns"):
        given = _by_name(given, variables)
    try:
        density = np.array(given, dtype=float)
        similarity = float(similarity)
    except (TypeError, ValueError):
        raise _refusal(given) from None
    if density.shape == (1,):
        density = density[0]
    if density.ndim not in (0, 2) or not similarity > 0:
        raise _refusal(whole)
    if density.ndim == 0:
        if not 0 < density < 1:
            raise _refusal(whole)
        return EdgePriorChoice(EdgePrior(float(density), similarity))
    return EdgePriorChoice(EdgePrior(_checked_matrix(density, variables), similarity))


def _by_name(frame: Any, variables: Sequence[str]) -> np.ndarray:
    for labels, what in ((frame.columns, "column"), (frame.index, "row")):
        missing = [name for name in variables if name not in list(labels)]
        if missing:
            raise InputError(f"edge_prior has no {what} {missing[0]!r}")
    return frame.loc[list(variables), list(variables)].to_numpy()


def _checked_matrix(density: np.ndarray, variables: Sequence[str]) -> np.ndarray:
    p = len(variables)
    if density.shape != (p, p):
        raise InputError(
            f"edge_prior must be a ({p}, {p}) matrix, one row per variable; got {density.shape}"
        )
    outside = ~((density > 0) & (density < 1))
    np.fill_diagonal(outside, False)
    if outside.any():
        i, j = np.argwhere(outside)[0]
        raise InputError(
            f"edge_prior must hold probabilities between 0 and 1; that of {variables[i]} and "
            f"{variables[j]} is {density[i, j]}. To forbid or require an edge use Knowledge"
        )
    different = ~np.isclose(density, density.T, rtol=1e-9, atol=0)
    np.fill_diagonal(different, False)
    if different.any():
        i, j = np.argwhere(different)[0]
        raise InputError(
            f"edge_prior must be symmetric: it is a prior on undirected edges; {variables[i]} and "
            f"{variables[j]} have {density[i, j]} and {density[j, i]}"
        )
    density = (density + density.T) / 2
    np.fill_diagonal(density, 0.5)  # not used, but logarithms are taken of the whole matrix
    return density


def _refusal(given: Any) -> InputError:
    return InputError(
        "edge_prior must be a density r between 0 and 1, a pair (r, s) with a similarity s above 0 "
        "(inf: unrelated graphs), 'shared', 'density', or a symmetric matrix of edge "
        f"probabilities, alone or with s; got {given!r}"
    )
