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
    """Data or a setting that cannot be used; the message names the culprit and what to do.

    Examples
    --------
    >>> from mtgbn import SIG
    >>> SIG(n_restarts=-1).fit([[[1, 2], [2, 1], [0, 5]]])
    Traceback (most recent call last):
    mtgbn.errors.InputError: n_restarts must be a whole number of at least 0; got -1
    """


class ExtraNotInstalledError(InputError):
    """A package is needed that only an extra of mtgbn installs; the message names the extra.

    Examples
    --------
    >>> from mtgbn._utils.optional import require
    >>> require("no_such_package", "report", "reports")
    Traceback (most recent call last):
    mtgbn.errors.ExtraNotInstalledError: reports need no_such_package: pip install 'mtgbn[report]'
    """


class GraphError(ValueError):
    """An adjacency matrix that is not the kind of graph that was asked for.

    Examples
    --------
    >>> from mtgbn.graphs.dags import topological_order
    >>> try:
    ...     topological_order([[0, 1], [1, 0]])
    ... except GraphError as error:
    ...     print(str(error).partition(";")[0])
    a DAG is needed, but there is the cycle 0 -> 1 -> 0
    """


class ImproperPosteriorError(ValueError):
    """The posterior of sigma_h has no finite integral, so there is nothing to sample.

    Examples
    --------
    >>> from mtgbn.paper import sample_sigma_h
    >>> try:
    ...     sample_sigma_h([[[1, 2], [2, 1], [0, 5]]], [[[0, 1], [0, 0]]], nu0=5)
    ... except ImproperPosteriorError as error:
    ...     print(str(error)[:37])
    the posterior of sigma_h is improper:
    """


class CollinearityWarning(UserWarning):
    """Columns of a task are linear combinations of others.

    Examples
    --------
    >>> import warnings
    >>> from mtgbn import Tasks
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", CollinearityWarning)
    ...     tasks = Tasks.from_arrays([[[1, 2], [2, 4], [0, 0], [3, 6]]])
    >>> caught[0].category.__name__
    'CollinearityWarning'
    """


# scikit-learn's own, so that its tools recognise them. Reached by name and not imported here, since
# loading scikit-learn takes longer than the commands and readers that need nothing of it.
_OF_SCIKIT_LEARN = ("ConvergenceWarning", "NotFittedError")


def __getattr__(name: str):
    if name in _OF_SCIKIT_LEARN:
        return getattr(importlib.import_module("sklearn.exceptions"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
