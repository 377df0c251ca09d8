"""Who has a connection: probabilities that a pair is different between two groups.

calibration: everything is drawn from its prior, with two groups and pairs that are different between
them. Of all pairs with a probability of about x, a fraction of about x must be different. The table
also has the pairs by their outcome, and how often the 95 % interval of the difference of frequencies
has the true one. Chains are given what `benchmarks.calibration` gives them.

no difference: simulated BOLD series of fifteen controls and fifteen patients who do not differ.

three gained: the same, and the patients have three more connections. Altered connections are pairs
whose regions were newly coupled. Both have all defaults but 400 rounds per chain, and the permutation
test of `compare_design` beside the probabilities, at the family-wise level .05.
"""

import argparse
import sys
import time
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from benchmarks.bold import area_under_curve, mean_and_error, simulate_study
from benchmarks.calibration import FIRST_DELTA, MOVES_PER_PAIR, draw_truth
from benchmarks.problems import table
from benchmarks.two_groups import DESIGN, N_SUBJECTS
from mtgbn import MTGBN, SIG
from mtgbn.chain.run import run_chain
from mtgbn.chain.state import chain_data, first_state
from mtgbn.compare import compare_design
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.learn.group_differences import OUTCOMES, GroupDifferences
from mtgbn.model.pair_kinds import DIFFERENT, FREQUENCIES, first_kinds
from mtgbn.search.knowledge import no_constraints

LEVEL = 0.05
N_PERMUTATIONS = 1000

# Per chain, in the fits of simulated series; a quarter of the default, so that a study is short.
N_ROUNDS = 400

# Ends of the bins of probabilities.
BINS = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class Setting(NamedTuple):
    """One kind of simulation; the size of a group and the number of rows are drawn from ranges."""

    p: int
    tasks_per_group: tuple[int, int]
    rows: tuple[int, int]
    n_simulations: int
    n_rounds: int


SETTINGS = (
    Setting(5, (5, 15), (50, 300), 80, 400),
    Setting(8, (5, 15), (50, 300), 20, 400),
)
QUICK = (Setting(5, (5, 8), (50, 200), 12, 150),)


class Calibrated(NamedTuple):
    """All pairs of one simulation, (pairs,): what is known of them, and the truth."""

    probabilities: np.ndarray
    is_different: np.ndarray
    outcomes: np.ndarray
    is_covered: np.ndarray


def calibrate(setting: Setting, seed: int) -> Calibrated:
    """Run one simulation and the chains that learn it."""
    rng = np.random.default_rng([setting.p, 5, seed])
    p, (low, high) = setting.p, setting.tasks_per_group
    sizes = rng.integers(low, high + 1, 2)
    groups = np.repeat([0, 1], sizes)
    n = int(rng.integers(setting.rows[0], setting.rows[1] + 1))
    truth = None
    while truth is None:
        with suppress(np.linalg.LinAlgError):  # a delta near 0: numerically singular covariances
            truth = draw_truth(rng, p, len(groups), n, groups)
    data = chain_data(
        truth.tasks,
        no_constraints(p),
        groups=groups,
        n_moves=MOVES_PER_PAIR * p * (p - 1) // 2,
        samples_membership=False,
    )
    data = data._replace(
        psi_scales=truth.scales, single_scales=np.tile(truth.scales, (len(groups), 1))
    )
    prior = first_kinds(0.5, has_groups=True)
    single = SIG(random_state=seed, n_jobs=1).fit(truth.tasks).graphs_
    traces = []
    for start in (single, np.zeros_like(single)):
        state = first_state(data, truth.tasks, start, delta=FIRST_DELTA, edge_prior=prior)
        _, state = run_chain(data, state, rng, max(setting.n_rounds // 3, 60), adapts=True)
        traces.append(run_chain(data, state, rng, setting.n_rounds, adapts=False)[0])
    found = GroupDifferences(
        labels=("first", "second"),
        sizes=(int(sizes[0]), int(sizes[1])),
        variables=truth.tasks.variables,
        distribution=np.mean([trace.differences for trace in traces], axis=0),
        share=float(np.mean([trace.kinds[:, DIFFERENT] for trace in traces])),
        between_chains=np.zeros((p, p)),
    )
    pairs = np.triu_indices(p, 1)
    difference = np.subtract(*truth.places[::-1])[pairs] / (len(FREQUENCIES) + 1)
    first, last = (each[pairs] for each in found.intervals)
    return Calibrated(
        probabilities=found.probabilities[pairs],
        is_different=difference != 0,
        outcomes=found.outcomes[pairs],
        is_covered=(first <= difference) & (difference <= last),
    )


def jackknife(counts: np.ndarray, totals: np.ndarray) -> float:
    """Standard error of a share of all pairs: pairs of one simulation depend on each other."""
    without = (counts.sum() - counts) / np.maximum(totals.sum() - totals, 1)
    number = len(counts)
    return float(np.sqrt((number - 1) / number * np.sum((without - without.mean()) ** 2)))


def calibration_table(found: list[Calibrated]) -> str:
    """Bins of probability, then outcomes, and the share of pairs that are different."""
    rows = []

    def add(name: str, chosen: list[np.ndarray]) -> None:
        totals = np.array([each.sum() for each in chosen])
        there = np.array(
            [each.is_different[which].sum() for each, which in zip(found, chosen, strict=True)]
        )
        if not totals.sum():
            rows.append([name, 0, "", "", ""])
            return
        expected = sum(
            each.probabilities[which].sum() for each, which in zip(found, chosen, strict=True)
        )
        rows.append(
            [
                name,
                int(totals.sum()),
                f"{expected / totals.sum():.4f}",
                f"{there.sum() / totals.sum():.4f}",
                f"{jackknife(there, totals):.4f}",
            ]
        )

    for low, high in pairwise(BINS):
        chosen = [
            (each.probabilities >= low) & ((each.probabilities < high) | (high == 1))
            for each in found
        ]
        add(f"{low:g} to {high:g}", chosen)
    for outcome in OUTCOMES:
        add(outcome, [each.outcomes == outcome for each in found])
    add("all", [np.ones(len(each.probabilities), dtype=bool) for each in found])
    return table(["probability", "pairs", "mean probability", "share different", "s.e."], rows)


def coverage(found: list[Calibrated]) -> str:
    """How often the interval has the true difference, over all pairs and over different ones."""
    parts = []
    for name, chosen in (
        ("all pairs", [np.ones_like(each.is_different) for each in found]),
        ("pairs that are different", [each.is_different for each in found]),
    ):
        inside = np.array(
            [each.is_covered[which].sum() for each, which in zip(found, chosen, strict=True)]
        )
        totals = np.array([each.sum() for each in chosen])
        share = inside.sum() / max(totals.sum(), 1)
        parts.append(f"{share:.3f} ± {jackknife(inside, totals):.3f} of {name}")
    return f"The 95 % interval has the true difference in {' and '.join(parts)}."


def measure(seed: int, n_altered: int, estimator: MTGBN | None = None) -> dict[str, float]:
    """Probabilities and permutation tests of one simulated study."""
    study = simulate_study(N_SUBJECTS, N_SUBJECTS, seed, n_altered=n_altered, **DESIGN)
    people = {
        name: {"group": "patient" if is_patient else "control"}
        for name, is_patient in zip(study.tasks.names, study.is_patient, strict=True)
    }
    start = time.process_time()
    with without_convergence_warnings():
        found = compare_design(
            study.tasks,
            people,
            "group",
            MTGBN(n_rounds=N_ROUNDS) if estimator is None else estimator,
            n_permutations=N_PERMUTATIONS,
            probabilities=True,
            random_state=seed,
            n_jobs=1,
        )
    (template,) = found.templates
    i, j = template.pairs.T
    is_altered = study.is_altered[i, j]
    probability = template.differences.probabilities[i, j]
    outcome = template.differences.outcomes[i, j]
    p_family = template.tests.p_family
    numbers = {
        "P > .5, others": np.mean(probability[~is_altered] > 0.5),
        "different, others": np.mean(outcome[~is_altered] == "different"),
        "the same, others": np.mean(outcome[~is_altered] == "the same"),
        "any different": float((outcome[~is_altered] == "different").any()),
        "largest P": probability[~is_altered].max(),
        "permutation, others": np.mean(p_family[~is_altered] <= LEVEL),
        "permutation, any": float((p_family[~is_altered] <= LEVEL).any()),
        "CPU, s": time.process_time() - start,
    }
    if is_altered.any():
        numbers |= {
            "P > .5, altered": np.mean(probability[is_altered] > 0.5),
            "different, altered": np.mean(outcome[is_altered] == "different"),
            "the same, altered": np.mean(outcome[is_altered] == "the same"),
            "permutation, altered": np.mean(p_family[is_altered] <= LEVEL),
            "AUC of P": area_under_curve(probability, is_altered),
            "AUC of permutation": area_under_curve(np.abs(template.tests.statistic), is_altered),
        }
    return {name: float(value) for name, value in numbers.items()}


def studies(n_altered: int, seeds: range, estimator: MTGBN | None = None) -> str:
    """A table of the means over simulated studies."""
    results = []
    for seed in seeds:
        results.append(measure(seed, n_altered, estimator))
        shown = " ".join(f"{name} {value:.3f};" for name, value in results[-1].items())
        print(f"{n_altered} altered, data set {seed}: {shown}", file=sys.stderr, flush=True)
    rows = [
        [
            name,
            mean_and_error([each[name] for each in results]),
            f"{max(each[name] for each in results):.3f}",
        ]
        for name in results[0]
    ]
    return table([f"{len(results)} data sets", "mean", "largest"], rows)


def calibration(quick: bool = False) -> str:
    """The tables of all settings of simulations from the model."""
    parts = []
    for setting in QUICK if quick else SETTINGS:
        found = []
        for seed in range(setting.n_simulations):
            found.append(calibrate(setting, seed))
            print(f"p = {setting.p}: simulation {seed}", file=sys.stderr, flush=True)
        (low, high), (few, many) = setting.tasks_per_group, setting.rows
        parts.append(
            f"### Calibration: p = {setting.p}, groups of {low} to {high} tasks, n = {few} to {many}, "
            f"{len(found)} simulations\n\n{calibration_table(found)}\n\n{coverage(found)}"
        )
    return "\n\n".join(parts)


def main(quick: bool = False, which: str = "all") -> str:
    estimator = MTGBN(n_draws=16, n_restarts=0, max_iter=2, n_rounds=100) if quick else None
    number = 1 if quick else 20
    parts = [calibration(quick)] if which in ("all", "calibration") else []
    if which in ("all", "none"):
        parts.append(f"### No difference\n\n{studies(0, range(2000, 2000 + number), estimator)}")
    if which in ("all", "gained"):
        parts.append(f"### Three connections gained\n\n{studies(3, range(number), estimator)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few small simulations")
    parser.add_argument("--study", default="all", choices=("all", "calibration", "none", "gained"))
    given = parser.parse_args()
    print(main(given.quick, given.study))
