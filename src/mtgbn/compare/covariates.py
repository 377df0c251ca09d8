"""Values of covariates: from what users give to one row per task, and to the design of one subject."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn._utils.names import unknown_name
from mtgbn.compare.design import make_design
from mtgbn.compare.one_subject import check_controls
from mtgbn.compare.sessions import person_of
from mtgbn.errors import InputError

# Columns of a design, scaled to length 1, whose smallest singular value is below this are collinear.
_COLLINEAR = 1e-9


def values_by_task(participants: Any, subjects: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """Values by task and column, in the order of the tasks; every task, or its person, must be there."""
    if hasattr(participants, "to_dict") and hasattr(participants, "index"):
        records = participants.to_dict(orient="index")
    elif isinstance(participants, Mapping):
        records = dict(participants)
    else:
        raise InputError(
            "participants must be a mapping of mappings or a data frame; got "
            f"{type(participants).__name__}"
        )
    known = {str(name): values for name, values in records.items()}
    for name in subjects:
        person = person_of(name)
        for other in (person, person.removeprefix("sub-")):
            if name not in known and other in known:
                known[name] = known[other]
        if name not in known:
            raise unknown_name(name, list(known), "participant")
    columns = set(known[subjects[0]])
    for name in subjects:
        if set(known[name]) != columns:
            raise InputError(
                f"participant {name!r} has other columns than {subjects[0]!r}; give all the same ones"
            )
    return {name: known[name] for name in subjects}


def design_of_subject(
    tasks: tuple[str, ...], subject: str, participants: Any, formula: str
) -> tuple[np.ndarray, dict[str, str]]:
    """The covariates of the controls and, in the last row, of one subject, (controls + 1, k).

    Returns the design with an intercept, and the controls that lack a value, with the column. Effects
    must be estimable from the controls, also when one of them is compared with the others.
    """
    values = values_by_task(participants, tasks)
    others = {name: values[name] for name in tasks if name != subject}
    found = make_design({**others, subject: values[subject]}, formula)
    if subject in found.left_out:
        raise InputError(
            f"{subject!r} has no value in column {found.left_out[subject]!r}; fill it in, or leave the "
            "column out of the formula"
        )
    matrix = found.matrix
    check_controls(len(matrix) - 1, matrix.shape[1])
    scaled = matrix / np.linalg.norm(matrix, axis=0)
    for left_out in (None, *range(len(matrix) - 1)):
        rows = [k for k in range(len(matrix) - 1) if k != left_out]
        if np.linalg.matrix_rank(scaled[rows], tol=_COLLINEAR) < matrix.shape[1]:
            who = "the controls"
            if left_out is not None:
                who += f" without {found.subjects[left_out]!r}"
            constant = [
                name
                for name, column in zip(found.columns, matrix[rows].T, strict=True)
                if name != "Intercept" and np.ptp(column) == 0
            ]
            what = f"{constant[0]!r}, which is the same for all of them" if constant else "a column"
            raise InputError(
                f"{who} do not tell the effect of {what}; leave it out of the formula, or the control "
                "out of the data"
            )
    return matrix, found.left_out
