"""The edge prior: how dense the graphs are and how alike (docs/model.md, section 11).

The undirected edge jk is in a task with probability pi_jk, the same for all tasks, and
pi_jk ~ Beta(s r_jk, s (1 - r_jk)), integrated out. Tasks that join the same pair are likely to do so in
the same direction.
"""

from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, expit, log_expit

from mtgbn.errors import InputError
from mtgbn.graphs import skeleton

__all__ = [
    "EdgePrior",
    "EdgePriorChoice",
    "EdgePriorSetting",
    "arranged",
    "edge_counts",
    "edge_prior_of",
    "estimate_edge_prior",
    "free_pairs",
    "log_odds_of_directions",
    "log_probability_of_directions",
    "shared_edge_prior",
    "unshared_edge_prior",
]

# Edges per variable that the default density expects, and the default similarity: docs/decisions.md.
_EDGES_PER_VARIABLE = 0.5
_SIMILARITY = 4.0

# An estimated similarity is at least the default one; with few tasks, this much per task.
_LEAST_SIMILARITY_PER_TASK = 0.4


class EdgePrior(NamedTuple):
    """Density r, one for all pairs or one per pair, and similarity s.

    The smaller s, the more alike the graphs: 1/(1 + s) is the correlation, beforehand, between an edge's
    presence in one task and in another.
    """

    density: float | np.ndarray
    similarity: float

    def log_odds(self, counts: np.ndarray, n_tasks: int) -> np.ndarray:
        """Log prior odds of every edge in one task, when ``counts`` of ``n_tasks`` others have it."""
        r, s = self
        return np.log(r + counts / s) - np.log1p((n_tasks - counts) / s - r)

    def log_probability(
        self, counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None
    ) -> float:
        """Joint log prior of the skeletons of all tasks, of which ``counts`` have every edge.

        ``free`` (p, p): pairs to count, all if left out; what is known beforehand tells nothing.

        Beta functions as products, divided by s throughout: exact for graphs that are almost identical
        (s -> 0) and for unrelated ones (s = inf).
        """
        r, s = self
        pairs = _pairs(counts, free)
        present = counts[pairs]
        steps = np.arange(n_tasks) / s
        if np.ndim(r):
            r = r[pairs][:, None]
            having = np.where(np.arange(n_tasks) < present[:, None], np.log(r + steps), 0.0)
            absent = n_tasks - present[:, None]
            lacking = np.where(np.arange(n_tasks) < absent, np.log1p(steps - r), 0.0)
            return float(having.sum() + lacking.sum() - len(present) * np.log1p(steps).sum())
        return self._log_probability_of(np.bincount(present, minlength=n_tasks + 1))

    def _log_probability_of(self, times: np.ndarray) -> float:
        """The same if ``times[k]`` pairs are joined in k of all tasks, and r is one number."""
        r, s = self
        steps = np.arange(len(times) - 1) / s
        having, lacking = np.zeros((2, len(times)))
        np.cumsum(np.log(r + steps), out=having[1:])
        np.cumsum(np.log1p(steps - r), out=lacking[1:])
        return float(times @ (having + lacking[::-1] - np.log1p(steps).sum()))

    def matrix_of_log_odds(self, p: int) -> np.ndarray:
        """Log prior odds of every edge in a task that is alone, (p, p)."""
        return np.broadcast_to(self.log_odds(np.zeros((p, p)), 0), (p, p))

    def matrix(self, p: int) -> np.ndarray:
        """Densities of all pairs, (p, p)."""
        return np.array(np.broadcast_to(self.density, (p, p)), dtype=float, order="C")


# What users may set: nothing, r, (r, s), a matrix of r, (matrix, s), or what is to be estimated.
EdgePriorSetting = float | tuple | np.ndarray | Literal["shared", "density", "sampled"] | None


class EdgePriorChoice(NamedTuple):
    """An edge prior to begin with, and where its numbers come from.

    ``source`` is "fixed"; "shared": r and s are estimated from the graphs that the tasks have by
    themselves; "density": r alone, graphs are unrelated; "sampled": both are sampled with the graphs.
    """

    prior: EdgePrior
    source: Literal["fixed", "shared", "density", "sampled"] = "fixed"

    @property
    def is_fixed(self) -> bool:
        """Whether the numbers were given."""
        return self.source == "fixed"


def estimate_edge_prior(
    counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None
) -> EdgePrior:
    """R and s by which ``counts`` of the tasks are most probable to have each edge.

    r and 1/(1 + s) are uniform beforehand, and it is their logits whose density is maximised, so that
    neither ends at its limit. Of pairs that are not ``free`` (p, p) something is known beforehand.
    """
    if n_tasks < 2:
        return unshared_edge_prior(counts, n_tasks, free)

    times = np.bincount(counts[_pairs(counts, free)], minlength=n_tasks + 1)

    def loss(x: np.ndarray) -> float:
        prior = EdgePrior(expit(x[0]), np.exp(-x[1]))
        return -prior._log_probability_of(times) - np.sum(log_expit(x) + log_expit(-x))

    # The simplex is given, since scipy's own is a needle where a coordinate begins at 0.
    simplex = np.array([[-1.5, 0.0], [-0.5, 0.0], [-1.5, 1.0]])
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-9}
    best = minimize(loss, simplex[0], method="Nelder-Mead", options=options)
    return EdgePrior(float(expit(best.x[0])), float(np.exp(-best.x[1])))


def shared_edge_prior(
    counts: np.ndarray,
    n_tasks: int,
    free: np.ndarray | None = None,
    *,
    share: float = 0.0,
    pooled_density: float | None = None,
) -> EdgePrior:
    """The edge prior for learning tasks together, when ``counts`` of them have each edge by themselves.

    More cautious than the estimate on purpose (docs/decisions.md): edges that all other tasks have are
    not taken for granted, and edges that no other task has must be worth more. Less so the larger the
    others' say in a task's coefficients, ``share``. The same coefficients come with the same edges, most
    of all if tasks are few: many together show effects so small that the model need not be right about
    them. And the density is then rather that of the graph of all tasks as one, ``pooled_density``, since
    single tasks miss weak edges.
    """
    r, s = estimate_edge_prior(counts, n_tasks, free)
    if n_tasks < 2:
        return EdgePrior(r, s)
    if pooled_density is not None:
        r = r ** (1 - share) * pooled_density**share
    r /= 1 + (n_tasks - 1) / max(s, _SIMILARITY)
    s = max(s, min(_SIMILARITY, _LEAST_SIMILARITY_PER_TASK * n_tasks))
    return EdgePrior(float(r), float(s * (1 - share) ** (1 / n_tasks)))


def unshared_edge_prior(
    counts: np.ndarray, n_tasks: int, free: np.ndarray | None = None
) -> EdgePrior:
    """The density of all graphs as one, an edge and a gap added, for tasks that share no edges."""
    present = counts[_pairs(counts, free)]
    return EdgePrior(float((present.sum() + 1) / (n_tasks * len(present) + 2)), np.inf)


def free_pairs(allowed: np.ndarray, required: np.ndarray) -> np.ndarray:
    """Pairs that may be joined or not, (..., p, p): of the others everything is known beforehand."""
    return (allowed | np.swapaxes(allowed, -1, -2)) & ~(required | required.T)


def _pairs(counts: np.ndarray, free: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Places above the diagonal, of pairs of which nothing is known."""
    everything = np.ones(counts.shape, dtype=bool) if free is None else free
    return np.nonzero(np.triu(everything, 1))


def log_odds_of_directions(there: np.ndarray, others: np.ndarray, agreement: float) -> np.ndarray:
    """Added to the log odds of i -> j in one task, when of ``others`` that join i and j so many do so.

    The share of tasks in which an edge goes one way is Beta(agreement, agreement) beforehand, integrated
    out; infinity: directions are unrelated.
    """
    return np.log1p((there - others / 2) / (agreement + others / 2))


def log_probability_of_directions(directed_counts: np.ndarray, agreement: float) -> float:
    """Sum over the pairs, by which i -> j is in ``directed_counts[i, j]`` tasks; 0 if unrelated."""
    if not np.isfinite(agreement):
        return 0.0
    pairs = np.triu_indices(len(directed_counts), 1)
    forward, backward = directed_counts[pairs], directed_counts.T[pairs]
    values = betaln(agreement + forward, agreement + backward) - betaln(agreement, agreement)
    return float(np.sum(values + (forward + backward) * np.log(2)))


def arranged(choice: EdgePriorChoice, order) -> EdgePriorChoice:
    """The same prior for variables in another order."""
    density = choice.prior.density
    if np.ndim(density) == 0:
        return choice
    return choice._replace(prior=choice.prior._replace(density=density[np.ix_(order, order)]))


def edge_prior_of(given, variables) -> EdgePriorChoice:
    """The edge prior that a user's setting means.

    ``given`` is None (fixed defaults), r, (r, s), "shared", "density", "sampled", a matrix of r, or
    (matrix, s); a data frame is matched by name.
    """
    p, whole = len(variables), given
    default = EdgePrior(min(2 * _EDGES_PER_VARIABLE / (p - 1), 0.5), _SIMILARITY)
    if isinstance(given, str):
        if given in ("shared", "sampled"):
            return EdgePriorChoice(default, given)
        if given == "density":
            return EdgePriorChoice(default._replace(similarity=np.inf), given)
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


def _by_name(frame, variables) -> np.ndarray:
    for labels, what in ((frame.columns, "column"), (frame.index, "row")):
        missing = [name for name in variables if name not in list(labels)]
        if missing:
            raise InputError(f"edge_prior has no {what} {missing[0]!r}")
    return frame.loc[list(variables), list(variables)].to_numpy()


def _checked_matrix(density: np.ndarray, variables) -> np.ndarray:
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
    np.fill_diagonal(density, 0.5)  # never looked at, and has a logarithm
    return density


def _refusal(given) -> InputError:
    return InputError(
        "edge_prior must be a density r between 0 and 1, a pair (r, s) with a similarity s above 0 "
        "(inf: unrelated graphs), 'shared', 'density', 'sampled', or a symmetric matrix of edge "
        f"probabilities, alone or with s; got {given!r}"
    )


def edge_counts(adjacencies: np.ndarray) -> np.ndarray:
    """How many tasks have each edge, in either direction, (p, p)."""
    return sum(skeleton(adjacency).astype(np.int64) for adjacency in adjacencies)
