"""One subject against a group: the connections in which it departs, and how often a control would.

The group is fitted, the subject is learned with what the group taught. Every control is then treated as
the subject was, with the other controls as its group; how far controls depart from each other says what
a departure is worth.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mtgbn.compare.fitting import quietly
from mtgbn.compare.known import Known, identity_of
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN, LearnedTask
from mtgbn.model.arguments import entropy_text, seed_sequence
from mtgbn.tasks import Tasks

__all__ = ["Departures", "compare_subject"]

_FEWEST_CONTROLS = 4


class Departures(NamedTuple):
    """Every pair of variables, in rows, the largest departure first.

    Attributes
    ----------
    subject : LearnedTask
    source, target : array of int
        Positions of the variables, source < target; directions are not compared.
    probability : array
        That the subject has the connection.
    control_probability : array
        Mean over the controls, each learned with the others.
    control_count : array of int
        Controls in whom it is more probable than not.
    n_controls : int
    score : array
        Difference between the two probabilities, in units of its spread among controls; positive where
        the subject has more. Connections that vary among controls weigh less.
    pvalue : array
        Share of all controls and pairs with a score at least as large, either way.
    expected_alarms : array
        Pairs with a score as large that one control has against the others, on average.
    fdr : array
        Share of false discoveries among the pairs up to this one, if the subject were like a control
        elsewhere: expected alarms over pairs listed so far, made monotone.
    control_scores : array (controls, pairs)
        Of the controls against each other, in the order of the rows.
    """

    subject: LearnedTask
    source: np.ndarray
    target: np.ndarray
    probability: np.ndarray
    control_probability: np.ndarray
    control_count: np.ndarray
    n_controls: int
    score: np.ndarray
    pvalue: np.ndarray
    expected_alarms: np.ndarray
    fdr: np.ndarray
    control_scores: np.ndarray

    def alarm_rate(self, level: float = 0.05) -> float:
        """Share of the pairs in which a control's p-value among the other controls is below a level."""
        return float(self.alarm_rates(level).mean())

    def alarm_rates(self, level: float = 0.05) -> np.ndarray:
        """As `alarm_rate`, of every control."""
        others = np.abs(self.control_scores)
        pvalues = [
            [(np.delete(others, c, axis=0) >= value).mean() for value in others[c]]
            for c in range(len(others))
        ]
        return np.mean(np.array(pvalues) < level, axis=1)


def compare_subject(
    controls: Tasks,
    subject: Tasks,
    learner: MTGBN | None = None,
    *,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Departures:
    """Find the connections in which a subject departs from controls.

    Parameters
    ----------
    controls : Tasks
        At least four.
    subject : Tasks of one task
        Read in the same way as the controls.
    learner : MTGBN, optional
        Its settings are used.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.
    n_jobs : int, optional
        Processes; the group is fitted once for every control, without it.
    store : path, optional
        A file that has all controls done so far; if it exists, only the others are done.
    progress : callable, optional
        Called with the number of fits done and to do.
    """
    n = len(controls)
    if n < _FEWEST_CONTROLS:
        raise InputError(f"{n} controls are too few; at least {_FEWEST_CONTROLS} are needed")
    if len(subject) == 1 and subject.names[0] in controls.names:
        raise InputError(f"{subject.names[0]!r} is among the controls; leave it out there")
    learner = MTGBN() if learner is None else learner
    root = seed_sequence(random_state)
    seeds = root.spawn(n + 1)
    everybody = range(n)
    extras = {"seed": entropy_text(root)}
    known = Known(store, "controls", identity_of(controls, learner, extras))
    # The subject comes last, and is not kept: so the controls' file serves every subject.
    jobs = [
        (k, controls[[c for c in everybody if c != k]], controls[k], learner, seeds[k])
        for k in everybody
        if k not in known.values
    ]
    jobs.append((n, controls, subject, learner, seeds[n]))
    done = n + 1 - len(jobs)
    for k, each in Parallel(n_jobs, return_as="generator_unordered")(
        delayed(_learn)(*job) for job in jobs
    ):
        if k < n:
            known.add(k, each.adjacency_probabilities)
        else:
            learned = each
        done += 1
        if progress is not None:
            progress(done, n + 1)
    pairs = np.triu_indices(controls.n_variables, 1)
    own = learned.adjacency_probabilities[pairs]
    others = np.array([known.values[k][pairs] for k in everybody])
    score = _scores(own, others)
    control_scores = np.array([_scores(others[c], np.delete(others, c, axis=0)) for c in everybody])
    order = np.argsort(-np.abs(score), kind="stable")
    sizes = np.abs(score[order])
    pooled = np.sort(np.abs(control_scores), axis=None)
    at_least = pooled.size - np.searchsorted(pooled, sizes - 1e-12)
    expected = at_least / n
    fdr = np.minimum(expected / np.arange(1, len(sizes) + 1), 1.0)
    return Departures(
        learned,
        pairs[0][order],
        pairs[1][order],
        own[order],
        others.mean(axis=0)[order],
        (others > 0.5).sum(axis=0)[order],
        n,
        score[order],
        (1 + at_least) / (1 + pooled.size),
        expected,
        np.minimum.accumulate(fdr[::-1])[::-1],
        control_scores[:, order],
    )


def _learn(k: int, group: Tasks, subject: Tasks, learner: MTGBN, seed) -> tuple[int, LearnedTask]:
    each = MTGBN(**learner.get_params()).set_params(n_jobs=1, random_state=seed)
    with quietly():
        each.fit(group)
    return k, each.fit_task(subject, share_edges=False)


def _scores(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Differences from the mean, in standard deviations that are drawn towards a common one."""
    variance = others.var(axis=0, ddof=1)
    return (own - others.mean(axis=0)) / np.sqrt((variance + variance.mean()) / 2 + 1e-6)
