"""The connections of a comparison by a design as networks and pictures, and in words."""

import math
from typing import Any

import numpy as np

from mtgbn.compare.design_effect import effect_with_interval
from mtgbn.report import figures
from mtgbn.report.design_words import p_value

Record = dict[str, str]

# A connection has an arrowhead if at least the first share of the subjects has an edge, and if its
# direction is found in at least the second share of the bootstrap cohorts.
LEAST_JOINED, LEAST_SUPPORT = 0.2, 0.8

# The movable network has no more connections than this, those with the smallest p-values.
MOST_EDGES = 1_000
# Of more variables, the figure on a circle has only those with a finding.
_MOST_DRAWN = 40


def direction_of(row: Record) -> tuple[str, str] | None:
    """Source and target of a connection whose direction is supported; None for others."""
    joined, support = (number_of(row[name]) for name in ("joined", "support"))
    if not (joined >= LEAST_JOINED and support >= LEAST_SUPPORT):
        return None
    ends = row["source"], row["target"]
    return ends if number_of(row["forward"]) >= 0.5 else ends[::-1]


def number_of(cell: str) -> float:
    """The number in a cell of a table; nan for n/a."""
    return math.nan if cell == "n/a" else float(cell)


def connection_in_words(row: Record) -> str:
    """A connection in words, with an arrow where its direction is supported."""
    ends = direction_of(row)
    return f"{ends[0]} → {ends[1]}" if ends else f"{row['source']} – {row['target']}"


def effect_in_words(row: Record) -> str:
    """The effect with its interval."""
    effect, low, high = (number_of(row[name]) for name in ("effect", "low", "high"))
    return effect_with_interval(effect, low, high, "95 % interval ")


def means_in_words(row: Record, design: dict[str, Any]) -> str:
    """The mean partial correlation of every group; empty without groups."""
    means = [(label, number_of(row[f"mean_{label}"])) for label in design["groups"]]
    return ", ".join(
        f"{label} {mean:+.2f}" if math.isfinite(mean) else f"{label} not defined"
        for label, mean in means
    )


def is_found(row: Record, design: dict[str, Any]) -> bool:
    """Whether the corrected p-value of a connection is at most the level."""
    return number_of(row["p_family"]) <= design["level"]


def effect_networks(
    rows: list[Record],
    variables: list[str],
    coordinates: np.ndarray | None,
    design: dict[str, Any],
) -> dict[str, Any]:
    """Connections for the movable network: the findings, if there are any, and all."""
    place = {name: k for k, name in enumerate(variables)}
    is_one = len(design["contrast"]) == 1
    edges = []
    for row in rows[:MOST_EDGES]:
        ends = direction_of(row)
        source, target = ends or (row["source"], row["target"])
        numbers = [number_of(row[name]) for name in ("effect", "statistic", "p_family", "q")]
        if not all(map(math.isfinite, numbers)):
            continue  # it cannot be drawn; the table has it
        effect, statistic, p_family, q = numbers
        means = means_in_words(row, design)
        edges.append(
            {
                "source": place[source],
                "target": place[target],
                "values": [effect, statistic] if is_one else [statistic],
                "text": f"{connection_in_words(row)}: effect {effect_in_words(row)}, corrected p = "
                f"{p_value(p_family)}" + (f"; means: {means}" if means else ""),
                "headless": ends is None,
                "doubtful": not is_found(row, design),
                "p": p_family,
                "q": q,
            }
        )
    found = [edge for edge in edges if not edge["doubtful"]]
    shown = (
        "all connections" if len(edges) == len(rows) else f"the {len(edges):,} with the smallest p"
    )
    networks = [{"name": f"corrected p of at most {design['level']:g}", "edges": found}]
    networks = [*(networks if found else []), {"name": shown, "edges": edges}]
    name = design["statistic"]
    size = ["statistic", f"|{name}|" if is_one else name]
    return {
        "variables": variables,
        "positions": None if coordinates is None else coordinates[:, :2].tolist(),
        "coordinates": None if coordinates is None else coordinates.tolist(),
        "level": design["level"],
        "n_connections": len(rows),
        "measures": [["effect", "|effect|"], size] if is_one else [size],
        "networks": networks,
    }


def effect_pictures(
    rows: list[Record],
    variables: list[str],
    coordinates: np.ndarray | None,
    about: dict[str, Any],
    template: str,
) -> dict[str, Any] | None:
    """The findings on a circle and, where regions are known, in the brain; None without findings."""
    place, design = {name: k for k, name in enumerate(variables)}, about["design"]
    column = "effect" if len(design["contrast"]) == 1 else "statistic"
    plain, directed = (np.zeros((len(variables),) * 2) for _ in range(2))
    found = [row for row in rows if is_found(row, design) and math.isfinite(number_of(row[column]))]
    for row in found:
        ends = direction_of(row)
        source, target = ends or (row["source"], row["target"])
        (directed if ends else plain)[place[source], place[target]] = number_of(row[column])
    if not found:
        return None
    effects = figures.Effects(plain, directed)
    words = f"connections over {template} that differ; the numbers are in the table of connections"
    brain = figures.effects_brain_picture(effects, coordinates, f"In the brain: {words}")
    is_large = len(variables) > _MOST_DRAWN
    if is_large:  # few findings would be lost among so many names
        joined = [place[row[name]] for row in found for name in ("source", "target")]
        kept = sorted(set(joined))
        variables = [variables[k] for k in kept]
        effects = figures.Effects(plain[np.ix_(kept, kept)], directed[np.ix_(kept, kept)])
    return {
        "circle": figures.effects_picture(effects, variables, f"Network of {words}"),
        "brain": brain,
        "only_found": is_large,
    }
