"""The methods of `mtgbn fit`, and which option sets which parameter of which estimator.

To add a method, add an entry to `METHODS`, and its new options to `OPTIONS`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from mtgbn.cli.options import Decorator, EdgePriorText, NumberOr, joined, option, refuse

__all__ = ["COMPARISON_OPTIONS", "METHODS", "OPTIONS", "estimator_options", "take_parameters"]


class Option(NamedTuple):
    """An option of the command line that sets a parameter of an estimator.

    ``settings`` are arguments of `option`, without the flag; an option with ``inference`` has a meaning
    only with this value of ``--inference``.
    """

    parameter: str
    settings: dict[str, Any]
    inference: str | None = None
    flags: str | None = None


def _sets(
    parameter: str,
    help: str,
    *,
    inference: str | None = None,
    flags: str | None = None,
    **settings: Any,
) -> Option:
    return Option(parameter, {"help": help, **settings}, inference, flags)


OPTIONS = {
    "inference": _sets(
        "inference",
        "map: the most probable graphs, by EM. posterior: the probability of every edge, by sampling "
        "graphs.",
        type=click.Choice(["map", "posterior"]),
        default="map",
    ),
    "rounds": _sets(
        "n_rounds",
        "Rounds per chain, with --inference posterior.",
        type=click.IntRange(1),
        default=1600,
        inference="posterior",
    ),
    "nu0": _sets(
        "nu0",
        "How closely tasks follow sigma_h; above p - 1. [default: auto, estimated from the data; p + 49 "
        "with other structure priors than uniform]",
        type=NumberOr("auto"),
        metavar="NUMBER|auto",
    ),
    "restarts": _sets(
        "n_restarts",
        "Restarts of the search. [default: 10 for boss, 0 for mmhc]",
        type=click.IntRange(0),
    ),
    "draws": _sets("n_draws", "Draws of sigma_h per E-step.", default=30, inference="map"),
    "max_iter": _sets("max_iter", "Largest number of EM iterations.", default=50, inference="map"),
    "tol": _sets(
        "tol",
        "EM has converged when a smaller share of the edges changes; with other structure priors than "
        "uniform, when Q gains less per task.",
        default=0.05,
        inference="map",
    ),
    "edge_prior": _sets(
        "edge_prior",
        "Density of the graphs a priori, and similarity between tasks. 'shared': both are estimated "
        "from single tasks; 'density': the density is estimated, and graphs are independent; 'sampled': both "
        "are sampled with the graphs; R: density, independent graphs; R,S: density and similarity "
        "(small: alike); or a CSV or TSV file with the probability of every pair, and the variables' "
        "names in its rows and columns. [default: shared; 1/(p - 1),4 with other structure priors than "
        "uniform and other methods than mtgbn]",
        type=EdgePriorText(),
        metavar="PRIOR",
    ),
    "shared_directions": _sets(
        "shared_directions",
        "Whether an edge has a priori the direction that it has in the other tasks.",
        flags="--shared-directions/--own-directions",
        default=True,
    ),
    "structure_prior": _sets(
        "structure_prior",
        "Prior of a graph given sigma_h; docs/model.md, section 3.",
        type=click.Choice(["uniform", "restricted", "scale_free", "decomposable"]),
        default="uniform",
    ),
    "search": _sets(
        "search",
        "boss: best order score search. mmhc: the paper's hill climbing.",
        type=click.Choice(["boss", "mmhc"]),
        default="boss",
    ),
    "tabu": _sets(
        "tabu",
        "Moves beyond a local optimum. [default: 10 for boss, 0 for mmhc]",
        type=click.IntRange(0),
    ),
    "candidates": _sets(
        "candidates",
        "Pairs that may have an edge. [default: all for boss, mmpc for mmhc]",
        type=click.Choice(["all", "mmpc", "pooled"]),
    ),
    "knowledge": _sets(
        "knowledge",
        "JSON file with prior knowledge: required and forbidden edges, tiers, max_parents.",
        type=click.Path(exists=True, dir_okay=False),
    ),
    "seed": _sets(
        "random_state",
        "The same seed gives the same result.",
        type=click.IntRange(0),
        default=1,
    ),
    "jobs": _sets("n_jobs", "Tasks searched in parallel; -1: all cores.", default=-1),
}

# Options of MTGBN in comparisons.
COMPARISON_OPTIONS = ("inference", "rounds", "nu0", "restarts", "draws", "max_iter")
_SINGLE_TASK_OPTIONS = (
    *("edge_prior", "search", "restarts", "tabu", "candidates", "knowledge", "jobs", "seed"),
)


class Method(NamedTuple):
    """A method of `mtgbn fit`: what it does, its estimator, and its options.

    The class of the estimator is imported when it is needed, so that `mtgbn --help` stays fast.
    """

    help: str
    estimator_class: Callable[[], type]
    options: tuple[str, ...]
    imputes: bool = False
    """Whether the estimator has the parameter ``missing``."""


def _learn() -> Any:
    from mtgbn import learn

    return learn


METHODS = {
    "mtgbn": Method("all tasks jointly", lambda: _learn().MTGBN, tuple(OPTIONS), imputes=True),
    "sig": Method("single tasks", lambda: _learn().SIG, _SINGLE_TASK_OPTIONS),
    "avg": Method("all tasks pooled", lambda: _learn().AVG, _SINGLE_TASK_OPTIONS),
}


def estimator_options(names: Sequence[str]) -> Decorator:
    """Return a decorator that adds options of `OPTIONS` to a command."""
    return joined(
        *(
            option(OPTIONS[name].flags or f"--{name.replace('_', '-')}", **OPTIONS[name].settings)
            for name in names
        )
    )


def take_parameters(
    context: click.Context, options: dict[str, Any], names: Sequence[str], method: str = "mtgbn"
) -> dict[str, Any]:
    """Take options out of a dict, and return the parameters of the estimator that they set.

    Options that have no meaning for the method or the kind of inference are refused.
    """
    own = METHODS[method].options
    refuse(context, [name for name in names if name not in own], f"--method {method}")
    inference = options["inference"]
    if "inference" in own:
        other = [name for name in names if OPTIONS[name].inference not in (None, inference)]
        refuse(context, other, f"--inference {inference}")
    taken = {name: options.pop(name) for name in names}
    return {OPTIONS[name].parameter: taken[name] for name in names if name in own}
