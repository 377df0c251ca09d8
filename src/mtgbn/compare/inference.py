"""Tests of a linear design at every connection, by permutation (docs/model.md, section 19).

Freedman and Lane (1983): what the nuisance covariates explain is removed from the strengths, the
residuals are exchanged between subjects, and the whole design is fitted to them. Statistics depend on
the residuals only through a few scalar products with an orthonormal basis of the design. Thousands of
permutations are therefore one product of matrices.

For a contrast, the design is divided into tested and nuisance columns as by Winkler et al. (2014).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.stats import f as f_distribution
from scipy.stats import false_discovery_control
from scipy.stats import t as t_distribution

from mtgbn._utils.compiled import kernel
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError

# Permutations that are computed at once; a fixed number, so that results do not depend on the memory
# or on the number of workers.
_AT_ONCE = 500

# Statistics that differ by rounding errors only count as equal.
_TOLERANCE = 1e-9

# p-value, for normal errors, of the default threshold of the network-based statistic.
_RARE = 0.001

# A statistic is taken to be at most this, where the design explains everything.
_LARGEST = 1e6

# Threshold-free enhancement: exponents of extent and height (Baggio et al. 2018), and the number of
# heights over which it is summed, for every map anew.
_EXTENT, _HEIGHT, _N_HEIGHTS = 0.5, 2.0, 100


class Divided(NamedTuple):
    """A design, divided for one contrast.

    ``tested`` (m, r) and ``nuisance`` (m, q) are orthonormal, and orthogonal to each other.
    ``effect`` (m, r) has the weights whose products with the strengths are the estimated contrasts,
    ``scale`` (r,) their standard errors per unit of the residual standard deviation. ``degrees`` are
    the residual degrees of freedom.
    """

    tested: np.ndarray
    nuisance: np.ndarray
    effect: np.ndarray
    scale: np.ndarray
    degrees: int


class Component(NamedTuple):
    """Connections above a threshold that hang together: positions, and the corrected p-value."""

    connections: np.ndarray
    p: float


class Tests(NamedTuple):
    """Tests of one contrast at every connection; arrays are (connections,) unless said otherwise.

    Attributes
    ----------
    effect, low, high : array
        Estimated contrast with its 95 % confidence interval; of several rows the first.
    statistic : array
        t of one row, positive where the contrast is; F of several rows.
    p_parametric : array
        p-value of the statistic for normal errors.
    p : array
        Two-sided p-value by permutation.
    p_family : array
        The same, corrected for all connections: compared with the largest statistic of each
        permutation.
    q : array
        False discovery rate of Benjamini and Hochberg for ``p``.
    enhanced, p_enhanced : array
        Statistic after threshold-free enhancement over the network, and its corrected p-value.
    components : tuple of Component
        Network-based statistic (Zalesky et al. 2010): connections whose statistic is at least
        ``threshold``, by component, the largest first, and p-values of their number of connections.
    threshold : float
    p_any : float
        Whether there is any difference at all: the smallest corrected p-value.
    n_permutations : int
        The observed order counts as one more.
    """

    effect: np.ndarray
    low: np.ndarray
    high: np.ndarray
    statistic: np.ndarray
    p_parametric: np.ndarray
    p: np.ndarray
    p_family: np.ndarray
    q: np.ndarray
    enhanced: np.ndarray
    p_enhanced: np.ndarray
    components: tuple[Component, ...]
    threshold: float
    p_any: float
    n_permutations: int


def divide(matrix: np.ndarray, contrast: np.ndarray) -> Divided:
    """Divide a design (m, k) of full rank into what a contrast (r, k) tests and the rest."""
    m, k = matrix.shape
    weights = contrast.T  # (k, r)
    factor = np.linalg.qr(matrix)[1]
    # (M'M)^-1 C and the estimates' covariance, by triangular solutions.
    half = np.linalg.solve(factor.T, weights)
    solved = np.linalg.solve(factor, half)
    covariance = half.T @ half
    effect = matrix @ solved
    free = null_space(contrast)
    tested = np.linalg.qr(effect)[0]
    nuisance = np.empty((m, 0))
    if free.shape[1]:
        # The columns that are left when the contrast is 0; they span the reduced model.
        nuisance = np.linalg.qr(matrix @ free)[0]
        tested = np.linalg.qr(effect - nuisance @ (nuisance.T @ effect))[0]
    return Divided(tested, nuisance, effect, np.sqrt(np.diag(covariance)), m - k)


def contrast_tests(
    strengths: np.ndarray,
    matrix: np.ndarray,
    contrast: np.ndarray,
    *,
    pairs: np.ndarray,
    blocks: np.ndarray | None = None,
    threshold: float | None = None,
    n_permutations: int = 10_000,
    random_state: int | np.random.SeedSequence | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tests:
    """Test a contrast (r, k) of a design (m, k) at every connection.

    Parameters
    ----------
    strengths : array (m, connections)
    pairs : array (connections, 2)
        Variables that each connection joins, for the enhancement over the network.
    blocks : array (m,), optional
        Subjects are exchanged within a block only.
    threshold : float, optional
        Of the network-based statistic; default: the statistic whose p-value for normal errors is .001.
    """
    divided = divide(matrix, contrast)
    if divided.degrees < 1:
        m, k = matrix.shape
        raise InputError(
            f"{m} subjects are too few for a design with {k} columns; leave out covariates"
        )
    residuals = strengths - divided.nuisance @ (divided.nuisance.T @ strengths)
    totals = np.einsum("mc,mc->c", residuals, residuals)
    is_signed = len(contrast) == 1
    observed = _statistics(divided, residuals, totals, np.arange(len(residuals))[None])[0]
    sizes = np.abs(observed)
    graph = np.ascontiguousarray(pairs, dtype=np.int64)
    if threshold is None:
        threshold = float(
            t_distribution.isf(_RARE / 2, divided.degrees)
            if is_signed
            else f_distribution.isf(_RARE, len(contrast), divided.degrees)
        )
    found = component_of(sizes, graph, threshold)
    extents = np.bincount(found[found >= 0], minlength=found.max() + 1 if len(found) else 0)
    larger = np.ones(len(extents))
    enhanced = enhance(sizes[None], graph)[0]
    counts, family, cluster = (np.ones(len(sizes)) for _ in range(3))
    done = 0
    for orders in _orders(len(residuals), blocks, n_permutations, random_state):
        values = np.abs(_statistics(divided, residuals, totals, orders))
        counts += (values >= sizes * (1 - _TOLERANCE)).sum(axis=0)
        largest = np.sort(values.max(axis=1))
        family += len(orders) - np.searchsorted(largest, sizes * (1 - _TOLERANCE), side="left")
        most = np.sort(enhance(values, graph).max(axis=1))
        cluster += len(orders) - np.searchsorted(most, enhanced * (1 - _TOLERANCE), side="left")
        extent = largest_extents(values, graph, threshold)
        larger += (extent[:, None] >= extents).sum(axis=0)
        done += len(orders)
        if progress is not None:
            progress(done, n_permutations)
    counts, family, cluster, larger = (
        each / (n_permutations + 1) for each in (counts, family, cluster, larger)
    )
    components = [
        Component(np.flatnonzero(found == number), float(larger[number]))
        for number in np.argsort(-extents, kind="stable")
    ]
    estimate, low, high = estimates(strengths, matrix, contrast)
    parametric = (
        2 * t_distribution.sf(sizes, divided.degrees)
        if is_signed
        else f_distribution.sf(sizes, len(contrast), divided.degrees)
    )
    signs = np.sign(estimate) if is_signed else np.ones(len(sizes))
    return Tests(
        effect=estimate,
        low=low,
        high=high,
        statistic=signs * sizes,
        p_parametric=parametric,
        p=counts,
        p_family=family,
        q=false_discovery_control(counts),
        enhanced=enhanced,
        p_enhanced=cluster,
        components=tuple(components),
        threshold=threshold,
        p_any=float(family.min()),
        n_permutations=n_permutations,
    )


def estimates(
    values: np.ndarray, matrix: np.ndarray, contrast: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate of the first row of a contrast, and its 95 % confidence interval, by least squares.

    ``values`` are (m, connections); the interval takes the errors to be normal.
    """
    divided = divide(matrix, contrast[:1])
    estimate = divided.effect[:, 0] @ values
    basis = np.concatenate([divided.tested, divided.nuisance], axis=1)
    residuals = values - basis @ (basis.T @ values)
    error = divided.scale[0] * np.sqrt((residuals**2).sum(axis=0) / divided.degrees)
    half = t_distribution.ppf(0.975, divided.degrees) * error
    return estimate, estimate - half, estimate + half


def _statistics(
    divided: Divided, residuals: np.ndarray, totals: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """Absolute t, for one row of the contrast, or F, (orders, connections)."""
    basis = np.concatenate([divided.tested, divided.nuisance], axis=1)
    r, columns = divided.tested.shape[1], basis.shape[1]
    # Residual i goes to subject order[i]: its row of the basis meets it there.
    moved = basis[orders].transpose(0, 2, 1).reshape(-1, basis.shape[0])
    products = (moved @ residuals).reshape(len(orders), columns, -1)
    np.square(products, out=products)
    explained = products[:, :r].sum(axis=1)
    left = totals - explained - products[:, r:].sum(axis=1)
    left = np.maximum(left, totals * np.finfo(float).eps * len(residuals))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(explained > 0, explained / left, 0.0) * divided.degrees / r
    ratio = np.minimum(ratio, _LARGEST)
    return np.sqrt(ratio) if r == 1 else ratio


def _orders(
    m: int,
    blocks: np.ndarray | None,
    n: int,
    random_state: int | np.random.SeedSequence | None,
) -> Iterator[np.ndarray]:
    """Random orders of the subjects within blocks, some at once: (some, m)."""
    rng = np.random.default_rng(seed_sequence(random_state))
    members = [np.arange(m)]
    if blocks is not None:
        members = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    for first in range(0, n, _AT_ONCE):
        orders = np.tile(np.arange(m), (min(_AT_ONCE, n - first), 1))
        for block in members:
            orders[:, block] = rng.permuted(orders[:, block], axis=1)
        yield orders


@kernel(error_model="numpy")
def enhance(values, pairs):
    """Threshold-free enhancement of statistics over a network (Smith and Nichols 2009).

    Parameters
    ----------
    values : array (maps, connections)
        Absolute statistics.
    pairs : array (connections, 2)
        Variables that each connection joins.

    Returns
    -------
    array (maps, connections)
        For every connection the sum, over heights h up to its value, of extent^0.5 h^2 dh. The extent
        is the number of connections of at least h in its component: those that can be reached over
        common variables.
    """
    n_maps, n = values.shape
    out = np.zeros((n_maps, n))
    p = pairs.max() + 1
    root, sizes = np.empty(p, dtype=np.int64), np.empty(p)
    for row in range(n_maps):
        order = np.argsort(-values[row])
        top = values[row, order[0]]
        if top <= 0.0:
            continue
        step = top / _N_HEIGHTS
        for v in range(p):
            root[v], sizes[v] = v, 0.0
        joined = 0
        # From the largest height down, components only grow.
        for level in range(_N_HEIGHTS, 0, -1):
            height = level * step
            while joined < n and values[row, order[joined]] >= height * (1 - 1e-12):
                a = _root_of(root, pairs[order[joined], 0])
                b = _root_of(root, pairs[order[joined], 1])
                if a != b:
                    root[a] = b
                    sizes[b] += sizes[a]
                sizes[b] += 1.0
                joined += 1
            for k in range(joined):
                extent = sizes[_root_of(root, pairs[order[k], 0])]
                out[row, order[k]] += extent**_EXTENT * height**_HEIGHT * step
    return out


@kernel(error_model="numpy")
def component_of(values, pairs, threshold):
    """Component of every connection whose value is at least a threshold, numbered; -1 below it."""
    n = values.size
    p = pairs.max() + 1
    root = np.arange(p)
    for k in range(n):
        if values[k] >= threshold:
            root[_root_of(root, pairs[k, 0])] = _root_of(root, pairs[k, 1])
    number = np.full(p, -1)
    found = np.full(n, -1)
    count = 0
    for k in range(n):
        if values[k] >= threshold:
            top = _root_of(root, pairs[k, 0])
            if number[top] < 0:
                number[top] = count
                count += 1
            found[k] = number[top]
    return found


@kernel(error_model="numpy")
def largest_extents(values, pairs, threshold):
    """Connections in the largest component of every map (maps, connections) at a threshold."""
    n_maps, n = values.shape
    out = np.zeros(n_maps, dtype=np.int64)
    sizes = np.empty(n, dtype=np.int64)
    for row in range(n_maps):
        found = component_of(values[row], pairs, threshold)
        sizes[:] = 0
        for k in range(n):
            if found[k] >= 0:
                sizes[found[k]] += 1
        out[row] = sizes.max()
    return out


@kernel(error_model="numpy")
def _root_of(root, v):
    """The variable that stands for the component of v; paths are halved on the way."""
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v
