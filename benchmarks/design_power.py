"""Altered connections that comparisons by a design find, against other methods, in easy and hard rows.

15 patients and 15 controls, simulated BOLD series of 230 volumes, TR 2.5 s. The first row has the
problems of `benchmarks.two_groups`: eleven regions, three connections that patients gained. The
other rows are harder. Every method but the last gives each subject a strength per connection, and
one permutation test is applied to all strengths: partial correlations given the parents in the
networks of one MTGBN fit that does not know the groups (`compare_design`), given the parents in
SIG's graphs, given all other regions; plain correlations; Granger causality (Geweke's measure) and
the couplings of regression DCM, each as the sum over both directions, of series that are not
low-passed. The last method is the paper's: one fit per group, and a z-test of the number of subjects
that have a connection (family-wise by Bonferroni).

Measured: the share of altered connections that are found at the family-wise level .05 and at a false
discovery rate of .05 (Benjamini and Hochberg), the number of other connections that are found per
study, the AUC of the absolute statistic, and by how much the first share and the AUC are larger in
`compare_design`, with the standard error of the paired difference.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.bold import (
    Study,
    area_under_curve,
    high_passed,
    mean_and_error,
    partial_correlations,
    simulate_study,
)
from benchmarks.designs import (
    FEWEST_PERMUTATIONS,
    LEVEL,
    People,
    run_studies,
    strength_tests,
    two_groups,
    values_by_name,
)
from benchmarks.problems import table
from benchmarks.two_groups import DESIGN, N_SUBJECTS
from mtgbn import SIG
from mtgbn.compare import compare_design, compare_groups
from mtgbn.compare.design import make_design
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.compare.strengths import connection_strengths
from mtgbn.fmri import granger_causality, regression_dcm
from mtgbn.simulate import simulate_bold_groups

OWN = "MTGBN, given parents"

# False discovery rates of 780 connections need small p-values.
N_PERMUTATIONS = 10_000

# With forty regions, as many connections per region as with eleven.
FORTY_REGIONS = {"regions": 40, "density": 0.065}


class Found(NamedTuple):
    """Of one method in one study: what it finds, its statistics, what is altered; (connections,)."""

    is_found: np.ndarray
    is_found_by_rate: np.ndarray
    statistic: np.ndarray
    is_altered: np.ndarray

    @property
    def altered_found(self) -> float:
        """Share of the altered connections that are found at the family-wise level."""
        return float(self.is_found[self.is_altered].mean())

    @property
    def area(self) -> float:
        """AUC of the absolute statistic."""
        return area_under_curve(np.abs(self.statistic), self.is_altered)


def simulate(seed: int, n_unaltered: int = 0, **options) -> Study:
    """Fifteen controls and fifteen patients, of whom some have the network of the controls."""
    n_controls, n_patients = N_SUBJECTS + n_unaltered, N_SUBJECTS - n_unaltered
    study = simulate_study(n_controls, n_patients, seed, **(DESIGN | options))
    return study._replace(is_patient=np.arange(2 * N_SUBJECTS) >= N_SUBJECTS)


def simulate_weak(seed: int) -> Study:
    """The altered connections of the first row, with half the coupling."""
    one_each = simulate_bold_groups(
        1, 1, 2, regions=DESIGN["regions"], variation=0, random_state=seed
    )
    return simulate(
        seed,
        coupling=one_each.couplings[0],
        altered=[(each.source, each.target) for each in one_each.altered],
        strengths=(0.2, 0.35),
    )


ROWS: dict[str, Callable[[int], Study]] = {
    "three gained, 11 regions": simulate,
    "mixed: gained, lost, gained": partial(simulate, alteration="mixed"),
    "three gained, half the coupling": simulate_weak,
    "three gained, 40 regions": partial(simulate, **FORTY_REGIONS),
    "one gained": partial(simulate, n_altered=1),
    "three gained in 8 of 15 patients": partial(simulate, n_unaltered=7),
}


def strengths_by_order_in_time(study: Study) -> dict[str, np.ndarray]:
    """Granger causality and regression DCM of both directions, (m, p, p)."""
    tr = study.simulation.repetition_time
    granger, dcm = [], []
    for series in study.simulation.series:
        rows = high_passed(series, tr)
        n, p = rows.shape
        # The largest order that so few volumes allow.
        order = min(5, (n - 1 - p) // (p + 1))
        found = granger_causality(rows, max_order=order, denominator="equation")
        past, rest = found.degrees_of_freedom
        granger.append(np.log1p(found.f_statistics * past / rest))
        dcm.append(regression_dcm(rows, tr).coupling)
    both = {"Granger causality": np.array(granger), "regression DCM": np.array(dcm)}
    return {name: each + each.transpose(0, 2, 1) for name, each in both.items()}


class Measured(NamedTuple):
    """Of one study: strengths by all methods, (m, connections), and what separate fits find."""

    people: People
    pairs: np.ndarray
    strengths: dict[str, np.ndarray]
    separate: Found
    is_altered: np.ndarray


def strengths_of(row: str, seed: int) -> Measured:
    """Every method's strengths in one simulated study."""
    study = ROWS[row](seed)
    people = values_by_name(study.tasks.names, group=two_groups(N_SUBJECTS))
    settings = {"random_state": seed, "n_jobs": 1}
    with without_convergence_warnings():
        compared = compare_design(
            study.tasks, people, "group", n_permutations=FEWEST_PERMUTATIONS, **settings
        )
        single = SIG(**settings).fit(study.tasks).graphs_
        separate = compare_groups(study.tasks, study.is_patient, **settings)
        in_time = strengths_by_order_in_time(study)
    (template,) = compared.templates
    first, second = template.pairs.T
    scatters = study.tasks.scatters
    deviations = np.sqrt(np.einsum("tii->ti", scatters))
    correlations = scatters / deviations[:, :, None] / deviations[:, None, :]
    correlations[:, range(len(deviations.T)), range(len(deviations.T))] = 0.0
    others = {
        "parents from SIG": connection_strengths(scatters, single),
        "given all others": partial_correlations(scatters),
        "plain correlations": np.arctanh(correlations),
        **in_time,
    }
    strengths = {name: values[:, first, second] for name, values in others.items()}
    pairs = separate.templates[0].undirected
    altered = study.is_altered[pairs.source, pairs.target]
    return Measured(
        people=people,
        pairs=template.pairs,
        strengths={OWN: template.strengths, **strengths},
        separate=Found(
            is_found=pairs.p_two_sided * len(pairs.q) <= LEVEL,
            is_found_by_rate=pairs.q <= LEVEL,
            statistic=pairs.statistic,
            is_altered=altered,
        ),
        is_altered=study.is_altered[first, second],
    )


def found_in(measured: Measured, seed: int) -> dict[str, Found]:
    """The same permutation test of the strengths of all methods, and separate fits."""
    design = make_design(measured.people, "group")
    found = {}
    for name, values in measured.strengths.items():
        tests = strength_tests(values, design, measured.pairs, [seed, 13], N_PERMUTATIONS)
        found[name] = Found(
            is_found=tests.p_family <= LEVEL,
            is_found_by_rate=tests.q <= LEVEL,
            statistic=tests.statistic,
            is_altered=measured.is_altered,
        )
    return found | {"separate fits, z-test": measured.separate}


def measure(row: str, seed: int) -> dict[str, Found]:
    """What every method finds in one study."""
    return found_in(strengths_of(row, seed), seed)


COLUMNS = [
    "altered found, family-wise",
    "others found",
    "altered found, FDR",
    "others found, FDR",
    "AUC",
    "MTGBN finds more by",
    "its AUC is larger by",
]


def cells(found: list[Found], own: list[Found]) -> list[str]:
    """One method's cells; ``own`` is what `compare_design` finds in the same studies."""
    shares, areas = ([getattr(each, name) for each in found] for name in ("altered_found", "area"))
    more = ["", ""]
    if found is not own:
        more = [
            mean_and_error([mine.altered_found for mine in own] - np.array(shares)),
            mean_and_error([mine.area for mine in own] - np.array(areas)),
        ]
    return [
        mean_and_error(shares),
        mean_and_error([each.is_found[~each.is_altered].sum() for each in found]),
        mean_and_error([each.is_found_by_rate[each.is_altered].mean() for each in found]),
        mean_and_error([each.is_found_by_rate[~each.is_altered].sum() for each in found]),
        mean_and_error(areas),
        *more,
    ]


def lines_of(row: str, results: list[dict[str, Found]]) -> list[list[str]]:
    """The lines of one row's studies, a line per method."""
    methods = {name: [each[name] for each in results] for name in results[0]}
    return [
        [row, name, str(len(found)), *cells(found, methods[OWN])] for name, found in methods.items()
    ]


def main(studies: int = 20, *, first_seed: int = 0, only: str = "", jobs: int = 1) -> str:
    """The table; every line is also printed as soon as it is there."""
    header = ["altered", "method", "studies", *COLUMNS]
    lines = []
    for row in (row for row in ROWS if only in row):
        seeds = range(first_seed, first_seed + studies)
        results = run_studies(partial(measure, row), seeds, jobs, row)
        for line in lines_of(row, results):
            lines.append(line)
            print(table(header, lines).splitlines()[-1], flush=True)
    return table(header, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20, help="per row")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="studies at the same time")
    print(main(**vars(parser.parse_args())))
