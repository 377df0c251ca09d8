"""The graphs of two groups, from their data."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mtgbn.compare.groups import align
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import MTGBN
from mtgbn.learn.canonical import canonical_order
from mtgbn.learn.estimator import Estimator
from mtgbn.tasks import Tasks

__all__ = ["Fitting", "GroupGraphs", "check_groups", "fit_groups", "quietly"]

Fitting = Literal["separate", "together"]


class GroupGraphs(NamedTuple):
    """Graphs of both groups, directions aligned.

    Attributes
    ----------
    graphs_a, graphs_b : array (subjects, p, p)
    learners : tuple of Estimator
        Fitted: one per group, or one for all.
    """

    graphs_a: np.ndarray
    graphs_b: np.ndarray
    learners: tuple[Estimator, ...]


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings of fits that did not converge; of hundreds of fits some do not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def check_groups(tasks: Tasks, is_a) -> np.ndarray:
    """Which tasks are in group a; both groups must have at least two."""
    is_a = np.asarray(is_a)
    if is_a.dtype != bool or is_a.shape != (len(tasks),):
        raise InputError(f"is_a must have one True or False for each of the {len(tasks)} tasks")
    for name, size in (("a", int(is_a.sum())), ("b", int((~is_a).sum()))):
        if size < 2:
            raise InputError(f"group {name} has {size} subject(s); at least two are needed")
    return is_a


def fit_groups(
    tasks: Tasks,
    is_a: np.ndarray,
    learner: Estimator,
    *,
    fitting: Fitting = "separate",
    random_state=None,
    quiet: bool = False,
    checkpoints: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> GroupGraphs:
    """Learn the graphs of two groups of subjects.

    Parameters
    ----------
    tasks : Tasks
    is_a : array (m,) of bool
        Subjects of the first group.
    learner : Estimator
        Its settings are used; it stays unfitted.
    fitting : {"separate", "together"}
        Each group by itself, so that each has its own sigma_h and edge prior; or all subjects as one
        cohort, who are not told apart.
    random_state : int or numpy.random.SeedSequence, optional
        Instead of the learner's.
    quiet : bool
        No warnings of fits that did not converge.
    checkpoints : path, optional
        A folder for what `MTGBN.fit` needs to go on after an interruption; it is left there.
    progress : callable, optional
        Called with the group (a, b or all) and what is done, how much of it is done, and how much
        there is.
    """
    is_a = check_groups(tasks, is_a)
    if fitting not in ("separate", "together"):
        raise InputError(f"fitting must be 'separate' or 'together'; got {fitting!r}")
    parts = {"a": is_a, "b": ~is_a}
    if fitting == "together":
        parts = {"all": np.ones(len(tasks), dtype=bool)}
    learners = []
    for name, part in parts.items():
        each = type(learner)(**learner.get_params())
        if random_state is not None:
            each.set_params(random_state=random_state)
        with quietly() if quiet else nullcontext():
            learners.append(each.fit(tasks[part], **_extras(each, name, checkpoints, progress)))
    if fitting == "separate":
        graphs = [each.graphs_ for each in learners]
    else:
        graphs = [learners[0].graphs_[is_a], learners[0].graphs_[~is_a]]
    _, order = canonical_order(tasks)
    return GroupGraphs(*align(*graphs, order), tuple(learners))


def _extras(learner: Estimator, group: str, checkpoints: Path | None, progress) -> dict:
    """Keyword arguments of `fit` for progress and interruptions."""
    extras = {}
    if progress is not None:
        extras["progress"] = lambda what, done, total: progress(
            f"group {group}: {what}", done, total
        )
    if checkpoints is not None and isinstance(learner, MTGBN):
        extras["checkpoint"] = checkpoints / f"group-{group}.npz"
    return extras
