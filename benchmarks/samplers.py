"""Effective samples per second: HMC against Gibbs and against nutpie's NUTS.

All three get the same posterior, four chains and at most one core per chain; nutpie calls the same
compiled density. The time includes warm-up and excludes compilation and the construction of graphs.
The figure is the smallest bulk ESS over the elements of sigma_h, computed by arviz-stats for all.
"""

import time

import numpy as np
import nutpie
from arviz_stats.base import array_stats
from nutpie.compiled_pyfunc import from_pyfunc

from benchmarks.problems import related_problem, table
from mtgbn.model.coordinates import coordinates_workspace, unconstrained_value_and_gradient
from mtgbn.model.unstructured import unstructured_sigma_h
from mtgbn.paper import sample_sigma_h
from mtgbn.paper.posterior import build_posterior
from mtgbn.tasks import Tasks

N_CHAINS = 4
PROBLEMS = [(3, 4, 50), (10, 15, 250), (10, 46, 250)]


def run_mtgbn(tasks, adjacencies, nu0, prior, sampler, n_draws, seed):
    start = time.perf_counter()
    draws = sample_sigma_h(
        tasks,
        adjacencies,
        nu0,
        structure_prior=prior,
        sampler=sampler,
        n_draws=n_draws,
        n_chains=N_CHAINS,
        random_state=seed,
    )
    return draws.sigma_h, time.perf_counter() - start


def run_nutpie(tasks, adjacencies, nu0, prior, n_draws, seed):
    posterior = build_posterior(adjacencies, tasks.scatters, tasks.ns, nu0, prior)
    p = tasks.n_variables
    centre = np.linalg.cholesky(unstructured_sigma_h(tasks.scatters, tasks.ns, nu0))
    size = p * (p + 1) // 2

    def make_log_density():
        work = coordinates_workspace(posterior)

        def log_density(x):
            gradient = np.empty(size)
            return unconstrained_value_and_gradient(posterior, centre, x, gradient, work), gradient

        return log_density

    def make_expand(*_):
        return lambda x: {"x": x}

    model = from_pyfunc(
        size, make_log_density, make_expand, [np.dtype("float64")], [(size,)], ["x"]
    )
    start = time.perf_counter()
    trace = nutpie.sample(
        model, draws=n_draws, tune=300, chains=N_CHAINS, seed=seed, progress_bar=False
    )
    seconds = time.perf_counter() - start
    triangles = np.zeros((N_CHAINS, n_draws, p, p))
    triangles[:, :, *np.tril_indices(p)] = np.asarray(trace.posterior["x"])
    diagonal = np.arange(p)
    triangles[:, :, diagonal, diagonal] = np.exp(triangles[:, :, diagonal, diagonal])
    factors = centre @ triangles
    return factors @ np.swapaxes(factors, -1, -2), seconds


def smallest_ess(sigma_h: np.ndarray, most: int = 300) -> float:
    rows, columns = np.tril_indices(sigma_h.shape[-1])
    chosen = np.random.default_rng(0).permutation(len(rows))[:most]
    elements = np.moveaxis(sigma_h[:, :, rows[chosen], columns[chosen]], 2, 0)
    return float(array_stats.ess(elements, chain_axis=-2, draw_axis=-1, method="bulk").min())


def main(n_draws: int = 1000) -> str:
    rows = []
    for m, p, n in PROBLEMS:
        adjacencies, scatters, ns = related_problem(m, p, n)
        tasks = Tasks(scatters, ns)
        nu0 = p + 20.0
        for prior in ("uniform", "restricted"):
            rates = {}
            for name in ("hmc", "gibbs", "nutpie"):
                if name == "gibbs" and prior != "restricted":
                    continue
                results = []
                for seed in (0, 1, 2, 3):  # the first run compiles
                    if name == "nutpie":
                        sigma_h, seconds = run_nutpie(tasks, adjacencies, nu0, prior, n_draws, seed)
                    else:
                        sigma_h, seconds = run_mtgbn(
                            tasks, adjacencies, nu0, prior, name, n_draws, seed
                        )
                    results.append(smallest_ess(sigma_h) / seconds)
                rates[name] = float(np.median(results[1:]))
            gibbs = f"{rates['gibbs']:.0f}" if "gibbs" in rates else "-"
            ratio = f"{rates['hmc'] / rates['gibbs']:.1f}" if "gibbs" in rates else "-"
            rows.append(
                [
                    *(m, p, prior, f"{rates['hmc']:.0f}", gibbs, f"{rates['nutpie']:.0f}"),
                    *(ratio, f"{rates['hmc'] / rates['nutpie']:.1f}"),
                ]
            )
    header = ["m", "p", "prior", "HMC, ESS/s", "Gibbs", "nutpie", "HMC/Gibbs", "HMC/nutpie"]
    return table(header, rows)


if __name__ == "__main__":
    print(main())
