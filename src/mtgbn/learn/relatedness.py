"""How alike the tasks are, in numbers and in words."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mtgbn.chain.diagnostics import smooth_weights
from mtgbn.model.edge_prior import EdgePrior, edge_counts, estimate_edge_prior, smoothed_density

# A task is a member if its membership probability is above this.
_MEMBER = 0.5

# A weight of the other tasks is called large above the first, small below the second.
_LARGE, _SMALL = 0.5, 0.1

# Above this weight the coefficients of the tasks hardly differ, and a reader should know why.
_NEARLY_ALL = 0.9
# A share of own families below this is not worth a sentence.
_FEW_OWN = 0.005
_ABOUT_OWN = (
    " The coefficients that were learned are therefore nearly the same in all tasks that have a "
    "connection. Whether a task has a connection is decided by its own data, too."
)


class Relatedness(NamedTuple):
    """How alike the tasks are.

    Attributes
    ----------
    delta : float
        nu0 - p + 1: the shared sigma_h weighs as much as this number of a task's own rows.
    share : float
        delta / (delta + n) for the median n: the weight of the others in a task's coefficients.
    own_share : float
        Share of the families of members that do not follow the shared sigma_h.
    joined : float
        Share of the pairs that are joined, in the graphs of the members.
    density, similarity : float
        r and s of the edge prior under which these graphs are most probable.
    edge_correlation : float
        1/(1 + s): correlation of an edge's presence in one task with that in another.
    membership : array (m,)
        Posterior probability that a task is a member.
    leave_one_out : array (m,)
        Log density of a task's data given all other tasks minus that of a single task, per degree of
        freedom, with its graph as sampled; below 0 the others do not help to predict it.
    pareto : array (m,)
        Tail shape of the importance weights behind ``leave_one_out``; above 0.7 it is a rough guess.
    task_names : tuple of str
    """

    delta: float
    share: float
    own_share: float
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
                f"The tasks' connections are {degree} alike in strength: in every task, the other "
                f"tasks weigh as much as {_rounded(self.delta)} rows of the task's own data "
                f"({self.share:.0%} of the total)."
                + (_ABOUT_OWN if self.share > _NEARLY_ALL else "")
                + self._about_own_families(),
            )
        single = [
            f"{name} ({probability:.2f})"
            for name, probability in zip(self.task_names, self.membership, strict=True)
            if not probability > _MEMBER
        ]
        if single:
            many = len(single) > 1
            lines.append(
                f"{len(single)} {'tasks are' if many else 'task is'} too different from the others and "
                f"learned as {'single tasks' if many else 'a single task'} "
                f"(membership probability in brackets): {', '.join(single)}."
            )
        elif len(self.task_names) > 1:
            lines.append("No task stands out from the others.")
        return lines

    def _about_own_families(self) -> str:
        if self.own_share < _FEW_OWN:
            return ""
        return (
            f" In {self.own_share:.1%} of the cases, a variable depends on its parents in another way "
            "than in the other tasks, and is learned from the task's own data."
        )

    def _about_edges(self) -> str:
        if not np.isfinite(self.similarity):
            return ""
        degree = "weakly"
        if self.edge_correlation > _LARGE:
            degree = "closely"
        elif self.edge_correlation > _SMALL:
            degree = "moderately"
        return (
            f" The joined pairs are {degree} related between tasks "
            f"(correlation {self.edge_correlation:.2f})."
        )


def _rounded(number: float) -> str:
    """To two digits, as a person would write it."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def describe_relatedness(
    delta: float,
    own_share: float,
    graphs: np.ndarray,
    members: np.ndarray,
    advantages: np.ndarray,
    ns: np.ndarray,
    task_names: tuple[str, ...],
) -> Relatedness:
    """Gather the numbers; ``members`` and ``advantages`` (chains, rounds, m) are those of a `Record`.

    Rounds in which a task was single are draws given the other tasks; if they are the majority they
    are used. Otherwise the rounds in which it was a member are reweighted by the inverse of its
    likelihood ratio; the weights are smoothed (PSIS, Vehtari et al.).
    """
    membership = members.mean(axis=(0, 1))
    is_member = membership > _MEMBER
    n_tasks = advantages.shape[-1]
    left_out, pareto = np.empty(n_tasks), np.zeros(n_tasks)
    for t in range(n_tasks):
        values = advantages[..., t][members[..., t] == is_member[t]]
        log_weights = -values * is_member[t]
        if np.ptp(log_weights) > 0:
            log_weights, pareto[t] = smooth_weights(log_weights)
        left_out[t] = logsumexp(log_weights + values) - logsumexp(log_weights)
    n_pairs = max(graphs.shape[1] * (graphs.shape[1] - 1) / 2, 1)
    member_graphs = graphs[is_member]
    if len(member_graphs) < 2:  # no two tasks share anything
        prior = EdgePrior(smoothed_density(edge_counts(graphs), len(graphs)), np.inf)
    else:
        prior = estimate_edge_prior(edge_counts(member_graphs), len(member_graphs))
    shown = member_graphs if len(member_graphs) else graphs
    return Relatedness(
        delta=float(delta),
        share=float(delta / (delta + np.median(ns))),
        own_share=float(own_share),
        joined=float(np.mean(shown.sum(axis=(1, 2))) / n_pairs),
        density=float(np.mean(prior.density)),
        similarity=prior.similarity,
        edge_correlation=1 / (1 + prior.similarity),
        membership=membership,
        leave_one_out=left_out / ns,
        pareto=pareto,
        task_names=task_names,
    )
