"""Words about a design that several parts of its page use: what is tested, given what, by whom."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.compare.design_effect import terms_held_constant, terms_of

# Of more names in a sentence, the first are shown.
MOST_NAMES = 10


def what_is_tested(design: dict[str, Any], term: str = "") -> str:
    """What is tested: a term, before which ``term`` is put, or a contrast."""
    contrast = np.array(design["contrast"])
    places = np.flatnonzero(contrast.any(axis=0))
    is_one_each = np.array_equal(contrast, np.eye(contrast.shape[1])[places])
    terms = terms_of([design["columns"][k] for k in places])
    name = design["tested"].replace(" ", "")
    is_term = is_one_each and [term.replace(" ", "") for term in terms] == [name]
    return f"{term if is_term else 'the contrast '}'{design['tested']}'"


def held_constant(design: dict[str, Any]) -> list[str]:
    """The terms that are not tested; single columns of terms of which others are tested."""
    return terms_held_constant(design["columns"], np.array(design["contrast"]), design["nuisance"])


def n_kept_directions(design: dict[str, Any]) -> int:
    """Number of the combinations of columns that are neither tested nor the intercept."""
    return len(design["columns"]) - len(design["contrast"]) - 1


def in_a_row(words: Sequence[str]) -> str:
    """Words joined as in a sentence: a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def sizes_in_words(design: dict[str, Any]) -> str:
    """Number of the compared subjects per category of what is tested; empty if it has none."""
    return ", ".join(
        f"{number} {label}" if label[:1].isalpha() else f"{number} with {label!r}"
        for label, number in design["groups"].items()
    )


def left_out_in_words(about: dict[str, Any], *, with_names: bool) -> list[str]:
    """Who was not compared and why, one sentence per reason."""
    design, unit = about["design"], unit_of(about)
    reasons = (
        (unit, "lacked a value that the design needs", list(design["left_out"].items())),
        (
            "subject",
            "with data could not be used",
            [(each["name"], each["reason"]) for each in about.get("excluded", ())],
        ),
        (
            "participant",
            "had no data",
            [(n, "") for n in about.get("participants_without_data", ())],
        ),
    )
    sentences = []
    for noun, why, people in reasons:
        if not people:
            continue
        names = [f"{name} ({reason})" if reason else name for name, reason in people]
        who = f": {listed(names, MOST_NAMES, quote=False)}" if with_names else ""
        left = "was left out" if len(people) == 1 else "were left out"
        sentences.append(f"{count_of(len(people), f'further {noun}')} {why} and {left}{who}.")
    return sentences


def unit_of(about: dict[str, Any]) -> str:
    """What is compared: subjects, or sessions that are exchanged within a person."""
    design = about["design"]
    return "subject" if design["n_persons"] == design["n_subjects"] else "session"


def who_is_compared(about: dict[str, Any]) -> str:
    """Number of the compared subjects, or of the sessions and of their persons."""
    design, unit = about["design"], unit_of(about)
    persons = f" of {count_of(design['n_persons'], 'subject')}" if unit == "session" else ""
    return count_of(design["n_subjects"], unit) + persons


def blocks_in_words(about: dict[str, Any]) -> str | None:
    """How many blocks there are, and their sizes; None without blocks."""
    sizes = about["design"]["block_sizes"]
    if sizes is None:
        return None
    column = about.get("settings", {}).get("design", {}).get("blocks")
    low, high = min(sizes), max(sizes)
    size = str(low) if low == high else f"{low} to {high}"
    name = f" ('{column}')" if column else ""
    return f"{len(sizes)} blocks{name} of {size} {unit_of(about)}s each"


def number_range(ends: Sequence[float]) -> str:
    """A range of numbers with one decimal, or the number if there is one only."""
    low, high = (f"{end:,.1f}".removesuffix(".0") for end in ends)
    return low if low == high else f"{low} to {high}"


def percent(share: float) -> str:
    """A share in whole percent, which a line break does not separate from its sign."""
    return f"{100 * share:.0f}\u00a0%"


def count_of(number: int, word: str) -> str:
    """A number and its noun: 1 subject, 2 subjects."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def p_value(p: float) -> str:
    """A p-value with three digits."""
    return f"{p:.3g}" if math.isfinite(p) else "not defined"
