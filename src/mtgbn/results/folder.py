"""The folder of a result: ``result.json``, tables, arrays and draws.

``result.json`` is written last and lists the other files with their checksums, so that a folder holds
either a whole result or none. It has no times or paths: the same fit gives the same bytes.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mtgbn._utils.files import read_npz, sync_folder, writing
from mtgbn.chain.draws import Draws
from mtgbn.errors import InputError
from mtgbn.graphs.convert import to_dot, to_graphml
from mtgbn.results.draws_files import DRAWS_FILES, npz_bytes, read_draws, write_draws
from mtgbn.results.encoding import decode_estimator, encode_estimator
from mtgbn.results.estimators import FittedEstimator
from mtgbn.results.fit_tables import difference_table, edge_table, probability_table

RESULT_FILE = "result.json"
GRAPH_FORMATS = {"graphml": to_graphml, "dot": to_dot}
_FORMAT = "mtgbn result 4"
_EDGES_FILE = "edges.tsv"
_NETWORKS_FILE = "networks.npz"

DrawsFormat = Literal["npz", "netcdf", "none"]
GraphFormat = Literal["graphml", "dot"]


def save_result(
    estimator: FittedEstimator,
    folder: str | os.PathLike[str],
    *,
    draws_format: DrawsFormat = "npz",
    graph_formats: tuple[GraphFormat, ...] = (),
    reading: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted estimator to a folder, which is made if it does not exist.

    A result that the folder holds already is replaced, with all its files; other files stay. Returns
    the path of ``result.json``.

    Parameters
    ----------
    estimator : fitted MTGBN, SIG or AVG
    folder : path
        Gets ``result.json``, ``edges.tsv`` (every edge of every task), ``networks.npz``, the draws of
        sigma_h and, of a posterior estimate, ``probabilities.tsv``, with groups also
        ``differences.tsv``. The columns of the tables are explained in ``mtgbn.results.fit_tables``.
    draws_format : {"npz", "netcdf", "none"}
        Format of the draws of sigma_h. Without draws, a loaded result cannot predict.
    graph_formats : tuple of {"graphml", "dot"}
        Also write every task's graph, into a subfolder named like the format.
    reading : mapping, optional
        How the data were read (options of `Tasks.from_any`), for readers who want to repeat the fit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mtgbn import SIG, Tasks
    >>> tasks = Tasks.from_arrays(np.random.default_rng(0).normal(size=(2, 30, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_result(SIG(random_state=0).fit(tasks), folder)
    ...     sorted(each.name for each in path.parent.iterdir())
    ['edges.tsv', 'networks.npz', 'result.json']
    """
    if not hasattr(estimator, "graphs_"):
        raise InputError("there is nothing to save: the estimator is not fitted; call fit first")
    if draws_format not in (*DRAWS_FILES, "none"):
        raise InputError(f"draws_format must be 'npz', 'netcdf' or 'none'; got {draws_format!r}")
    unknown = set(graph_formats) - set(GRAPH_FORMATS)
    if unknown:
        raise InputError(f"graph_formats may be 'graphml' and 'dot'; got {unknown.pop()!r}")
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the result")
    folder.mkdir(parents=True, exist_ok=True)
    described, arrays = encode_estimator(estimator, reading)
    contents = {_EDGES_FILE: edge_table(estimator).tsv.encode(), _NETWORKS_FILE: npz_bytes(arrays)}
    if hasattr(estimator, "edge_probabilities_"):
        contents["probabilities.tsv"] = probability_table(estimator).tsv.encode()
    if hasattr(estimator, "differences_"):
        contents["differences.tsv"] = difference_table(estimator).tsv.encode()
    if hasattr(estimator, "draws_") and draws_format != "none":
        contents[DRAWS_FILES[draws_format]] = write_draws(estimator.draws_, draws_format)
    for kind in graph_formats:
        convert = GRAPH_FORMATS[kind]
        for name, graph in zip(_file_names(estimator.task_names_), estimator.graphs_, strict=True):
            contents[f"{kind}/{name}.{kind}"] = convert(graph, estimator.variables_).encode()
    about = {
        "format": _FORMAT,
        **described,
        "files": {n: hashlib.sha256(c).hexdigest() for n, c in sorted(contents.items())},
    }
    about["digest"] = _digest(about)
    contents[RESULT_FILE] = (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()
    _replace_result(folder, contents)
    return folder / RESULT_FILE


def _replace_result(folder: Path, contents: dict[str, bytes]) -> None:
    """Put files in the place of the result that the folder holds; result.json is the last of them."""
    try:
        stale = set(read_description(folder)["files"]) - set(contents)
    except InputError:  # the folder holds no result
        stale = set()
    # All files are on the disk before any is replaced, so that a full disk leaves the old result whole.
    with tempfile.TemporaryDirectory(prefix=".result.", suffix=".part", dir=folder) as temporary:
        staging = Path(temporary)
        for name, content in contents.items():
            (staging / name).parent.mkdir(exist_ok=True)
            with writing(staging / name) as file:
                file.write(content)
        (folder / RESULT_FILE).unlink(missing_ok=True)  # from here on the old result is not whole
        for name in contents:
            (folder / name).parent.mkdir(exist_ok=True)
            os.replace(staging / name, folder / name)
    sync_folder(folder)
    for name in stale:
        (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the subfolder of graphs holds other files
            (folder / name).parent.rmdir()


def load_result(folder: str | os.PathLike[str]) -> FittedEstimator:
    """Read a fitted estimator from a folder that `save_result` or `mtgbn fit` wrote.

    Returns the fitted estimator with all its attributes. A folder that holds no whole result, because a
    file is missing, cut short, changed or of another kind, is refused with an `InputError`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mtgbn import AVG, Tasks
    >>> tasks = Tasks.from_arrays(np.random.default_rng(0).normal(size=(2, 30, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_result(AVG(random_state=0).fit(tasks), folder)
    ...     estimator = load_result(folder)
    >>> estimator
    AVG(random_state=0)
    """
    folder = Path(folder)
    about = read_description(folder)
    for name, digest in about["files"].items():
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _damaged(path, f"it cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise _damaged(path, "it is not the file that was written with result.json")
    try:
        arrays = read_npz(folder / _NETWORKS_FILE)
    except (OSError, ValueError) as error:
        raise _damaged(folder / _NETWORKS_FILE, str(error)) from error
    try:
        estimator = decode_estimator(about, arrays)
        for name in sorted(set(DRAWS_FILES.values()) & set(about["files"])):
            statistics = read_draws(folder / name)
            sigma_h = statistics.pop("sigma_h")
            estimator.draws_ = Draws(sigma_h, statistics, estimator.variables_, about["sampler"])
        return estimator
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged(folder / RESULT_FILE, f"{type(error).__name__}: {error}") from error


# What a folder has that holds a comparison instead of a fit.
_COMPARISON_FILE = "comparison.json"


def read_description(folder: Path) -> dict[str, Any]:
    """Contents of ``result.json``, after checking that mtgbn wrote it."""
    path = Path(folder) / RESULT_FILE
    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {str(folder)!r}; give the one that a fit wrote")
    if (Path(folder) / _COMPARISON_FILE).exists() and not path.exists():
        raise InputError(
            f"{str(folder)!r} holds a comparison, not a fit; read its tables (TSV files), or use "
            "mtgbn report"
        )
    if not path.exists():
        raise InputError(
            f"{str(folder)!r} holds no result: there is no {RESULT_FILE}. Was the fit interrupted? "
            "Then go on with mtgbn fit --resume"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if isinstance(about, dict) and re.fullmatch(r"mtgbn result \d+", str(about.get("format"))):
        if about["format"] != _FORMAT:
            raise InputError(
                f"{path} was written by another version of mtgbn ({about['format']!r}, now "
                f"{_FORMAT!r}); fit again, or read it with that version"
            )
    else:
        raise _damaged(path, f"it is not in the format {_FORMAT!r}")
    if about.pop("digest", None) != _digest(about):
        raise _damaged(path, "its contents were changed")
    files = about.get("files")
    if not isinstance(files, dict) or not {_EDGES_FILE, _NETWORKS_FILE} <= set(files):
        raise _damaged(path, "it does not list its files")
    for name in files:
        if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise _damaged(path, f"it lists the file {name!r} outside its folder")
    return about


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is not what mtgbn wrote: {why}. Fit again, or restore the folder")


def _file_names(tasks: tuple[str, ...]) -> list[str]:
    """Names of tasks as names of files: without special characters, short, and all different."""
    names = [re.sub(r"[^\w.-]+", "_", task).strip(".") for task in tasks]
    # File systems allow 255 bytes per name; names of temporary files are a little longer.
    names = [name.encode()[:150].decode(errors="ignore") or "task" for name in names]
    taken: set[str] = set()
    for position, name in enumerate(names):
        number = 1
        while names[position].casefold() in taken:
            number += 1
            names[position] = f"{name}-{number}"
        taken.add(names[position].casefold())
    return names


def _digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
