"""Cleaning of regional series: drifts, band, confounds and bad volumes (see docs/decisions.md)."""

import math

import numpy as np
from scipy.interpolate import CubicSpline

from mtgbn._utils.optional import require
from mtgbn.errors import InputError


def clean(
    series: np.ndarray,
    confounds: np.ndarray,
    kept: np.ndarray,
    *,
    tr: float,
    band: tuple[float, float],
    standardise: bool,
) -> np.ndarray:
    """Clean the series of one run with nilearn, in the order of Lindquist et al. (2018).

    Volumes that are not kept are interpolated with cubic splines (at the ends: cut off). Series and
    confounds are detrended and band-passed alike. Then the interpolated volumes are left out, and the
    confounds are regressed out of the others. Series and confounds have one row per volume; the band is
    in Hz, 0 and infinity stand for no limit; ``standardise`` ends with mean 0 and variance 1.
    """
    signal = require("nilearn.signal", "fmri", "scans")
    places = np.flatnonzero(kept)
    ends = slice(places[0], places[-1] + 1)
    both = np.column_stack([series, confounds]).astype(np.float64)[ends]
    stays = kept[ends]
    if not stays.all():
        # nilearn's interpolation overlooks a volume if the volume at the same distance from the other
        # end is left out too.
        times = np.arange(len(both))
        both[~stays] = CubicSpline(times[stays], both[stays])(times[~stays])
    low, high = (band[0] or None), (band[1] if math.isfinite(band[1]) else None)
    both = signal.clean(
        both,
        detrend=True,
        standardize=None,
        filter="butterworth" if low or high else False,
        low_pass=high,
        high_pass=low,
        t_r=tr,
    )[stays]
    p = series.shape[1]
    return signal.clean(
        both[:, :p],
        detrend=False,
        standardize="zscore_sample" if standardise else None,
        filter=False,
        confounds=both[:, p:] if confounds.shape[1] else None,
        t_r=tr,
    )


def degrees_of_freedom(
    n_volumes: int, n_confounds: int, tr: float, band: tuple[float, float]
) -> float:
    """Estimate the degrees of freedom of a series after cleaning; fewer than one is an error."""
    nyquist = 0.5 / tr
    share = (min(band[1], nyquist) - band[0]) / nyquist
    # Without a band, the mean and the linear trend take two; otherwise they lie below the band.
    in_band = n_volumes * share - (2 if share == 1 else 0)
    if in_band - n_confounds < 1:
        raise InputError(
            f"{n_volumes} volumes have about {max(in_band, 0):.0f} degrees of freedom in the band, "
            f"and there are {n_confounds} confounds; use fewer confounds, a wider band, or scrub less"
        )
    return in_band - n_confounds


def worth_of_noise(
    confounds: np.ndarray, kept: np.ndarray, *, tr: float, band: tuple[float, float]
) -> float:
    """Return the number of independent samples that cleaned white noise is worth (docs/model.md, 16).

    Cleaning is linear, so the cleaned impulses give the covariance of cleaned white noise. Filters and
    confounds leave fewer independent samples than the autocorrelations of cleaned series suggest.
    """
    impulses = np.eye(len(kept))
    cleaned = clean(impulses, confounds, kept, tr=tr, band=band, standardise=False)
    covariance = cleaned @ cleaned.T
    return float(np.trace(covariance) ** 2 / np.sum(covariance**2))
