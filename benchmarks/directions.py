"""Directions that comparisons show with an arrowhead: how many are right, by two rules.

Cohorts with known directions: simulated BOLD series, data that the model does not fit, and changed
copies of a DAG. One fit per cohort. A connection that a fifth of the subjects have is shown with an
arrowhead in the more frequent direction if (a) the learned graph excludes the other direction in 80 %
of the subjects who have the edge, or (b) the direction is found in 80 % of the bootstrap cohorts, as
`compare_design` does. Counted are arrowheads that are right, reversed, and between variables that are
not joined.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np

from benchmarks.bold import simulate_study
from benchmarks.problems import table
from benchmarks.two_groups import DESIGN
from mtgbn import MTGBN, Tasks
from mtgbn.compare.directions import bootstrap_directions
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.graphs import cpdag
from mtgbn.report.design_networks import LEAST_JOINED, LEAST_SUPPORT
from mtgbn.simulate import simulate_misfit, simulate_perturbed
from mtgbn.simulate.perturbed import random_network


class Cohort(NamedTuple):
    """Subjects, and the directions that most of them truly have, (p, p)."""

    tasks: Tasks
    truth: np.ndarray


class Heads(NamedTuple):
    """Arrowheads of one rule: right, reversed, and between variables that are not joined."""

    right: int
    is_reversed: int
    not_joined: int


def bold(seed: int) -> Cohort:
    study = simulate_study(15, 15, seed, n_altered=0, **DESIGN)
    return Cohort(study.tasks, study.simulation.couplings[0] != 0)


def misfit(seed: int, kind) -> Cohort:
    simulation = simulate_misfit(kind, 30, 12, 60, random_state=seed)
    return Cohort(Tasks.from_arrays(list(simulation.arrays)), simulation.coefficients[0] != 0)


def changed_dag(seed: int) -> Cohort:
    network = random_network(20, 30, random_state=seed)
    simulation = simulate_perturbed(network, 20, 60, level=0.1, random_state=seed + 1000)
    most = np.mean(simulation.adjacencies, axis=0) > 0.5
    return Cohort(Tasks.from_arrays(simulation.arrays), most)


KINDS = {
    "BOLD, 30 subjects": bold,
    "none": lambda seed: misfit(seed, "none"),
    "lagged": lambda seed: misfit(seed, "lagged"),
    "delays": lambda seed: misfit(seed, "delays"),
    "hidden cause": lambda seed: misfit(seed, "hidden_cause"),
    "DAG, 10 % changed": changed_dag,
}


def heads_of(shown: np.ndarray, truth: np.ndarray) -> Heads:
    """Count the arrowheads ``shown`` (p, p)."""
    return Heads(
        int((shown & truth).sum()),
        int((shown & truth.T & ~truth).sum()),
        int((shown & ~truth & ~truth.T).sum()),
    )


def measure(cohort: Cohort, seed: int) -> tuple[Heads, Heads, Heads, float]:
    """Without a rule, by learned graphs, by bootstrap cohorts; and the time of the latter."""
    with without_convergence_warnings():
        fitted = MTGBN(random_state=seed, n_jobs=1).fit(cohort.tasks)
    counts = fitted.graphs_.sum(axis=0)
    classes = np.array([cpdag(graph) for graph in fitted.graphs_])
    compelled = (classes & ~classes.transpose(0, 2, 1)).sum(axis=0)
    joined = counts + counts.T
    # Of equally frequent directions, one is shown.
    is_shown = (counts > counts.T) | np.triu((counts == counts.T) & (counts > 0))
    is_shown &= joined >= LEAST_JOINED * len(cohort.tasks)
    start = time.process_time()
    supports = bootstrap_directions(
        fitted,
        [[t] for t in range(len(cohort.tasks))],
        random_state=np.random.SeedSequence(seed),
    )
    seconds = time.process_time() - start
    return (
        heads_of(is_shown, cohort.truth),
        heads_of(is_shown & (compelled >= LEAST_SUPPORT * joined), cohort.truth),
        heads_of(is_shown & (supports >= LEAST_SUPPORT), cohort.truth),
        seconds,
    )


def main(problems: int = 10, *, first_seed: int = 1300, kinds: tuple[str, ...] = ()) -> str:
    """The table; every line is also printed as soon as it is there."""
    rows = []
    for name, simulate in KINDS.items():
        if kinds and name not in kinds:
            continue
        found = [measure(simulate(seed), seed) for seed in range(first_seed, first_seed + problems)]
        cells = [
            " / ".join(
                f"{np.mean([each[rule] for each in found], axis=0)[k]:.1f}" for k in range(3)
            )
            for rule in range(3)
        ]
        rows.append([name, str(problems), *cells, f"{np.mean([each[3] for each in found]):.1f}"])
        print(*rows[-1], flush=True)
    header = ["data", "cohorts", "all directions", "by learned graphs", "by bootstrap cohorts"]
    return table([*header, "CPU s"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10, help="cohorts per kind of data")
    parser.add_argument("--first-seed", type=int, default=1300)
    parser.add_argument("--kinds", nargs="+", default=[])
    given = parser.parse_args()
    print(main(given.problems, first_seed=given.first_seed, kinds=tuple(given.kinds)))
