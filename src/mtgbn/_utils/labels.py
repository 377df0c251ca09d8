"""Labels of groups: which cells have none, and which label is the one others are compared with."""

from collections.abc import Iterable
from typing import Any

from mtgbn.errors import InputError

NO_VALUE = {"", "n/a", "na", "nan", "none"}

# Labels of control groups.
_CONTROLS = {
    *("control", "controls", "ctrl", "con", "hc", "healthy", "healthy control", "healthy_control"),
    *("healthy controls", "nc", "normal", "typical", "td", "tdc", "tc", "cn"),
}


def is_missing(value: Any) -> bool:
    """Whether a cell of a table, or a label, has no value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float):
        return value != value
    return isinstance(value, str) and value.strip().lower() in NO_VALUE


def is_control(label: str) -> bool:
    """Whether this is a usual label of controls."""
    return label.lower() in _CONTROLS


def reference_first(label: str) -> tuple[bool, str]:
    """Key that sorts labels: the group of controls, with which others are compared, comes first."""
    return (not is_control(label), label)


def check_alike(labels: Iterable[str], column: str) -> None:
    """Refuse labels that differ in capitals or blanks only: they would count as several groups."""
    first: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        other = first.setdefault(" ".join(label.split()).casefold(), label)
        if other != label:
            raise InputError(
                f"column {column!r} has {other!r} and {label!r}, which differ in capitals or blanks "
                "only; write them alike"
            )
