"""Is there any difference between the groups? Labels are exchanged, and everything is done again.

Subjects whose graphs were learned together are not independent, so that exchanging the labels of graphs
that were learned group by group finds differences where there are none. Either every relabelling is
fitted anew, or all subjects are fitted as one cohort, whose graphs do not depend on the labels.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mtgbn._utils.arguments import check_count
from mtgbn._utils.seeds import entropy_text, seed_sequence
from mtgbn._utils.stores import Store, estimator_settings
from mtgbn.compare.fitting import Fitting, GroupGraphs, check_groups, fit_groups
from mtgbn.learn.estimator import Estimator
from mtgbn.tasks import Tasks

__all__ = ["Permutations", "fit_seed", "permutation_test"]


class Permutations(NamedTuple):
    """p-values of the largest difference and of every connection.

    Attributes
    ----------
    differences : array (p, p)
        Share of group a that has i -> j minus that of group b.
    pvalues : array (p, p)
        Of every i -> j, two-sided.
    corrected : array (p, p)
        The same, for the largest difference anywhere: below .05 is a difference, however many
        connections were looked at.
    pair_differences, pair_pvalues, pair_corrected : array (p, p)
        Of edges in either direction.
    pvalue : float
        Whether the groups differ in any pair: the smallest of `pair_corrected`.
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
    is_a,
    learner: Estimator,
    *,
    n_permutations: int = 200,
    fitting: Fitting = "separate",
    random_state=None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    observed: GroupGraphs | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Permutations:
    """Compare the groups with relabelled ones.

    Parameters
    ----------
    tasks : Tasks
    is_a : array (m,) of bool
        Subjects of the first group.
    learner : Estimator
    n_permutations : int
        Each is fitted anew with ``fitting="separate"``; none is with "together".
    fitting : {"separate", "together"}
        As in `fit_groups`.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.
    n_jobs : int, optional
        Processes.
    store : path, optional
        A file that has all relabellings done so far; if it exists, only the others are done.
    observed : GroupGraphs, optional
        The groups as they are, if they are fitted already: with ``random_state`` the seed that
        `fit_seed` gives.
    progress : callable, optional
        Called with the number of relabellings done and to do.
    """
    is_a = check_groups(tasks, is_a)
    check_count("n_permutations", n_permutations, 1)
    seeds = seed_sequence(random_state)
    _, *label_seeds = seeds.spawn(n_permutations + 1)
    relabelled = [is_a[np.random.default_rng(seed).permutation(len(is_a))] for seed in label_seeds]
    if observed is None:
        observed = fit_groups(tasks, is_a, learner, fitting=fitting, random_state=fit_seed(seeds))
    differences = _differences(observed.graphs_a, observed.graphs_b)
    if fitting == "together":
        # Directions were chosen without the labels, too.
        graphs = np.empty((len(tasks), *differences.shape[1:]), dtype=bool)
        graphs[is_a], graphs[~is_a] = observed[:2]
        found = np.array([_differences(graphs[each], graphs[~each]) for each in relabelled])
    else:
        known = Store(store, "relabellings", _belongs_to(tasks, learner, is_a, seeds))
        todo = [k for k in range(n_permutations) if k not in known.values]
        done = n_permutations - len(todo)
        results = Parallel(n_jobs, return_as="generator_unordered")(
            delayed(_relabelled)(k, tasks, relabelled[k], learner, label_seeds[k]) for k in todo
        )
        for k, difference in results:
            known.add(k, difference)
            done += 1
            if progress is not None:
                progress(done, n_permutations)
        found = np.array([known.values[k] for k in range(n_permutations)])
    values, corrected = _pvalues(differences, found)
    return Permutations(
        differences[0],
        values[0],
        corrected[0],
        differences[1],
        values[1],
        corrected[1],
        float(np.nanmin(corrected[1])),
        n_permutations,
        fitting,
    )


def fit_seed(random_state) -> np.random.SeedSequence:
    """The seed of the fit of the groups as they are, in a test with this random_state."""
    return seed_sequence(random_state).spawn(1)[0]


def _belongs_to(tasks: Tasks, learner: Estimator, is_a: np.ndarray, seeds) -> dict[str, str]:
    seed = entropy_text(seeds)
    return tasks.fingerprint({**estimator_settings(learner), "is_a": is_a, "seed": seed})


def _differences(graphs_a: np.ndarray, graphs_b: np.ndarray) -> np.ndarray:
    """Of the shares, for directed and for undirected connections, (2, p, p)."""
    difference = graphs_a.mean(axis=0) - graphs_b.mean(axis=0)
    return np.array([difference, difference + difference.T])  # no pair has both directions


def _relabelled(k: int, tasks: Tasks, is_a: np.ndarray, learner: Estimator, seed):
    learner = type(learner)(**learner.get_params()).set_params(n_jobs=1)
    found = fit_groups(tasks, is_a, learner, random_state=seed, quiet=True)
    return k, _differences(found.graphs_a, found.graphs_b)


def _pvalues(observed: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every connection, and for the largest of all: (2, p, p) each, nan on the diagonal.

    The groups as they are count as one of the relabellings, so that no p-value is 0.
    """
    n, tolerance = len(found), 1e-9
    sizes, size = np.abs(found), np.abs(observed)
    values = (1 + (sizes >= size - tolerance).sum(axis=0)) / (n + 1)
    largest = sizes.max(axis=(2, 3))[:, :, None, None]
    corrected = (1 + (largest >= size - tolerance).sum(axis=0)) / (n + 1)
    for each in (*values, *corrected):
        np.fill_diagonal(each, np.nan)
    return values, corrected
