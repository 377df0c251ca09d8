"""Edge probabilities: their convergence diagnostics, and the DAG that they suggest."""

from typing import NamedTuple

import numpy as np

from mtgbn.graphs.dags import topological_order

# Weight of a forbidden direction; minus this is the weight of a required one.
_FORBIDDEN = -1e6


class EdgeDiagnostics(NamedTuple):
    """How far the probabilities of adjacencies can be trusted.

    Attributes
    ----------
    rhat, ess : array (m, p, p)
        Split R-hat and effective sample size of the indicator of every adjacency.
    """

    rhat: np.ndarray
    ess: np.ndarray


def diagnose_edges(blocks: np.ndarray, rounds: int) -> EdgeDiagnostics:
    """R-hat and ESS of the adjacencies from ``blocks`` (chains, blocks, m, p, p), each of ``rounds``.

    A block has the number of rounds at whose end i -> j was there. The variance of an indicator
    follows from its mean, so counts suffice: R-hat compares the means of half chains, ESS the variance
    of block means with that of independent draws. An indicator that never changes has R-hat 1 and the
    full number of draws, if the chains agree; if not, R-hat is infinite.
    """
    joined = blocks + np.swapaxes(blocks, -1, -2)
    n_chains, n_blocks = joined.shape[:2]
    half = n_blocks // 2
    if half == 0:
        unknown = np.full(joined.shape[2:], np.nan)
        return EdgeDiagnostics(unknown, unknown.copy())
    parts = np.stack([joined[:, :half].sum(axis=1), joined[:, half : 2 * half].sum(axis=1)], axis=1)
    length = half * rounds
    means = parts.reshape(2 * n_chains, *parts.shape[2:]) / length
    within = np.mean(means * (1 - means), axis=0) * length / max(length - 1, 1)
    between = means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt((length - 1) / length + between / within)
        rhat[(within == 0) & (between == 0)] = 1.0
        share = joined.mean(axis=(0, 1)) / rounds
        # The variance is about the mean of all chains, so that disagreement lowers the ESS.
        block_variance = (joined / rounds).reshape(-1, *joined.shape[2:]).var(axis=0, ddof=1)
        total = n_chains * n_blocks * rounds
        ess = np.minimum(total * share * (1 - share) / (rounds * block_variance), total)
        ess[~np.isfinite(ess)] = total
        ess[np.isinf(rhat)] = n_chains
    for array in (rhat, ess):
        array[:, np.arange(array.shape[1]), np.arange(array.shape[1])] = np.nan
    return EdgeDiagnostics(rhat, ess)


def graph_of_probabilities(
    probabilities: np.ndarray, allowed: np.ndarray, required: np.ndarray, max_parents: int
) -> np.ndarray:
    """The DAG of the adjacencies with probability above 1/2.

    These minimise the expected number of wrong adjacencies. They are directed along the order of the
    variables under which the probabilities of their directions have the largest sum: every variable in
    turn is moved to its best place until nothing improves. Prior knowledge is obeyed; of more parents
    than ``max_parents`` the least probable ones are left out.
    """
    either = probabilities + probabilities.T
    joined = (either > 0.5) | required | required.T
    weights = np.where(allowed, probabilities, _FORBIDDEN) * joined
    weights = np.where(required, -_FORBIDDEN, weights)
    order = _best_order(weights, required)
    place = np.argsort(order)
    adjacency = joined & (place[:, None] < place[None, :]) & allowed
    for node in np.flatnonzero(adjacency.sum(axis=0) > max_parents):
        parents = np.flatnonzero(adjacency[:, node])
        ranked = parents[np.argsort(-(either + required)[parents, node], kind="stable")]
        adjacency[ranked[max_parents:], node] = False
    return adjacency


def _best_order(weights: np.ndarray, required: np.ndarray) -> list[int]:
    """An order that required edges follow and that no move of a single variable improves."""
    if required.any():
        order = list(topological_order(required))
    else:
        order = list(np.argsort(weights.sum(axis=0) - weights.sum(axis=1), kind="stable"))
    improved = True
    while improved:
        improved = False
        for variable in range(len(order)):
            now = order.index(variable)
            rest = [v for v in order if v != variable]
            # Gain from moving the variable past each of the others, from the first place to the last.
            gains = weights[rest, variable] - weights[variable, rest]
            values = np.concatenate([[0.0], np.cumsum(gains)])
            values[: np.flatnonzero(required[rest, variable]).max(initial=-1) + 1] = -np.inf
            values[np.flatnonzero(required[variable, rest]).min(initial=len(rest)) + 1 :] = -np.inf
            best = int(values.argmax())
            if values[best] > values[now] + 1e-12:
                rest.insert(best, variable)
                order, improved = rest, True
    return order
