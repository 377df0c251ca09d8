"""The whole road: painted images with confounds, extracted, learned, and compared with the truth."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from mtgbn import MTGBN, Tasks
from mtgbn.compare import compare_graphs
from mtgbn.compare.fitting import fit_groups
from mtgbn.fmri import extract_series, load_regions
from mtgbn.simulate import paint_images, simulate_bold_groups

load_confounds = pytest.importorskip("nilearn.interfaces.fmriprep").load_confounds
clean = pytest.importorskip("nilearn.signal").clean

# Regions, subjects, volumes and altered connections; 24 mm lie between neighbours.
SMALL = ((3, 3, 1), 8, 230, 2)
FULL = ((5, 3, 2), 12, 230, 3)


@pytest.fixture(
    scope="module",
    params=[pytest.param(SMALL, id="small"), pytest.param(FULL, id="full", marks=pytest.mark.slow)],
)
def road(request, tmp_path_factory):
    """The simulation, its images, and the folder of extracted series."""
    shape, n_subjects, n_volumes, n_altered = request.param
    folder = tmp_path_factory.mktemp("road")
    points = 24.0 * np.array(list(product(*map(range, shape)))) - (40, 30, 10)
    names = [f"r{number:02d}" for number in range(len(points))]
    table = pd.DataFrame(points, columns=["x", "y", "z"]).assign(name=names)
    table.to_csv(folder / "regions.tsv", sep="\t", index=False)
    simulation = simulate_bold_groups(
        n_subjects // 2,
        n_subjects // 2,
        n_volumes,
        regions=names,
        density=2.4 / (len(names) - 1),  # 1.2 edges per region
        strengths=(0.5, 0.8),
        n_altered=n_altered,
        snr=5,
        random_state=0,
    )
    images = paint_images(simulation, points, folder / "scans", random_state=1)
    extract_series(folder / "scans", load_regions(folder / "regions.tsv"), folder / "series")
    return simulation, images, folder


def series_of(folder, subject):
    (path,) = folder.rglob(f"{subject}*_timeseries.tsv")
    return pd.read_csv(path, sep="\t")


def confounds_of(image):
    return load_confounds(str(image), strategy=("motion", "wm_csf"), motion="full", wm_csf="basic")[
        0
    ]


def correlations(one, other):
    return [np.corrcoef(a, b)[0, 1] for a, b in zip(one.T, other.T, strict=True)]


def test_series_come_back(road):
    """Those that were painted, after nilearn's own cleaning, which takes a share of them as well."""
    simulation, images, folder = road
    found = []
    for subject, image, series in zip(simulation.subjects, images, simulation.series, strict=True):
        expected = clean(
            series,
            confounds=confounds_of(image),
            low_pass=0.08,
            high_pass=0.01,
            t_r=simulation.repetition_time,
            standardize="zscore_sample",
        )
        extracted = series_of(folder / "series", subject)
        assert list(extracted.columns) == simulation.regions
        found += correlations(extracted.to_numpy(), expected)
    assert min(found) > 0.99


def test_confounds_are_gone(road):
    """The painted motion and tissue signals explain nothing more; without regression they would."""
    simulation, images, folder = road
    regions = load_regions(folder / "regions.tsv")
    raw = extract_series(images[:1], regions, folder / "raw", confounds="none").folder
    subject = simulation.subjects[0]
    confounds = confounds_of(images[0]).fillna(0).to_numpy()
    confounds = clean(confounds, low_pass=0.08, high_pass=0.01, t_r=simulation.repetition_time)

    def explained(table):
        rows = table.to_numpy()
        fitted = confounds @ np.linalg.lstsq(confounds, rows, rcond=None)[0]
        return fitted.var(axis=0) / rows.var(axis=0)

    assert explained(series_of(folder / "series", subject)).max() < 0.01
    (path,) = raw.glob("*_timeseries.tsv")
    assert explained(pd.read_csv(path, sep="\t")).min() > 0.1


def test_altered_connections_head_the_table(road):
    simulation, _, folder = road
    tasks = Tasks.from_folder(folder / "series", effective_samples="bartlett")
    assert list(tasks.names) == simulation.subjects
    assert (tasks.ns < 0.6 * len(simulation.series[0])).all()
    found = fit_groups(
        tasks, simulation.groups == "patient", MTGBN(random_state=0, n_jobs=1), quiet=True
    )
    rows = compare_graphs(found.graphs_a, found.graphs_b, directed=False)
    altered = {tuple(sorted((each.source, each.target))) for each in simulation.altered}
    first = list(zip(rows.source.tolist(), rows.target.tolist(), strict=True))[: len(altered)]
    assert set(first) == altered
    assert rows.p_greater[: len(altered)].max() < 0.01
