"""Names of tasks and variables: what is allowed, how messages show them, how they select."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mtgbn.errors import InputError


def listed(names: Iterable[object], most: int = 5, *, quote: bool = True) -> str:
    """Join names for a message; of more than ``most`` names, the first are shown."""
    texts = [repr(str(name)) if quote else str(name) for name in names]
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def natural_key(name: str) -> list[str | int]:
    """Key that sorts names as people do: sub-2 before sub-10, capitals do not matter."""
    pieces = re.split(r"(\d+)", name)
    return [int(piece) if odd % 2 else piece.casefold() for odd, piece in enumerate(pieces)]


def unknown_name(name: object, known: Sequence[str], kind: str) -> InputError:
    """Make the error for a name that does not exist; it shows the names that are most like it."""
    close = difflib.get_close_matches(str(name), known, n=3)
    hint = f"close matches: {listed(close)}" if close else f"the {kind}s are {listed(known)}"
    return InputError(f"there is no {kind} named {str(name)!r}; {hint}")


def check_names(
    names: Iterable[object], kind: str, owner: str = "", origins: Sequence[str | None] = ()
) -> tuple[str, ...]:
    """Return names as strings; refuse a name that is empty or used twice.

    ``owner`` says whose names they are; ``origins`` are the files that they come from, if any.
    """
    if isinstance(names, str):
        raise InputError(f"{kind} names must be a list of names, got the single string {names!r}")
    texts = tuple(str(name) for name in names)
    first: dict[str, int] = {}
    for position, name in enumerate(texts):
        if not name.strip():
            raise InputError(f"{owner}{kind} number {position} has an empty name; give it one")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{owner}{kind} number {position}, {name!a}, is not Unicode text; rename it"
            ) from None
        if name in first:
            pair = (first[name], position)
            files = [origins[i] for i in pair] if origins else []
            places = files if all(files) and files else [f"number {i}" for i in pair]
            raise InputError(
                f"{owner}duplicate {kind} name {name!r} ({places[0]} and {places[1]}); "
                f"{kind} names must be unique, rename or remove one of them"
            )
        first[name] = position
    return texts


def check_variables(names: Iterable[object], owner: str = "") -> tuple[str, ...]:
    """Return variable names as strings; they must be unique and at least two."""
    variables = check_names(names, "variable", owner)
    if len(variables) < 2:
        raise InputError(
            f"{owner}fewer than two variables (got {listed(variables) or 'none'}); "
            "a network needs at least two columns"
        )
    return variables


def task_names(names: Iterable[object] | None, count: int) -> tuple[str, ...]:
    """Return the given task names, or task0, task1, ... by position."""
    if names is None:
        return tuple(f"task{position}" for position in range(count))
    texts = check_names(names, "task")
    if len(texts) != count:
        raise InputError(f"{len(texts)} task names for {count} tasks; give one name per task")
    return texts


def default_variables(count: int) -> tuple[str, ...]:
    """Return the names x0, x1, ... by position of the column."""
    return tuple(f"x{position}" for position in range(count))


def name_position(name: str, known: Sequence[str], kind: str) -> int:
    """Return the position of a name among the known names."""
    if name not in known:
        raise unknown_name(name, known, kind)
    return known.index(name)


def task_positions(selection: Any, names: tuple[str, ...]) -> list[int]:
    """Return the positions that a name, an int, a slice, a list of names or ints, or a mask selects."""
    if isinstance(selection, slice):
        positions = list(range(len(names))[selection])
    elif isinstance(selection, str | int | np.generic):
        positions = [_task_position(selection, names)]
    else:
        try:
            items = list(selection)
        except TypeError as error:
            raise InputError(
                f"cannot select tasks with {selection!r}; use a name, an int, a slice, a list of "
                "names or ints, or a boolean mask"
            ) from error
        if items and all(isinstance(item, bool | np.bool_) for item in items):
            if len(items) != len(names):
                raise InputError(f"a mask of {len(items)} entries for {len(names)} tasks")
            positions = [position for position, chosen in enumerate(items) if chosen]
        else:
            positions = [_task_position(item, names) for item in items]
    if not positions:
        raise InputError(f"no tasks: the selection {selection!r} is empty")
    check_names([names[position] for position in positions], "task", "the selection: ")
    return positions


def _task_position(item: object, names: tuple[str, ...]) -> int:
    if isinstance(item, str):
        return name_position(item, names, "task")
    if not isinstance(item, int | np.integer) or isinstance(item, bool):
        raise InputError(f"{item!r} is neither the name nor the number of a task")
    if not -len(names) <= item < len(names):
        # IndexError rather than InputError: it is what ends a loop over the tasks.
        raise IndexError(f"there is no task number {item}; there are {len(names)} tasks")
    return int(item) % len(names)
