"""Whole comparisons: two groups of subjects, or one subject and controls, template by template."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import check_variables, listed, name_position
from mtgbn._utils.seeds import seed_sequence
from mtgbn.compare.connections import Connections, Degrees, compare_graphs, count_degrees
from mtgbn.compare.covariates import design_of_subject
from mtgbn.compare.fitting import (
    AnyEstimator,
    Fitting,
    GroupGraphs,
    Progress,
    RandomState,
    check_groups,
    clone,
    fit_groups,
    labelled,
)
from mtgbn.compare.methods import Method, MethodGraphs, check_methods, match_methods
from mtgbn.compare.one_subject import Departures, check_controls, compare_subject
from mtgbn.compare.permutation import Permutations, fit_seed, permutation_test
from mtgbn.compare.strengths import DEFAULT_MEASURE, measure_named
from mtgbn.compare.templates import EVERYTHING
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import unequal_scales

Templates = Mapping[str, Sequence[str]]


class TemplateComparison(NamedTuple):
    """Two groups, compared over the variables of one template."""

    name: str
    variables: tuple[str, ...]
    fits: GroupGraphs
    directed: Connections  # tests of i -> j
    undirected: Connections  # tests of an edge in either direction
    degrees_a: Degrees
    degrees_b: Degrees
    permutations: Permutations | None
    methods: list[MethodGraphs]  # with the same number of edges; empty if none was asked for

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the fits, without those about the data, which `read_cohort` gives once."""
        return tuple(
            f"{self.name}, group {name}: {warning}"
            for name, estimator in self.fits.named_estimators.items()
            for warning in getattr(estimator, "warnings_", ())
            if warning not in unequal_scales(estimator.tasks_)
        )

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return all(getattr(each, "converged_", True) for each in self.fits.estimators)


class Study(NamedTuple):
    """Two groups, compared template by template; the result of `compare_groups`.

    It has the labels of both groups, the names of their subjects, the comparison over the variables of
    every template, and settings as given to `compare_groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> rows = np.random.default_rng(0).normal(size=(6, 40, 2))
    >>> rows[:3, :, 1] += 2 * rows[:3, :, 0]
    >>> study = compare_groups(Tasks.from_any(rows), np.arange(6) < 3, SIG(), random_state=0)
    >>> study.names_a
    ('task0', 'task1', 'task2')
    >>> study.templates[0].undirected.count_a, study.templates[0].undirected.count_b
    (array([3]), array([0]))
    """

    label_a: str
    label_b: str
    names_a: tuple[str, ...]
    names_b: tuple[str, ...]
    templates: tuple[TemplateComparison, ...]
    fitting: Fitting
    n_permutations: int
    n_edges: int | None


class SubjectStudy(NamedTuple):
    """One subject against controls; the result of `compare_one`.

    ``templates`` has the variables of every template, and the `Departures` of the subject. ``formula``
    names the covariates whose effects were removed, and ``left_out`` the controls that lack a covariate,
    with the column.

    Examples
    --------
    >>> SubjectStudy("sub-01", ("sub-02", "sub-03", "sub-04", "sub-05"), {}).controls[0]
    'sub-02'
    """

    subject: str
    controls: tuple[str, ...]
    templates: dict[str, tuple[tuple[str, ...], Departures]]
    formula: str | None = None
    left_out: Mapping[str, str] = MappingProxyType({})


def compare_groups(
    tasks: Tasks,
    is_a: ArrayLike,
    estimator: AnyEstimator | None = None,
    *,
    labels: tuple[str, str] = ("a", "b"),
    templates: Templates | None = None,
    fitting: Fitting = "separate",
    n_permutations: int = 0,
    methods: Sequence[Method] = ("mtgbn",),
    n_edges: int | None = None,
    series: Mapping[str, np.ndarray] | None = None,
    repetition_time: float | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Study:
    """Compare the networks of two groups of subjects.

    Parameters
    ----------
    tasks : Tasks
        All subjects.
    is_a : array (m,) of bool
        The subjects of the first group.
    estimator : MTGBN, optional
        Its settings are used; it stays unfitted. With prior knowledge, graphs keep the directions that
        each group's search found; without, directions agree over both groups.
    labels : (str, str)
        Labels of the groups.
    templates : mapping, optional
        Sets of variables by name, each compared as one network. Default: one set with all variables.
    fitting : {"separate", "together"}
        "separate": one fit per group, so that each group has its own sigma_h and edge prior.
        "together": one fit of all subjects as one cohort, which does not know the groups.
    n_permutations : int
        Relabellings of the permutation test; with ``fitting="separate"`` each is fitted anew.
    methods : sequence of {"mtgbn", "sig", "gc", "rdcm"}
        Methods to compare at the same number of edges: the estimator, single tasks, Granger causality,
        regression DCM.
    n_edges : int, optional
        Edges per subject, for all methods; default: as many as mtgbn finds in the subject.
    series, repetition_time
        For gc and rdcm: the rows of every subject by name, one column per variable of ``tasks``, and
        the seconds between rows.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides all results; n_jobs does not change them.
    n_jobs : int, optional
        Tasks searched at the same time within a fit, and relabellings fitted at the same time.
    folder : path, optional
        Keeps the checkpoints of the fits and the finished relabellings. After an interruption, the same
        call resumes from there.
    progress : callable, optional
        Called with a description of the current step, the parts of it that are done, and all parts.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> rows = np.random.default_rng(0).normal(size=(6, 40, 3))
    >>> rows[:3, :, 1] += 2 * rows[:3, :, 0]
    >>> study = compare_groups(Tasks.from_any(rows), np.arange(6) < 3, SIG(), random_state=0)
    >>> pairs = study.templates[0].undirected
    >>> pairs.source[0].item(), pairs.target[0].item(), pairs.count_a[0].item()
    (0, 1, 3)
    """
    is_a = check_groups(tasks, is_a)
    check_count("n_permutations", n_permutations, 0)
    estimator = clone(MTGBN() if estimator is None else estimator, n_jobs=n_jobs)
    for_methods = (methods, n_edges, series, repetition_time)
    parts = check_comparison(tasks, estimator, templates, for_methods=for_methods)
    compares_methods = n_edges is not None or tuple(methods) != ("mtgbn",)
    compared = []
    seeds = seed_sequence(random_state).spawn(len(parts))
    for number, ((name, part), seed) in enumerate(zip(parts.items(), seeds, strict=True)):
        report = labelled(f"{name}, ", progress)
        own_folder = None if folder is None else Path(folder) / f"template-{number}"
        if own_folder is not None:
            own_folder.mkdir(parents=True, exist_ok=True)
        own_seed = fit_seed(seed)
        options: dict[str, Any] = {"fitting": fitting, "random_state": own_seed}
        fits = fit_groups(
            *(part, is_a, estimator), quiet=True, checkpoints=own_folder, progress=report, **options
        )
        matched: list[MethodGraphs] = []
        if compares_methods:
            if report is not None:
                report("methods at the same density", 0, 1)
            columns = [tasks.variables.index(variable) for variable in part.variables]
            matched = match_methods(
                *(part, is_a, methods, fits, estimator),
                n_edges=n_edges,
                series={each: np.asarray(v)[:, columns] for each, v in (series or {}).items()},
                repetition_time=repetition_time,
                **options,
            )
        permutations = None
        if n_permutations:
            permutations = permutation_test(
                *(part, is_a, estimator),
                n_permutations=n_permutations,
                fitting=fitting,
                random_state=seed,
                n_jobs=n_jobs,
                store=None if own_folder is None else own_folder / "permutations.npz",
                observed=fits,
                progress=report,
            )
        compared.append(
            TemplateComparison(
                name=name,
                variables=part.variables,
                fits=fits,
                directed=compare_graphs(*fits[:2]),
                undirected=compare_graphs(*fits[:2], directed=False),
                degrees_a=count_degrees(fits.graphs_a),
                degrees_b=count_degrees(fits.graphs_b),
                permutations=permutations,
                methods=matched,
            )
        )
    names = np.array(tasks.names, dtype=object)
    return Study(
        *labels,
        names_a=tuple(names[is_a]),
        names_b=tuple(names[~is_a]),
        templates=tuple(compared),
        fitting=fitting,
        n_permutations=n_permutations,
        n_edges=n_edges,
    )


def check_comparison(
    tasks: Tasks,
    estimator: AnyEstimator,
    templates: Templates | None,
    *,
    subject: str | None = None,
    for_methods: tuple[Any, ...] = (),
) -> dict[str, Tasks]:
    """Refuse what cannot be carried out, before anything is fitted; return the tasks by template.

    ``for_methods`` are arguments of `check_methods`, for the comparison of two groups.
    """
    if subject is not None:
        name_position(subject, tasks.names, "task")
        check_controls(len(tasks) - 1)
        if not isinstance(estimator, MTGBN):
            raise InputError(
                "the comparison of one subject needs MTGBN, which learns the subject given its "
                f"controls; got {type(estimator).__name__}"
            )
        if tasks.incomplete:
            names = listed([tasks.names[t] for t in sorted(tasks.incomplete)])
            raise InputError(
                f"the comparison of one subject needs complete data; {names} lack values. Fill them "
                "in, or leave these tasks out"
            )
    if templates is not None and not templates:
        raise InputError("there is no template; give at least one, or leave them out")
    parts = {EVERYTHING: tasks}
    if templates is not None:
        parts = {
            name: tasks.select_variables(check_variables(variables, f"template {name!r}: "))
            for name, variables in templates.items()
        }
    for part in parts.values():
        estimator.check(part)
        check_methods(part, *for_methods)
    return parts


def compare_one(
    tasks: Tasks,
    subject: str,
    estimator: MTGBN | None = None,
    *,
    formula: str | None = None,
    participants: Any = None,
    templates: Templates | None = None,
    measure: str = DEFAULT_MEASURE,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> SubjectStudy:
    """Compare one subject with controls, template by template.

    The controls are fitted, and the strength of every connection in the subject is compared with its
    distribution over the controls. Every control is then compared with the other controls in the same
    way, which gives p-values and false discovery rates.

    Parameters
    ----------
    tasks : Tasks
        The controls, at least four, and the subject.
    subject : str
        Name of the subject's task.
    formula, participants : str, mapping or DataFrame, optional
        Covariates, such as ``"age + sex + mean_fd"``, and their values as for `compare_design`. Their
        effects are estimated in the controls, and the subject is compared with what is expected of a
        control with the same covariates. Controls that lack a value are left out.
    measure : str
        How the strength of a connection is measured: a key of `mtgbn.compare.strengths.MEASURES`.
    estimator, templates, random_state, n_jobs, folder, progress
        As for `compare_groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import MTGBN, Tasks
    >>> rows = np.random.default_rng(0).normal(size=(5, 60, 2))
    >>> rows[4, :, 1] += 2 * rows[4, :, 0]
    >>> quick = MTGBN(n_draws=8, n_restarts=0, max_iter=2)
    >>> study = compare_one(Tasks.from_any(rows), "task4", quick, random_state=0)
    >>> variables, departures = study.templates["all"]
    >>> bool(departures.score[0] > 0)
    True
    """
    estimator = MTGBN() if estimator is None else estimator
    measure_named(measure)
    parts = check_comparison(tasks, estimator, templates, subject=subject)
    place = name_position(subject, tasks.names, "task")
    controls = [t for t in range(len(tasks)) if t != place]
    design: np.ndarray | None = None
    left_out: dict[str, str] = {}
    if formula is not None:
        if participants is None:
            raise InputError("a formula needs the values of its columns: give participants")
        design, left_out = design_of_subject(tasks.names, subject, participants, formula)
        controls = [t for t in controls if tasks.names[t] not in left_out]
    elif participants is not None:
        raise InputError("participants have no use without a formula, such as 'age + sex'")
    compared = {}
    seeds = seed_sequence(random_state).spawn(len(parts))
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for number, ((name, part), seed) in enumerate(zip(parts.items(), seeds, strict=True)):
        departures = compare_subject(
            *(part[controls], part[place], estimator),
            design=design,
            measure=measure,
            random_state=seed,
            n_jobs=n_jobs,
            store=None if folder is None else Path(folder) / f"controls-{number}.npz",
            progress=labelled(f"{name}, ", progress),
        )
        compared[name] = (part.variables, departures)
    return SubjectStudy(
        subject, tuple(tasks.names[t] for t in controls), compared, formula, left_out
    )
