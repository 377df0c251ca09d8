"""How long the first fit after an installation takes, when kernels are compiled, and the second one.

Fresh processes with a cache of kernels of their own, which is empty at first. A fit is that of three
tasks with ten variables; what it takes when everything is in memory is subtracted.
"""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.problems import table

CODE = """
import json, time
start = time.perf_counter()
import warnings; warnings.simplefilter("ignore")
from benchmarks.problems import shared_dag_tasks
from mtgbn import MTGBN, SIG, Tasks
from arviz_stats.base import array_stats
tasks = Tasks.from_arrays(shared_dag_tasks(3, 10, 250, 15)[0])
marks = [time.perf_counter() - start]
for kind in (SIG, MTGBN, SIG, MTGBN):
    start = time.perf_counter()
    kind(random_state=0).fit(tasks)
    marks.append(time.perf_counter() - start)
print(json.dumps(marks))
"""


def run(cache: str) -> list[float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> str:
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first process", "second process"):
            imports, sig, mtgbn, sig_again, mtgbn_again = run(cache)
            extra = sig - sig_again + mtgbn - mtgbn_again
            rows.append([name, f"{imports:.1f}", f"{sig:.1f}", f"{mtgbn:.1f}", f"{extra:.1f}"])
    header = ["", "import, s", "first SIG, s", "first MTGBN, s", "kernels, s"]
    return table(header, rows)


if __name__ == "__main__":
    print(main())
