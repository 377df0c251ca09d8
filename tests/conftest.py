"""Hypothesis draws the same examples in every run, and is not hurried by a busy machine.

Each worker of pytest has one BLAS thread: with more, the workers wait for each other's threads.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy is imported

from hypothesis import settings  # noqa: E402

settings.register_profile("mtgbn", derandomize=True, deadline=None)
settings.load_profile("mtgbn")
