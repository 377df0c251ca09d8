"""The command lines that repeat a fit or a comparison."""

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtgbn.compare.templates import find_templates
from mtgbn.learn import MTGBN
from mtgbn.results.estimators import ESTIMATORS, FittedEstimator

_FLAGS = {
    "inference": "--inference",
    "nu0": "--nu0",
    "edge_prior": "--edge-prior",
    "min_strength": "--min-strength",
    "structure_prior": "--structure-prior",
    "search": "--search",
    "n_restarts": "--restarts",
    "tabu": "--tabu",
    "candidates": "--candidates",
    "n_draws": "--draws",
    "n_rounds": "--rounds",
    "tol": "--tol",
    "max_iter": "--max-iter",
}
_DESIGN_FLAGS = {
    "formula": "--formula",
    "test": "--test",
    "contrast": "--contrast",
    "blocks": "--blocks",
    "n_permutations": "--permutations",
}
_READING_FLAGS = {
    "pattern": "--pattern",
    "task": "--task-column",
    "effective_samples": "--effective-samples",
}

# Names of tables that a reader has to replace.
_TEMPLATES, _SETS = "TEMPLATES.tsv", "SETS.tsv"


def fit_command(estimator: FittedEstimator, reading: Mapping[str, Any]) -> str | None:
    """The line that repeats a fit; None if a command line cannot give its seed, prior or groups."""
    seed, edge_prior = estimator.random_state_, getattr(estimator, "edge_prior", None)
    has_matrix_and_similarity = isinstance(edge_prior, tuple) and np.ndim(edge_prior[0]) == 2
    has_groups = hasattr(estimator, "groups_")
    if not isinstance(seed, int) or has_matrix_and_similarity or has_groups:
        return None
    words = ["mtgbn", "fit", "DATA", "OUT"]
    method = ESTIMATORS[type(estimator).__name__].method
    if method != "mtgbn":  # the default
        words += ["--method", method]
    words += _learning(type(estimator), estimator.get_params())
    if not getattr(estimator, "shared_directions", True):
        words.append("--own-directions")
    if getattr(estimator, "knowledge", None) is not None:
        words += ["--knowledge", "KNOWLEDGE.json"]
    return shlex.join([*words, *_reading(reading), "--seed", str(seed)])


def compare_command(about: Mapping[str, Any], methods: list[str]) -> str | None:
    """The line that repeats a comparison, from its comparison.json; None if that lacks the settings."""
    settings = about.get("settings")
    if not isinstance(settings, dict) or "seed" not in settings:
        return None
    words = ["mtgbn", "compare", "DATA", "OUT", "--group", about["participants_table"]]
    if settings["participants_column"] is not None:
        words += ["--column", settings["participants_column"]]
    if "subject" in settings:
        words += ["--subject", settings["subject"], "--controls", settings["groups"][0]]
        words += _design(settings.get("design", {}), None)
    elif "design" in settings:
        words += _design(settings["design"], settings["groups"])
    else:
        words += ["--paper", "--groups", *settings["groups"]]
    templates = _templates_word(settings)
    words += [] if templates is None else ["--templates", templates]
    words += _learning(MTGBN, settings["learner"])
    if settings.get("fitting", "separate") != "separate":
        words += ["--fitting", settings["fitting"]]
    permutation = (about.get("tests") or {}).get("permutation")
    if permutation:
        words += ["--relabellings", str(permutation["relabellings"])]
    if methods:
        words += ["--methods", ",".join(methods)]
        per_subject = about["density"]["edges_per_subject"]
        words += ["--density", str(per_subject)] if isinstance(per_subject, int) else []
    return shlex.join([*words, *_reading(settings["reading"]), "--seed", str(settings["seed"])])


def compare_lines(about: Mapping[str, Any]) -> str | None:
    """The lines of Python that repeat a comparison by a design; None if its settings are unknown."""
    settings = about.get("settings")
    if not isinstance(settings, dict) or "seed" not in settings or "design" not in settings:
        return None
    if any(np.ndim(value) == 2 for value in settings["learner"].values()):
        return None  # a matrix of probabilities, which the command reads from a file
    learner = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings["learner"].items()
    }
    templates = _templates_word(settings)
    groups = settings["groups"]
    selection = {
        "column": settings["participants_column"],
        "groups": tuple(groups) if groups is not None and len(groups) == 2 else None,
        "templates": templates,
    }
    design = {name: value for name, value in settings["design"].items() if value is not None}
    if "sets" in design:
        design["sets"] = _SETS
    arguments = {
        "selection": _call("Selection", {k: v for k, v in selection.items() if v is not None}),
        "reading": repr(settings["reading"]),
        "parameters": repr(learner) if learner else None,
        "design": repr(design),
        "seed": repr(settings["seed"]),
    }
    lines = [f"    {name}={text}," for name, text in arguments.items() if text is not None]
    return "\n".join(
        [
            "from mtgbn.workflows.compare import Selection, compare_folder",
            "",
            f"data, out, participants = 'DATA', 'OUT', {about['participants_table']!r}",
            "run = compare_folder(",
            "    data,",
            "    out,",
            "    participants,",
            *lines,
            ")",
            "print(*run.summary, sep='\\n')",
            "table = run.study.to_frame()",
        ]
    )


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in Python."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _templates_word(settings: Mapping[str, Any]) -> str | None:
    """What --templates was; None for the default, and a name to replace for a table."""
    variables = [name for names in settings["templates"].values() for name in names]
    usual, _ = find_templates(variables)
    if {key: list(names) for key, names in usual.items()} == settings["templates"]:
        return None
    return "all" if list(settings["templates"]) == ["all"] else _TEMPLATES


def _design(design: Mapping[str, Any], groups: list[str] | None) -> list[str]:
    """The question that a design answers; three groups or more are all groups of the table."""
    words = ["--groups", *groups] if groups is not None and len(groups) == 2 else []
    for name, flag in _DESIGN_FLAGS.items():
        if design.get(name) is not None:
            words += [flag, str(design[name])]
    if design.get("sets"):
        words += ["--sets", _SETS]
    return [*words, "--probabilities"] if design.get("probabilities") else words


def _learning(kind: type, settings: Mapping[str, Any]) -> list[str]:
    defaults = kind().get_params()
    words = []
    for name, value in settings.items():
        if name not in _FLAGS or repr(value) == repr(defaults[name]):
            continue
        if np.ndim(value) == 2:
            value = "PROBABILITIES.tsv"
        is_pair = isinstance(value, tuple | list)
        words += [_FLAGS[name], ",".join(map(str, value)) if is_pair else str(value)]
    return words


def _reading(reading: Mapping[str, Any]) -> list[str]:
    words = []
    if reading.get("standardise"):
        words.append("--standardise")
    if reading.get("missing", "error") != "error":
        words += ["--missing", str(reading["missing"])]
    for name, flag in _READING_FLAGS.items():
        if reading.get(name) is not None:
            words += [flag, str(reading[name])]
    return words
