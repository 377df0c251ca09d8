"""One self-contained HTML page per fit or comparison, and how it is made from the saved numbers."""

from mtgbn.report.page import Report
from mtgbn.report.reports import REPORT_FILE, report_of, write_report

__all__ = ["REPORT_FILE", "Report", "report_of", "write_report"]
