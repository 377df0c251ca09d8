"""Interrupted fits end as if they never were, and other people's files are refused."""

import io
import json
import pickle
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest
from learn_oracles import related_tasks
from mtgbn.learn.explore import Exploration

from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import MTGBN, EdgePrior, Iteration, State, checkpoint
from mtgbn.learn.checkpoint import fingerprint, read_checkpoint, write_checkpoint

# Several iterations: without tolerance chains go on until no edge changes, and some do change. (EM under
# the restricted prior and chains that count edges are killed in tests of their own.)
TASKS = related_tasks(30, m=4, p=4, rows=16)
SETTINGS = {"nu0": 14.0, "edge_prior": (0.4, 3.0), "n_draws": 12, "tol": 0.0, "max_iter": 4}

pytestmark = pytest.mark.filterwarnings("ignore:EM did not converge. max_iter = 4")

EM = {"structure_prior": "restricted", "max_iter": 50}


class Killed(Exception):  # noqa: N818, not an error but an end
    """Stands for the power failure."""


class Killer:
    """A callback that ends the fit in one iteration."""

    def __init__(self, iteration):
        self.iteration = iteration

    def __call__(self, state):
        if len(state.history) == self.iteration:
            raise Killed


def learner(**changes):
    return MTGBN(**{**SETTINGS, "random_state": 4, **changes})


def assert_same(one, other):
    """Down to the last bit."""
    np.testing.assert_array_equal(one.graphs_, other.graphs_)
    np.testing.assert_array_equal(one.draws_.sigma_h, other.draws_.sigma_h)
    np.testing.assert_array_equal(one.sigma_h_, other.sigma_h_)
    np.testing.assert_array_equal(one.covariances_, other.covariances_)
    assert one.history_ == other.history_
    assert one.nu0_ == other.nu0_
    for name in ("membership_", "edge_probabilities_"):
        assert hasattr(one, name) == hasattr(other, name)
        np.testing.assert_array_equal(getattr(one, name, 0), getattr(other, name, 0))
    assert (one.stop_reason_, one.converged_) == (other.stop_reason_, other.converged_)


@pytest.fixture(scope="module")
def uninterrupted():
    fitted = learner().fit(TASKS)
    assert fitted.n_iter_ > 2
    assert any(iteration.n_changed for iteration in fitted.history_)
    return fitted


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "checkpoint"
    learner().fit(TASKS, checkpoint=path)
    return path


@pytest.fixture
def path(finished, tmp_path):
    """A checkpoint of one's own, to be damaged."""
    return shutil.copy(finished, tmp_path / "mine")


def test_a_fit_that_was_killed_in_any_iteration_ends_the_same(uninterrupted, tmp_path):
    for number in range(1, uninterrupted.n_iter_ + 1):
        path = tmp_path / f"{number}.npz"
        with pytest.raises(Killed):
            learner().fit(TASKS, checkpoint=path, callback=Killer(number))
        counted = []
        resumed = learner().fit(TASKS, checkpoint=path, callback=counted.append)
        assert_same(resumed, uninterrupted)
        # What was done before is not done again; the killed iteration is.
        assert len(counted) == uninterrupted.n_iter_ - number + 1


def test_em_that_was_killed_again_and_again_ends_the_same(tmp_path):
    whole = learner(**EM).fit(TASKS)
    assert whole.n_iter_ > 2
    path = tmp_path / "checkpoint"
    for number in range(1, whole.n_iter_ + 1):
        with pytest.raises(Killed):
            learner(**EM).fit(TASKS, checkpoint=path, callback=Killer(number))
    assert_same(learner(**EM).fit(TASKS, checkpoint=path), whole)
    about = json.loads(read_about(path.read_bytes()))
    state, _ = read_checkpoint(path, about["belongs_to"])
    assert isinstance(state, State)


def test_a_fit_that_was_killed_again_and_again_ends_the_same(uninterrupted, tmp_path):
    path = tmp_path / "checkpoint"
    for number in range(1, uninterrupted.n_iter_ + 1):
        with pytest.raises(Killed):
            learner(n_jobs=1 + number % 2).fit(TASKS, checkpoint=path, callback=Killer(number))
    assert_same(learner().fit(TASKS, checkpoint=path), uninterrupted)


@pytest.mark.parametrize("stage", ["searching graphs alone", "exploring", "searching graphs"])
def test_a_fit_that_was_killed_within_an_iteration_ends_the_same(stage, uninterrupted, tmp_path):
    def kill(what, done, total):
        if what == stage and done > 1:
            raise Killed

    path = tmp_path / stage
    with pytest.raises(Killed):
        learner().fit(TASKS, checkpoint=path, progress=kill)
    assert_same(learner().fit(TASKS, checkpoint=path), uninterrupted)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_checkpoint_does_not_change_the_result(uninterrupted, tmp_path):
    assert_same(learner().fit(TASKS, checkpoint=tmp_path / "new"), uninterrupted)


def test_a_finished_fit_is_read_and_not_repeated(uninterrupted, path):
    with open(path, "rb") as file:
        before = file.read()
    counted = []
    again = learner(n_jobs=2).fit(TASKS, checkpoint=path, callback=counted.append)
    assert_same(again, uninterrupted)
    assert counted == []
    state, _ = read_checkpoint(path, json.loads(read_about(before))["belongs_to"])
    assert isinstance(state, Exploration)
    assert state.history == uninterrupted.history_


def test_a_fit_that_was_stopped_goes_on(tmp_path):
    whole = learner().fit(TASKS)
    assert whole.n_iter_ > 1
    path = tmp_path / "checkpoint"
    with pytest.warns(UserWarning, match="callback asked to stop"):
        learner().fit(TASKS, checkpoint=path, callback=lambda state: np.True_)
    assert_same(learner().fit(TASKS, checkpoint=path), whole)
    path.unlink()
    with pytest.warns(UserWarning, match="Raise max_iter"):
        learner(max_iter=1).fit(TASKS, checkpoint=path)
    assert_same(learner().fit(TASKS, checkpoint=path), whole)


@pytest.mark.parametrize("random_state", [None, 5])
def test_the_seeds_are_kept(random_state, tmp_path):
    path, copy = tmp_path / "one", tmp_path / "two"
    with pytest.raises(Killed):
        learner(random_state=random_state).fit(TASKS, checkpoint=path, callback=Killer(2))
    shutil.copy(path, copy)
    one = learner(random_state=random_state).fit(TASKS, checkpoint=path)
    two = learner(random_state=random_state).fit(TASKS, checkpoint=copy)
    assert_same(one, two)


@pytest.mark.parametrize(
    "seeds",
    [
        lambda: np.random.SeedSequence(7, spawn_key=(1, 2)),
        lambda: np.random.SeedSequence([2**40, 3]),
        lambda: np.random.SeedSequence(2**200 + 1),
        lambda: np.random.default_rng(4),
    ],
)
def test_seeds_of_every_kind_are_kept(seeds, tmp_path):
    expected = learner(random_state=seeds()).fit(TASKS)
    path = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        learner(random_state=seeds()).fit(TASKS, checkpoint=path, callback=Killer(2))
    assert_same(learner(random_state=seeds()).fit(TASKS, checkpoint=path), expected)


# What does not belong to the fit.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nu0": 15.0}, r"of a fit with nu0=14.0, not 15.0"),
        ({"edge_prior": 0.3}, r"of a fit with edge_prior=[\(\[]0.4, 3.0[\)\]], not 0.3"),
        ({"n_draws": 30}, "of a fit with n_draws=12, not 30"),
        ({"tol": 0.2}, "of a fit with tol=0.0, not 0.2"),
        ({"structure_prior": "scale_free"}, "structure_prior='uniform', not 'scale_free'"),
        ({"inference": "posterior"}, "inference='map', not 'posterior'"),
        ({"missing": "em"}, "missing='error', not 'em'"),
        ({"search": "mmhc"}, "search='boss', not 'mmhc'"),
        ({"tabu": 3}, "tabu=None, not 3"),
        ({"knowledge": {"max_parents": 1}}, "knowledge=None, not {'max_parents': 1}"),
        ({"candidates": "mmpc"}, "candidates=None, not 'mmpc'"),
        ({"random_state": 5}, "of a fit with seeds=4; , not 5;"),
        ({"random_state": None}, "of a fit with seeds=4; , not None"),
    ],
)
def test_other_settings_are_refused(path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        learner(**changes).fit(TASKS, checkpoint=path)
    assert str(path) in str(caught.value)
    assert "remove it to start anew" in str(caught.value)


def test_relabelled_edge_priors_are_other_ones(tmp_path):
    tasks = related_tasks(1)
    p = tasks.n_variables
    # The large ones are on the diagonal and mean nothing, until the rows are the other way round.
    matrix = np.full((p, p), 0.1)
    np.fill_diagonal(matrix, 0.9)
    other = [*tasks.variables[::-1]]
    stop = MTGBN(
        edge_prior=pd.DataFrame(matrix, tasks.variables, tasks.variables),
        max_iter=1,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning):
        stop.fit(tasks, checkpoint=tmp_path / "c.npz")
    turned = MTGBN(
        edge_prior=pd.DataFrame(matrix, other, tasks.variables), max_iter=1, random_state=0
    )
    with pytest.raises(InputError, match="is the checkpoint of a fit with edge_prior="):
        turned.set_params(max_iter=3).fit(tasks, checkpoint=tmp_path / "c.npz")


def test_other_data_are_refused(path):
    renamed = type(TASKS)(TASKS.scatters, TASKS.ns, list("abcd"))
    scaled = type(TASKS)(TASKS.scatters * (1 + 1e-15), TASKS.ns)
    for other in (TASKS[:2], TASKS[::-1], renamed, scaled, related_tasks(31, m=4, p=4, rows=16)):
        with pytest.raises(InputError, match="is the checkpoint of other data") as caught:
            learner().fit(other, checkpoint=path)
        assert str(path) in str(caught.value)


def test_a_fingerprint_knows_everything_that_matters():
    settings = {"nu0": 3.0, "tol": 0.1}
    # Small whole numbers in eight rows: shifts and doublings leave the scatters exactly as they are.
    arrays = [np.random.default_rng(t).integers(-9, 9, (8, 3)).astype(float) for t in range(2)]
    build = type(TASKS).from_arrays
    base = fingerprint(build(arrays), settings)
    assert base == fingerprint(build([a.copy() for a in arrays]), dict(settings))
    for other in (
        build(arrays[::-1]),
        build(arrays, list("abc")),
        build(arrays, names=list("st")),
        build(arrays, effective_samples=8),
    ):
        assert fingerprint(other, settings)["data"] != base["data"]
    for one, other in (
        (build(arrays), build([a + 1 for a in arrays])),
        (build(arrays, standardise=True), build([a * 2 for a in arrays], standardise=True)),
    ):
        assert one == other
        assert fingerprint(one, settings)["data"] != fingerprint(other, settings)["data"]
    assert fingerprint(build(arrays), {**settings, "tol": 0.2}) != base


def test_a_fingerprint_knows_every_number_of_a_large_matrix():
    """Arrays and frames leave out their middle and their last digits when they are shown."""
    p = 40
    tasks = type(TASKS)([np.eye(p) * 50], [50.0])
    names = list(tasks.variables)
    one = np.full((p, p), 0.3)
    far, near = one.copy(), one.copy()
    far[10, 20] = far[20, 10] = 0.01
    near[10, 20] = near[20, 10] = 0.3 + 1e-12
    for wrap in (
        lambda matrix: matrix,
        lambda matrix: (matrix, 2.0),
        lambda matrix: pd.DataFrame(matrix, names, names),
        lambda matrix: (pd.DataFrame(matrix, names, names), 2.0),
    ):
        prints = [learner(edge_prior=wrap(each))._fingerprint(tasks) for each in (one, far, near)]
        assert prints[0] == learner(edge_prior=wrap(one.copy()))._fingerprint(tasks)
        assert prints[0] != prints[1]
        assert prints[0] != prints[2]


def test_a_fingerprint_knows_missing_values():
    arrays = [np.random.default_rng(t).standard_normal((9, 3)) for t in range(2)]
    for array in arrays:
        array[2, 1] = np.nan
    build = type(TASKS).from_arrays
    base = fingerprint(build(arrays, missing="em"), {})
    assert base == fingerprint(build([a.copy() for a in arrays], missing="em"), {})
    other = [a.copy() for a in arrays]
    other[1][[2, 3], 1] = other[1][[3, 2], 1]
    assert fingerprint(build(other, missing="em"), {}) != base


# What a state is made of, there and back.


def assert_alike(one, other):
    """The same types, numbers and bits, at every depth."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, strict=True)
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_alike(mine, theirs)
    else:
        assert one == other or (one != one and other != other)


@pytest.mark.parametrize("kind", ["start", "map", "posterior", "em", "missing"])
def test_a_state_that_was_written_is_read_as_it_was(kind, tmp_path):
    settings = {"posterior": {"inference": "posterior", "n_rounds": 20}, "em": EM}.get(kind, {})
    tasks = TASKS
    if kind == "missing":
        arrays = [np.random.default_rng(t).standard_normal((20, 3)) for t in range(3)]
        arrays[1][4:7, 2] = np.nan
        tasks = type(TASKS).from_arrays(arrays, missing="em")
        settings = {"missing": "em"}
    states = []

    def watch(state):
        states.append(state)
        raise Killed

    with pytest.raises(Killed):
        learner(**settings).fit(tasks, callback=watch)
    (state,) = states
    if kind == "start":
        state = state._replace(record=None, history=())
    write_checkpoint(tmp_path / "file", state, "3; ", {})
    found, entropy = read_checkpoint(tmp_path / "file", {})
    assert entropy == "3; "
    assert_alike(found, state)


def test_numbers_beyond_the_ordinary_survive(tmp_path):
    iteration = Iteration(-np.inf, np.nan, 0.1 + 0.2, 3, 2**60, 8)
    state = Exploration(
        np.zeros((1, 2, 2), dtype=bool),
        EdgePrior(np.full((2, 2), 1 / 3), np.inf),
        (),
        None,
        0,
        (iteration,),
        "naïve — ‘quoted’",
        True,
    )
    write_checkpoint(tmp_path / "file", state, "", {})
    found, _ = read_checkpoint(tmp_path / "file", {})
    assert_alike(found, state)


def test_what_is_no_part_of_a_state_is_not_written(tmp_path):
    state = Exploration(np.zeros((1, 2, 2), dtype=bool), {"density": 1}, None, (), None)
    with pytest.raises(TypeError, match="cannot hold dict"):
        write_checkpoint(tmp_path / "file", state, "", {})
    assert list(tmp_path.iterdir()) == []


# Damage.


def read_about(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return str(file["about"])


def refuse(path, message="is damaged or not a checkpoint of this version"):
    with pytest.raises(InputError, match=message) as caught:
        learner().fit(TASKS, checkpoint=path)
    assert str(path) in str(caught.value)
    assert "remove it to start anew" in str(caught.value)


def test_a_file_that_was_cut_off_is_refused(path):
    content = path.read_bytes()
    for length in [0, 1, 4, 30, *range(100, len(content), 997), len(content) - 1]:
        path.write_bytes(content[:length])
        refuse(path)


def test_a_changed_byte_is_refused_or_does_not_matter(path):
    content = path.read_bytes()
    belongs_to = json.loads(read_about(content))["belongs_to"]
    expected, entropy = read_checkpoint(path, belongs_to)
    rng = np.random.default_rng(0)
    refused = 0
    for place in {*range(0, len(content), 29), *range(len(content) - 400, len(content))}:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            state, other = read_checkpoint(path, belongs_to)
        except InputError:
            refused += 1
            continue
        assert other == entropy
        assert_alike(state, expected)
    assert refused > 500


def rewrite(path, **changes):
    """Replace arrays of a checkpoint; None removes one."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file) | changes
    arrays = {name: value for name, value in arrays.items() if value is not None}
    del arrays["digest"]  # made to fit, so that the later checks have their say
    with open(path, "wb") as file:
        np.savez(file, digest=np.array(checkpoint._digest(arrays)), **arrays)


def changed_about(path, **changes):
    about = json.loads(read_about(path.read_bytes())) | changes
    return np.array(json.dumps({name: value for name, value in about.items() if value is not None}))


def test_a_file_that_lacks_a_part_is_refused(path):
    content = path.read_bytes()
    with np.load(path, allow_pickle=False) as file:
        names = set(file) - {"digest"}
    assert len(names) > 20
    for name in names:
        path.write_bytes(content)
        rewrite(path, **{name: None})
        refuse(path)


@pytest.mark.parametrize("name", ["format", "entropy", "belongs_to", "state"])
def test_a_description_that_lacks_a_part_is_refused(path, name):
    rewrite(path, about=changed_about(path, **{name: None}))
    refuse(path)


@pytest.mark.parametrize(
    "state",
    [
        {"EdgePrior": [0.1, 2.0]},
        {"Popen": [["ls"]]},
        {"Exploration": []},
        {"Exploration": [{"array": "array0"}] * 40},
        {"Exploration": [{"array": "array0"}], "State": []},
        {"array": "array0"},
        {"array": "array999"},
        {},
        [],
        None,
        3,
        {"State": [[False], [], 8]},
    ],
)
def test_a_state_of_the_wrong_kind_is_refused(path, state):
    about = json.loads(read_about(path.read_bytes())) | {"state": state}
    rewrite(path, about=np.array(json.dumps(about)))
    refuse(path)


def test_nesting_without_end_is_refused(path):
    about = json.loads(read_about(path.read_bytes()))
    text = json.dumps(about | {"state": "HERE"}).replace('"HERE"', "[" * 100_000 + "]" * 100_000)
    rewrite(path, about=np.array(text))
    refuse(path)


def test_another_version_is_refused(path):
    for name in ("mtgbn checkpoint 0", "mtgbn checkpoint 3"):  # in which chains had another centre
        rewrite(path, about=changed_about(path, format=name))
        refuse(path, f"its format is '{name}'")
    rewrite(path, about=np.array("[]"))
    refuse(path)
    rewrite(path, about=np.array("{"))
    refuse(path)


def test_graphs_of_the_wrong_kind_are_refused(path):
    about = json.loads(read_about(path.read_bytes()))
    name = about["state"]["Exploration"][0]["array"]
    rewrite(path, **{name: np.zeros((4, 4, 4))})
    refuse(path, "it holds no state of a fit")


@pytest.mark.parametrize("write", ["text", "npy", "npz", "zip", "pickle", "folder"])
def test_files_of_others_are_refused(tmp_path, write):
    path = tmp_path / "other"
    if write == "text":
        path.write_text("x,y\n1,2\n")
    elif write == "npy":
        with open(path, "wb") as file:
            np.save(file, np.zeros(3))
    elif write == "npz":
        with open(path, "wb") as file:
            np.savez_compressed(file, x=np.zeros(3))
    elif write == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("about.npy", "hello")
    elif write == "pickle":
        path.write_bytes(pickle.dumps({"about": 1}))
    else:
        path.mkdir()
    refuse(path)


class Trap:
    """Tells when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (spring, ())


def spring():
    Trap.sprung = True
    return "{}"


@pytest.mark.parametrize("name", ["about", "array0", "digest"])
def test_nothing_is_unpickled(path, name):
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    trap = np.empty((), dtype=object)
    trap[()] = Trap()
    with open(path, "wb") as file:
        np.savez(file, **{**arrays, name: trap}, allow_pickle=True)
    refuse(path)
    path.write_bytes(pickle.dumps(Trap()))
    refuse(path)
    assert not Trap.sprung


def test_a_refused_file_is_left_alone(path):
    path.write_bytes(b"something precious")
    refuse(path)
    assert path.read_bytes() == b"something precious"
