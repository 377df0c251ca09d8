"""One subject against a group of controls: in which connections it departs, and what controls would do.

The controls are fitted. Given their networks, the strength of every connection can be measured in the
subject and in every control (`mtgbn.compare.strengths`; docs/model.md, section 18). Then every control
is compared with the other controls in the same way: the distribution of their departures gives p-values
and false discovery rates of the subject's departures.

Effects of covariates, such as age and motion, are estimated in the controls: the subject is compared
with what is expected of a control with the same covariates.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import mtgbn
from mtgbn._utils.seeds import entropy_text, seed_sequence
from mtgbn._utils.stores import Store, estimator_settings
from mtgbn.compare.fitting import Progress, RandomState, without_convergence_warnings
from mtgbn.compare.strengths import DEFAULT_MEASURE, measure_named
from mtgbn.errors import InputError
from mtgbn.learn import MTGBN
from mtgbn.learn.new_task import LearnedTask
from mtgbn.tasks import Tasks

_FEWEST_CONTROLS = 4

# With covariates: degrees of freedom that are left when a control is compared with the others.
_FEWEST_DEGREES = 2

# Scores that differ by rounding errors only count as equal.
_SCORE_TOLERANCE = 1e-12


class Departures(NamedTuple):
    """How one subject departs from controls in every pair of variables, the largest departure first.

    Attributes
    ----------
    subject : LearnedTask
        The subject's task, learned with the controls' sigma_h, nu0 and edge prior.
    source, target : array of int
        Positions of the variables, source < target; directions are not compared.
    probability, control_probability : array
        Posterior probability that the subject has the connection, from its data as a single task, and
        the mean of the same probability over the controls.
    control_count : array of int
        Those of the ``n_controls`` controls who have the connection in the joint fit of all controls.
    strength, control_strength : array
        Strength in the subject, and its mean over the controls (for partial correlations taken as
        Fisher's z), or what is expected of a control with the subject's covariates; ``measure`` is a
        key of `mtgbn.compare.strengths.MEASURES`.
    score, control_scores : array
        Difference between the two strengths in units of its standard deviation among controls, positive
        where the subject's is stronger; and the scores of each control against the other controls.
    pvalue : array
        Share of all pairs of all controls whose absolute score is at least as large, the subject's pair
        included; valid on average over pairs, too small for pairs that vary most among controls.
    expected_alarms : array
        Mean number of pairs in which a control has a score as large against the others, with the subject
        counted as a control: at least 1 / (n_controls + 1).
    fdr : array
        Estimated share of false discoveries among the pairs up to this one, if the subject is like a
        control in all other pairs: expected alarms divided by the pairs listed so far, made monotone.
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
    measure: str = DEFAULT_MEASURE

    def alarm_rate(self, level: float = 0.05) -> float:
        """Share of the pairs whose p-value, of a control against the others, is below a level."""
        return float(self.alarm_rates(level).mean())

    def alarm_rates(self, level: float = 0.05) -> np.ndarray:
        """As `alarm_rate`, one rate per control."""
        sizes = np.abs(self.control_scores)
        pvalues = [_exceedances(np.delete(sizes, c, axis=0), own)[1] for c, own in enumerate(sizes)]
        return np.mean(np.array(pvalues) < level, axis=1)


def compare_subject(
    controls: Tasks,
    subject: Tasks,
    estimator: MTGBN | None = None,
    *,
    design: np.ndarray | None = None,
    measure: str = DEFAULT_MEASURE,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
) -> Departures:
    """Find the connections in which one subject departs from at least four controls.

    ``design`` (controls + 1, k) has the columns of the covariates, the intercept among them, and the
    subject in the last row; without it there are no covariates. ``store`` is a file that keeps the
    finished controls. All else is as for `compare_one`.
    """
    n = len(controls)
    design = np.ones((n + 1, 1)) if design is None else np.asarray(design, dtype=float)
    check_controls(n, design.shape[1])
    if len(subject) == 1 and subject.names[0] in controls.names:
        raise InputError(f"{subject.names[0]!r} is among the controls; leave it out there")
    measure_named(measure)
    estimator = MTGBN() if estimator is None else estimator
    root = seed_sequence(random_state)
    seeds = root.spawn(n + 1)
    everybody = range(n)
    settings = {
        **estimator_settings(estimator),
        "seed": entropy_text(root),
        "measure": measure,
        "mtgbn": mtgbn.__version__,
    }
    if design.shape[1] > 1:
        settings["covariates"] = hashlib.sha256(design[:n].tobytes()).hexdigest()
    known = Store(store, "controls", controls.fingerprint(settings))
    # The subject comes last and is not in the store, which can thus serve every subject.
    rows = {k: design[[*(c for c in everybody if c != k), k]] for k in everybody}
    jobs = [
        (k, controls[[c for c in everybody if c != k]], controls[k], estimator, seeds[k], rows[k])
        for k in everybody
        if k not in known.values
    ]
    jobs.append((n, controls, subject, estimator, seeds[n], design))
    done = n + 1 - len(jobs)
    for k, each in Parallel(n_jobs, return_as="generator_unordered")(
        delayed(_numbered)(*job, learn_subject=job[0] == n, measure=measure) for job in jobs
    ):
        if k < n:
            known.add(k, np.array([each.score, each.probability]))
        else:
            own = each
        done += 1
        if progress is not None:
            progress("fits", done, n + 1)
    scores, probabilities = np.stack([known.values[k] for k in everybody], axis=1)
    return departures_of(own, scores, probabilities, measure)


def check_controls(n: int, n_columns: int = 1) -> None:
    """Refuse fewer controls than a comparison needs, with a design of ``n_columns`` columns."""
    if n < _FEWEST_CONTROLS:
        raise InputError(f"{n} controls are too few; at least {_FEWEST_CONTROLS} are needed")
    fewest = n_columns + 1 + _FEWEST_DEGREES
    if n_columns > 1 and n < fewest:
        raise InputError(
            f"{n} controls are too few for a design with {n_columns} columns; at least {fewest} are "
            "needed. Leave out covariates"
        )


def _numbered(k: int, *arguments: Any, **options: Any) -> tuple[int, "Outcome"]:
    return k, compare_with_group(*arguments, **options)


class Outcome(NamedTuple):
    """One subject against one group, pair by pair; strengths are on the scale of comparison."""

    score: np.ndarray
    probability: np.ndarray
    strength: np.ndarray
    group_strength: np.ndarray
    group_count: np.ndarray
    subject: LearnedTask | None  # None for a control, whose own network is not needed


def compare_with_group(
    group: Tasks,
    subject: Tasks,
    estimator: MTGBN,
    seed: np.random.SeedSequence,
    design: np.ndarray | None = None,
    *,
    learn_subject: bool,
    measure: str = DEFAULT_MEASURE,
) -> Outcome:
    """Fit the group, and score how the subject departs from it.

    ``design`` (group + 1, k) is as for `compare_subject`. ``learn_subject``: also learn the subject's
    network with the group's sigma_h and edge prior.
    """
    fitted = MTGBN(**estimator.get_params()).set_params(n_jobs=1, random_state=seed)
    with without_convergence_warnings():
        fitted.fit(group)
    single = fitted.fit_task(subject, single=True)
    pairs = np.triu_indices(group.n_variables, 1)
    subject = subject.select_variables(group.variables)
    scatters = np.concatenate([group.scatters, subject.scatters])
    used = measure_named(measure)
    strengths = used.of_pairs(scatters, fitted.graphs_)[:, *pairs]
    variances = used.variance(np.array([*group.ns, *subject.ns]), fitted.graphs_)
    *noises, noise = [each[pairs] for each in variances]
    counts = fitted.graphs_.sum(axis=0)
    expected = expect_strengths(strengths[:-1], design)
    return Outcome(
        score_departures(strengths[-1], expected, noise, np.mean(noises, axis=0)),
        single.adjacency_probabilities[pairs],
        strengths[-1],
        expected.mean,
        (counts + counts.T)[pairs],
        fitted.fit_task(subject) if learn_subject else None,
    )


def departures_of(
    own: Outcome,
    control_scores: np.ndarray,
    control_probabilities: np.ndarray,
    measure: str = DEFAULT_MEASURE,
) -> Departures:
    """Put the subject's departures in order, with p-values from the controls' departures.

    ``control_scores`` and ``control_probabilities`` are (controls, pairs).
    """
    assert own.subject is not None  # only the subject's outcome comes here
    n, p = len(control_scores), own.subject.graph.shape[0]
    first, second = np.triu_indices(p, 1)
    order = np.argsort(-np.abs(own.score), kind="stable")
    at_least, pvalues = _exceedances(np.abs(control_scores), np.abs(own.score[order]))
    expected = (1 + at_least) / (1 + n)
    fdr = np.minimum(expected / np.arange(1, len(order) + 1), 1.0)
    to_display = measure_named(measure).to_display
    return Departures(
        subject=own.subject,
        source=first[order],
        target=second[order],
        probability=own.probability[order],
        control_probability=control_probabilities.mean(axis=0)[order],
        control_count=own.group_count[order],
        n_controls=n,
        strength=to_display(own.strength[order]),
        control_strength=to_display(own.group_strength[order]),
        score=own.score[order],
        pvalue=pvalues,
        expected_alarms=expected,
        fdr=np.minimum.accumulate(fdr[::-1])[::-1],
        control_scores=control_scores[:, order],
        measure=measure,
    )


def _exceedances(others: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the others that are at least as large, and their share with oneself counted too."""
    pooled = np.sort(others, axis=None)
    at_least = pooled.size - np.searchsorted(pooled, sizes - _SCORE_TOLERANCE)
    return at_least, (1 + at_least) / (1 + pooled.size)


class Expected(NamedTuple):
    """What is expected of one more member of a group: mean and variance of its strengths, (pairs,).

    ``widening`` is by how much unusual covariates increase the variance: 1 if there are none.
    """

    mean: np.ndarray
    variance: np.ndarray
    widening: float


def expect_strengths(strengths: np.ndarray, design: np.ndarray | None = None) -> Expected:
    """Expect the strengths of the last row of the design, given those of all rows before it.

    ``strengths`` is (members, pairs), ``design`` (members + 1, k) with an intercept; without it there
    are no covariates.
    """
    design = np.ones((len(strengths) + 1, 1)) if design is None else design
    n, k = len(strengths), design.shape[1]
    basis, triangle = np.linalg.qr(design[:-1])
    own = np.linalg.solve(triangle.T, design[-1])  # the subject's row in terms of the basis
    of_basis = basis.T @ strengths
    residuals = strengths - basis @ of_basis
    return Expected(
        mean=own @ of_basis,
        variance=(residuals**2).sum(axis=0) / (n - k),
        widening=float((1 + own @ own) / (1 + 1 / n)),
    )


def score_departures(
    own: np.ndarray, expected: Expected, noise: np.ndarray | float, others_noise: np.ndarray | float
) -> np.ndarray:
    """Differences from the mean in standard deviations, which are shrunken towards their average.

    ``noise`` is the sampling variance of the subject's strengths, ``others_noise`` the mean sampling
    variance of the others: a subject with fewer samples may depart further.
    """
    mean, variance = expected.mean, expected.variance
    between = np.maximum((variance + variance.mean()) / 2 - others_noise, 0.0)
    size = np.abs(own - mean) / np.sqrt(between * expected.widening + noise)
    return np.where(np.abs(own) >= np.abs(mean), size, -size)
