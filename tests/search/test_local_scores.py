"""Local scores against the public densities, which know nothing of increments."""

import naive
import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper.structure_priors import gather_prior_scores, log_structure_prior
from mtgbn.search.local_scores import (
    OwnFamilies,
    best_first,
    gather_scores,
    local_score,
    log_odds_of_ties,
    score_additions,
    score_differences,
    scores_workspace,
    thinned,
)

PRIORS = ("uniform", "restricted", "scale_free")


def random_problem(seed, p, n_draws, n=20):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    roots = rng.standard_normal((n_draws, p, 2 * p))
    return rows.T @ rows, n - 1.0, roots @ roots.transpose(0, 2, 1)


def random_dag(rng, p):
    order = rng.permutation(p)
    return np.triu(rng.random((p, p)) < 0.5, 1)[np.ix_(order, order)]


def graph_score(scores, adjacency):
    p = len(adjacency)
    work = scores_workspace(scores, p)
    return sum(
        local_score(scores, k, np.flatnonzero(adjacency[:, k]), adjacency[:, k].sum(), work)
        for k in range(p)
    )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_draws", [1, 7])
@pytest.mark.parametrize("p", [2, 5, 9])
def test_sums_are_the_mean_density_up_to_a_constant(prior, n_draws, p):
    scatter, n, draws = random_problem(p, p, n_draws)
    nu0 = p + 1.5
    odds = np.random.default_rng(0).standard_normal((p, p))
    odds = odds + odds.T
    scores = gather_prior_scores(scatter, n, draws, nu0, prior, odds)
    rng = np.random.default_rng(1)
    differences = []
    for _ in range(6):
        adjacency = random_dag(rng, p)
        expected = np.mean(
            [
                log_marginal_likelihood(scatter, n, adjacency, sigma_h, nu0)
                + log_structure_prior(adjacency, sigma_h, nu0, prior)
                for sigma_h in draws
            ]
        )
        expected += odds[adjacency].sum()
        differences.append(graph_score(scores, adjacency) - expected)
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)
    if prior == "uniform":
        np.testing.assert_allclose(differences, 0, atol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_additions_are_the_scores_of_larger_families(prior):
    p = 8
    scatter, n, draws = random_problem(3, p, 5)
    scores = gather_prior_scores(scatter, n, draws, p + 3.0, prior, -1.0)
    work = scores_workspace(scores, p)
    out = np.empty(p)
    for node, parents in ((0, []), (3, [1]), (5, [7, 0, 2]), (2, [0, 1, 3, 4, 5, 6])):
        parents = np.array(parents, dtype=np.int64)
        allowed = np.ones(p, dtype=bool)
        allowed[[node, *parents]] = False
        allowed[6] = False
        base = score_additions(scores, node, parents, len(parents), allowed, out, work)
        assert base == pytest.approx(
            local_score(scores, node, parents, len(parents), work), abs=1e-10
        )
        for a in range(p):
            if not allowed[a]:
                assert out[a] == -np.inf
                continue
            larger = np.array([*parents, a])
            expected = local_score(scores, node, larger, len(larger), work)
            assert out[a] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_thinned_scores_are_those_of_some_draws(prior):
    scatter, n, draws = random_problem(0, 6, 9)
    scores = gather_prior_scores(scatter, n, draws, 8.0, prior, 0.5)
    expected = gather_prior_scores(scatter, n, draws[[0, 4, 8]], 8.0, prior, 0.5)
    if prior == "scale_free":  # what it says of single edges is still the mean over all draws
        expected = expected._replace(edge_bonus=scores.edge_bonus)
    adjacency = random_dag(np.random.default_rng(0), 6)
    found = graph_score(thinned(scores, 3), adjacency)
    assert found == pytest.approx(graph_score(expected, adjacency), rel=1e-12)
    assert thinned(scores, 9) is scores


OWN = 0.07


def mixed_problem(p, n_draws=6):
    """Scores whose families may be own ones, and their score from the definition."""
    scatter, n, draws = random_problem(5, p, n_draws)
    draws *= np.exp(np.random.default_rng(1).normal(size=n_draws))[:, None, None]
    odds = np.random.default_rng(0).standard_normal((p, p))
    matrix, delta = np.diag(np.linspace(0.5, 3, p)), 2.5
    own = OwnFamilies(matrix, delta, np.log(OWN), np.log(1 - OWN))
    scores = gather_scores(scatter, n, draws, p + 3.0, odds, own=own)

    def components(node, parents):
        tied = [naive.family_score(draw, 4.0, scatter, n, node, parents) for draw in draws]
        return (
            np.log(1 - OWN) + np.mean(tied),
            np.log(OWN) + naive.family_score(matrix, delta, scatter, n, node, parents),
        )

    def expected(adjacency):
        families = [components(k, naive.parents_of(adjacency, k)) for k in range(p)]
        return odds[adjacency].sum() + sum(np.logaddexp(*each) for each in families)

    return scores, components, expected


def test_families_may_be_own_families():
    scores, components, expected = mixed_problem(5)
    rng = np.random.default_rng(2)
    graphs = [random_dag(rng, 5) for _ in range(5)]
    for graph in graphs:
        assert graph_score(scores, graph) == pytest.approx(expected(graph), abs=1e-8)
        found = log_odds_of_ties(scores, graph)
        each = [np.subtract(*components(k, naive.parents_of(graph, k))) for k in range(5)]
        np.testing.assert_allclose(found, each, atol=1e-8)
        assert (np.abs(found) < 30).any()  # or the smaller component would not be tested
    gains = score_differences(scores, graphs[0], graphs[1])
    assert gains.shape == (6,)
    assert np.ptp(gains) > 0.1
    assert gains.mean() == pytest.approx(expected(graphs[0]) - expected(graphs[1]), abs=1e-8)
    work = scores_workspace(scores, 5)
    out = np.empty(5)
    score_additions(scores, 2, np.array([4]), 1, np.arange(5) % 2 == 1, out, work)
    for a in (1, 3):
        larger = local_score(scores, 2, np.array([4, a]), 2, work)
        assert out[a] == pytest.approx(larger, abs=1e-9)


def test_own_families_stay_when_draws_are_thinned():
    scores, _, _ = mixed_problem(4, n_draws=1)
    repeated, _, _ = mixed_problem(4, n_draws=9)
    graph = random_dag(np.random.default_rng(0), 4)
    fewer = thinned(repeated, 3)
    assert (fewer.n_draws, fewer.starts[-1]) == (3, 4)
    assert thinned(scores, 3) is scores
    # The draws that are left, and the own families.
    lanes = repeated.matrices[:, :, [0, 4, 8, 9, 10, 14, 18, 19]]
    np.testing.assert_array_equal(fewer.matrices, lanes)
    assert np.isfinite(graph_score(fewer, graph))


def test_many_draws_of_extreme_scale_do_not_overflow():
    p = 3
    scatter, n, draws = random_problem(0, p, 1)
    units = np.diag([1e60, 1e-60, 1.0])
    plain = gather_scores(scatter, n, np.repeat(draws, 40, axis=0), p + 2.0)
    scaled = gather_scores(
        units @ scatter @ units, n, np.repeat(units @ draws @ units, 40, axis=0), p + 2.0
    )
    graphs = [np.zeros((p, p), dtype=bool), np.triu(np.ones((p, p), dtype=bool), 1)]
    gains = [graph_score(s, graphs[1]) - graph_score(s, graphs[0]) for s in (plain, scaled)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-8)


def test_singular_families_score_minus_infinity():
    scatter, n, draws = random_problem(0, 3, 2)
    scores = gather_scores(scatter, n, draws, 5.0)
    scores.matrices[1] = scores.matrices[0]
    scores.matrices[:, 1] = scores.matrices[:, 0]
    work = scores_workspace(scores, 3)
    assert local_score(scores, 2, np.array([0, 1]), 2, work) == -np.inf


def test_bad_arguments():
    scatter, n, draws = random_problem(0, 3, 2)
    with pytest.raises(InputError, match="must be a number or a"):
        gather_scores(scatter, n, draws, 5.0, log_odds=np.ones((2, 3)))


def test_odds_belong_to_a_direction():
    scatter, n, draws = random_problem(1, 3, 2)
    odds = np.arange(9.0).reshape(3, 3)
    for parents in ([], [0], [0, 2]):
        values = [
            local_score(scores, 1, np.array(parents, dtype=int), len(parents), work)
            for scores in (
                gather_scores(scatter, n, draws, 5.0),
                gather_scores(scatter, n, draws, 5.0, log_odds=odds),
            )
            for work in [scores_workspace(scores, 3)]
        ]
        assert values[1] - values[0] == pytest.approx(odds[parents, 1].sum())


def test_best_first_is_a_stable_sort_of_what_is_large_enough():
    rng = np.random.default_rng(0)
    for _ in range(100):
        values = rng.integers(-3, 4, rng.integers(0, 12)).astype(float)
        values[rng.random(values.size) < 0.2] = -np.inf
        order = np.empty(values.size, dtype=np.int64)
        found = order[: best_first(values, 0.5, order)]
        expected = [k for k in np.argsort(-values, kind="stable") if values[k] > 0.5]
        assert found.tolist() == expected
