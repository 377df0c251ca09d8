"""Value and gradient in unconstrained coordinates, against the same density in JAX with autodiff.

The JAX version uses the same algebra: the same merged list of nested pairs, grouped by size, with
one batched Cholesky factor per group. The comparison is between the compiled kernel with its
hand-written derivative and XLA with automatic differentiation. Both run as in a sampler, many
evaluations inside one compiled loop.

The share of peak is the rate of floating-point operations, counted loop by loop, divided by the
rate of one core in the product of two large matrices by BLAS, measured in turns with the rest.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.problems import interleaved_times, random_posterior, table
from mtgbn.model.coordinates import coordinates_workspace, unconstrained_value_and_gradient
from mtgbn.model.posterior import Posterior

jax.config.update("jax_enable_x64", True)

SIZES = [(10, 15), (10, 46), (100, 46), (10, 116), (50, 116), (10, 400)]

# The peak of the processor is measured by a product of two square matrices of this size.
PEAK_SIZE = 1000
STEPS, STEP_SIZE = 20, 1e-9


def jax_value_and_gradient(posterior: Posterior, centre_factor: np.ndarray):
    p = posterior.n_variables
    groups = []
    start = coefficient_start = 0
    terms = posterior.terms
    for size, inner, count in zip(terms.outer_sizes, terms.inner_sizes, terms.counts, strict=True):
        stop = start + size * (size + 1) // 2 * count
        positions = terms.positions[start:stop].reshape(-1, count).astype(int)
        shifts = terms.shifts[start:stop].reshape(-1, count)
        rows, columns = np.tril_indices(size)
        square = np.zeros((count, size, size))
        square[:, rows, columns] = shifts.T
        square[:, columns, rows] = shifts.T
        members = positions[rows == columns].T // p
        coefficients = terms.coefficients[coefficient_start : coefficient_start + 2 * count]
        inner_coefficients, outer_coefficients = coefficients.reshape(2, count, 1)
        weights = np.where(np.arange(size) < inner, inner_coefficients, outer_coefficients)
        groups.append(tuple(map(jnp.array, (members, square, weights))))
        start, coefficient_start = stop, coefficient_start + 2 * count
    lower = np.tril_indices(p)
    diagonal = np.nonzero(lower[0] == lower[1])[0]
    exponents = 2 * posterior.full_coefficient + p + 1 - np.arange(p)
    constant = posterior.constant
    constant += 2 * posterior.full_coefficient * np.log(np.diag(centre_factor)).sum()
    centre = jnp.array(centre_factor)

    def log_density(x):
        triangle = jnp.zeros((p, p)).at[lower].set(x.at[diagonal].set(jnp.exp(x[diagonal])))
        factor = centre @ triangle
        sigma_h = factor @ factor.T
        value = constant + exponents @ x[diagonal]
        for members, shifts, weights in groups:
            matrices = sigma_h[members[:, :, None], members[:, None, :]] + shifts
            pivots = jnp.diagonal(jnp.linalg.cholesky(matrices), axis1=1, axis2=2)
            value += 2 * jnp.sum(weights * jnp.log(pivots))
        return value

    return jax.value_and_grad(log_density)


@njit(nogil=True)
def ascend(posterior, centre_factor, x, gradient, work):
    for _ in range(STEPS):
        value = unconstrained_value_and_gradient(posterior, centre_factor, x, gradient, work)
        x += STEP_SIZE * gradient
    return value


def jax_ascend(value_and_gradient):
    def step(x, _):
        value, gradient = value_and_gradient(x)
        return x + STEP_SIZE * gradient, value

    return jax.jit(lambda x: jax.lax.scan(step, x, None, length=STEPS))


def operations(posterior: Posterior) -> float:
    """Number of additions and multiplications of one evaluation."""
    p = posterior.n_variables
    total = 5 * p**3 / 3  # L0 Z, L L', 2 G L and L0' R, of triangles
    for size, count in zip(posterior.terms.outer_sizes, posterior.terms.counts, strict=True):
        each = 0
        for r in range(int(size)):
            each += sum(2 * c + 3 for c in range(r)) + 1  # elimination
            each += sum(2 * (r - c - 1) + 1 for c in range(r))  # inversion
            each += 2 + sum(2 + 2 * (i + 1) for i in range(r))  # derivative
        total += each * int(count)
    return total


def multiply(square: np.ndarray) -> None:
    with threadpool_limits(limits=1, user_api="blas"):
        square @ square


def run_jax(loop, x):
    loop(x)[0].block_until_ready()


def main(seconds: float = 2.0) -> str:
    rows = []
    square = np.random.default_rng(0).standard_normal((PEAK_SIZE, PEAK_SIZE))
    for m, p in SIZES:
        posterior, centre_factor = random_posterior(m, p)
        x = 0.01 * np.random.default_rng(1).standard_normal(p * (p + 1) // 2)
        gradient = np.empty_like(x)
        work = coordinates_workspace(posterior)
        theirs = jax_value_and_gradient(posterior, centre_factor)
        value = unconstrained_value_and_gradient(posterior, centre_factor, x, gradient, work)
        jax_value, jax_gradient = jax.jit(theirs)(x)
        np.testing.assert_allclose(value, jax_value, rtol=1e-10)
        np.testing.assert_allclose(gradient, jax_gradient, rtol=1e-7, atol=1e-7)
        times = interleaved_times(
            {
                "mtgbn": partial(ascend, posterior, centre_factor, x, gradient, work),
                "jax": partial(run_jax, jax_ascend(theirs), x),
                "peak": partial(multiply, square),
            },
            seconds,
        )
        peak = 2 * PEAK_SIZE**3 / times["peak"]
        rate = STEPS * operations(posterior) / times["mtgbn"]
        rows.append(
            [
                m,
                p,
                f"{times['mtgbn'] / STEPS * 1e6:.0f}",
                f"{times['jax'] / STEPS * 1e6:.0f}",
                f"{times['jax'] / times['mtgbn']:.1f}",
                f"{rate / 1e9:.1f}",
                f"{peak / 1e9:.1f}",
                f"{rate / peak:.0%}",
            ]
        )
    header = ["m", "p", "mtgbn, us", "JAX, us", "ratio", "GFLOP/s", "peak", "share of peak"]
    return table(header, rows)


if __name__ == "__main__":
    print(main())
