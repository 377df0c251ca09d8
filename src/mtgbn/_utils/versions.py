"""The one place that gathers the versions of the packages that made a result."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import mtgbn


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of mtgbn, of Python and of those packages that are installed."""
    found = {"mtgbn": mtgbn.__version__, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
