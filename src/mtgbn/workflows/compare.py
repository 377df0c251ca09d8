"""From data and a table of participants to the folder of a comparison."""

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mtgbn
from mtgbn._utils.labels import is_control
from mtgbn._utils.names import listed, unknown_name
from mtgbn.compare.cohort import Cohort, read_cohort, task_of
from mtgbn.compare.comparison_folder import write_study
from mtgbn.compare.covariates import design_of_subject
from mtgbn.compare.design import formula_columns
from mtgbn.compare.design_effect import held_constant
from mtgbn.compare.design_folder import (
    Question,
    covariates_of_unused,
    plan_design,
    spelled_values,
    with_checkpoints,
)
from mtgbn.compare.design_study import DesignStudy, compare_design
from mtgbn.compare.design_tables import fit_warnings, is_converged
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.compare.participants import (
    Participants,
    all_groups,
    choose_groups,
    participant_of,
    read_participants,
)
from mtgbn.compare.sessions import person_of
from mtgbn.compare.strengths import check_strengths
from mtgbn.compare.study import Study, SubjectStudy, check_comparison, compare_groups, compare_one
from mtgbn.compare.summary_text import study_sentences, subject_sentences
from mtgbn.compare.templates import coordinates_in, find_templates
from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.learn import MTGBN
from mtgbn.report.page import REPORT_FILE
from mtgbn.tasks.data_warnings import data_warnings
from mtgbn.workflows.comparison_owner import owned, refuse_other_files
from mtgbn.workflows.output_folder import Progress, Tell, add_report, check_output_folder, silent

AnyStudy = DesignStudy | Study | SubjectStudy
Way = Literal["design", "paper", "subject"]

_READING: dict[str, Any] = {
    "standardise": False,
    "effective_samples": "bartlett",
    "missing": "error",
}
_PAPER: dict[str, Any] = {"fitting": "separate", "methods": ("mtgbn",), "n_edges": None}


@dataclass(frozen=True)
class Selection:
    """Who is compared, over which variables.

    Parameters
    ----------
    column : str, optional
        Column of the groups in the table of participants; default: group, diagnosis, dx or similar.
    groups : (str, str), optional
        Only subjects with these labels are compared; in the paper's way they are the groups a and b.
        Default: all groups; in the paper's way the two labels of the table, controls as b.
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
    study: AnyStudy
    cohort: Cohort
    summary: tuple[str, ...]  # what was found, in sentences
    report: Path | None
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Whether all subjects with data were used and all fits converged."""
        study = self.study
        if self.cohort.excluded:
            return False
        if isinstance(study, DesignStudy):
            return is_converged(study) and not study.design.left_out
        return isinstance(study, SubjectStudy) or all(each.converged for each in study.templates)


class _Job(NamedTuple):
    """One way of comparing, checked and ready to run."""

    settings: dict[str, Any]  # what decides the result, beyond the data and the learner
    run: Callable[..., AnyStudy]  # takes the options that all ways have in common
    sentences: Callable[[Any], list[str]]
    covariates: Mapping[str, Mapping[str, str]] = {}  # by subject
    about: Mapping[str, Any] = {}  # more entries of comparison.json
    notes: tuple[str, ...] = ()
    first_sentences: tuple[str, ...] = ()  # what will be done, before it is done


def compare_folder(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    participants: str | os.PathLike[str],
    *,
    selection: Selection | None = None,
    reading: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    design: Mapping[str, Any] | None = None,
    paper: Mapping[str, Any] | bool = False,
    seed: int = 1,
    n_jobs: int = -1,
    overwrite: bool = False,
    report: bool = True,
    record: Mapping[str, Any] | None = None,
    tell: Tell = silent,
    progress: Progress | None = None,
) -> ComparisonRun:
    r"""Test what connections depend on, or compare one subject with controls; write tables and a report.

    All subjects are learned in one fit that knows neither groups nor covariates, and the strengths of
    connections are tested by permutation (`mtgbn.compare.compare_design`).

    Finished parts are kept in the folder; after an interruption the same call goes on to the same
    result.

    Parameters
    ----------
    data, reading
        As for `fit_folder`, but by default rows are time series (``effective_samples="bartlett"``).
    out : path
        The folder for the tables (see `mtgbn.compare.write_study`) and report.html.
    participants : path
        Table (.tsv or .csv) with the column participant_id and columns of groups and covariates, one
        row per subject.
    selection : Selection, optional
        Groups, or the subject and its controls, and templates; default: all groups of the table.
    parameters : mapping, optional
        Parameters of `MTGBN` by name.
    design : mapping, optional
        ``formula``, ``test``, ``contrast``, ``blocks``, ``n_permutations`` and ``probabilities`` of
        `mtgbn.compare.compare_design`; default: the groups are tested. ``sets``: a table of its named
        sets, with the columns name and template.
    paper : bool or mapping
        Compare two groups in the paper's way, with a fit of each group and tests of counts; a mapping
        has ``fitting``, ``n_permutations``, ``methods`` and ``n_edges`` of
        `mtgbn.compare.compare_groups`. It calls many differences where there are none.
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
    >>> rows[:2, :, 1] += 2 * rows[:2, :, 0]
    >>> quick = {"n_draws": 8, "n_restarts": 0, "max_iter": 2}
    >>> with tempfile.TemporaryDirectory() as name:
    ...     data, out, groups = (Path(name) / each for each in ("data.npz", "out", "groups.csv"))
    ...     np.savez(data, s1=rows[0], s2=rows[1], s3=rows[2], s4=rows[3])
    ...     table = "participant_id,group\ns1,patient\ns2,patient\ns3,control\ns4,control\n"
    ...     _ = groups.write_text(table)
    ...     run = compare_folder(data, out, groups, parameters=quick, report=False)
    >>> run.study.design.columns
    ('Intercept', 'group[T.patient]')
    """
    chosen = Selection() if selection is None else selection
    way = _way(chosen, design, paper)
    question = Question(**dict(design or {}))
    reading, parameters = _READING | dict(reading or {}), dict(parameters or {})
    folder = Path(out)
    check_output_folder(folder, data)
    refuse_other_files(folder)
    needs_groups = way != "design" or question.formula is None or chosen.groups is not None
    table = read_participants(participants, chosen.column, needs_groups=needs_groups)
    labels = _labels(table, chosen, way)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        cohort = read_cohort(
            *(data, table, labels),
            repetition_time=chosen.repetition_time,
            always=chosen.subject,
            with_sessions=way == "design",
            **reading,
        )
    templates, notes = find_templates(cohort.tasks.variables, chosen.templates)
    notes = (*(str(each.message) for each in caught), *notes, *cohort.notes)
    notes += tuple(data_warnings(cohort.tasks))
    estimator = MTGBN(**{"missing": reading["missing"], **parameters})
    _tell_who(tell, cohort, reading)
    # Everything that can be refused is refused before an earlier comparison is touched.
    if way == "design":
        job = _design_job(cohort, table, question, estimator, templates)
        for sentence in job.first_sentences:
            tell(sentence)
    elif way == "paper":
        job = _paper_job(cohort, _two(labels), paper, estimator, templates)
    else:
        job = _subject_job(cohort, chosen, estimator, templates, table, question.formula)
        tell(f"Controls: {len(cohort.tasks) - 1} subjects of group {(labels or ('',))[0]!r}.")
    notes += job.notes
    for note in notes:
        tell(f"Note: {note}.")
    settings = {
        "reading": reading,
        "participants_column": table.column,
        "groups": None if labels is None else list(labels),
        "templates": {key: list(variables) for key, variables in templates.items()},
        "learner": {key: value for key, value in parameters.items() if value is not None},
        **job.settings,
        "seed": seed,
    }
    identity = {"mtgbn": mtgbn.__version__, "labels": list(cohort.groups), **settings}
    identity["data"] = cohort.tasks.fingerprint({})["data"]
    if job.covariates:
        identity["covariates"] = job.covariates
    about = _about(cohort, table, settings, notes, job.covariates) | dict(job.about)
    coordinates = coordinates_in(chosen.templates) or coordinates_in(question.sets)
    about |= ({"coordinates": coordinates} if coordinates else {}) | dict(record or {})
    start = time.monotonic()
    with owned(folder, identity, overwrite) as work:
        study = job.run(
            templates=templates,
            random_state=seed,
            n_jobs=n_jobs,
            folder=work,
            progress=progress,
        )
        (folder / REPORT_FILE).unlink(missing_ok=True)  # the report of the tables replaced now
        write_study(study, folder, about)
        page = add_report(folder, tell, study, about=about) if report else None
    summary = tuple(job.sentences(study))
    return ComparisonRun(folder, study, cohort, summary, page, time.monotonic() - start)


def _way(
    chosen: Selection, design: Mapping[str, Any] | None, paper: Mapping[str, Any] | bool
) -> Way:
    """Which way of comparing is meant; options of another way are refused."""
    is_paper = paper is not False
    if chosen.subject is None and chosen.controls is not None:
        raise InputError("controls are for the comparison of one subject; name the subject")
    others = {name for name, value in (design or {}).items() if value is not None} - {"formula"}
    if chosen.subject is not None and (others or is_paper):
        given = "the paper's way" if is_paper else listed(sorted(others))
        raise InputError(
            f"{given} is for the comparison of groups, not of one subject; covariates of one subject "
            "are given as a formula"
        )
    if is_paper and design:
        raise InputError(
            f"{listed(design)} are for the comparison by a design; leave them out, or the paper's way"
        )
    return "subject" if chosen.subject is not None else "paper" if is_paper else "design"


def _design_job(
    cohort: Cohort,
    table: Participants,
    question: Question,
    estimator: MTGBN,
    templates: Mapping[str, Sequence[str]],
) -> _Job:
    plan = plan_design(cohort, table, question, estimator)
    used = [cohort.tasks.names.index(name) for name in plan.design.subjects]
    for part in check_comparison(cohort.tasks[used], estimator, templates).values():
        check_strengths(part)
    sets = None
    if question.sets is not None:
        sets, _ = find_templates(cohort.tasks.variables, question.sets)
    held = listed(held_constant(plan.design), 8)
    first = [f"Tested: {plan.design.tested!r}" + f"; held constant: {held}" * bool(held) + "."]
    first += [
        f"Left out: {name}: has no value in column {column!r}."
        for name, column in plan.design.left_out.items()
    ]
    told = [f"Note: {note}." for note in plan.first_notes]

    def run(*, folder: Path, **options: Any) -> DesignStudy:
        with without_convergence_warnings():  # the result has them
            return compare_design(
                cohort.tasks,
                plan.table,
                plan.formula,
                with_checkpoints(estimator, folder),
                sets=sets,
                n_permutations=question.n_permutations,
                probabilities=question.probabilities,
                **(options | question.tests),
            )

    def sentences(study: DesignStudy) -> list[str]:
        warned = [f"Warning: {each}." for each in fit_warnings(study)]
        words = [line for line in study.in_words() if line not in told]
        return [*words, f"Effect: {plan.effect}.", *warned]

    return _Job(
        settings={"design": _said(question) | {"formula": plan.formula, "sets": sets}},
        run=run,
        sentences=sentences,
        covariates=plan.covariates,
        about={"effect": plan.effect},
        notes=plan.notes,
        first_sentences=(*first, *told),
    )


def _said(question: Question) -> dict[str, Any]:
    """What settings say of a question: probabilities only if they are wanted."""
    return {name: value for name, value in asdict(question).items() if value is not False}


def _paper_job(
    cohort: Cohort,
    labels: tuple[str, str],
    paper: Mapping[str, Any] | bool,
    estimator: MTGBN,
    templates: Mapping[str, Sequence[str]],
) -> _Job:
    used = _PAPER | (dict(paper) if isinstance(paper, Mapping) else {})
    series: dict[str, Any] = {"series": cohort.series, "repetition_time": cohort.repetition_time}
    for_methods = (used["methods"], used["n_edges"], *series.values())
    check_comparison(cohort.tasks, estimator, templates, for_methods=for_methods)
    is_a = cohort.is_in(labels[0])

    def run(**options: Any) -> Study:
        options |= {"labels": labels, **used, **series}
        return compare_groups(cohort.tasks, is_a, estimator, **options)

    def sentences(study: Study) -> list[str]:
        warned = [f"Warning: {each}." for one in study.templates for each in one.warnings]
        return study_sentences(study) + warned

    return _Job({"fitting": used["fitting"]}, run, sentences)


def _subject_job(
    cohort: Cohort,
    chosen: Selection,
    estimator: MTGBN,
    templates: Mapping[str, Sequence[str]],
    table: Participants,
    formula: str | None,
) -> _Job:
    assert chosen.subject is not None
    reasons = {each.name: each.reason for each in cohort.excluded}
    subject = task_of(chosen.subject, [*cohort.tasks.names, *reasons])
    if subject in reasons:
        raise InputError(f"the data of {chosen.subject!r} cannot be used: {reasons[subject]}")
    check_comparison(cohort.tasks, estimator, templates, subject=subject)
    covariates: dict[str, dict[str, str]] = {}
    if formula is not None:
        values, spelling = spelled_values(cohort.tasks.names, table, [formula])
        used = formula_columns(formula, list(spelling.values()))
        covariates = {task: {name: row[name] for name in used} for task, row in values.items()}
        # What cannot be done is refused before any fit.
        design_of_subject(cohort.tasks.names, subject, covariates, formula)

    def run(**options: Any) -> SubjectStudy:
        return compare_one(
            cohort.tasks,
            subject,
            estimator,
            formula=formula,
            participants=covariates or None,
            **options,
        )

    settings = {"subject": subject} | ({"design": {"formula": formula}} if formula else {})
    return _Job(settings, run, subject_sentences, covariates=covariates)


def _two(labels: tuple[str, ...] | None) -> tuple[str, str]:
    assert labels is not None
    first, second = labels
    return first, second


def _labels(table: Participants, chosen: Selection, way: Way) -> tuple[str, ...] | None:
    """Return the labels of the groups to read, or that of the controls; None: all participants."""
    subject, controls = chosen.subject, chosen.controls
    if way == "design":
        return None if table.column is None else all_groups(table, chosen.groups)
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


def _tell_who(tell: Tell, cohort: Cohort, reading: Mapping[str, Any]) -> None:
    tasks, n_rows = cohort.tasks, cohort.n_rows
    n_persons = len({person_of(name) for name in tasks.names})
    who = f"{len(tasks)} subjects"
    if n_persons < len(tasks):
        who = f"{len(tasks)} series of {n_persons} subjects"
    tell(
        f"{who} over {tasks.n_variables} variables; rows {n_rows.min()} to "
        f"{n_rows.max()}, worth n = {tasks.ns.min():.4g} to {tasks.ns.max():.4g} samples "
        f"(--effective-samples {reading['effective_samples']})."
    )
    for each in cohort.excluded:
        tell(f"Excluded: {each.name}: {each.reason}.")
    if cohort.without_data:
        tell(f"Without data: {listed(cohort.without_data)}.")
    for other, count in cohort.other_groups.items():
        tell(f"Not compared: {count} of group {other!r}.")


def _about(
    cohort: Cohort,
    table: Participants,
    settings: dict[str, Any],
    notes: Sequence[str],
    covariates: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return what comparison.json says about the data and the settings."""
    tasks = cohort.tasks
    return {
        "settings": settings,
        "repetition_time": cohort.repetition_time,
        "subjects": [
            {
                "subject": name,
                "group": group or None,
                "rows": int(rows),
                "n": float(n),
                **({"covariates": dict(covariates[name])} if name in covariates else {}),
            }
            for name, group, rows, n in zip(
                tasks.names, cohort.groups, cohort.n_rows, tasks.ns, strict=True
            )
        ],
        "excluded": [each._asdict() for each in cohort.excluded],
        "participants_without_data": list(cohort.without_data),
        "covariates_of_unused": covariates_of_unused(cohort, table, covariates),
        "subjects_of_other_groups": cohort.other_groups,
        "participants_table": Path(table.source).name,
        "warnings": list(notes),
    }
