"""The one place that gathers the versions of what made a result."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import mtgbn

__all__ = ["versions_of"]


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Versions of mtgbn, Python and those of the packages that are installed.

    Examples
    --------
    >>> list(versions_of(["numpy", "no-such-package"]))
    ['mtgbn', 'python', 'numpy']
    """
    found = {"mtgbn": mtgbn.__version__, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
