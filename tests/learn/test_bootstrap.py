"""The bootstrap: strong edges are found again, rows are drawn as promised, labels are kept."""

import warnings

import numpy as np
import pytest
from scipy.stats import chisquare

from mtgbn import SIG, Tasks
from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import bootstrap_edges
from mtgbn.learn.bootstrap import automatic_length, draw_rows

pandas = pytest.importorskip("pandas")


def collider(m=2, n=150, seed=0):
    """0 -> 2 <- 1, strong, and 3 on its own."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((m, n, 4))
    rows[:, :, 2] += 1.5 * rows[:, :, 0] + 1.5 * rows[:, :, 1]
    return rows


class Keeper:
    """Learns nothing, remembers what it was given."""

    seen: list = []  # noqa: RUF012, meant to be shared by the copies

    def fit(self, tasks):
        self.seen.append(tasks)
        self.graphs_ = np.zeros((len(tasks), tasks.n_variables, tasks.n_variables), dtype=bool)
        return self


@pytest.fixture
def keeper():
    Keeper.seen.clear()
    return Keeper()


def test_strong_edges_are_frequent_and_absent_ones_rare():
    found = bootstrap_edges(collider(), SIG(), n_resamples=30, random_state=0)
    assert found.n_resamples == 30
    edges, joined = found.edge_frequencies, found.adjacency_frequencies
    assert joined[:, [0, 1], 2].min() == 1
    assert edges[:, [0, 1], 2].min() > 0.9  # a collider has its directions
    assert joined[:, 3].max() < 0.5
    assert joined[:, 3].mean() < 0.2
    np.testing.assert_allclose(joined, edges + np.swapaxes(edges, 1, 2))
    assert (np.diagonal(joined, axis1=1, axis2=2) == 0).all()


def test_an_undirected_edge_counts_half_each_way():
    rows = np.random.default_rng(0).standard_normal((1, 100, 2))
    rows[:, :, 1] += 2 * rows[:, :, 0]
    found = bootstrap_edges(rows, SIG(), n_resamples=5, random_state=0)
    np.testing.assert_array_equal(found.edge_frequencies[0], [[0, 0.5], [0.5, 0]])
    np.testing.assert_array_equal(found.adjacency_frequencies[0], [[0, 1], [1, 0]])


def test_prior_knowledge_decides_directions():
    rows = np.random.default_rng(0).standard_normal((1, 100, 2))
    rows[:, :, 1] += 2 * rows[:, :, 0]
    estimator = SIG(knowledge={"required": [("x0", "x1")]})
    found = bootstrap_edges(rows, estimator, n_resamples=5, random_state=0)
    np.testing.assert_array_equal(found.edge_frequencies[0], [[0, 1], [0, 0]])


def test_the_seed_decides_whatever_n_jobs():
    rows = collider(n=25, seed=3)
    one, two, other = (
        bootstrap_edges(rows, SIG(), n_resamples=8, random_state=seed, n_jobs=jobs).edge_frequencies
        for seed, jobs in ((5, 1), (5, 2), (6, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_resamples_are_rows_of_the_task(keeper):
    """Of tasks with their own values, the mean and variance over resamples are known."""
    n = 40
    rows = np.random.default_rng(0).standard_normal((2, n, 3))
    rows[1] += 100
    bootstrap_edges(rows, keeper, n_resamples=400, random_state=1)
    centres = np.array([tasks.centres for tasks in Keeper.seen])
    expected = rows.mean(axis=1)
    deviations = rows.std(axis=1) / np.sqrt(n)
    # Means of 400 resamples; six of them, so 4.5 standard errors have a false alarm in 10^4 runs.
    assert (np.abs(centres.mean(axis=0) - expected) < 4.5 * deviations / 20).all()
    np.testing.assert_allclose(centres.std(axis=0), deviations, rtol=0.2)
    assert all((tasks.ns == n - 1).all() for tasks in Keeper.seen)


@pytest.mark.parametrize(("n", "length"), [(20, 4), (23, 5), (7, 7), (10, 1)])
def test_blocks_are_consecutive_rows_and_every_row_is_as_probable(n, length):
    rng = np.random.default_rng(0)
    counts = np.zeros(n)
    for _ in range(1000):
        rows = draw_rows(rng, n, length)
        assert len(rows) == n
        steps = np.diff(rows) % n
        inside = np.arange(1, n) % length != 0
        assert (steps[inside] == 1).all()
        counts += np.bincount(rows, minlength=n)
    # Rows of a block come together, so counts vary up to `length` times as much as independent ones.
    assert chisquare(counts / length).pvalue > 1e-4


def test_blocks_keep_neighbours_together(keeper):
    """A column that is the one before, shifted by a row, stays so within blocks."""
    series = np.random.default_rng(0).standard_normal(301)
    rows = np.column_stack([series[1:], series[:-1]])
    variance = []
    for length in (None, 50):
        Keeper.seen.clear()
        smooth = np.cumsum(rows, axis=0)
        bootstrap_edges([smooth], keeper, n_resamples=100, random_state=0, block_length=length)
        variance.append(np.var([tasks.centres[0, 0] for tasks in Keeper.seen]))
    assert variance[1] > 10 * variance[0]  # of a mean of rows that are much alike


def test_automatic_length_grows_with_autocorrelation():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((1000, 3))
    assert automatic_length(noise) <= 3
    smooth = noise.copy()
    for k in range(1, len(smooth)):
        smooth[k] += 0.8 * smooth[k - 1]
    # (6 0.64 / 0.36^2)^(1/3) 1000^(1/3)
    assert automatic_length(smooth) == pytest.approx(31, abs=4)
    assert automatic_length(np.cumsum(noise[:30], axis=0)) <= 10
    lacking = smooth.copy()
    lacking[::50] = np.nan
    assert automatic_length(lacking) > 15
    assert automatic_length(np.ones((5, 2))) == 1


def test_frames_keep_their_labels():
    rows = collider()
    frames = {
        "a": pandas.DataFrame(rows[0], columns=list("wxyz")),
        "b": pandas.DataFrame(rows[1], columns=list("wxyz"))[list("zyxw")],
    }
    found = bootstrap_edges(frames, SIG(), n_resamples=3, random_state=0)
    assert found.task_names == ("a", "b")
    assert found.variables == tuple("wxyz")
    assert found.adjacency_frequencies[:, 0, 2].tolist() == [1, 1]
    long = pandas.concat([frames["a"].assign(group=1), frames["b"].assign(group=2)])
    again = bootstrap_edges(long, SIG(), n_resamples=3, random_state=0, task="group")
    assert again.task_names == ("1", "2")
    np.testing.assert_array_equal(found.edge_frequencies, again.edge_frequencies)


def test_a_folder_is_read_with_its_options(tmp_path, keeper):
    for name, rows in zip(("s1", "s2"), collider(), strict=True):
        pandas.DataFrame(rows, columns=list("wxyz")).to_csv(tmp_path / f"{name}.csv", index=False)
    found = bootstrap_edges(tmp_path, keeper, n_resamples=2, random_state=0, standardise=True)
    assert found.task_names == ("s1", "s2")
    for tasks in Keeper.seen:
        np.testing.assert_allclose(np.diagonal(tasks.scatters, axis1=1, axis2=2), 149)


def test_missing_values_are_drawn_with_their_rows(keeper):
    rows = collider(n=30)
    rows[0, :10, 1] = np.nan
    bootstrap_edges(list(rows), keeper, n_resamples=5, random_state=0, missing="em")
    assert [set(tasks.incomplete) for tasks in Keeper.seen] == [{0}] * 5
    shares = [np.isnan(tasks.incomplete[0][:, 1]).mean() for tasks in Keeper.seen]
    assert 0.1 < np.mean(shares) < 0.6
    with pytest.raises(InputError, match="'x1': value nan"):
        bootstrap_edges(list(rows), keeper, n_resamples=5)


def test_progress_is_reported(keeper):
    calls = []
    bootstrap_edges(
        collider(), keeper, n_resamples=3, random_state=0, progress=lambda *call: calls.append(call)
    )
    assert calls == [("resampling", k, 3) for k in (1, 2, 3)]


def test_resamples_without_variation_are_drawn_anew(keeper):
    """One row of five differs in x0: a third of all resamples lack it."""
    rows = np.random.default_rng(0).standard_normal((5, 2))
    rows[:, 0] = [1, 0, 0, 0, 0]
    bootstrap_edges([rows], keeper, n_resamples=50, random_state=0)
    assert all(tasks.scatters[0, 0, 0] > 0.5 for tasks in Keeper.seen)


def test_a_variable_that_never_varies_is_refused_as_by_tasks(keeper):
    with pytest.raises(InputError, match="'x0' is constant"):
        bootstrap_edges([[[0.0, 1.0], [0.0, 2.0]]], keeper, random_state=0)


class Doubtful(Keeper):
    """Warns in every fit."""

    def fit(self, tasks):
        warnings.warn("R-hat is 3", ConvergenceWarning, stacklevel=2)
        return super().fit(tasks)


def test_warnings_of_the_fits_become_one(keeper):
    with pytest.warns(ConvergenceWarning, match="4 of 4 fits warned, the last of them: R-hat is 3"):
        bootstrap_edges(collider(), Doubtful(), n_resamples=4, random_state=0)


def test_the_bound_on_redraws_names_the_task(keeper, monkeypatch):
    monkeypatch.setattr("mtgbn.learn.bootstrap._MOST_REDRAWS", 2)
    rows = np.random.default_rng(0).standard_normal((3, 2))
    rows[:, 0] = [0, 0, 1]
    with pytest.raises(InputError, match=r"task 'odd': in 2 resamples of its 3 rows.*'x0'"):
        bootstrap_edges({"odd": rows}, keeper, n_resamples=300, random_state=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_resamples": 0}, "n_resamples must be a whole number of at least 1"),
        ({"block_length": 0}, "block_length must be a whole number"),
        ({"block_length": "long"}, "block_length must be a number of rows, 'auto' or None"),
        ({"block_length": 151}, "task 'task0' has 150 rows, fewer than block_length = 151"),
        ({"estimator": SIG}, "must have a method fit"),
        ({"estimator": 3}, "must have a method fit"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_nonsense_is_refused(change, message):
    settings = {"estimator": SIG(), "n_resamples": 2} | change
    with pytest.raises(InputError, match=message):
        bootstrap_edges(collider(), **settings)


def test_scatters_have_no_rows_to_draw():
    with pytest.raises(InputError, match="holds scatters and no rows"):
        bootstrap_edges(Tasks.from_any(collider()), SIG())


def test_rows_without_a_value_are_not_drawn():
    rows = collider(m=3, n=30)
    rows[0, :3] = np.nan
    options = {"missing": "em", "effective_samples": [27, 30, 30]}
    found = bootstrap_edges(rows, Keeper(), n_resamples=3, random_state=1, **options)
    assert found.n_resamples == 3


def test_an_estimator_may_have_a_knowledge_of_its_own():
    keeper = Keeper()
    keeper.knowledge = "mine"
    assert bootstrap_edges(collider(), keeper, n_resamples=2, random_state=0).n_resamples == 2
