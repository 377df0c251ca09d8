"""The state of a fit on disk, so that a fit goes on where it was killed."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

import mtgbn
from mtgbn._utils.files import read_npz, writing
from mtgbn._utils.seeds import entropy_text, seed_sequence
from mtgbn._utils.stores import estimator_settings
from mtgbn.chain.state import ChainState
from mtgbn.errors import InputError
from mtgbn.learn.joint import Iteration, JointState
from mtgbn.learn.min_strength import MinStrength
from mtgbn.learn.record import Record
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.tasks import Tasks

# Raised whenever a state means something else than before; 7: groups.
_FORMAT = "mtgbn checkpoint 7"

# What a state is made of; nothing else is ever made from a file.
_JOINT_KINDS = (JointState, Iteration, Record, ChainState, EdgePrior, PairKinds, MinStrength)


class Checkpoint:
    """The file that a fit writes after every iteration, if there is one, and what it began with.

    Attributes
    ----------
    state : JointState, another state of a fit, or None
        Where an interrupted fit stood; None if there was none.
    seeds : SeedSequence
        Those of the interrupted fit, or of the estimator's ``random_state``.
    """

    def __init__(
        self,
        path: Path | None,
        seeds: np.random.SeedSequence,
        belongs_to: dict[str, str],
        kinds: tuple[type, ...],
    ) -> None:
        self.seeds = seeds
        self.state: Any = None
        self._path = path
        self._belongs_to = belongs_to
        self._kinds = {kind.__name__: kind for kind in kinds}
        if path is not None:
            self._read(path)

    @classmethod
    def of(
        cls,
        estimator: Any,
        tasks: Tasks,
        path: str | os.PathLike[str] | None,
        kinds: tuple[type, ...] = _JOINT_KINDS,
        given: Mapping[str, str] | None = None,
    ) -> Self:
        """The checkpoint of a fit; ``kinds`` are the structures of its state, the state itself first.

        ``given`` is what decides the fit beside the data and the settings of the estimator.
        """
        seeds = seed_sequence(estimator.random_state)
        if path is None:
            return cls(None, seeds, {}, kinds)
        if not Path(path).absolute().parent.is_dir():
            raise InputError(f"the folder of the checkpoint {str(path)!r} does not exist")
        settings = {**estimator_settings(estimator), "mtgbn": mtgbn.__version__}
        del settings["max_iter"]  # a fit that has not converged may go on with more iterations
        belongs_to = tasks.fingerprint(settings) | dict(given or {})
        if estimator.random_state is not None:
            belongs_to["seeds"] = entropy_text(seeds)
        checkpoint = cls(Path(path), seeds, belongs_to, kinds)
        state = checkpoint.state
        if state is not None and not state.converged and len(state.history) < estimator.max_iter:
            # A callback or a lower max_iter had stopped it.
            checkpoint.state = state._replace(reason="")
        return checkpoint

    def write(self, state: Any) -> None:
        """Write the state atomically; the checkpoint before it stays until this one is whole."""
        if self._path is None:
            return
        arrays: dict[str, np.ndarray] = {}
        about = {
            "format": _FORMAT,
            "entropy": entropy_text(self.seeds),
            "belongs_to": self._belongs_to,
            "state": self._encode(state, arrays),
        }
        arrays["about"] = np.array(json.dumps(about))
        with writing(self._path) as file:
            np.savez(file, allow_pickle=False, digest=np.array(_digest(arrays)), **arrays)

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            arrays = read_npz(path)
            digest = str(arrays.pop("digest"))
            if digest != _digest(arrays):
                raise ValueError("its contents were changed")
            about = json.loads(str(arrays["about"]))
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}")
            entropy, before = str(about["entropy"]), dict(about["belongs_to"])
            # A checkpoint of another estimator is whole, and holds other structures.
            self._refuse_other(before)
            state = self._decode(about["state"], arrays)
            graphs = getattr(state, "adjacencies", None)
            is_state = isinstance(state, next(iter(self._kinds.values())))
            if not is_state or not isinstance(graphs, np.ndarray) or graphs.dtype.kind != "b":
                raise ValueError("it holds no state of such a fit")
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} is damaged or not a checkpoint of this version of mtgbn ({error}); remove it "
                "to start anew"
            ) from error
        self.state, self.seeds = state, seed_sequence(entropy)

    def _refuse_other(self, before: dict[str, str]) -> None:
        for name in sorted({*before, *self._belongs_to}):
            then, now = before.get(name), self._belongs_to.get(name)
            if then == now:
                continue
            what = "of other data" if name == "data" else f"of a fit with {name}={then}, not {now}"
            raise InputError(
                f"{self._path} is the checkpoint {what}; go on with the same data and settings, or "
                "remove it to start anew"
            )

    def _encode(self, value: Any, arrays: dict[str, np.ndarray]) -> Any:
        """A state as JSON, with its arrays put aside under names of their own."""
        if isinstance(value, np.ndarray):
            name = f"array{len(arrays)}"
            arrays[name] = value
            return {"array": name}
        if type(value).__name__ in self._kinds:
            fields = value._asdict().items()
            return {type(value).__name__: {k: self._encode(v, arrays) for k, v in fields}}
        if isinstance(value, tuple):
            return [self._encode(each, arrays) for each in value]
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")

    def _decode(self, value: Any, arrays: dict[str, np.ndarray]) -> Any:
        if isinstance(value, list):
            return tuple(self._decode(each, arrays) for each in value)
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "array":
            return arrays[content]
        return self._kinds[kind](**{k: self._decode(v, arrays) for k, v in content.items()})


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()
