"""A fitted estimator in words and tables, for a terminal."""

from typing import NamedTuple

import numpy as np

from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.results.tables import edge_directions, shared_edges

__all__ = ["Summary", "SummaryTable", "fit_in_words", "summarise"]

# Below this R-hat says that the chains agree about an adjacency; the usual limit for a glance.
_GOOD_RHAT = 1.05

# Above this Pareto shape a leave-one-out estimate is a rough guess (Vehtari et al.).
_ROUGH_PARETO = 0.7


class SummaryTable(NamedTuple):
    """Cells as text, below their headings."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Summary(NamedTuple):
    """Lines about the fit, and tables of the tasks and of the most common edges."""

    lines: list[str]
    tasks: SummaryTable
    edges: SummaryTable


def summarise(estimator: MTGBN | SIG | AVG, most_edges: int = 20) -> Summary:
    """Describe what was learned: how the fit ended, every task, and the most common edges."""
    lines = fit_in_words(estimator)
    lines += [f"Warning: {warning}." for warning in getattr(estimator, "warnings_", ())]
    return Summary(lines, _tasks(estimator), _edges(estimator, most_edges))


def fit_in_words(estimator: MTGBN | SIG | AVG) -> list[str]:
    """What was fitted, how it ended, and how alike the tasks are; warnings are not among it."""
    m, p = len(estimator.graphs_), len(estimator.variables_)
    counts = estimator.graphs_.sum(axis=(1, 2))
    low, high = counts.min(), counts.max()
    name = {MTGBN: "together", SIG: "each alone", AVG: "as one"}[type(estimator)]
    lines = [
        f"{type(estimator).__name__}: {m} tasks over {p} variables, learned {name}; "
        f"{low if low == high else f'{low} to {high}'} edges per task.",
    ]
    if isinstance(estimator, MTGBN):
        lines.append(_how_it_ended(estimator))
        similarity = f", s = {estimator.edge_prior_.similarity:.3g}"
        lines.append(
            f"nu0 = {estimator.nu0_:.5g} (how closely tasks follow sigma_h); edge prior "
            f"{_density(estimator)}{similarity} (how probable an edge is before other tasks are asked; "
            "how alike graphs are: the smaller s, the more)."
        )
    else:
        lines.append(f"Edge prior {_density(estimator)}.")
    if hasattr(estimator, "relatedness_"):
        lines += estimator.relatedness_.in_words()
    # Of one graph for all tasks there is nothing to say, nor if none of the directions was chosen.
    if not isinstance(estimator, AVG) and np.isfinite(estimator.agreement_):
        lines.append(
            f"{estimator.agreement_:.0%} of the directions that were chosen follow one order of the "
            "variables, common to all tasks."
        )
    return lines


def _how_it_ended(estimator: MTGBN) -> str:
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


def _density(estimator) -> str:
    density = estimator.edge_prior_.density
    if np.ndim(density) == 0:
        return f"r = {density:.3g}"
    values = density[np.triu_indices(len(density), 1)]
    return f"r = {values.min():.3g} to {values.max():.3g}, one per pair"


def _tasks(estimator) -> SummaryTable:
    headings = ["task", "n", "edges", "of which chosen"]
    columns = [
        estimator.task_names_,
        [f"{n:g}" for n in estimator.tasks_.ns],
        [str(count) for count in estimator.graphs_.sum(axis=(1, 2))],
        [str(count) for count in (edge_directions(estimator) == "chosen").sum(axis=(1, 2))],
    ]
    if hasattr(estimator, "relatedness_"):
        found = estimator.relatedness_
        headings += ["belongs", "leave-one-out"]
        columns += [
            [f"{probability:.2f}" for probability in estimator.membership_],
            [
                f"{value:+.3f}{' (rough)' * bool(shape > _ROUGH_PARETO)}"
                for value, shape in zip(found.leave_one_out, found.pareto, strict=True)
            ],
        ]
    return SummaryTable(tuple(headings), list(zip(*columns, strict=True)))


def _edges(estimator, most_edges: int) -> SummaryTable:
    variables, m = estimator.variables_, len(estimator.graphs_)
    rows = []
    for edge in shared_edges(estimator)[:most_edges]:
        arrow = f"{variables[edge.source]} -> {variables[edge.target]}"
        if edge.backward:
            arrow += f" (other way in {edge.backward})"
        row = (arrow, f"{edge.forward + edge.backward} of {m}", f"{edge.coefficient:+.2f}")
        if edge.probability is not None:
            row += (f"{edge.probability:.2f}",)
        rows.append(row)
    headings = ("edge", "tasks", "mean coefficient")
    if hasattr(estimator, "adjacency_probabilities_"):
        headings += ("mean adjacency probability",)
    return SummaryTable(headings, rows)
