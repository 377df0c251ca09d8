"""The estimator MTGBN: all tasks together, by Monte Carlo EM."""

import warnings
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

import mtgbn
from mtgbn.errors import ConvergenceWarning, InputError, NotFittedError
from mtgbn.learn import em
from mtgbn.learn.checkpoint import fingerprint, read_checkpoint, write_checkpoint
from mtgbn.learn.edge_prior import edge_prior_of
from mtgbn.learn.estimator import Estimator, entropy_of, entropy_text, seeds_of
from mtgbn.learn.parameters import Network, posterior_network
from mtgbn.model import StructurePrior
from mtgbn.model.arguments import check_count, check_delta, seed_sequence
from mtgbn.model.densities import check_structure_prior
from mtgbn.sampling import Draws
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks
from mtgbn.tasks.notes import unequal_scales

__all__ = ["MTGBN"]

# delta of the default nu0: docs/decisions.md.
_DEFAULT_DELTA = 50.0

# Above this even a mean over the draws of sigma_h is in doubt.
_WORST_RHAT = 1.2


class MTGBN(Estimator):
    """One Gaussian Bayesian network per task, learned from all tasks together by Monte Carlo EM.

    Parameters
    ----------
    nu0 : float, optional
        How closely the tasks' covariances follow the shared sigma_h; above p - 1. Default: p + 49.
    edge_prior : float or (float, float), optional
        Density r, the prior probability of an edge, and similarity s: the smaller, the more alike the
        tasks' graphs are taken to be. r alone: unrelated graphs. Default: r = 1/(p - 1), s = 4.
    structure_prior : {"uniform", "restricted", "scale_free", "decomposable"}
        Of a graph given sigma_h; see docs/model.md, section 3. The last is the paper's: only with
        ``search="mmhc"``, and slow, since every move costs a triangulation.
    search : {"boss", "mmhc"}
        Best order score search, or the paper's max-min hill climbing.
    n_restarts : int, optional
        Restarts of the search. Default: 10 for boss, 0 for mmhc.
    tabu : int, optional
        Moves that hill climbing (for boss: a last polish) goes on over a local optimum. Default: 10 for
        boss, 0 for mmhc.
    candidates : {"all", "mmpc", "pooled"}, optional
        Pairs that may be joined: all, those that a task's own data suggest, or those that any task or
        all together do. Default: all for boss, mmpc for mmhc.
    knowledge : Knowledge or dict, optional
        Required and forbidden edges, tiers, most parents.
    n_draws : int
        Draws of sigma_h in an E-step; their number grows when the Monte Carlo error asks for it.
    tol : float
        A gain in Q below this, per task, in two iterations ends EM; as does one within twice its Monte
        Carlo error, if that error is at most twice this.
    max_iter : int
        Most EM iterations.
    n_jobs : int, optional
        Tasks searched at once, in threads; joblib's default if left out, -1 for all processors. Within
        ``joblib.parallel_config("dask")`` they are searched on the cluster.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.

    Attributes
    ----------
    graphs_ : array (m, p, p)
        DAGs; ``graphs_[t, i, j]`` means i -> j in task t.
    cpdags_ : array (m, p, p)
        Their Markov equivalence classes; an edge in both directions has none that data could tell.
    sigma_h_ : array (p, p)
        Posterior mean given the graphs.
    draws_ : Draws
        Draws of sigma_h given the graphs.
    covariances_ : array (m, p, p)
    coefficients_ : array (m, p, p)
        ``coefficients_[t, i, j]`` belongs to the edge i -> j of task t.
    residual_variances_ : array (m, p)
        Posterior means, like the two before.
    history_ : tuple of Iteration
    converged_ : bool
    stop_reason_ : str
    n_iter_ : int
    diagnostics_ : dict
        Of the draws: largest R-hat and smallest bulk ESS of the variances and the log determinant, mean
        acceptance, number of divergences. For every element: ``draws_.diagnostics()``.
    warnings_ : tuple of str
    random_state_ : int
        The seed that was used; given as ``random_state`` it repeats the fit.
    nu0_ : float
    edge_prior_ : EdgePrior
    task_names_, variables_ : tuple of str

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=5, n_variables=4, n_rows=100, random_state=0)
    >>> learner = MTGBN(random_state=0).fit(simulation.tasks)
    >>> learner.graphs_.shape
    (5, 4, 4)
    """

    def __init__(
        self,
        *,
        nu0: float | None = None,
        edge_prior: float | tuple[float, float] | None = None,
        structure_prior: StructurePrior = "uniform",
        search: Literal["boss", "mmhc"] = "boss",
        n_restarts: int | None = None,
        tabu: int | None = None,
        candidates: Literal["all", "mmpc", "pooled"] | None = None,
        knowledge: Knowledge | Mapping[str, Any] | None = None,
        n_draws: int = 30,
        tol: float = 0.05,
        max_iter: int = 50,
        n_jobs: int | None = None,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        self.nu0 = nu0
        self.edge_prior = edge_prior
        self.structure_prior = structure_prior
        self.search = search
        self.n_restarts = n_restarts
        self.tabu = tabu
        self.candidates = candidates
        self.knowledge = knowledge
        self.n_draws = n_draws
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        tasks,
        y: None = None,
        *,
        callback: Callable[[em.State], Any] | None = None,
        progress: Callable[[str, int, int], Any] | None = None,
        checkpoint=None,
    ) -> Self:
        """Learn the graphs of all tasks.

        Parameters
        ----------
        tasks : Tasks
            Or anything that `Tasks.from_any` takes.
        y : None
            Not used; scikit-learn's convention.
        callback : callable, optional
            Called with the `State` after every iteration; stops EM by returning True.
        progress : callable, optional
            Called with what is being done, how much of it is done, and how much there is.
        checkpoint : path, optional
            A file that is renewed after every iteration. If it exists, the fit goes on from there and
            ends with the same result as one that was never interrupted.
        """
        tasks = Tasks.from_any(tasks)
        report = progress or em.silent
        self.check(tasks)
        seeds = seed_sequence(self.random_state)
        ordered, *places = self._canonical(tasks)
        problem = self._pose(ordered, seeds)
        belongs_to = self._fingerprint(tasks)
        state = None
        if checkpoint is not None:
            if not Path(checkpoint).absolute().parent.is_dir():
                raise InputError(f"the folder of the checkpoint {str(checkpoint)!r} does not exist")
            if self.random_state is not None:
                belongs_to["seeds"] = entropy_text(seeds)
            found = read_checkpoint(checkpoint, belongs_to)
            if found is not None:
                state, entropy = found
                seeds = seeds_of(entropy)
                problem = problem._replace(seeds=seeds)
                if not state.converged and len(state.history) < self.max_iter:
                    state = state._replace(reason="")  # stopped by a callback or a lower max_iter
        if state is None:
            state = em.start(problem, self.n_jobs, report)
        while not state.reason:
            if checkpoint is not None:
                write_checkpoint(checkpoint, state, entropy_text(seeds), belongs_to)
            state = em.advance(problem, state, self.n_jobs, report)
            asked = None if callback is None else callback(state)
            if isinstance(asked, bool | np.bool_) and asked and not state.reason:
                state = state._replace(reason="the callback asked to stop")
        if checkpoint is not None:
            write_checkpoint(checkpoint, state, entropy_text(seeds), belongs_to)
        draws = em.draw_finally(problem, state, self.n_jobs, report)
        self._finish(tasks, places, problem, state, draws)
        return self

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        self._check_search(tasks)
        check_count("n_draws", self.n_draws, 8)
        check_count("max_iter", self.max_iter, 1)
        if not (isinstance(self.tol, Real) and self.tol >= 0):
            raise InputError(f"tol must be a number of at least 0; got {self.tol!r}")
        check_structure_prior(self.structure_prior)
        if self.structure_prior == "decomposable" and (self.search != "mmhc" or self.tabu):
            raise InputError(
                "structure_prior='decomposable' is no sum over families; it needs search='mmhc' without "
                "a tabu list"
            )
        check_delta(self._nu0(tasks.n_variables), tasks.n_variables)
        edge_prior_of(self.edge_prior, tasks.n_variables)
        if not isinstance(self.random_state, np.random.Generator):  # which looking would advance
            seed_sequence(self.random_state)

    def _nu0(self, p: int) -> float:
        return p - 1 + _DEFAULT_DELTA if self.nu0 is None else self.nu0

    def _pose(self, ordered: Tasks, seeds: np.random.SeedSequence) -> em.Problem:
        """What EM works on, from tasks in canonical order."""
        p = ordered.n_variables
        return em.Problem(
            ordered,
            self._constraints(ordered),
            float(self._nu0(p)),
            edge_prior_of(self.edge_prior, p),
            self.structure_prior,
            self._search_settings(),
            self.n_draws,
            float(self.tol),
            self.max_iter,
            seeds,
        )

    def _fingerprint(self, tasks: Tasks) -> dict[str, str]:
        """What a checkpoint of this fit belongs to."""
        settings = self.get_params()
        for name in ("n_jobs", "random_state", "max_iter"):
            del settings[name]
        settings["mtgbn"] = mtgbn.__version__
        return fingerprint(tasks, settings)

    def _finish(
        self,
        tasks: Tasks,
        places: list[list[int]],
        problem: em.Problem,
        state: em.State,
        draws: Draws,
    ) -> None:
        """Put everything back into the order of the user's tasks and variables."""
        task_places, variable_places = places
        square = np.ix_(variable_places, variable_places)
        graphs = np.array([state.adjacencies[t][square] for t in task_places])
        self._store(tasks, graphs, problem.edge_prior)
        self.nu0_ = problem.nu0
        self.random_state_ = entropy_of(problem.seeds)
        self.draws_ = Draws(
            draws.sigma_h[:, :, square[0], square[1]],
            draws.statistics,
            tasks.variables,
            draws.sampler,
        )
        self.sigma_h_ = self.draws_.mean
        self.history_ = state.history
        self.n_iter_ = len(state.history)
        self.converged_ = state.converged
        self.stop_reason_ = state.reason
        self.diagnostics_ = _summary_of(self.draws_)
        self.warnings_ = self._worries()
        self._store_parameters()
        for warning in self.warnings_:
            warnings.warn(warning, ConvergenceWarning, stacklevel=3)

    def _worries(self) -> tuple[str, ...]:
        """What a user should know before trusting the result."""
        worries = list(unequal_scales(self._tasks))
        if not self.converged_:
            last = self.history_[-1]
            advice = ". Raise max_iter" if self.n_iter_ >= self.max_iter else ""
            worries.append(
                f"EM did not converge: {self.stop_reason_}; in iteration {self.n_iter_}, "
                f"{last.n_changed} of {len(self.graphs_)} graphs changed, with a gain in Q of "
                f"{last.gain:.3g} (Monte Carlo error {last.gain_error:.2g}){advice}"
            )
        found = self.diagnostics_
        if found["rhat"] > _WORST_RHAT:
            worries.append(
                f"R-hat of the draws of sigma_h reaches {found['rhat']:.2f}, above {_WORST_RHAT}: the "
                "chains disagree. Raise n_draws"
            )
        if found["n_divergent"]:
            worries.append(
                f"{found['n_divergent']} of {len(self.draws_.flat)} trajectories of sigma_h diverged; "
                "results that depend on it may be biased"
            )
        return tuple(worries)

    def _network(self, t: int) -> Network:
        if not hasattr(self, "draws_"):
            raise NotFittedError(
                "this result was saved without the draws of sigma_h, which predictions need; fit again"
            )
        return posterior_network(
            self.graphs_[t],
            self._tasks.scatters[t],
            self._tasks.ns[t],
            self.draws_.flat,
            self.nu0_ - len(self.variables_) + 1,
        )


def _summary_of(draws: Draws) -> dict[str, float | int]:
    """Diagnostics of the log determinant and of the variances in sigma_h.

    Those of all elements, `Draws.diagnostics`, take longer than the draws when there are many variables.
    """
    from arviz_stats.base import array_stats

    logarithms = np.log(np.einsum("...ii->...i", np.linalg.cholesky(draws.sigma_h))).sum(axis=-1)
    variances = np.einsum("...ii->...i", draws.sigma_h)
    quantities = np.concatenate([logarithms[None], np.moveaxis(variances, -1, 0)])
    axes = {"chain_axis": 1, "draw_axis": 2}
    return {
        "rhat": float(np.max(array_stats.rhat(quantities, method="rank", **axes))),
        "ess": float(np.min(array_stats.ess(quantities, method="bulk", **axes))),
        "acceptance": float(draws.statistics["acceptance_rate"].mean()),
        "n_divergent": int(draws.statistics["diverging"].sum()),
    }
