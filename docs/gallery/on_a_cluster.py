"""A cluster: Dask's workers search the tasks, and the result is the same, bit for bit.

Here the cluster runs on this machine; for another cluster, give its address to `Client`. On the
command line: mtgbn fit DATA OUT --scheduler tcp://...
"""

import numpy as np
from dask.distributed import Client, LocalCluster
from joblib import parallel_config

from mtgbn import MTGBN
from mtgbn.simulate import simulate_tasks


def main() -> None:
    tasks = simulate_tasks(n_tasks=12, n_variables=8, n_rows=80, random_state=1).tasks
    local = MTGBN(random_state=1).fit(tasks)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        parallel_config("dask"),
    ):
        distributed = MTGBN(random_state=1).fit(tasks)
    print("the same graphs:", np.array_equal(local.graphs_, distributed.graphs_))


if __name__ == "__main__":  # workers import this file
    main()
