"""Checks of the estimators' parameters, as tables: name of the parameter, what it may be."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mtgbn._utils.arguments import check_count, is_number
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError
from mtgbn.learn.min_strength import MinStrength

Check = Callable[[str, Any], None]
ParameterTable = Mapping[str, Check]


def check_parameters(estimator: Any, table: ParameterTable) -> None:
    """Raise an error that names the first parameter that cannot be used, and what it may be."""
    for name, check in table.items():
        check(name, getattr(estimator, name))


def one_of(*choices: str) -> Check:
    """One of some words."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in choices:
            *first, last = map(repr, choices)
            raise InputError(f"{name} must be {', '.join(first)} or {last}; got {value!r}")

    return check


def whole(least: int, most: int | None = None) -> Check:
    """A whole number within limits."""

    def check(name: str, value: Any) -> None:
        check_count(name, value, least)
        if most is not None and value > most:
            raise InputError(f"{name} must be at most {most}; got {value}")

    return check


def optional(check: Check) -> Check:
    """None, or what another check allows."""
    return lambda name, value: None if value is None else check(name, value)


def at_least_zero(name: str, value: Any) -> None:
    """A number that is not negative."""
    if not (is_number(value) and value >= 0):
        raise InputError(f"{name} must be a number of at least 0; got {value!r}")


def a_correlation_or_auto(name: str, value: Any) -> None:
    """The size of a correlation, "auto", or what "auto" meant for other tasks."""
    if isinstance(value, MinStrength) or (isinstance(value, str) and value == "auto"):
        return
    if not (is_number(value) and 0 <= value < 1):
        raise InputError(
            f"{name} must be 'auto' or a partial correlation from 0 to below 1; got {value!r}"
        )


def a_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {value!r}")


def a_seed(name: str, value: Any) -> None:
    """What `seed_sequence` takes."""
    if not isinstance(value, np.random.Generator):  # checking would advance the generator
        seed_sequence(value)


def number_of_jobs(name: str, value: Any) -> None:
    """A number of jobs as joblib counts them."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and (not is_whole or value == 0):
        raise InputError(
            f"{name} must be a number of jobs, -1 for all processors, or None; got {value!r}"
        )
