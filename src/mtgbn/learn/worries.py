"""What a user should know before trusting a fit."""

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import unequal_scales

__all__ = ["worries_about"]

# Above this even a mean over the draws of sigma_h is in doubt.
_WORST_RHAT = 1.2

# An adjacency's R-hat should not exceed this, in all but a few.
_GOOD_RHAT, _MOST_GOOD = 1.05, 0.9


def worries_about(fitted, tasks: Tasks, disputed: tuple[str, ...]) -> tuple[str, ...]:
    """Sentences about a fitted `MTGBN`; ``disputed`` are tasks of which chains disagree."""
    worries = list(unequal_scales(tasks))
    if not fitted.converged_ and not fitted.history_:
        worries.append(f"the posterior was not explored to the end: {fitted.stop_reason_}")
    elif not fitted.converged_:
        last = fitted.history_[-1]
        advice = ". Raise max_iter" if fitted.n_iter_ >= fitted.max_iter else ""
        worries.append(
            f"EM did not converge: {fitted.stop_reason_}; in iteration {fitted.n_iter_}, "
            f"{last.n_changed} of {len(fitted.graphs_)} graphs changed, with a gain in Q of "
            f"{last.gain:.3g} (Monte Carlo error {last.gain_error:.2g}){advice}"
        )
    found = fitted.diagnostics_
    # So few draws have large R-hats by chance, and graphs depend little on them.
    is_map = fitted.structure_prior == "uniform" and fitted.inference == "map"
    if disputed:
        worries.append(
            "there are tasks of which the chains disagree on whether it belongs to the others: "
            f"{listed(disputed)}. Do not rely on their graphs before another random_state"
            + ("" if is_map else " or a larger n_rounds")
            + " confirms them"
        )
    if not is_map and not found["rhat"] <= _WORST_RHAT:
        setting = "n_rounds" if fitted.inference == "posterior" else "n_draws"
        worries.append(
            f"R-hat of the draws of sigma_h reaches {found['rhat']:.2f}, above {_WORST_RHAT}: the "
            f"chains disagree. Raise {setting}"
        )
    if hasattr(fitted, "edge_diagnostics_"):
        rhat = fitted.edge_diagnostics_.rhat
        share = np.mean(rhat[~np.isnan(rhat)] <= _GOOD_RHAT) if np.isfinite(rhat).any() else 0.0
        if share < _MOST_GOOD:
            worries.append(
                f"only {share:.0%} of the adjacencies have an R-hat of at most {_GOOD_RHAT}: the "
                "chains disagree on the others. Raise n_rounds"
            )
    if found["n_divergent"]:
        worries.append(
            f"trajectories of sigma_h that diverged: {found['n_divergent']}; what depends on it may "
            "be biased"
        )
    return tuple(worries)
