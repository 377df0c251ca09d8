"""Draws of sigma_h with their diagnostics, also as ArviZ InferenceData."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mtgbn._utils.optional import require
from mtgbn.chain import diagnostics

# Vehtari et al. (2021) ask for R-hat below this limit and 100 effective draws per chain.
_RHAT_LIMIT = 1.01
_ESS_PER_CHAIN = 100

# Elements of sigma_h that are diagnosed at once, which bounds the memory.
_PORTION = 200


class Diagnostics(NamedTuple):
    """How far the draws can be trusted.

    Matrices (p, p) have an entry for every element of sigma_h: rank-normalised R-hat (NaN for a single
    chain or fewer than four draws), effective sample size for the centre, and for the 5 % and 95 %
    quantiles. ``acceptance`` is the mean acceptance rate, 1 for Gibbs. ``problems`` are sentences about
    what was found to be wrong; empty if nothing was.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    acceptance: float
    n_divergent: int
    problems: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of sigma_h from one or more chains.

    Attributes
    ----------
    sigma_h : array (chains, draws, p, p)
    statistics : dict of arrays (chains, draws)
        Statistics of the sampler under ArviZ's names, such as ``acceptance_rate``, ``energy``,
        ``n_steps`` and ``diverging``.
    variables : tuple of str
    sampler : {"joint", "hmc", "gibbs"}
    states : tuple
        Where every chain ended; `sample_sigma_h` continues from there with ``warm_start=draws``.
    """

    sigma_h: np.ndarray
    statistics: dict[str, np.ndarray]
    variables: tuple[str, ...]
    sampler: str
    states: tuple = field(repr=False, default=())

    def __repr__(self) -> str:
        chains, draws, p, _ = self.sigma_h.shape
        return f"<Draws of sigma_h: {chains} chains x {draws} draws, {p} variables, {self.sampler}>"

    @property
    def flat(self) -> np.ndarray:
        """All chains joined, (chains * draws, p, p)."""
        return self.sigma_h.reshape(-1, *self.sigma_h.shape[2:])

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of sigma_h, (p, p)."""
        return self.flat.mean(axis=0)

    def diagnostics(self) -> Diagnostics:
        """Convergence diagnostics; the numbers are those of ArviZ."""
        _, n_draws, p, _ = self.sigma_h.shape
        rows, columns = np.tril_indices(p)
        measures = np.full((3, p, p), np.nan)
        for start in range(0, len(rows) if n_draws >= 4 else 0, _PORTION):
            i, j = rows[start : start + _PORTION], columns[start : start + _PORTION]
            elements = np.moveaxis(self.sigma_h[:, :, i, j], 2, 0)
            for k, measure in enumerate(
                (diagnostics.rhat, diagnostics.ess_bulk, diagnostics.ess_tail)
            ):
                measures[k, i, j] = measures[k, j, i] = measure(elements)
        rhat, ess_bulk, ess_tail = measures
        n_divergent = int(np.sum(self.statistics.get("diverging", 0)))
        problems = []
        if n_draws < 4:
            problems.append(
                f"{n_draws} draws per chain are too few for diagnostics; draw at least 4"
            )
        else:
            problems += self._mixing_problems(rhat, np.minimum(ess_bulk, ess_tail))
        if n_divergent:
            problems.append(
                f"{n_divergent} trajectories diverged; raise target_acceptance or n_warmup"
            )
        acceptance = float(self.statistics["acceptance_rate"].mean())
        return Diagnostics(rhat, ess_bulk, ess_tail, acceptance, n_divergent, tuple(problems))

    def _mixing_problems(self, rhat: np.ndarray, ess: np.ndarray) -> list[str]:
        problems = []
        n_chains = len(self.sigma_h)
        stuck = np.flatnonzero(np.ptp(self.sigma_h, axis=1).max(axis=(1, 2)) == 0)
        if stuck.size:
            problems.append(
                f"chain {stuck[0]} never moved; start from another sigma_h, or leave step_size to be "
                "found"
            )
        if n_chains == 1:
            problems.append("with one chain R-hat cannot tell whether it has mixed; run several")
        elif np.nanmax(rhat, initial=0.0) > _RHAT_LIMIT:
            problems.append(
                f"R-hat reaches {np.nanmax(rhat):.3f} (at {self._element(np.nanargmax(rhat))}), above "
                f"{_RHAT_LIMIT}: the chains may not have mixed; raise n_warmup or n_draws"
            )
        if np.nanmin(ess, initial=np.inf) < _ESS_PER_CHAIN * n_chains:
            problems.append(
                f"the effective number of draws falls to {np.nanmin(ess):.0f} (at "
                f"{self._element(np.nanargmin(ess))}); for quantiles take n_draws so that it exceeds "
                f"{_ESS_PER_CHAIN * n_chains}"
            )
        return problems

    def to_inference_data(self):
        """Return the draws as ArviZ InferenceData (a DataTree from ArviZ 1.0 on)."""
        arviz = require("arviz", "arviz", "InferenceData")
        groups = {"posterior": {"sigma_h": self.sigma_h}, "sample_stats": self.statistics}
        labels = {
            "coords": {"variable": list(self.variables), "variable_2": list(self.variables)},
            "dims": {"sigma_h": ["variable", "variable_2"]},
        }
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups, **labels)
        return arviz.from_dict(**groups, **labels)

    def _element(self, flat_index) -> str:
        i, j = np.unravel_index(int(flat_index), self.sigma_h.shape[2:])
        return f"{self.variables[i]}, {self.variables[j]}"
