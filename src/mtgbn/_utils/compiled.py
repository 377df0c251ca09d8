"""How kernels are compiled: with numba, released from the GIL, and kept on disk where that is possible.

A cache that cannot be written (a full disk, a read-only installation) or read (a damaged file) must
not stop a computation: the kernel is then compiled for this process alone, and the log says so.

Numba compiles a kernel anew when its own file has changed, not when that of a kernel that it calls has.
In an edited checkout that would run old code; here all kernels depend on all files that have any.

Compilation takes long enough to be noticed, so some things that numba does are left out: another version
of a kernel for every constant with which another kernel calls it, entry points for C callbacks, and
machine code of a kernel for the sake of those that call it. What kernels call is translated to LLVM's
language and becomes a part of them; only what Python calls is optimised, once, with all its parts.
"""

import logging
from functools import cache
from pathlib import Path

import numba
from numba import njit, types

__all__ = ["is_compiled", "kernel"]

_logger = logging.getLogger("mtgbn")


class _ForgivingCache:
    """A numba cache whose failures cost time, not the result."""

    warned = False

    def __init__(self, cache):
        self._cache = cache

    def __getattr__(self, name):
        return getattr(self._cache, name)

    def load_overload(self, signature, target_context):
        try:
            return self._cache.load_overload(signature, target_context)
        except Exception as error:  # whatever a damaged file makes of itself
            self._warn(error)
            return None

    def save_overload(self, signature, data):
        try:
            self._cache.save_overload(signature, data)
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not _ForgivingCache.warned:  # once is enough, there are dozens of kernels
            _ForgivingCache.warned = True
            _logger.warning(
                "compiled kernels cannot be kept in %s (%s); every run will compile them anew. Delete "
                "damaged files there, make room, or set NUMBA_CACHE_DIR",
                self._cache.cache_path,
                error,
            )


@cache
def _stamp_of_all() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file with kernels."""
    folder = Path(__file__).parents[1]
    found = []
    for file in sorted(folder.rglob("*.py")):
        if b"import kernel" in file.read_bytes():
            about = file.stat()
            found.append((str(file.relative_to(folder)), about.st_mtime_ns, about.st_size))
    return tuple(found)


def _make_part_compiler():
    """A compiler that translates to LLVM's language and no further, made of numba's insides."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.typed_passes import NativeLowering

    class PartLibrary(JITCodeLibrary):
        """Code that others are linked with."""

        def _optimize_final_module(self):
            pass

        def _finalize_final_module(self):
            self._finalize_dynamic_globals()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(NativeLowering):
        _name = "mtgbn_part_lowering"

        def run_pass(self, state):
            codegen = state.targetctx.codegen()
            state.library = PartLibrary(codegen, state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            name = object()  # by which callers find it
            state.targetctx.insert_user_function(name, state.cr.fndesc, [state.library])
            state.cr = state.cr._replace(cfunc=name)
            return True

    class PartCompiler(CompilerBase):
        def define_pipelines(self):
            usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes = PassManager("mtgbn_part")
            for each, *description in usual.passes:
                passes.add_pass(PartLowering if each is NativeLowering else each, *description)
            passes.finalize()
            return [passes]

    return PartCompiler


# Versions of numba whose insides are as expected; with others, all kernels get machine code.
_FIRST_VERSION, _LAST_VERSION = (0, 61), (0, 68)
_uses_parts = _FIRST_VERSION <= numba.version_info.short <= _LAST_VERSION
_PartCompiler = _make_part_compiler() if _uses_parts else None


def _part_of_others(function, options):
    """A kernel as others call it."""
    part = njit(no_cpython_wrapper=True, pipeline_class=_PartCompiler, **options)(function)

    def add_overload(compiled):
        part.overloads[tuple(compiled.signature.args)] = compiled

    part.add_overload = add_overload  # numba's own would also let Python call it
    return part


def _without_literals(get_call_template):
    """The same for calls of a kernel with constants as for those with variables."""

    def general(args, kws):
        return get_call_template(
            tuple(map(types.unliteral, args)),
            {name: types.unliteral(each) for name, each in kws.items()},
        )

    return general


def kernel(function=None, **options):
    """Compile a function without the GIL and with a cache that may fail; options are numba's.

    What is returned is for Python to call; its ``part`` is what other kernels call.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    is_kept = True
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError as error:  # no place for a cache at all
        _logger.info("compiled kernels are not kept: %s", error)
        compiled, is_kept = njit(**options)(function), False
    if compiled is function:  # NUMBA_DISABLE_JIT
        return function
    compiled.part = _part_of_others(function, options) if _uses_parts else compiled
    compiled.get_overload = compiled.part.get_overload
    compiled.get_call_template = _without_literals(compiled.part.get_call_template)
    if is_kept:
        compiled._cache._cache_file._source_stamp = _stamp_of_all()
        compiled._cache = _ForgivingCache(compiled._cache)
    return compiled


def is_compiled(kernel) -> bool:
    """Whether Python can call a kernel at once, or will be able to only after compiling it itself."""
    cache = getattr(kernel, "_cache", None)
    if not isinstance(cache, _ForgivingCache) or kernel.signatures:
        return True
    try:
        return bool(cache._cache_file._load_index())
    except Exception:  # whatever a damaged file makes of itself
        return True
