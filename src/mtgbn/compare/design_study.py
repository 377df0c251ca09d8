"""Subjects compared by a design: one fit that does not know the design, then tests of strengths.

All subjects are learned as one cohort, blind to groups and covariates. The strength of every connection
is measured in every subject, given the parents in the cohort's networks. The networks are a symmetric
function of the subjects, so exchanging subjects is exact without a new fit (docs/model.md, section 19).

Tested are the strengths of pairs, not directions: often the data cannot tell a direction, and then a
difference of directions would mean nothing. Tables say what supports a direction instead.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import listed, unknown_name
from mtgbn._utils.optional import require
from mtgbn._utils.seeds import seed_sequence
from mtgbn.compare.connection_sets import ConnectionSet, check_sets, connection_sets
from mtgbn.compare.covariates import values_by_task
from mtgbn.compare.design import Design, categorical_columns, formula_columns, make_design
from mtgbn.compare.design_effect import effect_with_interval, held_constant
from mtgbn.compare.design_groups import (
    TwoGroups,
    check_probabilities,
    differences_in_words,
    oriented,
    two_groups,
)
from mtgbn.compare.directions import bootstrap_directions
from mtgbn.compare.fitting import AnyEstimator, Progress, RandomState, clone, labelled
from mtgbn.compare.inference import Tests, contrast_tests
from mtgbn.compare.power import Detectable, detectable_effect
from mtgbn.compare.reliability import Reliability, half_reliability, session_reliability
from mtgbn.compare.sessions import average_sessions, find_people, person_of
from mtgbn.compare.strengths import (
    check_strengths,
    connection_strengths,
    mean_conditions,
    sampling_variance,
)
from mtgbn.compare.study import Templates, check_comparison
from mtgbn.learn import MTGBN
from mtgbn.learn.group_differences import GroupDifferences
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import time_series

# With fewer permutations no p-value could be below .05.
_FEWEST_PERMUTATIONS = 20

# Differences are said to be found at this family-wise level.
LEVEL = 0.05


class TestedTemplate(NamedTuple):
    """The tests of one template.

    Attributes
    ----------
    name : str
    variables : tuple of str
    estimator : MTGBN
        The fit of all subjects; sessions are its tasks.
    strengths : array (m, connections)
        Fisher's z of the partial correlations, given the parents in the cohort's networks; of several
        sessions the mean, weighted by precision.
    pairs : array (connections, 2)
        Positions of the variables.
    tests : Tests
        ``effect``, ``low`` and ``high`` are partial correlations, not Fisher's z.
    variances : array (m, connections)
        Sampling variances of the strengths.
    reliability : Reliability, optional
        Intraclass correlations of the strengths, if there are several sessions or halves were given.
    sets : tuple of ConnectionSet
        The sets of connections of ``tests.sets``, in their order.
    directions : array (p, p)
        Share of the bootstrap cohorts whose data direct an edge i -> j; nan with few subjects.
    with_groups : MTGBN, optional
        The second fit, which knows two groups of subjects, if probabilities were wanted.
    differences : GroupDifferences, optional
        What it says about who has a connection, with the sign of the effects.
    """

    name: str
    variables: tuple[str, ...]
    estimator: AnyEstimator
    strengths: np.ndarray
    pairs: np.ndarray
    tests: Tests
    variances: np.ndarray
    directions: np.ndarray
    reliability: Reliability | None = None
    sets: tuple[ConnectionSet, ...] = ()
    with_groups: MTGBN | None = None
    differences: GroupDifferences | None = None


class DesignStudy(NamedTuple):
    """Subjects, compared by a design; the result of `compare_design`.

    Attributes
    ----------
    design : Design
    templates : tuple of TestedTemplate
    sessions : dict, optional
        Names of the tasks of every subject, if a subject has several.

    Examples
    --------
    See `compare_design`.
    """

    design: Design
    templates: tuple[TestedTemplate, ...]
    sessions: dict[str, tuple[str, ...]] | None = None

    @property
    def task_weights(self) -> np.ndarray:
        """One over the number of sessions of the subject, for every task of the fit."""
        if self.sessions is None:
            return np.ones(len(self.design.subjects))
        counts = [len(self.sessions[subject]) for subject in self.design.subjects]
        return np.repeat(1 / np.array(counts), counts)

    def to_frame(self) -> Any:
        """One row per connection, the smallest p-value first, as a pandas data frame.

        ``effect`` with ``low`` and ``high`` is the tested contrast of partial correlations with its
        95 % confidence interval, ``statistic`` is t or F. ``p`` is the p-value by permutation,
        ``p_family`` the same corrected for all connections of the template, ``q`` the false discovery
        rate, ``p_enhanced`` the corrected p-value after threshold-free enhancement. ``strength`` is the
        mean partial correlation, ``joined`` the share of subjects with an edge in either direction,
        ``forward`` the share of these edges that go from source to target. ``support`` is the share of
        bootstrap cohorts, whose subjects are drawn anew, in which the data direct the connection in the
        more frequent direction. Posterior fits have ``support_probability``, the mean probability of an
        edge with this direction. If groups are tested, ``mean_`` and the name of
        a group is its mean partial correlation. With sessions or halves, ``icc`` with
        ``icc_low`` and ``icc_high`` is the reliability of the strength.
        """
        from mtgbn.compare.design_tables import connection_columns, connection_rows

        pandas = require("pandas", "pandas", "data frames")
        return pandas.DataFrame(connection_rows(self), columns=list(connection_columns(self)))

    def in_words(self, most: int = 5) -> list[str]:
        """What was found, the answer first."""
        design = self.design
        lines = []
        for template in self.templates:
            tests = template.tests
            found = np.flatnonzero(tests.p_family <= LEVEL)
            what = f"{template.name}: of {len(template.pairs)} connections, "
            given = f" given {listed(held_constant(design))}" if design.nuisance else ""
            if len(found):
                what += f"{len(found)} depend{'s' * (len(found) == 1)} on {design.tested!r}{given}"
            else:
                what += f"none is shown to depend on {design.tested!r}{given}"
            lines.append(
                f"{what} (family-wise level {LEVEL:g}, {tests.n_permutations} permutations; smallest "
                f"corrected p = {tests.p_any:.3g})."
            )
            if not len(found):
                lines.append(_what_could_be_found(tests, design))
            ranked = found if len(found) else np.arange(len(template.pairs))
            order = ranked[np.lexsort((-np.abs(tests.statistic[ranked]), tests.p[ranked]))]
            for k in order[: most if len(found) else 1]:
                i, j = template.pairs[k]
                effect = effect_with_interval(tests.effect[k], tests.low[k], tests.high[k])
                lines.append(
                    f"  {template.variables[i]} - {template.variables[j]}: {effect} in partial "
                    f"correlation{_means_in_words(design, template, k)}; p = {tests.p[k]:.3g}, "
                    f"corrected {tests.p_family[k]:.3g}"
                )
            if len(found) > most:
                lines.append(f"  and {len(found) - most} more.")
            lines += _sets_in_words(template)
            if template.differences is not None:
                lines += differences_in_words(
                    template.differences, template.name, held_constant(design)
                )
        lines += [each.reliability.in_words() for each in self.templates if each.reliability]
        if design.left_out:
            lines.append(f"Left out for lack of a value: {listed(design.left_out)}.")
        lines += [f"Note: {note}." for note in design.notes]
        return lines


def compare_design(
    tasks: Tasks,
    participants: Any,
    formula: str,
    estimator: AnyEstimator | None = None,
    *,
    test: str | None = None,
    contrast: str | None = None,
    blocks: str | None = None,
    subject: str | None = None,
    halves: tuple[Tasks, Tasks] | None = None,
    templates: Templates | None = None,
    sets: Mapping[str, Sequence[str]] | None = None,
    n_permutations: int = 10_000,
    probabilities: bool = False,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> DesignStudy:
    """Test what the strengths of connections depend on: groups, covariates, outcomes.

    Parameters
    ----------
    tasks : Tasks
        All subjects; sessions of a subject are tasks. Time series need ``effective_samples``, such as
        ``Tasks.from_folder(path, effective_samples="bartlett")``; without it, a warning says so.
    participants : mapping or DataFrame
        Values of every task by column: a mapping of mappings, or a data frame whose index has the
        names of the tasks. The row of ``sub-01`` also holds for ``sub-01_ses-1``.
    formula : str
        Columns, joined by ``+``, such as ``"group + age + sex"``; ``:`` and ``*`` for interactions.
        The category of controls, or else the first one in alphabetical order, is the reference.
    estimator : MTGBN, optional
        Its settings are used; it stays unfitted. All subjects are fitted as one cohort.
    test : str, optional
        The term that is tested; default: the first one. The others are nuisance covariates.
    contrast : str, optional
        Instead of a term: a combination of columns, such as ``"group[T.a] - group[T.b]"``.
    blocks : str, optional
        A column; subjects are exchanged between those with the same value only, such as a site. If it
        has the person of every session, sessions are exchanged within a person.
    subject : str, optional
        A column that says which tasks are sessions of one person. Persons are then compared: strengths
        are averaged over sessions, and so are covariates with numbers. By default, names such as
        ``sub-01_ses-1`` and ``sub-01_ses-2`` say so, and a note tells it.
    halves : two Tasks, optional
        Both halves of the rows of every task, by `split_halves`; the reliability of strengths is
        estimated from them. Sessions, if there are any, are used instead.
    templates : mapping, optional
        As for `compare_groups`.
    sets : mapping, optional
        Named sets of variables. Within every template, all connections within a set are also tested as
        a whole, and all connections between two sets. Every variable's connections always are.
    n_permutations : int
        Random orders of the subjects (Freedman and Lane); they cost seconds.
    probabilities : bool
        If two groups of subjects are compared: also fit a model that knows the groups, which says of
        every connection how probable it is that one group has it more often. It takes a posterior fit,
        with ``n_rounds`` of the estimator. Covariates are not held constant in it.
    random_state, n_jobs, progress
        As for `compare_groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(12, 60, 3))
    >>> rows[:6, :, 1] += 2 * rows[:6, :, 0]
    >>> people = {f"task{t}": {"group": "patient" if t < 6 else "control"} for t in range(12)}
    >>> study = compare_design(
    ...     Tasks.from_any(rows), people, "group", SIG(), n_permutations=999, random_state=0
    ... )
    >>> study.to_frame().loc[0, ["source", "target"]].tolist()
    ['x0', 'x1']
    """
    check_count("n_permutations", n_permutations, _FEWEST_PERMUTATIONS)
    estimator = clone(MTGBN() if estimator is None else estimator, n_jobs=n_jobs)
    table = values_by_task(participants, tasks.names)
    used = formula_columns(formula, list(next(iter(table.values()))))
    fixed = [*categorical_columns(formula), *([blocks] if blocks else [])]
    people = find_people(
        table, subject, used=[*dict.fromkeys([*used, *fixed])], categories=fixed, blocks=blocks
    )
    design = make_design(people.table, formula, test=test, contrast=contrast, blocks=blocks)
    design = design._replace(notes=(*people.notes, *design.notes, *notes_on_orders(design)))
    sessions = {name: people.sessions[name] for name in design.subjects}
    groups = None
    if probabilities:
        groups = two_groups(design, people.table)
        check_probabilities(estimator, tasks.variables, sessions)
    chosen = [task for names in sessions.values() for task in names]
    ends = np.cumsum([len(names) for names in sessions.values()]).tolist()
    rows = [
        range(end - len(names), end) for end, names in zip(ends, sessions.values(), strict=True)
    ]
    tasks = tasks[[tasks.names.index(name) for name in chosen]]
    design = design._replace(notes=(*time_series(tasks), *design.notes))  # the fit warns of it, too
    halves = None if halves is None else _matched(halves, tasks)
    parts = check_comparison(tasks, estimator, templates)
    for part in parts.values():
        check_strengths(part)
    named = check_sets(sets, tasks.variables)
    tested = []
    seeds = seed_sequence(random_state).spawn(len(parts))
    for (name, part), seed in zip(parts.items(), seeds, strict=True):
        fit_seed, order_seed, groups_seed, directions_seed = seed.spawn(4)
        report: Any = labelled(f"{name}, ", progress)
        fitted = clone(estimator, random_state=fit_seed).fit(part, progress=report)
        measured = _measure(part, fitted.graphs_, rows, halves)
        own = connection_sets(measured.pairs, part.variables, named)
        found = contrast_tests(
            measured.strengths,
            design.matrix,
            design.contrast,
            pairs=measured.pairs,
            blocks=design.blocks,
            variance_groups=design.variance_groups,
            shown=np.tanh(measured.strengths),
            sets=[each.connections for each in own],
            n_permutations=n_permutations,
            random_state=order_seed,
            progress=None if report is None else partial(report, "permutations"),
        )
        tested.append(
            TestedTemplate(
                name=name,
                variables=part.variables,
                estimator=fitted,
                tests=found,
                sets=own,
                directions=bootstrap_directions(
                    fitted, rows, random_state=directions_seed, progress=report
                ),
                **measured._asdict(),
            )
        )
        if groups is not None:
            second = clone(estimator, inference="posterior", random_state=groups_seed)
            tested[-1] = _with_groups(tested[-1], part, second, groups, progress)
    return DesignStudy(design, tuple(tested), sessions if people.has_several else None)


def _with_groups(
    template: TestedTemplate,
    tasks: Tasks,
    estimator: AnyEstimator,
    groups: TwoGroups,
    progress: Progress | None,
) -> TestedTemplate:
    """The template with a fit that knows the groups."""
    report: Any = labelled(f"{template.name}, with groups, ", progress)
    assert isinstance(estimator, MTGBN)
    fitted = estimator.fit(tasks, groups=groups.by_subject, progress=report)
    return template._replace(with_groups=fitted, differences=oriented(fitted.differences_, groups))


class _Measured(NamedTuple):
    """Strengths of all pairs in the subjects, their sampling variances and reliability."""

    pairs: np.ndarray
    strengths: np.ndarray
    variances: np.ndarray
    reliability: Reliability | None


def _measure(
    tasks: Tasks,
    graphs: np.ndarray,
    rows: Sequence[Sequence[int]],
    halves: tuple[Tasks, Tasks] | None,
) -> _Measured:
    """Measure strengths in every task, and average them over the tasks (rows) of every subject."""
    pairs = np.array(np.triu_indices(tasks.n_variables, 1)).T
    i, j = pairs.T
    names = {"subjects": tasks.names, "variables": tasks.variables}
    strengths = connection_strengths(tasks.scatters, graphs, **names)[:, i, j]
    variances = sampling_variance(tasks.ns[:, None], mean_conditions(graphs)[i, j])
    reliability = None
    if len(rows) < len(tasks):
        reliability = session_reliability(strengths, rows)
    elif halves is not None:
        selected = [half.select_variables(tasks.variables).scatters for half in halves]
        first, second = (connection_strengths(each, graphs, **names)[:, i, j] for each in selected)
        reliability = half_reliability(first, second)
    if len(rows) < len(tasks):
        strengths = average_sessions(strengths, variances, rows)
        variances = np.array([1 / (1 / variances[list(each)]).sum(axis=0) for each in rows])
    return _Measured(pairs, strengths, variances, reliability)


def _matched(halves: tuple[Tasks, Tasks], tasks: Tasks) -> tuple[Tasks, Tasks]:
    """The halves of the tasks that are used, in their order."""
    for half in halves:
        for name in tasks.names:
            if name not in half.names:
                raise unknown_name(name, list(half.names), "task of the halves")
    first, second = (half[list(tasks.names)] for half in halves)
    return first, second


def group_means(design: Design, template: TestedTemplate) -> dict[str, np.ndarray]:
    """Mean partial correlation of every connection by the categories of the tested term."""
    correlations, labels = np.tanh(template.strengths), np.array(design.groups)
    return {label: correlations[labels == label].mean(axis=0) for label in design.group_sizes}


def _means_in_words(design: Design, template: TestedTemplate, connection: int) -> str:
    """The mean of a connection in every group, in brackets; empty without groups."""
    means = group_means(design, template)
    words = [f"{label} {each[connection]:+.2f}" for label, each in means.items()]
    return f" ({listed(words, quote=False)})" if words else ""


def _sets_in_words(template: TestedTemplate) -> list[str]:
    """The sets of connections and the regions that differ as a whole; no line without any."""
    names, pvalues = [], []
    for own, tests in (
        ([each.name for each in template.sets], template.tests.sets),
        ([f"those of {name}" for name in template.variables], template.tests.regions),
    ):
        found = np.flatnonzero(tests.p_family <= LEVEL)
        order = found[np.argsort(tests.p_family[found], kind="stable")]
        names += [own[k] for k in order]
        pvalues += tests.p_family[order].tolist()
    if not names:
        return []
    return [
        f"  Groups of connections that differ as a whole: {listed(names, quote=False)} (smallest "
        f"corrected p = {min(pvalues):.3g})."
    ]


def detectable(tests: Tests, design: Design) -> Detectable | None:
    """The size of an effect that is found with a given probability; None if none can be found."""
    if design.smallest_p > LEVEL:
        return None
    return detectable_effect(tests, len(design.contrast), level=LEVEL)


def notes_on_orders(design: Design) -> list[str]:
    """Warn if there are so few different orders of the subjects that no p-value can be small."""
    if design.smallest_p <= LEVEL:
        return []
    persons = {person_of(name) for name in design.subjects}
    unit = "subjects" if len(persons) == len(design.subjects) else "sessions"
    return [
        f"{len(design.matrix)} {unit} have {design.n_orders:.0f} different orders only, so that no "
        f"p-value can be below {design.smallest_p:.2g}: nothing can be found at the level {LEVEL:g}. "
        "Compare more subjects"
    ]


def _what_could_be_found(tests: Tests, design: Design) -> str:
    """The size of an effect that would have been found, without which 'none' says little."""
    limit = detectable(tests, design)
    if limit is None:
        return "  With so few of them no effect of any size could have been found."
    return (
        f"  An effect of {limit.effect:.2g} in partial correlation would have been found with a "
        f"probability of {limit.power:.0%}."
    )
