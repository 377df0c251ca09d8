"""A whole comparison of two groups: every template fitted, counted, tested and permuted."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import check_variables, name_position
from mtgbn._utils.seeds import seed_sequence
from mtgbn.compare.fitting import Fitting, GroupGraphs, check_groups, fit_groups
from mtgbn.compare.groups import Connections, Degrees, compare_graphs, count_degrees
from mtgbn.compare.methods import Method, MethodGraphs, check_methods, match_methods
from mtgbn.compare.one_subject import Departures, check_controls, compare_subject
from mtgbn.compare.permutation import Permutations, fit_seed, permutation_test
from mtgbn.compare.templates import EVERYTHING
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import unequal_scales

__all__ = [
    "Study",
    "SubjectStudy",
    "TemplateComparison",
    "check_comparison",
    "check_subject",
    "compare_groups",
    "compare_one",
]

Templates = Mapping[str, Sequence[str]]
Progress = Callable[[str, int, int], None]


class TemplateComparison(NamedTuple):
    """Two groups, compared over the variables of one template.

    Attributes
    ----------
    name : str
    variables : tuple of str
    found : GroupGraphs
        Graphs of both groups with the directions aligned, and the fitted learners.
    directed, undirected : Connections
        Tests of i -> j, and of an edge in either direction.
    degrees_a, degrees_b : Degrees
    permutations : Permutations or None
    methods : list of MethodGraphs
        All with as many edges per subject; empty if none was asked for.
    """

    name: str
    variables: tuple[str, ...]
    found: GroupGraphs
    directed: Connections
    undirected: Connections
    degrees_a: Degrees
    degrees_b: Degrees
    permutations: Permutations | None
    methods: list[MethodGraphs]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the fits warned of; what all data are like is for the caller to say, once."""
        names = ("all",) if len(self.found.learners) == 1 else ("a", "b")
        return tuple(
            f"{self.name}, group {name}: {warning}"
            for name, learner in zip(names, self.found.learners, strict=True)
            for warning in getattr(learner, "warnings_", ())
            if warning not in unequal_scales(learner.tasks_)
        )

    @property
    def converged(self) -> bool:
        """Whether all fits did."""
        return all(getattr(each, "converged_", True) for each in self.found.learners)


class Study(NamedTuple):
    """Two groups, compared template by template.

    Attributes
    ----------
    label_a, label_b : str
        What the groups are called.
    names_a, names_b : tuple of str
        Subjects.
    templates : tuple of TemplateComparison
    fitting : {"separate", "together"}
    n_permutations : int
    n_edges : int or None
        That all methods were brought to; None: as many as mtgbn found in the subject.
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
    """One subject against controls, template by template."""

    subject: str
    controls: tuple[str, ...]
    templates: dict[str, tuple[tuple[str, ...], Departures]]
    """The variables, and how the subject departs."""


def compare_groups(
    tasks: Tasks,
    is_a,
    learner: MTGBN | None = None,
    *,
    labels: tuple[str, str] = ("a", "b"),
    templates: Templates | None = None,
    fitting: Fitting = "separate",
    n_permutations: int = 0,
    methods: Sequence[Method] = ("mtgbn",),
    n_edges: int | None = None,
    series: Mapping[str, np.ndarray] | None = None,
    repetition_time: float | None = None,
    random_state=None,
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
        Those of the first group.
    learner : MTGBN, optional
        Its settings are used.
    labels : (str, str)
        What the groups are called.
    templates : mapping, optional
        Sets of variables that are compared by themselves, by name. Default: all variables as one.
    fitting : {"separate", "together"}
        As in `fit_groups`.
    n_permutations : int
        Relabellings; with ``fitting="separate"`` each is fitted anew.
    methods : sequence of {"mtgbn", "sig", "gc", "rdcm"}
        To put beside each other at the same density; see `match_methods`.
    n_edges : int, optional
        Per subject, for all methods; default: as many as mtgbn finds in the subject.
    series, repetition_time
        For gc and rdcm: the rows of every subject by name, one column per variable of ``tasks``, and
        the seconds between them.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.
    n_jobs : int, optional
        Tasks searched at once within a fit, and relabellings at once.
    folder : path, optional
        Where fits and relabellings are kept as they are done. After an interruption, the same call
        goes on from there.
    progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.
    """
    is_a = check_groups(tasks, is_a)
    check_count("n_permutations", n_permutations, 0)
    learner = MTGBN() if learner is None else learner
    learner = type(learner)(**learner.get_params()).set_params(n_jobs=n_jobs)
    check_comparison(
        tasks,
        learner,
        templates=templates,
        methods=methods,
        n_edges=n_edges,
        series=series,
        repetition_time=repetition_time,
    )
    parts = _parts(tasks, templates)
    is_matched = n_edges is not None or tuple(methods) != ("mtgbn",)
    compared = []
    seeds = seed_sequence(random_state).spawn(len(parts))
    for number, ((name, part), seed) in enumerate(zip(parts.items(), seeds, strict=True)):
        report = _within(name, progress)
        place = None
        if folder is not None:
            place = Path(folder) / f"template-{number}"
            place.mkdir(parents=True, exist_ok=True)
        own = fit_seed(seed)
        found = fit_groups(
            part,
            is_a,
            learner,
            fitting=fitting,
            random_state=own,
            quiet=True,
            checkpoints=place,
            progress=report,
        )
        matched = []
        if is_matched:
            if report is not None:
                report("methods at the same density", 0, 1)
            columns = [tasks.variables.index(variable) for variable in part.variables]
            rows = {each: np.asarray(series[each])[:, columns] for each in series or {}}
            matched = match_methods(
                *(part, is_a, methods, found, learner),
                n_edges=n_edges,
                series=rows,
                repetition_time=repetition_time,
                fitting=fitting,
                random_state=own,
            )
        permutations = None
        if n_permutations:
            permutations = permutation_test(
                *(part, is_a, learner),
                n_permutations=n_permutations,
                fitting=fitting,
                random_state=seed,
                n_jobs=n_jobs,
                store=None if place is None else place / "permutations.npz",
                observed=found,
                progress=None
                if report is None
                else lambda done, total, report=report: report("relabellings", done, total),
            )
        graphs = found.graphs_a, found.graphs_b
        compared.append(
            TemplateComparison(
                name,
                part.variables,
                found,
                compare_graphs(*graphs),
                compare_graphs(*graphs, directed=False),
                *map(count_degrees, graphs),
                permutations,
                matched,
            )
        )
    names = np.array(tasks.names, dtype=object)
    return Study(
        *labels,
        tuple(names[is_a]),
        tuple(names[~is_a]),
        tuple(compared),
        fitting,
        n_permutations,
        n_edges,
    )


def check_comparison(
    tasks: Tasks,
    learner: MTGBN,
    *,
    templates: Templates | None,
    methods: Sequence[str],
    n_edges: int | None,
    series: Mapping[str, np.ndarray] | None,
    repetition_time: float | None,
) -> None:
    """Raise what is wrong with the settings of a comparison of groups, before anything is done."""
    for part in _parts(tasks, templates).values():
        learner.check(part)
        check_methods(methods, part, n_edges, series, repetition_time)


def check_subject(
    tasks: Tasks, subject: str, learner: MTGBN, *, templates: Templates | None
) -> None:
    """As `check_comparison`, of one subject with controls."""
    name_position(subject, tasks.names, "task")
    check_controls(len(tasks) - 1)
    for part in _parts(tasks, templates).values():
        learner.check(part)


def compare_one(
    tasks: Tasks,
    subject: str,
    learner: MTGBN | None = None,
    *,
    templates: Templates | None = None,
    random_state=None,
    n_jobs: int | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> SubjectStudy:
    """Compare one subject with controls, template by template; see `compare_subject`.

    Parameters
    ----------
    tasks : Tasks
        The controls and the subject, nobody else.
    subject : str
        Name of the subject's task.
    learner, templates, random_state, n_jobs, folder, progress
        As for `compare_groups`.
    """
    learner = MTGBN() if learner is None else learner
    check_subject(tasks, subject, learner, templates=templates)
    place = name_position(subject, tasks.names, "task")
    controls = [t for t in range(len(tasks)) if t != place]
    parts = _parts(tasks, templates)
    found = {}
    seeds = seed_sequence(random_state).spawn(len(parts))
    for number, ((name, part), seed) in enumerate(zip(parts.items(), seeds, strict=True)):
        report = _within(name, progress)
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        departures = compare_subject(
            part[controls],
            part[place],
            learner,
            random_state=seed,
            n_jobs=n_jobs,
            store=None if folder is None else Path(folder) / f"controls-{number}.npz",
            progress=None
            if report is None
            else lambda done, total, report=report: report("fits", done, total),
        )
        found[name] = (part.variables, departures)
    return SubjectStudy(subject, tuple(tasks.names[t] for t in controls), found)


def _parts(tasks: Tasks, templates: Templates | None) -> dict[str, Tasks]:
    if templates is None:
        return {EVERYTHING: tasks}
    if not templates:
        raise InputError("there is no template; give at least one, or leave them out")
    return {
        name: tasks.select_variables(check_variables(variables, f"template {name!r}: "))
        for name, variables in templates.items()
    }


def _within(template: str, progress: Progress | None) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{template}, {what}", done, total)
