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
from mtgbn.learn.iterative import IterativeEstimator
from mtgbn.learn.min_strength import MinStrength, resolve_min_strength
from mtgbn.learn.ordering import Ordering
from mtgbn.paper import PaperMTGBN
from mtgbn.tasks import Tasks

AnyEstimator = MTGBN | SIG | AVG | PaperMTGBN
Fitting = Literal["separate", "together"]
Progress = Callable[[str, int, int], object]
RandomState = int | np.random.SeedSequence | np.random.Generator | None


class GroupGraphs(NamedTuple):
    """Graphs of both groups, with directions that agree, and the fits they come from."""

    graphs_a: np.ndarray  # (subjects, p, p)
    graphs_b: np.ndarray
    estimators: tuple[AnyEstimator, ...]  # fitted: one per group, or one for all subjects

    @property
    def named_estimators(self) -> dict[str, AnyEstimator]:
        """The fitted estimators by the group that each was fitted to: a and b, or all."""
        names = ("all",) if len(self.estimators) == 1 else ("a", "b")
        return dict(zip(names, self.estimators, strict=True))

    @property
    def fit_of(self) -> dict[str, tuple[AnyEstimator, int]]:
        """The fitted estimator of every subject, and the subject's position in it."""
        return {
            name: (each, t) for each in self.estimators for t, name in enumerate(each.task_names_)
        }


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
    """Learn the graphs of two groups; ``is_a`` is the mask of the first group.

    ``fitting`` is "separate" (one fit per group, so that each group has its own sigma_h and edge prior,
    but the same minimal strength) or "together" (one fit of all subjects as one cohort, which does not
    know the groups). The estimator stays unfitted; ``random_state`` replaces its own. ``quiet``
    suppresses warnings about convergence. Checkpoints of estimators that have iterations are left in
    the folder ``checkpoints``.
    """
    is_a = check_groups(tasks, is_a)
    if fitting not in ("separate", "together"):
        raise InputError(f"fitting must be 'separate' or 'together'; got {fitting!r}")
    parts = {"a": is_a, "b": ~is_a}
    if fitting == "together":
        parts = {"all": np.ones(len(tasks), dtype=bool)}
    fitted: list[AnyEstimator] = []
    changes: dict[str, Any] = {} if random_state is None else {"random_state": random_state}
    if fitting == "separate" and getattr(estimator, "min_strength", None) == "auto":
        changes["min_strength"] = _common_min_strength(tasks, estimator)
    for name, part in parts.items():
        each = clone(estimator, **changes)
        options: dict[str, Any] = {"progress": labelled(f"group {name}: ", progress)}
        if checkpoints is not None and isinstance(each, IterativeEstimator):
            options["checkpoint"] = checkpoints / f"group-{name}.npz"
        with without_convergence_warnings() if quiet else nullcontext():
            fitted.append(each.fit(tasks[part], **options))
    if fitting == "separate":
        graphs = [each.graphs_ for each in fitted]
    else:
        graphs = [fitted[0].graphs_[is_a], fitted[0].graphs_[~is_a]]
    return GroupGraphs(*agreeing_graphs(tasks, graphs[0], graphs[1], estimator), tuple(fitted))


def _common_min_strength(tasks: Tasks, estimator: AnyEstimator) -> MinStrength:
    """What counts as an edge in both groups, decided without knowing the groups.

    With a minimum of its own, each group would have other edges for no other reason.
    """
    ordered = Ordering.of(tasks).tasks
    return resolve_min_strength("auto", ordered, estimator.resolved_knowledge(ordered.variables))


def agreeing_graphs(
    tasks: Tasks, graphs_a: np.ndarray, graphs_b: np.ndarray, estimator: AnyEstimator
) -> tuple[np.ndarray, np.ndarray]:
    """Align the directions of both groups, unless prior knowledge settles some.

    A consensus over whole equivalence classes could bring back a direction that prior knowledge
    excludes. So such graphs stay as the search found them, as in the estimators.
    """
    if estimator.settles_directions(tasks.variables):
        return graphs_a, graphs_b
    return align(graphs_a, graphs_b, Ordering.of(tasks).variable_order)


def labelled(label: str, progress: Progress | None) -> Progress | None:
    """Return the callback ``progress`` with a label before the description of every step."""
    if progress is None:
        return None
    return lambda what, done, total: progress(label + what, done, total)
