"""The methods of `mtgbn fit`, and the options that set the parameters of their estimators.

To add a method, add an entry to `METHODS`, and options for its new parameters to `OPTIONS`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

import mtgbn
from mtgbn.cli.edge_prior import EdgePriorText
from mtgbn.cli.options import Decorator, NumberOr, joined, option, refuse

# The option of every parameter of the estimators.
OPTIONS = {
    "inference": option(
        "--inference",
        type=click.Choice(["map", "posterior"]),
        default="map",
        help="map: the most probable graphs, by EM. posterior: the probability of every edge, by "
        "sampling graphs.",
    ),
    "n_rounds": option(
        *("--rounds", "n_rounds"),
        type=click.IntRange(1),
        default=1600,
        help="Rounds per chain, with --inference posterior.",
    ),
    "nu0": option(
        "--nu0",
        type=NumberOr("auto"),
        metavar="NUMBER|auto",
        help="How closely tasks follow sigma_h; above p - 1. [default: auto, sampled with the "
        "graphs]",
    ),
    "n_restarts": option(
        *("--restarts", "n_restarts"),
        type=click.IntRange(0),
        help="Restarts of the search. [default: 10]",
    ),
    "n_draws": option("--draws", "n_draws", default=30, help="Draws of sigma_h per E-step."),
    "max_iter": option("--max-iter", default=50, help="Largest number of EM iterations."),
    "tol": option(
        "--tol",
        default=0.05,
        help="EM has converged when at most this share of the edges changes; after the third "
        "iteration, three times this share.",
    ),
    "edge_prior": option(
        "--edge-prior",
        type=EdgePriorText(),
        metavar="PRIOR",
        help="Which edges are expected a priori. 'shared': pairs are absent, common to the tasks, or "
        "varying, and the shares of the three kinds are sampled with the graphs; 'density': the "
        "density is estimated, and graphs are independent; R: density, independent graphs; R,S: density "
        "and similarity (small: alike); or a CSV or TSV file with the probability of every pair, and "
        "the variables' names in its rows and columns. [default: shared]",
    ),
    "min_strength": option(
        "--min-strength",
        type=NumberOr("auto"),
        default="auto",
        metavar="NUMBER|auto",
        help="The weakest partial correlation that is worth an edge; weaker connections are normally "
        "left out. auto: on average over its tasks, an edge must make a task's own data twice as "
        "likely, and be stronger than errors that all tasks share, such as a common signal. A number "
        "replaces both rules. 0: no limit, and with many tasks even errors of the model become edges.",
    ),
    "shared_directions": option(
        "--shared-directions/--own-directions",
        default=True,
        help="Whether an edge has a priori the direction that it has in the other tasks.",
    ),
    "structure_prior": option(
        "--structure-prior",
        type=click.Choice(["restricted", "scale_free", "decomposable"]),
        help="Only for paper: prior of a graph given sigma_h; docs/model.md, section 3. [default: "
        "restricted]",
    ),
    "search": option(
        "--search",
        type=click.Choice(["boss", "mmhc"]),
        help="Not for mtgbn. boss: best order score search. mmhc: the paper's hill climbing. "
        "[default: boss; mmhc for paper]",
    ),
    "tabu": option(
        "--tabu",
        type=click.IntRange(0),
        help="Moves beyond a local optimum. [default: 10]",
    ),
    "candidates": option(
        "--candidates",
        type=click.Choice(["all", "mmpc", "pooled"]),
        help="Not for mtgbn. Pairs that may have an edge. [default: all; mmpc with --search mmhc]",
    ),
    "knowledge": option(
        "--knowledge",
        type=click.Path(exists=True, dir_okay=False),
        help="JSON file with prior knowledge: required and forbidden edges, tiers, max_parents.",
    ),
    "random_state": option(
        *("--seed", "random_state"),
        type=click.IntRange(0),
        default=1,
        help="The same seed gives the same result.",
    ),
    "n_jobs": option(
        "--jobs", "n_jobs", default=-1, help="Tasks searched in parallel; -1: all cores."
    ),
}
# Parameters that one kind of inference does not use.
_UNUSED = {"map": ("n_rounds",), "posterior": ("n_draws", "max_iter", "tol")}
# Parameters of MTGBN that comparisons set.
COMPARISON_PARAMETERS = (
    *("inference", "n_rounds", "nu0", "min_strength", "n_restarts", "n_draws", "max_iter"),
)
_MTGBN_PARAMETERS = tuple(
    name for name in OPTIONS if name not in ("structure_prior", "search", "candidates")
)
_SINGLE_TASK_PARAMETERS = (
    *("edge_prior", "min_strength", "search", "n_restarts", "tabu", "candidates", "knowledge"),
    *("n_jobs", "random_state"),
)
_PAPER_PARAMETERS = (
    *("structure_prior", "nu0", "n_draws", "max_iter", "tol"),
    *(name for name in _SINGLE_TASK_PARAMETERS if name != "min_strength"),
)


class Method(NamedTuple):
    """A method of `mtgbn fit`."""

    help: str
    estimator_class: Callable[[], type]  # loaded when it is needed: `mtgbn --help` stays fast
    parameters: tuple[str, ...]
    imputes: bool = False  # whether the estimator has the parameter missing


METHODS = {
    "mtgbn": Method("all tasks jointly", lambda: mtgbn.MTGBN, _MTGBN_PARAMETERS, imputes=True),
    "sig": Method("single tasks", lambda: mtgbn.SIG, _SINGLE_TASK_PARAMETERS),
    "avg": Method("all tasks pooled", lambda: mtgbn.AVG, _SINGLE_TASK_PARAMETERS),
    "paper": Method(
        "all tasks by the paper's method", lambda: mtgbn.paper.PaperMTGBN, _PAPER_PARAMETERS
    ),
}


def estimator_options(parameters: Sequence[str]) -> Decorator:
    """Return a decorator that adds the options of these parameters to a command."""
    return joined(*(OPTIONS[name] for name in parameters))


def take_parameters(
    context: click.Context,
    options: dict[str, Any],
    parameters: Sequence[str],
    method: str = "mtgbn",
    *,
    has_second_fit: bool = False,
) -> dict[str, Any]:
    """Take parameters of an estimator out of the options of a command.

    Options without a meaning for the method or the kind of inference are refused. Parameters whose
    options were not given keep the estimator's defaults. A second fit samples graphs.
    """
    own = METHODS[method].parameters
    refuse(context, [name for name in parameters if name not in own], f"--method {method}")
    inference = options["inference"]
    if "inference" in own:
        unused = () if has_second_fit and inference == "map" else _UNUSED[inference]
        refuse(context, unused, f"--inference {inference}")
    taken = {name: options.pop(name) for name in parameters}
    return {name: taken[name] for name in parameters if name in own and taken[name] is not None}
