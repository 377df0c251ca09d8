"""Each formula that the paper prints wrongly: the printed one fails, the corrected one passes.

The numbers are those of the list in docs/model.md, section 9.
"""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, multigammaln

from mtgbn.errors import GraphError
from mtgbn.graphs.chordal import is_chordal, junction_tree, triangulate
from mtgbn.graphs.dags import moral_graph
from mtgbn.model.coordinates import (
    from_unconstrained,
    log_posterior_unconstrained,
    to_unconstrained,
)
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper.posterior import build_posterior, log_posterior
from mtgbn.paper.structure_priors import log_structure_prior

SIGMA_H = np.array([[3.0, 1.2], [1.2, 2.0]])
NU0 = 6.0
EMPTY = np.zeros((2, 2), dtype=bool)
SCATTER = np.array([[9.0, -4.0], [-4.0, 7.0]])
N = 8.0


def printed_log_h(matrix, cliques, separators, nu):
    """Equation (h) of the paper."""
    value = 0.0
    for sign, sets in ((1, cliques), (-1, separators)):
        for members in sets:
            half = (nu + len(members) - 1) / 2
            block = matrix[np.ix_(members, members)] / 2
            value += sign * (half * np.linalg.slogdet(block)[1] - multigammaln(half, len(members)))
    return value


def diagonal_precision_integral(log_integrand):
    """Log of an integral over two precisions, as 2 x 2 diagonal matrices."""
    value, error = integrate.dblquad(
        lambda a, b: np.exp(log_integrand(a, b)), 0, np.inf, 0, np.inf, epsabs=0, epsrel=1e-9
    )
    assert error < 1e-6 * value
    return np.log(value)


def wishart_at_zero(a, b):
    return stats.wishart.logpdf(np.diag([a, b]), NU0, np.linalg.inv(SIGMA_H))


class TestTheorem1:
    def test_erratum_1_prior_of_a_graph(self):
        truth = diagonal_precision_integral(wishart_at_zero)
        assert log_structure_prior(EMPTY, SIGMA_H, NU0, "restricted") == pytest.approx(
            truth, abs=1e-7
        )
        for nu in (NU0, NU0 - 1):  # as printed, and with delta where it belongs
            assert abs(printed_log_h(SIGMA_H, [[0], [1]], [], nu) - truth) > 0.5

    def test_erratum_1_printed_prior_rewards_contradicted_edges(self):
        # Wishart precisions around a strong correlation: an empty graph must be implausible.
        strong = np.array([[1.0, 0.95], [0.95, 1.0]])
        weak = np.eye(2)

        def support_for_edge(log_prior_empty, log_prior_complete):
            return log_prior_complete - log_prior_empty

        complete = np.triu(np.ones((2, 2), dtype=bool), 1)
        ours, printed = [], []
        for matrix in (weak, strong):
            ours.append(
                support_for_edge(
                    *(log_structure_prior(a, matrix, 20, "restricted") for a in (EMPTY, complete))
                )
            )
            printed.append(
                support_for_edge(
                    printed_log_h(matrix, [[0], [1]], [], 20),
                    printed_log_h(matrix, [[0, 1]], [], 20),
                )
            )
        assert ours[1] - ours[0] > 10
        assert printed[1] - printed[0] < -10


class TestTheorem2:
    def test_erratum_2_marginal_likelihood_of_a_subset(self):
        # One variable of two: its variance is inverse gamma with delta = nu0 - 1.
        prior = stats.invgamma((NU0 - 1) / 2, scale=SIGMA_H[0, 0] / 2)

        def integrand(variance):
            log_likelihood = -N / 2 * np.log(2 * np.pi * variance) - SCATTER[0, 0] / (2 * variance)
            return np.exp(log_likelihood) * prior.pdf(variance)

        truth = np.log(integrate.quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-10)[0])

        def printed(p):
            return (
                NU0 / 2 * np.log(SIGMA_H[0, 0])
                - (NU0 + N) / 2 * np.log(SIGMA_H[0, 0] + SCATTER[0, 0])
                + multigammaln((NU0 + N) / 2, p)
                - multigammaln(NU0 / 2, p)
                - N * p / 2 * np.log(np.pi)
            )

        assert abs(printed(2) - truth) > 0.5  # Gamma_p, pi^(n p/2) and nu0, as printed
        assert abs(printed(1) - truth) > 0.01  # the size of the set, but still nu0
        other = log_marginal_likelihood(SCATTER, N, EMPTY, SIGMA_H, NU0)
        swapped = np.ix_([1, 0], [1, 0])
        # the empty graph is two such factors
        second = log_marginal_likelihood(SCATTER[swapped], N, EMPTY, SIGMA_H[swapped], NU0)
        assert other == pytest.approx(second)
        factor = (
            (NU0 - 1) / 2 * np.log(SIGMA_H[1, 1])
            - (NU0 - 1 + N) / 2 * np.log(SIGMA_H[1, 1] + SCATTER[1, 1])
            + gammaln((NU0 - 1 + N) / 2)
            - gammaln((NU0 - 1) / 2)
            - N / 2 * np.log(np.pi)
        )
        assert other - factor == pytest.approx(truth, abs=1e-8)


class TestTheorem3:
    def brute_force(self, sigma_h):
        """P(B, D | sigma_h) of the empty graph: Wishart at zero off-diagonal times likelihood."""

        def log_integrand(a, b):
            log_likelihood = N / 2 * np.log(a * b) - (a * SCATTER[0, 0] + b * SCATTER[1, 1]) / 2
            log_likelihood -= N * np.log(2 * np.pi)
            return (
                stats.wishart.logpdf(np.diag([a, b]), NU0, np.linalg.inv(sigma_h)) + log_likelihood
            )

        return diagonal_precision_integral(log_integrand)

    def printed(self, sigma_h, nu):
        """The appendix's version, whose exponent the text has lost."""
        total = sigma_h + SCATTER
        return (
            NU0 / 2 * np.linalg.slogdet(sigma_h)[1]
            + printed_log_h(total, [[0], [1]], [], nu)
            - (NU0 + N) / 2 * np.linalg.slogdet(total)[1]
        )

    def test_erratum_3_posterior_of_sigma_h(self):
        other = np.array([[1.0, -0.4], [-0.4, 5.0]])
        truth = self.brute_force(SIGMA_H) - self.brute_force(other)
        ours = [
            log_posterior(s, [EMPTY], [SCATTER], [N], NU0, "restricted")[0]
            for s in (SIGMA_H, other)
        ]
        assert ours[0] - ours[1] == pytest.approx(truth, abs=1e-6)
        for nu in (NU0, NU0 + N):
            assert abs(self.printed(SIGMA_H, nu) - self.printed(other, nu) - truth) > 0.5
        # in the text: |sigma_h + n S| times (nu0 + n)/2, where a power is meant
        in_text = [
            NU0 / 2 * np.linalg.slogdet(s)[1]
            + printed_log_h(s + SCATTER, [[0], [1]], [], NU0)
            - np.linalg.slogdet(s + SCATTER)[1]
            for s in (SIGMA_H, other)
        ]
        assert abs(in_text[0] - in_text[1] - truth) > 0.5

    def test_erratum_3_printed_density_grows_without_bound(self):
        scales = [1e2, 1e4, 1e6, 1e8]
        printed = [self.printed(c * SIGMA_H, NU0 + N) for c in scales]
        assert np.all(np.diff(printed) > 1)
        ours = [
            log_posterior(c * SIGMA_H, [EMPTY], [SCATTER], [N], NU0, "restricted")[0]
            for c in scales
        ]
        assert np.all(np.diff(ours) < -1)

    def test_erratum_3_a_v_structure_is_not_its_moral_graph(self):
        # Theorem 3 puts the moral graph into the likelihood, the M-step the DAG: two models.
        collider = np.zeros((3, 3), dtype=bool)
        collider[[0, 1], 2] = True
        complete = np.triu(np.ones((3, 3), dtype=bool), 1)
        np.testing.assert_array_equal(moral_graph(collider), complete | complete.T)
        scatter = 10 * np.eye(3) + 3
        values = [
            log_marginal_likelihood(scatter, 12, graph, np.eye(3), 6)
            for graph in (collider, complete)
        ]
        assert abs(values[0] - values[1]) > 0.1


class TestTheorem4:
    """The gradient with respect to the log-Cholesky factor, against central differences."""

    p = 3
    cliques, separators = ([0, 1], [1, 2]), ([1],)
    chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    nu0 = 7.0
    ns = np.array([9.0, 14.0])

    def setup_method(self):
        rng = np.random.default_rng(3)
        rows = [
            rng.standard_normal((int(n), self.p)) @ [[1, 0.6, 0], [0, 1, 0.5], [0, 0, 1]]
            for n in self.ns
        ]
        self.scatters = [x.T @ x for x in rows]
        self.x = 0.3 * rng.standard_normal(self.p * (self.p + 1) // 2)
        self.lower = np.tril_indices(self.p)
        self.diagonal = self.lower[0] == self.lower[1]

    def differences(self, function, x, step=1e-5):
        return np.array(
            [(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(x.size)]
        )

    def test_erratum_4_jacobian(self):
        m = len(self.ns)
        weights = m * self.nu0 + self.p - np.arange(1, self.p + 1) + 2
        expected = self.differences(lambda v: weights @ v, self.x[self.diagonal])
        q = self.p * (self.p + 2 * m * self.nu0 + 3) / 2
        assert q == pytest.approx(
            weights.sum()
        )  # the printed constant is the sum of all of them ...
        printed = q * np.exp(self.x[self.diagonal])  # ... times diag(L), for every element
        np.testing.assert_allclose(weights, expected, rtol=1e-8)
        assert np.all(np.abs(printed / expected - 1) > 0.5)

    def test_erratum_4_gradient_of_h(self):
        def factor_of(entries):
            factor = np.zeros((self.p, self.p))
            factor[self.lower] = entries
            return factor

        nu, scatter = self.nu0 + self.ns[0], self.scatters[0]
        factor = np.linalg.cholesky(from_unconstrained(self.x))

        def log_h(entries):
            return printed_log_h(
                factor_of(entries) @ factor_of(entries).T + scatter,
                self.cliques,
                self.separators,
                nu,
            )

        expected = self.differences(log_h, factor[self.lower])

        def assembled(weight):
            total = np.zeros((self.p, self.p))
            for sign, sets in ((1, self.cliques), (-1, self.separators)):
                for c in sets:
                    block = np.linalg.inv((factor @ factor.T + scatter)[np.ix_(c, c)])
                    total[np.ix_(c, c)] += sign * weight(len(c)) * block
            return (total @ factor)[self.lower]

        np.testing.assert_allclose(assembled(lambda size: nu + size - 1), expected, rtol=1e-6)
        assert np.abs(assembled(lambda size: 2 * nu) / expected - 1).max() > 0.5  # as printed
        assert np.abs(assembled(lambda size: nu) / expected - 1).max() > 0.01  # without the 2

    def test_erratum_4_sum_over_tasks(self):
        adjacencies = [self.chain, self.chain]
        posterior = build_posterior(adjacencies, self.scatters, self.ns, self.nu0, "restricted")
        value, gradient = log_posterior_unconstrained(self.x, posterior)
        expected = self.differences(lambda x: log_posterior_unconstrained(x, posterior)[0], self.x)
        assert np.isfinite(value)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
        single = build_posterior(
            adjacencies[:1], self.scatters[:1], self.ns[:1], self.nu0, "restricted"
        )
        assert np.abs(log_posterior_unconstrained(self.x, single)[1] - expected).max() > 1

    def test_coordinates_are_the_papers(self):
        sigma_h = from_unconstrained(self.x)
        factor = np.linalg.cholesky(sigma_h)
        entries = np.where(
            self.diagonal, np.log(factor[self.lower].clip(1e-300)), factor[self.lower]
        )
        np.testing.assert_allclose(to_unconstrained(sigma_h), entries, atol=1e-12)


def test_erratum_5_a_moral_graph_need_not_be_decomposable():
    # a -> b -> c -> d and a -> e -> d: the parents c and e of d close the cycle a - b - c - e.
    dag = np.zeros((5, 5), dtype=bool)
    for i, j in ((0, 1), (1, 2), (2, 3), (0, 4), (4, 3)):
        dag[i, j] = True
    moral = moral_graph(dag)
    assert not is_chordal(moral)
    with pytest.raises(GraphError, match="0 - 1 - 2 - 4 - 0"):
        junction_tree(moral)
    assert is_chordal(triangulate(moral))
    assert np.isfinite(log_structure_prior(dag, np.eye(5) + 0.2, 9, "decomposable"))


def positive_definite_share(degrees, rng, p=15, nu0=60, density=0.3, n_tries=300):
    """Share of the thresholded precision matrices of section 7.1 that stay positive definite."""
    kept = round(density * p * p / 2)
    successes = 0
    for _ in range(n_tries):
        root = rng.standard_normal((p, degrees))
        sigma_h = root @ root.T
        sigma_h /= np.trace(sigma_h)
        precision = stats.wishart.rvs(nu0, np.linalg.inv(sigma_h), random_state=rng)
        size = np.abs(precision[np.triu_indices(p, 1)])
        thresholded = np.where(np.abs(precision) >= np.sort(size)[-kept], precision, 0.0)
        np.fill_diagonal(thresholded, np.diag(precision))
        successes += np.linalg.eigvalsh(thresholded)[0] > 0
    return successes / n_tries


def test_erratum_6_uniform_sigma_h_leaves_nothing_positive_definite():
    rng = np.random.default_rng(0)
    assert positive_definite_share(16, rng) == 0  # k = p + 1: uniform, given the trace
    assert positive_definite_share(30, rng) > 0.1


def test_erratum_7_p_values_of_table_4():
    # fmt: off
    printed = [
        0.0031, 0.0339, 0.0127, 0.2280, 0.0155, 0.2193, 0.1367, 0.3452, 0.0716, 0.0607, 0.1345,
        0.0708, 0.2714, 0.1279, 0.4721, 0.3563, 0.3575, 0.0014, 0.0680, 0.2321, 0.0493, 0.2045,
        0.6437, 0.3524, 0.0327, 0.6548, 0.7807,
    ]
    # fmt: on
    n = 15
    reachable = set()
    for a in range(n + 1):
        for b in range(n + 1):
            pooled = (a + b) / (2 * n)
            if 0 < pooled < 1:
                z = (a - b) / n / np.sqrt(2 * pooled * (1 - pooled) / n)
                reachable.add(round(float(stats.norm.sf(z)), 4))
    assert [p for p in printed if p not in reachable] == [0.4721]
