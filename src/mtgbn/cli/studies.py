"""The commands for scans and for groups of subjects: extract, compare, bids."""

import errno
import os
import sys

import click

from mtgbn.cli.options import (
    check_extraction,
    comparison_options,
    extraction_options,
    learning_of,
    learning_options,
    reading_of,
    reading_options,
    refuse,
    report_option,
    seed_option,
)

__all__ = ["bids", "compare", "extract"]

_quiet_option = click.option("--quiet", is_flag=True, help="Print errors only.")
_jobs_option = click.option(
    "--jobs",
    default=-1,
    show_default=True,
    type=click.IntRange(-1),
    help="Tasks searched, relabellings or controls fitted at once; -1: all cores.",
)
_overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace another comparison in OUT."
)
# What only a comparison of two groups has a use for.
_OF_GROUPS = ("groups", "fitting", "permutations", "methods", "density")


def _check_missing(reading: dict) -> None:
    if reading["missing"] == "em" and reading["effective_samples"] in ("bartlett", "ar1"):
        raise click.UsageError(
            "--missing em needs --effective-samples none or a number: what series with gaps are worth "
            "is not estimated"
        )


def _check_jobs(jobs: int) -> None:
    if jobs == 0:
        raise click.UsageError("--jobs must be -1 or at least 1")


def _finish(run) -> None:
    """End with the exit code of a command that goes on when it is given again."""
    try:
        code = run()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.echo(
            f"mtgbn: the disk is full ({error}); make room, and the same command goes on", err=True
        )
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("mtgbn: interrupted; the same command goes on", err=True)
        sys.exit(130)
    sys.exit(code)


@click.command()
@click.argument("images", type=click.Path(exists=True))
@click.argument("out", type=click.Path())
@extraction_options
@click.option("--task", help="Of fMRIPrep's images, if there are several.")
@click.option("--session", help="Only images of this session.")
@click.option(
    "--pattern", help="Which images of the folder instead of fMRIPrep's, such as '*/rest.nii.gz'."
)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(-1),
    help="Processes, each with an image in memory; -1: all cores.",
)
@_quiet_option
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

    _check_jobs(options["jobs"])
    check_extraction(context, options)
    choice = {name: options.pop(name) for name in ("space", "task", "session")}
    if not os.path.isdir(images):
        refuse(context, ("space", "task", "session", "pattern"), "a file")
    elif options["pattern"]:
        refuse(context, tuple(choice), "--pattern")
    _finish(lambda: run_extract(images, out, choice=choice, **options))


@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.argument("out", type=click.Path())
@click.option(
    "--group",
    "participants",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="TABLE",
    help="TSV or CSV file with the columns participant_id and group, one row per subject; BIDS' "
    "participants.tsv. sub- may be left out.",
)
@comparison_options
@click.option(
    "--subject",
    metavar="ID",
    help="Compare this one subject with the controls instead of two groups.",
)
@click.option(
    "--controls",
    metavar="LABEL",
    help="Group of the controls, for --subject. [default: the group that the subject is not in]",
)
@click.option(
    "--tr",
    type=float,
    help="Seconds between rows, for rdcm; subjects then need not have the same in the files beside "
    "their series. [default: what those files say]",
)
@reading_options("bartlett")
@learning_options
@seed_option
@_jobs_option
@_overwrite_option
@report_option
@_quiet_option
@click.pass_context
def compare(context: click.Context, data: str, out: str, **options) -> None:
    """Learn the networks of two groups of subjects from DATA, and write how they differ to OUT.

    DATA is what `mtgbn fit` reads: a folder with one CSV or TSV file per subject, what `mtgbn extract`
    wrote, a long table, or an .npz. Rows are taken for time series, which are worth fewer samples than
    rows (--effective-samples bartlett); the output says how many.

    OUT gets connections.tsv (every connection with counts, tests, corrections and effect sizes),
    degrees.tsv (the paper's Table 3), counts.tsv, edges.tsv (every edge of every subject), with
    --methods or --density methods.tsv (the paper's Table 4), each with a .json that explains its
    columns, comparison.json (what was run, with whom, and who was left out), and report.html, a page
    that shows all of it. source and target are i and j of i -> j.

    With --subject OUT gets departures.tsv, how much stronger or weaker every connection of that subject
    is than in controls, with how many controls have it, a p-value and a false discovery rate; and
    alarms.tsv, how often controls would raise an alarm against each other.

    Subjects without a group, with a damaged file or constant regions, with other variables or another
    TR than most are left out and listed. A run that was interrupted goes on with the same command.

    Exit codes: 0 done, 1 bad data or settings, 2 bad usage, 3 written, but subjects with data were left
    out or a fit did not converge, 130 interrupted.
    """
    _check_jobs(options["jobs"])
    if options["subject"] is not None:
        refuse(context, _OF_GROUPS, "--subject")
    elif options["controls"] is not None:
        raise click.UsageError("--controls is for --subject")
    reading = {
        name: options.pop(name)
        for name in ("pattern", "task_column", "standardise", "effective_samples", "missing")
    }
    _check_missing(reading)
    reading = reading_of(data, **reading)
    learning = learning_of(context, options) | {"missing": reading["missing"]}
    from mtgbn.cli.compare import run_compare

    _finish(lambda: run_compare(data, out, reading=reading, learning=learning, **options))


class _Bids(click.Command):
    """BIDS apps take several labels after one --participant-label, which click does not."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        names = ("--participant-label", "--participant_label")
        spread, label = [], None
        for number, arg in enumerate(args):
            if arg.startswith("-"):
                label = arg if arg in names else None
            elif label is not None and args[number - 1] != label:
                spread.append(label)
            spread.append(arg)
        return super().parse_args(context, spread)


_OF_PARTICIPANTS = (
    *("regions", "atlas", "labels", "radius", "tr", "drop", "confounds", "scrub", "scrub_dvars"),
    *("band", "smooth", "min_coverage", "space", "runs", "task_id", "session_label"),
    "participant_label",
)
_OF_GROUP_LEVEL = (
    *("participants", "column", "groups", "templates", "fitting", "permutations", "methods"),
    *("density", "standardise", "effective_samples", "missing", "inference", "rounds", "nu0"),
    *("restarts", "draws", "max_iter", "seed", "overwrite", "report"),
)


@click.command(cls=_Bids)
@click.argument("bids_dir", type=click.Path(exists=True, file_okay=False))
@click.argument("out", type=click.Path())
@click.argument("level", type=click.Choice(["participant", "group"]))
@click.option(
    "--participant-label",
    "--participant_label",
    multiple=True,
    metavar="LABEL ...",
    help="Only these participants, with or without sub-.",
)
@click.option("--session-label", "--session_label", help="Only images of this session.")
@click.option("--task-id", "--task_id", help="Only images of this task, if there are several.")
@extraction_options
@click.option(
    "--participants",
    type=click.Path(exists=True, dir_okay=False),
    help="Table of the groups. [default: participants.tsv of BIDS_DIR or of its derivatives]",
)
@comparison_options
@reading_options("bartlett", of_files=False)
@learning_options
@seed_option
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(-1),
    help="Processes at once; of participants each has an image in memory. -1: all cores.",
)
@_overwrite_option
@report_option
@_quiet_option
@click.pass_context
def bids(context: click.Context, bids_dir: str, out: str, level: str, **options) -> None:
    """Extract series and compare groups in the manner of a BIDS app.

    `mtgbn bids BIDS_DIR OUT participant` is `mtgbn extract`: series of the preprocessed images that are
    anywhere in BIDS_DIR (a dataset with fMRIPrep's derivatives inside, or these derivatives), written to
    OUT, a BIDS derivative. Give all participants to one command, with --jobs, rather than one each to
    several commands at once.

    `mtgbn bids BIDS_DIR OUT group` is `mtgbn compare` of the series in OUT, with the groups of
    BIDS_DIR/participants.tsv; the tables are in OUT/group.

    Exit codes are those of these commands.
    """
    _check_jobs(options["jobs"])
    refuse(context, _OF_GROUP_LEVEL if level == "participant" else _OF_PARTICIPANTS, level)
    from mtgbn.cli.bids import run_group, run_participants

    shared = {"jobs": options["jobs"], "quiet": options["quiet"]}
    if level == "participant":
        check_extraction(context, options)
        chosen = {name: options[name] for name in _OF_PARTICIPANTS}
        _finish(lambda: run_participants(bids_dir, out, **chosen, **shared))
    chosen = {name: options[name] for name in _OF_GROUP_LEVEL}
    reading = {name: chosen.pop(name) for name in ("standardise", "effective_samples", "missing")}
    _check_missing(reading)
    learning = learning_of(context, chosen) | {"missing": reading["missing"]}
    _finish(
        lambda: run_group(bids_dir, out, reading=reading, learning=learning, **chosen, **shared)
    )
