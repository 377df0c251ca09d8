"""A fit in sentences, and in tables short enough for a terminal."""

from typing import NamedTuple

import numpy as np

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.learn import AVG
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.results.estimators import ESTIMATORS, FittedEstimator
from mtgbn.results.fit_tables import shared_edge_table, task_table

# Below this R-hat, the chains agree about an adjacency well enough for a first look.
_GOOD_RHAT = 1.05


class Summary(NamedTuple):
    """Sentences about a fit, a table of its tasks, and a table of its most common edges."""

    lines: list[str]
    tasks: DescribedTable
    edges: DescribedTable


def summarise(estimator: FittedEstimator, most_edges: int = 20) -> Summary:
    """Describe a fit: how it ended, every task, and the most common edges.

    Parameters
    ----------
    estimator : fitted estimator
    most_edges : int
        How many edges the table of the most common edges has at most.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> x = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> x[:, :, 2] += x[:, :, 0]
    >>> summary = summarise(SIG(random_state=0).fit(Tasks.from_arrays(x)))
    >>> print(summary.lines[0])
    SIG: 2 tasks over 3 variables, each learned as a single task; 1 edge per task.
    >>> summary.edges.rows
    [['x2 -> x0', '2 of 2', '+0.57']]
    """
    lines = fit_in_words(estimator)
    lines += [f"Warning: {warning}." for warning in getattr(estimator, "warnings_", ())]
    return Summary(lines, task_table(estimator), _common_edges(estimator, most_edges))


def fit_in_words(estimator: FittedEstimator) -> list[str]:
    """What was fitted, how the fit ended, and how alike the tasks are; warnings are left out."""
    m, p = len(estimator.graphs_), len(estimator.variables_)
    counts = estimator.graphs_.sum(axis=(1, 2))
    low, high = int(counts.min()), int(counts.max())
    name = type(estimator).__name__
    lines = [
        f"{name}: {m} tasks over {p} variables, {ESTIMATORS[name].how}; "
        f"{low if low == high else f'{low} to {high}'} edge{'s' * (high != 1)} per task.",
    ]
    if hasattr(estimator, "nu0_"):
        lines.append(_how_it_ended(estimator))
        lines.append(
            f"nu0 = {estimator.nu0_:.5g} (how closely tasks follow sigma_h); {_edge_prior(estimator)}"
        )
    else:
        lines.append(f"Edge prior {_density(estimator)}.")
    if hasattr(estimator, "min_strength_"):
        lines.append(estimator.min_strength_.in_words(estimator.tasks_.ns))
    if hasattr(estimator, "relatedness_"):
        lines += estimator.relatedness_.in_words()
    if hasattr(estimator, "differences_"):
        lines += estimator.differences_.in_words()
    # There is nothing to say about AVG's one graph, nor if no direction was chosen.
    if not isinstance(estimator, AVG) and np.isfinite(estimator.agreement_):
        lines.append(
            f"{estimator.agreement_:.0%} of the chosen directions follow one order of the variables, "
            "common to all tasks."
        )
    return lines


def _how_it_ended(estimator: FittedEstimator) -> str:
    if not hasattr(estimator, "edge_diagnostics_"):
        verb = "Converged" if estimator.converged_ else "Did NOT converge"
        return (
            f"{verb} after {estimator.n_iter_} EM iteration{'s' * (estimator.n_iter_ > 1)}: "
            f"{estimator.stop_reason_}."
        )
    pairs = np.triu_indices(len(estimator.variables_), 1)
    rhat, ess = (array[:, pairs[0], pairs[1]] for array in estimator.edge_diagnostics_)
    verb = "Posterior" if estimator.converged_ else "Posterior, NOT finished"
    return (
        f"{verb} ({estimator.stop_reason_}): R-hat is below {_GOOD_RHAT} for "
        f"{np.mean(rhat < _GOOD_RHAT):.0%} of the adjacencies, their smallest effective sample size is "
        f"{ess.min():.0f}."
    )


def _edge_prior(estimator: FittedEstimator) -> str:
    prior = estimator.edge_prior_
    if not isinstance(prior, PairKinds):
        return (
            f"edge prior {_density(estimator)}, s = {prior.similarity:.3g} (r: a priori probability of "
            "an edge; s: similarity of the graphs; the smaller s, the more alike)."
        )
    different = f"{prior.different:.1%} are different between the groups, " * bool(prior.different)
    return (
        f"a priori {prior.common:.1%} of the pairs are common to nearly all tasks, {prior.varying:.1%} "
        f"vary between tasks, {different}and {prior.absent:.1%} are absent in nearly all tasks."
    )


def _density(estimator: FittedEstimator) -> str:
    density = estimator.edge_prior_.density
    if np.ndim(density) == 0:
        return f"r = {density:.3g}"
    values = density[np.triu_indices(len(density), 1)]
    return f"r = {values.min():.3g} to {values.max():.3g}, one per pair"


def _common_edges(estimator: FittedEstimator, most_edges: int) -> DescribedTable:
    m = len(estimator.graphs_)
    columns = {
        "edge": "in the direction that most tasks have",
        "tasks": "tasks that have the edge",
        "mean coefficient": "mean over the tasks with this direction",
    }
    if hasattr(estimator, "adjacency_probabilities_"):
        columns["mean adjacency probability"] = "mean over all tasks"
    rows = []
    for edge in shared_edge_table(estimator).records[:most_edges]:
        reverse = "" if edge["other_way"] == "0" else f" (other way in {edge['other_way']})"
        cells = [
            f"{edge['source']} -> {edge['target']}{reverse}",
            f"{edge['tasks']} of {m}",
            f"{float(edge['mean_coefficient']):+.2f}",
        ]
        if "mean_adjacency_probability" in edge:
            cells.append(f"{float(edge['mean_adjacency_probability']):.2f}")
        rows.append(cells)
    return table_of("common_edges", "The edges of most tasks", columns, rows)
