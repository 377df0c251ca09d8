"""Distance between the scores of the learned graphs and the best possible scores.

Three tasks with ten variables, the size of the example of the paper's own code. The last search of
every task used draws of sigma_h and prior odds of edges. Given these, dynamic programming over all
sets of variables finds the best score of any DAG (Silander and Myllymaki 2006). The gap to it is at
least zero.
"""

import warnings
from unittest.mock import patch

import numpy as np

from benchmarks.fits import ESTIMATORS
from benchmarks.problems import shared_dag_tasks, table
from mtgbn import Tasks
from mtgbn.learn import joint
from mtgbn.learn.estimator import Estimator
from mtgbn.learn.parallel import in_parallel
from mtgbn.paper import em
from mtgbn.paper.structure_priors import gather_prior_scores
from mtgbn.search.local_scores import (
    LocalScores,
    gather_scores,
    graph_score,
    local_score,
    scores_workspace,
)

M, P, N = 3, 10, 250

LARGEST_ODDS = 1e3


def best_score(scores: LocalScores, p: int) -> float:
    """Best score of all DAGs: best parents of every node in every set, then the best last node."""
    work = scores_workspace(scores, p - 1)
    best = np.full((p, 2**p), -np.inf)
    for node in range(p):
        for chosen in range(2**p):
            if chosen >> node & 1:
                continue
            parents = np.array([a for a in range(p) if chosen >> a & 1], dtype=np.int64)
            best[node, chosen] = local_score(scores, node, parents, len(parents), work)
            for a in parents:
                best[node, chosen] = max(best[node, chosen], best[node, chosen ^ (1 << int(a))])
    total = np.zeros(2**p)
    for placed in range(1, 2**p):
        total[placed] = max(
            total[placed ^ (1 << last)] + best[last, placed ^ (1 << last)]
            for last in range(p)
            if placed >> last & 1
        )
    return float(total[-1])


def gaps_of(estimator: Estimator, seed: int) -> list[float]:
    """Gap of every task in its last search."""
    tasks = Tasks.from_arrays(shared_dag_tasks(M, P, N, round(1.5 * P), seed=seed)[0])
    searches = []

    def search_and_remember(function, calls, *rest):
        found = in_parallel(function, calls, *rest)
        searches.extend(zip(calls, found, strict=True))
        return found

    with (
        patch.object(joint, "in_parallel", search_and_remember),
        patch.object(em, "in_parallel", search_and_remember),
    ):
        estimator.set_params(random_state=seed, n_jobs=1).fit(tasks)
    # The last searches of directions hold their skeletons by large odds; they are not compared.
    free = [each for each in searches if each[0]["log_odds"].max() < LARGEST_ODDS]
    gaps = []
    for given, found in free[-M:]:
        data = [given[name] for name in ("scatter", "n", "draws", "nu0")]
        prior = given.get("structure_prior", "uniform")
        if prior == "uniform":
            scores = gather_scores(*data, given["log_odds"], own=given.get("own"), checked=True)
        else:
            scores = gather_prior_scores(*data, prior, given["log_odds"])
        gaps.append(best_score(scores, P) - graph_score(scores, found.adjacency))
    return gaps


def main(seeds: int = 4) -> str:
    warnings.simplefilter("ignore")
    rows = []
    for name, estimator in ESTIMATORS.items():
        found = np.concatenate([gaps_of(estimator, seed) for seed in range(seeds)])
        best = np.count_nonzero(found < 1e-6)
        rows.append([name, f"{best} of {len(found)}", f"{found.mean():.1f}", f"{found.max():.1f}"])
    return table(["", "best there is", "mean gap", "largest gap"], rows)


if __name__ == "__main__":
    print(main())
