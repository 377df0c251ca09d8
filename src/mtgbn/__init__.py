"""Gaussian Bayesian networks for many related, small datasets at once.

Adjacency convention, everywhere: ``A[i, j]`` is true when there is an edge i -> j.
"""

import importlib

__version__ = "0.1.0.dev0"

# Loaded on first use, so that `import mtgbn` does not pay for numba and scipy.
_SUBPACKAGES = (
    "compare",
    "errors",
    "experiments",
    "fmri",
    "graphs",
    "learn",
    "metrics",
    "model",
    "plot",
    "report",
    "results",
    "chain",
    "paper",
    "search",
    "simulate",
    "tasks",
    "workflows",
)
_NAMES = {
    "AVG": "mtgbn.learn",
    "Knowledge": "mtgbn.search",
    "MTGBN": "mtgbn.learn",
    "SIG": "mtgbn.learn",
    "Tasks": "mtgbn.tasks",
    "load_result": "mtgbn.results",
    "save_result": "mtgbn.results",
}

__all__ = [*_NAMES, "__version__", *_SUBPACKAGES]


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"mtgbn.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'mtgbn' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
