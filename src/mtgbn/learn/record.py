"""What the chains of a joint fit have gathered since their warm-up."""

from typing import NamedTuple

import numpy as np

from mtgbn.chain.state import ChainTrace

# Draws of Psi that are kept per chain; when there are twice as many, every second one is dropped.
_MAX_KEPT = 100

# Chains disagree about a task if their membership frequencies differ by more than this.
_MAX_DISAGREEMENT = 0.9


class Record(NamedTuple):
    """What the chains have gathered since their warm-up; fields as in `ChainTrace`, with a chain axis.

    ``psi`` (chains, kept, p, p) has at most 2 `_MAX_KEPT` draws per chain, one every ``stride`` rounds.
    ``log_odds`` (chains, m, p, p), ``scatters`` and ``row_means`` are means over the rounds.
    ``edge_frequencies`` (m, p, p) is the share of all moves after which i -> j was there. ``blocks``
    (chains, blocks, m, p, p) counts the rounds of a block at whose end it was there; there are no
    blocks unless probabilities are wanted. ``differences`` (chains, p, p, differences) are means over
    the rounds of every chain.
    """

    psi: np.ndarray
    stride: int
    delta: np.ndarray
    kinds: np.ndarray
    log_density: np.ndarray
    n_edges: np.ndarray
    acceptance: np.ndarray
    members: np.ndarray
    advantages: np.ndarray
    own_share: np.ndarray
    log_odds: np.ndarray
    differences: np.ndarray
    edge_frequencies: np.ndarray
    blocks: np.ndarray
    scatters: np.ndarray
    row_means: np.ndarray
    n_divergent: int

    @property
    def n_rounds(self) -> int:
        """Rounds per chain."""
        return self.delta.shape[1]

    @property
    def membership(self) -> np.ndarray:
        """Share of the rounds in which a task was a member, (m,)."""
        return self.members.mean(axis=(0, 1))

    @property
    def own_log_shares(self) -> tuple[float, float]:
        """Means of the logarithms of the shares of own and of tied families."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.own_share).mean()), float(np.log1p(-self.own_share).mean())

    @property
    def mean_delta(self) -> float:
        """Geometric mean of delta."""
        return float(np.exp(np.log(self.delta).mean()))


def disputed(members: np.ndarray) -> np.ndarray:
    """Tasks that are members in nearly all rounds of one chain and in hardly any of another, (m,)."""
    return np.ptp(members.mean(axis=1), axis=0) > _MAX_DISAGREEMENT


# Fields of a trace that belong to rounds, and those that belong to rounds and tasks.
_PER_ROUND = ("delta", "own_share", "kinds", "log_density", "n_edges", "acceptance")
_PER_ROUND_AND_TASK = ("members", "advantages")


def extended(record: Record | None, traces: tuple[ChainTrace, ...], keeps_blocks: bool) -> Record:
    """The record with one more run of all chains."""
    m, p = traces[0].log_odds.shape[:2]
    stacked = {
        name: np.array([getattr(trace, name) for trace in traces])
        for name in (*_PER_ROUND, *_PER_ROUND_AND_TASK, "psi", "log_odds", "differences")
    }
    blocks = np.empty((len(traces), 0, m, p, p), dtype=np.int32)
    if keeps_blocks:
        blocks = np.array([trace.end_counts for trace in traces])[:, None]
    new = Record(
        **stacked,
        stride=1,
        edge_frequencies=np.mean([trace.move_frequencies for trace in traces], axis=0),
        blocks=blocks,
        scatters=np.mean([trace.scatters for trace in traces], axis=0),
        row_means=np.mean([trace.row_means for trace in traces], axis=0),
        n_divergent=int(sum(int(trace.n_divergent) for trace in traces)),
    )
    if record is not None:
        new = _joined(record, new)
    psi, stride = new.psi, new.stride
    while psi.shape[1] >= 2 * _MAX_KEPT:
        psi, stride = psi[:, ::2], 2 * stride
    return new._replace(psi=psi, stride=stride)


def _joined(record: Record, new: Record) -> Record:
    """What was gathered in two runs, one after the other."""
    weight = new.n_rounds / (record.n_rounds + new.n_rounds)
    means = {
        name: (1 - weight) * getattr(record, name) + weight * getattr(new, name)
        for name in ("log_odds", "differences", "edge_frequencies", "scatters", "row_means")
    }
    series = {
        name: np.concatenate([getattr(record, name), getattr(new, name)], axis=1)
        for name in (*_PER_ROUND, *_PER_ROUND_AND_TASK, "blocks")
    }
    offset = -record.n_rounds % record.stride
    psi = np.concatenate([record.psi, new.psi[:, offset :: record.stride]], axis=1)
    return Record(
        **means,
        **series,
        psi=psi,
        stride=record.stride,
        n_divergent=record.n_divergent + new.n_divergent,
    )


def spaced_draws(record: Record, n_draws: int) -> np.ndarray:
    """About ``n_draws`` draws of sigma_h, (draws, p, p), evenly spaced in every chain."""
    psi = record.psi
    per_chain = min(psi.shape[1], -(-n_draws // len(psi)))
    places = np.linspace(0, psi.shape[1] - 1, per_chain).round().astype(int)
    return psi[:, places].reshape(-1, *psi.shape[2:]) * record.mean_delta
