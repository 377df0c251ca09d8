"""Prior knowledge is kept by every step of a comparison: no alignment turns a direction it settles."""

import numpy as np
import pandas as pd
import pytest

from mtgbn import MTGBN, SIG, Tasks
from mtgbn.compare import compare_groups, write_study
from mtgbn.compare.fitting import without_convergence_warnings

IS_A = np.arange(6) < 3
# Of a chain all directions are reversible, so that alignment is free to choose any of them.
BOTH_WAYS = [("x0", "x1"), ("x1", "x0")]


@pytest.fixture(scope="module")
def tasks():
    """Six subjects with the chain x0 - x1 - x2."""
    return Tasks.from_any(np.random.default_rng(0).normal(size=(6, 80, 3)).cumsum(axis=2))


def compared(tasks, estimator, **options):
    return compare_groups(tasks, IS_A, estimator, random_state=0, **options)


@pytest.mark.parametrize("edge", BOTH_WAYS)
@pytest.mark.parametrize("fitting", ["separate", "together"])
def test_a_forbidden_direction_does_not_come_back(tasks, edge, fitting):
    knowledge = {"forbidden": [edge]}
    study = compared(tasks, SIG(knowledge=knowledge), fitting=fitting)
    i, j = (tasks.variables.index(name) for name in edge)
    for graphs in study.templates[0].fits[:2]:
        assert not graphs[:, i, j].any()
        assert graphs[:, j, i].all()


@pytest.mark.parametrize("edge", BOTH_WAYS)
def test_all_methods_of_ours_keep_a_required_edge(tasks, edge, tmp_path):
    """Also SIG beside MTGBN, and both of them at a given density."""
    estimator = MTGBN(knowledge={"required": [edge]}, n_draws=8, n_restarts=0, max_iter=2)
    study = compared(tasks, estimator, methods=("mtgbn", "sig"), n_edges=2)
    i, j = (tasks.variables.index(name) for name in edge)
    (template,) = study.templates
    for graphs in (*template.fits[:2], *(each for m in template.methods for each in m[1:])):
        assert graphs[:, i, j].all()
    write_study(study, tmp_path)
    edges = pd.read_csv(tmp_path / "edges.tsv", sep="\t").set_index(["source", "target"])
    assert (edges.loc[edge].direction == "known").all()


@pytest.mark.parametrize("edge", BOTH_WAYS)
def test_a_subject_learned_with_controls_keeps_it_too(tasks, edge):
    """`fit_task` chooses a member of the class as well."""
    estimator = MTGBN(
        knowledge={"forbidden": [edge]}, n_draws=8, n_restarts=0, max_iter=2, random_state=0
    )
    with without_convergence_warnings():
        learned = estimator.fit(tasks[:5]).fit_task(tasks[5])
    i, j = (tasks.variables.index(name) for name in edge)
    assert not learned.graph[i, j]
    assert learned.graph[j, i]


@pytest.mark.parametrize("knowledge", [{}, {"max_parents": 2}])
def test_knowledge_that_settles_no_direction_changes_nothing(tasks, knowledge):
    free, limited = (
        compared(tasks, SIG(knowledge=each)).templates[0].fits for each in (None, knowledge)
    )
    assert np.array_equal(free.graphs_a, limited.graphs_a)
    assert np.array_equal(free.graphs_b, limited.graphs_b)
    assert limited.estimators[0].agreement_ == free.estimators[0].agreement_
