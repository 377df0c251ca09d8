"""What series are worth after cleaning: against the spread of the correlations of cleaned noise."""

import json

import numpy as np
import pytest

from mtgbn import Tasks
from mtgbn.fmri.cleaning import clean, worth_of_noise
from mtgbn.tasks import effective_samples

pytest.importorskip("nilearn")

BAND = (0.01, 0.08)


def confounds_of(rng, volumes, n_confounds):
    """Motion drifts."""
    return rng.normal(size=(volumes, n_confounds)).cumsum(axis=0)


@pytest.mark.parametrize(
    ("volumes", "tr", "n_confounds", "band", "n_scrubbed"),
    [
        (180, 2.0, 0, BAND, 0),
        (180, 2.0, 20, BAND, 0),
        (180, 2.0, 10, BAND, 12),
        (120, 2.5, 10, (0, np.inf), 0),
    ],
)
def test_correlations_of_cleaned_noise_vary_as_if_there_were_so_many_rows(
    volumes, tr, n_confounds, band, n_scrubbed
):
    rng = np.random.default_rng(volumes + n_confounds)
    confounds = confounds_of(rng, volumes, n_confounds)
    kept = np.ones(volumes, dtype=bool)
    kept[rng.choice(np.arange(5, volumes - 5), n_scrubbed, replace=False)] = False
    how = {"tr": tr, "band": band}
    series = [
        clean(rng.normal(size=(volumes, 30)), confounds, kept, **how, standardise=True)
        for _ in range(12)
    ]
    pairs = np.triu_indices(30, 1)
    squares = [np.mean(np.corrcoef(each.T)[pairs] ** 2) for each in series]
    worth = worth_of_noise(confounds, kept, **how)
    # The formula takes the variances for known, which makes it a little too small.
    assert 1 / np.mean(squares) == pytest.approx(worth, rel=0.15)
    if band == BAND:  # why it is needed
        assert np.mean([effective_samples(each) for each in series]) > 1.2 * worth


def test_a_series_is_worth_no_more_than_the_file_beside_it_says(tmp_path):
    rng = np.random.default_rng(0)
    most = {"sub-1": [20.5, 11.0], "sub-2": [500.0], "sub-3": "n/a"}
    for name, runs in most.items():
        file = tmp_path / f"{name}_timeseries.tsv"
        rows = ["a\tb\tc", *("\t".join(map(str, row)) for row in rng.normal(size=(90, 3)))]
        file.write_text("\n".join(rows) + "\n")
        record = {"Runs": [{"EffectiveSamplesAtMost": each} for each in runs]}
        file.with_suffix(".json").write_text(json.dumps(record))
    with_file = Tasks.from_folder(tmp_path, effective_samples="bartlett")
    for file in tmp_path.glob("*.json"):
        file.unlink()
    without = Tasks.from_folder(tmp_path, effective_samples="bartlett")
    assert with_file.ns[0] == pytest.approx(31.5)
    np.testing.assert_array_equal(with_file.ns[1:], without.ns[1:])
    assert without.ns.min() > 60
    assert (Tasks.from_folder(tmp_path).ns == 89).all()
