"""What estimators that learn in iterations have in common: the loop, and how it ended."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from threadpoolctl import ThreadpoolController

from mtgbn._utils.seeds import entropy_of
from mtgbn.chain import diagnostics
from mtgbn.chain.draws import Draws
from mtgbn.learn.checkpoint import Checkpoint
from mtgbn.learn.convergence_warnings import convergence_warnings
from mtgbn.learn.estimator import Estimator
from mtgbn.learn.parallel import Progress
from mtgbn.learn.parameters import Network, posterior_network


class IterativeEstimator(Estimator):
    """What `MTGBN` and `PaperMTGBN` have in common."""

    n_jobs: int | None
    nu0_: float

    def _iterate(
        self,
        problem: Any,
        saved: Checkpoint,
        start: Callable,
        advance: Callable,
        callback: Callable[[Any], Any] | None,
        progress: Progress,
    ) -> Any:
        """Start, or go on from the checkpoint, until there is a reason to stop; returns the state."""
        state = saved.state
        if state is None:
            state = start(problem, self.n_jobs, progress)
        while not state.reason:
            saved.write(state)
            state = advance(problem, state, self.n_jobs, progress)
            asked = None if callback is None else callback(state)
            if isinstance(asked, bool | np.bool_) and asked and not state.reason:
                state = state._replace(reason="the callback asked to stop")
        saved.write(state)
        return state

    def _store_course(
        self, problem: Any, state: Any, draws: Draws, disputed: Sequence[str] = (), **found: Any
    ) -> None:
        """Set the attributes that say how the fit went; ``found`` are further diagnostics."""
        self.draws_ = draws
        self.diagnostics_ = _summary_of(draws) | found
        self.random_state_ = entropy_of(problem.seeds)
        self.sigma_h_ = draws.mean
        self.history_ = state.history
        self.n_iter_ = max(len(state.history), getattr(state, "n_blocks", 0))
        self.converged_ = state.converged
        self.stop_reason_ = state.reason
        self.warnings_ = convergence_warnings(self, disputed)
        self._store_parameters()

    def _network(self, t: int) -> Network:
        if not hasattr(self, "draws_"):
            raise NotFittedError(
                "this result was saved without the draws of sigma_h, which predictions need; fit again"
            )
        scatter, n = self.tasks_.scatters[t], self.tasks_.ns[t]
        delta = self.nu0_ - len(self.variables_) + 1
        return posterior_network(self.graphs_[t], scatter, n, self.draws_.flat, delta)


def one_blas_thread() -> Any:
    """A context in which BLAS has one thread: for small matrices more cost up to 75 times the time."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """Libraries with threads of their own; looking for them takes longer than some fits."""
    return ThreadpoolController()


def _summary_of(draws: Draws) -> dict[str, float | int]:
    """Diagnostics of the log determinant and of the variances in sigma_h.

    Diagnostics of all elements, `Draws.diagnostics`, take long with many variables.
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
