"""EM's state on disk, so that a fit goes on where it was killed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn._utils.files import read_npz, writing
from mtgbn.errors import InputError
from mtgbn.learn.em import Iteration, State
from mtgbn.learn.explore import Exploration, Record
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.sampling.hmc import HMCState
from mtgbn.sampling.imputation import Completed
from mtgbn.sampling.joint import JointState
from mtgbn.tasks import Tasks

__all__ = ["fingerprint", "read_checkpoint", "write_checkpoint"]

# Raised whenever a state means something else than before; 4: the centre of a chain is one of Psi.
_FORMAT = "mtgbn checkpoint 4"

# What a state is made of; nothing else is ever made from a file.
_KINDS = {
    kind.__name__: kind
    for kind in (State, Iteration, HMCState, Exploration, Record, JointState, EdgePrior, Completed)
}


def fingerprint(tasks: Tasks, settings: dict[str, Any]) -> dict[str, str]:
    """What a checkpoint belongs to: every setting by name, and the data."""
    digest = hashlib.sha256()
    parts = (tasks.scatters, tasks.ns, tasks.centres, tasks.scales, *tasks.incomplete.values())
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(json.dumps([tasks.names, tasks.variables]).encode())
    return {"data": digest.hexdigest(), **{name: repr(value) for name, value in settings.items()}}


def write_checkpoint(
    path: str | os.PathLike[str],
    state: State | Exploration,
    entropy: str,
    belongs_to: dict[str, str],
) -> None:
    """Write the state atomically; the checkpoint before it stays until this one is whole."""
    arrays: dict[str, np.ndarray] = {}
    about = {
        "format": _FORMAT,
        "entropy": entropy,
        "belongs_to": belongs_to,
        "state": _encode(state, arrays),
    }
    arrays["about"] = np.array(json.dumps(about))
    with writing(path) as file:
        np.savez(file, digest=np.array(_digest(arrays)), **arrays)


def read_checkpoint(
    path: str | os.PathLike[str], belongs_to: dict[str, str]
) -> tuple[State | Exploration, str] | None:
    """Return the state and the entropy of its seeds; None if there is no checkpoint."""
    path = Path(path)
    if not path.exists():
        return None
    try:
        arrays = read_npz(path)
        digest = str(arrays.pop("digest"))
        if digest != _digest(arrays):
            raise ValueError("its contents were changed")
        about = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        state = _decode(about["state"], arrays)
        graphs = getattr(state, "adjacencies", None)
        is_state = isinstance(state, State | Exploration) and isinstance(graphs, np.ndarray)
        if not is_state or graphs.dtype.kind != "b":
            raise ValueError("it holds no state of a fit")
        entropy, before = str(about["entropy"]), dict(about["belongs_to"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged or not a checkpoint of this version of mtgbn ({error}); remove it to "
            "start anew"
        ) from error
    for name in sorted({*before, *belongs_to}):
        then, now = before.get(name), belongs_to.get(name)
        if then != now:
            what = "of other data" if name == "data" else f"of a fit with {name}={then}, not {now}"
            raise InputError(
                f"{path} is the checkpoint {what}; go on with the same data and settings, or remove it "
                "to start anew"
            )
    return state, entropy


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A state as JSON, with its arrays put aside under names of their own."""
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if type(value).__name__ in _KINDS:
        return {type(value).__name__: [_encode(each, arrays) for each in value]}
    if isinstance(value, tuple):
        return [_encode(each, arrays) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(each, arrays) for each in value)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    return _KINDS[kind](*(_decode(each, arrays) for each in content))
