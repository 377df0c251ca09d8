"""Rounds in one kernel, against naive updates called one after the other, and without a compiler."""

import os
import subprocess
import sys
from pathlib import Path

import naive_updates
import numpy as np
import pytest
from chain_problems import (
    KINDS,
    KINDS_OF_GROUPS,
    MIXED_TIES,
    assert_same,
    chain_of,
    incomplete_tasks,
    some_constraints,
)

from mtgbn.chain.run import run_chain

SETTINGS = {
    "fixed": {"samples_delta": False, "samples_membership": False},
    "delta": {"samples_membership": False, "agreement": 1.5},
    "membership": {"samples_delta": False, "agreement": 1.5},
    "no ties": {"samples_ties": False, "agreement": 1.5},
    "own families at the start": {"ties": MIXED_TIES, "prior": KINDS},
    "knowledge": {"constraints": some_constraints(4), "agreement": 1.5},
    "costs of edges": {"agreement": 1.5, "edge_costs": 0.7},
    "kinds of pairs": {"prior": KINDS, "agreement": 1.5, "edge_costs": 0.7},
    "kinds, held": {"prior": KINDS, "samples_kinds": False},
    "kinds, knowledge": {"prior": KINDS, "constraints": some_constraints(4)},
    "groups": {"prior": KINDS_OF_GROUPS, "groups": [0, 1, 1], "agreement": 1.5},
    "groups, knowledge": {
        "prior": KINDS_OF_GROUPS,
        "groups": [1, 0, 1],
        "constraints": some_constraints(4),
    },
    "missing values": {"tasks": incomplete_tasks(), "prior": KINDS, "agreement": 0.8},
}


@pytest.mark.parametrize("adapts", [True, False])
@pytest.mark.parametrize("setting", SETTINGS)
def test_rounds_are_their_updates(setting, adapts):
    data, state = chain_of(**SETTINGS[setting])
    found_rng, expected_rng = np.random.default_rng(5), np.random.default_rng(5)
    # Masses are learned in the tenth round.
    n_rounds = 12 if adapts else 6
    trace, end = run_chain(data, state, found_rng, n_rounds, adapts=adapts)
    expected, expected_end = naive_updates.run_chain(
        data, state, expected_rng, n_rounds, adapts=adapts
    )
    # The start takes differences of gradients, and trajectories enlarge what rounding there is.
    assert_same(trace, expected, rtol=1e-6, atol=1e-7)
    assert_same(end, expected_end, rtol=1e-6, atol=1e-7)
    assert found_rng.bit_generator.state == expected_rng.bit_generator.state
    assert len(np.unique(trace.n_edges)) > 1  # graphs did move
    assert not end.ties[~end.members].any()
    if data.samples_ties:
        assert len(np.unique(trace.own_share)) > 1
    else:
        assert end.ties[end.members].all()
        assert not trace.own_share.any()


def test_trajectories_that_diverge_are_tried_again():
    """With steps that are too long: the twin, and most trajectories are accepted in the end."""
    data, state = chain_of(n_moves=1, delta=200.0)
    rng = np.random.default_rng(3)
    _, state = run_chain(data, state, rng, 30, adapts=True)
    state.step_size[()] *= 9
    found_rng, expected_rng = np.random.default_rng(5), np.random.default_rng(5)
    trace, end = run_chain(data, state, found_rng, 40, adapts=False)
    expected, expected_end = naive_updates.run_chain(data, state, expected_rng, 40, adapts=False)
    assert_same(trace, expected, rtol=1e-5, atol=1e-6)
    assert_same(end, expected_end, rtol=1e-5, atol=1e-6)
    moved = (np.diff(trace.psi[:, 0, 0]) != 0) & (trace.acceptance[1:] == 0)
    assert moved.sum() > 3
    assert trace.n_divergent < 10


SMALL_CHAIN = """
import sys
from numba import config
from chain_problems import *
from mtgbn.chain.run import run_chain
options = {"constraints": some_constraints(4), "agreement": 0.8, "n_moves": 60}
options |= {"prior": KINDS_OF_GROUPS, "groups": [0, 1, 1]}
data, state = chain_of(incomplete_tasks(), **options)
assert np.diff(data.row_starts).min() > 0
trace, end = run_chain(data, state, np.random.default_rng(1), 4, adapts=True)
flat = np.concatenate([np.ravel(each).astype(float) for each in (*trace, *end)])
sys.stdout.write(f"{bool(config.DISABLE_JIT)} " + " ".join(each.hex() for each in flat.tolist()))
"""


def small_chain(disable_jit):
    environment = os.environ | {"NUMBA_DISABLE_JIT": str(int(disable_jit))}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_CHAIN],
        env=environment,
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    is_disabled, *numbers = done.stdout.split()
    assert is_disabled == str(disable_jit)
    return np.array([float.fromhex(number) for number in numbers])


def test_the_interpreter_gives_the_same_numbers():
    # Compiled code does not notice an index out of bounds, the interpreter raises.
    compiled, interpreted = small_chain(False), small_chain(True)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-6, atol=1e-7)
