"""Every exception and warning that mtgbn raises by name."""

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


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked for what only `fit` can give."""


class CollinearityWarning(UserWarning):
    """Columns of a task are linear combinations of others."""


class ConvergenceWarning(UserWarning):
    """EM ended before it had settled, or its draws cannot be trusted; the message has the numbers."""
