"""Probabilities of edges on data that the model does not fit, and the posterior estimate's errors.

Ten tasks with ten variables from `simulate_misfit`, for every kind of misfit. Two settings: the default
minimal strength, and the truth's smallest effect, which nobody could know. Measured: wrong pairs per
task of the map estimate and of the posterior estimate, and the share of the pairs that are present,
by their probability.
"""

import argparse
import sys
from typing import NamedTuple

import numpy as np

from benchmarks.bold import mean_and_error
from benchmarks.calibration import N_BINS
from benchmarks.more_tasks import MISFITS
from benchmarks.problems import table
from mtgbn import MTGBN
from mtgbn.graphs import skeleton
from mtgbn.simulate import simulate_misfit
from mtgbn.simulate.misfit import MisfitSimulation

N_TASKS, N_VARIABLES = 10, 10


class Outcome(NamedTuple):
    """Of one problem: wrong pairs per task of both estimates; probabilities of all pairs, and truth."""

    of_map: float
    of_posterior: float
    probabilities: np.ndarray
    is_present: np.ndarray


def smallest_effect(simulation: MisfitSimulation) -> float:
    """The weakest partial correlation of an edge given the other parents, without the misfit.

    Of every edge the mean over the tasks counts. Residuals have the variance 1.
    """
    p = simulation.coefficients.shape[1]
    strengths = []
    for coefficients in simulation.coefficients:
        mixing = np.linalg.inv(np.eye(p) - coefficients)
        covariance = mixing.T @ mixing
        strength = np.full((p, p), np.nan)
        for node in range(p):
            parents = np.flatnonzero(coefficients[:, node])
            for parent in parents:
                others = parents[parents != parent]
                variance = covariance[parent, parent]
                if others.size:
                    known = covariance[np.ix_(others, others)]
                    slopes = np.linalg.solve(known, covariance[others, parent])
                    variance -= covariance[parent, others] @ slopes
                explained = coefficients[parent, node] ** 2 * variance
                strength[parent, node] = np.sqrt(explained / (1 + explained))
        strengths.append(strength)
    return float(np.nanmin(np.mean(strengths, axis=0)))


def measure(kind: str, seed: int, is_known: bool) -> Outcome:
    """Both estimates of one problem; ``is_known`` says that the smallest effect is given."""
    simulation = simulate_misfit(kind, N_TASKS, N_VARIABLES, random_state=seed)
    setting = smallest_effect(simulation) if is_known else "auto"
    truth = np.array([skeleton(graph) for graph in simulation.adjacencies])
    pairs = np.triu_indices(N_VARIABLES, 1)
    wrong = []
    for inference in ("map", "posterior"):
        fitted = MTGBN(inference=inference, min_strength=setting, random_state=seed, n_jobs=1)
        graphs = fitted.fit(simulation.tasks).graphs_
        found = np.array([skeleton(graph) for graph in graphs])
        wrong.append(float(np.sum(found != truth) / 2 / N_TASKS))
    return Outcome(
        *wrong,
        fitted.adjacency_probabilities_[:, *pairs].ravel(),
        truth[:, *pairs].ravel().astype(bool),
    )


def reliability(outcomes: dict[str, list[Outcome]]) -> str:
    """Share of the pairs that are present and number of pairs, by kind and probability."""
    rows = []
    for kind, found in outcomes.items():
        probabilities = np.concatenate([each.probabilities for each in found])
        is_present = np.concatenate([each.is_present for each in found])
        bins = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
        row = [kind]
        for k in range(N_BINS):
            inside = bins == k
            share = f"{is_present[inside].mean():.2f}" if inside.any() else "-"
            row.append(f"{share} ({inside.sum()})")
        rows.append(row)
    header = [f"{k / N_BINS:.1f} to {(k + 1) / N_BINS:.1f}" for k in range(N_BINS)]
    return table(["data", *header], rows)


def main(n_problems: int = 5, first_seed: int = 700) -> str:
    """Errors and reliability, with the default minimum and with the smallest effect."""
    parts = []
    errors = []
    for is_known in (False, True):
        name = "smallest effect" if is_known else "default"
        outcomes: dict[str, list[Outcome]] = {}
        for kind in MISFITS:
            seeds = range(first_seed, first_seed + n_problems)
            found = outcomes[kind] = [measure(kind, seed, is_known) for seed in seeds]
            gains = [each.of_posterior - each.of_map for each in found]
            row = [kind, name, mean_and_error([each.of_map for each in found])]
            row += [mean_and_error([each.of_posterior for each in found]), mean_and_error(gains)]
            print(*row, file=sys.stderr, flush=True)
            errors.append(row)
        parts.append(f"min_strength: {name}\n\n{reliability(outcomes)}")
    header = ["data", "min_strength", "map", "posterior", "posterior - map"]
    return "\n\n".join([table(header, errors), *parts])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=5, help="per kind and setting")
    parser.add_argument("--first-seed", type=int, default=700)
    options = parser.parse_args()
    print(main(options.problems, options.first_seed))
