"""Kernels for Cholesky factors of small principal submatrices, and for solving with them."""

import numpy as np

from mtgbn._utils.compiled import kernel


@kernel(error_model="numpy")
def factorise(matrix, members, size, factor):
    """Write the lower Cholesky factor of the submatrix of the first ``size`` members.

    Returns False if the submatrix is not positive definite; the factor then contains NaN.
    """
    is_definite = True
    for i in range(size):
        for j in range(i + 1):
            value = matrix[members[i], members[j]]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            if i == j:
                is_definite = is_definite and value > 0.0
                factor[i, i] = np.sqrt(value)
            else:
                factor[i, j] = value / factor[j, j]
    return is_definite


@kernel(error_model="numpy")
def solve_forward(factor, vector, size):
    """Solve L x = vector in place."""
    for i in range(size):
        value = vector[i]
        for k in range(i):
            value -= factor[i, k] * vector[k]
        vector[i] = value / factor[i, i]


@kernel(error_model="numpy")
def solve_backward(factor, vector, size):
    """Solve L' x = vector in place."""
    for back in range(size):
        i = size - 1 - back
        value = vector[i]
        for k in range(i + 1, size):
            value -= factor[k, i] * vector[k]
        vector[i] = value / factor[i, i]
