"""Read tasks from files, with warnings about data that were perhaps not meant."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtgbn.errors import CollinearityWarning, InputError
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.autocorrelation import effective_size
from mtgbn.tasks.table import Table

# Rows whose effective sample size is a smaller share of their number are probably a time series.
_SMALLEST_INDEPENDENT_SHARE = 0.7


def read_tasks(data: str | os.PathLike[str], reading: Mapping[str, Any]) -> tuple[Tasks, list[str]]:
    """Read the tasks in a folder or a file; return them with warnings.

    ``reading`` has the options of `Tasks.from_folder` or `Tasks.from_file`.
    """
    options = dict(reading)
    tables = read_tables(data, pattern=options.pop("pattern", None), task=options.pop("task", None))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollinearityWarning)
        tasks = Tasks.from_tables(tables, **options)
    found = [str(warning.message) for warning in caught]
    return tasks, found + _time_series_warning(tables, options)


def _time_series_warning(tables: Sequence[Table], options: Mapping[str, Any]) -> list[str]:
    """Warn if rows that are taken as independent seem to be a time series."""
    if options.get("effective_samples") is not None or options.get("missing") == "em":
        return []
    try:
        sizes = np.array([effective_size("bartlett", table) for table in tables], dtype=float)
    except InputError:  # too few rows for an estimate
        return []
    rows = [len(table.values) for table in tables]
    share = float(np.median(sizes / rows))
    if share > _SMALLEST_INDEPENDENT_SHARE:
        return []
    return [
        f"rows are autocorrelated, as in a time series: they are worth {share:.0%} of their number in "
        "independent samples (median over tasks). Taken as independent they lead to false edges; give "
        "--effective-samples bartlett, or none if they are no time series"
    ]
