"""A cluster: tasks are searched by Dask's workers, and the result is the same to the last bit.

Here the cluster is on this machine; with that of your institute, give its address to `Client`. On the
command line: mtgbn fit DATA OUT --scheduler tcp://...
"""

import numpy as np
from dask.distributed import Client, LocalCluster
from joblib import parallel_config

from mtgbn import MTGBN
from mtgbn.simulate import simulate_tasks


def main() -> None:
    tasks = simulate_tasks(n_tasks=12, n_variables=8, n_rows=80, random_state=1).tasks
    here = MTGBN(random_state=1).fit(tasks)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        parallel_config("dask"),
    ):
        there = MTGBN(random_state=1).fit(tasks)
    print("the same graphs:", np.array_equal(here.graphs_, there.graphs_))


if __name__ == "__main__":  # workers import this file
    main()
