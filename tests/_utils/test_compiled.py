"""A cache that fails costs time, not the result; kernels that others call are parts of them."""

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
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

    monkeypatch.setattr(compiled._ForgivingCache, "warned", False)
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


@pytest.fixture(params=[True, False], ids=["parts", "no parts"])
def uses_parts(request, monkeypatch):
    """As with versions of numba whose insides are known, and as with others."""
    monkeypatch.setattr(compiled, "_uses_parts", request.param)
    return request.param


def test_the_insides_of_this_version_of_numba_are_known():
    """If this fails, see that all else passes with it, and raise the number."""
    assert numba.version_info.short <= compiled._LAST_VERSION


def test_constants_make_no_version_of_their_own(uses_parts):
    @compiled.kernel
    def power(x, exponent):
        return x**exponent

    @compiled.kernel
    def both(x, exponent):
        return power(x, 2) + power(x, 3) + power(x, exponent)

    assert both(2.0, 4) == 4 + 8 + 16
    assert len(power.part.overloads) == 1
    assert len(power.signatures) == (0 if uses_parts else 1)
    assert power(2.0, 5) == 32
    assert len(power.signatures) == 1


class Pair(NamedTuple):
    first: np.ndarray
    second: float


def test_kernels_of_kernels(uses_parts):
    """What is called may call others, take tuples, draw random numbers, make arrays and raise."""

    @compiled.kernel
    def scaled(pair, k):
        if pair.second == 0.0:
            raise ValueError("nothing is left")
        return pair.first[k] * pair.second

    @compiled.kernel(error_model="numpy", fastmath={"contract"})
    def all_scaled(rng, pair):
        result = np.empty(pair.first.size)
        for k in range(result.size):
            result[k] = scaled(pair, k) + rng.standard_normal()
        return result

    @compiled.kernel
    def twice(rng, pair):
        total = all_scaled(rng, pair)
        for value in all_scaled(rng, Pair(pair.first, -pair.second)):
            total[0] += value
        return total

    numbers = np.arange(4.0)
    found = twice(np.random.default_rng(3), Pair(numbers, 0.5))
    rng = np.random.default_rng(3)
    expected = 0.5 * numbers + rng.standard_normal(4)
    expected[0] += (-0.5 * numbers + rng.standard_normal(4)).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(
        all_scaled(np.random.default_rng(3), Pair(numbers, 0.5))[1:], expected[1:], rtol=1e-14
    )
    with pytest.raises(ValueError, match="nothing is left"):
        twice(np.random.default_rng(3), Pair(numbers, 0.0))


def test_whether_a_kernel_is_compiled():
    @compiled.kernel
    def successor(x):
        return x + 1

    assert not compiled.is_compiled(successor)
    assert successor(1) == 2
    assert compiled.is_compiled(successor)
    assert compiled.is_compiled(successor.py_func)  # as with NUMBA_DISABLE_JIT
