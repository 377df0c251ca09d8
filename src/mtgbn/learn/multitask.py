"""The estimator MTGBN: all tasks learned jointly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit

from mtgbn._utils.seeds import seed_sequence
from mtgbn.chain.draws import Draws
from mtgbn.errors import InputError
from mtgbn.learn.agreed_directions import agree_on_directions
from mtgbn.learn.checkpoint import Checkpoint
from mtgbn.learn.compile_ahead import compiling_chains
from mtgbn.learn.estimator import single_network
from mtgbn.learn.group_differences import differences_of, warnings_of_groups
from mtgbn.learn.groups import Groups, read_groups
from mtgbn.learn.iterative import IterativeEstimator, one_blas_thread
from mtgbn.learn.joint import JointProblem, JointState
from mtgbn.learn.joint_chains import draws_given_graphs
from mtgbn.learn.joint_map import advance_map
from mtgbn.learn.joint_posterior import advance_posterior, posterior_graphs
from mtgbn.learn.min_strength import MinStrengthSetting
from mtgbn.learn.new_task import LearnedTask, learn_new_task
from mtgbn.learn.ordering import Ordering, agreeing_members
from mtgbn.learn.parallel import Progress, no_progress
from mtgbn.learn.parameter_checks import (
    ParameterTable,
    a_correlation_or_auto,
    a_flag,
    a_seed,
    at_least_zero,
    number_of_jobs,
    one_of,
    whole,
)
from mtgbn.learn.parameters import Network
from mtgbn.learn.probabilities import diagnose_edges
from mtgbn.learn.record import Record, disputed
from mtgbn.learn.relatedness import describe_relatedness
from mtgbn.learn.search_parameters import MAX_EFFORT
from mtgbn.learn.single_task import own_families
from mtgbn.learn.starts import start
from mtgbn.model.arguments import check_delta
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.edge_prior_setting import (
    EdgePriorChoice,
    EdgePriorSetting,
    arranged,
    edge_prior_of,
)
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.search.knowledge import Knowledge
from mtgbn.search.local_scores import gather_scores, log_odds_of_ties
from mtgbn.search.methods import SearchSettings
from mtgbn.tasks import Tasks

# Up to this nu0, sums of sigma_h and scatters keep eight digits of the scatters.
_LARGEST_NU0 = 1e8

# Attributes that only some fits have.
_OPTIONAL = (
    *("edge_probabilities_", "adjacency_probabilities_", "edge_diagnostics_"),
    *("groups_", "differences_"),
)


class MTGBN(IterativeEstimator):
    """One Gaussian Bayesian network per task, learned jointly from all tasks.

    Parameters
    ----------
    inference : {"map", "posterior"}
        "map": the graphs with the highest mean score over draws of everything else, by Monte Carlo EM;
        fast. "posterior": the graphs of all adjacencies with a posterior probability above 1/2, and
        the probabilities themselves; slower, with fewer wrong edges.
    nu0 : float or "auto"
        How closely the tasks' covariances follow the shared sigma_h; above p - 1. "auto": sampled.
    edge_prior : optional
        "shared": pairs of variables are absent in nearly all tasks, common to nearly all tasks, or
        varying; how many pairs are of each kind is sampled with the graphs. "density": the prior
        probability of an edge is estimated from the graphs of the single tasks, and tasks share no
        edges. Fixed: the density r, the prior probability of an edge; (r, s) with the similarity s,
        the smaller the more alike the tasks' graphs are; a matrix or data frame of the probabilities
        of the pairs, alone or with s. Without s, tasks share neither edges nor directions.
    min_strength : float or "auto"
        The weakest partial correlation that is worth an edge: in every task, an edge costs what an
        effect of this size is worth in the task's own data. Other tasks can outweigh the cost in one
        task, and not in all. "auto": on average over its tasks, an edge must make a task's data twice
        as likely, and be stronger than errors that all tasks share, such as a common signal, which are
        estimated from pairs that the pooled graph does not join. A number replaces both rules. 0: no
        limit, and with many tasks even errors of the model become edges.
    shared_directions : bool
        Whether an edge is likely to have the direction that it has in the other tasks.
    n_restarts : int
        Restarts of the search.
    tabu : int
        Moves that the last polish of the search goes on over a local optimum; 0: no polish.
    knowledge : Knowledge or dict, optional
        Required and forbidden edges, tiers, the largest number of parents.
    missing : {"error", "em"}
        What nan in the data means. "em": a missing value, drawn in every round given the rest; tasks
        may lack whole variables. A `Tasks` has its own setting.
    n_draws : int
        Draws in an E-step.
    n_rounds : int
        Rounds per chain of a posterior estimate, after the warm-up.
    tol : float
        EM has converged when at most this share of the edges changes on fresh draws; after the third
        iteration, three times this share.
    max_iter : int
        Largest number of EM iterations.
    n_jobs : int, optional
        Tasks searched and chains run at once, in threads; joblib's default if left out, -1 for all
        processors. Within ``joblib.parallel_config("dask")`` tasks are searched on the cluster.
    random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        Decides everything, whatever n_jobs is.

    Attributes
    ----------
    graphs_ : array (m, p, p)
        DAGs; ``graphs_[t, i, j]`` means i -> j in task t. Each is the member of its Markov
        equivalence class that agrees best with the other tasks.
    cpdags_ : array (m, p, p)
        The Markov equivalence classes; data cannot tell the direction of an edge in both directions.
    edge_probabilities_, adjacency_probabilities_ : array (m, p, p)
        Posterior probability of i -> j, and of an edge in either direction; only with
        ``inference="posterior"``.
    edge_diagnostics_ : EdgeDiagnostics
        R-hat and effective sample size of every adjacency; only with ``inference="posterior"``.
    groups_ : dict
        The label of every task; only if groups were given, like ``differences_``.
    differences_ : GroupDifferences
        For every pair, the probability that it is different between the groups, and the difference of
        its frequencies; ``differences_.to_frame()``.
    relatedness_ : Relatedness
        How alike the tasks are; ``relatedness_.in_words()``.
    membership_ : array (m,)
        Posterior probability that a task is a member: that it shares sigma_h and edges.
    ties_ : array (m, p)
        Probability that the family of a variable is tied to the shared sigma_h, given the task's graph.
        Where it is low, the task differs from the others in how this variable depends on its parents.
        0 in tasks that are no members, 1 with fewer than eight variables. Families are judged one by
        one, without the limit on the number of own families.
    order_, agreement_
        The variables in the order that directions follow, and the share of reversible edges that
        follow it.
    sigma_h_ : array (p, p)
        Posterior mean.
    draws_ : Draws
        Draws of sigma_h, scaled to the mean delta.
    covariances_ : array (m, p, p)
    coefficients_ : array (m, p, p)
        ``coefficients_[t, i, j]`` belongs to the edge i -> j of task t.
    residual_variances_ : array (m, p)
        Posterior means given the graph, like the covariances and coefficients.
    history_ : tuple of Iteration
    converged_ : bool
    stop_reason_ : str
    n_iter_ : int
    diagnostics_ : dict
        Largest R-hat and smallest bulk ESS of the variances and the log determinant of sigma_h, mean
        acceptance rate, number of divergences. For every element: ``draws_.diagnostics()``.
    warnings_ : tuple of str
    random_state_ : int
        The seed that was used; as ``random_state`` it repeats the fit.
    nu0_ : float
        As given, or p - 1 plus the geometric mean of the draws of delta.
    edge_prior_ : PairKinds or EdgePrior
        Means of the draws, or as given.
    min_strength_ : MinStrength
        What counts as an edge; ``min_strength_.strengths(tasks_.ns)`` are the weakest partial
        correlations, ``min_strength_.in_words(tasks_.ns)`` says why.
    task_names_, variables_ : tuple of str
    tasks_ : Tasks
        The data that were fitted.

    Notes
    -----
    A two-dimensional array is one task. The estimators pass scikit-learn's ``check_estimator``; the only
    check that cannot apply is in ``mtgbn.learn.estimator.EXPECTED_FAILED_CHECKS``, with the reason.

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=5, n_variables=4, n_rows=100, random_state=0)
    >>> estimator = MTGBN(random_state=0).fit(simulation.tasks)
    >>> estimator.graphs_.shape
    (5, 4, 4)
    """

    parameter_table: ClassVar[ParameterTable] = {
        "inference": one_of("map", "posterior"),
        "min_strength": a_correlation_or_auto,
        "shared_directions": a_flag,
        "n_restarts": whole(0, MAX_EFFORT),
        "tabu": whole(0, MAX_EFFORT),
        "missing": one_of("error", "em"),
        "n_draws": whole(8),
        "n_rounds": whole(20),
        "tol": at_least_zero,
        "max_iter": whole(1),
        "n_jobs": number_of_jobs,
        "random_state": a_seed,
    }

    def __init__(
        self,
        *,
        inference: Literal["map", "posterior"] = "map",
        nu0: float | Literal["auto"] | None = "auto",
        edge_prior: EdgePriorSetting = "shared",
        min_strength: MinStrengthSetting = "auto",
        shared_directions: bool = True,
        n_restarts: int = 10,
        tabu: int = 10,
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
        self.min_strength = min_strength
        self.shared_directions = shared_directions
        self.n_restarts = n_restarts
        self.tabu = tabu
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
        tasks: Any,
        y: None = None,
        *,
        groups: Any = None,
        callback: Callable[[JointState], Any] | None = None,
        progress: Progress | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Learn the graphs of all tasks.

        Parameters
        ----------
        tasks : Tasks
            Or anything that `Tasks.from_any` takes.
        y : None
            Not used; scikit-learn's convention.
        groups : sequence, mapping or Series, optional
            The label of every task, in the order of the tasks or by name: two groups, such as patients
            and controls. A pair of variables may then be different between the groups, which
            ``differences_`` reports. It needs ``inference="posterior"``. Differences are those of the
            second label minus the first; a usual label of controls is the first one, or else the first
            in alphabetical order.
        callback : callable, optional
            Called with the `JointState` after every iteration of EM, or after every block of rounds
            with ``inference="posterior"``; stops the fit by returning True.
        progress : callable, optional
            Called with what is being done, how much of it is done, and how much there is.
        checkpoint : path, optional
            A file that is renewed after every iteration. If it exists, the fit goes on from there and
            ends with the same result as one that was never interrupted.
        """
        progress = progress or no_progress
        if not isinstance(tasks, Tasks):
            one_of("error", "em")("missing", self.missing)
            tasks = self._read(tasks, missing=self.missing)
        self.check(tasks)
        found = None if groups is None else self._read_groups(groups, tasks)
        given = {} if found is None else {"groups": found.in_words}
        saved = Checkpoint.of(self, tasks, checkpoint, given=given)
        ordering = Ordering.of(tasks)
        problem = self._pose(tasks.variables, ordering, saved.seeds)
        if found is not None:
            problem = problem._replace(groups=found.canonical(ordering.task_order)[0])
        advance = advance_map if self.inference == "map" else advance_posterior
        with one_blas_thread():
            state = self._iterate(problem, saved, _start, advance, callback, progress)
            self._store_result(tasks, ordering, problem, state, progress)
        if found is not None:
            self._store_groups(found, ordering, state)
        self._warn()
        return self

    def fit_task(
        self,
        data: Any,
        *,
        single: bool = False,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> LearnedTask:
        """Learn one more task given the fit, without fitting again.

        Parameters
        ----------
        data : Tasks of one task, DataFrame or array (rows, p)
            In the units of the other tasks, and standardised if they were. Columns with names are
            matched by them. For time series: a Tasks that was read with ``effective_samples``.
        single : bool
            Learn it as a single task, as `SIG` would: for what the task's own data say. Only the
            directions that data cannot tell still follow the cohort.
        random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
            Default: the seed of the fit.

        Notes
        -----
        Unless it is a single task, the new task is taken to be a member. The cohort's sigma_h, nu0
        and edges are held fixed.
        """
        self._check_is_fitted()
        task = self._one_task(data)
        seeds = seed_sequence(self.random_state_ if random_state is None else random_state)
        learned = learn_new_task(
            self,
            task,
            self.resolved_knowledge(task.variables),
            self._search_settings(),
            single=single,
            seeds=seeds,
        )
        graph = learned.graph
        if not self.settles_directions():
            classes = np.concatenate([self.cpdags_, learned.cpdag[None]])
            order = Ordering.of(self.tasks_).variable_order
            graph = agreeing_members(classes, order).graphs[-1]
        return learned._replace(graph=graph)

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

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        super().check(tasks)
        nu0 = self._nu0()
        if nu0 is not None and check_delta(nu0, tasks.n_variables) > _LARGEST_NU0:
            raise InputError(
                f"nu0 must be at most {_LARGEST_NU0:g}, where tasks are practically identical; "
                f"beyond it digits are lost; got {nu0!r}"
            )
        self.edge_prior_choice(tasks.variables)

    def check_groups(self, variables: Sequence[str]) -> None:
        """Raise an error unless the settings are those of a fit that may have groups."""
        if self.inference != "posterior":
            raise InputError(
                "groups need inference='posterior': probabilities of differences are means over many "
                "draws of all graphs, and a map estimate has few draws around one set of graphs"
            )
        source = self.edge_prior_choice(variables).source
        if source != "shared":
            raise InputError(
                f"groups need edge_prior='shared', which knows kinds of pairs; got {self.edge_prior!r}"
            )

    def _read_groups(self, groups: Any, tasks: Tasks) -> Groups:
        found = read_groups(groups, tasks.names)
        self.check_groups(tasks.variables)
        return found

    def edge_prior_choice(self, variables: Sequence[str]) -> EdgePriorChoice:
        """The edge prior that the setting means; None means the default."""
        setting = "shared" if self.edge_prior is None else self.edge_prior
        return edge_prior_of(setting, variables)

    def _nu0(self) -> float | None:
        """The degrees of freedom; None if they are to be sampled."""
        if isinstance(self.nu0, str):
            if self.nu0 != "auto":
                raise InputError(f"nu0 must be a number above p - 1, or 'auto'; got {self.nu0!r}")
            return None
        return self.nu0

    def _search_settings(self) -> SearchSettings:
        return SearchSettings("boss", self.n_restarts, self.tabu)

    def _pose(
        self,
        user_variables: tuple[str, ...],
        ordering: Ordering,
        seeds: np.random.SeedSequence,
    ) -> JointProblem:
        """What is learned, in canonical order."""
        nu0 = self._nu0()
        variables = ordering.tasks.variables
        choice = self.edge_prior_choice(user_variables)
        return JointProblem(
            tasks=ordering.tasks,
            constraints=self.resolved_knowledge(variables),
            nu0=None if nu0 is None else float(nu0),
            edge_prior=arranged(choice, ordering.variable_order),
            shares_directions=bool(self.shared_directions),
            min_strength=self.min_strength,
            search=self._search_settings(),
            n_draws=self.n_draws,
            n_rounds=self.n_rounds,
            tolerance=float(self.tol),
            max_iter=self.max_iter,
            seeds=seeds,
        )

    def _store_result(
        self,
        tasks: Tasks,
        ordering: Ordering,
        problem: JointProblem,
        state: JointState,
        progress: Progress,
    ) -> None:
        """Set the fitted attributes, in the user's order of tasks and variables."""
        for name in _OPTIONAL:  # of an earlier fit
            self.__dict__.pop(name, None)
        to_user, record = ordering.to_user, state.gathered
        graphs = state.adjacencies
        if self.inference == "posterior":
            graphs = posterior_graphs(problem, state, self.n_jobs, progress)
            per_block = record.n_rounds // state.n_blocks
            self.edge_diagnostics_ = diagnose_edges(to_user(record.blocks, "tvv"), per_block)
            self.edge_probabilities_ = to_user(record.edge_frequencies, "tvv")
            self.adjacency_probabilities_ = np.minimum(  # a sum of two shares can round to above 1
                self.edge_probabilities_ + np.swapaxes(self.edge_probabilities_, 1, 2), 1.0
            )
        graphs = agree_on_directions(problem, state, graphs, self.n_jobs, progress)
        drawn = record
        if self.inference == "map":
            drawn = draws_given_graphs(problem, state, graphs, self.n_jobs, progress)
        self.membership_ = to_user(record.membership, "t")
        self.min_strength_ = state.min_strength
        if tasks.incomplete:
            tasks = tasks.with_scatters(
                to_user(record.scatters, "tvv"), to_user(record.row_means, "tv")
            )
        self.store_graphs(tasks, to_user(graphs, "tvv"), self._final_edge_prior(tasks, state))
        self._align_directions(getattr(self, "edge_probabilities_", None))
        members = to_user(record.members, "t")
        delta = drawn.mean_delta
        self.relatedness_ = describe_relatedness(
            delta,
            float(record.own_share.mean()),
            self.graphs_,
            members,
            to_user(record.advantages, "t"),
            tasks.ns,
            tasks.names,
        )
        self.nu0_ = problem.nu0 if problem.nu0 else delta + tasks.n_variables - 1
        kept = np.arange(drawn.psi.shape[1]) * drawn.stride
        statistics = {
            "acceptance_rate": drawn.acceptance[:, kept],
            "delta": drawn.delta[:, kept],
            "log_density": drawn.log_density[:, kept],
            "n_edges": drawn.n_edges[:, kept],
        }
        sigma_h = to_user(drawn.psi, "vv") * delta
        draws = Draws(sigma_h, statistics, tasks.variables, "joint")
        self.ties_ = self._ties(tasks, record, draws.flat)
        doubtful = [tasks.names[t] for t in np.flatnonzero(disputed(members))]
        n_divergent = record.n_divergent + (drawn.n_divergent if drawn is not record else 0)
        self._store_course(problem, state, draws, doubtful, n_divergent=n_divergent)

    def _store_groups(self, groups: Groups, ordering: Ordering, state: JointState) -> None:
        """Set the attributes that say what is different between two groups."""
        self.groups_ = groups.by_task(self.task_names_)
        self.differences_ = differences_of(state.gathered, groups, ordering, self.variables_)
        more = warnings_of_groups(self.differences_, groups, self.membership_ > 0.5)
        self.warnings_ = (*self.warnings_, *more)

    def _ties(self, tasks: Tasks, record: Record, draws: np.ndarray) -> np.ndarray:
        """Probabilities that families are tied, given the graphs, (m, p)."""
        ties = np.zeros((len(tasks), tasks.n_variables))
        draws = draws[:: max(len(draws) // self.n_draws, 1)]
        for t in np.flatnonzero(self.membership_ > 0.5):
            scatter, n = tasks.scatters[t], tasks.ns[t]
            own = own_families(scatter, n, *record.own_log_shares)
            ties[t] = 1.0
            if own is not None:
                scores = gather_scores(scatter, n, draws, self.nu0_, own=own, checked=True)
                ties[t] = expit(log_odds_of_ties(scores, self.graphs_[t]))
        return ties

    def _final_edge_prior(self, tasks: Tasks, state: JointState) -> EdgePrior | PairKinds:
        """The edge prior with which the fit ended: given, estimated, or the mean of its draws."""
        if isinstance(state.edge_prior, PairKinds):
            return PairKinds(*state.gathered.kinds.mean(axis=(0, 1)).tolist())
        choice = self.edge_prior_choice(tasks.variables)
        return choice.prior if choice.is_fixed else state.edge_prior

    def _network(self, t: int) -> Network:
        if self.membership_[t] > 0.5:
            return super()._network(t)._replace(ties=self.ties_[t])
        return single_network(self.graphs_[t], self.tasks_.scatters[t], self.tasks_.ns[t])


def _start(problem: JointProblem, n_jobs: int | None, progress: Progress) -> JointState:
    """Start while another process compiles the chains, if they are not compiled yet."""
    with compiling_chains():
        return start(problem, n_jobs, progress)
