"""A comparison as tables, and the folder of tables that `mtgbn compare` writes and reports read."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mtgbn._utils.described_table import DescribedTable, read_table
from mtgbn._utils.files import write_json, write_text
from mtgbn._utils.versions import versions_of
from mtgbn.compare.design_study import DesignStudy
from mtgbn.compare.design_tables import describe_design, design_matrices, design_tables
from mtgbn.compare.group_tables import describe_groups, group_tables
from mtgbn.compare.study import Study, SubjectStudy
from mtgbn.compare.subject_tables import alarms_table, departures_table, describe_subject

ABOUT_FILE = "comparison.json"
# All tables that a comparison can have.
TABLES = (
    *("connections", "degrees", "counts", "edges", "methods"),
    *("strengths", "components", "regions", "sets", "subjects", "differences"),
    *("departures", "alarms"),
)
_MATRICES = "seg-*_meas-*_relmat"
_PACKAGES = ("numpy", "scipy", "numba", "joblib", "formulaic")


class ComparisonTables(NamedTuple):
    """The contents of comparison.json, and the tables of a comparison by name."""

    about: dict[str, Any]
    tables: dict[str, DescribedTable]


def comparison_tables(
    study: DesignStudy | Study | SubjectStudy, about: Mapping[str, Any] | None = None
) -> ComparisonTables:
    """Make the tables of a comparison; ``about`` is what comparison.json says beyond the study."""
    if isinstance(study, DesignStudy):
        content, tables = describe_design(study), design_tables(study, about)
    elif isinstance(study, Study):
        content, tables = describe_groups(study), group_tables(study)
    else:
        content, tables = describe_subject(study), [departures_table(study), alarms_table(study)]
    more = dict(about or {})
    content["warnings"] = [*more.pop("warnings", ()), *content.pop("warnings")]
    content |= more
    content["versions"] = versions_of(_PACKAGES)
    content["files"] = [f"{each.name}.tsv" for each in tables]
    # As it will be read from the file: lists instead of tuples, text as keys.
    return ComparisonTables(json.loads(json.dumps(content)), {each.name: each for each in tables})


def write_study(
    study: DesignStudy | Study | SubjectStudy,
    folder: str | Path,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write the tables of a comparison to a folder; return the path of comparison.json.

    Parameters
    ----------
    study : DesignStudy, Study or SubjectStudy
        Result of `compare_design`, `compare_groups` or `compare_one`.
    folder : path
        Gets comparison.json and tables, each with a .json file that explains its columns: of a design
        connections.tsv, strengths.tsv, components.tsv, regions.tsv, sets.tsv, subjects.tsv and, for
        every template, effects and corrected p-values as matrices (``*_relmat.tsv``, as BIDS names
        them), with probabilities also differences.tsv; of two groups
        connections.tsv, degrees.tsv, counts.tsv, edges.tsv and, if methods were compared, methods.tsv;
        of one subject departures.tsv and alarms.tsv.
    about : mapping, optional
        What comparison.json is to say beyond the comparison itself.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> from mtgbn.compare import compare_groups
    >>> tasks = Tasks.from_arrays(np.random.default_rng(0).normal(size=(4, 30, 3)))
    >>> study = compare_groups(tasks, [True, True, False, False], SIG(), random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_study(study, folder).parent.glob("*.tsv"))
    ['connections.tsv', 'counts.tsv', 'degrees.tsv', 'edges.tsv']
    """
    content, tables = comparison_tables(study, about)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_tables(folder, keep=tables)  # of an earlier comparison
    more = {}
    if isinstance(study, Study):
        more["Groups"] = {"a": study.label_a, "b": study.label_b}
    for name, table in tables.items():
        write_text(folder / f"{name}.tsv", table.tsv)
        write_json(folder / f"{name}.json", table.sidecar(**more))
    if isinstance(study, DesignStudy):
        for matrix in design_matrices(study, content["effect"]):
            write_text(folder / f"{matrix.name}.tsv", matrix.tsv)
            write_json(folder / f"{matrix.name}.json", matrix.sidecar)
    path = folder / ABOUT_FILE
    write_json(path, content)  # last: a folder that has it is finished
    return path


def remove_tables(folder: Path, keep: Iterable[str] = ()) -> None:
    """Remove the tables and matrices of an earlier comparison, and no other files."""
    for kind in ("tsv", "json"):
        for name in set(TABLES) - set(keep):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)
        for path in folder.glob(f"{_MATRICES}.{kind}"):
            path.unlink()


def read_comparison(folder: Path) -> ComparisonTables:
    """Read what `write_study` wrote; any exception says that the files were changed since."""
    about = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
    tables = [read_table(folder / name) for name in about["files"]]
    return ComparisonTables(about, {each.name: each for each in tables})
