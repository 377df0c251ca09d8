"""Which pairs of variables are different between two groups of tasks (docs/model.md, section 14)."""

from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed
from mtgbn._utils.optional import require
from mtgbn.learn.groups import Groups
from mtgbn.learn.ordering import Ordering
from mtgbn.learn.record import Record
from mtgbn.model.pair_kinds import DIFFERENT, N_PLACES

# A pair is different from this probability on. It is the same up to one minus this probability, if
# the data themselves also speak for it by the factor _LEAST_EVIDENCE; otherwise few tasks, about which
# the other pairs decide, would make all pairs the same.
LEAST_PROBABILITY = 0.95
LEAST_EVIDENCE = 3.0

# Chains disagree about a pair if their probabilities differ by more than this.
_MOST_BETWEEN_CHAINS = 0.5

_GRID = np.arange(1 - N_PLACES, N_PLACES) / (N_PLACES - 1)
_NO_DIFFERENCE = N_PLACES - 1
_TAIL = 0.025
_DIGITS, _ROUNDING = 12, 1e-12

OUTCOMES = ("different", "the same", "undecided")

# What the columns of `GroupDifferences.records` mean, beside the names of the variables.
COLUMNS = {
    "probability": "posterior probability that the frequencies of the pair in both groups are at least "
    "a quarter apart",
    "difference": "posterior mean of the difference of the frequencies, second group minus first",
    "low": "lower end of its 95 % interval",
    "high": "upper end of its 95 % interval",
    "outcome": f"different: the probability is at least {LEAST_PROBABILITY:g}; the same: it is at most "
    f"{1 - LEAST_PROBABILITY:.2g}, and the data of the pair made the odds of a difference at least "
    f"{LEAST_EVIDENCE:g} times smaller; or undecided",
    "fdr": "expected share of wrong ones among the pairs with at least this probability",
    "bayes_factor": "how much the data of the pair raise the odds of a difference",
    "between_chains": "largest difference between the chains' probabilities",
}


class GroupDifferences(NamedTuple):
    """For every pair, what is known of the difference of its frequencies in two groups of tasks.

    The frequency of a pair in a group is the probability that a task of the group joins it. If a pair is
    different, its frequencies are at least a quarter apart. Differences are those of the second group
    minus the first.

    Attributes
    ----------
    labels : (str, str)
        The first and the second group.
    sizes : (int, int)
        Number of their tasks.
    variables : tuple of str
    distribution : array (p, p, 33)
        Posterior probabilities of the differences -1, -15/16, ..., 1. The frequencies of absent and of
        common pairs count as 0 and 1.
    share : float
        Posterior mean of the share of all pairs that are different.
    between_chains : array (p, p)
        Largest difference between the chains' probabilities of a pair.

    Examples
    --------
    >>> from mtgbn import MTGBN
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(20, 60, 3))
    >>> rows[10:, :, 1] += rows[10:, :, 0]
    >>> labels = ["control"] * 10 + ["patient"] * 10
    >>> fitted = MTGBN(inference="posterior", n_rounds=200, random_state=0)
    >>> found = fitted.fit(rows, groups=labels).differences_
    >>> found.labels, str(found.outcomes[0, 1])
    (('control', 'patient'), 'different')
    """

    labels: tuple[str, str]
    sizes: tuple[int, int]
    variables: tuple[str, ...]
    distribution: np.ndarray
    share: float
    between_chains: np.ndarray

    @property
    def probabilities(self) -> np.ndarray:
        """Posterior probability that a pair is different, (p, p)."""
        return _without_diagonal(1.0 - self.distribution[..., _NO_DIFFERENCE], 0.0)

    @property
    def means(self) -> np.ndarray:
        """Posterior mean of the difference of the frequencies, (p, p)."""
        means = np.round(self.distribution @ _GRID, _DIGITS) + 0.0  # 0, where signs cancel
        return _without_diagonal(means, 0.0)

    @property
    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the equal-tailed 95 % intervals of the difference, (p, p) each."""
        below = np.cumsum(self.distribution, axis=-1)
        above = np.cumsum(self.distribution[..., ::-1], axis=-1)
        # The smallest value with more than the tail up to it, and the largest one with more from it on.
        low = _GRID[np.argmax(below > _TAIL + _ROUNDING, axis=-1)]
        high = -_GRID[np.argmax(above > _TAIL + _ROUNDING, axis=-1)]
        return _without_diagonal(low, 0.0), _without_diagonal(high + 0.0, 0.0)

    @property
    def false_discovery_rates(self) -> np.ndarray:
        """Expected share of wrong ones if all pairs with at least this probability are called different.

        It is the mean of one minus the probability over these pairs, (p, p).
        """
        pairs = np.triu_indices(len(self.variables), 1)
        wrong = 1.0 - self.probabilities[pairs]
        order = np.argsort(wrong, kind="stable")
        ranked = np.cumsum(wrong[order]) / np.arange(1, len(wrong) + 1)
        # Pairs with the same probability are called different together.
        last = np.searchsorted(wrong[order], wrong, side="right") - 1
        rates = np.full(self.probabilities.shape, np.nan)
        rates[pairs] = rates.T[pairs] = ranked[last]
        return rates

    @property
    def bayes_factors(self) -> np.ndarray:
        """How much the data of a pair raise the odds that it is different, (p, p).

        The odds without them are those of the share of different pairs.
        """
        probabilities = self.probabilities
        with np.errstate(divide="ignore"):
            odds = probabilities / (1.0 - probabilities)
            return _without_diagonal(odds / (self.share / (1.0 - self.share)), np.nan)

    @property
    def outcomes(self) -> np.ndarray:
        """What can be said of every pair, (p, p): one of `OUTCOMES`; empty text on the diagonal.

        Different: the probability is at least .95. The same: it is at most .05, and the data of the pair
        made the odds of a difference three times smaller or more.
        """
        probabilities = self.probabilities
        outcomes = np.full(probabilities.shape, OUTCOMES[2], dtype=object)
        outcomes[probabilities >= LEAST_PROBABILITY] = OUTCOMES[0]
        is_same = probabilities <= 1.0 - LEAST_PROBABILITY
        outcomes[is_same & (self.bayes_factors <= 1.0 / LEAST_EVIDENCE)] = OUTCOMES[1]
        np.fill_diagonal(outcomes, "")
        return outcomes

    @property
    def records(self) -> list[dict[str, Any]]:
        """One row per pair, the most probable differences first."""
        probabilities, (low, high) = self.probabilities, self.intervals
        columns = {
            "probability": probabilities,
            "difference": self.means,
            "low": low,
            "high": high,
            "outcome": self.outcomes,
            "fdr": self.false_discovery_rates,
            "bayes_factor": self.bayes_factors,
            "between_chains": self.between_chains,
        }
        i, j = np.triu_indices(len(self.variables), 1)
        order = np.argsort(-probabilities[i, j], kind="stable")
        return [
            {
                "source": self.variables[a],
                "target": self.variables[b],
                **{name: values[a, b] for name, values in columns.items()},
            }
            for a, b in zip(i[order].tolist(), j[order].tolist(), strict=True)
        ]

    def to_frame(self) -> Any:
        """One row per pair as a pandas data frame, the most probable differences first.

        `COLUMNS` in this module says what its columns mean.
        """
        pandas = require("pandas", "pandas", "data frames")
        return pandas.DataFrame(self.records)

    def reversed(self) -> "GroupDifferences":
        """The same with the groups in the other order: differences have the other sign."""
        return self._replace(
            labels=self.labels[::-1],
            sizes=self.sizes[::-1],
            distribution=self.distribution[..., ::-1],
        )

    def in_words(self, most: int = 5, noun: str = "pair") -> list[str]:
        """How many pairs are different, and which; ``noun`` is what a pair is called."""
        first, second = self.labels
        records = self.records
        counts = {name: sum(row["outcome"] == name for row in records) for name in OUTCOMES}
        found = records[: counts["different"]]
        is_one = len(found) == 1
        line = (
            f"Groups: {self.sizes[0]} {first}, {self.sizes[1]} {second}. Of {len(records)} {noun}s, "
            f"{len(found) or 'none'} {'is' if is_one or not found else 'are'} different between the "
            f"groups (probability at least {LEAST_PROBABILITY:g}), {counts['the same']} the same, "
            f"{counts['undecided']} undecided"
        )
        if found:
            wrong = at_least_a_permille(found[-1]["fdr"])
            line += f"; of those called different, {wrong} are expected to be wrong"
        return [
            f"{line}.",
            *(
                f"  {row['source']} - {row['target']}: {second} minus {first} {row['difference']:+.2f} "
                f"({row['low']:+.2f} to {row['high']:+.2f}) in the frequency; probability of a "
                f"difference {row['probability']:.3f}"
                for row in found[:most]
            ),
        ]


def at_least_a_permille(share: float) -> str:
    """A share in percent with one digit; a smaller one is not 0."""
    return "less than 0.1%" if share < 0.001 else f"{share:.1%}"


def differences_of(
    record: Record, groups: Groups, ordering: Ordering, variables: tuple[str, ...]
) -> GroupDifferences:
    """What the chains have gathered about the differences, in the user's order."""
    _, is_turned = groups.canonical(ordering.task_order)
    by_chain = ordering.to_user(np.moveaxis(record.differences, -1, 1), "vv")
    by_chain = np.moveaxis(by_chain, 1, -1)[..., :: -1 if is_turned else 1]
    return GroupDifferences(
        labels=groups.labels,
        sizes=groups.sizes,
        variables=variables,
        distribution=by_chain.mean(axis=0),
        share=float(record.kinds[..., DIFFERENT].mean()),
        between_chains=_without_diagonal(np.ptp(by_chain[..., _NO_DIFFERENCE], axis=0), 0.0),
    )


def warnings_of_groups(
    differences: GroupDifferences, groups: Groups, is_member: np.ndarray
) -> list[str]:
    """Sentences about differences that should not be relied on."""
    found = []
    for k, label in enumerate(groups.labels):
        n_members = int(is_member[groups.is_second == bool(k)].sum())
        if n_members < groups.sizes[k] / 2:
            found.append(
                f"only {n_members} of {groups.sizes[k]} tasks of group {label!r} share sigma_h and "
                "edges with the others; differences between the groups are those of these tasks only"
            )
    i, j = np.triu_indices(len(differences.variables), 1)
    is_open = differences.between_chains[i, j] > _MOST_BETWEEN_CHAINS
    if is_open.any():
        names = [
            f"{differences.variables[a]} - {differences.variables[b]}"
            for a, b in zip(i[is_open], j[is_open], strict=True)
        ]
        found.append(
            "the chains disagree about whether these pairs are different between the groups: "
            f"{listed(names, quote=False)}. Raise n_rounds"
        )
    return found


def _without_diagonal(values: np.ndarray, filling: float) -> np.ndarray:
    values = np.array(values, dtype=float)
    np.fill_diagonal(values, filling)
    return values
