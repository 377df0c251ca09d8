"""The baselines: every task alone (SIG), all tasks as one (AVG)."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import numpy as np

from mtgbn._utils.seeds import entropy_of, seed_sequence
from mtgbn.errors import InputError
from mtgbn.learn import em
from mtgbn.learn.estimator import Estimator, network_alone
from mtgbn.learn.parameters import Network, Parameters
from mtgbn.model.edge_prior import EdgePrior, EdgePriorSetting, arranged, edge_prior_of
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks

__all__ = ["AVG", "SIG"]


class _Baseline(Estimator):
    """A single-task method with the search, the edge prior and the candidates of `MTGBN`."""

    def __init__(
        self,
        *,
        edge_prior: EdgePriorSetting = None,
        search: Literal["boss", "mmhc"] = "boss",
        n_restarts: int | None = None,
        tabu: int | None = None,
        candidates: Literal["all", "mmpc", "pooled"] | None = None,
        knowledge: Knowledge | Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> None:
        self.edge_prior = edge_prior
        self.search = search
        self.n_restarts = n_restarts
        self.tabu = tabu
        self.candidates = candidates
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        self._check_search(tasks)
        if tasks.incomplete:
            raise InputError(
                f"{type(self).__name__} needs complete data, and task "
                f"{tasks.names[min(tasks.incomplete)]!r} lacks values: fill them in, or use MTGBN"
            )
        edge_prior_of(self.edge_prior, tasks.variables)
        if not isinstance(self.random_state, np.random.Generator):  # which looking would advance
            seed_sequence(self.random_state)

    def _learn(self, tasks: Tasks, report) -> tuple[np.ndarray, EdgePrior]:
        """Graphs of the tasks, each searched alone."""
        ordered, task_places, variable_places = self._canonical(tasks)
        choice = edge_prior_of(self.edge_prior, tasks.variables)
        seeds = seed_sequence(self.random_state)
        self.random_state_ = entropy_of(seeds)
        learned, densities = em.learn_alone(
            ordered,
            self._constraints(ordered),
            arranged(choice, np.argsort(variable_places)),
            self._search_settings(),
            seeds,
            self.n_jobs,
            report,
        )
        square = np.ix_(variable_places, variable_places)
        edge_prior = choice.prior
        if not choice.is_fixed:
            edge_prior = EdgePrior(float(densities.mean()), np.inf)
        return np.array([learned[t][square] for t in task_places]), edge_prior


class SIG(_Baseline):
    """Every task alone: the baseline that borrows nothing.

    The prior matrix is diagonal, half the task's own variances, with delta = 3. Search, edge prior and
    candidates are those of `MTGBN`; of an edge prior (r, s) only r counts.

    Parameters
    ----------
    edge_prior, search, n_restarts, tabu, candidates, knowledge, n_jobs, random_state
        As for `MTGBN`.

    Attributes
    ----------
    graphs_, cpdags_, covariances_, coefficients_, residual_variances_, edge_prior_, task_names_, \
    variables_
        As for `MTGBN`.
    """

    def fit(self, tasks, y: None = None, *, progress: Callable | None = None) -> Self:
        """Learn the graph of every task from its own data; arguments as for `MTGBN.fit`."""
        tasks = Tasks.from_any(tasks)
        self.check(tasks)
        self._store(tasks, *self._learn(tasks, progress or em.silent))
        self._agree()
        self._store_parameters()
        return self

    def _network(self, t: int) -> Network:
        scatter, n = self.tasks_.scatters[t], self.tasks_.ns[t]
        return network_alone(self.graphs_[t], scatter, n)


class AVG(_Baseline):
    """All tasks as one: the baseline in which nothing differs.

    One graph and one set of parameters, from the sum of all scatters; otherwise as `SIG`.

    Parameters
    ----------
    edge_prior, search, n_restarts, tabu, candidates, knowledge, n_jobs, random_state
        As for `MTGBN`.

    Attributes
    ----------
    graphs_, cpdags_, covariances_, coefficients_, residual_variances_, edge_prior_, task_names_, \
    variables_
        As for `MTGBN`; the same for all tasks.
    """

    def fit(self, tasks, y: None = None, *, progress: Callable | None = None) -> Self:
        """Learn one graph from all data; arguments as for `MTGBN.fit`."""
        tasks = Tasks.from_any(tasks)
        self.check(tasks)
        scatter, n = tasks.pooled_scatter()
        pooled = Tasks([scatter], [n], tasks.variables)
        (graph,), edge_prior = self._learn(pooled, progress or em.silent)
        self._store(tasks, np.array([graph] * len(tasks)), edge_prior)
        self._agree()
        self._store_parameters()
        return self

    def _network(self, t: int) -> Network:
        return network_alone(self.graphs_[t], *self.tasks_.pooled_scatter())

    def _parameters(self) -> list[Parameters]:
        return [self._network(0).parameters()] * len(self.tasks_)
