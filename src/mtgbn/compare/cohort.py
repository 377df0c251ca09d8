"""Read the subjects of a comparison, match them to their groups, and leave out unusable data."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed, unknown_name
from mtgbn.compare.participants import Participants, participant_of
from mtgbn.errors import InputError
from mtgbn.fmri.extract import SAME_TR, Excluded
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.reduction import ReducedTask, reduce_table
from mtgbn.tasks.table import Table, align, align_with, usual_table
from mtgbn.tasks.text_files import sidecar

# In seconds; a longer repetition time is an error in the file.
_LONGEST_REPETITION_TIME = 1000.0

# The part of a name that tells sessions and runs of one person apart.
_SESSION = re.compile(r"[_-](?:ses|session|run|visit)[_-]?[^_-]+", re.IGNORECASE)


class Cohort(NamedTuple):
    """Subjects with data and a label, or of all participants."""

    tasks: Tasks
    groups: tuple[str, ...]  # the label of every subject; empty text without groups
    series: dict[str, np.ndarray]  # rows of every subject, (rows, p); empty if values are missing
    repetition_time: float | None  # seconds between rows
    excluded: tuple[Excluded, ...]  # subjects with data that are not used
    without_data: tuple[str, ...]  # participants of the groups, spelled as those with data are
    other_groups: dict[str, int]  # subjects with data per label that is not compared
    notes: tuple[str, ...]  # warnings about the series

    @property
    def n_rows(self) -> np.ndarray:
        """Rows of every subject, (m,)."""
        assert self.tasks.n_rows is not None  # tasks that were read from rows have it
        return self.tasks.n_rows

    def is_in(self, label: str) -> np.ndarray:
        """Return the mask of the subjects with this label."""
        return np.array([group == label for group in self.groups])


def read_cohort(
    data: str | os.PathLike[str],
    participants: Participants,
    groups: Sequence[str] | None,
    *,
    pattern: str | None = None,
    task: str = "task",
    repetition_time: float | None = None,
    always: str | None = None,
    with_sessions: bool = False,
    **options: Any,
) -> Cohort:
    """Read the series of all participants of some groups; participants of others are only counted.

    With ``groups`` None the series of all participants are read, with or without a label.

    A subject whose data cannot be used (a damaged file, a constant variable, or other variables or
    another TR than most subjects) is left out with the reason, and the others are kept.

    ``repetition_time`` replaces the values in the files beside the series. The subject ``always``,
    named with or without ``sub-``, is used with any label, or without one. A participant may have
    several series only ``with_sessions``, and if their names say that they are sessions.
    ``pattern``, ``task`` and ``options`` (``standardise``, ``effective_samples``, ``missing``) are
    those of `Tasks.from_folder` and `Tasks.from_file`.
    """
    excluded: list[Excluded] = []
    tables = read_tables(
        data,
        pattern=pattern,
        task=task,
        unreadable=lambda name, error: excluded.append(Excluded(name, str(error))),
    )
    names = [table.task for table in tables] + [each.name for each in excluded]
    _refuse_mismatch(names, participants, with_sessions)
    wanted = task_of(always, names) if always else None
    other_groups: Counter[str] = Counter()
    chosen: list[tuple[Table, str]] = []
    for table in tables:
        name = participant_of(table.task, participants.labels)
        label = None if name is None else participants.labels[name]
        is_meant = name is not None if groups is None else label in groups
        if is_meant or table.task == wanted:
            chosen.append((table, label or ""))
        elif label is not None:
            other_groups[label] += 1
        else:
            reason = (
                "has no row" if name is None else f"has no label in column {participants.column!r}"
            )
            excluded.append(Excluded(table.task, f"{reason} of {participants.source!r}"))
    if repetition_time is None:
        repetition_time = _usual_repetition_time([table for table, _ in chosen], excluded)
    without = {each.name for each in excluded}
    usable = [table for table, _ in chosen if table.task not in without]
    reduced = _reduce(usable, options, excluded)
    label_of = {table.task: label for table, label in chosen}
    labels = [label_of[each.table.task] for each in reduced]
    if not reduced:
        raise InputError(f"no subject has usable data{_reasons(excluded)}")
    for label in groups or ():
        _refuse_small_group(label, labels.count(label), excluded)
    tasks = Tasks.from_reduced(reduced)
    series = {} if tasks.incomplete else {each.table.task: each.table.values for each in reduced}
    present = {participant_of(name, participants.labels) for name in names}
    expected = [
        name for name, label in participants.labels.items() if groups is None or label in groups
    ]
    prefix = "sub-" if all(name.startswith("sub-") for name in tasks.names) else ""
    return Cohort(
        tasks=tasks,
        groups=tuple(labels),
        series=series,
        repetition_time=repetition_time,
        excluded=tuple(excluded),
        without_data=tuple(prefix + name for name in expected if name not in present),
        other_groups=dict(sorted(other_groups.items())),
        notes=tuple(_notes_on_gaps([each.table for each in reduced])),
    )


def task_of(subject: str, tasks: Sequence[str]) -> str:
    """Return the task of a subject who is named with or without ``sub-``."""
    for name in tasks:
        if participant_of(name, {subject, subject.removeprefix("sub-")}) is not None:
            return name
    raise unknown_name(subject, tasks, "subject")


def _refuse_mismatch(tasks: Sequence[str], participants: Participants, with_sessions: bool) -> None:
    """Refuse data of no participant, and two series of one, which would count as two subjects."""
    _refuse_other_spelling(tasks, participants)
    if not any(participant_of(task, participants.labels) for task in tasks):
        raise InputError(
            f"none of the participants of {participants.source!r} ({listed(participants.labels, 3)}) "
            f"has data; the data are of {listed(tasks, 3)}. Use the same names in both"
        )
    owner: dict[str, str] = {}
    for task in tasks:
        name = participant_of(task, participants.labels)
        if name is None or owner.setdefault(name, task) == task:
            continue
        if not (with_sessions and _SESSION.sub("", task) == _SESSION.sub("", owner[name])):
            raise InputError(
                f"participant {name!r} has several series, {owner[name]!r} and {task!r}, which "
                "are not independent subjects; choose one with a pattern (such as "
                "'**/*_ses-1_*timeseries.tsv'), or join them"
            )


def _refuse_other_spelling(tasks: Sequence[str], participants: Participants) -> None:
    """Refuse names that are the same but for capitals or leading zeros, which spreadsheets remove."""

    def plain(name: str) -> str:
        own = name.casefold().removeprefix("sub-").partition("_")[0]
        return re.sub(r"(?<!\d)0+(?=\d)", "", own)

    with_data = {participant_of(task, participants.labels) for task in tasks}
    known = {plain(name): name for name in participants.labels if name not in with_data}
    for task in tasks:
        name = known.get(plain(task))
        if name is not None and participant_of(task, participants.labels) is None:
            raise InputError(
                f"participant {name!r} of {participants.source!r} and the data of {task!r} differ in "
                "capitals or leading zeros only; write them alike"
            )


def _usual_repetition_time(tables: Sequence[Table], excluded: list[Excluded]) -> float | None:
    """Return the TR of most subjects, and exclude the subjects with another TR."""
    known = {}
    for table in tables:
        time = sidecar(table.file).get("RepetitionTime")
        if time is None:
            continue
        is_number = isinstance(time, int | float) and not isinstance(time, bool)
        if not (is_number and 0 < time < _LONGEST_REPETITION_TIME):
            raise InputError(
                f"RepetitionTime in the .json beside {table.file!r} is {str(time)[:20]}, which is not a "
                "number of seconds above 0; correct it, or give the TR of all (--tr)"
            )
        known[table.task] = float(time)
    if not known:
        return None
    counts = Counter(round(time, 3) for time in known.values())
    (usual, most), *_ = counts.most_common()
    if 2 * most <= len(known) and len(counts) > 1:
        shown = ", ".join(f"{count} with {time:g} s" for time, count in sorted(counts.items()))
        raise InputError(
            f"subjects have different TRs ({shown}), and most subjects share none of them; compare "
            "subjects with the same TR (choose with a pattern), or give one TR for all (--tr)"
        )
    excluded += [
        Excluded(name, f"its TR is {time:g} s, the TR of most others {usual:g} s")
        for name, time in known.items()
        if abs(time - usual) > SAME_TR * max(time, usual)
    ]
    return usual


def _reduce(
    tables: Sequence[Table], options: Mapping[str, Any], excluded: list[Excluded]
) -> list[ReducedTask]:
    """Reduce every subject; exclude unusable data, and other variables than those of most."""
    if options.get("missing") == "em":  # a subject may lack variables that others have
        return [reduce_table(table, **options) for table in align(tables, union=True)]
    reduced = []
    reference = usual_table(tables) if tables else None
    for table in tables:
        try:
            aligned = table if reference is None else align_with(reference, table)
            reduced.append(reduce_table(aligned, **options))
        except InputError as error:
            excluded.append(Excluded(table.task, str(error)))
    return reduced


def _refuse_small_group(label: str, size: int, excluded: Sequence[Excluded]) -> None:
    if size > 1:
        return
    count = "has one subject with usable data; at least two are needed"
    raise InputError(
        f"group {label!r} {count if size else 'is empty: none of its participants has usable data'}"
        f"{_reasons(excluded)}"
    )


def _reasons(excluded: Sequence[Excluded]) -> str:
    """Say who was excluded and why, at the end of a sentence."""
    if not excluded:
        return ""
    reasons = "; ".join(f"{each.name}: {each.reason}" for each in excluded[:3])
    more = f" and {len(excluded) - 3} more" if len(excluded) > 3 else ""
    return f". Excluded: {reasons}{more}"


def _notes_on_gaps(tables: Sequence[Table]) -> list[str]:
    """Name the series with gaps in time between rows."""
    gaps = []
    for table in tables:
        runs = sidecar(table.file).get("Runs")
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            continue  # the file of another program
        if len(runs) > 1 or any(run.get("VolumesScrubbed") for run in runs):
            gaps.append(table.task)
    if not gaps:
        return []
    return [
        f"series with joined runs or scrubbed volumes, which methods for time series treat as "
        f"uninterrupted: {listed(gaps)}"
    ]
