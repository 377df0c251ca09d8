"""Run benchmarks and write their tables in Markdown, with the machine and the versions.

Without names, it runs the benchmarks of speed: every figure is a ratio to a peer or to the peak of
the processor, measured in the same run (about forty minutes). `accuracy` runs the studies behind
the other claims, which take hours.
"""

import argparse
import importlib.metadata
import inspect
import platform
import sys
from pathlib import Path

from benchmarks import (
    adaptive,
    autocorrelated,
    calibration,
    cluster,
    compilation,
    cost,
    design_power,
    designs,
    directions,
    fits,
    gradient,
    group_differences,
    growth,
    joint_peers,
    learners,
    missing,
    more_tasks,
    one_patient,
    optimum,
    peers,
    posterior_misfit,
    prediction,
    real_like,
    samplers,
    scale,
    two_groups,
)

SPEED = {
    "compilation": ("Compilation", compilation.main),
    "gradient": ("Value and gradient, against JAX and the processor", gradient.main),
    "growth": ("Growth of the cost of value and gradient", growth.main),
    "samplers": ("Effective samples per second", samplers.main),
    "peers": ("Graphs of single tasks, against causal-learn", peers.fastest),
    "fits": ("Whole fits", fits.main),
    "cluster": ("A cluster", cluster.main),
}
ACCURACY = {
    "all-peers": ("Graphs of single tasks, against other programs", peers.main),
    "learners": ("Graphs of related tasks", learners.main),
    "optimum": ("How far from the best graphs a fit ends", optimum.main),
    "joint-peers": ("Graphs of related tasks, against other programs", joint_peers.main),
    "adaptive": ("From similar to unrelated tasks", adaptive.main),
    "more-tasks": ("More tasks, on data that the model does not fit", more_tasks.main),
    "real-like": ("Series that resemble real ones", real_like.main),
    "directions": ("Directions", directions.main),
    "prediction": ("Prediction of rows that were left out", prediction.main),
    "missing": ("Missing values", missing.main),
    "cost": ("Cost of a fit, and how chains mix", cost.main),
    "posterior-misfit": ("Edge probabilities under misfit", posterior_misfit.main),
    "calibration": ("Calibration of the joint sampler", calibration.main),
    "group-differences": ("Who has a connection", group_differences.main),
    "designs": ("Comparisons by a design", designs.main),
    "design-power": ("Comparisons by a design, against other methods", design_power.main),
    "two-groups": ("Two groups of subjects", two_groups.main),
    "one-patient": ("One patient against controls", one_patient.main),
    "autocorrelated": ("False edges of autocorrelated series", autocorrelated.main),
    "scale": ("Studies of usual and of large size", scale.main),
}
PACKAGES = (
    *("numpy", "scipy", "numba", "llvmlite", "jax", "nutpie", "arviz-stats", "dask"),
    *("causal-learn", "ges", "pgmpy", "lingam", "gglasso", "nilearn"),
)


def processor() -> str:
    """Name of the processor, if the system reports it."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="benchmarks")
    parser.add_argument(
        "names",
        nargs="*",
        default=["speed"],
        metavar="NAME",
        help=f"speed, accuracy, or any of {', '.join([*SPEED, *ACCURACY])}",
    )
    parser.add_argument(
        "--output", type=Path, help="a file to write to, in addition to the terminal"
    )
    given = parser.parse_args()
    groups = {"speed": list(SPEED), "accuracy": list(ACCURACY)}
    names = [each for name in given.names for each in groups.get(name, [name])]
    known = SPEED | ACCURACY
    for name in names:
        if name not in known:
            parser.error(f"unknown benchmark {name!r}; choose from {', '.join(known)}")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    parts = [
        "# Speed",
        "Written by `make bench`. Ratios are accurate to ten percent, times to a factor of 1.5.",
        f"{processor()}; Python {platform.python_version()}, {versions}.",
    ]
    for name in names:
        title, run = known[name]
        print(f"{title} ...", file=sys.stderr, flush=True)
        what = inspect.cleandoc(sys.modules[run.__module__].__doc__)
        parts.append(f"## {title}\n\n{what}\n\n{run()}")
        print(f"{parts[-1]}\n", flush=True)
        if given.output is not None:
            given.output.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
