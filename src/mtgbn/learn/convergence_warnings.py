"""Warnings about a fit: unsuitable data, no convergence, or chains that disagree."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.tasks.data_warnings import time_series, unequal_scales

# Above this R-hat even a mean over the draws of sigma_h is in doubt.
_MAX_RHAT = 1.2

# At least this share of the adjacencies should have an R-hat of at most this.
_MIN_SHARE, _MAX_EDGE_RHAT = 0.9, 1.05


def convergence_warnings(fitted: Any, disputed: Sequence[str] = ()) -> tuple[str, ...]:
    """Sentences about a fitted estimator; chains disagree about the membership of ``disputed``."""
    found = [*time_series(fitted.tasks_), *unequal_scales(fitted.tasks_)]
    if not fitted.converged_ and not fitted.history_:
        found.append(f"the posterior was not explored to the end: {fitted.stop_reason_}")
    elif not fitted.converged_:
        last = fitted.history_[-1]
        advice = ". Raise max_iter" if fitted.n_iter_ >= fitted.max_iter else ""
        found.append(
            f"EM did not converge: {fitted.stop_reason_}; in iteration {fitted.n_iter_}, "
            f"{last.n_changed} of {len(fitted.graphs_)} graphs changed, with a gain in Q of "
            f"{last.gain:.3g} (Monte Carlo error {last.gain_error:.2g}){advice}"
        )
    is_posterior = getattr(fitted, "inference", None) == "posterior"
    if disputed:
        found.append(
            "the chains disagree about the membership of some tasks: "
            f"{listed(disputed)}. Do not rely on their graphs before another random_state"
            + (" or a larger n_rounds" if is_posterior else "")
            + " confirms them"
        )
    # The draws of a map estimate are few; R-hat is large by chance, and graphs depend little on it.
    is_map = getattr(fitted, "inference", None) == "map"
    rhat = fitted.diagnostics_["rhat"]
    if not is_map and not rhat <= _MAX_RHAT:
        found.append(
            f"R-hat of the draws of sigma_h reaches {rhat:.2f}, above {_MAX_RHAT}: the chains "
            f"disagree. Raise {'n_rounds' if is_posterior else 'n_draws'}"
        )
    if is_posterior:
        rhats = fitted.edge_diagnostics_.rhat
        good = rhats[~np.isnan(rhats)] <= _MAX_EDGE_RHAT
        share = np.mean(good) if np.isfinite(rhats).any() else 0.0
        if share < _MIN_SHARE:
            found.append(
                f"only {share:.0%} of the adjacencies have an R-hat of at most {_MAX_EDGE_RHAT}: "
                "the chains disagree about the others. Raise n_rounds"
            )
    if n_divergent := fitted.diagnostics_["n_divergent"]:
        what = "trajectory" if n_divergent == 1 else "trajectories"
        found.append(
            f"{n_divergent} {what} of sigma_h diverged; what depends on sigma_h may be biased"
        )
    return tuple(found)
