"""Read tasks from files, with warnings about data that were perhaps not meant."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

from mtgbn.errors import CollinearityWarning
from mtgbn.tasks import Tasks, read_tables
from mtgbn.tasks.data_warnings import time_series


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
    return tasks, found + time_series(tasks)
