"""Checks of arguments that many public functions share."""

from typing import Any

import numpy as np

from mtgbn.errors import InputError


def check_count(name: str, value: Any, least: int) -> None:
    """Raise an error unless ``value`` is a whole number of at least ``least``."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")


def check_interval(name: str, value: Any, brackets: str, low: float, high: float) -> None:
    """Raise an error unless ``value`` is a number in an interval with brackets such as "[)"."""
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "iuf":
        if low < array < high:
            return
        if (array == low and brackets[0] == "[") or (array == high and brackets[1] == "]"):
            return
    raise InputError(
        f"{name} must be a number in {brackets[0]}{low}, {high}{brackets[1]}; got {value!r}"
    )


def is_number(value: Any) -> bool:
    """Whether a value is a single finite real number."""
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "iuf" and bool(np.isfinite(array))


def real_array(value: Any, name: str) -> np.ndarray:
    """Return a float64 array of real numbers; refuse masked elements and imaginary parts."""
    if np.ma.is_masked(value):
        raise InputError(f"{name} has masked elements; fill them in or leave them out")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"elements of type {array.dtype}")
        return array.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers ({error})") from None
