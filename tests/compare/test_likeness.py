"""Distances, the map and clusters: one cloud is one cluster, several clouds are found."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from mtgbn.compare.likeness import subject_likeness


def clouds(seed, n_clouds, m=40, n_connections=60):
    """Strengths of subjects from correlated normal clouds, with sampling errors."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_connections, n_connections)) / np.sqrt(n_connections)
    strengths = 0.3 * rng.normal(size=(m, n_connections)) @ mixing
    which = np.arange(m) % n_clouds
    if n_clouds > 1:
        strengths += 0.45 * rng.normal(size=(n_clouds, n_connections))[which]
    errors = 0.1 * rng.normal(size=strengths.shape)
    return strengths, strengths + errors, np.full(strengths.shape, 0.01), which


def test_distances_and_the_map_of_points_in_a_plane():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(12, 2)) * [3, 1]
    strengths = plane @ np.linalg.qr(rng.normal(size=(7, 2)))[0].T
    found = subject_likeness(strengths, random_state=0)
    expected = squareform(pdist(plane)) / np.sqrt(7)
    np.testing.assert_allclose(found.distances, expected, atol=1e-7)
    # A map in two dimensions shows all of it: it is the plane, turned.
    np.testing.assert_allclose(squareform(pdist(found.positions)), expected, atol=1e-7)
    assert found.explained == pytest.approx(1)
    assert found.positions[:, 0].std() > found.positions[:, 1].std()


def test_sampling_errors_are_subtracted():
    true, measured, variances, _ = clouds(1, 1, m=30, n_connections=2000)
    upper = np.triu_indices(30, 1)
    expected = squareform(pdist(true))[upper] / np.sqrt(2000)
    found = subject_likeness(measured, variances).distances[upper]
    np.testing.assert_allclose(found, expected, rtol=0.05)
    without = subject_likeness(measured).distances[upper]
    assert np.abs(found - expected).mean() < np.abs(without - expected).mean() / 5
    errors_only = 0.1 * np.random.default_rng(2).normal(size=(20, 5000))
    assert subject_likeness(errors_only, np.full((20, 5000), 0.01)).distances.mean() < 0.01


def test_one_cloud_is_one_cluster_and_two_are_two():
    counts = {
        n: [
            subject_likeness(*clouds(seed, n)[1:3], random_state=seed).n_clusters
            for seed in range(50)
        ]
        for n in (1, 2, 3)
    }
    assert np.mean(np.array(counts[1]) == 1) >= 0.9
    assert np.mean(np.array(counts[2]) == 2) >= 0.9
    assert np.mean(np.array(counts[3]) == 3) >= 0.9


def test_the_level_is_kept_in_few_dimensions():
    """Three connections, where the simulated points have as many dimensions as the subjects."""
    rng = np.random.default_rng(3)
    found = [
        subject_likeness(rng.normal(size=(30, 3)) * [3, 1, 1], random_state=k).n_clusters > 1
        for k in range(60)
    ]
    assert np.mean(found) <= 0.15  # more than nine of 60 at level .05: once in a thousand


def test_members_are_those_of_the_clouds_and_order_does_not_matter():
    _, measured, variances, which = clouds(4, 2, m=31)
    found = subject_likeness(measured, variances, random_state=0)
    assert np.bincount(found.clusters).tolist() == [16, 15]
    assert len(set(zip(found.clusters.tolist(), which.tolist(), strict=True))) == 2
    assert "2 clusters of 16, 15" in found.in_words()
    order = np.random.default_rng(0).permutation(31)
    again = subject_likeness(measured[order], variances[order], random_state=0)
    np.testing.assert_array_equal(again.clusters, found.clusters[order])


def test_few_or_equal_subjects_have_no_clusters():
    few = subject_likeness(np.random.default_rng(0).normal(size=(6, 9)))
    assert few.n_clusters == 1
    assert "too few" in few.in_words()
    same = subject_likeness(np.ones((20, 9)))
    assert same.n_clusters == 1
    assert (same.distances == 0).all()
