"""One subject against a group: the connections in which it departs, and how often a control would.

The group is fitted; its networks say what every connection is conditional on, and how strong each is
then in the subject and in the group can be compared (docs/model.md, section 18). Every control is
treated as the subject was, with the other controls as its group; how far controls depart from each other
says what a departure is worth.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mtgbn._utils.seeds import entropy_text, seed_sequence
from mtgbn._utils.stores import Store, estimator_settings
from mtgbn.compare.fitting import quietly
from mtgbn.compare.strengths import (
    connection_strengths,
    mean_conditions,
    sampling_variance,
)
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN, LearnedTask
from mtgbn.tasks import Tasks

__all__ = [
    "Departures",
    "Outcome",
    "check_controls",
    "compare_subject",
    "compare_with_group",
    "departures_of",
    "score_departures",
]

_FEWEST_CONTROLS = 4


class Departures(NamedTuple):
    """Every pair of variables, in rows, the largest departure first.

    Attributes
    ----------
    subject : LearnedTask
        Learned with what the controls taught.
    source, target : array of int
        Positions of the variables, source < target; directions are not compared.
    probability : array
        That the subject has the connection, by its own data alone.
    control_probability : array
        The same of the controls, mean.
    control_count : array of int
        Controls who have it in the networks that were learned of all controls together.
    n_controls : int
    strength, control_strength : array
        Partial correlation given the parents in the controls' networks: of the subject, and mean over
        the controls (through Fisher's z).
    score : array
        Difference between the two, as Fisher's z, in units of its spread among controls; positive where
        the connection is stronger in the subject. Connections that vary among controls weigh less.
    pvalue : array
        Share of all controls and pairs with a score at least as large, either way, the subject's own
        counted in. It holds for pairs on average; those that vary most among controls have smaller ones.
    expected_alarms : array
        Pairs with a score as large that one control has against the others, on average, the subject's
        own counted in: nothing rarer than one in so many people can be known.
    fdr : array
        Share of false discoveries among the pairs up to this one, if the subject were like a control
        elsewhere: expected alarms over pairs listed so far, made monotone. At least one over one more
        than the number of controls, divided by the pairs listed.
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
    strength: np.ndarray
    control_strength: np.ndarray
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
        sizes = np.abs(self.control_scores)
        pvalues = [_exceedances(np.delete(sizes, c, axis=0), own)[1] for c, own in enumerate(sizes)]
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
    check_controls(n)
    if len(subject) == 1 and subject.names[0] in controls.names:
        raise InputError(f"{subject.names[0]!r} is among the controls; leave it out there")
    learner = MTGBN() if learner is None else learner
    root = seed_sequence(random_state)
    seeds = root.spawn(n + 1)
    everybody = range(n)
    settings = {**estimator_settings(learner), "seed": entropy_text(root)}
    known = Store(store, "controls", controls.fingerprint(settings))
    # The subject comes last, and is not kept: so the controls' file serves every subject.
    jobs = [
        (k, controls[[c for c in everybody if c != k]], controls[k], learner, seeds[k])
        for k in everybody
        if k not in known.values
    ]
    jobs.append((n, controls, subject, learner, seeds[n]))
    done = n + 1 - len(jobs)
    for k, each in Parallel(n_jobs, return_as="generator_unordered")(
        delayed(_numbered)(*job, is_asked_for=job[0] == n) for job in jobs
    ):
        if k < n:
            known.add(k, np.array([each.score, each.probability]))
        else:
            own = each
        done += 1
        if progress is not None:
            progress(done, n + 1)
    return departures_of(own, *np.stack([known.values[k] for k in everybody], axis=1))


def check_controls(n: int) -> None:
    """Refuse a group that cannot say what is usual."""
    if n < _FEWEST_CONTROLS:
        raise InputError(f"{n} controls are too few; at least {_FEWEST_CONTROLS} are needed")


def _numbered(k: int, *arguments, is_asked_for: bool) -> tuple[int, "Outcome"]:
    return k, compare_with_group(*arguments, is_asked_for)


class Outcome(NamedTuple):
    """One subject against one group, pair by pair; strengths are Fisher's z.

    ``subject`` is None for a control, of whom nobody asks.
    """

    score: np.ndarray
    probability: np.ndarray
    strength: np.ndarray
    group_strength: np.ndarray
    group_count: np.ndarray
    subject: LearnedTask | None


def compare_with_group(
    group: Tasks, subject: Tasks, learner: MTGBN, seed: np.random.SeedSequence, is_asked_for: bool
) -> Outcome:
    """Fit the group, and see how the subject departs from it."""
    fitted = MTGBN(**learner.get_params()).set_params(n_jobs=1, random_state=seed)
    with quietly():
        fitted.fit(group)
    alone = fitted.fit_task(subject, alone=True)
    pairs = np.triu_indices(group.n_variables, 1)
    subject = subject.select_variables(group.variables)
    scatters = np.concatenate([group.scatters, subject.scatters])
    strengths = connection_strengths(scatters, fitted.graphs_)[:, *pairs]
    n_given = mean_conditions(fitted.graphs_)[pairs]
    *noises, noise = [sampling_variance(n, n_given) for n in (*group.ns, *subject.ns)]
    counts = fitted.graphs_.sum(axis=0)
    return Outcome(
        score_departures(strengths[-1], strengths[:-1], noise, np.mean(noises, axis=0)),
        alone.adjacency_probabilities[pairs],
        strengths[-1],
        strengths[:-1].mean(axis=0),
        (counts + counts.T)[pairs],
        fitted.fit_task(subject) if is_asked_for else None,
    )


def departures_of(
    own: Outcome, control_scores: np.ndarray, control_probabilities: np.ndarray
) -> Departures:
    """What one subject against the controls means, given every control against the others.

    ``control_scores`` and ``control_probabilities`` are (controls, pairs).
    """
    n, p = len(control_scores), own.subject.graph.shape[0]
    first, second = np.triu_indices(p, 1)
    order = np.argsort(-np.abs(own.score), kind="stable")
    at_least, pvalues = _exceedances(np.abs(control_scores), np.abs(own.score[order]))
    expected = (1 + at_least) / (1 + n)
    fdr = np.minimum(expected / np.arange(1, len(order) + 1), 1.0)
    return Departures(
        own.subject,
        first[order],
        second[order],
        own.probability[order],
        control_probabilities.mean(axis=0)[order],
        own.group_count[order],
        n,
        np.tanh(own.strength[order]),
        np.tanh(own.group_strength[order]),
        own.score[order],
        pvalues,
        expected,
        np.minimum.accumulate(fdr[::-1])[::-1],
        control_scores[:, order],
    )


def _exceedances(others: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of the others are at least as large, and their share with oneself counted in."""
    pooled = np.sort(others, axis=None)
    at_least = pooled.size - np.searchsorted(pooled, sizes - 1e-12)
    return at_least, (1 + at_least) / (1 + pooled.size)


def score_departures(
    own: np.ndarray,
    others: np.ndarray,
    noise: np.ndarray | float,
    others_noise: np.ndarray | float,
) -> np.ndarray:
    """Differences from the mean in standard deviations, which are drawn towards a common one.

    ``noise`` is the variance that a finite number of samples gives to the subject's Fisher's z,
    ``others_noise`` its mean over the others: a subject with fewer samples may depart further.
    """
    mean, variance = others.mean(axis=0), others.var(axis=0, ddof=1)
    between = (variance + variance.mean()) / 2 - others_noise
    size = np.abs(own - mean) / np.sqrt(np.maximum(between, 0.0) + noise)
    return np.where(np.abs(own) >= np.abs(mean), size, -size)
