"""Interrupted fits end as if they never were, and other people's files are refused."""

import io
import json
import pickle
import shutil
import warnings
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
from learn_oracles import related_arrays, related_tasks

from mtgbn.errors import ConvergenceWarning, InputError
from mtgbn.learn import MTGBN, checkpoint
from mtgbn.learn.checkpoint import Checkpoint
from mtgbn.learn.joint import Iteration, JointState
from mtgbn.learn.min_strength import MinStrength
from mtgbn.learn.record import Record
from mtgbn.model.edge_prior import EdgePrior
from mtgbn.model.pair_kinds import PairKinds
from mtgbn.paper import PaperMTGBN
from mtgbn.paper.em import EMState
from mtgbn.paper.hmc import HMCState
from mtgbn.tasks import Tasks

pytestmark = pytest.mark.filterwarnings("ignore::mtgbn.errors.ConvergenceWarning")


def incomplete_tasks():
    rng = np.random.default_rng(30)
    arrays = related_arrays(30, 6, 6, 20, 0.8)
    for array in arrays:
        array[rng.random(array.shape) < 0.1] = np.nan
    return Tasks.from_arrays(arrays, missing="em")


TASKS = related_tasks(30, m=6, p=6, rows=16)
INCOMPLETE = incomplete_tasks()

# Several iterations: without tolerance chains go on until no edge changes, and some do change.
FIXED = {"nu0": 14.0, "edge_prior": (0.4, 3.0), "n_draws": 12}
MAP = {**FIXED, "min_strength": 0.0, "tol": 0.0, "max_iter": 4}
POSTERIOR = {"inference": "posterior", "n_rounds": 40}
KINDS = {
    "map": (MTGBN, MAP, TASKS),
    "posterior": (MTGBN, POSTERIOR, TASKS),
    "map with missing values": (MTGBN, MAP, INCOMPLETE),
    "posterior with missing values": (MTGBN, POSTERIOR, INCOMPLETE),
    "paper": (PaperMTGBN, {**FIXED, "tol": 0.0}, TASKS),
}


class Killed(Exception):  # noqa: N818, not an error but an end
    """Stands for the power failure."""


def fit(kind="map", tasks=None, *, callback=None, progress=None, checkpoint=None, **changes):
    cls, settings, its_tasks = KINDS[kind]
    estimator = cls(**{**settings, "random_state": 0, **changes})
    return estimator.fit(
        its_tasks if tasks is None else tasks,
        callback=callback,
        progress=progress,
        checkpoint=checkpoint,
    )


@cache
def uninterrupted(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = fit(kind)
    assert fitted.n_iter_ > 2
    return fitted


def kill_after(number):
    """A callback that ends the fit in one iteration, before its state is written."""
    calls = []

    def callback(state):
        calls.append(state)
        if max(len(state.history), getattr(state, "n_blocks", 0)) == number:
            raise Killed

    return callback


def assert_same(one, other):
    """Down to the last bit."""
    for name in (
        *("graphs_", "sigma_h_", "covariances_", "coefficients_", "history_", "nu0_", "order_"),
        *("agreement_", "stop_reason_", "converged_", "edge_prior_", "membership_"),
        *("edge_probabilities_", "random_state_"),
    ):
        assert hasattr(one, name) == hasattr(other, name)
        np.testing.assert_equal(getattr(one, name, 0), getattr(other, name, 0), err_msg=name)
    np.testing.assert_array_equal(one.draws_.sigma_h, other.draws_.sigma_h)
    for name in ("relatedness_", "edge_diagnostics_"):
        if hasattr(one, name):
            np.testing.assert_equal(getattr(one, name)._asdict(), getattr(other, name)._asdict())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_same(fit(checkpoint=path), uninterrupted("map"))  # a checkpoint changes nothing
    return path


@pytest.fixture
def path(finished, tmp_path):
    """A checkpoint of one's own, to be damaged."""
    return shutil.copy(finished, tmp_path / "mine")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_was_killed_again_and_again_ends_the_same(kind, tmp_path):
    """Between two iterations and within one, with one job and with two."""
    whole = uninterrupted(kind)
    if whole.history_:
        assert any(iteration.n_changed for iteration in whole.history_)
    path = tmp_path / "checkpoint"
    # joblib warns of searches that nobody waits for, so that these are killed with one job.
    stages = {"drawing sigma_h" if kind == "paper" else "exploring": 2, "searching graphs": 1}

    def kill_within(stage):
        def progress(what, done, total):
            seen.add(what)
            if what == stage and done > 1:
                raise Killed

        return progress

    seen = set()
    with pytest.raises(Killed):
        fit(kind, checkpoint=path, progress=kill_within("searching single tasks"))
    assert not path.exists()
    last = whole.n_iter_
    for number in (2, last) if "posterior" in kind else range(1, last + 1):
        with pytest.raises(Killed):
            fit(kind, n_jobs=1 + number % 2, checkpoint=path, callback=kill_after(number))
    for stage, n_jobs in stages.items():
        seen.clear()
        with pytest.raises(Killed):
            fit(kind, n_jobs=n_jobs, checkpoint=path, progress=kill_within(stage))
        assert "searching single tasks" not in seen  # it went on from the file
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    counted = []
    assert_same(fit(kind, checkpoint=path, callback=counted.append), whole)
    # What was done before is not done again; the killed iteration is.
    assert len(counted) <= 1
    counted.clear()
    assert_same(fit(kind, n_jobs=2, checkpoint=path, callback=counted.append), whole)
    assert counted == []


@pytest.mark.parametrize("kind", ["map", "posterior", "paper"])
def test_a_fit_that_was_stopped_goes_on(kind, tmp_path):
    path = tmp_path / "checkpoint"
    stopped = fit(kind, checkpoint=path, callback=lambda state: np.True_)
    assert stopped.stop_reason_ == "the callback asked to stop"
    assert not stopped.converged_
    assert stopped.n_iter_ == 1
    assert any("the callback asked to stop" in warning for warning in stopped.warnings_)
    if kind != "posterior":  # now max_iter stops it, in the second iteration
        with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
            assert fit(kind, checkpoint=path, max_iter=2).n_iter_ == 2
    assert_same(fit(kind, checkpoint=path), uninterrupted(kind))


@pytest.mark.parametrize(
    "seeds",
    [
        lambda: None,
        lambda: np.random.SeedSequence(7, spawn_key=(1, 2)),
        lambda: np.random.SeedSequence([2**40, 3]),
        lambda: np.random.SeedSequence(2**200 + 1),
        lambda: np.random.default_rng(4),
    ],
)
def test_seeds_of_every_kind_are_kept(seeds, tmp_path):
    path, copy = tmp_path / "one", tmp_path / "two"
    settings = {"max_iter": 2}
    with pytest.raises(Killed):
        fit(random_state=seeds(), checkpoint=path, callback=kill_after(2), **settings)
    shutil.copy(path, copy)
    resumed = fit(random_state=seeds(), checkpoint=path, **settings)
    again = seeds() is None and {"checkpoint": copy}
    assert_same(fit(random_state=seeds(), **(again or {}), **settings), resumed)


# What does not belong to the fit.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nu0": 15.0}, r"of a fit with nu0=14.0, not 15.0"),
        ({"edge_prior": 0.3}, r"of a fit with edge_prior=[\(\[]0.4, 3.0[\)\]], not 0.3"),
        ({"n_draws": 30}, "of a fit with n_draws=12, not 30"),
        ({"tol": 0.2}, "of a fit with tol=0.0, not 0.2"),
        ({"shared_directions": False}, "shared_directions=True, not False"),
        ({"min_strength": 0.1}, "min_strength=0.0, not 0.1"),
        ({"inference": "posterior"}, "inference='map', not 'posterior'"),
        ({"missing": "em"}, "missing='error', not 'em'"),
        ({"n_rounds": 30}, "n_rounds=1600, not 30"),
        ({"tabu": 3}, "tabu=10, not 3"),
        ({"knowledge": {"max_parents": 1}}, "knowledge=None, not {'max_parents': 1}"),
        ({"random_state": 5}, "of a fit with seeds=0; , not 5;"),
        ({"random_state": None}, "of a fit with seeds=0; , not None"),
    ],
)
def test_other_settings_are_refused(path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        fit(checkpoint=path, **changes)
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
    renamed = Tasks(TASKS.scatters, TASKS.ns, list("abcdef"))
    scaled = Tasks(TASKS.scatters * (1 + 1e-15), TASKS.ns)
    for other in (TASKS[:2], TASKS[::-1], renamed, scaled, related_tasks(31, m=6, p=6, rows=16)):
        with pytest.raises(InputError, match="is the checkpoint of other data") as caught:
            fit(tasks=other, checkpoint=path)
        assert str(path) in str(caught.value)


def test_a_fingerprint_knows_everything_that_matters():
    settings = {"nu0": 3.0, "tol": 0.1}
    # Small whole numbers in eight rows: shifts and doublings leave the scatters exactly as they are.
    arrays = [np.random.default_rng(t).integers(-9, 9, (8, 3)).astype(float) for t in range(2)]
    build = Tasks.from_arrays
    base = build(arrays).fingerprint(settings)
    assert base == build([a.copy() for a in arrays]).fingerprint(dict(settings))
    for other in (
        build(arrays[::-1]),
        build(arrays, list("abc")),
        build(arrays, names=list("st")),
        build(arrays, effective_samples=8),
    ):
        assert other.fingerprint(settings)["data"] != base["data"]
    for one, other in (
        (build(arrays), build([a + 1 for a in arrays])),
        (build(arrays, standardise=True), build([a * 2 for a in arrays], standardise=True)),
    ):
        assert one == other
        assert one.fingerprint(settings)["data"] != other.fingerprint(settings)["data"]
    assert build(arrays).fingerprint({**settings, "tol": 0.2}) != base


@pytest.mark.parametrize("form", ["matrix", "frame"])
@pytest.mark.parametrize("with_similarity", [False, True])
def test_every_number_of_a_large_edge_prior_counts(form, with_similarity, tmp_path):
    """Arrays and frames leave out their middle and their last digits when they are shown."""
    p = 40
    tasks = Tasks([np.eye(p) * 50], [50.0])
    one = np.full((p, p), 0.3)
    far, near = one.copy(), one.copy()
    far[10, 20] = far[20, 10] = 0.01
    near[10, 20] = near[20, 10] = 0.3 + 1e-12

    def estimator(matrix):
        names = list(tasks.variables)
        prior = pd.DataFrame(matrix, names, names) if form == "frame" else matrix
        return MTGBN(edge_prior=(prior, 2.0) if with_similarity else prior, random_state=4)

    path = tmp_path / "file"
    graphs = np.zeros((1, p, p), dtype=bool)
    state = JointState(graphs, EdgePrior(0.1, 2.0), None, MinStrength(0.1), ())
    Checkpoint.of(estimator(one), tasks, path).write(state)
    assert Checkpoint.of(estimator(one.copy()), tasks, path).state is not None
    for other in (far, near):
        with pytest.raises(InputError, match="is the checkpoint of a fit with edge_prior="):
            Checkpoint.of(estimator(other), tasks, path)


def test_a_fingerprint_knows_missing_values():
    arrays = [np.random.default_rng(t).standard_normal((9, 3)) for t in range(2)]
    for array in arrays:
        array[2, 1] = np.nan
    build = Tasks.from_arrays
    base = build(arrays, missing="em").fingerprint({})
    assert base == build([a.copy() for a in arrays], missing="em").fingerprint({})
    other = [a.copy() for a in arrays]
    other[1][[2, 3], 1] = other[1][[3, 2], 1]
    assert build(other, missing="em").fingerprint({}) != base


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


STATES = (
    *(JointState, EMState, Iteration, Record, checkpoint.ChainState, HMCState),
    *(EdgePrior, PairKinds, MinStrength),
)


def there_and_back(path, state, kinds=STATES):
    """A state that was written to a file and read again."""
    kinds = (type(state), *(kind for kind in kinds if kind is not type(state)))
    seeds = np.random.SeedSequence(3)
    Checkpoint(path, seeds, {}, kinds).write(state)
    found = Checkpoint(path, np.random.SeedSequence(9), {}, kinds)
    assert found.seeds.entropy == 3
    return found.state


@pytest.mark.parametrize("kind", ["start", *KINDS])
def test_a_state_that_was_written_is_read_as_it_was(kind, tmp_path):
    states = []

    def watch(state):
        states.append(state)
        raise Killed

    with pytest.raises(Killed):
        fit("map" if kind == "start" else kind, callback=watch)
    (state,) = states
    if kind == "start":
        state = state._replace(record=None, history=())
    assert_alike(there_and_back(tmp_path / "file", state), state)


def test_numbers_beyond_the_ordinary_survive(tmp_path):
    state = JointState(
        adjacencies=np.zeros((1, 2, 2), dtype=bool),
        edge_prior=EdgePrior(np.full((2, 2), 1 / 3), np.inf),
        single_edge_prior=None,
        min_strength=MinStrength(0.1, 2.0),
        chains=(),
        history=(Iteration(-np.inf, np.nan, 0.1 + 0.2, 3, 2**60, 8),),
        reason="naïve — ‘quoted’",
        converged=True,
    )
    assert_alike(there_and_back(tmp_path / "file", state), state)


def test_what_is_no_part_of_a_state_is_not_written(tmp_path):
    graphs = np.zeros((1, 2, 2), dtype=bool)
    state = JointState(graphs, {"density": 1}, None, MinStrength(0.1), ())
    with pytest.raises(TypeError, match="cannot hold dict"):
        there_and_back(tmp_path / "file", state)
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_another_estimator_is_refused(tmp_path):
    path = tmp_path / "file"
    state = EMState(np.zeros((1, 2, 2), dtype=bool), (), 8)
    Checkpoint(path, np.random.SeedSequence(3), {}, STATES).write(state)
    with pytest.raises(InputError, match="it holds no state of such a fit"):
        Checkpoint(path, np.random.SeedSequence(3), {}, STATES)
    with pytest.raises(InputError, match="is damaged or not a checkpoint"):
        Checkpoint(path, np.random.SeedSequence(3), {}, (JointState,))


def test_a_whole_checkpoint_of_another_estimator_is_not_called_damaged(tmp_path):
    path, seeds = tmp_path / "file", np.random.SeedSequence(3)
    state = EMState(np.zeros((1, 2, 2), dtype=bool), (), 8)
    Checkpoint(path, seeds, {"method": "one"}, STATES).write(state)
    with pytest.raises(InputError, match="the checkpoint of a fit with method=one, not other"):
        Checkpoint(path, seeds, {"method": "other"}, (JointState,))


# Damage.


def read_about(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return str(file["about"])


def refuse(path, message="is damaged or not a checkpoint of this version"):
    with pytest.raises(InputError, match=message) as caught:
        fit(checkpoint=path)
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
    read = (path, np.random.SeedSequence(9), belongs_to, checkpoint._JOINT_KINDS)
    expected = Checkpoint(*read)
    rng = np.random.default_rng(0)
    refused = 0
    for place in {*range(0, len(content), 97), *range(len(content) - 400, len(content), 3)}:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            found = Checkpoint(*read)
        except InputError:
            refused += 1
            continue
        assert found.seeds.entropy == expected.seeds.entropy
        assert_alike(found.state, expected.state)
    assert refused > 200


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
        {"EdgePrior": {"density": 0.1, "similarity": 2.0}},
        {"Popen": {"args": ["ls"]}},
        {"JointState": []},
        {"JointState": {}},
        {"JointState": {"adjacencies": {"array": "array0"}, "other": 1}},
        {"JointState": {"adjacencies": {"array": "array0"}}, "EdgePrior": {}},
        {"array": "array0"},
        {"array": "array999"},
        {},
        [],
        None,
        3,
        {"EMState": {"adjacencies": [False], "chains": [], "n_draws": 8}},
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
    for name in ("mtgbn checkpoint 0", "mtgbn checkpoint 4"):  # without the names of fields
        rewrite(path, about=changed_about(path, format=name))
        refuse(path, f"its format is '{name}'")
    rewrite(path, about=np.array("[]"))
    refuse(path)
    rewrite(path, about=np.array("{"))
    refuse(path)


def test_graphs_of_the_wrong_kind_are_refused(path):
    about = json.loads(read_about(path.read_bytes()))
    name = about["state"]["JointState"]["adjacencies"]["array"]
    rewrite(path, **{name: np.zeros((4, 4, 4))})
    refuse(path, "it holds no state of such a fit")


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
