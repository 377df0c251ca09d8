"""Patients and controls, simulated: from nothing to a comparison with a report."""

import os
import shutil
from pathlib import Path

import numpy as np

from mtgbn._utils.files import read_json, write_json, write_text
from mtgbn._utils.tables import table_text
from mtgbn.errors import InputError
from mtgbn.fmri.regions import load_regions
from mtgbn.simulate import simulate_bold_groups
from mtgbn.simulate.bold import BoldSimulation, slow_cosines
from mtgbn.workflows.compare import ComparisonRun, compare_folder
from mtgbn.workflows.output_folder import Progress, Tell, check_output_folder, silent

_SERIES, _COMPARISON, _TABLE = "series", "comparison", "participants.tsv"
_DESCRIPTION = "dataset_description.json"
_NAME = "mtgbn demo"


def run_demo(
    out: str | os.PathLike[str],
    n_subjects: int = 15,
    *,
    seed: int = 1,
    tell: Tell = silent,
    progress: Progress | None = None,
) -> ComparisonRun:
    """Simulate patients and controls, and compare their networks.

    Parameters
    ----------
    out : path
        The folder for the series, the table of participants and the comparison with its report.
    n_subjects : int
        Subjects per group.
    seed : int
        Seed of the simulation and of the comparison.
    tell, progress : callable
        As for `compare_folder`, whose result is returned.

    Examples
    --------
    >>> run = run_demo("mtgbn-demo", n_subjects=5)  # doctest: +SKIP
    >>> run.report.name  # doctest: +SKIP
    'report.html'
    """
    folder = Path(out)
    check_output_folder(folder)
    if folder.exists() and any(folder.iterdir()):
        if read_json(folder / _DESCRIPTION).get("Name") != _NAME:
            raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")
        shutil.rmtree(folder / _SERIES, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _DESCRIPTION, {"Name": _NAME, "BIDSVersion": "1.10.0"})
    regions = load_regions("aDMN").names
    simulation = simulate_bold_groups(
        *(n_subjects, n_subjects), regions=regions, alteration="mixed", random_state=seed
    )
    write_series(simulation, folder)
    altered = [
        {"source": regions[i], "target": regions[j], "kind": kind}
        for i, j, kind in simulation.altered
    ]
    tell(
        f"Simulated {n_subjects} controls and {n_subjects} patients: {len(regions)} regions, "
        f"{len(simulation.series[0])} volumes, TR {simulation.repetition_time:g} s. Altered in "
        "patients: "
        + "; ".join("{source} -> {target} {kind}".format(**each) for each in altered)
        + "."
    )
    truth = (
        f"They are BOLD series of a random network with {simulation.adjacencies[0].sum()} connections "
        "between the regions, whose strengths vary from subject to subject "
        f"(mtgbn.simulate.simulate_bold_groups). In the patients {len(altered)} connections "
        "were altered, and a comparison should find these and no others:"
    )
    return compare_folder(
        *(folder / _SERIES, folder / _COMPARISON, folder / _TABLE),
        reading={"standardise": True},
        seed=seed,
        overwrite=True,
        record={"simulation": {"description": truth, "altered": altered}},
        tell=tell,
        progress=progress,
    )


def write_series(simulation: BoldSimulation, folder: Path) -> None:
    """Write high-pass filtered series and the table of participants, as a laboratory has them."""
    series = folder / _SERIES
    series.mkdir(parents=True, exist_ok=True)
    for name, values in zip(simulation.subjects, simulation.series, strict=True):
        # Without the mean, the linear trend and periods above 128 s.
        n = len(values)
        slow = slow_cosines(n, simulation.repetition_time)
        basis, _ = np.linalg.qr(np.column_stack([np.ones(n), np.arange(n), slow]))
        cleaned = values - basis @ (basis.T @ values)
        path = series / f"{name}_task-rest_timeseries.tsv"
        write_text(path, table_text([simulation.regions, *cleaned.tolist()]))
        write_json(path.with_suffix(".json"), {"RepetitionTime": simulation.repetition_time})
    rows = zip(simulation.subjects, simulation.groups.tolist(), strict=True)
    write_text(folder / _TABLE, table_text([["participant_id", "group"], *rows]))
