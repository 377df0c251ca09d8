"""Comparisons by a design: how often they find a difference where there is none, and where there is one.

15 patients and 15 controls, eleven regions, simulated BOLD series, with all defaults: one fit that does
not know the groups, partial correlations given the parents in the cohort's networks, 2,000 permutations.
Without a difference, the share of studies with any connection at the family-wise level .05 and the
p-values of single connections; in another row an age that is related to the groups and drives all
connections is a nuisance covariate. With three gained connections, the share that is found, the number
of other connections that are found, and the area under the curve. For comparison: the same tests of
partial correlations given all other regions, and of plain correlations.
"""

import argparse
from typing import NamedTuple

import numpy as np
from scipy.stats import kstest

from benchmarks.bold import Study, area_under_curve, partial_correlations, simulate_study
from benchmarks.problems import table
from benchmarks.two_groups import DESIGN, N_SUBJECTS
from mtgbn.compare import compare_design
from mtgbn.compare.design import make_design
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.compare.inference import Tests, contrast_tests

LEVEL = 0.05
N_PERMUTATIONS = 2000


class Outcome(NamedTuple):
    """p-values of one study, (connections,), and which connections were altered."""

    p: np.ndarray
    p_family: np.ndarray
    is_altered: np.ndarray


def people_of(study: Study, seed: int) -> dict[str, dict[str, object]]:
    """Group and age; patients are older by one standard deviation."""
    rng = np.random.default_rng([seed, 7])
    age = rng.normal(size=len(study.tasks)) + study.is_patient
    return {
        name: {"group": "patient" if is_patient else "control", "age": float(years)}
        for name, is_patient, years in zip(study.tasks.names, study.is_patient, age, strict=True)
    }


def measure(seed: int, *, with_age: bool = False, **options) -> dict[str, Outcome]:
    """The tests of one simulated study, per measure of strength.

    ``with_age`` adds a row in which age drives all connections and is a nuisance covariate.
    """
    study = simulate_study(N_SUBJECTS, N_SUBJECTS, seed, **(DESIGN | options))
    people = people_of(study, seed)
    settings: dict = {"n_permutations": N_PERMUTATIONS, "random_state": seed}
    with without_convergence_warnings():
        compared = compare_design(study.tasks, people, "group", n_jobs=1, **settings)
    (template,) = compared.templates
    first, second = template.pairs.T
    scatters = study.tasks.scatters
    deviations = np.sqrt(np.einsum("tii->ti", scatters))
    plain = scatters / deviations[:, :, None] / deviations[:, None, :]
    strengths = {
        "given all others": (partial_correlations(scatters)[:, first, second], compared.design),
        "plain": (np.arctanh(plain[:, first, second]), compared.design),
    }
    if with_age:
        age = np.array([values["age"] for values in people.values()], dtype=float)
        driven = template.strengths + 0.2 * age[:, None]
        strengths["given parents, with age"] = (driven, make_design(people, "group + age"))
    tests: dict[str, Tests] = {"given parents": template.tests}
    for name, (values, design) in strengths.items():
        tests[name] = contrast_tests(
            values, design.matrix, design.contrast, pairs=template.pairs, **settings
        )
    altered = study.is_altered[first, second]
    return {name: Outcome(each.p, each.p_family, altered) for name, each in tests.items()}


def main(n_null: int = 100, n_altered: int = 20, first_seed: int = 0) -> str:
    """Two tables: without and with a difference."""
    seeds = range(first_seed, first_seed + n_null)
    null = [measure(seed, with_age=True, n_altered=0) for seed in seeds]
    rows = {name: [each[name] for each in null] for name in null[0]}
    lines = []
    for name, outcomes in rows.items():
        share = np.mean([each.p_family.min() <= LEVEL for each in outcomes])
        # One connection per study: those of one study depend on each other.
        one = [each.p[k % len(each.p)] for k, each in enumerate(outcomes)]
        lines.append([name, len(outcomes), f"{share:.3f}", f"{kstest(one, 'uniform').pvalue:.2f}"])
    print(*lines, sep="\n", flush=True)
    found = [measure(seed) for seed in range(first_seed, first_seed + n_altered)]
    more = []
    for name in found[0]:
        outcomes = [each[name] for each in found]
        is_found = [each.p_family <= LEVEL for each in outcomes]
        pairs = list(zip(is_found, outcomes, strict=True))
        more.append(
            [
                name,
                len(outcomes),
                f"{np.mean([hit[each.is_altered].mean() for hit, each in pairs]):.3f}",
                f"{np.mean([hit[~each.is_altered].sum() for hit, each in pairs]):.2f}",
                f"{np.mean([area_under_curve(-each.p, each.is_altered) for each in outcomes]):.3f}",
            ]
        )
    header = ["partial correlations", "studies", "any found", "KS, single connections"]
    second = ["partial correlations", "studies", "altered found", "others found", "AUC"]
    return table(header, lines) + "\n\n" + table(second, more)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--null", type=int, default=100)
    parser.add_argument("--altered", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    print(main(options.null, options.altered, options.first_seed))
