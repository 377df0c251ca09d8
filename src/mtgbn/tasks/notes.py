"""What is allowed, but perhaps not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtgbn.tasks.names import listed

if TYPE_CHECKING:
    from mtgbn.tasks.tasks import Tasks

__all__ = ["notes_on", "unequal_scales"]

# Ratio of variances that tasks in the same units hardly reach by chance.
_LARGEST_RATIO = 10.0


def unequal_scales(tasks: Tasks) -> list[str]:
    """Say which variable differs most in scale between tasks, if any does by much."""
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


def notes_on(tasks: Tasks) -> list[str]:
    """Everything about these data that a user may want to know before fitting."""
    p, total = tasks.n_variables, tasks.ns.sum()
    notes = unequal_scales(tasks)
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
    # A column that counts 0, 1, 2, ... has this sum of squares, whatever its start.
    if tasks.n_rows is not None:
        rows = tasks.n_rows.astype(float)
        counting = (rows * (rows**2 - 1) / 12)[:, None]
        diagonals = np.einsum("tii->ti", tasks.scatters)
        for j in np.flatnonzero(np.all(np.isclose(diagonals, counting, rtol=1e-9), axis=0)):
            notes.append(f"{tasks.variables[j]!r} seems to count the rows; is it a variable?")
    if total <= 2 * p:
        notes.append(
            f"the tasks have {total:g} degrees of freedom together; more than {2 * p}, twice the number "
            "of variables, are needed to be sure of a shared sigma_h"
        )
    return notes
