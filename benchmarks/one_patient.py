"""One patient with three altered connections against 15 controls: ranks of these connections.

Eleven regions, 230 volumes, TR 2.5 s. The measures are the area under the ROC curve of the absolute
scores, altered pairs against all others, and, for one more control in place of the patient, the
fraction of p-values below .05. All methods are scored in the same way, by the differences from the
controls in units of their spread.
"""

import sys
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from benchmarks.bold import (
    Study,
    area_under_curve,
    mean_and_error,
    partial_correlations,
    simulate_study,
)
from benchmarks.problems import run_with_seeds, table
from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare.one_subject import (
    Departures,
    compare_with_group,
    departures_of,
    expect_strengths,
    score_departures,
)
from mtgbn.compare.strengths import connection_strengths
from mtgbn.learn.min_strength import MinStrength
from mtgbn.learn.new_task import learn_new_task
from mtgbn.search.knowledge import no_constraints
from mtgbn.search.methods import SearchSettings

N_CONTROLS = 15
ALTERATIONS = ("gained", "lost", "mixed")
DESIGN = {"n_volumes": 230, "repetition_time": 2.5, "regions": 11, "n_altered": 3}
LEVELS = (0.05, 0.01)

# Pairs below this false discovery rate are listed, as a clinician would.
LISTED = 0.2

SIG_BY_ODDS = "SIG, log odds of its own posterior"

# Sampled probabilities are kept this far from 0 and 1, so that their log odds are finite.
_SMALLEST = 1e-3


def single_log_odds(tasks: Tasks, seed: int) -> np.ndarray:
    """Log odds of every pair in every subject, learned as a single task, (m, p, p)."""
    constraints = no_constraints(tasks.n_variables)
    method = MTGBN(edge_prior="density")
    method.min_strength_ = MinStrength(0.0, 2.0)
    found = [
        learn_new_task(
            method,
            tasks[t],
            constraints,
            SearchSettings(),
            single=True,
            seeds=each,
        ).adjacency_probabilities
        for t, each in enumerate(np.random.SeedSequence(seed).spawn(len(tasks)))
    ]
    return logit(np.clip(found, _SMALLEST, 1 - _SMALLEST))


def rivals(study: Study, subjects: list[int], seed: int) -> dict[str, np.ndarray]:
    """Values of the other methods (m, p, p) in the controls and, last, the patient."""
    scatters = study.tasks.scatters[subjects]
    p = scatters.shape[1]
    sig = SIG(edge_prior="density", random_state=seed, n_jobs=1).fit(study.tasks[subjects])
    own = [
        connection_strengths(scatter[None], graph[None])[0]
        for scatter, graph in zip(scatters, sig.graphs_, strict=True)
    ]
    truth = study.simulation.adjacencies[:1]
    return {
        SIG_BY_ODDS: single_log_odds(study.tasks[subjects], seed),
        "SIG, strengths given parents in its own graph": np.array(own),
        "parents from SIG's graphs of the controls": connection_strengths(
            scatters, sig.graphs_[:-1]
        ),
        "partial correlations given all others": partial_correlations(scatters),
        "correlations": connection_strengths(scatters, np.zeros((1, p, p), dtype=bool)),
        "parents from the controls' true graph": connection_strengths(scatters, truth),
    }


def auc_of_rivals(study: Study, subjects: list[int], seed: int) -> dict[str, float]:
    pairs = np.triu_indices(study.tasks.n_variables, 1)
    ns = study.tasks.ns[subjects]
    found = {}
    for name, values in rivals(study, subjects, seed).items():
        # The sampling variance of log odds is unknown.
        noise = np.zeros(len(ns)) if name == SIG_BY_ODDS else 1 / ns
        own, others = values[-1][pairs], values[:-1, *pairs]
        score = score_departures(own, expect_strengths(others), noise[-1], noise[:-1].mean())
        found[name] = area_under_curve(np.abs(score), study.is_altered[pairs])
    return found


class Outcomes(NamedTuple):
    """Results of one simulated problem, by kind of alteration where the patient matters."""

    auc: dict[str, dict[str, float]]
    departures: dict[str, Departures]
    is_altered: dict[str, np.ndarray]
    extra: Departures
    """One more control in place of the patient."""


def measure(seed: int, kinds=ALTERATIONS, estimator: MTGBN | None = None) -> Outcomes:
    """Measure one problem; all kinds of patients have the same controls, which are learned once."""
    estimator = MTGBN() if estimator is None else estimator
    studies = {
        kind: simulate_study(N_CONTROLS + 1, 1, seed, alteration=kind, **DESIGN) for kind in kinds
    }
    tasks = studies[kinds[0]].tasks
    everybody = list(range(N_CONTROLS))
    controls = tasks[everybody]
    *seeds, last = np.random.SeedSequence(seed).spawn(N_CONTROLS + 1)
    outcomes = [
        compare_with_group(
            tasks[[k for k in everybody if k != left_out]],
            tasks[left_out],
            estimator,
            each,
            learn_subject=False,
        )
        for left_out, each in zip(everybody, seeds, strict=True)
    ]

    of_controls = [np.array(each) for each in zip(*(each[:2] for each in outcomes), strict=True)]

    def departures(subject) -> Departures:
        own = compare_with_group(controls, subject, estimator, last, learn_subject=True)
        return departures_of(own, *of_controls)

    auc, found, is_altered = {}, {}, {}
    for kind, study in studies.items():
        found[kind] = departures(study.tasks[N_CONTROLS + 1])
        is_altered[kind] = study.is_altered[found[kind].source, found[kind].target]
        own = area_under_curve(np.abs(found[kind].score), is_altered[kind])
        subjects = [*everybody, N_CONTROLS + 1]
        auc[kind] = {"MTGBN": own} | auc_of_rivals(study, subjects, seed)
    return Outcomes(auc, found, is_altered, departures(tasks[N_CONTROLS]))


def main(quick: bool = False, seeds: int = 20) -> str:
    estimator = MTGBN(n_draws=16, n_restarts=0, max_iter=2) if quick else None
    kinds = ALTERATIONS[:1] if quick else ALTERATIONS
    results = []
    for seed in range(1 if quick else seeds):
        results.append(measure(seed, kinds, estimator))
        shown = {kind: round(each["MTGBN"], 3) for kind, each in results[-1].auc.items()}
        print(f"problem {seed}: AUC {shown}", file=sys.stderr, flush=True)
    rows = [
        [name, *(mean_and_error([each.auc[kind][name] for each in results]) for kind in kinds)]
        for name in results[0].auc[kinds[0]]
    ]
    return "\n".join([table(["scores from", *kinds], rows), "", *_sentences(results, kinds)])


def _sentences(results: list[Outcomes], kinds) -> list[str]:
    """Sentences about the listed pairs and the false alarms."""
    lines = []
    for kind in kinds:
        ranks = np.array([np.flatnonzero(each.is_altered[kind]) + 1 for each in results])
        listed = [each.is_altered[kind][each.departures[kind].fdr < LISTED] for each in results]
        lines.append(
            f"- {kind}: an altered pair comes first in {np.mean(ranks[:, 0] == 1):.0%} of the "
            "patients; "
            f"{np.mean((ranks <= 3).sum(axis=1)):.2f} of the first three pairs are altered; "
            f"{np.mean([len(each) for each in listed]):.2f} pairs have an FDR below {LISTED}, "
            f"{np.mean([each.sum() for each in listed]):.2f} of them altered."
        )
    for level in LEVELS:
        among = [each.departures[kinds[0]].alarm_rate(level) for each in results]
        of_one = [np.mean(each.extra.pvalue <= level) for each in results]
        lines.append(
            f"- p-values of at most {level}: {mean_and_error(among)} of the pairs of controls "
            f"compared with each other, {mean_and_error(of_one)} of the pairs of one more control."
        )
    alarms = np.mean([each.extra.fdr[0] < LISTED for each in results])
    lines.append(
        f"- One more control has a pair with an FDR below {LISTED} in {alarms:.0%} of the problems."
    )
    return lines


if __name__ == "__main__":
    run_with_seeds(main, __doc__, 20)
