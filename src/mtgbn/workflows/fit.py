"""From data to the folder of a fit: read, fit with a checkpoint, save, report."""

import contextlib
import inspect
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from mtgbn._utils.files import locked
from mtgbn.compare.fitting import without_convergence_warnings
from mtgbn.errors import InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.paper import PaperMTGBN
from mtgbn.report.page import REPORT_FILE
from mtgbn.results import load_result, save_result
from mtgbn.results.encoding import plain
from mtgbn.results.folder import GRAPH_FORMATS, RESULT_FILE
from mtgbn.tasks import Tasks
from mtgbn.tasks.data_warnings import data_warnings
from mtgbn.workflows.output_folder import Progress, Tell, add_report, check_output_folder, silent
from mtgbn.workflows.reading import read_tasks

AnyEstimator = MTGBN | SIG | AVG | PaperMTGBN

_CHECKPOINT = "checkpoint.npz"


class FitRun(NamedTuple):
    """The result of `fit_folder`: the fitted estimator, and where the result and the report are."""

    folder: Path
    estimator: AnyEstimator
    report: Path | None
    seconds: float
    was_finished: bool  # the folder already held this result, so that there was nothing to fit

    @property
    def converged(self) -> bool:
        """Whether the fit converged."""
        return getattr(self.estimator, "converged_", True)


def fit_folder(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    estimator: AnyEstimator | Callable[[Tasks], AnyEstimator] | None = None,
    *,
    reading: Mapping[str, Any] | None = None,
    if_exists: Literal["error", "resume", "overwrite"] = "error",
    report: bool = True,
    graph_formats: Sequence[Literal["graphml", "dot"]] = (),
    draws_format: Literal["npz", "netcdf", "none"] = "npz",
    tell: Tell = silent,
    progress: Progress | None = None,
    callback: Callable[[Any], object] | None = None,
) -> FitRun:
    """Learn one network per task from files, and write the result to a folder.

    MTGBN keeps a checkpoint in the folder; after an interruption the same call with
    ``if_exists="resume"`` goes on to the same result.

    Parameters
    ----------
    data : path
        A folder or file that `Tasks.from_folder` or `Tasks.from_file` can read.
    out : path
        The folder for the result; see `save_result`.
    estimator : MTGBN, SIG, AVG or PaperMTGBN, or a function that makes it of the tasks; optional
        It is fitted in place. Default: `MTGBN`.
    reading : mapping, optional
        Options of `Tasks.from_folder` or `Tasks.from_file`, such as ``standardise``.
    if_exists : {"error", "resume", "overwrite"}
        What to do if ``out`` holds a result or the checkpoint of an interrupted fit.
    report : bool
        Also write report.html.
    graph_formats, draws_format
        As for `save_result`.
    tell : callable
        Called with messages about the data and the result.
    progress, callback : callable, optional
        As for `MTGBN.fit`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mtgbn import SIG
    >>> rows = np.random.default_rng(0).normal(size=(2, 30, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/tasks.npz", one=rows[0], two=rows[1])
    ...     run = fit_folder(f"{folder}/tasks.npz", f"{folder}/out", SIG(), report=False)
    ...     print(sorted(path.name for path in run.folder.iterdir()))
    ['edges.tsv', 'networks.npz', 'result.json']
    """
    folder, reading = Path(out), dict(reading or {})
    _check_folder(data, folder, if_exists)
    tasks, found = read_tasks(data, reading)
    tell(f"Read {tasks!r} from {data}.")
    for warning in found:
        tell(f"Warning: {warning}")
    for note in data_warnings(tasks):
        tell(f"Note: {note}.")
    if not isinstance(estimator, AnyEstimator):
        estimator = MTGBN() if estimator is None else estimator(tasks)
    estimator.check(tasks)
    for kind in graph_formats:  # a missing package must show before the work, not after it
        GRAPH_FORMATS[kind](np.zeros((tasks.n_variables,) * 2, dtype=bool), tasks.variables)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        with locked(folder):
            if if_exists == "resume":
                finished = _finished_result(folder, estimator, tasks)
                if finished is not None:
                    page = folder / REPORT_FILE
                    if report and not page.exists():  # the fit ended before its report was written
                        add_report(folder, tell, folder)
                    shown = page if page.exists() else None
                    return _without_checkpoint(FitRun(folder, finished, shown, 0.0, True))
            _clean(folder, estimator, resume=if_exists == "resume")
            options: dict[str, Any] = {"progress": progress}
            if _keeps_checkpoints(estimator):
                options |= {"callback": callback, "checkpoint": folder / _CHECKPOINT}
            with without_convergence_warnings():  # the result has them
                estimator.fit(tasks, **options)
            (folder / REPORT_FILE).unlink(missing_ok=True)  # the report of the earlier result
            formats: dict[str, Any] = {"graph_formats": graph_formats, "draws_format": draws_format}
            save_result(estimator, folder, reading=reading, **formats)
            written = add_report(folder, tell, estimator, reading=reading) if report else None
            seconds = time.monotonic() - start
            run = _without_checkpoint(FitRun(folder, estimator, written, seconds, False))
    except Exception:
        if is_new:
            with contextlib.suppress(OSError):  # it holds a checkpoint
                folder.rmdir()
        raise
    return run


def _check_folder(data: str | os.PathLike[str], folder: Path, if_exists: str) -> None:
    """Refuse to overwrite a result unasked, or to mix it with other files."""
    if if_exists not in ("error", "resume", "overwrite"):
        raise InputError(f"if_exists must be 'error', 'resume' or 'overwrite'; got {if_exists!r}")
    check_output_folder(folder, data)
    if not folder.exists():
        return
    has_result, has_checkpoint = ((folder / name).exists() for name in (RESULT_FILE, _CHECKPOINT))
    if has_result and if_exists == "error":
        raise InputError(
            f"{str(folder)!r} holds a result already; use --overwrite or another folder"
        )
    if has_checkpoint and if_exists == "error":
        raise InputError(
            f"{str(folder)!r} holds an interrupted fit; go on with --resume, or start anew with "
            "--overwrite"
        )
    others = [name for name in os.listdir(folder) if not name.endswith(".part")]
    if others and not (has_result or has_checkpoint):
        raise InputError(f"{str(folder)!r} holds other files; give a new or empty folder")


def _without_checkpoint(run: FitRun) -> FitRun:
    """Remove the checkpoint of a fit that has converged.

    A fit that has not converged can resume from it with a larger max_iter. A killed fit may leave the
    checkpoint beside its finished result; a checkpoint that is newer than the result is one of a fit
    that was to replace the result.
    """
    checkpoint, result = run.folder / _CHECKPOINT, run.folder / RESULT_FILE
    if not (run.converged and checkpoint.exists()):
        return run
    if checkpoint.stat().st_mtime_ns <= result.stat().st_mtime_ns:
        checkpoint.unlink()
    return run


def _keeps_checkpoints(estimator: AnyEstimator) -> bool:
    return "checkpoint" in inspect.signature(estimator.fit).parameters


def _clean(folder: Path, estimator: AnyEstimator, resume: bool) -> None:
    """Remove unfinished files of a killed fit, and a checkpoint that is not to be resumed."""
    for path in [*folder.glob(".*.part"), *folder.glob("*/.*.part")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    checkpoint = folder / _CHECKPOINT
    if resume and checkpoint.exists() and not _keeps_checkpoints(estimator):
        raise InputError(
            f"{str(folder)!r} holds an interrupted fit of MTGBN; resume that fit, or use another folder"
        )
    if not resume:
        checkpoint.unlink(missing_ok=True)


def _finished_result(folder: Path, estimator: AnyEstimator, tasks: Tasks) -> AnyEstimator | None:
    """Return the result in a folder if it is what was asked for; None if there is more to do."""
    if not (folder / RESULT_FILE).exists():
        return None
    found = load_result(folder)  # raises if it is damaged
    converged = getattr(found, "converged_", True)
    then, now = found.get_params(), estimator.get_params()
    may_differ = {"n_jobs"} if converged else {"n_jobs", "max_iter"}
    is_same = (
        type(found) is type(estimator)
        and _is_same_data(found.tasks_, tasks)
        and all(plain(then[name]) == plain(now[name]) for name in set(now) - may_differ)
    )
    if not is_same and (folder / _CHECKPOINT).exists():
        return None  # the checkpoint of a fit that was to replace the result; `fit` checks it
    if not is_same:
        raise InputError(
            f"{str(folder)!r} holds a finished result of other data or settings; use --overwrite or "
            "another folder"
        )
    if isinstance(found, MTGBN | PaperMTGBN) and not converged and now["max_iter"] > found.n_iter_:
        return None
    return found


def _is_same_data(fitted: Tasks, tasks: Tasks) -> bool:
    """Whether a fit was a fit of these tasks."""
    if not (np.array_equal(fitted.scales, tasks.scales) and len(fitted) == len(tasks)):
        return False
    if not tasks.incomplete:
        return fitted == tasks and np.array_equal(fitted.centres, tasks.centres)
    if fitted.scatters.shape != tasks.scatters.shape:
        return False
    # A fit replaces scatters and centres by their means over imputed rows; the means of tasks without
    # missing values may differ from the originals by rounding errors.
    complete = [t for t in range(len(tasks)) if t not in tasks.incomplete]
    return (
        fitted.with_scatters(tasks.scatters) == tasks
        and np.array_equal(fitted.centres[complete], tasks.centres[complete])
        and np.allclose(fitted.scatters[complete], tasks.scatters[complete], rtol=1e-9, atol=0)
    )
