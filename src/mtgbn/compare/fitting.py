"""Fit both groups, and choose directions that mean the same in all subjects."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mtgbn.compare.connections import align
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.ordering import Ordering
from mtgbn.tasks import Tasks

AnyEstimator = MTGBN | SIG | AVG
Fitting = Literal["separate", "together"]
Progress = Callable[[str, int, int], object]


class GroupGraphs(NamedTuple):
    """Graphs of both groups, with directions that agree, and the fits they come from.

    Attributes
    ----------
    graphs_a, graphs_b : array (subjects, p, p)
        See `agreeing_graphs`.
    estimators : tuple of MTGBN, SIG or AVG
        Fitted: one per group, or one for all subjects.
    """

    graphs_a: np.ndarray
    graphs_b: np.ndarray
    estimators: tuple[AnyEstimator, ...]

    @property
    def named_estimators(self) -> dict[str, AnyEstimator]:
        """The fitted estimators by the group that each was fitted to: a and b, or all."""
        names = ("all",) if len(self.estimators) == 1 else ("a", "b")
        return dict(zip(names, self.estimators, strict=True))


@contextmanager
def without_convergence_warnings() -> Iterator[None]:
    """Suppress warnings about convergence: of hundreds of fits, some do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def clone(estimator: AnyEstimator, **changes: Any) -> AnyEstimator:
    """Return an unfitted estimator of the same kind and settings, some of them changed."""
    return type(estimator)(**estimator.get_params()).set_params(**changes)


def check_groups(tasks: Tasks, is_a: ArrayLike) -> np.ndarray:
    """Return the mask of group a; both groups must have at least two subjects."""
    is_a = np.asarray(is_a)
    if is_a.dtype != bool or is_a.shape != (len(tasks),):
        raise InputError(f"is_a must have one True or False for each of the {len(tasks)} tasks")
    for name, size in (("a", int(is_a.sum())), ("b", int((~is_a).sum()))):
        if size < 2:
            raise InputError(f"group {name} has {size} subject(s); at least two are needed")
    return is_a


def fit_groups(
    tasks: Tasks,
    is_a: ArrayLike,
    estimator: AnyEstimator,
    *,
    fitting: Fitting = "separate",
    random_state: int | np.random.SeedSequence | None = None,
    quiet: bool = False,
    checkpoints: Path | None = None,
    progress: Progress | None = None,
) -> GroupGraphs:
    """Learn the graphs of two groups of subjects.

    Parameters
    ----------
    tasks : Tasks
    is_a : array (m,) of bool
        Subjects of the first group.
    estimator : MTGBN, SIG or AVG
        Its settings are used; it stays unfitted.
    fitting : {"separate", "together"}
        "separate": one fit per group, so that each group has its own sigma_h and edge prior.
        "together": one fit of all subjects as one cohort, which does not know the groups.
    random_state : int or numpy.random.SeedSequence, optional
        Instead of the estimator's.
    quiet : bool
        Suppress warnings about convergence.
    checkpoints : path, optional
        A folder for the checkpoints of `MTGBN.fit`; they are left there.
    progress : callable, optional
        Called with the group (a, b or all) and the stage of its fit, the steps done, and all steps.
    """
    is_a = check_groups(tasks, is_a)
    if fitting not in ("separate", "together"):
        raise InputError(f"fitting must be 'separate' or 'together'; got {fitting!r}")
    parts = {"a": is_a, "b": ~is_a}
    if fitting == "together":
        parts = {"all": np.ones(len(tasks), dtype=bool)}
    fitted: list[AnyEstimator] = []
    changes = {} if random_state is None else {"random_state": random_state}
    for name, part in parts.items():
        each = clone(estimator, **changes)
        with without_convergence_warnings() if quiet else nullcontext():
            fitted.append(each.fit(tasks[part], **_fit_options(each, name, checkpoints, progress)))
    if fitting == "separate":
        graphs = [each.graphs_ for each in fitted]
    else:
        graphs = [fitted[0].graphs_[is_a], fitted[0].graphs_[~is_a]]
    return GroupGraphs(*agreeing_graphs(tasks, graphs[0], graphs[1], estimator), tuple(fitted))


def agreeing_graphs(
    tasks: Tasks, graphs_a: np.ndarray, graphs_b: np.ndarray, estimator: AnyEstimator
) -> tuple[np.ndarray, np.ndarray]:
    """Align the directions of both groups, unless they were learned with prior knowledge.

    An equivalence class has members that prior knowledge excludes, and a consensus over whole classes
    could bring a forbidden direction back. So graphs that were learned with prior knowledge stay as
    the search found them, as in the estimators.
    """
    if estimator.knowledge is not None:
        return graphs_a, graphs_b
    order = Ordering.of(tasks).variable_order
    return align(graphs_a, graphs_b, order)


def _fit_options(
    estimator: AnyEstimator, group: str, checkpoints: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """Keyword arguments of `fit` for progress and checkpoints."""
    extras: dict[str, Any] = {}
    if progress is not None:
        extras["progress"] = lambda what, done, total: progress(
            f"group {group}: {what}", done, total
        )
    if checkpoints is not None and isinstance(estimator, MTGBN):
        extras["checkpoint"] = checkpoints / f"group-{group}.npz"
    return extras
