"""Wall time, CPU time and memory of whole comparisons in studies of usual and of large size.

Comparisons by a design, with 10,000 permutations, their tables and the report: 40 patients and 40
controls with 30 regions, 200 of each with 116 regions. The paper's way, with 15 patients and 15
controls: its three templates of 11, 9 and 10 regions, and all 30 regions at once, both groups fitted
separately. And 200 subjects with 116 regions, fitted as one group. All have 230 volumes. Kernels are
compiled in advance.
"""

import argparse
import tempfile
import time
import warnings
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.bold import simulate_study
from benchmarks.designs import values_by_name
from benchmarks.problems import largest_memory, table
from mtgbn import MTGBN
from mtgbn.compare import compare_design, compare_graphs
from mtgbn.compare.fitting import fit_groups
from mtgbn.fmri import load_regions
from mtgbn.report import report_of

TEMPLATES = ("aDMN", "dDMN", "vDMN")
N_VOLUMES, TR = 230, 2.5

# About two edges per region, whatever their number.
_EDGES_PER_REGION = 2


def study(n_controls: int, n_patients: int, n_regions: int, seed: int = 0):
    density = 2 * _EDGES_PER_REGION / (n_regions - 1)
    return simulate_study(
        n_controls,
        n_patients,
        seed,
        n_volumes=N_VOLUMES,
        repetition_time=TR,
        regions=n_regions,
        density=min(density, 0.25),
    )


def compare_by_design(n_per_group: int, n_regions: int, n_jobs: int) -> int:
    """One fit, 10,000 permutations, all tables and the page; number of connections found."""
    data = study(n_per_group, n_per_group, n_regions)
    groups = np.where(data.is_patient, "patient", "control").tolist()
    people = values_by_name(data.tasks.names, group=groups)
    found = compare_design(data.tasks, people, "group", random_state=0, n_jobs=n_jobs)
    (template,) = found.templates
    found.to_frame()
    with tempfile.TemporaryDirectory() as folder:
        report_of(found).save_as_html(Path(folder) / "report.html")
    return int(np.sum(template.tests.p_family <= 0.05))


def compare_templates(n_jobs: int) -> dict[str, int]:
    """Compare both groups, template by template; number of edges found."""
    found = {}
    for number, name in enumerate(TEMPLATES):
        data = study(15, 15, len(load_regions(name).names), number)
        found[name] = _compare(data, n_jobs)
    return found


def compare_all_regions(n_jobs: int) -> dict[str, int]:
    """Compare both groups, 30 regions at once."""
    return {"30 regions": _compare(study(15, 15, 30), n_jobs)}


def fit_large(n_jobs: int, n_subjects: int = 200, n_regions: int = 116) -> dict[str, int]:
    """Fit one group of the size of a public database, with a usual atlas."""
    data = study(n_subjects, 0, n_regions)
    estimator = MTGBN(random_state=0, n_jobs=n_jobs).fit(data.tasks, progress=_Clock())
    wrong = np.mean(estimator.graphs_ | estimator.graphs_.transpose(0, 2, 1) != _skeletons(data))
    print(f"{estimator.stop_reason_}; fraction of wrong pairs {wrong:.4f}", flush=True)
    return {f"{n_regions} regions": int(estimator.graphs_.sum() / n_subjects)}


def _compare(data, n_jobs: int) -> int:
    estimator = MTGBN(random_state=0, n_jobs=n_jobs)
    found = fit_groups(data.tasks, data.is_patient, estimator, quiet=True)
    compare_graphs(found.graphs_a, found.graphs_b)
    return int((found.graphs_a.sum() + found.graphs_b.sum()) / len(data.tasks))


def _skeletons(data) -> np.ndarray:
    adjacencies = data.simulation.adjacencies
    return adjacencies | adjacencies.transpose(0, 2, 1)


class _Clock:
    """Progress callback that prints when each step starts."""

    def __init__(self) -> None:
        self.start, self.what = time.perf_counter(), ""

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self.what:
            print(f"{time.perf_counter() - self.start:8.0f} s: {what}", flush=True)
            self.what = what


JOBS = {
    "40 v 40 subjects, 30 regions, a design": partial(compare_by_design, 40, 30),
    "30 subjects, 3 templates": compare_templates,
    "30 subjects, 30 regions": compare_all_regions,
    "200 subjects, 116 regions": fit_large,
    "200 v 200 subjects, 116 regions, a design": partial(compare_by_design, 200, 116),
}


def measure(name: str, n_jobs: int = 2) -> dict[str, float]:
    """Time and memory of a job, measured in its own process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (name, n_jobs))


def _measure(name: str, n_jobs: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    _compare(study(2, 2, 4), n_jobs)  # loads compiled kernels
    wall, cpu = time.perf_counter(), time.process_time()
    JOBS[name](n_jobs)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "memory": largest_memory(),
    }


def main(large: bool = False, n_jobs: int = 2) -> str:
    rows = []
    for name in JOBS:
        if "116" in name and not large:
            continue
        found = measure(name, n_jobs)
        rows.append([name, f"{found['wall']:.0f}", f"{found['cpu']:.0f}", f"{found['memory']:.2f}"])
    return table(["study", "wall, s", "CPU, s", "largest memory, GiB"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also the studies with 116 regions")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    print(main(given.large, given.jobs))
