"""The subjects of a comparison: read, matched to their groups; what cannot be used is left out."""

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed, unknown_name
from mtgbn.compare.participants import Participants, participant_of, refuse_no_match
from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.fmri.extract import SAME_TR, Excluded
from mtgbn.fmri.regions import some
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.checks import finite_floats
from mtgbn.tasks.table import Table, align
from mtgbn.tasks.text_files import sidecar

__all__ = ["Cohort", "read_cohort", "task_of"]

# Seconds; no scanner is so slow.
_LONGEST_TIME = 1000.0


class Cohort(NamedTuple):
    """Subjects with data and a label.

    Attributes
    ----------
    tasks : Tasks
    groups : tuple of str
        The label of every subject.
    series : dict
        The rows of every subject, (rows, p), for methods that need them; empty if values are missing.
    repetition_time : float or None
        Seconds between rows, as given or as the files beside the series say.
    excluded : tuple of Excluded
        Subjects with data that are not used, and why.
    without_data : tuple of str
        Participants of these groups without data.
    other_groups : dict
        How many subjects with data have another label.
    notes : tuple of str
    """

    tasks: Tasks
    groups: tuple[str, ...]
    series: dict[str, np.ndarray]
    repetition_time: float | None
    excluded: tuple[Excluded, ...]
    without_data: tuple[str, ...]
    other_groups: dict[str, int]
    notes: tuple[str, ...]

    def is_in(self, label: str) -> np.ndarray:
        """Which subjects have this label."""
        return np.array([group == label for group in self.groups])


def read_cohort(
    data: str | os.PathLike[str],
    participants: Participants,
    groups: Sequence[str],
    *,
    pattern: str | None = None,
    task: str = "task",
    repetition_time: float | None = None,
    always: str | None = None,
    **options: Any,
) -> Cohort:
    """Read the series of all participants of some groups.

    A subject that cannot be used, such as one with a damaged file, a constant region, other variables
    or another TR than most, is left out with the reason, and the others are kept.

    Parameters
    ----------
    data : path
        What `Tasks.from_folder` or `Tasks.from_file` reads.
    participants : Participants
    groups : sequence of str
        Labels; subjects with others are not read.
    pattern, task
        As for `Tasks.from_folder` and `Tasks.from_file`.
    repetition_time : float, optional
        Instead of what the files beside the series say.
    always : str, optional
        A subject that is used whatever its label, or without any; with or without ``sub-``.
    **options
        ``standardise``, ``effective_samples``, ``missing``; see `Tasks`.
    """
    excluded: list[Excluded] = []
    tables = read_tables(
        data,
        pattern=pattern,
        task=task,
        unreadable=lambda name, error: excluded.append(Excluded(name, str(error))),
    )
    names = [table.task for table in tables] + [each.name for each in excluded]
    refuse_no_match(participants, names)
    _refuse_several(names, participants)
    wanted = task_of(always, names) if always else None
    other_groups: Counter[str] = Counter()
    chosen: list[tuple[Table, str]] = []
    for table in tables:
        name = participant_of(table.task, participants.labels)
        label = None if name is None else participants.labels[name]
        if label in groups or table.task == wanted:
            chosen.append((table, label or ""))
        elif label is not None:
            other_groups[label] += 1
        else:
            reason = (
                "has no row" if name is None else f"has no label in column {participants.column!r}"
            )
            excluded.append(Excluded(table.task, f"{reason} of {participants.source!r}"))
    if repetition_time is None:
        repetition_time, odd = _usual_time([table for table, _ in chosen])
        excluded += odd
    without = {each.name for each in excluded}
    excluded += _unusable([table for table, _ in chosen if table.task not in without], options)
    without = {each.name for each in excluded}
    kept = [(table, label) for table, label in chosen if table.task not in without]
    for label in groups:
        _refuse_small(label, sum(own == label for _, own in kept), excluded)
    used = [table for table, _ in kept]
    tasks = Tasks.from_tables(used, **options)
    series = {}
    if not tasks.incomplete:
        series = {table.task: finite_floats(table) for table in align(used)}
    present = {participant_of(name, participants.labels) for name in names}
    without_data = [
        name
        for name, label in participants.labels.items()
        if label in groups and name not in present
    ]
    return Cohort(
        tasks,
        tuple(label for _, label in kept),
        series,
        repetition_time,
        tuple(excluded),
        tuple(without_data),
        dict(sorted(other_groups.items())),
        tuple(_gaps(used)),
    )


def task_of(subject: str, tasks: Sequence[str]) -> str:
    """The task of a subject who is named with or without ``sub-``."""
    for name in tasks:
        if participant_of(name, {subject, subject.removeprefix("sub-")}) is not None:
            return name
    raise unknown_name(subject, tasks, "subject")


def _refuse_several(tasks: Sequence[str], participants: Participants) -> None:
    """Two series of one participant would count as two subjects."""
    owner: dict[str, str] = {}
    for task in tasks:
        name = participant_of(task, participants.labels)
        if name is not None and owner.setdefault(name, task) != task:
            raise InputError(
                f"participant {name!r} has several series, {owner[name]!r} and {task!r}, which "
                "are not independent subjects; choose one with a pattern (such as "
                "'**/*_ses-1_*timeseries.tsv'), or join them"
            )


def _usual_time(tables: Sequence[Table]) -> tuple[float | None, list[Excluded]]:
    """The TR of most subjects, and those who have another one."""
    known = {}
    for table in tables:
        time = sidecar(table.file).get("RepetitionTime")
        if time is None:
            continue
        is_number = isinstance(time, int | float) and not isinstance(time, bool)
        if not (is_number and 0 < time < _LONGEST_TIME):
            raise InputError(
                f"RepetitionTime in the .json beside {table.file!r} is {str(time)[:20]}, no number of "
                "seconds above 0; mend it, or give the TR of all (--tr)"
            )
        known[table.task] = float(time)
    if not known:
        return None, []
    counts = Counter(round(time, 3) for time in known.values())
    (usual, most), *_ = counts.most_common()
    if 2 * most <= len(known) and len(counts) > 1:
        shown = ", ".join(f"{count} with {time:g} s" for time, count in sorted(counts.items()))
        raise InputError(
            f"subjects have different TRs ({shown}), and none is that of most; compare subjects of one "
            "TR (choose with a pattern), or say that it does not matter by giving the TR (--tr)"
        )
    odd = [
        Excluded(name, f"its TR is {time:g} s, that of most others {usual:g} s")
        for name, time in known.items()
        if abs(time - usual) > SAME_TR * max(time, usual)
    ]
    return usual, odd


def _unusable(tables: Sequence[Table], options: Mapping[str, Any]) -> list[Excluded]:
    """Subjects that cannot be read by themselves, or have other variables than most."""
    if options.get("missing") == "em":
        return []  # a subject may lack what others have
    usual = Counter(frozenset(table.columns) for table in tables).most_common(1)
    reference = next((t for t in tables if frozenset(t.columns) == usual[0][0]), None)
    found = []
    for table in tables:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollinearityWarning)  # all at once, later
            try:
                align([reference, table] if table is not reference else [table])
                Tasks.from_tables([table], **options)
            except InputError as error:
                found.append(Excluded(table.task, str(error)))
    return found


def _refuse_small(label: str, size: int, excluded: Sequence[Excluded]) -> None:
    if size > 1:
        return
    reasons = some([f"{each.name}: {each.reason}" for each in excluded], 3)
    count = "has one subject with usable data; at least two are needed"
    raise InputError(
        f"group {label!r} {count if size else 'is empty: none of its participants has usable data'}"
        + (f". Excluded: {reasons}" if reasons else "")
    )


def _gaps(tables: Sequence[Table]) -> list[str]:
    """Series whose rows do not all follow each other in time."""
    gaps = []
    for table in tables:
        runs = sidecar(table.file).get("Runs")
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            continue  # somebody else's file
        if len(runs) > 1 or any(run.get("VolumesScrubbed") for run in runs):
            gaps.append(table.task)
    if not gaps:
        return []
    return [
        f"series with joined runs or scrubbed volumes, which methods for time series take for "
        f"uninterrupted: {listed(gaps)}"
    ]
