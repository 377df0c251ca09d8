"""A fitted estimator as plain data for ``result.json`` and arrays for ``networks.npz``, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn._utils.versions import versions_of
from mtgbn.learn.group_differences import GroupDifferences
from mtgbn.learn.joint import Iteration
from mtgbn.learn.min_strength import MinStrength
from mtgbn.learn.probabilities import EdgeDiagnostics
from mtgbn.learn.relatedness import Relatedness
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.results.estimators import ESTIMATORS, FittedEstimator
from mtgbn.search import Knowledge
from mtgbn.tasks import Tasks

# Versions of these decide the numbers of a fit.
PACKAGES = ("numpy", "scipy", "numba", "joblib")

Arrays = dict[str, np.ndarray]

# Attributes of estimators that are arrays, with their shapes in tasks (m) and variables (p). All fits
# have the first ones, only some have the others.
_NETWORK_ARRAYS = {
    "graphs": "mpp",
    "cpdags": "mpp",
    "covariances": "mpp",
    "coefficients": "mpp",
    "residual_variances": "mp",
}
_OPTIONAL_ARRAYS = {
    "membership": "m",
    "ties": "mp",
    "edge_probabilities": "mpp",
    "adjacency_probabilities": "mpp",
}
_OPTIONAL_TUPLES = {
    "relatedness": Relatedness,
    "edge_diagnostics": EdgeDiagnostics,
    "min_strength": MinStrength,
    "differences": GroupDifferences,
}
_NOT_IN_JSON = ("inf", "-inf", "nan")


def encode_estimator(
    estimator: FittedEstimator, reading: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Arrays]:
    """What ``result.json`` says about a fit, and the arrays that go beside it."""
    tasks = estimator.tasks_
    arrays = {name: getattr(estimator, f"{name}_") for name in _NETWORK_ARRAYS}
    arrays |= _task_arrays(tasks)
    settings = estimator.get_params()
    settings.pop("n_jobs", None)  # it does not change the result
    if "edge_prior" in settings:
        given = settings["edge_prior"]
        settings["edge_prior"] = _edge_prior_setting(given, tasks.variables, arrays)
    if isinstance(settings.get("knowledge"), Mapping):
        settings["knowledge"] = Knowledge.from_dict(settings["knowledge"])
    settings["random_state"] = estimator.random_state_
    versions = versions_of(PACKAGES)
    del versions["python"]  # it does not change the numbers
    rows = [None] * len(tasks) if tasks.n_rows is None else tasks.n_rows.tolist()
    about = {
        "estimator": type(estimator).__name__,
        "versions": versions,
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
    if hasattr(estimator, "nu0_"):  # the tasks were learned jointly
        arrays["sigma_h"] = estimator.sigma_h_
        about |= {
            "nu0": estimator.nu0_,
            "converged": estimator.converged_,
            "stop_reason": estimator.stop_reason_,
            "n_iter": estimator.n_iter_,
            "history": [plain(iteration._asdict()) for iteration in estimator.history_],
            "diagnostics": plain(estimator.diagnostics_),
        }
        if hasattr(estimator, "draws_"):
            about["sampler"] = estimator.draws_.sampler
    about["warnings"] = list(getattr(estimator, "warnings_", ()))
    for name in _OPTIONAL_ARRAYS:
        if hasattr(estimator, f"{name}_"):
            arrays[name] = getattr(estimator, f"{name}_")
    for name in _OPTIONAL_TUPLES:
        if hasattr(estimator, f"{name}_"):
            about[name] = _encode(name, getattr(estimator, f"{name}_"), arrays)
    if hasattr(estimator, "groups_"):
        about["groups"] = dict(estimator.groups_)
    if reading is not None:
        about["reading"] = plain(reading)
    return about, arrays


def decode_estimator(about: Mapping[str, Any], arrays: Arrays) -> FittedEstimator:
    """The fitted estimator that `encode_estimator` was given, without its draws."""
    kind = ESTIMATORS[about["estimator"]].make
    estimator: FittedEstimator = kind(**_restored_settings(about["settings"], arrays))
    tasks = _restored_tasks(about, arrays)
    sizes = {"m": len(tasks), "p": tasks.n_variables}
    _check_shapes(
        arrays,
        {
            name: tuple(sizes[letter] for letter in letters)
            for name, letters in (_NETWORK_ARRAYS | _OPTIONAL_ARRAYS).items()
            if name in arrays or name in _NETWORK_ARRAYS
        },
    )
    prior_type = PairKinds if "common" in about["edge_prior"] else EdgePrior
    edge_prior = _decode(prior_type, about["edge_prior"], arrays)
    estimator.store_graphs(tasks, arrays["graphs"], edge_prior, arrays["cpdags"])
    estimator.order_ = None if about["order"] is None else tuple(about["order"])
    estimator.agreement_ = _number(about["agreement"])
    estimator.random_state_ = about["settings"]["random_state"]
    for name in (*_NETWORK_ARRAYS, *_OPTIONAL_ARRAYS):
        if name in arrays:
            setattr(estimator, f"{name}_", arrays[name])
    for name, tuple_type in _OPTIONAL_TUPLES.items():
        if name in about:
            setattr(estimator, f"{name}_", _decode(tuple_type, about[name], arrays))
    if "groups" in about:
        estimator.groups_ = dict(about["groups"])
    estimator.warnings_ = tuple(about.get("warnings", ()))
    if "nu0" in about:
        estimator.nu0_ = float(about["nu0"])
        estimator.converged_ = bool(about["converged"])
        estimator.stop_reason_ = about["stop_reason"]
        estimator.n_iter_ = int(about["n_iter"])
        estimator.history_ = tuple(_decode(Iteration, each, {}) for each in about["history"])
        estimator.diagnostics_ = {n: _number(value) for n, value in about["diagnostics"].items()}
        estimator.sigma_h_ = arrays["sigma_h"]
    return estimator


def _task_arrays(tasks: Tasks) -> Arrays:
    names = ("scatters", "ns", "centres", "scales", "independent_shares")
    arrays = {name: getattr(tasks, name) for name in names}
    if tasks.n_rows is not None:
        arrays["n_rows"] = tasks.n_rows
    return arrays | {f"incomplete_{t}": rows for t, rows in sorted(tasks.incomplete.items())}


def _restored_tasks(about: Mapping[str, Any], arrays: Arrays) -> Tasks:
    names = tuple(task["name"] for task in about["tasks"])
    m, p = len(names), len(about["variables"])
    incomplete = {t: arrays[f"incomplete_{t}"] for t in range(m) if f"incomplete_{t}" in arrays}
    _check_shapes(arrays, {"scatters": (m, p, p), "ns": (m,), "centres": (m, p), "scales": (m, p)})
    _check_shapes(arrays, {f"incomplete_{t}": (int(arrays["n_rows"][t]), p) for t in incomplete})
    known = {name: arrays[name] for name in ("independent_shares",) if name in arrays}
    return Tasks.from_statistics(
        **known,
        scatters=arrays["scatters"],
        ns=arrays["ns"],
        variables=tuple(about["variables"]),
        names=names,
        n_rows=arrays.get("n_rows"),
        centres=arrays["centres"],
        scales=arrays["scales"],
        incomplete=incomplete,
    )


def _edge_prior_setting(given: Any, variables: tuple[str, ...], arrays: Arrays) -> Any:
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


def _restored_settings(saved: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    settings = dict(saved)
    if settings.get("knowledge") is not None:
        settings["knowledge"] = Knowledge(**settings["knowledge"])
    if "edge_prior" in settings:
        given = settings["edge_prior"]
        parts = given if isinstance(given, list) else [given]
        parts = [
            arrays[each["array"]] if isinstance(each, dict) else _number(each) for each in parts
        ]
        settings["edge_prior"] = tuple(parts) if isinstance(given, list) else parts[0]
    if "tol" in settings:
        settings["tol"] = float(settings["tol"])
    return settings


def _encode(name: str, values: Any, arrays: Arrays) -> dict[str, Any]:
    """A named tuple for JSON, field by field; fields that are arrays go among the arrays."""
    fields = {}
    for field, value in values._asdict().items():
        if isinstance(value, np.ndarray):
            arrays[f"{name}_{field}"] = value
            fields[field] = {"array": f"{name}_{field}"}
        else:
            fields[field] = plain(value)
    return fields


def _decode(tuple_type: type, fields: Mapping[str, Any], arrays: Arrays) -> Any:
    """The named tuple that `_encode` was given."""
    values = {}
    for field, value in fields.items():
        if isinstance(value, dict):
            value = arrays[value["array"]]
        values[field] = tuple(value) if isinstance(value, list) else _number(value)
    return tuple_type(**values)


def _check_shapes(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it, without NaN and infinity."""
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


def _number(value: Any) -> Any:
    """The number of which `plain` made text because JSON cannot hold it."""
    return float(value) if isinstance(value, str) and value in _NOT_IN_JSON else value
