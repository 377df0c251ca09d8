"""Slow, obvious versions of the formulas of docs/model.md: the oracles of the tests.

Sets are explicit tuples, determinants come from ``slogdet`` of explicit submatrices, and nothing is
shared with the package but a triangulation where the moral graph needs one. Every density also takes
complex matrices: with M + i h E the imaginary part of f, over h, is the derivative along E without
cancellation.
"""

import itertools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln, zeta

from mtgbn.graphs.chordal import triangulate

COMPLEX_STEP = 1e-30


def log_determinant(matrix):
    sign, log_absolute = np.linalg.slogdet(matrix)
    if np.iscomplexobj(matrix):
        return log_absolute + np.log(sign)
    assert sign > 0
    return log_absolute


def log_multigamma(x, a):
    return a * (a - 1) / 4 * np.log(np.pi) + sum(gammaln(x - j / 2) for j in range(a))


def submatrix(matrix, variables):
    return np.array([[matrix[i, j] for j in variables] for i in variables])


def ell(variables, d, matrix):
    a = len(variables)
    if a == 0:
        return 0.0
    half = (d + a - 1) / 2
    return log_multigamma(half, a) - half * log_determinant(submatrix(matrix, variables) / 2)


def parents_of(adjacency, k):
    return tuple(j for j in range(len(adjacency)) if adjacency[j][k])


def family_score(prior, delta, scatter, n, node, parents):
    """Log marginal likelihood of one family, given its prior matrix."""
    value = -n / 2 * np.log(2 * np.pi)
    for sign, variables in ((1, (*parents, node)), (-1, tuple(parents))):
        value += sign * ell(variables, delta + n, prior + scatter)
        value -= sign * ell(variables, delta, prior)
    return value


def family_sets(adjacency):
    """Signed sets of a DAG."""
    sets = []
    for k in range(len(adjacency)):
        parents = parents_of(adjacency, k)
        sets += [(+1, (*parents, k)), (-1, parents)]
    return sets


def moral_graph(adjacency):
    p = len(adjacency)
    moral = np.zeros((p, p), dtype=bool)
    for k in range(p):
        family = (*parents_of(adjacency, k), k)
        for i, j in itertools.permutations(family, 2):
            moral[i, j] = True
    return moral


def elimination_sets(adjacency):
    """Signed sets of a chordal graph, one simplicial node after the other; None if it is not chordal."""
    left, sets = set(range(len(adjacency))), []
    while left:
        for node in sorted(left):
            around = tuple(j for j in sorted(left) if adjacency[node][j])
            if all(adjacency[i][j] for i, j in itertools.combinations(around, 2)):
                sets += [(+1, (node, *around)), (-1, around)]
                left.remove(node)
                break
        else:
            return None
    return sets


def triangulated_sets(adjacency):
    moral = moral_graph(adjacency)
    return elimination_sets(moral) or elimination_sets(triangulate(moral))


def log_normaliser(sets, d, matrix):
    return sum(sign * ell(variables, d, matrix) for sign, variables in sets)


def log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0):
    p = len(sigma_h)
    delta = nu0 - p + 1
    sets = family_sets(adjacency)
    return (
        -n * p / 2 * np.log(2 * np.pi)
        + log_normaliser(sets, delta + n, sigma_h + scatter)
        - log_normaliser(sets, delta, sigma_h)
    )


def log_structure_prior(adjacency, sigma_h, nu0, kind):
    p = len(sigma_h)
    delta = nu0 - p + 1
    everything = ell(tuple(range(p)), delta, sigma_h)
    if kind == "uniform":
        return 0.0
    if kind == "restricted":
        return log_normaliser(family_sets(adjacency), delta, sigma_h) - everything
    if kind == "decomposable":
        return log_normaliser(triangulated_sets(adjacency), delta, sigma_h) - everything
    assert kind == "scale_free"
    scale = np.sqrt(np.diag(sigma_h))
    correlations = sigma_h / np.outer(scale, scale)
    value = nu0 / 2 * log_determinant(correlations)
    for sign, variables in family_sets(adjacency):
        if variables:
            block = submatrix(correlations, variables)
            value -= sign * (delta + len(variables) - 1) / 2 * log_determinant(block)
    return value


def log_posterior(sigma_h, adjacencies, scatters, ns, nu0, kind):
    return sum(
        log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
        + log_structure_prior(adjacency, sigma_h, nu0, kind)
        for adjacency, scatter, n in zip(adjacencies, scatters, ns, strict=True)
    )


def log_posterior_up_to_a_constant(sigma_h, adjacencies, scatters, ns, nu0, kind):
    """Theorem 3 as printed in docs/model.md, kind by kind."""
    p = len(sigma_h)
    delta = nu0 - p + 1
    total = 0.0
    for adjacency, scatter, n in zip(adjacencies, scatters, ns, strict=True):
        sets = family_sets(adjacency)
        total += log_normaliser(sets, delta + n, sigma_h + scatter)
        if kind in ("restricted", "scale_free"):
            total += nu0 / 2 * log_determinant(sigma_h)
        if kind == "scale_free":
            for j in range(p):
                neighbours = sum(bool(adjacency[j][k] or adjacency[k][j]) for k in range(p))
                total += (neighbours - (p - 1)) / 2 * np.log(sigma_h[j, j])
        if kind in ("uniform", "decomposable"):
            total -= log_normaliser(sets, delta, sigma_h)
        if kind == "decomposable":
            total += log_normaliser(triangulated_sets(adjacency), delta, sigma_h)
            total -= ell(tuple(range(p)), delta, sigma_h)
    return total


def frequencies_of_pairs(kinds):
    """All frequencies that a pair may have in all tasks, with their prior probabilities."""
    absent, common, varying, rare, usual, _ = kinds
    grid = [(k / 16, varying / 15) for k in range(1, 16)]
    return [(rare, absent), *grid, (usual, common)]


def places_of_different_pairs():
    """Places of the frequencies in two groups that a pair may have which is different."""
    return [(k, other) for k in range(17) for other in range(17) if abs(k - other) >= 4]


def log_probability_of_pair(kinds, present, lacking, present_second=0, lacking_second=0):
    """Log probability that given tasks have a pair and given others do not, by kinds of pairs.

    The first numbers are those of the first group, or of all tasks.
    """
    frequencies, weights = np.transpose(frequencies_of_pairs(kinds))

    def likelihood(place, present, lacking):
        return frequencies[place] ** present * (1 - frequencies[place]) ** lacking

    same = sum(
        weights[k] * likelihood(k, present + present_second, lacking + lacking_second)
        for k in range(17)
    )
    places = places_of_different_pairs()
    different = sum(
        likelihood(k, present, lacking) * likelihood(other, present_second, lacking_second)
        for k, other in places
    )
    return np.log(same + kinds[5] * different / len(places))


def log_probability_of_skeletons(density, similarity, counts, n_tasks, free=None):
    """Joint log prior of skeletons, of which ``counts`` (p, p) have each pair: Beta functions.

    ``density`` is (p, p); without ``free`` (p, p) all pairs count.
    """
    pairs = np.triu_indices(len(counts), 1)
    is_counted = np.ones(len(pairs[0]), dtype=bool) if free is None else free[pairs]
    r, present = density[pairs][is_counted], counts[pairs][is_counted]
    absent = n_tasks - present
    if np.isinf(similarity):
        return np.sum(present * np.log(r) + absent * np.log(1 - r))
    a, b = similarity * r, similarity * (1 - r)
    return np.sum(betaln(a + present, b + absent) - betaln(a, b))


def log_probability_of_directions(directed_counts, agreement):
    """Log prior of the directions, i -> j in ``directed_counts[i, j]`` tasks; 0 if not shared.

    It is relative to directions by the toss of a coin, as in docs/model.md.
    """
    if np.isinf(agreement):
        return 0.0
    pairs = np.triu_indices(len(directed_counts), 1)
    forward, backward = directed_counts[pairs], directed_counts.T[pairs]
    of_shares = betaln(agreement + forward, agreement + backward) - betaln(agreement, agreement)
    return np.sum(of_shares + (forward + backward) * np.log(2))


def log_odds_of_edge(density, similarity, agreement, *, forward, backward, n_others):
    """Log prior odds of i -> j, which ``forward`` of ``n_others`` tasks have; ``backward`` have j -> i.

    These are predictive probabilities of Beta distributions.
    """
    joined = forward + backward
    log_odds = np.log(density / (1 - density))
    if np.isfinite(similarity):
        a, b = similarity * density, similarity * (1 - density)
        log_odds = np.log((a + joined) / (b + n_others - joined))
    if np.isfinite(agreement):
        log_odds += np.log(2 * (agreement + forward) / (2 * agreement + joined))
    return log_odds


def symmetric_gradient(function, matrix):
    """G with d function = tr(G d matrix) for symmetric d matrix, by complex steps."""
    p = len(matrix)
    gradient = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            direction = np.zeros((p, p))
            direction[i, j] = direction[j, i] = 1.0
            slope = np.imag(function(matrix + 1j * COMPLEX_STEP * direction)) / COMPLEX_STEP
            gradient[i, j] = gradient[j, i] = slope if i == j else slope / 2
    return gradient


def sigma_h_of(x, centre):
    """Unconstrained vector to matrix, element by element."""
    p = len(centre)
    triangle = np.zeros((p, p), dtype=np.asarray(x).dtype)
    elements = iter(x)
    for i in range(p):
        for j in range(i + 1):
            element = next(elements)
            triangle[i, j] = np.exp(element) if i == j else element
    factor = np.linalg.cholesky(centre) @ triangle
    return factor @ factor.T


def jacobian(x, centre):
    """Derivative of the lower triangle of sigma_h by x, by complex steps."""
    p = len(centre)
    lower = np.tril_indices(p)
    columns = []
    for k in range(len(x)):
        step = np.zeros(len(x), dtype=complex)
        step[k] = 1j * COMPLEX_STEP
        columns.append(np.imag(sigma_h_of(x + step, centre)[lower]) / COMPLEX_STEP)
    return np.column_stack(columns)


def random_dag(rng, p, density):
    """DAG in a random order of the nodes."""
    order = rng.permutation(p)
    adjacency = np.zeros((p, p), dtype=bool)
    for first, second in itertools.combinations(range(p), 2):
        adjacency[order[first], order[second]] = rng.random() < density
    return adjacency


def random_covariance(rng, p, spread=1.0):
    """Well-conditioned correlations with standard deviations of very different sizes."""
    data = rng.standard_normal((3 * p + 2, p))
    scale = np.exp(spread * rng.standard_normal(p))
    return data.T @ data / len(data) * np.outer(scale, scale)


def covered_edges(adjacency):
    """Edges i -> j with Pa_j = Pa_i + i: those whose reversal keeps the equivalence class."""
    return [
        (i, j)
        for i, j in zip(*np.nonzero(adjacency), strict=True)
        if {*parents_of(adjacency, i), i} == set(parents_of(adjacency, j))
    ]


def floored_logarithms(variances):
    """Logarithms of variances; those far below the median count as 1e-5 of it."""
    n, ordered = len(variances), sorted(variances)
    middle = ordered[n // 2] if n % 2 else sum(ordered[n // 2 - 1 : n // 2 + 1]) / 2
    return [math.log(max(each, 1e-5 * middle)) for each in variances]


def prior_degrees(variances, degrees, most=1e6):
    """Degrees of freedom of the distribution that the variances of one map come from.

    trigamma(x) is the sum of 1/(x + k)^2 over k >= 0: Hurwitz' zeta of 2.
    """
    n = len(variances)
    if n < 2:
        return 0
    logs = floored_logarithms(variances)
    mean = sum(logs) / n
    spread = sum((each - mean) ** 2 for each in logs) / (n - 1) - zeta(2, degrees / 2)
    if spread <= zeta(2, most / 2):
        return most
    return 2 * brentq(lambda x: zeta(2, x) - spread, 1e-6, most, xtol=1e-14, rtol=1e-14)


def moderated(variances, degrees, prior=None):
    """Variances of one map shrunk to each other, one after the other, and their degrees of freedom."""
    if prior is None:
        prior = prior_degrees(variances, degrees)
    if not prior:
        return list(variances), degrees
    mean = sum(floored_logarithms(variances)) / len(variances)
    mean += math.log(degrees / 2) - digamma(degrees / 2)
    scale = math.exp(mean + digamma(prior / 2) - math.log(prior / 2))
    total = prior + degrees
    return [(prior * scale + degrees * each) / total for each in variances], total


def standardised(ratio, r, degrees):
    """F with r and some degrees of freedom as chi-square per r, about; z for r = 1."""
    value = (degrees + r / 2 - 1) * np.log(1 + r * ratio / degrees) / r
    return np.sqrt(value) if r == 1 else value
