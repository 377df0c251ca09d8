"""The compiled kernel of log-determinants against explicit submatrices."""

import os
import subprocess
import sys

import naive
import numpy as np
import pytest

from mtgbn.model.densities import log_normaliser
from mtgbn.model.log_determinants import LANES, batch, log_determinants, workspace
from mtgbn.model.signed_sets import SignedSets


def random_pairs(rng, p, sizes):
    """Nested pairs of the given (outer, inner) sizes in random order."""
    members = [rng.permutation(p)[:outer] for outer, _ in sizes]
    starts = np.concatenate([[0], np.cumsum([outer for outer, _ in sizes])])
    inner_sizes = np.array([inner for _, inner in sizes])
    return SignedSets(np.concatenate(members), starts, inner_sizes, np.ones(len(sizes)))


def run(sets, outer, inner, owners, shifts, sigma_h):
    """Value and symmetric gradient of the kernel."""
    p = len(sigma_h)
    terms = batch(sets, outer, inner, owners, shifts)
    # the upper triangle must not be read
    lower = np.where(np.tri(p, dtype=bool), sigma_h, np.nan).ravel()
    gradient = np.zeros(p * p)
    value = log_determinants(terms, lower, gradient, workspace(terms))
    gradient = gradient.reshape(p, p)
    assert not np.triu(gradient, 1).any()
    return value, gradient + np.tril(gradient, -1).T


def naive_sum(sets, outer, inner, owners, shifts, sigma_h):
    value, gradient = 0.0, np.zeros(sigma_h.shape)
    for b, (start, stop) in enumerate(zip(sets.starts, sets.starts[1:], strict=False)):
        members = sets.members[start:stop]
        matrix = sigma_h + shifts[owners[b]]
        for chosen, coefficient in (
            (members, outer[b]),
            (members[: sets.inner_sizes[b]], inner[b]),
        ):
            if len(chosen):
                block = naive.submatrix(matrix, chosen)
                value += coefficient * naive.log_determinant(block)
                gradient[np.ix_(chosen, chosen)] += coefficient * np.linalg.inv(block)
    return value, gradient


def check(rng, sets, p, m, equal_coefficients=False):
    n = len(sets.weights)
    outer, inner = rng.standard_normal((2, n))
    if equal_coefficients:
        outer[:], inner[:] = outer[0], inner[0]
    owners = rng.integers(m, size=n)
    shifts = np.array([naive.random_covariance(rng, p) for _ in range(m)])
    sigma_h = naive.random_covariance(rng, p)
    arguments = (sets, outer, inner, owners, shifts, sigma_h)
    value, gradient = run(*arguments)
    expected, expected_gradient = naive_sum(*arguments)
    # Terms of both signs cancel, so the bound is relative to their number.
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-12 * n * p)
    scale = np.sqrt(np.outer(np.diag(sigma_h), np.diag(sigma_h)))
    size = np.abs(expected_gradient * scale).max()
    np.testing.assert_allclose(gradient * scale, expected_gradient * scale, atol=1e-11 * size)


@pytest.mark.parametrize("size", range(1, 41))
def test_every_size(size):
    rng = np.random.default_rng(size)
    inner = sorted({0, 1, size // 2, size - 1, size} & set(range(size + 1)))
    check(rng, random_pairs(rng, 42, [(size, k) for k in inner]), 42, 2)


@pytest.mark.parametrize("count", [1, LANES - 1, LANES, LANES + 1, 2 * LANES, 3 * LANES + 5])
@pytest.mark.parametrize("equal_coefficients", [False, True])
def test_every_number_of_lanes(count, equal_coefficients):
    rng = np.random.default_rng(count)
    check(rng, random_pairs(rng, 8, [(4, 3)] * count), 8, 3, equal_coefficients)


def test_a_mixture_of_sizes():
    rng = np.random.default_rng(0)
    outer = rng.integers(0, 12, size=500)
    sizes = [(size, rng.integers(0, size + 1)) for size in outer]
    check(rng, random_pairs(rng, 12, sizes), 12, 5)


def test_the_gradient_is_added_to():
    rng = np.random.default_rng(0)
    terms = batch(
        random_pairs(rng, 3, [(2, 1)]),
        np.ones(1),
        np.ones(1),
        np.zeros(1, int),
        np.zeros((1, 3, 3)),
    )
    first, again = np.zeros(9), np.ones(9)
    for gradient in (first, again):
        log_determinants(terms, np.eye(3).ravel(), gradient, workspace(terms))
    np.testing.assert_allclose(again, first + 1)


def spread_of_pivots(kind, size, rng):
    """Logarithms of standard deviations, in an order that is hard on products of pivots."""
    decades = {
        "huge": np.full(size, 20.0),
        "tiny": np.full(size, -20.0),
        "mixed": rng.uniform(-20, 20, size),
        "alternating": np.resize([20.0, -20.0], size),
        "huge, then tiny": np.repeat([20.0, -20.0], [size - size // 2, size // 2]),
        "tiny, then huge": np.repeat([-20.0, 20.0], [size - size // 2, size // 2]),
    }[kind]
    return decades * np.log(10)


# Variances from 1e-40 to 1e40. With "huge, then tiny" the product of the reciprocals of the pivots
# passes through every scale down to 1e-800 and back; 12 to 18 are the sizes at which it bottoms out
# where doubles have few digits left.
@pytest.mark.parametrize("n_sets", [1, 3 * LANES])
@pytest.mark.parametrize("share", [0, 1 / 3])
@pytest.mark.parametrize("size", [1, 2, 7, 12, 14, 15, 16, 17, 18, 40])
@pytest.mark.parametrize(
    "kind", ["huge", "tiny", "mixed", "alternating", "huge, then tiny", "tiny, then huge"]
)
def test_extreme_scales(kind, size, share, n_sets):
    rng = np.random.default_rng(size)
    inner = slice(int(share * size))
    correlated = naive.random_covariance(rng, size, spread=0.3)
    log_scale = spread_of_pivots(kind, size, rng)
    scale = np.exp(log_scale)
    matrix = correlated * np.outer(scale, scale)
    sets = SignedSets(
        np.tile(np.arange(size), n_sets),
        size * np.arange(n_sets + 1),
        np.full(n_sets, inner.stop),
        np.ones(n_sets),
    )
    value, gradient = run(
        sets,
        np.full(n_sets, 0.75),
        np.full(n_sets, -0.5),
        np.zeros(n_sets, dtype=int),
        np.zeros((1, size, size)),
        matrix,
    )
    expected = 0.75 * (np.linalg.slogdet(correlated)[1] + 2 * log_scale.sum())
    expected_gradient = 0.75 * np.linalg.inv(correlated)
    if inner.stop:
        block = correlated[inner, inner]
        expected -= 0.5 * (np.linalg.slogdet(block)[1] + 2 * log_scale[inner].sum())
        expected_gradient[inner, inner] -= 0.5 * np.linalg.inv(block)
    assert value == pytest.approx(n_sets * expected, rel=1e-11, abs=1e-11 * n_sets * size)
    np.testing.assert_allclose(
        gradient * np.outer(scale, scale), n_sets * expected_gradient, rtol=1e-9, atol=1e-9 * n_sets
    )


@pytest.mark.parametrize("size", range(10, 22))
def test_scales_in_a_normaliser(size):
    rng = np.random.default_rng(size)
    variances = np.repeat([1.37e40, 1e-40], [size - size // 2, size // 2])
    variances *= rng.uniform(0.5, 2, size)
    d = 3.0
    half = (d + size - 1) / 2
    expected = naive.log_multigamma(half, size) - half * np.log(variances / 2).sum()
    value = log_normaliser([(+1, range(size))], d, np.diag(variances))
    assert value == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("place", [0, LANES - 1, LANES, 2 * LANES])
@pytest.mark.parametrize("bad", ["negative", "indefinite", "singular", "nan"])
def test_a_matrix_that_is_not_positive_definite_gives_minus_infinity(place, bad):
    count = 2 * LANES + 1
    good = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]])
    spoiled = {
        "negative": -np.eye(3),
        "indefinite": np.array([[1.0, 0, 0], [0, 1.0, 2.0], [0, 2.0, 1.0]]),
        "singular": np.array([[1.0, 0, 0], [0, 1.0, 1.0], [0, 1.0, 1.0]]),
        "nan": np.full((3, 3), np.nan),
    }[bad]
    sets = SignedSets(
        np.tile(np.arange(3), count), 3 * np.arange(count + 1), np.full(count, 1), np.ones(count)
    )
    owners = np.zeros(count, dtype=int)
    coefficients = np.ones(count), np.ones(count)
    shifts = np.stack([good, spoiled])
    value, _ = run(sets, *coefficients, owners, shifts, np.zeros((3, 3)))
    assert value == pytest.approx(count * (np.linalg.slogdet(good)[1] + np.log(2)), rel=1e-12)
    owners[place] = 1
    value, _ = run(sets, *coefficients, owners, shifts, np.zeros((3, 3)))
    assert value == -np.inf


SMALL_PROBLEM = """
import numpy as np, sys
from numba import config
from mtgbn.model.coordinates import log_posterior_unconstrained
from mtgbn.model.edge_prior import EdgeTerms, add_log_odds, directed_counts, log_probability_of_edges
from mtgbn.model.family_terms import family_terms
from mtgbn.model.log_determinants import LANES
from mtgbn.paper.posterior import build_posterior, log_posterior
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS
rng = np.random.default_rng(7)
p, m = 9, 20  # more families of one size than lanes, and rows beyond one block
adjacencies = np.array([np.triu(rng.random((p, p)) < 0.12, 1) for _ in range(m)])
data = rng.standard_normal((m, 12, p))
scatters = data.transpose(0, 2, 1) @ data
numbers = []
for prior in STRUCTURE_PRIORS:
    posterior = build_posterior(adjacencies, scatters, np.full(m, 12.0), p + 1.5, prior)
    numbers.append(log_posterior(np.eye(p), adjacencies, scatters, np.full(m, 12.0), p + 1.5, prior))
    x = 0.1 * rng.standard_normal(p * (p + 1) // 2)
    numbers.append(log_posterior_unconstrained(x, posterior, np.eye(p) + 0.2))
members = np.arange(m) % 3 > 0
terms = family_terms(adjacencies, np.tile(members[:, None], (1, p)), scatters, np.full(m, 12.0), 2.5)
posterior = posterior._replace(terms=terms, prior_scales=np.ones(p))
numbers.append(log_posterior_unconstrained(x, posterior, np.eye(p) + 0.2))
groups = np.arange(m) % 2
n_second = groups[members].sum()
shape = 3, members.sum() - n_second + 2, n_second + 2
tables = np.log(np.linspace(0.9, 0.1, np.prod(shape))).reshape(shape)
single = np.full((p, p), -2.0)
edges = EdgeTerms(np.full((p, p), 0.1), 3.0, 2.0, single, members.sum(), tables)
counts = directed_counts(adjacencies, members, groups)
free = ~np.eye(p, dtype=bool)
log_odds = np.zeros((m, p, p))
add_log_odds(edges, adjacencies, members, groups, counts, log_odds)
value = log_probability_of_edges(edges, adjacencies, members, counts, free)
numbers.append((value, log_odds))
flat = np.concatenate([np.r_[value, gradient.ravel()] for value, gradient in numbers])
assert np.bincount(adjacencies.sum(axis=1).ravel()).max() > LANES
sys.stdout.write(f"{bool(config.DISABLE_JIT)} " + " ".join(float(v).hex() for v in flat))
"""


def small_problem(disable_jit):
    environment = os.environ | {"NUMBA_DISABLE_JIT": str(int(disable_jit))}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_PROBLEM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    disabled, *numbers = done.stdout.split()
    assert disabled == str(disable_jit)
    return np.array([float.fromhex(number) for number in numbers])


def test_the_interpreter_gives_the_same_numbers():
    # Compiled code does not notice an index out of bounds, the interpreter raises.
    compiled, interpreted = small_problem(False), small_problem(True)
    assert np.isfinite(compiled).all()
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-11, atol=1e-11)
