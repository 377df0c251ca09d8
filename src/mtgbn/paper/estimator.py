"""The estimator PaperMTGBN: the paper's method, corrected."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mtgbn.chain.draws import Draws
from mtgbn.errors import InputError
from mtgbn.learn.checkpoint import Checkpoint
from mtgbn.learn.iterative import IterativeEstimator, one_blas_thread
from mtgbn.learn.joint import Iteration
from mtgbn.learn.ordering import Ordering
from mtgbn.learn.parallel import Progress, no_progress
from mtgbn.learn.parameter_checks import (
    ParameterTable,
    a_seed,
    at_least_zero,
    number_of_jobs,
    one_of,
    whole,
)
from mtgbn.learn.search_parameters import (
    SEARCH_PARAMETERS,
    candidate_constraints,
    search_settings,
)
from mtgbn.model.arguments import check_delta
from mtgbn.model.edge_prior_setting import EdgePriorSetting, arranged, edge_prior_of
from mtgbn.paper.em import EMProblem, EMState, advance, draw_finally, start
from mtgbn.paper.hmc import HMCState
from mtgbn.search.knowledge import Knowledge
from mtgbn.tasks import Tasks

# delta of the default nu0: docs/decisions.md.
_DEFAULT_DELTA = 50.0


class PaperMTGBN(IterativeEstimator):
    """The paper's method, corrected: Monte Carlo EM given graphs, nothing estimated but graphs.

    For comparisons; `MTGBN` is the method to use. Nothing says whether a task is a member, edges have
    no probabilities, and values must not be missing.

    Parameters
    ----------
    structure_prior : {"restricted", "scale_free", "decomposable"}
        Prior of a graph given sigma_h; see docs/model.md, section 3. "decomposable" is what the paper
        writes. It needs ``search="mmhc"`` without a tabu list, and is slow, since every move costs a
        triangulation.
    nu0 : float, optional
        How closely the tasks' covariances follow the shared sigma_h; above p - 1. Default: p + 49.
    edge_prior : optional
        Density r, or (r, s) with the similarity s, or a matrix or data frame of the probabilities of
        the pairs, alone or with s. Default: (1/(p - 1), 4).
    search, n_restarts, tabu, candidates
        As for `SIG`; the default search is the paper's max-min hill climbing.
    knowledge, n_jobs, random_state
        As for `MTGBN`.
    n_draws : int
        Draws in the first E-step.
    tol : float
        EM has converged when the gain in Q per task is below this.
    max_iter : int
        Largest number of EM iterations.

    Attributes
    ----------
    graphs_, cpdags_, order_, agreement_, sigma_h_, draws_, covariances_, coefficients_, \
    residual_variances_, history_, converged_, stop_reason_, n_iter_, diagnostics_, warnings_, \
    random_state_, nu0_, edge_prior_, task_names_, variables_, tasks_
        As for `MTGBN`.

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=4, n_variables=4, n_rows=100, random_state=0)
    >>> PaperMTGBN(random_state=0).fit(simulation.tasks).graphs_.shape
    (4, 4, 4)
    """

    parameter_table: ClassVar[ParameterTable] = {
        "structure_prior": one_of("restricted", "scale_free", "decomposable"),
        **SEARCH_PARAMETERS,
        "n_draws": whole(8),
        "tol": at_least_zero,
        "max_iter": whole(1),
        "n_jobs": number_of_jobs,
        "random_state": a_seed,
    }

    def __init__(
        self,
        *,
        structure_prior: Literal["restricted", "scale_free", "decomposable"] = "restricted",
        nu0: float | None = None,
        edge_prior: EdgePriorSetting = None,
        search: Literal["boss", "mmhc"] = "mmhc",
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
        self.structure_prior = structure_prior
        self.nu0 = nu0
        self.edge_prior = edge_prior
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
        tasks: Any,
        y: None = None,
        *,
        callback: Callable[[EMState], Any] | None = None,
        progress: Progress | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Learn the graphs of all tasks; arguments as for `MTGBN.fit`."""
        progress = progress or no_progress
        tasks = self._read(tasks)
        self.check(tasks)
        saved = Checkpoint.of(self, tasks, checkpoint, (EMState, Iteration, HMCState))
        ordering = Ordering.of(tasks)
        problem = self._pose(tasks.variables, ordering, saved.seeds)
        with one_blas_thread():
            state = self._iterate(problem, saved, start, advance, callback, progress)
            draws = draw_finally(problem, state, self.n_jobs, progress)
            graphs = ordering.to_user(state.adjacencies, "tvv")
            self.store_graphs(tasks, graphs, edge_prior_of(self.edge_prior, tasks.variables).prior)
            self._align_directions()
            self.nu0_ = problem.nu0
            sigma_h = ordering.to_user(draws.sigma_h, "vv")
            draws = Draws(sigma_h, draws.statistics, tasks.variables, draws.sampler)
            self._store_course(problem, state, draws)
        self._warn()
        return self

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        super().check(tasks)
        if self.structure_prior == "decomposable" and (self.search != "mmhc" or self.tabu):
            raise InputError(
                "structure_prior='decomposable' is not a sum over families; it needs search='mmhc' "
                "without a tabu list"
            )
        if tasks.incomplete:
            raise InputError(
                f"PaperMTGBN needs complete data, and task {tasks.names[min(tasks.incomplete)]!r} "
                "lacks values: fill them in, or use MTGBN"
            )
        check_delta(self._nu0(tasks.n_variables), tasks.n_variables)
        choice = edge_prior_of(self.edge_prior, tasks.variables)
        if not choice.is_fixed:
            raise InputError(
                f"edge_prior={self.edge_prior!r} cannot be estimated by the paper's method, whose "
                "priors are not normalised; give numbers, or use MTGBN"
            )

    def _nu0(self, p: int) -> float:
        return p - 1 + _DEFAULT_DELTA if self.nu0 is None else self.nu0

    def _pose(
        self,
        user_variables: tuple[str, ...],
        ordering: Ordering,
        seeds: np.random.SeedSequence,
    ) -> EMProblem:
        """What is learned, in canonical order."""
        tasks = ordering.tasks
        choice = edge_prior_of(self.edge_prior, user_variables)
        knowledge = self.resolved_knowledge(tasks.variables)
        return EMProblem(
            tasks=tasks,
            constraints=candidate_constraints(self, tasks, knowledge),
            nu0=float(self._nu0(tasks.n_variables)),
            edge_prior=arranged(choice, ordering.variable_order),
            structure_prior=self.structure_prior,
            search=search_settings(self),
            n_draws=self.n_draws,
            tolerance=float(self.tol),
            max_iter=self.max_iter,
            seeds=seeds,
        )
