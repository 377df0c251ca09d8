"""Every exception and warning that mtgbn raises by name."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning, NotFittedError

__all__ = [
    "CollinearityWarning",
    "ConvergenceWarning",
    "ExtraNotInstalledError",
    "GraphError",
    "ImproperPosteriorError",
    "InputError",
    "NotFittedError",
]


class InputError(ValueError):
    """Data or a setting that cannot be used; the message names the culprit and what to do."""


class ExtraNotInstalledError(InputError):
    """Something was asked for that needs a package of one of the extras; the message says which."""


class GraphError(ValueError):
    """An adjacency matrix that is not the kind of graph that was asked for."""


class ImproperPosteriorError(ValueError):
    """The posterior of sigma_h has no finite integral, so there is nothing to sample."""


class CollinearityWarning(UserWarning):
    """Columns of a task are linear combinations of others."""


# scikit-learn's own, so that its tools recognise them. Reached by name and not imported here, since
# loading scikit-learn takes longer than the commands and readers that need nothing of it.
_OF_SCIKIT_LEARN = ("ConvergenceWarning", "NotFittedError")


def __getattr__(name: str):
    if name in _OF_SCIKIT_LEARN:
        return getattr(importlib.import_module("sklearn.exceptions"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
