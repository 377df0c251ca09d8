"""The one place that imports packages of extras."""

import importlib
from types import ModuleType

from mtgbn.errors import ExtraNotInstalledError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an extra, or say how to install it.

    ``module`` is a full name, such as ``"nilearn.signal"``; ``purpose`` says in the plural what needs
    it, such as ``"scans"``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ExtraNotInstalledError(
            f"{purpose} need {package}: pip install 'mtgbn[{extra}]'"
        ) from error
