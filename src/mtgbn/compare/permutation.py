"""Permutation test of the differences between two groups: labels are exchanged between subjects.

Graphs that were learned jointly are not independent: exchanging the labels of graphs that were learned
group by group would find differences where there are none. So either both groups of every relabelling
are fitted anew, or all subjects are fitted as one cohort, whose graphs do not depend on the labels.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from mtgbn._utils.arguments import check_count
from mtgbn._utils.seeds import entropy_text, seed_sequence
from mtgbn._utils.stores import Store, estimator_settings
from mtgbn.compare.fitting import (
    AnyEstimator,
    Fitting,
    GroupGraphs,
    Progress,
    RandomState,
    check_groups,
    clone,
    fit_groups,
)
from mtgbn.tasks import Tasks

# Differences that differ by rounding errors only count as equal.
_TOLERANCE = 1e-9


class Permutations(NamedTuple):
    """p-values by relabelling, (p, p), of every i -> j and of every edge in either direction (pair).

    Attributes
    ----------
    differences, pair_differences : array
        Share of group a that has the connection minus that of group b.
    pvalues, pair_pvalues : array
        Two-sided p-values.
    corrected, pair_corrected : array
        p-values corrected for the number of connections, by the distribution of the largest difference.
    pvalue : float
        p-value of the hypothesis that the groups differ in no pair: the smallest `pair_corrected`.
    """

    differences: np.ndarray
    pvalues: np.ndarray
    corrected: np.ndarray
    pair_differences: np.ndarray
    pair_pvalues: np.ndarray
    pair_corrected: np.ndarray
    pvalue: float
    n_permutations: int
    fitting: Fitting


def permutation_test(
    tasks: Tasks,
    is_a: ArrayLike,
    estimator: AnyEstimator,
    *,
    n_permutations: int = 200,
    fitting: Fitting = "separate",
    random_state: RandomState = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    observed: GroupGraphs | None = None,
    progress: Progress | None = None,
) -> Permutations:
    """Compare the differences between the groups with those between relabelled groups.

    With ``fitting="separate"`` every relabelling is fitted anew, with "together" none. ``store`` is a
    file that keeps the finished relabellings. ``observed`` are the fits with the true labels, if they
    exist, with the seed that ``fit_seed(random_state)`` returns. All else is as for `compare_groups`.
    """
    is_a = check_groups(tasks, is_a)
    check_count("n_permutations", n_permutations, 1)
    seeds = seed_sequence(random_state)
    _, *label_seeds = seeds.spawn(n_permutations + 1)
    relabelled = [is_a[np.random.default_rng(seed).permutation(len(is_a))] for seed in label_seeds]
    if observed is None:
        observed = fit_groups(tasks, is_a, estimator, fitting=fitting, random_state=fit_seed(seeds))
    differences = _differences(observed.graphs_a, observed.graphs_b)
    if fitting == "together":
        # The directions do not depend on the labels either.
        graphs = np.empty((len(tasks), *differences.shape[1:]), dtype=bool)
        graphs[is_a], graphs[~is_a] = observed[:2]
        under_null = np.array([_differences(graphs[each], graphs[~each]) for each in relabelled])
    else:
        settings = {**estimator_settings(estimator), "is_a": is_a, "seed": entropy_text(seeds)}
        known = Store(store, "relabellings", tasks.fingerprint(settings))
        todo = [k for k in range(n_permutations) if k not in known.values]
        done = n_permutations - len(todo)
        results = Parallel(n_jobs, return_as="generator_unordered")(
            delayed(_relabelled)(k, tasks, relabelled[k], estimator, label_seeds[k]) for k in todo
        )
        for k, difference in results:
            known.add(k, difference)
            done += 1
            if progress is not None:
                progress("relabellings", done, n_permutations)
        under_null = np.array([known.values[k] for k in range(n_permutations)])
    values, corrected = _pvalues(differences, under_null)
    return Permutations(
        differences=differences[0],
        pvalues=values[0],
        corrected=corrected[0],
        pair_differences=differences[1],
        pair_pvalues=values[1],
        pair_corrected=corrected[1],
        pvalue=float(np.nanmin(corrected[1])),
        n_permutations=n_permutations,
        fitting=fitting,
    )


def fit_seed(random_state: RandomState) -> np.random.SeedSequence:
    """Return the seed of the fit with the true labels, in a test with this random_state."""
    return seed_sequence(random_state).spawn(1)[0]


def _differences(graphs_a: np.ndarray, graphs_b: np.ndarray) -> np.ndarray:
    """Differences of the shares, of directed and of undirected connections, (2, p, p)."""
    difference = graphs_a.mean(axis=0) - graphs_b.mean(axis=0)
    return np.array([difference, difference + difference.T])  # no pair has both directions


def _relabelled(
    k: int, tasks: Tasks, is_a: np.ndarray, estimator: AnyEstimator, seed: np.random.SeedSequence
) -> tuple[int, np.ndarray]:
    fits = fit_groups(tasks, is_a, clone(estimator, n_jobs=1), random_state=seed, quiet=True)
    return k, _differences(fits.graphs_a, fits.graphs_b)


def _pvalues(observed: np.ndarray, relabelled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p-values and corrected p-values of every connection: (2, p, p) each, nan on the diagonal.

    The true labels count as one of the relabellings, so that no p-value is 0.
    """
    n, sizes, size = len(relabelled), np.abs(relabelled), np.abs(observed) - _TOLERANCE
    values = (1 + (sizes >= size).sum(axis=0)) / (n + 1)
    largest = sizes.max(axis=(2, 3))[:, :, None, None]
    corrected = (1 + (largest >= size).sum(axis=0)) / (n + 1)
    for each in (*values, *corrected):
        np.fill_diagonal(each, np.nan)
    return values, corrected
