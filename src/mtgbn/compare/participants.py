"""The table of participants (BIDS' participants.tsv), its groups, and the series of a participant."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mtgbn._utils.labels import NO_VALUE, check_alike, is_control
from mtgbn._utils.tables import read_records
from mtgbn.errors import InputError

_ID_COLUMNS = ("participant_id", "subject_id", "participant", "subject", "sub", "id")
_GROUP_COLUMNS = (
    *("group", "diagnosis", "dx", "dx_group", "diagnostic_group", "participant_group"),
    *("patient_group", "cohort", "condition"),
)


class Participants(NamedTuple):
    """A table of participants; they are named without ``sub-``."""

    source: str  # path of the table
    column: str | None  # name of the column with the groups; None if groups do not matter
    labels: dict[str, str | None]  # group of every participant; None: the cell is empty
    values: dict[str, dict[str, str]]  # all cells by participant and column


def read_participants(
    path: str | os.PathLike[str], column: str | None = None, *, needs_groups: bool = True
) -> Participants:
    """Read a table (.tsv or .csv) with the column participant_id, one row per participant.

    ``column`` is the column of the groups; default: that named group, diagnosis, dx or similar. Unless
    ``needs_groups``, a table without groups is read, too, and a column is used only if it is named.
    """
    file = Path(path)
    records = read_records(file, "participant")
    columns = list(records[0])
    ids = next((name for name in _ID_COLUMNS if name in columns), None)
    if ids is None:
        raise InputError(
            f"{str(file)!r} has no column participant_id; it has {', '.join(columns)}. Give the column "
            "of the subjects this name"
        )
    if needs_groups or column is not None:
        column = _group_column(str(file), [name for name in columns if name != ids], column)
    labels: dict[str, str | None] = {}
    values: dict[str, dict[str, str]] = {}
    for row, record in enumerate(records, start=1):
        name = record[ids].removeprefix("sub-")
        if not name:
            raise InputError(f"row {row} of {str(file)!r} has no {ids}; fill it in")
        if name in labels:
            raise InputError(f"{str(file)!r} has participant {record[ids]!r} twice; leave one row")
        label = "" if column is None else record[column]
        labels[name] = None if label.lower() in NO_VALUE else label
        values[name] = {key: cell for key, cell in record.items() if key != ids}
    if column is not None:
        check_alike([label for label in labels.values() if label is not None], column)
    return Participants(str(file), column, labels, values)


def _group_column(where: str, columns: Sequence[str], wanted: str | None) -> str:
    if wanted is not None:
        if wanted.strip().lower() not in columns:
            raise InputError(f"{where!r} has no column {wanted!r}; it has {', '.join(columns)}")
        return wanted.strip().lower()
    found = [name for name in _GROUP_COLUMNS if name in columns]
    if len(found) != 1:
        problem = (
            f"several columns that may be the group: {', '.join(found)}"
            if found
            else f"no column group or diagnosis; it has {', '.join(columns) or 'no other column'}"
        )
        raise InputError(f"{where!r} has {problem}. Name the column (column=..., --column)")
    return found[0]


def choose_groups(
    participants: Participants, groups: Sequence[str] | None = None
) -> tuple[str, str]:
    """Return the labels of the groups a and b: those given, or the two labels of the table.

    Then b is the usual label of controls (control, HC, healthy, ...) or, if neither is, the later one in
    alphabetical order.
    """
    counts = Counter(label for label in participants.labels.values() if label is not None)
    column, where = participants.column, participants.source
    shown = ", ".join(f"{label!r} ({count})" for label, count in sorted(counts.items())[:10])
    if groups is not None:
        first, second = groups
        for label in (first, second):
            if label not in counts:
                raise InputError(
                    f"group {label!r} is empty: column {column!r} of {where!r} has no such label, but "
                    f"{shown or 'none at all'}"
                )
        if first == second:
            raise InputError(f"both groups are {first!r}; give two labels")
        return first, second
    if len(counts) > 2:
        raise InputError(
            f"column {column!r} of {where!r} has {len(counts)} labels: {shown}; choose two "
            "(groups=..., --groups A B)"
        )
    if len(counts) < 2:
        raise InputError(
            f"column {column!r} of {where!r} has {shown or 'no label at all'}; two groups are needed, "
            "and the other one is empty"
        )
    first, second = sorted(counts, key=lambda label: (is_control(label), label))
    return first, second


def all_groups(participants: Participants, groups: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the labels to compare: the two that are given, or all labels of the table."""
    found = {label for label in participants.labels.values() if label is not None}
    if groups is None and len(found) > 2:
        return tuple(sorted(found, key=lambda label: (is_control(label), label)))
    return choose_groups(participants, groups)


def participant_of(task: str, known: Iterable[str]) -> str | None:
    """Return the participant whose series a task holds; None if no participant fits.

    ``sub-01``, ``01`` and ``sub-01_ses-1`` are all participant 01.
    """
    for name in (task, task.removeprefix("sub-"), task.removeprefix("sub-").partition("_")[0]):
        if name in known:
            return name
    return None
