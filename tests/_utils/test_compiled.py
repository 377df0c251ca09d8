"""A cache that fails costs time, not the result; kernels are compiled once, and the log says so."""

import os
import shutil
import subprocess
import sys

import numba
import numpy as np
from numba import njit
from numba.core.caching import FunctionCache

from mtgbn._utils import compiled

CODE = """
import logging
logging.basicConfig(format="%(message)s")
import numpy as np
from mtgbn.model.log_determinants import invert_row
factor = np.full((3, 64), 0.5)
invert_row(factor, 1, 64)
print(factor[1, 0])
"""


def run(cache):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["-0.5"]
    return done.stderr


def test_damaged_files(tmp_path):
    assert run(tmp_path) == ""
    files = list(tmp_path.rglob("*.nb?"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:20])
    messages = run(tmp_path)
    assert messages.count("cannot be kept") == 1
    assert "NUMBA_CACHE_DIR" in messages


def test_a_full_disk(monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiled._ForgivingCache, "said", set())
    monkeypatch.setattr(FunctionCache, "save_overload", full)

    @compiled.kernel
    def double(x):
        return 2 * x

    assert (double(3), double(1.5)) == (6, 3.0)  # two signatures, two attempts to save
    assert [record.message.count("No space left") for record in caplog.records] == [1]


def test_no_place_for_a_cache(monkeypatch):
    def without_cache(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(compiled, "njit", without_cache)

    @compiled.kernel(error_model="numpy")
    def reciprocal(x):
        return 1.0 / x

    assert reciprocal(0.0) == np.inf


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_changes(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(compiled.__file__, package)
    inner, outer = package / "inner.py", package / "outer.py"
    begin = "from package.compiled import kernel\n"
    text = begin + "@kernel\ndef inner(x):\n    return {}\n"
    inner.write_text(text.format("x + 1"))
    outer.write_text(
        begin
        + "from package.inner import inner\n"
        + "@kernel\ndef outer(x):\n    return inner(x)\nprint(outer(1))\n"
    )

    def value():
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                "-c",
                "from package.outer import outer; print(sum(outer.stats.cache_hits.values()))",
            ],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        return done.stdout.split()

    assert value() == ["2", "0"]
    assert value() == ["2", "1"]  # from the cache
    inner.write_text(text.format("x + 10"))
    assert value() == ["11", "0"]


def test_constants_of_the_type_int64_make_no_version_of_their_own():
    @compiled.kernel
    def successor(x):
        return x + 1

    @compiled.kernel
    def both(x):
        return successor(compiled.ZERO) + successor(compiled.NONE) + successor(x)

    assert both(3) == 1 + 0 + 4
    assert len(successor.signatures) == 1


def test_the_log_says_once_that_kernels_are_compiled(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # else a second run finds a cache
    monkeypatch.setattr(compiled._ForgivingCache, "said", set())

    @compiled.kernel
    def double(x):
        return 2 * x

    with caplog.at_level("INFO", logger="mtgbn"):
        assert (double(3), double(1.5), double(1j)) == (6, 3.0, 2j)
    assert ["once per installation" in record.message for record in caplog.records] == [True]


def test_whether_a_kernel_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def new_kernel():
        @compiled.kernel
        def successor(x):
            return x + 1

        return successor

    first = new_kernel()
    assert not compiled.is_compiled(first)
    assert first(1) == 2
    assert compiled.is_compiled(first)
    assert compiled.is_compiled(new_kernel())  # by the cache on disk
    assert compiled.is_compiled(first.py_func)  # as with NUMBA_DISABLE_JIT
