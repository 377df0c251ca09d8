"""`mtgbn demo`: the paper's study in small, on simulated series, from nothing to a report."""

import os
import shutil
import sys
import webbrowser
from pathlib import Path

import numpy as np
from rich.console import Console

from mtgbn._utils.files import read_json, table_text, write_json, write_text
from mtgbn.cli.compare import run_compare
from mtgbn.cli.output import check_is_folder, say_to
from mtgbn.errors import InputError
from mtgbn.fmri.regions import load_regions
from mtgbn.report.page import REPORT_FILE
from mtgbn.simulate import BoldSimulation, simulate_bold_groups
from mtgbn.simulate.bold import slow_cosines

__all__ = ["run_demo", "write_series"]

_SERIES, _COMPARISON, _TABLE = "series", "comparison", "participants.tsv"
_DESCRIPTION = "dataset_description.json"
_NAME = "mtgbn demo"


def run_demo(out: str, n_subjects: int, seed: int, open_it: bool, quiet: bool) -> int:
    """Simulate two groups, compare them, write and show the report; returns the exit code."""
    console = Console(stderr=True, quiet=quiet, emoji=False, soft_wrap=True)
    folder = Path(out)
    _prepare(folder)
    regions = load_regions("aDMN").names
    simulation = simulate_bold_groups(
        *(n_subjects, n_subjects), regions=regions, alteration="mixed", random_state=seed
    )
    write_series(simulation, folder)
    say_to(
        console,
        f"Simulated {n_subjects} controls and {n_subjects} patients: {len(regions)} regions, "
        f"{len(simulation.series[0])} volumes, TR {simulation.repetition_time:g} s. Altered in "
        f"patients: {'; '.join(_altered(simulation))}.",
    )
    code = run_compare(
        str(folder / _SERIES),
        str(folder / _COMPARISON),
        participants=str(folder / _TABLE),
        column=None,
        groups=None,
        templates=None,
        reading={"standardise": True, "effective_samples": "bartlett", "missing": "error"},
        learning={},
        fitting="separate",
        permutations=0,
        methods="mtgbn,sig,gc,rdcm",
        density=None,
        subject=None,
        controls=None,
        tr=None,
        seed=seed,
        jobs=-1,
        overwrite=True,
        report=True,
        quiet=quiet,
        simulation=_truth(simulation),
    )
    page = folder / _COMPARISON / REPORT_FILE
    if open_it and page.exists() and _has_screen():
        webbrowser.open(page.resolve().as_uri())
    return code


def write_series(simulation: BoldSimulation, folder: Path) -> None:
    """Write high-passed series and the table of participants, as a lab would have them."""
    series = folder / _SERIES
    series.mkdir(parents=True, exist_ok=True)
    for name, values in zip(simulation.subjects, simulation.series, strict=True):
        cleaned = _high_passed(values, simulation.repetition_time)
        path = series / f"{name}_task-rest_timeseries.tsv"
        write_text(path, table_text([simulation.regions, *cleaned.tolist()]))
        write_json(path.with_suffix(".json"), {"RepetitionTime": simulation.repetition_time})
    rows = zip(simulation.subjects, simulation.groups.tolist(), strict=True)
    write_text(folder / _TABLE, table_text([["participant_id", "group"], *rows]))


def _high_passed(values: np.ndarray, repetition_time: float) -> np.ndarray:
    """Without mean, line, and all that is slower than 128 s."""
    n = len(values)
    slow = np.column_stack([np.ones(n), np.arange(n), slow_cosines(n, repetition_time)])
    basis, _ = np.linalg.qr(slow)
    return values - basis @ (basis.T @ values)


def _prepare(folder: Path) -> None:
    """An empty folder, or one of an earlier demo."""
    check_is_folder(folder)
    if folder.exists() and any(folder.iterdir()):
        if read_json(folder / _DESCRIPTION).get("Name") != _NAME:
            raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")
        shutil.rmtree(folder / _SERIES, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _DESCRIPTION, {"Name": _NAME, "BIDSVersion": "1.10.0"})


def _altered(simulation: BoldSimulation) -> list[str]:
    names = simulation.regions
    return [f"{names[i]} -> {names[j]} {kind}" for i, j, kind in simulation.altered]


def _truth(simulation: BoldSimulation) -> dict:
    """What the report is to say of the data."""
    names = simulation.regions
    n_edges = simulation.adjacencies[0].sum()
    return {
        "description": "They are nobody's: BOLD series of a random network with "
        f"{n_edges} connections between the regions, its strengths varied from subject to subject "
        f"(mtgbn.simulate.simulate_bold_groups). In the patients {len(simulation.altered)} connections "
        "were altered, and a comparison should find these and no others:",
        "altered": [
            {"source": names[i], "target": names[j], "kind": kind}
            for i, j, kind in simulation.altered
        ],
    }


def _has_screen() -> bool:
    if not sys.stderr.isatty():
        return False
    is_unix = sys.platform not in ("win32", "darwin")
    return not is_unix or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
