"""Which page a result gets."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtgbn.compare.comparison_folder import (
    ABOUT_FILE,
    ComparisonTables,
    comparison_tables,
    read_comparison,
)
from mtgbn.compare.design_study import DesignStudy
from mtgbn.compare.study import Study, SubjectStudy
from mtgbn.errors import ExtraNotInstalledError, InputError, NotFittedError
from mtgbn.learn.estimator import Estimator
from mtgbn.report.design_page import design_report
from mtgbn.report.fit_page import fit_report
from mtgbn.report.groups_page import groups_report
from mtgbn.report.page import Report
from mtgbn.report.subject_page import subject_report
from mtgbn.results import load_result
from mtgbn.results.encoding import encode_estimator
from mtgbn.results.folder import RESULT_FILE, read_description


def report_of(
    result: Estimator | DesignStudy | Study | SubjectStudy | str | os.PathLike[str],
    *,
    reading: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Report:
    """Make the page about a fit or a comparison. Needs the extra ``report``.

    Notebooks show the page; its ``save_as_html(path)`` writes it.

    Parameters
    ----------
    result : fitted estimator; DesignStudy, Study or SubjectStudy; or path
        A path is a folder that `mtgbn fit`, `save_result`, `mtgbn compare` or `write_study` wrote.
    reading : mapping, optional
        Of an estimator: how its data were read, as for `save_result`; the page then has the command
        line that repeats the fit.
    about : mapping, optional
        Of a comparison: what is known beyond the comparison itself, as for `write_study`.

    Examples
    --------
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> tasks = Tasks.from_arrays(np.random.default_rng(0).normal(size=(2, 30, 3)))
    >>> report = report_of(SIG(random_state=0).fit(tasks))
    >>> report.html.splitlines()[0]
    '<!DOCTYPE html>'
    """
    if isinstance(result, Estimator):
        if not hasattr(result, "graphs_"):
            raise NotFittedError(
                "there is nothing to report: the estimator is not fitted; call fit first"
            )
        description, _ = encode_estimator(result, reading)
        if reading is None:  # a fit that was loaded may have been made by other versions
            del description["versions"]
        return fit_report(result, description)
    if isinstance(result, DesignStudy | Study | SubjectStudy):
        return _comparison_report(comparison_tables(result, about))
    folder = Path(result)
    if (folder / ABOUT_FILE).is_file():
        try:
            return _comparison_report(read_comparison(folder))
        except (InputError, ExtraNotInstalledError):
            raise
        except Exception as error:  # files that were changed by hand can lead to any error
            raise InputError(
                f"{folder / ABOUT_FILE} and its tables are not what mtgbn wrote "
                f"({type(error).__name__}: {error}); compare again"
            ) from error
    if folder.is_dir() and not (folder / RESULT_FILE).is_file():
        raise InputError(
            f"{str(folder)!r} holds neither {RESULT_FILE} nor {ABOUT_FILE}; give a folder that mtgbn "
            "fit or mtgbn compare wrote, after the command has finished"
        )
    return fit_report(load_result(folder), read_description(folder))


def _comparison_report(comparison: ComparisonTables) -> Report:
    if comparison.about.get("kind") == "design":
        return design_report(comparison)
    is_subject = "departures" in comparison.tables
    return subject_report(comparison) if is_subject else groups_report(comparison)
