"""Checks of the plain arrays that the public functions of mtgbn.model take."""

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from mtgbn._utils.arguments import is_number, real_array
from mtgbn.errors import GraphError, InputError
from mtgbn.graphs.dags import topological_order

# Closer to its lower bound than this, a degree of freedom vanishes in (d + a - 1)/2 for larger sets.
_SMALLEST_DEGREE = 1e-10

# Products of two such numbers still have all their digits.
_SMALLEST_SCALE = 1e-140

# Rounding in X'X and in reading text files stays far below this, a forgotten transpose far above.
_SYMMETRY_TOLERANCE = 1e-8


def check_delta(nu0: float, p: int) -> float:
    """Return delta = nu0 - p + 1 of a valid nu0."""
    if not (is_number(nu0) and nu0 - p + 1 > _SMALLEST_DEGREE):
        raise InputError(f"nu0 must be a number above p - 1 = {p - 1}; got {nu0!r}")
    return float(nu0) - p + 1


def check_degree(d: float) -> float:
    """Return a valid d of a normaliser."""
    if not (is_number(d) and d > _SMALLEST_DEGREE):
        raise InputError(f"d must be a positive number; got {d!r}")
    return float(d)


def check_positive_definite(matrix, name: str, p: int | None = None) -> np.ndarray:
    """Return a symmetric positive definite matrix as a new float64 array, or say why it is none."""
    matrix = _check_symmetric(matrix, name, p)
    size = np.abs(np.diag(matrix))
    if size.size and not (size.min() > _SMALLEST_SCALE and size.max() < 1 / _SMALLEST_SCALE):
        worst = int(np.argmax(np.abs(np.log(np.maximum(size, 1e-320)))))
        raise InputError(
            f"{name} must be positive definite on a usable scale; its diagonal element {worst} is "
            f"{matrix[worst, worst]:.3g}"
        )
    try:
        cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise InputError(
            f"{name} must be positive definite; its smallest eigenvalue is {smallest:.3g}"
        ) from None
    return matrix


def check_scatters(
    scatters, ns, p: int, semidefinite: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return scatters (m, p, p) and degrees of freedom (m,) as float64.

    ``semidefinite=False`` leaves out the one check that costs something, for scatters of a `Tasks`.
    """
    scatters = real_array(scatters, "scatters")
    if scatters.ndim != 3 or scatters.shape[1:] != (p, p):
        raise InputError(f"scatters must have shape (m, {p}, {p}); got {scatters.shape}")
    ns = real_array(ns, "ns")
    if ns.shape != (len(scatters),):
        raise InputError(f"ns must hold one number per scatter, {len(scatters)}; got {ns.shape}")
    for i, (scatter, n) in enumerate(zip(scatters, ns, strict=True)):
        name = f"the scatter of task {i}"
        if semidefinite:
            _check_semidefinite(scatter, name, p)
        else:
            _check_symmetric(scatter, name, p)
        if not (np.isfinite(n) and n > 0):
            raise InputError(f"n of task {i} must be a positive number; got {n}")
    return scatters, ns


def check_adjacencies(adjacencies, m: int, p: int) -> np.ndarray:
    """Return m DAGs as a boolean array (m, p, p); ``adjacencies[t, i, j]``: i -> j in task t."""
    adjacencies = real_array(adjacencies, "adjacencies")
    if adjacencies.shape != (m, p, p):
        raise InputError(
            f"adjacencies must have shape ({m}, {p}, {p}), one DAG per task; "
            f"got {adjacencies.shape}"
        )
    for task, adjacency in enumerate(adjacencies):
        try:
            topological_order(adjacency)
        except GraphError as error:
            raise GraphError(
                f"the graph of task {task}: {error}" if m > 1 else str(error)
            ) from None
    return adjacencies.astype(bool)


def _check_semidefinite(matrix: np.ndarray, name: str, p: int) -> None:
    matrix = _check_symmetric(matrix, name, p)
    diagonal = np.diag(matrix)
    if np.any(diagonal < 0):
        variable = int(np.argmin(diagonal))
        raise InputError(
            f"{name} has the negative diagonal element {diagonal[variable]:.3g} at variable {variable}"
        )
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    smallest = np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0]
    if smallest < -_SYMMETRY_TOLERANCE * p:
        raise InputError(
            f"{name} must be positive semidefinite; its correlations have the eigenvalue {smallest:.3g}"
        )


def _check_symmetric(matrix, name: str, p: int | None) -> np.ndarray:
    matrix = real_array(matrix, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or p not in (None, len(matrix)):
        shape = "square" if p is None else f"{p} x {p}"
        raise InputError(f"{name} must be a {shape} matrix; got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"{name} must be finite; element ({i}, {j}) is {matrix[i, j]}")
    scale = np.sqrt(np.abs(np.diag(matrix)))  # units may differ by many orders of magnitude
    excess = np.abs(matrix - matrix.T) - _SYMMETRY_TOLERANCE * np.outer(scale, scale)
    if excess.max(initial=0.0) > 0:
        i, j = np.unravel_index(np.argmax(excess), excess.shape)
        raise InputError(
            f"{name} must be symmetric; element ({i}, {j}) is {matrix[i, j]:.6g}, "
            f"element ({j}, {i}) is {matrix[j, i]:.6g}"
        )
    return (matrix + matrix.T) / 2
