"""Several sessions of a person: which tasks they are, and one row of values and strengths per person.

Sessions of one person are alike. Counted as independent subjects they would make p-values far too
small. All sessions are learned as tasks; then a person's strengths are averaged (docs/model.md,
section 19).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.labels import is_missing
from mtgbn._utils.names import listed, unknown_name
from mtgbn.errors import InputError

# Names such as sub-01_ses-1, sub-01_ses-1_run-2, S01_session2 or P7-visit3.
_BIDS = re.compile(r"(sub-[^_]+)(?:_(?:ses|run|task|acq|dir|rec|echo)-[^_]+)+")
_SESSION = re.compile(r"(.+?)[_-](?:ses|session|run|visit)[_-]?\d\w*(?:[_-].*)?", re.IGNORECASE)

Values = Mapping[str, Mapping[str, Any]]


class People(NamedTuple):
    """Who is who: the tasks of every person, and the values of every person by column.

    Attributes
    ----------
    sessions : dict
        Names of the tasks of every person, by the name of the person.
    table : dict
        Values of every person, by column.
    notes : tuple of str
        What was averaged, and what was recognised by names.
    """

    sessions: dict[str, tuple[str, ...]]
    table: dict[str, dict[str, Any]]
    notes: tuple[str, ...] = ()

    @property
    def has_several(self) -> bool:
        """Whether a person has more than one session."""
        return any(len(tasks) > 1 for tasks in self.sessions.values())


def find_people(
    table: Values,
    subject: str | None,
    *,
    used: Sequence[str],
    categories: Sequence[str] = (),
    blocks: str | None = None,
) -> People:
    """Find the sessions of every person.

    Parameters
    ----------
    table : mapping
        Values of every task by column.
    subject : str, optional
        The column with the person. By default, tasks whose names say that they are sessions of one
        person (``sub-01_ses-1`` and ``sub-01_ses-2``) are taken as such.
    used : sequence of str
        Columns that the design needs; the others may differ between sessions.
    categories : sequence of str
        Those with numbers that stand for categories, which have no average.
    blocks : str, optional
        A column; if it separates all persons, sessions are exchanged within a person only, and are
        not averaged.
    """
    columns = list(next(iter(table.values())))
    for name in (subject, blocks):
        if name is not None and name not in columns:
            raise unknown_name(name, columns, "column")
    owners = _by_names(table) if subject is None else _by_column(table, subject)
    if subject is None and blocks is not None and _separates(table, owners, blocks):
        owners = {task: task for task in table}
    sessions: dict[str, tuple[str, ...]] = {}
    for task, person in owners.items():
        sessions[person] = (*sessions.get(person, ()), task)
    notes = []
    several = [person for person, tasks in sessions.items() if len(tasks) > 1]
    if several and subject is None:
        first = several[0]
        notes.append(
            f"data sets such as {listed(sessions[first], 2)} are taken as sessions of one person, "
            f"{first!r}, because of their names; their strengths are averaged"
        )
    values, averaged = {}, dict.fromkeys(used, False)
    for person, tasks in sessions.items():
        values[person] = dict(table[tasks[0]])
        for name in used:
            found = [table[task][name] for task in tasks if not is_missing(table[task][name])]
            if len({str(value) for value in found}) <= 1:
                values[person][name] = found[0] if found else None
                continue
            values[person][name] = _average(found, name, person, name in categories)
            averaged[name] = True
    notes += [
        f"column {name!r} differs between the sessions of a person, and is averaged over them"
        for name, is_averaged in averaged.items()
        if is_averaged
    ]
    return People(sessions, values, tuple(notes))


def average_sessions(
    strengths: np.ndarray, variances: np.ndarray, rows: Sequence[Sequence[int]]
) -> np.ndarray:
    """Average Fisher's z (tasks, connections) over the rows of every person, weighted by precision.

    ``variances`` (tasks, connections) are those of sampling.
    """
    weights = 1.0 / variances
    return np.array(
        [
            (weights[tasks] * strengths[tasks]).sum(axis=0) / weights[tasks].sum(axis=0)
            for tasks in map(list, rows)
        ]
    )


def person_of(task: str) -> str:
    """Return the person that the name of a task says, or else the whole name.

    Examples
    --------
    >>> person_of("sub-01_ses-2"), person_of("S07_session1"), person_of("patient_7")
    ('sub-01', 'S07', 'patient_7')
    """
    match = _BIDS.fullmatch(task) or _SESSION.fullmatch(task)
    return match[1] if match else task


def _by_names(table: Values) -> dict[str, str]:
    """The person of every task by its name; a person with one task is called like the task."""
    people = {task: person_of(task) for task in table}
    counts: dict[str, int] = {}
    for person in people.values():
        counts[person] = counts.get(person, 0) + 1
    return {task: person if counts[person] > 1 else task for task, person in people.items()}


def _by_column(table: Values, column: str) -> dict[str, str]:
    """The person of every task by a column."""
    for task, values in table.items():
        if is_missing(values[column]):
            raise InputError(
                f"task {task!r} has no value in column {column!r}, which says whose session it is; "
                "fill it in"
            )
    people = {task: str(values[column]) for task, values in table.items()}
    divided: dict[str, str] = {}
    for task, person in people.items():
        known = divided.setdefault(person_of(task), person)
        if known != person and task != person_of(task):
            raise InputError(
                f"by column {column!r}, session {task!r} is of {person!r}, but another session of "
                f"{person_of(task)!r} is of {known!r}; a person must have one value in all sessions"
            )
    return people


def _separates(table: Values, owners: Mapping[str, str], blocks: str) -> bool:
    """Whether every block has tasks of one person only."""
    found: dict[str, set[str]] = {}
    for task, values in table.items():
        found.setdefault(str(values[blocks]), set()).add(owners[task])
    return all(len(people) == 1 for people in found.values())


def _average(values: Sequence[Any], name: str, person: str, is_category: bool) -> float:
    """The average of different values of a person, which must be numbers."""
    try:
        if is_category:
            raise ValueError
        return float(np.mean([float(value) for value in values]))
    except (TypeError, ValueError):
        raise InputError(
            f"column {name!r} has several values in the sessions of {person!r} "
            f"({listed(dict.fromkeys(values), 3)}), so that its sessions cannot be averaged. Leave the "
            "column out, or give blocks: a column with the person, and sessions change places within "
            "a person only"
        ) from None
