"""The part of a comparison's page about who has a connection, and its words for the methods."""

from typing import Any

from mtgbn._utils.described_table import DescribedTable
from mtgbn._utils.names import listed
from mtgbn.learn.group_differences import at_least_a_permille
from mtgbn.report.design_words import MOST_NAMES, count_of, in_a_row, p_value
from mtgbn.report.references import Citations

# The columns of the table that come first on the page.
FIRST_COLUMNS = (
    *("source", "target", "probability", "outcome", "difference", "low", "high", "p_family"),
    *("effect", "fdr"),
)

Record = dict[str, str]


def differences_part(
    about: dict[str, Any], tables: dict[str, DescribedTable]
) -> dict[str, Any] | None:
    """What the page says about who has a connection; None without the fit that knows the groups."""
    if "differences" not in tables:
        return None
    table = tables["differences"]
    described = {
        name: each["differences"]
        for name, each in about["templates"].items()
        if each.get("differences")
    }
    first, second = next(iter(described.values()))["labels"]
    return {
        "first": first,
        "second": second,
        "columns": table.columns,
        "first_columns": FIRST_COLUMNS,
        "templates": [
            {
                "name": name,
                "sentences": _sentences(
                    [row for row in table.records if row["template"] == name], each
                ),
            }
            for name, each in described.items()
        ],
    }


def _sentences(rows: list[Record], described: dict[str, Any]) -> list[str]:
    """How many connections of a template have every outcome, and which are different."""
    counts, least = described["counts"], described["least_probability"]
    number = counts["different"]
    sentences = [
        f"Of {count_of(len(rows), 'connection')}, {number or 'none'} "
        f"{'is' if number in (0, 1) else 'are'} different (probability of at least {least:g}), "
        f"{counts['the same']} {'is' if counts['the same'] == 1 else 'are'} the same, and "
        f"{counts['undecided'] or 'none'} {'is' if counts['undecided'] in (0, 1) else 'are'} undecided."
    ]
    found = [row for row in rows if row["outcome"] == "different"]
    first, second = described["labels"]
    for row in found[:MOST_NAMES]:
        sentences.append(
            f"{row['source']} – {row['target']}: {float(row[f'share_{first}']):.0%} of the {first} and "
            f"{float(row[f'share_{second}']):.0%} of the {second} subjects have it; difference of the "
            f"frequencies {float(row['difference']):+.2f} (95 % interval {float(row['low']):+.2f} to "
            f"{float(row['high']):+.2f}); probability of a difference "
            f"{float(row['probability']):.3f}. Its strength: corrected p = "
            f"{p_value(float(row['p_family']))}."
        )
    if len(found) > MOST_NAMES:
        sentences.append(f"{len(found) - MOST_NAMES} more are in the table.")
    if found:
        sentences.append(
            f"Of those called different, {at_least_a_permille(float(found[-1]['fdr']))} are expected to "
            "be wrong."
        )
    held = described["not_held_constant"]
    if held:
        sentences.append(
            f"This fit knows the groups only: {listed(held, MOST_NAMES, quote=False)} "
            f"{'is' if len(held) == 1 else 'are'} not held constant."
        )
    return sentences


def methods_of_differences(about: dict[str, Any], cite: Citations) -> list[str]:
    """Sentences for the methods about the fit that knows the groups; none without it."""
    found = [each["differences"] for each in about["templates"].values() if each.get("differences")]
    if not found:
        return []
    described = found[0]
    groups = in_a_row(
        [f"{n} {label}" for n, label in zip(described["sizes"], described["labels"], strict=True)]
    )
    lines = [
        "To tell in how many subjects a connection is present, the subjects were learned jointly once "
        f"more {cite('liu2022')}, in a fit that knew the groups ({groups}) and no covariates. A priori, "
        "a connection has one frequency in all subjects or, with a probability that was estimated with "
        "the graphs, frequencies in both groups that are at least a quarter apart. Graphs were sampled "
        f"from their posterior distribution ({described['rounds']:,} rounds in each of two chains), and "
        "the probabilities of a difference were averaged over the rounds.",
        f"A connection is called different if this probability is at least "
        f"{described['least_probability']:g}, and the same if it is at most "
        f"{1 - described['least_probability']:.2g} and the data of the connection made the odds of a "
        f"difference at least {described['least_evidence']:g} times smaller; otherwise it is undecided.",
    ]
    held = described["not_held_constant"]
    if held:
        verb = "was" if len(held) == 1 else "were"
        lines.append(f"In this fit, {in_a_row(held)} {verb} not held constant.")
    return lines
