"""p-values of three connections in which two groups differ, by four methods at one density.

15 patients and 15 controls, eleven regions, 230 volumes, TR 2.5 s. In each method every subject has
as many edges as MTGBN finds. The measures are one-sided z-tests of proportions, in the direction of
the truth, of i -> j and of the pair, and the fraction of unaltered pairs for which the two-sided
test finds a difference. With --null the groups do not differ, and the permutation test with new
fits is measured.
"""

import argparse
import sys

import numpy as np

from benchmarks.bold import (
    Study,
    area_under_curve,
    cleaned,
    high_passed,
    mean_and_error,
    simulate_study,
)
from benchmarks.problems import table
from mtgbn import MTGBN, SIG
from mtgbn.compare import compare_graphs
from mtgbn.compare.connections import Connections, align
from mtgbn.compare.fitting import fit_groups, without_convergence_warnings
from mtgbn.compare.permutation import permutation_test
from mtgbn.fmri import granger_causality, regression_dcm
from mtgbn.fmri.density import strongest_edges

DESIGN = {"n_volumes": 230, "repetition_time": 2.5, "regions": 11}
N_SUBJECTS = 15
QUICK = MTGBN(n_draws=16, n_restarts=0, max_iter=2)
LEVEL = 0.05

# Prior probabilities of an edge, tried in turn until a subject's graph has enough edges.
_DENSITIES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.999)

# p-values of 0 have no logarithm; no test of 15 v 15 subjects gives a smaller p-value than this.
_SMALLEST = 1e-8


def single_task_graphs(study: Study, n_edges: np.ndarray, seed: int) -> np.ndarray:
    """SIG's graphs at the first density with enough edges, without the weakest edges."""
    m, p = len(study.tasks), study.tasks.n_variables
    found, strengths = np.zeros((m, p, p), dtype=bool), np.zeros((m, p, p))
    is_open = np.ones(m, dtype=bool)
    for density in _DENSITIES:
        estimator = SIG(edge_prior=density, random_state=seed, n_jobs=1).fit(study.tasks[is_open])
        found[is_open] = estimator.graphs_
        is_open &= found.sum(axis=(1, 2)) < n_edges
        if not is_open.any():
            break
    aligned = np.concatenate(align(found[study.is_patient], found[~study.is_patient]))
    found[study.is_patient], found[~study.is_patient] = np.split(aligned, [study.is_patient.sum()])
    for t, graph in enumerate(found):
        for j in range(p):
            parents = np.flatnonzero(graph[:, j])
            scatter = study.tasks.scatters[t]  # of standardised data
            strengths[t, parents, j] = np.linalg.solve(
                scatter[np.ix_(parents, parents)], scatter[parents, j]
            )
    return np.array([strongest_edges(each, n) for each, n in zip(strengths, n_edges, strict=True)])


def strengths_of_series(study: Study, seed: int) -> dict[str, list[np.ndarray]]:
    """Granger causality and regression DCM of band-passed and of only high-passed series."""
    tr = study.simulation.repetition_time
    found: dict[str, list[np.ndarray]] = {}
    for series in study.simulation.series:
        for word, clean in (("", cleaned), (", not low-passed", high_passed)):
            rows = clean(series, tr)
            found.setdefault(f"GC{word}", []).append(granger_causality(rows).f_statistics)
            found.setdefault(f"rDCM{word}", []).append(regression_dcm(rows, tr).coupling)
    return found


def measure(seed: int, estimator: MTGBN | None = None, **options) -> dict[str, dict[str, float]]:
    """Measures of the altered and of the other connections, per method."""
    study = simulate_study(N_SUBJECTS, N_SUBJECTS, seed, **DESIGN, **options)
    is_a = study.is_patient
    estimator = MTGBN(n_jobs=1) if estimator is None else estimator
    own = fit_groups(study.tasks, is_a, estimator, random_state=seed, quiet=True)
    n_edges = np.empty(len(is_a), dtype=int)
    n_edges[is_a], n_edges[~is_a] = (each.sum(axis=(1, 2)) for each in own[:2])
    single = single_task_graphs(study, n_edges, seed)
    graphs = {"MTGBN": (own[:2],) * 2, "SIG": ((single[is_a], single[~is_a]),) * 2}
    for name, strengths in strengths_of_series(study, seed).items():
        both = []
        for undirected in (False, True):
            each = np.array(
                [
                    strongest_edges(strength, n, undirected=undirected)
                    for strength, n in zip(strengths, n_edges, strict=True)
                ]
            )
            both.append((each[is_a], each[~is_a]))
        graphs[name] = both
    return {
        name: judge(study, compare_graphs(*directed), compare_graphs(*undirected, directed=False))
        | {"edges": float(n_edges.mean())}
        for name, (directed, undirected) in graphs.items()
    }


def judge(study: Study, arrows: Connections, pairs: Connections) -> dict[str, float]:
    """p-values of the altered connections, one-sided; alarms among the others, two-sided."""
    found: dict[str, list[float]] = {"arrow": [], "pair": []}
    for each in study.simulation.altered:
        ends = (each.source, each.target)
        for kind, places, rows in (("arrow", ends, arrows), ("pair", tuple(sorted(ends)), pairs)):
            row = np.flatnonzero((rows.source == places[0]) & (rows.target == places[1]))[0]
            pvalue = (rows.p_greater if each.kind == "gained" else rows.p_less)[row]
            found[kind].append(max(float(pvalue), _SMALLEST))
    is_altered = study.is_altered[pairs.source, pairs.target]
    return {
        "log10 p, i -> j": float(np.log10(found["arrow"]).mean()),
        "mean p, i -> j": float(np.mean(found["arrow"])),
        "log10 p, pair": float(np.log10(found["pair"]).mean()),
        "mean p, pair": float(np.mean(found["pair"])),
        "pairs found": float(np.mean(np.array(found["pair"]) <= LEVEL)),
        "false alarms": float(np.mean(pairs.p_two_sided[~is_altered] <= LEVEL)),
        "AUC, pairs": area_under_curve(-pairs.p_two_sided, is_altered),
    }


def measure_null(seed: int, n_permutations: int = 19) -> dict[str, float]:
    """Permutation test and z-tests for groups that do not differ."""
    study = simulate_study(N_SUBJECTS, N_SUBJECTS, seed, n_altered=0, **DESIGN)
    is_a = study.is_patient
    fitted = fit_groups(study.tasks, is_a, QUICK, random_state=seed, quiet=True)
    with without_convergence_warnings():
        found = permutation_test(
            study.tasks, is_a, QUICK, n_permutations=n_permutations, random_state=seed, n_jobs=1
        )
    pairs = np.triu_indices(study.tasks.n_variables, 1)
    plain = compare_graphs(*fitted[:2], directed=False)
    return {
        "p": found.pvalue,
        "pairs": float(np.mean(found.pair_pvalues[pairs] <= LEVEL)),
        "z-test": float(np.mean(plain.p_two_sided <= LEVEL)),
        "z-test, any": float(plain.q.min() <= LEVEL),
    }


def main(quick: bool = False, seeds: int = 20, alteration: str = "gained") -> str:
    results = []
    for seed in range(1 if quick else seeds):
        results.append(measure(seed, QUICK if quick else None, alteration=alteration))
        print(f"problem {seed}", file=sys.stderr, flush=True)
    numbers = list(results[0]["MTGBN"])
    rows = [
        [name, *(mean_and_error([each[name][number] for each in results]) for number in numbers)]
        for name in results[0]
    ]
    return table(["method", *numbers], rows)


def main_null(quick: bool = False, seeds: int = 20) -> str:
    results = []
    for seed in range(1000, 1000 + (1 if quick else seeds)):
        results.append(measure_null(seed))
        print(f"data set {seed}: {results[-1]}", file=sys.stderr, flush=True)
    pvalues = np.array([each["p"] for each in results])
    rows = [
        [f"permutation test, any pair, p up to {level}", f"{np.mean(pvalues <= level):.3f}"]
        for level in (LEVEL, 0.25, 0.5)
    ]
    rows += [
        [
            f"permutation test, single pairs, p up to {LEVEL}",
            mean_and_error([each["pairs"] for each in results]),
        ],
        [
            f"z-test, single pairs, p up to {LEVEL}",
            mean_and_error([each["z-test"] for each in results]),
        ],
        [
            f"z-test, any pair, q up to {LEVEL}",
            mean_and_error([each["z-test, any"] for each in results]),
        ],
    ]
    return table(["without any difference", "share"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one problem")
    parser.add_argument("--seeds", type=int, default=20, help="problems")
    parser.add_argument("--alteration", default="gained", choices=("gained", "lost", "mixed"))
    parser.add_argument("--null", action="store_true", help="groups that do not differ")
    given = parser.parse_args()
    if given.null:
        print(main_null(given.quick, given.seeds))
    else:
        print(main(given.quick, given.seeds, given.alteration))
