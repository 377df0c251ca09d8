"""Warnings about valid but suspicious data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtgbn._utils.names import listed

if TYPE_CHECKING:
    from mtgbn.tasks.collection import Tasks

# Tasks in the same units hardly ever have variances with a larger ratio.
_LARGEST_RATIO = 10.0
# Rows whose effective sample size is a smaller share of their number are probably a time series.
_SMALLEST_INDEPENDENT_SHARE = 0.7
# The absent variables of at most this many tasks are named.
_MOST_TASKS = 5


def unequal_scales(tasks: Tasks) -> list[str]:
    """Name the variable whose variance differs most between tasks, if it differs by much."""
    variances = np.einsum("tii->ti", tasks.scatters) / tasks.ns[:, None]
    ratios = variances.max(axis=0) / variances.min(axis=0)
    worst = int(np.argmax(ratios))
    if not ratios[worst] > _LARGEST_RATIO:
        return []
    large, small = variances[:, worst].argmax(), variances[:, worst].argmin()
    return [
        f"the variance of {tasks.variables[worst]!r} is {ratios[worst]:.3g} times as large in task "
        f"{tasks.names[large]!r} as in task {tasks.names[small]!r}; tasks in different units share no "
        "sigma_h. Standardise them (standardise=True, --standardise) unless their scales mean something"
    ]


def time_series(tasks: Tasks) -> list[str]:
    """Warn if rows that are taken as independent seem to be a time series."""
    known = tasks.independent_shares[~np.isnan(tasks.independent_shares)]
    if not len(known) or (share := float(np.median(known))) > _SMALLEST_INDEPENDENT_SHARE:
        return []
    return [
        f"rows are autocorrelated, as in a time series: they are worth {share:.0%} of their number in "
        "independent samples (median over tasks). Taken as independent they lead to false edges; give "
        "effective_samples='bartlett' (--effective-samples bartlett), or 'none' if they are no time "
        "series"
    ]


def missing_values(tasks: Tasks) -> list[str]:
    """Say how many values are missing, in which task most, and which task lacks which variable."""
    if not tasks.incomplete or tasks.n_rows is None:
        return []
    lacking = {tasks.names[i]: np.isnan(rows) for i, rows in tasks.incomplete.items()}
    missing = sum(int(absent.sum()) for absent in lacking.values())
    share = missing / (int(tasks.n_rows.sum()) * tasks.n_variables)
    worst = max(lacking, key=lambda name: lacking[name].mean())
    note = (
        f"{missing} values ({share:.2g} of all) are missing, in {len(lacking)} of {len(tasks)} "
        f"tasks; most in task {worst!r} ({lacking[worst].mean():.2g} of its values)"
    )
    without = {
        name: [tasks.variables[j] for j in np.flatnonzero(absent.all(axis=0))]
        for name, absent in lacking.items()
    }
    parts = [f"{name!r} lacks {listed(names)}" for name, names in without.items() if names]
    if parts:
        shown = "; ".join(parts[:_MOST_TASKS])
        rest = len(parts) - _MOST_TASKS
        note += f". Task {shown}" + (f"; and {rest} more tasks lack some" if rest > 0 else "")
    return [note]


def data_warnings(tasks: Tasks) -> list[str]:
    """Return all that a user may want to know about these data before a fit."""
    p, total = tasks.n_variables, tasks.ns.sum()
    notes = missing_values(tasks) + unequal_scales(tasks)
    few = [name for name, n in zip(tasks.names, tasks.ns, strict=True) if n < p]
    if few:
        notes.append(
            f"{len(few)} of {len(tasks)} tasks have fewer degrees of freedom than variables: "
            f"{listed(few)}"
        )
    same: dict[bytes, list[str]] = {}
    for name, scatter in zip(tasks.names, tasks.scatters, strict=True):
        same.setdefault(scatter.tobytes(), []).append(name)
    notes += [f"{listed(names)} hold the same data" for names in same.values() if len(names) > 1]
    # A column that counts 0, 1, 2, ... has this sum of squares after centring.
    if tasks.n_rows is not None:
        rows = tasks.n_rows.astype(float)
        counting = (rows * (rows**2 - 1) / 12)[:, None]
        diagonals = np.einsum("tii->ti", tasks.scatters)
        for j in np.flatnonzero(np.all(np.isclose(diagonals, counting, rtol=1e-9), axis=0)):
            notes.append(f"{tasks.variables[j]!r} seems to count the rows; is it a variable?")
    if total <= 2 * p:
        notes.append(
            f"the tasks have {total:g} degrees of freedom in all; more than {2 * p}, twice the number "
            "of variables, are needed to determine a shared sigma_h"
        )
    return notes
