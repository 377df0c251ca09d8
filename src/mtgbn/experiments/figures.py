"""The paper's figures: means over repetitions with 95 % confidence bands."""

from typing import Any

import numpy as np
from scipy.stats import t as student

from mtgbn._utils.optional import require
from mtgbn.experiments.designs import METHODS, Experiment, Setting
from mtgbn.experiments.summaries import Summary, main_measure

# Okabe and Ito's colours, which colour-blind readers can tell apart; each method also has a marker.
_COLOURS = ("#0072B2", "#E69F00", "#999999", "#CC79A7", "#56B4E9", "#009E73", "#000000")
_MARKERS = ("o", "s", "x", "v", "^", "D", "*")
_STYLES = {
    method: {"color": colour, "marker": marker}
    for method, colour, marker in zip(METHODS, _COLOURS, _MARKERS, strict=True)
}

# The measures of the paper's four panels.
_PANEL_MEASURES = ("skeleton_error", "skeleton_distance", "skeleton_precision", "skeleton_f_score")

_AXIS_LABELS = {
    "n_rows": "rows per task",
    "n_tasks": "tasks",
    "density": "density",
    "level": "level of perturbation",
    "nu0": "nu0",
    "skeleton_error": "adjacency error",
    "skeleton_distance": "adjacency distance",
    "skeleton_precision": "adjacency precision",
    "skeleton_f_score": "adjacency F-score",
    "arrowhead_error": "arrowhead error",
}

# Range of MTGBN's adjacency error over all sample sizes, according to the paper's text.
_PAPERS_RANGE = (0.03, 0.06)


def draw_figure(experiment: Experiment, summaries: list[Summary]) -> Any:
    """Draw the means of an experiment, with a panel for each row and column of its settings.

    If no settings vary between columns, there is a column for each of the paper's four measures.
    """
    figure_class = require("matplotlib.figure", "plot", "figures").Figure
    row_values = _values(experiment.rows, summaries)
    column_values = _values(experiment.columns, summaries)
    measures = [main_measure(experiment)] if experiment.columns else list(_PANEL_MEASURES)
    n_rows, n_columns = len(row_values), len(column_values) * len(measures)
    figure = figure_class(figsize=(3.2 * n_columns + 0.4, 2.5 * n_rows + 1.0), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True)
    for row, by_row in enumerate(row_values):
        for column in range(n_columns):
            by_column = column_values[column // len(measures)]
            measure = measures[column % len(measures)]
            panel = panels[row, column]
            chosen = by_row | by_column
            _draw_lines(panel, experiment, summaries, chosen, measure)
            if experiment.name == "sample-size" and measure == "skeleton_error":
                panel.axhspan(*_PAPERS_RANGE, color="0.9", label="MTGBN in the paper's text")
            words = (
                f"{_AXIS_LABELS.get(key, key.replace('_', ' '))} {chosen[key]}" for key in chosen
            )
            panel.set_title(", ".join(words), fontsize="medium")
            panel.set_ylabel(_AXIS_LABELS[measure])
            if row == n_rows - 1:
                panel.set_xlabel(_AXIS_LABELS[experiment.axis])
            panel.grid(alpha=0.3)
    entries: dict[str, Any] = {}
    for panel in panels.flat:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)
    figure.suptitle(experiment.title)
    return figure


def _draw_lines(
    panel: Any, experiment: Experiment, summaries: list[Summary], chosen: Setting, measure: str
) -> None:
    here = [each for each in summaries if chosen.items() <= each.setting.items()]
    for method in METHODS:
        points = sorted(
            (each.setting[experiment.axis], each.mean(measure), _half_width(each, measure))
            for each in here
            if each.method == method
        )
        if not points:
            continue
        x, mean, half = (np.array(values, dtype=float) for values in zip(*points, strict=True))
        style = _STYLES[method]
        panel.plot(x, mean, label=method, markersize=4, linewidth=1.2, **style)
        panel.fill_between(
            x, mean - half, mean + half, color=style["color"], alpha=0.15, linewidth=0
        )


def _half_width(summary: Summary, measure: str) -> float:
    """Half width of the mean's 95 % confidence interval; 0 with fewer than three values."""
    n = int(np.sum(~np.isnan(summary.values[measure])))
    return float(student.ppf(0.975, n - 1) * summary.error(measure)) if n > 2 else 0.0


def _values(keys: tuple[str, ...], summaries: list[Summary]) -> list[Setting]:
    """The combinations of values of these keys that occur, in order; without keys, one empty one."""
    found = {tuple(each.setting[key] for key in keys): None for each in summaries}
    return [dict(zip(keys, values, strict=True)) for values in found] or [{}]
