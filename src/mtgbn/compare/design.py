"""The design of a comparison: from a table of participants and a formula to columns and contrasts.

A formula such as ``group + age + sex`` says what may influence the strengths of connections. One of its
terms, or a contrast of its columns, is tested. All other columns are nuisance covariates. Everything
that a test could not answer is refused here, before anything is fitted.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.labels import is_missing, reference_first
from mtgbn._utils.names import listed, unknown_name
from mtgbn.compare.design_blocks import check_within, find_blocks, indicators_beyond
from mtgbn.compare.design_orders import number_of_orders, smallest_pvalue
from mtgbn.compare.design_tested import find_tested, table_column, tested_factors
from mtgbn.compare.design_values import (
    as_codes,
    check_columns,
    notes_on_missing,
    take_columns,
)
from mtgbn.errors import InputError

# What a formula may consist of. Formulas can hold Python expressions; only these functions may be
# called, so that a formula from elsewhere cannot run a program.
_OF_NUMBERS = ("center", "scale", "log", "poly", "bs")
_FUNCTIONS = ("C", *_OF_NUMBERS)
_CHARACTERS = re.compile(r"[\w\s+:*(),.=-]*")
_CALL = re.compile(r"([\w.]+)\s*\(")

# A column that others explain up to this share of its length is collinear with them.
_COLLINEAR = 1e-8

# Residual degrees of freedom; with one, an interval has no use and the detectable effect no number.
_FEWEST_RESIDUAL = 2

# In groups of fewer subjects only very large differences are found.
_SMALL = 8

# The spread of a group is estimated only from at least this number of degrees of freedom: about five
# subjects.
_FEWEST_DEGREES = 3.5


class Design(NamedTuple):
    """What is tested, and what is held constant.

    Attributes
    ----------
    formula : str
    columns : tuple of str
        Names of the columns of ``matrix``, the intercept first.
    matrix : array (m, k)
    tested : str
        The term or the contrast that is tested.
    contrast : array (r, k)
        The tested combinations of the coefficients, one per row.
    blocks : array (m,) of int, optional
        Subjects are exchanged within a block only. The blocks are among the columns of ``matrix``.
    subjects : tuple of str
        In the order of the rows.
    left_out : dict
        Subjects without a value that the design needs, and the column that lacks it.
    notes : tuple of str
        What a reader should know about the design.
    groups : tuple of str
        Category of every subject by the tested term; empty if it has none.
    variance_groups : array (m,) of int, optional
        Groups of the tested term, whose strengths may differ in spread. None if the term has no
        groups, or groups that are too small to tell their spread.

    Examples
    --------
    >>> table = {"s1": {"group": "patient"}, "s2": {"group": "control"}, "s3": {"group": "patient"}}
    >>> table |= {f"s{k}": {"group": "control"} for k in (4, 5, 6, 7)}
    >>> make_design(table, "group").columns
    ('Intercept', 'group[T.patient]')
    """

    formula: str
    columns: tuple[str, ...]
    matrix: np.ndarray
    tested: str
    contrast: np.ndarray
    blocks: np.ndarray | None
    subjects: tuple[str, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]
    groups: tuple[str, ...] = ()
    variance_groups: np.ndarray | None = None

    @property
    def nuisance(self) -> tuple[str, ...]:
        """Names of the columns that are not tested, without the intercept."""
        tested = np.any(self.contrast, axis=0).tolist()
        return tuple(
            name
            for name, is_tested in zip(self.columns, tested, strict=True)
            if not is_tested and name != "Intercept"
        )

    @property
    def n_orders(self) -> float:
        """Number of different orders of the subjects, within blocks if there are any."""
        return number_of_orders(self.matrix, self.blocks)

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that data without ties could have, with all orders of the subjects."""
        return smallest_pvalue(self.matrix, self.contrast, self.blocks)

    @property
    def group_sizes(self) -> dict[str, int]:
        """Subjects per category of the tested term, the reference of controls first."""
        return {
            label: self.groups.count(label)
            for label in sorted(set(self.groups), key=reference_first)
        }


def make_design(
    table: Mapping[str, Mapping[str, Any]],
    formula: str,
    *,
    test: str | None = None,
    contrast: str | None = None,
    blocks: str | None = None,
    missing: str = "leave out",
) -> Design:
    """Make the design of a comparison.

    Parameters
    ----------
    table : mapping
        Values of every subject by column; text of a .tsv, or numbers.
    formula : str
        Columns of the table, joined by ``+`` (``:`` and ``*`` for interactions). Columns with numbers
        only are numeric; ``C(name)`` makes categories of them.
    test : str, optional
        The term that is tested; default: the first one.
    contrast : str, optional
        Instead of a term: a combination of columns, such as ``"group[T.a] - group[T.b]"``.
    blocks : str, optional
        A column; subjects are exchanged between those with the same value only. It is held constant,
        as if it were in the formula, in which it need not be.
    missing : {"leave out", "error"}
        What to do with subjects that lack a value.
    """
    import formulaic  # type: ignore[import-untyped]
    import pandas as pd

    names = list(next(iter(table.values()))) if table else []
    wanted = formula_columns(formula, names)
    used = [*dict.fromkeys([*wanted, *([blocks] if blocks else [])])]
    for name in used:
        if name not in names:
            raise unknown_name(name, names, "column")
    left_out = {
        subject: next(name for name in used if is_missing(values[name]))
        for subject, values in table.items()
        if any(is_missing(values[name]) for name in used)
    }
    if left_out and missing == "error":
        subject, name = next(iter(left_out.items()))
        raise InputError(
            f"{len(left_out)} subjects lack a value, such as {subject!r} in column {name!r}; fill it "
            "in, or let these subjects be left out"
        )
    subjects = [subject for subject in table if subject not in left_out]
    if len(subjects) < 3:
        raise InputError(
            f"{len(subjects)} subjects have all values of {listed(used)}; at least three are needed"
        )
    factors, numbers = take_columns(
        {subject: table[subject] for subject in subjects},
        wanted,
        used,
        categories=categorical_columns(formula),
        quantities=_columns_within(formula, _OF_NUMBERS),
    )
    try:
        check_columns(wanted, factors, numbers)
    except InputError as error:
        if not left_out:
            raise
        subject, name = next(iter(left_out.items()))
        raise InputError(
            f"{error}. {len(left_out)} subjects without a value are left out, such as {subject!r}, who "
            f"has none in column {name!r}"
        ) from None
    columns = {
        name: pd.Categorical(values, categories=sorted(set(values), key=reference_first))
        for name, values in factors.items()
    }
    # Codes of categories are named as in the table: 2, not 2.0.
    codes = {
        name: as_codes(numbers[name]) for name in categorical_columns(formula) if name in numbers
    }
    frame = pd.DataFrame({**numbers, **codes, **columns})
    try:
        with np.errstate(all="ignore"):
            model = formulaic.model_matrix(formula, frame, na_action="ignore")
    except Exception as error:  # whatever a parser of formulas raises
        reason = str(error).splitlines()[0]
        raise InputError(f"the formula {formula!r} cannot be used: {reason}") from error
    spec = model.model_spec
    matrix = np.asarray(model, dtype=float)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        name = spec.column_names[column]
        raise InputError(
            f"the column {name!r} of the design has no number in {subjects[row]!r}, such as the "
            "logarithm of a number that is not above 0; leave the function out"
        )
    if "Intercept" not in spec.column_names:
        raise InputError(f"the formula {formula!r} removes the intercept; tests need it")
    _check_rank(matrix, spec.column_names, {**factors, **codes})
    tested, weights = find_tested(spec, test, contrast)
    column_names = tuple(spec.column_names)
    block_of, notes = None, []
    if blocks is not None:
        labels = factors[blocks] if blocks in factors else numbers[blocks]
        block_of = find_blocks(blocks, labels, matrix @ weights.T)
        held = indicators_beyond(blocks, labels, matrix)
        if held:
            # Permutations within blocks keep what blocks differ in, so that effects are those within.
            notes.append(
                f"the blocks {blocks!r} are held constant: effects are those within a block"
            )
            column_names += tuple(held)
            matrix = np.column_stack([matrix, *held.values()])
            weights = np.pad(weights, [(0, 0), (0, len(held))])
        check_within(blocks, block_of, tested, matrix, weights)
    if len(subjects) < matrix.shape[1] + _FEWEST_RESIDUAL:
        raise InputError(
            f"{len(subjects)} subjects are too few for a design with {matrix.shape[1]} columns "
            f"({listed(column_names, quote=False)}): at least {_FEWEST_RESIDUAL} more subjects "
            f"than columns are needed; leave out covariates{', or use larger blocks' * bool(blocks)}"
        )
    own_factors = tested_factors(spec, weights, {**factors, **numbers, **codes})
    groups = tuple("/".join(map(str, each)) for each in zip(*own_factors.values(), strict=True))
    return Design(
        formula=formula,
        columns=column_names,
        matrix=matrix,
        tested=tested,
        contrast=weights,
        blocks=block_of,
        subjects=tuple(subjects),
        left_out=left_out,
        notes=(
            *notes,
            *_notes(own_factors, groups, block_of),
            *_one_sided(own_factors, wanted, factors, blocks),
            *notes_on_missing(
                {name: numbers[name] for name in wanted if name in numbers}, subjects
            ),
        ),
        groups=groups,
        variance_groups=_variance_groups(own_factors, matrix),
    )


def _check_formula(formula: str, names: Sequence[str]) -> None:
    """Refuse what is not a formula of columns."""
    if not formula.strip():
        raise InputError(
            "the formula is empty; give the columns that are compared, such as 'group'"
        )
    if "~" in formula:
        raise InputError(
            f"the formula {formula!r} has a left side; give the right side only, such as 'group + age': "
            "the strengths of all connections are on the left"
        )
    if not _CHARACTERS.fullmatch(formula) or "__" in formula:
        raise InputError(
            f"the formula {formula!r} has characters that are not allowed; it may have names of "
            "columns, numbers and + : * ( )"
        )
    for name in _CALL.findall(formula):
        if name not in _FUNCTIONS:
            raise InputError(
                f"the formula {formula!r} calls {name!r}; it may call {listed(_FUNCTIONS, 9)}. The "
                f"columns are {listed(names, 12)}"
            )
    for name in _FUNCTIONS:
        if name in names and re.search(rf"\b{name}\b(?!\s*\()", formula):
            raise InputError(f"column {name!r} has the name of a function of formulas; rename it")


def categorical_columns(formula: str) -> list[str]:
    """The columns that a formula takes as categories whatever their values: ``C(name)``."""
    return _columns_within(formula, ("C",))


def _columns_within(formula: str, functions: Sequence[str]) -> list[str]:
    """The columns that are the first argument of one of some functions."""
    return re.findall(rf"\b(?:{'|'.join(functions)})\(\s*(\w+)", formula)


def formula_columns(formula: str, names: Sequence[str]) -> list[str]:
    """The columns of the table that a formula needs, in its order; refuse what is no formula."""
    import formulaic

    _check_formula(formula, names)
    try:
        parsed = formulaic.Formula(formula)
    except Exception as error:  # whatever a parser of formulas raises
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"{formula!r} is not a formula: {reason}. Join columns with +; they are {listed(names, 12)}"
        ) from error
    # The parser overlooks variables within its own functions, such as center(age).
    inside = {
        name for name in names if re.search(rf"\(\s*{re.escape(name)}\s*[,)]", formula) is not None
    }
    needed = {str(name) for name in parsed.required_variables} | inside
    for name in sorted(needed):
        if name not in names:
            raise unknown_name(name, names, "column")
    if not needed:
        raise InputError(f"the formula {formula!r} has no column of the table")
    return sorted(needed, key=lambda name: re.search(rf"\b{re.escape(name)}\b", formula).start())  # type: ignore[union-attr]


def _check_rank(
    matrix: np.ndarray, columns: Sequence[str], factors: Mapping[str, np.ndarray]
) -> None:
    """Refuse columns that others explain; name the first one."""
    scaled = matrix / np.linalg.norm(matrix, axis=0)
    for k in range(1, matrix.shape[1]):
        before = scaled[:, :k]
        solution = np.linalg.lstsq(before, scaled[:, k], rcond=None)[0]
        if np.linalg.norm(scaled[:, k] - before @ solution) > _COLLINEAR:
            continue
        others = [
            columns[j] for j in range(k) if abs(solution[j]) > 1e-6 and columns[j] != "Intercept"
        ]
        pair = _confounded([columns[k], *others], factors)
        if pair:
            first, second = map(repr, pair)
            raise InputError(
                f"{first} and {second} are confounded: all subjects with the same {first} have the same "
                f"{second}, so that their effects cannot be told apart; leave one of them out"
            )
        raise InputError(
            f"the column {columns[k]!r} of the design is explained by "
            f"{listed(others) or 'the intercept'}; leave one of them out"
        )


def _confounded(
    columns: Sequence[str], factors: Mapping[str, np.ndarray]
) -> tuple[str, str] | None:
    """Two columns of the table, of which the first decides the second; the first column is sought."""
    terms = [table_column(column) for column in columns]
    own, *others = dict.fromkeys(term for term in terms if term in factors) or [""]
    for other in others:
        for first, second in ((own, other), (other, own)):
            both = set(zip(factors[first].tolist(), factors[second].tolist(), strict=True))
            if len(both) == len(set(factors[first].tolist())):
                return first, second
    return None


def _notes(
    factors: Mapping[str, np.ndarray], groups: Sequence[str], blocks: np.ndarray | None
) -> list[str]:
    """What a reader should know: small groups of the tested ``factors``, blocks that do not count."""
    notes = []
    small = [label for label, count in Counter(groups).items() if count < _SMALL]
    if small:
        notes.append(
            f"{listed(small)} of {' and '.join(map(repr, factors))} have fewer than eight subjects: "
            "only very large differences can be found"
        )
    if blocks is not None:
        sizes = np.bincount(blocks)
        if (sizes == 1).any():
            notes.append(
                f"{int((sizes == 1).sum())} subjects are alone in their block, and do not change places"
            )
    return notes


def _variance_groups(factors: Mapping[str, np.ndarray], matrix: np.ndarray) -> np.ndarray | None:
    """The group of every subject, or None where there are none or one cannot tell its spread."""
    if not factors:
        return None
    labels = np.array([np.unique(each, return_inverse=True)[1] for each in factors.values()])
    groups = np.unique(labels, axis=1, return_inverse=True)[1].reshape(-1)
    basis = np.linalg.qr(matrix)[0]
    degrees = np.bincount(groups, weights=1 - np.sum(basis**2, axis=1))
    return groups if (degrees >= _FEWEST_DEGREES).all() else None


def _one_sided(
    tested: Mapping[str, np.ndarray],
    wanted: Sequence[str],
    factors: Mapping[str, np.ndarray],
    blocks: str | None,
) -> list[str]:
    """Categories of a nuisance covariate, or blocks, that have one group of a tested column only."""
    notes = []
    for name, groups in tested.items():
        for other in dict.fromkeys([*wanted, *([blocks] if blocks else [])]):
            if other not in factors or other in tested:
                continue
            labels = factors[other]
            found = {
                label: set(groups[labels == label].tolist())
                for label in sorted(set(labels.tolist()))
            }
            alone = [label for label, several in found.items() if len(several) == 1]
            if alone:
                notes.append(
                    f"all subjects with {listed(alone)} of {other!r} have the same {name!r}: they tell "
                    f"nothing about {name!r}, apart from the spread and the other covariates"
                )
    return notes
