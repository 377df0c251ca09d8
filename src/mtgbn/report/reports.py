"""Which page a result gets."""

import os
import tempfile
from pathlib import Path

from mtgbn.compare.study import Study, SubjectStudy
from mtgbn.compare.study_files import ABOUT_FILE, write_study
from mtgbn.errors import InputError, NotFittedError
from mtgbn.learn.estimator import Estimator
from mtgbn.report.comparison import comparison_report
from mtgbn.report.fit import fit_report
from mtgbn.report.page import Report
from mtgbn.results import load_result
from mtgbn.results.folder import RESULT_FILE, read_description

__all__ = ["REPORT_FILE", "report_of", "write_report"]

REPORT_FILE = "report.html"


def report_of(result: Estimator | Study | SubjectStudy | str | os.PathLike[str]) -> Report:
    """Make the page about a result.

    Parameters
    ----------
    result : fitted MTGBN, SIG or AVG; Study or SubjectStudy; or path
        A path is the folder of `mtgbn fit`, `save_result` or `mtgbn compare`.

    Returns
    -------
    Report
        ``save_as_html(path)`` writes it; notebooks show it.
    """
    if isinstance(result, Estimator):
        if not hasattr(result, "graphs_"):
            raise NotFittedError("there is nothing to report on: the estimator is not fitted")
        return fit_report(result)
    if isinstance(result, Study | SubjectStudy):
        with tempfile.TemporaryDirectory() as folder:
            write_study(result, folder)
            return comparison_report(Path(folder))
    folder = Path(result)
    if (folder / ABOUT_FILE).is_file():
        return comparison_report(folder)
    if folder.is_dir() and not (folder / RESULT_FILE).is_file():
        raise InputError(
            f"{str(folder)!r} holds neither {RESULT_FILE} nor {ABOUT_FILE}; give the folder that mtgbn "
            "fit or mtgbn compare wrote, when it is finished"
        )
    return fit_report(load_result(folder), read_description(folder))


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write the page about a folder of results into it."""
    return report_of(folder).save_as_html(Path(folder) / REPORT_FILE)
