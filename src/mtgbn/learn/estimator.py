"""What all estimators have in common: parameters as scikit-learn wants them, the search, predictions."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import name_position
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError, NotFittedError
from mtgbn.graphs import cpdag
from mtgbn.learn.canonical import agreeing_members, canonical_order
from mtgbn.learn.em import vague_sigma_h
from mtgbn.learn.parameters import Network, Parameters, posterior_network
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.sampling.joint import ALONE_DELTA
from mtgbn.search import Constraints, Knowledge, SearchSettings, find_candidates, restrict
from mtgbn.tasks import Tasks

__all__ = ["Estimator", "network_alone"]


class Estimator:
    """What all three have in common: parameters as scikit-learn wants them, predictions, the search."""

    graphs_: np.ndarray

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as scikit-learn's tools expect."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def predict_log_density(self, task: str | int, X) -> np.ndarray:
        """Log posterior predictive density of rows, under the network of one task.

        Parameters
        ----------
        task : str or int
            Name or position of the task.
        X : array (rows, p) or DataFrame
            In the units of the data that the estimator was fitted to; a DataFrame is matched by name.

        Returns
        -------
        array (rows,)
        """
        t = self._position(task)
        rows = self._rows(X)
        centre, scale = self.tasks_.centres[t], self.tasks_.scales[t]
        return self._network(t).log_density((rows - centre) / scale) - np.log(scale).sum()

    def sample(
        self,
        task: str | int,
        n: int,
        random_state: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw rows from the posterior predictive distribution of one task, (n, p).

        Parameters
        ----------
        task : str or int
            Name or position of the task.
        n : int
        random_state : int, numpy.random.SeedSequence or numpy.random.Generator, optional
        """
        t = self._position(task)
        check_count("n", n, 1)
        rng = np.random.default_rng(seed_sequence(random_state))
        return self.tasks_.centres[t] + self.tasks_.scales[t] * self._network(t).sample(n, rng)

    def _network(self, t: int) -> Network:
        raise NotImplementedError

    def _position(self, task: str | int) -> int:
        if not hasattr(self, "graphs_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(tasks) first")
        if isinstance(task, str):
            return name_position(task, self.tasks_.names, "task")
        check_count("task", task, 0)
        if task >= len(self.tasks_):
            raise InputError(f"there are {len(self.tasks_)} tasks; task {task} is not one of them")
        return int(task)

    def _rows(self, X) -> np.ndarray:
        variables = self.variables_
        if hasattr(X, "columns"):
            missing = [name for name in variables if name not in list(X.columns)]
            if missing:
                raise InputError(f"X has no column {missing[0]!r}")
            X = X[list(variables)].to_numpy()
        try:
            rows = np.asarray(X, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must be an array of numbers ({error})") from None
        if rows.ndim != 2 or rows.shape[1] != len(variables):
            raise InputError(f"X must have shape (rows, {len(variables)}); got {rows.shape}")
        if not np.isfinite(rows).all():
            i, j = np.argwhere(~np.isfinite(rows))[0]
            raise InputError(f"X has the value {rows[i, j]} in row {i}, variable {variables[j]!r}")
        return rows

    def _search_settings(self) -> SearchSettings:
        is_boss = self.search == "boss"
        self._check_jobs()
        settings = SearchSettings(
            self.search,
            (10 if is_boss else 0) if self.n_restarts is None else self.n_restarts,
            (10 if is_boss else 0) if self.tabu is None else self.tabu,
        )
        settings.check()
        return settings

    def resolved_knowledge(self, variables: Sequence[str] | None = None) -> Constraints:
        """What prior knowledge allows and requires; by default of the variables that were fitted."""
        knowledge = self.knowledge
        if knowledge is None:
            knowledge = Knowledge()
        elif isinstance(knowledge, Mapping):
            knowledge = Knowledge.from_dict(knowledge)
        elif not isinstance(knowledge, Knowledge):
            raise InputError(
                f"knowledge must be a mtgbn.search.Knowledge or a dict; got {knowledge!r}"
            )
        return knowledge.resolve(self.variables_ if variables is None else variables)

    def _check_search(self, tasks: Tasks) -> None:
        """Raise what is wrong with the search and its constraints, without computing candidates."""
        self.resolved_knowledge(tasks.variables)
        self._search_settings()
        self._candidates()

    def _candidates(self) -> str:
        method = self.candidates
        if method is None:
            method = "all" if self.search == "boss" else "mmpc"
        if method not in ("all", "mmpc", "pooled"):
            raise InputError(f"candidates must be 'all', 'mmpc' or 'pooled'; got {method!r}")
        return method

    def _constraints(self, tasks: Tasks) -> tuple[Constraints, ...]:
        constraints = self.resolved_knowledge(tasks.variables)
        candidates = find_candidates(tasks.scatters, tasks.ns, self._candidates())
        return tuple(restrict(constraints, each) for each in candidates)

    @staticmethod
    def _canonical(tasks: Tasks) -> tuple[Tasks, list[int], list[int]]:
        """The tasks in canonical order, and where in it the user's tasks and variables are."""
        task_order, variable_order = canonical_order(tasks)
        ordered = tasks[task_order].select_variables([tasks.variables[j] for j in variable_order])
        return ordered, np.argsort(task_order).tolist(), np.argsort(variable_order).tolist()

    def _check_jobs(self) -> None:
        if self.n_jobs is not None:
            is_whole = isinstance(self.n_jobs, int | np.integer) and not isinstance(
                self.n_jobs, bool
            )
            if not is_whole or self.n_jobs == 0:
                raise InputError(
                    f"n_jobs must be a number of jobs, -1 for all processors, or None; got "
                    f"{self.n_jobs!r}"
                )

    def _store(
        self,
        tasks: Tasks,
        graphs: np.ndarray,
        edge_prior: EdgePrior,
        cpdags: np.ndarray | None = None,
    ) -> None:
        self.tasks_ = tasks
        self.task_names_ = tasks.names
        self.variables_ = tasks.variables
        self.n_features_in_ = tasks.n_variables
        self.edge_prior_ = edge_prior
        self.graphs_ = graphs
        self.cpdags_ = np.array([cpdag(graph) for graph in graphs]) if cpdags is None else cpdags

    def _agree(self, weights: np.ndarray | None = None) -> None:
        """Choose each task's representative of its class so that directions mean the same in all.

        With prior knowledge the classes have members that it excludes, and the graphs stay as found.
        """
        if self.knowledge is not None:
            self.agreement_, self.order_ = np.nan, None
            return
        _, order = canonical_order(self.tasks_)
        consensus = agreeing_members(self.cpdags_, order, weights)
        self.graphs_ = consensus.graphs
        self.order_ = tuple(self.variables_[j] for j in consensus.order)
        self.agreement_ = consensus.agreement

    def _store_parameters(self) -> None:
        self.covariances_, self.coefficients_, self.residual_variances_ = map(
            np.array, zip(*self._parameters(), strict=True)
        )

    def _parameters(self) -> list[Parameters]:
        return [self._network(t).parameters() for t in range(len(self.tasks_))]


def network_alone(graph: np.ndarray, scatter: np.ndarray, n: float) -> Network:
    """Parameters of a task on its own."""
    return posterior_network(graph, scatter, n, vague_sigma_h(scatter, n)[None], ALONE_DELTA)
