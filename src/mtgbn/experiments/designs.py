"""The four simulations of the paper's section 7: what is varied, how data are made, who competes.

Settings are plain dictionaries, so that a cell can be stored as a row, and run by any process.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from mtgbn.errors import InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.estimator import Estimator
from mtgbn.simulate import simulate_perturbed, simulate_thresholded
from mtgbn.simulate.hierarchical import Simulation

__all__ = ["EXPERIMENTS", "METHODS", "Cell", "Experiment", "Setting", "cells_of"]

Setting = dict[str, float | int | str]

# Every method gets the same care; p is the number of variables. From MTGBN-paper to MTGBN-posterior each
# has one step more of what was corrected or added.
METHODS: dict[str, Callable[[int], Estimator]] = {
    "SIG": lambda p: SIG(edge_prior="density"),
    "AVG": lambda p: AVG(edge_prior="density"),
    "MTGBN-paper": lambda p: MTGBN(
        structure_prior="decomposable", search="mmhc", nu0=p + 49, edge_prior=0.5
    ),
    "MTGBN-corrected": lambda p: MTGBN(nu0=p + 49, edge_prior="density"),
    "MTGBN-unshared": lambda p: MTGBN(edge_prior="density"),
    "MTGBN": lambda p: MTGBN(),
    "MTGBN-posterior": lambda p: MTGBN(inference="posterior"),
}

_MAIN = ("SIG", "AVG", "MTGBN-paper", "MTGBN")


class Experiment(NamedTuple):
    """One figure or table.

    Attributes
    ----------
    name, title : str
    axis : str
        Key of the settings that the horizontal axis shows.
    rows, columns : str
        Keys of the settings that have a row or a column of panels each; empty if none.
    simulate : callable
        Data with their truth, of a setting and a generator.
    has_directions : bool
        Whether the truth are DAGs.
    full, quick : tuple of dict
        Settings; the quick ones are among the full ones, so that a quick run is the beginning of a full
        one.
    quick_repetitions : int
    methods : callable
        Names of the methods that the full run has in a setting.
    """

    name: str
    title: str
    axis: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    simulate: Callable[[Setting, np.random.Generator], Simulation]
    has_directions: bool
    full: tuple[Setting, ...]
    quick: tuple[Setting, ...]
    quick_repetitions: int
    methods: Callable[[Setting], tuple[str, ...]]

    @property
    def keys(self) -> tuple[str, ...]:
        """What a setting consists of."""
        return tuple(self.full[0])


class Cell(NamedTuple):
    """A unit of work: one method on one simulated problem."""

    experiment: str
    setting: Setting
    repetition: int
    method: str

    @property
    def key(self) -> tuple:
        """What tells it from all others of its experiment."""
        return (*self.setting.values(), self.repetition, self.method)


def _thresholded(setting: Setting, rng: np.random.Generator) -> Simulation:
    return simulate_thresholded(
        setting["n_tasks"],
        15,
        setting["n_rows"],
        nu0=setting["nu0"],
        density=setting["density"],
        random_state=rng,
    )


def _perturbed(setting: Setting, rng: np.random.Generator) -> Simulation:
    return simulate_perturbed(
        setting["network"],
        10,
        setting["n_rows"],
        level=setting["level"],
        relative_to=setting["relative_to"],
        random_state=rng,
    )


def _grid(**values: tuple) -> tuple[Setting, ...]:
    """All combinations, the first key varying slowest."""
    return tuple(dict(zip(values, each, strict=True)) for each in product(*values.values()))


def _synthetic(
    nu0: tuple = (60, 30, 200),
    n_tasks: tuple = (10,),
    n_rows: tuple = (250,),
    density: tuple = (0.3,),
) -> tuple[Setting, ...]:
    return _grid(nu0=nu0, n_tasks=n_tasks, n_rows=n_rows, density=density)


def _all_at_60(setting: Setting) -> tuple[str, ...]:
    """Everything where it is affordable: at the middle relatedness."""
    return tuple(METHODS) if setting["nu0"] == 60 else _MAIN


_LEVELS = (0.05, 0.1, 0.2, 0.3)
_PAPERS_NETWORKS = ("ecoli70", "magic-niab", "magic-irri")

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "sample-size",
            "Synthetic data: rows per task (the paper's Figure 3)",
            "n_rows",
            ("nu0",),
            (),
            _thresholded,
            False,
            _synthetic(n_rows=(50, 100, 150, 200, 250, 300)),
            _synthetic(nu0=(60,), n_rows=(50, 250)),
            2,
            _all_at_60,
        ),
        Experiment(
            "task-number",
            "Synthetic data: number of tasks (the paper's Figure 4)",
            "n_tasks",
            ("nu0",),
            (),
            _thresholded,
            False,
            _synthetic(n_tasks=(2, 4, 6, 8, 10)),
            _synthetic(nu0=(60,), n_tasks=(2, 6)),
            2,
            lambda setting: _MAIN,
        ),
        Experiment(
            "density",
            "Synthetic data: density and rows per task (the paper's Figure 5)",
            "density",
            ("nu0",),
            ("n_rows",),
            _thresholded,
            False,
            _synthetic(n_rows=(100, 200, 300), density=(0.2, 0.3, 0.4, 0.5, 0.6)),
            _synthetic(nu0=(60,), n_rows=(100,), density=(0.2, 0.4)),
            2,
            lambda setting: _MAIN,
        ),
        Experiment(
            "perturbation",
            "Benchmark networks: share of pairs or of arcs that every task changes (Table 2)",
            "level",
            ("relative_to", "n_rows"),
            ("network",),
            _perturbed,
            True,
            _grid(
                n_rows=(250, 100, 50),
                relative_to=("pairs", "edges"),
                network=_PAPERS_NETWORKS,
                level=_LEVELS,
            ),
            _grid(n_rows=(250,), relative_to=("edges",), network=("ecoli70",), level=(0.05, 0.3)),
            1,
            lambda setting: _MAIN,
        ),
    )
}


def cells_of(
    experiment: Experiment,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    methods: tuple[str, ...] | None = None,
    only: tuple[str, ...] = (),
) -> Iterator[Cell]:
    """All cells, repetition by repetition: a run that is cut short has all settings.

    Parameters
    ----------
    experiment : Experiment
    quick : bool
        A few settings and the main methods only.
    repetitions : int, optional
        Default: 10, or what takes about a minute.
    methods : tuple of str, optional
        These instead, in all settings.
    only : tuple of str
        Of the settings, those with these values: ``"n_rows=250"``. Several of one key are alternatives.
    """
    methods = tuple(dict.fromkeys(methods or ()))
    for method in methods:
        if method not in METHODS:
            raise InputError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    chosen_values = _values_by_key(experiment, only)
    settings = [
        setting
        for setting in (experiment.quick if quick else experiment.full)
        if all(str(setting[key]) in values for key, values in chosen_values.items())
    ]
    if not settings:
        which = "a quick run" if quick else "a full run"
        raise InputError(f"{which} has no setting with {', '.join(only)}")
    if repetitions is None:
        repetitions = experiment.quick_repetitions if quick else 10
    for repetition in range(repetitions):
        for setting in settings:
            chosen = methods or (_MAIN if quick else experiment.methods(setting))
            for method in chosen:
                yield Cell(experiment.name, setting, repetition, method)


def _values_by_key(experiment: Experiment, only: tuple[str, ...]) -> dict[str, set[str]]:
    """What settings are restricted to, as text."""
    chosen: dict[str, set[str]] = {}
    for text in only:
        key, equals, value = text.partition("=")
        if not equals or key not in experiment.keys:
            raise InputError(
                f"{text!r} is not KEY=VALUE with a key of {experiment.name}, "
                f"which are {', '.join(experiment.keys)}"
            )
        values = list(dict.fromkeys(str(setting[key]) for setting in experiment.full))
        same = [each for each in values if each == value or _is_same_number(each, value)]
        if not same:
            raise InputError(
                f"{experiment.name} has no {key} {value!r}; it has {', '.join(values)}"
            )
        chosen.setdefault(key, set()).update(same)
    return chosen


def _is_same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False
