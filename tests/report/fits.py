"""Fitted estimators with made-up results: whatever a page must show, without waiting for it."""

import numpy as np

from mtgbn import MTGBN, Tasks
from mtgbn.learn.joint import Iteration
from mtgbn.learn.probabilities import EdgeDiagnostics
from mtgbn.learn.relatedness import Relatedness
from mtgbn.model.edge_prior import EdgePrior


def made_up(m, p, *, n_edges=None, variables=None, names=None, posterior=False, seed=0, **changes):
    """An MTGBN with random DAGs of ``n_edges`` edges each (default p) as its result."""
    rng = np.random.default_rng(seed)
    variables = [f"x{k}" for k in range(p)] if variables is None else variables
    names = [f"task{k}" for k in range(m)] if names is None else names
    pairs = np.column_stack(np.triu_indices(p, 1))
    n_edges = min(p if n_edges is None else n_edges, len(pairs))
    graphs = np.zeros((m, p, p), dtype=bool)
    for graph in graphs:
        # From a few pairs, so that tasks have edges in common.
        chosen = rng.choice(min(3 * n_edges, len(pairs)), n_edges, replace=False)
        rows = np.random.default_rng(1).permutation(pairs)[chosen]
        graph[rows[:, 0], rows[:, 1]] = True
    scatters = np.broadcast_to(30.0 * np.eye(p), (m, p, p)).copy()
    ns = np.full(m, 30.0)
    learner = MTGBN(inference="posterior" if posterior else "map", random_state=5)
    tasks = Tasks.from_statistics(
        scatters=scatters,
        ns=ns,
        variables=tuple(variables),
        names=tuple(names),
        n_rows=np.full(m, 31),
        centres=np.zeros((m, p)),
        scales=np.ones((m, p)),
        incomplete={},
    )
    reversible = graphs & (rng.random(graphs.shape) < 0.3)
    cpdags = graphs | reversible.transpose(0, 2, 1)
    learner.store_graphs(tasks, graphs, EdgePrior(0.1, 2.0), cpdags)
    learner.coefficients_ = np.where(graphs, rng.normal(0, 0.5, graphs.shape), 0.0)
    learner.covariances_ = scatters / 30
    learner.residual_variances_ = np.ones((m, p))
    learner.order_, learner.agreement_ = tuple(variables), 0.9
    learner.random_state_, learner.nu0_ = 5, p + 20.0
    learner.sigma_h_ = np.eye(p)
    learner.converged_, learner.n_iter_ = True, 3
    learner.stop_reason_, learner.warnings_ = "graphs stay as they are", ()
    learner.diagnostics_ = {"rhat": 1.01, "ess": 200.0, "acceptance": 0.9, "n_divergent": 0}
    learner.history_ = () if posterior else (Iteration(-10.0, 2.0, 0.1, 2, int(graphs.sum()), 30),)
    learner.membership_ = np.ones(m)
    learner.relatedness_ = Relatedness(
        *(
            20.0,
            0.4,
            0.0,
            0.1,
            0.1,
            2.0,
            0.33,
            np.ones(m),
            np.full(m, 0.1),
            np.zeros(m),
            tuple(names),
        )
    )
    if posterior:
        either = np.where(graphs | graphs.transpose(0, 2, 1), 0.5, 0.0) + 0.4 * rng.random(
            graphs.shape
        )
        learner.adjacency_probabilities_ = either
        # Of the draws with an edge i -> j, 90 or 70 % have this direction.
        is_even = np.add.outer(np.arange(p), np.arange(p)) % 2 == 0
        learner.edge_probabilities_ = either * np.where(is_even, 0.9, 0.7)
        learner.edge_diagnostics_ = EdgeDiagnostics(
            1 + 0.1 * rng.random(graphs.shape), np.full(graphs.shape, 300.0)
        )
    for name, value in changes.items():
        setattr(learner, name, value)
    return learner
