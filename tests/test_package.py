"""What importing costs, what is exported, and that nothing is compiled twice."""

import json
import os
import subprocess
import sys

import pytest

import mtgbn

EXTRAS = {
    "pandas",
    "networkx",
    "pydot",
    "arviz",
    "arviz_stats",
    "xarray",
    "matplotlib",
    "dask",
    "sklearn",
    "jinja2",
}
HEAVY = EXTRAS | {"numba", "scipy", "rich", "joblib"}


def run_python(code, **environment):
    """Run code in a fresh interpreter and return what it printed as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def loaded_after(code):
    end = "import json, sys; print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    return set(run_python(f"{code}\n{end}"))


def test_import_is_light():
    loaded = loaded_after("import mtgbn")
    assert "mtgbn" in loaded
    assert loaded & HEAVY == set()


def test_help_is_light():
    code = """
from click.testing import CliRunner
from mtgbn.cli import cli
commands = [["demo"], ["fit"], ["reproduce"], []]
for arguments in (["--version"], *([*command, "--help"] for command in commands)):
    assert CliRunner().invoke(cli, arguments).exit_code == 0
"""
    assert loaded_after(code) & HEAVY == set()


# Estimators derive from scikit-learn's, which loads pandas where that is installed.
OF_ESTIMATORS = {"sklearn", "pandas"}
WITHOUT_ESTIMATORS = ("model", "chain", "simulate", "tasks", "graphs", "search", "plot")
WITH_ESTIMATORS = (
    *("learn", "paper", "results", "experiments", "experiments.figures", "report"),
    *("fmri.density", "fmri.granger", "fmri.regression_dcm"),
)


@pytest.mark.parametrize(
    ("names", "permitted"), [(WITHOUT_ESTIMATORS, set()), (WITH_ESTIMATORS, OF_ESTIMATORS)]
)
def test_subpackages_load_no_extras(names, permitted):
    loaded = loaded_after("\n".join(f"import mtgbn.{name}" for name in names))
    assert loaded & (EXTRAS | {"rich", "click"}) <= permitted


def test_the_check_of_loaded_modules_can_fail():
    assert loaded_after("import mtgbn.model.densities") & HEAVY == {"numba", "scipy"}


def test_every_exported_name_works():
    assert set(mtgbn.__all__) == set(dir(mtgbn))
    for name in mtgbn.__all__:
        assert getattr(mtgbn, name) is not None
    assert mtgbn.Tasks is mtgbn.tasks.Tasks
    code = """
import json, mtgbn
names = [getattr(mtgbn, name).__class__.__name__ for name in mtgbn.__all__]
print(json.dumps(names))
"""
    assert "module" in run_python(code)


def test_every_subpackage_exports_what_it_says():
    for name in mtgbn.__all__:
        module = getattr(mtgbn, name)
        for exported in getattr(module, "__all__", []):
            assert hasattr(module, exported), f"{name}.{exported}"


# At most sixty names are public, each with an example.


@pytest.mark.parametrize("module", ["learn", "paper", "errors"])
def test_every_public_name_has_an_example(module):
    module = getattr(mtgbn, module)
    for name in module.__all__:
        public = getattr(module, name)
        if public.__module__.startswith("mtgbn"):  # not what scikit-learn documents
            assert "\n    Examples\n    --------\n    >>> " in public.__doc__, name


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="'mtgbn' has no attribute 'sampler'"):
        _ = mtgbn.sampler


KERNELS = """
import importlib, json, pkgutil, warnings
import numpy as np
import mtgbn
from numba.core.dispatcher import Dispatcher
from mtgbn.model.densities import log_marginal_likelihood
from mtgbn.paper import PaperMTGBN, sample_sigma_h
from mtgbn.paper.posterior import log_posterior
from mtgbn.paper.structure_priors import STRUCTURE_PRIORS
from mtgbn.simulate import simulate_tasks

def run(p, m):
    s = simulate_tasks(m, p, 30, random_state=1)
    arguments = (s.tasks, s.adjacencies, s.nu0)
    for prior in STRUCTURE_PRIORS:
        log_posterior(s.sigma_h, s.adjacencies, s.tasks.scatters, s.tasks.ns, s.nu0, prior)
        sample_sigma_h(*arguments, structure_prior=prior, n_draws=3, n_warmup=20)
    sample_sigma_h(*arguments, structure_prior="restricted", sampler="gibbs", n_draws=3)
    sample_sigma_h(*arguments, mass_matrix=100 * np.eye(p * (p + 1) // 2), n_draws=3, n_warmup=20)
    sample_sigma_h(*arguments, step_size=1, n_steps=2, whiten=False, n_draws=3, n_warmup=0)
    log_marginal_likelihood(s.tasks.scatters[0], 29, s.adjacencies[0], s.sigma_h, s.nu0)
    gaps = [x.copy() for x in s.arrays]
    gaps[0][3, 1] = np.nan
    quick = {"n_draws": 8, "n_rounds": 20, "max_iter": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for settings in (
            {},
            {"inference": "posterior"},
            {"nu0": p + 5, "edge_prior": (0.2, 3)},
            {"edge_prior": np.full((p, p), 0.2)},
            {"edge_prior": "density", "min_strength": 0.2},
            {"knowledge": {"max_parents": 1}},
        ):
            mtgbn.MTGBN(**quick, **settings).fit(s.tasks)
        mtgbn.MTGBN(**quick, missing="em").fit(gaps)
        for prior in STRUCTURE_PRIORS[1:]:
            quick = {"n_draws": 8, "max_iter": 2, "random_state": 0}
            PaperMTGBN(structure_prior=prior, **quick).fit(s.tasks)

def kernels():
    for info in pkgutil.walk_packages(mtgbn.__path__, "mtgbn."):
        if info.name.split(".")[1] not in ("model", "chain", "search", "learn", "paper"):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.__module__ == info.name:
                yield f"{info.name}.{name}", value
"""

STATISTICS = """
def total(counter):
    return sum(counter.values())
print(json.dumps({
    name: [len(k.signatures), total(k.stats.cache_hits), total(k.stats.cache_misses)]
    for name, k in kernels()
}))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    code = KERNELS + "run(4, 3)\n" + STATISTICS
    first = run_python(code, NUMBA_CACHE_DIR=str(tmp_path))
    second = run_python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert sum(counts[2] for counts in first.values()) > 0
    assert sum(counts[1] for counts in second.values()) > 0
    assert {name: counts for name, counts in second.items() if counts[2]} == {}


def test_no_kernel_is_compiled_for_other_sizes_or_settings():
    """Sizes, priors, samplers and masses are all values to the kernels; one signature serves all."""
    count = "numbers = {name: len(k.signatures) for name, k in kernels()}\n"
    code = f"run(4, 3)\n{count}first = numbers\nrun(2, 1)\nrun(6, 2)\n{count}"
    first, last = run_python(KERNELS + code + "print(json.dumps([first, numbers]))")
    assert first == last
    # These are the ones that take longest, and Python calls them.
    assert first["mtgbn.chain.kernel.run_rounds"] == 1
    assert first["mtgbn.chain.likelihoods.log_likelihoods"] == 1
