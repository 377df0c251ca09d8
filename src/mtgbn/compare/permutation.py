"""Permutation test of the differences between two groups: labels are exchanged between subjects.

Graphs that were learned jointly are not independent: exchanging the labels of graphs that were learned
group by group would find differences where there are none. So either both groups of every relabelling
are fitted anew, or all subjects are fitted as one cohort, whose graphs do not depend on the labels.
"""

from collections.abc import Callable
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
    check_groups,
    clone,
    fit_groups,
)
from mtgbn.tasks import Tasks

RandomState = int | np.random.SeedSequence | np.random.Generator | None

# Differences that differ by rounding errors only count as equal.
_TOLERANCE = 1e-9


class Permutations(NamedTuple):
    """p-values of every connection and of the largest difference, by relabelling.

    Attributes
    ----------
    differences : array (p, p)
        Share of group a that has i -> j minus that of group b.
    pvalues : array (p, p)
        Two-sided p-value of every i -> j.
    corrected : array (p, p)
        p-values corrected for the number of connections, by the distribution of the largest difference
        of all connections.
    pair_differences, pair_pvalues, pair_corrected : array (p, p)
        The same for edges in either direction.
    pvalue : float
        p-value of the hypothesis that the groups differ in no pair: the smallest `pair_corrected`.
    n_permutations : int
    fitting : {"separate", "together"}
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
    progress: Callable[[int, int], object] | None = None,
) -> Permutations:
    """Compare the differences between the groups with those between relabelled groups.

    Parameters
    ----------
    tasks : Tasks
    is_a : array (m,) of bool
        Subjects of the first group.
    estimator : MTGBN, SIG or AVG
    n_permutations : int
        Relabellings. With ``fitting="separate"`` each is fitted anew, with "together" none.
    fitting : {"separate", "together"}
        As in `fit_groups`.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides all results; n_jobs does not change them.
    n_jobs : int, optional
        Processes.
    store : path, optional
        A file that keeps the finished relabellings; if it exists, only the others are fitted.
    observed : GroupGraphs, optional
        The fits of the groups with their true labels, if they exist: with the seed that
        ``fit_seed(random_state)`` returns.
    progress : callable, optional
        Called with the number of relabellings that are finished, and of all.
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
        known = Store(store, "relabellings", _belongs_to(tasks, estimator, is_a, seeds))
        todo = [k for k in range(n_permutations) if k not in known.values]
        done = n_permutations - len(todo)
        results = Parallel(n_jobs, return_as="generator_unordered")(
            delayed(_relabelled)(k, tasks, relabelled[k], estimator, label_seeds[k]) for k in todo
        )
        for k, difference in results:
            known.add(k, difference)
            done += 1
            if progress is not None:
                progress(done, n_permutations)
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


def _belongs_to(
    tasks: Tasks, estimator: AnyEstimator, is_a: np.ndarray, seeds: np.random.SeedSequence
) -> dict[str, str]:
    settings = {**estimator_settings(estimator), "is_a": is_a, "seed": entropy_text(seeds)}
    return tasks.fingerprint(settings)


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
