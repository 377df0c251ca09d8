"""A store keeps finished arrays, and belongs to what they were computed from."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mtgbn._utils.stores import Store, estimator_settings, fingerprint
from mtgbn.errors import InputError

PRINT = fingerprint([np.arange(3.0)], [["a", "b"]], {"seed": 1})


def test_a_store_goes_on_where_it_was(tmp_path):
    path = tmp_path / "store.npz"
    store = Store(path, "fits", PRINT)
    assert store.values == {}
    store.add(3, np.array([1.0, 2.0]))
    store.add(1, np.array([3.0, 4.0]))
    again = Store(path, "fits", PRINT)
    assert {k: v.tolist() for k, v in again.values.items()} == {1: [3.0, 4.0], 3: [1.0, 2.0]}
    other = fingerprint([np.arange(3.0)], [["a", "b"]], {"seed": 2})
    with pytest.raises(InputError, match="fits of other data, settings or seed"):
        Store(path, "fits", other)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="not a file of fits"):
        Store(path, "fits", PRINT)


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Store(None, "fits", PRINT).add(0, np.zeros(1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda matrix: matrix,
        lambda matrix: (matrix, 2.0),
        lambda matrix: [pd.DataFrame(matrix)],
    ],
)
def test_settings_count_with_all_their_digits(wrap):
    """Arrays and frames leave out their middle and their last digits when they are shown."""
    one = np.full((40, 40), 0.3)
    far, near = one.copy(), one.copy()
    far[10, 20] = 0.01
    near[10, 20] += 1e-12
    prints = [fingerprint([], [], {"prior": wrap(each)}) for each in (one, one.copy(), far, near)]
    assert prints[0] == prints[1]
    assert prints[0] not in prints[2:]


def test_an_estimators_settings_are_what_decides_its_result():
    estimator = SimpleNamespace(get_params=lambda: {"tol": 0.1, "n_jobs": 2, "random_state": 3})
    assert estimator_settings(estimator) == {"estimator": "SimpleNamespace", "tol": 0.1}
