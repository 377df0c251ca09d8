"""Searches on a real Dask cluster of two processes, one of which dies in the middle."""

import os
import signal
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster
from joblib import parallel_config

from mtgbn import MTGBN, SIG
from mtgbn.learn import bootstrap_edges
from mtgbn.learn.parallel import in_parallel
from mtgbn.simulate import simulate_tasks


@pytest.fixture(scope="module")
def simulation():
    return simulate_tasks(n_tasks=6, n_variables=6, n_rows=80, random_state=5)


def _slowly(array, number):
    time.sleep(0.2)
    return float(array.sum()) + number


@pytest.mark.filterwarnings("ignore")
def test_all_copies_of_an_array_are_lost(tmp_path):
    """The only worker dies after the second result, and with it the arrays that were sent first."""
    given = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(n_workers=1, local_directory=str(tmp_path), **given) as cluster,
        Client(cluster) as client,
        parallel_config("dask"),
    ):
        (pid,) = client.run(os.getpid).values()

        def kill(what, done, total):
            if done == 2:
                os.kill(pid, signal.SIGKILL)

        shared = np.ones(50_000)
        calls = [{"array": shared, "number": number} for number in range(8)]
        found = in_parallel(_slowly, calls, None, kill, "calling")
    assert found == [50_000.0 + number for number in range(8)]


def test_a_cluster_that_starts_workers_when_there_is_work(tmp_path):
    given = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(n_workers=0, local_directory=str(tmp_path), **given) as cluster,
        Client(cluster),
        parallel_config("dask"),
    ):
        cluster.adapt(minimum=0, maximum=1)
        shared = np.ones(50_000)
        calls = [{"array": shared, "number": number} for number in (1, 2)]
        found = in_parallel(_slowly, calls, 1, lambda *_: None, "calling")
    assert found == [50_001.0, 50_002.0]


# A cluster that two tests share; the last one kills a worker.


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(tmp_path_factory.mktemp("dask")),
        silence_logs=50,
    )
    with cluster, Client(cluster) as client:
        yield client


def test_whole_fits_on_workers(client):
    """In a bootstrap every worker learns whole resamples, and must not wait for the others."""
    rows = np.random.default_rng(0).standard_normal((3, 40, 4))
    rows[:, :, 1] += rows[:, :, 0]
    given = {"n_resamples": 4, "random_state": 2}
    here = bootstrap_edges(rows, SIG(), n_jobs=1, **given)
    with parallel_config("dask"):
        there = bootstrap_edges(rows, SIG(), **given)
    np.testing.assert_array_equal(there.edge_frequencies, here.edge_frequencies)


@pytest.mark.filterwarnings("ignore")  # the cluster's own, about the worker that was lost
def test_a_lost_worker_changes_nothing(simulation, client):
    settings = {"n_draws": 8, "max_iter": 2, "random_state": 3}
    here = MTGBN(**settings).fit(simulation.tasks)
    pids = list(client.run(os.getpid).values())
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    killed = []

    def kill(what, done, total):
        if what == "searching graphs" and done == 1 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    with parallel_config("dask"):
        there = MTGBN(**settings).fit(simulation.tasks, progress=kill)
        sig = SIG(random_state=3).fit(simulation.tasks)
    assert killed
    np.testing.assert_array_equal(there.graphs_, here.graphs_)
    np.testing.assert_array_equal(there.draws_.sigma_h, here.draws_.sigma_h)
    assert there.history_ == here.history_
    np.testing.assert_array_equal(sig.graphs_, SIG(random_state=3).fit(simulation.tasks).graphs_)
