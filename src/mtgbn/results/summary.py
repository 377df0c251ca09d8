"""A fitted estimator in words and tables, for a terminal."""

from typing import NamedTuple

import numpy as np

from mtgbn.learn import AVG, MTGBN, SIG

__all__ = ["Summary", "summarise"]


class Summary(NamedTuple):
    """Lines about the fit, rows (task, n, edges, reversible) and rows (edge, tasks, coefficient)."""

    lines: list[str]
    tasks: list[tuple[str, str, str, str]]
    edges: list[tuple[str, str, str]]


def summarise(estimator: MTGBN | SIG | AVG, most_edges: int = 20) -> Summary:
    """Describe what was learned: how the fit ended, every task, and the most common edges."""
    graphs, variables = estimator.graphs_, estimator.variables_
    m = len(graphs)
    counts = graphs.sum(axis=(1, 2))
    r, s = estimator.edge_prior_
    name = {MTGBN: "together", SIG: "each alone", AVG: "as one"}[type(estimator)]
    low, high = counts.min(), counts.max()
    lines = [
        f"{type(estimator).__name__}: {m} tasks over {len(variables)} variables, learned {name}; "
        f"{low if low == high else f'{low} to {high}'} edges per task.",
    ]
    if isinstance(estimator, MTGBN):
        verb = "Converged" if estimator.converged_ else "Did NOT converge"
        lines += [
            f"{verb} after {estimator.n_iter_} EM iteration{'s' * (estimator.n_iter_ > 1)}: "
            f"{estimator.stop_reason_}.",
            f"nu0 = {estimator.nu0_:g}, edge prior r = {r:.3g}, s = {s:.3g}.",
            *(f"Warning: {warning}." for warning in estimator.warnings_),
        ]
    else:
        lines.append(f"Edge prior r = {r:.3g}.")
    reversible = (estimator.cpdags_ & estimator.cpdags_.transpose(0, 2, 1)).sum(axis=(1, 2)) // 2
    tasks = [
        (task, f"{n:g}", str(edges), str(free))
        for task, n, edges, free in zip(
            estimator.task_names_, estimator._tasks.ns, counts, reversible, strict=True
        )
    ]
    joined = graphs | graphs.transpose(0, 2, 1)
    shared = np.triu(joined.sum(axis=0), 1)
    pairs = np.argwhere(shared)
    order = np.argsort(-shared[pairs[:, 0], pairs[:, 1]], kind="stable")[:most_edges]
    edges = []
    for i, j in pairs[order]:
        forward, back = graphs[:, i, j].sum(), graphs[:, j, i].sum()
        if forward < back:
            i, j, forward, back = j, i, back, forward
        arrow = f"{variables[i]} -> {variables[j]}" + (f" (other way in {back})" if back else "")
        values = estimator.coefficients_[graphs[:, i, j], i, j]
        edges.append((arrow, f"{forward + back} of {m}", f"{values.mean():+.2f}"))
    return Summary(lines, tasks, edges)
