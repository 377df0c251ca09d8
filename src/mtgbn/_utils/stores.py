"""Files that keep the finished parts of a long computation, so that a later call can resume it."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import read_npz, writing
from mtgbn.errors import InputError

# Parameters of an estimator that do not decide the result, or that are fingerprinted as seeds.
_NOT_SETTINGS = ("n_jobs", "random_state")


def fingerprint(
    arrays: Iterable[np.ndarray], names: Sequence[Sequence[str]], settings: Mapping[str, Any]
) -> dict[str, str]:
    """Describe what a result was computed from: the data as one digest, each setting as text.

    ``names`` are all names that belong to the arrays. Arrays and data frames among the settings count
    with all their digits, which their repr does not show.
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(json.dumps(names).encode())
    return {
        "data": digest.hexdigest(),
        **{name: repr(_spelled_out(value)) for name, value in settings.items()},
    }


def _spelled_out(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        return list(value.columns), list(value.index), value.to_numpy().tolist()
    if isinstance(value, tuple | list):
        return [_spelled_out(each) for each in value]
    return value


def estimator_settings(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that decide its result, and the name of its class."""
    settings = {k: v for k, v in estimator.get_params().items() if k not in _NOT_SETTINGS}
    return {"estimator": type(estimator).__name__, **settings}


class Store:
    """Numbered arrays of one shape, ``values``, kept in one .npz as they are finished.

    A file at ``path`` is read, and written by every `add`; without a path the arrays are in memory.
    ``kind`` is what messages call the arrays, in the plural. ``belongs_to`` is a `fingerprint`; a file
    with another one is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, kind: str, belongs_to: Mapping[str, str]
    ) -> None:
        self.path = None if path is None else Path(path)
        self.values: dict[int, np.ndarray] = {}
        self._belongs_to = str(sorted(belongs_to.items()))
        if self.path is None or not self.path.exists():
            return
        try:
            arrays = read_npz(self.path)
            found = str(arrays["belongs_to"])
            self.values = dict(zip(arrays["numbers"].tolist(), arrays["values"], strict=True))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{str(path)!r} is not a file of {kind} ({error}); delete it to begin anew"
            ) from error
        if found != self._belongs_to:
            raise InputError(
                f"{str(path)!r} has {kind} of other data, settings or seed; give another file, or "
                "delete it"
            )

    def add(self, number: int, value: np.ndarray) -> None:
        """Keep a finished array; the file is whole at any time."""
        self.values[number] = value
        if self.path is None:
            return
        numbers = sorted(self.values)
        with writing(self.path) as file:
            np.savez_compressed(
                file,
                belongs_to=self._belongs_to,
                numbers=np.array(numbers),
                values=np.array([self.values[each] for each in numbers]),
            )
