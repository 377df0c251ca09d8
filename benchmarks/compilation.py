"""Time of the first fit after an installation, which compiles the kernels, and of a later fit.

Each pair of rows uses fresh processes with their own cache of kernels, which is empty at first. The
fit has three tasks with ten variables. Two processes compile the kernels of MTGBN, so its CPU
seconds, the sum of both processes, exceed the waiting time; with one processor they equal the
waiting time.
"""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.problems import table

CODE = """
import json, os, sys, time
start = time.perf_counter()
import warnings; warnings.simplefilter("ignore")
from benchmarks.problems import shared_dag_tasks
import mtgbn
tasks = mtgbn.Tasks.from_arrays(shared_dag_tasks(3, 10, 250, 15)[0])
estimator = getattr(mtgbn, sys.argv[1])(random_state=0, n_jobs=1)
marks = [time.perf_counter() - start]
for _ in range(2):
    start = time.perf_counter()
    estimator.fit(tasks)
    marks.append(time.perf_counter() - start)
print(json.dumps([*marks, sum(os.times()[:4])]))
"""


def run(kind: str, cache: str) -> list[str]:
    """Seconds of the import, of the first and the second fit, and CPU seconds of all processes."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    imports, first, second, cpu = json.loads(done.stdout.splitlines()[-1])
    return [f"{imports:.1f}", f"{first:.1f}", f"{second:.2f}", f"{cpu:.1f}"]


def main() -> str:
    rows = []
    for kind in ("SIG", "MTGBN"):
        with tempfile.TemporaryDirectory() as cache:
            for name in ("after the installation", "in a later process"):
                rows.append([f"{kind}, {name}", *run(kind, cache)])
    return table(["", "import, s", "first fit, s", "second fit, s", "CPU in all, s"], rows)


if __name__ == "__main__":
    print(main())
