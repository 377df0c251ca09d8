"""Options that several commands share, and how they are read."""

import errno
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _OutFolder(click.Path):
    """The name of a folder; neither empty nor the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip() or os.path.normpath(value) == os.curdir:
            self.fail("OUT must be a folder of its own", param, ctx)
        return super().convert(value, param, ctx)


OUT_FOLDER = _OutFolder()


class NumberOr(click.ParamType):
    """A number, or one of the given words."""

    name = "number"

    def __init__(self, *words: str) -> None:
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a float or a word."""
        if isinstance(value, float) or value in self.words:
            return value
        try:
            return float(value)
        except ValueError:
            words = " nor ".join(map(repr, self.words))
            self.fail(f"{value!r} is neither a number nor {words}", param, ctx)


def option(*flags: str, **settings: Any) -> Decorator:
    """Return `click.option`; the help shows the default."""
    return click.option(*flags, **{"show_default": "default" in settings, **settings})


def joined(*options: Decorator) -> Decorator:
    """Join several options to one decorator; the help shows them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def reading_options(effective_samples: str | None = None, *, of_files: bool = True) -> Decorator:
    """Return the options of commands that read data, with a default of --effective-samples."""
    default = (
        "[default: none, all rows]"
        if effective_samples is None
        else f"[default: {effective_samples}; give none if rows are no time series]"
    )
    files = (
        option("--pattern", help="Files to read, such as 'sub-*/func/*_timeseries.tsv'."),
        option("--task-column", help="Column of a long table that names the task. [default: task]"),
    )
    return joined(
        *(files if of_files else ()),
        option(
            "--standardise", is_flag=True, help="Scale every variable of every task to variance 1."
        ),
        option(
            "--effective-samples",
            type=NumberOr("bartlett", "ar1", "none"),
            default=effective_samples,
            help="Effective sample size of each task: a number, or bartlett or ar1, which estimate it "
            f"for time series. {default}",
        ),
        option(
            "--missing",
            type=click.Choice(["error", "em"]),
            default="error",
            help="error: refuse missing values. em: impute them while learning; tasks may then also "
            "lack whole variables.",
        ),
    )


def split(text: str) -> list[str]:
    """Return the names in a text that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def take_reading(data: str, options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of reading out of a dict, as keyword arguments of `Tasks.from_any`."""
    pattern, task_column = options.pop("pattern", None), options.pop("task_column", None)
    reading = {name: options.pop(name) for name in ("standardise", "effective_samples", "missing")}
    if pattern is not None:
        if not os.path.isdir(data):
            raise click.UsageError("--pattern is for a folder, not for a file")
        reading["pattern"] = pattern
    if task_column is not None:
        if os.path.isdir(data):
            raise click.UsageError("--task-column is for a long table, not for a folder")
        reading["task"] = task_column
    return reading


def jobs_option(text: str, default: int = -1) -> Decorator:
    """Return the option --jobs, which refuses 0."""

    def check(context: click.Context, parameter: click.Parameter, jobs: int) -> int:
        if jobs < -1 or jobs == 0:
            raise click.UsageError("--jobs must be -1 or at least 1")
        return jobs

    return option("--jobs", "n_jobs", default=default, callback=check, help=text)


def finish(work: Callable[[], int], how_to_go_on: str = "the same command goes on") -> NoReturn:
    """End with the exit code of a command that can resume after an interruption or on a full disk."""
    try:
        sys.exit(work())
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.echo(f"mtgbn: the disk is full ({error}); make room, and {how_to_go_on}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo(f"mtgbn: interrupted; {how_to_go_on}", err=True)
        sys.exit(130)


quiet_option = option("--quiet", is_flag=True, help="Print errors only.")
overwrite_option = option("--overwrite", is_flag=True, help="Replace another comparison in OUT.")
report_option = option(
    "--report/--no-report",
    default=True,
    help="Also write report.html, a page that shows the result.",
)

_selection_options = joined(
    option(
        "--column",
        help="Column of the groups in the table of participants. [default: group, diagnosis, dx or "
        "similar]",
    ),
    option(
        "--groups",
        nargs=2,
        metavar="A B",
        help="Only subjects of the groups with these two labels. With --paper differences are A minus "
        "B. [default: all groups; with --paper the two labels of the table, a usual label of controls "
        "is B]",
    ),
    option(
        "--templates",
        metavar="FILE|all",
        help="TSV or CSV file with the columns name and template, such as the table of the regions: "
        "every template is compared as one network. If it has x, y and z (MNI mm), too, effects are "
        "also shown in the brain. all: one network of all variables. [default: the paper's templates, "
        "if all variables are its regions; else all]",
    ),
)

_design_options = joined(
    option(
        "--formula",
        help="Columns of the table that may influence connections, such as 'group + age + sex'; : and * "
        "for interactions, C(site) for numbers that are categories. The category of controls, or else "
        "the first one, is the reference. With --subject: covariates, whose effects are estimated in "
        "the controls and removed. [default: the column of the groups; with --subject none]",
    ),
    option(
        "--test",
        metavar="TERM",
        help="Term of the formula that is tested; the others are held constant. [default: the first]",
    ),
    option(
        "--contrast",
        help="Instead of --test: a combination of columns of the design, such as "
        "'group[T.mild] - group[T.severe]'.",
    ),
    option(
        "--blocks",
        metavar="COLUMN",
        help="Subjects are exchanged only with those that have the same value in this column, such as a "
        "site, and the column is held constant.",
    ),
    option(
        "--sets",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="TSV or CSV file with the columns name and template, as for --templates: in each network, "
        "all connections within such a set, and those between two sets, are also tested as a whole.",
    ),
    option(
        *("--permutations", "n_permutations"),
        default=10_000,
        type=click.IntRange(1),
        help="Random orders of the subjects; they cost seconds.",
    ),
    option(
        "--probabilities",
        is_flag=True,
        help="Of two groups, also: how probable it is that a connection is more frequent in one of "
        "them. It takes a second fit, which knows the groups and samples graphs (--rounds).",
    ),
)

_paper_options = joined(
    option(
        "--paper",
        is_flag=True,
        help="Compare two groups in the paper's way: each group is fitted separately, and counts of "
        "edges are tested. It is not the default, because subjects that are learned jointly copy each "
        "other, so that it calls many differences where there are none.",
    ),
    option(
        *("--relabellings", "n_relabellings"),
        default=0,
        type=click.IntRange(0),
        help="With --paper: relabellings of the permutation test, each fitted anew (--fitting together: "
        "without new fits). Finished relabellings are kept, and more can be added later.",
    ),
    option(
        "--fitting",
        type=click.Choice(["separate", "together"]),
        default="separate",
        help="With --paper: separate, one fit per group; together, one fit of all subjects, which hides "
        "differences rather than making them.",
    ),
    option(
        "--methods",
        default="mtgbn",
        callback=lambda context, parameter, text: split(text),
        metavar="LIST",
        help="With --paper: methods to compare at the same number of edges, separated by commas: mtgbn, "
        "sig (single tasks), gc (conditional Granger causality), rdcm (regression DCM at rest).",
    ),
    option(
        *("--density", "n_edges"),
        type=click.IntRange(1),
        metavar="EDGES",
        help="With --paper: edges per subject of all methods, for methods.tsv. [default: as many as "
        "mtgbn finds in the subject]",
    ),
)

# Options by the way of comparing that they belong to.
DESIGN_SETTINGS = (
    "formula",
    "test",
    "contrast",
    "blocks",
    "sets",
    "n_permutations",
    "probabilities",
)
PAPER_SETTINGS = ("n_relabellings", "fitting", "methods", "n_edges")
comparison_options = joined(_selection_options, _design_options, _paper_options)

extraction_options = joined(
    option(
        "--regions",
        default="all",
        metavar="aDMN|dDMN|vDMN|all|FILE",
        help="The paper's default-mode templates, or a TSV or CSV file with the columns name, x, y, z "
        "(MNI mm).",
    ),
    option(
        "--atlas",
        type=click.Path(exists=True, dir_okay=False),
        help="Image with one whole number per region, instead of --regions.",
    ),
    option(
        "--labels",
        type=click.Path(exists=True, dir_okay=False),
        help="TSV or CSV file with the columns index and name, for --atlas; only the regions that it "
        "lists are used.",
    ),
    option("--radius", default=6.0, help="Radius of the spheres around points, in mm."),
    option("--tr", type=float, help="Seconds between volumes. [default: sidecar, or header]"),
    option(
        "--drop",
        default=0,
        type=click.IntRange(0),
        help="Volumes to drop at the beginning of every run.",
    ),
    option(
        "--confounds",
        default="friston24",
        metavar="STRATEGY|COLUMNS|none",
        help="Confounds to regress out: friston24 (24 motion parameters, white matter, CSF), "
        "friston24-global (and the global signal) or motion6 (6 motion parameters, white matter, CSF) "
        "of fMRIPrep's table; columns of that table or of a NAME_confounds.tsv beside NAME.nii.gz, "
        "separated by commas; or none.",
    ),
    option(
        "--scrub",
        type=float,
        metavar="MM",
        help="Leave out volumes with more framewise displacement than this, or with DVARS above "
        "--scrub-dvars, and segments of less than 5 volumes between them.",
    ),
    option("--scrub-dvars", default=1.5, help="Largest standardised DVARS, with --scrub."),
    option(
        "--band",
        nargs=2,
        type=float,
        default=(0.01, 0.08),
        metavar="LOW HIGH",
        help="Band-pass in Hz; 0 and inf: no limit.",
    ),
    option(
        "--smooth",
        type=float,
        metavar="MM",
        help="Smooth images first, with this full width at half maximum.",
    ),
    option(
        "--min-coverage", default=0.5, help="Smallest share of a region's voxels with a signal."
    ),
    option("--space", help="Space of fMRIPrep's images, if there are several MNI spaces."),
    option(
        "--runs",
        type=click.Choice(["concatenate", "separate", "first"]),
        default="concatenate",
        help="Several images of a subject are cleaned one by one and joined; are separate tasks; or "
        "only the first is used.",
    ),
)


def refuse(
    context: click.Context, names: Iterable[str], with_what: str, *, belongs_to: str = ""
) -> None:
    """Refuse options on the command line that would be ignored."""
    given = click.core.ParameterSource.COMMANDLINE
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is given:
            hint = f"; it belongs to {belongs_to}" if belongs_to else ""
            raise click.UsageError(f"{options[name]} has no meaning with {with_what}{hint}")
