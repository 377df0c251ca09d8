"""The draws of sigma_h of a map estimate are those that the graphs of the result have."""

import numpy as np
import pytest
from learn_oracles import log_likelihoods
from scipy.stats import invwishart

from mtgbn import MTGBN, Tasks

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")

NU0 = 6.0

# A standard normal exceeds this with probability 7e-6.
Z_LIMIT = 4.5


def weakly_related(seed, coefficient, rows, m=6):
    """Two variables whose correlation is clear in some tasks only."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, rows, 2))
    x[..., 1] += coefficient * x[..., 0]
    return Tasks.from_arrays(list(x))


def mean_given_graphs(tasks, graphs, rng, n=20_000):
    """Mean of sigma_h given graphs, and the effective number of draws of the importance sampling.

    The prior of sigma_h/delta is inverse Wishart with two degrees of freedom, its scales the variances.
    """
    p = tasks.n_variables
    scales = np.einsum("tii->i", tasks.scatters) / tasks.ns.sum()
    prior = invwishart(df=2 + p - 1, scale=(NU0 - p + 1) * np.diag(scales))
    covariance = (tasks.scatters / tasks.ns[:, None, None]).mean(axis=0)
    proposal = invwishart(df=12, scale=9 * (NU0 - p) * covariance)
    sigma_h = proposal.rvs(n, random_state=rng)
    last = np.moveaxis(sigma_h, 0, -1)
    log_weights = prior.logpdf(last) - proposal.logpdf(last)
    for scatter, rows, graph in zip(tasks.scatters, tasks.ns, graphs, strict=True):
        log_weights += log_likelihoods(scatter, rows, graph, sigma_h, NU0)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return np.einsum("s,sij->ij", weights, sigma_h), 1 / (weights**2).sum()


@pytest.mark.parametrize(
    ("seed", "coefficient", "rows"), [(2, 0.4, 14), (2, 0.5, 10), (1, 0.3, 20)]
)
def test_draws_of_a_map_estimate_are_those_given_its_graphs(seed, coefficient, rows):
    # In these problems the rounds before, in which edges come and go, have another mean.
    tasks = weakly_related(seed, coefficient, rows)
    estimator = MTGBN(
        nu0=NU0, edge_prior=(0.5, 2.0), min_strength=0, n_draws=3000, max_iter=1, random_state=seed
    )
    estimator.fit(tasks)
    draws = estimator.draws_.flat  # few of the rounds, nearly independent
    batches = np.array([batch.mean(axis=0) for batch in np.array_split(draws, 20)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    rng = np.random.default_rng(seed)
    expected, n_effective = mean_given_graphs(tasks, estimator.graphs_, rng)
    assert n_effective > 3_000
    assert (np.abs(draws.mean(axis=0) - expected) < Z_LIMIT * error).all()
