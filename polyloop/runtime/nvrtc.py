"""CUDA C to cubin and PTX with NVRTC; needs no GPU and no driver."""
# ruff: noqa: ANN401  # the binding has no types

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any, Final

from polyloop.errors import CompilerError, Diagnostic
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.ccompile import has_own_headers, numbered_source
from polyloop.runtime.resources import Resources, resources

__all__ = ["CompiledCuda", "Resources", "compile_cuda", "nvrtc_available", "resources"]

_BASE_OPTIONS: Final = ("--std=c++17", "--define-macro=POLYLOOP_NVRTC")


@dataclass(frozen=True, slots=True)
class CompiledCuda:
    """Machine code, PTX and the compiler's remarks."""

    cubin: bytes
    ptx: str
    log: str


@functools.lru_cache(maxsize=1)
def _load() -> tuple[Any, str]:
    """Return the NVRTC binding and its version, or raise ImportError or RuntimeError.

    ``cuda.core`` sits on the same binding but asks the driver for its version when it makes
    PTX, which would tie compiling to a machine with a GPU.
    """
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    status, major, minor = nvrtc.nvrtcVersion()
    assert status == 0, f"nvrtcVersion failed: {status}"
    return nvrtc, f"nvrtc {major}.{minor}"


def _nvrtc() -> tuple[Any, str]:
    try:
        return _load()
    except (ImportError, RuntimeError) as err:  # the binding raises RuntimeError if the library is absent
        raise CompilerError("compile", None, [Diagnostic(
            "no-nvrtc", "NVRTC, the CUDA compiler library, is not installed",
            (f"{err.__class__.__name__}: {err}",), ('pip install "polyloop[cuda]"',))]) from None


def nvrtc_available() -> tuple[bool, str]:
    """Return whether CUDA C can be compiled here, and if not, why."""
    try:
        return True, _nvrtc()[1]
    except CompilerError as err:
        return False, f"{err.found[0].message} ({err.found[0].notes[0]})"


def compile_cuda(source: str, arch: str = "sm_90", options: tuple[str, ...] = ()) -> CompiledCuda:
    """Compile CUDA C for one architecture, through the disk cache if it takes no text from files of the user's.

    Parameters
    ----------
    arch
        ``"sm_80"``, ``"sm_90"``, ...
    options
        More NVRTC options, such as ``"--fmad=false"``.

    Raises
    ------
    CompilerError
        ``no-nvrtc``, ``nvrtc-failed`` (with the log and the numbered source), ``unsafe-cache-dir``.
    """
    nvrtc, version = _nvrtc()
    flags = (f"--gpu-architecture={arch}", *_BASE_OPTIONS, *options)
    key = CacheKey("cuda", source, version, flags)
    cache = None if has_own_headers(source) else open_cache()
    files = cache.read(key) if cache is not None else None
    if files is not None and files.keys() >= {"kernel.cubin", "kernel.ptx", "log.txt"}:
        return CompiledCuda(files["kernel.cubin"], files["kernel.ptx"].decode(), files["log.txt"].decode())
    result = _compile(nvrtc, source, flags)
    if cache is not None:
        cache.put(key, {"kernel.cubin": result.cubin, "kernel.ptx": result.ptx.encode(),
                        "log.txt": result.log.encode()})
    return result


def _compile(nvrtc: Any, source: str, flags: tuple[str, ...]) -> CompiledCuda:
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, None, None)
    assert status == 0, f"nvrtcCreateProgram failed: {status}"
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log_text = log.rstrip(b"\0").decode(errors="replace").strip()
        if status != 0:
            raise CompilerError("compile", None, [Diagnostic(
                "nvrtc-failed", "NVRTC refused the generated source",
                (f"status: {status.name}, options: {' '.join(flags)}", f"log:\n{log_text}",
                 f"source:\n{numbered_source(source, log_text)}"),
                ("this is a fault of the code generator unless the kernel holds C text of yours",))])
        cubin = _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        return CompiledCuda(cubin, ptx.rstrip(b"\0").decode(), log_text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetch(size_of: Any, read: Any, program: Any) -> bytes:
    status, size = size_of(program)
    assert status == 0, f"NVRTC gave no size: {status}"
    if size <= 1:  # nothing but the closing NUL; bytes of length one are shared by the interpreter
        return b""
    data: bytes = b" " * int(size)  # the binding writes into it
    (status,) = read(program, data)
    assert status == 0, f"NVRTC gave no data: {status}"
    return data
