"""The command line. Imports here are light: `mtgbn --help` answers at once."""

import contextlib
import os
import sys

import click

import mtgbn
from mtgbn.cli.options import (
    EdgePriorText,
    learning_options,
    reading_of,
    reading_options,
    refuse,
    report_option,
    seed_option,
)
from mtgbn.cli.studies import bids, compare, extract

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mtgbn.__version__, prog_name="mtgbn")
def cli() -> None:
    """Gaussian Bayesian networks for many related, small datasets: one per task."""


@cli.command()
@click.argument("out", type=click.Path(), default="mtgbn-demo")
@click.option(
    "--subjects",
    default=15,
    show_default=True,
    type=click.IntRange(2, 1000),
    help="Per group.",
)
@seed_option
@click.option(
    "--open/--no-open", "open_it", default=True, help="Open the report, if there is a screen."
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
def demo(out: str, subjects: int, seed: int, open_it: bool, quiet: bool) -> None:
    """Simulate patients and controls, compare their networks, and show the report.

    It is the paper's study in small: resting-state series of 11 default-mode regions, 230 volumes 2.5 s
    apart, of two groups of 15 in which three connections differ. OUT gets the series, the table of
    participants, and the comparison with its report, which says what was truly altered.
    """
    from mtgbn.cli.demo import run_demo

    sys.exit(run_demo(out, subjects, seed, open_it, quiet))


# Options that the other methods have no use for.
_OF_MTGBN = (
    *("inference", "rounds", "nu0", "shared_directions", "structure_prior"),
    *("draws", "tol", "max_iter"),
)


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@reading_options()
def describe(data: str, **reading) -> None:
    """Check data, and say what is in them.

    DATA is a folder with one CSV or TSV file per task, a long table with a column that names the task,
    or an .npz with one array per task.
    """
    from mtgbn.cli.describe import run_describe

    run_describe(data, reading_of(data, **reading))


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@click.argument("out", type=click.Path())
@reading_options()
@learning_options
@click.option(
    "--method",
    type=click.Choice(["mtgbn", "sig", "avg"]),
    default="mtgbn",
    show_default=True,
    help="All tasks together, each alone, or all as one.",
)
@click.option(
    "--edge-prior",
    type=EdgePriorText(),
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
@click.option(
    "--tol",
    default=0.05,
    show_default=True,
    help="Share of edges that change, below which EM ends; with other structure priors than uniform "
    "the gain in Q, per task.",
)
@seed_option
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
@report_option
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def fit(context: click.Context, data: str, out: str, method: str, **options) -> None:
    """Learn one network per task from DATA and write the result to the folder OUT.

    DATA is a folder with one CSV or TSV file per task, a long table with a column that names the task,
    or an .npz with one array per task.

    The table edges.tsv in OUT says of every edge whether its direction is compelled by the data, known
    (prior knowledge excludes the other one), or chosen: reversible, and pointing as agrees best with the
    other tasks. With --inference posterior it has the edges' probabilities too, and probabilities.tsv
    has those of all pairs. report.html shows all of it, in a browser.

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
        "inference": options.pop("inference"),
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
        pointless = ("rounds",) if of_mtgbn["inference"] == "map" else of_em
        refuse(context, pointless, f"--inference {of_mtgbn['inference']}")
    else:
        refuse(context, _OF_MTGBN, f"--method {method}")
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
            data, out, method, reading_of(data, **reading), settings, writing=writing, **options
        )
    except KeyboardInterrupt:
        hint = "; go on with --resume" if method == "mtgbn" else ""
        click.echo(f"mtgbn: interrupted{hint}", err=True)
        sys.exit(130)
    sys.exit(code)


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


@cli.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def report(folder: str) -> None:
    """Write FOLDER/report.html, a page about the fit or the comparison in FOLDER.

    It is one file that needs no network: networks that can be moved, tables that can be sorted, filtered
    and downloaded, how the fit went, and how to repeat it. It needs pip install 'mtgbn[report]'.
    """
    from pathlib import Path

    from mtgbn.report import report_of
    from mtgbn.report.page import REPORT_FILE

    click.echo(f"Wrote {report_of(folder).save_as_html(Path(folder) / REPORT_FILE)}")


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


for command in (extract, compare, bids):
    cli.add_command(command)


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
