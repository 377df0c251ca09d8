"""What the tests of learning share: data, all DAGs, and Q and posteriors the slow way."""

import itertools

import numpy as np
from naive import family_sets
from scipy.special import multigammaln

from mtgbn.graphs import is_dag
from mtgbn.learn import em
from mtgbn.model import log_structure_prior
from mtgbn.model.edge_prior import EdgePrior, EdgePriorChoice
from mtgbn.search.knowledge import no_constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks


def silent(what, done, total):
    """Report progress to nobody."""


def related_arrays(seed, m=3, p=3, rows=25, strength=0.5):
    """Rows of tasks that share a random DAG, each lacking some of its weak edges."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(p)
    common = np.triu(rng.random((p, p)) < 0.6, 1)
    coefficients = strength * common * rng.choice([-1, 1], (p, p)) * rng.uniform(0.6, 1.4, (p, p))
    arrays = []
    for _ in range(m):
        own = coefficients * (rng.random((p, p)) < 0.8)
        noise = rng.standard_normal((rows, p))
        arrays.append((noise @ np.linalg.inv(np.eye(p) - own))[:, order])
    return arrays


def related_tasks(seed, m=3, p=3, rows=25, strength=0.5):
    return Tasks.from_arrays(related_arrays(seed, m, p, rows, strength))


def all_dags(p):
    """Every DAG over p nodes, (count, p, p)."""
    pairs = list(itertools.combinations(range(p), 2))
    found = []
    for states in itertools.product(range(3), repeat=len(pairs)):
        adjacency = np.zeros((p, p), dtype=bool)
        for (i, j), state in zip(pairs, states, strict=True):
            if state:
                adjacency[(i, j) if state == 1 else (j, i)] = True
        if is_dag(adjacency):
            found.append(adjacency)
    return np.array(found)


def pose(tasks, seed=0, *, nu0=None, edge_prior=None, structure_prior="uniform", **settings):
    """Build a `Problem` without an estimator; tasks and variables stay in their order."""
    p = tasks.n_variables
    fields = {"n_draws": 20, "tolerance": 0.1, "max_iter": 50, **settings}
    return em.Problem(
        tasks=tasks,
        constraints=(no_constraints(p),) * len(tasks),
        nu0=p + 10.0 if nu0 is None else nu0,
        edge_prior=EdgePriorChoice(EdgePrior(0.4, 3.0) if edge_prior is None else edge_prior),
        structure_prior=structure_prior,
        search=SearchSettings(),
        seeds=np.random.SeedSequence(seed),
        **fields,
    )


def counts_of(adjacencies):
    """Tasks with each edge, pair by pair."""
    m, p, _ = np.shape(adjacencies)
    counts = np.zeros((p, p), dtype=int)
    for t, i, j in itertools.product(range(m), range(p), range(p)):
        counts[i, j] += bool(adjacencies[t][i][j] or adjacencies[t][j][i])
    return counts


def log_likelihoods(scatter, n, adjacency, sigma_h, nu0):
    """Log marginal likelihood of one task under every matrix of a stack, determinant by determinant."""
    p = len(adjacency)
    delta = nu0 - p + 1

    def ell(variables, d, matrices):
        a = len(variables)
        half = (d + a - 1) / 2
        blocks = matrices[:, np.array(variables)[:, None], variables] / 2
        return multigammaln(half, a) - half * np.linalg.slogdet(blocks)[1]

    total = np.full(len(sigma_h), -n * p / 2 * np.log(2 * np.pi))
    for sign, variables in family_sets(adjacency):
        if variables:
            total += sign * ell(variables, delta + n, sigma_h + scatter)
            total -= sign * ell(variables, delta, sigma_h)
    return total


def q_by_draw(problem, adjacencies, draws):
    """Log joint density of data and graphs given each draw of sigma_h."""
    prior = problem.edge_prior.prior.log_probability(counts_of(adjacencies), len(adjacencies))
    total = np.full(len(draws), prior)
    for scatter, n, graph in zip(
        problem.tasks.scatters, problem.tasks.ns, adjacencies, strict=True
    ):
        total += log_likelihoods(scatter, n, graph, draws, problem.nu0)
        if problem.structure_prior != "uniform":
            total += [
                log_structure_prior(graph, draw, problem.nu0, problem.structure_prior)
                for draw in draws
            ]
    return total


class Recorder:
    """Stands in for `sample_sigma_h` within EM and keeps what it returned."""

    def __init__(self, monkeypatch):
        self.draws = []
        self._sample = em.sample_sigma_h
        monkeypatch.setattr(em, "sample_sigma_h", self)

    def __call__(self, *args, **kwargs):
        self.draws.append(self._sample(*args, **kwargs))
        return self.draws[-1]
