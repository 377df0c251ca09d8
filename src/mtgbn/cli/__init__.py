"""The command line. Imports here are light: `mtgbn --help` answers at once."""

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
@click.option("--tasks", "n_tasks", default=10, show_default=True, type=click.IntRange(1, 10_000))
@click.option(
    "--variables", "n_variables", default=6, show_default=True, type=click.IntRange(2, 100)
)
@click.option("--rows", "n_rows", default=60, show_default=True, type=click.IntRange(2, 1_000_000))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Decides all.")
def demo(n_tasks: int, n_variables: int, n_rows: int, seed: int) -> None:
    """Simulate related tasks, sample sigma_h, and compare it with the truth."""
    from mtgbn.cli.demo import run_demo

    run_demo(n_tasks, n_variables, n_rows, seed)


@cli.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False))
@click.option("--pattern", help="Files to read, such as 'sub-*/*_timeseries.tsv'.")
@click.option(
    "--standardise", is_flag=True, help="Scale every variable of every task to variance 1."
)
@click.option(
    "--effective-samples", type=float, help="Independent samples that each task's rows are worth."
)
def describe(
    data: str, pattern: str | None, standardise: bool, effective_samples: float | None
) -> None:
    """Read a folder with one CSV or TSV file per task, check it, and say what is in it."""
    from mtgbn.cli.describe import run_describe

    run_describe(
        data, pattern, {"standardise": standardise, "effective_samples": effective_samples}
    )


def main() -> None:
    """Run the command line; errors of ours end it with a message, not with a traceback."""
    from mtgbn.errors import GraphError, ImproperPosteriorError, InputError

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
    click.echo(f"mtgbn: {message}", err=True)
    sys.exit(1)
