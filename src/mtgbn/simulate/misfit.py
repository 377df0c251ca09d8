"""Tasks from a known network whose rows break one assumption of the model, the same in all tasks.

What all tasks share is not always a connection: an error of the model that all tasks have looks the
same. These simulations have the truth, so that the two can be told apart.

Every task has the same DAG, with coefficients that vary a little. Rows are x = B'x + e, with one of the
misfits below. ``coefficients[i, j]`` belongs to the edge i -> j.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from mtgbn._utils.arguments import check_count, check_interval
from mtgbn._utils.seeds import seed_sequence
from mtgbn.errors import InputError
from mtgbn.graphs.dags import topological_order
from mtgbn.simulate.bold import autoregression
from mtgbn.simulate.perturbed import perturb_network, random_network
from mtgbn.tasks import Tasks

Misfit = Literal[
    "none",
    "hidden_cause",
    "autocorrelated",
    "saturating",
    "heavy_tails",
    "lagged",
    "delays",
]

# Correlation of successive rows where rows are a time series.
_AUTOCORRELATION = 0.6

# Share of a variable's variance that a hidden cause explains, on average over the variables.
_HIDDEN_SHARE = 0.15

# Degrees of freedom of the residuals with heavy tails.
_TAIL_DEGREES = 3.0

# Largest delay of a variable, in rows, and rows before the first, so that delays can reach back.
_LARGEST_DELAY, _EARLIER_ROWS = 1.0, 2

# Inputs at which a saturating effect has fallen behind its tangent by a quarter, in standard deviations.
_SATURATION = 1.5


class MisfitSimulation(NamedTuple):
    """Simulated tasks that the model does not fit, and the truth behind them."""

    tasks: Tasks
    """Rows are standardised, and a time series is given its number of effective samples."""
    arrays: list[np.ndarray]
    """The rows of every task, (n_rows, p)."""
    adjacencies: np.ndarray
    """(m, p, p); ``adjacencies[t, i, j]`` means i -> j in task t."""
    coefficients: np.ndarray
    """(m, p, p), of the edges."""


def simulate_misfit(
    misfit: Misfit,
    n_tasks: int = 20,
    n_variables: int = 15,
    n_rows: int = 100,
    *,
    strength: float = 1.0,
    edges_per_variable: float = 1.2,
    variation: float = 0.15,
    level: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> MisfitSimulation:
    """Simulate related tasks that break one assumption of the model, in all tasks in the same way.

    Parameters
    ----------
    misfit : str
        ``"none"``: the rows are independent and normal, given the network. ``"hidden_cause"``: one
        variable that is not observed drives all others, as a global signal does. ``"autocorrelated"``:
        rows are a time series. ``"saturating"``: large values of a cause have smaller effects.
        ``"heavy_tails"``: residuals have a t distribution. ``"lagged"``: half of every effect arrives
        one row later. ``"delays"``: variables are observed with delays that differ between variables,
        as haemodynamic responses are. The last two are time series, too.
    n_tasks, n_variables, n_rows : int
        With the same ``random_state``, more tasks do not change the others.
    strength : float
        How large the misfit is, from 0 (none) to 2; 1 is of the size that is common in fMRI.
    edges_per_variable : float
        Number of edges of the common network, divided by the number of variables.
    variation : float
        Standard deviation, between tasks, of the logarithm of a coefficient.
    level : float
        Fraction of the edges that a task deletes or reverses; see `simulate_perturbed`.
    random_state : int or numpy.random.Generator, optional

    Examples
    --------
    >>> simulation = simulate_misfit("hidden_cause", n_tasks=3, n_variables=5, random_state=0)
    >>> simulation.tasks, int(simulation.adjacencies[0].sum())
    (Tasks(3 tasks, 5 variables, n = 99), 6)
    """
    if misfit not in get_args(Misfit):
        known = ", ".join(map(repr, get_args(Misfit)))
        raise InputError(f"misfit must be one of {known}; got {misfit!r}")
    check_count("n_tasks", n_tasks, 1)
    check_count("n_variables", n_variables, 2)
    check_count("n_rows", n_rows, 3)
    for name, value, brackets, low, high in (
        ("strength", strength, "[]", 0, 2),
        ("edges_per_variable", edges_per_variable, "[)", 0, np.inf),
        ("variation", variation, "[)", 0, np.inf),
        ("level", level, "[]", 0, 1),
    ):
        check_interval(name, value, brackets, low, high)
    for_common, for_tasks = seed_sequence(random_state).spawn(2)
    rng = np.random.default_rng(for_common)
    network = random_network(n_variables, round(edges_per_variable * n_variables), random_state=rng)
    # What the tasks' misfits have in common: loadings of the hidden cause, delays.
    common = rng.standard_normal(n_variables)
    arrays, coefficients = [], []
    for seeds in for_tasks.spawn(n_tasks):
        own = np.random.default_rng(seeds)
        changed = perturb_network(network, level, random_state=own)
        changed = changed * np.exp(own.normal(-(variation**2) / 2, variation, changed.shape))
        rows = _rows(misfit, changed, n_rows, strength, common, own)
        # The denominator is that of Tasks, so that the diagonals of the scatters are the n_i.
        arrays.append((rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1))
        coefficients.append(changed)
    is_series = misfit in ("autocorrelated", "lagged", "delays")
    tasks = Tasks.from_arrays(arrays, effective_samples="bartlett" if is_series else None)
    return MisfitSimulation(
        tasks=tasks,
        arrays=arrays,
        adjacencies=np.array(coefficients) != 0,
        coefficients=np.array(coefficients),
    )


def _rows(
    misfit: Misfit,
    coefficients: np.ndarray,
    n_rows: int,
    strength: float,
    common: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the rows of one task."""
    p = len(coefficients)
    size = (_EARLIER_ROWS + n_rows, p)
    if misfit in ("autocorrelated", "lagged", "delays"):
        correlation = _AUTOCORRELATION
        if misfit == "autocorrelated":
            correlation = _AUTOCORRELATION ** (1 / strength) if strength else 0.0
        noise = autoregression(correlation, size, rng)
    elif misfit == "heavy_tails" and strength > 0:
        degrees = 2 + (_TAIL_DEGREES - 2) / strength
        noise = rng.standard_t(degrees, size) * np.sqrt((degrees - 2) / degrees)
    else:
        noise = rng.standard_normal(size)
    if misfit == "hidden_cause":
        share = strength * _HIDDEN_SHARE / (1 - _HIDDEN_SHARE)
        # Loadings are alike in all tasks, and of one sign for the most part, as a global signal's are.
        loadings = np.sqrt(share) * (1 + 0.5 * common) / np.sqrt(1.25)
        noise = noise + rng.standard_normal((len(noise), 1)) * loadings
    rows = np.zeros(size)
    late = strength / 2 if misfit == "lagged" else 0.0
    for node in topological_order(coefficients != 0):
        effects = coefficients[:, node]
        inputs = rows
        if misfit == "saturating" and strength > 0:
            scale = _SATURATION / strength
            inputs = scale * np.tanh(rows / scale)
        arriving = inputs @ effects
        earlier = np.concatenate([arriving[:1], arriving[:-1]])
        rows[:, node] = noise[:, node] + (1 - late) * arriving + late * earlier
    if misfit == "delays":
        # Delays are the same in all tasks; between two rows, values are interpolated.
        delays = strength * _LARGEST_DELAY * (np.tanh(common) + 1) / 2
        times = np.arange(len(rows))
        rows = np.column_stack([np.interp(times - delays[k], times, rows[:, k]) for k in range(p)])
    return rows[_EARLIER_ROWS:]
