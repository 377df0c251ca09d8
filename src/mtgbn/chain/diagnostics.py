"""R-hat and effective sample sizes of many quantities at once, and smoothed importance weights.

The numbers are those of arviz-stats, which handles one quantity at a time and takes longer to load than
a fit (docs/decisions.md).

The argument ``values`` is always an array (quantities, chains, draws) with at least four draws.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC.
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling.
Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
distribution.
"""

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

# Quantiles for which the tail effective sample size is computed.
_TAILS = (0.05, 0.95)

# Quantities with a smaller range count as constant.
_RESOLUTION = 1e-15

# A distribution can be fitted to at least this number of weights.
_SHORTEST_TAIL = 5

# Prior of the Pareto shape: its mean, and its weight as a number of draws.
_PRIOR_SHAPE, _PRIOR_WEIGHT = 0.5, 10


def rhat(values: np.ndarray) -> np.ndarray:
    """The larger R-hat of rank-normalised half chains and of their distances from the median.

    NaN for a single chain.
    """
    if values.shape[1] < 2:
        return np.full(len(values), np.nan)
    halves = _halves(values)
    distances = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    bulk, tail = (_plain_rhat(_normal_scores(each)) for each in (halves, distances))
    return np.where(
        tail > bulk, tail, bulk
    )  # not np.maximum: the tail of chains that never move is NaN


def ess_bulk(values: np.ndarray) -> np.ndarray:
    """Effective sample size for the centre of a distribution."""
    return _ess(_normal_scores(_halves(values)))


def ess_tail(values: np.ndarray) -> np.ndarray:
    """The smaller effective sample size of the 5 % and the 95 % quantile."""
    quantiles = np.quantile(values, _TAILS, axis=(1, 2), keepdims=True)
    ess = np.minimum(*(_ess(_halves((values <= each).astype(float))) for each in quantiles))
    return np.where(np.isnan(values).any(axis=(1, 2)), np.nan, ess)


def ess_mean(values: np.ndarray) -> np.ndarray:
    """Effective sample size for the mean."""
    return _ess(_halves(values))


def monte_carlo_error(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean."""
    return values.std(axis=(1, 2), ddof=1) / np.sqrt(ess_mean(values))


def smooth_weights(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Smooth importance weights: a Pareto distribution is fitted to the largest ones.

    The largest weights are replaced by quantiles of this distribution.

    Returns
    -------
    log_weights : array (n,)
        Smoothed, up to a constant; unchanged if there are too few to fit a distribution.
    shape : float
        Shape of the Pareto distribution; infinity if there is none.
    """
    n = len(log_weights)
    n_tail = int(3 * np.sqrt(n)) if n > 225 else n // 5
    smoothed = log_weights - log_weights.max()
    order = np.argsort(smoothed)
    tail = order[n - n_tail :]
    if n_tail < _SHORTEST_TAIL or np.ptp(smoothed[tail]) == 0:
        return log_weights, np.inf
    threshold = np.exp(smoothed[order[n - n_tail - 1]])
    with np.errstate(all="ignore"):  # draws that are repeated
        shape, scale = _fit_pareto(np.exp(smoothed[tail]) - threshold)
        quantiles = (np.arange(n_tail) + 0.5) / n_tail
        excesses = scale * np.expm1(-shape * np.log1p(-quantiles)) / shape
        smoothed[tail] = np.minimum(np.log(threshold + excesses), 0.0)
    if not (np.isfinite(shape) and scale > 0 and np.isfinite(smoothed).all()):
        return log_weights, np.inf
    return smoothed, float(shape)


def _fit_pareto(excesses: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution; ``excesses`` over a threshold are sorted.

    -shape/scale is a mean over a grid, weighted by the profile likelihood (Zhang and Stephens).
    """
    n = len(excesses)
    n_grid = 30 + int(np.sqrt(n))
    grid = 1 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))
    grid = grid / (3 * excesses[int(n / 4 + 0.5) - 1]) + 1 / excesses[-1]
    shapes = np.log1p(-grid[:, None] * excesses).mean(axis=1)
    profile = n * (np.log(-grid / shapes) - shapes - 1)
    weights = np.exp(profile - profile.max())
    ratio = grid @ weights / weights.sum()
    shape = np.log1p(-ratio * excesses).mean()
    scale = -shape / ratio
    return (n * shape + _PRIOR_WEIGHT * _PRIOR_SHAPE) / (n + _PRIOR_WEIGHT), scale


def _halves(values: np.ndarray) -> np.ndarray:
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all draws of a quantity; NaN if any draw is NaN."""
    flat = values.reshape(len(values), -1)
    ranks = np.empty(flat.shape)
    for row, ordered, places in zip(flat, np.sort(flat, axis=1), ranks, strict=True):
        # Ties get their mean rank. scipy.stats can do the same, but takes long to load.
        below, up_to = (np.searchsorted(ordered, row, side) for side in ("left", "right"))
        places[:] = (below + up_to + 1) / 2
    ranks[np.isnan(flat).any(axis=1)] = np.nan
    return ndtri((ranks - 3 / 8) / (flat.shape[1] + 1 / 4)).reshape(values.shape)


def _plain_rhat(values: np.ndarray) -> np.ndarray:
    length = values.shape[2]
    within = values.var(axis=2, ddof=1).mean(axis=1)
    between = values.mean(axis=2).var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
        return np.sqrt((length - 1) / length + between / within)


def _ess(values: np.ndarray) -> np.ndarray:
    """Number of draws over the autocorrelation time (Geyer's initial monotone sequence of pairs)."""
    n_quantities, n_chains, length = values.shape
    size = next_fast_len(2 * length)
    spectra = rfft(values - values.mean(axis=2, keepdims=True), size, axis=2)
    autocovariances = irfft(np.square(np.abs(spectra)).mean(axis=1), size, axis=1)[:, :length]
    autocovariances /= length
    within = autocovariances[:, :1] * length / (length - 1)
    total = autocovariances[:, :1].copy()
    if n_chains > 1:
        total += values.mean(axis=2).var(axis=1, ddof=1)[:, None]
    n_pairs = max((length - 1) // 2, 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
        correlations = 1 - (within - autocovariances[:, : 2 * n_pairs]) / total
    correlations[:, 0] = 1.0
    pairs = correlations[:, ::2] + correlations[:, 1::2]
    # The sum ends at the first pair that is not positive, or at the last pair. Of this pair only the
    # even lag is counted, once.
    is_end = ~(pairs > 0)
    is_end[:, -1] = True
    end = is_end.argmax(axis=1)
    rows = np.arange(n_quantities)
    even = correlations[rows, 2 * end]
    even = np.where((even > 0) | (pairs[rows, end] >= 0), even, 0.0)
    counted = np.arange(n_pairs) < end[:, None]
    sums = np.where(counted, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1)
    n_draws = n_chains * length
    ess = n_draws / np.maximum(2 * sums + even - 1, 1 / np.log10(n_draws))
    ess = np.where(np.isfinite(autocovariances[:, 0]), ess, np.nan)
    return np.where(np.ptp(values, axis=(1, 2)) < _RESOLUTION, n_draws, ess)
