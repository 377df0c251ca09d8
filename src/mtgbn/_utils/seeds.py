"""From one random_state to all seeds of a computation, and back to a random_state that repeats it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtgbn.errors import InputError


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return the seeds that a random_state stands for; a Generator is advanced."""
    if isinstance(random_state, np.random.SeedSequence):
        # Spawning counts up inside the sequence; a copy gives the same chains every time.
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, str):
        return _seeds_of(random_state)
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    try:
        return np.random.SeedSequence(random_state)
    except (TypeError, ValueError):
        raise InputError(
            "random_state must be a whole number of at least 0, a SeedSequence or a Generator; "
            f"got {random_state!r}"
        ) from None


def entropy_text(seeds: np.random.SeedSequence) -> str:
    """Return the seeds as text: JSON readers may not hold whole numbers of any size."""
    entropy = seeds.entropy
    numbers = entropy if isinstance(entropy, Sequence | np.ndarray) else [entropy]
    return " ".join(map(str, numbers)) + "; " + " ".join(map(str, seeds.spawn_key))


def _seeds_of(text: str) -> np.random.SeedSequence:
    """Return the seeds that `entropy_text` wrote."""
    try:
        entropy, key = text.split(";")
        numbers = [int(number) for number in entropy.split()]
        return np.random.SeedSequence(
            numbers[0] if len(numbers) == 1 else numbers,
            spawn_key=tuple(int(number) for number in key.split()),
        )
    except ValueError:
        raise InputError(
            f"random_state must be a number or what a fit has as random_state_; got {text!r}"
        ) from None


def entropy_of(seeds: np.random.SeedSequence) -> int | list[int] | str:
    """Return the random_state that gives these seeds; a text if they were spawned from other seeds."""
    if seeds.spawn_key:
        return entropy_text(seeds)
    entropy: Any = seeds.entropy
    return int(entropy) if np.ndim(entropy) == 0 else [int(number) for number in entropy]
