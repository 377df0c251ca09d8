"""The page about two groups that were compared."""

from typing import Any

import numpy as np

from mtgbn.compare.comparison_folder import ComparisonTables
from mtgbn.report import figures
from mtgbn.report.brain_regions import map_positions
from mtgbn.report.comparison_parts import shared_context, shown_table
from mtgbn.report.page import Report, render, sentence

_MOST_FINDINGS = 5
_SMALL_Q = 0.05

Records = list[dict[str, str]]


def groups_report(comparison: ComparisonTables) -> Report:
    """Make the page about a comparison of two groups."""
    about, tables = comparison
    records = {name: table.records for name, table in tables.items()}
    pairs, arrows = (
        [row for row in records["connections"] if row["kind"] == kind]
        for kind in ("undirected", "directed")
    )
    groups = [about["groups"][key] for key in "ab"]
    labels, sizes = (tuple(group[key] for group in groups) for key in ("label", "n"))
    ending = "_count_a"
    columns = tables["methods"].columns if "methods" in tables else ()
    methods = [name.removesuffix(ending) for name in columns if name.endswith(ending)]
    networks, templates = [], []
    for name, fits in about["templates"].items():
        variables = fits["variables"]
        counts = _counts(records["counts"], name, variables)
        by_method = []
        for method in methods:
            a, b = _counts(records["methods"], name, variables, f"{method}_")
            by_method.append((method, a / sizes[0] - b / sizes[1]))
        networks.append(
            {
                "variables": variables,
                "positions": map_positions(variables),
                "networks": _networks(variables, counts, sizes, labels),
            }
        )
        templates.append(
            {
                "name": name,
                "n_variables": len(variables),
                "fits": fits["fits"],
                **_pictures(name, variables, counts, sizes, labels),
                "degrees": figures.degrees_picture(
                    _degrees(records["degrees"], name, variables, sizes),
                    *(variables, labels),
                    f"Edges at every variable per subject in {labels[0]} and in {labels[1]}, {name}",
                ),
                "methods": figures.circle_pictures(
                    by_method,
                    variables,
                    f"difference of the groups' networks at the same density, {name}",
                ),
            }
        )
    return render(
        "groups.html",
        {
            "templates": networks,
            "tables": {name: shown_table(table) for name, table in tables.items()},
        },
        title=f"Networks of {labels[0]} and {labels[1]}, compared",
        labels=labels,
        sizes=sizes,
        templates=templates,
        simulation=_simulation(about, pairs, labels),
        findings=_findings(pairs, arrows),
        turned=_turned(pairs, arrows),
        summary=_summary(about, pairs, arrows),
        small_q=_SMALL_Q,
        smallest_share=figures.SMALLEST_SHARE,
        assumption=sentence(about["tests"]["assumption"]),
        has_permutations=bool(about["tests"]["permutation"]),
        density=about.get("density"),
        **shared_context(comparison, methods),
    )


def _counts(
    rows: Records, template: str, variables: list[str], prefix: str = ""
) -> list[np.ndarray]:
    """How many subjects of group a and of group b have i -> j."""
    place = {name: k for k, name in enumerate(variables)}
    found = [np.zeros((len(variables),) * 2, dtype=int) for _ in "ab"]
    for row in rows:
        if row["template"] == template:
            for counts, key in zip(found, "ab", strict=True):
                counts[place[row["source"]], place[row["target"]]] = int(
                    row[f"{prefix}count_{key}"]
                )
    return found


def _degrees(
    rows: Records, template: str, variables: list[str], sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    own = {row["variable"]: row for row in rows if row["template"] == template}
    a, b = (
        np.array([int(own[name][f"total_{key}"]) / n for name in variables])
        for key, n in zip("ab", sizes, strict=True)
    )
    return a, b


def _panels(
    counts: list[np.ndarray], sizes: tuple[int, int], labels: tuple[str, str]
) -> list[tuple[str, np.ndarray]]:
    """Shares of both groups and their difference, each with its name."""
    a, b = (count / n for count, n in zip(counts, sizes, strict=True))
    return [(labels[0], a), (labels[1], b), (f"{labels[0]} minus {labels[1]}", a - b)]


def _pictures(
    template: str,
    variables: list[str],
    counts: list[np.ndarray],
    sizes: tuple[int, int],
    labels: tuple[str, str],
) -> dict[str, Any]:
    """Images of the networks, in the brain if all regions are known, and heat maps of the counts."""
    panels = _panels(counts, sizes, labels)
    words = f"network over {template}; the numbers are in the table of connections"
    brain = figures.glass_brain_picture(panels, variables, words)
    return {
        "is_brain": brain is not None,
        "networks": [brain] if brain else figures.circle_pictures(panels, variables, words),
        "counts": figures.counts_pictures(
            list(zip(labels, counts, sizes, strict=True)),
            variables,
            f"heat map of how many have i to j, {template}",
        ),
    }


def _networks(
    variables: list[str],
    counts: list[np.ndarray],
    sizes: tuple[int, int],
    labels: tuple[str, str],
) -> list[dict[str, Any]]:
    """Edges for the interactive view, each with a sentence."""
    found = []
    for name, weights in _panels(counts, sizes, labels):
        edges = []
        for i, j in np.argwhere(weights != 0).tolist():
            text = f"{variables[i]} → {variables[j]}: " + ", ".join(
                f"{count[i, j]} of {n} {label}"
                for count, n, label in zip(counts, sizes, labels, strict=True)
            )
            edges.append([i, j, float(weights[i, j]), text])
        found.append({"name": name, "edges": edges})
    return found


def _summary(about: dict[str, Any], pairs: Records, arrows: Records) -> list[str]:
    """Pairs come first, because the data may leave the direction of an edge open."""
    where = " over all templates" if len(about["templates"]) > 1 else ""
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
        each = ", within each template" if where else ""
        lines.append(
            f"By {times} relabellings of the subjects, {corrected or 'none'} of the pairs "
            f"differ{'s' * (corrected == 1)} with a corrected p of at most {_SMALL_Q:g}{each}. "
            f"The smallest p that {times} relabellings can give is {1 / (times + 1):.2g}. "
            + sentence(relabelled["how"])
        )
        for template, p in relabelled["p_any_difference"].items():
            lines.append(
                f"{template}: that the groups differ in any pair, in either direction, has p = {p:.3g}."
            )
    else:
        lines.append(f"Beware: {sentence(about['tests']['assumption'])}")
        lines.append("To relabel the subjects, run the same command with --relabellings 199.")
    return lines


def _ends(row: dict[str, str]) -> frozenset[str]:
    return frozenset((row["source"], row["target"]))


def _findings(pairs: Records, arrows: Records) -> list[dict[str, Any]]:
    """The pairs that differ most, each with the counts of its two directions."""
    by_ends = {(row["template"], row["source"], row["target"]): row for row in arrows}
    found = []
    rows = [row for row in pairs if float(row["difference"]) != 0]
    for row in sorted(rows, key=lambda row: float(row["p_two_sided"]))[:_MOST_FINDINGS]:
        template, i, j = row["template"], row["source"], row["target"]
        names = ("p_two_sided", "q", "p_permutation", "p_permutation_corrected")
        numbers = {name: f"{float(row[name]):.3g}" for name in names if name in row}
        difference, low, high = (
            f"{float(row[name]):+.2f}"
            for name in ("difference", "difference_low", "difference_high")
        )
        found.append(
            {
                **row,
                **numbers,
                "spread": f"{difference} (95 % interval {low} to {high})",
                "directions": [by_ends[template, i, j], by_ends[template, j, i]],
            }
        )
    return found


def _turned(pairs: Records, arrows: Records) -> list[str]:
    """Directions that differ although their pairs do not."""
    q = {(row["template"], _ends(row)): float(row["q_study"]) for row in pairs}
    return [
        f"{row['source']} → {row['target']} ({row['template']})"
        for row in arrows
        if float(row["q_study"]) <= _SMALL_Q < q[row["template"], _ends(row)]
    ]


def _simulation(
    about: dict[str, Any], pairs: Records, labels: tuple[str, str]
) -> dict[str, Any] | None:
    """The truth of simulated data, with the result for each altered connection."""
    truth = about.get("simulation")
    if not truth:
        return None
    rows = {_ends(row): row for row in pairs}
    altered = [
        {**each, "found": _pair_in_words(rows.pop(_ends(each)), labels)}
        for each in truth["altered"]
    ]
    others = [
        f"{row['source']} – {row['target']} ({_pair_in_words(row, labels)})"
        for row in rows.values()
        if float(row["q"]) <= _SMALL_Q
    ]
    return {"description": truth["description"], "altered": altered, "false_alarms": others}


def _pair_in_words(row: dict[str, str], labels: tuple[str, str]) -> str:
    return (
        f"{row['count_a']} of {row['n_a']} {labels[0]} and {row['count_b']} of {row['n_b']} {labels[1]} "
        f"have an edge between both, in either direction (q = {float(row['q']):.2g})"
    )
