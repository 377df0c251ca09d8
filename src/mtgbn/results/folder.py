"""The folder of a result: `result.json`, tables of edges, arrays and draws.

`result.json` is written last and lists the other files with their checksums, so a folder either holds
a whole result or none. It has no times or paths: the same fit gives the same bytes.
"""

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.io import netcdf_file

import mtgbn
from mtgbn._utils.files import read_npz, sync_folder, writing
from mtgbn.chain.draws import Draws
from mtgbn.errors import InputError
from mtgbn.graphs.convert import to_dot, to_graphml
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.joint import Iteration
from mtgbn.learn.probabilities import EdgeDiagnostics
from mtgbn.learn.relatedness import Relatedness
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.results.tables import edge_table, probability_table
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks

__all__ = [
    "GRAPH_FORMATS",
    "RESULT_FILE",
    "load_result",
    "plain",
    "read_description",
    "save_result",
]

RESULT_FILE = "result.json"
GRAPH_FORMATS = {"graphml": to_graphml, "dot": to_dot}
_EDGES_FILE = "edges.tsv"
_PROBABILITIES_FILE = "probabilities.tsv"
_NETWORKS_FILE = "networks.npz"
_FORMAT = "mtgbn result 2"
_ESTIMATORS = {"MTGBN": MTGBN, "SIG": SIG, "AVG": AVG}
_PACKAGES = ("numpy", "scipy", "numba", "joblib")
_NETWORK_ARRAYS = ("graphs", "cpdags", "covariances", "coefficients", "residual_variances")
# Attributes that not every fit has, of shapes that the numbers of tasks and variables give.
_OPTIONAL_ARRAYS = {
    "membership": "m",
    "edge_probabilities": "mpp",
    "adjacency_probabilities": "mpp",
}
_NO_NUMBERS = ("inf", "-inf", "nan")
_OPTIONAL_TUPLES = {"relatedness": Relatedness, "edge_diagnostics": EdgeDiagnostics}

DrawsFormat = Literal["npz", "netcdf", "none"]
GraphFormat = Literal["graphml", "dot"]


def save_result(
    estimator: MTGBN | SIG | AVG,
    folder: str | os.PathLike[str],
    *,
    draws_format: DrawsFormat = "npz",
    graph_formats: tuple[GraphFormat, ...] = (),
    reading: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted estimator to a folder, which is made if need be.

    Parameters
    ----------
    estimator : MTGBN, SIG or AVG
    folder : path
    draws_format : {"npz", "netcdf", "none"}
        Of the draws of sigma_h. Without them a loaded result cannot predict.
    graph_formats : tuple of {"graphml", "dot"}
        Also write every task's graph, into a subfolder of that name.
    reading : mapping, optional
        How the data were read (options of `Tasks.from_any`), for those who want to repeat the fit.

    A result that the folder holds already is replaced, with all its files; others stay.

    The edges are in ``edges.tsv``. Its column ``direction`` says ``compelled`` if the data exclude the
    other direction, ``known`` if prior knowledge does, and ``chosen`` if the edge is reversible and
    points as agrees best with the other tasks. A posterior estimate also has ``probabilities.tsv``,
    with every pair whose adjacency probability is above 0.01.

    Returns
    -------
    Path
        Of the file ``result.json``.
    """
    if not hasattr(estimator, "graphs_"):
        raise InputError("there is nothing to save: the estimator is not fitted")
    if draws_format not in ("npz", "netcdf", "none"):
        raise InputError(f"draws_format must be 'npz', 'netcdf' or 'none'; got {draws_format!r}")
    unknown = set(graph_formats) - set(GRAPH_FORMATS)
    if unknown:
        raise InputError(f"graph_formats may be 'graphml' and 'dot'; got {unknown.pop()!r}")
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the result")
    folder.mkdir(parents=True, exist_ok=True)
    about, arrays = _describe(estimator)
    if reading is not None:
        about["reading"] = plain(reading)
    contents = {_EDGES_FILE: edge_table(estimator).encode(), _NETWORKS_FILE: _npz(arrays)}
    if hasattr(estimator, "edge_probabilities_"):
        contents[_PROBABILITIES_FILE] = probability_table(estimator).encode()
    if hasattr(estimator, "draws_") and draws_format != "none":
        write = {"npz": _draws_npz, "netcdf": _draws_netcdf}[draws_format]
        name = {"npz": "draws.npz", "netcdf": "draws.nc"}[draws_format]
        contents[name] = write(estimator.draws_)
    for kind in graph_formats:
        convert = GRAPH_FORMATS[kind]
        for name, graph in zip(_file_names(estimator.task_names_), estimator.graphs_, strict=True):
            contents[f"{kind}/{name}.{kind}"] = convert(graph, estimator.variables_).encode()
    stale = _files_of(folder) - set(contents)
    about["files"] = {n: hashlib.sha256(c).hexdigest() for n, c in sorted(contents.items())}
    about["digest"] = _digest(about)
    contents[RESULT_FILE] = (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()
    path = folder / RESULT_FILE
    # All is on the disk before anything is replaced, so that a full one leaves the old result whole.
    with tempfile.TemporaryDirectory(prefix=".result.", suffix=".part", dir=folder) as name:
        staging = Path(name)
        for name, content in contents.items():
            (staging / name).parent.mkdir(exist_ok=True)
            with writing(staging / name) as file:
                file.write(content)
        path.unlink(missing_ok=True)  # half a result is none
        for name in contents:  # result.json is the last
            (folder / name).parent.mkdir(exist_ok=True)
            os.replace(staging / name, folder / name)
    sync_folder(folder)
    for name in stale:
        (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder of graphs that is not empty, or OUT itself
            (folder / name).parent.rmdir()
    return path


def _files_of(folder: Path) -> set[str]:
    """Files of the result that a folder holds, if it holds one."""
    try:
        return set(read_description(folder)["files"])
    except InputError:
        return set()


def load_result(folder: str | os.PathLike[str]) -> MTGBN | SIG | AVG:
    """Read a fitted estimator from the folder of `save_result` or `mtgbn fit`.

    Raises
    ------
    InputError
        If there is no whole result: a file is missing, cut short, changed or of another kind.
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
        return _restore(folder, about)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged(folder / RESULT_FILE, f"{type(error).__name__}: {error}") from error


def read_description(folder: Path) -> dict[str, Any]:
    """Contents of `result.json`, once it is known to be one."""
    path = Path(folder) / RESULT_FILE
    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {str(folder)!r}; give the one that a fit wrote")
    if not path.exists():
        raise InputError(
            f"{str(folder)!r} holds no result: there is no {RESULT_FILE}. Was the fit interrupted? "
            "Then go on with --resume"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
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


def _describe(estimator) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `result.json` says, and the arrays that go beside it."""
    tasks = estimator.tasks_
    arrays = {name: getattr(estimator, f"{name}_") for name in _NETWORK_ARRAYS}
    arrays |= _task_arrays(tasks)
    settings = estimator.get_params()
    del settings["n_jobs"]  # changes nothing
    settings["edge_prior"] = _edge_prior_setting(settings["edge_prior"], tasks.variables, arrays)
    if isinstance(settings["knowledge"], Mapping):
        settings["knowledge"] = Knowledge.from_dict(settings["knowledge"])
    settings["random_state"] = estimator.random_state_
    rows = [None] * len(tasks) if tasks.n_rows is None else tasks.n_rows.tolist()
    about = {
        "format": _FORMAT,
        "estimator": type(estimator).__name__,
        "versions": {
            "mtgbn": mtgbn.__version__,
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
        "settings": {name: plain(value) for name, value in settings.items()},
        "edge_prior": _encode("edge_prior", estimator.edge_prior_, arrays),
        "order": plain(estimator.order_),
        "agreement": plain(estimator.agreement_),
        "variables": list(tasks.variables),
        "tasks": [
            {"name": name, "rows": n_rows, "n": n, "edges": int(graph.sum())}
            for name, n_rows, n, graph in zip(
                tasks.names, rows, tasks.ns.tolist(), estimator.graphs_, strict=True
            )
        ],
    }
    if isinstance(estimator, MTGBN):
        arrays["sigma_h"] = estimator.sigma_h_
        about |= {
            "nu0": estimator.nu0_,
            "converged": estimator.converged_,
            "stop_reason": estimator.stop_reason_,
            "n_iter": estimator.n_iter_,
            "warnings": list(estimator.warnings_),
            "history": [plain(iteration._asdict()) for iteration in estimator.history_],
            "diagnostics": plain(estimator.diagnostics_),
        }
        if hasattr(estimator, "draws_"):
            about["sampler"] = estimator.draws_.sampler
    for name in _OPTIONAL_ARRAYS:
        if hasattr(estimator, f"{name}_"):
            arrays[name] = getattr(estimator, f"{name}_")
    for name in _OPTIONAL_TUPLES:
        if hasattr(estimator, f"{name}_"):
            about[name] = _encode(name, getattr(estimator, f"{name}_"), arrays)
    return about, arrays


def _task_arrays(tasks: Tasks) -> dict[str, np.ndarray]:
    arrays = {name: getattr(tasks, name) for name in ("scatters", "ns", "centres", "scales")}
    if tasks.n_rows is not None:
        arrays["n_rows"] = tasks.n_rows
    return arrays | {f"incomplete_{t}": rows for t, rows in sorted(tasks.incomplete.items())}


def _edge_prior_setting(given, variables: tuple[str, ...], arrays: dict[str, np.ndarray]) -> Any:
    """The user's edge prior; a matrix goes among the arrays, in the order of the variables."""
    is_pair = isinstance(given, tuple | list) and len(given) == 2 and np.ndim(given[1]) == 0
    matrix = given[0] if is_pair else given
    if hasattr(matrix, "columns"):
        matrix = matrix.loc[list(variables), list(variables)].to_numpy()
    if np.ndim(matrix) != 2:
        return given
    arrays["edge_prior_setting"] = np.array(matrix, dtype=float)
    place = {"array": "edge_prior_setting"}
    return [place, given[1]] if is_pair else place


def _encode(name: str, values: tuple, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """A named tuple for JSON, field by field; those that are arrays are put aside."""
    fields = {}
    for field, value in values._asdict().items():
        if isinstance(value, np.ndarray):
            arrays[f"{name}_{field}"] = value
            fields[field] = {"array": f"{name}_{field}"}
        else:
            fields[field] = plain(value)
    return fields


def _decode(kind: type, fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The named tuple that `_encode` took apart."""
    values = {}
    for field, value in fields.items():
        if isinstance(value, dict):
            value = arrays[value["array"]]
        values[field] = tuple(value) if isinstance(value, list) else _number(value)
    return kind(**values)


def _number(value: Any) -> Any:
    """Undo what `plain` does to numbers that JSON cannot hold."""
    return float(value) if isinstance(value, str) and value in _NO_NUMBERS else value


def _restore(folder: Path, about: dict[str, Any]):
    arrays = _read_arrays(folder / _NETWORKS_FILE)
    estimator = _ESTIMATORS[about["estimator"]](**_restore_settings(about["settings"], arrays))
    tasks = _restore_tasks(about, arrays)
    m, p = len(tasks), tasks.n_variables
    shapes = dict.fromkeys(("graphs", "cpdags", "covariances", "coefficients"), (m, p, p))
    shapes["residual_variances"] = (m, p)
    for name, letters in _OPTIONAL_ARRAYS.items():
        if name in arrays:
            shapes[name] = tuple({"m": m, "p": p}[letter] for letter in letters)
    _check_shapes(arrays, shapes)
    edge_prior = _decode(EdgePrior, about["edge_prior"], arrays)
    estimator.store_graphs(tasks, arrays["graphs"], edge_prior, arrays["cpdags"])
    estimator.order_ = None if about["order"] is None else tuple(about["order"])
    estimator.agreement_ = _number(about["agreement"])
    estimator.random_state_ = about["settings"]["random_state"]
    for name in ("covariances", "coefficients", "residual_variances", *_OPTIONAL_ARRAYS):
        if name in arrays:
            setattr(estimator, f"{name}_", arrays[name])
    for name, kind in _OPTIONAL_TUPLES.items():
        if name in about:
            setattr(estimator, f"{name}_", _decode(kind, about[name], arrays))
    if isinstance(estimator, MTGBN):
        estimator.nu0_ = float(about["nu0"])
        estimator.converged_ = bool(about["converged"])
        estimator.stop_reason_ = about["stop_reason"]
        estimator.n_iter_ = int(about["n_iter"])
        estimator.warnings_ = tuple(about["warnings"])
        estimator.history_ = tuple(_decode(Iteration, each, {}) for each in about["history"])
        estimator.diagnostics_ = {n: _number(value) for n, value in about["diagnostics"].items()}
        estimator.sigma_h_ = arrays["sigma_h"]
        draws = {"draws.npz": _read_arrays, "draws.nc": _read_netcdf}
        for name in sorted(set(draws) & set(about["files"])):
            found = draws[name](folder / name)
            sigma_h = found.pop("sigma_h")
            estimator.draws_ = Draws(sigma_h, found, tasks.variables, about["sampler"])
    return estimator


def _restore_settings(settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    settings = dict(settings)
    if settings.get("knowledge") is not None:
        settings["knowledge"] = Knowledge(**settings["knowledge"])
    given = settings.get("edge_prior")
    parts = given if isinstance(given, list) else [given]
    parts = [arrays[part["array"]] if isinstance(part, dict) else _number(part) for part in parts]
    settings["edge_prior"] = tuple(parts) if isinstance(given, list) else parts[0]
    if "tol" in settings:
        settings["tol"] = float(settings["tol"])
    return settings


def _restore_tasks(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tasks:
    names = tuple(task["name"] for task in about["tasks"])
    m, p = len(names), len(about["variables"])
    incomplete = {t: arrays[f"incomplete_{t}"] for t in range(m) if f"incomplete_{t}" in arrays}
    shapes = {"scatters": (m, p, p), "ns": (m,), "centres": (m, p), "scales": (m, p)}
    shapes |= {f"incomplete_{t}": (int(arrays["n_rows"][t]), p) for t in incomplete}
    _check_shapes(arrays, shapes)
    return Tasks.from_statistics(
        scatters=arrays["scatters"],
        ns=arrays["ns"],
        variables=tuple(about["variables"]),
        names=names,
        n_rows=arrays.get("n_rows"),
        centres=arrays["centres"],
        scales=arrays["scales"],
        incomplete=incomplete,
    )


def _check_shapes(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _draws_npz(draws: Draws) -> bytes:
    return _npz({"sigma_h": draws.sigma_h, **draws.statistics})


def _draws_netcdf(draws: Draws) -> bytes:
    """NetCDF 3, which xarray, R and MATLAB read, with ArviZ's names of dimensions."""
    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w")
    for name, size in zip(
        ("chain", "draw", "variable", "variable_2"), draws.sigma_h.shape, strict=True
    ):
        file.createDimension(name, size)
    file.variable_names = json.dumps(draws.variables)
    sigma_h = file.createVariable("sigma_h", "f8", ("chain", "draw", "variable", "variable_2"))
    sigma_h[:] = draws.sigma_h
    for name, values in draws.statistics.items():
        kind = "f8" if values.dtype.kind == "f" else "i4"
        variable = file.createVariable(name, kind, ("chain", "draw"))
        variable[:] = values
        variable.numpy_dtype = (
            values.dtype.name
        )  # the format has neither booleans nor long integers
    file.flush()
    return buffer.getvalue()


def _read_netcdf(path: Path) -> dict[str, np.ndarray]:
    with netcdf_file(path, "r", mmap=False) as file:
        return {
            name: np.array(variable[:]).astype(getattr(variable, "numpy_dtype", b"f8").decode())
            for name, variable in file.variables.items()
        }


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is not what mtgbn wrote: {why}. Fit again, or restore the folder")


def _file_names(tasks: tuple[str, ...]) -> list[str]:
    """Names of tasks as names of files: harmless, short and different."""
    names = [re.sub(r"[^\w.-]+", "_", task).strip(".") for task in tasks]
    # File systems count bytes, up to 255; temporary names are a little longer.
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


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, Knowledge):
        return value.to_dict()
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return repr(value)
