"""EM's state on disk, so that a fit goes on where it was killed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mtgbn.errors import InputError
from mtgbn.files import read_npz, writing
from mtgbn.learn.em import Iteration, State
from mtgbn.sampling.hmc import HMCState
from mtgbn.tasks import Tasks

__all__ = ["fingerprint", "read_checkpoint", "write_checkpoint"]

_FORMAT = "mtgbn checkpoint 1"
_CHAIN_ARRAYS = ("centre", "position", "inverse_mass")


def fingerprint(tasks: Tasks, settings: dict[str, Any]) -> dict[str, str]:
    """What a checkpoint belongs to: every setting by name, and the data."""
    digest = hashlib.sha256()
    for part in (tasks.scatters, tasks.ns, tasks.centres, tasks.scales):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(json.dumps([tasks.names, tasks.variables]).encode())
    return {"data": digest.hexdigest(), **{name: repr(value) for name, value in settings.items()}}


def write_checkpoint(
    path: str | os.PathLike[str], state: State, entropy: str, belongs_to: dict[str, str]
) -> None:
    """Write the state atomically; the checkpoint before it stays until this one is whole."""
    about = {
        "format": _FORMAT,
        "entropy": entropy,
        "belongs_to": belongs_to,
        "n_draws": state.n_draws,
        "history": [iteration._asdict() for iteration in state.history],
        "reason": state.reason,
        "converged": state.converged,
        "step_sizes": [chain.step_size for chain in state.chains],
        "whitened": [chain.whitened for chain in state.chains],
    }
    arrays = {"about": np.array(json.dumps(about)), "adjacencies": state.adjacencies}
    for name in _CHAIN_ARRAYS:
        arrays[name] = np.array([getattr(chain, name) for chain in state.chains])
    with writing(path) as file:
        np.savez(file, digest=np.array(_digest(arrays)), **arrays)


def read_checkpoint(
    path: str | os.PathLike[str], belongs_to: dict[str, str]
) -> tuple[State, str] | None:
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
        state = _restore(about, *(arrays[name] for name in ("adjacencies", *_CHAIN_ARRAYS)))
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


def _restore(about: dict[str, Any], adjacencies, centres, positions, masses) -> State:
    chains = tuple(
        HMCState(centre, position, mass, float(step), bool(whitened))
        for centre, position, mass, step, whitened in zip(
            centres, positions, masses, about["step_sizes"], about["whitened"], strict=True
        )
    )
    history = tuple(Iteration(**iteration) for iteration in about["history"])
    if adjacencies.ndim != 3 or adjacencies.dtype != bool:
        raise ValueError(f"its graphs are an array of {adjacencies.dtype} {adjacencies.shape}")
    return State(
        adjacencies, chains, int(about["n_draws"]), history, about["reason"], about["converged"]
    )
