"""What the tests of learning share: data, fits, all DAGs, and likelihoods the slow way."""

import itertools
import warnings
from functools import cache

import numpy as np
from naive import family_sets
from scipy.special import multigammaln

from mtgbn.errors import ConvergenceWarning
from mtgbn.graphs import is_dag
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.joint import JointProblem
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.edge_prior_setting import EdgePriorChoice
from mtgbn.paper import PaperMTGBN
from mtgbn.search.knowledge import no_constraints
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

ESTIMATORS = [MTGBN, SIG, AVG, PaperMTGBN]


def silent(what, done, total):
    """Report progress to nobody."""


def related_arrays(seed, m=3, p=3, rows=25, strength=0.5):
    """Rows of tasks that share a random DAG, each without some of its weak edges."""
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


def make(cls, **settings):
    """An estimator that is quick: few draws, a given seed, a third of the edges may change."""
    quick = {"n_draws": 10, "tol": 0.3} if cls in (MTGBN, PaperMTGBN) else {}
    return cls(**{**quick, "random_state": 0, **settings})


@cache
def fitted(cls, data, **settings):
    """The same fit for all tests that only look at it; ``data`` are arguments of `related_tasks`.

    Warnings about convergence are in ``warnings_``.
    """
    data = (data,) if isinstance(data, int) else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(cls, **settings).fit(related_tasks(*data))


@cache
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
    dags = np.array(found)
    dags.setflags(write=False)
    return dags


def pose_joint(tasks, seed=0, *, nu0=None, min_strength=0.0, **settings):
    """A `JointProblem` without an estimator; tasks and variables stay in their order."""
    return JointProblem(
        tasks=tasks,
        constraints=no_constraints(tasks.n_variables),
        nu0=nu0,
        edge_prior=EdgePriorChoice(EdgePrior(0.4, 3.0)),
        shares_directions=True,
        min_strength=min_strength,
        search=SearchSettings(),
        seeds=np.random.SeedSequence(seed),
        **{"n_draws": 20, "n_rounds": 100, "tolerance": 0.1, "max_iter": 50, **settings},
    )


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
