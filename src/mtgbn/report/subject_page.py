"""The page about one subject compared with controls."""

from typing import Any

from mtgbn.compare.comparison_folder import ComparisonTables
from mtgbn.compare.subject_tables import DEPARTURE_IN_WORDS
from mtgbn.compare.summary_text import LARGEST_FDR
from mtgbn.report.comparison_parts import shared_context, shown_table
from mtgbn.report.page import Report, render

_MOST_CARDS = 12


def subject_report(comparison: ComparisonTables) -> Report:
    """Make the page about a comparison of one subject with controls."""
    about, tables = comparison
    departures, alarms = (tables[name].records for name in ("departures", "alarms"))
    subject, n = about["subject"], about["controls"]["n"]
    label = ", ".join(about.get("settings", {}).get("groups", []))
    parts = []
    for name, template in about["templates"].items():
        rows = [row for row in departures if row["template"] == name]
        certain = [row for row in rows if float(row["fdr"]) <= LARGEST_FDR]
        rates = [float(row["rate"]) for row in alarms if row["template"] == name]
        parts.append(
            {
                "name": name,
                "n_variables": len(template["variables"]),
                "measure": template["measure"],
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
    return render(
        "subject.html",
        {"tables": {name: shown_table(table) for name, table in tables.items()}},
        title=f"{subject} and {n} controls" + (f" ({label})" if label else ""),
        subject=subject,
        n=n,
        parts_of=parts,
        limit=LARGEST_FDR,
        covariates=about.get("covariates"),
        **shared_context(comparison, []),
    )


def _departure(row: dict[str, str]) -> dict[str, Any]:
    numbers = ("strength", "control_strength", "probability", "p", "expected_alarms", "fdr")
    words = DEPARTURE_IN_WORDS[row["departure"]]
    return {**row, **{name: float(row[name]) for name in numbers}, "departure": words}
