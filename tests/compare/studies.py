"""Small groups of subjects with strong, known connections, on disk as a lab would have them."""

import json

import numpy as np

VARIABLES = ("v0", "v1", "v2", "v3", "v4")
# Quick fits; that they are good enough is seen from what they find.
QUICK = ("--draws", "8", "--restarts", "0", "--max-iter", "2", "--effective-samples", "none")


def series(seed, is_patient, rows=80):
    """All have v0 -> v2 <- v1; patients also v3 -> v4."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(rows, 5))
    data[:, 2] += data[:, 0] + data[:, 1]
    if is_patient:
        data[:, 4] += 1.5 * data[:, 3]
    return data


def write_series(folder, name, values, variables=VARIABLES, tr=2.0):
    lines = ["\t".join(variables), *("\t".join(map(repr, row)) for row in values.tolist())]
    path = folder / f"{name}_task-rest_timeseries.tsv"
    path.write_text("\n".join(lines) + "\n")
    if tr is not None:
        path.with_suffix(".json").write_text(json.dumps({"RepetitionTime": tr}))
    return path


def write_groups(folder, n_patients=5, n_controls=5):
    """Patients sub-01, ..., then controls; returns the table of participants."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["participant_id\tgroup"]
    for number in range(1, n_patients + n_controls + 1):
        is_patient = number <= n_patients
        write_series(folder, f"sub-{number:02d}", series(number, is_patient))
        rows.append(f"sub-{number:02d}\t{'patient' if is_patient else 'control'}")
    table = folder.parent / "participants.tsv"
    table.write_text("\n".join(rows) + "\n")
    return table
