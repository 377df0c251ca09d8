"""How alike the tasks are, in numbers and in words."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mtgbn.model.edge_prior import edge_counts, estimate_edge_prior, unshared_edge_prior
from mtgbn.sampling.diagnostics import smooth_weights

__all__ = ["Relatedness", "describe_relatedness"]

# A task whose probability of belonging is not above this is named.
_DOUBTFUL = 0.5

# A share of the others' say above or below which it is called large or small.
_LARGE, _SMALL = 0.5, 0.1

# Above this the coefficients of the tasks hardly differ, and a reader should know why.
_NEARLY_ALL = 0.9
_ABOUT_OWN = (
    " So strengths are nearly the same in all tasks that have a connection; whether a task has it is "
    "decided by its own data, too."
)


class Relatedness(NamedTuple):
    """How alike the tasks are.

    Attributes
    ----------
    delta : float
        nu0 - p + 1: how many rows of a task's own the shared sigma_h is worth.
    share : float
        delta / (delta + n) for the median n: the others' say in a task's coefficients.
    joined : float
        Share of the pairs that are joined, in the graphs of the tasks that belong.
    density, similarity : float
        r and s of the edge prior by which these graphs are most probable.
    edge_correlation : float
        1/(1 + s): correlation of an edge's presence in one task with that in another.
    membership : array (m,)
        Posterior probability that a task belongs to the others.
    leave_one_out : array (m,)
        Log density of a task's data given all other tasks minus that on its own, per degree of freedom,
        with its graph as sampled; below 0 the others do not help to predict it.
    pareto : array (m,)
        Shape of the tail of the importance weights behind it; above 0.7 it is a rough guess.
    task_names : tuple of str
    """

    delta: float
    share: float
    joined: float
    density: float
    similarity: float
    edge_correlation: float
    membership: np.ndarray
    leave_one_out: np.ndarray
    pareto: np.ndarray
    task_names: tuple[str, ...]

    def in_words(self) -> list[str]:
        """Sentences for a reader who does not know the model."""
        degree = "mostly" if self.share > _LARGE else "hardly" if self.share < _SMALL else "partly"
        lines = [f"{self.joined:.1%} of all pairs are joined." + self._about_edges()]
        if len(self.task_names) > 1:
            lines.insert(
                0,
                f"The tasks' connections are {degree} alike in strength: what the others say of one "
                f"counts as much as {_rounded(self.delta)} rows of the task's own data "
                f"({self.share:.0%} of the total)."
                + (_ABOUT_OWN if self.share > _NEARLY_ALL else ""),
            )
        outside = [
            f"{name} ({probability:.2f})"
            for name, probability in zip(self.task_names, self.membership, strict=True)
            if not probability > _DOUBTFUL
        ]
        if outside:
            do, are = ("task does", "is") if len(outside) == 1 else ("tasks do", "are")
            lines.append(
                f"{len(outside)} {do} not seem to belong to the others (probability of belonging in "
                f"brackets), and {are} learned alone: {', '.join(outside)}."
            )
        elif len(self.task_names) > 1:
            lines.append("No task stands out from the others.")
        return lines

    def _about_edges(self) -> str:
        if not np.isfinite(self.similarity):
            return ""
        degree = "weakly"
        if self.edge_correlation > _LARGE:
            degree = "closely"
        elif self.edge_correlation > _SMALL:
            degree = "moderately"
        return (
            f" Which ones is {degree} related between tasks "
            f"(correlation {self.edge_correlation:.2f})."
        )


def _rounded(number: float) -> str:
    """To two digits, as a person would write it."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def describe_relatedness(
    delta: float,
    graphs: np.ndarray,
    members: np.ndarray,
    advantages: np.ndarray,
    ns: np.ndarray,
    task_names: tuple[str, ...],
) -> Relatedness:
    """Gather the numbers; ``advantages`` (chains, rounds, m) are log likelihood ratios of the draws.

    ``members`` (chains, rounds, m) says whether a task belonged to the others in a round. Rounds without
    it are draws given the others already, and if they are the majority they are used. Otherwise those
    with it are reweighted by the inverse of its likelihood ratio; the weights are smoothed (PSIS,
    Vehtari et al.).
    """
    membership = members.mean(axis=(0, 1))
    n_tasks = advantages.shape[-1]
    left_out, pareto = np.empty(n_tasks), np.zeros(n_tasks)
    for t in range(n_tasks):
        belongs = membership[t] > _DOUBTFUL
        values = advantages[..., t][members[..., t] == belongs]
        log_weights = -values * belongs
        if np.ptp(log_weights) > 0:
            log_weights, pareto[t] = smooth_weights(log_weights)
        left_out[t] = logsumexp(log_weights + values) - logsumexp(log_weights)
    n_pairs = max(graphs.shape[1] * (graphs.shape[1] - 1) / 2, 1)
    together = graphs[membership > _DOUBTFUL]
    if len(together) < 2:  # nobody shares anything with anybody
        prior = unshared_edge_prior(edge_counts(graphs), len(graphs))
    else:
        prior = estimate_edge_prior(edge_counts(together), len(together))
    return Relatedness(
        float(delta),
        float(delta / (delta + np.median(ns))),
        float(np.mean((together if len(together) else graphs).sum(axis=(1, 2))) / n_pairs),
        prior.density,
        prior.similarity,
        1 / (1 + prior.similarity),
        membership,
        left_out / ns,
        pareto,
        task_names,
    )
