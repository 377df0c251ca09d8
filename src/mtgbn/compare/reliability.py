"""How well strengths are reproduced: intraclass correlations of sessions or of halves of the rows.

ICC(2,1) of Shrout and Fleiss (1979): subjects and sessions are random, agreement is absolute, and the
correlation is that of single sessions. Intervals are those of McGraw and Wong (1996). The formulas are
in docs/model.md, section 19.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import f as f_distribution

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.table import Table

# With fewer subjects an interval of the ICC spans nearly everything.
FEWEST_SUBJECTS = 3

# Both halves need enough rows for correlations.
_FEWEST_ROWS = 4


class Reliability(NamedTuple):
    """Intraclass correlations of the strengths of connections; arrays are (connections,).

    Attributes
    ----------
    icc, low, high : array
        ICC(2,1) and its 95 % confidence interval; nan where strengths do not vary.
    n_subjects, n_sessions : int
        Subjects, and sessions of each, that they come from.
    source : str
        ``"sessions"``, or ``"halves"``: the ICC is then that of half of the rows. Strengths from all
        rows are more reliable: 2 ICC/(1 + ICC), by Spearman and Brown.
    """

    icc: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_subjects: int
    n_sessions: int
    source: str = "sessions"

    def in_words(self) -> str:
        """One sentence."""
        what = (
            f"{self.n_sessions} sessions of {self.n_subjects} subjects"
            if self.source == "sessions"
            else f"the two halves of the rows of {self.n_subjects} subjects"
        )
        known = self.icc[np.isfinite(self.icc)]
        if not len(known):
            return f"The strengths do not vary over {what}, so that their reliability is unknown."
        quartiles = np.quantile(known, [0.25, 0.5, 0.75])
        return (
            f"Reliability of single connections over {what}: median ICC(2,1) {quartiles[1]:.2f} "
            f"(quartiles {quartiles[0]:.2f} and {quartiles[2]:.2f})."
        )


def intraclass_correlations(values: np.ndarray, level: float = 0.95) -> Reliability:
    """ICC(2,1) of values (subjects, sessions, connections), with confidence intervals."""
    n, k = values.shape[:2]
    if n < 2 or k < 2:
        raise InputError(
            f"reliability needs at least two subjects with two sessions each; got {n} subjects with "
            f"{k}"
        )
    mean = values.mean(axis=(0, 1))
    by_subject, by_session = values.mean(axis=1), values.mean(axis=0)
    left = values - by_subject[:, None] - by_session[None] + mean
    # Mean squares of subjects, of sessions and of the rest.
    subjects = k * np.sum((by_subject - mean) ** 2, axis=0) / (n - 1)
    sessions = n * np.sum((by_session - mean) ** 2, axis=0) / (k - 1)
    rest = np.sum(left**2, axis=(0, 1)) / ((n - 1) * (k - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        icc = (subjects - rest) / (subjects + (k - 1) * rest + k / n * (sessions - rest))
        a = k * icc / (n * (1 - icc))
        b = 1 + a * (n - 1)
        degrees = (a * sessions + b * rest) ** 2 / (
            (a * sessions) ** 2 / (k - 1) + (b * rest) ** 2 / ((n - 1) * (k - 1))
        )
        tail = (1 - level) / 2
        upper = f_distribution.isf(tail, n - 1, degrees)
        lower = f_distribution.isf(tail, degrees, n - 1)
        others = k * sessions + (k * n - k - n) * rest
        low = n * (subjects - upper * rest) / (upper * others + n * subjects)
        high = n * (lower * subjects - rest) / (others + n * lower * subjects)
    # Sessions that agree perfectly leave no degrees of freedom to an interval.
    perfect = (rest <= 1e-12 * subjects) & (sessions <= 1e-12 * subjects) & (subjects > 0)
    icc, low, high = (np.where(perfect, 1.0, each) for each in (icc, low, high))
    return Reliability(icc, low, high, n_subjects=n, n_sessions=k)


def session_reliability(strengths: np.ndarray, rows: Sequence[Sequence[int]]) -> Reliability | None:
    """ICC of strengths (tasks, connections), of which every subject has some rows; None if too few.

    An ICC needs the same number of sessions of every subject. It is the number that uses most
    sessions; subjects with fewer of them are left out, and the first sessions of the others are used.
    """
    counts = np.array([len(each) for each in rows])
    numbers = range(2, counts.max(initial=1) + 1)
    enough = [k for k in numbers if np.sum(counts >= k) >= FEWEST_SUBJECTS]
    if not enough:
        return None
    k = max(enough, key=lambda number: number * np.sum(counts >= number))
    chosen = np.array([list(each)[:k] for each in rows if len(each) >= k])
    return intraclass_correlations(strengths[chosen])


def half_reliability(strengths: np.ndarray, others: np.ndarray) -> Reliability | None:
    """ICC of the strengths (subjects, connections) in both halves of the rows; None if too few."""
    if len(strengths) < FEWEST_SUBJECTS:
        return None
    found = intraclass_correlations(np.stack([strengths, others], axis=1))
    return found._replace(source="halves")


def split_halves(data: Any, **options: Any) -> tuple[Tasks, Tasks]:
    """Make tasks of the first and of the second half of every table's rows.

    `compare_design` estimates from them how well strengths are reproduced, where there is one session
    of every subject.

    Parameters
    ----------
    data : arrays, data frames, a path, or tables
        As for `mtgbn.tasks.read_tables`, or its result.
    **options
        As for `mtgbn.Tasks.from_arrays`, such as ``standardise`` and ``effective_samples``. The latter
        must be a method, since numbers would be those of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(3, 41, 2))
    >>> first, second = split_halves(rows)
    >>> first.n_rows, second.n_rows
    (array([20, 20, 20]), array([21, 21, 21]))
    """
    if not isinstance(options.get("effective_samples"), str | None):
        raise InputError(
            "effective_samples must be a method such as 'bartlett', or None; numbers are those of all "
            "rows, not of a half"
        )
    is_read = isinstance(data, list | tuple) and all(isinstance(each, Table) for each in data)
    tables = data if is_read else read_tables(data)
    halves: tuple[list[Table], list[Table]] = ([], [])
    for table in tables:
        middle = len(table.values) // 2
        if middle < _FEWEST_ROWS:
            raise InputError(
                f"task {table.task!r} has {len(table.values)} rows, too few for two halves; use more "
                "rows"
            )
        for half, part in zip(halves, (slice(middle), slice(middle, None)), strict=True):
            half.append(_rows_of(table, part))
    first, second = (Tasks.from_tables(half, **options) for half in halves)
    return first, second


def _rows_of(table: Table, part: slice) -> Table:
    """Some of the rows of a table, which are worth their share of the independent samples."""
    values = table.values[part]
    share = len(values) / len(table.values)
    numbers = range(len(table.values)) if table.row_numbers is None else table.row_numbers
    return table._replace(
        values=values,
        row_numbers=numbers[part],
        most_samples=None if table.most_samples is None else share * table.most_samples,
    )
