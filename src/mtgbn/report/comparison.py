"""The page about a comparison, from its tables: two groups, or one subject and controls."""

import csv
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.files import table_text
from mtgbn.compare.study_files import ABOUT_FILE
from mtgbn.compare.summary_text import LARGEST_FDR
from mtgbn.errors import ExtraNotInstalledError, InputError
from mtgbn.report import figures
from mtgbn.report.commands import compare_command
from mtgbn.report.page import Report, render, sentence
from mtgbn.report.places import labels_of, map_positions

__all__ = ["comparison_report"]

# Of a table; the others are left to its file.
_MOST_ROWS = 8_000
_MOST_FINDINGS = 5
_MOST_CARDS = 12
_SMALL_Q = 0.05


class _Table(NamedTuple):
    text: str
    header: list[str]
    rows: list[dict[str, str]]
    about: dict[str, str]
    """What the columns mean."""

    def shown(self, order: str | None = None) -> str:
        """The text, or that of the first rows if there are too many; first in the order of a column."""
        if len(self.rows) <= _MOST_ROWS:
            return self.text
        rows = self.rows if order is None else sorted(self.rows, key=lambda row: float(row[order]))
        return table_text([self.header, *(row.values() for row in rows[:_MOST_ROWS])])

    def file_name(self, name: str) -> str:
        """Of the download: that of the file only if it is the file."""
        return name if len(self.rows) <= _MOST_ROWS else name.replace(".tsv", "_first.tsv")


def comparison_report(folder: Path) -> Report:
    """Make the page about a folder that `mtgbn compare` wrote."""
    path = folder / ABOUT_FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        tables = {Path(name).stem: _read(folder / name) for name in about["files"]}
        return (_of_one if "departures" in tables else _of_groups)(about, tables)
    except (InputError, ExtraNotInstalledError):
        raise
    except Exception as error:  # whatever a file that somebody changed makes of itself
        raise InputError(
            f"{path} and its tables are not what mtgbn wrote ({type(error).__name__}: {error}); "
            "compare again"
        ) from error


def _read(path: Path) -> _Table:
    text = path.read_bytes().decode("utf-8")
    lines = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
    header = next(lines)
    rows = [dict(zip(header, cells, strict=True)) for cells in lines]
    sidecar = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return _Table(text, header, rows, {name: sidecar[name]["Description"] for name in header})


def _of_groups(about: dict[str, Any], tables: dict[str, _Table]) -> Report:
    group_a, group_b = about["groups"]["a"], about["groups"]["b"]
    labels = (group_a["label"], group_b["label"])
    sizes = (group_a["n"], group_b["n"])
    methods = _methods(tables)
    templates, networks = [], []
    for name, fits in about["templates"].items():
        variables = fits["variables"]
        counts = [_matrix(tables["counts"], name, variables, key) for key in ("count_a", "count_b")]
        shares = [count / n for count, n in zip(counts, sizes, strict=True)]
        networks.append(
            {
                "variables": variables,
                "positions": map_positions(variables),
                "networks": _networks(variables, counts, sizes, labels),
            }
        )
        panels = [
            *zip(labels, shares, strict=True),
            (f"{labels[0]} minus {labels[1]}", _minus(shares)),
        ]
        words = f"network over {name}; the numbers are in the table of connections"
        brain = figures.glass_brain_picture(panels, variables, words)
        templates.append(
            {
                "name": name,
                "n_variables": len(variables),
                "is_brain": brain is not None,
                "networks": [brain] if brain else figures.circle_pictures(panels, variables, words),
                "counts": figures.counts_pictures(
                    list(zip(labels, counts, sizes, strict=True)),
                    variables,
                    f"heat map of how many have i to j, {name}",
                ),
                "degrees": figures.degrees_picture(
                    _degrees(tables["degrees"], name, variables, sizes),
                    *(variables, labels),
                    f"Edges at every variable per subject in {labels[0]} and in {labels[1]}, {name}",
                ),
                "methods": _methods_pictures(tables, name, variables, methods, sizes),
                "fits": fits["fits"],
            }
        )
    connections = tables["connections"]
    data = {
        "templates": networks,
        "tables": {
            "connections": connections.shown("p_two_sided"),
            **{key: table.shown() for key, table in tables.items() if key != "connections"},
        },
    }
    return render(
        "groups.html",
        data,
        title=f"Networks of {labels[0]} and {labels[1]}, compared",
        labels=labels,
        sizes=sizes,
        templates=templates,
        warnings=_warnings(about),
        simulation=_simulation(about, connections, labels),
        findings=_findings(connections),
        turned=_turned(connections),
        summary=_summary(about, connections),
        small_q=_SMALL_Q,
        left_out=_left_out(tables),
        smallest_share=figures.SMALLEST_SHARE,
        tables={key: (table.file_name(f"{key}.tsv"), table.about) for key, table in tables.items()},
        assumption=sentence(about["tests"]["assumption"]),
        has_permutations=bool(about["tests"]["permutation"]),
        density=about.get("density"),
        **_run(about, methods),
    )


def _minus(shares: list[np.ndarray]) -> np.ndarray:
    return shares[0] - shares[1]


def _matrix(table: _Table, template: str, variables: list[str], column: str) -> np.ndarray:
    place = {name: k for k, name in enumerate(variables)}
    found = np.zeros((len(variables),) * 2, dtype=int)
    for row in table.rows:
        if row["template"] == template:
            found[place[row["source"]], place[row["target"]]] = int(row[column])
    return found


def _degrees(
    table: _Table, template: str, variables: list[str], sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    rows = {row["variable"]: row for row in table.rows if row["template"] == template}
    a, b = (
        np.array([int(rows[name][f"total_{key}"]) / n for name in variables])
        for key, n in zip("ab", sizes, strict=True)
    )
    return a, b


def _networks(
    variables: list[str],
    counts: list[np.ndarray],
    sizes: tuple[int, int],
    labels: tuple[str, str],
) -> list[dict[str, Any]]:
    """For the view that can be moved: edges of both groups and their difference, each with words."""
    shares = [count / n for count, n in zip(counts, sizes, strict=True)]
    found = []
    named = (*zip(labels, shares, strict=True), (f"{labels[0]} minus {labels[1]}", _minus(shares)))
    for name, weights in named:
        edges = []
        for i, j in np.argwhere(weights != 0).tolist():
            text = f"{variables[i]} → {variables[j]}: " + ", ".join(
                f"{count[i, j]} of {n} {label}"
                for count, n, label in zip(counts, sizes, labels, strict=True)
            )
            edges.append([i, j, float(weights[i, j]), text])
        found.append({"name": name, "edges": edges})
    return found


def _methods(tables: dict[str, _Table]) -> list[str]:
    if "methods" not in tables:
        return []
    ending = "_count_a"
    return [name.removesuffix(ending) for name in tables["methods"].header if name.endswith(ending)]


def _methods_pictures(tables, template, variables, methods, sizes) -> list[figures.Picture]:
    panels = []
    for method in methods:
        shares = [
            _matrix(tables["methods"], template, variables, f"{method}_count_{key}") / n
            for key, n in zip("ab", sizes, strict=True)
        ]
        panels.append((method, _minus(shares)))
    words = f"difference of the groups' networks at the same density, {template}"
    return figures.circle_pictures(panels, variables, words)


def _warnings(about: dict[str, Any]) -> list[str]:
    warnings = [sentence(str(text)) for text in about.get("warnings", ())]
    if about.get("converged") is False:
        names = [
            f"{template}, group {group}"
            for template, fits in about["templates"].items()
            for group, fit in fits["fits"].items()
            if not fit["converged"]
        ]
        warnings.insert(0, f"Not all fits converged: {'; '.join(names)}.")
    excluded = about.get("excluded", ())
    if excluded:
        people = "; ".join(f"{each['name']}: {each['reason']}" for each in excluded)
        warnings.append(f"{len(excluded)} with data were left out. {sentence(people)}")
    return warnings


def _summary(about: dict[str, Any], connections: _Table) -> list[str]:
    """Pairs first: which direction an edge has may be open, that two variables are joined is not."""
    where = " over all templates" if len(about["templates"]) > 1 else ""
    pairs, arrows = (
        [row for row in connections.rows if row["kind"] == kind]
        for kind in ("undirected", "directed")
    )
    numbers = [
        sum(float(row["q_study"]) <= _SMALL_Q for row in rows) or "none" for rows in (pairs, arrows)
    ]
    lines = [
        f"Of {len(pairs)} pairs, {numbers[0]} differ{'s' * (numbers[0] == 1)} between the groups with a "
        f"false discovery rate q of at most {_SMALL_Q:g}{where} (z-test); of {len(arrows)} possible "
        f"connections with a direction, i → j, {numbers[1]}."
    ]
    relabelled = about["tests"]["permutation"]
    if relabelled:
        times = relabelled["relabellings"]
        corrected = sum(float(row["p_permutation_corrected"]) <= _SMALL_Q for row in pairs)
        each = ", each template by itself" if where else ""
        lines.append(
            f"By {times} relabellings of the subjects, {corrected or 'none'} of the pairs "
            f"differ{'s' * (corrected == 1)} with a corrected p of at most {_SMALL_Q:g}{each}. "
            f"The smallest p that {times} can give is {1 / (times + 1):.2g}. "
            + sentence(relabelled["how"])
        )
        for template, p in relabelled["p_any_difference"].items():
            lines.append(
                f"{template}: that the groups differ in any pair, directions aside, has p = {p:.3g}."
            )
    else:
        lines.append(f"Beware: {sentence(about['tests']['assumption'])}")
        lines.append("How to relabel: the same command with --permutations 199, which fits anew.")
    return lines


def _findings(connections: _Table) -> list[dict[str, Any]]:
    """The pairs that differ most, each with what its two directions are."""
    arrows = {
        (row["template"], row["source"], row["target"]): row
        for row in connections.rows
        if row["kind"] == "directed"
    }
    rows = [
        row
        for row in connections.rows
        if row["kind"] == "undirected" and float(row["difference"]) != 0
    ]
    rows.sort(key=lambda row: float(row["p_two_sided"]))
    return [
        _finding(row)
        | {
            "directions": [
                arrows[row["template"], *ends]
                for ends in ((row["source"], row["target"]), (row["target"], row["source"]))
            ]
        }
        for row in rows[:_MOST_FINDINGS]
    ]


def _turned(connections: _Table) -> list[str]:
    """Directions that differ where pairs do not."""
    q = {
        (row["template"], frozenset((row["source"], row["target"]))): float(row["q_study"])
        for row in connections.rows
        if row["kind"] == "undirected"
    }
    return [
        f"{row['source']} → {row['target']} ({row['template']})"
        for row in connections.rows
        if row["kind"] == "directed"
        and float(row["q_study"]) <= _SMALL_Q
        and q[row["template"], frozenset((row["source"], row["target"]))] > _SMALL_Q
    ]


def _finding(row: dict[str, str]) -> dict[str, Any]:
    numbers = {
        name: f"{float(row[name]):.3g}"
        for name in ("p_two_sided", "q", "p_permutation", "p_permutation_corrected")
        if row.get(name, "n/a") != "n/a"
    }
    spread = [
        f"{float(row[name]):+.2f}" for name in ("difference", "difference_low", "difference_high")
    ]
    return {**row, **numbers, "spread": f"{spread[0]} (95 % interval {spread[1]} to {spread[2]})"}


def _simulation(
    about: dict[str, Any], connections: _Table, labels: tuple[str, str]
) -> dict[str, Any] | None:
    """The truth of simulated data, with what was found of it."""
    truth = about.get("simulation")
    if not truth:
        return None
    pairs = {
        frozenset((row["source"], row["target"])): row
        for row in connections.rows
        if row["kind"] == "undirected"
    }
    altered = []
    for each in truth["altered"]:
        row = pairs.pop(frozenset((each["source"], each["target"])))
        altered.append({**each, "found": _pair_in_words(row, labels)})
    others = [
        f"{row['source']} – {row['target']} ({_pair_in_words(row, labels)})"
        for row in pairs.values()
        if float(row["q"]) <= _SMALL_Q
    ]
    return {"description": truth["description"], "altered": altered, "false_alarms": others}


def _pair_in_words(row: dict[str, str], labels: tuple[str, str]) -> str:
    return (
        f"{row['count_a']} of {row['n_a']} {labels[0]} and {row['count_b']} of {row['n_b']} {labels[1]} "
        f"have an edge there, in either direction (q = {float(row['q']):.2g})"
    )


def _left_out(tables: dict[str, _Table]) -> list[str]:
    return [
        f"{name}.tsv has {len(table.rows)} rows; the page has {_MOST_ROWS} of them"
        + (" with the smallest p-values." if name == "connections" else ", the first.")
        for name, table in tables.items()
        if len(table.rows) > _MOST_ROWS
    ]


def _run(about: dict[str, Any], methods: list[str]) -> dict[str, Any]:
    """What all pages of comparisons say of how they came about."""
    settings = dict(about.get("settings", {}))
    rows = []
    for name, value in settings.items():
        if name == "templates":
            value = ", ".join(f"{key} ({len(names)} variables)" for key, names in value.items())
        rows.append((name, value))
    if about.get("repetition_time") is not None:
        rows.append(("repetition time", f"{about['repetition_time']:g} s"))
    variables = [name for each in about["templates"].values() for name in each["variables"]]
    return {
        "regions": labels_of(variables),
        "settings": rows,
        "versions": list(about["versions"].items()),
        "people": about.get("subjects", []),
        "command": compare_command(about, methods),
    }


def _of_one(about: dict[str, Any], tables: dict[str, _Table]) -> Report:
    departures, alarms = tables["departures"], tables["alarms"]
    subject, n = about["subject"], about["controls"]["n"]
    label = ", ".join(about.get("settings", {}).get("groups", []))
    parts = []
    for name, template in about["templates"].items():
        rows = [row for row in departures.rows if row["template"] == name]
        certain = [row for row in rows if float(row["fdr"]) <= LARGEST_FDR]
        rates = [float(row["rate"]) for row in alarms.rows if row["template"] == name]
        parts.append(
            {
                "name": name,
                "n_variables": len(template["variables"]),
                "n_pairs": len(rows),
                "n_certain": len(certain),
                "findings": [
                    _departure(row) for row in (certain or rows)[: _MOST_CARDS if certain else 1]
                ],
                "own_alarms": sum(float(row["p"]) < template["false_alarm_level"] for row in rows),
                "level": template["false_alarm_level"],
                "rate": template["false_alarm_rate"],
                "expected": template["false_alarm_rate"] * len(rows),
                "highest": max(rates, default=0.0) * len(rows),
            }
        )
    data = {"tables": {key: table.shown() for key, table in tables.items()}}
    return render(
        "subject.html",
        data,
        title=f"{subject} and {n} controls" + (f" ({label})" if label else ""),
        subject=subject,
        n=n,
        parts_of=parts,
        limit=LARGEST_FDR,
        warnings=_warnings(about),
        left_out=_left_out(tables),
        tables={key: (table.file_name(f"{key}.tsv"), table.about) for key, table in tables.items()},
        **_run(about, []),
    )


def _departure(row: dict[str, str]) -> dict[str, Any]:
    numbers = ("strength", "control_strength", "probability", "p", "expected_alarms", "fdr")
    return {**row, **{name: float(row[name]) for name in numbers}}
