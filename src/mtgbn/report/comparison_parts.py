"""What the pages of all comparisons share: tables that are cut, warnings, how it was run."""

from typing import Any

from mtgbn._utils.described_table import DescribedTable
from mtgbn.compare.comparison_folder import ComparisonTables
from mtgbn.report.brain_regions import labels_of
from mtgbn.report.commands import compare_command
from mtgbn.report.page import brief, sentence

# A page has no more rows of a table than this; its file has all.
MOST_ROWS = 8_000


def shown_table(table: DescribedTable) -> str:
    """The table as text, or its first rows if there are too many; connections by their p-values."""
    rows = table.rows
    if len(rows) > MOST_ROWS and "p_two_sided" in table.columns:
        place = list(table.columns).index("p_two_sided")
        rows = sorted(rows, key=lambda row: float(row[place]))
    return table._replace(rows=rows[:MOST_ROWS]).tsv


def shared_context(comparison: ComparisonTables, methods: list[str]) -> dict[str, Any]:
    """What the templates of all comparisons show."""
    about, tables = comparison
    variables = [name for each in about["templates"].values() for name in each["variables"]]
    is_cut = {name: len(table.rows) > MOST_ROWS for name, table in tables.items()}
    return {
        "warnings": warnings_of(about),
        "tables": {
            name: (f"{name}{'_first' * is_cut[name]}.tsv", table.columns)
            for name, table in tables.items()
        },
        "left_out": [
            f"{name}.tsv has {len(table.rows)} rows; the page has {MOST_ROWS} of them"
            + (" with the smallest p-values." if name == "connections" else ", the first.")
            for name, table in tables.items()
            if is_cut[name]
        ],
        "regions": labels_of(variables),
        "settings": settings_of(about),
        "versions": list(about["versions"].items()),
        "people": about.get("subjects", []),
        "command": compare_command(about, methods),
    }


def settings_of(about: dict[str, Any]) -> list[tuple[str, Any]]:
    """The settings of a comparison as rows of a table."""
    settings = []
    for name, value in about.get("settings", {}).items():
        if name == "templates":
            value = ", ".join(f"{key} ({len(names)} variables)" for key, names in value.items())
        elif isinstance(value, dict):
            given = [f"{key}: {brief(each)}" for key, each in value.items() if each is not None]
            value = "; ".join(given) or "default"
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        settings.append((name, value))
    if about.get("repetition_time") is not None:
        settings.append(("repetition time", f"{about['repetition_time']:g} s"))
    return settings


def warnings_of(about: dict[str, Any]) -> list[str]:
    """What a reader must know before the results: fits that did not converge, people left out."""
    warnings = [sentence(str(text)) for text in about.get("warnings", ())]
    if about.get("converged") is False:
        names = [
            f"{template}, group {group}" if group else template
            for template, fits in about["templates"].items()
            # A design has one fit of all subjects per template.
            for group, fit in fits.get("fits", {"": fits.get("fit")}).items()
            if not fit["converged"]
        ]
        warnings.insert(0, f"Not all fits converged: {'; '.join(names)}.")
    excluded = about.get("excluded", ())
    if excluded:
        people = "; ".join(f"{each['name']}: {each['reason']}" for each in excluded)
        one = len(excluded) == 1
        who = "1 subject with data was" if one else f"{len(excluded)} subjects with data were"
        warnings.append(f"{who} left out. {sentence(people)}")
    return warnings
