"""From a table of participants and a question to a design that can be carried out.

Everything that can be refused is refused here, before anything is fitted. `with_checkpoints` lets an
interrupted fit go on.
"""

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mtgbn._utils.arguments import check_count
from mtgbn._utils.labels import is_missing
from mtgbn.compare.cohort import Cohort
from mtgbn.compare.design import Design, categorical_columns, make_design
from mtgbn.compare.design_effect import effect_in_words
from mtgbn.compare.design_groups import check_probabilities, two_groups
from mtgbn.compare.design_study import LEVEL, notes_on_orders
from mtgbn.compare.participants import Participants, participant_of
from mtgbn.compare.sessions import find_people, person_of
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN

# A covariate with at most this number of different whole numbers may be a code of categories.
_MOST_CODES = 6

# Columns that say whose row it is, besides the one with the name of the data.
_PERSON_COLUMNS = ("participant_id", "subject_id", "participant", "subject", "person", "patient_id")

# A name of a column in a formula, and not the name of a function.
_NAME = re.compile(r"\b[^\W\d]\w*\b(?!\s*\()")


@dataclass(frozen=True)
class Question:
    """What is tested; as for `mtgbn.compare.compare_design`.

    Without a formula, the groups of the participants are compared.
    """

    formula: str | None = None
    test: str | None = None
    contrast: str | None = None
    blocks: str | None = None
    sets: str | os.PathLike[str] | None = None  # table with the columns name and template
    n_permutations: int = 10_000
    probabilities: bool = False

    def __post_init__(self) -> None:
        check_count("the number of permutations", self.n_permutations, 1)
        fewest = math.ceil(1 / LEVEL)
        if self.n_permutations < fewest:
            raise InputError(
                f"{self.n_permutations} permutations are too few: no p-value could be below the level "
                f"{LEVEL:g}. Use at least {fewest}; ten thousand cost seconds"
            )
        if self.formula is None and self.test is not None:
            raise InputError(
                f"without a formula the groups are tested; give a formula that has {self.test!r}, such "
                f"as 'group + {self.test}'"
            )

    @property
    def tests(self) -> dict[str, Any]:
        """Options of `make_design`."""
        return {"test": self.test, "contrast": self.contrast, "blocks": self.blocks}


class Plan(NamedTuple):
    """A design that can be carried out."""

    formula: str
    table: dict[str, dict[str, str]]  # values of every subject by column
    design: Design
    covariates: dict[str, dict[str, str]]  # the same of the columns that the design uses
    effect: str  # what a positive effect means
    notes: tuple[str, ...]
    first_notes: tuple[str, ...]  # those that the comparison gives again at its end


def plan_design(
    cohort: Cohort, participants: Participants, question: Question, estimator: MTGBN
) -> Plan:
    """Make the design of the subjects with data; refuse what cannot be tested."""
    texts = [each for each in (question.formula, *question.tests.values()) if each]
    table, spelling = spelled_values(cohort.tasks.names, participants, texts)
    _refuse_repeated_persons(table, question.blocks)
    formula = question.formula
    if formula is None:
        assert participants.column is not None
        formula = _group_formula(spelling[participants.column], cohort.groups)
    design = make_design(table, formula, **question.tests)
    used = [
        name
        for name in dict.fromkeys([*_NAME.findall(formula), *filter(None, [question.blocks])])
        if name in spelling.values()
    ]
    covariates = {task: {name: values[name] for name in used} for task, values in table.items()}
    values = {name: [covariates[task][name] for task in design.subjects] for name in used}
    # Sessions of a person are averaged, so that persons change places, and not sessions.
    fixed = [*categorical_columns(formula), *filter(None, [question.blocks])]
    people = find_people(table, None, used=used, categories=fixed, blocks=question.blocks)
    exchanged = make_design(people.table, formula, **question.tests)
    if question.probabilities:
        two_groups(exchanged, people.table)
        sessions = {name: people.sessions[name] for name in exchanged.subjects}
        check_probabilities(estimator, cohort.tasks.variables, sessions)
    notes = _notes_on_codes(formula, values)
    return Plan(
        formula=formula,
        table=table,
        design=design,
        covariates=covariates,
        effect=effect_in_words(design),
        notes=tuple(notes),
        first_notes=(*people.notes, *exchanged.notes, *notes_on_orders(exchanged)),
    )


def spelled_values(
    tasks: Sequence[str], participants: Participants, texts: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Values of every task by column, with the columns as formulas (``texts``) spell them.

    Also returns the spelling of every column of the table.
    """
    spelling = _spelling(next(iter(participants.values.values())), texts)
    _refuse_same_spelling(spelling, texts, participants.source)
    table = {}
    for task in tasks:
        owner = participant_of(task, participants.values)
        if owner is None:
            raise InputError(f"{participants.source!r} has no row for {task!r}; add it")
        table[task] = {spelling[name]: cell for name, cell in participants.values[owner].items()}
    return table, spelling


def with_checkpoints(estimator: MTGBN, folder: Path) -> MTGBN:
    """The estimator, whose fits keep checkpoints in a folder: one per fit, in their order.

    A comparison makes copies of its estimator, which have the same class and parameters, and fits each
    once. So the class is what can tell them where to keep checkpoints.
    """
    kind, numbers = type(estimator), itertools.count()

    def fit(self: Any, tasks: Any, **options: Any) -> Any:
        own = folder / f"fit-{next(numbers)}"
        own.mkdir(parents=True, exist_ok=True)
        self.__class__ = kind  # from now on an estimator like all others
        return self.fit(tasks, checkpoint=own / "group-all.npz", **options)

    keeping = type(kind.__name__, (kind,), {"fit": fit, "__doc__": kind.__doc__})
    return keeping(**estimator.get_params())


def _spelling(columns: Sequence[str] | Mapping[str, Any], texts: Sequence[str]) -> dict[str, str]:
    """Columns, which are read in lower case, as the user spells them; _ for what no name may have."""
    words = [word for text in texts for word in _NAME.findall(text)]
    given = {word.lower(): word for word in words} | {
        word: word for word in words if word.islower()
    }
    names = {column: re.sub(r"\W+", "_", column) for column in columns}
    return {column: given.get(name, name) for column, name in names.items()}


def _refuse_same_spelling(spelling: Mapping[str, str], texts: Sequence[str], source: str) -> None:
    """Refuse columns that a formula cannot tell apart, such as 'mean fd' and 'mean_fd'."""
    used = {word for text in texts for word in _NAME.findall(text)}
    first: dict[str, str] = {}
    for column, name in spelling.items():
        if name in used and first.setdefault(name, column) != column:
            raise InputError(
                f"{name!r} may be the column {first[name]!r} or {column!r} of {source!r}; rename one"
            )


def _refuse_repeated_persons(table: Mapping[str, Mapping[str, str]], blocks: str | None) -> None:
    """Refuse several rows of one person, which are not independent subjects."""
    columns = next(iter(table.values()))
    for name in (each for each in _PERSON_COLUMNS if each in columns and each != blocks):
        first: dict[str, str] = {}
        for task, values in table.items():
            person = values[name]
            if is_missing(person) or person_of(task) == person_of(first.setdefault(person, task)):
                continue
            raise InputError(
                f"by column {name!r}, {first[person]!r} and {task!r} are both of {person!r}, and "
                f"sessions of one person are not independent subjects. Name them sub-{person}_ses-1, "
                f"sub-{person}_ses-2, so that they are averaged, or exchange sessions within a person "
                f"(--blocks {name})"
            )


def _group_formula(column: str, labels: Sequence[str]) -> str:
    """The formula that compares groups; labels such as 1 and 2 are categories, not numbers."""
    return f"C({column})" if all(map(_is_number, labels)) else column


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _notes_on_codes(formula: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """Warn of numbers that may be codes of categories, such as sites 1, 2 and 3."""
    notes = []
    for name, cells in values.items():
        different = set(cells)
        is_code = 2 < len(different) <= _MOST_CODES and all(map(str.isdigit, different))
        if is_code and re.search(rf"(?<!C\()\b{name}\b", formula):
            notes.append(
                f"column {name!r} has {len(different)} whole numbers, which are taken as a quantity; if "
                f"they are categories, write C({name})"
            )
    return notes


def covariates_of_unused(
    cohort: Cohort, table: Participants, covariates: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return what the table says of those who are not compared, in the columns of the others."""
    if not covariates:
        return {}
    used = list(next(iter(covariates.values())))
    found = {}
    for name in (*(each.name for each in cohort.excluded), *cohort.without_data):
        if participant_of(name, table.values) is not None:
            values, _ = spelled_values([name], table, used)
            found[name] = {column: values[name][column] for column in used}
    return found
