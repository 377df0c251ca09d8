"""The commands for scans and for groups of subjects: extract, compare, bids, demo."""

import os
import sys
from typing import Any, Literal

import click

from mtgbn.cli.methods import COMPARISON_PARAMETERS, estimator_options, take_parameters
from mtgbn.cli.options import (
    DESIGN_SETTINGS,
    OUT_FOLDER,
    PAPER_SETTINGS,
    comparison_options,
    extraction_options,
    finish,
    jobs_option,
    option,
    overwrite_option,
    quiet_option,
    reading_options,
    refuse,
    report_option,
    split,
    take_reading,
)

_SELECTION = ("column", "groups", "subject", "controls", "templates", "repetition_time")


def _resolve_extraction(context: click.Context, options: dict[str, Any]) -> None:
    """Make keyword arguments of `extract_folder` of the options of an extraction, in place."""
    if options["labels"] and not options["atlas"]:
        raise click.UsageError("--labels is for --atlas")
    if options["atlas"]:
        refuse(context, ("regions", "radius"), "--atlas")
    if options["scrub"] is None:
        refuse(context, ("scrub_dvars",), "no --scrub")
    from mtgbn.fmri.confounds import STRATEGIES
    from mtgbn.fmri.regions import load_atlas

    atlas, labels = options.pop("atlas"), options.pop("labels")
    if atlas is not None:
        options["regions"] = load_atlas(atlas, labels)
    if options["confounds"] not in STRATEGIES and options["confounds"] != "none":
        options["confounds"] = split(options["confounds"])


def _resolve_comparison(context: click.Context, options: dict[str, Any], data: str) -> None:
    """Make keyword arguments of `compare_folder` of the options of a comparison, in place."""
    _refuse_other_ways(context, options)
    reading = take_reading(data, options)
    parameters = take_parameters(
        context, options, COMPARISON_PARAMETERS, has_second_fit=options["probabilities"]
    )
    from mtgbn.workflows.compare import Selection

    selection = Selection(**{name: options.pop(name, None) for name in _SELECTION})
    design = {name: options.pop(name) for name in DESIGN_SETTINGS}
    paper = {name: options.pop(name) for name in PAPER_SETTINGS}
    paper["n_permutations"] = paper.pop("n_relabellings")
    is_paper, is_subject = options.pop("paper"), selection.subject is not None
    options |= {
        "selection": selection,
        "reading": reading,
        "parameters": parameters | {"missing": reading["missing"]},
        "design": {"formula": design["formula"]} if is_subject else None if is_paper else design,
        "paper": paper if is_paper else False,
        "seed": options.pop("random_state"),
    }


def _refuse_other_ways(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options of another way of comparing than the one that is asked for."""
    of_design, of_paper = "the comparison by a design, without {}", "--paper"
    if options.get("subject") is not None:
        if options["paper"]:
            raise click.UsageError("--paper compares two groups; leave out --subject or --paper")
        refuse(context, ("groups",), "--subject")
        others = [name for name in DESIGN_SETTINGS if name != "formula"]
        refuse(context, others, "--subject", belongs_to=of_design.format("--subject"))
        refuse(context, PAPER_SETTINGS, "--subject", belongs_to=of_paper)
    elif options.get("controls") is not None:
        raise click.UsageError("--controls is for --subject")
    elif options["paper"]:
        others = [name for name in DESIGN_SETTINGS if name != "n_permutations"]
        refuse(context, others, "--paper", belongs_to=of_design.format("--paper"))
        refuse(
            *(context, ("n_permutations",), "--paper"),
            belongs_to=of_design.format("--paper") + "; here it is --relabellings",
        )
    else:
        refuse(context, PAPER_SETTINGS, "the comparison by a design", belongs_to=of_paper)


@click.command()
@click.argument("out", type=OUT_FOLDER, default="mtgbn-demo")
@option("--subjects", default=15, type=click.IntRange(2, 1000), help="Subjects per group.")
@estimator_options(["random_state"])
@option(
    "--open/--no-open",
    "open_it",
    default=True,
    help="Open the report in a browser, if there is a screen.",
)
@quiet_option
def demo(out: str, subjects: int, random_state: int, open_it: bool, quiet: bool) -> None:
    """Simulate patients and controls, compare their networks, and show the report.

    They are resting-state series of 11 default-mode regions, 230 volumes 2.5 s apart, of two groups of
    15 in which three connections differ. All subjects are learned in one fit that does not know the
    groups, and the strengths of connections are tested by permutation. OUT gets the series, the table of
    participants, and the comparison, which finds the altered connections.
    """
    from mtgbn.cli.runs import open_report, run
    from mtgbn.workflows import run_demo

    code, result = run(run_demo, out, subjects, seed=random_state, quiet=quiet)
    if open_it:
        open_report(result)
    sys.exit(code)


@click.command()
@click.argument("images", type=click.Path(exists=True))
@click.argument("out", type=OUT_FOLDER)
@extraction_options
@option("--task", help="Task of fMRIPrep's images, if there are several.")
@option("--session", help="Only images of this session.")
@option(
    "--pattern", help="Images of the folder, if they are not fMRIPrep's, such as '*/rest.nii.gz'."
)
@jobs_option("Parallel processes, each with an image in memory; -1: all cores.", default=1)
@quiet_option
@click.pass_context
def extract(context: click.Context, images: str, out: str, **options: Any) -> None:
    """Extract cleaned regional series from preprocessed IMAGES, for `mtgbn fit`.

    IMAGES is the folder of fMRIPrep's derivatives, a folder with --pattern, one 4-D image, or a .txt
    file with one image per line. Images must be preprocessed and in MNI space: slice timing, realignment
    and registration are the job of fMRIPrep or SPM.

    Every subject's table is written to OUT when it is finished, with a .json that describes how it was
    made; after an interruption the same command goes on. Subjects that cannot be used are listed with
    the reason in OUT/excluded.tsv; the others are kept.

    Exit codes: 0 done, 1 bad settings or subjects excluded, 2 bad usage, 130 interrupted.
    """
    choice = {name: options.pop(name) for name in ("space", "task", "session")}
    if not os.path.isdir(images):
        refuse(context, ("space", "task", "session", "pattern"), "a file")
    elif options["pattern"]:
        refuse(context, tuple(choice), "--pattern")
    _resolve_extraction(context, options)
    from mtgbn.cli.runs import run
    from mtgbn.workflows import extract_folder

    finish(lambda: run(extract_folder, images, out, choice=choice, **options)[0])


@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.argument("out", type=OUT_FOLDER)
@option(
    *("--participants", "--group", "participants"),
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="TABLE",
    help="TSV or CSV file with the column participant_id and the columns of groups and covariates, one "
    "row per subject; BIDS' participants.tsv. sub- may be left out.",
)
@comparison_options
@option(
    "--subject",
    metavar="ID",
    help="Compare this one subject with the controls, instead of groups.",
)
@option(
    "--controls",
    metavar="LABEL",
    help="Group of the controls, for --subject. [default: the group that the subject is not in]",
)
@option(
    *("--tr", "repetition_time"),
    type=float,
    help="Seconds between rows, for rdcm. It replaces the values in the files beside the series, which "
    "may then differ between subjects. [default: the values in these files]",
)
@reading_options("bartlett")
@estimator_options((*COMPARISON_PARAMETERS, "random_state"))
@jobs_option("Tasks searched, relabellings or controls fitted in parallel; -1: all cores.")
@overwrite_option
@report_option
@quiet_option
@click.pass_context
def compare(context: click.Context, data: str, out: str, participants: str, **options: Any) -> None:
    """Test what connections depend on, such as groups and covariates, and write the answer to OUT.

    All subjects are learned in one fit, which knows neither groups nor covariates. The strength of every
    connection (partial correlation) is then tested by permutation. `mtgbn compare DATA OUT --group
    participants.tsv` compares the groups; --formula "group + age + sex" also holds age and sex constant,
    and --formula score tests an outcome.

    DATA is a folder with one CSV or TSV file per subject (such as the folder that `mtgbn extract`
    wrote), a long table, or an .npz, as for `mtgbn fit`. Rows are treated as time series, whose
    effective sample size is smaller than the number of rows (--effective-samples bartlett).

    OUT gets connections.tsv (every connection with its effect, interval, p-value, corrected p-value and
    false discovery rate), strengths.tsv (every connection of every subject), components.tsv
    (network-based statistic), subjects.tsv (covariates, and who was left out), effects and corrected
    p-values as matrices (*_relmat.tsv), each with a .json that explains it, comparison.json (the answer,
    the settings, versions), and report.html. With --probabilities also differences.tsv (how probable it
    is that a connection is more frequent in one of two groups).

    With --paper OUT gets connections.tsv (counts, tests, corrections and effect sizes), degrees.tsv (the
    paper's Table 3), counts.tsv, edges.tsv (every edge of every subject), and with --methods or
    --density methods.tsv (the paper's Table 4). source and target are i and j of i -> j.

    With --subject OUT gets departures.tsv (how much stronger or weaker every connection is in the
    subject than in controls, in how many controls it is present, a p-value and a false discovery rate)
    and alarms.tsv (how often controls would be false alarms, each against the other controls).

    Several sessions of a subject, such as sub-01_ses-1 and sub-01_ses-2, are averaged and count as one
    subject; with --blocks and a column that has the person, sessions are exchanged within a person.

    Subjects without a group or a covariate, with a damaged file or constant variables, or with other
    variables or another TR than most subjects are left out and listed. What cannot be tested is refused
    before the fit. After an interruption the same command goes on.

    Exit codes: 0 done, 1 bad data or settings, 2 bad usage, 3 written, but subjects with data were left
    out or a fit did not converge, 130 interrupted.
    """
    _resolve_comparison(context, options, data)
    from mtgbn.cli.runs import run
    from mtgbn.workflows import compare_folder

    finish(lambda: run(compare_folder, data, out, participants, **options)[0])


class _Bids(click.Command):
    """Allow several labels after one --participant-label, as BIDS apps do and click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before every label."""
        names = ("--participant-label", "--participant_label")
        spread: list[str] = []
        label = None
        for number, arg in enumerate(args):
            if arg.startswith("-"):
                label = arg if arg in names else None
            elif label is not None and args[number - 1] != label:
                spread.append(label)
            spread.append(arg)
        return super().parse_args(ctx, spread)


# Options of the group level. All others but --jobs and --quiet are options of the participant level.
_OF_GROUPS = {
    *("participants", "column", "groups", "templates", "paper", *DESIGN_SETTINGS, *PAPER_SETTINGS),
    *COMPARISON_PARAMETERS,
    *("standardise", "effective_samples", "missing", "random_state", "overwrite", "report"),
}


@click.command(cls=_Bids)
@click.argument("bids_dir", type=click.Path(exists=True, file_okay=False))
@click.argument("out", type=OUT_FOLDER)
@click.argument("level", type=click.Choice(["participant", "group"]))
@option(
    "--participant-label",
    "--participant_label",
    multiple=True,
    metavar="LABEL ...",
    help="Only these participants, with or without sub-.",
)
@option("--session-label", "--session_label", help="Only images of this session.")
@option("--task-id", "--task_id", help="Only images of this task, if there are several.")
@extraction_options
@option(
    "--participants",
    type=click.Path(exists=True, dir_okay=False),
    help="Table of groups and covariates. [default: participants.tsv of BIDS_DIR or of its derivatives]",
)
@comparison_options
@reading_options("bartlett", of_files=False)
@estimator_options((*COMPARISON_PARAMETERS, "random_state"))
@jobs_option(
    "Parallel processes; those of the participant level have an image each in memory. -1: all cores.",
    default=1,
)
@overwrite_option
@report_option
@quiet_option
@click.pass_context
def bids(
    context: click.Context,
    bids_dir: str,
    out: str,
    level: Literal["participant", "group"],
    **options: Any,
) -> None:
    """Extract series and compare groups in the manner of a BIDS app.

    `mtgbn bids BIDS_DIR OUT participant` is `mtgbn extract`: series of the preprocessed images that are
    anywhere in BIDS_DIR (a dataset with fMRIPrep's derivatives inside, or these derivatives), written to
    OUT, a BIDS derivative. Give all participants to one command with --jobs, not one participant each
    to several commands that run at the same time.

    `mtgbn bids BIDS_DIR OUT group` is `mtgbn compare` of the series in OUT, with the groups and
    covariates of BIDS_DIR/participants.tsv; the tables are in OUT/group.

    Exit codes are those of these commands.
    """
    unused = [name for name in options if (name in _OF_GROUPS) == (level == "participant")]
    unused = [name for name in unused if name not in ("n_jobs", "quiet")]
    refuse(context, unused, level)
    options = {name: value for name, value in options.items() if name not in unused}
    if level == "participant":
        _resolve_extraction(context, options)
        labels = {"space": "space", "task": "task_id", "session": "session_label"}
        options["choice"] = {key: options.pop(name) for key, name in labels.items()}
        options["subjects"] = options.pop("participant_label")
    else:
        _resolve_comparison(context, options, out)
    from mtgbn.cli.runs import run
    from mtgbn.workflows import run_bids

    finish(lambda: run(run_bids, bids_dir, out, level, **options)[0])
