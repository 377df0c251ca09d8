"""Extraction and comparison as the two levels of a BIDS app."""

import os
from pathlib import Path
from typing import Any, Literal

from mtgbn.errors import InputError
from mtgbn.fmri.extract import Extraction
from mtgbn.workflows.compare import ComparisonRun, compare_folder
from mtgbn.workflows.extract import extract_folder
from mtgbn.workflows.output_folder import check_output_folder


def run_bids(
    bids_dir: str | os.PathLike[str],
    out: str | os.PathLike[str],
    level: Literal["participant", "group"],
    *,
    participants: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Extraction | ComparisonRun:
    r"""Run one level of the BIDS app.

    Parameters
    ----------
    bids_dir : path
        A BIDS dataset with fMRIPrep's derivatives inside, or the derivatives.
    out : path
        The folder for the series; the group level writes to its subfolder ``group``.
    level : {"participant", "group"}
        "participant": extract series from the images. "group": test with these series what connections
        depend on.
    participants : path, optional
        For the group level: the table of participants; default: participants.tsv of the dataset or of
        its derivatives.
    **settings
        Options of `extract_folder` (participant) or `compare_folder` (group).

    Examples
    --------
    The group level, with series of four participants that the participant level could have written:

    >>> import tempfile
    >>> import numpy as np
    >>> rng, table = np.random.default_rng(0), "participant_id\tgroup\n"
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     for k in range(4):
    ...         rows, path = rng.normal(size=(40, 2)), folder / f"sub-{k}_task-rest_timeseries.tsv"
    ...         np.savetxt(path, rows, delimiter="\t", header="left\tright", comments="")
    ...         table += f"sub-{k}\t{'patient' if k < 2 else 'control'}\n"
    ...     _ = (folder / "participants.tsv").write_text(table)
    ...     quick = {"n_draws": 8, "n_restarts": 0, "max_iter": 2}
    ...     run = run_bids(folder, folder, "group", parameters=quick, report=False)
    >>> run.study.design.subjects
    ('sub-0', 'sub-1', 'sub-2', 'sub-3')
    """
    if level == "participant":
        return extract_folder(bids_dir, out, **settings)
    folder = Path(out)
    check_output_folder(folder)
    if not any(folder.glob("sub-*_timeseries.tsv")):
        raise InputError(
            f"{str(folder)!r} holds no series; run this first: mtgbn bids {bids_dir} {out} participant"
        )
    table = participants or _participants_table(Path(bids_dir))
    return compare_folder(folder, folder / "group", table, **settings)


def _participants_table(root: Path) -> Path:
    """Find participants.tsv of a dataset, or of the derivatives in it."""
    for path in (root / "participants.tsv", *sorted(root.glob("derivatives/*/participants.tsv"))):
        if path.is_file():
            return path
    raise InputError(
        f"{str(root)!r} has no participants.tsv; give the table of groups (--participants)"
    )
