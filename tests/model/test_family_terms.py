"""The posterior laid out in compiled code against the one that is built with numpy."""

import numpy as np
import pytest

from mtgbn.model.family_terms import family_terms
from mtgbn.model.posterior import value_and_gradient
from mtgbn.paper.posterior import build_posterior


def random_tasks(rng, m, p, density):
    order = rng.permutation(p)
    adjacencies = np.array([np.triu(rng.random((p, p)) < density, 1) for _ in range(m)])
    adjacencies = adjacencies[:, order][:, :, order]
    adjacencies[m // 2 :] = adjacencies[0]  # families that occur often
    rows = rng.standard_normal((m, 30, p))
    return adjacencies, np.einsum("tni,tnj->tij", rows, rows), rng.uniform(5, 40, m)


@pytest.mark.parametrize(
    ("m", "p", "density"), [(1, 2, 0.0), (3, 10, 0.2), (9, 7, 1.0), (40, 5, 0.5), (4, 30, 0.3)]
)
def test_value_and_gradient_against_numpy(m, p, density):
    rng = np.random.default_rng(m + p)
    adjacencies, scatters, ns = random_tasks(rng, m, p, density)
    members = rng.random(m) < 0.7
    members[0] = True
    delta = 12.5
    built = build_posterior(
        adjacencies[members], scatters[members], ns[members], delta + p - 1, checked=True
    )
    ties = np.tile(members[:, None], (1, p))
    compiled = built._replace(terms=family_terms(adjacencies, ties, scatters, ns, delta))
    root = rng.standard_normal((p, 3 * p))
    expected, expected_gradient = value_and_gradient(built, root @ root.T)
    value, gradient = value_and_gradient(compiled, root @ root.T)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-12)
    # and no more work: families that tasks have in common are merged
    np.testing.assert_array_equal(compiled.terms.counts, built.terms.counts)
    np.testing.assert_array_equal(compiled.terms.outer_sizes, built.terms.outer_sizes)


def test_without_members_there_are_no_terms():
    """Without members the likelihood says nothing of sigma_h."""
    adjacencies, scatters, ns = random_tasks(np.random.default_rng(0), 3, 4, 0.5)
    terms = family_terms(adjacencies, np.zeros((3, 4), dtype=bool), scatters, ns, 5.0)
    assert terms.counts.size == terms.positions.size == terms.coefficients.size == 0


def test_terms_of_tied_and_of_own_families_add_up():
    """The likelihood is a sum over families, whichever are tied."""
    rng = np.random.default_rng(5)
    m, p, delta = 6, 5, 7.5
    adjacencies, scatters, ns = random_tasks(rng, m, p, 0.5)
    built = build_posterior(adjacencies, scatters, ns, delta + p - 1, checked=True)
    ties = rng.random((m, p)) < 0.6
    root = rng.standard_normal((p, 3 * p))
    values = [
        value_and_gradient(
            built._replace(terms=family_terms(adjacencies, chosen, scatters, ns, delta)),
            root @ root.T,
        )
        for chosen in (np.ones((m, p), dtype=bool), np.zeros((m, p), dtype=bool), ties, ~ties)
    ]
    everything, nothing, tied, others = (value for value, _ in values)
    assert tied - nothing + others - nothing == pytest.approx(everything - nothing, rel=1e-12)
    gradients = [gradient for _, gradient in values]
    np.testing.assert_allclose(
        gradients[2] + gradients[3], gradients[0] + gradients[1], rtol=1e-9, atol=1e-9
    )
