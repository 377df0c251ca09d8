"""The estimator MTGBN: all tasks together."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from threadpoolctl import ThreadpoolController

import mtgbn
from mtgbn._utils.arguments import check_count
from mtgbn._utils.seeds import entropy_of, entropy_text, seed_sequence
from mtgbn.errors import ConvergenceWarning, InputError, NotFittedError
from mtgbn.graphs import cpdag
from mtgbn.learn import em, explore
from mtgbn.learn.canonical import agreeing_members, canonical_order
from mtgbn.learn.checkpoint import fingerprint, read_checkpoint, write_checkpoint
from mtgbn.learn.estimator import (
    Estimator,
    network_alone,
)
from mtgbn.learn.new_task import LearnedTask, Terms, learn_alone, sample_graphs
from mtgbn.learn.parameters import Network, posterior_network
from mtgbn.learn.probabilities import diagnose_edges
from mtgbn.learn.relatedness import describe_relatedness
from mtgbn.learn.worries import worries_about
from mtgbn.model import StructurePrior
from mtgbn.model.arguments import check_delta
from mtgbn.model.densities import check_structure_prior
from mtgbn.model.edge_prior import (
    EdgePrior,
    EdgePriorSetting,
    arranged,
    edge_prior_of,
    log_odds_of_directions,
)
from mtgbn.sampling import Draws, diagnostics
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks

__all__ = ["MTGBN"]

# delta of the default nu0: docs/decisions.md.
_DEFAULT_DELTA = 50.0

# With this, sums of sigma_h and scatters still have eight digits of the latter.
_LARGEST_NU0 = 1e8

# What only some fits have.
_OPTIONAL = (
    "edge_probabilities_",
    "adjacency_probabilities_",
    "edge_diagnostics_",
    "relatedness_",
    "membership_",
)


class MTGBN(Estimator):
    """One Gaussian Bayesian network per task, learned from all tasks together.

    Parameters
    ----------
    inference : {"map", "posterior"}
        The graphs with the highest mean score over draws of everything else, by Monte Carlo EM: fast. Or
        those of all adjacencies with a posterior probability above 1/2: slower, fewer wrong edges, and
        the probabilities themselves.
    nu0 : float or "auto", optional
        How closely the tasks' covariances follow the shared sigma_h; above p - 1. Default: sampled along
        with the rest, or p + 49 under another structure prior than uniform.
    edge_prior : optional
        Density r, the prior probability of an edge, and similarity s: the smaller, the more alike the
        tasks' graphs are taken to be. "shared": both are estimated from the graphs that the tasks have
        by themselves; "density": r alone, for unrelated graphs; "sampled": both are sampled with the
        graphs; r or (r, s): fixed; a matrix or data frame of probabilities of the pairs, alone or with
        s. Without s, r and a matrix are those of unrelated graphs, whose edges and directions say
        nothing of each other. Default: "shared", or (1/(p - 1), 4) under another structure prior than
        uniform.
    shared_directions : bool
        Whether an edge is likely to have the direction that it has in the other tasks. Under another
        structure prior than uniform it never is.
    structure_prior : {"uniform", "restricted", "scale_free", "decomposable"}
        Of a graph given sigma_h; see docs/model.md, section 3. All but the first are for comparison: EM
        as in the paper, with nothing estimated but graphs. The last needs ``search="mmhc"`` and is slow,
        since every move costs a triangulation.
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
    missing : {"error", "em"}
        What nan in the data means. "em": a missing value, drawn anew in every round given the rest;
        tasks may lack whole variables. For a `Tasks` it was said when it was made.
    n_draws : int
        Draws in an E-step.
    n_rounds : int
        Rounds per chain of a posterior estimate, after the warm-up.
    tol : float
        Share of the edges that may change on fresh draws when EM ends. Under another structure prior
        than uniform: gain in Q per task.
    max_iter : int
        Most EM iterations.
    n_jobs : int, optional
        Tasks searched and chains run at once, in threads; joblib's default if left out, -1 for all
        processors. Within ``joblib.parallel_config("dask")`` tasks are searched on the cluster.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs.

    Attributes
    ----------
    graphs_ : array (m, p, p)
        DAGs; ``graphs_[t, i, j]`` means i -> j in task t. Of each Markov equivalence class the member
        that agrees best with the other tasks.
    cpdags_ : array (m, p, p)
        Their Markov equivalence classes; an edge in both directions has none that data could tell.
    edge_probabilities_, adjacency_probabilities_ : array (m, p, p)
        Of i -> j, and of an edge in either direction; only of a posterior estimate.
    edge_diagnostics_ : EdgeDiagnostics
        R-hat and effective sample size of every adjacency; only of a posterior estimate.
    relatedness_ : Relatedness
        How alike the tasks are; ``relatedness_.in_words()``.
    membership_ : array (m,)
        Posterior probability that a task belongs to the others.
    order_, agreement_
        The variables in the order that the directions follow, and the share of reversible edges that do.
    sigma_h_ : array (p, p)
        Posterior mean.
    draws_ : Draws
        Draws of sigma_h, scaled to the mean delta.
    covariances_ : array (m, p, p)
    coefficients_ : array (m, p, p)
        ``coefficients_[t, i, j]`` belongs to the edge i -> j of task t.
    residual_variances_ : array (m, p)
        Posterior means given the graph, like the two before.
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
        As given, or p - 1 plus the geometric mean of the draws of delta.
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
        inference: Literal["map", "posterior"] = "map",
        nu0: float | Literal["auto"] | None = None,
        edge_prior: EdgePriorSetting = None,
        shared_directions: bool = True,
        structure_prior: StructurePrior = "uniform",
        search: Literal["boss", "mmhc"] = "boss",
        n_restarts: int | None = None,
        tabu: int | None = None,
        candidates: Literal["all", "mmpc", "pooled"] | None = None,
        knowledge: Knowledge | Mapping[str, Any] | None = None,
        missing: Literal["error", "em"] = "error",
        n_draws: int = 30,
        n_rounds: int = 1600,
        tol: float = 0.05,
        max_iter: int = 50,
        n_jobs: int | None = None,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        self.inference = inference
        self.nu0 = nu0
        self.edge_prior = edge_prior
        self.shared_directions = shared_directions
        self.structure_prior = structure_prior
        self.search = search
        self.n_restarts = n_restarts
        self.tabu = tabu
        self.candidates = candidates
        self.knowledge = knowledge
        self.missing = missing
        self.n_draws = n_draws
        self.n_rounds = n_rounds
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
        if self.missing not in ("error", "em"):
            raise InputError(f"missing must be 'error' or 'em'; got {self.missing!r}")
        if not isinstance(tasks, Tasks):
            tasks = Tasks.from_any(tasks, missing=self.missing)
        report = progress or em.silent
        self.check(tasks)
        for name in _OPTIONAL:  # of an earlier fit
            self.__dict__.pop(name, None)
        seeds = seed_sequence(self.random_state)
        ordered, *places = self._canonical(tasks)
        problem = self._pose(tasks, ordered, seeds)
        belongs_to = self._fingerprint(tasks)
        start, advance = self._steps()
        state = None
        if checkpoint is not None:
            if not Path(checkpoint).absolute().parent.is_dir():
                raise InputError(f"the folder of the checkpoint {str(checkpoint)!r} does not exist")
            if self.random_state is not None:
                belongs_to["seeds"] = entropy_text(seeds)
            found = read_checkpoint(checkpoint, belongs_to)
            if found is not None:
                state, entropy = found
                seeds = seed_sequence(entropy)
                problem = problem._replace(seeds=seeds)
                if not state.converged and len(state.history) < self.max_iter:
                    state = state._replace(reason="")  # stopped by a callback or a lower max_iter
        # Matrices are small: threads of BLAS would cost up to 75 times the CPU time.
        with _libraries().limit(limits=1, user_api="blas"):
            if state is None:
                state = start(problem, self.n_jobs, report)
            while not state.reason:
                if checkpoint is not None:
                    write_checkpoint(checkpoint, state, entropy_text(seeds), belongs_to)
                state = advance(problem, state, self.n_jobs, report)
                asked = None if callback is None else callback(state)
                if isinstance(asked, bool | np.bool_) and asked and not state.reason:
                    state = state._replace(reason="the callback asked to stop")
            if checkpoint is not None:
                write_checkpoint(checkpoint, state, entropy_text(seeds), belongs_to)
            if isinstance(state, em.State):
                draws = em.draw_finally(problem, state, self.n_jobs, report)
                self._finish(tasks, places, problem, state, draws)
            else:
                self._finish_exploring(tasks, places, problem, state, report)
        return self

    def fit_task(
        self,
        data: Any,
        *,
        alone: bool = False,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> LearnedTask:
        """Learn one more task with what the fit has taught, without fitting again.

        Parameters
        ----------
        data : Tasks of one task, DataFrame or array (rows, p)
            In the units of the other tasks, and standardised if they were. Columns with names are
            matched by them. For time series: a Tasks that was read with ``effective_samples``.
        alone : bool
            Told nothing by the others, as `SIG` would learn it: when the question is what the task's own
            data say. Only directions that data cannot tell are still the cohort's.
        random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
            Left out: the seed of the fit.

        Notes
        -----
        Unless it is alone, the new task is taken to belong to the others; their sigma_h, nu0 and edges
        are held.
        """
        self._position(0)  # raises, if not fitted
        if self.structure_prior != "uniform":
            raise InputError("fit_task needs a fit with structure_prior='uniform'")
        task = self._one_task(data)
        seeds = seed_sequence(self.random_state_ if random_state is None else random_state)
        search_seed, chain_seed = seeds.spawn(2)
        (constraints,) = self._constraints(task)
        settings = self._search_settings()
        if alone:
            choice = edge_prior_of(self._edge_prior(), self.variables_)
            start, terms = learn_alone(task, constraints, choice, settings, search_seed)
        else:
            terms = self._terms_of_cohort()
            searched = terms.draws[:: max(len(terms.draws) // self.n_draws, 1)]
            start = em.improve_task(
                task.scatters[0],
                task.ns[0],
                searched,
                self.nu0_,
                "uniform",
                terms.log_odds,
                constraints,
                settings,
                None,
                search_seed,
            ).adjacency
        probabilities, diagnostics = sample_graphs(
            task.scatters[0],
            float(task.ns[0]),
            *terms,
            constraints,
            start,
            np.random.default_rng(chain_seed),
        )
        graph, own_class = start, cpdag(start)
        if self.knowledge is None:
            classes = np.concatenate([self.cpdags_, own_class[None]])
            _, order = canonical_order(self.tasks_)
            graph = agreeing_members(classes, order).graphs[-1]
        either = np.minimum(probabilities + probabilities.T, 1.0)
        return LearnedTask(
            task.names[0],
            task.variables,
            float(task.ns[0]),
            graph,
            own_class,
            probabilities,
            either,
            diagnostics,
        )

    def _terms_of_cohort(self) -> Terms:
        """What a new task is told: draws of sigma_h, delta, and the odds of edges and directions."""
        p = len(self.variables_)
        members = self.graphs_[self.membership_ > 0.5]
        there = members.sum(axis=0)
        odds = self.edge_prior_.log_odds(there + there.T, len(members))
        choice = edge_prior_of(self._edge_prior(), self.variables_)
        if self.shared_directions and choice.source != "sampled":
            agreement = explore.agreement_of(len(self.tasks_), self.edge_prior_)
            odds = odds + log_odds_of_directions(there, there + there.T, agreement)
        draws = np.ascontiguousarray(self.draws_.sigma_h.reshape(-1, p, p))
        return Terms(draws, self.nu0_ - p + 1, odds)

    def _one_task(self, data: Any) -> Tasks:
        """New data as one task with the variables of the fit."""
        standardise = bool((self.tasks_.scales != 1).any())
        if isinstance(data, Tasks):
            tasks = data
        elif hasattr(data, "columns"):
            tasks = Tasks.from_frames({"new": data}, standardise=standardise)
        else:
            tasks = Tasks.from_arrays(
                [data], self.variables_, names=["new"], standardise=standardise
            )
        if len(tasks) != 1:
            raise InputError(f"fit_task learns one task; got {len(tasks)}. Call it for each")
        if tasks.incomplete:
            raise InputError("fit_task needs complete data; fill in the missing values")
        lacking = [name for name in self.variables_ if name not in tasks.variables]
        if lacking:
            raise InputError(f"the new task has no variable {lacking[0]!r}, which the fit has")
        return tasks.select_variables(self.variables_)

    def _steps(self) -> tuple[Callable, Callable]:
        """How to start and how to go on."""
        if self.structure_prior != "uniform":
            return em.start, em.advance
        if self.inference == "map":
            return explore.start, explore.advance_map
        return explore.start, partial(explore.advance_posterior, n_rounds=self.n_rounds)

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
        if self.inference not in ("map", "posterior"):
            raise InputError(f"inference must be 'map' or 'posterior'; got {self.inference!r}")
        check_count("n_rounds", self.n_rounds, 20)
        if not isinstance(self.shared_directions, bool | np.bool_):
            raise InputError(
                f"shared_directions must be True or False; got {self.shared_directions!r}"
            )
        if tasks.incomplete and self.structure_prior != "uniform":
            raise InputError(
                "missing values need structure_prior='uniform'; fill them in beforehand"
            )
        self._check_uniform(tasks)
        if not isinstance(self.random_state, np.random.Generator):  # which looking would advance
            seed_sequence(self.random_state)

    def _check_uniform(self, tasks: Tasks) -> None:
        """What can be estimated needs a normalised model: the uniform structure prior."""
        nu0 = self._nu0(tasks.n_variables)
        if nu0 is not None and check_delta(nu0, tasks.n_variables) > _LARGEST_NU0:
            raise InputError(
                f"nu0 must be at most {_LARGEST_NU0:g}, where tasks are as good as identical; beyond it "
                f"digits are lost; got {nu0!r}"
            )
        choice = edge_prior_of(self._edge_prior(), tasks.variables)
        if self.structure_prior == "uniform":
            return
        estimated = {
            "inference='posterior'": self.inference == "posterior",
            "nu0='auto'": nu0 is None,
            f"edge_prior={self.edge_prior!r}": not choice.is_fixed,
        }
        for setting, is_asked in estimated.items():
            if is_asked:
                raise InputError(
                    f"{setting} needs structure_prior='uniform': under {self.structure_prior!r} the "
                    "model is not normalised and its numbers cannot be estimated"
                )

    def _edge_prior(self) -> EdgePriorSetting:
        """The setting; left out, it is estimated where that is possible."""
        is_uniform = self.structure_prior == "uniform"
        return "shared" if self.edge_prior is None and is_uniform else self.edge_prior

    def _nu0(self, p: int) -> float | None:
        """The degrees of freedom; None if they are to be estimated."""
        if isinstance(self.nu0, str):
            if self.nu0 != "auto":
                raise InputError(f"nu0 must be a number above p - 1, or 'auto'; got {self.nu0!r}")
            return None
        if self.nu0 is None:
            return None if self.structure_prior == "uniform" else p - 1 + _DEFAULT_DELTA
        return self.nu0

    def _pose(self, tasks: Tasks, ordered: Tasks, seeds: np.random.SeedSequence) -> em.Problem:
        """What EM works on, from tasks in canonical order."""
        nu0 = self._nu0(ordered.n_variables)
        order = [tasks.variables.index(name) for name in ordered.variables]
        return em.Problem(
            ordered,
            self._constraints(ordered),
            None if nu0 is None else float(nu0),
            arranged(edge_prior_of(self._edge_prior(), tasks.variables), order),
            self.structure_prior,
            self._search_settings(),
            self.n_draws,
            float(self.tol),
            self.max_iter,
            seeds,
            bool(self.shared_directions),
        )

    def _fingerprint(self, tasks: Tasks) -> dict[str, str]:
        """What a checkpoint of this fit belongs to."""
        settings = self.get_params()
        settings["edge_prior"] = _spelled_out(self.edge_prior)  # arrays abbreviate themselves
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
        self._store(tasks, graphs, edge_prior_of(self._edge_prior(), tasks.variables).prior)
        self._agree()
        self.nu0_ = problem.nu0
        self.n_iter_ = len(state.history)
        sigma_h = draws.sigma_h[:, :, square[0], square[1]]
        self.draws_ = Draws(sigma_h, draws.statistics, tasks.variables, draws.sampler)
        self.diagnostics_ = _summary_of(self.draws_)
        self._conclude(problem, state)

    def _finish_exploring(self, tasks, places, problem: em.Problem, state, report) -> None:
        """As `_finish`, for what the chains gathered."""
        task_places, variable_places = places
        rows, columns = np.ix_(variable_places, variable_places)
        record = state.record
        adjacencies = state.adjacencies
        if self.inference == "posterior":
            adjacencies = explore.posterior_graphs(problem, state, self.n_jobs, report)
            arranged_blocks = record.blocks[:, :, task_places][..., rows, columns]
            rounds = record.n_rounds // state.n_blocks
            self.edge_diagnostics_ = diagnose_edges(arranged_blocks, rounds)
            self.edge_probabilities_ = record.tallies[task_places][:, rows, columns]
            self.adjacency_probabilities_ = np.minimum(  # a sum of two shares can round to above 1
                self.edge_probabilities_ + np.swapaxes(self.edge_probabilities_, 1, 2), 1.0
            )
        graphs = np.array([adjacencies[t][rows, columns] for t in task_places])
        _, density, similarity, *_ = record.numbers
        choice = edge_prior_of(self._edge_prior(), tasks.variables)
        prior = choice.prior if choice.is_fixed else state.edge_prior
        if choice.source == "sampled":
            prior = EdgePrior(float(density.mean()), float(np.exp(np.log(similarity).mean())))
        self.membership_ = record.membership[task_places]
        if tasks.incomplete:
            tasks = tasks.with_scatters(
                record.scatters[task_places][:, rows, columns],
                record.means[task_places][:, variable_places],
            )
        self._store(tasks, graphs, prior)
        self._agree(getattr(self, "edge_probabilities_", None))
        self.relatedness_ = describe_relatedness(
            record.delta,
            self.graphs_,
            record.members[..., task_places],
            record.advantages[..., task_places],
            tasks.ns,
            tasks.names,
        )
        self.nu0_ = problem.nu0 if problem.nu0 else record.delta + tasks.n_variables - 1
        self.n_iter_ = max(len(state.history), state.n_blocks)
        kept = record.numbers[:, :, np.arange(record.psi.shape[1]) * record.stride]
        statistics = {
            "acceptance_rate": kept[5],
            "delta": kept[0],
            "log_density": kept[3],
            "n_edges": kept[4],
        }
        sigma_h = record.psi[..., rows, columns] * record.delta
        self.draws_ = Draws(sigma_h, statistics, tasks.variables, "joint")
        self.diagnostics_ = _summary_of(self.draws_) | {"n_divergent": record.diverging}
        outside = explore.disputed(record.members[..., task_places])
        disputed = tuple(name for name, is_so in zip(tasks.names, outside, strict=True) if is_so)
        self._conclude(problem, state, disputed)

    def _conclude(
        self, problem: em.Problem, state: em.State | explore.Exploration, disputed: tuple = ()
    ) -> None:
        """What follows from the draws, and how the fit ended."""
        self.random_state_ = entropy_of(problem.seeds)
        self.sigma_h_ = self.draws_.mean
        self.history_ = state.history
        self.converged_ = state.converged
        self.stop_reason_ = state.reason
        self.warnings_ = worries_about(self, self.tasks_, disputed)
        self._store_parameters()
        for warning in self.warnings_:
            warnings.warn(warning, ConvergenceWarning, stacklevel=4)

    def _network(self, t: int) -> Network:
        if not hasattr(self, "draws_"):
            raise NotFittedError(
                "this result was saved without the draws of sigma_h, which predictions need; fit again"
            )
        scatter, n = self.tasks_.scatters[t], self.tasks_.ns[t]
        if hasattr(self, "membership_") and self.membership_[t] <= 0.5:
            return network_alone(self.graphs_[t], scatter, n)
        delta = self.nu0_ - len(self.variables_) + 1
        return posterior_network(self.graphs_[t], scatter, n, self.draws_.flat, delta)


@cache
def _libraries() -> ThreadpoolController:
    """Those that have threads; looking for them takes longer than some fits."""
    return ThreadpoolController()


def _summary_of(draws: Draws) -> dict[str, float | int]:
    """Diagnostics of the log determinant and of the variances in sigma_h.

    Those of all elements, `Draws.diagnostics`, take long when there are many variables.
    """
    logarithms = np.log(np.einsum("...ii->...i", np.linalg.cholesky(draws.sigma_h))).sum(axis=-1)
    variances = np.einsum("...ii->...i", draws.sigma_h)
    quantities = np.concatenate([logarithms[None], np.moveaxis(variances, -1, 0)])
    return {
        "rhat": float(np.max(diagnostics.rhat(quantities))),
        "ess": float(np.min(diagnostics.ess_bulk(quantities))),
        "acceptance": float(draws.statistics["acceptance_rate"].mean()),
        "n_divergent": int(np.sum(draws.statistics.get("diverging", 0))),
    }


def _spelled_out(setting: Any) -> Any:
    if isinstance(setting, tuple | list):
        return [_spelled_out(each) for each in setting]
    if hasattr(setting, "to_numpy"):
        labels = [list(map(str, each)) for each in (setting.index, setting.columns)]
        return [*labels, setting.to_numpy().tolist()]
    return setting.tolist() if isinstance(setting, np.ndarray) else setting
