"""The search under `decomposable`, against the public densities and all DAGs."""

import numpy as np
import pytest
from learn_oracles import all_dags

from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper.structure_priors import log_structure_prior
from mtgbn.paper.triangulated import TriangulatedPrior, climb_triangulated
from mtgbn.search import Knowledge
from mtgbn.search.local_scores import gather_scores


@pytest.fixture(scope="module", params=range(2))
def problem(request):
    rng = np.random.default_rng(request.param)
    p, n = 4, 60
    rows = rng.standard_normal((n, p)) @ (np.eye(p) + np.triu(rng.normal(0, 0.6, (p, p)), 1))
    roots = np.eye(p) + 0.2 * rng.standard_normal((2, p, p))
    return rows.T @ rows, float(n), roots @ roots.transpose(0, 2, 1), p + 3.0


def objective(problem, adjacency, log_edge_odds=0.0):
    scatter, n, draws, nu0 = problem
    return (
        np.array(
            [
                log_marginal_likelihood(scatter, n, adjacency, draw, nu0)
                + log_structure_prior(adjacency, draw, nu0, "decomposable")
                for draw in draws
            ]
        )
        + log_edge_odds * adjacency.sum()
    )


def test_the_prior_is_that_of_the_model_up_to_a_constant(problem):
    _, _, draws, nu0 = problem
    prior = TriangulatedPrior(draws, nu0)
    offsets = [
        prior.by_draw(dag) - [log_structure_prior(dag, draw, nu0, "decomposable") for draw in draws]
        for dag in list(all_dags(4))[::7]
    ]
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], np.shape(offsets)), atol=1e-9)


def test_no_move_improves_what_is_found_and_restarts_reach_the_best(problem):
    scatter, n, draws, nu0 = problem
    scores = gather_scores(scatter, n, draws, nu0, -1.0)
    prior = TriangulatedPrior(draws, nu0)
    totals = {dag.tobytes(): objective(problem, dag, -1.0).mean() for dag in all_dags(4)}
    found = climb_triangulated(scores, prior)
    here = totals[found.adjacency.tobytes()]
    for dag in all_dags(4):
        changed = dag ^ found.adjacency
        if (changed | changed.T).sum() == 2:
            assert totals[dag.tobytes()] <= here + 1e-8
    best = climb_triangulated(scores, prior, n_restarts=20, random_state=0)
    assert totals[best.adjacency.tobytes()] == pytest.approx(max(totals.values()), abs=1e-8)


def test_constraints_are_kept(problem):
    scatter, n, draws, nu0 = problem
    scores = gather_scores(scatter, n, draws, nu0)
    knowledge = Knowledge(required=[("a", "d")], forbidden=[("b", "c")], max_parents=1)
    constraints = knowledge.resolve(list("abcd"))
    found = climb_triangulated(scores, TriangulatedPrior(draws, nu0), constraints, n_restarts=5)
    assert found.adjacency[0, 3]
    assert not found.adjacency[1, 2]
    assert found.adjacency.sum(axis=0).max() == 1
