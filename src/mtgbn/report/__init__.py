"""One self-contained HTML page per fit or comparison."""

from mtgbn.report.choose_page import report_of
from mtgbn.report.page import Report

__all__ = ["Report", "report_of"]
