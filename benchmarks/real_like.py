"""Simulated series that resemble real ones: many regions, few effective samples, one common signal.

Thirty regions and forty subjects, filtered to a band, with a global signal in all regions. Measured:
iterations, convergence, divergent trajectories, CPU seconds, edges per subject; how far two disjoint
halves of a cohort agree, and fits that differ in their seed only.
"""

import argparse
import time

import numpy as np

from benchmarks.bold import BAND, cleaned
from benchmarks.problems import table
from mtgbn import AVG, MTGBN, SIG, Tasks
from mtgbn.graphs import skeleton
from mtgbn.simulate import simulate_bold_groups
from mtgbn.tasks import effective_samples

N_REGIONS, N_VOLUMES, REPETITION_TIME = 30, 160, 2.0

# Standard deviation of the global signal, in those of a region's own series.
GLOBAL_SIGNAL = 0.8


def simulate_series(n_subjects: int, seed: int) -> list[np.ndarray]:
    """Cleaned series of all subjects, (volumes, regions) each."""
    simulation = simulate_bold_groups(
        n_subjects,
        0,
        n_volumes=N_VOLUMES,
        repetition_time=REPETITION_TIME,
        regions=N_REGIONS,
        density=0.12,
        n_altered=0,
        random_state=seed,
    )
    rng = np.random.default_rng([seed, 1])
    loadings = rng.uniform(0.5, 1.5, N_REGIONS)
    series = []
    for each in simulation.series:
        own = loadings * rng.uniform(0.8, 1.2, N_REGIONS)
        signal = np.convolve(rng.standard_normal(N_VOLUMES + 8), np.hanning(9), mode="valid")
        signal = GLOBAL_SIGNAL * signal[:, None] / signal.std() * own * each.std(axis=0)
        series.append(cleaned(each + signal, REPETITION_TIME))
    return series


def tasks_of(series: list[np.ndarray]) -> Tasks:
    """Subjects as tasks, with their effective samples."""
    most = 2 * (BAND[1] - BAND[0]) * REPETITION_TIME * N_VOLUMES
    sizes = [min(effective_samples(each), most) for each in series]
    return Tasks.from_arrays(series, standardise=True, effective_samples=sizes)


def frequencies(graphs: np.ndarray) -> np.ndarray:
    """Share of the subjects that join each pair."""
    mean = np.mean([skeleton(graph) for graph in graphs], axis=0)
    return mean[np.triu_indices(len(mean), 1)]


def course(n_sets: int, first_seed: int) -> str:
    """One fit per simulated set."""
    rows = []
    for seed in range(first_seed, first_seed + n_sets):
        tasks = tasks_of(simulate_series(40, seed))
        start = time.process_time()
        estimator = MTGBN(random_state=seed, n_jobs=1).fit(tasks)
        seconds = time.process_time() - start
        single = SIG(random_state=seed, n_jobs=1).fit(tasks).graphs_.sum(axis=(1, 2)).mean()
        edges = estimator.graphs_.sum(axis=(1, 2)).mean()
        row = [
            seed,
            f"{np.mean(tasks.ns):.0f}",
            estimator.n_iter_,
            "yes" if estimator.converged_ else "no",
            estimator.diagnostics_["n_divergent"],
            f"{seconds:.0f}",
            f"{edges:.1f}",
            f"{single:.1f}",
            f"{float(np.mean(estimator.min_strength_.strengths(tasks.ns))):.2f}",
            int(np.sum(estimator.membership_ < 0.5)),
        ]
        print(*row, flush=True)
        rows.append(row)
    header = [
        "set",
        "n",
        "iterations",
        "converged",
        "divergences",
        "CPU s",
        "edges",
        "edges of SIG",
    ]
    return table([*header, "min. strength", "single tasks"], rows)


def most_frequent(shares: np.ndarray, number: int) -> np.ndarray:
    """Which pairs are the most frequent ones."""
    found = np.zeros(shares.size, dtype=bool)
    found[np.argsort(-shares, kind="stable")[:number]] = True
    return found


def replicability(n_sets: int, n_seeds: int, first_seed: int) -> str:
    """Two disjoint halves of 40 subjects, and the same 40 subjects with several seeds.

    Subjects that are learned jointly share nearly all pairs, so that a pair has a share of 0 or 1.
    Shares of single tasks are graded. For a comparison of decisions SIG's most frequent pairs are taken,
    as many as MTGBN's subjects have on average.
    """
    rows = []
    for seed in range(first_seed, first_seed + n_sets):
        series = simulate_series(80, seed)
        halves = [tasks_of(series[:40]), tasks_of(series[40:])]
        row: list = [seed]
        for method in (MTGBN, AVG, SIG):
            found = [frequencies(method(random_state=1).fit(half).graphs_) for half in halves]
            row.append(f"{np.corrcoef(found)[0, 1]:.3f}")
            if method is MTGBN:
                n_pairs = [round(shares.sum()) for shares in found]
        decided = [most_frequent(*each) for each in zip(found, n_pairs, strict=True)]
        row.append(f"{np.corrcoef(decided)[0, 1]:.3f}")
        seeds = [frequencies(MTGBN(random_state=k).fit(halves[0]).graphs_) for k in range(n_seeds)]
        row.append(f"{np.corrcoef(seeds).min():.3f}")
        row.append(int(np.sum(np.ptp(seeds, axis=0) >= 0.5)))
        print(*row, flush=True)
        rows.append(row)
    header = [
        "set",
        "r of halves, MTGBN",
        "AVG",
        "SIG",
        "SIG, as many pairs",
        "smallest r of seeds",
    ]
    return table([*header, "pairs that differ by half"], rows)


def main(n_sets: int = 20, n_seeds: int = 10, first_seed: int = 0) -> str:
    """The course of fits, and their replicability."""
    halves = replicability(min(n_sets, 5), n_seeds, first_seed)
    return course(n_sets, first_seed) + "\n\n" + halves


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    print(main(options.sets, options.seeds, options.first_seed))
