"""Two groups of tasks: reading their labels, and putting them into canonical order.

The chains have a first group, that of the first task in canonical order, so that a fit depends neither
on the order of the tasks nor on the names of the groups.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.labels import is_missing, reference_first
from mtgbn._utils.names import listed, unknown_name
from mtgbn.errors import InputError

# Of a group with fewer tasks nothing can be said.
_FEWEST = 2


class Groups(NamedTuple):
    """Two groups of tasks; differences are those of the second group minus the first.

    Attributes
    ----------
    labels : (str, str)
        The first group is a usual label of controls, or else the first one in alphabetical order.
    is_second : array (m,) of bool
        Which tasks are in the second group, in the user's order.
    """

    labels: tuple[str, str]
    is_second: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of tasks of both groups."""
        n_second = int(self.is_second.sum())
        return len(self.is_second) - n_second, n_second

    def by_task(self, names: Sequence[str]) -> dict[str, str]:
        """The label of every task."""
        return dict(zip(names, (self.labels[k] for k in self.is_second.astype(int)), strict=True))

    def canonical(self, task_order: Sequence[int]) -> tuple[np.ndarray, bool]:
        """The groups as the chains have them, and whether the first and the second changed places."""
        ordered = self.is_second[list(task_order)]
        return (ordered != ordered[0]).astype(np.int64), bool(ordered[0])

    @property
    def in_words(self) -> str:
        """The labels with the numbers of their tasks, and a digest of who is in which group."""
        which = hashlib.sha256(np.packbits(self.is_second).tobytes()).hexdigest()[:12]
        sizes = (f"{n} {label}" for n, label in zip(self.sizes, self.labels, strict=True))
        return f"{', '.join(sizes)} ({which})"


def read_groups(groups: Any, names: Sequence[str]) -> Groups:
    """The groups of the tasks with these names.

    Parameters
    ----------
    groups : sequence, mapping or Series
        One label per task: in the order of the tasks, or by the name of the task.
    names : sequence of str

    Examples
    --------
    >>> read_groups(["patient", "control", "patient", "control"], ["a", "b", "c", "d"]).labels
    ('control', 'patient')
    """
    values = _in_order(groups, names)
    without = [name for name, value in zip(names, values, strict=True) if is_missing(value)]
    if without:
        raise InputError(
            f"{listed(without)} {'has' if len(without) == 1 else 'have'} no label in groups; give a "
            "label to every task, or leave these tasks out"
        )
    texts = [_text(value) for value in values]
    counts = Counter(texts)
    shown = listed((f"{label}: {n}" for label, n in sorted(counts.items())), 6, quote=False)
    if len(counts) != 2:
        raise InputError(
            f"groups must have two different labels; it has {len(counts)} ({shown}). "
            + (
                "Choose the tasks of two groups, or give two of them the same label"
                if len(counts) > 2
                else "Without groups to compare, leave it out"
            )
        )
    for label, n in counts.items():
        if n < _FEWEST:
            raise InputError(
                f"group {label!r} has one task; at least two are needed to tell what the group has in "
                "common. Add tasks, or learn the tasks without groups and compare strengths"
            )
    first, second = sorted(counts, key=reference_first)
    return Groups((first, second), np.array([text == second for text in texts]))


def _in_order(groups: Any, names: Sequence[str]) -> list[Any]:
    """One label per task, in the order of the tasks."""
    if hasattr(groups, "columns"):
        raise InputError(
            "groups is a table; give one of its columns, such as table['group'], with the names of the "
            "tasks as its index"
        )
    if hasattr(groups, "index") and hasattr(groups, "to_numpy"):
        index = [str(name) for name in groups.index]
        if not set(index) & set(names):
            raise InputError(
                f"the index of groups ({listed(index, 3)}) has no name of a task ({listed(names, 3)}); "
                "set the names as its index, or give a list in the order of the tasks"
            )
        if len(set(index)) < len(index):
            twice = next(name for name, n in Counter(index).items() if n > 1)
            raise InputError(f"the index of groups has {twice!r} twice; leave one label")
        groups = dict(zip(index, groups.to_numpy().tolist(), strict=True))
    if isinstance(groups, Mapping):
        for name in groups:
            if name not in names:
                raise unknown_name(name, names, "task")
        lacking = [name for name in names if name not in groups]
        if lacking:
            raise InputError(
                f"groups has no label for {listed(lacking)}; give a label to every task"
            )
        return [groups[name] for name in names]
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise InputError(
            f"groups must have one label per task, in their order or by name; got {groups!r}"
        )
    values = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(values) != len(names):
        raise InputError(f"groups has {len(values)} labels for {len(names)} tasks; give one each")
    return values


def _text(value: Any) -> str:
    """A label as text; 1.0 is the same label as 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | bool | int | float | np.generic):
        raise InputError(f"a label of groups must be a text or a number; got {value!r}")
    return str(value).strip()
