"""The four simulations of the paper's section 7: settings, simulated data, and methods.

Settings are plain dictionaries, so that a cell can be stored as a row and run by any process.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mtgbn.errors import InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.estimator import Estimator
from mtgbn.paper import PaperMTGBN
from mtgbn.simulate import simulate_perturbed, simulate_thresholded
from mtgbn.simulate.hierarchical import Simulation

# Values by name, numbers or text.
Setting = dict[str, Any]

# The estimators by the names of the methods; p is the number of variables. Each method from MTGBN-paper
# to MTGBN-posterior has one more of the corrections and additions to the paper's method.
METHODS: dict[str, Callable[[int], Estimator]] = {
    "SIG": lambda p: SIG(edge_prior="density"),
    "AVG": lambda p: AVG(edge_prior="density"),
    "MTGBN-paper": lambda p: PaperMTGBN(structure_prior="decomposable", nu0=p + 49, edge_prior=0.5),
    "MTGBN-corrected": lambda p: MTGBN(nu0=p + 49, edge_prior="density"),
    "MTGBN-unshared": lambda p: MTGBN(edge_prior="density"),
    "MTGBN": lambda p: MTGBN(),
    "MTGBN-posterior": lambda p: MTGBN(inference="posterior"),
}

_MAIN = ("SIG", "AVG", "MTGBN-paper", "MTGBN")


class Experiment(NamedTuple):
    """The simulations behind one figure or table of the paper.

    ``axis`` is the key of the settings on the horizontal axis of the figure; the keys ``rows`` and
    ``columns`` vary between the rows and columns of its panels. ``simulate`` makes data with known
    truth from a setting; ``has_directions`` says whether the true graphs are DAGs or undirected.
    The settings of a ``quick`` run are among those of a ``full`` run, so that a quick run is the
    beginning of a full run. ``methods`` gives the names of the methods that a full run has in a
    setting.
    """

    name: str
    title: str
    axis: str
    simulate: Callable[[Setting, np.random.Generator], Simulation]
    full: tuple[Setting, ...]
    quick: tuple[Setting, ...]
    rows: tuple[str, ...] = ("nu0",)
    columns: tuple[str, ...] = ()
    has_directions: bool = False
    quick_repetitions: int = 2
    methods: Callable[[Setting], tuple[str, ...]] = lambda setting: _MAIN

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the values of a setting."""
        return tuple(self.full[0])


class Cell(NamedTuple):
    """One method on one simulated problem: the unit of work."""

    experiment: str
    setting: Setting
    repetition: int
    method: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the cell within its experiment."""
        return (*self.setting.values(), self.repetition, self.method)


def _thresholded(setting: Setting, rng: np.random.Generator) -> Simulation:
    return simulate_thresholded(n_variables=15, **setting, random_state=rng)


def _perturbed(setting: Setting, rng: np.random.Generator) -> Simulation:
    return simulate_perturbed(n_tasks=10, **setting, random_state=rng)


def _grid(**values: tuple) -> tuple[Setting, ...]:
    """All combinations of the values; the first key varies slowest."""
    return tuple(dict(zip(values, each, strict=True)) for each in product(*values.values()))


def _synthetic(
    nu0: tuple = (60, 30, 200),
    n_tasks: tuple = (10,),
    n_rows: tuple = (250,),
    density: tuple = (0.3,),
) -> tuple[Setting, ...]:
    return _grid(nu0=nu0, n_tasks=n_tasks, n_rows=n_rows, density=density)


def _all_at_60(setting: Setting) -> tuple[str, ...]:
    """All methods at nu0 = 60, where they are affordable; elsewhere the main ones."""
    return tuple(METHODS) if setting["nu0"] == 60 else _MAIN


_ALL = (
    Experiment(
        name="sample-size",
        title="Synthetic data: rows per task (the paper's Figure 3)",
        axis="n_rows",
        simulate=_thresholded,
        full=_synthetic(n_rows=(50, 100, 150, 200, 250, 300)),
        quick=_synthetic(nu0=(60,), n_rows=(50, 250)),
        methods=_all_at_60,
    ),
    Experiment(
        name="task-number",
        title="Synthetic data: number of tasks (the paper's Figure 4)",
        axis="n_tasks",
        simulate=_thresholded,
        full=_synthetic(n_tasks=(2, 4, 6, 8, 10)),
        quick=_synthetic(nu0=(60,), n_tasks=(2, 6)),
    ),
    Experiment(
        name="density",
        title="Synthetic data: density and rows per task (the paper's Figure 5)",
        axis="density",
        columns=("n_rows",),
        simulate=_thresholded,
        full=_synthetic(n_rows=(100, 200, 300), density=(0.2, 0.3, 0.4, 0.5, 0.6)),
        quick=_synthetic(nu0=(60,), n_rows=(100,), density=(0.2, 0.4)),
    ),
    Experiment(
        name="perturbation",
        title="Benchmark networks: share of pairs or of arcs that every task changes (Table 2)",
        axis="level",
        rows=("relative_to", "n_rows"),
        columns=("network",),
        simulate=_perturbed,
        has_directions=True,
        full=_grid(
            n_rows=(250, 100, 50),
            relative_to=("pairs", "edges"),
            network=("ecoli70", "magic-niab", "magic-irri"),
            level=(0.05, 0.1, 0.2, 0.3),
        ),
        quick=_grid(n_rows=(250,), relative_to=("edges",), network=("ecoli70",), level=(0.05, 0.3)),
        quick_repetitions=1,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def cells_of(
    experiment: Experiment,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    methods: tuple[str, ...] | None = None,
    only: tuple[str, ...] = (),
) -> Iterator[Cell]:
    """Plan an experiment: all its cells, in the order in which they are to be run.

    The first repetition of all settings comes first, so that an interrupted run has all settings.

    Parameters
    ----------
    experiment : Experiment
        One of `EXPERIMENTS`.
    quick : bool
        Only a few settings, with the main methods.
    repetitions : int, optional
        Simulated problems per setting. Default: 10; of a quick run, as many as take about a minute.
    methods : tuple of str, optional
        Names of the methods, in all settings. Default: the methods of the experiment in each setting.
    only : tuple of str
        Restricts the settings to these values, such as ``"n_rows=250"``. Several values of one key are
        alternatives.

    Examples
    --------
    >>> cells = list(cells_of(EXPERIMENTS["task-number"], quick=True, methods=("SIG",)))
    >>> len(cells), cells[0].setting
    (4, {'nu0': 60, 'n_tasks': 2, 'n_rows': 250, 'density': 0.3})
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
    """The values, as text, to which the settings are restricted, by key."""
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
