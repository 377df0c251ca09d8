"""From data and a table of participants to the folder of a comparison."""

import contextlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mtgbn
from mtgbn._utils.files import locked, read_json, write_json
from mtgbn._utils.names import listed, unknown_name
from mtgbn.compare.cohort import Cohort, read_cohort, task_of
from mtgbn.compare.comparison_folder import ABOUT_FILE, TABLES, write_study
from mtgbn.compare.participants import (
    Participants,
    choose_groups,
    is_control,
    participant_of,
    read_participants,
)
from mtgbn.compare.study import Study, SubjectStudy, check_comparison, compare_groups, compare_one
from mtgbn.compare.summary_text import study_sentences, subject_sentences
from mtgbn.compare.templates import find_templates
from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.learn import MTGBN
from mtgbn.report.page import REPORT_FILE
from mtgbn.results.folder import RESULT_FILE
from mtgbn.tasks.data_warnings import data_warnings
from mtgbn.workflows.output_folder import Progress, Tell, add_report, check_output_folder, silent

# Subfolder for checkpoints and stores, and the file in it that says what they belong to.
_WORK_FOLDER = "work"
_IDENTITY_FILE = "identity.json"
_READING: dict[str, Any] = {
    "standardise": False,
    "effective_samples": "bartlett",
    "missing": "error",
}
_COMPARISON: dict[str, Any] = {"fitting": "separate", "methods": ("mtgbn",), "n_edges": None}


@dataclass(frozen=True)
class Selection:
    """Who is compared with whom, over which variables.

    Parameters
    ----------
    column : str, optional
        Column of the groups in the table of participants; default: group, diagnosis, dx or similar.
    groups : (str, str), optional
        Labels of the groups a and b; default: the two labels of the table, controls as b.
    subject, controls : str, optional
        One subject, compared with the group ``controls``; default: the group that it is not in.
    templates, repetition_time : optional
        As for `mtgbn.compare.find_templates`; seconds between rows, instead of those in the files.
    """

    column: str | None = None
    groups: tuple[str, str] | None = None
    subject: str | None = None
    controls: str | None = None
    templates: str | os.PathLike[str] | None = None
    repetition_time: float | None = None


class ComparisonRun(NamedTuple):
    """The result of `compare_folder`: what was found, and where the tables and the report are."""

    folder: Path
    study: Study | SubjectStudy
    cohort: Cohort
    summary: tuple[str, ...]  # what was found, in sentences
    report: Path | None
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Whether all subjects with data were used and all fits converged."""
        converged = isinstance(self.study, SubjectStudy) or all(
            template.converged for template in self.study.templates
        )
        return converged and not self.cohort.excluded


def compare_folder(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    participants: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    reading: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    comparison: Mapping[str, Any] | None = None,
    seed: int = 1,
    n_jobs: int = -1,
    overwrite: bool = False,
    report: bool = True,
    record: Mapping[str, Any] | None = None,
    tell: Tell = silent,
    progress: Progress | None = None,
) -> ComparisonRun:
    r"""Compare two groups of subjects, or one subject with controls, and write tables and a report.

    Finished parts are kept in the folder; after an interruption the same call goes on to the same
    result.

    Parameters
    ----------
    data, reading
        As for `fit_folder`, but by default rows are time series (``effective_samples="bartlett"``).
    out : path
        The folder for the tables (see `mtgbn.compare.write_study`) and report.html.
    participants : path
        Table (.tsv or .csv) with the columns participant_id and group, one row per subject.
    selection : Selection, optional
        Groups, or the subject and its controls, and templates; default: the two groups of the table.
    parameters : mapping, optional
        Parameters of `MTGBN` by name.
    comparison : mapping, optional
        ``fitting``, ``n_permutations``, ``methods`` and ``n_edges`` of `mtgbn.compare.compare_groups`;
        only for two groups.
    seed, n_jobs : int
        Seed of all results, and number of parallel jobs (-1: all cores).
    overwrite : bool
        Replace a comparison of other data or settings in ``out``.
    report : bool
        Also write report.html.
    record : mapping, optional
        More entries of comparison.json.
    tell : callable
        Called with messages about the data.
    progress : callable, optional
        As for `mtgbn.compare.compare_groups`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(4, 40, 2))
    >>> quick = {"n_draws": 8, "n_restarts": 0, "max_iter": 2}
    >>> with tempfile.TemporaryDirectory() as name:
    ...     data, out, groups = (Path(name) / each for each in ("data.npz", "out", "groups.csv"))
    ...     np.savez(data, s1=rows[0], s2=rows[1], s3=rows[2], s4=rows[3])
    ...     table = "participant_id,group\ns1,patient\ns2,patient\ns3,control\ns4,control\n"
    ...     _ = groups.write_text(table)
    ...     run = compare_folder(data, out, groups, parameters=quick, report=False)
    >>> run.study.label_a, run.study.names_a
    ('patient', ('s1', 's2'))
    """
    chosen = Selection() if selection is None else selection
    if chosen.subject is None and chosen.controls is not None:
        raise InputError("controls are for the comparison of one subject; name the subject")
    if chosen.subject is not None and comparison:
        raise InputError(f"{listed(comparison)} are for the comparison of two groups")
    reading, parameters = _READING | dict(reading or {}), dict(parameters or {})
    folder = Path(out)
    check_output_folder(folder, data)
    is_ours = (folder / _WORK_FOLDER / _IDENTITY_FILE).exists()
    # A run that failed at once leaves an empty folder for its work.
    if not is_ours and any(path.is_file() for path in folder.rglob("*")):
        held = "the result of a fit" if (folder / RESULT_FILE).exists() else "other files"
        raise InputError(f"{str(folder)!r} holds {held}; give a new or empty folder")
    table = read_participants(participants, chosen.column)
    labels = _labels(table, chosen)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        cohort = read_cohort(
            *(data, table, labels),
            repetition_time=chosen.repetition_time,
            always=chosen.subject,
            **reading,
        )
    templates, notes = find_templates(cohort.tasks.variables, chosen.templates)
    notes = (*(str(each.message) for each in caught), *notes, *cohort.notes)
    notes += tuple(data_warnings(cohort.tasks))
    subject = None
    if chosen.subject is not None:
        reasons = {each.name: each.reason for each in cohort.excluded}
        subject = task_of(chosen.subject, [*cohort.tasks.names, *reasons])
        if subject in reasons:
            raise InputError(f"the data of {chosen.subject!r} cannot be used: {reasons[subject]}")
    _tell_who(tell, cohort, reading, subject, labels[0])
    for note in notes:
        tell(f"Note: {note}.")
    estimator = MTGBN(**{"missing": reading["missing"], **parameters})
    used = _COMPARISON | dict(comparison or {})
    settings = {
        "reading": reading,
        "participants_column": table.column,
        "groups": list(labels),
        "templates": {key: list(variables) for key, variables in templates.items()},
        "learner": {key: value for key, value in parameters.items() if value is not None},
        **({"fitting": used["fitting"]} if subject is None else {"subject": subject}),
        "seed": seed,
    }
    identity = {"mtgbn": mtgbn.__version__, "labels": list(cohort.groups), **settings}
    identity["data"] = cohort.tasks.fingerprint({})["data"]
    about = _about(cohort, table, settings, notes) | dict(record or {})
    series: dict[str, Any] = {"series": cohort.series, "repetition_time": cohort.repetition_time}
    # Everything that can be refused is refused before an earlier comparison is touched.
    for_methods = (used["methods"], used["n_edges"], *series.values()) if subject is None else ()
    check_comparison(cohort.tasks, estimator, templates, subject=subject, for_methods=for_methods)
    start = time.monotonic()
    with _owned(folder, identity, overwrite) as work:
        options: dict[str, Any] = {
            "templates": templates,
            "random_state": seed,
            "n_jobs": n_jobs,
            "folder": work,
            "progress": progress,
        }
        study: Study | SubjectStudy
        if subject is not None:
            study = compare_one(cohort.tasks, subject, estimator, **options)
            summary = subject_sentences(study)
        else:
            is_a = cohort.is_in(labels[0])
            options |= {"labels": labels, **used, **series}
            study = compare_groups(cohort.tasks, is_a, estimator, **options)
            summary = study_sentences(study)
            summary += [f"Warning: {each}." for one in study.templates for each in one.warnings]
        (folder / REPORT_FILE).unlink(missing_ok=True)  # the report of the tables replaced now
        write_study(study, folder, about)
        page = add_report(folder, tell, study, about=about) if report else None
    return ComparisonRun(folder, study, cohort, tuple(summary), page, time.monotonic() - start)


def _labels(table: Participants, chosen: Selection) -> tuple[str, ...]:
    """Return the labels of the groups to read: two, or the label of the controls."""
    subject, controls = chosen.subject, chosen.controls
    if subject is None:
        return choose_groups(table, chosen.groups)
    if controls is not None:
        if controls not in table.labels.values():
            known = sorted({label for label in table.labels.values() if label})
            raise InputError(
                f"there are no controls {controls!r} in column {table.column!r} of {table.source!r}, "
                f"but {listed(known) or 'no label at all'}"
            )
        return (controls,)
    name = participant_of(subject, table.labels)
    if name is None:
        unknown = unknown_name(subject.removeprefix("sub-"), list(table.labels), "participant")
        raise InputError(
            f"{table.source!r}: {unknown}. For a subject with data but without a row, give the label of "
            "the controls (--controls LABEL)"
        )
    own = table.labels[name]
    if own is None:
        raise InputError(
            f"{subject!r} has no group in {table.source!r}; give the label of the controls "
            "(--controls)"
        )
    if is_control(own):
        raise InputError(
            f"{subject!r} is in group {own!r}, a control; to compare it with the other controls give "
            f"--controls {own!r}, to compare it with another group the label of that group"
        )
    first, second = choose_groups(table)
    return (second if own == first else first,)


def _tell_who(
    tell: Tell, cohort: Cohort, reading: Mapping[str, Any], subject: str | None, label: str
) -> None:
    tasks, n_rows = cohort.tasks, cohort.n_rows
    tell(
        f"{len(tasks)} subjects over {tasks.n_variables} variables; rows {n_rows.min()} to "
        f"{n_rows.max()}, worth n = {tasks.ns.min():.4g} to {tasks.ns.max():.4g} samples "
        f"(--effective-samples {reading['effective_samples']})."
    )
    if subject is not None:
        tell(f"Controls: {len(tasks) - 1} subjects of group {label!r}.")
    for each in cohort.excluded:
        tell(f"Excluded: {each.name}: {each.reason}.")
    if cohort.without_data:
        tell(f"Without data: {listed(cohort.without_data)}.")
    for other, count in cohort.other_groups.items():
        tell(f"Not compared: {count} of group {other!r}.")


def _about(
    cohort: Cohort, table: Participants, settings: dict[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    """Return what comparison.json says about the data and the settings."""
    tasks = cohort.tasks
    return {
        "settings": settings,
        "repetition_time": cohort.repetition_time,
        "subjects": [
            {"subject": name, "group": group or None, "rows": int(rows), "n": float(n)}
            for name, group, rows, n in zip(
                tasks.names, cohort.groups, cohort.n_rows, tasks.ns, strict=True
            )
        ],
        "excluded": [each._asdict() for each in cohort.excluded],
        "participants_without_data": list(cohort.without_data),
        "subjects_of_other_groups": cohort.other_groups,
        "participants_table": Path(table.source).name,
        "warnings": list(notes),
    }


@contextlib.contextmanager
def _owned(folder: Path, identity: dict[str, Any], overwrite: bool) -> Iterator[Path]:
    """Lock the folder, and return its subfolder for work in progress of the same data and settings."""
    is_new = not folder.exists()
    work = folder / _WORK_FOLDER
    work.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            earlier = read_json(work / _IDENTITY_FILE)
            if earlier and earlier != json.loads(json.dumps(identity)):
                if not overwrite:
                    raise InputError(
                        f"{str(folder)!r} holds a comparison of other data or settings; use another "
                        "folder, or --overwrite"
                    )
                _empty(folder)
            for part in folder.rglob(".*.part"):
                if part.is_file():
                    part.unlink(missing_ok=True)
            write_json(work / _IDENTITY_FILE, identity)
            yield work
            for checkpoint in work.glob("*/group-*.npz"):  # large, and not needed any more
                checkpoint.unlink()
    except (InputError, OSError):
        files = {path.name for path in folder.rglob("*") if path.is_file()}
        if is_new and files <= {_IDENTITY_FILE}:  # otherwise there is work to resume from
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _empty(folder: Path) -> None:
    """Remove the files of an earlier comparison, and no others."""
    tables = [f"{table}.{kind}" for table in TABLES for kind in ("tsv", "json")]
    for name in (REPORT_FILE, ABOUT_FILE, *tables):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / _WORK_FOLDER)
    (folder / _WORK_FOLDER).mkdir()
