"""The class `Tasks`: validated tasks as sufficient statistics, which every later step reads."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self, Unpack

import numpy as np

from mtgbn._utils.names import (
    check_names,
    check_variables,
    default_variables,
    name_position,
    task_names,
    task_positions,
)
from mtgbn._utils.stores import fingerprint
from mtgbn.errors import InputError
from mtgbn.tasks.autocorrelation import one_per_task
from mtgbn.tasks.checks import check_degrees, check_scatter
from mtgbn.tasks.collinearity import warn_collinear
from mtgbn.tasks.readers import (
    READING_OPTIONS,
    read_tables,
    tables_from_arrays,
    tables_from_file,
    tables_from_frames,
    tables_from_long,
)
from mtgbn.tasks.reduction import Options, ReducedTask, fill_unobserved, reduce_table
from mtgbn.tasks.table import Table, align, as_matrix
from mtgbn.tasks.text_files import tables_from_folder

_PER_TASK = ("scatters", "ns", "centres", "scales", "independent_shares")


class Tasks:
    """Tasks over the same variables, each as a scatter with its degrees of freedom.

    The constructor takes sufficient statistics. For data use a class method: `from_arrays`,
    `from_frames`, `from_long`, `from_folder`, `from_file`, or `from_any`. A Tasks is immutable.

    Parameters
    ----------
    scatters : sequence of (p, p) arrays
        T_i, the sums of squares and products of the (centred) data of each task.
    ns : sequence of float
        n_i, the degrees of freedom of each scatter; need not be whole.
    variables : sequence of str, optional
        Names of the columns; x0, x1, ... if left out.
    names : sequence of str, optional
        Names of the tasks; task0, task1, ... if left out.

    Attributes
    ----------
    scatters : (m, p, p) array
        Exactly symmetric.
    ns : (m,) array
    variables, names : tuple of str
    n_rows : (m,) array of int, or None
        Rows that each task had; None when built from sufficient statistics.
    centres, scales : (m, p) array
        What was subtracted from every variable of a task, its mean or 0, and what it was then divided
        by, its standard deviation or 1.
    incomplete : mapping from int to (rows, p) array
        The rows of every task with missing values, by its position: centred and scaled, nan where
        missing. The scatters of these tasks are guesses, to be replaced with `with_scatters`.
    independent_shares : (m,) array
        Share of their number that the rows of every task are worth in independent samples, as estimated
        from their autocorrelations, where all rows count in full; nan where ``effective_samples`` was
        given, or the rows are too few or unknown.

    Notes
    -----
    The class methods, which build from data, accept these keyword options:

    centre : bool, default True
        Subtract the mean of each variable in each task; then n_i is rows - 1. With False the
        means are known to be zero and n_i is the number of rows.
    standardise : bool, default False
        Divide each variable of each task by its standard deviation (denominator n_i), so that
        the diagonal of each scatter is n_i.
    effective_samples : str, float, sequence of float or dict by task name, optional
        Number of independent samples that the rows are worth, at most the number of rows: for time
        series "bartlett" or "ar1", which estimate it (`mtgbn.tasks.effective_samples`), or numbers.
        It becomes n_i, and the scatter is multiplied by effective_samples / rows. Of a series with
        missing values it is estimated from the pairs of rows that are observed.
    missing : "error" or "em", default "error"
        With "em" values may be missing: nan, None, NA, empty cells of text files. Labelled tasks may
        then lack variables; the variables are those of all tasks, in the order of first appearance,
        and each needs two observed values in some task. Rows without any value are left out. Means
        and standard deviations are those of the observed values (a variable without two of them has
        scale 1, without any has centre 0), n_i is rows - 1 or effective_samples, and the scatters of
        imputed rows are multiplied by `scatter_factor`. Needs ``centre=True`` if values are missing.

    A `CollinearityWarning` names variables that are exact linear combinations of others, relative to
    `mtgbn.tasks.collinearity.TOLERANCE`. With fewer rows than variables only multiples of one
    variable are certain to be found. Given scatters and tasks with missing values are not searched.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tasks = Tasks.from_arrays([rng.normal(size=(rows, 3)) for rows in (20, 30)])
    >>> tasks
    Tasks(2 tasks, 3 variables, n = 19 to 29)
    >>> tasks["task1"].ns
    array([29.])
    """

    __slots__ = (
        "centres",
        "incomplete",
        "independent_shares",
        "n_rows",
        "names",
        "ns",
        "scales",
        "scatters",
        "variables",
    )

    scatters: np.ndarray
    ns: np.ndarray
    variables: tuple[str, ...]
    names: tuple[str, ...]
    n_rows: np.ndarray | None
    centres: np.ndarray
    scales: np.ndarray
    incomplete: Mapping[int, np.ndarray]
    independent_shares: np.ndarray

    def __init__(
        self,
        scatters: Iterable[Any],
        ns: Sequence[float],
        variables: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        scatters = list(scatters)
        if not scatters:
            raise InputError("no tasks: give at least one scatter")
        names = task_names(names, len(scatters))
        if variables is None:
            variables = default_variables(as_matrix(scatters[0], names[0]).shape[1])
        variables = check_variables(variables)
        degrees = check_degrees(ns, names)
        checked = [check_scatter(s, t, variables) for s, t in zip(scatters, names, strict=True)]
        shape = len(checked), len(variables)
        self._store(
            scatters=np.array(checked),
            ns=degrees,
            variables=variables,
            names=names,
            n_rows=None,
            centres=np.zeros(shape),
            scales=np.ones(shape),
            incomplete={},
        )

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[Any],
        variables: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Build from one (rows x variables) array per task; row counts may differ.

        Parameters
        ----------
        arrays : list of (rows, p) arrays, or one (m, rows, p) array
            Real numbers; booleans count as 0 and 1.
        variables, names : sequence of str, optional
            Names of the columns and of the tasks.
        """
        return cls.from_tables(tables_from_arrays(arrays, variables, names), **options)

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[Hashable, Any] | Sequence[Any],
        names: Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Build from one DataFrame per task; columns are matched by name.

        Parameters
        ----------
        frames : dict or list of DataFrame
            The keys of a dict name the tasks. The first task gives the order of the variables.
        names : sequence of str, optional
            Names of the tasks of a list.
        """
        return cls.from_tables(tables_from_frames(frames, names), **options)

    @classmethod
    def from_long(cls, frame: Any, task: str = "task", **options: Unpack[Options]) -> Self:
        """Build from one DataFrame in which a column says which task a row belongs to.

        Parameters
        ----------
        frame : DataFrame
            All tasks below each other, in any order of rows.
        task : str, default "task"
            The column with the task; all other columns are variables.
        """
        return cls.from_tables(tables_from_long(frame, task), **options)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], pattern: str | None = None, **options: Unpack[Options]
    ) -> Self:
        """Build from a folder with one text file per task, named after it.

        Parameters
        ----------
        path : str or path
            Files are UTF-8 with the variable names in the first line: .csv (commas), .tsv (tabs),
            .txt (tabs, commas, semicolons or blanks, whichever the first line has). Hidden files
            are skipped; sub-2 comes before sub-10. Or series at any depth, as BIDS derivatives have
            them (XCP-D, giga_connectome, mtgbn extract): ``sub-01_*_timeseries.tsv`` is the task
            sub-01, with the session or run in its name if a subject has several.
        pattern : str, optional
            Which files to read instead, for example ``"sub-*/func/*_timeseries.tsv"``.
        """
        return cls.from_tables(tables_from_folder(path, pattern), **options)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], task: str = "task", **options: Unpack[Options]
    ) -> Self:
        """Build from one file with all tasks.

        Parameters
        ----------
        path : str or path
            A long text table (.csv, .tsv, .txt as for `from_folder`), or an .npz with one
            (rows x variables) array per task, named after it, and perhaps the ``variables``.
        task : str, default "task"
            The column of a long table that says which task a row belongs to.
        """
        return cls.from_tables(tables_from_file(path, task), **options)

    @classmethod
    def from_any(cls, data: Any, **options: Any) -> Self:
        """Build from data of any kind.

        Parameters
        ----------
        data : Tasks, path, dict, list, array or DataFrame
            What `mtgbn.tasks.read_tables` reads; a Tasks is returned as it is.
        **options
            Those in the notes of `Tasks`, and ``pattern``, ``task``, ``variables``, ``names`` of
            `mtgbn.tasks.read_tables`.
        """
        if isinstance(data, cls):
            if options:
                raise InputError(
                    f"options {sorted(options)} have no effect on a Tasks; "
                    "apply them where it is built from data"
                )
            return data
        reading = {name: options.pop(name) for name in READING_OPTIONS if name in options}
        return cls.from_tables(read_tables(data, **reading), **options)

    @classmethod
    def from_tables(
        cls,
        tables: Sequence[Table],
        *,
        centre: bool = True,
        standardise: bool = False,
        effective_samples: str | float | Sequence[float] | Mapping[str, float] | None = None,
        missing: Literal["error", "em"] = "error",
    ) -> Self:
        """Build from tables, such as those of `mtgbn.tasks.read_tables`; the options are in `Tasks`."""
        tables = align(tables, union=isinstance(missing, str) and missing == "em")
        sizes = one_per_task(effective_samples, [table.task for table in tables])
        reduce = partial(reduce_table, centre=centre, standardise=standardise, missing=missing)
        pairs = zip(tables, sizes, strict=True)
        return cls.from_reduced([reduce(table, effective_samples=size) for table, size in pairs])

    @classmethod
    def from_reduced(cls, reduced: Sequence[ReducedTask]) -> Self:
        """Build from tasks that were reduced one by one, with `mtgbn.tasks.reduction.reduce_table`."""
        if not reduced:
            raise InputError("no tasks: give at least one reduced task")
        tables = [task.table for task in reduced]
        names = check_names([t.task for t in tables], "task", origins=[t.file for t in tables])
        variables = tables[0].columns
        odd = next((table.task for table in tables if table.columns != variables), None)
        if odd is not None:
            raise InputError(
                f"tasks {names[0]!r} and {odd!r} have other variables or another order of them; align "
                "the tables before they are reduced"
            )
        rows = {i: task.incomplete_rows for i, task in enumerate(reduced)}
        incomplete = {i: values for i, values in rows.items() if values is not None}
        scatters = fill_unobserved(reduced) if incomplete else [task.scatter for task in reduced]
        warn_collinear(
            [(task.table.task, task.relations) for task in reduced if task.relations], variables
        )
        return cls.from_statistics(
            scatters=np.array(scatters),
            ns=np.array([task.n for task in reduced]),
            variables=variables,
            names=names,
            n_rows=np.array([len(table.values) for table in tables]),
            centres=np.array([task.centre for task in reduced]),
            scales=np.array([task.scale for task in reduced]),
            incomplete=incomplete,
            independent_shares=np.array([task.independent_share for task in reduced]),
        )

    @classmethod
    def from_statistics(cls, **attributes: Any) -> Self:
        """Build from all attributes of another Tasks, by name and without any check.

        For statistics that were checked before, such as those of a saved result. The arrays become
        read-only. ``independent_shares`` may be left out.
        """
        tasks = cls.__new__(cls)
        tasks._store(**attributes)
        return tasks

    def _store(self, **attributes: Any) -> None:
        attributes.setdefault("independent_shares", np.full(len(attributes["names"]), np.nan))
        incomplete = dict(attributes["incomplete"])
        for value in (*attributes.values(), *incomplete.values()):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        for name, value in (attributes | {"incomplete": MappingProxyType(incomplete)}).items():
            object.__setattr__(self, name, value)

    def _attributes(self) -> dict[str, Any]:
        """Return all attributes by name; a plain dict in place of the mapping proxy."""
        attributes = {name: getattr(self, name) for name in Tasks.__slots__}
        return attributes | {"incomplete": dict(self.incomplete)}

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a Tasks is immutable; cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"a Tasks is immutable; cannot delete {attribute!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays are writeable; from_statistics makes them read-only again.
        return partial(type(self).from_statistics, **self._attributes()), ()

    @property
    def n_variables(self) -> int:
        """Number of variables, p."""
        return len(self.variables)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        low, high = self.ns.min(), self.ns.max()
        n = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        tasks = "1 task" if len(self) == 1 else f"{len(self)} tasks"
        lacking = f", {len(self.incomplete)} with missing values" if self.incomplete else ""
        return f"Tasks({tasks}, {self.n_variables} variables, n = {n}{lacking})"

    def __eq__(self, other: object) -> bool:
        """Whether names, variables, scatters, n and the rows of incomplete tasks are the same."""
        if not isinstance(other, Tasks):
            return NotImplemented
        return (
            self.names == other.names
            and self.variables == other.variables
            and np.array_equal(self.ns, other.ns)
            and np.array_equal(self.scatters, other.scatters)
            and self.incomplete.keys() == other.incomplete.keys()
            and all(
                np.array_equal(rows, other.incomplete[position], equal_nan=True)
                for position, rows in self.incomplete.items()
            )
        )

    def __getitem__(self, selection: Any) -> Self:
        """Select tasks: a name, an int, a slice, a list of names or ints, or a boolean mask."""
        index = task_positions(selection, self.names)
        return self._with(
            names=tuple(self.names[i] for i in index),
            n_rows=None if self.n_rows is None else self.n_rows[index],
            incomplete={k: self.incomplete[i] for k, i in enumerate(index) if i in self.incomplete},
            **{name: getattr(self, name)[index] for name in _PER_TASK},
        )

    def _with(self, **changes: Any) -> Self:
        return self.from_statistics(**{**self._attributes(), **changes})

    def select_variables(self, names: Sequence[str]) -> Self:
        """Select at least two variables by name, in the given order.

        A task without missing values of these variables is no longer incomplete.
        """
        chosen = check_variables(names, "the selection: ")
        index = [name_position(name, self.variables, "variable") for name in chosen]
        scatters = np.ascontiguousarray(self.scatters[:, index][:, :, index])
        incomplete = {}
        for position, rows in self.incomplete.items():
            selected = np.ascontiguousarray(rows[:, index])
            lacking = np.isnan(selected)
            if lacking.all():
                raise InputError(
                    f"the selection: task {self.names[position]!r} has no value of these "
                    "variables; leave out the task or select more variables"
                )
            if lacking.any():
                incomplete[position] = selected
        return self._with(
            scatters=scatters,
            variables=chosen,
            centres=self.centres[:, index],
            scales=self.scales[:, index],
            incomplete=incomplete,
        )

    def with_scatters(self, scatters: np.ndarray, shifts: np.ndarray | None = None) -> Self:
        """Replace the scatters, such as by those of imputed rows.

        Parameters
        ----------
        scatters : (m, p, p) array
            Symmetric with a positive diagonal. That they are positive semidefinite is not checked.
        shifts : (m, p) array, optional
            Differences of the means from the centres, in units of the scales.
        """
        others = np.array(scatters, dtype=np.float64, order="C")
        if others.shape != self.scatters.shape:
            raise InputError(
                f"scatters has shape {others.shape}; these tasks need {self.scatters.shape}"
            )
        usable = np.isfinite(others).all(axis=(1, 2))
        usable &= (np.einsum("tii->ti", others) > 0).all(axis=1)
        symmetric = (others == others.transpose(0, 2, 1)).all(axis=(1, 2))
        for right, what in ((usable, "finite with a positive diagonal"), (symmetric, "symmetric")):
            if not right.all():
                name = self.names[int(np.argmin(right))]
                raise InputError(f"task {name!r}: the new scatter is not {what}")
        centres = self.centres if shifts is None else self.centres + self.scales * shifts
        return self._with(scatters=others, centres=centres)

    def scatter_factor(self, position: int) -> float:
        """Return n_i / (rows - 1), by which the scatter of a task's imputed rows is multiplied."""
        if position not in self.incomplete:
            raise InputError(f"task number {position} has no missing values to impute")
        return float(self.ns[position] / (len(self.incomplete[position]) - 1))

    def pooled(self) -> Self:
        """All tasks as one dataset."""
        scatter, n = self.pooled_scatter()
        return type(self)([scatter], [n], self.variables)

    def pooled_scatter(self) -> tuple[np.ndarray, float]:
        """Pool all tasks: the sum of the scatters and the sum of the n."""
        return self.scatters.sum(axis=0), float(self.ns.sum())

    def fingerprint(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Describe what a result belongs to: a digest of these tasks, and every setting as text."""
        arrays = (self.scatters, self.ns, self.centres, self.scales, *self.incomplete.values())
        return fingerprint(arrays, [self.names, self.variables], settings)
