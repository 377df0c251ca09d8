"""Simulated BOLD series of subjects as tasks, cleaned with the defaults of `mtgbn extract`."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from mtgbn import Tasks
from mtgbn.fmri.cleaning import clean, worth_of_noise
from mtgbn.simulate import simulate_bold_groups
from mtgbn.simulate.bold import BoldSimulation
from mtgbn.tasks import effective_samples

# Band in Hz; the default of `mtgbn extract`.
BAND = (0.01, 0.08)


class Study(NamedTuple):
    """Simulated series of two groups; controls come first."""

    simulation: BoldSimulation
    series: list[np.ndarray]
    tasks: Tasks
    is_patient: np.ndarray
    is_altered: np.ndarray
    """Whether a pair was altered, (p, p), symmetric."""


def simulate_study(n_controls: int, n_patients: int, seed: int, **options) -> Study:
    """Cleaned series of both groups, with the effective samples that `mtgbn extract` would give."""
    simulation = simulate_bold_groups(n_controls, n_patients, random_state=seed, **options)
    series = [cleaned(each, simulation.repetition_time) for each in simulation.series]
    is_altered = np.zeros((len(simulation.regions),) * 2, dtype=bool)
    for each in simulation.altered:
        is_altered[each.source, each.target] = is_altered[each.target, each.source] = True
    most = worth_of_noise(*_no_confounds(len(series[0])), tr=simulation.repetition_time, band=BAND)
    tasks = Tasks.from_arrays(
        series,
        simulation.regions,
        names=simulation.subjects,
        standardise=True,
        effective_samples=[min(effective_samples(each), most) for each in series],
    )
    return Study(simulation, series, tasks, simulation.groups == "patient", is_altered)


def cleaned(
    series: np.ndarray, repetition_time: float, band: tuple[float, float] = BAND
) -> np.ndarray:
    """Detrended, filtered and standardised series; there are no confounds to regress out."""
    return clean(
        series,
        *_no_confounds(len(series)),
        tr=repetition_time,
        band=band,
        standardise=True,
    )


def _no_confounds(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Confounds of all volumes (none), and which volumes are kept (all)."""
    return np.zeros((rows, 0)), np.ones(rows, dtype=bool)


def high_passed(series: np.ndarray, repetition_time: float) -> np.ndarray:
    """Series without drifts but with high frequencies, for methods that use the order in time."""
    return cleaned(series, repetition_time, (BAND[0], np.inf))


def area_under_curve(values: np.ndarray, is_positive: np.ndarray) -> float:
    """Area under the ROC curve: how often a positive value exceeds a negative one."""
    ranks = rankdata(values)[is_positive]
    n_negative = np.sum(~is_positive)
    return float((ranks.mean() - (len(ranks) + 1) / 2) / n_negative)


def partial_correlations(scatters: np.ndarray) -> np.ndarray:
    """Partial correlations of all pairs given all other variables, as Fisher's z; diagonal 0."""
    precisions = np.linalg.inv(scatters)
    spread = np.sqrt(np.einsum("sii->si", precisions))
    correlations = -precisions / (spread[:, :, None] * spread[:, None])
    np.einsum("sii->si", correlations)[:] = 0.0
    return np.arctanh(correlations)


def mean_and_error(values) -> str:
    """Mean with its standard error."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.3f} ± {error:.3f}"
