"""Who resembles whom: distances between subjects' networks, a map, and clusters if there are any.

The distance of two subjects is the root mean square difference of their strengths, without what
sampling errors alone would make of it. A map in two dimensions shows the distances. Subjects are
divided into clusters only if one normal distribution does not explain their distances (docs/model.md,
section 19).
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from mtgbn._utils.seeds import seed_sequence

# Clusters are looked for in this number of dimensions at most: those with the largest distances.
_MOST_DIMENSIONS = 5
_MOST_CLUSTERS = 6

# One normal distribution is given up at this level, and only for clusters of at least so many subjects.
_LEVEL = 0.05
_FEWEST_MEMBERS = 3
_FEWEST_SUBJECTS = 10

_N_SIMULATED = 199


class Likeness(NamedTuple):
    """Distances between the networks of m subjects.

    Attributes
    ----------
    distances : array (m, m)
        In Fisher's z; 0 where subjects differ no more than sampling errors do.
    positions : array (m, 2)
        A map of the subjects (classical multidimensional scaling).
    explained : float
        Share of the squared distances that the map shows.
    clusters : array (m,) of int
        Cluster of every subject, the largest one first; all 0 if there is one only.
    p : float
        p-value of one normal distribution against clusters; nan with too few subjects.
    """

    distances: np.ndarray
    positions: np.ndarray
    explained: float
    clusters: np.ndarray
    p: float

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.clusters.max(initial=0)) + 1

    def in_words(self) -> str:
        """One sentence."""
        if np.isnan(self.p):
            return f"{len(self.clusters)} subjects are too few to look for clusters."
        if self.n_clusters == 1:
            return f"The subjects are one cluster (p = {self.p:.3g} for more)."
        sizes = ", ".join(str(size) for size in np.bincount(self.clusters))
        return f"The subjects form {self.n_clusters} clusters of {sizes} (p = {self.p:.3g})."


def subject_likeness(
    strengths: np.ndarray,
    variances: np.ndarray | None = None,
    random_state: int | np.random.SeedSequence | None = None,
) -> Likeness:
    """Find who resembles whom.

    Parameters
    ----------
    strengths : array (m, connections)
        Fisher's z.
    variances : array (m, connections), optional
        Their sampling variances; default: 0.
    """
    m = len(strengths)
    noise = np.zeros(m) if variances is None else variances.mean(axis=1)
    inner = strengths @ strengths.T / strengths.shape[1]
    squares = np.diag(inner)
    apart = squares[:, None] + squares - 2 * inner - noise[:, None] - noise
    np.fill_diagonal(apart, 0.0)
    coordinates, sizes = _scaling(apart)
    positions = np.zeros((m, 2))
    shown = min(2, coordinates.shape[1])
    positions[:, :shown] = coordinates[:, :shown]
    clusters, p = _clusters(coordinates[:, :_MOST_DIMENSIONS], random_state)
    return Likeness(
        distances=np.sqrt(np.maximum((apart + apart.T) / 2, 0.0)),
        positions=positions,
        explained=float(sizes[:2].sum() / sizes.sum()) if len(sizes) else 0.0,
        clusters=clusters,
        p=p,
    )


def _scaling(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (m, dimensions) of squared distances, the widest first, and their eigenvalues.

    Each dimension has the sign with which its largest coordinate is positive.
    """
    centred = squared - squared.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    kept = np.flatnonzero(values > 1e-10 * max(values.max(), 1e-300))[::-1]
    values, vectors = values[kept], vectors[:, kept]
    if len(kept):
        largest = np.abs(vectors).argmax(axis=0)
        vectors = vectors * np.sign(vectors[largest, np.arange(len(kept))])
    return vectors * np.sqrt(values), values


def _clusters(
    points: np.ndarray, random_state: int | np.random.SeedSequence | None
) -> tuple[np.ndarray, float]:
    """Cluster of every point, and the p-value of one normal distribution.

    Ward's method joins points. The sum of squares within two clusters, relative to that of all
    points, is compared with those of simulated normal points of the same variances. If it is rare,
    the number of clusters is that of the gap statistic (Tibshirani et al. 2001) with the same
    simulated points as its reference.
    """
    m = len(points)
    one = np.zeros(m, dtype=int)
    if m < _FEWEST_SUBJECTS or points.shape[1] == 0:
        return one, np.nan
    rng = np.random.default_rng(seed_sequence(random_state))
    tree = linkage(points, "ward")
    observed = _log_within(tree)
    spreads = points.std(axis=0)
    simulated = np.array(
        [
            _log_within(linkage(rng.normal(size=points.shape) * spreads, "ward"))
            for _ in range(_N_SIMULATED)
        ]
    )
    rare = np.sum(simulated[:, 1] - simulated[:, 0] <= observed[1] - observed[0])
    p = (1 + rare) / (_N_SIMULATED + 1)
    if p > _LEVEL:
        return one, p
    found = fcluster(tree, _number(observed, simulated), "maxclust") - 1
    counts = np.bincount(found)
    if counts.min() < _FEWEST_MEMBERS:
        return one, p
    rank = np.empty(len(counts), dtype=int)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return rank[found], p


def _log_within(tree: np.ndarray) -> np.ndarray:
    """Logarithms of the sums of squares within 1, 2, ... clusters of Ward's method."""
    # A joint of height h adds h^2/2 to the sum of squares.
    sums = 0.5 * np.cumsum(tree[:, 2] ** 2)[::-1]
    return np.log(np.maximum(sums[:_MOST_CLUSTERS], 1e-300))


def _number(observed: np.ndarray, simulated: np.ndarray) -> int:
    """The smallest number of clusters, two at least, whose gap is not clearly below the next one."""
    gaps = simulated.mean(axis=0) - observed
    errors = simulated.std(axis=0) * np.sqrt(1 + 1 / len(simulated))
    for k in range(2, len(gaps)):
        if gaps[k - 1] >= gaps[k] - errors[k]:
            return k
    return len(gaps)
