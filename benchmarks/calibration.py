"""Calibration of probabilities: simulations from the model that the chains sample from.

Everything is drawn from its prior: the shares and frequencies of the kinds of pairs, delta, Psi,
orders, DAGs, the share of own families, ties, parameters, rows. Of all adjacencies with a probability
of about x, a fraction of about x must then be present, and the rank of a true parameter among its draws
must be uniform (simulation-based calibration; Talts et al. 2018, arXiv:1804.06788).

Chains start as in a fit, one from the single-task graphs (SIG), the other from empty graphs, both
with a wrong delta, and a quarter of the rounds is dropped as warm-up. They are given only the scales
of the priors of Psi and of own families, which a fit estimates from the data.
"""

import argparse
import sys
import time
from typing import NamedTuple

import numpy as np
from scipy.stats import beta, chisquare, invwishart, kstest

from benchmarks.problems import table
from mtgbn import SIG
from mtgbn.chain.run import run_chain
from mtgbn.chain.state import SINGLE_DELTA, chain_data, first_state, most_own_families
from mtgbn.chain.updates.ties import OWN_SHARES
from mtgbn.graphs.dags import topological_order
from mtgbn.model.pair_kinds import FREQUENCIES, LEAST_DIFFERENCE, PairKinds, first_kinds
from mtgbn.model.unstructured import TYPICAL_DELTA
from mtgbn.search.knowledge import no_constraints
from mtgbn.simulate.hierarchical import draw_covariance
from mtgbn.tasks import Tasks

N_BINS = 10
RANK_BINS = 8

# Draws of both chains among which a true parameter is ranked; widely spaced, so nearly independent.
N_RANKED = 40

FIRST_DELTA = 30.0
MOVES_PER_PAIR = 24


class Setting(NamedTuple):
    """One kind of simulation and the number of simulations; m and n are drawn from ranges."""

    p: int
    tasks: tuple[int, int]
    rows: tuple[int, int]
    n_simulations: int
    n_rounds: int
    """Per chain, after the warm-up."""


SETTINGS = (
    Setting(8, (5, 10), (30, 200), 60, 400),
    Setting(15, (5, 10), (30, 200), 10, 500),
)
QUICK = (Setting(5, (3, 5), (30, 100), 8, 100),)


class Truth(NamedTuple):
    tasks: Tasks
    adjacencies: np.ndarray
    psi: np.ndarray
    scales: np.ndarray
    delta: float
    kinds: PairKinds
    own_share: float
    places: np.ndarray
    """Places of the frequencies of all pairs in both groups, (2, p, p); see `pair_kinds`."""


class Outcome(NamedTuple):
    probabilities: np.ndarray
    """Probabilities of the adjacencies of all pairs and tasks."""
    present: np.ndarray
    ranks: dict[str, float]
    """Ranks of the true parameters, between 0 and 1."""
    disagreement: float
    """Root mean square difference between the two chains' probabilities."""


def draw_truth(
    rng: np.random.Generator, p: int, m: int, n: int, groups: np.ndarray | None = None
) -> Truth:
    """Draw everything from its prior; ``groups`` (m,) has 0 or 1 for every task, if there are groups."""
    scales = np.exp(rng.uniform(-1, 1, p))
    shares = rng.dirichlet([p / 2, 0.5, 0.5, *[0.5] * (groups is not None)]).tolist()
    kinds = PairKinds(
        *shares[:3],
        rare=rng.beta(0.5, 9.5),
        usual=rng.beta(9.5, 0.5),
        different=sum(shares[3:]),
    )
    share = rng.random()
    delta = TYPICAL_DELTA * share / (1 - share)
    psi = invwishart(p + 1, np.diag(scales)).rvs(random_state=rng)
    own_share = rng.choice(OWN_SHARES)
    places = draw_places(rng, kinds, p)
    frequencies = np.array([kinds.rare, *FREQUENCIES, kinds.usual])[places]
    adjacencies = np.zeros((m, p, p), dtype=bool)
    scatters = []
    for t, adjacency in enumerate(adjacencies):
        order = rng.permutation(p)
        common = frequencies[0 if groups is None else groups[t]]
        adjacency[:] = (rng.random((p, p)) < common) & (order[:, None] < order)
        tied = draw_covariance(adjacency, delta * psi, delta + p - 1, rng)
        own = draw_covariance(adjacency, np.diag(scales), SINGLE_DELTA + p - 1, rng)
        is_own = rng.random(p) < own_share
        while is_own.sum() > most_own_families(p):  # members have few own families
            is_own = rng.random(p) < own_share
        covariance = mixed_covariance(adjacency, tied, own, is_own)
        rows = rng.standard_normal((n, p)) @ np.linalg.cholesky(covariance).T
        scatters.append(rows.T @ rows)
    tasks = Tasks(scatters, np.full(m, float(n)))
    return Truth(tasks, adjacencies, psi, scales, delta, kinds, own_share, places)


def draw_places(rng: np.random.Generator, kinds: PairKinds, p: int) -> np.ndarray:
    """Places of the frequencies of all pairs in both groups, (2, p, p), symmetric."""
    pairs = np.triu_indices(p, 1)
    size, last = len(pairs[0]), len(FREQUENCIES) + 1
    weights = [kinds.absent, kinds.common, *[kinds.varying / (last - 1)] * (last - 1)]
    drawn = rng.choice([0, last, *range(1, last)], size, p=np.array(weights) / sum(weights))
    of_groups = np.array([drawn, drawn])
    if kinds.different:
        far = np.argwhere(
            np.abs(np.subtract.outer(*[np.arange(last + 1)] * 2)) >= last * LEAST_DIFFERENCE
        )
        is_different = rng.random(size) < kinds.different
        of_groups[:, is_different] = rng.choice(far, is_different.sum()).T
    places = np.zeros((2, p, p), dtype=int)
    places[:, pairs[0], pairs[1]] = of_groups
    return places + places.transpose(0, 2, 1)


def mixed_covariance(
    adjacency: np.ndarray, tied: np.ndarray, own: np.ndarray, is_own: np.ndarray
) -> np.ndarray:
    """Covariance of a DAG whose families have the parameters of one or the other covariance."""
    p = len(adjacency)
    mixed = np.zeros((p, p))
    for node in topological_order(adjacency):
        parents = np.flatnonzero(adjacency[:, node])
        source = own if is_own[node] else tied
        slopes = np.linalg.solve(source[np.ix_(parents, parents)], source[parents, node])
        residual = source[node, node] - slopes @ source[parents, node]
        mixed[node] = mixed[:, node] = slopes @ mixed[parents]
        mixed[node, node] = residual + slopes @ mixed[np.ix_(parents, parents)] @ slopes
    return mixed


def parameters(
    psi: np.ndarray, delta, kinds: np.ndarray, n_edges, own_share
) -> dict[str, np.ndarray]:
    """Parameters to rank; of sigma_h two variances, two correlations and the determinant."""
    sigma_h = psi * np.asarray(delta)[..., None, None]
    deviations = np.sqrt(np.diagonal(sigma_h, axis1=-2, axis2=-1))
    correlations = sigma_h / (deviations[..., :, None] * deviations[..., None, :])
    return {
        "sigma_h, first variance": sigma_h[..., 0, 0],
        "sigma_h, last variance": sigma_h[..., -1, -1],
        "sigma_h, correlation of the first two": correlations[..., 0, 1],
        "sigma_h, correlation of the last two": correlations[..., -2, -1],
        "sigma_h, log determinant": np.linalg.slogdet(sigma_h)[1],
        "Psi, first variance": psi[..., 0, 0],
        "delta": np.asarray(delta),
        "absent pairs": kinds[..., 0],
        "common pairs": kinds[..., 1],
        "frequency of common pairs": kinds[..., 4],
        "edges of all tasks": np.asarray(n_edges, dtype=float),
        "share of own families": np.asarray(own_share),
    }


def calibrate(setting: Setting, seed: int) -> Outcome:
    """Run one simulation and the chains that learn it."""
    rng = np.random.default_rng([setting.p, seed])
    p = setting.p
    m, n = (int(rng.integers(low, high + 1)) for low, high in (setting.tasks, setting.rows))
    truth = draw_truth(rng, p, m, n)
    data = chain_data(
        truth.tasks,
        no_constraints(p),
        n_moves=MOVES_PER_PAIR * p * (p - 1) // 2,
        samples_membership=False,
    )._replace(psi_scales=truth.scales, single_scales=np.tile(truth.scales, (m, 1)))
    single = SIG(random_state=seed).fit(truth.tasks).graphs_
    frequencies, draws = [], []
    for start in (single, np.zeros_like(single)):
        state = first_state(
            data, truth.tasks, start, delta=FIRST_DELTA, edge_prior=first_kinds(0.5)
        )
        _, state = run_chain(data, state, rng, max(setting.n_rounds // 3, 60), adapts=True)
        trace, _ = run_chain(data, state, rng, setting.n_rounds, adapts=False)
        directed = trace.move_frequencies
        frequencies.append(directed + np.swapaxes(directed, 1, 2))
        numbers = (trace.psi, trace.delta, trace.kinds, trace.n_edges, trace.own_share)
        places = np.linspace(0, setting.n_rounds - 1, N_RANKED // 2).round().astype(int)
        draws.append(parameters(*(values[places] for values in numbers)))
    kinds = np.array(truth.kinds)
    true = parameters(truth.psi, truth.delta, kinds, truth.adjacencies.sum(), truth.own_share)
    ranks = {}
    for name, value in true.items():
        found = np.concatenate([chain[name] for chain in draws])
        # Ties of counts are broken at random: the rank is exactly uniform if draws are independent.
        below = np.sum(found < value) + rng.random() * (np.sum(found == value) + 1)
        ranks[name] = float(below / (len(found) + 1))
    rows, columns = np.triu_indices(p, 1)
    joined = truth.adjacencies | np.swapaxes(truth.adjacencies, 1, 2)
    probabilities = np.mean(frequencies, axis=0)[:, rows, columns].ravel()
    difference = (frequencies[0] - frequencies[1])[:, rows, columns]
    return Outcome(
        probabilities,
        joined[:, rows, columns].ravel(),
        ranks,
        float(np.sqrt(np.mean(difference**2))),
    )


def reliability(outcomes: list[Outcome]) -> str:
    """Bins of probability against the fraction of adjacencies that are present.

    Edges of one simulation share the kinds of pairs and sigma_h, so the standard error is that of the
    mean over simulations, from the jackknife.
    """
    rows = []
    bins = [np.minimum((o.probabilities * N_BINS).astype(int), N_BINS - 1) for o in outcomes]
    for k in range(N_BINS):
        counts = np.array([np.sum(b == k) for b in bins])
        there = np.array([np.sum(o.present[b == k]) for o, b in zip(outcomes, bins, strict=True)])
        expected = np.array(
            [np.sum(o.probabilities[b == k]) for o, b in zip(outcomes, bins, strict=True)]
        )
        total = counts.sum()
        if not total:
            rows.append([f"{k / N_BINS:.1f} to {(k + 1) / N_BINS:.1f}", 0, "", "", "", ""])
            continue
        excess = (there - expected).sum() / total
        others = np.maximum(total - counts, 1)
        without = ((there - expected).sum() - (there - expected)) / others
        number = len(outcomes)
        error = np.sqrt((number - 1) / number * np.sum((without - without.mean()) ** 2))
        rows.append(
            [
                f"{k / N_BINS:.1f} to {(k + 1) / N_BINS:.1f}",
                total,
                f"{expected.sum() / total:.3f}",
                f"{there.sum() / total:.3f}",
                f"{excess:+.3f}",
                f"{error:.3f}",
            ]
        )
    header = ["probability", "edges", "mean probability", "share present", "difference", "s.e."]
    return table(header, rows)


def rank_table(outcomes: list[Outcome]) -> str:
    rows = []
    for name in outcomes[0].ranks:
        ranks = np.array([outcome.ranks[name] for outcome in outcomes])
        counts = np.bincount((ranks * RANK_BINS).astype(int), minlength=RANK_BINS)
        middle = int(np.sum(np.abs(ranks - 0.5) < 0.4))
        covered = beta(middle + 0.5, len(ranks) - middle + 0.5).interval(0.95)
        rows.append(
            [
                name,
                " ".join(map(str, counts)),
                f"{chisquare(counts).pvalue:.3f}",
                f"{kstest(ranks, 'uniform').pvalue:.3f}",
                f"{middle / len(ranks):.2f} ({covered[0]:.2f} to {covered[1]:.2f})",
            ]
        )
    header = ["parameter", "ranks, in eighths", "chi-square p", "KS p", "in the central 80 %"]
    return table(header, rows)


def main(quick: bool = False) -> str:
    parts = []
    every = []
    for setting in QUICK if quick else SETTINGS:
        start = time.process_time()
        outcomes = []
        for seed in range(setting.n_simulations):
            outcomes.append(calibrate(setting, seed))
            print(
                f"p = {setting.p}: {seed + 1} of {setting.n_simulations}, chains differ by "
                f"{outcomes[-1].disagreement:.3f}, {time.process_time() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        every += outcomes
        edges = sum(len(outcome.present) for outcome in outcomes)
        apart = np.median([outcome.disagreement for outcome in outcomes])
        parts.append(
            f"### p = {setting.p}, m = {setting.tasks[0]} to {setting.tasks[1]}, n = "
            f"{setting.rows[0]} to {setting.rows[1]}: {len(outcomes)} simulations, "
            f"{edges} edges\n\n"
            f"{reliability(outcomes)}\n\n{rank_table(outcomes)}\n\n"
            f"Median root mean square difference between two chains' probabilities: {apart:.3f}; "
            f"{time.process_time() - start:.0f} s of CPU time."
        )
    if len(parts) > 1:
        edges = sum(len(outcome.present) for outcome in every)
        parts.append(f"### All {edges} edges\n\n{reliability(every)}\n\n{rank_table(every)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few small simulations")
    print(main(parser.parse_args().quick))
