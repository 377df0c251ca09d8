"""Tests of a linear design at every connection, by permutation (docs/model.md, section 19).

Freedman and Lane (1983): what the nuisance covariates explain is removed from the strengths, the
residuals are exchanged between subjects, and the whole design is fitted to them. For a contrast, the
design is divided into tested and nuisance columns as by Winkler et al. (2014).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control

from mtgbn._utils.compiled import kernel
from mtgbn._utils.seeds import seed_sequence
from mtgbn.compare.connection_sets import SetStatistics, SetTests, connections_of_regions
from mtgbn.compare.design_statistics import EqualVariances, VarianceGroups, divide, estimates
from mtgbn.errors import InputError

# Random orders that are drawn at once; a fixed number, so that results do not depend on the memory or
# on the number of workers.
_AT_ONCE = 500

# Bytes that the statistics of a portion of these orders may take: many connections are computed for
# few orders at once.
_PORTION = 128 * 2**20

# Statistics that differ by rounding errors only count as equal.
_TOLERANCE = 1e-9

# p-value, for normal errors, of the default threshold of the network-based statistic.
_RARE = 0.001

# Threshold-free enhancement: exponents of extent and height (Baggio et al. 2018), and the number of
# heights over which it is summed, for every map anew.
_EXTENT, _HEIGHT, _N_HEIGHTS = 0.5, 2.0, 100


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
    error : array
        Standard error of ``effect``; of several rows the one it has if the other rows are known. It is
        as often too large as too small.
    statistic : array
        t of one row, positive where the contrast is; F of several rows. With groups of different
        spread: Welch's t, and about F by Johansen. Residual variances are moderated over connections.
    degrees : array
        Degrees of freedom of t, the second ones of F.
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
    regions : SetTests
        The connections of every variable, tested as a whole.
    sets : SetTests
        The same for sets of connections.
    p_any : float
        Whether there is any difference at all: the smallest corrected p-value.
    n_permutations : int
        The observed order counts as one more.
    """

    effect: np.ndarray
    low: np.ndarray
    high: np.ndarray
    error: np.ndarray
    statistic: np.ndarray
    degrees: np.ndarray
    p_parametric: np.ndarray
    p: np.ndarray
    p_family: np.ndarray
    q: np.ndarray
    enhanced: np.ndarray
    p_enhanced: np.ndarray
    components: tuple[Component, ...]
    threshold: float
    regions: SetTests
    sets: SetTests
    p_any: float
    n_permutations: int


def contrast_tests(
    strengths: np.ndarray,
    matrix: np.ndarray,
    contrast: np.ndarray,
    *,
    pairs: np.ndarray,
    blocks: np.ndarray | None = None,
    variance_groups: np.ndarray | None = None,
    shown: np.ndarray | None = None,
    threshold: float | None = None,
    sets: Sequence[np.ndarray] | None = None,
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
    variance_groups : array (m,) of int, optional
        Groups, numbered from 0, whose strengths may differ in their spread. Statistics are then those
        of Welch and Johansen. Where spreads are equal the test is as exact as that of t and F.
    shown : array (m, connections), optional
        The strengths on the scale of effects and intervals; default: ``strengths``.
    threshold : float, optional
        Of the network-based statistic, compared with z, or with chi-square per row of the contrast;
        default: the one whose p-value for normal errors is .001.
    sets : sequence of arrays, optional
        Positions of connections that are tested as a whole; default: one set with all of them.
    """
    divided = divide(matrix, contrast)
    if divided.degrees < 1:
        m, k = matrix.shape
        raise InputError(
            f"{m} subjects are too few for a design with {k} columns; leave out covariates"
        )
    residuals = strengths - divided.nuisance @ (divided.nuisance.T @ strengths)
    statistics = (
        EqualVariances(divided, residuals)
        if variance_groups is None
        else VarianceGroups(divided, residuals, variance_groups)
    )
    sizes = statistics.values(np.arange(len(residuals))[None])[0]
    graph = np.ascontiguousarray(pairs, dtype=np.int64)
    if threshold is None:
        threshold = statistics.threshold(_RARE)
    found = component_of(sizes, graph, threshold)
    extents = np.bincount(found[found >= 0], minlength=found.max() + 1 if len(found) else 0)
    larger = np.ones(len(extents))
    enhanced = enhance(sizes[None], graph)[0]
    counts, family, cluster = (np.ones(len(sizes)) for _ in range(3))
    gathered = [
        SetStatistics(each, is_squared=len(contrast) > 1, n_permutations=n_permutations)
        for each in (connections_of_regions(graph), sets or [np.arange(len(sizes))])
    ]
    for each in gathered:
        each.add(sizes[None])
    done = 0
    at_once = max(_PORTION // (8 * statistics.width * len(sizes)), 1)
    drawn = _orders(len(residuals), blocks, n_permutations, random_state)
    for orders in (part for some in drawn for part in _portions(some, at_once)):
        values = statistics.values(orders)
        counts += (values >= sizes * (1 - _TOLERANCE)).sum(axis=0)
        largest = np.sort(values.max(axis=1))
        family += len(orders) - np.searchsorted(largest, sizes * (1 - _TOLERANCE), side="left")
        most = np.sort(enhance(values, graph).max(axis=1))
        cluster += len(orders) - np.searchsorted(most, enhanced * (1 - _TOLERANCE), side="left")
        extent = largest_extents(values, graph, threshold)
        larger += (extent[:, None] >= extents).sum(axis=0)
        for each in gathered:
            each.add(values)
        done += len(orders)
        if progress is not None:
            progress(done, n_permutations)
    counts, family, cluster, larger = (
        number / (n_permutations + 1) for number in (counts, family, cluster, larger)
    )
    components = [
        Component(np.flatnonzero(found == number), float(larger[number]))
        for number in np.argsort(-extents, kind="stable")
    ]
    found_effects = estimates(
        strengths if shown is None else shown, matrix, contrast, variance_groups
    )
    regions, whole = (each.tests(found_effects.effect) for each in gathered)
    observed = statistics.observed()
    signs = np.sign(divided.effect[:, 0] @ strengths) if len(contrast) == 1 else 1.0
    return Tests(
        **found_effects._asdict(),
        statistic=signs * observed.statistic,
        degrees=observed.degrees,
        p_parametric=observed.p,
        p=counts,
        p_family=family,
        q=false_discovery_control(counts),
        enhanced=enhanced,
        p_enhanced=cluster,
        components=tuple(components),
        threshold=threshold,
        regions=regions,
        sets=whole,
        p_any=float(family.min()),
        n_permutations=n_permutations,
    )


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


def _portions(orders: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """The same orders, at most ``size`` of them at once."""
    for first in range(0, len(orders), size):
        yield orders[first : first + size]


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
