"""The baselines: every task as a single task (SIG), all tasks pooled (AVG)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mtgbn._utils.seeds import entropy_of, seed_sequence
from mtgbn.errors import InputError
from mtgbn.learn.estimator import Estimator, single_network
from mtgbn.learn.min_strength import MinStrengthSetting, resolve_min_strength
from mtgbn.learn.ordering import Ordering
from mtgbn.learn.parallel import no_progress
from mtgbn.learn.parameter_checks import (
    ParameterTable,
    a_correlation_or_auto,
    a_seed,
    number_of_jobs,
)
from mtgbn.learn.parameters import Network, Parameters
from mtgbn.learn.search_parameters import (
    SEARCH_PARAMETERS,
    candidate_constraints,
    search_settings,
)
from mtgbn.learn.single_task import learn_single_tasks
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.edge_prior_setting import EdgePriorSetting, arranged, edge_prior_of
from mtgbn.search.knowledge import Knowledge
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import time_series


class _Baseline(Estimator):
    """A single-task method with the search and the edge prior of `MTGBN` or of the paper."""

    parameter_table: ClassVar[ParameterTable] = {
        **SEARCH_PARAMETERS,
        "min_strength": a_correlation_or_auto,
        "n_jobs": number_of_jobs,
        "random_state": a_seed,
    }

    def __init__(
        self,
        *,
        edge_prior: EdgePriorSetting = None,
        min_strength: MinStrengthSetting = "auto",
        search: Literal["boss", "mmhc"] = "boss",
        n_restarts: int | None = None,
        tabu: int | None = None,
        candidates: Literal["all", "mmpc", "pooled"] | None = None,
        knowledge: Knowledge | Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        self.edge_prior = edge_prior
        self.min_strength = min_strength
        self.search = search
        self.n_restarts = n_restarts
        self.tabu = tabu
        self.candidates = candidates
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        super().check(tasks)
        if tasks.incomplete:
            raise InputError(
                f"{type(self).__name__} needs complete data, and task "
                f"{tasks.names[min(tasks.incomplete)]!r} lacks values: fill them in, or use MTGBN"
            )
        edge_prior_of(self.edge_prior, tasks.variables)

    def _learn(
        self, tasks: Tasks, progress: Callable | None, *, pools: bool
    ) -> tuple[np.ndarray, EdgePrior]:
        """Graphs of the tasks, or one graph if it ``pools``, and the edge prior."""
        ordering = Ordering.of(tasks)
        choice = edge_prior_of(self.edge_prior, tasks.variables)
        seeds = seed_sequence(self.random_state)
        self.random_state_ = entropy_of(seeds)
        ordered = ordering.tasks
        knowledge = self.resolved_knowledge(ordered.variables)

        limit = resolve_min_strength(self.min_strength, ordered, knowledge)
        chosen, costs = ordered, limit.costs(ordered.ns)
        if pools:
            chosen, costs = ordered.pooled(), costs.sum(keepdims=True)
        graphs, densities = learn_single_tasks(
            chosen,
            candidate_constraints(self, chosen, knowledge),
            arranged(choice, ordering.variable_order),
            search_settings(self),
            edge_costs=costs,
            seeds=seeds,
            n_jobs=self.n_jobs,
            progress=progress or no_progress,
        )
        self.min_strength_ = limit
        prior = choice.prior
        if not choice.is_fixed:
            prior = EdgePrior(float(densities.mean()), np.inf)
        if pools:
            graphs = np.repeat(graphs, len(tasks), axis=0)
        return ordering.to_user(graphs, "tvv"), prior


class SIG(_Baseline):
    """Every task as a single task: the baseline in which nothing is shared.

    The prior matrix of a task is diagonal, its own variances, with delta = 3, so that the prior mean
    of its covariance matrix are these variances. The search and the edge prior are those of `MTGBN`
    or, if set so, those of the paper's method; of an edge prior (r, s) only r counts.

    Parameters
    ----------
    edge_prior : optional
        "density": r is estimated from each task's graph; r; or a matrix or data frame of
        probabilities of the pairs. Default: r = 1/(p - 1).
    min_strength : float or "auto"
        As for `MTGBN`; in the pooled data of `AVG`, too.
    search : {"boss", "mmhc"}
        Best order score search, or the paper's max-min hill climbing.
    n_restarts : int, optional
        Restarts of the search. Default: 10 for boss, 0 for mmhc.
    tabu : int, optional
        Moves that hill climbing (after boss: the last polish) goes on over a local optimum. Default:
        10 for boss, 0 for mmhc.
    candidates : {"all", "mmpc", "pooled"}, optional
        Pairs that may be joined: all, those that a task's own data suggest, or those that any task or
        the pooled data do. Default: all for boss, mmpc for mmhc.
    knowledge, n_jobs, random_state
        As for `MTGBN`.

    Attributes
    ----------
    graphs_, cpdags_, covariances_, coefficients_, residual_variances_, edge_prior_, min_strength_, \
    warnings_, task_names_, variables_
        As for `MTGBN`.

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=2, n_variables=4, n_rows=100, random_state=0)
    >>> SIG(random_state=0).fit(simulation.tasks).graphs_.shape
    (2, 4, 4)
    """

    def fit(self, tasks: Any, y: None = None, *, progress: Callable | None = None) -> Self:
        """Learn the graph of every task from its own data; arguments as for `MTGBN.fit`."""
        tasks = self._read(tasks)
        self.check(tasks)
        self.store_graphs(tasks, *self._learn(tasks, progress, pools=False))
        self._align_directions()
        self._store_parameters()
        self.warnings_ = tuple(time_series(self.tasks_))  # there is nothing else to warn of
        self._warn()
        return self

    def _network(self, t: int) -> Network:
        return single_network(self.graphs_[t], self.tasks_.scatters[t], self.tasks_.ns[t])


class AVG(_Baseline):
    """All tasks pooled: the baseline in which nothing differs.

    One graph and one set of parameters, from the sum of all scatters. Parameters and attributes are
    those of `SIG`; the attributes are the same for all tasks.

    Examples
    --------
    >>> from mtgbn.simulate import simulate_tasks
    >>> simulation = simulate_tasks(n_tasks=2, n_variables=4, n_rows=100, random_state=0)
    >>> graphs = AVG(random_state=0).fit(simulation.tasks).graphs_
    >>> bool((graphs[0] == graphs[1]).all())
    True
    """

    def fit(self, tasks: Any, y: None = None, *, progress: Callable | None = None) -> Self:
        """Learn one graph from all data; arguments as for `MTGBN.fit`."""
        tasks = self._read(tasks)
        self.check(tasks)
        self.store_graphs(tasks, *self._learn(tasks, progress, pools=True))
        self._align_directions()
        self._store_parameters()
        self.warnings_ = tuple(time_series(self.tasks_))  # there is nothing else to warn of
        self._warn()
        return self

    def _network(self, t: int) -> Network:
        return single_network(self.graphs_[t], *self.tasks_.pooled_scatter())

    def _parameters(self) -> list[Parameters]:
        return [self._network(0).parameters()] * len(self.tasks_)
