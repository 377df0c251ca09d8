"""Who has a connection: the second fit of a comparison by a design, which knows two groups of subjects.

The permutation test asks whether strengths differ. This fit asks how probable it is that a connection is
more frequent in one group (docs/model.md, sections 14 and 19). It knows the groups and nothing else: it
holds no covariate constant.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.compare.design import Design
from mtgbn.compare.design_tested import table_column
from mtgbn.compare.fitting import AnyEstimator, clone
from mtgbn.compare.sessions import person_of
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN
from mtgbn.learn.group_differences import OUTCOMES, GroupDifferences

# Values of the tested column are the same up to this number of digits.
_DIGITS = 12


class TwoGroups(NamedTuple):
    """The two groups that a design compares; effects are those of the second minus the first."""

    labels: tuple[str, str]
    by_subject: dict[str, str]


def two_groups(design: Design, table: Mapping[str, Mapping[str, Any]]) -> TwoGroups:
    """The groups of the subjects of a design; refuse a design that compares anything else.

    ``table`` has the values of every subject by column.
    """
    why = f"probabilities need a comparison of two groups of subjects, and {design.tested!r} "
    places = np.flatnonzero(design.contrast.any(axis=0))
    if len(design.contrast) > 1:
        raise InputError(
            f"{why}has more than two categories. Choose two groups (groups=..., --groups A B), or leave "
            "out the probabilities"
        )
    column = design.columns[places[0]]
    name = table_column(column)
    values = np.round(design.matrix @ design.contrast[0], _DIGITS)
    if len(places) > 1 or ":" in column or name not in next(iter(table.values())):
        raise InputError(
            f"{why}is no column of groups. Test such a column, or leave out the probabilities"
        )
    if len(np.unique(values)) != 2:
        raise InputError(f"{why}is a quantity. Test a column with two groups, or leave them out")
    texts = {subject: str(table[subject][name]).strip() for subject in design.subjects}
    is_larger = dict(zip(design.subjects, values == values.max(), strict=True))
    labels = []
    for side in (False, True):
        found = sorted({text for subject, text in texts.items() if is_larger[subject] == side})
        if len(found) > 1:
            raise InputError(
                f"{why}leaves {listed(found)} in one group. Choose two groups (groups=..., --groups "
                "A B), or leave out the probabilities"
            )
        labels += found
    return TwoGroups((labels[0], labels[1]), texts)


def check_probabilities(
    estimator: AnyEstimator, variables: tuple[str, ...], sessions: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse what the second fit cannot do, before the first one: ``sessions`` by subject."""
    persons: dict[str, str] = {}
    for subject, tasks in sessions.items():
        parts = [*tasks] if len(tasks) > 1 else []
        if (other := persons.setdefault(person_of(subject), subject)) != subject:
            parts = [other, subject]
        if parts:
            raise InputError(
                f"probabilities need one task per subject, and {listed(parts)} are sessions of one "
                "person, which are alike. Choose one session of each (such as pattern="
                "'**/*_ses-1_*timeseries.tsv'), or leave out the probabilities"
            )
    if not isinstance(estimator, MTGBN):
        raise InputError(
            f"probabilities need MTGBN, whose model has groups; got {type(estimator).__name__}"
        )
    clone(estimator, inference="posterior").check_groups(variables)


def oriented(differences: GroupDifferences, groups: TwoGroups) -> GroupDifferences:
    """The differences with the sign of the effects of the design."""
    return differences if differences.labels == groups.labels else differences.reversed()


def differences_in_words(
    differences: GroupDifferences, template: str, nuisance: Sequence[str]
) -> list[str]:
    """What is known of who has a connection, in sentences; ``nuisance`` are the design's covariates."""
    first, *rest = differences.in_words(noun="connection")
    lines = [f"{template}, who has a connection: {first[0].lower()}{first[1:]}", *rest]
    if nuisance:
        lines.append(
            f"{listed(nuisance)} {'is' if len(nuisance) == 1 else 'are'} not held constant in these "
            "probabilities."
        )
    return lines


def outcome_counts(differences: GroupDifferences) -> dict[str, int]:
    """Number of pairs with every outcome."""
    found = differences.outcomes[np.triu_indices(len(differences.variables), 1)]
    return {name: int(np.sum(found == name)) for name in OUTCOMES}
