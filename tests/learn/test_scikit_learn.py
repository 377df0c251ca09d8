"""The estimators are scikit-learn's: its own checks, its representations, its exceptions."""

import pickle

import numpy as np
import pandas as pd
import pytest
from learn_oracles import ESTIMATORS, fitted, make, related_tasks
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtgbn.errors import InputError
from mtgbn.learn import AVG, MTGBN, SIG
from mtgbn.learn.estimator import EXPECTED_FAILED_CHECKS
from mtgbn.paper import PaperMTGBN
from mtgbn.search import Knowledge

QUICK = [
    MTGBN(n_draws=8, max_iter=1, n_restarts=1, tabu=0),
    SIG(n_restarts=1, tabu=0),
    AVG(n_restarts=1, tabu=0),
    PaperMTGBN(n_draws=8, max_iter=1),
]


@pytest.mark.filterwarnings("ignore")  # one iteration, and data of one row
@parametrize_with_checks(QUICK, expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_clone_copies_parameters_and_not_results(cls):
    estimator = make(cls, edge_prior=(0.2, 3.0), knowledge=Knowledge(max_parents=2))
    estimator.fit(related_tasks(0))
    copy = clone(estimator)
    assert type(copy) is cls
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "graphs_")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_parameters_can_be_set_by_name(cls):
    estimator = cls()
    defaults = estimator.get_params()
    assert estimator.set_params(edge_prior=0.1, random_state=3) is estimator
    assert estimator.get_params(deep=False) == {**defaults, "edge_prior": 0.1, "random_state": 3}
    with pytest.raises(
        ValueError, match=rf"Invalid parameter 'alpha' for estimator {cls.__name__}"
    ):
        estimator.set_params(alpha=1)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_fitted_estimator_can_be_pickled(cls):
    estimator = fitted(cls, 0)
    copy = pickle.loads(pickle.dumps(estimator))
    rows = np.zeros((2, 3))
    np.testing.assert_array_equal(
        copy.predict_log_density(0, rows), estimator.predict_log_density(0, rows)
    )
    assert vars(copy).keys() == vars(estimator).keys()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_nothing_is_predicted_before_fit(cls):
    for call in (
        lambda estimator: estimator.predict_log_density(0, np.zeros((1, 3))),
        lambda estimator: estimator.sample(0, 1),
    ):
        with pytest.raises(NotFittedError, match=rf"this {cls.__name__} is not fitted; call fit"):
            call(cls())


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_an_array_of_two_dimensions_is_one_task(cls):
    rows = np.random.default_rng(0).standard_normal((40, 3))
    estimator = make(cls).fit(rows)
    assert estimator.graphs_.shape == (1, 3, 3)
    assert estimator.n_features_in_ == 3
    assert estimator.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    frame = pd.DataFrame(rows, columns=list("abc"))
    named = make(cls).fit([frame])
    assert named.feature_names_in_.tolist() == list("abc") == list(named.variables_)
    np.testing.assert_array_equal(named.graphs_, estimator.graphs_)
    # Columns of a frame are found by name, whatever their order.
    np.testing.assert_allclose(
        named.predict_log_density(0, frame[["c", "a", "b"]]),
        estimator.predict_log_density(0, rows),
    )
    with pytest.raises(InputError, match="X has no column 'c'"):
        named.predict_log_density(0, frame[["a", "b"]])
    with pytest.raises(InputError, match=r"X must have shape \(rows, 3\)"):
        named.predict_log_density(0, rows[:, :2])


def test_the_representation_shows_what_differs_from_the_defaults():
    assert repr(MTGBN()) == "MTGBN()"
    assert repr(SIG(edge_prior=0.1)) == "SIG(edge_prior=0.1)"
    shown = repr(PaperMTGBN(nu0=30.0, search="boss", n_draws=30))
    assert shown == "PaperMTGBN(nu0=30.0, search='boss')"
    assert "array([0.2, 3. ])" in repr(AVG(edge_prior=np.array([0.2, 3.0])))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_notebooks_show_an_estimator(cls):
    for estimator, state in ((cls(), "Not fitted"), (fitted(cls, 0), "Fitted")):
        html = estimator._repr_html_()
        assert cls.__name__ in html
        assert state in html
        assert "random_state" in html
