"""What a design tests: a term of its formula, or a contrast of its columns."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.errors import InputError


def find_tested(spec: Any, test: str | None, contrast: str | None) -> tuple[str, np.ndarray]:
    """What is tested, and its weights (r, k)."""
    if test is not None and contrast is not None:
        raise InputError("give a term to test or a contrast, not both")
    columns = list(spec.column_names)
    if contrast is not None:
        return contrast, _contrast(spec, contrast)
    terms = {str(term): list(places) for term, places in spec.term_indices.items()}
    names = [name for name in terms if name != "1"]
    chosen = names[0] if test is None else test.replace(" ", "")
    # Terms such as group:sex have no order.
    same = [each for each in names if sorted(each.split(":")) == sorted(chosen.split(":"))]
    chosen = same[0] if same else chosen
    if chosen not in names:
        raise InputError(
            f"there is no term of the formula named {chosen!r}; the terms are {listed(names, 12)}"
        )
    return chosen, np.eye(len(columns))[terms[chosen]]


def table_column(column: str) -> str:
    """The column of the table behind a column of a design, such as site behind C(site)[T.b]."""
    return re.sub(r"^C\(\s*(\w+).*\)$", r"\1", column.partition("[")[0])


def tested_factors(
    spec: Any, weights: np.ndarray, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The columns with categories that have a part in what is tested."""
    has_part = set(np.flatnonzero(weights.any(axis=0)).tolist())
    terms = [term for term, places in spec.term_indices.items() if has_part & set(places)]
    categorical = {str(factor) for factor in spec.factor_contrasts}
    names = {
        str(variable)
        for term in terms
        for factor in term.factors
        if str(factor) in categorical
        for variable in spec.factor_variables[factor]
    }
    return {name: values[name] for name in sorted(names) if name in values}


def _contrast(spec: Any, contrast: str) -> np.ndarray:
    """The weights (r, k) of a contrast in words; refuse one that no permutation can test."""
    columns = list(spec.column_names)
    try:
        found = spec.get_linear_constraints(contrast)
    except Exception as error:  # whatever a parser of formulas raises
        reason = (
            f"there is no column {error} in the design" if isinstance(error, KeyError) else error
        )
        raise InputError(
            f"the contrast {contrast!r} cannot be used: {reason}. The columns are "
            f"{listed(columns, 12)}"
        ) from error
    weights = np.atleast_2d(found.constraint_matrix).astype(float)
    values = np.ravel(found.constraint_values).astype(float)
    if values.any():
        raise InputError(
            f"the contrast {contrast!r} is compared with {values[values != 0][0]:g}, and a permutation "
            "can compare a combination of columns with 0 only; leave the number out"
        )
    if not weights.any(axis=1).all() or np.linalg.matrix_rank(weights) < len(weights):
        raise InputError(f"the contrast {contrast!r} has rows that are 0 or say the same")
    # The columns are independent, so that a mean of all subjects is the intercept and nothing else.
    # The reduced model has it, and the permutation keeps it, only if the contrast leaves it alone.
    if weights[:, columns.index("Intercept")].any():
        raise InputError(
            f"the contrast {contrast!r} asks for a mean, which no order of the subjects changes; "
            "leave 'Intercept' out, so that it compares subjects with each other. The other columns "
            f"are {listed([name for name in columns if name != 'Intercept'], 12)}"
        )
    return weights
