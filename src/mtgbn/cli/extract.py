"""`mtgbn extract`: regional series from preprocessed images."""

import time
import warnings
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from mtgbn._utils.names import unknown_name
from mtgbn.cli.describe import escape
from mtgbn.cli.output import bar, check_is_folder, check_is_writable, duration
from mtgbn.errors import InputError
from mtgbn.fmri.confounds import STRATEGIES
from mtgbn.fmri.extract import extract_series
from mtgbn.fmri.images import find_images, units_of
from mtgbn.fmri.regions import load_atlas, load_regions

__all__ = ["run_extract"]


def run_extract(
    images: str,
    out: str,
    *,
    regions: str,
    atlas: str | None,
    labels: str | None,
    confounds: str,
    choice: dict,
    pattern: str | None,
    runs: str,
    jobs: int,
    quiet: bool,
    subjects: tuple[str, ...] = (),
    **settings,
) -> int:
    """Extract what is missing, perhaps of some subjects only; returns the exit code."""
    console = Console(stderr=True, quiet=quiet, emoji=False, soft_wrap=True)
    where = load_regions(regions) if atlas is None else load_atlas(atlas, labels)
    folder = Path(out)
    check_is_folder(folder)
    if folder.exists():
        check_is_writable(folder)
    found = _images(Path(images), pattern, choice)
    if subjects:
        found = _of_subjects(found, subjects)
    units = units_of(found, runs)
    console.print(
        escape(
            f"{len(units)} subjects or runs, {len(where.names)} regions. Interrupt it at any time; the "
            "same command goes on."
        )
    )
    start = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = bar(console, *columns)
    with progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the result
        shown = progress.add_task("Subjects", total=len(units))
        extraction = extract_series(
            found,
            where,
            folder,
            confounds=_confounds(confounds),
            runs=runs,
            n_jobs=jobs,
            done=lambda name: progress.advance(shown),
            **settings,
        )
    for warning in extraction.warnings:
        console.print(escape(f"Warning: {warning}"))
    console.print(
        escape(
            f"Computed {extraction.n_computed} of {len(extraction.series)} series in "
            f"{duration(time.monotonic() - start)}; they are in {folder}"
        )
    )
    for excluded in extraction.excluded:
        console.print(escape(f"Excluded: {excluded.name}: {excluded.reason}"))
    if extraction.excluded:
        console.print(
            escape(f"{len(extraction.excluded)} excluded, listed in {folder / 'excluded.tsv'}")
        )
    return 1 if extraction.excluded else 0


def _images(path: Path, pattern: str | None, choice: dict):
    """What `extract_series` takes: images by subject, or a list of them."""
    if path.is_dir():
        if pattern is None:
            return find_images(path, **choice)
        found = sorted(
            file for file in path.glob(pattern) if file.name.endswith((".nii", ".nii.gz"))
        )
        if not found:
            raise InputError(f"folder {str(path)!r} has no .nii or .nii.gz matching {pattern!r}")
        return found
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        return [path.parent / line for line in lines if line]
    return [path]


def _of_subjects(found: dict, subjects: tuple[str, ...]) -> dict:
    """Images of these subjects only."""
    wanted = [f"sub-{subject.removeprefix('sub-')}" for subject in subjects]
    for name in wanted:
        if name not in found:
            raise unknown_name(name, list(found), "participant")
    return {name: found[name] for name in found if name in wanted}


def _confounds(text: str) -> str | list[str]:
    if text in STRATEGIES or text == "none":
        return text
    return [name.strip() for name in text.split(",") if name.strip()]
