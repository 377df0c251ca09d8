"""Whether the posterior of sigma_h has a finite integral (docs/model.md, section 6).

Along a ray to the border of the cone of positive definite matrices every determinant behaves like a
power of the distance t, and so does the posterior times the volume element. Its integral is finite
only if the exponent has the right sign. Three kinds of rays are checked, on which the integral diverges
first: the scale of one variable grows; sigma_h grows along one direction; sigma_h becomes singular along
a direction in which the data of a task do not vary.
"""

from collections.abc import Sequence

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.errors import ImproperPosteriorError
from mtgbn.model.posterior import Posterior

# The scatter of a family counts as singular if the smallest eigenvalue of its correlation matrix is
# below this. Rounding errors are about 1e-16; data with a correlation of 1 - 1e-10 are not singular.
_SINGULAR = 1e-11

# Largest number of single variables at which a search for the worst direction starts.
_MOST_STARTS = 30

# Largest number of directions that are checked for collapse.
_MOST_DIRECTIONS = 300

_REMEDY = "Add tasks or rows, or leave out variables"


def check_proper(posterior: Posterior, variables: Sequence[str] | None = None) -> None:
    """Raise `ImproperPosteriorError` if the posterior of sigma_h cannot be normalised.

    The conditions are necessary, and the search for a violation may miss one. Under ``uniform`` the
    conditions hold for any graphs if the sum of the tasks' degrees of freedom exceeds 2 p and no
    family's data are exactly collinear.
    """
    p = posterior.n_variables
    names = [str(j) for j in range(p)] if variables is None else list(variables)
    pairs = list(_pairs(posterior))
    is_uniform = posterior.full_coefficient == 0
    remedy = f"{_REMEDY}." if is_uniform else f"{_REMEDY}; structure_prior='uniform' asks for less."

    growth = _exponents_of_growing_variables(pairs, posterior.full_coefficient, p)
    if growth.max() >= 0:
        worst = int(growth.argmax())
        raise ImproperPosteriorError(
            f"the posterior of sigma_h is improper: the scale of variable {names[worst]} can grow "
            f"without bound; the tasks together need more than {2 * growth[worst]:.4g} further "
            f"degrees of freedom. {remedy}"
        )
    exponent, direction = -np.inf, np.zeros(p)
    # Under `uniform` the degrees of freedom follow from the first check, and more than 2 p suffice.
    if not (is_uniform and p + 1 - 2 * growth.max() > 2 * p):
        exponent, direction = _worst_growing_direction(pairs, posterior.full_coefficient, p)
    if exponent >= 0:
        raise ImproperPosteriorError(
            "the posterior of sigma_h is improper: a linear combination of "
            f"{_listed(names, direction)} can grow without bound; the tasks together need more than "
            f"{2 * exponent:.4g} further degrees of freedom (more than 2 p = {2 * p} in all meet this "
            f"condition for any graphs under 'uniform'). {remedy}"
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
    """Pairs of an outer set and its inner subset, all of the same sizes, with explicit members."""

    def __init__(self, members, inner, inner_coefficients, outer_coefficients, shifts):
        self.members = members  # (count, size), inner variables first
        self.inner = inner
        self.inner_coefficients = inner_coefficients  # of the pivots of the inner variables
        self.outer_coefficients = outer_coefficients
        self.shifts = shifts  # (count, size, size)

    def exponent(self, inner: np.ndarray, outer: np.ndarray) -> float:
        """Exponent of t if the determinants of the marked inner and outer sets grow like t."""
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
        of_inner, of_outer = coefficients.reshape(2, count)
        yield _Batch(members, inner, of_inner, of_outer, shifts)
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
    is a combinatorial problem: variables join and leave, one at a time, while that makes it worse,
    starting from all variables and from single ones.
    """
    members, owners, coefficients = _flat_sets(pairs)
    offset = full_coefficient + p / 2
    best, worst = -np.inf, np.ones(p, dtype=bool)
    for start in [np.ones(p, dtype=bool), *np.eye(p, dtype=bool)[:_MOST_STARTS]]:
        chosen = start.copy()
        met = np.bincount(owners, weights=chosen[members], minlength=len(coefficients))
        exponent = offset + chosen.sum() / 2 + coefficients[met > 0].sum()
        while True:
            # coefficients of the sets whose only chosen member leaves, or whose first one joins
            lost = np.where(met == 1, coefficients, 0.0)[owners]
            gained = np.where(met == 0, coefficients, 0.0)[owners]
            change = np.where(
                chosen,
                -0.5 - np.bincount(members, weights=lost * chosen[members], minlength=p),
                0.5 + np.bincount(members, weights=gained, minlength=p),
            )
            if chosen.sum() == 1:
                change[chosen] = -np.inf
            flip = int(change.argmax())
            if not change[flip] > 1e-9:
                break
            chosen[flip] ^= True
            met += np.where(chosen[flip], 1, -1) * np.bincount(
                owners[members == flip], minlength=len(coefficients)
            )
            exponent += change[flip]
        if exponent > best:
            best, worst = float(exponent), chosen
    return best, worst


def _flat_sets(pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All sets as flat arrays: members, the set of each member, and the sets' coefficients."""
    members, owners, coefficients = [], [], []
    n_sets = 0
    for batch in pairs:
        count, size = batch.members.shape
        difference = batch.inner_coefficients - batch.outer_coefficients
        for width, values in ((size, batch.outer_coefficients), (batch.inner, difference)):
            if width:
                members.append(batch.members[:, :width].ravel())
                owners.append(np.repeat(n_sets + np.arange(count), width))
                coefficients.append(values)
                n_sets += count
    return np.concatenate(members), np.concatenate(owners), np.concatenate(coefficients)


def _directions_without_variation(pairs, p: int) -> list[np.ndarray]:
    """Vectors over all variables along which the scatter of some family of some task is singular.

    In a null space of several dimensions the vectors with the fewest variables matter, because the
    fewest sets contain them and prevent a collapse; row reduction finds them. If there are very many
    vectors, as in tasks with very few rows, those with the fewest variables are kept.
    """
    found: dict[tuple, np.ndarray] = {}
    for batch in pairs:
        scale = np.sqrt(np.einsum("bii->bi", batch.shifts))
        has_data = (scale > 0).all(axis=1)
        scale, members = scale[has_data], batch.members[has_data]
        correlations = batch.shifts[has_data] / (scale[:, :, None] * scale[:, None, :])
        values, vectors = np.linalg.eigh(correlations)
        for b in np.flatnonzero(values[:, 0] < _SINGULAR):
            if len(found) > 10 * _MOST_DIRECTIONS:  # small sets come first
                break
            for vector in _row_reduced(vectors[b, :, values[b] < _SINGULAR]):
                direction = np.zeros(p)
                direction[members[b]] = vector / scale[b]
                direction /= np.abs(direction).max()
                found.setdefault(tuple(np.round(direction, 6)), direction)
    return sorted(found.values(), key=np.count_nonzero)[:_MOST_DIRECTIONS]


def _row_reduced(rows: np.ndarray) -> np.ndarray:
    """Reduced row echelon form of linearly independent rows, with rounding set to zero."""
    rows = rows.copy()
    free = list(range(rows.shape[1]))
    for r in range(len(rows)):
        pivot = max(free, key=lambda c: abs(rows[r, c]))
        free.remove(pivot)
        rows[r] /= rows[r, pivot]
        others = np.arange(len(rows)) != r
        rows[others] -= np.outer(rows[others, pivot], rows[r])
    rows[np.abs(rows) < np.sqrt(_SINGULAR)] = 0.0
    return rows


def _exponent_of_collapse(pairs, full_coefficient: float, direction: np.ndarray) -> float:
    """Exponent of t for v' sigma_h v = t -> 0, where v is the direction.

    Sets that contain all variables of v lose ln t, unless their data vary along v.

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


def _listed(names: Sequence[str], chosen: np.ndarray) -> str:
    found = [names[j] for j in np.flatnonzero(chosen).tolist()]
    return "all variables" if len(found) == len(names) else listed(found)
