"""Comparisons by a design: how often they find a difference where there is none, and with covariates.

Simulated BOLD series, and `compare_design` with all defaults but 1,000 permutations: one fit per
data set that knows neither groups nor covariates. Every test of a data set uses the strengths of its
fit.

validity: data sets without a difference between groups. Because the fit does not know the groups, it
serves several groupings: the simulated one, and others that are drawn anew from the distribution that
groups have given covariates, sites and sessions. The share with any connection at the family-wise
level .05: of the simulated groupings, beside the binomial standard error of .05, and of all groupings,
with a standard error from the data sets' shares, because groupings of one data set depend on each
other. The share of single connections with p up to .05, of all groupings; and Kolmogorov-Smirnov
tests that p-values of single connections are uniform: with one connection per data set and the
simulated grouping, and with one connection per grouping, which is a different one in every grouping of
a data set.

covariates: an age that mimics a difference between groups, a score that drives a connection as
strongly as two groups do, and three groups. At the family-wise level .05: the share of studies with
any connection found, the share of the driven connections that are found, and the number of other
connections that are found per study.

`benchmarks.design_power` has the comparison with other methods.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kstest

from benchmarks.bold import BAND, cleaned, mean_and_error, simulate_study
from benchmarks.peers import ONE_THREAD
from benchmarks.problems import table
from benchmarks.real_like import simulate_series
from benchmarks.real_like import tasks_of as tasks_with_common_signal
from benchmarks.two_groups import DESIGN, N_SUBJECTS
from mtgbn import Tasks
from mtgbn.compare import compare_design
from mtgbn.compare.design import Design, make_design
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.compare.inference import Tests, contrast_tests
from mtgbn.fmri.cleaning import worth_of_noise
from mtgbn.simulate import simulate_bold_groups
from mtgbn.tasks import effective_samples

LEVEL = 0.05
N_PERMUTATIONS = 1000
FEWEST_PERMUTATIONS = 20

# The default ratio of signal to noise of the simulation.
SNR = 3.0

People = dict[str, dict[str, Any]]


class Cohort(NamedTuple):
    """Simulated subjects, their values by column, and which pairs were altered, (p, p)."""

    tasks: Tasks
    people: People
    is_altered: np.ndarray


class Fitted(NamedTuple):
    """What the tests of a data set need: its subjects' values, and strengths from its only fit."""

    people: People
    pairs: np.ndarray
    strengths: np.ndarray
    is_altered: np.ndarray


class Outcome(NamedTuple):
    """p-values of one test of one grouping, and which connections were altered; (connections,)."""

    p: np.ndarray
    p_family: np.ndarray
    is_altered: np.ndarray


class Row(NamedTuple):
    """A kind of data sets: how to simulate one, and the arguments of `make_design` of every test.

    ``regroup`` draws groups anew, from their distribution given the other values.
    """

    simulate: Callable[[int], Cohort]
    tests: dict[str, dict[str, str]]
    n_studies: int
    regroup: Callable[[People, np.random.Generator], np.ndarray] | None = None


def two_groups(n_per_group: int) -> list[str]:
    """Groups of the subjects of a study; controls come first."""
    return ["control"] * n_per_group + ["patient"] * n_per_group


def values_by_name(names: Sequence[str], **columns: Sequence[Any]) -> People:
    """The table of participants."""
    return {
        name: dict(zip(columns, values, strict=True))
        for name, *values in zip(names, *columns.values(), strict=True)
    }


def no_difference(seed: int) -> Cohort:
    """Two groups of fifteen."""
    study = simulate_study(N_SUBJECTS, N_SUBJECTS, seed, n_altered=0, **DESIGN)
    people = values_by_name(study.tasks.names, group=two_groups(N_SUBJECTS))
    return Cohort(study.tasks, people, study.is_altered)


def common_signal(seed: int) -> Cohort:
    """Two groups of forty, thirty regions, few effective samples, one signal in all regions."""
    tasks = tasks_with_common_signal(simulate_series(80, seed))
    people = values_by_name(tasks.names, group=two_groups(40))
    return Cohort(tasks, people, np.zeros((tasks.n_variables,) * 2, dtype=bool))


def tasks_of(series: dict[str, np.ndarray]) -> Tasks:
    """Raw series as tasks, with the effective samples that `mtgbn extract` would give."""
    length, tr = DESIGN["n_volumes"], DESIGN["repetition_time"]
    most = worth_of_noise(np.zeros((length, 0)), np.ones(length, dtype=bool), tr=tr, band=BAND)
    rows = {name: cleaned(each, tr) for name, each in series.items()}
    return Tasks.from_arrays(
        list(rows.values()),
        names=list(rows),
        standardise=True,
        effective_samples=[min(effective_samples(each), most) for each in rows.values()],
    )


def random_network(seed: int) -> np.ndarray:
    """The couplings of the controls of `simulate_study`."""
    return simulate_bold_groups(
        1, 0, 2, regions=DESIGN["regions"], variation=0, random_state=seed
    ).couplings[0]


def subjects_of(couplings: Sequence[np.ndarray], seed: int, snr: Sequence[float]) -> Tasks:
    """One subject per network (p, p), each with its own ratio of signal to noise."""
    series = {}
    for t, (coupling, ratio) in enumerate(zip(couplings, snr, strict=True)):
        series[f"sub-{t + 1:02d}"] = simulate_bold_groups(
            1,
            0,
            DESIGN["n_volumes"],
            repetition_time=DESIGN["repetition_time"],
            coupling=coupling,
            n_altered=0,
            snr=ratio,
            random_state=np.random.default_rng([seed, 3, t]),
        ).series[0]
    return tasks_of(series)


def driven(
    seed: int, values: np.ndarray, slope: float, n_driven: int | None = None
) -> tuple[Tasks, np.ndarray]:
    """Subjects whose couplings grow with a value, and which pairs these are; default: all."""
    network = random_network(seed)
    chosen = np.random.default_rng([seed, 5]).permutation(np.argwhere(network))[:n_driven]
    slopes = np.zeros(network.shape)
    slopes[tuple(chosen.T)] = slope
    couplings = network * np.maximum(0.0, 1 + slopes * values[:, None, None])
    tasks = subjects_of(couplings, seed, [SNR] * len(values))
    return tasks, (slopes + slopes.T) > 0


def age_drives(seed: int, slope: float, n_driven: int | None = None, gap: float = 1.0) -> Cohort:
    """Patients are older by ``gap`` standard deviations; groups do not differ at the same age."""
    groups = two_groups(N_SUBJECTS)
    older = np.where(np.array(groups) == "patient", gap / 2, -gap / 2)
    age = np.random.default_rng([seed, 7]).normal(size=len(groups)) + older
    tasks, is_altered = driven(seed, age, slope, n_driven)
    return Cohort(tasks, values_by_name(tasks.names, group=groups, age=age.tolist()), is_altered)


def score_drives(seed: int, is_continuous: bool) -> Cohort:
    """A score drives one connection: continuous, or 1 and -1 in two groups, with the same variance."""
    score = np.repeat([-1.0, 1.0], N_SUBJECTS)
    if is_continuous:
        score = np.random.default_rng([seed, 7]).normal(size=len(score))
        score = (score - score.mean()) / score.std()
    tasks, is_altered = driven(seed, score, slope=0.25, n_driven=1)
    people = values_by_name(tasks.names, score=score.tolist(), group=two_groups(N_SUBJECTS))
    return Cohort(tasks, people, is_altered)


def two_sites(seed: int) -> Cohort:
    """Site b measures with three times the noise; it has 11 of 15 patients and 4 of 15 controls."""
    groups = two_groups(N_SUBJECTS)
    sites = ["b"] * 4 + ["a"] * 11 + ["b"] * 11 + ["a"] * 4
    network = random_network(seed)
    snr = [SNR if site == "a" else SNR / 3 for site in sites]
    tasks = subjects_of([network] * len(groups), seed, snr)
    people = values_by_name(tasks.names, group=groups, site=sites)
    return Cohort(tasks, people, np.zeros(network.shape, dtype=bool))


def two_sessions(seed: int) -> Cohort:
    """Sessions of a person, which have the same couplings and responses: the halves of a long series."""
    length = DESIGN["n_volumes"]
    simulation = simulate_bold_groups(
        *(N_SUBJECTS, N_SUBJECTS, 2 * length),
        repetition_time=DESIGN["repetition_time"],
        regions=DESIGN["regions"],
        n_altered=0,
        random_state=seed,
    )
    sessions = {
        f"{person}_ses-{number + 1}": half
        for person, series in zip(simulation.subjects, simulation.series, strict=True)
        for number, half in enumerate((series[:length], series[length:]))
    }
    people = values_by_name(simulation.subjects, group=two_groups(N_SUBJECTS))
    return Cohort(tasks_of(sessions), people, np.zeros((DESIGN["regions"],) * 2, dtype=bool))


def three_groups(seed: int, n_altered: int) -> Cohort:
    """Fifteen subjects each; only the group "altered" differs from the others, by gained connections."""
    study = simulate_study(2 * N_SUBJECTS, N_SUBJECTS, seed, n_altered=n_altered, **DESIGN)
    groups = np.repeat(["control", "unaltered", "altered"], N_SUBJECTS).tolist()
    return Cohort(study.tasks, values_by_name(study.tasks.names, group=groups), study.is_altered)


def groups_of(people: People) -> np.ndarray:
    return np.array([each["group"] for each in people.values()])


def any_order(people: People, rng: np.random.Generator) -> np.ndarray:
    """Groups that have nothing to do with anything."""
    return rng.permutation(groups_of(people))


def within_sites(people: People, rng: np.random.Generator) -> np.ndarray:
    """Every site keeps its share of patients."""
    groups, sites = groups_of(people), np.array([each["site"] for each in people.values()])
    for site in np.unique(sites):
        groups[sites == site] = rng.permutation(groups[sites == site])
    return groups


def older_patients(people: People, rng: np.random.Generator, gap: float = 1.0) -> np.ndarray:
    """Groups given the ages of `age_drives`: the log odds of a patient grow by ``gap`` per age."""
    age = np.array([each["age"] for each in people.values()])
    wanted = np.sum(groups_of(people) == "patient")
    share = 1 / (1 + np.exp(-gap * (age - age.mean())))
    while True:
        is_patient = rng.random(len(age)) < share
        if is_patient.sum() == wanted:
            return np.where(is_patient, "patient", "control")


def groupings(row: Row, people: People, seed: int, number: int) -> Iterator[People]:
    """The simulated groups, and if the row can draw them anew, as many in all as wanted."""
    yield people
    rng = np.random.default_rng([seed, 11])
    for _ in range(number - 1 if row.regroup else 0):
        groups = row.regroup(people, rng).tolist()
        yield {
            name: values | {"group": group}
            for (name, values), group in zip(people.items(), groups, strict=True)
        }


GROUP = {"formula": "group"}
WITH_AGE = {"age in the formula": {"formula": "group + age"}, "age left out": GROUP}
SITE = {"formula": "group + site"}
THREE = {
    "three groups": GROUP,
    "altered - control": GROUP | {"contrast": "group[T.altered]"},
    "unaltered - control (no difference)": GROUP | {"contrast": "group[T.unaltered]"},
}
VALIDITY = {
    "15 v 15, 11 regions": Row(no_difference, {"group": GROUP}, 400, any_order),
    "40 v 40, 30 regions, common signal": Row(common_signal, {"group": GROUP}, 100, any_order),
    "age drives all connections, patients older": Row(
        partial(age_drives, slope=0.3), WITH_AGE, 400, older_patients
    ),
    "two sites, one with three times the noise": Row(
        two_sites,
        {
            "site in the formula": SITE,
            "site in the formula and as blocks": SITE | {"blocks": "site"},
            "site left out": GROUP,
        },
        400,
        within_sites,
    ),
    "two sessions per subject": Row(two_sessions, {"group": GROUP}, 400, any_order),
    "three groups": Row(partial(three_groups, n_altered=0), {"group": GROUP}, 400, any_order),
}
COVARIATES = {
    "age drives three connections, patients older": Row(
        partial(age_drives, slope=0.4, n_driven=3, gap=2.0), WITH_AGE, 100
    ),
    "a score drives one connection": Row(
        partial(score_drives, is_continuous=True), {"score": {"formula": "score"}}, 100
    ),
    "two groups of the same variance": Row(
        partial(score_drives, is_continuous=False), {"group": GROUP}, 100
    ),
    "one of three groups gained three connections": Row(
        partial(three_groups, n_altered=3), THREE, 100
    ),
}


def strength_tests(
    strengths: np.ndarray,
    design: Design,
    pairs: np.ndarray,
    seed: Sequence[int],
    n_permutations: int = N_PERMUTATIONS,
) -> Tests:
    """The tests of `compare_design`, for any strengths (m, connections)."""
    return contrast_tests(
        *(strengths, design.matrix, design.contrast),
        pairs=pairs,
        blocks=design.blocks,
        variance_groups=design.variance_groups,
        n_permutations=n_permutations,
        random_state=np.random.SeedSequence(seed),
    )


def fit(row: Row, seed: int) -> Fitted:
    """The only fit of a simulated data set; strengths of sessions are averaged."""
    cohort = row.simulate(seed)
    with without_convergence_warnings():
        # A formula is needed for the tests, which come later; the fit does not know it.
        compared = compare_design(
            *(cohort.tasks, cohort.people),
            **next(iter(row.tests.values())),
            n_permutations=FEWEST_PERMUTATIONS,
            random_state=seed,
            n_jobs=1,
        )
    (template,) = compared.templates
    is_altered = cohort.is_altered[tuple(template.pairs.T)]
    return Fitted(cohort.people, template.pairs, template.strengths, is_altered)


def outcomes_of(row: Row, fitted: Fitted, seed: int, n_groupings: int) -> dict[str, list[Outcome]]:
    """All tests of every grouping of one data set."""
    found: dict[str, list[Outcome]] = {name: [] for name in row.tests}
    for number, people in enumerate(groupings(row, fitted.people, seed, n_groupings)):
        for name, options in row.tests.items():
            design = make_design(people, **options)
            tests = strength_tests(fitted.strengths, design, fitted.pairs, [seed, 13, number])
            found[name].append(Outcome(tests.p, tests.p_family, fitted.is_altered))
    return found


def measure(row: Row, seed: int, n_groupings: int = 1) -> dict[str, list[Outcome]]:
    """All tests of one simulated data set."""
    return outcomes_of(row, fit(row, seed), seed, n_groupings)


def run_studies(measure: Callable[[int], Any], seeds: range, jobs: int, label: str) -> list[Any]:
    """Results of all seeds in their order, each computed in one thread of another process."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    found = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for result, seconds in pool.map(partial(timed, measure), seeds):
            found.append(result)
            done = f"{len(found)} of {len(seeds)} studies, the last in {seconds:.1f} CPU s"
            print(f"{label}: {done}", file=sys.stderr, flush=True)
    return found


def timed(measure: Callable[[int], Any], seed: int) -> tuple[Any, float]:
    start = time.process_time()
    return measure(seed), time.process_time() - start


def validity_cells(outcomes: list[list[Outcome]]) -> list[str]:
    """Outcomes are those of the groupings of every data set."""
    simulated = [groupings[0] for groupings in outcomes]
    # One connection per data set: those of one data set depend on each other.
    one = [each.p[k % len(each.p)] for k, each in enumerate(simulated)]
    # Groups that are drawn anew are nearly independent, and so are different connections.
    several = [each for found in outcomes for each in found]
    other = [each.p[k % len(each.p)] for k, each in enumerate(several)]
    return [
        str(len(outcomes[0])),
        f"{np.mean([each.p_family.min() <= LEVEL for each in simulated]):.3f}",
        f"{np.sqrt(LEVEL * (1 - LEVEL) / len(outcomes)):.3f}",
        mean_and_error(
            [np.mean([each.p_family.min() <= LEVEL for each in found]) for found in outcomes]
        ),
        mean_and_error([np.mean([each.p <= LEVEL for each in found]) for found in outcomes]),
        f"{kstest(one, 'uniform').pvalue:.3f}",
        f"{kstest(other, 'uniform').pvalue:.3f}",
    ]


def covariate_cells(outcomes: list[list[Outcome]]) -> list[str]:
    found = [(each.p_family <= LEVEL, each.is_altered) for (each,) in outcomes]
    return [
        mean_and_error([hits.any() for hits, _ in found]),
        mean_and_error([hits[altered].mean() for hits, altered in found]),
        mean_and_error([hits[~altered].sum() for hits, altered in found]),
    ]


class Part(NamedTuple):
    """One table: its rows, and the columns after those that name the test and count the data sets."""

    rows: dict[str, Row]
    columns: list[str]
    cells: Callable[[list[list[Outcome]]], list[str]]
    n_groupings: int


PARTS = {
    "validity": Part(
        VALIDITY,
        [
            "groupings",
            "any found, simulated groups",
            "standard error of .05",
            "any found, all groupings",
            "single p up to .05",
            "KS, simulated groups",
            "KS, all groupings",
        ],
        validity_cells,
        n_groupings=20,
    ),
    "covariates": Part(
        COVARIATES, ["any found", "driven found", "others found"], covariate_cells, n_groupings=1
    ),
}


def main(
    name: str = "",
    *,
    studies: int | None = None,
    first_seed: int = 0,
    only: str = "",
    jobs: int = 1,
) -> str:
    """The tables, or the one with this name; every line is also printed as soon as it is there."""
    tables = []
    for part in (part for key, part in PARTS.items() if name in key):
        header, lines = ["data", "tested", "data sets", *part.columns], []
        for label, row in part.rows.items():
            if only not in label:
                continue
            seeds = range(first_seed, first_seed + (studies or row.n_studies))
            results = run_studies(
                partial(measure, row, n_groupings=part.n_groupings), seeds, jobs, label
            )
            for test in row.tests:
                outcomes = [each[test] for each in results]
                lines.append([label, test, str(len(outcomes)), *part.cells(outcomes)])
                print(table(header, lines).splitlines()[-1], flush=True)
        tables.append(table(header, lines))
    return "\n\n".join(tables)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--studies", type=int, help="per row; default: 100 or 400")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="studies at the same time")
    given = parser.parse_args()
    print(main(given.part, **{k: v for k, v in vars(given).items() if k != "part"}))
