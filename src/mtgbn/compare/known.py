"""Arrays that are computed one by one, kept in a file as they come; the rest can be done later."""

from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import read_npz, writing
from mtgbn.errors import InputError
from mtgbn.learn.checkpoint import fingerprint
from mtgbn.learn.estimator import Estimator
from mtgbn.tasks import Tasks

__all__ = ["Known", "identity_of"]


def identity_of(tasks: Tasks, learner: Estimator, extras: dict[str, Any]) -> str:
    """What results belong to: data, settings, and whatever else decides them."""
    settings = {name: repr(value) for name, value in learner.get_params().items()}
    settings = {k: v for k, v in settings.items() if k not in ("n_jobs", "random_state")}
    settings |= {"learner": type(learner).__name__, **extras}
    return str(sorted(fingerprint(tasks, settings).items()))


class Known:
    """Numbered arrays of one shape that are done, in a file if there is one.

    Parameters
    ----------
    path : path or None
    kind : str
        What messages call the arrays.
    belongs_to : str
        A file with arrays of something else is refused.
    """

    def __init__(self, path: str | Path | None, kind: str, belongs_to: str) -> None:
        self.path = None if path is None else Path(path)
        self._belongs_to = belongs_to
        self.values: dict[int, np.ndarray] = {}
        if self.path is not None and self.path.exists():
            self._read(kind)

    def _read(self, kind: str) -> None:
        try:
            arrays = read_npz(self.path)
            belongs_to = str(arrays["belongs_to"])
            self.values = dict(zip(arrays["numbers"].tolist(), arrays["values"], strict=True))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{str(self.path)!r} is not a file of {kind} ({error}); delete it to begin anew"
            ) from error
        if belongs_to != self._belongs_to:
            raise InputError(
                f"{str(self.path)!r} has {kind} of other data, settings or seed; give another file, or "
                "delete it"
            )

    def add(self, number: int, value: np.ndarray) -> None:
        """Keep an array, on disk if there is a file."""
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
