"""What all estimators have in common: parameters, prior knowledge, predictions."""

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array

from mtgbn._utils.arguments import check_count
from mtgbn._utils.names import name_position
from mtgbn._utils.seeds import seed_sequence
from mtgbn.chain.state import SINGLE_DELTA
from mtgbn.errors import InputError
from mtgbn.graphs import cpdag
from mtgbn.learn.ordering import Ordering, agreeing_members
from mtgbn.learn.parameter_checks import ParameterTable, check_parameters
from mtgbn.learn.parameters import Network, Parameters, posterior_network
from mtgbn.learn.single_task import single_sigma_h
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.search.knowledge import Constraints, Knowledge
from mtgbn.tasks import Tasks

# Checks of scikit-learn that cannot apply, and why:
# ``check_estimator(MTGBN(), expected_failed_checks=EXPECTED_FAILED_CHECKS)``.
EXPECTED_FAILED_CHECKS = {
    "check_dtype_object": "a value that is no number raises InputError, a ValueError and not a "
    "TypeError, because its message names the task, the variable and the row",
}


class Estimator(BaseEstimator):
    """What `MTGBN`, `SIG`, `AVG` and `PaperMTGBN` have in common.

    A subclass has the table ``parameter_table``, learns graphs in ``fit``, and says in ``_network``
    what the parameters of one task are.
    """

    parameter_table: ClassVar[ParameterTable] = {}

    knowledge: Knowledge | Mapping[str, Any] | None
    graphs_: np.ndarray
    cpdags_: np.ndarray
    variables_: tuple[str, ...]
    task_names_: tuple[str, ...]
    tasks_: Tasks
    warnings_: tuple[str, ...]

    def fit(self, tasks: Any, y: None = None) -> Self:
        """Learn the graphs of all tasks."""
        raise NotImplementedError

    def _read(self, data: Any, **options: Any) -> Tasks:
        """The data as a `Tasks`; a two-dimensional array is one task, and must suit scikit-learn."""
        if hasattr(data, "toarray") or (isinstance(data, np.ndarray) and data.ndim == 2):
            least = {"ensure_min_samples": 2, "ensure_min_features": 2}
            try:
                check_array(data, dtype=None, ensure_all_finite=False, estimator=self, **least)
            except ValueError as error:
                raise InputError(str(error)) from None
        return Tasks.from_any(data, **options)

    def check(self, tasks: Tasks) -> None:
        """Raise what `fit` would, as far as it can be told without fitting."""
        check_parameters(self, self.parameter_table)
        self.resolved_knowledge(tasks.variables)

    def _warn(self) -> None:
        """Give the warnings of a fit to the caller of ``fit``."""
        for warning in self.warnings_:
            warnings.warn(warning, ConvergenceWarning, stacklevel=3)

    def predict_log_density(self, task: str | int, X: Any) -> np.ndarray:
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

    def resolved_knowledge(self, variables: tuple[str, ...] | None = None) -> Constraints:
        """What prior knowledge allows and requires; by default of the variables that were fitted."""
        knowledge = self.knowledge
        if knowledge is None:
            knowledge = Knowledge()
        elif isinstance(knowledge, Mapping):
            knowledge = Knowledge.from_dict(knowledge)
        elif not isinstance(knowledge, Knowledge):
            raise InputError(f"knowledge must be a mtgbn.Knowledge or a dict; got {knowledge!r}")
        return knowledge.resolve(self.variables_ if variables is None else variables)

    def settles_directions(self, variables: tuple[str, ...] | None = None) -> bool:
        """Whether prior knowledge excludes a direction of any pair, or requires an edge.

        A largest number of parents does not: all members of a Markov equivalence class have the same
        numbers of parents, up to their order.
        """
        limits = self.resolved_knowledge(variables)
        return bool(limits.required.any() or (limits.allowed != limits.allowed.T).any())

    def store_graphs(
        self,
        tasks: Tasks,
        graphs: np.ndarray,
        edge_prior: EdgePrior | PairKinds,
        cpdags: np.ndarray | None = None,
    ) -> None:
        """Set the attributes that say which tasks were fitted and what their graphs are."""
        self.tasks_ = tasks
        self.task_names_ = tasks.names
        self.variables_ = tasks.variables
        self.feature_names_in_ = np.array(tasks.variables, dtype=object)
        self.n_features_in_ = tasks.n_variables
        self.edge_prior_ = edge_prior
        self.graphs_ = graphs
        self.cpdags_ = np.array([cpdag(graph) for graph in graphs]) if cpdags is None else cpdags

    def _network(self, t: int) -> Network:
        raise NotImplementedError

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "graphs_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(tasks) first")

    def _position(self, task: str | int) -> int:
        self._check_is_fitted()
        if isinstance(task, str):
            return name_position(task, self.tasks_.names, "task")
        check_count("task", task, 0)
        if task >= len(self.tasks_):
            raise InputError(f"there are {len(self.tasks_)} tasks; task {task} is not one of them")
        return int(task)

    def _rows(self, X: Any) -> np.ndarray:
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

    def _align_directions(self, weights: np.ndarray | None = None) -> None:
        """Choose the member of each task's Markov equivalence class that agrees best with the others.

        Where prior knowledge settles directions, the classes have members that it excludes, and the
        graphs stay as found.
        """
        self.agreement_: float = np.nan
        self.order_: tuple[str, ...] | None = None
        if self.settles_directions():
            return
        order = Ordering.of(self.tasks_).variable_order
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


def single_network(graph: np.ndarray, scatter: np.ndarray, n: float) -> Network:
    """Posterior of the parameters of a single task."""
    return posterior_network(graph, scatter, n, single_sigma_h(scatter, n)[None], SINGLE_DELTA)
