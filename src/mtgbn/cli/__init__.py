"""The command line. Imports here are light: `mtgbn --help` answers at once."""

import contextlib
import os
import sys

import click

import mtgbn

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mtgbn.__version__, prog_name="mtgbn")
def cli() -> None:
    """Gaussian Bayesian networks for many related, small datasets: one per task."""


@cli.command()
@click.option("--tasks", "n_tasks", default=15, show_default=True, type=click.IntRange(1, 10_000))
@click.option(
    "--variables", "n_variables", default=10, show_default=True, type=click.IntRange(2, 100)
)
@click.option("--rows", "n_rows", default=80, show_default=True, type=click.IntRange(2, 1_000_000))
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Same seed, same result."
)
def demo(n_tasks: int, n_variables: int, n_rows: int, seed: int) -> None:
    """Simulate related tasks, learn their networks in three ways, and compare with the truth."""
    from mtgbn.cli.demo import run_demo

    run_demo(n_tasks, n_variables, n_rows, seed)


# Options that the other methods have no use for.
_OF_MTGBN = (
    *("estimator", "rounds", "nu0", "shared_directions", "structure_prior"),
    *("draws", "tol", "max_iter"),
)


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


class _EdgePrior(click.ParamType):
    """A word, numbers or a file, as `mtgbn.cli.edge_prior` reads them."""

    name = "edge prior"

    def convert(self, value, parameter, context):
        from mtgbn.cli.edge_prior import edge_prior_from_text

        if not isinstance(value, str):
            return value
        try:
            return edge_prior_from_text(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)


def _reading_options(command):
    """Options of all commands that read data."""
    for option in (
        click.option(
            "--missing",
            type=click.Choice(["error", "em"]),
            default="error",
            show_default=True,
            help="Refuse missing values, or impute them while learning (em; tasks may then also lack "
            "whole variables).",
        ),
        click.option(
            "--effective-samples",
            type=_NumberOr("bartlett", "ar1", "none"),
            help="Independent samples that each task's rows are worth: a number, or bartlett or ar1, "
            "which estimate it for time series. [default: none, all rows]",
        ),
        click.option(
            "--standardise", is_flag=True, help="Scale every variable of every task to variance 1."
        ),
        click.option(
            "--task-column", help="Column of a long table that names the task. [default: task]"
        ),
        click.option("--pattern", help="Files to read, such as 'sub-*/func/*_timeseries.tsv'."),
    ):
        command = option(command)
    return command


def _reading(data, pattern, task_column, standardise, effective_samples, missing) -> dict:
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


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@_reading_options
def describe(data: str, **reading) -> None:
    """Check data, and say what is in them.

    DATA is a folder with one CSV or TSV file per task, a long table with a column that names the task,
    or an .npz with one array per task.
    """
    from mtgbn.cli.describe import run_describe

    run_describe(data, _reading(data, **reading))


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@click.argument("out", type=click.Path())
@_reading_options
@click.option(
    "--method",
    type=click.Choice(["mtgbn", "sig", "avg"]),
    default="mtgbn",
    show_default=True,
    help="All tasks together, each alone, or all as one.",
)
@click.option(
    "--estimator",
    type=click.Choice(["map", "posterior"]),
    default="map",
    show_default=True,
    help="The most probable graphs, by EM; or the probability of every edge, by sampling graphs.",
)
@click.option(
    "--rounds",
    default=1100,
    show_default=True,
    type=click.IntRange(1),
    help="Of sampling per chain, with --estimator posterior.",
)
@click.option(
    "--nu0",
    type=_NumberOr("auto"),
    metavar="NUMBER|auto",
    help="How closely tasks follow sigma_h; above p - 1. [default: auto, from the data; p + 49 with "
    "other structure priors than uniform]",
)
@click.option(
    "--edge-prior",
    type=_EdgePrior(),
    metavar="PRIOR",
    help="How dense the tasks' graphs are and how alike. 'shared': both estimated from the tasks by "
    "themselves; 'density': the density alone, graphs are unrelated; 'sampled': both sampled with the "
    "graphs; R: density, unrelated graphs; R,S: density and similarity (small: alike); or a CSV or TSV "
    "file with the probability of every pair, and the variables' names in its rows and columns. "
    "[default: shared; 1/(p - 1),4 with other structure priors than uniform and other methods than "
    "mtgbn]",
)
@click.option(
    "--shared-directions/--own-directions",
    default=True,
    show_default=True,
    help="Whether an edge is likely to have the direction that it has in the other tasks.",
)
@click.option(
    "--structure-prior",
    type=click.Choice(["uniform", "restricted", "scale_free", "decomposable"]),
    default="uniform",
    show_default=True,
    help="Of a graph given sigma_h; docs/model.md, section 3.",
)
@click.option(
    "--search",
    type=click.Choice(["boss", "mmhc"]),
    default="boss",
    show_default=True,
    help="Best order score search, or the paper's hill climbing.",
)
@click.option(
    "--restarts", type=click.IntRange(0), help="Of the search. [default: 10 for boss, 0 for mmhc]"
)
@click.option(
    "--tabu",
    type=click.IntRange(0),
    help="Moves to go on over a local optimum. [default: 10 for boss, 0 for mmhc]",
)
@click.option(
    "--candidates",
    type=click.Choice(["all", "mmpc", "pooled"]),
    help="Pairs that may be joined. [default: all for boss, mmpc for mmhc]",
)
@click.option(
    "--knowledge",
    type=click.Path(exists=True, dir_okay=False),
    help="JSON file with required and forbidden edges, tiers, max_parents.",
)
@click.option("--draws", default=30, show_default=True, help="Draws of sigma_h per E-step.")
@click.option(
    "--tol",
    default=0.05,
    show_default=True,
    help="Share of edges that change, below which EM ends; with other structure priors than uniform "
    "the gain in Q, per task.",
)
@click.option("--max-iter", default=50, show_default=True, help="Most EM iterations.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Same seed, same result."
)
@click.option(
    "--jobs", default=-1, show_default=True, help="Tasks searched at once; -1: all cores."
)
@click.option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster to search on.")
@click.option("--resume", is_flag=True, help="Go on with a fit that was interrupted.")
@click.option("--overwrite", is_flag=True, help="Replace what is in OUT.")
@click.option(
    "--graphs",
    type=click.Choice(["graphml", "dot"]),
    multiple=True,
    help="Also write every graph in this format; may be given twice.",
)
@click.option(
    "--draws-format",
    type=click.Choice(["npz", "netcdf", "none"]),
    default="npz",
    show_default=True,
    help="How to keep the draws of sigma_h.",
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def fit(context: click.Context, data: str, out: str, method: str, **options) -> None:
    """Learn one network per task from DATA and write the result to the folder OUT.

    DATA is a folder with one CSV or TSV file per task, a long table with a column that names the task,
    or an .npz with one array per task.

    The table edges.tsv in OUT says of every edge whether its direction is compelled by the data, known
    (prior knowledge excludes the other one), or chosen: reversible, and pointing as agrees best with the
    other tasks. With --estimator posterior it has the edges' probabilities too, and probabilities.tsv
    has those of all pairs.

    Exit codes: 0 done, 1 bad data or settings, 2 bad usage, 3 result written but EM did not converge,
    130 interrupted (go on with --resume).
    """
    from mtgbn.cli.fit import run_fit

    reading = {
        name: options.pop(name)
        for name in ("pattern", "task_column", "standardise", "effective_samples", "missing")
    }
    settings = {
        "edge_prior": options.pop("edge_prior"),
        "search": options.pop("search"),
        "n_restarts": options.pop("restarts"),
        "tabu": options.pop("tabu"),
        "candidates": options.pop("candidates"),
        "n_jobs": options.pop("jobs"),
        "random_state": options.pop("seed"),
    }
    of_mtgbn = {
        "estimator": options.pop("estimator"),
        "nu0": options.pop("nu0"),
        "shared_directions": options.pop("shared_directions"),
        "structure_prior": options.pop("structure_prior"),
        "missing": reading["missing"],
        "n_draws": options.pop("draws"),
        "n_rounds": options.pop("rounds"),
        "tol": options.pop("tol"),
        "max_iter": options.pop("max_iter"),
    }
    if method == "mtgbn":
        settings |= of_mtgbn
        of_em = ("draws", "tol", "max_iter")
        pointless = ("rounds",) if of_mtgbn["estimator"] == "map" else of_em
        _refuse(context, pointless, f"--estimator {of_mtgbn['estimator']}")
    else:
        _refuse(context, _OF_MTGBN, f"--method {method}")
        if reading["missing"] == "em":
            raise click.UsageError(
                f"--missing em is for --method mtgbn; {method} needs complete data"
            )
    writing = {
        "graph_formats": options.pop("graphs"),
        "draws_format": options.pop("draws_format"),
    }
    try:
        code = run_fit(
            data, out, method, _reading(data, **reading), settings, writing=writing, **options
        )
    except KeyboardInterrupt:
        hint = "; go on with --resume" if method == "mtgbn" else ""
        click.echo(f"mtgbn: interrupted{hint}", err=True)
        sys.exit(130)
    sys.exit(code)


def _refuse(context: click.Context, names: tuple[str, ...], with_what: str) -> None:
    """Options that would be ignored are better refused."""
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no meaning with {with_what}")


@cli.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--edges",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    help="How many of the most common edges.",
)
def show(folder: str, edges: int) -> None:
    """Print a summary of the result in FOLDER.

    Per task: its degrees of freedom n, its edges, and how many of them have a direction that was chosen
    (they are reversible: the data allow either). For mtgbn also the probability that the task belongs
    to the others, and what they help to predict it: the log density of its data given all other tasks
    minus that on its own, per row; below 0 they do not help.
    """
    from mtgbn.cli.fit import run_show

    run_show(folder, edges)


_EXPERIMENTS = ("sample-size", "task-number", "density", "perturbation")


@cli.command()
@click.argument("experiment", type=click.Choice(_EXPERIMENTS), metavar="EXPERIMENT")
@click.argument("out", type=click.Path())
@click.option(
    "--full/--quick",
    default=True,
    show_default=True,
    help="The paper's settings, hours of work; or a part of them, about a minute.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    help="Simulated problems per setting; more can be added later. [default: 10, 1 or 2 with --quick]",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="Only this one, in all settings; may be given several times. Left out: SIG, AVG, MTGBN-paper "
    "and MTGBN, and all where nu0 is 60 in sample-size. There are SIG, AVG, MTGBN, MTGBN-posterior, "
    "MTGBN-paper (the paper's configuration), and two steps from that to MTGBN: MTGBN-corrected, "
    "MTGBN-unshared.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only settings with this value, such as n_rows=250; may be given several times. Several values "
    "of one key are alternatives.",
)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Same seed, same rows."
)
@click.option(
    "--jobs",
    default=-1,
    show_default=True,
    type=click.IntRange(-1),
    help="Processes; -1: all cores.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster to compute on.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def reproduce(experiment: str, out: str, full: bool, **options) -> None:
    """Run one of the paper's simulations and write rows, tables and a figure to the folder OUT.

    EXPERIMENT is sample-size (Figure 3), task-number (Figure 4), density (Figure 5) or perturbation
    (Table 2). Every cell, one method on one simulated problem, is kept in OUT/cells.sqlite as soon as it
    is done: a run that was interrupted or killed goes on with the same command, and a run with more
    repetitions, other methods or other settings (--only) adds them. Tables (table.md, table.csv),
    rows.csv, figure.svg and .png, times.csv and run.json always show all cells that are there. If OUT
    has a rows.csv but no cells yet, its rows are taken over.

    Keys for --only: nu0, n_tasks, n_rows and density; of perturbation n_rows, relative_to (pairs,
    edges), network (ecoli70, magic-niab, magic-irri) and level.

    Exit codes: 0 done, 1 bad settings or cells that failed, 2 bad usage, 130 interrupted.
    """
    if options["jobs"] == 0:
        raise click.UsageError("--jobs must be -1 or at least 1")
    try:
        from mtgbn.cli.reproduce import run_reproduce

        code = run_reproduce(experiment, out, quick=not full, **options)
    except KeyboardInterrupt:
        click.echo("mtgbn: interrupted; the same command goes on", err=True)
        sys.exit(130)
    sys.exit(code)


@cli.command()
@click.argument("images", type=click.Path(exists=True))
@click.argument("out", type=click.Path())
@click.option(
    "--regions",
    default="all",
    show_default=True,
    metavar="aDMN|dDMN|vDMN|all|FILE",
    help="The paper's default-mode templates, or a TSV or CSV file with the columns name, x, y, z (MNI "
    "mm).",
)
@click.option(
    "--atlas",
    type=click.Path(exists=True, dir_okay=False),
    help="Image with one whole number per region, instead of --regions.",
)
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False),
    help="TSV or CSV file with the columns index and name, for --atlas; only the regions that it lists "
    "are used.",
)
@click.option(
    "--radius", default=6.0, show_default=True, help="Of the spheres around points, in mm."
)
@click.option("--tr", type=float, help="Seconds between volumes. [default: sidecar, or header]")
@click.option(
    "--drop",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Volumes to drop at the beginning of every run.",
)
@click.option(
    "--confounds",
    default="friston24",
    show_default=True,
    metavar="STRATEGY|COLUMNS|none",
    help="To regress out: friston24 (24 motion parameters, white matter, CSF), friston24-global (and "
    "the global signal) or motion6 (6 motion parameters, white matter, CSF) of fMRIPrep's table; "
    "columns of that table, or of a NAME_confounds.tsv beside NAME.nii.gz, with commas; or none.",
)
@click.option(
    "--scrub",
    type=float,
    metavar="MM",
    help="Leave out volumes with more framewise displacement than this, or too large DVARS, and "
    "segments of less than 5 volumes between them.",
)
@click.option(
    "--scrub-dvars",
    default=1.5,
    show_default=True,
    help="Largest standardised DVARS, with --scrub.",
)
@click.option(
    "--band",
    nargs=2,
    type=float,
    default=(0.01, 0.08),
    show_default=True,
    metavar="LOW HIGH",
    help="Band-pass in Hz; 0 and inf: no limit.",
)
@click.option("--smooth", type=float, metavar="MM", help="Smooth images first, FWHM.")
@click.option(
    "--min-coverage",
    default=0.5,
    show_default=True,
    help="Share of a region's voxels that must have a signal.",
)
@click.option("--space", help="Of fMRIPrep's images, if there are several MNI spaces.")
@click.option("--task", help="Of fMRIPrep's images, if there are several.")
@click.option("--session", help="Only images of this session.")
@click.option(
    "--pattern", help="Which images of the folder instead of fMRIPrep's, such as '*/rest.nii.gz'."
)
@click.option(
    "--runs",
    type=click.Choice(["concatenate", "separate", "first"]),
    default="concatenate",
    show_default=True,
    help="Several images of a subject: joined, each cleaned by itself; a task each; or the first only.",
)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(-1),
    help="Processes, each with an image in memory; -1: all cores.",
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def extract(context: click.Context, images: str, out: str, **options) -> None:
    """Extract cleaned regional series from preprocessed IMAGES, for `mtgbn fit OUT`.

    IMAGES is the folder of fMRIPrep's derivatives, a folder with --pattern, one 4-D image, or a .txt
    file with one image per line. Images must be preprocessed and in MNI space: slice timing, realignment
    and registration are the job of fMRIPrep or SPM.

    Every subject's table is written to OUT as soon as it is done, with a .json that says how it was
    made; the same command goes on where it was interrupted. Subjects that cannot be used are listed with
    the reason in OUT/excluded.tsv; the others are kept.

    Exit codes: 0 done, 1 bad settings or subjects excluded, 2 bad usage, 130 interrupted.
    """
    from mtgbn.cli.extract import run_extract

    if options["jobs"] == 0:
        raise click.UsageError("--jobs must be -1 or at least 1")
    if options["labels"] and not options["atlas"]:
        raise click.UsageError("--labels is for --atlas")
    if options["atlas"]:
        _refuse(context, ("regions", "radius"), "--atlas")
    if options["scrub"] is None:
        _refuse(context, ("scrub_dvars",), "no --scrub")
    choice = {name: options.pop(name) for name in ("space", "task", "session")}
    if not os.path.isdir(images):
        _refuse(context, ("space", "task", "session", "pattern"), "a file")
    elif options["pattern"]:
        _refuse(context, tuple(choice), "--pattern")
    try:
        code = run_extract(images, out, choice=choice, **options)
    except KeyboardInterrupt:
        click.echo("mtgbn: interrupted; the same command goes on", err=True)
        sys.exit(130)
    sys.exit(code)


def main() -> None:
    """Run the command line; errors of ours end it with a message, not with a traceback."""
    from mtgbn.errors import GraphError, ImproperPosteriorError, InputError

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; libraries write to it all the same
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        cli()
    except (InputError, GraphError, ImproperPosteriorError) as error:
        _end(str(error))
    except MemoryError:
        _end("not enough memory for so much data")
    except OSError as error:
        # What is still waiting to be written would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _end(f"cannot read or write: {error}")


def _end(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens
        click.echo(f"mtgbn: {message}", err=True)
    sys.exit(1)
