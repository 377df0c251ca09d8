"""Means over repetitions with standard errors: as CSV, and as Markdown beside the paper's numbers."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.tables import table_text
from mtgbn.experiments.cells import Row, measures_of
from mtgbn.experiments.designs import Experiment, Setting

# Arrowhead errors of the paper's Table 2: SIG, AVG and MTGBN at levels of 5, 10, 20 and 30 % of all
# pairs, 250 rows.
PAPERS_TABLE = {
    "ecoli70": {
        "SIG": (0.048, 0.079, 0.085, 0.098),
        "AVG": (0.047, 0.073, 0.082, 0.095),
        "MTGBN": (0.039, 0.060, 0.074, 0.083),
    },
    "magic-niab": {
        "SIG": (0.053, 0.079, 0.093, 0.110),
        "AVG": (0.049, 0.075, 0.091, 0.105),
        "MTGBN": (0.045, 0.062, 0.079, 0.089),
    },
    "magic-irri": {
        "SIG": (0.091, 0.110, 0.124, 0.132),
        "AVG": (0.089, 0.091, 0.110, 0.120),
        "MTGBN": (0.065, 0.080, 0.090, 0.110),
    },
}
_PAPERS_LEVELS = (0.05, 0.1, 0.2, 0.3)

_BASELINES = ("SIG", "AVG")


class Summary(NamedTuple):
    """One method in one setting, over all repetitions."""

    setting: Setting
    method: str
    values: dict[str, np.ndarray]
    """By measure, one number per repetition; nan if it has no value."""
    repetitions: tuple[int, ...]

    def mean(self, measure: str) -> float:
        """Mean over the repetitions that have a value."""
        known = self._known(measure)
        return float(known.mean()) if known.size else float("nan")

    def error(self, measure: str) -> float:
        """Standard error of the mean; nan with fewer than two values."""
        known = self._known(measure)
        return float(known.std(ddof=1) / np.sqrt(known.size)) if known.size > 1 else float("nan")

    def _known(self, measure: str) -> np.ndarray:
        values = self.values[measure]
        return values[~np.isnan(values)]


def summarise(experiment: Experiment, rows: list[Row]) -> list[Summary]:
    """Group rows by setting and method; settings are sorted by their values."""
    found = []
    for key, members in _grouped(experiment, rows).items():
        members = sorted(members, key=lambda row: row["repetition"])
        values = {
            name: np.array([np.nan if row[name] is None else row[name] for row in members], float)
            for name in measures_of(experiment)
        }
        setting = dict(zip(experiment.keys, key[:-1], strict=True))
        repetitions = tuple(row["repetition"] for row in members)
        found.append(Summary(setting, key[-1], values, repetitions))
    return sorted(found, key=lambda each: tuple(each.setting.values()))


def _grouped(experiment: Experiment, rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of their setting and their method."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (*(row[name] for name in experiment.keys), row["method"])
        groups.setdefault(key, []).append(row)
    return groups


def as_csv(experiment: Experiment, summaries: list[Summary]) -> str:
    """Mean and standard error of every measure, with one line per setting and method."""
    measures = measures_of(experiment)
    columns = [f"{name}{end}" for name in measures for end in ("", "_se")]
    lines: list[list[Any]] = [[*experiment.keys, "method", "repetitions", *columns]]
    for each in summaries:
        numbers = [f(name) for name in measures for f in (each.mean, each.error)]
        texts = ["" if np.isnan(number) else repr(number) for number in numbers]
        lines.append([*each.setting.values(), each.method, len(each.repetitions), *texts])
    return table_text(lines, ",")


def times_as_csv(experiment: Experiment, seconds: list[tuple[Row, float]]) -> str:
    """Mean CPU seconds of a fit per setting and method; they differ from run to run."""
    rows = ({**row, "seconds": value} for row, value in seconds)
    groups = sorted(_grouped(experiment, rows).items(), key=lambda item: tuple(map(str, item[0])))
    lines: list[list[Any]] = [[*experiment.keys, "method", "cells", "cpu_seconds"]]
    for key, members in groups:
        mean = np.mean([row["seconds"] for row in members])
        lines.append([*key, len(members), f"{mean:.3g}"])
    return table_text(lines, ",")


def main_measure(experiment: Experiment) -> str:
    """What the paper reports: the error of arrowheads or, with undirected truth, of adjacencies."""
    return "arrowhead_error" if experiment.has_directions else "skeleton_error"


def as_markdown(experiment: Experiment, summaries: list[Summary]) -> str:
    """The main measure of all methods, and the difference between MTGBN and the better baseline."""
    measure = main_measure(experiment)
    methods = list(dict.fromkeys(each.method for each in summaries))
    varied = [
        key for key in experiment.keys if len({setting[key] for setting in experiment.full}) > 1
    ]
    has_paper = experiment.has_directions
    title = measure.replace("_", " ")
    paragraphs = [
        f"# {experiment.title}",
        f"Mean {title} over repetitions ± its standard error; best in bold, where all have the same "
        "repetitions. The last column is MTGBN's minus that of the better baseline, repetition by "
        "repetition: negative is better.",
    ]
    if has_paper:
        paragraphs.append(
            "In brackets: the paper's figures, where it has any; its design differs in what it leaves "
            "open."
        )
    header = [*varied, "repetitions", *methods, "MTGBN - better baseline"]
    table = [header, ["---"] * len(header)]
    for of_setting in _by_setting(summaries):
        setting = next(iter(of_setting.values())).setting
        means = {name: each.mean(measure) for name, each in of_setting.items()}
        # Means over different repetitions cannot be compared.
        is_fair = len({each.repetitions for each in of_setting.values()}) == 1
        best = min(means.values()) if is_fair else None
        cells = []
        for name in methods:
            if name not in of_setting:
                cells.append("-")
                continue
            text = _with_error(f"{means[name]:.4f}", of_setting[name].error(measure))
            text = f"**{text}**" if means[name] == best else text
            paper = _papers_figure(setting, name) if has_paper else None
            cells.append(text if paper is None else f"{text} ({paper:.3f})")
        counts = sorted({len(each.repetitions) for each in of_setting.values()})
        repetitions = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        difference = paired_difference(of_setting, measure)
        last = "-" if difference is None else _with_error(f"{difference[0]:+.4f}", difference[1])
        table.append([*(str(setting[key]) for key in varied), repetitions, *cells, last])
    paragraphs.append("\n".join("| " + " | ".join(cells) + " |" for cells in table))
    return "\n\n".join([*paragraphs, headline(experiment, summaries)]) + "\n"


def _with_error(number: str, error: float) -> str:
    return number if np.isnan(error) else f"{number} ± {error:.4f}"


def paired_difference(
    of_setting: dict[str, Summary], measure: str
) -> tuple[float, float, str] | None:
    """MTGBN minus the baseline with the smaller mean, the standard error, and the baseline's name.

    Over the repetitions that all of these methods have; None if there are none.
    """
    if "MTGBN" not in of_setting:
        return None
    ours = _by_repetition(of_setting["MTGBN"], measure)
    found = {}
    for name in _BASELINES:
        theirs = _by_repetition(of_setting[name], measure) if name in of_setting else {}
        if ours.keys() & theirs.keys():
            found[name] = theirs
    common = sorted(set(ours).intersection(*found.values()))
    if not found or not common:
        return None
    name = min(found, key=lambda each: sum(found[each][number] for number in common))
    values = np.array([ours[number] - found[name][number] for number in common])
    spread = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return float(values.mean()), float(spread), name


def _by_repetition(summary: Summary, measure: str) -> dict[int, float]:
    return dict(zip(summary.repetitions, summary.values[measure], strict=True))


def headline(experiment: Experiment, summaries: list[Summary]) -> str:
    """In how many settings MTGBN is better than the baselines, and the other settings."""
    measure = main_measure(experiment)
    ahead, behind = 0, []
    for of_setting in _by_setting(summaries):
        difference = paired_difference(of_setting, measure)
        if difference is None:
            continue
        value, spread, name = difference
        if value < 0:
            ahead += 1
            continue
        setting = next(iter(of_setting.values())).setting
        words = ", ".join(f"{key} {value}" for key, value in setting.items())
        doubt = ""  # with one repetition the standard error is not known
        if not np.isnan(spread):
            doubt = f", {'within' if value <= spread else 'beyond'} one standard error"
        behind.append(f"{words} ({name} by {value:.4f}{doubt})")
    total = ahead + len(behind)
    if not total:
        return "There is no setting with both MTGBN and a baseline."
    rivals = [name for name in _BASELINES if any(each.method == name for each in summaries)]
    text = f"MTGBN is ahead of {' and '.join(rivals)} in {ahead} of {total} settings."
    return text + (f" Not ahead: {'; '.join(behind)}." if behind else "")


def _by_setting(summaries: list[Summary]) -> list[dict[str, Summary]]:
    found: dict[tuple[Any, ...], dict[str, Summary]] = {}
    for each in summaries:
        found.setdefault(tuple(each.setting.values()), {})[each.method] = each
    return list(found.values())


def _papers_figure(setting: Setting, method: str) -> float | None:
    if setting["relative_to"] != "pairs" or setting["n_rows"] != 250:
        return None
    figures = PAPERS_TABLE.get(setting["network"], {}).get(method)
    return figures[_PAPERS_LEVELS.index(setting["level"])] if figures else None
