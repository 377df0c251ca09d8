"""Sets of connections that are tested as a whole: of a region, of named sets, between two of them.

The statistic of a set is the mean of the squared statistics of its connections: differences of either
sign count, and the permutations of the connections serve the sets (docs/model.md, section 19).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn._utils.names import check_names, unknown_name
from mtgbn.errors import InputError

# Statistics that differ by rounding errors only count as equal.
_TOLERANCE = 1e-9


class SetTests(NamedTuple):
    """Tests of sets of connections; arrays are (sets,).

    Attributes
    ----------
    effect : array
        Mean of the effects of the connections.
    statistic : array
        Mean of the squared statistics of the connections (for several rows of a contrast: of their
        statistics, which are squares); about 1 if nothing differs.
    p : array
        p-value by permutation.
    p_family : array
        The same, corrected for all sets: compared with the largest standardised statistic of each
        permutation.
    """

    effect: np.ndarray
    statistic: np.ndarray
    p: np.ndarray
    p_family: np.ndarray


class ConnectionSet(NamedTuple):
    """A set of connections: all, those within a named set, or those between two of them.

    Attributes
    ----------
    kind : str
        all, within or between.
    first, second : str, optional
        The named sets.
    connections : array
        Positions among the connections.
    """

    kind: str
    first: str | None
    second: str | None
    connections: np.ndarray

    @property
    def name(self) -> str:
        """The set in words."""
        if self.kind == "between":
            return f"between {self.first} and {self.second}"
        return f"within {self.first}" if self.kind == "within" else "all connections"


def check_sets(
    sets: Mapping[str, Sequence[str]] | None, variables: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Named sets of variables, after a check of their names; empty without sets."""
    found = {}
    for name, members in (sets or {}).items():
        if isinstance(members, str):
            raise InputError(f"set {name!r} is a text; give a list of variables")
        for member in members:
            if member not in variables:
                raise unknown_name(member, list(variables), "variable")
        check_names(members, f"variable of set {name!r}")
        if len(members) < 2:
            raise InputError(f"set {name!r} has {len(members)} variables; it needs at least two")
        found[name] = tuple(members)
    return found


def connection_sets(
    pairs: np.ndarray, variables: Sequence[str], sets: Mapping[str, Sequence[str]]
) -> tuple[ConnectionSet, ...]:
    """All connections, those within every set, and those between every two sets without a common member.

    Of sets that reach beyond ``variables``, the part within them counts; what has no connection is left
    out.
    """
    is_in = {name: np.isin(variables, members) for name, members in sets.items()}
    i, j = pairs.T
    found = [ConnectionSet("all", None, None, np.arange(len(pairs)))]
    for name, own in is_in.items():
        found.append(ConnectionSet("within", name, None, np.flatnonzero(own[i] & own[j])))
    for first, second in combinations(is_in, 2):
        if not set(sets[first]) & set(sets[second]):
            a, b = is_in[first], is_in[second]
            between = np.flatnonzero((a[i] & b[j]) | (b[i] & a[j]))
            found.append(ConnectionSet("between", first, second, between))
    return tuple(each for each in found if len(each.connections))


def connections_of_regions(pairs: np.ndarray) -> list[np.ndarray]:
    """The connections of every variable, as positions."""
    return [np.flatnonzero((pairs == v).any(axis=1)) for v in range(pairs.max() + 1)]


class SetStatistics:
    """Gathers the statistics of sets over permutations, one after the other, and tests the sets.

    Parameters
    ----------
    sets : iterable of arrays
        Positions of the connections of every set.
    is_squared : bool
        Whether statistics are squares already, such as F.
    n_permutations : int
    """

    def __init__(
        self, sets: Iterable[np.ndarray], *, is_squared: bool, n_permutations: int
    ) -> None:
        members = [np.asarray(each, dtype=np.int64) for each in sets]
        self.members = np.concatenate(members)
        self.starts = np.concatenate([[0], np.cumsum([len(each) for each in members])])
        self.is_squared = is_squared
        self.found = np.empty((n_permutations + 1, len(members)))
        self.filled = 0

    def add(self, values: np.ndarray) -> None:
        """Take in the absolute statistics of orders, (orders, connections), the observed one first."""
        end = self.filled + len(values)
        self.found[self.filled : end] = set_means(
            values, self.members, self.starts, self.is_squared
        )
        self.filled = end

    def tests(self, effect: np.ndarray) -> SetTests:
        """Test the sets; ``effect`` is that of every connection."""
        observed, permuted = self.found[0], self.found[1:]
        p = 1 + (permuted >= observed * (1 - _TOLERANCE)).sum(axis=0)
        # The cube root of a mean of squares is about normal for any number of them (Wilson and Hilferty
        # 1931), so that small and large sets can be compared.
        scale = np.cbrt(self.found)
        scale -= scale.mean(axis=0)
        spread = scale.std(axis=0)
        scale /= np.where(spread > 0, spread, 1.0)
        largest = np.sort(scale[1:].max(axis=1))
        below = np.searchsorted(largest, scale[0] - _TOLERANCE, side="left")
        sums = np.add.reduceat(effect[self.members], self.starts[:-1])
        return SetTests(
            effect=sums / np.diff(self.starts),
            statistic=observed.copy(),
            p=p / len(self.found),
            p_family=(len(self.found) - below) / len(self.found),
        )


@kernel(error_model="numpy")
def set_means(values, members, starts, is_squared):
    """Mean over sets of connections of the values (maps, connections), or of their squares.

    Set s has the connections members[starts[s]:starts[s + 1]]; ``is_squared`` says that values are
    squares already.
    """
    n_sets = len(starts) - 1
    out = np.empty((len(values), n_sets))
    for row in range(len(values)):
        for s in range(n_sets):
            total = 0.0
            for k in range(starts[s], starts[s + 1]):
                value = values[row, members[k]]
                total += value if is_squared else value * value
            out[row, s] = total / (starts[s + 1] - starts[s])
    return out
