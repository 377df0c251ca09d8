"""Finding the variables of a task that are linear combinations of others."""

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.errors import CollinearityWarning

# Every column is scaled to length one. It is a linear combination of other columns if the residual of
# its regression on them is shorter than this: far above rounding errors (1e-16 times a condition
# number), far below the noise of any measurement.
TOLERANCE = 1e-10
# A smaller pivot would multiply rounding errors.
_SMALLEST_PIVOT = 1e-6
_MOST_WARNINGS = 5
_PACKAGE_FOLDER = str(Path(__file__).parents[1])


class Relation(NamedTuple):
    """Variable ``dependent`` is a linear combination of the variables ``others`` (positions)."""

    dependent: int
    others: tuple[int, ...]


def find_relations(unit: np.ndarray, gram: np.ndarray, n: int) -> list[Relation]:
    """Find exact linear relations among columns, each of a later variable in terms of earlier ones.

    ``unit`` has centred columns of length one, ``gram`` their products; of ``n`` degrees of freedom any
    n + 1 columns are related, which is not reported.
    """
    if n < 2:
        return []
    copies = _find_copies(unit, gram)
    copied = {relation.dependent for relation in copies}
    kept = np.array([j for j in range(unit.shape[1]) if j not in copied])
    suspects = kept[_suspects(unit[:, kept], gram[np.ix_(kept, kept)], n)]
    combinations = [
        Relation(int(suspects[dependent]), tuple(suspects[list(others)].tolist()))
        for dependent, others in _find_combinations(unit[:, suspects], n)
    ]
    return sorted(copies + combinations)


def _find_copies(unit: np.ndarray, gram: np.ndarray) -> list[Relation]:
    copies: dict[int, int] = {}
    # A correlation cannot tell 1 - 1e-16 from 1: it selects pairs, whose columns are then compared.
    for first, later in np.argwhere(np.triu(np.abs(gram) > 1 - 1e-8, k=1)).tolist():
        gap = unit[:, later] - np.sign(gram[first, later]) * unit[:, first]
        if first not in copies and later not in copies and np.linalg.norm(gap) <= TOLERANCE:
            copies[later] = first
    return [Relation(later, (first,)) for later, first in copies.items()]


def _suspects(unit: np.ndarray, gram: np.ndarray, n: int) -> np.ndarray:
    """Return the columns that may be related; for most tasks none, which saves the pivoted QR."""
    p = unit.shape[1]
    # An exact relation makes an eigenvalue as small as rounding errors, 1e-16 times p.
    small = 1e-10
    if p > n:
        deficient = np.sum(np.linalg.eigvalsh(unit @ unit.T) > small) < n
        return np.arange(p) if deficient else np.arange(0)
    if np.linalg.eigvalsh(gram)[0] > small:
        return np.arange(0)
    eigenvalues, vectors = np.linalg.eigh(gram)
    loadings = np.abs(vectors[:, eigenvalues <= small]).max(axis=1)
    return np.flatnonzero(loadings > TOLERANCE / 10)


def _find_combinations(unit: np.ndarray, n: int) -> list[Relation]:
    p = unit.shape[1]
    if p == 0:
        return []
    from scipy.linalg import qr, solve_triangular

    triangle, order = qr(unit, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > TOLERANCE))
    if rank >= min(n, p):
        return []
    coefficients = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    relations = np.zeros((p - rank, p))
    relations[:, order[:rank]] = -coefficients.T
    relations[:, order[rank:]] = np.eye(p - rank)
    return _solve_for_the_last(relations)


def _solve_for_the_last(relations: np.ndarray) -> list[Relation]:
    """Eliminate from the last column (Gauss-Jordan), for c = a + b rather than a = c - b."""
    open_rows = list(range(len(relations)))
    solved = {}
    for column in range(relations.shape[1] - 1, -1, -1):
        if not open_rows:
            break
        row = max(open_rows, key=lambda r: abs(relations[r, column]))
        if abs(relations[row, column]) < _SMALLEST_PIVOT:
            continue
        relations[row] /= relations[row, column]
        factors = relations[:, column].copy()
        factors[row] = 0.0
        relations -= np.outer(factors, relations[row])
        relations[:, column] = 0.0
        relations[row, column] = 1.0
        open_rows.remove(row)
        solved[column] = row
    found = []
    for column, row in solved.items():
        used = np.flatnonzero(np.abs(relations[row]) > TOLERANCE).tolist()
        found.append(Relation(column, tuple(j for j in used if j != column)))
    return found


def warn_collinear(found: Sequence[tuple[str, list[Relation]]], variables: Sequence[str]) -> None:
    """Warn once per affected task, or once for all if there are many; the user's line is shown."""
    texts = [
        f"task {task!r} has exactly collinear variables: {_describe(relations, variables)}"
        for task, relations in found
    ]
    if len(texts) > _MOST_WARNINGS:
        tasks = listed([task for task, _ in found])
        texts = [
            f"{len(found)} tasks have exactly collinear variables ({tasks}); the first: {texts[0]}"
        ]
    stacklevel, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        stacklevel, frame = stacklevel + 1, frame.f_back
    for text in texts:
        warnings.warn(
            f"{text}. Edges among them cannot be told apart; consider removing one variable of "
            "each relation",
            CollinearityWarning,
            stacklevel=stacklevel,
        )


def _describe(relations: Sequence[Relation], variables: Sequence[str], most: int = 3) -> str:
    parts = []
    for dependent, others in relations[:most]:
        kind = "multiple" if len(others) == 1 else "linear combination"
        parts.append(
            f"{variables[dependent]!r} is a {kind} of {listed(variables[j] for j in others)}"
        )
    if len(relations) > most:
        parts.append(f"and {len(relations) - most} more relations")
    return "; ".join(parts)
