"""`mtgbn demo`: the main job on a simulated example."""

import time

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from mtgbn.sampling import Draws, sample_sigma_h
from mtgbn.simulate import Simulation, simulate_tasks

N_CHAINS, N_WARMUP, N_DRAWS = 4, 300, 500


def run_demo(n_tasks: int, n_variables: int, n_rows: int, seed: int) -> None:
    """Simulate, sample, print."""
    console = Console()
    simulation = simulate_tasks(n_tasks, n_variables, n_rows, random_state=seed)
    n_edges = simulation.adjacencies.sum(axis=(1, 2))
    console.print(
        f"Simulated {n_tasks} related tasks: {n_variables} variables, {n_rows} rows and "
        f"{n_edges.min()} to {n_edges.max()} edges each, nu0 = {simulation.nu0:g}."
    )
    start = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("Sampling sigma_h", total=N_CHAINS * (N_WARMUP + N_DRAWS))
        draws = sample_sigma_h(
            simulation.tasks,
            simulation.adjacencies,
            simulation.nu0,
            n_chains=N_CHAINS,
            n_warmup=N_WARMUP,
            n_draws=N_DRAWS,
            random_state=seed,
            progress=lambda made: progress.advance(bar, made),
        )
    seconds = time.perf_counter() - start
    console.print(
        f"Drew sigma_h {N_CHAINS} x {N_DRAWS} times given the graphs by HMC in {seconds:.1f} s "
        "(compilation included, the first time)."
    )
    console.print(_comparison(simulation, draws))
    _print_coverage(console, simulation, draws)
    _print_diagnostics(console, draws)


def _comparison(simulation: Simulation, draws: Draws) -> Table:
    """The correlations of sigma_h on which the graphs bear, truth beside posterior."""
    table = Table(title="Correlations in sigma_h, of the pairs that most tasks join")
    for heading in ("pair", "tasks", "truth", "posterior mean", "90 % interval"):
        table.add_column(heading, justify="left" if heading == "pair" else "right")
    joined = (simulation.adjacencies | simulation.adjacencies.transpose(0, 2, 1)).sum(axis=0)
    rows, columns = np.triu_indices(len(joined), 1)
    order = np.argsort(-joined[rows, columns], kind="stable")[:12]
    correlations = _correlations(draws.flat)
    truth = _correlations(simulation.sigma_h[None])[0]
    for i, j in zip(rows[order], columns[order], strict=True):
        if joined[i, j] == 0:
            continue
        values = correlations[:, i, j]
        low, high = np.quantile(values, (0.05, 0.95))
        table.add_row(
            f"{draws.variables[i]} - {draws.variables[j]}",
            f"{joined[i, j]} of {len(simulation.adjacencies)}",
            f"{truth[i, j]:+.2f}",
            f"{values.mean():+.2f}",
            f"{low:+.2f} to {high:+.2f}",
        )
    return table


def _print_coverage(console: Console, simulation: Simulation, draws: Draws) -> None:
    low, high = np.quantile(draws.flat, (0.05, 0.95), axis=0)
    lower = np.tril_indices(len(low))
    inside = ((low <= simulation.sigma_h) & (simulation.sigma_h <= high))[lower]
    console.print(
        f"The 90 % intervals contain the truth for {inside.sum()} of {inside.size} elements of sigma_h."
    )


def _print_diagnostics(console: Console, draws: Draws) -> None:
    try:
        diagnostics = draws.diagnostics()
    except ImportError as error:
        console.print(f"No convergence diagnostics: {error}")
        return
    console.print(
        f"R-hat at most {np.nanmax(diagnostics.rhat):.3f}, effective draws at least "
        f"{np.nanmin(diagnostics.ess_bulk):.0f} (bulk) and {np.nanmin(diagnostics.ess_tail):.0f} "
        f"(tail), acceptance {diagnostics.acceptance:.2f}, {diagnostics.n_divergent} divergences."
    )
    for problem in diagnostics.problems:
        console.print(f"Warning: {problem}.")


def _correlations(matrices: np.ndarray) -> np.ndarray:
    deviations = np.sqrt(np.einsum("...ii->...i", matrices))
    return matrices / (deviations[..., :, None] * deviations[..., None, :])
