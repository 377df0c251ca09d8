"""The one place that imports packages of extras."""

import importlib
from types import ModuleType

from mtgbn.errors import ExtraNotInstalledError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an extra, or say how to install it.

    Parameters
    ----------
    module : str
        Full name, such as ``"nibabel"`` or ``"nilearn.signal"``.
    extra : str
        The extra of mtgbn that installs it.
    purpose : str
        What needs it, in the plural: ``"reports"``, ``"scans"``.

    Examples
    --------
    >>> require("json", "report", "reports").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ExtraNotInstalledError(
            f"{purpose} need {package}: pip install 'mtgbn[{extra}]'"
        ) from error
