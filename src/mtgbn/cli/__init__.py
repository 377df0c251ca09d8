"""The command line. Heavy packages are imported when a command runs: `mtgbn --help` is fast."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

import mtgbn
from mtgbn.cli.methods import METHODS, OPTIONS, estimator_options, take_parameters
from mtgbn.cli.options import (
    OUT_FOLDER,
    finish,
    jobs_option,
    option,
    quiet_option,
    reading_options,
    report_option,
    take_reading,
)
from mtgbn.cli.studies import bids, compare, demo, extract


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mtgbn.__version__, prog_name="mtgbn")
def cli() -> None:
    """Gaussian Bayesian networks for many related, small datasets: one per task."""


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@reading_options()
def describe(data: str, **options: Any) -> None:
    """Check data, and print what they hold.

    DATA is a folder with one CSV, TSV or TXT file per task, a long table with a column that names the
    task, or an .npz with one array per task.
    """
    from mtgbn.cli.describe import run_describe

    run_describe(data, take_reading(data, options))


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@click.argument("out", type=OUT_FOLDER)
@reading_options()
@option(
    "--method",
    type=click.Choice(list(METHODS)),
    default="mtgbn",
    help="; ".join(f"{name}: {method.help}" for name, method in METHODS.items()) + ".",
)
@estimator_options(list(OPTIONS))
@option("--scheduler", metavar="ADDRESS", help="Address of a Dask cluster for the searches.")
@option("--resume", is_flag=True, help="Go on with an interrupted fit.")
@option("--overwrite", is_flag=True, help="Replace the result in OUT.")
@option(
    "--graphs",
    type=click.Choice(["graphml", "dot"]),
    multiple=True,
    help="Also write every graph in this format; may be given twice.",
)
@option(
    "--draws-format",
    type=click.Choice(["npz", "netcdf", "none"]),
    default="npz",
    help="File format of the draws of sigma_h.",
)
@report_option
@quiet_option
@click.pass_context
def fit(context: click.Context, data: str, out: str, method: str, **options: Any) -> None:
    """Learn one network per task from DATA and write the result to the folder OUT.

    DATA is a folder with one CSV, TSV or TXT file per task, a long table with a column that names the
    task, or an .npz with one array per task.

    The table edges.tsv in OUT has every edge, and whether its direction is compelled by the data, known
    (prior knowledge excludes the other direction), or chosen (the data allow both directions, and this
    one agrees best with the other tasks). With --inference posterior it also has the edges'
    probabilities, and probabilities.tsv has the probabilities of all pairs. report.html shows the result
    in a browser.

    Other methods than mtgbn have other defaults: sig and avg have the edge prior 1/(p - 1); paper has
    --nu0 p + 49, --edge-prior 1/(p - 1),4 and --search mmhc; --search mmhc has --restarts 0 and
    --tabu 0. For paper, --tol is the smallest gain of Q per task.

    Exit codes: 0 done, 1 bad data or settings, 2 bad usage, 3 result written but EM did not converge,
    130 interrupted (go on with --resume).
    """
    reading = take_reading(data, options)
    parameters = take_parameters(context, options, list(OPTIONS), method)
    if METHODS[method].imputes:
        parameters["missing"] = reading["missing"]
    elif reading["missing"] == "em":
        raise click.UsageError(f"--missing em is for --method mtgbn; {method} needs complete data")
    resume, overwrite = options.pop("resume"), options.pop("overwrite")
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    from mtgbn.cli.runs import run_fit

    options |= {
        "reading": reading,
        "if_exists": "resume" if resume else "overwrite" if overwrite else "error",
        "graph_formats": options.pop("graphs"),
    }
    hint = "go on with --resume" if method in ("mtgbn", "paper") else "give the same command again"
    finish(lambda: run_fit(data, out, method, parameters, **options), hint)


@cli.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@option(
    "--edges", default=20, type=click.IntRange(1), help="Number of the most common edges to print."
)
def show(folder: str, edges: int) -> None:
    """Print a summary of the result in FOLDER.

    Per task: its degrees of freedom n, its edges, and how many of them have a direction that was chosen
    (the data allow both directions). For mtgbn also the probability that the task is a member (shares
    sigma_h and edges with the others), and the log density of its data given all other tasks minus that
    of the single task, per row: below 0 the other tasks do not help to predict it.
    """
    from mtgbn.cli.describe import run_show

    run_show(folder, edges)


@cli.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def report(folder: str) -> None:
    """Write FOLDER/report.html, a page about the fit or the comparison in FOLDER.

    It is one file that needs no internet: networks that can be moved, tables that can be sorted,
    filtered and downloaded, diagnostics of the fit, and the command that repeats it. A comparison has
    its answer first, and its methods in words that can be copied into a paper. It needs
    pip install 'mtgbn[report]'.
    """
    from mtgbn.report import report_of
    from mtgbn.report.page import REPORT_FILE

    click.echo(f"Wrote {report_of(folder).save_as_html(Path(folder) / REPORT_FILE)}")


_EXPERIMENTS = ("sample-size", "task-number", "density", "perturbation")


@cli.command()
@click.argument("experiment", type=click.Choice(_EXPERIMENTS), metavar="EXPERIMENT")
@click.argument("out", type=OUT_FOLDER)
@option(
    "--full/--quick",
    default=True,
    help="The paper's settings, which take hours; or a part of them, about a minute.",
)
@option(
    "--repetitions",
    type=click.IntRange(1),
    help="Simulated problems per setting; more can be added later. [default: 10, 1 or 2 with --quick]",
)
@option(
    "--method",
    "methods",
    multiple=True,
    help="Only this method, in all settings; may be given several times. Methods are SIG, AVG, MTGBN, "
    "MTGBN-posterior, MTGBN-paper (the paper's configuration), and two steps between MTGBN-paper and "
    "MTGBN: MTGBN-corrected, MTGBN-unshared. [default: SIG, AVG, MTGBN-paper and MTGBN, and all methods "
    "where nu0 is 60 in sample-size]",
)
@option(
    "--only",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only settings with this value, such as n_rows=250; may be given several times. Several values "
    "of one key are alternatives.",
)
@option("--seed", default=1, type=click.IntRange(0), help="The same seed gives the same rows.")
@jobs_option("Parallel processes; -1: all cores.")
@option("--scheduler", metavar="ADDRESS", help="Address of a Dask cluster.")
@quiet_option
def reproduce(experiment: str, out: str, full: bool, **options: Any) -> None:
    """Run one of the paper's simulations and write rows, tables and a figure to the folder OUT.

    EXPERIMENT is sample-size (Figure 3), task-number (Figure 4), density (Figure 5) or perturbation
    (Table 2). Every cell, one method on one simulated problem, is kept in OUT/cells.sqlite when it is
    finished: after an interruption the same command goes on, and a run with more repetitions, other
    methods or other settings (--only) adds cells. Tables (table.md, table.csv), rows.csv, figure.svg
    and .png, times.csv and run.json always show all cells in OUT. If OUT has a rows.csv but no cells
    yet, its rows are used.

    Keys for --only: nu0, n_tasks, n_rows and density; of perturbation n_rows, relative_to (pairs,
    edges), network (ecoli70, magic-niab, magic-irri) and level.

    Exit codes: 0 done, 1 bad settings or cells that failed, 2 bad usage, 130 interrupted.
    """
    from mtgbn.cli.reproduce import run_reproduce

    finish(lambda: run_reproduce(experiment, out, quick=not full, **options))


for command in (demo, extract, compare, bids):
    cli.add_command(command)


def main() -> None:
    """Run the command line; the package's own errors end it with a message, without a traceback."""
    from mtgbn.errors import GraphError, ImproperPosteriorError, InputError

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, but libraries write to it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show must not fail
            stream.reconfigure(errors="backslashreplace")
    try:
        cli()
    except (InputError, GraphError, ImproperPosteriorError) as error:
        _end(str(error))
    except MemoryError:
        _end("not enough memory for these data")
    except OSError as error:
        # Output that is still buffered would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _end(f"cannot read or write: {error}")


def _end(message: str) -> NoReturn:
    with contextlib.suppress(OSError):  # stderr is closed
        click.echo(f"mtgbn: {message}", err=True)
    sys.exit(1)
