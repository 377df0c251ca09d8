"""`mtgbn compare`: two groups, or one subject and controls, from data to a folder of tables."""

import contextlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import mtgbn
from mtgbn._utils.files import locked, read_json, write_json
from mtgbn._utils.names import unknown_name
from mtgbn.cli.output import (
    Watch,
    add_report,
    check_is_folder,
    check_is_writable,
    duration,
    say_to,
)
from mtgbn.compare.cohort import Cohort, read_cohort, task_of
from mtgbn.compare.comparison_folder import ABOUT_FILE, TABLES, write_study
from mtgbn.compare.participants import (
    Participants,
    choose_groups,
    is_control,
    participant_of,
    read_participants,
)
from mtgbn.compare.study import check_comparison, check_subject, compare_groups, compare_one
from mtgbn.compare.templates import find_templates
from mtgbn.compare.words import study_in_words, subject_in_words
from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.fmri.regions import some
from mtgbn.learn import MTGBN
from mtgbn.learn.checkpoint import fingerprint
from mtgbn.report.page import REPORT_FILE
from mtgbn.tasks.notes import notes_on

__all__ = ["run_compare"]

# Exit code when all is written, but there is something to know.
WITH_WARNINGS = 3

_WORK = "work"
_IDENTITY = "identity.json"


def run_compare(
    data: str,
    out: str,
    *,
    participants: str,
    column: str | None,
    groups: tuple[str, str] | None,
    templates: str | None,
    reading: dict[str, Any],
    learning: dict[str, Any],
    fitting: str,
    permutations: int,
    methods: str,
    density: int | None,
    subject: str | None,
    controls: str | None,
    tr: float | None,
    seed: int,
    jobs: int,
    overwrite: bool,
    report: bool,
    quiet: bool,
    simulation: dict[str, Any] | None = None,
) -> int:
    """Compare, write, say what was found; returns the exit code.

    ``simulation`` is the truth behind simulated data, for the report.
    """
    console = Console(stderr=True, quiet=quiet, emoji=False, soft_wrap=True)
    say = partial(say_to, console)
    folder = Path(out)
    _check_folder(data, folder)
    table = read_participants(participants, column)
    labels = _labels(table, groups, subject, controls)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        cohort = read_cohort(data, table, labels, repetition_time=tr, always=subject, **reading)
    parts, notes = find_templates(cohort.tasks.variables, templates)
    notes = [*map(str, (each.message for each in caught)), *notes, *cohort.notes]
    notes += notes_on(cohort.tasks)
    name = _subject(subject, cohort)
    _say_who(say, cohort, reading, notes, name, labels[0])
    learner = MTGBN(**learning)
    settings = {
        "reading": reading,
        "participants_column": table.column,
        "groups": list(labels),
        "templates": {key: list(variables) for key, variables in parts.items()},
        "learner": {key: value for key, value in learning.items() if value is not None},
        "fitting": fitting,
        "seed": seed,
    }
    if subject is not None:
        settings |= {"subject": name}
        del settings["fitting"]
    identity = {
        "mtgbn": mtgbn.__version__,
        "data": fingerprint(cohort.tasks, {})["data"],
        "labels": list(cohort.groups),
        **settings,
    }
    about = _about(cohort, table, settings, notes)
    if simulation is not None:
        about["simulation"] = simulation
    options = {"templates": parts, "random_state": seed, "n_jobs": jobs}
    asked = {
        "methods": [each.strip() for each in methods.split(",") if each.strip()],
        "n_edges": density,
        "series": cohort.series,
        "repetition_time": cohort.repetition_time,
    }
    # All that can be refused is refused before an earlier comparison is touched.
    if name is not None:
        check_subject(cohort.tasks, name, learner, templates=parts)
    else:
        check_comparison(cohort.tasks, learner, templates=parts, **asked)
    start = time.monotonic()
    with _owned(folder, identity, overwrite) as work, Watch(console) as watch:
        if name is not None:
            found = compare_one(
                cohort.tasks, name, learner, folder=work, progress=watch.moved, **options
            )
            (folder / REPORT_FILE).unlink(missing_ok=True)  # of tables that are replaced now
            path = write_study(found, folder, about)
            lines, converged = subject_in_words(found), True
        else:
            study = compare_groups(
                cohort.tasks,
                cohort.is_in(labels[0]),
                learner,
                labels=labels,
                fitting=fitting,
                n_permutations=permutations,
                folder=work,
                progress=watch.moved,
                **asked,
                **options,
            )
            (folder / REPORT_FILE).unlink(missing_ok=True)
            path = write_study(study, folder, about)
            lines = study_in_words(study)
            converged = all(each.converged for each in study.templates)
            lines += [f"Warning: {each}." for one in study.templates for each in one.warnings]
        result = study if name is None else found
        page = add_report(folder, say, result, about=about) if report else None
    for line in lines:
        say(line)
    say(f"Wrote {path} and tables after {duration(time.monotonic() - start)}.")
    if page is not None:
        say(f"Open {page} in a browser.")
    return 0 if converged and not cohort.excluded else WITH_WARNINGS


def _labels(
    table: Participants,
    groups: tuple[str, str] | None,
    subject: str | None,
    controls: str | None,
) -> tuple[str, ...]:
    """Labels of the groups to read: two, or that of the controls."""
    if subject is None:
        return choose_groups(table, groups)
    if controls is not None:
        if controls not in table.labels.values():
            known = sorted({label for label in table.labels.values() if label})
            raise InputError(
                f"there are no controls {controls!r} in column {table.column!r} of {table.source!r}, "
                f"but {some(known) or 'no label at all'}"
            )
        return (controls,)
    name = participant_of(subject, table.labels)
    if name is None:
        unknown = unknown_name(subject.removeprefix("sub-"), list(table.labels), "participant")
        raise InputError(
            f"{table.source!r}: {unknown}. Who has data but no row there is compared with --controls "
            "LABEL"
        )
    own = table.labels[name]
    if own is None:
        raise InputError(
            f"{subject!r} has no group in {table.source!r}; say which group are the controls "
            "(--controls)"
        )
    if is_control(own):
        raise InputError(
            f"{subject!r} is in group {own!r}, a control; to compare it with the other controls give "
            f"--controls {own!r}, with another group that group's label"
        )
    first, second = choose_groups(table)
    return (second if own == first else first,)


def _subject(subject: str | None, cohort: Cohort) -> str | None:
    """The task of the subject; an error if it cannot be used."""
    if subject is None:
        return None
    for each in cohort.excluded:
        if participant_of(each.name, {subject, subject.removeprefix("sub-")}) is not None:
            raise InputError(f"the data of {subject!r} cannot be used: {each.reason}")
    return task_of(subject, cohort.tasks.names)


def _say_who(
    say, cohort: Cohort, reading: dict[str, Any], notes: list[str], subject: str | None, label: str
) -> None:
    tasks = cohort.tasks
    say(
        f"{len(tasks)} subjects over {tasks.n_variables} variables; rows {tasks.n_rows.min()} to "
        f"{tasks.n_rows.max()}, worth n = {tasks.ns.min():.4g} to {tasks.ns.max():.4g} samples "
        f"(--effective-samples {reading['effective_samples']})."
    )
    if subject is not None:
        say(f"Controls: {len(tasks) - 1} subjects of group {label!r}.")
    for each in cohort.excluded:
        say(f"Excluded: {each.name}: {each.reason}.")
    if cohort.without_data:
        say(f"Without data: {some(cohort.without_data)}.")
    for label, count in cohort.other_groups.items():
        say(f"Not compared: {count} of group {label!r}.")
    for note in notes:
        say(f"Note: {note}.")


def _about(
    cohort: Cohort, table: Participants, settings: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """What comparison.json says of the data and the settings."""
    tasks = cohort.tasks
    return {
        "settings": settings,
        "repetition_time": cohort.repetition_time,
        "subjects": [
            {"subject": name, "group": group or None, "rows": int(rows), "n": float(n)}
            for name, group, rows, n in zip(
                tasks.names, cohort.groups, tasks.n_rows, tasks.ns, strict=True
            )
        ],
        "excluded": [each._asdict() for each in cohort.excluded],
        "participants_without_data": list(cohort.without_data),
        "subjects_of_other_groups": cohort.other_groups,
        "participants_table": Path(table.source).name,
        "warnings": notes,
    }


def _check_folder(data: str, folder: Path) -> None:
    check_is_folder(folder)
    if os.path.realpath(folder) == os.path.realpath(data):
        raise InputError(f"{str(folder)!r} holds the data; give another folder for the results")
    if not folder.exists():
        return
    check_is_writable(folder)
    is_ours = (folder / _WORK / _IDENTITY).exists()
    # A run that failed at once leaves an empty folder for its work.
    if not is_ours and any(path.is_file() for path in folder.rglob("*")):
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


@contextlib.contextmanager
def _owned(folder: Path, identity: dict[str, Any], overwrite: bool) -> Iterator[Path]:
    """The folder for work in progress, which is that of the same data and settings or empty."""
    is_new = not folder.exists()
    work = folder / _WORK
    work.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            earlier = read_json(work / _IDENTITY)
            if earlier and not _same(earlier, identity):
                if not overwrite:
                    raise InputError(
                        f"{str(folder)!r} holds a comparison of other data or settings; use another "
                        "folder, or --overwrite"
                    )
                _empty(folder)
            for part in folder.rglob(".*.part"):
                if part.is_file():
                    part.unlink(missing_ok=True)
            write_json(work / _IDENTITY, identity)
            yield work
            for checkpoint in work.glob("*/group-*.npz"):  # large, and of no use any more
                checkpoint.unlink()
    except (InputError, OSError):
        files = {path.name for path in folder.rglob("*") if path.is_file()}
        if is_new and files <= {_IDENTITY}:  # otherwise there is work to go on from
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _same(earlier: dict[str, Any], identity: dict[str, Any]) -> bool:
    return earlier == json.loads(json.dumps(identity))


def _empty(folder: Path) -> None:
    """Remove what this command wrote, and nothing else."""
    for name in (
        REPORT_FILE,
        ABOUT_FILE,
        *(f"{table}.{kind}" for table in TABLES for kind in ("tsv", "json")),
    ):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / _WORK)
    (folder / _WORK).mkdir()
