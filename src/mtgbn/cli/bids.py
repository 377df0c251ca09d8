"""`mtgbn bids`: extract and compare as the two levels of a BIDS app."""

from pathlib import Path

from mtgbn.cli.compare import run_compare
from mtgbn.cli.extract import run_extract
from mtgbn.cli.output import check_is_folder
from mtgbn.errors import InputError

__all__ = ["run_group", "run_participants"]

_GROUP_FOLDER = "group"


def run_participants(
    bids_dir: str,
    out: str,
    *,
    participant_label: tuple[str, ...],
    session_label: str | None,
    task_id: str | None,
    space: str | None,
    **settings,
) -> int:
    """Extract the series of participants; returns the exit code."""
    choice = {"space": space, "task": task_id, "session": session_label}
    return run_extract(
        bids_dir, out, choice=choice, pattern=None, subjects=participant_label, **settings
    )


def run_group(bids_dir: str, out: str, *, participants: str | None, **settings) -> int:
    """Compare the series that the participant level wrote; returns the exit code."""
    folder = Path(out)
    check_is_folder(folder)
    if not any(folder.glob("sub-*_timeseries.tsv")):
        raise InputError(
            f"{str(folder)!r} holds no series; run this first: mtgbn bids {bids_dir} {out} participant"
        )
    table = participants or str(_participants(Path(bids_dir)))
    return run_compare(
        out,
        str(folder / _GROUP_FOLDER),
        participants=table,
        subject=None,
        controls=None,
        tr=None,
        **settings,
    )


def _participants(root: Path) -> Path:
    """participants.tsv of a dataset, or of the derivatives in it."""
    for path in (root / "participants.tsv", *sorted(root.glob("derivatives/*/participants.tsv"))):
        if path.is_file():
            return path
    raise InputError(
        f"{str(root)!r} has no participants.tsv; give the table of groups (--participants)"
    )
