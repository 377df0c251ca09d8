"""What is known about a graph a priori: edges required or forbidden, tiers, a limit on parents.

`Knowledge` names variables, `Constraints` are matrices for the searches. `Knowledge.resolve` makes the
one from the other and finds every contradiction, so a search can assume that some DAG fits.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from mtgbn._utils.arguments import check_count, real_array
from mtgbn._utils.names import check_names, listed, unknown_name
from mtgbn.errors import InputError
from mtgbn.graphs.dags import descendants, find_cycle

Edge = tuple[str, str]


class Constraints(NamedTuple):
    """Edges that a search may and must use, and the largest number of parents.

    ``allowed[i, j]``: i -> j may be in the graph; the diagonal is false. ``required[i, j]``: i -> j
    must be in the graph; these edges are a DAG, all of them allowed.
    """

    allowed: np.ndarray
    required: np.ndarray
    max_parents: int


def no_constraints(p: int) -> Constraints:
    """Constraints on p variables that every DAG meets."""
    check_count("p", p, 1)
    return Constraints(~np.eye(p, dtype=bool), np.zeros((p, p), dtype=bool), int(p) - 1)


def check_constraints(constraints: Constraints | None, p: int) -> Constraints:
    """Return constraints in the form that kernels take; None means no constraints."""
    if constraints is None:
        return no_constraints(p)
    if not isinstance(constraints, Constraints):
        raise InputError(
            f"constraints must be a Constraints, such as Knowledge.resolve(variables) gives; got "
            f"{type(constraints).__name__}"
        )
    allowed, required = (np.ascontiguousarray(matrix, dtype=bool) for matrix in constraints[:2])
    if allowed.shape != (p, p) or required.shape != (p, p):
        raise InputError(
            f"constraints are for {len(allowed)} variables where there are {p}; resolve them again"
        )
    check_count("max_parents", constraints.max_parents, 0)
    most = min(int(constraints.max_parents), p - 1)
    if (required & ~allowed).any() or allowed.diagonal().any() or find_cycle(required):
        raise InputError("constraints contradict themselves; make them with Knowledge.resolve")
    if required.sum(axis=0).max(initial=0) > most:
        raise InputError("constraints require more parents than max_parents")
    return Constraints(allowed, required, most)


def restrict(constraints: Constraints, candidates) -> Constraints:
    """Allow only the required edges and the candidates (p, p), whose diagonal is ignored."""
    p = len(constraints.allowed)
    candidates = real_array(candidates, "candidates")
    if candidates.shape != (p, p):
        raise InputError(f"candidates must have shape ({p}, {p}); got {candidates.shape}")
    odd = np.argwhere((candidates != 0) & (candidates != 1))
    if odd.size:
        i, j = odd[0]
        raise InputError(
            f"candidates must be true or false; element ({i}, {j}) is {candidates[i, j]:g}"
        )
    allowed = (constraints.allowed & candidates.astype(bool)) | constraints.required
    return constraints._replace(allowed=allowed)


@dataclass(frozen=True)
class Knowledge:
    """What is known about a graph a priori, by names of variables.

    Edges and the members of each tier are kept sorted and without repetition.

    Parameters
    ----------
    required : edges, optional
        Pairs (source, target) of which source -> target must be in the graph.
    forbidden : edges, optional
        Pairs (source, target) of which source -> target must not be; the other direction may.
    tiers : blocks of variables, optional
        In causal order: no edge leads from a later to an earlier block. Variables in no block may have
        edges from and to all variables.
    max_parents : int, optional
        Largest number of parents of a variable.

    Examples
    --------
    >>> knowledge = Knowledge(required=[("a", "b")], tiers=[["a"], ["b", "c"]], max_parents=1)
    >>> knowledge.resolve(["a", "b", "c"]).allowed.astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    max_parents: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "required", _edges(self.required, "required"))
        object.__setattr__(self, "forbidden", _edges(self.forbidden, "forbidden"))
        object.__setattr__(self, "tiers", _tiers(self.tiers))
        if self.max_parents is not None:
            check_count("max_parents", self.max_parents, 0)
            object.__setattr__(self, "max_parents", int(self.max_parents))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Build from the keys of `to_dict`, any of which may be left out."""
        known = [field.name for field in fields(cls)]
        for key in content:
            if key not in known:
                raise unknown_name(key, known, "key")
        return cls(**content)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a JSON object with any of the keys of `to_dict`.

        For example ``{"required": [["a", "b"]], "tiers": [["a"], ["b", "c"]], "max_parents": 3}``.
        """
        try:
            with open(path, encoding="utf-8-sig") as file:
                content = json.load(file, object_pairs_hook=_unique_keys)
            if not isinstance(content, dict):
                raise InputError("it must hold one JSON object, {...}")
            return cls.from_dict(content)
        except InputError as error:
            raise InputError(f"the knowledge in {os.fspath(path)}: {error}") from None
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            raise InputError(f"the knowledge in {os.fspath(path)} {why}") from error
        except (ValueError, RecursionError) as error:
            why = f"is not JSON in UTF-8: {error}"
            raise InputError(f"the knowledge in {os.fspath(path)} {why}") from error

    def to_dict(self) -> dict[str, Any]:
        """The knowledge as lists, strings and numbers that JSON can hold."""
        return {
            "required": [list(edge) for edge in self.required],
            "forbidden": [list(edge) for edge in self.forbidden],
            "tiers": [list(tier) for tier in self.tiers],
            "max_parents": self.max_parents,
        }

    def resolve(self, variables: Sequence[str]) -> Constraints:
        """Return the constraints on these variables, in their order.

        An edge is allowed exactly when it is in some DAG that agrees with all of the knowledge.

        Raises
        ------
        InputError
            If a variable does not exist, or no DAG agrees; the message shows why.
        """
        variables = check_names(variables, "variable")
        p = len(variables)
        position = {name: k for k, name in enumerate(variables)}
        allowed, required, max_parents = no_constraints(p)
        if self.max_parents is not None:
            max_parents = min(self.max_parents, p - 1)

        def place(name: str, where: str) -> int:
            if name not in position:
                raise InputError(f"{where}: {unknown_name(name, variables, 'variable')}")
            return position[name]

        for kind, edges, matrix in (
            ("required", self.required, required),
            ("forbidden", self.forbidden, allowed),
        ):
            for source, target in edges:
                where = f"the {kind} edge {source} -> {target}"
                matrix[place(source, where), place(target, where)] = kind == "required"
        rank = np.full(p, -1)  # of variables in no tier
        for number, tier in enumerate(self.tiers):
            for name in tier:
                rank[place(name, f"tiers[{number}]")] = number
        allowed &= ~((rank[:, None] > rank) & (rank >= 0))
        for i, j in np.argwhere(required & ~allowed).tolist():
            raise self._refusal(variables[i], variables[j])
        cycle = find_cycle(required)
        if cycle:
            named = " -> ".join(variables[node] for node in [*cycle, cycle[0]])
            raise InputError(
                f"the required edges form the cycle {named}; remove or reverse one of them"
            )
        counts = required.sum(axis=0)
        for node in np.flatnonzero(counts > max_parents).tolist():
            parents = [variables[parent] for parent in np.flatnonzero(required[:, node])]
            raise InputError(
                f"{variables[node]!r} has {counts[node]} required parents, {listed(parents, p)}, but "
                f"max_parents is {self.max_parents}; allow more or require fewer"
            )
        allowed &= ~descendants(required).T
        allowed &= required | (counts < max_parents)
        return Constraints(allowed, required, max_parents)

    def _refusal(self, source: str, target: str) -> InputError:
        """The error for a required edge that is forbidden or against the tiers."""
        edge = f"{source} -> {target}"
        if (source, target) in self.forbidden:
            return InputError(
                f"the edge {edge} is both required and forbidden; remove it from one of the two"
            )
        later, earlier = (
            next(
                f"tiers[{k}] ({listed(tier)})" for k, tier in enumerate(self.tiers) if name in tier
            )
            for name in (source, target)
        )
        return InputError(
            f"the required edge {edge} goes against the tiers: {source!r} is in {later}, {target!r} "
            f"in the earlier {earlier}; move one of them or do not require the edge"
        )


def _edges(edges: Iterable[Iterable[str]], key: str) -> tuple[Edge, ...]:
    """Pairs of names, sorted and without repetition."""
    shape = f"{key} must be a list of edges, each a pair of variable names (source, target)"
    pairs = set()
    for edge in _items(edges, shape):
        pair = _names(edge, shape)
        if len(pair) != 2:
            raise InputError(f"{shape}; got the edge {edge!r} of length {len(pair)}")
        if isinstance(edge, set | frozenset):
            raise InputError(f"{shape}; the set {edge!r} does not say which is the source")
        if pair[0] == pair[1]:
            raise InputError(
                f"{key} has an edge from {pair[0]!r} to itself, which no DAG has; leave it out"
            )
        pairs.add(pair)
    return tuple(sorted(pairs))


def _tiers(tiers: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Blocks of names, each sorted and without repetition."""
    shape = "tiers must be a list of blocks, each a list of variable names, in causal order"
    if isinstance(tiers, set | frozenset):
        raise InputError(f"{shape}; the set {tiers!r} has no order")
    blocks = tuple(tuple(sorted(set(_names(tier, shape)))) for tier in _items(tiers, shape))
    first: dict[str, int] = {}
    for number, block in enumerate(blocks):
        for name in block:
            if name in first:
                raise InputError(
                    f"{name!r} is in two tiers, tiers[{first[name]}] and tiers[{number}]; a variable "
                    "can be in one only"
                )
            first[name] = number
    return blocks


def _names(value: Iterable[str], shape: str) -> tuple[str, ...]:
    names = _items(value, shape)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{shape}; got {name!r} where a name was expected")
    return tuple(str(name) for name in names)


def _items(value: Any, shape: str) -> list:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{shape}; got {value!r}")
    return list(value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"the key {twice!r} occurs twice; merge the two")
    return content
