"""Options that several commands share, and what is made of them."""

import os

import click

__all__ = [
    "EdgePriorText",
    "check_extraction",
    "comparison_options",
    "extraction_options",
    "learning_of",
    "learning_options",
    "reading_of",
    "reading_options",
    "refuse",
    "report_option",
    "seed_option",
]


class _NumberOr(click.ParamType):
    """A number, or one of some words."""

    name = "number"

    def __init__(self, *words: str) -> None:
        self.words = words

    def convert(self, value, parameter, context):
        if isinstance(value, float) or value in self.words:
            return value
        try:
            return float(value)
        except ValueError:
            words = " nor ".join(map(repr, self.words))
            self.fail(f"{value!r} is neither a number nor {words}", parameter, context)


class EdgePriorText(click.ParamType):
    """A word, numbers or a file, as `mtgbn.cli.edge_prior` reads them."""

    name = "edge prior"

    def convert(self, value, parameter, context):
        """What the text says."""
        from mtgbn.cli.edge_prior import edge_prior_from_text

        if not isinstance(value, str):
            return value
        try:
            return edge_prior_from_text(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)


def _together(*options):
    """Several options as one decorator, in this order in the help."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def reading_options(effective_samples: str | None = None, *, of_files: bool = True):
    """Options of all commands that read data; with the default of --effective-samples."""
    default = (
        "[default: none, all rows]"
        if effective_samples is None
        else f"[default: {effective_samples}; give none if rows are no time series]"
    )
    files = (
        click.option("--pattern", help="Files to read, such as 'sub-*/func/*_timeseries.tsv'."),
        click.option(
            "--task-column", help="Column of a long table that names the task. [default: task]"
        ),
    )
    return _together(
        *(files if of_files else ()),
        click.option(
            "--standardise", is_flag=True, help="Scale every variable of every task to variance 1."
        ),
        click.option(
            "--effective-samples",
            type=_NumberOr("bartlett", "ar1", "none"),
            default=effective_samples,
            help="Independent samples that each task's rows are worth: a number, or bartlett or ar1, "
            f"which estimate it for time series. {default}",
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "em"]),
            default="error",
            show_default=True,
            help="Refuse missing values, or impute them while learning (em; tasks may then also lack "
            "whole variables).",
        ),
    )


def reading_of(data, pattern, task_column, standardise, effective_samples, missing) -> dict:
    """Keyword options of `Tasks.from_any` that the command line asks for."""
    options = {
        "standardise": standardise,
        "effective_samples": effective_samples,
        "missing": missing,
    }
    if pattern is not None:
        if not os.path.isdir(data):
            raise click.UsageError("--pattern is for a folder")
        options["pattern"] = pattern
    if task_column is not None:
        if os.path.isdir(data):
            raise click.UsageError("--task-column is for a long table, not for a folder")
        options["task"] = task_column
    return options


seed_option = click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Same seed, same result."
)

report_option = click.option(
    "--report/--no-report",
    default=True,
    show_default=True,
    help="Also write OUT/report.html, a page that shows the result.",
)

learning_options = _together(
    click.option(
        "--inference",
        type=click.Choice(["map", "posterior"]),
        default="map",
        show_default=True,
        help="The most probable graphs, by EM; or the probability of every edge, by sampling graphs.",
    ),
    click.option(
        "--rounds",
        default=1600,
        show_default=True,
        type=click.IntRange(1),
        help="Of sampling per chain, with --inference posterior.",
    ),
    click.option(
        "--nu0",
        type=_NumberOr("auto"),
        metavar="NUMBER|auto",
        help="How closely tasks follow sigma_h; above p - 1. [default: auto, from the data; p + 49 with "
        "other structure priors than uniform]",
    ),
    click.option(
        "--restarts",
        type=click.IntRange(0),
        help="Of the search. [default: 10 for boss, 0 for mmhc]",
    ),
    click.option("--draws", default=30, show_default=True, help="Draws of sigma_h per E-step."),
    click.option("--max-iter", default=50, show_default=True, help="Most EM iterations."),
)

comparison_options = _together(
    click.option(
        "--column",
        help="Of the groups in the table of participants. [default: group, diagnosis, dx or the like]",
    ),
    click.option(
        "--groups",
        nargs=2,
        metavar="A B",
        help="Labels of the groups to compare, in this order; differences are A minus B. [default: the "
        "two that there are; controls, where they are called so, are B]",
    ),
    click.option(
        "--templates",
        metavar="FILE|all",
        help="TSV or CSV file with the columns name and template, such as that of the regions: every "
        "template is compared by itself; all: one network of everything. [default: the paper's, if all "
        "variables are its regions; else all]",
    ),
    click.option(
        "--fitting",
        type=click.Choice(["separate", "together"]),
        default="separate",
        show_default=True,
        help="Subjects of each group are learned together; or those of both as one cohort, which hides "
        "differences rather than making them.",
    ),
    click.option(
        "--permutations",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Relabellings of the subjects, each fitted anew (--fitting together: without new fits). "
        "They are kept as they are done, and more can be added later.",
    ),
    click.option(
        "--methods",
        default="mtgbn",
        show_default=True,
        metavar="LIST",
        help="Methods to put beside each other at the same density, with commas: mtgbn, sig (every "
        "subject alone), gc (conditional Granger causality), rdcm (regression DCM at rest).",
    ),
    click.option(
        "--density",
        type=click.IntRange(1),
        metavar="EDGES",
        help="Edges per subject that all methods are brought to, for methods.tsv. [default: as many as "
        "mtgbn finds in the subject]",
    ),
)

extraction_options = _together(
    click.option(
        "--regions",
        default="all",
        show_default=True,
        metavar="aDMN|dDMN|vDMN|all|FILE",
        help="The paper's default-mode templates, or a TSV or CSV file with the columns name, x, y, z "
        "(MNI mm).",
    ),
    click.option(
        "--atlas",
        type=click.Path(exists=True, dir_okay=False),
        help="Image with one whole number per region, instead of --regions.",
    ),
    click.option(
        "--labels",
        type=click.Path(exists=True, dir_okay=False),
        help="TSV or CSV file with the columns index and name, for --atlas; only the regions that it "
        "lists are used.",
    ),
    click.option(
        "--radius", default=6.0, show_default=True, help="Of the spheres around points, in mm."
    ),
    click.option("--tr", type=float, help="Seconds between volumes. [default: sidecar, or header]"),
    click.option(
        "--drop",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Volumes to drop at the beginning of every run.",
    ),
    click.option(
        "--confounds",
        default="friston24",
        show_default=True,
        metavar="STRATEGY|COLUMNS|none",
        help="To regress out: friston24 (24 motion parameters, white matter, CSF), friston24-global "
        "(and the global signal) or motion6 (6 motion parameters, white matter, CSF) of fMRIPrep's "
        "table; columns of that table, or of a NAME_confounds.tsv beside NAME.nii.gz, with commas; or "
        "none.",
    ),
    click.option(
        "--scrub",
        type=float,
        metavar="MM",
        help="Leave out volumes with more framewise displacement than this, or too large DVARS, and "
        "segments of less than 5 volumes between them.",
    ),
    click.option(
        "--scrub-dvars",
        default=1.5,
        show_default=True,
        help="Largest standardised DVARS, with --scrub.",
    ),
    click.option(
        "--band",
        nargs=2,
        type=float,
        default=(0.01, 0.08),
        show_default=True,
        metavar="LOW HIGH",
        help="Band-pass in Hz; 0 and inf: no limit.",
    ),
    click.option("--smooth", type=float, metavar="MM", help="Smooth images first, FWHM."),
    click.option(
        "--min-coverage",
        default=0.5,
        show_default=True,
        help="Share of a region's voxels that must have a signal.",
    ),
    click.option("--space", help="Of fMRIPrep's images, if there are several MNI spaces."),
    click.option(
        "--runs",
        type=click.Choice(["concatenate", "separate", "first"]),
        default="concatenate",
        show_default=True,
        help="Several images of a subject: joined, each cleaned by itself; a task each; or the first "
        "only.",
    ),
)


def refuse(context: click.Context, names: tuple[str, ...], with_what: str) -> None:
    """Options that would be ignored are better refused."""
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no meaning with {with_what}")


def check_extraction(context: click.Context, options: dict) -> None:
    """Refuse options of an extraction that make no sense together."""
    if options["labels"] and not options["atlas"]:
        raise click.UsageError("--labels is for --atlas")
    if options["atlas"]:
        refuse(context, ("regions", "radius"), "--atlas")
    if options["scrub"] is None:
        refuse(context, ("scrub_dvars",), "no --scrub")


def learning_of(context: click.Context, options: dict) -> dict:
    """Settings of MTGBN that the command line asks for; they are taken out of the options."""
    inference = options.pop("inference")
    pointless = ("rounds",) if inference == "map" else ("draws", "max_iter")
    refuse(context, pointless, f"--inference {inference}")
    names = {"rounds": "n_rounds", "restarts": "n_restarts", "draws": "n_draws"}
    rest = ("rounds", "nu0", "restarts", "draws", "max_iter")
    return {"inference": inference} | {names.get(name, name): options.pop(name) for name in rest}
