"""The page about a comparison by a design: the answer first, then effects, tables and methods."""

import math
import re
from typing import Any

from mtgbn._utils.described_table import DescribedTable
from mtgbn._utils.names import listed
from mtgbn.compare.comparison_folder import ComparisonTables
from mtgbn.compare.directions import N_COHORTS
from mtgbn.report import comparison_parts
from mtgbn.report.brain_regions import coordinates_of, labels_of
from mtgbn.report.commands import compare_command, compare_lines
from mtgbn.report.design_differences import differences_part
from mtgbn.report.design_methods import design_methods
from mtgbn.report.design_networks import (
    LEAST_JOINED,
    LEAST_SUPPORT,
    MOST_EDGES,
    Record,
    connection_in_words,
    direction_of,
    effect_in_words,
    effect_networks,
    effect_pictures,
    is_found,
    number_of,
)
from mtgbn.report.design_words import (
    MOST_NAMES,
    blocks_in_words,
    count_of,
    held_constant,
    in_a_row,
    left_out_in_words,
    n_kept_directions,
    p_value,
    percent,
    sizes_in_words,
    unit_of,
    what_is_tested,
    who_is_compared,
)
from mtgbn.report.page import Report, render, sentence

_MOST_CARDS = 12

# The columns of the table of connections that come first on the page.
_FIRST_COLUMNS = ("source", "target", "effect", "p_family", "low", "high", "p", "q")
# Those of the tables of regions, sets and components.
_FIRST_OF_GROUPS = (
    "region",
    "kind",
    "first",
    "second",
    "component",
    "p_family",
    "statistic",
    "effect",
)


def design_report(comparison: ComparisonTables) -> Report:
    """Make the page about a comparison by a design."""
    about, tables = comparison
    design = about["design"]
    is_one = len(design["contrast"]) == 1
    connections = tables["connections"]
    components = tables["components"].records
    parts, networks, texts = [], [], {}
    for number, (name, described) in enumerate(about["templates"].items()):
        rows = [row for row in connections.records if row["template"] == name]
        own = connections._replace(
            rows=[row for row in connections.rows if row[0] == name][: comparison_parts.MOST_ROWS]
        )
        texts[f"connections-{number}"] = own.tsv
        coordinates = coordinates_of(described["variables"], about.get("coordinates"))
        networks.append(effect_networks(rows, described["variables"], coordinates, design))
        parts.append(
            {
                "name": name,
                "n_variables": len(described["variables"]),
                "answer": _answer(rows, described, about, _groups_found(tables, name, design)),
                "pictures": effect_pictures(rows, described["variables"], coordinates, about, name),
                "network_is_cut": len(rows) > MOST_EDGES,
                "has_places": coordinates is not None,
                "file": "connections.tsv" if len(about["templates"]) == 1 else _part_name(name),
                "left_out": _left_out(own, len(rows)),
                "components": _components([row for row in components if row["template"] == name]),
                "enhanced": _enhanced(rows, design["level"]),
                "wholes": [
                    _whole(tables[kind].records, kind, name, design["level"])
                    for kind in ("sets", "regions")
                ],
                "diagnostics": _diagnostics(described["fit"]),
                "fit": described["fit"],
            }
        )
    for name in ("regions", "sets"):
        texts[name] = comparison_parts.shown_table(tables[name])
    texts["components"] = comparison_parts.shown_table(tables["components"])
    who_has_it = differences_part(about, tables)
    if who_has_it is not None:
        texts["differences"] = comparison_parts.shown_table(tables["differences"])
    texts["subjects"] = comparison_parts.shown_table(tables["subjects"])
    variables = [name for each in about["templates"].values() for name in each["variables"]]
    tested = what_is_tested(design)
    return render(
        "design.html",
        {"templates": networks, "tables": texts},
        title=f"Do connections depend on {tested}?",
        lead=_lead(about),
        templates=parts,
        who_has_it=who_has_it,
        several=len(parts) > 1,
        design=design,
        tested=tested,
        effect=about["effect"],
        held=in_a_row(held_constant(design)),
        sessions=bool(about["sessions"]) or unit_of(about) == "session",
        is_one_column=is_one,
        effect_name="Effect" if is_one else about["effect"].partition(": ")[2],
        first_columns=_FIRST_COLUMNS,
        first_of_groups=_FIRST_OF_GROUPS,
        columns=connections.columns,
        component_columns=tables["components"].columns,
        region_columns=tables["regions"].columns,
        set_columns=tables["sets"].columns,
        has_sets=any(row["kind"] != "all" for row in tables["sets"].records),
        subject_columns=tables["subjects"].columns,
        cut_tables=_cut(tables),
        least_joined=LEAST_JOINED,
        least_support=LEAST_SUPPORT,
        n_cohorts=N_COHORTS,
        most_edges=MOST_EDGES,
        simulation=_simulation(about, connections.records),
        subjects=_subjects(about),
        methods=design_methods(about),
        warnings=comparison_parts.warnings_of(about),
        regions=labels_of(variables),
        settings=comparison_parts.settings_of(about),
        versions=list(about["versions"].items()),
        command=compare_command(about, []),
        python=compare_lines(about),
        files=[*about["files"], *about["matrices"]],
    )


def _lead(about: dict[str, Any]) -> str:
    """Who was compared, in one line."""
    design = about["design"]
    sizes = sizes_in_words(design)
    groups = f": {sizes}" if sizes else ""
    held = held_constant(design)
    constant = f"; {in_a_row(held)} held constant" if held else ""
    return sentence(f"{who_is_compared(about)}{groups}{constant}")


def _groups_found(
    tables: dict[str, DescribedTable], template: str, design: dict[str, Any]
) -> list[str]:
    """The regions, sets and components of a template that differ, by name."""
    names = []
    for row in (*tables["regions"].records, *tables["sets"].records):
        if row["template"] == template and is_found(row, design):
            names.append(f"those of {row['region']}" if "region" in row else _name_of_set(row))
    numbers = [
        row["component"]
        for row in tables["components"].records
        if row["template"] == template and number_of(row["p"]) <= design["level"]
    ]
    return names + [f"component {number}" for number in dict.fromkeys(numbers)]


def _answer(
    rows: list[Record], described: dict[str, Any], about: dict[str, Any], groups: list[str]
) -> dict[str, Any]:
    """What was found over a template: a headline, sentences, and a card per finding.

    ``groups`` are the groups of connections that differ as a whole.
    """
    design = about["design"]
    found = [row for row in rows if is_found(row, design)]
    held = held_constant(design)
    given = f", with {in_a_row(held)} held constant" if held else ""
    tested = what_is_tested(design)
    level, times = design["level"], described["permutations"]
    smallest = p_value(described["smallest_corrected_p"])
    number = f"{len(rows):,} connection{'s' * (len(rows) > 1)}"
    if found:
        verb = "depends" if len(found) == 1 else "depend"
        headline = f"{len(found):,} of {number} {verb} on {tested}{given}."
    else:
        headline = f"No connection is shown to depend on {tested}{given}."
    sentences = [
        f"The smallest corrected p of {number} is {smallest} (family-wise level {level:g}, "
        f"{times:,} permutations, with which the smallest possible p is {1 / (times + 1):.2g})."
    ]
    if not found and rows:
        nearest = min(rows, key=lambda row: number_of(row["p_family"]))
        sentences.append(
            f"It is that of {connection_in_words(nearest)}, with the effect "
            f"{effect_in_words(nearest)} and p = {p_value(number_of(nearest['p']))} without the "
            "correction."
        )
    if groups and not found:
        sentences.append(
            "But groups of connections differ as a whole, without telling which of their connections: "
            f"{listed(groups, MOST_NAMES, quote=False)} (section 'Groups of connections')."
        )
    several = len(design["contrast"])
    which = "" if several == 1 else f", in the first of the {several} tested columns only,"
    limit, power = described["detectable_effect"], described["power"]
    sentences.append(
        f"With so few {unit_of(about)}s no effect of any size could have been found."
        if limit is None
        else f"An effect of about {limit:.2g} in partial correlation{which} "
        f"{'is' if found else 'would have been'} found with a probability of {percent(power)}."
    )
    if not described["fit"]["converged"]:
        sentences.insert(
            0, "The fit did NOT converge: networks may still change with more iterations."
        )
    return {
        "headline": headline,
        "sentences": sentences,
        "cards": [_card(row, design) for row in found[:_MOST_CARDS]],
        "n_more": max(len(found) - _MOST_CARDS, 0),
        "n_found": len(found),
    }


def _largest_difference(row: Record, design: dict[str, Any]) -> str:
    """Which of several tested groups differ most; empty with fewer than three."""
    means = {label: number_of(row[f"mean_{label}"]) for label in design["groups"]}
    if (
        len(design["contrast"]) == 1
        or len(means) < 3
        or not all(map(math.isfinite, means.values()))
    ):
        return ""
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        f"Of the means, those of {high!r} and {low!r} differ most, by {means[high] - means[low]:.2f} "
        "(a comparison of these two groups alone has the interval)."
    )


def _card(row: Record, design: dict[str, Any]) -> dict[str, Any]:
    """One finding, in words."""
    joined, forward, support = (number_of(row[name]) for name in ("joined", "forward", "support"))
    if math.isnan(forward):
        direction = "No subject's network has an edge between both."
    else:
        ways = [row["source"], row["target"]]
        first, second = ways if forward >= 0.5 else ways[::-1]
        direction = f"{percent(joined)} of the subjects have an edge between both. "
        if direction_of(row) is not None:
            direction += (
                f"It goes {first} → {second}: the data decide so in {percent(support)} of the cohorts "
                "whose subjects are drawn anew."
            )
        else:
            direction += "Its direction is open."
    return {
        "ends": [row["source"], row["target"]],
        "name": connection_in_words(row),
        "effect": effect_in_words(row),
        "p": p_value(number_of(row["p"])),
        "p_family": p_value(number_of(row["p_family"])),
        "largest": _largest_difference(row, design),
        "strength": f"{number_of(row['strength']):+.2f}",
        "means": [
            (label, f"{number_of(row[f'mean_{label}']):+.2f}", size)
            for label, size in design["groups"].items()
        ],
        "direction": direction,
    }


def _part_name(template: str) -> str:
    """File that a browser saves the connections of one of several templates to."""
    return f"connections_{re.sub(r'[^A-Za-z0-9]+', '-', template).strip('-') or 'template'}.tsv"


def _left_out(shown: DescribedTable, total: int) -> str | None:
    if len(shown.rows) == total:
        return None
    return (
        f"connections.tsv has {total:,} rows of this template; the page has the {len(shown.rows):,} "
        "with the smallest p-values."
    )


def _cut(tables: dict[str, DescribedTable]) -> list[str]:
    """Which of the other tables are cut."""
    most = comparison_parts.MOST_ROWS
    return [
        f"{name}.tsv has {len(tables[name].rows):,} rows; the page has the first {most:,}."
        for name in ("differences", "components", "regions", "sets", "subjects")
        if name in tables and len(tables[name].rows) > most
    ]


def _components(rows: list[Record]) -> list[str]:
    """The components of the network-based statistic of a template, in sentences."""
    numbers = list(dict.fromkeys(row["component"] for row in rows))
    if not numbers:
        return ["No connection reaches the threshold, so that there is no component."]
    sentences = []
    for number in numbers[:MOST_NAMES]:
        own = [row for row in rows if row["component"] == number]
        pairs = [f"{row['source']} – {row['target']}" for row in own]
        sentences.append(
            f"Component {number}: {count_of(len(own), 'connection')}, corrected p = "
            f"{p_value(number_of(own[0]['p']))}: {listed(pairs, MOST_NAMES, quote=False)}."
        )
    if len(numbers) > MOST_NAMES:
        sentences.append(f"{len(numbers) - MOST_NAMES} more are in the table.")
    return sentences


def _enhanced(rows: list[Record], level: float) -> str:
    """What threshold-free enhancement finds, in a sentence."""
    values = [number_of(row["p_enhanced"]) for row in rows]
    number = sum(p <= level for p in values)
    verb = "has" if number == 1 else "have"
    return (
        f"After threshold-free enhancement, {number or 'none'} of {count_of(len(rows), 'connection')} "
        f"{verb} a corrected p of at most {level:g} (smallest: {p_value(min(values))})."
    )


def _whole(rows: list[Record], kind: str, template: str, level: float) -> str:
    """Which regions or sets of connections differ as a whole, in a sentence."""
    own = [row for row in rows if row["template"] == template]
    if kind == "sets" and len(own) == 1:
        p = number_of(own[0]["p"])
        verb = "differ" if p <= level else "are not shown to differ"
        return f"All connections as one set {verb}: p = {p_value(p)}."
    values = [number_of(row["p_family"]) for row in own]
    found = [_name_of_set(row) for row, p in zip(own, values, strict=True) if p <= level]
    noun = "region" if kind == "regions" else "set"
    names = f": {listed(found, MOST_NAMES, quote=False)}" if found else ""
    return (
        f"Of {count_of(len(own), noun)}, {len(found) or 'none'} {'has' if len(found) == 1 else 'have'} "
        f"connections that differ as a whole (smallest corrected p: {p_value(min(values))}){names}."
    )


def _name_of_set(row: Record) -> str:
    if "region" in row:
        return row["region"]
    if row["kind"] == "all":
        return "all connections"
    both = f"between {row['first']} and {row['second']}"
    return both if row["kind"] == "between" else f"within {row['first']}"


def _diagnostics(fit: dict[str, Any]) -> list[tuple[str, str]]:
    """Facts about the fit of a template."""
    facts = [
        ("learned by", fit["method"] + (", posterior" if fit["is_posterior"] else "")),
        ("converged", "yes" if fit["converged"] else "no"),
        ("edges per network", f"{fit['edges_per_subject']:.1f}"),
    ]
    if fit["nu0"] is not None:
        facts.append(("weight of the other tasks, in rows (nu0)", f"{fit['nu0']:,.0f}"))
    return facts


def _subjects(about: dict[str, Any]) -> list[str]:
    """Who was compared and who was not, what was held constant, blocks, sessions, reliability."""
    design, sessions = about["design"], about["sessions"]
    lines = [f"Compared: {_lead(about)}"]
    if not design["nuisance"]:
        lines.append(
            "There are no nuisance covariates: nothing else was held constant."
            if n_kept_directions(design) == 0
            else "All combinations of the design's columns that are not tested were held constant."
        )
    blocks = blocks_in_words(about)
    lines.append(
        f"{unit_of(about).capitalize()}s were exchanged only within {blocks}."
        if blocks
        else "All subjects could change places in a permutation."
    )
    if design["variance_groups"] is not None:
        lines.append(
            f"The {design['variance_groups']} groups may differ in the spread of their strengths: the "
            f"statistic is {design['statistic']}."
        )
    if sessions:
        lines.append(
            f"{count_of(len(sessions), 'subject')} have {sum(map(len, sessions.values()))} sessions in "
            "all. Strengths are averaged over the sessions of a subject, and subjects are compared."
        )
    for name, template in about["templates"].items():
        if template["reliability"]:
            where = f"{name}: " if len(about["templates"]) > 1 else ""
            lines.append(where + template["reliability"]["in_words"])
    lines += left_out_in_words(about, with_names=True)
    for label, number in about.get("subjects_of_other_groups", {}).items():
        lines.append(f"{count_of(number, 'subject')} of group {label} not compared.")
    return lines


def _simulation(about: dict[str, Any], rows: list[Record]) -> dict[str, Any] | None:
    """The truth of simulated data, with the result for each altered connection."""
    truth = about.get("simulation")
    if not truth:
        return None
    by_ends = {frozenset((row["source"], row["target"])): row for row in rows}
    altered = []
    for each in truth["altered"]:
        row = by_ends.pop(frozenset((each["source"], each["target"])))
        verdict = "found" if is_found(row, about["design"]) else "not found"
        altered.append(
            {
                **each,
                "found": f"{verdict}; effect {effect_in_words(row)}, corrected p = "
                f"{p_value(number_of(row['p_family']))}",
            }
        )
    others = [
        connection_in_words(row) for row in by_ends.values() if is_found(row, about["design"])
    ]
    return {"description": truth["description"], "altered": altered, "false_alarms": others}
