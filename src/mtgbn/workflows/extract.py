"""From preprocessed images to a folder of regional series."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtgbn._utils.names import name_position
from mtgbn.errors import InputError
from mtgbn.fmri.extract import Extraction, extract_series
from mtgbn.fmri.images import find_images, units_of
from mtgbn.fmri.regions import Atlas, Regions, load_regions
from mtgbn.workflows.output_folder import Progress, Tell, check_output_folder, silent


def extract_folder(
    images: str | os.PathLike[str],
    out: str | os.PathLike[str],
    regions: str | os.PathLike[str] | Regions | Atlas = "all",
    *,
    pattern: str | None = None,
    choice: Mapping[str, str | None] | None = None,
    subjects: Sequence[str] = (),
    tell: Tell = silent,
    progress: Progress | None = None,
    **settings: Any,
) -> Extraction:
    """Extract cleaned regional series from the images in a folder, one table per subject.

    Every table is written when it is finished; the same call goes on after an interruption.

    Parameters
    ----------
    images : path
        The folder of fMRIPrep's derivatives, a folder with ``pattern``, one 4-D image, or a .txt file
        with the path of one image per line.
    out, regions
        The folder for the series, and the regions, as for `mtgbn.fmri.extract_series`.
    pattern : str, optional
        Which images of the folder, if they are not fMRIPrep's, such as ``"*/rest.nii.gz"``.
    choice : mapping, optional
        ``space``, ``task`` and ``session``, as for `mtgbn.fmri.find_images`.
    subjects : sequence of str
        Only these subjects of fMRIPrep's derivatives; named with or without ``sub-``.
    tell, progress : callable, optional
        Called with messages; and with "subjects", the finished ones, and all.
    **settings
        More options of `mtgbn.fmri.extract_series`.

    Examples
    --------
    >>> import tempfile
    >>> from mtgbn.fmri import load_regions
    >>> from mtgbn.simulate import paint_images, simulate_bold_groups
    >>> regions = load_regions("aDMN")
    >>> simulation = simulate_bold_groups(1, 1, 60, regions=regions.names, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = paint_images(simulation, regions.coordinates, folder)
    ...     extraction = extract_folder(folder, f"{folder}/series", regions, confounds="motion6")
    >>> len(extraction.series), extraction.excluded
    (2, ())
    """
    folder = Path(out)
    places = regions if isinstance(regions, Regions | Atlas) else load_regions(regions)
    check_output_folder(folder)
    found = _images(Path(images), pattern, dict(choice or {}))
    if subjects:
        wanted = [f"sub-{subject.removeprefix('sub-')}" for subject in subjects]
        for name in wanted:
            name_position(name, list(found), "participant")
        found = {name: found[name] for name in found if name in wanted}
    n_units, n_done = len(units_of(found, settings.get("runs", "concatenate"))), 0
    tell(
        f"{n_units} subjects or runs, {len(places.names)} regions. Interrupt it at any time; the same "
        "command goes on."
    )

    def count(_: str) -> None:
        nonlocal n_done
        n_done += 1
        if progress is not None:
            progress("subjects", n_done, n_units)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the result has them
        return extract_series(found, places, folder, done=count, **settings)


def _images(path: Path, pattern: str | None, choice: dict[str, Any]) -> Any:
    """Find images: a dict by subject in fMRIPrep's derivatives, otherwise a list."""
    if path.is_dir():
        if pattern is None:
            return find_images(path, **choice)
        found = sorted(
            each for each in path.glob(pattern) if each.name.endswith((".nii", ".nii.gz"))
        )
        if not found:
            raise InputError(f"folder {str(path)!r} has no .nii or .nii.gz matching {pattern!r}")
        return found
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        return [path.parent / line for line in lines if line]
    return [path]
