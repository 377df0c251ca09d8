"""Does the posterior of sigma_h have a finite integral? (docs/model.md, section 6)

Along a ray to the border of the cone of positive definite matrices every determinant behaves like a
power of the distance t, so the posterior times the volume element does too, and its integral is finite
only if the exponent has the right sign. The rays tried here are those on which it fails first: one
variable's scale growing, one direction growing, and sigma_h collapsing along a direction in which a
task's data do not vary at all.
"""

from collections.abc import Sequence

import numpy as np

from mtgbn.errors import ImproperPosteriorError
from mtgbn.model.posterior import Posterior

__all__ = ["check_proper"]

# A family's scatter counts as singular when the smallest eigenvalue of its correlation matrix is below
# this: rounding leaves about 1e-16, and real data with a correlation of 1 - 1e-10 still count as data.
_SINGULAR = 1e-11

_REMEDY = (
    "Add tasks or rows, leave out variables, or use structure_prior='uniform', which asks for "
    "the least."
)


def check_proper(posterior: Posterior, variables: Sequence[str] | None = None) -> None:
    """Raise `ImproperPosteriorError` if the posterior of sigma_h cannot be normalised.

    The conditions are necessary for any graphs. Under ``uniform`` they hold whenever the degrees of
    freedom of all tasks together exceed 2 p and no family's data are exactly collinear.
    """
    p = posterior.n_variables
    names = [str(j) for j in range(p)] if variables is None else list(variables)
    pairs = list(_pairs(posterior))

    growth = _exponents_of_growing_variables(pairs, posterior.full_coefficient, p)
    if growth.max() >= 0:
        worst = int(growth.argmax())
        raise ImproperPosteriorError(
            f"the posterior of sigma_h is improper: the scale of variable {names[worst]} can grow "
            f"without bound (its density falls off {2 * growth[worst]:.4g} degrees of freedom too "
            f"slowly). {_REMEDY}"
        )
    exponent, direction = _worst_growing_direction(pairs, posterior.full_coefficient, p)
    if exponent >= 0:
        raise ImproperPosteriorError(
            f"the posterior of sigma_h is improper: a linear combination of {_listed(names, direction)} "
            f"can grow without bound (its density falls off {2 * exponent:.4g} degrees of freedom too "
            f"slowly; more than 2 p = {2 * p} degrees of freedom over all tasks are always enough "
            f"under 'uniform'). {_REMEDY}"
        )
    for direction in _directions_without_variation(pairs, p):
        exponent = _exponent_of_collapse(pairs, posterior.full_coefficient, direction)
        if exponent <= -(p + 1) / 2:
            raise ImproperPosteriorError(
                "the posterior of sigma_h is improper: in a task whose graph makes them one family, "
                f"{_listed(names, direction != 0)} are exactly collinear, and too few other tasks "
                "hold sigma_h away from a singular matrix. Leave out one of these variables, or use a "
                "graph that does not join them."
            )


class _Batch:
    """The pairs of one batch with their sets spelled out."""

    def __init__(self, members, inner, inner_coefficients, outer_coefficients, shifts):
        self.members = members  # (count, size), inner variables first
        self.inner = inner
        self.inner_coefficients = inner_coefficients  # of the pivots of the inner variables
        self.outer_coefficients = outer_coefficients
        self.shifts = shifts  # (count, size, size)

    def exponent(self, inner: np.ndarray, outer: np.ndarray) -> float:
        """Power of t if the determinants of the marked inner and outer sets grow like t."""
        return float(
            self.inner_coefficients[inner].sum() + self.outer_coefficients[outer & ~inner].sum()
        )


def _pairs(posterior: Posterior):
    p = posterior.n_variables
    terms = posterior.terms
    start = coefficient_start = 0
    for size, inner, count in zip(terms.outer_sizes, terms.inner_sizes, terms.counts, strict=True):
        stop = start + size * (size + 1) // 2 * count
        rows, columns = np.tril_indices(size)
        positions = terms.positions[start:stop].reshape(-1, count)
        shifts = np.empty((count, size, size))
        shifts[:, rows, columns] = terms.shifts[start:stop].reshape(-1, count).T
        shifts[:, columns, rows] = shifts[:, rows, columns]
        members = positions[rows == columns].T.astype(np.int64) // p
        coefficients = terms.coefficients[coefficient_start : coefficient_start + 2 * count]
        yield _Batch(members, inner, *coefficients.reshape(2, count), shifts)
        start, coefficient_start = stop, coefficient_start + 2 * count


def _exponents_of_growing_variables(pairs, full_coefficient: float, p: int) -> np.ndarray:
    """Row and column j of sigma_h scaled by sqrt(t): every set with j gains ln t.

    The volume element gains (p + 1)/2. Any group of variables scaled together has the sum of their
    exponents, so single variables decide.
    """
    exponents = np.full(p, full_coefficient + (p + 1) / 2)
    for batch in pairs:
        inner = batch.members[:, : batch.inner]
        outer = batch.members[:, batch.inner :]
        for members, coefficients in (
            (inner, batch.inner_coefficients),
            (outer, batch.outer_coefficients),
        ):
            weights = np.repeat(coefficients, members.shape[1])
            exponents += np.bincount(members.ravel(), weights=weights, minlength=p)
    return exponents


def _worst_growing_direction(pairs, full_coefficient: float, p: int) -> tuple[float, np.ndarray]:
    """Largest exponent found over sigma_h + t v v', with v non-zero on a set S of variables.

    Every set that meets S gains ln t. The volume element gains (p + |S|)/2: |S| - 1 for the free
    direction, (p - |S|)/2 for the covariances with the other variables, 1 for t. Finding the worst S
    is a combinatorial problem; variables are dropped from the full set while that makes it worse.
    """

    def exponent(chosen: np.ndarray) -> float:
        total = full_coefficient + (p + chosen.sum()) / 2
        for batch in pairs:
            met = chosen[batch.members]
            total += batch.exponent(met[:, : batch.inner].any(axis=1), met.any(axis=1))
        return float(total)

    chosen = np.ones(p, dtype=bool)
    best = exponent(chosen)
    improved = True
    while improved and chosen.sum() > 1:
        improved = False
        for j in np.flatnonzero(chosen):
            chosen[j] = False
            candidate = exponent(chosen)
            if chosen.any() and candidate > best:
                best, improved = candidate, True
            else:
                chosen[j] = True
    return best, chosen


def _directions_without_variation(pairs, p: int):
    """Vectors over all variables in which the scatter of some family of some task is singular."""
    for batch in pairs:
        scale = np.sqrt(np.einsum("bii->bi", batch.shifts))
        has_data = (scale > 0).all(axis=1)
        scale = scale[has_data]
        correlations = batch.shifts[has_data] / (scale[:, :, None] * scale[:, None, :])
        values, vectors = np.linalg.eigh(correlations)
        for b, k in np.argwhere(values < _SINGULAR):
            vector = vectors[b, :, k]
            vector[np.abs(vector) < np.sqrt(_SINGULAR)] = 0.0
            direction = np.zeros(p)
            direction[batch.members[has_data][b]] = vector / scale[b]
            yield direction


def _exponent_of_collapse(pairs, full_coefficient: float, direction: np.ndarray) -> float:
    """V' sigma_h v = t -> 0: sets that contain all of v lose ln t, unless their data vary along v.

    The volume element has the exponent (p - 1)/2, so that the integral is finite for a total above
    -(p + 1)/2.
    """
    total = full_coefficient
    size = np.count_nonzero(direction)
    for batch in pairs:
        part = direction[batch.members]
        variation = np.einsum("bi,bij,bj->b", part, batch.shifts, part)
        reference = np.einsum("bi,bii->b", part**2, batch.shifts)
        vanishes = variation <= _SINGULAR * reference
        outer = vanishes & (np.count_nonzero(part, axis=1) == size)
        inner = vanishes & (np.count_nonzero(part[:, : batch.inner], axis=1) == size)
        total += batch.exponent(inner, outer)
    return float(total)


def _listed(names: Sequence[str], chosen: np.ndarray, most: int = 5) -> str:
    listed = [names[j] for j in np.flatnonzero(chosen)]
    if len(listed) == len(names):
        return "all variables"
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
