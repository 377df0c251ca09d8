"""The statistics of a Tasks against numpy and pandas, its invariances, and its behaviour."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtgbn.errors import InputError
from mtgbn.tasks import Tasks

# Rounding of a few hundred additions, relative to the product of the standard deviations.
ROUNDING = 1e-12
quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_arrays(seed, rows=(12, 30, 7), p=4):
    """Correlated data with an offset and a unit of its own for each variable."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p))
    units = 10.0 ** rng.integers(-4, 5, size=p)
    return [(rng.normal(size=(r, p)) @ mixing + rng.normal(size=p)) * units for r in rows]


def assert_close_scatters(actual, expected, tolerance=ROUNDING):
    scale = np.sqrt(np.einsum("ijj->ij", expected))
    scale = scale[:, :, None] * scale[:, None, :]
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance)


def assert_close(actual, expected, tolerance=ROUNDING):
    assert actual.names == expected.names
    assert actual.variables == expected.variables
    np.testing.assert_allclose(actual.ns, expected.ns, rtol=1e-15)
    assert_close_scatters(actual.scatters, expected.scatters, tolerance)


@pytest.mark.parametrize("seed", range(5))
def test_scatter_is_covariance_times_n(seed):
    arrays = random_arrays(seed)
    tasks = Tasks.from_arrays(arrays)
    np.testing.assert_array_equal(tasks.ns, [11, 29, 6])
    np.testing.assert_array_equal(tasks.n_rows, [12, 30, 7])
    assert_close_scatters(
        tasks.scatters, np.array([np.cov(x, rowvar=False) * (len(x) - 1) for x in arrays])
    )
    assert_close_scatters(
        tasks.scatters, np.array([pd.DataFrame(x).cov() * (len(x) - 1) for x in arrays])
    )


def test_without_centring_the_mean_is_zero():
    arrays = random_arrays(0)
    tasks = Tasks.from_arrays(arrays, centre=False)
    np.testing.assert_array_equal(tasks.ns, [12, 30, 7])
    assert_close_scatters(tasks.scatters, np.array([x.T @ x for x in arrays]))
    assert Tasks.from_arrays([[[1.0, 2.0]]], centre=False).scatters.tolist() == [[[1, 2], [2, 4]]]


def test_standardised_scatter_is_correlation_times_n():
    arrays = random_arrays(1)
    tasks = Tasks.from_arrays(arrays, standardise=True)
    expected = [np.corrcoef(x, rowvar=False) * (len(x) - 1) for x in arrays]
    assert_close_scatters(tasks.scatters, np.array(expected))
    for scatter, n in zip(tasks.scatters, tasks.ns, strict=True):
        np.testing.assert_array_equal(np.diag(scatter), n)


@pytest.mark.parametrize(
    "effective", [[6, 7.5, 3], np.array([6, 7.5, 3]), {"b": 7.5, "a": 6, "c": 3}]
)
def test_effective_samples_scale_the_scatter(effective):
    arrays = random_arrays(2)
    full = Tasks.from_arrays(arrays, names=["a", "b", "c"])
    fewer = Tasks.from_arrays(arrays, names=["a", "b", "c"], effective_samples=effective)
    np.testing.assert_array_equal(fewer.ns, [6, 7.5, 3])
    np.testing.assert_array_equal(fewer.n_rows, full.n_rows)
    factors = np.array([6 / 12, 7.5 / 30, 3 / 7])
    assert_close_scatters(fewer.scatters, full.scatters * factors[:, None, None])


def test_effective_samples_with_standardise_keeps_n_on_the_diagonal():
    tasks = Tasks.from_arrays(random_arrays(3), effective_samples=5, standardise=True)
    np.testing.assert_array_equal(tasks.ns, 5)
    np.testing.assert_array_equal(np.einsum("ijj->ij", tasks.scatters), 5)


def test_integer_data_has_an_exact_scatter():
    tasks = Tasks.from_arrays([[[1, 2], [3, 0], [2, 1], [2, 5]]])
    assert tasks.scatters.tolist() == [[[2, -2], [-2, 14]]]


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32, object])
def test_every_kind_of_real_number_is_read(kind):
    values = np.array([[1, 0], [0, 1], [1, 1], [0, 1]]).astype(kind)
    assert Tasks.from_arrays([values]) == Tasks.from_arrays([values.astype(float)])


def test_scatters_are_exactly_symmetric_and_float64():
    tasks = Tasks.from_arrays(random_arrays(4, rows=(50,), p=40))
    assert tasks.scatters.dtype == tasks.ns.dtype == np.float64
    np.testing.assert_array_equal(tasks.scatters, tasks.scatters.transpose(0, 2, 1))


@quick
@given(seeds, st.permutations(range(4)))
def test_column_order_of_later_frames_is_irrelevant(seed, order):
    frames = [pd.DataFrame(x, columns=list("abcd")) for x in random_arrays(seed)]
    permuted = [frames[0], *(frame.iloc[:, order] for frame in frames[1:])]
    assert Tasks.from_frames(permuted) == Tasks.from_frames(frames)


@quick
@given(seeds, st.floats(-1e6, 1e6))
def test_shifting_a_column_changes_nothing(seed, shift):
    rng = np.random.default_rng(seed)
    # Multiples of 2^-20 stay exact under the shift, so only the code can lose precision.
    arrays = [np.round(rng.normal(size=(r, 3)) * 2**20) / 2**20 for r in (9, 20)]
    shifted = [x + np.array([0, np.round(shift), 0]) for x in arrays]
    assert_close(Tasks.from_arrays(shifted), Tasks.from_arrays(arrays))


@quick
@given(seeds, st.permutations(range(3)))
def test_order_of_tasks_is_only_an_order(seed, order):
    arrays = dict(zip("abc", random_arrays(seed), strict=True))
    names = ["abc"[i] for i in order]
    permuted = Tasks.from_any({name: arrays[name] for name in names})
    assert permuted == Tasks.from_any(arrays)[names]


@quick
@given(seeds)
def test_order_of_rows_is_irrelevant(seed):
    rng = np.random.default_rng(seed)
    arrays = random_arrays(seed)
    assert_close(Tasks.from_arrays([rng.permutation(x) for x in arrays]), Tasks.from_arrays(arrays))


@quick
@given(seeds, st.lists(st.floats(-150, 150), min_size=4, max_size=4))
def test_standardise_makes_units_irrelevant(seed, exponents):
    arrays = [np.random.default_rng(seed).normal(size=(r, 4)) for r in (8, 15)]
    other_units = [x * 10.0 ** np.array(exponents) for x in arrays]
    assert_close(
        Tasks.from_arrays(other_units, standardise=True),
        Tasks.from_arrays(arrays, standardise=True),
    )


@pytest.mark.parametrize("offset", [1e9, 2.0**40 + 1 / 3])
def test_a_large_offset_does_not_destroy_precision(offset):
    # Multiples of 2^-12 are exact beside the offset, so only the code can lose precision.
    offset = np.round(offset * 2**12) / 2**12
    noise = np.round(np.random.default_rng(0).normal(size=(5000, 3)) * 2**12) / 2**12
    assert_close(Tasks.from_arrays([noise + offset]), Tasks.from_arrays([noise]))


def test_sufficient_statistics_round_trip():
    tasks = Tasks.from_arrays(random_arrays(5), variables=list("wxyz"), names=["a", "b", "c"])
    again = Tasks(tasks.scatters, tasks.ns, tasks.variables, tasks.names)
    assert again == tasks
    assert again.n_rows is None


def test_given_scatters_are_symmetrised_and_may_be_singular():
    scatter = np.array([[4.0, 2.0 + 1e-10], [2.0, 1.0]])
    tasks = Tasks([scatter], [0.5])
    assert tasks.scatters[0, 0, 1] == tasks.scatters[0, 1, 0]
    single = np.cov(np.random.default_rng(0).normal(size=(5, 30)), rowvar=False)
    Tasks([single.astype(np.float32)], [4])


def test_pooled_scatter_is_the_sum():
    tasks = Tasks.from_arrays(random_arrays(6))
    scatter, n = tasks.pooled_scatter()
    np.testing.assert_allclose(scatter, sum(tasks.scatters))
    assert n == 11 + 29 + 6


@pytest.fixture
def tasks():
    return Tasks.from_arrays(random_arrays(7), list("wxyz"), ["sub-01", "sub-02", "sub-03"])


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("sub-02", [1]),
        (-1, [2]),
        (np.int64(1), [1]),
        (np.str_("sub-01"), [0]),
        (slice(1, None), [1, 2]),
        (["sub-03", "sub-01"], [2, 0]),
        ([2, "sub-01"], [2, 0]),
        (np.array([2, 0]), [2, 0]),
        ([True, False, True], [0, 2]),
        (np.array([False, True, False]), [1]),
    ],
)
def test_selecting_tasks(tasks, selection, expected):
    chosen = tasks[selection]
    assert chosen.names == tuple(tasks.names[i] for i in expected)
    np.testing.assert_array_equal(chosen.scatters, tasks.scatters[expected])
    np.testing.assert_array_equal(chosen.ns, tasks.ns[expected])
    np.testing.assert_array_equal(chosen.n_rows, tasks.n_rows[expected])
    assert not chosen.scatters.flags.writeable


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("sub-1", "no task named 'sub-1'.*'sub-01'"),
        (["sub-01", "zzz"], "'zzz'.*the tasks are 'sub-01', 'sub-02', 'sub-03'"),
        ([0, 0], "duplicate task name 'sub-01'"),
        ([True, False], "2 entries for 3 tasks"),
        ([], "no tasks"),
        (slice(0, 0), "no tasks"),
        (1.5, "cannot select tasks with 1.5"),
        ([1.5], "1.5 is neither"),
        (True, "True is neither"),
    ],
)
def test_bad_selections(tasks, selection, message):
    with pytest.raises(InputError, match=message):
        tasks[selection]


def test_position_out_of_range_ends_a_loop(tasks):
    with pytest.raises(IndexError, match="no task number 3"):
        tasks[3]
    assert [task.names for task in tasks] == [("sub-01",), ("sub-02",), ("sub-03",)]
    assert "sub-02" in tasks
    assert "sub-2" not in tasks


def test_select_variables(tasks):
    chosen = tasks.select_variables(["z", "w"])
    assert chosen.variables == ("z", "w")
    np.testing.assert_array_equal(chosen.scatters, tasks.scatters[:, [3, 0]][:, :, [3, 0]])
    with pytest.raises(InputError, match="no variable named 'v'"):
        tasks.select_variables(["z", "v"])
    with pytest.raises(InputError, match="fewer than two variables"):
        tasks.select_variables(["z"])
    with pytest.raises(InputError, match="single string 'zw'"):
        tasks.select_variables("zw")
    with pytest.raises(InputError, match="duplicate variable name 'z'"):
        tasks.select_variables(["z", "z"])


def test_size_and_repr(tasks):
    assert len(tasks) == 3
    assert tasks.n_variables == 4
    assert repr(tasks) == "Tasks(3 tasks, 4 variables, n = 6 to 29)"
    assert repr(tasks[1]) == "Tasks(1 task, 4 variables, n = 29)"


def test_equality(tasks):
    assert tasks == tasks[:]
    assert tasks != tasks[::-1]
    assert tasks != tasks.select_variables(list("wxzy"))
    assert tasks != Tasks(tasks.scatters, tasks.ns + 1, tasks.variables, tasks.names)
    assert tasks != Tasks(tasks.scatters * 2, tasks.ns, tasks.variables, tasks.names)
    assert tasks != "tasks"


def test_immutable_and_independent_of_its_input():
    data = random_arrays(8)
    tasks = Tasks.from_arrays(data, centre=False)
    before = tasks.scatters.copy()
    data[0][:] = 0
    np.testing.assert_array_equal(tasks.scatters, before)
    scatters = before.copy()
    given_scatters = Tasks(scatters, tasks.ns)
    scatters[:] = 0
    assert given_scatters.scatters.any()
    for array in (tasks.scatters, tasks.ns, tasks.n_rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError, match="immutable"):
        tasks.ns = tasks.ns * 2
    with pytest.raises(AttributeError, match="immutable"):
        del tasks.ns


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda tasks: pickle.loads(pickle.dumps(tasks))]
)
def test_copies_are_equal_and_locked(tasks, clone):
    again = clone(tasks)
    assert again == tasks
    assert not again.scatters.flags.writeable
    np.testing.assert_array_equal(again.n_rows, tasks.n_rows)


# What was subtracted and divided by.


def restored(tasks, t, x):
    """The scatter of one task by its own centre and scale."""
    alike = (x - tasks.centres[t]) / tasks.scales[t]
    return alike.T @ alike


def test_centres_and_scales_of_raw_and_of_centred_data():
    arrays = random_arrays(9)
    raw, centred = Tasks.from_arrays(arrays, centre=False), Tasks.from_arrays(arrays)
    for tasks in (raw, centred):
        assert tasks.centres.shape == tasks.scales.shape == (3, 4)
        np.testing.assert_array_equal(tasks.scales, 1)
        for t, x in enumerate(arrays):
            assert_close_scatters(restored(tasks, t, x)[None], tasks.scatters[t : t + 1])
    np.testing.assert_array_equal(raw.centres, 0)
    np.testing.assert_allclose(centred.centres, [x.mean(axis=0) for x in arrays], rtol=1e-12)


@pytest.mark.parametrize("centre", [True, False])
def test_scales_of_standardised_data_are_standard_deviations(centre):
    arrays = random_arrays(10)
    tasks = Tasks.from_arrays(arrays, centre=centre, standardise=True)
    for t, x in enumerate(arrays):
        deviations = x.std(axis=0, ddof=1) if centre else np.sqrt((x**2).mean(axis=0))
        np.testing.assert_allclose(tasks.scales[t], deviations, rtol=1e-12)
        assert_close_scatters(restored(tasks, t, x)[None], tasks.scatters[t : t + 1])
    assert tasks.centres.any() == centre


@pytest.mark.parametrize("standardise", [True, False])
def test_effective_samples_count_rows_and_leave_centres_and_scales(standardise):
    arrays = random_arrays(11)
    sizes = [6.0, 20.0, 5.5]
    tasks = Tasks.from_arrays(arrays, standardise=standardise, effective_samples=sizes)
    full = Tasks.from_arrays(arrays, standardise=standardise)
    np.testing.assert_array_equal(tasks.centres, full.centres)
    for t, (x, size) in enumerate(zip(arrays, sizes, strict=True)):
        expected = restored(tasks, t, x) * size / len(x)
        assert_close_scatters(expected[None], tasks.scatters[t : t + 1])
        deviations = x.std(axis=0) if standardise else 1
        np.testing.assert_allclose(tasks.scales[t], deviations, rtol=1e-12)


@given(seeds)
@quick
def test_centres_and_scales_follow_a_change_of_units(seed):
    rng = np.random.default_rng(seed)
    arrays = random_arrays(seed)
    units, offset = rng.uniform(0.1, 10, 4), rng.normal(size=4)
    one = Tasks.from_arrays(arrays, standardise=True)
    other = Tasks.from_arrays([x * units + offset for x in arrays], standardise=True)
    np.testing.assert_allclose(other.scales, one.scales * units, rtol=1e-9)
    # A mean can be near zero, so it is known relative to the standard deviation.
    difference = other.centres - (one.centres * units + offset)
    np.testing.assert_allclose(difference / other.scales, 0, atol=1e-9)


def test_an_offset_much_larger_than_the_spread_is_found():
    offset = np.array([1e12, 0])
    x = np.random.default_rng(12).normal(size=(50, 2))
    tasks = Tasks.from_arrays([x + offset], standardise=True)
    centre = (x + offset).astype(np.longdouble).mean(axis=0)
    np.testing.assert_allclose(tasks.centres[0], centre.astype(float), rtol=1e-15)
    np.testing.assert_allclose(tasks.scales[0], x.std(axis=0, ddof=1), rtol=1e-4)


def test_given_scatters_have_no_centres_and_unit_scales(tasks):
    given_scatters = Tasks(tasks.scatters, tasks.ns)
    np.testing.assert_array_equal(given_scatters.centres, np.zeros((3, 4)))
    np.testing.assert_array_equal(given_scatters.scales, np.ones((3, 4)))


def test_centres_and_scales_stay_with_their_tasks_and_variables():
    arrays = random_arrays(13)
    tasks = Tasks.from_arrays(arrays, list("wxyz"), ["a", "b", "c"], standardise=True)
    chosen = tasks[["c", "a"]].select_variables(["z", "w"])
    np.testing.assert_array_equal(chosen.centres, tasks.centres[[2, 0]][:, [3, 0]])
    np.testing.assert_array_equal(chosen.scales, tasks.scales[[2, 0]][:, [3, 0]])
    for same in (copy.copy(chosen), copy.deepcopy(chosen), pickle.loads(pickle.dumps(chosen))):
        np.testing.assert_array_equal(same.centres, chosen.centres)
        np.testing.assert_array_equal(same.scales, chosen.scales)
        for array in (same.centres, same.scales):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_frames_have_the_centres_of_their_own_columns():
    arrays = random_arrays(14, rows=(12, 30))
    frames = {
        "a": pd.DataFrame(arrays[0], columns=list("wxyz")),
        "b": pd.DataFrame(arrays[1], columns=list("wxyz"))[list("zxwy")],
    }
    tasks = Tasks.from_frames(frames, standardise=True)
    expected = Tasks.from_arrays(arrays, list("wxyz"), ["a", "b"], standardise=True)
    np.testing.assert_allclose(tasks.centres, expected.centres, rtol=1e-12)
    np.testing.assert_allclose(tasks.scales, expected.scales, rtol=1e-12)


def test_import_is_light():
    code = "import sys, mtgbn.tasks; print({'scipy', 'pandas', 'numba'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
