"""The page about a comparison."""

from pathlib import Path

from mtgbn.report.page import Report


def comparison_report(folder: Path) -> Report:
    """Make the page about a folder that `mtgbn compare` wrote."""
    raise NotImplementedError
