"""One entry to both samplers of sigma_h: checks, starting points, chains in parallel."""

import os
from collections.abc import Callable
from typing import Literal

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.seeds import seed_sequence
from mtgbn.chain.draws import Draws
from mtgbn.chain.threads import stoppable_threads
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_positive_definite
from mtgbn.model.unstructured import unstructured_sigma_h
from mtgbn.paper import gibbs, hmc
from mtgbn.paper.labelled_graphs import stack_graphs
from mtgbn.paper.posterior import build_posterior
from mtgbn.paper.propriety import check_proper
from mtgbn.paper.structure_priors import StructurePrior
from mtgbn.tasks import Tasks


def sample_sigma_h(
    tasks: Tasks,
    adjacencies,
    nu0: float,
    *,
    structure_prior: StructurePrior = "uniform",
    sampler: Literal["auto", "hmc", "gibbs"] = "auto",
    n_draws: int = 500,
    n_warmup: int | None = None,
    n_chains: int = 4,
    random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    n_jobs: int | None = None,
    initial=None,
    warm_start: Draws | None = None,
    progress=None,
    **settings,
) -> Draws:
    """Draw sigma_h from its posterior given the graphs of the tasks.

    Parameters
    ----------
    tasks : Tasks
        Or anything that `Tasks.from_any` takes.
    adjacencies : array (m, p, p), list or dict by task name
        One DAG per task; ``adjacencies[t, i, j]`` means i -> j in task t. Data frames with the
        variables as index and columns and networkx graphs are matched by name.
    nu0 : float
        Degrees of freedom of the inverse Wishart prior, above p - 1.
    structure_prior : {"uniform", "restricted", "scale_free", "decomposable"}
    sampler : {"auto", "hmc", "gibbs"}
        Gibbs is for ``restricted`` only, where it has more effective samples per second and is the
        default; elsewhere, and with any of HMC's settings, the default is HMC.
    n_draws, n_warmup : int
        Draws kept per chain, and draws made before them for adaptation. Default of ``n_warmup``: 300,
        or 50 after a warm start. Below about 100 only the step size is adapted.
    n_chains, n_jobs : int
        Chains, and threads over which they are spread (default: one per processor).
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides the draws completely, whatever the number of jobs.
    initial : array (p, p), optional
        Where to start, positive definite. Default: the estimate under complete graphs.
    warm_start : Draws, optional
        Go on from the end of these chains, possibly with other graphs or another nu0.
    progress : callable, optional
        Called with the number of draws just made, from the chains' threads.
    **settings
        Fields of `HMCSettings`.

    Returns
    -------
    Draws

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=4, n_variables=3, n_rows=60, random_state=0)
    >>> sample_sigma_h(
    ...     simulation.tasks, simulation.adjacencies, nu0=10, n_draws=50, n_chains=2, random_state=0
    ... )
    <Draws of sigma_h: 2 chains x 50 draws, 3 variables, hmc>

    Raises
    ------
    ImproperPosteriorError
        If the data do not determine sigma_h; the message says what to do.
    """
    tasks = Tasks.from_any(tasks)
    check_count("n_draws", n_draws, 1)
    check_count("n_chains", n_chains, 1)
    if n_jobs is not None:
        check_count("n_jobs", n_jobs, 1)
    if sampler not in ("auto", "hmc", "gibbs"):
        raise InputError(f"sampler must be 'auto', 'hmc' or 'gibbs'; got {sampler!r}")
    if sampler == "auto":
        have_data = (np.einsum("tii->ti", tasks.scatters) > 0).all()
        suits_gibbs = structure_prior == "restricted" and have_data and not settings
        sampler = "gibbs" if suits_gibbs else "hmc"
    if sampler == "gibbs" and structure_prior != "restricted":
        raise InputError(
            f"the Gibbs sampler needs structure_prior='restricted'; got {structure_prior!r}"
        )
    hmc_settings = _hmc_settings(sampler, settings)
    if n_warmup is None:
        n_warmup = 300 if warm_start is None else 50
    check_count("n_warmup", n_warmup, 0)

    adjacencies = stack_graphs(adjacencies, tasks)
    posterior = build_posterior(
        adjacencies, tasks.scatters, tasks.ns, nu0, structure_prior, checked=True
    )
    check_proper(posterior, tasks.variables)
    starts = _starts(tasks, nu0, initial, warm_start, sampler, n_chains)
    dispersed = warm_start is None
    seeds = seed_sequence(random_state).spawn(n_chains)

    def run(chain: int, raise_if_stopped: Callable[[], None]):
        def report(made: int) -> None:
            raise_if_stopped()
            if progress is not None:
                progress(made)

        rng = np.random.default_rng(seeds[chain])
        start = starts[chain]
        if sampler == "gibbs":
            draws, end = gibbs.run_chain(posterior, start, rng, n_draws, n_warmup, report)
            return draws, None, end
        if not isinstance(start, hmc.HMCState):
            start = hmc.initial_state(
                posterior, start, hmc_settings.whiten, rng if dispersed else None
            )
        return hmc.run_chain(posterior, start, rng, n_draws, n_warmup, hmc_settings, report)

    with stoppable_threads(min(n_jobs or os.cpu_count() or 1, n_chains)) as (
        pool,
        raise_if_stopped,
    ):
        chains = pool.map(run, range(n_chains), [raise_if_stopped] * n_chains)
        draws, infos, ends = zip(*chains, strict=True)
    shape = (n_chains, n_draws)
    statistics = {
        "acceptance_rate": np.ones(shape),
        "energy": np.full(shape, np.nan),
        "n_steps": np.zeros(shape, dtype=np.int64),
        "diverging": np.zeros(shape, dtype=bool),
    }
    if sampler == "hmc":
        columns = zip(*infos, strict=True)
        statistics = dict(zip(statistics, map(np.array, columns), strict=True))
    return Draws(np.array(draws), statistics, tasks.variables, sampler, ends)


def _starts(tasks, nu0, initial, warm_start, sampler, n_chains) -> list:
    if warm_start is not None:
        if not isinstance(warm_start, Draws):
            raise InputError(f"warm_start must be Draws; got {type(warm_start).__name__}")
        if initial is not None:
            raise InputError("give either initial or warm_start, not both")
        if len(warm_start.states) != n_chains or warm_start.variables != tasks.variables:
            raise InputError(
                f"warm_start has {len(warm_start.states)} chains over {warm_start.variables}; this "
                f"run wants {n_chains} over {tasks.variables}"
            )
        if sampler == warm_start.sampler:
            for state in warm_start.states:
                _check_state(state, tasks.n_variables)
            return list(warm_start.states)
        return list(warm_start.sigma_h[:, -1])
    if initial is None:
        initial = unstructured_sigma_h(tasks.scatters, tasks.ns, nu0, checked=True)
    return [check_positive_definite(initial, "initial", tasks.n_variables)] * n_chains


def _check_state(state, p: int) -> None:
    """Compiled code trusts the shapes, so they are looked at here."""
    size = p * (p + 1) // 2
    if isinstance(state, hmc.HMCState):
        shapes = (state.centre.shape, state.position.shape, state.inverse_mass.shape)
        fits = shapes == ((p, p), (size,), (size,))
    else:
        fits = np.shape(state) == (p, p)
    if not fits:
        raise InputError("the states of warm_start do not fit its variables; was it changed?")


def _hmc_settings(sampler: str, settings: dict) -> hmc.HMCSettings:
    if sampler == "gibbs" and settings:
        raise InputError(f"the Gibbs sampler has no settings; got {sorted(settings)}")
    unknown = sorted(set(settings) - set(hmc.HMCSettings._fields))
    if unknown:
        raise InputError(f"unknown settings {unknown}; HMC has {list(hmc.HMCSettings._fields)}")
    hmc_settings = hmc.HMCSettings(**settings)
    hmc_settings.check()
    return hmc_settings
