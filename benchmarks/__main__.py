"""Run every benchmark and print its table in Markdown."""

import importlib.metadata
import platform

from benchmarks import (
    adaptive,
    autocorrelated,
    calibration,
    cost,
    gradient,
    growth,
    joint_peers,
    learners,
    missing,
    one_patient,
    peers,
    samplers,
    scale,
    two_groups,
)


def processor() -> str:
    """What the machine calls its processor, where it says so."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    packages = (
        *("numpy", "scipy", "numba", "jax", "nutpie", "arviz-stats"),
        *("causal-learn", "ges", "pgmpy", "lingam", "gglasso", "nilearn"),
    )
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"{processor()}; Python {platform.python_version()}, {versions}\n")
    for title, module in (
        ("Value and gradient, mtgbn against JAX", gradient),
        ("Growth of the cost", growth),
        ("Effective samples per second", samplers),
        ("Graphs of single tasks, against other programs", peers),
        ("Graphs of related tasks", learners),
        ("Graphs of related tasks, against other programs", joint_peers),
        ("From alike to unrelated tasks", adaptive),
        ("Missing values", missing),
        ("Cost of a fit, and how chains mix", cost),
        ("Calibration of the joint sampler", calibration),
        ("Two groups of subjects", two_groups),
        ("One patient against controls", one_patient),
        ("False edges of autocorrelated series", autocorrelated),
        ("Studies of usual size", scale),
    ):
        print(f"## {title}\n\n{module.main()}\n", flush=True)


if __name__ == "__main__":
    main()
